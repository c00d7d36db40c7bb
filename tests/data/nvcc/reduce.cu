// Reductions and scans: warp shuffles, redux, votes, matches, block barriers, a grid-wide ticket.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

// out[block] = sum of the block's part of x (one element a thread, n elements in all).
extern "C" __global__ void block_sum(const float* x, float* out, int n) {
    __shared__ float parts[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? x[i] : 0.0f;
    for (int step = 16; step > 0; step /= 2) v += __shfl_down_sync(0xffffffffu, v, step);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x < 32) {
        v = threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : 0.0f;
        for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
        if (threadIdx.x == 0) out[blockIdx.x] = v;
    }
}

// One warp. out is 24 x 32, row by row one collective each.
extern "C" __global__ void warp_collectives(const unsigned* x, unsigned* out) {
    unsigned lane = threadIdx.x, v = x[lane], all = 0xffffffffu;
    int s = (int)v, row = 0;
    auto put = [&](unsigned value) { out[row++ * 32 + lane] = value; };
    put(__reduce_add_sync(all, v));
    put(__reduce_min_sync(all, v));
    put(__reduce_max_sync(all, v));
    put((unsigned)__reduce_min_sync(all, s));
    put((unsigned)__reduce_max_sync(all, s));
    put(__reduce_and_sync(all, v | 0xff));
    put(__reduce_or_sync(all, v & 0xf0f0));
    put(__reduce_xor_sync(all, v));
    put(__ballot_sync(all, v & 1));
    put(__any_sync(all, v == 7) ? 1u : 0u);
    put(__all_sync(all, v != 7) ? 1u : 0u);
    put(__match_any_sync(all, v % 5));
    int same;
    put(__match_all_sync(all, v / 0x10000000 * 0, &same));
    put((unsigned)same);
    put(__shfl_sync(all, v, (lane * 7) % 32));
    put(__shfl_sync(all, v, lane + 3, 8));
    put(__shfl_up_sync(all, v, 5));
    put(__shfl_up_sync(all, v, 3, 16));
    put(__shfl_down_sync(all, v, 6, 8));
    put(__shfl_xor_sync(all, v, 12, 16));
    unsigned odd = 0;
    if (lane & 1) odd = __reduce_add_sync(0xaaaaaaaau, v);  // half of the warp
    else odd = __ballot_sync(0x55555555u, v & 2);
    __syncwarp();
    put(odd);
    __shared__ unsigned members;
    if (lane == 0) members = 0;
    __syncwarp();
    unsigned counted = 0;
    if (v % 3 == 0) {  // one addition for however many lanes are together here
        cg::coalesced_group group = cg::coalesced_threads();
        if (group.thread_rank() == 0) atomicAdd(&members, group.size());
        counted = 1;
    }
    __syncwarp();
    put(counted * 1000 + members);
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    put((unsigned)(tile.meta_group_rank() * 1000 + tile.thread_rank() * 10 + tile.any(v % 11 == 0)));
    unsigned long long wide = (unsigned long long)v << 20 | lane;
    wide = __shfl_down_sync(all, wide, 1);
    put((unsigned)(wide >> 16));
}

// One warp whose halves meet in warp-wide instructions that stand in different places: same mask, same form.
extern "C" __global__ void apart_together(const unsigned* x, unsigned* out) {
    unsigned lane = threadIdx.x, v = x[lane], r, votes, sum;
    if (lane < 16) {
        asm volatile("shfl.sync.bfly.b32 %0, %1, 16, 31, -1;" : "=r"(r) : "r"(v + 1));
        asm volatile("{ .reg .pred p; setp.gt.u32 p, %1, 100; vote.sync.ballot.b32 %0, p, -1; }" : "=r"(votes) : "r"(v));
        out[64 + lane] = 1;
        __syncwarp();
    } else {
        asm volatile("shfl.sync.bfly.b32 %0, %1, 16, 31, -1;" : "=r"(r) : "r"(v * 3));
        asm volatile("{ .reg .pred p; setp.le.u32 p, %1, 100; vote.sync.ballot.b32 %0, p, -1; }" : "=r"(votes) : "r"(v));
        __syncwarp();
        r += out[64 + lane - 16];
    }
    for (sum = 0; lane < 7 && sum < v; sum += 1 + lane);
    out[lane] = r;
    out[32 + lane] = votes ^ __reduce_or_sync(0xffffffffu, sum);
}

// Exclusive prefix sum of one block's n <= 1024 ints; total[0] = the sum.
extern "C" __global__ void exclusive_scan(const int* x, int* out, int* total, int n) {
    __shared__ int warp_sums[32];
    int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    int v = t < n ? x[t] : 0, sum = v;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        int other = __shfl_up_sync(0xffffffffu, sum, step);
        if (lane >= step) sum += other;
    }
    if (lane == 31) warp_sums[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        int w = lane < (int)(blockDim.x >> 5) ? warp_sums[lane] : 0;
        for (int step = 1; step < 32; step *= 2) {
            int other = __shfl_up_sync(0xffffffffu, w, step);
            if (lane >= step) w += other;
        }
        warp_sums[lane] = w;
    }
    __syncthreads();
    int before = warp ? warp_sums[warp - 1] : 0;
    if (t < n) out[t] = before + sum - v;
    if (t == 0) *total = warp_sums[31];
}

// The last block to finish adds up what all blocks left in `partial`.
extern "C" __global__ void last_block_sum(const int* x, int* partial, unsigned* ticket, int* out, int n) {
    __shared__ bool last;
    __shared__ int sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&sum, x[i]);
    __syncthreads();
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
        __threadfence();
        last = atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last) {
        int v = threadIdx.x < gridDim.x ? ((volatile int*)partial)[threadIdx.x] : 0;
        v = __reduce_add_sync(0xffffffffu, v);
        if (threadIdx.x == 0) *out = v;
    }
}

// Barriers that reduce: counts, ands and ors of a predicate over the block; named barriers between two halves.
extern "C" __global__ void barrier_votes(const int* x, int* out) {
    __shared__ int box[64];
    int t = threadIdx.x, v = x[t];
    int count = __syncthreads_count(v > 0);
    int all = __syncthreads_and(v > -100), some = __syncthreads_or(v == 12345);
    if (t < 64) {
        box[t] = v * 3;
        asm volatile("bar.arrive 1, 128;" ::: "memory");
    } else {
        asm volatile("bar.sync 1, 128;" ::: "memory");
        v += box[t - 64];
    }
    int reduced;
    asm volatile(
        "{ .reg .pred p, q;\n setp.gt.s32 p, %1, 10;\n barrier.cta.red.or.pred q, 2, p;\n selp.s32 %0, 1, 0, q; }"
        : "=r"(reduced) : "r"(v) : "memory");
    out[t] = v + 1000 * count + 1000000 * all + 2000000 * (some != 0) + 4000000 * reduced;
}
