// Loads by TMA beside stores: their size and depth, who loads, who stores, how.
// Build: nvcc -O3 -gencode arch=compute_90a,code=sm_90a -o microbench_16 microbench_16.cu. Prints one JSON object a line.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>
#define CK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%d %s\n", __LINE__, cudaGetErrorString(e)); exit(1); } } while (0)
typedef long long ll;
typedef unsigned u32;
__device__ __forceinline__ void init(u32 m, int n) { asm volatile("mbarrier.init.shared::cta.b64 [%0],%1;" ::"r"(m), "r"(n)); }
__device__ __forceinline__ void expect(u32 m, int b) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _,[%0],%1;" ::"r"(m), "r"(b) : "memory"); }
__device__ __forceinline__ void wait(u32 m, int ph) {
  asm volatile("{.reg .pred p; L: mbarrier.try_wait.parity.shared::cta.b64 p,[%0],%1; @p bra D; bra L; D: }" ::"r"(m), "r"(ph) : "memory");
}
__device__ __forceinline__ void bulk(u32 s, const void* g, int n, u32 m) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0],[%1],%2,[%3];" ::"r"(s), "l"(g), "r"(n), "r"(m) : "memory");
}
__device__ __forceinline__ u32 at(const void* p) { return (u32)__cvta_generic_to_shared(p); }

// For `span` cycles warp 0 of blocks below `loaders` copies `bytes` from L2 with TMA, `deep` copies under way, of lines of
// its own or of those that all read. `warps` warps of blocks from `first` on store: shape 0, 8 rows of 16 bytes an
// instruction, as a product's epilogue does; 1, a line; 2, 4 rows of 32 bytes. Counts copies and stores of each block.
__global__ void copies_beside_stores(int loaders, int first, int bytes, int deep, int own, int shape, int warps, int span, const char* g, char* out, int* result) {
  extern __shared__ __align__(1024) char smem[];
  __shared__ __align__(8) uint64_t bar[8];
  if (threadIdx.x == 0) { for (int i = 0; i < 8; i++) init(at(&bar[i]), 1); asm volatile("fence.mbarrier_init.release.cluster;"); }
  __syncthreads();
  int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  ll t0 = clock64(), end = t0 + span;
  if (warp == 0) {
    if (lane == 0 && blockIdx.x < loaders) {
      const char* p = g + (own ? (size_t)blockIdx.x * 65536 : 0); unsigned off = 0; int n = 0;
      for (int i = 0; i < deep; i++) { expect(at(&bar[i]), bytes); bulk(at(smem) + i * bytes, p + off, bytes, at(&bar[i])); off = (off + bytes) & 65535; }
      for (int i = 0;; i++) {
        int s = i % deep;
        wait(at(&bar[s]), (i / deep) & 1); n++;
        if (clock64() >= end) { for (int k = i + 1; k < i + deep; k++) wait(at(&bar[k % deep]), (k / deep) & 1); break; }
        expect(at(&bar[s]), bytes); bulk(at(smem) + s * bytes, p + off, bytes, at(&bar[s])); off = (off + bytes) & 65535;
      }
      result[blockIdx.x] = n;
    }
  } else if (warp >= 4 && warp < 4 + warps && blockIdx.x >= first) {
    char* row = out + ((size_t)blockIdx.x * 8 + (warp - 4)) * 16 * 4096;
    int n = 0;
    for (int k = 0; clock64() < end; k++)
      for (int c = 0; c < 16; c++) {
        int b = shape == 1 ? ((k * 16 + c) * 128 & 65535) + lane * 4 : shape == 2 ? (lane >> 3) * 4096 + ((k * 16 + c) * 32 & 4095) + (lane & 7) * 4 : (lane >> 2) * 4096 + ((k * 16 + c) * 16 & 4095) + (lane & 3) * 4;
        *(u32*)(row + b) = k; n++;
      }
    if (lane == 0) atomicAdd(&result[132 + blockIdx.x], n);
  }
}
int main() {
  const int span = 60000;
  char *g, *o; int* d; std::vector<int> h(264);
  CK(cudaMalloc(&g, 1 << 24)); CK(cudaMalloc(&o, (size_t)132 * 8 * 16 * 4096)); CK(cudaMalloc(&d, 264 * 4));
  CK(cudaMemset(g, 0, 1 << 24));
  CK(cudaFuncSetAttribute(copies_beside_stores, cudaFuncAttributeMaxDynamicSharedMemorySize, 131072));
  auto go = [&](int loaders, int first, int bytes, int deep, int own, int shape, int warps) {
    for (int r = 0; r < 2; r++) {
      CK(cudaMemset(d, 0, 264 * 4));
      copies_beside_stores<<<132, 384, 131072>>>(loaders, first, bytes, deep, own, shape, warps, span, g, o, d);
      CK(cudaDeviceSynchronize());
    }
    CK(cudaMemcpy(h.data(), d, 264 * 4, cudaMemcpyDeviceToHost));
    double a = 0, b = 0, s = 0; int na = 0, nb = 0; for (int i = 0; i < loaders; i++) if (i < first) { a += h[i]; na++; } else { b += h[i]; nb++; }
    for (int i = 132; i < 264; i++) s += h[i];
    printf("{\"k\":\"copies_beside_stores\",\"loaders\":%d,\"storers\":%d,\"bytes\":%d,\"deep\":%d,\"own\":%d,\"shape\":%d,\"warps\":%d,\"rate_alone\":%.2f,\"rate_storing\":%.2f,\"stores_a_kcycle\":%.2f}\n",
      loaders, 132 - first, bytes, deep, own, shape, warps, na ? a / na * bytes / span : 0., nb ? b / nb * bytes / span : 0., first < 132 ? s * 1000 / span / (132 - first) : 0.); fflush(stdout);
  };
  for (int shape : {0, 1, 2}) for (int warps : {1, 2, 4, 8}) for (int first : {0, 66, 116, 124, 131}) go(0, first, 128, 1, 1, shape, warps);
  for (int own : {1, 0}) for (int loaders : {1, 16, 132}) for (int bytes : {128, 2048, 8192}) for (int deep : {1, 2, 4, 8}) go(loaders, 132, bytes, deep, own, 0, 4);
  for (int own : {1, 0}) for (int first : {0, 33, 66, 100, 116, 131}) for (int bytes : {128, 2048, 8192}) for (int deep : {1, 2, 4, 8}) go(132, first, bytes, deep, own, 0, 4);
  for (int own : {1, 0}) for (int first : {0, 16}) for (int bytes : {128, 8192}) for (int deep : {1, 8}) go(16, first, bytes, deep, own, 0, 4);
  for (int warps : {1, 2, 8}) for (int own : {1, 0}) for (int bytes : {128, 8192}) for (int deep : {1, 8}) go(132, 0, bytes, deep, own, 0, warps);
  for (int shape : {1, 2}) for (int own : {1, 0}) for (int bytes : {128, 8192}) for (int deep : {1, 8}) go(132, 0, bytes, deep, own, shape, 4);
  for (int own : {1, 0}) for (int first : {132, 0}) for (int bytes : {16384, 32768}) for (int deep : {1, 2, 4}) go(132, first, bytes, deep, own, 0, 4);
  for (int own : {1, 0}) for (int deep : {1, 4}) go(132, 0, 32768, deep, own, 0, 8);
  return 0;
}
