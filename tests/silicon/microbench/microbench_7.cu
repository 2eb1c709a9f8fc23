// What Hopper's asynchronous units do beside each other: TMA, mbarriers, wgmma, clusters.
// Build: nvcc -O3 -gencode arch=compute_90a,code=sm_90a -o microbench_7 microbench_7.cu. Prints one JSON object a line.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>
#define CK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%d %s\n", __LINE__, cudaGetErrorString(e)); exit(1); } } while (0)
typedef long long ll;
typedef unsigned u32;
__device__ __forceinline__ void init(u32 m, int n) { asm volatile("mbarrier.init.shared::cta.b64 [%0],%1;" ::"r"(m), "r"(n)); }
__device__ __forceinline__ void expect(u32 m, int b) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _,[%0],%1;" ::"r"(m), "r"(b) : "memory"); }
__device__ __forceinline__ void arrive(u32 m) { asm volatile("mbarrier.arrive.shared::cta.b64 _,[%0];" ::"r"(m) : "memory"); }
__device__ __forceinline__ void wait(u32 m, int ph) {
  asm volatile("{.reg .pred p; L: mbarrier.try_wait.parity.shared::cta.b64 p,[%0],%1; @p bra D; bra L; D: }" ::"r"(m), "r"(ph) : "memory");
}
__device__ __forceinline__ void bulk(u32 s, const void* g, int n, u32 m) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0],[%1],%2,[%3];" ::"r"(s), "l"(g), "r"(n), "r"(m) : "memory");
}
__device__ __forceinline__ u32 at(const void* p) { return (u32)__cvta_generic_to_shared(p); }

// Latency of loads of lines that are in L2, alone and beside stores of the same SM. Warp 0 loads: with TMA 128 bytes or
// `bytes`, or a chain of LDG; warps 4 to 7 store as the epilogue of a product does: 8 rows of 16 bytes an instruction.
__global__ void beside_stores(int tma, int bytes, int stores, int turns, const char* g, char* out, ll* result) {
  extern __shared__ __align__(1024) char smem[];
  __shared__ __align__(8) uint64_t bar;
  __shared__ volatile int stop;
  if (threadIdx.x == 0) { init(at(&bar), 1); stop = 0; }
  __syncthreads();
  int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  if (warp == 0) {
    if (lane == 0) {
      ll total = 0; const char* p = g + (size_t)blockIdx.x * 65536; unsigned off = 0;
      for (int i = 0; i < turns; i++) {
        ll t0 = clock64();
        if (tma) { expect(at(&bar), bytes); bulk(at(smem), p + off, bytes, at(&bar)); wait(at(&bar), i & 1); off = (off + bytes) & 65535; }
        else { unsigned v; asm volatile("ld.global.cg.u32 %0,[%1];" : "=r"(v) : "l"(p + off)); off = (off + 128 + v) & 65535; }
        total += clock64() - t0;
      }
      result[blockIdx.x] = total / turns; stop = 1;
    }
  } else if (warp >= 4 && stores) {
    char* row = out + ((size_t)blockIdx.x * 4 + (warp - 4)) * 16 * 4096;
    int n = 0;
    for (int k = 0; k < 100000 && !stop; k++)
      for (int c = 0; c < 16; c++) { *(u32*)(row + (lane >> 2) * 4096 + ((k * 16 + c) & 255) * 16 + (lane & 3) * 4) = k; n++; }
    if (lane == 0) result[132 + blockIdx.x * 4 + warp - 4] = n;
  }
}
// Bytes a cycle of TMA: `deep` copies of `bytes` in flight, from lines that all SMs share, that each has its own, in L2.
__global__ void tma_rate(int bytes, int deep, int own, int turns, const char* g, ll* result) {
  extern __shared__ __align__(1024) char smem[];
  __shared__ __align__(8) uint64_t bar[16];
  if (threadIdx.x) return;
  for (int i = 0; i < deep; i++) init(at(&bar[i]), 1);
  asm volatile("fence.mbarrier_init.release.cluster;");
  const char* p = g + (own ? (size_t)blockIdx.x * 131072 : 0);
  ll t0 = clock64(); size_t off = 0;
  for (int i = 0, s = 0, turn = 0; i < turns + deep; i++) {
    if (i && ++s == deep) { s = 0; turn++; }
    if (i >= deep) wait(at(&bar[s]), (turn - 1) & 1);
    if (i < turns) { expect(at(&bar[s]), bytes); bulk(at(smem) + s * bytes, p + off, bytes, at(&bar[s])); off = (off + bytes) & 131071; }
  }
  result[blockIdx.x] = clock64() - t0;
}
// Cycles of an arrival, of a wait that need not wait, of a pair of warps that pass a phase back and forth.
__global__ void mbarriers(int what, int turns, ll* result) {
  __shared__ __align__(8) uint64_t a, b;
  if (threadIdx.x == 0) { init(at(&a), what == 0 ? 1024 : what == 2 ? 32 : 1); init(at(&b), what == 2 ? 32 : 1); }
  __syncthreads();
  int warp = threadIdx.x >> 5;
  ll t0 = clock64();
  if (what == 0 && threadIdx.x == 0) for (int i = 0; i < turns; i++) arrive(at(&a));
  if (what == 1 && threadIdx.x == 0) { arrive(at(&a)); for (int i = 0; i < turns; i++) wait(at(&a), 0); }
  if (what == 2) for (int i = 0; i < turns; i++) {
    if (warp == 0) { arrive(at(&a)); wait(at(&b), i & 1); } else { wait(at(&a), i & 1); arrive(at(&b)); }
  }
  if (threadIdx.x == 0) result[0] = (clock64() - t0) / turns;
}
// wgmma m64n256k16 of bf16, one and two warpgroups: groups of `batch` products, unrolled, `waits` left in flight.
__device__ __forceinline__ uint64_t desc(u32 a) { return (uint64_t)((a & 0x3FFFF) >> 4) | ((uint64_t)1 << 16) | ((uint64_t)64 << 32) | ((uint64_t)1 << 62); }
#include "wg.h"
template <int BATCH, int LEFT> __global__ void products(int turns, ll* result, float* sink) {
  extern __shared__ __align__(1024) char smem[];
  float c[128];
  #pragma unroll
  for (int i = 0; i < 128; i++) c[i] = 0;
  uint64_t da = desc(at(smem)), db = desc(at(smem) + 16384);
  __syncthreads();
  ll t0 = clock64();
  for (int i = 0; i < turns; i++) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    #pragma unroll
    for (int k = 0; k < BATCH; k++) wgmma_n256(c, da + 2 * (k & 3), db + 2 * (k & 3), 1);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) result[0] = (clock64() - t0) / turns;
  float s = 0;
  #pragma unroll
  for (int i = 0; i < 128; i++) s += c[i];
  if (s == 12345.f) sink[threadIdx.x] = s;
}
// When products issue: the clock after each of 16 (N = 256), one warpgroup.
__global__ void product_issue(ll* result, float* sink) {
  extern __shared__ __align__(1024) char smem[];
  float c[128]; ll t[17];
  #pragma unroll
  for (int i = 0; i < 128; i++) c[i] = 0;
  uint64_t da = desc(at(smem)), db = desc(at(smem) + 16384);
  for (int r = 0; r < 3; r++) {
    __syncthreads();
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("mov.u64 %0,%%clock64;" : "=l"(t[0]) :: "memory");
    #pragma unroll
    for (int k = 0; k < 16; k++) { wgmma_n256(c, da, db, 1); asm volatile("mov.u64 %0,%%clock64;" : "=l"(t[k + 1]) :: "memory"); }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  if (threadIdx.x == 0) for (int k = 0; k < 17; k++) result[k] = t[k] - t[0];
  float s = 0;
  #pragma unroll
  for (int i = 0; i < 128; i++) s += c[i];
  if (s == 12345.f) sink[threadIdx.x] = s;
}
// Clusters: a chain of loads from another block's shared memory, cluster barriers, remote arrivals, multicast.
template <int SIZE> __global__ void cluster(int what, int turns, const char* g, ll* result) {
  __shared__ u32 s[1024];
  extern __shared__ __align__(1024) char smem[];
  __shared__ __align__(8) uint64_t a, b;
  for (int i = threadIdx.x; i < 1024; i += blockDim.x) s[i] = 0;
  if (threadIdx.x == 0) { init(at(&a), 1); init(at(&b), 1); }
  u32 rank, base = at(s), remote, ra;
  asm volatile("mov.u32 %0,%%cluster_ctarank;" : "=r"(rank));
  asm volatile("mapa.shared::cluster.u32 %0,%1,%2;" : "=r"(remote) : "r"(base), "r"((rank + 1) % SIZE));
  asm volatile("mapa.shared::cluster.u32 %0,%1,%2;" : "=r"(ra) : "r"(at(&a)), "r"((rank + 1) % SIZE));
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  ll t0 = clock64(); u32 x = 0;
  if (what == 0 && threadIdx.x == 0) for (int i = 0; i < turns; i++) asm volatile("ld.shared::cluster.u32 %0,[%1];" : "=r"(x) : "r"(remote + x));
  if (what == 1) for (int i = 0; i < turns; i++) asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  if (what == 2 && threadIdx.x == 0) for (int i = 0; i < turns; i++) {  // a ring: each waits for its own, then tells the next
    if (rank != 0 || i) wait(at(&a), (rank ? i : i - 1) & 1);
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _,[%0];" ::"r"(ra) : "memory");
  }
  if (what == 3) for (int i = 0; i < turns; i++) asm volatile("st.shared::cluster.u32 [%0],%1;" ::"r"(remote + (threadIdx.x & 1023) * 4), "r"(i) : "memory");
  if (what == 4) for (int i = 0; i < turns; i++) { u32 v; asm volatile("ld.shared::cluster.u32 %0,[%1];" : "=r"(v) : "r"(remote + ((threadIdx.x + 32 * i) & 1023) * 4)); x += v; }
  if (what == 5) for (int i = 0; i < turns; i++) {  // multicast of 16 KiB from the first block to all
    if (threadIdx.x == 0) expect(at(&a), 16384);
    __syncthreads();
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    if (threadIdx.x == 0 && rank == 0) { unsigned short mask = (1 << SIZE) - 1; asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0],[%1],%2,[%3],%4;" ::"r"(at(smem)), "l"(g), "r"(16384), "r"(at(&a)), "h"(mask) : "memory"); }
    wait(at(&a), i & 1);
  }
  ll t1 = clock64();
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  if (threadIdx.x == 0) result[blockIdx.x] = (t1 - t0) / turns;
  if (x == 12345) result[300] = x;
}
static ll h[1024]; static ll* d; static char *g, *o;
static void get() { CK(cudaGetLastError()); CK(cudaDeviceSynchronize()); CK(cudaMemcpy(h, d, sizeof(h), cudaMemcpyDeviceToHost)); }
static double mean(int n) { double s = 0; for (int i = 0; i < n; i++) s += h[i]; return s / n; }
template <int SIZE> static void clusters() {
  const char* names[] = {"dsmem_chain", "cluster_barrier", "remote_arrive_ring", "dsmem_store", "dsmem_load", "multicast_16k"};
  CK(cudaFuncSetAttribute(cluster<SIZE>, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536));
  CK(cudaFuncSetAttribute(cluster<SIZE>, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  for (int what = 0; what < 6; what++) for (int threads : {32, 256}) {
    if (what == 5 && threads != 32) continue;
    if ((what == 0 || what == 2) && threads != 32) continue;
    cudaLaunchConfig_t cfg = {}; cfg.gridDim = SIZE; cfg.blockDim = threads; cfg.dynamicSmemBytes = 32768;
    cudaLaunchAttribute attr[1]; attr[0].id = cudaLaunchAttributeClusterDimension; attr[0].val.clusterDim.x = SIZE; attr[0].val.clusterDim.y = attr[0].val.clusterDim.z = 1;
    cfg.attrs = attr; cfg.numAttrs = 1;
    for (int r = 0; r < 2; r++) { CK(cudaLaunchKernelEx(&cfg, cluster<SIZE>, what, 256, (const char*)g, d)); get(); }
    printf("{\"k\":\"%s\",\"cluster\":%d,\"threads\":%d,\"cycles\":%.1f}\n", names[what], SIZE, threads, mean(SIZE)); fflush(stdout);
  }
}
int main() {
  CK(cudaMalloc(&d, sizeof(h))); CK(cudaMalloc(&g, 64 << 20)); CK(cudaMalloc(&o, 256 << 20)); CK(cudaMemset(g, 0, 64 << 20)); CK(cudaMemset(o, 0, 256 << 20));
  CK(cudaFuncSetAttribute(beside_stores, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536));
  CK(cudaFuncSetAttribute(tma_rate, cudaFuncAttributeMaxDynamicSharedMemorySize, 200000));
  for (int sms : {1, 132}) for (int tma : {0, 1}) for (int bytes : {128, 8192}) for (int stores : {0, 1}) {
    if (!tma && bytes > 128) continue;
    CK(cudaMemset(d, 0, sizeof(h)));
    for (int r = 0; r < 2; r++) { beside_stores<<<sms, 256, 65536>>>(tma, bytes, stores, 200, g, o, d); get(); }
    double n = 0; for (int i = 0; i < sms * 4; i++) n += h[132 + i];
    printf("{\"k\":\"beside_stores\",\"sms\":%d,\"tma\":%d,\"bytes\":%d,\"stores\":%d,\"cycles\":%.1f,\"stores_a_sm\":%.0f}\n", sms, tma, bytes, stores, mean(sms), n / sms); fflush(stdout);
  }
  for (int own : {0, 1}) for (int sms : {1, 16, 132}) for (int bytes : {128, 512, 2048, 8192, 16384}) for (int deep : {1, 4, 8}) {
    if (bytes * deep > 131072) continue;
    int turns = bytes >= 8192 ? 64 : 256;
    for (int r = 0; r < 2; r++) { tma_rate<<<sms, 32, bytes * deep>>>(bytes, deep, own, turns, g, d); get(); }
    printf("{\"k\":\"tma_rate\",\"own\":%d,\"sms\":%d,\"bytes\":%d,\"deep\":%d,\"cycles_each\":%.1f,\"bytes_a_cycle\":%.2f}\n", own, sms, bytes, deep, mean(sms) / turns, (double)bytes * turns / mean(sms)); fflush(stdout);
  }
  const char* names[] = {"arrive", "wait_ready", "ping"};
  for (int what = 0; what < 3; what++) { for (int r = 0; r < 2; r++) { mbarriers<<<1, what == 2 ? 64 : 32>>>(what, 512, d); get(); } printf("{\"k\":\"mbarrier_%s\",\"cycles\":%lld}\n", names[what], h[0]); }
  float* sink = (float*)o;
#define P(B, L) CK(cudaFuncSetAttribute(products<B, L>, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536)); for (int w : {1, 2}) { for (int r = 0; r < 2; r++) { products<B, L><<<1, 128 * w, 65536>>>(64, d, sink); get(); } printf("{\"k\":\"wgmma_n256\",\"warpgroups\":%d,\"batch\":%d,\"left\":%d,\"cycles\":%lld}\n", w, B, L, h[0]); }
  P(1, 0) P(2, 0) P(4, 0) P(8, 0) P(1, 1) P(2, 1) P(4, 1)
  CK(cudaFuncSetAttribute(product_issue, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536));
  product_issue<<<1, 128, 65536>>>(d, sink); get();
  printf("{\"k\":\"wgmma_issue\",\"clock\":[");
  for (int k = 0; k < 17; k++) printf("%lld%s", h[k], k < 16 ? "," : "]}\n");
  fflush(stdout);
  clusters<2>(); clusters<4>(); clusters<8>();
  return 0;
}
