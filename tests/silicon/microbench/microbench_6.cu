// What a profiler's counters teach of L1 and L2 beyond cycles: do stores take L1 lines; atomics of all blocks on the
// same words. Build: nvcc -O3 -arch=sm_90a -o microbench_6 microbench_6.cu. Run under
// ncu --cache-control all: each launch is a row.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#define CK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%s\n", cudaGetErrorString(e)); exit(1); } } while (0)
__device__ __forceinline__ float ld(const float* p) { float v; asm volatile("ld.global.ca.f32 %0,[%1];" : "=f"(v) : "l"(p)); return v; }
// Reads `loads` KiB, stores `stores` KiB elsewhere, reads the first again: sectors that hit are those that L1 kept.
__global__ void store_fill(const float* x, float* y, int loads, int stores, float* sink) {
  float sum = 0;
  for (int i = threadIdx.x; i < loads * 256; i += blockDim.x) sum += ld(x + i);
  __syncthreads();
  for (int i = threadIdx.x; i < stores * 256; i += blockDim.x) y[i] = i;
  __syncthreads();
  for (int i = threadIdx.x; i < loads * 256; i += blockDim.x) sum += ld(x + i);
  if (sum == 12345.678f) sink[threadIdx.x] = sum;
}
// Stores `stores` KiB and reads them back: sectors that hit are those that a store leaves in L1.
__global__ void store_read(float* y, int stores, float* sink) {
  float sum = 0;
  for (int i = threadIdx.x; i < stores * 256; i += blockDim.x) y[i] = i;
  __syncthreads();
  for (int i = threadIdx.x; i < stores * 256; i += blockDim.x) sum += ld(y + i);
  if (sum == 12345.678f) sink[threadIdx.x] = sum;
}
// Each block adds to the same `bins` words, `turns` times.
__global__ void red_all(int* bins, int n, int turns) {
  for (int k = 0; k < turns; k++)
    for (int i = threadIdx.x; i < n; i += blockDim.x) atomicAdd(&bins[i], threadIdx.x);
}
int main() {
  float* buf; CK(cudaMalloc(&buf, 64 << 20)); CK(cudaMemset(buf, 0, 64 << 20));
  float *x = buf, *y = buf + (4 << 20), *sink = buf + (12 << 20);
  for (int s : {0, 32, 64, 96, 128, 160, 192, 256}) store_fill<<<1, 1024>>>(x, y, 96, s, sink);
  for (int s : {32, 128}) store_read<<<1, 1024>>>(y, s, sink);
  for (int g : {132, 264, 528, 1056}) red_all<<<g, 256>>>((int*)y, 256, 1);
  for (int g : {132, 528}) red_all<<<g, 256>>>((int*)y, 256, 8);
  for (int n : {64, 1024}) red_all<<<528, 256>>>((int*)y, n, 1);
  CK(cudaDeviceSynchronize());
}
