// How long after a block's last instruction the next block of its SM starts, by what it stored before.
// Build: nvcc -O3 -gencode arch=compute_90a,code=sm_90a -o microbench_27 microbench_27.cu. Prints one JSON object a line.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>
#define CK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%d %s\n", __LINE__, cudaGetErrorString(e)); exit(1); } } while (0)
typedef unsigned u32;
typedef long long ll;
// Blocks of 8 warps that have an SM each to themselves. A warp stores `stores` times (shape 0: 8 rows of 16 bytes, 1: a
// line), as do the blocks of SMs below `storers` only. Of each block: its SM, when it began, when its last warp ended.
__global__ void turns(int stores, int shape, int storers, char* out, ll* result) {
  extern __shared__ char smem[];
  __shared__ int sm;
  ll t0 = clock64();
  if (threadIdx.x == 0) { asm volatile("mov.u32 %0,%%smid;" : "=r"(sm)); }
  __syncthreads();
  int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  if (sm < storers) {
    char* row = out + ((size_t)blockIdx.x * 8 + warp) * 16 * 4096;
    for (int c = 0; c < stores; c++) {
      int b = shape == 1 ? c * 128 + lane * 4 : (lane >> 2) * 4096 + c * 16 + (lane & 3) * 4;
      *(volatile u32*)(row + b) = c;
    }
  } else {
    while (clock64() < t0 + 64 * stores);
  }
  __syncthreads();
  if (threadIdx.x == 0) { result[blockIdx.x * 3] = sm; result[blockIdx.x * 3 + 1] = t0; result[blockIdx.x * 3 + 2] = clock64(); }
}
int main() {
  char* o; ll* d; const int n = 132 * 6; std::vector<ll> h(n * 3);
  CK(cudaMalloc(&o, (size_t)n * 8 * 16 * 4096)); CK(cudaMalloc(&d, n * 24));
  CK(cudaFuncSetAttribute(turns, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10));
  for (int shape : {0, 1}) for (int storers : {132, 1}) for (int stores : {0, 1, 8, 64, 128}) {
    for (int r = 0; r < 3; r++) { turns<<<n, 256, 200 << 10>>>(stores, shape, storers, o, d); CK(cudaDeviceSynchronize()); }
    CK(cudaMemcpy(h.data(), d, n * 24, cudaMemcpyDeviceToHost));
    std::vector<std::vector<std::pair<ll, ll>>> by(132);
    for (int i = 0; i < n; i++) by[h[i * 3]].push_back({h[i * 3 + 1], h[i * 3 + 2]});
    std::vector<ll> gaps; double lasted = 0; int m = 0;
    for (int s = 0; s < storers; s++) {
      std::sort(by[s].begin(), by[s].end());
      for (size_t i = 0; i < by[s].size(); i++) { lasted += by[s][i].second - by[s][i].first; m++; if (i) gaps.push_back(by[s][i].first - by[s][i - 1].second); }
    }
    std::sort(gaps.begin(), gaps.end());
    double mean = 0; for (ll g : gaps) mean += g; mean /= gaps.size();
    printf("{\"k\":\"turns\",\"shape\":%d,\"storers\":%d,\"stores\":%d,\"lasted\":%.0f,\"gap\":%.0f,\"least\":%lld,\"median\":%lld,\"most\":%lld}\n", shape, storers, stores, lasted / m, mean, gaps[0], gaps[gaps.size() / 2], gaps.back());
  }
  return 0;
}
