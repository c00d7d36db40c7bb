"""Kernel functions that become operators of torch."""

from tilec import constexpr, tile

# ruff: noqa: F821
# pyright: basic, reportUndefinedVariable=false


def product(A: tile.View["M", "K"], B: tile.View["N", "K"], *, block: constexpr = 64):
    D = tile.empty("M", "N", dtype=A.dtype)
    for m, n in tile.grid(D, step=(block, block)):
        a = tile.smem(block, 64, A.dtype)
        b = tile.smem(block, 64, B.dtype)
        acc = tile.acc(block, block)
        for k in tile.range(A, dim=1, step=64):
            tile.copy(A[m, k], a)
            tile.copy(B[n, k], b)
            tile.mma(acc, a, b)
        tile.copy(acc, D[m, n])
    return D


def product_twice(A: tile.View["M", "K"], B: tile.View["N", "K"]):
    C = tile.empty("M", "N", dtype=tile.f32)
    D = tile.empty("M", "N", dtype=A.dtype)
    for m, n in tile.grid(D, step=(64, 64)):
        a = tile.smem(64, 64, A.dtype)
        b = tile.smem(64, 64, B.dtype)
        acc = tile.acc(64, 64)
        for k in tile.range(A, dim=1, step=64):
            tile.copy(A[m, k], a)
            tile.copy(B[n, k], b)
            tile.mma(acc, a, b)
        tile.copy(acc, C[m, n])
        tile.copy(acc, D[m, n])
    return D, C


def product_into(A: tile.View["M", "K"], B: tile.View["N", "K"], D: tile.View["M", "N"]):
    for m, n in tile.grid(D, step=(64, 64)):
        a = tile.smem(64, 64, A.dtype)
        b = tile.smem(64, 64, B.dtype)
        acc = tile.acc(64, 64)
        for k in tile.range(A, dim=1, step=64):
            tile.copy(A[m, k], a)
            tile.copy(B[n, k], b)
            tile.mma(acc, a, b)
        tile.copy(acc, D[m, n])


def holes(A: tile.View["M", "K"]):
    """Every second block of 64 rows."""
    D = tile.empty("M", "K", dtype=A.dtype)
    for m, k in tile.grid(D, step=(128, 64)):
        a = tile.smem(64, 64, A.dtype)
        tile.copy(A[m, k], a)
        tile.copy(a, D[m, k])
    return D


def scaled(A: tile.View["M", "K"], factor: float):
    D = tile.empty("M", "K", dtype=A.dtype)
    for m, k in tile.grid(D, step=(64, 64)):
        a = tile.smem(64, 64, A.dtype)
        tile.copy(A[m, k], a)
        tile.copy(tile.load(a) * factor, D[m, k])
    return D
