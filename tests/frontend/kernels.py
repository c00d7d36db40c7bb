"""Kernel functions for the tests of the front end."""
# The extents in annotations are symbols, which linters take for forward references.
# ruff: noqa: F821
# pyright: reportUndefinedVariable=false

from collections.abc import Callable
from typing import Any

import tilec
from tilec import tile
from tilec.frontend.tile import copy, f32

BLOCK = 128
PAIR = (64, 128)


@tilec.jit
def gemm(A: tile.View["M", "K"], B: tile.View["N", "K"]):
    """D = A B^T, word for word the program of gemm.tile."""
    D = tile.empty("M", "N", dtype=A.dtype)
    for m, n in tile.grid(D, step=(128, 128)):
        a = tile.smem(128, 64, A.dtype)
        b = tile.smem(128, 64, B.dtype)
        acc = tile.acc(128, 128)
        for k in tile.range(A, dim=1, step=64):
            tile.copy(A[m, k], a)
            tile.copy(B[n, k], b)
            tile.mma(acc, a, b)
        tile.copy(acc, D[m, n])
    return D


def configurable(block: int) -> Callable[..., Any]:
    """A kernel with integers from its closure, from globals, from its own lines and from its parameters."""

    def gemm(A: tile.View["M", "K"], B: tile.View["N", "K"], *, BK: tilec.constexpr = 32 * 2):
        BN = BLOCK // 2
        D = tile.empty("M", "N", dtype=f32)
        for m, n in tile.grid(D, step=(block, BN)):
            a = tile.smem(block, BK, A.dtype)
            b = tile.smem(BN, BK, B.dtype)
            acc = tile.acc(block, BN)
            for k in tile.range(A, dim=1, step=BK):
                copy(A[m, k], a)
                copy(source=B[n, k], destination=b)
                tile.mma(acc, a, b)
            copy(acc, D[m, n])
        return D

    return gemm


@tilec.jit
def two_outputs(A: tile.View["M", 64], B: tile.View["N", 64]):
    C = tile.empty("N", "M", dtype="f32")
    D = tile.empty("M", "N", dtype=tile.f16)
    for m, n in tile.grid(D, step=PAIR):
        a = tile.smem(64, 64, A.dtype)
        b = tile.smem(128, 64, A.dtype)
        d = tile.acc(64, 128)
        c = tile.acc(128, 64)
        for k in tile.range(A, dim=1, step=64):
            tile.copy(A[m, k], a)
            tile.copy(B[n, k], b)
            tile.mma(d, a, b)
            tile.mma(c, b, a)
        tile.copy(d, D[m, n])
        tile.copy(c, C[n, m])
    return D, C


@tilec.jit(pipeline="tmaa")
def bad_pipeline(A: tile.View["M", "K"], B: tile.View["N", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    for m, k in tile.grid(D, step=(64, 64)):
        a = tile.smem(64, 64, A.dtype)
        tile.copy(A[m, k], a)
        tile.copy(a, D[m, k])
    return D
