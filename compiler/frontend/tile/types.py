"""The kinds of values that a kernel function works with, as editors and type checkers see them.

None of them exists while Python runs, except element types (`DType`) and facts of views (`Facts`): a kernel is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from tilec.frontend.tile.annotation import ViewAnnotation
from tilec.frontend.tile.outside import only_in_kernels


@dataclass(frozen=True)
class DType:
    """An element type: `tile.f16`, `tile.bf16`, `tile.f32`, or that of a view or tile, ``A.dtype``."""

    name: str
    itemsize: int
    """Bytes of one element."""

    @property
    def bits(self) -> int:
        return 8 * self.itemsize


f16 = DType("f16", 2)
bf16 = DType("bf16", 2)
f32 = DType("f32", 4)

constexpr: TypeAlias = Any
"""Annotation of a parameter whose value is known when the kernel is compiled: an int, float, bool, str or `DType`.

``def gemm(A: ..., B: ..., *, BM: tilec.constexpr = 128)``: one variant is compiled for each value.
"""


@dataclass(frozen=True)
class Facts:
    """What a kernel relies on of a view in memory: see `tile.facts`."""

    order: tuple[int, ...] | None
    align: int
    tail: str


class Bool:
    """A truth value known at run time (``k < K``): what `if` and `while` ask, and ``x if c else y``.

    `and`, `or` and `not` combine them. Both sides, as both values of ``x if c else y``, are evaluated: they are numbers and
    conditions, and do nothing else.
    """

    def __and__(self, other: Bool | bool) -> Bool: ...
    def __or__(self, other: Bool | bool) -> Bool: ...
    def __xor__(self, other: Bool | bool) -> Bool: ...
    def __rand__(self, other: bool) -> Bool: ...
    def __ror__(self, other: bool) -> Bool: ...
    def __rxor__(self, other: bool) -> Bool: ...


class Index:
    """An offset or extent in elements, or a stage, known at run time.

    Variables of loops, extents of views and `tile.index` are such. It is from 0 to 2^32 - 1: ``//``, ``%``, ``>>``, `min`,
    `max` and comparisons are unsigned. A difference below zero wraps around to a large number, so ``n - 128 < 64`` is
    false where n is 0: write ``n < 64 + 128``.
    """

    def __add__(self, other: Index | int) -> Index: ...
    def __sub__(self, other: Index | int) -> Index: ...
    def __mul__(self, other: Index | int) -> Index: ...
    def __floordiv__(self, other: Index | int) -> Index: ...
    def __mod__(self, other: Index | int) -> Index: ...
    def __lshift__(self, other: Index | int) -> Index: ...
    def __rshift__(self, other: Index | int) -> Index: ...
    def __and__(self, other: Index | int) -> Index: ...
    def __or__(self, other: Index | int) -> Index: ...
    def __xor__(self, other: Index | int) -> Index: ...
    def __radd__(self, other: int) -> Index: ...
    def __rsub__(self, other: int) -> Index: ...
    def __rmul__(self, other: int) -> Index: ...
    def __rfloordiv__(self, other: int) -> Index: ...
    def __rmod__(self, other: int) -> Index: ...
    def __lt__(self, other: Index | int) -> Bool: ...
    def __le__(self, other: Index | int) -> Bool: ...
    def __gt__(self, other: Index | int) -> Bool: ...
    def __ge__(self, other: Index | int) -> Bool: ...
    def __eq__(self, other: Index | int) -> Bool: ...  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
    def __ne__(self, other: Index | int) -> Bool: ...  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]


class I32:
    """A 32-bit integer known at run time, such as the parity of a barrier's round (`tile.i32`); without sign, as `Index`."""

    def __add__(self, other: I32 | int) -> I32: ...
    def __sub__(self, other: I32 | int) -> I32: ...
    def __mul__(self, other: I32 | int) -> I32: ...
    def __floordiv__(self, other: I32 | int) -> I32: ...
    def __mod__(self, other: I32 | int) -> I32: ...
    def __lshift__(self, other: I32 | int) -> I32: ...
    def __rshift__(self, other: I32 | int) -> I32: ...
    def __and__(self, other: I32 | int) -> I32: ...
    def __or__(self, other: I32 | int) -> I32: ...
    def __xor__(self, other: I32 | int) -> I32: ...
    def __radd__(self, other: int) -> I32: ...
    def __rsub__(self, other: int) -> I32: ...
    def __rmul__(self, other: int) -> I32: ...
    def __rxor__(self, other: int) -> I32: ...
    def __lt__(self, other: I32 | int) -> Bool: ...
    def __le__(self, other: I32 | int) -> Bool: ...
    def __gt__(self, other: I32 | int) -> Bool: ...
    def __ge__(self, other: I32 | int) -> Bool: ...
    def __eq__(self, other: I32 | int) -> Bool: ...  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
    def __ne__(self, other: I32 | int) -> Bool: ...  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]


class Place:
    """A view at offsets, ``A[m, k]``: where a tile is copied from or to."""


class View:
    """A tensor in global memory, argument of a kernel.

    ``tile.View["M", "K"]`` has two dimensions; equal symbols are equal extents, an integer is a fixed extent, ``"?"`` any.
    An element type among the items fixes it, ``tile.View["M", "K", tile.f16]``, and `tile.facts` says how it lies in
    memory. ``A[m, k]`` is the place at element offsets m and k. An item has the value that it has where the function is
    defined; the name of a constant parameter is that parameter.
    """

    dtype: DType
    shape: tuple[Any, ...]
    """The extents in elements: integers where the annotation has them, else known at run time (`Index`)."""
    ndim: int

    def __class_getitem__(cls, items: object) -> ViewAnnotation:
        return ViewAnnotation(items if isinstance(items, tuple) else (items,))  # pyright: ignore[reportUnknownArgumentType]

    def __getitem__(self, offsets: Index | int | tuple[Index | int, ...]) -> Place:
        only_in_kernels("View")


class Smem:
    """A tile in shared memory: `tile.smem`, or a slot of a ring."""

    dtype: DType
    shape: tuple[int, ...]
    nbytes: int


class Ring:
    """One shared tile a pipeline stage (`tile.ring`); ``ring[s]`` is the tile of stage s, from 0 up to `depth` - 1."""

    dtype: DType
    shape: tuple[int, ...]
    """Of one slot."""
    nbytes: int
    """Of one slot."""
    depth: int

    def __getitem__(self, stage: Index | int) -> Smem:
        only_in_kernels("ring")


class Acc:
    """An MMA accumulator of f32 (`tile.acc`); ``acc[:, 64:128]`` is a part of its columns.

    It lies in tensor memory (Blackwell) or in registers (Hopper).
    """

    dtype: DType
    shape: tuple[int, ...]
    nbytes: int

    def __getitem__(self, part: tuple[slice, slice]) -> Acc:
        only_in_kernels("acc")


class Reg:
    """A register tile: a value, spread over the threads.

    ``+``, ``-``, ``*`` and `tile.max` (or Python's `max`) compute element by element, with another tile of the same shape
    and element type, a number, or a row, which then stands for every row.
    """

    dtype: DType
    shape: tuple[int, ...]
    nbytes: int

    def to(self, dtype: DType | str) -> Reg:
        """The tile in another element type, rounded to nearest even; as `tile.cast`."""
        only_in_kernels("cast")

    def __neg__(self) -> Reg: ...
    def __add__(self, other: Reg | float) -> Reg: ...
    def __sub__(self, other: Reg | float) -> Reg: ...
    def __mul__(self, other: Reg | float) -> Reg: ...
    def __radd__(self, other: float) -> Reg: ...
    def __rsub__(self, other: float) -> Reg: ...
    def __rmul__(self, other: float) -> Reg: ...


class Stage:
    """The barrier of one pipeline stage, ``full[s]``."""


class Mbarrier:
    """An mbarrier for each of `depth` pipeline stages (`tile.mbarrier.init`); ``full[s]`` is that of stage s.

    Where there is only one, ``full`` stands for it.
    """

    depth: int

    def __getitem__(self, stage: Index | int) -> Stage:
        only_in_kernels("mbarrier")


class Scheduled:
    """A turn of the tile scheduler (`tile.schedule`): ``valid, m, n``, or ``.valid`` alone."""

    valid: Bool
    """Whether there is such a tile."""
    offsets: tuple[Index, ...]
    """Where it starts, in elements."""

    def __iter__(self) -> Iterator[Any]:
        only_in_kernels("schedule")


class Scope:
    """What a `with` statement opens."""

    def __enter__(self) -> None:
        only_in_kernels("single_thread")

    def __exit__(self, *error: object) -> None: ...
