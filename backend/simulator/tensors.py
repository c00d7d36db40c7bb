"""Tensors that a kernel writes: who has written each element, and when.

All elements that a copy moves have the same past. So it is kept once for each cell of a grid that no copy's border crosses,
and a borderline that is new divides the grid further: what is kept grows with the pieces that are copied, not with elements.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd

import numpy as np
from xdsl.ir import Operation

from tilec.backend.reference.numerics import Array
from tilec.backend.reference.storage import Region, View
from tilec.backend.simulator.memory import Access

_OPS = 1 << 12
"""Stores of one kernel to one view, at most: a stamp holds the time and the store's number."""
NOBODY, SEVERAL = -1, -2

_CELL = np.dtype([("writer", np.int32), ("reader", np.int32), ("stamp", np.int64)])
"""`writer`: the visit (CTA and turn) that stored it last, or -1. `reader`: the CTA that has loaded it, -1, or -2 for several.
`stamp`: when it was stored: the bulk group of a TMA store, the negated time of a store by threads; both times `_OPS`, plus the
number of the operation. A CTA meets its own stamps alone, since what another CTA has written is an error before it looks."""


def overlap(one: Region, other: Region) -> bool:
    return all(a.start < b.stop and b.start < a.stop for a, b in zip(one, other, strict=True))


@dataclass(eq=False)
class Tensor:
    """One view that the kernel writes. Regions are not empty."""

    view: View
    is_loaded: bool
    is_stored_by_tma: bool
    step: tuple[int, ...] | None = None
    """The scheduler's tile, if this is the view that a persistent kernel visits tile by tile."""
    grain: list[int] = field(init=False)
    """Extents of a cell, in elements; those at the edge may be smaller."""
    cells: Array = field(init=False)
    """Of `_CELL`. At first there is one."""
    ops: list[Operation] = field(default_factory=list[Operation])
    loads: list[tuple[Region, Access]] = field(default_factory=list[tuple[Region, Access]])
    """Of the running CTA."""

    def __post_init__(self) -> None:
        shape = self.view.array.shape
        self.grain = [max(extent, 1) for extent in shape]
        self.cells = np.full([min(extent, 1) for extent in shape], np.array((NOBODY, NOBODY, 0), _CELL))

    def _touched(self, region: Region) -> Array:
        """The cells that have elements in a region. Their elements elsewhere have the same past as those."""
        return self.cells[tuple(slice(s.start // g, -(-s.stop // g)) for s, g in zip(region, self.grain, strict=True))]

    def _cut_out(self, region: Region) -> Array:
        """The cells of a region, after a division of those that have elements elsewhere too."""
        for axis, (part, extent) in enumerate(zip(region, self.view.array.shape, strict=True)):
            coarse = self.grain[axis]
            borders = (part.start, part.stop if part.stop < extent else 0, coarse if coarse < extent else 0)
            fine = gcd(*borders) or extent
            if fine < coarse:
                origins = [start // coarse for start in range(0, extent, fine)]
                self.cells = self.cells.take(origins, axis)
                self.grain[axis] = fine
        return self._touched(region)

    def number(self, op: Operation) -> int:
        for i, known in enumerate(self.ops):
            if known is op:
                return i
        self.ops.append(op)
        return len(self.ops) - 1

    def is_fresh(self, region: Region) -> bool:
        """Whether nothing has been stored there."""
        return int(self._touched(region)["writer"].max()) < 0

    def other_writer(
        self, region: Region, visit: int, ctas: int, *, exactly: bool
    ) -> tuple[tuple[int, ...], int] | None:
        """An element that another CTA (or `exactly`: another turn too) has stored, and that visit."""
        part = self._touched(region)["writer"]
        other = (part >= 0) & ((part != visit) if exactly else (part % ctas != visit % ctas))
        return self._first(region, other, part)

    def other_reader(self, region: Region, cta: int) -> tuple[tuple[int, ...], int] | None:
        """An element that another CTA has loaded, and that CTA (or `SEVERAL`)."""
        part = self._touched(region)["reader"]
        return self._first(region, (part != NOBODY) & (part != cta), part)

    def _first(self, region: Region, where: Array, part: Array) -> tuple[tuple[int, ...], int] | None:
        """The first element of a region that lies in one of its cells `where`, and what `part` holds there."""
        if not where.any():
            return None
        index = np.unravel_index(int(where.argmax()), where.shape)
        cells = zip(index, region, self.grain, strict=True)
        return tuple(max((s.start // g + int(i)) * g, s.start) for i, s, g in cells), int(part[index])

    def last_stores(self, region: Region) -> tuple[tuple[int, Operation] | None, tuple[int, Operation] | None]:
        """The youngest TMA store (its group) and store by threads (its time) there."""
        part = self._touched(region)["stamp"]
        return self._decode(int(part.max())), self._decode(-int(part.min()))

    def _decode(self, stamp: int) -> tuple[int, Operation] | None:
        return (stamp // _OPS, self.ops[stamp % _OPS]) if stamp > 0 else None

    def store(self, region: Region, visit: int, access: Access) -> None:
        stamp = access.time * _OPS + self.number(access.op)
        part = self._cut_out(region)
        part["writer"] = visit
        part["stamp"] = stamp if access.kind == "store" else -stamp

    def load(self, region: Region, cta: int, access: Access) -> None:
        part = self._cut_out(region)["reader"]
        part[(part != NOBODY) & (part != cta)] = SEVERAL
        part[part == NOBODY] = cta
        self.loads.append((region, access))

    def never_stored(self) -> tuple[int, ...] | None:
        """Offsets of a tile of the schedule with an element that nobody has stored."""
        if self.step is None:
            return None
        missing = self.cells["writer"] == NOBODY
        if not missing.any():
            return None
        cell = np.unravel_index(int(missing.argmax()), missing.shape)
        return tuple(int(i) * g // s * s for i, g, s in zip(cell, self.grain, self.step, strict=True))
