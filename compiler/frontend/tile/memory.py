"""Words for storage, and for what moves between views, shared memory, accumulators and registers."""

from __future__ import annotations

from typing import Literal, overload

from tilec.frontend.tile.outside import only_in_kernels
from tilec.frontend.tile.types import Acc, DType, Mbarrier, Place, Reg, Ring, Smem, Stage

# Storage


@overload
def smem(
    rows: int, columns: int, dtype: DType | str, /, *, order: tuple[int, ...] | None = None, swizzle: int | None = None
) -> Smem: ...
@overload
def smem(
    shape: int | tuple[int, ...],
    dtype: DType | str,
    /,
    *,
    order: tuple[int, ...] | None = None,
    swizzle: int | None = None,
) -> Smem: ...
@overload
def smem(*shape: int, dtype: DType | str, order: tuple[int, ...] | None = None, swizzle: int | None = None) -> Smem: ...
def smem(
    *shape: int | tuple[int, ...] | DType | str,
    dtype: DType | str | None = None,
    order: tuple[int, ...] | None = None,
    swizzle: int | None = None,
) -> Smem:
    """A tile in shared memory: ``tile.smem(128, 64, tile.f16)``, or of one dimension, ``tile.smem(128, tile.f16)``.

    `swizzle` is the layout: rows of 128, 64 or 32 bytes whose 16-byte units are permuted as TMA and the tensor cores do
    it, or 16 for none. TMA needs one. `order`: the dimensions, fastest first; None is row-major. Synchronous kernels give
    neither: passes choose.
    """
    only_in_kernels("smem")


@overload
def ring(
    rows: int,
    columns: int,
    dtype: DType | str,
    /,
    *,
    depth: int,
    order: tuple[int, ...] | None = None,
    swizzle: int | None = None,
) -> Ring: ...
@overload
def ring(
    shape: int | tuple[int, ...],
    dtype: DType | str,
    /,
    *,
    depth: int,
    order: tuple[int, ...] | None = None,
    swizzle: int | None = None,
) -> Ring: ...
@overload
def ring(
    *shape: int, dtype: DType | str, depth: int, order: tuple[int, ...] | None = None, swizzle: int | None = None
) -> Ring: ...
def ring(
    *shape: int | tuple[int, ...] | DType | str,
    dtype: DType | str | None = None,
    depth: int,
    order: tuple[int, ...] | None = None,
    swizzle: int | None = None,
) -> Ring:
    """`depth` shared tiles, one for each pipeline stage; ``ring[s]`` is the tile of stage s (lesson 09, step 5).

    The other arguments are those of `tile.smem`.
    """
    only_in_kernels("ring")


def acc(rows: int, columns: int) -> Acc:
    """An accumulator of f32.

    In a synchronous kernel it is zero at each execution of this line. In an asynchronous one its first `tile.mma`
    overwrites it, and `tile.free` gives it back. ``acc[:, 0:64]`` is its first 64 columns.
    """
    only_in_kernels("acc")


def free(acc: Acc) -> None:
    """The accumulator's memory is given back, once, on every path (tcgen05.dealloc)."""
    only_in_kernels("free")


# Copies


def copy(source: Place | Smem | Acc | Reg, destination: Place | Smem) -> None:
    """Copy a tile; complete when the next line starts.

    * ``tile.copy(A[m, k], a)``: a view to a shared tile of the same element type; zero outside the tensor.
    * ``tile.copy(acc, D[m, n])``: accumulator, register tile or shared tile to a view, rounded to its element type;
      what lies outside the tensor is dropped.
    """
    only_in_kernels("copy")


@overload
def copy_async(source: Place, destination: Smem, *, dispatch: Literal["tma"], signal: Mbarrier | Stage) -> None: ...
@overload
def copy_async(source: Smem, destination: Place, *, dispatch: Literal["tma"]) -> None: ...
@overload
def copy_async(source: Place | Smem, destination: Place | Smem, *, dispatch: Literal["threads"]) -> None: ...
@overload
def copy_async(source: Acc, *, dispatch: Literal["tmem"]) -> Reg: ...
def copy_async(
    source: Place | Smem | Acc,
    destination: Place | Smem | None = None,
    *,
    dispatch: Literal["tma", "threads", "tmem"],
    signal: Mbarrier | Stage | None = None,
) -> Reg | None:
    """A copy that is complete later; `dispatch` says who moves the bytes (lesson 09, step 4).

    * ``tile.copy_async(A[m, k], a, dispatch="tma", signal=full[s])``: one thread issues; the TMA engine writes the tile, zero
      outside the tensor, and completes its bytes on the barrier.
    * ``tile.copy_async(d, D[m, n], dispatch="tma")``: the engine reads the tile and writes what lies inside the tensor;
      complete by `tile.bulk.commit_group` and `tile.bulk.wait_group`.
    * ``dispatch="threads"``: all threads of the CTA copy, masked at the edges; done behind a `tile.cta_sync`.
    * ``r = tile.copy_async(acc, dispatch="tmem")``: accumulator to registers; valid behind `tile.tmem.wait_ld`.
    """
    only_in_kernels("copy_async")


def load(source: Smem | Acc) -> Reg:
    """A shared tile to registers; in a synchronous kernel an accumulator as well. Shape and element type stay."""
    only_in_kernels("load")


def store(value: Reg, destination: Smem) -> None:
    """Registers to a shared tile of the same shape and element type."""
    only_in_kernels("store")
