// Fourth microbenchmark: L1 requests of many lines, hits beside misses, shared atomics, constants,
// and which SM gets which block. One JSON object a line.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#define CK(x) do{cudaError_t e_=(x); if(e_!=cudaSuccess){fprintf(stderr,"%s:%d %s\n",__FILE__,__LINE__,cudaGetErrorString(e_)); exit(1);} }while(0)
typedef long long ll; static ll *d_out, h_out[64];
static void fetch(int n){CK(cudaGetLastError()); CK(cudaDeviceSynchronize()); CK(cudaMemcpy(h_out,d_out,n*sizeof(ll),cudaMemcpyDeviceToHost));}
__device__ __forceinline__ float ca(const float*q){float v; asm volatile("ld.global.ca.f32 %0,[%1];":"=f"(v):"l"(q)); return v;}

// Each lane walks a row of its own, `row` words from the next: a request has 32 lines. span = 32: always the same lines.
// X: between them a load that all lanes make from one address.
template<bool X> __global__ void lines(const float*p,const float*x,size_t row,int span,int iters,ll*out){
  const float*q=p+(size_t)threadIdx.x*row; float acc=0;
  for(int k=0;k<32;k++) acc+=ca(q+k)+ca(x+k);
  __syncthreads(); ll t0=clock64();
  for(int i=0;i<iters;i++){ int at=(i*16)%span;
#pragma unroll
    for(int u=0;u<16;u++){ if(X) acc+=ca(x+at+u); acc+=ca(q+at+u); } }
  __syncthreads(); ll t1=clock64(); if(threadIdx.x==0) out[0]=t1-t0; if(acc==12345.f) out[1]=1; }

// Warp 0 chases through one line that is in L1; the other warps, if they miss, load lines from L2 one after another.
__global__ void beside(const ll*ring,const float*p,int misses,int lanes,ll*out){
  __shared__ volatile int done; if(threadIdx.x==0) done=0; __syncthreads();
  if(threadIdx.x<32){ ll x=0; for(int i=0;i<64;i++){ ll v; asm volatile("ld.global.ca.u64 %0,[%1];":"=l"(v):"l"(ring+x)); x=v; }
    ll t0=clock64(); for(int i=0;i<256;i++){ ll v; asm volatile("ld.global.ca.u64 %0,[%1];":"=l"(v):"l"(ring+x)); x=v; }
    ll t1=clock64(); done=1; if(threadIdx.x==0){ out[0]=t1-t0; out[1]=x; } }
  else if(misses){ float acc=0; size_t at=threadIdx.x>>5; unsigned lane=threadIdx.x&31;
    while(!done){ float v; asm volatile("ld.global.ca.f32 %0,[%1];":"=f"(v):"l"(p+(at%2048)*1024+(lane%lanes)*32)); acc+=v; at+=8+(v>1e30f); }
    if(acc==12345.f) out[2]=1; } }

// Shared atomics without a result, `ways` addresses a warp: lane l takes address (l % ways) * step.
template<int INC> __global__ void atoms(int ways,int step,int iters,ll*out){ extern __shared__ int h[];
  for(int i=threadIdx.x;i<8192;i+=blockDim.x) h[i]=0;
  int a=((threadIdx.x&31)%ways)*step; __syncthreads(); ll t0=clock64();
  for(int i=0;i<iters;i++){
#pragma unroll
    for(int u=0;u<8;u++) atomicAdd(&h[(a+u*32)&8191],INC); }
  __syncthreads(); ll t1=clock64(); if(threadIdx.x==0) out[0]=t1-t0; if(h[0]==-1) out[1]=1; }
// A chain of loads from constant memory, step bytes apart: cycles of each. Nothing has read them since the launch.
__constant__ unsigned table[4096];
__global__ void constants(int step,ll*out){ unsigned at=0; ll t[34];
#pragma unroll
  for(int i=0;i<33;i++){ t[i]=clock64(); unsigned v;
    asm volatile("{.reg .u64 a,b; mov.u64 a,table; cvt.u64.u32 b,%1; add.u64 a,a,b; ld.const.u32 %0,[a];}":"=r"(v):"r"(at));
    at=at+v+step; asm volatile(""::"r"(at)); }
  for(int i=0;i<32;i++) out[i]=t[i+1]-t[i];
  out[40]=at; }
// The SM of each block, all resident at once.
__global__ void place(int*sm){ if(threadIdx.x==0) asm volatile("mov.u32 %0,%%smid;":"=r"(sm[blockIdx.x])); ll t=clock64(); while(clock64()-t<200000); }
__global__ void fill(ll*r,int n){ for(int i=threadIdx.x;i<n;i+=blockDim.x) r[i]=(i+5)%n; }

int main(){ CK(cudaMalloc(&d_out,sizeof(h_out))); float*buf; CK(cudaMalloc(&buf,256<<20)); CK(cudaMemset(buf,0,256<<20));
  ll*ring; CK(cudaMalloc(&ring,4096)); fill<<<1,32>>>(ring,16);
  for(size_t row:{32,33,40,64,1024,1032,4096}) for(int w:{1,2,4,8,16}) for(int span:{32,1024}) { if(span==1024&&row<1024) continue; double t[2];
    for(int r=0;r<2;r++){ lines<false><<<1,32*w>>>(buf,buf+(48<<20),row,span,64,d_out); fetch(1); } t[0]=h_out[0]/(64.0*16*w);
    for(int r=0;r<2;r++){ lines<true><<<1,32*w>>>(buf,buf+(48<<20),row,span,64,d_out); fetch(1); } t[1]=h_out[0]/(64.0*16*w);
    printf("{\"k\":\"lines\",\"row\":%zu,\"warps\":%d,\"span\":%d,\"alone\":%.3f,\"with_broadcast\":%.3f}\n",row,w,span,t[0],t[1]); }
  for(int w:{2,4,8}) for(int m:{0,1}) for(int lanes:{1,32}){ for(int r=0;r<2;r++){ beside<<<1,32*w>>>(ring,buf,m,lanes,d_out); fetch(1); }
    printf("{\"k\":\"beside\",\"warps\":%d,\"misses\":%d,\"lines\":%d,\"hit_cycles\":%.2f}\n",w,m,lanes,h_out[0]/256.0); }
  for(int w:{1,4,32}) for(int ways:{1,2,4,8,16,32}) for(int step:{1,32}){ double t[2];
    for(int r=0;r<2;r++){ atoms<1><<<1,32*w,32768>>>(ways,step,32,d_out); fetch(1); } t[0]=h_out[0]/(32.0*8*w);
    for(int r=0;r<2;r++){ atoms<3><<<1,32*w,32768>>>(ways,step,32,d_out); fetch(1); } t[1]=h_out[0]/(32.0*8*w);
    printf("{\"k\":\"atoms\",\"warps\":%d,\"addresses\":%d,\"step\":%d,\"inc\":%.3f,\"add3\":%.3f}\n",w,ways,step,t[0],t[1]); }
  for(int cold:{0,1}) for(int step:{4,64,256}) for(int r=0;r<2;r++){ if(cold) CK(cudaMemset(buf,0,256<<20));
    fill<<<1,32>>>(ring,16); constants<<<1,1>>>(step,d_out); fetch(32); if(!r) continue;
    printf("{\"k\":\"constant\",\"step\":%d,\"l2\":\"%s\",\"cycles\":[",step,cold?"cold":"warm"); for(int i=0;i<32;i++) printf("%s%lld",i?",":"",h_out[i]); printf("]}\n"); }
  int*sm; CK(cudaMalloc(&sm,4*2112)); static int at[2112];
  struct{int grid,threads;} shapes[]={{132,1024},{264,1024},{1024,128},{1056,256},{2112,128}};
  for(auto q:shapes){ for(int r=0;r<2;r++) place<<<q.grid,q.threads>>>(sm); CK(cudaMemcpy(at,sm,4*q.grid,cudaMemcpyDeviceToHost));
    printf("{\"k\":\"place\",\"grid\":%d,\"threads\":%d,\"sm\":[",q.grid,q.threads); for(int i=0;i<q.grid;i++) printf("%s%d",i?",":"",at[i]); printf("]}\n"); }
  return 0; }
