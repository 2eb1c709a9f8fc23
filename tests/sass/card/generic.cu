__device__ __noinline__ float rd(float*p, int i){ return p[i]; }
extern "C" __global__ void gen(float*y, int n){ __shared__ float s[64]; float loc[8]; int t=threadIdx.x; s[t]=y[t]; for(int i=0;i<8;i++) loc[i]=y[i*n]; __syncthreads(); float* p = n&1? s : (n&2? loc: y); float v=rd(p,n); atomicAdd(n&4? s+3 : y+7, v); __syncthreads(); y[t]=v+s[t]; }
