// Kernels that the validation suite does not have. Each is launched once, as cases.py says.
extern "C" {

// 5-point stencil from a tile with its rim in shared memory; block 32 x 8.
__global__ void stencil_tile(const float* x, float* y, int n) {
  __shared__ float tile[10][34];
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 8 + threadIdx.y;
  int tc = threadIdx.x + 1, tr = threadIdx.y + 1;
  tile[tr][tc] = x[r * n + c];
  if (threadIdx.y == 0) tile[0][tc] = r > 0 ? x[(r - 1) * n + c] : 0.f;
  if (threadIdx.y == 7) tile[9][tc] = r < n - 1 ? x[(r + 1) * n + c] : 0.f;
  if (threadIdx.x == 0) tile[tr][0] = c > 0 ? x[r * n + c - 1] : 0.f;
  if (threadIdx.x == 31) tile[tr][33] = c < n - 1 ? x[r * n + c + 1] : 0.f;
  __syncthreads();
  y[r * n + c] = 0.2f * (tile[tr][tc] + tile[tr - 1][tc] + tile[tr + 1][tc] + tile[tr][tc - 1] + tile[tr][tc + 1]);
}

// Inclusive scan that starts anew at each flag, within a block of 256.
__global__ void segmented_scan(const float* x, const int* flag, float* y, int n) {
  __shared__ float total[8];
  __shared__ int broken[8];
  int i = blockIdx.x * 256 + threadIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  float v = i < n ? x[i] : 0.f;
  int f = i < n ? flag[i] : 1;
  for (int d = 1; d < 32; d *= 2) {
    float w = __shfl_up_sync(~0u, v, d);
    int g = __shfl_up_sync(~0u, f, d);
    if (lane >= d) {
      if (!f) v += w;
      f |= g;
    }
  }
  if (lane == 31) { total[warp] = v; broken[warp] = f; }
  __syncthreads();
  float before = 0.f;
  for (int k = 0; k < warp; k++) before = broken[k] ? total[k] : before + total[k];
  if (!f) v += before;
  if (i < n) y[i] = v;
}

// Bitonic sort of 1024 keys a block, in shared memory.
__global__ void bitonic_block(unsigned* keys) {
  __shared__ unsigned s[1024];
  int t = threadIdx.x;
  unsigned* own = keys + blockIdx.x * 1024;
  s[t] = own[t];
  s[t + 512] = own[t + 512];
  for (int size = 2; size <= 1024; size *= 2)
    for (int stride = size / 2; stride > 0; stride /= 2) {
      __syncthreads();
      int a = 2 * t - (t & (stride - 1)), b = a + stride;
      bool up = (a & size) == 0;
      unsigned x = s[a], y = s[b];
      if ((x > y) == up) { s[a] = y; s[b] = x; }
    }
  __syncthreads();
  own[t] = s[t];
  own[t + 512] = s[t + 512];
}

// One compare-and-exchange pass of a bitonic sort over global memory.
__global__ void bitonic_step(unsigned* keys, int stride, int size) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  int a = 2 * t - (t & (stride - 1)), b = a + stride;
  unsigned x = keys[a], y = keys[b];
  if ((x > y) == ((a & size) == 0)) { keys[a] = y; keys[b] = x; }
}

// Sparse matrix times vector, a thread a row.
__global__ void spmv_row(const int* first, const int* column, const float* value, const float* x, float* y, int rows) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  float sum = 0.f;
  for (int k = first[r]; k < first[r + 1]; k++) sum += value[k] * x[column[k]];
  y[r] = sum;
}

// Sparse matrix times vector, a warp a row.
__global__ void spmv_warp(const int* first, const int* column, const float* value, const float* x, float* y, int rows) {
  int r = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
  if (r >= rows) return;
  float sum = 0.f;
  for (int k = first[r] + lane; k < first[r + 1]; k += 32) sum += value[k] * x[column[k]];
  for (int d = 16; d; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
  if (lane == 0) y[r] = sum;
}

// Products of 16 x 16 matrices, one a block of 256 threads.
__global__ void batched_matmul(const float* a, const float* b, float* c) {
  __shared__ float as[16][16], bs[16][17];
  int i = threadIdx.x / 16, j = threadIdx.x % 16;
  size_t at = (size_t)blockIdx.x * 256 + threadIdx.x;
  as[i][j] = a[at];
  bs[i][j] = b[at];
  __syncthreads();
  float sum = 0.f;
#pragma unroll
  for (int k = 0; k < 16; k++) sum += as[i][k] * bs[k][j];
  c[at] = sum;
}

// Softmax with a running maximum, a warp a row: one pass to reduce, one to write.
__global__ void softmax_online(const float* x, float* y, int d) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
  const float* r = x + (size_t)row * d;
  float m = -1e30f, z = 0.f;
  for (int i = lane; i < d; i += 32) {
    float v = r[i], larger = fmaxf(m, v);
    z = z * __expf(m - larger) + __expf(v - larger);
    m = larger;
  }
  for (int o = 16; o; o /= 2) {
    float m2 = __shfl_xor_sync(~0u, m, o), z2 = __shfl_xor_sync(~0u, z, o), larger = fmaxf(m, m2);
    z = z * __expf(m - larger) + z2 * __expf(m2 - larger);
    m = larger;
  }
  for (int i = lane; i < d; i += 32) y[(size_t)row * d + i] = __expf(r[i] - m) / z;
}

// Histogram of bytes, four a word: shared atomics, then one global atomic a bin and block.
__global__ void histogram_bytes(const unsigned* words, int* bins, int n) {
  __shared__ int own[256];
  own[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
    unsigned w = words[i];
    for (int k = 0; k < 4; k++) atomicAdd(&own[(w >> (8 * k)) & 255], 1);
  }
  __syncthreads();
  atomicAdd(&bins[threadIdx.x], own[threadIdx.x]);
}

// A chain of dependent loads a thread.
__global__ void pointer_chase(const int* next, int* last, int steps) {
  int t = blockIdx.x * blockDim.x + threadIdx.x, at = t;
  for (int k = 0; k < steps; k++) at = next[at];
  last[t] = at;
}

// Forces of all bodies on each, bodies by tiles in shared memory; block 128.
__global__ void nbody(const float4* body, float4* force, int n) {
  __shared__ float4 tile[128];
  int i = blockIdx.x * 128 + threadIdx.x;
  float4 own = body[i], sum = make_float4(0.f, 0.f, 0.f, 0.f);
  for (int first = 0; first < n; first += 128) {
    tile[threadIdx.x] = body[first + threadIdx.x];
    __syncthreads();
#pragma unroll 8
    for (int k = 0; k < 128; k++) {
      float4 o = tile[k];
      float dx = o.x - own.x, dy = o.y - own.y, dz = o.z - own.z;
      float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f), w = o.w * inverse * inverse * inverse;
      sum.x += w * dx;
      sum.y += w * dy;
      sum.z += w * dz;
    }
    __syncthreads();
  }
  force[i] = sum;
}

// Iterations until a point of the plane leaves a circle: lanes differ.
__global__ void mandelbrot(int* count, int width, int most) {
  int px = blockIdx.x * 16 + threadIdx.x, py = blockIdx.y * 16 + threadIdx.y, k = 0;
  float cx = -2.f + 3.f * px / width, cy = -1.5f + 3.f * py / width, x = 0.f, y = 0.f;
  while (k < most && x * x + y * y < 4.f) {
    float next = x * x - y * y + cx;
    y = 2.f * x * y + cy;
    x = next;
    k++;
  }
  count[py * width + px] = k;
}

// Dot product in double precision, grid-stride, one atomic a block.
__global__ void dot_double(const double* a, const double* b, double* out, int n) {
  __shared__ double part[8];
  double sum = 0;
  for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) sum += a[i] * b[i];
  for (int d = 16; d; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
  if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int k = 1; k < 8; k++) sum += part[k];
    atomicAdd(out, sum);
  }
}

// Filter of 31 taps over a line, each thread an output, its window in shared memory; block 256.
__global__ void fir(const float* x, const float* taps, float* y, int n) {
  __shared__ float window[256 + 30];
  int i = blockIdx.x * 256 + threadIdx.x;
  window[threadIdx.x] = i < n ? x[i] : 0.f;
  if (threadIdx.x < 30) window[256 + threadIdx.x] = i + 256 < n ? x[i + 256] : 0.f;
  __syncthreads();
  float sum = 0.f;
#pragma unroll
  for (int k = 0; k < 31; k++) sum += taps[k] * window[threadIdx.x + k];
  if (i < n) y[i] = sum;
}
}
