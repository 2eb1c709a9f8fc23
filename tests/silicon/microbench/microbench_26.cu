// What setmaxnreg takes: clocks of a block's warpgroups before and after it, from the block's start.
// Build: nvcc -O3 -gencode arch=compute_90a,code=sm_90a -o microbench_26 microbench_26.cu. Prints one JSON object a line.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>
#define CK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%d %s\n", __LINE__, cudaGetErrorString(e)); exit(1); } } while (0)
// 384 threads of 168 registers. Warpgroup 0 gives registers back after it slept `wait` times, 1 and 2 ask for more at once.
// Clocks, from the last warp's passing the barrier: before and after, of each warp.
__global__ void __launch_bounds__(384, 1) setmaxnreg(int wait, int* result) {
  __shared__ int first;
  if (threadIdx.x == 0) first = 0x80000000;
  __syncthreads();
  int start = clock();
  if (threadIdx.x % 32 == 0) atomicMax(&first, start);
  int warp = threadIdx.x / 32, a, b;
  if (warp < 4) {
    for (int i = 0; i < wait; i++) asm volatile("nanosleep.u32 100;");
    a = clock();
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;" ::: "memory");
    b = clock();
  } else {
    a = clock();
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;" ::: "memory");
    b = clock();
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) { result[blockIdx.x * 24 + warp * 2] = a - first; result[blockIdx.x * 24 + warp * 2 + 1] = b - first; }
}
int main() {
  int* d; std::vector<int> h(132 * 24);
  CK(cudaMalloc(&d, 132 * 24 * 4));
  for (int wait : {0, 1, 2, 4}) {
    for (int r = 0; r < 3; r++) { setmaxnreg<<<132, 384>>>(wait, d); CK(cudaDeviceSynchronize()); }
    CK(cudaMemcpy(h.data(), d, 132 * 24 * 4, cudaMemcpyDeviceToHost));
    printf("{\"k\":\"setmaxnreg\",\"wait\":%d,\"before\":[", wait);
    for (int w = 0; w < 12; w++) { double s = 0; for (int b = 0; b < 132; b++) s += h[b * 24 + w * 2]; printf("%s%.0f", w ? "," : "", s / 132); }
    printf("],\"after\":[");
    for (int w = 0; w < 12; w++) { double s = 0; for (int b = 0; b < 132; b++) s += h[b * 24 + w * 2 + 1]; printf("%s%.0f", w ? "," : "", s / 132); }
    printf("]}\n");
  }
  return 0;
}
