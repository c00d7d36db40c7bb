// A Blackwell product: TMA loads (128-byte swizzle), a two-stage ring, tcgen05.mma by one thread, tcgen05.ld by four warps.
// C (f32, m x n) = A (bf16, m x k) B^T (bf16, n x k); one 128 x 64 tile a block, 128 threads, 48 KiB of dynamic shared memory.

struct alignas(64) TensorMap { unsigned char bytes[128]; };

static __device__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

static __device__ void barrier_wait(unsigned bar, unsigned parity) {
    unsigned done;
    do {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(bar), "r"(parity) : "memory");
    } while (!done);
}

static __device__ void load_2d(unsigned to, const TensorMap& map, int x, int y, unsigned bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
                 "l"(&map), "r"(x), "r"(y), "r"(bar) : "memory");
}

static __device__ unsigned long long descriptor(unsigned address) {
    return 0x4000404000010000ull | ((address & 0x3ffff) >> 4);
}

extern "C" __global__ void __launch_bounds__(128, 1)
    tcgen05_gemm(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float* c, int n, int k) {
    extern __shared__ __align__(1024) unsigned char pool[];
    __shared__ alignas(8) unsigned long long bars[5];
    __shared__ unsigned slot;
    unsigned full = shared_address(bars), empty = full + 16, finished = full + 32, s = shared_address(pool);
    int steps = (k + 63) / 64, warp = threadIdx.x / 32;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 5; i++) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full + 8 * i) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncwarp();
    if (warp == 0) {
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 64;" ::"r"(shared_address(&slot)) : "memory");
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory");
    }
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    unsigned accumulator = *(volatile unsigned*)&slot;
    if (warp == 1 && threadIdx.x % 32 == 0) {
        for (int q = 0; q < steps; q++) {
            int stage = q & 1, round = q >> 1;
            barrier_wait(empty + 8 * stage, round & 1 ^ 1);
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 24576;" ::"r"(full + 8 * stage) : "memory");
            load_2d(s + stage * 24576, a, q * 64, blockIdx.y * 128, full + 8 * stage);
            load_2d(s + stage * 24576 + 16384, b, q * 64, blockIdx.x * 64, full + 8 * stage);
        }
    } else if (warp == 0 && threadIdx.x == 0) {
        unsigned idesc = 1u << 4 | 1u << 7 | 1u << 10 | (64u >> 3) << 17 | (128u >> 4) << 24;  // f32 += bf16 x bf16, 128 x 64
        for (int q = 0; q < steps; q++) {
            int stage = q & 1, round = q >> 1;
            barrier_wait(full + 8 * stage, round & 1);
            asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
            unsigned long long da = descriptor(s + stage * 24576), db = descriptor(s + stage * 24576 + 16384);
            for (int i = 0; i < 4; i++)
                asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p; }" ::"r"(accumulator),
                             "l"(da + 2 * i), "l"(db + 2 * i), "r"(idesc), "r"(q + i) : "memory");
            asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(empty + 8 * stage) : "memory");
        }
        asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(finished) : "memory");
    }
    __syncwarp();
    barrier_wait(finished, 0);
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    float* out = c + (blockIdx.y * 128 + threadIdx.x) * n + blockIdx.x * 64;
    for (int j = 0; j < 64; j += 8) {
        unsigned v[8];
        asm volatile("tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8];"
                     : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]), "=r"(v[4]), "=r"(v[5]), "=r"(v[6]), "=r"(v[7])
                     : "r"(accumulator + (warp << 21) + j) : "memory");
        asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
        for (int i = 0; i < 8; i++) out[j + i] = __uint_as_float(v[i]);
    }
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    if (warp == 0) {
        asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
        asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 64;" ::"r"(accumulator) : "memory");
    }
}
