// Thread block clusters: distributed shared memory, cluster barriers, remote arrivals, multicast, TMA reductions.
// Build: nvcc -O3 -gencode arch=compute_90a,code=sm_90a -o microbench_9 microbench_9.cu. Prints one JSON object a line.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>
#include <cuda_runtime.h>
#define CK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%d %s\n", __LINE__, cudaGetErrorString(e)); exit(1); } } while (0)
typedef long long ll;
typedef unsigned u32;
#define D __device__ __forceinline__
D u32 at(const void* p) { return (u32)__cvta_generic_to_shared(p); }
D u32 rank_() { u32 r; asm volatile("mov.u32 %0,%%cluster_ctarank;" : "=r"(r)); return r; }
D u32 size_() { u32 r; asm volatile("mov.u32 %0,%%cluster_nctarank;" : "=r"(r)); return r; }
D u32 mapa(u32 a, u32 r) { u32 x; asm volatile("mapa.shared::cluster.u32 %0,%1,%2;" : "=r"(x) : "r"(a), "r"(r)); return x; }
D void init(u32 m, int n) { asm volatile("mbarrier.init.shared::cta.b64 [%0],%1;" ::"r"(m), "r"(n)); }
D void expect(u32 m, int b) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _,[%0],%1;" ::"r"(m), "r"(b) : "memory"); }
D void wait(u32 m, int ph) { asm volatile("{.reg .pred p; L: mbarrier.try_wait.parity.shared::cta.b64 p,[%0],%1; @p bra D; bra L; D: }" ::"r"(m), "r"(ph) : "memory"); }
D void sync_release() { asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
D void sync_relaxed() { asm volatile("barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;" ::: "memory"); }

struct Args { int what, bytes, turns, active; const char* g; char* out; };

__global__ void bench(Args p, ll* result) {
  extern __shared__ __align__(1024) char smem[];
  __shared__ __align__(8) uint64_t a, b;
  int t = threadIdx.x, warps = blockDim.x / 32;
  u32 rank = rank_(), size = size_();
  u32 next = (rank + 1) % size, s = at(smem);
  if (t == 0) { init(at(&a), 1); init(at(&b), 1); asm volatile("fence.mbarrier_init.release.cluster;"); }
  for (int i = t; i < 8192; i += blockDim.x) ((u32*)smem)[i] = 0;
  u32 rs = mapa(s, next), ra = mapa(at(&a), next);
  __syncthreads();
  sync_release();
  ll t0 = clock64();
  u32 x = 0;
  const bool on = p.active > (int)rank;  // how many blocks of the cluster do it
  switch (p.what) {
    case 0: for (int i = 0; i < p.turns; i++) sync_relaxed(); break;
    case 1: for (int i = 0; i < p.turns; i++) sync_release(); break;
    case 2: for (int i = 0; i < p.turns; i++) asm volatile("fence.acq_rel.cluster;" ::: "memory"); break;
    case 3:  // loads of four bytes a lane, eight under way
      if (on) for (int i = 0; i < p.turns; i++) {
        u32 v[8], q = rs + (((i * 8 * warps) & 63) * 128) + t * 4;
        #pragma unroll
        for (int k = 0; k < 8; k++) asm volatile("ld.shared::cluster.u32 %0,[%1];" : "=r"(v[k]) : "r"(q + k * 2048));
        #pragma unroll
        for (int k = 0; k < 8; k++) x += v[k];
      } break;
    case 4:  // of sixteen
      if (on) for (int i = 0; i < p.turns; i++) {
        uint4 v[8]; u32 q = rs + (t & 511) * 16;
        #pragma unroll
        for (int k = 0; k < 8; k++) asm volatile("ld.shared::cluster.v4.u32 {%0,%1,%2,%3},[%4];" : "=r"(v[k].x), "=r"(v[k].y), "=r"(v[k].z), "=r"(v[k].w) : "r"(q + (k & 1) * 8192) : "memory");
        #pragma unroll
        for (int k = 0; k < 8; k++) x += v[k].x + v[k].y + v[k].z + v[k].w;
      } break;
    case 5:  // stores of four bytes a lane, then a load of the last
      if (on) { for (int i = 0; i < p.turns; i++) {
        #pragma unroll
        for (int k = 0; k < 8; k++) asm volatile("st.shared::cluster.u32 [%0],%1;" ::"r"(rs + t * 4 + k * 2048), "r"(i + k) : "memory");
      }
      asm volatile("ld.shared::cluster.u32 %0,[%1];" : "=r"(x) : "r"(rs + t * 4) : "memory"); x = x == 77; t0 += x; } break;
    case 6:
      if (on) { for (int i = 0; i < p.turns; i++) {
        #pragma unroll
        for (int k = 0; k < 8; k++) asm volatile("st.shared::cluster.v4.u32 [%0],{%1,%1,%1,%1};" ::"r"(rs + (t & 511) * 16 + (k & 1) * 8192), "r"(i + k) : "memory");
      }
      asm volatile("ld.shared::cluster.u32 %0,[%1];" : "=r"(x) : "r"(rs + t * 4) : "memory"); x = x == 77; t0 += x; } break;
    case 7:  // a chain of atomics
      if (t == 0 && on) for (int i = 0; i < p.turns; i++) asm volatile("atom.shared::cluster.add.u32 %0,[%1],%2;" : "=r"(x) : "r"(rs + x), "r"(0) : "memory");
      break;
    case 8:  // reductions without a result, distinct words
      if (on) { for (int i = 0; i < p.turns; i++) {
        #pragma unroll
        for (int k = 0; k < 8; k++) asm volatile("red.shared::cluster.add.u32 [%0],%1;" ::"r"(rs + t * 4 + k * 2048), "r"(i + k) : "memory");
      }
      asm volatile("ld.shared::cluster.u32 %0,[%1];" : "=r"(x) : "r"(rs + t * 4) : "memory"); x = x == 77; t0 += x; } break;
    case 9:  // a ring of relaxed arrivals: each waits for its own, then tells the next
      if (t == 0) for (int i = 0; i < p.turns; i++) {
        if (rank != 0 || i) wait(at(&a), (rank ? i : i - 1) & 1);
        asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _,[%0];" ::"r"(ra) : "memory");
      } break;
    case 10:  // the same with release
      if (t == 0) for (int i = 0; i < p.turns; i++) {
        if (rank != 0 || i) wait(at(&a), (rank ? i : i - 1) & 1);
        asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _,[%0];" ::"r"(ra) : "memory");
      } break;
    case 11:  // the same with st.async, which brings its own bytes
      if (t == 0) for (int i = 0; i < p.turns; i++) {
        if (rank != 0) expect(at(&a), 4);
        if (i == 0 && rank == 0) { asm volatile("nanosleep.u32 2000;"); }
        if (rank != 0 || i) wait(at(&a), (rank ? i : i - 1) & 1);
        if (rank == 0) expect(at(&a), 4);
        asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0],%1,[%2];" :: "r"(rs), "r"(i), "r"(ra) : "memory");
      } break;
    case 12:  // bulk copies to the next block's shared memory, one after another
      for (int i = 0; i < p.turns; i++) {
        if (t == 0) expect(at(&a), p.bytes);
        __syncthreads(); sync_relaxed();
        if (i == 1 && t == 0) t0 = clock64();
        ll c = clock64();
        if (t == 0) asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0],[%1],%2,[%3];" ::"r"(rs + 32768), "r"(s), "r"(p.bytes), "r"(ra) : "memory");
        wait(at(&a), i & 1);
        x += clock64() - c;
      } break;
    case 13:  // multicast from block 0 to all: cycles from after a barrier to the bytes' being there
    case 14:  // the same bytes by a copy of block 0 to itself
    case 15:  // each block copies for itself
      for (int i = 0; i < p.turns; i++) {
        bool mine = p.what != 14 || rank == 0;
        if (t == 0 && mine) expect(at(&a), p.bytes);
        __syncthreads(); sync_relaxed();
        ll c = clock64();
        if (t == 0 && (rank == 0 || p.what == 15)) {
          const char* g = p.g + (p.what == 15 ? (blockIdx.x & 127) * 65536 : (blockIdx.x / size & 127) * 65536);
          if (p.what == 13) asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0],[%1],%2,[%3],%4;" ::"r"(s), "l"(g), "r"(p.bytes), "r"(at(&a)), "h"((unsigned short)((1 << size) - 1)) : "memory");
          else asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0],[%1],%2,[%3];" ::"r"(s), "l"(g), "r"(p.bytes), "r"(at(&a)) : "memory");
        }
        if (mine) wait(at(&a), i & 1);
        x += clock64() - c;
      } break;
    case 16: {  // a stream of 32 KiB stages: each block multicasts its share to all, two stages under way
      int share = 32768 / size;
      u32 bar[2] = {at(&a), at(&b)};
      unsigned short mask = (1 << size) - 1;
      for (int i = 0; i < p.turns + 1; i++) {
        if (i < p.turns) {
          if (t == 0) expect(bar[i & 1], 32768);
          sync_relaxed();
          const char* g = p.g + (size_t)(blockIdx.x / size & 127) * 131072 + (i & 3) * 32768 + rank * share;
          if (t == 0) asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0],[%1],%2,[%3],%4;" ::"r"(s + (i & 1) * 32768 + rank * share), "l"(g), "r"(share), "r"(bar[i & 1]), "h"(mask) : "memory");
        }
        if (i) wait(bar[(i - 1) & 1], ((i - 1) >> 1) & 1);
      } break; }
    case 17: {  // the same bytes without multicast
      u32 bar[2] = {at(&a), at(&b)};
      for (int i = 0; i < p.turns + 1; i++) {
        if (i < p.turns) {
          if (t == 0) expect(bar[i & 1], 32768);
          sync_relaxed();
          const char* g = p.g + (size_t)(blockIdx.x / size & 127) * 131072 + (i & 3) * 32768;
          if (t == 0) asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0],[%1],%2,[%3];" ::"r"(s + (i & 1) * 32768), "l"(g), "r"(32768), "r"(bar[i & 1]) : "memory");
        }
        if (i) wait(bar[(i - 1) & 1], ((i - 1) >> 1) & 1);
      } break; }
    case 18:  // TMA reductions of float32, each block on lines of its own; 19: on the same; 20: stores
    case 19:
    case 20:
      if (t == 0) {
        char* g = p.out + (p.what == 19 ? 0 : (size_t)blockIdx.x * 65536);
        for (int i = 0; i < p.turns; i++) {
          if (p.what == 20) asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0],[%1],%2;" ::"l"(g), "r"(s), "r"(p.bytes) : "memory");
          else asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0],[%1],%2;" ::"l"(g), "r"(s), "r"(p.bytes) : "memory");
          asm volatile("cp.async.bulk.commit_group;" ::: "memory");
          if (p.active == 1) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
          else asm volatile("cp.async.bulk.wait_group 4;" ::: "memory");
        }
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
      } break;
    case 21:  // a copy past the registers, its wait by groups; 22: by an mbarrier
    case 22:
      if (t == 0) for (int i = 0; i < p.turns; i++) {
        asm volatile("cp.async.cg.shared.global [%0],[%1],16;" ::"r"(s), "l"(p.g + (i & 511) * 128) : "memory");
        if (p.what == 21) asm volatile("cp.async.wait_all;" ::: "memory");
        else { asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(at(&a)) : "memory"); wait(at(&a), i & 1); }
      } break;
  }
  ll t1 = clock64();
  sync_release();
  if (t == 0) {
    u32 sm; asm volatile("mov.u32 %0,%%smid;" : "=r"(sm));
    result[blockIdx.x * 3] = p.what >= 12 && p.what <= 15 ? (ll)x : t1 - t0;
    result[blockIdx.x * 3 + 1] = sm;
    result[blockIdx.x * 3 + 2] = rank;
  }
  if (x == 12345678) result[0] = x;
}
__global__ void empty(int n) {}
static ll h[132 * 3 * 16]; static ll* d; static char *g, *o;
static void run(int blocks, int size, int threads, Args p, int shared = 65536 + 1024) {
  p.g = g; p.out = o;
  cudaLaunchConfig_t cfg = {}; cfg.gridDim = blocks; cfg.blockDim = threads; cfg.dynamicSmemBytes = shared;
  cudaLaunchAttribute attr[1]; attr[0].id = cudaLaunchAttributeClusterDimension; attr[0].val.clusterDim.x = size; attr[0].val.clusterDim.y = attr[0].val.clusterDim.z = 1;
  cfg.attrs = attr; cfg.numAttrs = 1;
  for (int r = 0; r < 2; r++) { CK(cudaLaunchKernelEx(&cfg, bench, p, d)); CK(cudaDeviceSynchronize()); }
  CK(cudaMemcpy(h, d, blocks * 24, cudaMemcpyDeviceToHost));
}
static double mean(int n, int of = -1) { double s = 0; int k = 0; for (int i = 0; i < n; i++) if (of < 0 || (int)h[i * 3 + 2] < of) { s += h[i * 3]; k++; } return s / k; }
static void row(const char* k, int blocks, int size, int threads, int bytes, int active, double cycles) {
  printf("{\"k\":\"%s\",\"blocks\":%d,\"cluster\":%d,\"threads\":%d,\"bytes\":%d,\"active\":%d,\"cycles\":%.1f}\n", k, blocks, size, threads, bytes, active, cycles); fflush(stdout);
}
int main(int argc, char** argv) {
  int only = argc > 1 ? atoi(argv[1]) : -1;
  CK(cudaMalloc(&d, sizeof(h))); CK(cudaMalloc(&g, 64 << 20)); CK(cudaMalloc(&o, 64 << 20)); CK(cudaMemset(g, 0, 64 << 20)); CK(cudaMemset(o, 0, 64 << 20));
  CK(cudaFuncSetAttribute(bench, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 * 1024));
  CK(cudaFuncSetAttribute(bench, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  if (only >= 0) { run(128, 2, 32, {only, 16384, 64, 8}); return 0; }
  for (int shared : {1024, 100 * 1024, 200 * 1024}) for (int size : {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16}) {
    cudaLaunchConfig_t cfg = {}; cfg.gridDim = size; cfg.blockDim = 128; cfg.dynamicSmemBytes = shared;
    cudaLaunchAttribute attr[1]; attr[0].id = cudaLaunchAttributeClusterDimension; attr[0].val.clusterDim.x = size; attr[0].val.clusterDim.y = attr[0].val.clusterDim.z = 1;
    cfg.attrs = attr; cfg.numAttrs = 1; int n = 0;
    CK(cudaOccupancyMaxActiveClusters(&n, bench, &cfg));
    printf("{\"k\":\"max_active_clusters\",\"cluster\":%d,\"shared\":%d,\"clusters\":%d}\n", size, shared, n);
  }
  for (int size : {1, 2, 3, 4, 6, 8, 16}) {
    int n = size == 16 ? 112 : size == 8 ? 120 : size == 6 ? 102 : size == 3 ? 117 : 120;
    run(n, size, 32, {0, 0, 4, 8}, 200 * 1024);
    printf("{\"k\":\"place\",\"cluster\":%d,\"sm\":[", size);
    for (int i = 0; i < n; i++) printf("%s%lld", i ? "," : "", h[i * 3 + 1]);
    printf("]}\n"); fflush(stdout);
  }
  cudaEvent_t e0, e1; CK(cudaEventCreate(&e0)); CK(cudaEventCreate(&e1));
  for (int blocks : {128, 8192}) for (int size : {1, 2, 4, 8}) {  // empty blocks: what starting them takes
    cudaLaunchConfig_t cfg = {}; cfg.gridDim = blocks; cfg.blockDim = 32; cfg.dynamicSmemBytes = 1024;
    cudaLaunchAttribute attr[1]; attr[0].id = cudaLaunchAttributeClusterDimension; attr[0].val.clusterDim.x = size; attr[0].val.clusterDim.y = attr[0].val.clusterDim.z = 1;
    cfg.attrs = attr; cfg.numAttrs = 1;
    CK(cudaEventRecord(e0));
    for (int r = 0; r < 20; r++) CK(cudaLaunchKernelEx(&cfg, empty, 0));
    CK(cudaEventRecord(e1)); CK(cudaDeviceSynchronize());
    float ms; CK(cudaEventElapsedTime(&ms, e0, e1));
    printf("{\"k\":\"empty_blocks\",\"blocks\":%d,\"cluster\":%d,\"us\":%.3f}\n", blocks, size, ms * 1000 / 20); fflush(stdout);
  }
  const int T = 256;
  for (int size : {1, 2, 4, 8, 16}) for (int threads : {32, 256, 1024}) {
    run(size, size, threads, {0, 0, T, 16}); row("barrier_relaxed", size, size, threads, 0, size, mean(size) / T);
    run(size, size, threads, {1, 0, T, 16}); row("barrier_release", size, size, threads, 0, size, mean(size) / T);
    if (size < 3) { run(size, size, threads, {2, 0, T, 16}); row("fence_cluster", size, size, threads, 0, size, mean(size) / T); }
  }
  for (int blocks : {0, 128}) for (int size : {2, 4, 8}) for (int active : {1, 8}) for (int threads : {32, 128, 512, 1024}) {
    int n = blocks ? blocks : size, some = std::min(active, size);
    const char* names[] = {"load_4", "load_16", "store_4", "store_16"};
    for (int k = 0; k < 4; k++) { run(n, size, threads, {3 + k, 0, 64, active}); row(names[k], n, size, threads, k & 1 ? 16 : 4, some, mean(n, some) / 64 / 8); }
    run(n, size, threads, {8, 0, 64, active}); row("red_4", n, size, threads, 4, some, mean(n, some) / 64 / 8);
  }
  for (int size : {2, 4, 8, 16}) {
    run(size, size, 32, {7, 0, T, 1}); row("atomic_chain", size, size, 32, 4, 1, mean(size, 1) / T);
    run(size, size, 32, {9, 0, T, 16}); row("arrive_relaxed_ring", size, size, 32, 0, size, mean(size) / T);
    run(size, size, 32, {10, 0, T, 16}); row("arrive_release_ring", size, size, 32, 0, size, mean(size) / T);
    run(size, size, 32, {11, 0, T, 16}); row("st_async_ring", size, size, 32, 4, size, mean(size) / T);
    for (int bytes : {16, 256, 1024, 4096, 16384, 32768}) { run(size, size, 32, {12, bytes, 64, 16}); row("bulk_shared", size, size, 32, bytes, size, mean(size) / 64); }
  }
  for (int blocks : {0, 128}) for (int size : {1, 2, 4, 8}) for (int bytes : {128, 1024, 4096, 16384, 32768}) {
    int n = blocks ? blocks : size;
    run(n, size, 32, {13, bytes, 64, 16}); row("multicast", n, size, 32, bytes, size, mean(n) / 64);
    run(n, size, 32, {14, bytes, 64, 16}); row("copy_one", n, size, 32, bytes, 1, mean(n, 1) / 64);
    run(n, size, 32, {15, bytes, 64, 16}); row("copy_each", n, size, 32, bytes, size, mean(n) / 64);
  }
  for (int size : {1, 2, 4, 8}) for (int blocks : {size, 128}) {
    run(blocks, size, 32, {16, 32768, 128, 16}); row("multicast_stream", blocks, size, 32, 32768, size, mean(blocks) / 128);
    run(blocks, size, 32, {17, 32768, 128, 16}); row("copy_stream", blocks, size, 32, 32768, size, mean(blocks) / 128);
  }
  for (int blocks : {1, 132}) for (int bytes : {128, 1024, 4096, 16384}) for (int active : {1, 8}) {
    const char* names[] = {"tma_reduce_own", "tma_reduce_same", "tma_store_own"};
    for (int k = 0; k < 3; k++) { run(blocks, 1, 32, {18 + k, bytes, 64, active}); row(names[k], blocks, 1, 32, bytes, active, mean(blocks) / 64); }
  }
  run(1, 1, 32, {21, 16, 256, 1}); row("cp_async_wait_all", 1, 1, 32, 16, 1, mean(1) / 256);
  run(1, 1, 32, {22, 16, 256, 1}); row("cp_async_mbarrier", 1, 1, 32, 16, 1, mean(1) / 256);
  return 0;
}
