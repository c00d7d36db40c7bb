// Matrix products by ldmatrix, mma.sync and stmatrix in inline PTX, one warp a block.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

static __device__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

static __device__ void ldmatrix4(unsigned (&r)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}

static __device__ void ldmatrix2_trans(unsigned (&r)[2], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(address) : "memory");
}

// C (f32, m x n) = A (f16, m x k, row major) B (f16, k x n, row major); a 16 x 16 tile a warp.
extern "C" __global__ void mma_f16(const half* a, const half* b, float* c, int n, int k) {
    __shared__ alignas(16) half sa[16][24], sb[16][24];
    int lane = threadIdx.x, i0 = blockIdx.y * 16, j0 = blockIdx.x * 16;
    float acc[2][4] = {};
    for (int q = 0; q < k; q += 16) {
        int r = lane / 2, h = lane % 2 * 8;
        *(uint4*)&sa[r][h] = *(const uint4*)&a[(i0 + r) * k + q + h];
        *(uint4*)&sb[r][h] = *(const uint4*)&b[(q + r) * n + j0 + h];
        __syncwarp();
        unsigned fa[4];
        ldmatrix4(fa, shared_address(&sa[lane % 16][lane / 16 * 8]));
        for (int j = 0; j < 2; j++) {
            unsigned fb[2];
            ldmatrix2_trans(fb, shared_address(&sb[lane % 16][j * 8]));
            asm volatile(
                "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                : "+f"(acc[j][0]), "+f"(acc[j][1]), "+f"(acc[j][2]), "+f"(acc[j][3])
                : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
        }
        __syncwarp();
    }
    for (int j = 0; j < 2; j++) {
        float* out = c + (i0 + lane / 4) * n + j0 + j * 8 + lane % 4 * 2;
        *(float2*)out = make_float2(acc[j][0], acc[j][1]);
        *(float2*)(out + 8 * n) = make_float2(acc[j][2], acc[j][3]);
    }
}

// C (bf16, 16 x 8) = A (bf16, 16 x 16) B^T (bf16, 8 x 16); the result leaves through stmatrix, also transposed.
extern "C" __global__ void mma_bf16_stmatrix(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, __nv_bfloat16* ct) {
    __shared__ alignas(16) __nv_bfloat16 tile[16 * 8], turned[8 * 16];
    int lane = threadIdx.x, g = lane / 4, p = lane % 4 * 2;
    unsigned fa[4], fb[2];
    fa[0] = *(const unsigned*)&a[g * 16 + p];
    fa[1] = *(const unsigned*)&a[(g + 8) * 16 + p];
    fa[2] = *(const unsigned*)&a[g * 16 + p + 8];
    fa[3] = *(const unsigned*)&a[(g + 8) * 16 + p + 8];
    fb[0] = *(const unsigned*)&b[g * 16 + p];
    fb[1] = *(const unsigned*)&b[g * 16 + p + 8];
    float d[4];
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                 : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]), "f"(1.0f));
    unsigned low, high;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(low) : "f"(d[1]), "f"(d[0]));
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(high) : "f"(d[3]), "f"(d[2]));
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(shared_address(&tile[lane % 16 * 8])), "r"(low), "r"(high) : "memory");
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(shared_address(&turned[lane % 8 * 16 + lane / 8 % 2 * 8])), "r"(low), "r"(high) : "memory");
    __syncwarp();
    for (int i = lane; i < 128; i += 32) c[i] = tile[i], ct[i] = turned[i];
}

// One 16 x 8 product for each of tf32 (k 8), s8 (k 32), u8 x s8 saturating, e4m3 x e5m2 (k 32), f16 accumulators,
// f64 (k 4 and 16) and 1-bit (k 256). Operands lie in memory in fragment order: register r of lane l at [r * 32 + l].
extern "C" __global__ void mma_kinds(const unsigned* a, const unsigned* b, const double* da, const double* db, unsigned* out, double* dout) {
    int lane = threadIdx.x;
    unsigned A[4], B[2];
    for (int r = 0; r < 4; r++) A[r] = a[r * 32 + lane];
    for (int r = 0; r < 2; r++) B[r] = b[r * 32 + lane];
    auto put = [&](int kind, unsigned d0, unsigned d1, unsigned d2, unsigned d3) {
        unsigned* o = out + kind * 128 + lane;
        o[0] = d0, o[32] = d1, o[64] = d2, o[96] = d3;
    };
    float f[4];
    int s[4];
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
                 : "=f"(f[0]), "=f"(f[1]), "=f"(f[2]), "=f"(f[3])
                 : "r"(A[0] & 0x7u ? 0x3f800000u : 0x40000000u), "r"(A[1] & 0x7u ? 0x3f800000u : 0xc0000000u), "r"(A[2] & 0x7u ? 0x40400000u : 0u),
                   "r"(A[3] & 0x7u ? 0x3f000000u : 0x40800000u), "r"(B[0] & 0x7u ? 0x3f800000u : 0x40a00000u), "r"(B[1] & 0x7u ? 0xbf800000u : 0x40000000u), "f"(0.0f));
    put(0, __float_as_uint(f[0]), __float_as_uint(f[1]), __float_as_uint(f[2]), __float_as_uint(f[3]));
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
                 : "=r"(s[0]), "=r"(s[1]), "=r"(s[2]), "=r"(s[3]) : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "r"(B[0]), "r"(B[1]), "r"(7));
    put(1, s[0], s[1], s[2], s[3]);
    asm volatile("mma.sync.aligned.m16n8k32.row.col.satfinite.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
                 : "=r"(s[0]), "=r"(s[1]), "=r"(s[2]), "=r"(s[3]) : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "r"(B[0]), "r"(B[1]), "r"(2147483000));
    put(2, s[0], s[1], s[2], s[3]);
    // e4m3 codes 0x38..0x3f are 1 .. 1.875; e5m2 codes 0x3c..0x3f are 1 .. 1.75.
    unsigned E[4], F[2];
    for (int r = 0; r < 4; r++) E[r] = (A[r] & 0x87878787u) | 0x38383838u;
    for (int r = 0; r < 2; r++) F[r] = (B[r] & 0x83838383u) | 0x3c3c3c3cu;
    asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
                 : "=f"(f[0]), "=f"(f[1]), "=f"(f[2]), "=f"(f[3]) : "r"(E[0]), "r"(E[1]), "r"(E[2]), "r"(E[3]), "r"(F[0]), "r"(F[1]), "f"(0.0f));
    put(3, __float_as_uint(f[0]), __float_as_uint(f[1]), __float_as_uint(f[2]), __float_as_uint(f[3]));
    // f16 codes 0x3c00, 0x4000 (1, 2) with a sign; k 8, f16 accumulators.
    unsigned H[2], G = (B[0] & 0x80008000u) | 0x3c003c00u, h0, h1;
    for (int r = 0; r < 2; r++) H[r] = (A[r] & 0x80008000u) | 0x40003c00u;
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3}, {%4}, {%5,%5};"
                 : "=r"(h0), "=r"(h1) : "r"(H[0]), "r"(H[1]), "r"(G), "r"(0x3c003c00u));
    put(4, h0, h1, 0, 0);
    asm volatile("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
                 : "=r"(s[0]), "=r"(s[1]), "=r"(s[2]), "=r"(s[3]) : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "r"(B[0]), "r"(B[1]), "r"(0));
    put(5, s[0], s[1], s[2], s[3]);
    double d[4];
    asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%7,%7,%7};"
                 : "=d"(d[0]), "=d"(d[1]), "=d"(d[2]), "=d"(d[3]) : "d"(da[lane]), "d"(da[32 + lane]), "d"(db[lane]), "d"(0.5));
    for (int r = 0; r < 4; r++) dout[r * 32 + lane] = d[r];
}
