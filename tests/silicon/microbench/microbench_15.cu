// Which loads of several SMs, and which stores of one SM, are joined before L2 looks them up: a profiler's counts.
// Build: nvcc -O3 -arch=sm_90a -o microbench_15 microbench_15.cu. Run under ncu, a row a launch, in the order printed.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#define CK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%s\n", cudaGetErrorString(e)); exit(1); } } while (0)
typedef long long ll;
__device__ unsigned smid() { unsigned s; asm volatile("mov.u32 %0,%%smid;" : "=r"(s)); return s; }
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
// Each block reads the same `lines` lines in order, its warps one line each at a time, `ahead` of a warp under way.
// `warm`: they are in L2 before (each is read once, uncounted as it is known). `meeting`: blocks begin together, then
// up to `spread` cycles apart. `part`: block b reads sector b mod 4 of each line only.
__global__ void same_lines(const float* x, unsigned* count, int lines, int ahead, int warm, int meeting, int spread, int part, float* sink) {
  float sum = 0;
  int lane = threadIdx.x & 31, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  if (warm) for (int i = blockIdx.x * warps + warp; i < lines; i += gridDim.x * warps) sum += __ldcg(x + i * 32 + lane);
  if (meeting) meet(count, 1);
  unsigned h = smid() * 2654435761u; h ^= h >> 15;
  ll start = clock64();
  while (spread && clock64() - start < h % spread) {}
  int word = part ? (blockIdx.x & 3) * 8 + (lane & 7) : lane;
  for (int i = warp; i < lines; i += ahead * warps) {
    float v[8];
#pragma unroll
    for (int k = 0; k < 8; k++) v[k] = k < ahead && i + k * warps < lines ? __ldcg(x + (i + k * warps) * 32 + word) : 0;
#pragma unroll
    for (int k = 0; k < 8; k++) sum += v[k];
    if (sum == 12345.678f) sink[0] = sum;  // wait for all
  }
  if (sum == 12345.678f) sink[threadIdx.x] = sum;
}
__device__ __forceinline__ void st(float* p, float v) { asm volatile("st.global.f32 [%0],%1;" :: "l"(p), "f"(v) : "memory"); }
// Each warp, for each of `n` lines of its own: a store to its first half of each sector, stores to `between` other lines,
// `gap` cycles, then a store to the second half of each sector; of the other half line (sectors 2 and 3 after 0 and 1) if `apart`.
__global__ void halves(float* y, int n, int between, int gap, int apart) {
  int lane = threadIdx.x & 31, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  int a = apart ? lane & 15 : (lane & 15) / 4 * 8 + (lane & 3), b = apart ? a + 16 : a + 4;
  float* p = y + ((ll)blockIdx.x * warps + warp) * n * (1 + between) * 32;
  for (int i = 0; i < n; i++, p += (1 + between) * 32) {
    st(p + a, i);
    for (int k = 0; k < between; k++) st(p + (1 + k) * 32 + a, k);
    ll t = clock64();
    while (gap && clock64() - t < gap) {}
    st(p + b, i);
  }
}
// As a product's tile: a warp stores words 4*lane + j of two rows for j = 0..3: all of 2 rows of 256 bytes with four stores.
__global__ void quarters(float* y, int n, int order) {
  int lane = threadIdx.x & 31, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  float* p = y + ((ll)blockIdx.x * warps + warp) * n * 512;
  for (int i = 0; i < n; i++, p += 512) {
    float* q = p + (lane / 16) * 256 + (lane & 15) * 4;
    if (order) for (int j = 0; j < 4; j++) for (int r = 0; r < 2; r++) st(q + r * 64 + j, j);
    else for (int r = 0; r < 2; r++) for (int j = 0; j < 4; j++) st(q + r * 64 + j, j);
  }
}
// Two warps of a block store the two halves of the same sectors, the second `gap` cycles after the first.
__global__ void two_warps(float* y, int n, int gap) {
  int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
  int a = (lane & 15) / 4 * 8 + (lane & 3) + 4 * warp;
  float* p = y + (ll)blockIdx.x * n * 32;
  for (int i = 0; i < n; i++, p += 32) {
    __syncthreads();
    ll t = clock64();
    while (warp && clock64() - t < gap) {}
    st(p + a, i);
  }
}
int main() {
  float* buf; CK(cudaMalloc(&buf, 256 << 20)); CK(cudaMemset(buf, 0, 256 << 20));
  unsigned* count; CK(cudaMalloc(&count, 4096 * 4)); CK(cudaMemset(count, 0, 4096 * 4));
  float* sink; CK(cudaMalloc(&sink, 4096));
  int launch = 0;
  const int lines = 4096;
  auto same = [&](int blocks, int warps, int ahead, int warm, int meeting, int spread, int part) {
    printf("{\"launch\": %d, \"bench\": \"same_lines\", \"lines\": %d, \"blocks\": %d, \"warps\": %d, \"ahead\": %d, \"warm\": %d, \"meeting\": %d, \"spread\": %d, \"part\": %d}\n", launch, lines, blocks, warps, ahead, warm, meeting, spread, part);
    same_lines<<<blocks, 32 * warps>>>(buf, count + launch++, lines, ahead, warm, meeting, spread, part, sink);
    CK(cudaGetLastError()); CK(cudaDeviceSynchronize());
  };
  for (int blocks : {16, 132}) for (int warps : {1, 8, 32}) for (int warm : {0, 1}) for (int meeting : {0, 1}) for (int ahead : {1, 8})
    if (!warm || meeting) same(blocks, warps, ahead, warm, meeting, 0, 0);
  for (int spread : {50, 100, 200, 400, 1000}) for (int warm : {0, 1}) same(132, 8, 1, warm, 1, spread, 0);
  for (int part : {0, 1}) for (int warm : {0, 1}) same(16, 1, 1, warm, 1, 0, part);
  auto half = [&](int blocks, int warps, int n, int between, int gap, int apart) {
    printf("{\"launch\": %d, \"bench\": \"halves\", \"blocks\": %d, \"warps\": %d, \"n\": %d, \"between\": %d, \"gap\": %d, \"apart\": %d}\n", launch++, blocks, warps, n, between, gap, apart);
    halves<<<blocks, 32 * warps>>>(buf, n, between, gap, apart);
    CK(cudaGetLastError()); CK(cudaDeviceSynchronize());
  };
  for (int between : {0, 1, 2, 3, 4, 6, 8, 12, 16, 32}) half(1, 1, 64, between, 0, 0);
  for (int gap : {10, 20, 40, 80, 160, 320}) half(1, 1, 64, 0, gap, 0);
  for (int between : {0, 1, 4}) half(1, 1, 64, between, 0, 1);
  for (int warps : {4, 8, 32}) for (int between : {0, 1, 4}) half(1, warps, 64, between, 0, 0);
  half(132, 8, 64, 0, 0, 0); half(132, 32, 64, 0, 0, 0);
  for (int blocks : {1, 132}) for (int warps : {1, 4, 8, 32}) for (int order : {0, 1}) {
    printf("{\"launch\": %d, \"bench\": \"quarters\", \"blocks\": %d, \"warps\": %d, \"n\": 16, \"order\": %d}\n", launch++, blocks, warps, order);
    quarters<<<blocks, 32 * warps>>>(buf, 16, order);
    CK(cudaGetLastError()); CK(cudaDeviceSynchronize());
  }
  for (int gap : {0, 10, 20, 40, 80, 160, 320}) {
    printf("{\"launch\": %d, \"bench\": \"two_warps\", \"n\": 64, \"gap\": %d}\n", launch++, gap);
    two_warps<<<1, 64>>>(buf, 64, gap);
    CK(cudaGetLastError()); CK(cudaDeviceSynchronize());
  }
}
