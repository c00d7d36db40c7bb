// Clusters and distributed shared memory.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

// A histogram of 64 bins spread over a cluster of 4: bin b lives in rank b / 16. The cluster size comes from the launch.
extern "C" __global__ void cluster_histogram(const int* x, int* bins, int n) {
    __shared__ int mine[16];
    cg::cluster_group cluster = cg::this_cluster();
    if (threadIdx.x < 16) mine[threadIdx.x] = 0;
    cluster.sync();
    for (int i = cluster.thread_rank(); i < n; i += cluster.num_threads()) {
        int b = x[i] & 63;
        atomicAdd(cluster.map_shared_rank(mine, b / 16) + b % 16, 1);
    }
    cluster.sync();
    if (threadIdx.x < 16) bins[cluster.block_rank() * 16 + threadIdx.x] = mine[threadIdx.x];
}

// A ring: each block of a fixed cluster of 4 hands its value to the next one's shared memory, by mapa, st and remote arrives.
extern "C" __global__ void __cluster_dims__(4, 1, 1) cluster_ring(const int* x, int* out) {
    __shared__ int box[32];
    __shared__ alignas(8) unsigned long long bar;
    unsigned rank, count, b = (unsigned)__cvta_generic_to_shared(&bar), s = (unsigned)__cvta_generic_to_shared(box), far, far_bar;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(count));
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 32;\nfence.mbarrier_init.release.cluster;" ::"r"(b) : "memory");
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
    unsigned next = (rank + 1) % count;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far) : "r"(s + threadIdx.x * 4), "r"(next));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far_bar) : "r"(b), "r"(next));
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(far), "r"(x[blockIdx.x * 32 + threadIdx.x]) : "memory");
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(far_bar) : "memory");
    unsigned done;
    do {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(b) : "memory");
    } while (!done);
    out[blockIdx.x * 32 + threadIdx.x] = box[threadIdx.x ^ 1] * 10 + rank;
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

// st.async into the neighbour with bytes counted there, and a bulk copy from shared memory to shared memory.
extern "C" __global__ void __cluster_dims__(2, 1, 1) cluster_async(const int* x, int* out) {
    __shared__ alignas(16) int sent[64], box[64], copied[64];
    __shared__ alignas(8) unsigned long long bar;
    unsigned rank, b = (unsigned)__cvta_generic_to_shared(&bar), far_box, far_bar, far_copied;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    int t = threadIdx.x;
    sent[t] = x[blockIdx.x * 64 + t] + 5;
    if (t == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" ::"r"(b) : "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 512;" ::"r"(b) : "memory");
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far_box) : "r"((unsigned)__cvta_generic_to_shared(&box[t])), "r"(rank ^ 1));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far_bar) : "r"(b), "r"(rank ^ 1));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far_copied) : "r"((unsigned)__cvta_generic_to_shared(copied)), "r"(rank ^ 1));
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(far_box), "r"(x[blockIdx.x * 64 + t] * 3), "r"(far_bar) : "memory");
    if (t == 0)
        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(far_copied),
                     "r"((unsigned)__cvta_generic_to_shared(sent)), "r"(256), "r"(far_bar) : "memory");
    unsigned done;
    do {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(b) : "memory");
    } while (!done);
    out[blockIdx.x * 128 + t] = box[t];
    out[blockIdx.x * 128 + 64 + t] = copied[t];
    asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
}
