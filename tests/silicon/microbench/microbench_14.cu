// What of a kernel's stores reaches DRAM before it ends: sectors read and written at DRAM as the profiler counts them.
// Build: nvcc -O3 -arch=sm_90a -o microbench_14 microbench_14.cu. Run under ncu, a row a launch, in the order printed.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#define CK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%s\n", cudaGetErrorString(e)); exit(1); } } while (0)
const long MIB = 1 << 20;

// All blocks wait for each other; they are as many as SMs, so all run at once.
__device__ void meet(unsigned* count, unsigned turn) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(count, 1);
    while (*(volatile unsigned*)count < turn * gridDim.x) {}
    __threadfence();
  }
  __syncthreads();
}
__device__ float read_all(const float4* x, long mib, long first, long step) {
  float sum = 0;
  long n = mib * MIB / 16;
  for (long i = first; i < n; i += 4 * step) {
    float4 v[4];
#pragma unroll
    for (int k = 0; k < 4; k++) v[k] = i + k * step < n ? __ldcg(x + i + k * step) : make_float4(0, 0, 0, 0);
#pragma unroll
    for (int k = 0; k < 4; k++) sum += v[k].x + v[k].y + v[k].z + v[k].w;
  }
  return sum;
}
// Reads `before` MiB, writes `written` MiB elsewhere, then reads `after` MiB `turns` times, all of it by each SM if
// `shared`; then waits `idle` ns.
__global__ void phases(const float4* x, float4* y, unsigned* count, long before, long written, long after, int turns, int shared, long idle, float* sink) {
  long first = blockIdx.x * (long)blockDim.x + threadIdx.x, step = (long)gridDim.x * blockDim.x;
  float sum = read_all(x, before, first, step);
  meet(count, 1);
  for (long i = first; i < written * MIB / 16; i += step) y[i] = make_float4(i, 1, 2, 3);
  meet(count, 2);
  const float4* z = x + before * MIB / 16;
  for (int k = 0; k < turns; k++) {
    if (shared) sum += read_all(z, after, threadIdx.x, blockDim.x);
    else sum += read_all(z, after, first, step);
    meet(count, 3 + k);
  }
  for (long k = 0; k < idle; k += 1000) __nanosleep(1000);
  if (sum == 12345.678f) sink[threadIdx.x] = sum;
}
// Writes `bytes` (4, 8, 16) of each 32-byte sector of the first `sectors` of each line, over `mib` of lines; then reads
// `after` MiB elsewhere.
__global__ void partly(const float4* x, char* y, unsigned* count, long mib, int sectors, int bytes, long after, float* sink) {
  long first = blockIdx.x * (long)blockDim.x + threadIdx.x, step = (long)gridDim.x * blockDim.x;
  long n = mib * MIB / 128 * sectors;
  for (long i = first; i < n; i += step) {
    char* p = y + (i / sectors) * 128 + (i % sectors) * 32;
    if (bytes == 4) *(float*)p = i;
    else if (bytes == 8) *(float2*)p = make_float2(i, 1);
    else *(float4*)p = make_float4(i, 1, 2, 3);
  }
  meet(count, 1);
  float sum = read_all(x, after, first, step);
  if (sum == 12345.678f) sink[threadIdx.x] = sum;
}
int main() {
  char* buf; CK(cudaMalloc(&buf, 2048 * MIB)); CK(cudaMemset(buf, 0, 2048 * MIB));
  float4 *x = (float4*)buf, *y = (float4*)(buf + 1024 * MIB);
  unsigned* count; CK(cudaMalloc(&count, 4096 * 4)); CK(cudaMemset(count, 0, 4096 * 4));
  float* sink; CK(cudaMalloc(&sink, 4096));
  cudaDeviceProp p; CK(cudaGetDeviceProperties(&p, 0));
  int g = p.multiProcessorCount, launch = 0;
  auto go = [&](long before, long written, long after, int turns = 1, int shared = 0, long idle = 0) {
    printf("{\"launch\": %d, \"bench\": \"phases\", \"read_before\": %ld, \"written\": %ld, \"read_after\": %ld, \"turns\": %d, \"shared\": %d, \"idle_ns\": %ld}\n", launch, before, written, after, turns, shared, idle);
    phases<<<g, 1024>>>(x, y, count + launch++, before, written, after, turns, shared, idle, sink);
    CK(cudaGetLastError()); CK(cudaDeviceSynchronize());
  };
  auto part = [&](long mib, int sectors, int bytes, long after = 0) {
    printf("{\"launch\": %d, \"bench\": \"partly\", \"mib\": %ld, \"sectors\": %d, \"bytes\": %d, \"read_after\": %ld}\n", launch, mib, sectors, bytes, after);
    partly<<<g, 1024>>>(x, (char*)y, count + launch++, mib, sectors, bytes, after, sink);
    CK(cudaGetLastError()); CK(cudaDeviceSynchronize());
  };
  for (long r : {256, 256, 8, 16, 20, 24, 28, 32, 36, 40, 44, 48, 56, 64, 128}) go(0, 0, r);
  for (long w : {8, 16, 20, 24, 28, 32, 36, 40, 44, 48, 64, 96, 128, 256}) go(0, w, 0);
  for (long r : {8, 16, 20, 24, 28, 32, 36, 40, 48, 64, 128}) go(0, 8, r);
  for (long r : {8, 12, 16, 20, 24, 32, 48}) go(0, 24, r);
  for (long r : {16, 32, 64}) go(r, 8, 0);
  go(32, 24, 0); go(64, 24, 0); go(64, 48, 0);
  for (int k : {4, 16, 64}) go(0, 16, 8, k);
  for (int k : {4, 16}) go(0, 8, 24, k);
  for (long r : {8, 16, 24, 32, 40}) go(0, 8, r, 1, 1);
  go(0, 24, 0, 1, 0, 300000);
  for (int s : {4, 2, 1}) for (long m : {2, 4, 6, 8, 12, 16, 32, 64}) part(m, s, 4);
  for (int b : {8, 16}) for (long m : {4, 8, 16, 64}) part(m, 4, b);
  for (long r : {4, 8, 16, 32, 64}) part(4, 4, 16, r);
  for (long r : {16, 32}) part(8, 4, 16, r);
}
