// The CUDA C++ standard library and CUB: barriers, pipelines, asynchronous copies, atomic references, cuda::ptx, block algorithms.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cub/cub.cuh>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/ptx>
namespace cg = cooperative_groups;

// y = 3 x; bulk copies in and out (cuda::memcpy_async, cuda::ptx), 256 ints a block.
extern "C" __global__ void barrier_copy(const int* x, int* y) {
    __shared__ alignas(128) int tile[256];
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    if (threadIdx.x == 0) init(&bar, blockDim.x);
    __syncthreads();
    cuda::barrier<cuda::thread_scope_block>::arrival_token token;
    if (threadIdx.x == 0) {
        cuda::device::memcpy_async_tx(tile, x + blockIdx.x * 256, cuda::aligned_size_t<16>(sizeof tile), bar);
        token = cuda::device::barrier_arrive_tx(bar, 1, sizeof tile);
    } else {
        token = bar.arrive();
    }
    bar.wait(std::move(token));
    for (int i = threadIdx.x; i < 256; i += blockDim.x) tile[i] *= 3;
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    __syncthreads();
    if (threadIdx.x == 0) {
        cuda::ptx::cp_async_bulk(cuda::ptx::space_global, cuda::ptx::space_shared, y + blockIdx.x * 256, tile, sizeof tile);
        cuda::ptx::cp_async_bulk_commit_group();
        cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<0>());
    }
}

// Sums of `rounds` tiles of 64 ints, by a two-stage cuda::pipeline of the block.
extern "C" __global__ void pipeline_sum(const int* x, int* y, int rounds) {
    __shared__ int stages[2][64];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    int sum = 0;
    for (int next = 0, round = 0; round < rounds; round++) {
        for (; next < rounds && next < round + 2; next++) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, stages[next % 2], x + next * 64, cuda::aligned_size_t<4>(sizeof stages[0]), pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        sum += stages[round % 2][63 - threadIdx.x];
        pipe.consumer_release();
    }
    y[threadIdx.x] = sum;
}

// Atomic references with orders and scopes; a flag hands data from block 0 to block 1.
extern "C" __global__ void hand_over(const int* x, int* box, int* flag, int* out, long long* total) {
    cuda::atomic_ref<int, cuda::thread_scope_device> ready(*flag);
    cuda::atomic_ref<long long, cuda::thread_scope_system> sum(*total);
    int t = threadIdx.x;
    if (blockIdx.x == 0) {
        box[t] = x[t] * 2;
        ready.fetch_add(1, cuda::memory_order_release);
        ready.notify_all();
    } else {
        while (ready.load(cuda::memory_order_acquire) != (int)blockDim.x) __nanosleep(20);
        out[t] = box[blockDim.x - 1 - t] + 1;
        sum.fetch_add(out[t], cuda::memory_order_relaxed);
        cuda::atomic_thread_fence(cuda::memory_order_seq_cst, cuda::thread_scope_device);
    }
}

// Groups of eight lanes: reductions, scans and broadcasts.
extern "C" __global__ void groups(const int* x, int* out) {
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    int t = threadIdx.x, v = x[t];
    out[t] = cg::reduce(tile, v, cg::plus<int>()) + cg::reduce(tile, v, cg::greater<int>());
    out[64 + t] = cg::inclusive_scan(tile, v) * 2 + cg::exclusive_scan(tile, v);
    out[128 + t] = tile.shfl(v, 3) - tile.shfl_down(v, 2) + (int)tile.match_any(v & 3);
    auto some = cg::binary_partition(tile, v > 0);
    out[192 + t] = (int)some.size() * 100 + cg::reduce(some, v, cg::plus<int>());
}

// CUB over one block of 64 threads, 4 items a thread: sums, scans, a radix sort with values, a histogram.
extern "C" __global__ void block_algorithms(const unsigned* x, unsigned* sorted, int* from, unsigned* scanned, unsigned* total, unsigned* bins) {
    using Load = cub::BlockLoad<unsigned, 64, 4, cub::BLOCK_LOAD_TRANSPOSE>;
    using Store = cub::BlockStore<unsigned, 64, 4, cub::BLOCK_STORE_WARP_TRANSPOSE>;
    using Scan = cub::BlockScan<unsigned, 64>;
    using Sort = cub::BlockRadixSort<unsigned, 64, 4, int>;
    using Sum = cub::BlockReduce<unsigned, 64>;
    using Bins = cub::BlockHistogram<unsigned, 64, 4, 16>;
    __shared__ union {
        Load::TempStorage load;
        Store::TempStorage store;
        Scan::TempStorage scan;
        Sort::TempStorage sort;
        Sum::TempStorage sum;
        Bins::TempStorage bins;
    } temporary;
    __shared__ unsigned counted[16];
    unsigned v[4], w[4];
    int place[4];
    Load(temporary.load).Load(x, v);
    __syncthreads();
    Scan(temporary.scan).ExclusiveSum(v, w);
    __syncthreads();
    Store(temporary.store).Store(scanned, w);
    __syncthreads();
    unsigned sum = Sum(temporary.sum).Sum(v);
    if (threadIdx.x == 0) *total = sum;
    for (int i = 0; i < 4; i++) w[i] = v[i] & 15;
    __syncthreads();
    Bins(temporary.bins).Histogram(w, counted);
    for (int i = 0; i < 4; i++) place[i] = threadIdx.x * 4 + i;
    __syncthreads();
    if (threadIdx.x < 16) bins[threadIdx.x] = counted[threadIdx.x];
    Sort(temporary.sort).Sort(v, place);
    for (int i = 0; i < 4; i++) sorted[threadIdx.x * 4 + i] = v[i], from[threadIdx.x * 4 + i] = place[i];
}
