"""Who moves the bytes of a copy: the TMA engine where that is legal and pays, else the threads.

The decision needs nothing but types: facts of the view, layout of the shared tile, and what the coordinates are known to
be multiples of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Attribute

from tilec.diagnostics import remark
from tilec.dialects.tile import CopyOp, SmemType, ViewType, dtype_of, widest_swizzle
from tilec.passes.divisibility import divides

TMA_ALIGNMENT = 16
"""Bytes on which TMA needs bases, pitches and the innermost coordinate (cuTensorMapEncodeTiled; a coordinate off this
grid faults)."""


@dataclass(frozen=True)
class Dispatch:
    """`min_bytes`: below this a TMA copy does not pay; None: the threads copy everything."""

    min_bytes: int | None

    def choose(self, op: CopyOp, view: ViewType, tile: SmemType, *, rewritten: bool) -> str | None:
        """Why the threads copy between `view` and `tile`, for `op`, or None when TMA does; a remark tells the user.

        `rewritten`: a store that the kernel may overwrite later.
        """
        if self.min_bytes is None:
            return "the pass list says so"
        problem = self._problem(op, view, tile, rewritten, self.min_bytes)
        if problem is not None:
            remark(op, f"the threads {'load' if op.is_load else 'store'} this tile: {problem}")
        return problem

    def _problem(self, op: CopyOp, view: ViewType, tile: SmemType, rewritten: bool, min_bytes: int) -> str | None:
        if tile.order != view.order:
            return f"TMA cannot transpose: the tile has order {list(tile.order)}, the view {list(view.order)}"
        if view.align < TMA_ALIGNMENT:
            return f"TMA needs bases and pitches of {TMA_ALIGNMENT} bytes, the view has align = {view.align}"
        if not divides(TMA_ALIGNMENT // view.dtype.bytes, op.indices[view.order[0]]):
            return f"the innermost coordinate is not known to be a multiple of {TMA_ALIGNMENT} bytes"
        if not op.is_load and view.tail != "grid":
            return "a TMA store clips in 16-byte units, and rows of the view end between them (tail = free)"
        if not op.is_load and rewritten:
            return "the kernel may store to the same place again, and TMA stores keep no order"
        if (misplaced := tile.layout.tma_problem) is not None:
            return misplaced
        if tile.layout.size < min_bytes:
            return f"{tile.layout.size} bytes are too few for TMA to pay (under {min_bytes})"
        return None


def with_layout(shape: Sequence[int], element: Attribute, order: Sequence[int]) -> SmemType | None:
    """The tile with the widest swizzle that its rows allow; None where they are not multiples of 16 bytes."""
    fast_bytes = shape[order[0]] * dtype_of(element).bytes
    widest = widest_swizzle(fast_bytes)
    if widest is None:
        return None
    # A swizzle permutes the 16-byte units of neighbouring rows: a tile of rank 1 has but one row.
    return SmemType.of(shape, element, order=order, swizzle=widest if len(shape) == 2 else 16)


def staging_columns(shape: tuple[int, int], element: Attribute, order: Sequence[int]) -> int:
    """Columns of an accumulator that go through its staging tile at a time: the most that are as wide as one 128-byte
    row (row-major), or 64 (column-major), and divide the accumulator evenly into swizzled rows."""
    columns = shape[1]
    bytes = dtype_of(element).bytes
    if order[0] == 1:
        swizzle = widest_swizzle(columns * bytes)
        assert swizzle is not None  # N is a multiple of 8
        unit, most = swizzle // bytes, 128 // bytes
    else:
        unit, most = 8, 64
    return max(c for c in range(unit, most + 1, unit) if columns % c == 0)
