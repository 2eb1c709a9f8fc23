// Which loads of a line are looked up in L2 and which join another, by sector, time and GPC: a profiler's counts.
// Build: nvcc -O3 -arch=sm_90a -o microbench_34 microbench_34.cu. Run under ncu, a row a launch, in the order printed;
// `plans_of_two` with the caches flushed. Of `sectors_in_turn` and `plan`, each second launch counts.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#define CK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%s line %d\n", cudaGetErrorString(e), __LINE__); exit(1); } } while (0)
typedef long long ll;
constexpr int RANKS = 4, LOADS = 4, PITCH = (16384 + 128 * 7) / 4;
__device__ unsigned at_l2(const unsigned* p) { unsigned v; asm volatile("ld.relaxed.gpu.global.u32 %0,[%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
__device__ unsigned past_l1(const unsigned* p) { unsigned v; asm volatile("ld.global.cg.u32 %0,[%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
// All SMs, in step at the start: `n` requests a warp, each after the last, of one sector in each of `pieces` lines.
// 1 << `between` groups of lines are visited in turn, 1 << `visits` times; at visit v sector (`first` + v * `step`) % 4.
__global__ void sectors_in_turn(const unsigned* x, unsigned* count, int n, int pieces, int between, int visits, int first, int step, unsigned zero, unsigned* result) {
  unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32, lanes = 32 / pieces;
  const unsigned* p = x + (warp * pieces + lane / lanes) * 32 + lane % lanes % 8;
  __syncthreads();
  if (threadIdx.x == 0) { __threadfence(); atomicAdd(count, 1); while (*(volatile unsigned*)count < gridDim.x) {} __threadfence(); }
  __syncthreads();
  unsigned z = zero;
#pragma unroll 1
  for (int i = 0; i < n; i++) {
    int group = (i >> (between + visits) << between) | (i & ((1 << between) - 1)), visit = (i >> between) & ((1 << visits) - 1);
    z = at_l2(p + (size_t)group * warps * pieces * 32 + ((first + visit * step) & 3) * 8 + z) * zero;
  }
  if (z) result[0] = z;
}
struct Plan { int at[RANKS], first[RANKS][LOADS], words[RANKS], loads[RANKS]; };
// Block r of a cluster, whose blocks share a GPC, asks for words of line i from word first[r][k] on, a lane each, at i * 4000 + at[r].
__global__ void __cluster_dims__(RANKS, 1, 1) plan(const unsigned* g, Plan p, int turns, unsigned* out) {
  unsigned rank = blockIdx.x, lane = threadIdx.x, sum = 0;
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  ll start = clock64();
  for (int i = 0; i < turns; i++) {
    ll due = start + 2000 + (ll)i * 4000 + p.at[rank];
    while (clock64() < due) {}
    if (lane < p.words[rank]) {
      unsigned v[LOADS];
#pragma unroll
      for (int k = 0; k < LOADS; k++) if (k < p.loads[rank]) v[k] = past_l1(g + i * PITCH + p.first[rank][k] + lane);
#pragma unroll
      for (int k = 0; k < LOADS; k++) if (k < p.loads[rank]) sum += v[k];
    }
    __syncwarp();
  }
  if (sum == 12345) out[0] = 1;
}
// Of eight clusters, a GPC each, a and b ask at the same nanosecond: a's blocks, 10 cycles apart, for the first sector of line i, b's for sector `sector`.
__global__ void __cluster_dims__(RANKS, 1, 1) plans_of_two(const unsigned* g, unsigned* count, unsigned a, unsigned b, int sector, int turns, unsigned* out) {
  unsigned cluster = blockIdx.x / RANKS, rank = blockIdx.x % RANKS, lane = threadIdx.x, sum = 0;
  if (lane == 0) { unsigned s; asm volatile("mov.u32 %0,%%smid;" : "=r"(s)); out[1 + blockIdx.x] = s; }
  if (lane == 0) { atomicAdd(count, 1); while (*(volatile unsigned*)count < gridDim.x) {} }
  __syncwarp();
  ll t; asm volatile("mov.u64 %0,%%globaltimer;" : "=l"(t));
  if (cluster != a && cluster != b) return;
  ll first = (t >> 14) + 2;
  for (int i = 0; i < turns; i++) {
    do { asm volatile("mov.u64 %0,%%globaltimer;" : "=l"(t)); } while ((t >> 12) < (first << 2) + i);
    ll due = clock64() + 300 + rank * 10;
    while (clock64() < due) {}
    if (lane < 8) sum += past_l1(g + i * PITCH + (cluster == b ? sector * 8 : 0) + lane);
    __syncwarp();
  }
  if (sum == 12345) out[0] = 1;
}
int main() {
  unsigned *x, *r, *count; CK(cudaMalloc(&x, 64 << 20)); CK(cudaMemset(x, 0, 64 << 20)); CK(cudaMalloc(&r, 4096));
  CK(cudaMalloc(&count, 4096 * 4)); CK(cudaMemset(count, 0, 4096 * 4));
  int launch = 0;
  auto row = [&](int warps, int pieces, int between, int visits, int first, int step) {
    for (int again = 0; again < 2; again++) {
      printf("{\"k\":\"sectors_in_turn\",\"warps\":%d,\"n\":256,\"pieces\":%d,\"between\":%d,\"visits\":%d,\"first\":%d,\"step\":%d,\"again\":%d}\n", warps, pieces, between, visits, first, step, again);
      sectors_in_turn<<<132, 32 * warps>>>(x, count + launch++, 256, pieces, between, visits, first, step, 0, r); CK(cudaDeviceSynchronize());
    }
  };
  for (int first = 0; first < 4; first++) row(1, 4, 0, 0, first, 0);
  for (int between : {0, 1, 2, 4, 6}) { row(1, 4, between, 2, 0, 1); row(1, 4, between, 2, 0, 0); row(1, 4, between, 1, 0, 1); row(1, 4, between, 1, 0, 2); }
  for (int pieces : {1, 2, 8, 32}) { row(1, pieces, 0, 0, 0, 0); row(1, pieces, 0, 2, 0, 1); row(1, pieces, 6, 2, 0, 1); }
  row(8, 4, 0, 0, 0, 0); row(8, 4, 0, 2, 0, 1); row(8, 4, 0, 2, 0, 0); row(8, 4, 6, 2, 0, 1);
  auto run = [&](const char* name, int apart, Plan p) {
    for (int again = 0; again < 2; again++) {
      printf("{\"k\":\"plan\",\"plan\":\"%s\",\"apart\":%d,\"again\":%d}\n", name, apart, again);
      plan<<<RANKS, 32>>>(x, p, 256, r); CK(cudaDeviceSynchronize());
    }
  };
  for (int apart : {10, 20, 40, 100, 150}) {
    // A figure is the sector that a block asks for, w the whole line.
    for (const char* name : {"0000", "0101", "0011", "0111", "0110", "0100", "0202", "0123", "w000", "0www", "wwww"}) {
      Plan p = {};
      for (int k = 0; k < RANKS; k++) { bool whole = name[k] == 'w'; p.at[k] = k * apart; p.first[k][0] = whole ? 0 : (name[k] - '0') * 8; p.words[k] = whole ? 32 : 8; p.loads[k] = 1; }
      run(name, apart, p);
    }
    Plan p = {};
    for (int k = 0; k < RANKS; k++) { p.at[k] = k * apart; p.words[k] = 8; p.loads[k] = 4; for (int i = 0; i < 4; i++) p.first[k][i] = 8 * i; }
    run("four times 0, 1, 2, 3", apart, p);
    for (int k = 0; k < RANKS; k++) { p.words[k] = 16; p.loads[k] = 2; for (int i = 0; i < 2; i++) p.first[k][i] = 16 * i; }
    run("four times 01, 23", apart, p);
  }
  for (int a = 0; a < 8; a++) for (int b = a + 1; b < 8; b++) for (int sector : {0, 1}) {
    unsigned h[1 + 8 * RANKS];
    plans_of_two<<<8 * RANKS, 32>>>(x, count + launch++, a, b, sector, 128, r); CK(cudaDeviceSynchronize());
    CK(cudaMemcpy(h, r, sizeof h, cudaMemcpyDeviceToHost));
    printf("{\"k\":\"plans_of_two\",\"sector\":%d,\"sms\":[%u,%u]}\n", sector, h[1 + RANKS * a], h[1 + RANKS * b]);
  }
}
