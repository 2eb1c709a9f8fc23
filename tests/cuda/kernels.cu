// Kernels for tests: CUDA's headers, C's, templates, constants, variables, shared memory, atomics, tensor cores.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_fp16.h>
#include <math.h>
#include <mma.h>
#include <stdint.h>

namespace cg = cooperative_groups;

__constant__ float taps[3] = {0.25f, 0.5f, 0.25f};
__device__ unsigned int counter = 7;

struct Line {
    double slope;
    int offset;
};

__global__ void saxpy(int n, float a, const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}

extern "C" __global__ void smooth(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 1 || i >= n - 1) return;
    float sum = 0;
    for (int k = 0; k < 3; ++k) sum += taps[k] * x[i + k - 1];
    y[i] = sum;
}

template <int TILE>
__global__ void multiply(const float* a, const float* b, float* c, int n) {
    __shared__ float left[TILE][TILE], right[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; k += TILE) {
        left[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
        __syncthreads();
        for (int j = 0; j < TILE; ++j) sum += left[threadIdx.y][j] * right[j][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

__global__ void histogram(const uint8_t* data, unsigned* bins, int n) {
    extern __shared__ unsigned mine[];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) mine[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&mine[data[i]], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&bins[i], mine[i]);
}

__global__ void total(const float* x, float* sum, int n) {
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    float mine = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) mine += x[i];
    mine = cg::reduce(warp, mine, cg::plus<float>());
    if (warp.thread_rank() == 0) atomicAdd(sum, mine);
}

__global__ void halves(const __half2* x, __half2* y) { y[threadIdx.x] = __hfma2(x[threadIdx.x], x[threadIdx.x], x[threadIdx.x]); }

__global__ void on_line(Line line, const double* x, double* y) {
    y[threadIdx.x] = x[threadIdx.x] < 0 ? -INFINITY : line.slope * sqrt(x[threadIdx.x]) + line.offset;
}

__global__ void ticket(unsigned* tickets) { tickets[blockIdx.x * blockDim.x + threadIdx.x] = atomicAdd(&counter, 1u); }

__global__ void tensor(const __half* a, const __half* b, float* c) {
    using namespace nvcuda::wmma;
    fragment<matrix_a, 16, 16, 16, __half, row_major> left;
    fragment<matrix_b, 16, 16, 16, __half, col_major> right;
    fragment<accumulator, 16, 16, 16, float> sum;
    fill_fragment(sum, 0.0f);
    load_matrix_sync(left, a, 16);
    load_matrix_sync(right, b, 16);
    mma_sync(sum, left, right, sum);
    store_matrix_sync(c, sum, 16, mem_row_major);
}
