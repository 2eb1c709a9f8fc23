extern "C" __global__ void sw(float*y, int n){ float v=y[threadIdx.x]; switch(n){
#define C(K) case K: for(int j=0;j<n+K;j++) v=v*1.5f+K*v; break;
C(0)C(1)C(2)C(3)C(4)C(5)C(6)C(7)C(8)C(9)C(10)C(11)C(12)C(13)C(14)} y[threadIdx.x]=v; }
typedef float (*fp)(float); __device__ __noinline__ float f0(float a){return a*2;} __device__ __noinline__ float f1(float a){return a+3;}
__device__ fp tab[2]={f0,f1};
extern "C" __global__ void ind(float*y,int n){ y[threadIdx.x]=tab[n](y[threadIdx.x])+f0(y[1]); }
extern "C" __global__ void divi(double*y,long long*z,int n){ y[threadIdx.x]=y[1]/y[2]+sqrt(y[3]); z[threadIdx.x]=z[1]/z[2]; }
