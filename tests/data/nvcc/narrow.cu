// Conversions of the 4- and 6-bit formats and of power-of-two scales, which only Blackwell has, and packed f32 arithmetic.
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>

extern "C" __global__ void narrow_convert(const float2* x, unsigned char* e2m1, unsigned short* e2m3, unsigned short* e3m2, unsigned short* e8m0,
                                          const unsigned short* codes, __half2* from_e2m1, __half2* from_e2m3, __half2* from_e3m2, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    e2m1[i] = __nv_cvt_float2_to_fp4x2(x[i], __NV_E2M1, cudaRoundNearest);
    e2m3[i] = __nv_cvt_float2_to_fp6x2(x[i], __NV_E2M3, cudaRoundNearest);
    e3m2[i] = __nv_cvt_float2_to_fp6x2(x[i], __NV_E3M2, cudaRoundNearest);
    e8m0[i] = __nv_cvt_float2_to_e8m0x2(make_float2(fabsf(x[i].x), fabsf(x[i].y)), __NV_SATFINITE, cudaRoundPosInf);
    from_e2m1[i] = __half2(__nv_cvt_fp4x2_to_halfraw2((__nv_fp4x2_storage_t)codes[i], __NV_E2M1));
    from_e2m3[i] = __half2(__nv_cvt_fp6x2_to_halfraw2(codes[i] & 0x3f3f, __NV_E2M3));
    from_e3m2[i] = __half2(__nv_cvt_fp6x2_to_halfraw2(codes[i] & 0x3f3f, __NV_E3M2));
}

// Two floats in one 64-bit register: add, multiply and fused multiply-add.
extern "C" __global__ void packed_floats(const unsigned long long* a, const unsigned long long* b, unsigned long long* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned long long r;
    asm("add.rn.f32x2 %0, %1, %2;" : "=l"(r) : "l"(a[i]), "l"(b[i]));
    out[i] = r;
    asm("mul.rz.f32x2 %0, %1, %2;" : "=l"(r) : "l"(a[i]), "l"(b[i]));
    out[n + i] = r;
    asm("fma.rn.f32x2 %0, %1, %2, %1;" : "=l"(r) : "l"(a[i]), "l"(b[i]));
    out[2 * n + i] = r;
}
