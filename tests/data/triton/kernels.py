"""Triton kernels of the corpus. Sizes, element types and options stand in generate.py."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, m, n, k, lda, ldb, ldc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, TF32: tl.constexpr):
    """C (m x n) = A (m x k) B (k x n), all row major; masks on every side. One tile a program, rows of tiles first."""
    pid_m, pid_n = tl.program_id(0), tl.program_id(1)
    rows, cols, ks = pid_m * BM + tl.arange(0, BM), pid_n * BN + tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k0 in range(0, k, BK):
        x = tl.load(
            a + rows[:, None] * lda + (k0 + ks)[None, :], mask=(rows[:, None] < m) & (k0 + ks < k)[None, :], other=0.0
        )
        y = tl.load(
            b + (k0 + ks)[:, None] * ldb + cols[None, :], mask=(k0 + ks < k)[:, None] & (cols[None, :] < n), other=0.0
        )
        acc = tl.dot(x, y, acc, input_precision=TF32)
    tl.store(
        c + rows[:, None] * ldc + cols[None, :],
        acc.to(c.dtype.element_ty),
        mask=(rows[:, None] < m) & (cols[None, :] < n),
    )


@triton.jit
def matmul_int8(a, b, c, k, lda, ldb, ldc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """C (s32) = A (s8, m x k) B^T (s8, n x k); sizes are multiples of the tile."""
    rows, cols, ks = (
        tl.program_id(0) * BM + tl.arange(0, BM),
        tl.program_id(1) * BN + tl.arange(0, BN),
        tl.arange(0, BK),
    )
    acc = tl.zeros((BM, BN), dtype=tl.int32)
    for k0 in range(0, k, BK):
        x = tl.load(a + rows[:, None] * lda + (k0 + ks)[None, :])
        y = tl.load(b + cols[None, :] * ldb + (k0 + ks)[:, None])
        acc += tl.dot(x, y)
    tl.store(c + rows[:, None] * ldc + cols[None, :], acc)


@triton.jit
def matmul_fp8(a, b, c, k, lda, ldb, ldc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """C (f32) = A (e4m3, m x k) B^T (e4m3, n x k); sizes are multiples of the tile."""
    rows, cols, ks = (
        tl.program_id(0) * BM + tl.arange(0, BM),
        tl.program_id(1) * BN + tl.arange(0, BN),
        tl.arange(0, BK),
    )
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k0 in range(0, k, BK):
        x = tl.load(a + rows[:, None] * lda + (k0 + ks)[None, :])
        y = tl.load(b + cols[None, :] * ldb + (k0 + ks)[:, None])
        acc = tl.dot(x, y, acc)
    tl.store(c + rows[:, None] * ldc + cols[None, :], acc)


@triton.jit
def matmul_tma(a, b, c, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """C (m x n) = A (m x k) B^T (n x k) through tensor descriptors that the host made."""
    row, col = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k0 in range(0, k, BK):
        acc = tl.dot(a.load([row, k0]), b.load([col, k0]).T, acc)
    c.store([row, col], acc.to(c.dtype))


@triton.jit
def matmul_tma_device(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The same through descriptors that the kernel makes itself, in its scratch memory."""
    da = tl.make_tensor_descriptor(a, shape=[m, k], strides=[k, 1], block_shape=[BM, BK])
    db = tl.make_tensor_descriptor(b, shape=[n, k], strides=[k, 1], block_shape=[BN, BK])
    dc = tl.make_tensor_descriptor(c, shape=[m, n], strides=[n, 1], block_shape=[BM, BN])
    row, col = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k0 in range(0, k, BK):
        acc = tl.dot(da.load([row, k0]), db.load([col, k0]).T, acc)
    dc.store([row, col], acc.to(c.dtype.element_ty))


@triton.jit
def matmul_persistent(
    a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PROGRAMS: tl.constexpr, ROLES: tl.constexpr
):
    """As matmul_tma, each program taking every PROGRAMS-th tile; with ROLES the warps have different jobs."""
    tiles_n = tl.cdiv(n, BN)
    tiles = tl.cdiv(m, BM) * tiles_n
    for tile in tl.range(tl.program_id(0), tiles, PROGRAMS, flatten=ROLES, warp_specialize=ROLES):
        row, col = tile // tiles_n * BM, tile % tiles_n * BN
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k0 in range(0, k, BK):
            acc = tl.dot(a.load([row, k0]), b.load([col, k0]).T, acc)
        c.store([row, col], acc.to(c.dtype))


@triton.jit
def matmul_scaled(a, sa, b, sb, c, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """C (f32) = A (e4m3, m x k) B^T (e4m3, n x k) with a power-of-two scale for each 32 of k (m or n rows x k/32 bytes)."""
    rows, cols, ks, ss = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK), tl.arange(0, BK // 32)
    rows += tl.program_id(0) * BM
    cols += tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k0 in range(0, k, BK):
        x = tl.load(a + rows[:, None] * k + (k0 + ks)[None, :])
        y = tl.load(b + cols[None, :] * k + (k0 + ks)[:, None])
        scale_x = tl.load(sa + rows[:, None] * (k // 32) + (k0 // 32 + ss)[None, :])
        scale_y = tl.load(sb + cols[:, None] * (k // 32) + (k0 // 32 + ss)[None, :])
        acc = tl.dot_scaled(x, scale_x, "e4m3", y, scale_y, "e4m3", acc)
    n = tl.num_programs(1) * BN
    tl.store(c + rows[:, None] * n + cols[None, :], acc)


@triton.jit
def softmax(x, y, cols, stride, BLOCK: tl.constexpr):
    """One row a program."""
    row, offset = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * stride + offset, mask=offset < cols, other=-float("inf"))
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(y + row * stride + offset, e / tl.sum(e, axis=0), mask=offset < cols)


@triton.jit
def layer_norm(x, gain, bias, y, mean_out, rstd_out, cols, stride, eps, BLOCK: tl.constexpr):
    """One row a program, in a loop over its columns."""
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for c0 in range(0, cols, BLOCK):
        at = c0 + tl.arange(0, BLOCK)
        total += tl.load(x + row * stride + at, mask=at < cols, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / cols
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for c0 in range(0, cols, BLOCK):
        at = c0 + tl.arange(0, BLOCK)
        v = tl.load(x + row * stride + at, mask=at < cols, other=0.0).to(tl.float32)
        v = tl.where(at < cols, v - mean, 0.0)
        squares += v * v
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / cols + eps)
    tl.store(mean_out + row, mean)
    tl.store(rstd_out + row, rstd)
    for c0 in range(0, cols, BLOCK):
        at = c0 + tl.arange(0, BLOCK)
        v = tl.load(x + row * stride + at, mask=at < cols, other=0.0).to(tl.float32)
        out = (v - mean) * rstd * tl.load(gain + at, mask=at < cols) + tl.load(bias + at, mask=at < cols)
        tl.store(y + row * stride + at, out, mask=at < cols)


@triton.jit
def transpose(x, y, rows, cols, BLOCK: tl.constexpr):
    """y (cols x rows) = x (rows x cols) transposed."""
    r, c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + r[:, None] * cols + c[None, :], mask=(r[:, None] < rows) & (c[None, :] < cols))
    tl.store(y + c[:, None] * rows + r[None, :], tl.trans(v), mask=(c[:, None] < cols) & (r[None, :] < rows))


@triton.jit
def atomics(x, where, sums, extremes, ticket, n, BLOCK: tl.constexpr):
    """Scatters sums of floats; an integer minimum and maximum; a count of programs and a compare-and-swap."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    v, to = tl.load(x + at, mask=inside, other=0.0), tl.load(where + at, mask=inside, other=0)
    tl.atomic_add(sums + to, v, mask=inside)
    tl.atomic_min(extremes, tl.min(tl.where(inside, to, 1 << 20), axis=0))
    tl.atomic_max(extremes + 1, tl.max(tl.where(inside, to, -1), axis=0))
    before = tl.atomic_add(ticket, 1, sem="acq_rel")
    if before == tl.num_programs(0) - 1:
        tl.atomic_xchg(ticket + 1, 77)
    tl.atomic_cas(ticket + 2, 0, 5, sem="relaxed")


@triton.jit
def scans(x, running, ordered, places, counts, BLOCK: tl.constexpr):
    """One program: prefix sums, a sort, where the largest is, a histogram of 16 bins, a gather, a flip."""
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at)
    tl.store(running + at, tl.cumsum(v, axis=0))
    tl.store(ordered + at, tl.sort(v))
    tl.store(places, tl.argmax(v, axis=0))
    tl.store(places + 1, tl.argmin(v, axis=0))
    tl.store(counts + tl.arange(0, 16), tl.histogram(v & 15, 16))
    tl.store(running + BLOCK + at, tl.gather(v, (at * 7 + 3) % BLOCK, axis=0))
    tl.store(ordered + BLOCK + at, tl.flip(v, 0))


@triton.jit
def attention(q, k, v, out, length, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """softmax(q k^T scale) v for one head (length x D, row major, f16): a tile of BM queries a program, causal."""
    rows, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    queries = tl.load(q + rows[:, None] * D + d[None, :], mask=rows[:, None] < length, other=0.0)
    top, total = tl.full((BM,), -float("inf"), tl.float32), tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * BM, BN):
        cols = start + tl.arange(0, BN)
        keys = tl.load(k + cols[None, :] * D + d[:, None], mask=cols[None, :] < length, other=0.0)
        s = tl.dot(queries, keys) * scale
        s = tl.where((cols[None, :] <= rows[:, None]) & (cols[None, :] < length), s, -float("inf"))
        new_top = tl.maximum(top, tl.max(s, axis=1))
        p = tl.exp2(s - new_top[:, None])
        shrink = tl.exp2(top - new_top)
        total = total * shrink + tl.sum(p, axis=1)
        values = tl.load(v + cols[:, None] * D + d[None, :], mask=cols[:, None] < length, other=0.0)
        acc = tl.dot(p.to(tl.float16), values, acc * shrink[:, None])
        top = new_top
    tl.store(out + rows[:, None] * D + d[None, :], (acc / total[:, None]).to(tl.float16), mask=rows[:, None] < length)


@triton.jit
def special_functions(x, y, n, BLOCK: tl.constexpr):
    """exp, log, sin, sqrt, sigmoid, erf, a division and a conversion to bf16 and e5m2 and back, one after the other."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=1.0)
    r = tl.exp(v) + tl.log(v + 3) - tl.sin(v) * tl.sqrt(v + 3) + tl.sigmoid(v) + tl.erf(v)
    tl.store(y + at, r / (1 + v * v), mask=at < n)
    tl.store(y + n + at, v.to(tl.bfloat16).to(tl.float32), mask=at < n)
    tl.store(y + 2 * n + at, v.to(tl.float8e5).to(tl.float32), mask=at < n)
    tl.store(y + 3 * n + at, v.to(tl.float8e4nv).to(tl.float32), mask=at < n)


@triton.jit
def descriptor_reduce(x, total, least, BM: tl.constexpr, BN: tl.constexpr):
    """Adds tiles of x (s32), one a program, to one tile, and keeps the least of each element in another."""
    tile = x.load([tl.program_id(0) * BM, 0])
    total.atomic_add([0, 0], tile)
    least.atomic_min([0, 0], tile)


@triton.jit
def descriptor_gather(x, places, y, BM: tl.constexpr, BN: tl.constexpr):
    """Rows of x at BM places to the even rows of y, BN columns a program."""
    at = tl.load(places + tl.arange(0, BM))
    rows = x.gather(at, tl.program_id(0) * BN)
    y.scatter(rows, tl.arange(0, BM) * 2, tl.program_id(0) * BN)


@triton.jit
def attention_tma(q, k, v, out, length, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """softmax(q k^T scale) v through descriptors, with warps of different jobs; length is a multiple of BN."""
    row = tl.program_id(0) * BM
    queries = q.load([row, 0])
    top, total = tl.full((BM,), -float("inf"), tl.float32), tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for start in tl.range(0, length, BN, warp_specialize=True):
        s = tl.dot(queries, k.load([start, 0]).T) * scale
        new_top = tl.maximum(top, tl.max(s, axis=1))
        p = tl.exp2(s - new_top[:, None])
        shrink = tl.exp2(top - new_top)
        total = total * shrink + tl.sum(p, axis=1)
        acc = tl.dot(p.to(tl.float16), v.load([start, 0]), acc * shrink[:, None])
        top = new_top
    out.store([row, 0], (acc / total[:, None]).to(tl.float16))
