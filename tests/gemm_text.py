"""Tiled GEMMs as text, for tests that vary one thing at a time."""

from __future__ import annotations


def gemm(
    m: int = 128,
    n: int = 128,
    k: int = 64,
    *,
    dtype: str = "f16",
    out: str = "f16",
    a: str = "",
    b: str = "",
    d: str = "",
) -> str:
    """D = A * B^T with m x n x k tiles; `a`, `b`, `d` are facts of the views, such as `, order = [0, 1]`."""
    return f"""
tile.kernel @gemm(%A: !tile.view<MxKx{dtype}{a}>, %B: !tile.view<NxKx{dtype}{b}>, %D: !tile.view<MxNx{out}{d}>) {{
  tile.grid (%m, %n) over %D step ({m}, {n}) {{
    %a = tile.alloc : !tile.smem<{m}x{k}x{dtype}>
    %b = tile.alloc : !tile.smem<{n}x{k}x{dtype}>
    %acc = tile.alloc : !tile.acc<{m}x{n}xf32>
    tile.for %k over %A dim 1 step {k} {{
      tile.copy %A[%m, %k] to %a
      tile.copy %B[%n, %k] to %b
      tile.mma %acc, %a, %b
    }}
    tile.copy %acc to %D[%m, %n]
  }}
}}
"""
