// Float functions of one or two arguments; result r of element i at out[r * n + i].

extern "C" __global__ void exact_floats(const float* a, const float* b, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, row = 0;
    if (i >= n) return;
    float x = a[i], y = b[i];
    auto put = [&](float v) { out[row++ * n + i] = v; };
    put(__fadd_rz(x, y));
    put(__fadd_ru(x, y));
    put(__fmul_rd(x, y));
    put(__fmaf_rz(x, y, x));
    put(__fdiv_rn(x, y));
    put(__frcp_rn(y));
    put(__fsqrt_rn(fabsf(x)));
    put(__fdividef(x, 1.0f));
    put(fminf(x, y));
    put(fmaxf(x, -y));
    put(floorf(x));
    put(ceilf(x));
    put(truncf(x));
    put(rintf(x));
    put(roundf(x));
    put(copysignf(x, y));
    put(__saturatef(x));
    put((float)(int)x);
    put((float)(unsigned)fabsf(y));
    put(fmodf(x, y));
    put(ldexpf(x, 3));
    put((float)isnan(x - x) + (float)signbit(y));
    put(x > y ? x : (x == y ? 0.0f : y));
    put(fdimf(x, y));
}

extern "C" __global__ void functions(const float* a, const float* b, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, row = 0;
    if (i >= n) return;
    float x = a[i], y = b[i];
    auto put = [&](float v) { out[row++ * n + i] = v; };
    put(expf(x));
    put(sinf(x));
    put(cosf(x));
    put(tanf(x));
    put(rsqrtf(y));
    put(logf(y));
    put(erff(x));
    put(powf(y, x));
    put(tanhf(x));
    put(exp2f(x));
    put(log2f(y));
    put(atan2f(x, y));
    put(cbrtf(x));
    put(hypotf(x, y));
    put(lgammaf(y));
    put(expm1f(x));
    put(log1pf(y));
    put(sinf(x * 100000.0f));
    put(y / (x * x + 1.0f));
    put(sqrtf(y));
}

extern "C" __global__ void fast_functions(const float* a, const float* b, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, row = 0;
    if (i >= n) return;
    float x = a[i], y = b[i];
    auto put = [&](float v) { out[row++ * n + i] = v; };
    put(__expf(x));
    put(__sinf(x));
    put(__cosf(x));
    put(__logf(y));
    put(__powf(y, x));
    put(__fdividef(x, y));
    put(__log2f(y));
    put(__exp10f(x));
    float r;
    asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
    put(r);
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    put(r);
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(y));
    put(r);
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(y));
    put(r);
    asm("sqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(y));
    put(r);
}

extern "C" __global__ void double_functions(const double* a, const double* b, double* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = exp(a[i]);
    out[n + i] = log(b[i]);
    out[2 * n + i] = sin(a[i]);
    out[3 * n + i] = pow(b[i], a[i]);
    out[4 * n + i] = rsqrt(b[i]);
    out[5 * n + i] = tanh(a[i]);
}
