// What a kernel waits for its first parameter, with every line of constant bank 0 new to the SM since the launch.
//   nvcc -O3 -gencode arch=compute_90a,code=sm_90a microbench_22.cu -o microbench_22 && ./microbench_22 > microbench_22.jsonl
// Every warp notes its clock at the second instruction and after an addition of the parameter. `state`: other_ran, an
// other kernel ran before; flushed, 256 MiB were set before; profiled, rows of other_ran when the program runs under
// `ncu --cache-control all --clock-control none --metrics smsp__inst_executed.sum -k parameter`. Of five launches: the mean of all warps, of the first four
// of each block, the least and the most. Nothing is stored through a descriptor, which is a constant, too.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>
#define CHECK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)
#define NOW(x) asm volatile("mov.u32 %0, %%clock;" : "=r"(x) :: "memory")

extern "C" __global__ void parameter(unsigned long long out, unsigned n) {
  __shared__ __align__(16) unsigned noted[32 * 4];
  unsigned from, to, x, y, thread;
  NOW(from);
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  asm volatile("{.reg .u32 p;\n ld.param.u32 p, [parameter_param_1];\n add.u32 %0, %1, p;\n}" : "=r"(x) : "r"(thread) : "memory");
  asm volatile("mul.lo.u32 %0, %1, %1;" : "=r"(y) : "r"(x) : "memory");
  NOW(to);
  if (thread % 32 == 0) {
    noted[thread / 8] = from;
    noted[thread / 8 + 1] = to;
    noted[thread / 8 + 2] = y;
  }
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  if (thread == 0) {
    unsigned long long to_memory;
    unsigned block, bytes, shared = (unsigned)__cvta_generic_to_shared(noted);
    asm volatile("ld.param.u64 %0, [parameter_param_0];" : "=l"(to_memory) :: "memory");
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
    asm volatile("mov.u32 %0, %%ntid.x;" : "=r"(bytes));
    bytes /= 2;
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n cp.async.bulk.commit_group;\n cp.async.bulk.wait_group 0;"
                 :: "l"(to_memory + (unsigned long long)block * bytes), "r"(shared), "r"(bytes) : "memory");
  }
}

__global__ void other(unsigned* p, int n) { if (n == 12345) p[threadIdx.x] = n; }

int main() {
  unsigned* out;
  char* big;
  constexpr size_t BIG = 256u << 20;
  CHECK(cudaMalloc(&out, 132 * 64 * 16));
  CHECK(cudaMalloc(&big, BIG));
  for (const char* state : {"other_ran", "flushed"})
    for (int blocks : {1, 2, 8, 16, 33, 66, 100, 132, 264, 528})
      for (int warps : {1, 4, 8, 32}) {
        if (blocks * warps > 132 * 64) continue;
        double sum = 0, first = 0;
        int n = 0, of_first = 0;
        unsigned least = ~0u, most = 0;
        for (int repeat = 0; repeat < 6; ++repeat) {
          if (state[0] == 'f') CHECK(cudaMemset(big, 1, BIG));
          else other<<<132, 32>>>(out, repeat);
          CHECK(cudaDeviceSynchronize());
          parameter<<<blocks, warps * 32>>>((unsigned long long)out, repeat + 3);
          CHECK(cudaDeviceSynchronize());
          std::vector<unsigned> noted(4 * blocks * warps);
          CHECK(cudaMemcpy(noted.data(), out, noted.size() * 4, cudaMemcpyDeviceToHost));
          if (!repeat) continue;
          for (int i = 0; i < blocks * warps; ++i) {
            unsigned took = noted[4 * i + 1] - noted[4 * i];
            sum += took, ++n;
            least = std::min(least, took), most = std::max(most, took);
            if (i % warps < 4) first += took, ++of_first;
          }
        }
        printf("{\"k\": \"parameter\", \"state\": \"%s\", \"blocks\": %d, \"warps\": %d, \"mean\": %.0f, \"first_four\": %.0f, \"least\": %u, \"most\": %u}\n",
               state, blocks, warps, sum / n, first / of_first, least, most);
      }
}
