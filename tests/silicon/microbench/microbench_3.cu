// Questions that the first two microbenchmarks left open. Prints a JSON line a row; cycles are SM cycles.
// Build: nvcc -O3 -arch=sm_90a -o microbench_3 microbench_3.cu
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
typedef long long ll;
#define CK(x) do{cudaError_t e=(x); if(e!=cudaSuccess){fprintf(stderr,"%s:%d %s\n",__FILE__,__LINE__,cudaGetErrorString(e)); exit(1);} }while(0)
// --- loads that miss in L1 and hit in L2: with and without allocating in L1. Each request touches new lines.
template<int CA> __global__ void l1miss(const float*p,int stride,int iters,size_t mask,ll*out){
  unsigned lane=threadIdx.x&31,w=threadIdx.x>>5,nw=blockDim.x>>5; float acc=0; __syncthreads(); ll t0=clock64();
  for(int i=0;i<iters;i++){
    float v[4];
    #pragma unroll
    for(int u=0;u<4;u++){ size_t at=((size_t)((i*4+u)*nw+w)*1056+lane*stride+blockIdx.x*4096)&mask; const float*q=p+at;
      if(CA) asm volatile("ld.global.ca.f32 %0,[%1];":"=f"(v[u]):"l"(q)); else asm volatile("ld.global.cg.f32 %0,[%1];":"=f"(v[u]):"l"(q)); }
    #pragma unroll
    for(int u=0;u<4;u++) acc+=v[u];
  }
  __syncthreads(); ll t1=clock64(); if(threadIdx.x==0&&blockIdx.x==0) out[0]=t1-t0; if(acc==12345.f) out[1]=1; }
// --- stores to L2-resident memory
__global__ void l2store(float*p,int stride,int iters,size_t mask,ll*out){
  unsigned lane=threadIdx.x&31,w=threadIdx.x>>5,nw=blockDim.x>>5; __syncthreads(); ll t0=clock64();
  for(int i=0;i<iters;i++){
    #pragma unroll
    for(int u=0;u<4;u++){ size_t at=((size_t)((i*4+u)*nw+w)*1056+lane*stride+(size_t)blockIdx.x*131072)&mask; asm volatile("st.global.f32 [%0],%1;"::"l"(p+at),"f"(1.f)); }
  }
  __syncthreads(); ll t1=clock64(); if(threadIdx.x==0&&blockIdx.x==0) out[0]=t1-t0; }
// --- how many loads a warp issues before it is held: the clock before each of 24 loads that hit in L1
template<int STRIDE> __global__ void depth(const float*p,ll*out){
  unsigned lane=threadIdx.x&31; float acc=0; unsigned c[25];
  for(int r=0;r<3;r++){ const float*q=p+lane*STRIDE; float v[24];
    #pragma unroll
    for(int k=0;k<24;k++){ asm volatile("mov.u32 %0,%%clock;":"=r"(c[k])::"memory"); asm volatile("ld.global.ca.f32 %0,[%1];":"=f"(v[k]):"l"(q+k*4):"memory"); }
    asm volatile("mov.u32 %0,%%clock;":"=r"(c[24])::"memory");
    #pragma unroll
    for(int k=0;k<24;k++) acc+=v[k]; }
  if(threadIdx.x==0) for(int k=0;k<25;k++) out[k]=c[k]-c[0];
  if(acc==12345.f) out[30]=1; }
template<int STRIDE> __global__ void depth_shared(ll*out){
  __shared__ float s[8192]; unsigned lane=threadIdx.x&31; for(int i=threadIdx.x;i<8192;i+=blockDim.x) s[i]=i; __syncthreads(); float acc=0; unsigned c[25];
  for(int r=0;r<3;r++){ unsigned q=(unsigned)__cvta_generic_to_shared(s)+lane*STRIDE*4; float v[24];
    #pragma unroll
    for(int k=0;k<24;k++){ asm volatile("mov.u32 %0,%%clock;":"=r"(c[k])::"memory"); asm volatile("ld.shared.f32 %0,[%1];":"=f"(v[k]):"r"(q+k*4):"memory"); }
    asm volatile("mov.u32 %0,%%clock;":"=r"(c[24])::"memory");
    #pragma unroll
    for(int k=0;k<24;k++) acc+=v[k]; }
  if(threadIdx.x==0) for(int k=0;k<25;k++) out[k]=c[k]-c[0];
  if(acc==12345.f) out[30]=1; }
// --- do warps with the same work share a scheduler evenly? End of each warp after a chain of FFMAs
__global__ void fair(int iters,ll*out,float*y){ float v=threadIdx.x; __syncthreads(); ll t0=clock64();
  for(int i=0;i<iters;i++){
    #pragma unroll
    for(int u=0;u<16;u++) v=v*1.0001f+0.5f; }
  ll t1=clock64(); y[threadIdx.x]=v; if((threadIdx.x&31)==0) out[threadIdx.x>>5]=t1-t0; }
// --- latency from issue to use for 64- and 128-bit shared loads and for shuffles, S2R, LDC through clock differences
__global__ void tidlat(ll*out){ unsigned a,b; unsigned x; asm volatile("mov.u32 %0,%%clock;":"=r"(a)::"memory"); asm volatile("mov.u32 %0,%%laneid;":"=r"(x)::"memory"); unsigned z=x*3; asm volatile("mov.u32 %0,%%clock;":"=r"(b):"r"(z):"memory"); if(threadIdx.x==0){out[0]=b-a; out[1]=z;} }
// --- shuffles in a chain
__global__ void shflchain(int iters,ll*out){ int v=threadIdx.x; ll t0=clock64(); for(int i=0;i<iters;i++){
    #pragma unroll
    for(int u=0;u<16;u++) v=__shfl_sync(~0u,v,(v+1)&31); }
  ll t1=clock64(); if(threadIdx.x==0) out[0]=t1-t0; out[40+threadIdx.x]=v; }
static ll h[4096]; static ll*d;
static void fetch(int n){ CK(cudaDeviceSynchronize()); CK(cudaMemcpy(h,d,n*sizeof(ll),cudaMemcpyDeviceToHost)); }
int main(){ CK(cudaMalloc(&d,4096*sizeof(ll))); float*p; size_t n=(size_t)64<<20; CK(cudaMalloc(&p,n*4)); CK(cudaMemset(p,0,n*4));
  size_t mask=((size_t)2<<20)-1; // 8 MiB: in L2, not in L1
  for(int s:{1,2,4,8,16,32}) for(int blocks:{1,132}) for(int warps:{4,32}){
    double c[2]; for(int ca=0;ca<2;ca++){ for(int r=0;r<3;r++){ if(ca) l1miss<1><<<blocks,32*warps>>>(p,s,32,mask,d); else l1miss<0><<<blocks,32*warps>>>(p,s,32,mask,d); fetch(1);} c[ca]=h[0]/(32.0*4*warps); }
    printf("{\"k\":\"l1miss\",\"stride\":%d,\"sms\":%d,\"warps\":%d,\"cg\":%.3f,\"ca\":%.3f}\n",s,blocks,warps,c[0],c[1]); }
  size_t smask=((size_t)8<<20)-1; // 32 MiB
  for(int s:{1,2,4,8,16,32}) for(int blocks:{1,16,132}){ for(int r=0;r<3;r++){ l2store<<<blocks,1024>>>(p,s,32,smask,d); fetch(1);} printf("{\"k\":\"l2store\",\"stride\":%d,\"sms\":%d,\"cycles_per_request\":%.3f}\n",s,blocks,h[0]/(32.0*4*32)); }
#define DEPTH(S) for(int w:{32,128}){ depth<S><<<1,w>>>(p,d); depth<S><<<1,w>>>(p,d); fetch(25); printf("{\"k\":\"issue_clock_global\",\"stride\":%d,\"warps\":%d,\"clock\":[",S,w/32); for(int k=0;k<25;k++) printf("%lld%s",h[k],k<24?",":"]}\n"); depth_shared<S><<<1,w>>>(d); depth_shared<S><<<1,w>>>(d); fetch(25); printf("{\"k\":\"issue_clock_shared\",\"stride\":%d,\"warps\":%d,\"clock\":[",S,w/32); for(int k=0;k<25;k++) printf("%lld%s",h[k],k<24?",":"]}\n"); }
  DEPTH(0) DEPTH(1) DEPTH(8) DEPTH(32)
  for(int w:{4,8,16,32}){ float*y=p; fair<<<1,32*w>>>(64,d,y); fair<<<1,32*w>>>(64,d,y); fetch(w); printf("{\"k\":\"fair\",\"warps\":%d,\"end\":[",w); for(int k=0;k<w;k++) printf("%lld%s",h[k],k<w-1?",":"]}\n"); }
  shflchain<<<1,32>>>(64,d); shflchain<<<1,32>>>(64,d); fetch(1); printf("{\"k\":\"shfl_add_and_chain\",\"cycles\":%.3f}\n",h[0]/1024.0);
  tidlat<<<1,32>>>(d); tidlat<<<1,32>>>(d); fetch(1); printf("{\"k\":\"laneid_use\",\"cycles\":%lld}\n",h[0]);
  return 0; }
