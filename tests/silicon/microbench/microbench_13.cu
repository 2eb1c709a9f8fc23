// When shared memory loses a pass to lines of L1: by how many lines L1 holds already, and by rate.
// Build: nvcc -O3 -std=c++17 -arch=sm_90a -o microbench_13 microbench_13.cu. Each launch is a row of the profiler.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#define CK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%d %s\n", __LINE__, cudaGetErrorString(e)); exit(1); } } while (0)
__device__ __forceinline__ uint32_t lds(uint32_t at) { uint32_t v; asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(v) : "r"(at) : "memory"); return v; }
__device__ __forceinline__ void sts(uint32_t at, uint32_t v) { asm volatile("st.volatile.shared.u32 [%0], %1;" ::"r"(at), "r"(v) : "memory"); }
__device__ __forceinline__ uint32_t ldg(const char* p) { uint32_t v; asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
__device__ __forceinline__ void stg(char* p, uint32_t v) { asm volatile("st.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }
// Four warps read (S 0), write (1), or read in 16 passes (2) shared memory, GAP cycles after the one before, as long as four
// others load (T 0) or store (1) lines, of which `before` went through L1 already.
template <int S, int T, int GAP> __global__ void rate(char* data, int before, int lines, uint32_t* sink) {
  extern __shared__ uint32_t sm[];
  volatile __shared__ int left;
  uint32_t base = (uint32_t)__cvta_generic_to_shared(sm);
  int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
  uint32_t sum = 0;
  if (threadIdx.x == 0) left = 4;
  for (int i = warp; i < before; i += 8) sum += ldg(data + i * 128 + lane * 4);
  __syncthreads();
  if (warp < 4) {
    float f = lane;
    uint32_t at = base + 1024 + lane * (S == 2 ? 64 : 4) + warp * 2048;
    int go = 1;
    while (go) {
#pragma unroll
      for (int k = 0; k < 32; k++) {
        if (S == 1) sts(at, __float_as_uint(f)); else f += __uint_as_float(lds(at));
#pragma unroll
        for (int j = 0; j < GAP / 4; j++) asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(f));
      }
      go = left;
    }
    sum += __float_as_uint(f);
  } else {
    for (int i = before + warp - 4; i < before + lines; i += 32) {
#pragma unroll
      for (int k = 0; k < 8; k++) { char* p = data + (size_t)(i + 4 * k) * 128 + lane * 4; if (T == 0) sum += ldg(p); else stg(p, i); }
      if (sum == 0x12345678) sink[1] = i;
    }
    if (lane == 0) atomicSub((int*)&left, 1);
  }
  if (sum == 0x12345678) sink[0] = sum;
}
char* DATA; uint32_t* SINK;
int row = 0;
template <typename F> void carve(F f, int kib) { CK(cudaFuncSetAttribute(f, cudaFuncAttributePreferredSharedMemoryCarveout, kib * 100 / 228)); }
template <int S, int T, int GAP> void go(int kib, int before, int lines) {
  auto f = rate<S, T, GAP>;
  carve(f, kib);
  f<<<132, 256, 16384>>>(DATA, before, lines, SINK);
  CK(cudaGetLastError());
  fprintf(stderr, "%d,rate,shared=%d,traffic=%d,gap=%d,kib=%d,before=%d,lines=%d\n", row++, S, T, GAP, kib, before, lines);
}
int main() {
  CK(cudaMalloc(&DATA, 64 << 20)); CK(cudaMalloc(&SINK, 4096)); CK(cudaMemset(DATA, 0, 64 << 20));
  // how full L1 must be
  for (int b : {0, 256, 512, 768, 1024, 1280, 1536, 1792, 2048, 4096}) { go<1, 0, 0>(32, b, 256); }
  for (int b : {512, 1024, 1280, 1536, 2048, 4096}) { go<1, 0, 0>(64, b, 256); go<1, 0, 0>(100, b, 256); go<1, 0, 0>(132, b, 256); go<0, 1, 0>(32, b, 256); }
  // rates
  go<1, 0, 0>(32, 4096, 2048); go<1, 0, 4>(32, 4096, 2048); go<1, 0, 8>(32, 4096, 2048); go<1, 0, 16>(32, 4096, 2048); go<1, 0, 32>(32, 4096, 2048);
  go<0, 1, 0>(32, 4096, 2048); go<0, 1, 4>(32, 4096, 2048); go<0, 1, 16>(32, 4096, 2048); go<0, 1, 32>(32, 4096, 2048); go<2, 1, 0>(32, 4096, 2048); go<2, 1, 32>(32, 4096, 2048);
  go<0, 0, 0>(32, 4096, 2048); go<1, 1, 0>(32, 4096, 2048);
  CK(cudaDeviceSynchronize());
}
