// Calls and control flow: recursion, function pointers, virtual functions, switches, local arrays, constants, printf, assert.
#include <cassert>
#include <cstdio>

__constant__ int table[8] = {3, 1, 4, 1, 5, 9, 2, 6};
__constant__ float scales[4] = {0.5f, 1.0f, 2.0f, -1.0f};
__device__ int counter = 100;
__device__ const unsigned long long mixed[2] = {0x0123456789abcdefull, 0xfedcba9876543210ull};

static __device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

extern "C" __global__ void recursion(const int* x, int* out) { out[threadIdx.x] = fibonacci(x[threadIdx.x]); }

static __device__ __noinline__ int twice(int v) { return 2 * v; }
static __device__ __noinline__ int square(int v) { return v * v; }
static __device__ __noinline__ int negate(int v) { return -v; }
typedef int (*Op)(int);
__device__ Op operations[3] = {twice, square, negate};

extern "C" __global__ void pointers(const int* x, const int* which, int* out) {
    int t = threadIdx.x;
    out[t] = operations[which[t]](x[t]) + 1;
}

struct Shape {
    int w, h;
    __device__ Shape(int w, int h) : w(w), h(h) {}
    __device__ virtual int measure() const { return w + h; }
};
struct Box : Shape {
    using Shape::Shape;
    __device__ int measure() const override { return w * h; }
};

extern "C" __global__ void virtuals(const int* x, int* out) {
    int t = threadIdx.x;
    Shape plain(x[t], t);
    Box box(x[t], t);
    const Shape* one = x[t] & 1 ? &box : &plain;
    out[t] = one->measure();
}

extern "C" __global__ void switches(const int* kind, const int* x, int* out) {
    int t = threadIdx.x, v = x[t];
    switch (kind[t]) {
        case 0: v += 11; break;
        case 1: v *= v; break;
        case 2: v = __popc(v) - 4; break;
        case 3: v ^= 0x55; v += out[t];  // falls through
        case 4: v = v * 3 - 1; break;
        case 5: for (int i = 0; i < t; i++) v += i * i; break;
        case 6: v = v / 3; break;
        case 7: out[t] = 7; return;
        case 8: v = v << 3 | 1; break;
        default: v = -1;
    }
    out[t] = v;
}

// Sorts eight numbers in local memory (indices known only at run time), then adds constants.
extern "C" __global__ void local_array(const int* x, int* out) {
    int a[8], t = threadIdx.x;
    for (int i = 0; i < 8; i++) a[(i * 3 + t) & 7] = x[t * 8 + i];
    for (int i = 1; i < 8; i++) {
        int v = a[i], j = i - 1;
        while (j >= 0 && a[j] > v) {
            a[j + 1] = a[j];
            j--;
        }
        a[j + 1] = v;
    }
    for (int i = 0; i < 8; i++) out[t * 8 + i] = a[i] + table[(t + i) & 7];
}

extern "C" __global__ void constants(const float* x, float* out, unsigned long long* bits, int* old) {
    int t = threadIdx.x;
    out[t] = x[t] * scales[t & 3] + (float)table[t & 7];
    bits[t] = mixed[t & 1] >> (t & 15);
    int was = atomicAdd(&counter, 1);
    old[t] = was >= 100 && was < 100 + (int)blockDim.x;
}

// printf and assert stand in branches; `loud` says whether the printing one is taken.
extern "C" __global__ void speaking(const int* x, int* out, int loud) {
    int t = threadIdx.x;
    assert(x[t] >= 0);
    if (loud && t == 3) printf("thread %d has %d and %f\n", t, x[t], x[t] * 0.5);
    out[t] = x[t] + 1;
}

struct Params { int a; short b[3]; double d; unsigned char c[5]; };
static __device__ __noinline__ Params turned(Params q) {
    q.a = -q.a;
    for (int i = 0; i < 3; i++) q.b[i] += q.c[i];
    q.d *= 2;
    return q;
}

// A structure by value to the kernel, and by value through a call.
extern "C" __global__ void structures(const __grid_constant__ Params q, const int* p, double* out) {
    Params r = turned(q);
    int t = threadIdx.x;
    out[t] = r.a + r.b[t % 3] + r.d + r.c[t % 5] + p[t];
}

// Warps leave a loop at different times; collatz steps of each number.
extern "C" __global__ void divergence(const unsigned* x, unsigned* out) {
    unsigned v = x[blockIdx.x * blockDim.x + threadIdx.x], steps = 0;
    while (v != 1) {
        if (v & 1) {
            v = 3 * v + 1;
            if (v % 5 == 0) { steps += 100; continue; }
        } else {
            v >>= 1;
        }
        if (++steps > 5000) break;
    }
    unsigned best = __reduce_max_sync(0xffffffffu, steps);
    out[blockIdx.x * blockDim.x + threadIdx.x] = steps << 16 | (best & 0xffff);
}

// A 3-D grid and block: every special register that says where a thread is.
extern "C" __global__ void positions(unsigned* out) {
    unsigned t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    unsigned b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    unsigned lane, warp, mask, total;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    asm volatile("mov.u32 %0, %%warpid;" : "=r"(warp));
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(mask));
    asm volatile("mov.u32 %0, %%total_smem_size;" : "=r"(total));
    unsigned* o = out + (b * blockDim.x * blockDim.y * blockDim.z + t) * 4;
    o[0] = threadIdx.x | threadIdx.y << 4 | threadIdx.z << 8 | blockIdx.x << 12 | blockIdx.y << 16 | blockIdx.z << 20;
    o[1] = lane | (t / 32) << 8 | gridDim.y << 16;
    o[2] = mask;
    o[3] = total < 1000000 && warp < 64 && clock64() != 0 ? 1 : 0;
}
