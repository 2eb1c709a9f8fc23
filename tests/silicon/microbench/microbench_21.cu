// Instruction fetch: straight code, loops and jumps, with what was fetched before near, in L2 or in DRAM.
//   nvcc -O3 -gencode arch=compute_90a,code=sm_90a microbench_21.cu -o microbench_21 && ./microbench_21 > microbench_21.jsonl
// Every warp notes clocks as it goes. A row: what ran, with how many blocks and warps, from which state:
//   again    the same kernel ran before
//   evicted  a loop of 256 KiB ran on all SMs before, so code is in L2
//   flushed  256 MiB were set after that, so code is in DRAM
// `mean` holds each warp's clocks less its first, on average.
#include <cstdio>
#include <cstdlib>
#include <vector>
#define CHECK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)

constexpr int MOST = 128;  // clocks of a warp

#define F(i) "fma.rn.f32 %" #i ", %" #i ", %8, %8;\n"
#define F1 F(0)
#define F5 F(0) F(1) F(2) F(3) F(4)
#define F8 F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7)
#define F16 F8 F8
#define F24 F16 F8
#define F32 F16 F16
#define K1 F32 F32  // a KiB of code: 64 instructions
#define K2 K1 K1
#define K4 K2 K2
#define K8 K4 K4
#define K16 K8 K8
#define K32 K16 K16
#define K64 K32 K32
#define K128 K64 K64
#define STAMP "mov.u32 now, %%clock;\nst.volatile.shared.u32 [at], now;\nadd.u32 at, at, 4;\n"
#define SEGMENT F24 F5 STAMP  // about 512 bytes
#define S4 SEGMENT SEGMENT SEGMENT SEGMENT
#define S16 S4 S4 S4 S4
#define S96 S16 S16 S16 S16 S16 S16
#define JUMP(lines) "{\n@jump bra THERE;\n" lines "THERE:\n" F(0) F(1) "}\n"
#define J4(lines) JUMP(lines) JUMP(lines) JUMP(lines) JUMP(lines)
#define J32(lines) J4(lines) J4(lines) J4(lines) J4(lines) J4(lines) J4(lines) J4(lines) J4(lines)
#define TIMES(n, code) \
  "mov.s32 left, " #n ";\nAGAIN:\n" STAMP "sub.s32 left, left, 1;\n" code "setp.ne.s32 more, left, 0;\n@more bra AGAIN;\n" STAMP

#define KERNEL(name, code, stamps) \
  __global__ void name(unsigned* out, float y, int yes) { \
    extern __shared__ unsigned clocks[]; \
    float x0 = y, x1 = y + 1, x2 = y + 2, x3 = y + 3, x4 = y + 4, x5 = y + 5, x6 = y + 6, x7 = y + 7; \
    unsigned warps = blockDim.x / 32, warp = threadIdx.x / 32; \
    unsigned at = (unsigned)__cvta_generic_to_shared(clocks + warp * MOST); \
    asm volatile("{\n.reg .u32 now, at;\n.reg .s32 left;\n.reg .pred more, jump;\nmov.u32 at, %10;\nsetp.ne.s32 jump, %9, 0;\n" code "}\n" \
                 : "+f"(x0), "+f"(x1), "+f"(x2), "+f"(x3), "+f"(x4), "+f"(x5), "+f"(x6), "+f"(x7) \
                 : "f"(y), "r"(yes), "r"(at) : "memory"); \
    if (x0 + x1 + x2 + x3 + x4 + x5 + x6 + x7 == 12345.678f) out[0] = 1; \
    __syncthreads(); \
    for (int i = threadIdx.x % 32; i < stamps; i += 32) \
      out[(blockIdx.x * warps + warp) * MOST + i] = clocks[warp * MOST + i]; \
  }

KERNEL(straight, STAMP S96, 97)
#define LOOP(kib, code) KERNEL(loop_##kib, TIMES(6, code F32 F16), 7)  // kib less a few instructions
LOOP(2, K1) LOOP(4, K2 K1) LOOP(8, K4 K2 K1) LOOP(12, K8 K2 K1) LOOP(16, K8 K4 K2 K1) LOOP(20, K16 K2 K1)
LOOP(24, K16 K4 K2 K1) LOOP(28, K16 K8 K2 K1) LOOP(32, K16 K8 K4 K2 K1) LOOP(40, K32 K4 K2 K1)
LOOP(48, K32 K8 K4 K2 K1) LOOP(64, K32 K16 K8 K4 K2 K1) LOOP(80, K64 K8 K4 K2 K1) LOOP(96, K64 K16 K8 K4 K2 K1)
LOOP(112, K64 K32 K8 K4 K2 K1) LOOP(120, K64 K32 K16 K4 K2 K1) LOOP(128, K64 K32 K16 K8 K4 K2 K1)
LOOP(136, K128 K4 K2 K1) LOOP(144, K128 K8 K4 K2 K1) LOOP(160, K128 K16 K8 K4 K2 K1) LOOP(192, K128 K32 K16 K8 K4 K2 K1)
LOOP(256, K128 K64 K32 K16 K8 K4 K2 K1)
#define LEAP(lines, code) KERNEL(jump_##lines, TIMES(4, J32(code)), 5)  // 32 jumps of so many lines of 128 bytes
LEAP(2, F8 F5) LEAP(4, F24 F5) LEAP(8, F32 F24 F5) LEAP(12, K1 F24 F5) LEAP(16, K1 F32 F24 F5) LEAP(24, K2 F32 F24 F5)
LEAP(32, K2 K1 F32 F24 F5)

using Kernel = void (*)(unsigned*, float, int);
unsigned* out;
char* big;
constexpr size_t BIG = 256u << 20;

void run(Kernel kernel, int blocks, int warps) {
  kernel<<<blocks, warps * 32, 16 * MOST * 4>>>(out, 1.0f, 1);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
}

void row(const char* name, int size, Kernel kernel, int count) {
  for (const char* state : {"again", "evicted", "flushed"})
    for (int blocks : {1, 132})
      for (int warps : {1, 4, 8, 16})
        for (int repeat = 0; repeat < 2; ++repeat) {
          if (state[0] == 'a') run(kernel, blocks, warps);
          else run(loop_256, 264, 4);
          if (state[0] == 'f') { CHECK(cudaMemset(big, 1, BIG)); CHECK(cudaDeviceSynchronize()); }
          run(kernel, blocks, warps);
          if (!repeat) continue;
          std::vector<unsigned> at(blocks * warps * MOST);
          CHECK(cudaMemcpy(at.data(), out, at.size() * 4, cudaMemcpyDeviceToHost));
          printf("{\"k\": \"%s\", \"size\": %d, \"state\": \"%s\", \"blocks\": %d, \"warps\": %d, \"mean\": [", name, size, state, blocks, warps);
          for (int i = 0; i < count; ++i) {
            double sum = 0;
            for (int w = 0; w < blocks * warps; ++w) sum += at[w * MOST + i] - at[w * MOST];
            printf("%s%.0f", i ? ", " : "", sum / (blocks * warps));
          }
          printf("]}\n");
        }
}

int main() {
  CHECK(cudaMalloc(&out, 264 * 16 * MOST * 4));
  CHECK(cudaMalloc(&big, BIG));
  row("straight", 96, straight, 97);
#define ROW_LOOP(kib) row("loop", kib, loop_##kib, 7);
  ROW_LOOP(2) ROW_LOOP(4) ROW_LOOP(8) ROW_LOOP(12) ROW_LOOP(16) ROW_LOOP(20) ROW_LOOP(24) ROW_LOOP(28) ROW_LOOP(32)
  ROW_LOOP(40) ROW_LOOP(48) ROW_LOOP(64) ROW_LOOP(80) ROW_LOOP(96) ROW_LOOP(112) ROW_LOOP(120) ROW_LOOP(128)
  ROW_LOOP(136) ROW_LOOP(144) ROW_LOOP(160) ROW_LOOP(192) ROW_LOOP(256)
#define ROW_JUMP(lines) row("jump", lines, jump_##lines, 5);
  ROW_JUMP(2) ROW_JUMP(4) ROW_JUMP(8) ROW_JUMP(12) ROW_JUMP(16) ROW_JUMP(24) ROW_JUMP(32)
}
