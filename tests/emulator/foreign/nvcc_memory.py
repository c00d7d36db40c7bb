"""Cases of nvcc's kernels that move data: shared tiles, asynchronous copies, the tensor memory accelerator, clusters."""

from __future__ import annotations

import numpy as np

from .cases import Launch, Nvcc, Result, Tiled, i32, integers

NVCC = Nvcc()


@NVCC.case("matrix")
def transpose(random: np.random.Generator) -> Launch:
    rows, cols = 45, 70
    x = random.standard_normal((rows, cols)).astype(np.float32)
    y = np.zeros((cols, rows), np.float32)
    return Launch([x, y, i32(rows), i32(cols)], [Result(y, x.T.copy())], (3, 2, 1), (32, 8, 1))


@NVCC.case("matrix")
def sgemm(random: np.random.Generator) -> Launch:
    m, n, k = 33, 40, 19
    a, b, c = integers(random, (m, k), np.float32), integers(random, (k, n), np.float32), np.zeros((m, n), np.float32)
    return Launch([a, b, c, i32(m), i32(n), i32(k)], [Result(c, a @ b)], (2, 2, 1), (16, 16, 1))


@NVCC.case("matrix")
def pipelined_scale(random: np.random.Generator) -> Launch:
    count = 300
    x = integers(random, (count, 4), np.float32, -100, 100)
    y = np.zeros_like(x)
    return Launch([x, y, i32(count)], [Result(y, 2 * x + 1)], block=(128, 1, 1))


@NVCC.case("matrix")
def async_barrier_copy(random: np.random.Generator) -> Launch:
    x = integers(random, (384,), np.int32, -1000, 1000)
    y = np.zeros_like(x)
    return Launch([x, y], [Result(y, x[::-1].copy())], block=(128, 1, 1))


@NVCC.case("tma")
def tile_scale(random: np.random.Generator) -> Launch:
    x = integers(random, (50, 76), np.float32, -100, 100)
    y = np.zeros_like(x)
    return Launch([Tiled(x, (32, 32)), Tiled(y, (32, 32))], [Result(y, 2 * x + 1)], (3, 2, 1), (64, 1, 1))


@NVCC.case("tma")
def tile_transpose(random: np.random.Generator) -> Launch:
    x = random.integers(0, 1 << 16, (80, 40)).astype(np.uint16)
    y = np.zeros((40, 80), np.uint16)
    arguments = [Tiled(x, (64, 32), "64B"), Tiled(y, (32, 64), "128B")]
    return Launch(arguments, [Result(y, x.T.copy())], (2, 2, 1), (128, 1, 1), dynamic_smem=8256)


@NVCC.case("tma")
def bulk_copy(random: np.random.Generator) -> Launch:
    size = 208
    x = random.integers(0, 256, 6 * size).astype(np.uint8)
    y = np.zeros_like(x)
    return Launch([x, y, i32(size)], [Result(y, x ^ 0x5A)], (3, 1, 1), (64, 1, 1), dynamic_smem=256)


@NVCC.case("tma")
def tile_reduce(random: np.random.Generator) -> Launch:
    out = integers(random, (12, 24), np.float32, -50, 50)
    least = integers(random, (32,), np.int32, -5, 20)
    expected = out.copy()
    expected[3:11, 4:20] += 6 * np.arange(1, 129, dtype=np.float32).reshape(8, 16)
    low = np.array([[(t * 37 + block * 11) % 23 - 9 for t in range(32)] for block in range(3)])
    smallest = np.minimum(least, low.min(0)).astype(np.int32)
    return Launch([Tiled(out, (8, 16)), least], [Result(out, expected), Result(least, smallest)], (3, 1, 1), (64, 1, 1))


@NVCC.case("tma")
def tile_3d(random: np.random.Generator) -> Launch:
    x = random.standard_normal((3, 5, 12)).astype(np.float32)
    where = np.array([[0, 0, 0], [4, 2, 1], [-4, -1, -1], [8, 3, 2], [100, 0, 0]], np.int32)
    out, expected = np.full((5, 2, 4, 8), np.nan, np.float32), np.zeros((5, 2, 4, 8), np.float32)
    for block, (c0, c1, c2) in enumerate(where.tolist()):
        for p, r, c in np.ndindex(2, 4, 8):
            if 0 <= c2 + p < 3 and 0 <= c1 + r < 5 and 0 <= c0 + c < 12:
                expected[block, p, r, c] = x[c2 + p, c1 + r, c0 + c]
    return Launch([Tiled(x, (2, 4, 8)), where, out], [Result(out, expected)], (5, 1, 1), (64, 1, 1))


@NVCC.case("tma")
def tile_multicast(random: np.random.Generator) -> Launch:
    x = integers(random, (32, 32), np.float32, -100, 100)
    out = np.zeros((4, 16, 32), np.float32)
    expected = np.stack([x[block // 2 * 16 : block // 2 * 16 + 16] + block % 2 for block in range(4)])
    return Launch([Tiled(x, (16, 32)), out], [Result(out, expected)], (4, 1, 1), (64, 1, 1), (2, 1, 1))


@NVCC.case("cluster")
def cluster_histogram(random: np.random.Generator) -> Launch:
    n = 1000
    x = integers(random, (n,), np.int32, -(1 << 31), 1 << 31)
    bins = np.zeros(64, np.int32)
    expected = np.bincount(x & 63, minlength=64).astype(np.int32)
    return Launch([x, bins, i32(n)], [Result(bins, expected)], (4, 1, 1), (64, 1, 1), (4, 1, 1))


@NVCC.case("cluster")
def cluster_ring(random: np.random.Generator) -> Launch:
    x = integers(random, (8, 32), np.int32, -1000, 1000)
    out = np.zeros_like(x)
    expected = np.zeros_like(x)
    for block in range(8):
        rank = block % 4
        before = x[block - rank + (rank - 1) % 4]
        expected[block] = before[np.arange(32) ^ 1] * 10 + rank
    return Launch([x, out], [Result(out, expected)], (8, 1, 1), (32, 1, 1), (4, 1, 1))


@NVCC.case("cluster")
def cluster_async(random: np.random.Generator) -> Launch:
    x = integers(random, (4, 64), np.int32, -1000, 1000)
    out = np.zeros((4, 128), np.int32)
    peers = x[np.arange(4) ^ 1]
    return Launch([x, out], [Result(out, np.hstack([peers * 3, peers + 5]))], (4, 1, 1), (64, 1, 1), (2, 1, 1))
