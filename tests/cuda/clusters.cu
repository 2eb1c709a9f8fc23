// Kernels of thread block clusters for tests, as the compiler makes them.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
typedef unsigned u32;
#define D __device__ __forceinline__
D u32 at(const void* p) { return (u32)__cvta_generic_to_shared(p); }
D u32 mapa(u32 a, u32 r) { u32 x; asm volatile("mapa.shared::cluster.u32 %0,%1,%2;" : "=r"(x) : "r"(a), "r"(r)); return x; }
D void init(u32 m, int n) { asm volatile("mbarrier.init.shared::cta.b64 [%0],%1;" ::"r"(m), "r"(n)); }
D void expect(u32 m, int b) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _,[%0],%1;" ::"r"(m), "r"(b) : "memory"); }
D void wait(u32 m, int ph) { asm volatile("{.reg .pred p; L: mbarrier.try_wait.parity.shared::cta.b64 p,[%0],%1; @p bra D; bra L; D: }" ::"r"(m), "r"(ph) : "memory"); }

extern "C" __global__ void __cluster_dims__(4, 1, 1) histogram(int n, const int* x, int* out) {
  __shared__ int bins[64];
  auto cluster = cg::this_cluster();
  for (int i = threadIdx.x; i < 64; i += blockDim.x) bins[i] = 0;
  cluster.sync();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    int v = x[i];
    atomicAdd(cluster.map_shared_rank(bins, v >> 6) + (v & 63), 1);
  }
  cluster.sync();
  for (int i = threadIdx.x; i < 64; i += blockDim.x) atomicAdd(out + cluster.block_rank() * 64 + i, bins[i]);
}

extern "C" __global__ void places(u32* out) {
  auto cluster = cg::this_cluster();
  u32 v[6] = {cluster.block_rank(), cluster.num_blocks(), cluster.block_index().x, cluster.block_index().y};
  asm volatile("mov.u32 %0,%%clusterid.x;" : "=r"(v[4]));
  asm volatile("mov.u32 %0,%%nclusterid.y;" : "=r"(v[5]));
  if (threadIdx.x == 0) for (int i = 0; i < 6; i++) out[(blockIdx.y * gridDim.x + blockIdx.x) * 6 + i] = v[i];
}

// Each block sends its 32 numbers to the next: by stores that count their bytes (0), by adding (1), by a bulk copy (2).
extern "C" __global__ void send(int what, const int* x, int* y) {
  __shared__ __align__(128) int mine[32], there[32];
  __shared__ __align__(8) unsigned long long bar;
  auto cluster = cg::this_cluster();
  int t = threadIdx.x;
  u32 next = (cluster.block_rank() + 1) % cluster.num_blocks();
  mine[t] = x[blockIdx.x * 32 + t]; there[t] = what == 1 ? 100 : 0;
  if (t == 0) { init(at(&bar), 1); expect(at(&bar), 128); asm volatile("fence.mbarrier_init.release.cluster; fence.proxy.async;"); }
  cluster.sync();
  u32 to = mapa(at(there), next), done = mapa(at(&bar), next);
  if (what == 0) asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0],%1,[%2];" ::"r"(to + 4 * t), "r"(mine[t]), "r"(done) : "memory");
  if (what == 1) asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%0],%1,[%2];" ::"r"(to + 4 * t), "r"(mine[t]), "r"(done) : "memory");
  if (what == 2 && t == 0) asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0],[%1],%2,[%3];" ::"r"(to), "r"(at(mine)), "r"(128), "r"(done) : "memory");
  wait(at(&bar), 0);
  y[blockIdx.x * 32 + t] = there[t];
  cluster.sync();
}

// The first block of a cluster copies 512 bytes to all; each adds them to its place of `out`, as float32 by TMA.
extern "C" __global__ void share(const float* g, float* out) {
  __shared__ __align__(128) float box[128];
  __shared__ __align__(8) unsigned long long bar;
  auto cluster = cg::this_cluster();
  if (threadIdx.x == 0) { init(at(&bar), 1); expect(at(&bar), 512); asm volatile("fence.mbarrier_init.release.cluster; fence.proxy.async;"); }
  cluster.sync();
  unsigned short mask = (1 << cluster.num_blocks()) - 1;
  if (threadIdx.x == 0 && cluster.block_rank() == 0)
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0],[%1],%2,[%3],%4;" ::"r"(at(box)), "l"(g + blockIdx.x / cluster.num_blocks() * 128), "r"(512), "r"(at(&bar)), "h"(mask) : "memory");
  wait(at(&bar), 0);
  if (threadIdx.x == 0) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0],[%1],%2;" ::"l"(out), "r"(at(box)), "r"(512) : "memory");
    asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
  }
  cluster.sync();
}

// Copies past the registers that an mbarrier waits for: each thread's arrival is counted before (0) or expected (1).
extern "C" __global__ void copies(int expected, const int* x, int* y) {
  __shared__ __align__(16) int box[128];
  __shared__ __align__(8) unsigned long long bar;
  int t = threadIdx.x;
  if (t == 0) init(at(&bar), expected ? 32 : 1);
  __syncthreads();
  for (int k = 0; k < 2; k++) {
    asm volatile("cp.async.ca.shared.global [%0],[%1],8;" ::"r"(at(box + 4 * t + 2 * k)), "l"(x + 4 * (blockIdx.x * 32 + t) + 2 * k) : "memory");
    if (k && expected) asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(at(&bar)) : "memory");
    if (k && !expected) asm volatile("cp.async.mbarrier.arrive.shared.b64 [%0];" ::"r"(at(&bar)) : "memory");
  }
  if (!expected) { __syncwarp(); if (t == 0) asm volatile("mbarrier.arrive.shared.b64 _,[%0];" ::"r"(at(&bar)) : "memory"); }
  wait(at(&bar), 0);
  for (int k = 0; k < 4; k++) y[4 * (blockIdx.x * 32 + t) + k] = box[4 * ((t + 1) % 32) + k];
}
