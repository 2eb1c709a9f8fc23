// What tensor cores at work in some SMs change for others: their reads and stores, and the clock of the SMs at work.
// Build: nvcc -O3 -gencode arch=compute_90a,code=sm_90a -I FOLDER -o microbench_31 microbench_31.cu. Prints one JSON object a line.
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
// `use` SMs multiply until `busy` ns, or wait; the others read (mode 1: 128 bytes a warp and instruction of 24 MiB in L2) or
// store (mode 2: 8 rows of 16 bytes, mode 3: whole lines) and count what they got done. Block 0 notes its clock.
__global__ void __launch_bounds__(160, 1) traffic(int use, int multiply, int mode, int busy, char* buffer, ull* done, ull* note, float* sink) {
  extern __shared__ __align__(1024) char raw[]; __shared__ volatile int stop; char* sm = (char*)(((uintptr_t)raw + 1023) & ~(uintptr_t)1023);
  for (int i = threadIdx.x; i < 40960 / 2; i += blockDim.x) { unsigned x = i * 2654435761u; x ^= x >> 15; ((unsigned short*)sm)[i] = 0x3f00 | (x & 0x80ff); }
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  ull t0, t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t0));
  if (threadIdx.x >= 128) {
    if (blockIdx.x == 0 && threadIdx.x == 128) {
      do { asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)); } while (t < t0 + busy / 4);
      note[0] = t; note[1] = clock64();
      do { asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)); } while (t < t0 + busy / 4 * 3);
      note[2] = t; note[3] = clock64();
    }
    return;
  }
  if ((int)blockIdx.x >= use) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32; ull n = 0; unsigned sum = 0;
    unsigned at = (blockIdx.x * 4 + warp) * 977u;
    do {
      for (int r = 0; r < 16; r++, at++) {
        if (mode == 1) {
          const uint4* p = (const uint4*)(buffer + (size_t)(at % 49152u) * 512 + lane * 16); uint4 v;
          asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p)); sum += v.x;
        } else if (mode == 2) {
          char* p = buffer + (size_t)((blockIdx.x * 4 + warp) * 16 + lane / 4) * 8192 + (at % 512u) * 16 + lane % 4 * 4; *(volatile unsigned*)p = at;
        } else if (mode == 3) {
          char* p = buffer + (size_t)((blockIdx.x * 4 + warp) * 16) * 8192 + (at % 1024u) * 128 + lane * 4; *(volatile unsigned*)p = at;
        }
      }
      n += 16;
      asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    } while (t < t0 + busy);
    if (sum == 12345) *sink = 1;
    if (lane == 0) done[blockIdx.x * 4 + warp] = n;
    return;
  }
  float acc[128]; for (int i = 0; i < 128; i++) acc[i] = 0;
  uint64_t a = desc((uint32_t)__cvta_generic_to_shared(sm)), b = desc((uint32_t)__cvta_generic_to_shared(sm) + 8192);
  while (true) {
    if (threadIdx.x == 0) { asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)); stop = t > t0 + busy; }
    asm volatile("bar.sync 1, 128;" ::: "memory"); int over = stop; asm volatile("bar.sync 1, 128;" ::: "memory");
    if (over) break;
    if (multiply) for (int r = 0; r < 4; r++) {
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      for (int k = 0; k < 4; k++) wgmma_n256(acc, a + k * 2, b + k * 2, 1);
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
  }
  float s = 0; for (int i = 0; i < 128; i++) s += acc[i]; if (s == 12345.f) *sink = s;
}
int main() {
  char* o; ull *d, *nt; float* f; CK(cudaMalloc(&o, 64 << 20)); CK(cudaMemset(o, 0, 64 << 20)); CK(cudaMalloc(&d, 132 * 4 * 8)); CK(cudaMalloc(&nt, 64)); CK(cudaMalloc(&f, 4)); CK(cudaFuncSetAttribute(traffic, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10));
  std::vector<ull> h(132 * 4), g(8); const int busy = 200000;
  for (int use : {33, 16, 4}) for (int mode : {1, 2, 3}) for (int multiply : {0, 1, 0, 1}) {
    ull n = 0; double mhz = 0;
    for (int r = 0; r < 3; r++) {
      CK(cudaMemset(d, 0, 132 * 4 * 8)); CK(cudaDeviceSynchronize());
      traffic<<<132, 160, 60 << 10>>>(use, multiply, mode, busy, o, d, nt, f); CK(cudaDeviceSynchronize());
      CK(cudaMemcpy(h.data(), d, 132 * 4 * 8, cudaMemcpyDeviceToHost)); CK(cudaMemcpy(g.data(), nt, 64, cudaMemcpyDeviceToHost));
      if (r) { for (ull x : h) n += x; mhz += (double)(g[3] - g[1]) / (g[2] - g[0]) * 1000; }
    }
    printf("{\"k\":\"traffic\",\"use\":%d,\"multiply\":%d,\"mode\":%d,\"mhz\":%.0f,\"bytes_a_ns\":%.1f}\n", use, multiply, mode, mhz / 2, (double)n / 2 * (mode == 1 ? 512 : mode == 2 ? 128 : 128) / busy);
  }
}
