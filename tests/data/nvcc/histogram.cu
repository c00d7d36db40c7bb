// Histograms and atomics: shared and global, all operations, widths, scopes and orders.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// 64 bins of n bytes, through shared memory.
extern "C" __global__ void histogram_shared(const unsigned char* data, unsigned* bins, int n) {
    __shared__ unsigned local[64];
    for (int i = threadIdx.x; i < 64; i += blockDim.x) local[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&local[data[i] & 63], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < 64; i += blockDim.x)
        if (local[i]) atomicAdd(&bins[i], local[i]);
}

// Weighted: float, double and 64-bit integer bins in global memory.
extern "C" __global__ void histogram_weighted(const int* where, const float* weight, float* f, double* d,
                                              unsigned long long* u, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    atomicAdd(&f[where[i]], weight[i]);
    atomicAdd(&d[where[i]], (double)weight[i] * 0.5);
    atomicAdd(&u[where[i]], (unsigned long long)i << 30);
}

// A maximum of doubles by a compare-and-swap loop on their bits.
extern "C" __global__ void cas_maximum(const double* x, double* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    auto* word = (unsigned long long*)out;
    unsigned long long seen = *(volatile unsigned long long*)word, assumed;
    do {
        assumed = seen;
        if (__longlong_as_double(assumed) >= x[i]) break;
        seen = atomicCAS(word, assumed, __double_as_longlong(x[i]));
    } while (seen != assumed);
}

// 16-bit compare and swap: a saturating count.
extern "C" __global__ void cas_short(unsigned short* counter, unsigned short limit) {
    unsigned short seen = *(volatile unsigned short*)counter, assumed;
    do {
        assumed = seen;
        if (assumed >= limit) return;
        seen = atomicCAS(counter, assumed, (unsigned short)(assumed + 1));
    } while (seen != assumed);
}

// One thread a lane of `old`; every operation on its own word, so that the order of threads does not matter.
extern "C" __global__ void atomics_each(unsigned* words, unsigned* old, unsigned long long* wide,
                                        unsigned long long* old_wide, const unsigned* x) {
    int t = threadIdx.x;
    unsigned v = x[t];
    unsigned* w = words + t * 14;
    unsigned* o = old + t * 14;
    o[0] = atomicAdd(&w[0], v);
    o[1] = atomicSub(&w[1], v);
    o[2] = atomicExch(&w[2], v);
    o[3] = atomicMin(&w[3], v);
    o[4] = atomicMax(&w[4], v);
    o[5] = (unsigned)atomicMin((int*)&w[5], (int)v);
    o[6] = (unsigned)atomicMax((int*)&w[6], (int)v);
    o[7] = atomicInc(&w[7], v);
    o[8] = atomicDec(&w[8], v);
    o[9] = atomicAnd(&w[9], v);
    o[10] = atomicOr(&w[10], v);
    o[11] = atomicXor(&w[11], v);
    o[12] = atomicCAS(&w[12], v, 77u);
    o[13] = __float_as_uint(atomicAdd((float*)&w[13], 1.5f));
    unsigned long long z = (unsigned long long)v << 32 | ~v;
    unsigned long long* W = wide + t * 10;
    unsigned long long* O = old_wide + t * 10;
    O[0] = atomicAdd(&W[0], z);
    O[1] = atomicExch(&W[1], z);
    O[2] = atomicMin(&W[2], z);
    O[3] = atomicMax(&W[3], z);
    O[4] = (unsigned long long)atomicMin((long long*)&W[4], (long long)z);
    O[5] = (unsigned long long)atomicMax((long long*)&W[5], (long long)z);
    O[6] = atomicAnd(&W[6], z);
    O[7] = atomicOr(&W[7], z);
    O[8] = atomicXor(&W[8], z);
    O[9] = atomicCAS(&W[9], z, 5ull);
}

// All threads on the same words, in all scopes and orders; only totals are kept, which no order can change.
extern "C" __global__ void atomics_shared_words(unsigned* words, __half2* h, __nv_bfloat162* b, float4* vec, const unsigned* x) {
    __shared__ unsigned box[4];
    __shared__ unsigned long long wide;
    if (threadIdx.x < 4) box[threadIdx.x] = 0;
    if (threadIdx.x == 4) wide = 0;
    __syncthreads();
    unsigned v = x[blockIdx.x * blockDim.x + threadIdx.x];
    atomicAdd_block(&box[0], v);
    atomicXor_block(&box[1], v);
    atomicMax_block(&box[2], v);
    atomicOr_block(&box[3], v & 0x00ff00ff);
    atomicAdd(&wide, (unsigned long long)v * v);
    atomicAdd(&words[0], v);
    atomicAdd_system(&words[1], v);
    atomicMin_system(&words[2], v);
    asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(&words[3]), "r"(v) : "memory");
    asm volatile("red.relaxed.cta.global.add.u32 [%0], %1;" ::"l"(&words[24 + blockIdx.x]), "r"(v) : "memory");
    unsigned got;
    asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;" : "=r"(got) : "l"(&words[4]), "r"(1000000u) : "memory");
    asm volatile("atom.acquire.sys.global.or.b32 %0, [%1], %2;" : "=r"(got) : "l"(&words[5]), "r"(v) : "memory");
    atomicAdd(h, __halves2half2(__float2half(1.0f), __float2half(2.0f)));
    atomicAdd(b, __halves2bfloat162(__float2bfloat16(1.0f), __float2bfloat16(0.5f)));
    atomicAdd(vec, make_float4(1.0f, 2.0f, 3.0f, (float)(v & 15)));
    __syncthreads();
    if (threadIdx.x < 4) words[8 + blockIdx.x * 4 + threadIdx.x] = box[threadIdx.x];
    if (threadIdx.x == 4) atomicAdd((unsigned long long*)&words[6], wide);
}
