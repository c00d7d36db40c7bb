"""The words of a kernel written in Python (`tilec.jit`).

A kernel function is read, not run: these definitions say what each word means and let editors and type checkers follow it.
Called anywhere else they raise TilecError. The same program as tile code, word for word::

    @tilec.jit(pipeline="tma,pipeline(2),persistent")
    def gemm(A: tile.View["M", "K"], B: tile.View["N", "K"]):      # tile.kernel @gemm(%A: ..., %B: ..., %D: ...)
        D = tile.empty("M", "N", dtype=A.dtype)
        for m, n in tile.grid(D, step=(128, 128)):                 # tile.grid (%m, %n) over %D step (128, 128)
            a = tile.smem(128, 64, A.dtype)                        # %a = tile.alloc : !tile.smem<128x64xf16>
            b = tile.smem(128, 64, B.dtype)
            acc = tile.acc(128, 128)                               # %acc = tile.alloc : !tile.acc<128x128xf32>
            for k in tile.range(A, dim=1, step=64):                # tile.for %k over %A dim 1 step 64
                tile.copy(A[m, k], a)                              # tile.copy %A[%m, %k] to %a
                tile.copy(B[n, k], b)
                tile.mma(acc, a, b)                                # tile.mma %acc, %a, %b
            tile.copy(acc, D[m, n])                                # tile.copy %acc to %D[%m, %n]
        return D
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn, TypeAlias


def _only_in_kernels(word: str) -> NoReturn:
    from tilec.diagnostics import TilecError

    raise TilecError(
        f"tile.{word} has a meaning only inside a kernel function",
        hint="decorate the function that uses it with @tilec.jit",
    )


@dataclass(frozen=True)
class DType:
    """An element type."""

    name: str


f16 = DType("f16")
bf16 = DType("bf16")
f32 = DType("f32")


constexpr: TypeAlias = int
"""Annotation of a parameter whose value is an integer known when the kernel is compiled.

``def gemm(A: ..., B: ..., *, BM: tilec.constexpr = 128)``: one variant is compiled for each value.
"""


class Index:
    """An offset in elements along one dimension: the variable of a `grid` or a `range`."""


class Place:
    """A view at offsets, ``A[m, k]``: where a tile is copied from or to."""


class View:
    """A tensor in global memory, argument of a kernel.

    ``tile.View["M", "K"]`` has two dimensions; equal symbols are equal extents, an integer is a fixed extent, ``"?"`` any.
    """

    dtype: DType

    def __class_getitem__(cls, dims: object) -> type[View]:
        return cls

    def __getitem__(self, offsets: object) -> Place:
        _only_in_kernels("View")


class Smem:
    """A tile in shared memory."""


class Acc:
    """An MMA accumulator."""


def empty(*dims: int | str, dtype: DType | str) -> View:
    """An output of the kernel, a new tensor at each call; its symbols are those of the inputs."""
    _only_in_kernels("empty")


def grid(view: View, *, step: tuple[int, ...]) -> Iterator[tuple[Index, ...]]:
    """One execution for each tile of `view`, in any order; gives the tile's offsets. `step` in elements."""
    _only_in_kernels("grid")


def range(view: View, *, dim: int, step: int) -> Iterator[Index]:
    """Offsets 0, step, ... below the extent of one dimension of `view`; the last tile may hang over the edge."""
    _only_in_kernels("range")


def smem(rows: int, columns: int, dtype: DType | str) -> Smem:
    """A tile in shared memory."""
    _only_in_kernels("smem")


def acc(rows: int, columns: int) -> Acc:
    """An accumulator of f32, zero at each execution of this line."""
    _only_in_kernels("acc")


def copy(source: Place | Smem | Acc, destination: Place | Smem) -> None:
    """Copy a tile: from a view to shared memory (zero outside the tensor), or to a view (clipped, rounded to its dtype)."""
    _only_in_kernels("copy")


def mma(acc: Acc, a: Smem, b: Smem) -> None:
    """``acc[M, N] += a[M, K] * b[N, K].T`` in f32."""
    _only_in_kernels("mma")
