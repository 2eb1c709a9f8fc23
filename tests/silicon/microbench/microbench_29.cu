// The first instructions and constants of a kernel, after the profiler has emptied the caches or another kernel has run.
// Build: nvcc -O3 -gencode arch=compute_90a,code=sm_90a -o microbench_29 microbench_29.cu. Prints one JSON object a line.
// `state` is the program's argument: other_ran, or profiled under
// `ncu --cache-control all --clock-control none --metrics smsp__inst_executed.sum -k regex:first_`. Each row is a launch of
// its own; `mean` holds each warp's clocks less its first, on average, `most` the greatest of each.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>
#define CHECK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%d: %s\n", __LINE__, cudaGetErrorString(e)); exit(1); } } while (0)
constexpr int MOST = 64;  // clocks of a warp
#define F(i) "fma.rn.f32 %" #i ", %" #i ", %8, %8;\n"
#define F5 F(0) F(1) F(2) F(3) F(4)
#define F8 F5 F(5) F(6) F(7)
#define F32 F8 F8 F8 F8
#define K1 F32 F32
#define K2 K1 K1
#define K4 K2 K2
#define K8 K4 K4
#define K16 K8 K8
#define K32 K16 K16
#define K64 K32 K32
#define STAMP "mov.u32 now, %%clock;\nst.volatile.shared.u32 [at], now;\nadd.u32 at, at, 4;\n"
#define LINE F5 STAMP  // a line of 128 bytes
#define LINES8 LINE LINE LINE LINE LINE LINE LINE LINE
// Jumps over so much code, then runs 24 lines straight; then jumps back to what it jumped over.
#define FIRST(name, code) \
  __global__ void name(unsigned* out, float y, int yes) { \
    __shared__ unsigned clocks[16 * MOST]; \
    float x0 = y, x1 = x0 + 1, x2 = x0 + 2, x3 = x0 + 3, x4 = x0 + 4, x5 = x0 + 5, x6 = x0 + 6, x7 = x0 + 7; \
    unsigned warps = blockDim.x / 32, warp = threadIdx.x / 32; \
    unsigned at = (unsigned)__cvta_generic_to_shared(clocks + warp * MOST); \
    asm volatile("{\n.reg .u32 now, at;\n.reg .pred jump;\nmov.u32 at, %9;\nsetp.ne.s32 jump, %10, 0;\n" STAMP \
                 "@jump bra THERE;\n" code "THERE:\n" STAMP LINES8 LINES8 LINES8 "}\n" \
                 : "+f"(x0), "+f"(x1), "+f"(x2), "+f"(x3), "+f"(x4), "+f"(x5), "+f"(x6), "+f"(x7) \
                 : "f"(y), "r"(at), "r"(yes) : "memory"); \
    __syncthreads(); \
    if (x0 + x1 + x2 + x3 + x4 + x5 + x6 + x7 == y) out[0] = 1; \
    for (int i = threadIdx.x % 32; i < MOST; i += 32) out[(blockIdx.x * warps + warp) * MOST + i] = clocks[warp * MOST + i]; \
  }
FIRST(first_jump_1, K1)
FIRST(first_jump_4, K4)
FIRST(first_jump_8, K8)
FIRST(first_jump_16, K16)
FIRST(first_jump_32, K32)
FIRST(first_jump_48, K32 K16)
FIRST(first_jump_56, K32 K16 K8)
FIRST(first_jump_80, K64 K16)
FIRST(first_jump_112, K64 K32 K16)
struct Parameters { unsigned v[960]; };
#define READ(i) "ld.param.u32 p, [first_constants_param_1+" #i "];\nadd.u32 x, x, p;\nmul.lo.u32 x, x, x;\nadd.u32 at, at, 4;\nand.b32 p, x, 0;\nadd.u32 at, at, p;\n" "mov.u32 now, %%clock;\nst.volatile.shared.u32 [at+-4], now;\n"
// Reads parameters, each in a line of its own or not, then the number of blocks.
extern "C" __global__ void first_constants(unsigned* out, const __grid_constant__ Parameters q) {
  __shared__ unsigned clocks[16 * MOST];
  unsigned warps = blockDim.x / 32, warp = threadIdx.x / 32, x = threadIdx.x;
  unsigned at = (unsigned)__cvta_generic_to_shared(clocks + warp * MOST);
  asm volatile("{\n.reg .u32 now, at, x, p;\nmov.u32 at, %1;\nmov.u32 x, %0;\n" STAMP
               READ(0) READ(4) READ(8) READ(56) READ(120) READ(124) READ(184) READ(248) READ(504) READ(508) READ(1016) READ(2040) READ(3064) READ(3068)
               "mov.u32 p, %%nctaid.x;\nadd.u32 x, x, p;\nmul.lo.u32 x, x, x;\nand.b32 p, x, 0;\nadd.u32 at, at, p;\nmov.u32 now, %%clock;\nst.volatile.shared.u32 [at], now;\n"
               "mov.u32 %0, x;}\n" : "+r"(x) : "r"(at) : "memory");
  __syncthreads();
  if (x == 12345) out[0] = 1;
  for (int i = threadIdx.x % 32; i < MOST; i += 32) out[(blockIdx.x * warps + warp) * MOST + i] = clocks[warp * MOST + i];
}
// The same by loads with an index, LDC.
extern "C" __global__ void first_loads(unsigned* out, const __grid_constant__ Parameters q) {
  __shared__ unsigned clocks[16 * MOST];
  unsigned warps = blockDim.x / 32, warp = threadIdx.x / 32, zero, now;
  volatile unsigned* at = clocks + warp * MOST;
#define NOTE(k) asm volatile("mov.u32 %0, %%clock;" : "=r"(now) :: "memory"); at[k] = now;
  at[MOST - 1] = 0;
  zero = at[MOST - 1];
  NOTE(0)
#define LOADED(k, i) zero = q.v[zero + i]; asm volatile("" : "+r"(zero) :: "memory"); NOTE(k)
  LOADED(1, 0) LOADED(2, 1) LOADED(3, 14) LOADED(4, 30) LOADED(5, 31) LOADED(6, 46) LOADED(7, 62) LOADED(8, 126) LOADED(9, 127) LOADED(10, 254) LOADED(11, 510) LOADED(12, 766) LOADED(13, 767)
  __syncthreads();
  if (zero == 12345) out[0] = 1;
  for (int i = threadIdx.x % 32; i < MOST; i += 32) out[(blockIdx.x * warps + warp) * MOST + i] = clocks[warp * MOST + i];
}
__global__ void other(unsigned* p, int n) { if (n == 12345) p[threadIdx.x] = n; }
unsigned* out;
int main(int argc, char** argv) {
  CHECK(cudaMalloc(&out, 132 * 16 * MOST * 4));
  const char* state = argc > 1 ? argv[1] : "other_ran";
  auto row = [&](const char* name, int size, int count, auto launch) {
    for (int blocks : {1, 132}) for (int warps : {1, 4, 12}) for (int repeat = 0; repeat < 4; ++repeat) {
      other<<<132, 32>>>(out, repeat);
      launch(blocks, warps);
      CHECK(cudaDeviceSynchronize());
      if (!repeat) continue;
      std::vector<unsigned> at(blocks * warps * MOST);
      CHECK(cudaMemcpy(at.data(), out, at.size() * 4, cudaMemcpyDeviceToHost));
      printf("\n{\"k\": \"%s\", \"size\": %d, \"state\": \"%s\", \"blocks\": %d, \"warps\": %d, \"mean\": [", name, size, state, blocks, warps);
      for (int i = 0; i < count; ++i) { double sum = 0; for (int w = 0; w < blocks * warps; ++w) sum += at[w * MOST + i] - at[w * MOST]; printf("%s%.0f", i ? ", " : "", sum / (blocks * warps)); }
      printf("], \"most\": [");
      for (int i = 0; i < count; ++i) { unsigned m = 0; for (int w = 0; w < blocks * warps; ++w) m = std::max(m, at[w * MOST + i] - at[w * MOST]); printf("%s%u", i ? ", " : "", m); }
      printf("]}\n");
    }
  };
#define JUMP(kib) row("jump", kib, 26, [](int b, int w) { first_jump_##kib<<<b, w * 32>>>(out, 3.f, 1); });
  JUMP(1) JUMP(4) JUMP(8) JUMP(16) JUMP(32) JUMP(48) JUMP(56) JUMP(80) JUMP(112)
  row("loads", 0, 14, [](int b, int w) { Parameters p = {}; p.v[5] = b; first_loads<<<b, w * 32>>>(out, p); });
  row("constants", 0, 16, [](int b, int w) { Parameters p = {}; p.v[5] = b; first_constants<<<b, w * 32>>>(out, p); });
}
