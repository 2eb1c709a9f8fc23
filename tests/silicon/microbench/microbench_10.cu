// What lies between the SMs and L2: loads that are joined, near and far partitions, the way between them, partly written
// sectors. Build: nvcc -O3 -gencode arch=compute_90a,code=sm_90a -o microbench_10 microbench_10.cu. Prints one JSON object
// a line. The `stream` rows, and the counts of `rows16`, are of `ncu --cache-control none microbench_10 counts`, a launch
// each.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <vector>
#include <cuda_runtime.h>
#define CK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%s line %d\n", cudaGetErrorString(e), __LINE__); exit(1); } } while (0)
typedef long long ll;
typedef uint32_t u32;
#define D __device__ __forceinline__
D u32 at(const void* p) { return (u32)__cvta_generic_to_shared(p); }
D u32 smid() { u32 s; asm volatile("mov.u32 %0,%%smid;" : "=r"(s)); return s; }
D u32 rank_() { u32 r; asm volatile("mov.u32 %0,%%cluster_ctarank;" : "=r"(r)); return r; }
D void cluster_sync() { asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory"); }
D void init(u32 m) { asm volatile("mbarrier.init.shared.b64 [%0],1;" ::"r"(m)); }
D void wait(u32 m, u32 p) { asm volatile("{.reg .pred p; L: mbarrier.try_wait.parity.shared.b64 p,[%0],%1; @!p bra L;}" ::"r"(m), "r"(p) : "memory"); }
D void bulk(u32 s, const void* g, u32 n, u32 m) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _,[%0],%1;" ::"r"(m), "r"(n) : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0],[%1],%2,[%3];" ::"r"(s), "l"(g), "r"(n), "r"(m) : "memory");
}
D uint4 load(const uint4* p) {  // past L1
  uint4 v;
  asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3},[%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
  return v;
}
D void fold(uint4& s, uint4 v) { s.x ^= v.x; s.y ^= v.y; s.z ^= v.z; s.w ^= v.w; }

// Block r of a cluster, whose blocks share a GPC, asks for line i at i * PERIOD + r * delay. result[r]: mean latency.
constexpr int PERIOD = 6000, TURNS = 40;
__global__ void delayed(const char* g, int delay, int bytes, ll stride, float* result) {
  extern __shared__ __align__(128) char smem[];
  __shared__ uint64_t bar;
  u32 rank = rank_();
  if (threadIdx.x == 0) init(at(&bar));
  __syncthreads();
  cluster_sync();
  ll start = clock64(), sum = 0;
  if (threadIdx.x == 0)
    for (int i = 0; i < TURNS; i++) {
      ll due = start + 2000 + (ll)i * PERIOD + rank * delay;
      while (clock64() < due) {}
      ll t0 = clock64();
      const char* p = g + i * stride;
      if (bytes == 4) {
        int v;
        asm volatile("ld.global.cg.u32 %0,[%1];" : "=r"(v) : "l"(p) : "memory");
        asm volatile("st.shared.u32 [%0],%1;" ::"r"(at(smem)), "r"(v) : "memory");
        ll t1 = clock64() + (v & 0);
        sum += t1 - t0;
      } else {
        bulk(at(smem), p, bytes, at(&bar));
        wait(at(&bar), i & 1);
        sum += clock64() - t0;
      }
    }
  if (threadIdx.x == 0) result[rank] = (float)sum / TURNS;
  cluster_sync();
}

// Every SM reads `tiles` tiles of 16 KiB of stream (SM mod streams), `stages` in flight, none sooner than `pace` cycles after
// the one before; SMs start up to `spread` cycles apart.
__global__ void stream(const char* g, int tiles, int streams, int stages, int pace, int spread, float* sink) {
  extern __shared__ __align__(128) char smem[];
  __shared__ uint64_t bar[8];
  u32 sm = smid();
  if (threadIdx.x) return;
  for (int s = 0; s < stages; s++) init(at(&bar[s]));
  asm volatile("fence.mbarrier_init.release.cluster;");
  ll start = clock64();
  u32 h = sm * 2654435761u;
  h ^= h >> 15;
  while (spread && clock64() - start < 3000 + h % spread) {}
  const char* p = g + (ll)(sm % streams) * tiles * 16384;
  for (int i = 0; i < stages && i < tiles; i++) bulk(at(smem) + i * 16384, p + (ll)i * 16384, 16384, at(&bar[i]));
  ll last = clock64();
  for (int i = 0; i < tiles; i++) {
    int s = i % stages;
    wait(at(&bar[s]), (i / stages) & 1);
    while (clock64() - last < pace) {}
    last = clock64();
    if (i + stages < tiles) bulk(at(smem) + s * 16384, p + (ll)(i + stages) * 16384, 16384, at(&bar[s]));
  }
  if (sink && smem[0] == 77) sink[0] = 1;
}

__global__ void wr(uint4* p, size_t n) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) p[i] = make_uint4(i, i, i, i);
}

// All SMs read n pieces of 16 bytes; block b what block b + shift wrote. t01: SM, first and last clock of each block.
__global__ void rd(const uint4* p, size_t n, int shift, uint4* sink, ll* t01) {
  ll t0 = clock64();
  uint4 s = make_uint4(0, 0, 0, 0);
  size_t t = (size_t)gridDim.x * blockDim.x, first = (blockIdx.x * (size_t)blockDim.x + threadIdx.x + shift * 1024) % t;
  #pragma unroll 8
  for (size_t i = first; i < n; i += t) fold(s, load(p + i));
  if (s.x == 0x12345678 && s.y == 77) sink[0] = s;
  __syncthreads();
  if (threadIdx.x == 0) { t01[3 * blockIdx.x] = smid(); t01[3 * blockIdx.x + 1] = t0; t01[3 * blockIdx.x + 2] = clock64(); }
}

// Latency of an atomic, which is done where the line's home is: which SMs are near it.
__global__ void near_or_far(int* p, ll* out) {
  extern __shared__ int pad[];
  if (threadIdx.x) return;
  ll t = 0;
  for (int i = 0; i < 64; i++) {
    ll t0 = clock64();
    int v = atomicAdd(p, 0);
    t0 -= v & 0; asm volatile("" ::"r"(v)); pad[0] = v;
    t += clock64() - t0;
    __nanosleep(200 + 37 * (smid() & 31));
  }
  out[smid()] = t / 64;
}

// `count` SMs, those with a rank, read or write n pieces of 16 bytes between them.
__global__ void part(uint4* p, size_t n, const int* rank, int count, int store, uint4* sink, ll* out) {
  extern __shared__ int pad[];
  int r = rank[smid()];
  if (r < 0) return;
  __syncthreads();
  ll t0 = clock64();
  uint4 s = make_uint4(0, 0, 0, 0);
  size_t t = (size_t)count * blockDim.x;
  if (store) for (size_t i = (size_t)r * blockDim.x + threadIdx.x; i < n; i += t) p[i] = make_uint4(i, 1, 2, 3);
  else {
    #pragma unroll 8
    for (size_t i = (size_t)r * blockDim.x + threadIdx.x; i < n; i += t) fold(s, load(p + i));
    if (s.x == 0x12345678 && s.y == 77) sink[0] = s;
  }
  __syncthreads();
  if (threadIdx.x == 0) out[smid()] = clock64() - t0;
}

// A store of 8 rows of 16 * WIDE bytes, as in the epilogue of a product; `step` bytes on each time; a warp has its own rows.
template <int WIDE> __global__ void rows16(char* p, int step, int iters, int span, ll* out) {
  unsigned lane = threadIdx.x & 31, w = threadIdx.x >> 5, nw = blockDim.x >> 5;
  char* row = p + ((size_t)(blockIdx.x * nw + w) * 8 + (lane >> 2)) * 4096 + (lane & 3) * 4 * WIDE;
  __syncthreads();
  ll t0 = clock64();
  for (int i = 0; i < iters; i++) {
    #pragma unroll
    for (int u = 0; u < 8; u++) {
      char* q = row + (((i * 8 + u) * step) & (span - 1));
      if (WIDE == 1) asm volatile("st.global.u32 [%0],%1;" ::"l"(q), "r"(i));
      if (WIDE == 2) asm volatile("st.global.v2.u32 [%0],{%1,%1};" ::"l"(q), "r"(i));
      if (WIDE == 4) asm volatile("st.global.v4.u32 [%0],{%1,%1,%1,%1};" ::"l"(q), "r"(i));
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = clock64() - t0;
}

static char* g;
static void* d;
static void list(const char* name, const char* format, const std::vector<double>& values) {
  printf("\"%s\":[", name);
  for (size_t i = 0; i < values.size(); i++) { if (i) printf(","); printf(format, values[i]); }
  printf("]}\n"); fflush(stdout);
}
static void joined() {
  CK(cudaFuncSetAttribute(delayed, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  float h[16];
  for (int size : {2, 4, 16}) for (int bytes : {4, 128, 16384}) for (int cold = 0; cold < 2; cold++)
    for (int delay : {0, 10, 20, 40, 60, 80, 100, 120, 140, 160, 180, 200, 220, 240, 260, 280, 300, 340, 400, 500, 600, 800}) {
      if ((size > 2 && delay * (size - 1) > PERIOD - 2000) || (size == 4 && cold)) continue;
      cudaLaunchConfig_t cfg = {}; cfg.gridDim = size; cfg.blockDim = 32; cfg.dynamicSmemBytes = 16384 + 128;
      cudaLaunchAttribute attr[1]; attr[0].id = cudaLaunchAttributeClusterDimension; attr[0].val.clusterDim.x = size; attr[0].val.clusterDim.y = attr[0].val.clusterDim.z = 1;
      cfg.attrs = attr; cfg.numAttrs = 1;
      ll stride = 16384 + 128 * 7;
      if (cold) CK(cudaMemset(g + (64 << 20), 2, 192 << 20));
      else CK(cudaLaunchKernelEx(&cfg, delayed, (const char*)g, delay, bytes, stride, (float*)d));
      CK(cudaLaunchKernelEx(&cfg, delayed, (const char*)g, delay, bytes, stride, (float*)d));
      CK(cudaMemcpy(h, d, sizeof(float) * size, cudaMemcpyDeviceToHost));
      printf("{\"k\":\"joined\",\"cluster\":%d,\"bytes\":%d,\"cold\":%d,\"delay\":%d,", size, bytes, cold, delay);
      list("latency", "%.1f", {h, h + size});
    }
}
static void streams_for_counts() {
  CK(cudaFuncSetAttribute(stream, cudaFuncAttributeMaxDynamicSharedMemorySize, 8 * 16384));
  for (int streams : {1, 4, 16}) for (int stages : {2, 4, 8}) for (int pace : {0, 200, 300}) for (int spread : {0, 200, 800, 3000})
    stream<<<132, 32, stages * 16384>>>(g, 256, streams, stages, pace, spread, nullptr);
  CK(cudaDeviceSynchronize());
}
static void reread() {
  static ll h[3 * 264];
  uint4* b = (uint4*)g;
  for (int rep = 0; rep < 3; rep++) for (int mb : {2, 4, 8, 12, 16, 20, 24}) {
    size_t n = (size_t)mb * 65536;
    wr<<<264, 1024>>>(b, n);
    const char* what[] = {"after a write", "again", "other SMs", "once more", "far SMs", "far once more"};
    int shift[] = {0, 0, 1, 1, 37, 37};
    for (int k = 0; k < 6; k++) {
      rd<<<264, 1024>>>(b, n, shift[k], b + (3 << 20), (ll*)d);
      CK(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost));
      std::map<ll, std::pair<ll, ll>> sms;  // first and last clock of each
      for (int i = 0; i < 264; i++) {
        auto& s = sms.insert({h[3 * i], {h[3 * i + 1], h[3 * i + 2]}}).first->second;
        s = {std::min(s.first, h[3 * i + 1]), std::max(s.second, h[3 * i + 2])};
      }
      ll mx = 0, sum = 0;
      for (auto& s : sms) { ll t = s.second.second - s.second.first; mx = std::max(mx, t); sum += t; }
      printf("{\"k\":\"reread\",\"mib\":%d,\"what\":\"%s\",\"max\":%lld,\"mean\":%.0f}\n", mb, what[k], mx, (double)sum / sms.size()); fflush(stdout);
    }
  }
}
static void near_and_across() {
  int *line, *r;
  uint4* b = (uint4*)g;
  std::vector<ll> h(132);
  CK(cudaMalloc(&line, 1 << 20)); CK(cudaMemset(line, 0, 1 << 20)); CK(cudaMalloc(&r, 2 * 132 * 4));
  CK(cudaFuncSetAttribute(near_or_far, cudaFuncAttributeMaxDynamicSharedMemorySize, 200000));
  CK(cudaFuncSetAttribute(part, cudaFuncAttributeMaxDynamicSharedMemorySize, 200000));
  for (int k = 0; k < 2; k++) near_or_far<<<132, 32, 200000>>>(line, (ll*)d);
  CK(cudaMemcpy(h.data(), d, 132 * 8, cudaMemcpyDeviceToHost));
  printf("{\"k\":\"near_or_far\","); list("latency", "%.0f", {h.begin(), h.end()});
  ll cut = (*std::min_element(h.begin(), h.end()) + *std::max_element(h.begin(), h.end())) / 2;
  std::vector<int> rank(264, -1); int n[2] = {0, 0};  // of the SMs of either partition, by SM
  for (int i = 0; i < 132; i++) { int c = h[i] > cut; rank[132 * c + i] = n[c]++; }
  CK(cudaMemcpy(r, rank.data(), 264 * 4, cudaMemcpyHostToDevice));
  for (int rep = 0; rep < 2; rep++) for (int side = 0; side < 2; side++) for (int mb : {2, 4, 8, 12, 16, 20}) {
    const char* what[] = {"write there", "read here", "read here again", "read there", "read here once more"};
    int who[] = {1 - side, side, side, 1 - side, side};
    for (int k = 0; k < 5; k++) {
      CK(cudaMemset(d, 0, 132 * 8));
      part<<<132, 1024, 150000>>>(b, (size_t)mb * 65536, r + 132 * who[k], n[who[k]], k == 0, b + (3 << 20), (ll*)d);
      CK(cudaMemcpy(h.data(), d, 132 * 8, cudaMemcpyDeviceToHost));
      ll mx = 0, sum = 0; for (auto v : h) { mx = std::max(mx, v); sum += v; }
      if (rep) printf("{\"k\":\"across\",\"sms\":%d,\"mib\":%d,\"what\":\"%s\",\"max\":%lld,\"mean\":%.0f}\n", n[who[k]], mb, what[k], mx, (double)sum / n[who[k]]);
    }
  }
}
static void rows(bool counts) {
  char* b; CK(cudaMalloc(&b, 512 << 20)); CK(cudaMemset(b, 0, 512 << 20));
  std::vector<ll> h(132);
  for (int warps : {4, 16}) for (int wide : {1, 2, 4}) for (int step : {16, 32, 64, 128}) for (int sms : {1, 132}) {
    if (step < 16 * wide) continue;
    for (int r = 0; r < (counts ? 1 : 3); r++) {
      if (wide == 1) rows16<1><<<sms, 32 * warps>>>(b, step, 64, 4096, (ll*)d);
      if (wide == 2) rows16<2><<<sms, 32 * warps>>>(b, step, 64, 4096, (ll*)d);
      if (wide == 4) rows16<4><<<sms, 32 * warps>>>(b, step, 64, 4096, (ll*)d);
    }
    CK(cudaMemcpy(h.data(), d, sms * 8, cudaMemcpyDeviceToHost));
    double s = 0; for (int i = 0; i < sms; i++) s += h[i];
    if (!counts) printf("{\"k\":\"rows16\",\"warps\":%d,\"bytes\":%d,\"step\":%d,\"sms\":%d,\"cycles_per_store\":%.2f}\n", warps, 16 * wide, step, sms, s / sms / (64.0 * 8 * warps));
  }
  CK(cudaFree(b));
}
int main(int argc, char**) {
  CK(cudaMalloc(&g, 256 << 20)); CK(cudaMemset(g, 1, 256 << 20)); CK(cudaMalloc(&d, 3 * 264 * 8));
  if (argc > 1) { streams_for_counts(); rows(true); return 0; }
  joined(); reread(); near_and_across(); rows(false);
  return 0;
}
