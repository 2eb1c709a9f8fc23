// How far L2's slices are from each SM, and how alike SMs get on that read the same way: SM cycles.
// Build: nvcc -O3 -arch=sm_90a -o microbench_33 microbench_33.cu. Prints one JSON object a line.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>
#define CK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%s\n", cudaGetErrorString(e)); exit(1); } } while (0)
typedef long long ll;
constexpr int SMS = 132, LINES = 384, CHAIN = 16;
__device__ unsigned smid() { unsigned s; asm volatile("mov.u32 %0,%%smid;" : "=r"(s)); return s; }
__device__ unsigned at_l2(const unsigned* p) { unsigned v; asm volatile("ld.relaxed.gpu.global.u32 %0,[%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
// The value is there: it is stored, and what follows is behind that.
__device__ void came(unsigned v) { __shared__ unsigned kept[32]; asm volatile("st.shared.u32 [%0],%1;" :: "r"((unsigned)__cvta_generic_to_shared(kept + threadIdx.x)), "r"(v) : "memory"); }
// Of each of LINES lines in L2 the least of eight times of CHAIN loads, each after the last, by one thread of SM `sm`, the others idle.
__global__ void distance(const unsigned* x, unsigned sm, unsigned zero, int* result) {
  if (smid() != sm || threadIdx.x) return;
  for (int i = 0; i < LINES; i++) {
    int least = 1 << 30;
    for (int r = 0; r < 8; r++) {
      ll t = clock64();
      unsigned z = 0;
      for (int k = 0; k < CHAIN; k++) z = at_l2(x + i * 32 + z) * zero;
      came(z);
      ll u = clock64();
      least = min(least, (int)(u - t));
    }
    result[i] = least;
  }
}
// One warp an SM, all at once: `rounds` requests of a word of 32 / `pieces` lanes in each of `pieces` lines, each after the last.
// `own`: each SM has its own lines. result[sm]: cycles of all rounds.
__global__ void rounds(const unsigned* x, unsigned* count, int n, int pieces, int own, unsigned zero, int* result) {
  unsigned lane = threadIdx.x, sm = smid(), sum = 0;
  const unsigned* p = x + (own ? (size_t)sm * n * pieces * 32 : 0) + lane / (32 / pieces) * 32 + lane % (32 / pieces);
  for (int i = 0; i < n; i++) sum += at_l2(p + i * pieces * 32);
  __syncwarp();
  if (lane == 0) { __threadfence(); atomicAdd(count, 1); while (*(volatile unsigned*)count < gridDim.x) {} }
  __syncwarp();
  ll t = clock64();
  unsigned z = sum * zero;
  for (int i = 0; i < n; i++) z = at_l2(p + i * pieces * 32 + z) * zero;
  came(z);
  ll u = clock64();
  if (lane == 0) result[sm] = u - t;
}
int main() {
  unsigned* x; CK(cudaMalloc(&x, 256 << 20)); CK(cudaMemset(x, 0, 256 << 20));
  int* r; CK(cudaMalloc(&r, 4096 * 4));
  unsigned* count; CK(cudaMalloc(&count, 4096 * 4)); CK(cudaMemset(count, 0, 4096 * 4));
  std::vector<int> v(4096);
  for (int sm = 0; sm < SMS; sm++) {
    for (int k = 0; k < 2; k++) distance<<<SMS * 4, 32>>>(x, sm, 0, r);
    CK(cudaMemcpy(v.data(), r, LINES * 4, cudaMemcpyDeviceToHost));
    printf("{\"k\":\"distance\",\"sm\":%d,\"cycles\":[", sm);
    for (int i = 0; i < LINES; i++) printf("%s%d", i ? "," : "", v[i]);
    printf("]}\n");
  }
  int launch = 0;
  for (int own : {0, 1}) for (int pieces : {1, 4, 32}) for (int again = 0; again < 3; again++) {
    rounds<<<SMS, 32>>>(x, count + launch++, 256, pieces, own, 0, r);
    CK(cudaMemcpy(v.data(), r, SMS * 4, cudaMemcpyDeviceToHost));
    printf("{\"k\":\"rounds\",\"own\":%d,\"pieces\":%d,\"n\":256,\"again\":%d,\"cycles\":[", own, pieces, again);
    for (int i = 0; i < SMS; i++) printf("%s%d", i ? "," : "", v[i]);
    printf("]}\n");
  }
}
