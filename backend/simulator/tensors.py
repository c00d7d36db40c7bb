"""Tensors that a kernel writes: who has written each element, and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import Operation

from tilec.backend.reference.numerics import Array
from tilec.backend.reference.storage import Region, View
from tilec.backend.simulator.memory import Access

_OPS = 1 << 12
"""Stores of one kernel to one view, at most: a stamp holds the time and the store's number."""
NOBODY, SEVERAL = -1, -2


def overlap(one: Region, other: Region) -> bool:
    return all(a.start < b.stop and b.start < a.stop for a, b in zip(one, other, strict=True))


@dataclass(eq=False)
class Tensor:
    """One view that the kernel writes.

    `writers`: by element the visit (CTA and turn) that stored it last, or -1. `stamps`: when: the bulk group of a TMA
    store, the negated time of a store by threads; both times `_OPS`, plus the number of the operation. A CTA meets its own
    stamps alone, since what another CTA has written is an error before it looks.
    """

    view: View
    is_loaded: bool
    step: tuple[int, ...] | None = None
    """The scheduler's tile, if this is the view that a persistent kernel visits tile by tile."""
    writers: Array = field(init=False)
    stamps: Array = field(init=False)
    readers: Array | None = field(init=False)
    """By element the CTA that has loaded it; several are -2."""
    ops: list[Operation] = field(default_factory=list[Operation])
    loads: list[tuple[Region, Access]] = field(default_factory=list[tuple[Region, Access]])
    """Of the running CTA."""

    def __post_init__(self) -> None:
        shape = self.view.array.shape
        self.writers = np.full(shape, NOBODY, np.int32)
        self.stamps = np.zeros(shape, np.int64)
        self.readers = np.full(shape, NOBODY, np.int32) if self.is_loaded else None

    def number(self, op: Operation) -> int:
        for i, known in enumerate(self.ops):
            if known is op:
                return i
        self.ops.append(op)
        return len(self.ops) - 1

    def is_fresh(self, region: Region) -> bool:
        """Whether nothing has been stored there."""
        part = self.writers[region]
        return not part.size or int(part.max()) < 0

    def other_writer(
        self, region: Region, visit: int, ctas: int, *, exactly: bool
    ) -> tuple[tuple[int, ...], int] | None:
        """An element that another CTA (or `exactly`: another turn too) has stored, and that visit."""
        part = self.writers[region]
        other = (part >= 0) & ((part != visit) if exactly else (part % ctas != visit % ctas))
        return self._first(region, other, part)

    def other_reader(self, region: Region, cta: int) -> tuple[tuple[int, ...], int] | None:
        """An element that another CTA has loaded, and that CTA (or `SEVERAL`)."""
        if self.readers is None:
            return None
        part = self.readers[region]
        return self._first(region, (part != NOBODY) & (part != cta), part)

    @staticmethod
    def _first(region: Region, where: Array, part: Array) -> tuple[tuple[int, ...], int] | None:
        if not where.any():
            return None
        index = np.unravel_index(int(where.argmax()), where.shape)
        return tuple(int(i) + s.start for i, s in zip(index, region, strict=True)), int(part[index])

    def last_stores(self, region: Region) -> tuple[tuple[int, Operation] | None, tuple[int, Operation] | None]:
        """The youngest TMA store (its group) and store by threads (its time) there."""
        part = self.stamps[region]
        return self._decode(int(part.max(initial=0))), self._decode(-int(part.min(initial=0)))

    def _decode(self, stamp: int) -> tuple[int, Operation] | None:
        return (stamp // _OPS, self.ops[stamp % _OPS]) if stamp > 0 else None

    def store(self, region: Region, visit: int, access: Access) -> None:
        stamp = access.time * _OPS + self.number(access.op)
        self.writers[region] = visit
        self.stamps[region] = stamp if access.kind == "store" else -stamp

    def load(self, region: Region, cta: int, access: Access) -> None:
        if self.readers is not None:
            part = self.readers[region]
            part[(part != NOBODY) & (part != cta)] = SEVERAL
            part[part == NOBODY] = cta
        self.loads.append((region, access))

    def never_stored(self) -> tuple[int, ...] | None:
        """Offsets of a tile of the schedule with an element that nobody has stored."""
        if self.step is None:
            return None
        missing = self.writers == NOBODY
        if not missing.any():
            return None
        index: Sequence[int] = [int(i) for i in np.unravel_index(int(missing.argmax()), missing.shape)]
        return tuple(i // s * s for i, s in zip(index, self.step, strict=True))
