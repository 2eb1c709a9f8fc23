// How the SMs' clock follows the tensor cores' use: phases of warpgroup products and of waiting, with the time at each 2 us.
// Build: nvcc -O3 -gencode arch=compute_90a,code=sm_90a -I FOLDER -o microbench_30 microbench_30.cu. Prints one JSON object a line.
// FOLDER holds the validation suite's wg.h.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>
#include <cstdint>
#include "wg.h"
#define CK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%d %s\n", __LINE__, cudaGetErrorString(e)); exit(1); } } while (0)
typedef long long ll; typedef unsigned long long ull;
__device__ uint64_t desc(uint32_t a) { return (uint64_t)((a & 0x3FFFF) >> 4) | ((uint64_t)1 << 16) | ((uint64_t)64 << 32) | ((uint64_t)1 << 62); }
// `use` SMs multiply from time 0 to `busy` ns, with `gap` cycles of nothing after each four products; the last warp of
// block 0 notes the clock and the time every 2 us until `end` ns.
__global__ void __launch_bounds__(160, 1) clocks(int use, int busy, int gap, int end, ull* note, float* sink) {
  extern __shared__ __align__(1024) char raw[]; __shared__ volatile int stop; char* sm = (char*)(((uintptr_t)raw + 1023) & ~(uintptr_t)1023);
  for (int i = threadIdx.x; i < 40960 / 2; i += blockDim.x) { unsigned x = i * 2654435761u; x ^= x >> 15; ((unsigned short*)sm)[i] = 0x3f00 | (x & 0x80ff); }
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  ull t0; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t0));
  if (threadIdx.x >= 128) {
    if (blockIdx.x == 0 && threadIdx.x == 128) {
      for (int k = 0;; k++) {
        ull t; ll c; do { asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)); } while (t < t0 + (ull)k * 2000);
        ull u; do { asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(u)); } while (u == t);
        c = clock64(); note[2 * k] = u - t0; note[2 * k + 1] = c;
        if (u - t0 > end) { note[2 * k + 2] = 0; break; }
      }
    }
    return;
  }
  if (blockIdx.x >= use) return;
  float acc[128]; for (int i = 0; i < 128; i++) acc[i] = 0;
  uint64_t a = desc((uint32_t)__cvta_generic_to_shared(sm)), b = desc((uint32_t)__cvta_generic_to_shared(sm) + 8192);
  while (true) {
    if (threadIdx.x == 0) { ull t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)); stop = t > t0 + busy; }
    asm volatile("bar.sync 1, 128;" ::: "memory"); int over = stop; asm volatile("bar.sync 1, 128;" ::: "memory");
    if (over) break;
    for (int r = 0; r < 4; r++) {
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      for (int k = 0; k < 4; k++) wgmma_n256(acc, a + k * 2, b + k * 2, 1);
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    if (gap) { ll c = clock64(); while (clock64() < c + gap); }
  }
  float s = 0; for (int i = 0; i < 128; i++) s += acc[i]; if (s == 12345.f) *sink = s;
}
int main() {
  ull* d; float* f; CK(cudaMalloc(&d, 1 << 16)); CK(cudaMalloc(&f, 4)); CK(cudaFuncSetAttribute(clocks, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10));
  std::vector<ull> h(1 << 13);
  for (int use : {132, 33}) for (int gap : {0, 2000, 6000, 20000}) for (int r = 0; r < 3; r++) {
    CK(cudaMemset(d, 0, 1 << 16)); CK(cudaDeviceSynchronize());
    clocks<<<132, 160, 60 << 10>>>(use, 100000, gap, 200000, d, f); CK(cudaDeviceSynchronize()); CK(cudaMemcpy(h.data(), d, 1 << 16, cudaMemcpyDeviceToHost));
    if (!r) continue;
    printf("{\"k\":\"clocks\",\"use\":%d,\"gap\":%d,\"mhz_each_4_us\":[", use, gap);
    for (int k = 0; h[2 * k + 4]; k += 2) printf("%s%.0f", k ? "," : "", (double)(h[2 * k + 5] - h[2 * k + 1]) / (h[2 * k + 4] - h[2 * k]) * 1000);
    printf("]}\n");
  }
}
