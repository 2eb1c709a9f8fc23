// How long single copies by TMA take beside stores: every one's cycles, not a rate.
// Build: nvcc -O3 -gencode arch=compute_90a,code=sm_90a -o microbench_24 microbench_24.cu. Prints one JSON object a line.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
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

// Warp 0 of every block copies `bytes` from L2 with TMA, one copy after another, each `step` bytes further, within 64 KiB
// of its own or of all; its first 60 copies' cycles are kept. `warps` warps of blocks from `first` on store, as in
// microbench_16. `pause` cycles lie between copies.
__global__ void copy_waits(int first, int bytes, int step, int own, int shape, int warps, int span, int pause, const char* g, char* out, int* result) {
  extern __shared__ __align__(1024) char smem[];
  __shared__ __align__(8) uint64_t bar;
  if (threadIdx.x == 0) { init(at(&bar), 1); asm volatile("fence.mbarrier_init.release.cluster;"); }
  __syncthreads();
  int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  ll t0 = clock64(), end = t0 + span;
  if (warp == 0) {
    if (lane == 0) {
      const char* p = g + (own ? (size_t)blockIdx.x * 65536 : 0); unsigned off = 0;
      while (clock64() < t0 + 6000);
      for (int i = 0; i < 60 && clock64() < end; i++) {
        ll s = clock64();
        expect(at(&bar), bytes); bulk(at(smem), p + off, bytes, at(&bar)); off = (off + step) & 65535;
        wait(at(&bar), i & 1);
        ll e = clock64();
        result[blockIdx.x * 60 + i] = (int)(e - s);
        while (clock64() < e + pause);
      }
    }
  } else if (warp >= 4 && warp < 4 + warps && blockIdx.x >= first) {
    char* row = out + ((size_t)blockIdx.x * 8 + (warp - 4)) * 16 * 4096;
    for (int k = 0; clock64() < end; k++)
      for (int c = 0; c < 16; c++) {
        int b = shape == 1 ? ((k * 16 + c) * 128 & 65535) + lane * 4 : shape == 2 ? (lane >> 3) * 4096 + ((k * 16 + c) * 32 & 4095) + (lane & 7) * 4 : (lane >> 2) * 4096 + ((k * 16 + c) * 16 & 4095) + (lane & 3) * 4;
        *(u32*)(row + b) = k;
      }
  }
}
int main() {
  char *g, *o; int* d; std::vector<int> h(132 * 60);
  CK(cudaMalloc(&g, 1 << 24)); CK(cudaMalloc(&o, (size_t)132 * 8 * 16 * 4096)); CK(cudaMalloc(&d, 132 * 60 * 4));
  CK(cudaMemset(g, 0, 1 << 24));
  CK(cudaFuncSetAttribute(copy_waits, cudaFuncAttributeMaxDynamicSharedMemorySize, 131072));
  auto go = [&](int first, int bytes, int step, int own, int shape, int warps, int pause) {
    for (int r = 0; r < 2; r++) {
      CK(cudaMemset(d, 0, 132 * 60 * 4));
      copy_waits<<<132, 384, 131072>>>(first, bytes, step, own, shape, warps, 100000, pause, g, o, d);
      CK(cudaDeviceSynchronize());
    }
    CK(cudaMemcpy(h.data(), d, 132 * 60 * 4, cudaMemcpyDeviceToHost));
    std::vector<int> all; for (int x : h) if (x) all.push_back(x);
    std::sort(all.begin(), all.end());
    double m = 0; for (int x : all) m += x; m /= all.size();
    printf("{\"k\":\"copy_waits\",\"storers\":%d,\"bytes\":%d,\"step\":%d,\"own\":%d,\"shape\":%d,\"warps\":%d,\"pause\":%d,\"n\":%d,\"mean\":%.1f,\"deciles\":[", 132 - first, bytes, step, own, shape, warps, pause, (int)all.size(), m);
    for (int i = 0; i <= 10; i++) printf("%s%d", i ? "," : "", all[std::min(all.size() - 1, all.size() * i / 10)]);
    printf("],\"block_means\":["); 
    for (int b = 0; b < 132; b++) { double s = 0; int n = 0; for (int i = 0; i < 60; i++) if (h[b * 60 + i]) { s += h[b * 60 + i]; n++; } printf("%s%d", b ? "," : "", n ? (int)(s / n) : 0); }
    printf("],\"block_40\":["); for (int i = 0; i < 60; i++) printf("%s%d", i ? "," : "", h[40 * 60 + i]);
    printf("]}\n"); fflush(stdout);
  };
  for (int first : {132, 0}) for (int own : {1, 0}) for (int bytes : {128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768}) go(first, bytes, bytes, own, 0, 4, 0);
  for (int step : {0, 32768}) go(0, 128, step, 1, 0, 4, 0);
  for (int warps : {1, 2, 8}) for (int bytes : {128, 2048, 32768}) go(0, bytes, bytes, 1, 0, warps, 0);
  for (int shape : {1, 2}) for (int bytes : {128, 2048, 32768}) go(0, bytes, bytes, 1, shape, 4, 0);
  for (int bytes : {128, 2048, 32768}) go(0, bytes, bytes, 1, 0, 4, 3000);
  return 0;
}
