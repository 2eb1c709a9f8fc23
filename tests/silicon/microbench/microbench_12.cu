// What L1 keeps: one warp performs a list of loads and stores, one after another; those that are `asked` are timed.
// Build: nvcc -O3 -arch=sm_90a -o microbench_12 microbench_12.cu
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>
#include <cuda_runtime.h>
#define CK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%d %s\n", __LINE__, cudaGetErrorString(e)); exit(1); } } while (0)
enum { LOAD = 0, STORE = 1, LOAD_1 = 2, LOAD_2 = 3, STORE_1 = 4, LOAD_4TH = 5, LOAD_CG = 6 };
// ops[i]: line (low 16 bits), kind (16..19); times: cycles of each
__global__ void run(const uint4* ops, int n, char* data, uint16_t* times) {
  extern __shared__ uint32_t list[];
  int lane = threadIdx.x;
  for (int i = lane; i < n / 4; i += 32) {
    uint32_t to = (uint32_t)__cvta_generic_to_shared(list + 4 * i);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(ops + i));
  }
  asm volatile("cp.async.wait_all;");
  __syncwarp();
  uint32_t zero = 0;
  for (int i = 0; i < n; i++) {
    uint32_t op = list[i];
    uint32_t kind = op >> 16;
    char* p = data + (size_t)(op & 0xffff) * 128 + zero;
    uint32_t begin, end;
    __syncwarp();
    asm volatile("mov.u32 %0, %%clock;" : "=r"(begin)::"memory");
    if (kind == STORE) asm volatile("st.global.u32 [%0], %1;" ::"l"(p + 4 * lane), "r"(zero) : "memory");
    else if (kind == STORE_1) { if (lane < 8) asm volatile("st.global.u32 [%0], %1;" ::"l"(p + 4 * lane), "r"(zero) : "memory"); }
    else {
      uint32_t v = 0;
      int from = kind == LOAD_4TH ? 24 : 0, to = kind == LOAD_1 ? 8 : kind == LOAD_2 ? 16 : 32;
      if (kind == LOAD_CG) asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(p + 4 * lane) : "memory");
      else if (lane >= from && lane < to) asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(v) : "l"(p + 4 * lane) : "memory");
      zero = __reduce_or_sync(~0u, v);
    }
    asm volatile("mov.u32 %0, %%clock;" : "=r"(end) : "r"(zero) : "memory");
    __syncwarp();
    if (lane == 0) list[i] = (end - begin) + zero;
    __syncwarp();
  }
  for (int i = lane; i < n; i += 32) times[i] = list[i] > 65535 ? 65535 : list[i];
}
struct Ops {
  std::vector<uint32_t> v;
  std::vector<int> asked;
  void add(int line, int kind = LOAD, bool ask = false) { if (ask) asked.push_back(v.size()); v.push_back(line | kind << 16); }
};
uint4* OPS; char* DATA; uint16_t* TIMES;
void go(const std::string& name, int kib, Ops o) {
  while (o.v.size() % 4) o.add(65535 - 64);
  int n = o.v.size();
  if (n * 4 > kib * 1024 - 1024) { fprintf(stderr, "%s: %d ops\n", name.c_str(), n); return; }
  CK(cudaFuncSetAttribute(run, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 * 1024));
  CK(cudaFuncSetAttribute(run, cudaFuncAttributePreferredSharedMemoryCarveout, (kib * 100 + 227) / 228));
  CK(cudaMemcpy(OPS, o.v.data(), n * 4, cudaMemcpyHostToDevice));
  run<<<1, 32, kib * 1024 - 1024>>>(OPS, n, DATA, TIMES);
  CK(cudaDeviceSynchronize());
  std::vector<uint16_t> t(n);
  CK(cudaMemcpy(t.data(), TIMES, n * 2, cudaMemcpyDeviceToHost));
  int count = 0;
  for (int i : o.asked) count += t[i] < 300;  // a hit takes 201 to 215 cycles here, a miss 420 and more
  printf("{\"bench\":\"%s\",\"row\":\"%s\",\"carve_out_kib\":%d,\"asked\":%d,\"hits\":%d}\n",
         name.substr(0, name.find_first_of(" =")).c_str(), name.c_str(), kib == 32 ? 64 : kib == 64 ? 100 : 132, (int)o.asked.size(), count);
}
uint32_t seed = 1;
uint32_t rnd() { seed = seed * 1664525u + 1013904223u; return seed >> 8; }
std::string s(const char* f, int a = 0, int b = 0, int c = 0) { char t[200]; snprintf(t, 200, f, a, b, c); return t; }
int main() {
  CK(cudaMalloc(&OPS, 1 << 20)); CK(cudaMalloc(&DATA, 16 << 20)); CK(cudaMalloc(&TIMES, 1 << 20));
  CK(cudaMemset(DATA, 0, 16 << 20));
  // n lines once, then again from the last to the first
  for (int kib : {32, 64, 100}) {
    int full = (256 - kib) * 8;
    for (int less : {-128, -32, 0, 32, 64, 96, 128, 160, 192, 256}) { int n = full - less; Ops o; for (int i = 0; i < n; i++) o.add(i); for (int i = n - 1; i >= 0; i--) o.add(i, LOAD, true); go(s("reverse n=%d", n), kib, o); }
  }
  // only a fourth of the lines are asked, so that asking disturbs little
  for (int n : {1600, 1792, 2048, 2560, 3456}) for (int k : {0, 1, 2, 3}) { Ops o; for (int i = 0; i < n; i++) o.add(i); for (int i = n - 1 - k; i >= 0; i -= 4) o.add(i, LOAD, true); go(s("sparse n=%d k=%d", n, k), 32, o); }
  // lines of which one sector or two are read: is it lines or sectors that fill L1?
  for (int kind : {LOAD_1, LOAD_2}) for (int n : {1600, 1792, 2048, 3000, 3600}) { Ops o; for (int i = 0; i < n; i++) o.add(i, kind); for (int i = n - 1; i >= 0; i -= 4) o.add(i, kind, true); go(s("sectors kind=%d n=%d", kind, n), 32, o); }
  // loads, then stores of other lines, then the loads again
  for (int m : {640, 768, 896, 1024, 1152, 1280, 1536, 2048}) { Ops o; for (int i = 0; i < 768; i++) o.add(i); for (int i = 0; i < m; i++) o.add(8192 + i, STORE); for (int i = 767; i >= 0; i--) o.add(i, LOAD, true); go(s("stores m=%d", m), 32, o); }
  for (int m : {768, 1024, 1280}) { Ops o; for (int i = 0; i < 768; i++) o.add(i, STORE); for (int i = 0; i < m; i++) o.add(8192 + i, LOAD); for (int i = 767; i >= 0; i--) o.add(i, LOAD, true); go(s("stored_first m=%d", m), 32, o); }
  for (int m : {768, 1024, 1280}) { Ops o; for (int i = 0; i < 768; i++) o.add(i); for (int i = 0; i < m; i++) o.add(8192 + i, STORE_1); for (int i = 767; i >= 0; i--) o.add(i, LOAD, true); go(s("stores_1 m=%d", m), 32, o); }
  for (int m : {768, 1280}) { Ops o; for (int i = 0; i < 768; i++) o.add(i); for (int i = 0; i < m; i++) o.add(8192 + i, LOAD_CG); for (int i = 767; i >= 0; i--) o.add(i, LOAD, true); go(s("loads_cg m=%d", m), 32, o); }
  // the even ones of the first 512 are touched again: do they outlive the odd ones?
  for (int m : {128, 384, 640}) { Ops o; for (int i = 0; i < 1600; i++) o.add(i); for (int i = 0; i < 512; i += 2) o.add(i); for (int i = 0; i < m; i++) o.add(4096 + i); for (int i = 511; i >= 0; i--) o.add(i, LOAD, true); go(s("touched m=%d", m), 32, o); }
  // strides: sets
  for (int stride : {2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}) for (int k : {16, 32, 48, 64}) { Ops o; for (int i = 0; i < k; i++) o.add(i * stride % 65536); for (int i = k - 1; i >= 0; i--) o.add(i * stride % 65536, LOAD, true); go(s("stride=%d k=%d", stride, k), 32, o); }
  for (int stride : {4, 8, 16}) for (int k : {128, 256, 512, 1024}) { Ops o; for (int i = 0; i < k; i++) o.add(i * stride % 65536); for (int i = k - 1; i >= 0; i--) o.add(i * stride % 65536, LOAD, true); go(s("stride=%d k=%d", stride, k), 32, o); }
  // round and round
  for (int n : {1536, 1792, 2048, 2560}) { Ops o; for (int i = 0; i < 7600; i++) o.add(i % n, LOAD, i >= n); go(s("round n=%d", n), 32, o); }
  // at random, all asked: seeds 1, 2; with stores (every third), seed 3; half local, seed 4
  for (int n : {2048, 3072}) for (int k : {1, 2}) { seed = k; Ops o; for (int i = 0; i < 7900; i++) o.add(rnd() % n, LOAD, true); go(s("random n=%d seed=%d", n, k), 32, o); }
  { seed = 3; Ops o; for (int i = 0; i < 7900; i++) { int l = rnd() % 2048; if (i % 3 == 2) o.add(8192 + rnd() % 2048, STORE); else o.add(l, LOAD, true); } go("random_stores n=2048 seed=3", 32, o); }
  { seed = 4; Ops o; for (int i = 0; i < 7900; i++) { int near = rnd() & 1, l = rnd(); o.add(near ? (l % 256 + i / 8 * 4) % 8192 : 8192 + l % 4096, LOAD, true); } go("random_local seed=4", 32, o); }
}
