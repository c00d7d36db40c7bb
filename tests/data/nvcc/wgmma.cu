// A Hopper product: TMA loads (128-byte swizzle), a two-stage ring of mbarriers, a producer warp and one consumer warpgroup.
// C (f32, m x n) = A (f16, m x k) B^T (f16, n x k); one 64 x 64 tile a block, 160 threads, 33 KiB of dynamic shared memory.

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
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
                 "l"(&map), "r"(x), "r"(y), "r"(bar) : "memory");
}

static __device__ unsigned long long descriptor(unsigned address) {
    return 0x4000004000010000ull | ((address & 0x3ffff) >> 4);
}

#define D8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
static __device__ void wgmma(float (&d)[32], unsigned long long a, unsigned long long b, int accumulate) {
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,"
        "%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, p, 1, 1, 0, 0; }"
        : D8(0), D8(8), D8(16), D8(24) : "l"(a), "l"(b), "r"(accumulate));
}

extern "C" __global__ void __launch_bounds__(160, 1)
    wgmma_gemm(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float* c, int n, int k) {
    extern __shared__ __align__(1024) unsigned char pool[];
    __shared__ alignas(8) unsigned long long bars[4];
    unsigned full = shared_address(bars), empty = full + 16, s = shared_address(pool);
    int steps = (k + 63) / 64, warp = threadIdx.x / 32;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full + 8 * i) : "memory");
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 128;" ::"r"(empty + 8 * i) : "memory");
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (warp == 4) {
        if (threadIdx.x % 32 == 0)
            for (int q = 0; q < steps; q++) {
                int stage = q & 1, round = q >> 1;
                barrier_wait(empty + 8 * stage, round & 1 ^ 1);
                asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 16384;" ::"r"(full + 8 * stage) : "memory");
                load_2d(s + stage * 16384, a, q * 64, blockIdx.y * 64, full + 8 * stage);
                load_2d(s + stage * 16384 + 8192, b, q * 64, blockIdx.x * 64, full + 8 * stage);
            }
        return;
    }
    float d[32] = {};
    for (int q = 0; q < steps; q++) {
        int stage = q & 1, round = q >> 1;
        barrier_wait(full + 8 * stage, round & 1);
        unsigned long long da = descriptor(s + stage * 16384), db = descriptor(s + stage * 16384 + 8192);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        for (int i = 0; i < 4; i++) wgmma(d, da + 2 * i, db + 2 * i, q + i > 0);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(empty + 8 * stage) : "memory");
    }
    int t = threadIdx.x, row = blockIdx.y * 64 + warp * 16 + t % 32 / 4, col = blockIdx.x * 64 + t % 4 * 2;
    for (int i = 0; i < 8; i++) {
        *(float2*)&c[row * n + col + 8 * i] = make_float2(d[4 * i], d[4 * i + 1]);
        *(float2*)&c[(row + 8) * n + col + 8 * i] = make_float2(d[4 * i + 2], d[4 * i + 3]);
    }
}
