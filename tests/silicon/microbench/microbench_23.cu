// What the first use of a tensor map costs: one thread of a block copies boxes of 8 rows of 128 bytes, one after another.
//   nvcc -O3 -gencode arch=compute_90a,code=sm_90a microbench_23.cu -o microbench_23 && ./microbench_23 > microbench_23.jsonl
// Copies: 0 to 3 through map a (lines that L2 holds if `lines` is 1, else new ones), 4 and 5 through map b, 6 of 1 KiB
// without a map, 7 through map a again. `state`: other_ran, as the program runs; profiled, under
// `ncu --cache-control all --clock-control none --metrics smsp__inst_executed.sum -k boxes`. Mean cycles over blocks of
// the last of three launches, and the most of the first copy.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cuda.h>
#include <vector>
#define CHECK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)
constexpr int COPIES = 8, ROWS = 1 << 17;

__global__ void boxes(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, const char* flat, unsigned* out, int lines) {
  __shared__ __align__(1024) char box[1024];
  __shared__ __align__(8) uint64_t full;
  uint32_t to = (uint32_t)__cvta_generic_to_shared(box), bar = (uint32_t)__cvta_generic_to_shared(&full);
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(bar));
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  unsigned took[COPIES];
#pragma unroll
  for (int i = 0; i < COPIES; ++i) {
    int row = lines ? 8 * blockIdx.x : 8 * (blockIdx.x + (i + 1) * gridDim.x);
    unsigned from = clock();
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;" :: "r"(bar) : "memory");
    if (i == 6) asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];" :: "r"(to), "l"(flat + (size_t)row * 128), "r"(bar) : "memory");
    else asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" :: "r"(to), "l"(i == 4 || i == 5 ? &b : &a), "r"(0), "r"(row), "r"(bar) : "memory");
    asm volatile("{.reg .pred p;\n AGAIN%=: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n @!p bra AGAIN%=;\n}" :: "r"(bar), "r"(i & 1) : "memory");
    took[i] = clock() - from;
  }
#pragma unroll
  for (int i = 0; i < COPIES; ++i) out[blockIdx.x * COPIES + i] = took[i];
}

__global__ void other(const char* p, char* q) { if (p[threadIdx.x + blockIdx.x * 1024] == 77) *q = 1; }
__global__ void warm(const uint4* p, size_t n, uint4* out) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) { uint4 v = __ldcg(p + i); if (v.x == 12345) *out = v; }
}

typedef CUresult (*Encode)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

int main() {
  void* found = 0;
  cudaDriverEntryPointQueryResult result;
  CHECK(cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &found, cudaEnableDefault, &result));
  char* data;
  unsigned* out;
  CHECK(cudaMalloc(&data, (size_t)ROWS * 128));
  CHECK(cudaMemset(data, 0, (size_t)ROWS * 128));
  CHECK(cudaMalloc(&out, 132 * COPIES * 4));
  CUtensorMap maps[2];
  for (CUtensorMap& map : maps) {
    cuuint64_t sizes[2] = {64, ROWS}, strides[1] = {128};
    cuuint32_t box[2] = {64, 8}, steps[2] = {1, 1};
    if (((Encode)found)(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, data, sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)) exit(1);
  }
  for (int lines : {1, 0})
    for (int blocks : {1, 8, 33, 66, 132}) {
      std::vector<unsigned> took(blocks * COPIES);
      for (int repeat = 0; repeat < 3; ++repeat) {
        warm<<<264, 512>>>((uint4*)data, (size_t)ROWS * 8, (uint4*)out);
        other<<<132, 1024>>>(data, (char*)out);
        CHECK(cudaDeviceSynchronize());
        boxes<<<blocks, 1>>>(maps[0], maps[1], data, out, lines);
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaMemcpy(took.data(), out, took.size() * 4, cudaMemcpyDeviceToHost));
      }
      printf("{\"k\": \"boxes\", \"state\": \"other_ran\", \"lines\": %d, \"blocks\": %d, \"mean\": [", lines, blocks);
      unsigned most = 0;
      for (int i = 0; i < COPIES; ++i) {
        double sum = 0;
        for (int b = 0; b < blocks; ++b) sum += took[b * COPIES + i];
        printf("%s%.0f", i ? ", " : "", sum / blocks);
      }
      for (int b = 0; b < blocks; ++b) most = std::max(most, took[b * COPIES]);
      printf("], \"most\": %u}\n", most);
      fflush(stdout);
    }
}
