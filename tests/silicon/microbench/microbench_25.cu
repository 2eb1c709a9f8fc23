// How evenly L2's slices share lines that lie apart: `rows` rows of `lines` lines, `pitch` bytes apart, a word of each
// stored once by one SM. Run under the profiler, a row a launch:
//   ncu --cache-control all --metrics lts__t_sectors_op_write.sum,...max,...min,...avg -k regex:rows_of_lines microbench_25
// Build: nvcc -O3 -gencode arch=compute_90a,code=sm_90a -o microbench_25 microbench_25.cu. Prints what each launch was.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#define CK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%d %s\n", __LINE__, cudaGetErrorString(e)); exit(1); } } while (0)
__global__ void rows_of_lines(char* g, size_t pitch, int rows, int lines) {
  for (int i = threadIdx.x; i < rows * lines; i += blockDim.x) *(volatile int*)(g + i / lines * pitch + i % lines * 128) = i;
}
int main() {
  char* g;
  CK(cudaMalloc(&g, (size_t)4608 << 20));
  auto go = [&](size_t pitch, int rows, int lines) {
    rows_of_lines<<<1, 1024>>>(g, pitch, rows, lines);
    CK(cudaDeviceSynchronize());
    printf("{\"k\":\"rows_of_lines\",\"pitch\":%zu,\"rows\":%d,\"lines\":%d}\n", pitch, rows, lines);
  };
  for (int lines : {1, 4}) for (size_t pitch = 128 * lines; pitch <= 1 << 20; pitch *= 2) go(pitch, 4224 / lines, lines);
  for (size_t pitch : {384, 640, 4224, 12288, 20480, 8320}) go(pitch, 4224, 1);
  for (size_t pitch : {4096, 8192, 16384}) for (int rows : {264, 528, 1056, 2112}) go(pitch, rows, 1);
  return 0;
}
