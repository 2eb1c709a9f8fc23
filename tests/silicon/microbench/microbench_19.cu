// Tiles of C stored as a product's epilogue does, all SMs at once: by the length of rows, in L2 or not, beside loads by TMA or not.
// Build: nvcc -O3 -gencode arch=compute_90a,code=sm_90a -o microbench_19 microbench_19.cu. Prints one JSON object a line.
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
  if (threadIdx.x == 0) result[blockIdx.x] = last;
}
int main() {
  char *g, *o, *f; int* d; std::vector<int> h(264);
  const size_t most = (size_t)8192 * 8192 * 2;
  CK(cudaMalloc(&g, 32 << 20)); CK(cudaMalloc(&o, most)); CK(cudaMalloc(&f, 256 << 20)); CK(cudaMalloc(&d, 264 * 4));
  CK(cudaMemset(g, 0, 32 << 20));
  CK(cudaFuncSetAttribute(tile_stores, cudaFuncAttributeMaxDynamicSharedMemorySize, 131072));
  for (int n : {2048, 4096, 8192}) for (int tiles : {1, 2, 3}) for (int copies : {0, 1, 3}) for (int cold : {0, 1, 2}) {
    if (n == 2048 && tiles > 1) continue;
    std::vector<double> m, lo, hi, c;
    for (int r = 0; r < 7; r++) {
      if (cold == 1) CK(cudaMemset(f, r, 256 << 20));  // L2 full of dirty lines of others
      if (cold == 2) { CK(cudaMemset(f, r, 256 << 20)); CK(cudaMemset(o, r, (size_t)std::min(n, 2048) * n * 2)); CK(cudaMemset(g, 0, 32 << 20)); }
      if (n == 2048 && r == 0) CK(cudaMemset(g, 0, 32 << 20));
      tile_stores<<<132, 288, 131072>>>(n, n == 2048 ? 1 : tiles, copies, g, o, d); CK(cudaDeviceSynchronize());
      CK(cudaMemcpy(h.data(), d, 264 * 4, cudaMemcpyDeviceToHost));
      int count = n == 2048 ? 128 : 132; double s = 0, k = 0; for (int i = 0; i < count; i++) { s += h[i]; k += h[132 + i]; }
      m.push_back(s / count); c.push_back(k / count); lo.push_back(*std::min_element(h.begin(), h.begin() + count)); hi.push_back(*std::max_element(h.begin(), h.begin() + count)); }
    auto med = [](std::vector<double> v) { std::sort(v.begin(), v.end()); return v[v.size() / 2]; };
    printf("{\"k\":\"tile_stores\",\"n\":%d,\"tiles\":%d,\"copies\":%d,\"cold\":%d,\"mean\":%.0f,\"least\":%.0f,\"most\":%.0f,\"copied\":%.0f}\n", n, tiles, copies, cold, med(m), med(lo), med(hi), copies ? med(c) : 0.); fflush(stdout);
  }
  return 0;
}
