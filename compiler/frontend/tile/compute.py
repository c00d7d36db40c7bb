"""Words that compute: the tensor core's multiply-accumulate, and register tiles."""

from __future__ import annotations

from typing import overload

from tilec.frontend.tile.outside import only_in_kernels
from tilec.frontend.tile.types import Acc, Bool, DType, Mbarrier, Reg, Smem, Stage


def mma(acc: Acc, a: Smem, b: Smem, *, accumulate: Bool | bool | None = None) -> None:
    """``acc[M, N] += a[M, K] * b[N, K].T``, products summed in f32.

    Complete when the next line starts, in a synchronous kernel. With `accumulate` it is asynchronous: where the flag is
    false it overwrites the accumulator (``accumulate=k != 0``), and `tile.commit` with a wait on its barrier is the only
    completion (lesson 09, step 4).
    """
    only_in_kernels("mma")


def commit(barrier: Mbarrier | Stage) -> None:
    """One arrival on the barrier, ``done[s]``, when all earlier MMAs are complete (tcgen05.commit, wgmma.commit_group)."""
    only_in_kernels("commit")


@overload
def splat(value: float, rows: int, columns: int, dtype: DType | str, /) -> Reg: ...
@overload
def splat(value: float, shape: int | tuple[int, ...], dtype: DType | str, /) -> Reg: ...
@overload
def splat(value: float, *shape: int, dtype: DType | str) -> Reg: ...
def splat(value: float, *shape: int | tuple[int, ...] | DType | str, dtype: DType | str | None = None) -> Reg:
    """A register tile whose elements are all the constant: ``tile.splat(1.0, 128, 64, tile.f16)``."""
    only_in_kernels("splat")


@overload
def zeros(rows: int, columns: int, dtype: DType | str, /) -> Reg: ...
@overload
def zeros(shape: int | tuple[int, ...], dtype: DType | str, /) -> Reg: ...
@overload
def zeros(*shape: int, dtype: DType | str) -> Reg: ...
def zeros(*shape: int | tuple[int, ...] | DType | str, dtype: DType | str | None = None) -> Reg:
    """A register tile of zeros: ``tile.zeros(128, 64, tile.f16)``; `tile.splat` of 0."""
    only_in_kernels("zeros")


def cast(value: Reg, dtype: DType | str) -> Reg:
    """The tile in another element type, rounded to nearest even; also ``value.to(dtype)``."""
    only_in_kernels("cast")


def broadcast(row: Reg, rows: int) -> Reg:
    """A row of N elements becomes every row of a tile of `rows` x N; arithmetic between a row and a tile does so itself."""
    only_in_kernels("broadcast")


def max(a: Reg | float, b: Reg | float) -> Reg:
    """The larger element; where one is NaN, the other. Also under NumPy's name, `tile.maximum`."""
    only_in_kernels("max")


maximum = max
