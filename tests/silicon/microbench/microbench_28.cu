// When each SM has stored its tiles of C, all at once, as microbench_19 does: by block and SM, of nine runs.
// Build: nvcc -O3 -gencode arch=compute_90a,code=sm_90a -o microbench_28 microbench_28.cu. Prints one JSON object a line.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>
#define CK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%d %s\n", __LINE__, cudaGetErrorString(e)); exit(1); } } while (0)
typedef long long ll;
typedef unsigned u32;
__device__ __forceinline__ u32 at(const void* p) { return (u32)__cvta_generic_to_shared(p); }

// Each block stores `tiles` tiles of 128 x 256 elements of 2 bytes of a matrix with rows of `n`, one after another: a warp 16
// rows, 8 of 16 bytes an instruction. One thread copies `copies` times 32 KiB to shared memory meanwhile. Cycles from the
// common start to the end of the last store, of each SM.
__global__ void tile_stores(int n, int tiles, int copies, const char* g, char* out, int* result) {
  extern __shared__ __align__(1024) char smem[];
  __shared__ __align__(8) uint64_t bar;
  __shared__ int last;
  if (threadIdx.x == 0) { last = 0; asm volatile("mbarrier.init.shared::cta.b64 [%0],1;" ::"r"(at(&bar))); asm volatile("fence.mbarrier_init.release.cluster;"); }
  unsigned long long now; do { asm volatile("mov.u64 %0,%%globaltimer;" : "=l"(now)); } while ((now & 0x1ffff) > 0x2000);
  do { asm volatile("mov.u64 %0,%%globaltimer;" : "=l"(now)); } while ((now & 0x1ffff) < 0x2000);
  do { asm volatile("mov.u64 %0,%%globaltimer;" : "=l"(now)); } while ((now & 0x1ffff) < 0x10000);
  __syncthreads();
  int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  ll t0 = clock64();
  if (warp < 8) {
    int across = n / 256, down = n / 128;
    for (int i = 0; i < tiles; i++) {
      int t = blockIdx.x + i * 132, w = 16 * across, first = t / w * 16, group = min(down - first, 16);
      int r = (first + t % w % group) * 128, c = t % w / group * 256;
      char* row = out + ((size_t)(r + warp * 16 + (lane >> 2)) * n + c + (lane & 3) * 2) * 2;
#pragma unroll 4
      for (int j = 0; j < 32; j++) { *(volatile u32*)(row + j * 16) = j; *(volatile u32*)(row + j * 16 + (size_t)n * 16) = j; }
    }
    int t = clock64() - t0;
    if (lane == 0) atomicMax(&last, t);
  } else if (threadIdx.x == 256 && copies) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _,[%0],%1;" ::"r"(at(&bar)), "r"(32768 * copies) : "memory");
    for (int i = 0; i < copies; i++)
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0],[%1],%2,[%3];" ::"r"(at(smem) + i * 32768), "l"(g + (size_t)(blockIdx.x * copies + i) * 32768), "r"(32768), "r"(at(&bar)) : "memory");
    asm volatile("{.reg .pred p; L: mbarrier.try_wait.parity.shared::cta.b64 p,[%0],0; @p bra D; bra L; D: }" ::"r"(at(&bar)) : "memory");
    result[132 + blockIdx.x] = clock64() - t0;
  }
  __syncthreads();
  if (threadIdx.x == 0) { unsigned id; asm volatile("mov.u32 %0,%%smid;" : "=r"(id)); result[blockIdx.x] = last; result[132 + blockIdx.x] = id; }
}
int main() {
  char *g, *o; int* d; std::vector<int> h(264);
  const size_t most = (size_t)8192 * 8192 * 2;
  CK(cudaMalloc(&g, 32 << 20)); CK(cudaMalloc(&o, most)); CK(cudaMalloc(&d, 396 * 4));
  CK(cudaMemset(g, 0, 32 << 20));
  CK(cudaFuncSetAttribute(tile_stores, cudaFuncAttributeMaxDynamicSharedMemorySize, 131072));
  for (int n : {2048, 4096, 8192}) for (int tiles : {1, 3}) {
    if (n == 2048 && tiles > 1) continue;
    for (int r = 0; r < 9; r++) {
      tile_stores<<<132, 288, 131072>>>(n, n == 2048 ? 1 : tiles, 0, g, o, d); CK(cudaDeviceSynchronize());
      CK(cudaMemcpy(h.data(), d, 264 * 4, cudaMemcpyDeviceToHost));
      printf("{\"k\":\"tile_ends\",\"n\":%d,\"tiles\":%d,\"run\":%d,\"ends\":[", n, tiles, r);
      for (int i = 0; i < 132; i++) printf("%s%d", i ? "," : "", h[i]);
      printf("],\"sms\":["); for (int i = 0; i < 132; i++) printf("%s%d", i ? "," : "", h[132 + i]);
      printf("]}\n");
    }
  }
  return 0;
}
