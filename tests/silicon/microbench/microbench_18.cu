// Bursts of stores from idle: how long warps take to issue them, by how many, which SMs, what shape.
// Build: nvcc -O3 -gencode arch=compute_90a,code=sm_90a -o microbench_18 microbench_18.cu. Prints one JSON object a line.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <algorithm>
#include <cuda_runtime.h>
#define CK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%d %s\n", __LINE__, cudaGetErrorString(e)); exit(1); } } while (0)
typedef long long ll;
typedef unsigned u32;
// `n` stores of each of `warps` warps from blocks below `storers`, at one time of the global clock; cycles from the first issue
// to the last, of each SM.
__global__ void bursts(int storers, int shape, int warps, int n, char* out, int* result) {
  extern __shared__ char smem[];
  __shared__ int last;
  if (threadIdx.x == 0) last = 0;
  unsigned long long now; do { asm volatile("mov.u64 %0,%%globaltimer;" : "=l"(now)); } while ((now & 0x1ffff) > 0x2000);
  do { asm volatile("mov.u64 %0,%%globaltimer;" : "=l"(now)); } while ((now & 0x1ffff) < 0x2000);  // all begin together
  do { asm volatile("mov.u64 %0,%%globaltimer;" : "=l"(now)); } while ((now & 0x1ffff) < 0x10000);
  __syncthreads();
  int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  ll t0 = clock64();
  if ((int)blockIdx.x < storers && warp < warps) {
    char* row = out + ((size_t)blockIdx.x * 8 + warp) * 16 * 4096;
    for (int k = 0; k < n; k++) {
      int b = shape == 1 ? (k * 128 & 65535) + lane * 4 : shape == 2 ? (lane >> 3) * 4096 + (k * 32 & 4095) + (lane & 7) * 4 : (lane >> 2) * 4096 + (k * 16 & 4095) + (lane & 3) * 4;
      *(volatile u32*)(row + b) = k;
    }
    int t = clock64() - t0;
    if (lane == 0) atomicMax(&last, t);
  }
  __syncthreads();
  if (threadIdx.x == 0) result[blockIdx.x] = last;
}
int main() {
  char* o; int* d; std::vector<int> h(132);
  CK(cudaMalloc(&o, (size_t)132 * 8 * 16 * 4096)); CK(cudaMalloc(&d, 132 * 4));
  CK(cudaMemset(o, 0, (size_t)132 * 8 * 16 * 4096));
  CK(cudaFuncSetAttribute(bursts, cudaFuncAttributeMaxDynamicSharedMemorySize, 131072));
  for (int shape : {0, 1, 2}) for (int warps : {2, 4, 8}) for (int storers : {1, 132}) for (int n : {1, 2, 4, 6, 8, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128, 256}) {
    std::vector<double> m, lo, hi;
    for (int r = 0; r < 7; r++) { bursts<<<132, 256, 131072>>>(storers, shape, warps, n, o, d); CK(cudaDeviceSynchronize()); CK(cudaMemcpy(h.data(), d, 132 * 4, cudaMemcpyDeviceToHost));
      double s = 0; for (int i = 0; i < storers; i++) s += h[i]; m.push_back(s / storers); lo.push_back(*std::min_element(h.begin(), h.begin() + storers)); hi.push_back(*std::max_element(h.begin(), h.begin() + storers)); }
    auto med = [](std::vector<double> v) { std::sort(v.begin(), v.end()); return v[v.size() / 2]; };
    printf("{\"k\":\"bursts\",\"storers\":%d,\"shape\":%d,\"warps\":%d,\"n\":%d,\"mean\":%.0f,\"least\":%.0f,\"most\":%.0f}\n", storers, shape, warps, n, med(m), med(lo), med(hi)); fflush(stdout);
  }
  return 0;
}
