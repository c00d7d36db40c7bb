// Plain matrix kernels: padded transposes and a tiled f32 product.
#include <cuda_pipeline.h>

// out (cols x rows) = in (rows x cols) transposed, 32 x 32 tiles, blocks of 32 x 8.
extern "C" __global__ void transpose(const float* __restrict__ in, float* __restrict__ out, int rows, int cols) {
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (x < cols && y + j < rows) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * cols + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (x < rows && y + j < cols) out[(y + j) * rows + x] = tile[threadIdx.x][threadIdx.y + j];
}

// C = A B (row major, any sizes), blocks of 16 x 16 threads, 32 x 32 tiles, 2 x 2 a thread.
extern "C" __global__ void __launch_bounds__(256) sgemm(const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ float sa[16][32 + 1], sb[16][32];
    float acc[2][2] = {};
    int tx = threadIdx.x, ty = threadIdx.y, t = ty * 16 + tx;
    int row0 = blockIdx.y * 32, col0 = blockIdx.x * 32;
    for (int k0 = 0; k0 < k; k0 += 16) {
        for (int i = t; i < 512; i += 256) {
            int r = i / 16, q = i % 16;
            sa[q][r] = row0 + r < m && k0 + q < k ? a[(row0 + r) * k + k0 + q] : 0.0f;
            int s = i / 32, p = i % 32;
            sb[s][p] = k0 + s < k && col0 + p < n ? b[(k0 + s) * n + col0 + p] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int q = 0; q < 16; q++)
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 2; j++) acc[i][j] += sa[q][ty * 2 + i] * sb[q][tx * 2 + j];
        __syncthreads();
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            if (row0 + ty * 2 + i < m && col0 + tx * 2 + j < n) c[(row0 + ty * 2 + i) * n + col0 + tx * 2 + j] = acc[i][j];
}

// y = 2 x + 1 over tiles of 128 float4, double buffered by cp.async; the last tile may be short (zero-filled).
extern "C" __global__ void pipelined_scale(const float4* x, float4* y, int count) {
    __shared__ float4 stage[2][128];
    int tiles = (count + 127) / 128, t = threadIdx.x;
    auto fetch = [&](int tile) {
        if (tile < tiles) {
            int i = tile * 128 + t;
            __pipeline_memcpy_async(&stage[tile & 1][t], &x[i < count ? i : 0], 16, i < count ? 0 : 16);
        }
        __pipeline_commit();
    };
    fetch(0);
    for (int tile = 0; tile < tiles; tile++) {
        fetch(tile + 1);
        __pipeline_wait_prior(1);
        __syncthreads();
        float4 v = stage[tile & 1][t ^ 1];
        int i = tile * 128 + (t ^ 1);
        if (i < count) y[i] = make_float4(2 * v.x + 1, 2 * v.y + 1, 2 * v.z + 1, 2 * v.w + 1);
        __syncthreads();
    }
}

// The same kind of copy with 4- and 8-byte pieces and an mbarrier that the copies arrive on.
extern "C" __global__ void async_barrier_copy(const int* x, int* y) {
    __shared__ alignas(16) int stage[128 * 3];
    __shared__ alignas(8) unsigned long long bar;
    int t = threadIdx.x;
    unsigned b = (unsigned)__cvta_generic_to_shared(&bar), s = (unsigned)__cvta_generic_to_shared(stage);
    if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(b), "r"(128) : "memory");
    __syncthreads();
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(s + t * 4), "l"(x + t) : "memory");
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(s + 512 + t * 8), "l"(x + 128 + 2 * t) : "memory");
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(b) : "memory");
    asm volatile(
        "{ .reg .pred p;\nAGAIN:\n mbarrier.try_wait.parity.shared.b64 p, [%0], 0;\n @!p bra AGAIN; }" ::"r"(b) : "memory");
    for (int i = t; i < 384; i += 128) y[i] = stage[383 - i];
}
