// f16, bf16, fp8 and double arithmetic, elementwise: thread i works on element i of every array.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

// 18 results a pair of halves (row r at out[r * n + i]).
extern "C" __global__ void half2_math(const half2* a, const half2* b, half2* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, row = 0;
    if (i >= n) return;
    half2 x = a[i], y = b[i];
    auto put = [&](half2 v) { out[row++ * n + i] = v; };
    put(__hadd2(x, y));
    put(__hsub2(x, y));
    put(__hmul2(x, y));
    put(__hfma2(x, y, x));
    put(__hadd2_sat(x, y));
    put(__hfma2_relu(x, y, y));
    put(__hneg2(x));
    put(__habs2(x));
    put(__hmin2(x, y));
    put(__hmax2(x, y));
    put(__hmax2_nan(x, y));
    put(__hgt2(x, y));
    put(__hle2(x, y));
    put(__lowhigh2highlow(x));
    put(__floats2half2_rn(__low2float(x) * 3.0f, __high2float(y) / 3.0f));
    put(__halves2half2(__int2half_rn((int)__low2float(x)), __float2half_rz(__high2float(x) * 1.0001f)));
    put(__halves2half2(hfloor(__low2half(x)), hrint(__high2half(x))));
    put(__halves2half2(__heq(__low2half(x), __high2half(x)) ? __low2half(y) : __high2half(y), __ushort_as_half((unsigned short)__half2int_rz(__high2half(x)))));
}

// 12 results a pair of bf16.
extern "C" __global__ void bfloat_math(const __nv_bfloat162* a, const __nv_bfloat162* b, __nv_bfloat162* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, row = 0;
    if (i >= n) return;
    __nv_bfloat162 x = a[i], y = b[i];
    auto put = [&](__nv_bfloat162 v) { out[row++ * n + i] = v; };
    put(__hadd2(x, y));
    put(__hsub2(x, y));
    put(__hmul2(x, y));
    put(__hfma2(x, y, x));
    put(__hfma2_relu(x, y, y));
    put(__hneg2(x));
    put(__habs2(x));
    put(__hmin2(x, y));
    put(__hmax2(x, y));
    put(__hlt2(x, y));
    put(__floats2bfloat162_rn(__low2float(x) / 3.0f, __high2float(y) * 1.01f));
    put(__halves2bfloat162(__float2bfloat16_rz(__low2float(x) / 3.0f), __int2bfloat16_rn(i * 37 + 1000)));
}

// Floats to both fp8 formats (saturating), pairs, and every code back to f16.
extern "C" __global__ void fp8_convert(const float2* x, unsigned short* e4m3, unsigned short* e5m2, const unsigned short* codes, half2* from_e4m3,
                                       half2* from_e5m2, unsigned char* from_half, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    e4m3[i] = __nv_cvt_float2_to_fp8x2(x[i], __NV_SATFINITE, __NV_E4M3);
    e5m2[i] = __nv_cvt_float2_to_fp8x2(x[i], __NV_SATFINITE, __NV_E5M2);
    from_e4m3[i] = __half2(__nv_cvt_fp8x2_to_halfraw2(codes[i], __NV_E4M3));
    from_e5m2[i] = __half2(__nv_cvt_fp8x2_to_halfraw2(codes[i], __NV_E5M2));
    __nv_fp8_e4m3 one(__float2half(x[i].x));
    from_half[i] = one.__x;
}

// 12 results a pair of doubles, as bits.
extern "C" __global__ void double_math(const double* a, const double* b, double* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, row = 0;
    if (i >= n) return;
    double x = a[i], y = b[i];
    auto put = [&](double v) { out[row++ * n + i] = v; };
    put(x + y);
    put(__dmul_rz(x, y));
    put(fma(x, y, -x));
    put(x / y);
    put(sqrt(fabs(x)));
    put(__dadd_rd(x, 1e-17));
    put(__ddiv_ru(x, y));
    put(fmin(x, y));
    put(floor(x));
    put(rint(y));
    put((double)(float)x);
    put((double)(long long)(x * 1000.0));
}
