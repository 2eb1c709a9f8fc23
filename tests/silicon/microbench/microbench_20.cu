// Which SM gets which block of a grid of fewer blocks than SMs, by its size and its blocks' shared memory.
// Build: nvcc -O3 -gencode arch=compute_90a,code=sm_90a -o microbench_20 microbench_20.cu. Prints one JSON object a line.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>
#define CK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%d %s\n", __LINE__, cudaGetErrorString(e)); exit(1); } } while (0)
// The SM of each block, which stays there for `cycles`, so that no SM gets a second one early.
__global__ void place(int* sm, int cycles) {
  extern __shared__ char smem[];
  long long t0 = clock64();
  if (threadIdx.x == 0) { unsigned id; asm volatile("mov.u32 %0,%%smid;" : "=r"(id)); sm[blockIdx.x] = id; }
  while (clock64() - t0 < cycles);
}
int main() {
  int* d; CK(cudaMalloc(&d, 4 * 4096));
  CK(cudaFuncSetAttribute(place, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10));
  for (int kib : {0, 100, 200}) for (int threads : {32, 256, 1024}) for (int blocks : {132, 1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 56, 64, 66, 72, 80, 88, 96, 104, 112, 120, 124, 126, 128, 130, 131, 133, 140, 160, 176, 192, 208, 224, 240, 256, 260, 289, 300, 400, 500, 512, 576, 768, 1000, 1024}) {
    if (kib != 200 && threads != 256) continue;
    std::vector<int> a(blocks), b(blocks);
    for (int r = 0; r < 3; r++) { place<<<blocks, threads, kib << 10>>>(d, 40000); CK(cudaDeviceSynchronize()); CK(cudaMemcpy(r < 2 ? a.data() : b.data(), d, 4 * blocks, cudaMemcpyDeviceToHost)); }
    printf("{\"k\":\"place\",\"kib\":%d,\"threads\":%d,\"blocks\":%d,\"again\":%s,\"sm\":[", kib, threads, blocks, a == b ? "true" : "false");
    for (int i = 0; i < blocks; i++) printf("%s%d", i ? "," : "", a[i]);
    printf("]}\n");
  }
  return 0;
}
