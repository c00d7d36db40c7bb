// Row softmax and layer norm, one block of 128 threads a row.

template <typename Op> static __device__ float block_reduce(float v, Op op, float* box) {
    for (int step = 16; step > 0; step >>= 1) v = op(v, __shfl_xor_sync(0xffffffffu, v, step));
    if ((threadIdx.x & 31) == 0) box[threadIdx.x >> 5] = v;
    __syncthreads();
    v = box[0];
    for (int w = 1; w < (int)blockDim.x >> 5; w++) v = op(v, box[w]);
    __syncthreads();
    return v;
}

extern "C" __global__ void softmax(const float* x, float* y, int cols) {
    __shared__ float box[32];
    const float* row = x + (long)blockIdx.x * cols;
    float top = -INFINITY;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) top = fmaxf(top, row[c]);
    top = block_reduce(top, [](float a, float b) { return fmaxf(a, b); }, box);
    float sum = 0.0f;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) sum += expf(row[c] - top);
    sum = block_reduce(sum, [](float a, float b) { return a + b; }, box);
    for (int c = threadIdx.x; c < cols; c += blockDim.x) y[(long)blockIdx.x * cols + c] = expf(row[c] - top) / sum;
}

extern "C" __global__ void layer_norm(const float* x, const float* gain, const float* bias, float* y, int cols, float eps) {
    __shared__ float box[32];
    const float* row = x + (long)blockIdx.x * cols;
    float sum = 0.0f, squares = 0.0f;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) sum += row[c];
    float mean = block_reduce(sum, [](float a, float b) { return a + b; }, box) / cols;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) squares += (row[c] - mean) * (row[c] - mean);
    float scale = rsqrtf(block_reduce(squares, [](float a, float b) { return a + b; }, box) / cols + eps);
    for (int c = threadIdx.x; c < cols; c += blockDim.x)
        y[(long)blockIdx.x * cols + c] = (row[c] - mean) * scale * gain[c] + bias[c];
}
