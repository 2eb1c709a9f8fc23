// Which loads of several SMs are joined before L2 looks them up, by what a request touches: a profiler's counts.
// Build: nvcc -O3 -arch=sm_90a -o microbench_32 microbench_32.cu. Run under ncu, a row a launch, in the order printed.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#define CK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%s\n", cudaGetErrorString(e)); exit(1); } } while (0)
typedef long long ll;
__device__ unsigned smid() { unsigned s; asm volatile("mov.u32 %0,%%smid;" : "=r"(s)); return s; }
// Blocks begin together, or up to `spread` cycles apart. Those of a stream, every `streams`-th, read the same data.
// A request is of `pieces` of 128 / `pieces` bytes, in lines of their own, `pitch` bytes apart. The next request of a
// warp is of the next sectors of these lines if `along`, else of new lines.
__global__ void pieces_of_lines(const char* x, unsigned* count, int requests, int pieces, int along, int ahead, int streams, int spread, ll pitch, float* sink) {
  int lane = threadIdx.x & 31, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  int lanes = 32 / pieces, bytes = 128 / pieces;
  __syncthreads();
  if (threadIdx.x == 0) { __threadfence(); atomicAdd(count, 1); while (*(volatile unsigned*)count < gridDim.x) {} __threadfence(); }
  __syncthreads();
  unsigned h = smid() * 2654435761u; h ^= h >> 15;
  ll start = clock64();
  while (spread && clock64() - start < h % spread) {}
  int step = bytes < 32 ? 32 : bytes, turns = along ? 128 / step : 1;
  x += (ll)(blockIdx.x % streams) * (4ll << 20);
  float sum = 0;
  // Request i of a warp: lines (i / turns) of the warp's own, and turn i % turns within these.
  for (int i = 0; i < requests; i += ahead) {
    float v[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
      int r = i + k;
      ll line = ((ll)(r / turns) * warps + warp) * pieces + lane / lanes;
      ll at = pitch ? (ll)(lane / lanes) * pitch + ((ll)(r / turns) * warps + warp) * 128 : line * 128;
      v[k] = k < ahead ? __ldcg((const float*)(x + at + (r % turns) * step + (lane % lanes) * 4)) : 0;
    }
#pragma unroll
    for (int k = 0; k < 4; k++) sum += v[k];
    if (sum == 12345.678f) sink[0] = sum;
  }
  if (sum == 12345.678f) sink[threadIdx.x] = sum;
}
int main() {
  char* buf; CK(cudaMalloc(&buf, 256 << 20)); CK(cudaMemset(buf, 0, 256 << 20));
  unsigned* count; CK(cudaMalloc(&count, 4096 * 4)); CK(cudaMemset(count, 0, 4096 * 4));
  float* sink; CK(cudaMalloc(&sink, 4096));
  int launch = 0;
  auto row = [&](int blocks, int warps, int pieces, int along, int ahead, int streams, int spread, ll pitch) {
    int requests = 64;
    printf("{\"launch\": %d, \"bench\": \"pieces_of_lines\", \"blocks\": %d, \"warps\": %d, \"requests\": %d, \"pieces\": %d, \"along\": %d, \"ahead\": %d, \"streams\": %d, \"spread\": %d, \"pitch\": %lld}\n", launch, blocks, warps, requests, pieces, along, ahead, streams, spread, pitch);
    pieces_of_lines<<<blocks, 32 * warps>>>(buf, count + launch++, requests, pieces, along, ahead, streams, spread, pitch, sink);
    CK(cudaGetLastError()); CK(cudaDeviceSynchronize());
  };
  for (int blocks : {16, 132}) for (int warps : {1, 8}) for (int pieces : {1, 2, 4, 16, 32}) for (int ahead : {1, 4}) {
    row(blocks, warps, pieces, 0, ahead, 1, 0, 0);
    if (pieces > 1) row(blocks, warps, pieces, 1, ahead, 1, 0, 0);
  }
  for (int spread : {200, 1000}) for (int pieces : {1, 4, 32}) for (int along : {0, 1}) if (pieces > 1 || !along) row(132, 8, pieces, along, 1, 1, spread, 0);
  for (int streams : {4, 16}) for (int pieces : {1, 4, 32}) for (int along : {0, 1}) if (pieces > 1 || !along) row(132, 8, pieces, along, 1, streams, 0, 0);
  for (int pieces : {2, 4, 16, 32}) for (int along : {0, 1}) row(132, 1, pieces, along, 1, 1, 0, 4096);
}
