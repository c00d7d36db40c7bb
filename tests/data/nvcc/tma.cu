// The tensor memory accelerator by inline PTX: tiles in and out, plain bulk copies, reductions, multicast.

struct alignas(64) TensorMap { unsigned char bytes[128]; };

static __device__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

static __device__ void barrier_init(unsigned bar, unsigned count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

static __device__ void barrier_expect(unsigned bar, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}

static __device__ void barrier_wait(unsigned bar, unsigned parity) {
    unsigned done;
    do {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(bar), "r"(parity) : "memory");
    } while (!done);
}

static __device__ void load_2d(unsigned to, const TensorMap& map, int x, int y, unsigned bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
                 "l"(&map), "r"(x), "r"(y), "r"(bar) : "memory");
}

static __device__ void store_2d(const TensorMap& map, int x, int y, unsigned from) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map), "r"(x), "r"(y), "r"(from) : "memory");
}

static __device__ void stores_done() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// Each block: one 32 x 32 float tile (columns from 32 bx, rows from 32 by) in, 2 v + 1, and out. No swizzle.
extern "C" __global__ void tile_scale(const __grid_constant__ TensorMap in, const __grid_constant__ TensorMap out) {
    __shared__ alignas(128) float tile[32][32];
    __shared__ alignas(8) unsigned long long bar;
    int x = blockIdx.x * 32, y = blockIdx.y * 32;
    unsigned b = shared_address(&bar), s = shared_address(tile);
    if (threadIdx.x == 0) {
        asm volatile("prefetch.tensormap [%0];" ::"l"(&in) : "memory");
        barrier_init(b, 1);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        barrier_expect(b, sizeof tile);
        load_2d(s, in, x, y, b);
    }
    barrier_wait(b, 0);
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) tile[i / 32][i % 32] = 2 * tile[i / 32][i % 32] + 1;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        store_2d(out, x, y, s);
        stores_done();
    }
}

// Transposes 64 x 32 tiles of 16-bit words: in with the 64-byte swizzle, out (32 x 64 boxes) with the 128-byte one.
extern "C" __global__ void tile_transpose(const __grid_constant__ TensorMap in, const __grid_constant__ TensorMap out) {
    extern __shared__ __align__(1024) unsigned char pool[];
    unsigned short* from = (unsigned short*)pool;
    unsigned short* to = (unsigned short*)(pool + 4096);
    unsigned long long* bar = (unsigned long long*)(pool + 8192);
    unsigned b = shared_address(bar);
    int x = blockIdx.x * 32, y = blockIdx.y * 64;
    if (threadIdx.x == 0) barrier_init(b, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        barrier_expect(b, 4096);
        load_2d(shared_address(from), in, x, y, b);
    }
    barrier_wait(b, 0);
    for (int e = threadIdx.x; e < 64 * 32; e += blockDim.x) {
        int r = e / 32, c = e % 32;
        int source = r * 64 + c * 2, target = c * 128 + r * 2;
        source ^= source >> 3 & 0x30;
        target ^= target >> 3 & 0x70;
        to[target / 2] = from[source / 2];
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        store_2d(out, y, x, shared_address(to));
        stores_done();
    }
}

// A plain bulk copy of `bytes` (a multiple of 16) per block through shared memory, two phases of one barrier.
extern "C" __global__ void bulk_copy(const unsigned char* from, unsigned char* to, int bytes) {
    extern __shared__ __align__(1024) unsigned char pool[];
    __shared__ alignas(8) unsigned long long bar;
    unsigned b = shared_address(&bar), s = shared_address(pool);
    if (threadIdx.x == 0) barrier_init(b, 1);
    __syncthreads();
    for (int half = 0; half < 2; half++) {
        size_t at = (size_t)(blockIdx.x * 2 + half) * bytes;
        if (threadIdx.x == 0) {
            barrier_expect(b, bytes);
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(s), "l"(from + at), "r"(bytes), "r"(b) : "memory");
        }
        barrier_wait(b, half);
        for (int i = threadIdx.x; i < bytes; i += blockDim.x) pool[i] ^= 0x5a;
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        if (threadIdx.x == 0) {
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to + at), "r"(s), "r"(bytes) : "memory");
            asm volatile("cp.async.bulk.commit_group;" ::: "memory");
            asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// Adds each block's 8 x 16 tile of ones times (block + 1) to the same place of a float tensor, and a bulk s32 minimum.
extern "C" __global__ void tile_reduce(const __grid_constant__ TensorMap out, int* least) {
    __shared__ alignas(128) float tile[8][16];
    __shared__ alignas(16) int low[32];
    for (int i = threadIdx.x; i < 128; i += blockDim.x) tile[i / 16][i % 16] = (float)(blockIdx.x + 1) * (i + 1);
    if (threadIdx.x < 32) low[threadIdx.x] = (int)((threadIdx.x * 37 + blockIdx.x * 11) % 23) - 9;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&out), "r"(4), "r"(3), "r"(shared_address(tile)) : "memory");
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.min.s32 [%0], [%1], %2;" ::"l"(least), "r"(shared_address(low)), "r"(128) : "memory");
        stores_done();
    }
}

// A 3-D box (2 planes x 4 rows x 8 floats) from signed coordinates, dumped to out[block][64].
extern "C" __global__ void tile_3d(const __grid_constant__ TensorMap in, const int* where, float* out) {
    __shared__ alignas(128) float box[64];
    __shared__ alignas(8) unsigned long long bar;
    unsigned b = shared_address(&bar);
    if (threadIdx.x == 0) {
        barrier_init(b, 1);
        barrier_expect(b, 256);
        const int* at = where + blockIdx.x * 3;
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(shared_address(box)),
                     "l"(&in), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(b) : "memory");
    }
    __syncthreads();
    barrier_wait(b, 0);
    out[blockIdx.x * 64 + threadIdx.x] = box[threadIdx.x];
}

// A cluster of two: rank 0 multicasts a 16 x 32 float tile to both; each writes it with its rank added.
extern "C" __global__ void __cluster_dims__(2, 1, 1) tile_multicast(const __grid_constant__ TensorMap in, float* out) {
    __shared__ alignas(128) float tile[512];
    __shared__ alignas(8) unsigned long long bar;
    unsigned b = shared_address(&bar), rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) {
        barrier_init(b, 1);
        barrier_expect(b, 2048);
    }
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    if (threadIdx.x == 0 && rank == 0)
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared_address(tile)),
                     "l"(&in), "r"(0), "r"((int)(blockIdx.x / 2) * 16), "r"(b), "h"((unsigned short)3) : "memory");
    barrier_wait(b, 0);
    for (int i = threadIdx.x; i < 512; i += blockDim.x) out[blockIdx.x * 512 + i] = tile[i] + rank;
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
