// How evenly an SM's blocks and warps get on when they compete for its memory pipeline.
// Build: nvcc -O3 -arch=sm_90a -o microbench_5 microbench_5.cu. Prints one JSON object a line.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>
#define CK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%s\n", cudaGetErrorString(e)); exit(1); } } while (0)
typedef long long ll;
__device__ __forceinline__ unsigned smid() { unsigned s; asm volatile("mov.u32 %0,%%smid;" : "=r"(s)); return s; }
struct Stamp { ll start, end; unsigned sm, warp; };
__device__ __forceinline__ void note(Stamp* out, ll t0) {
  if ((threadIdx.x & 31) == 0) {
    int w = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    out[w].start = t0; out[w].end = clock64(); out[w].sm = smid(); out[w].warp = w;
  }
}
// what: 0 shared loads, 1 shared loads and FFMA, 2 loads that hit in L1, 3 FFMA, 4 shared loads with a barrier each turn,
// 5 loads that hit in L2 with a barrier each turn, 6 tiles as in a matrix product: L2 load, barrier, 16 x (2 LDS + FFMA), barrier
template <int WHAT> __global__ void race(int turns, const float* __restrict__ g, Stamp* out, float* sink) {
  __shared__ float s[2048];
  for (int i = threadIdx.x; i < 2048; i += blockDim.x) s[i] = i;
  __syncthreads();
  ll t0 = clock64();
  float v = threadIdx.x, a = 0;
  int lane = threadIdx.x & 31, at = threadIdx.x;
  for (int i = 0; i < turns; i++) {
    if (WHAT == 0 || WHAT == 1 || WHAT == 4) {
      #pragma unroll
      for (int u = 0; u < 16; u++) { float x = ((volatile float*)s)[(lane + 32 * u) & 2047]; if (WHAT == 1) v = v * 1.0001f + x; else a += x; }
    }
    if (WHAT == 2) {
      #pragma unroll
      for (int u = 0; u < 16; u++) { float x; asm volatile("ld.global.ca.f32 %0,[%1];" : "=f"(x) : "l"(g + lane + 32 * u)); a += x; }
    }
    if (WHAT == 3) {
      #pragma unroll
      for (int u = 0; u < 16; u++) v = v * 1.0001f + 0.5f;
    }
    if (WHAT == 5 || WHAT == 6) {
      float x; at = (at + 8192) & ((1 << 22) - 1);
      asm volatile("ld.global.cg.f32 %0,[%1];" : "=f"(x) : "l"(g + at));
      s[threadIdx.x & 2047] = x;
    }
    if (WHAT >= 4) __syncthreads();
    if (WHAT == 6) {
      #pragma unroll
      for (int u = 0; u < 16; u++) v = ((volatile float*)s)[(threadIdx.x >> 4) * 16 + u] * ((volatile float*)s)[256 + u * 16 + (threadIdx.x & 15)] + v;
      __syncthreads();
    }
  }
  note(out, t0);
  if (v + a == 12345.678f) sink[threadIdx.x] = v + a;
}
template <int WHAT> void run(const char* name, int turns, int blocks_a_sm, int warps, const float* g, Stamp* d, float* sink) {
  int sms = 132, blocks = sms * blocks_a_sm, n = blocks * warps;
  for (int r = 0; r < 2; r++) race<WHAT><<<blocks, 32 * warps>>>(turns, g, d, sink);
  CK(cudaDeviceSynchronize());
  std::vector<Stamp> h(n);
  CK(cudaMemcpy(h.data(), d, n * sizeof(Stamp), cudaMemcpyDeviceToHost));
  // by SM: each block's end (its last warp's), from the SM's first start, in order of launch
  std::vector<std::vector<std::pair<int, ll>>> ends(sms);
  std::vector<ll> first(sms, 1ll << 62);
  for (auto& x : h) first[x.sm] = std::min(first[x.sm], x.start);
  for (int b = 0; b < blocks; b++) {
    ll e = 0;
    for (int w = 0; w < warps; w++) e = std::max(e, h[b * warps + w].end);
    ends[h[b * warps].sm].push_back({b, e - first[h[b * warps].sm]});
  }
  printf("{\"k\":\"race_%s\",\"turns\":%d,\"blocks_a_sm\":%d,\"warps\":%d,\"mean_end_by_order\":[", name, turns, blocks_a_sm, warps);
  for (int k = 0; k < blocks_a_sm; k++) {
    double sum = 0; int c = 0;
    for (auto& e : ends) if ((int)e.size() == blocks_a_sm) { sum += e[k].second; c++; }
    printf("%s%.0f", k ? "," : "", c ? sum / c : -1.0);
  }
  printf("],\"mean_end_sorted\":[");
  for (int k = 0; k < blocks_a_sm; k++) {
    double sum = 0; int c = 0;
    for (auto& e : ends) if ((int)e.size() == blocks_a_sm) { std::vector<ll> t; for (auto& p : e) t.push_back(p.second); std::sort(t.begin(), t.end()); sum += t[k]; c++; }
    printf("%s%.0f", k ? "," : "", c ? sum / c : -1.0);
  }
  printf("],\"sm0_warp_end\":[");
  bool comma = false;
  for (auto& x : h) if (x.sm == 0) { printf("%s%lld", comma ? "," : "", x.end - first[0]); comma = true; }
  printf("]}\n");
}
int main() {
  float *g, *sink; Stamp* d;
  CK(cudaMalloc(&g, (size_t)64 << 20)); CK(cudaMemset(g, 0, (size_t)64 << 20));
  CK(cudaMalloc(&sink, 1 << 16)); CK(cudaMalloc(&d, sizeof(Stamp) * 132 * 64));
  for (auto s : {std::pair<int, int>{8, 8}, {2, 32}, {1, 32}, {4, 4}}) {
    int b = s.first, w = s.second;
    run<0>("shared", 256, b, w, g, d, sink);
    run<1>("shared_ffma", 256, b, w, g, d, sink);
    run<2>("l1", 256, b, w, g, d, sink);
    run<3>("ffma", 256, b, w, g, d, sink);
    run<4>("shared_barrier", 256, b, w, g, d, sink);
    run<5>("l2_barrier", 256, b, w, g, d, sink);
    run<6>("tile", 64, b, w, g, d, sink);
  }
  return 0;
}
