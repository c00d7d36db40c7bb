"""Kernel functions of the GPU tests of `tilec.jit`, and operands whose products are exact."""
# The extents in annotations are symbols, which linters take for forward references.
# ruff: noqa: F821
# pyright: basic, reportUndefinedVariable=false

import runpy
from typing import Any

import pytest
from harness import EXAMPLES, finish, torch, torch_dtype

import tilec
from tilec import tile

PIPELINE = "tma,pipeline(2),persistent"
BLOCK_M, BLOCK_N, BLOCK_K = 128, 128, 64
FACTOR = 2.0


def fresh_gemm() -> tilec.JitFunction:
    """The function of examples/gemm.py, of which nothing is compiled yet."""
    return runpy.run_path(str(EXAMPLES / "gemm.py"))["gemm"]


def product(A: tile.View["M", "K"], B: tile.View["N", "K"]):
    D = tile.empty("M", "N", dtype=A.dtype)
    for m, n in tile.grid(D, step=(BLOCK_M, BLOCK_N)):
        a = tile.smem(BLOCK_M, BLOCK_K, A.dtype)
        b = tile.smem(BLOCK_N, BLOCK_K, B.dtype)
        acc = tile.acc(BLOCK_M, BLOCK_N)
        for k in tile.range(A, dim=1, step=BLOCK_K):
            tile.copy(A[m, k], a)
            tile.copy(B[n, k], b)
            tile.mma(acc, a, b)
        tile.copy(acc, D[m, n])
    return D


def scaled(
    A: tile.View["M", "K"],
    B: tile.View["N", "K"],
    *,
    block: tilec.constexpr = 64,
    kind: tilec.constexpr = tile.f16,
):
    """FACTOR times the product, in elements of `kind`, by tiles of 128 x `block`."""
    D = tile.empty("M", "N", dtype=kind)
    for m, n in tile.grid(D, step=(BLOCK_M, block)):
        a = tile.smem(BLOCK_M, BLOCK_K, A.dtype)
        b = tile.smem(block, BLOCK_K, B.dtype)
        acc = tile.acc(BLOCK_M, block)
        staged = tile.smem(BLOCK_M, block, kind)
        for k in tile.range(A, dim=1, step=BLOCK_K):
            tile.copy(A[m, k], a)
            tile.copy(B[n, k], b)
            tile.mma(acc, a, b)
        sums = tile.load(acc) * FACTOR
        tile.store(sums.to(kind), staged)
        tile.copy(staged, D[m, n])
    return D


def both_ways(A: tile.View["M", "K"], B: tile.View["N", "K"]):
    """The product and its transpose, which is of another type."""
    C = tile.empty("N", "M", dtype="f32")
    D = tile.empty("M", "N", dtype=A.dtype)
    for m, n in tile.grid(D, step=(128, 128)):
        a = tile.smem(128, 64, A.dtype)
        b = tile.smem(128, 64, A.dtype)
        d = tile.acc(128, 128)
        c = tile.acc(128, 128)
        for k in tile.range(A, dim=1, step=64):
            tile.copy(A[m, k], a)
            tile.copy(B[n, k], b)
            tile.mma(d, a, b)
            tile.mma(c, b, a)
        tile.copy(d, D[m, n])
        tile.copy(c, C[n, m])
    return D, C


def product_into(A: tile.View["M", "K"], B: tile.View["N", "K"], D: tile.View["M", "N"]):
    for m, n in tile.grid(D, step=(128, 128)):
        a = tile.smem(128, 64, A.dtype)
        b = tile.smem(128, 64, B.dtype)
        acc = tile.acc(128, 128)
        for k in tile.range(A, dim=1, step=64):
            tile.copy(A[m, k], a)
            tile.copy(B[n, k], b)
            tile.mma(acc, a, b)
        tile.copy(acc, D[m, n])


def product_by(columns: int) -> tilec.JitFunction:
    """A kernel of its own, by tiles of 64 x `columns`."""

    def gemm(A: tile.View["M", "K"], B: tile.View["N", "K"]):
        D = tile.empty("M", "N", dtype=A.dtype)
        for m, n in tile.grid(D, step=(64, columns)):
            a = tile.smem(64, 64, A.dtype)
            b = tile.smem(columns, 64, B.dtype)
            acc = tile.acc(64, columns)
            for k in tile.range(A, dim=1, step=64):
                tile.copy(A[m, k], a)
                tile.copy(B[n, k], b)
                tile.mma(acc, a, b)
            tile.copy(acc, D[m, n])
        return D

    return tilec.jit(pipeline="tma")(gemm)


gemm: Any = tilec.jit(pipeline=PIPELINE)(product)
scaled_gemm: Any = tilec.jit(pipeline=PIPELINE)(scaled)
gemm_both_ways: Any = tilec.jit(pipeline="tma")(both_ways)
gemm_into: Any = tilec.jit(pipeline=PIPELINE)(product_into)


def integers(*shape: int, dtype: str = "f16", device: str = "cuda") -> Any:
    """Numbers from -2 to 2, so that a sum of up to 512 products of them is exact in every type."""
    return torch.randint(-2, 3, shape, device=device).to(torch_dtype(dtype))


def expected(a: Any, b: Any, dtype: str = "f16") -> Any:
    """A B^T. The sums of few enough products are exact in bf16 too: see `integers` for f16; bf16 rounds them once."""
    return (a.double() @ b.double().t()).to(torch_dtype(dtype))


def check(got: Any, a: Any, b: Any, dtype: str = "f16") -> None:
    """Wait for the current stream, and compare every element with A B^T."""
    finish()
    want = expected(a, b, dtype)
    assert got.shape == want.shape and got.dtype == want.dtype and got.device == want.device
    wrong = int((got != want).sum())
    assert wrong == 0, f"{wrong} of {got.numel()} elements differ"


def watch_compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pipeline of each compilation of this process, from here to the end of the test."""
    import tilec.driver

    seen: list[str] = []
    compile_module: Any = tilec.driver.compile_module

    def watched(*arguments: Any, **options: Any) -> Any:
        seen.append(options["pipeline"])
        return compile_module(*arguments, **options)

    monkeypatch.setattr(tilec.driver, "compile_module", watched)
    return seen
