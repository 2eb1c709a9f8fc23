// What a load that hits in L1 costs the SM, without address arithmetic between loads.
// Build: nvcc -O3 -arch=sm_90a -o microbench_8 microbench_8.cu. Prints one JSON object a line.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#define CK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%s\n", cudaGetErrorString(e)); exit(1); } } while (0)
typedef long long ll;
// Sixteen loads a turn at constant distances of one base address, each of 32 lanes `stride` words apart (0: one word).
template <int WIDTH> __global__ void hits(int stride, int turns, const float* g, ll* out, float* sink) {
  const float* p = g + (threadIdx.x & 31) * stride;
  float a[16];
  #pragma unroll
  for (int i = 0; i < 16; i++) a[i] = 0;
  ll t0 = 0;
  for (int i = 0; i < turns + 1; i++) {
    if (i == 1) { __syncthreads(); t0 = clock64(); }
    #define L(K) { float x, y, z, w; \
      if (WIDTH == 4) asm volatile("ld.global.ca.f32 %0,[%1+%2];" : "=f"(x) : "l"(p), "n"(K * 1024)); \
      else if (WIDTH == 8) asm volatile("ld.global.ca.v2.f32 {%0,%1},[%2+%3];" : "=f"(x), "=f"(y) : "l"(p), "n"(K * 1024)); \
      else asm volatile("ld.global.ca.v4.f32 {%0,%1,%2,%3},[%4+%5];" : "=f"(x), "=f"(y), "=f"(z), "=f"(w) : "l"(p), "n"(K * 1024)); \
      a[K] += x; }
    L(0) L(1) L(2) L(3) L(4) L(5) L(6) L(7) L(8) L(9) L(10) L(11) L(12) L(13) L(14) L(15)
  }
  __syncthreads();
  if (threadIdx.x == 0) out[0] = clock64() - t0;
  float s = 0;
  #pragma unroll
  for (int i = 0; i < 16; i++) s += a[i];
  if (s == 12345.f) sink[threadIdx.x] = s;
}
int main() {
  ll *d, h; float *g, *sink;
  CK(cudaMalloc(&d, 64)); CK(cudaMalloc(&g, 1 << 20)); CK(cudaMalloc(&sink, 1 << 16)); CK(cudaMemset(g, 0, 1 << 20));
  for (int width : {4, 8, 16}) for (int warps : {4, 8, 16, 32}) for (int stride : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 24, 31, 32, 33, 40, 64}) {
    if (width > 4 && stride % (width / 4)) continue;
    for (int r = 0; r < 2; r++) {
      if (width == 4) hits<4><<<1, 32 * warps>>>(stride, 64, g, d, sink);
      else if (width == 8) hits<8><<<1, 32 * warps>>>(stride, 64, g, d, sink);
      else hits<16><<<1, 32 * warps>>>(stride, 64, g, d, sink);
      CK(cudaGetLastError()); CK(cudaMemcpy(&h, d, 8, cudaMemcpyDeviceToHost));
    }
    printf("{\"k\":\"l1_hits\",\"width\":%d,\"warps\":%d,\"stride\":%d,\"cycles_a_request\":%.3f}\n", width, warps, stride, h / (64.0 * 16 * warps));
  }
  return 0;
}
