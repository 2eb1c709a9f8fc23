// Stores and loads of chosen SMs: what those of a TPC, a CPC, a GPC share.
// Build: nvcc -O3 -gencode arch=compute_90a,code=sm_90a -o microbench_17 microbench_17.cu. Prints one JSON object a line.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>
#define CK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%d %s\n", __LINE__, cudaGetErrorString(e)); exit(1); } } while (0)
typedef long long ll;
typedef unsigned u32;
enum { STORE = 1, LOAD = 2, CHASE = 4 };
__device__ __forceinline__ u32 smid() { u32 s; asm volatile("mov.u32 %0,%%smid;" : "=r"(s)); return s; }

// For `span` cycles warps of each SM store (shape 0: 8 rows of 16 bytes an instruction; 1: a line), read lines of their
// own from L2, or follow a chain there, as `role` of the SM says. Counts instructions of each SM.
__global__ void by_sm(const int* role, int shape, int warps, int span, char* out, int* result) {
  extern __shared__ char smem[];
  u32 sm = smid(); int r = role[sm], warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  __shared__ int total; if (threadIdx.x == 0) total = 0; __syncthreads();
  ll end = clock64() + span;
  int n = 0;
  if ((r & STORE) && warp < warps) {
    char* row = out + ((size_t)sm * 8 + warp) * 16 * 4096;
    for (int k = 0; clock64() < end; k++)
      for (int c = 0; c < 16; c++) {
        int b = shape ? ((k * 16 + c) * 128 & 65535) + lane * 4 : (lane >> 2) * 4096 + ((k * 16 + c) * 16 & 4095) + (lane & 3) * 4;
        *(u32*)(row + b) = k; n++;
      }
  } else if ((r & LOAD) && warp < warps) {
    char* row = out + ((size_t)sm * 8 + warp) * 16 * 4096; u32 x = 0;
    for (int k = 0; clock64() < end; k++)
      #pragma unroll
      for (int c = 0; c < 16; c++) { u32 v; asm volatile("ld.global.cg.u32 %0,[%1];" : "=r"(v) : "l"(row + ((k * 16 + c) * 128 & 65535) + lane * 4)); x ^= v; n++; }
    if (x == 0x12345678) n++;
  } else if ((r & CHASE) && warp == 8) {
    char* row = out + (size_t)sm * 8 * 16 * 4096; u32 at = 0;
    for (; clock64() < end; n++) { u32 v; asm volatile("ld.global.cg.u32 %0,[%1];" : "=r"(v) : "l"(row + at)); at = (at + 128 + (v & 0)) & 65535; if (v == 0x12345678) n++; at += v & 1 & 0; asm volatile("" :: "r"(v)); at = at ^ (v & 0); if (v > 0x7fffffff) at ^= 4; }
  }
  if (lane == 0 && n) atomicAdd(&total, n);
  __syncthreads();
  if (threadIdx.x == 0) result[sm] = total;
}
int main() {
  const int span = 40000;
  char* o; int *d, *role; std::vector<int> h(132), rl(132);
  CK(cudaMalloc(&o, (size_t)132 * 8 * 16 * 4096)); CK(cudaMalloc(&d, 132 * 4)); CK(cudaMalloc(&role, 132 * 4));
  CK(cudaMemset(o, 0, (size_t)132 * 8 * 16 * 4096));
  CK(cudaFuncSetAttribute(by_sm, cudaFuncAttributeMaxDynamicSharedMemorySize, 131072));
  auto tpc = [&](int g, int t) { // first SM of TPC t of GPC g, on this card: the numbers run over GPCs first; GPC 0's last four come last
    if (t < 4) return 2 * g + 16 * t; if (t == 8) return 120 + 2 * (g - 6); if (g == 0) return 124 + 2 * (t - 4); return 64 + 2 * (g - 1) + 14 * (t - 4); };
  auto tpcs = [&](int g) { return g < 6 ? 8 : 9; };
  auto go = [&](const char* what, std::vector<int> st, std::vector<int> ld, std::vector<int> ch, int shape, int warps) {
    for (int& x : rl) x = 0; for (int s : st) rl[s] |= STORE; for (int s : ld) rl[s] |= LOAD; for (int s : ch) rl[s] |= CHASE;
    CK(cudaMemcpy(role, rl.data(), 132 * 4, cudaMemcpyHostToDevice));
    for (int r = 0; r < 2; r++) { CK(cudaMemset(d, 0, 132 * 4)); by_sm<<<132, 288, 131072>>>(role, shape, warps, span, o, d); CK(cudaDeviceSynchronize()); }
    CK(cudaMemcpy(h.data(), d, 132 * 4, cudaMemcpyDeviceToHost));
    printf("{\"k\":\"by_sm\",\"what\":\"%s\",\"shape\":%d,\"warps\":%d", what, shape, warps);
    auto list = [&](const char* n, std::vector<int>& v) { if (v.empty()) return; double s = 0; for (int x : v) s += h[x]; printf(",\"%s_sms\":%zu,\"%s_a_kcycle\":%.2f,\"%s\":[", n, v.size(), n, s * 1000 / span / v.size(), n); for (size_t i = 0; i < v.size(); i++) printf("%s%d", i ? "," : "", h[v[i]]); printf("]"); };
    list("store", st); list("load", ld); list("chase", ch); printf("}\n"); fflush(stdout);
  };
  auto set = [&](std::vector<std::pair<int,int>> v, int both = 1) { std::vector<int> r; for (auto p : v) { r.push_back(tpc(p.first, p.second)); if (both) r.push_back(tpc(p.first, p.second) + 1); } return r; };
  auto gpc = [&](std::vector<int> gs) { std::vector<int> r; for (int g : gs) for (int t = 0; t < tpcs(g); t++) { r.push_back(tpc(g, t)); r.push_back(tpc(g, t) + 1); } return r; };
  std::vector<int> none;
  struct S { const char* n; std::vector<int> v; };
  std::vector<S> sets = {
    {"1 SM", set({{1,0}}, 0)}, {"1 TPC", set({{1,0}})}, {"2 TPCs of a CPC", set({{1,0},{1,3}})}, {"CPC of 3", set({{1,0},{1,3},{1,6}})}, {"CPC of 2", set({{1,2},{1,5}})},
    {"3 TPCs of 3 CPCs", set({{1,0},{1,1},{1,2}})}, {"3 TPCs of 3 GPCs", set({{1,0},{2,0},{3,0}})}, {"CPCs of 3 and 3", set({{1,0},{1,3},{1,6},{1,1},{1,4},{1,7}})}, {"CPCs of 3 and 2", set({{1,0},{1,3},{1,6},{1,2},{1,5}})},
    {"an SM of each TPC of GPC 1", set({{1,0},{1,1},{1,2},{1,3},{1,4},{1,5},{1,6},{1,7}}, 0)},
    {"GPC 1", gpc({1})}, {"GPC 6", gpc({6})}, {"GPC 0", gpc({0})}, {"GPCs 1 2", gpc({1,2})}, {"GPCs 1 3", gpc({1,3})}, {"GPCs 1 4", gpc({1,4})}, {"GPCs 1 6", gpc({1,6})}, {"GPCs 1 7", gpc({1,7})},
    {"GPCs 0 1", gpc({0,1})}, {"GPCs 1 5", gpc({1,5})}, {"GPCs 1 2 3 4", gpc({1,2,3,4})}, {"GPCs 0 1 2 3 4 5", gpc({0,1,2,3,4,5})}, {"all", gpc({0,1,2,3,4,5,6,7})}};
  for (auto& s : sets) for (int shape : {0, 1}) for (int w : {2, 8}) go(s.n, s.v, none, none, shape, w);
  for (auto& s : sets) go(s.n, none, s.v, none, 1, 8);
  // one SM follows a chain; others store: its TPC's other SM, its CPC's, its GPC's, other GPCs'
  std::vector<int> c = set({{1,0}}, 0);
  auto without = [&](std::vector<int> v) { std::vector<int> r; for (int x : v) if (x != c[0]) r.push_back(x); return r; };
  std::vector<S> beside = {{"none", none}, {"itself", c}, {"its TPC's other", {c[0] + 1}}, {"its CPC", without(set({{1,0},{1,3},{1,6}}))}, {"CPC of its GPC, of 3", set({{1,1},{1,4},{1,7}})}, {"CPC of its GPC, of 2", set({{1,2},{1,5}})},
    {"other CPCs of its GPC", set({{1,1},{1,4},{1,7},{1,2},{1,5}})}, {"its GPC", without(gpc({1}))}, {"GPC 2", gpc({2})}, {"GPC 3", gpc({3})}, {"other GPCs", gpc({0,2,3,4,5,6,7})}, {"all others", without(gpc({0,1,2,3,4,5,6,7}))}, {"all", gpc({0,1,2,3,4,5,6,7})}};
  for (auto& s : beside) for (int shape : {0, 1}) go(s.n, s.v, none, c, shape, 8);
  // the same beside loads
  for (auto& s : beside) go(s.n, none, s.v, c, 1, 8);
  return 0;
}
