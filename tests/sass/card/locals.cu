__constant__ float cc[16];
__constant__ int tab[8]={1,2,3,4,5,6,7,8};
__device__ int glob=5;
extern "C" __global__ void k1(const float* x, float* y, int n, short s, double d){ __shared__ float sm[128]; extern __shared__ float dyn[]; int i=threadIdx.x; sm[i]=x[i]; dyn[i]=x[i+1]; __syncthreads(); float v[16]; for(int j=0;j<n;j++) v[(j*7+i)&15]=sm[(i+j)&127]; y[i]=v[i&15]+cc[i&15]+tab[i&7]+glob+dyn[n-i]+(float)d; }
template<typename T> __global__ void k2(T*y, int n){ switch(n&7){case 0:y[0]=1;break;case 1:y[1]=2;break;case 2:y[2]=5;break;case 3:y[3]=sinf(y[4]);break;case 4: y[9]=2;break;case 5:y[7]=9; break; case 6: y[1]=y[0]; break;} }
template __global__ void k2<float>(float*,int);
