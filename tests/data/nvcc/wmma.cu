// Matrix products by nvcuda::wmma, one warp a block, one 16 x 16 tile of C a warp; sizes are multiples of the tile.
#include <cuda_bf16.h>
#include <mma.h>
using namespace nvcuda;

// C (f32) = A B + C; A row major m x k, B column major (n x k in memory).
extern "C" __global__ void wmma_f16(const half* a, const half* b, float* c, int n, int k) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    int i = blockIdx.y * 16, j = blockIdx.x * 16;
    wmma::load_matrix_sync(fc, c + i * n + j, n, wmma::mem_row_major);
    for (int q = 0; q < k; q += 16) {
        wmma::load_matrix_sync(fa, a + i * k + q, k);
        wmma::load_matrix_sync(fb, b + j * k + q, k);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    wmma::store_matrix_sync(c + i * n + j, fc, n, wmma::mem_row_major);
}

// C (f16, column major: n x m in memory) = A B; B row major; 32 x 8 x 16 tiles, through shared memory.
extern "C" __global__ void wmma_f16_tall(const half* a, const half* b, half* c, int m, int n, int k) {
    __shared__ half tile[32 * 16];
    wmma::fragment<wmma::matrix_a, 32, 8, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 32, 8, 16, half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 32, 8, 16, half> fc;
    int i = blockIdx.y * 32, j = blockIdx.x * 8;
    wmma::fill_fragment(fc, __float2half(0.0f));
    for (int q = 0; q < k; q += 16) {
        for (int e = threadIdx.x; e < 512; e += 32) tile[e] = a[(i + e / 16) * k + q + e % 16];
        __syncwarp();
        wmma::load_matrix_sync(fa, tile, 16);
        wmma::load_matrix_sync(fb, b + q * n + j, n);
        wmma::mma_sync(fc, fa, fb, fc);
        __syncwarp();
    }
    for (int e = 0; e < fc.num_elements; e++) fc.x[e] = __hmul(fc.x[e], __float2half(0.5f));
    wmma::store_matrix_sync(c + j * m + i, fc, m, wmma::mem_col_major);
}

extern "C" __global__ void wmma_bf16(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int n, int k) {
    wmma::fragment<wmma::matrix_a, 8, 32, 16, __nv_bfloat16, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 8, 32, 16, __nv_bfloat16, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 8, 32, 16, float> fc;
    int i = blockIdx.y * 8, j = blockIdx.x * 32;
    wmma::fill_fragment(fc, 0.0f);
    for (int q = 0; q < k; q += 16) {
        wmma::load_matrix_sync(fa, a + i * k + q, k);
        wmma::load_matrix_sync(fb, b + j * k + q, k);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    wmma::store_matrix_sync(c + i * n + j, fc, n, wmma::mem_row_major);
}

extern "C" __global__ void wmma_tf32(const float* a, const float* b, float* c, int n, int k) {
    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> fc;
    int i = blockIdx.y * 16, j = blockIdx.x * 16;
    wmma::fill_fragment(fc, 0.0f);
    for (int q = 0; q < k; q += 8) {
        wmma::load_matrix_sync(fa, a + i * k + q, k);
        wmma::load_matrix_sync(fb, b + q * n + j, n);
        for (int e = 0; e < fa.num_elements; e++) fa.x[e] = wmma::__float_to_tf32(fa.x[e]);
        for (int e = 0; e < fb.num_elements; e++) fb.x[e] = wmma::__float_to_tf32(fb.x[e]);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    wmma::store_matrix_sync(c + i * n + j, fc, n, wmma::mem_row_major);
}

extern "C" __global__ void wmma_s8(const signed char* a, const signed char* b, int* c, int n, int k) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, int> fc;
    int i = blockIdx.y * 16, j = blockIdx.x * 16;
    wmma::fill_fragment(fc, 0);
    for (int q = 0; q < k; q += 16) {
        wmma::load_matrix_sync(fa, a + i * k + q, k);
        wmma::load_matrix_sync(fb, b + j * k + q, k);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    wmma::store_matrix_sync(c + i * n + j, fc, n, wmma::mem_row_major);
}

extern "C" __global__ void wmma_f64(const double* a, const double* b, double* c, int n, int k) {
    wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 8, 8, 4, double> fc;
    int i = blockIdx.y * 8, j = blockIdx.x * 8;
    wmma::fill_fragment(fc, 0.0);
    for (int q = 0; q < k; q += 4) {
        wmma::load_matrix_sync(fa, a + i * k + q, k);
        wmma::load_matrix_sync(fb, b + j * k + q, k);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    wmma::store_matrix_sync(c + i * n + j, fc, n, wmma::mem_row_major);
}
