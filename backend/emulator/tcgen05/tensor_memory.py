"""Tensor memory of a CTA: what each cell holds, which columns are allocated, and which accesses have not completed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from tilec.backend.emulator.faults import FaultKind, Place, fail
from tilec.backend.emulator.tcgen05.region import COLUMNS, LANES, Region, bits, index_of, members, ranges

if TYPE_CHECKING:
    from tilec.backend.emulator.execution.cta import Cta


class Engine(Enum):
    """What accesses tensor memory. The value is how messages call it."""

    MMA = "tcgen05.mma"
    COPY = "tcgen05.cp"
    LOAD = "tcgen05.ld"
    STORE = "tcgen05.st"


@dataclass(frozen=True, eq=False)
class Access:
    """An access that has not completed. `warp` executed it, of loads and stores. `accumulator` is the same for matrix products of
    one shape on one accumulator, which are ordered among themselves (PTX 9.7.16.6.2); None for what is no accumulator.
    `registers`: the slots that a load writes."""

    engine: Engine
    region: Region
    writes: bool
    place: Place
    warp: int = -1
    accumulator: tuple[object, ...] | None = None
    registers: frozenset[int] = frozenset()

    def __str__(self) -> str:
        return f"{self.engine.value} of line {self.place.instruction.line}"


@dataclass(frozen=True)
class Allocation:
    """Columns from `first` on, allocated by the instruction at `place`."""

    first: int
    count: int
    place: Place


class TensorMemory:
    """State of one CTA. `cells[lane, column]` are 32 bits each; `written` says which have ever been written since they were
    allocated."""

    def __init__(self, cta: Cta) -> None:
        self.cta = cta
        self.cells = np.zeros((LANES, COLUMNS), np.uint32)
        self.written = np.zeros((LANES, COLUMNS), np.bool_)
        self.allocated = 0
        """The allocated columns, as a set."""
        self.allocations: dict[int, Allocation] = {}
        self.accesses: list[Access] = []

    def at_exit(self) -> None:
        """Everything must have been deallocated (PTX 9.7.16.7.1)."""
        for allocation in self.allocations.values():
            fail(
                FaultKind.TENSOR_MEMORY,
                f"CTA {self.cta.index} has exited, but columns {ranges(bits(allocation.first, allocation.count))} of tensor memory "
                "have not been deallocated",
                allocation.place,
                "a warp executes tcgen05.dealloc before the last thread exits",
            )

    # Allocation.

    def find_columns(self, count: int, taken: int = 0) -> int | None:
        """The first free columns, aligned to their number; `taken` are not free for another reason."""
        used = self.allocated | taken
        return next((first for first in range(0, COLUMNS, count) if not used & bits(first, count)), None)

    def allocate(self, first: int, count: int, place: Place) -> None:
        self.allocations[first] = Allocation(first, count, place)
        self.allocated |= bits(first, count)

    def check_allocation(self, address: int, count: int, place: Place) -> None:
        """Whether that is what an allocation returned; faults otherwise, and while something uses the columns."""
        allocation = self.allocations.get(address)
        if allocation is None or allocation.count != count:
            live = ", ".join(f"{a.count} columns at 0x{a.first:x}" for a in self.allocations.values()) or "nothing"
            fail(
                FaultKind.TENSOR_MEMORY,
                f"tcgen05.dealloc of {count} columns at 0x{address:x}: there is no such allocation; allocated are {live}",
                place,
            )
        region = Region(bits(0, LANES), bits(address, count))
        busy = next((a for a in self.accesses if a.region.overlaps(region)), None)
        if busy is not None:
            fail(
                FaultKind.IN_FLIGHT,
                f"columns {ranges(region.columns)} of tensor memory are deallocated, but {busy} has not completed",
                place,
                _how_to_wait(busy),
            )

    def deallocate(self, first: int) -> None:
        allocation = self.allocations.pop(first)
        self.allocated &= ~bits(first, allocation.count)
        self.written[:, first : first + allocation.count] = False

    # Accesses.

    def check_allocated(self, region: Region, what: str, place: Place) -> None:
        """Faults unless all columns are allocated."""
        if not region.columns & ~self.allocated:
            return
        missing = region.columns & ~self.allocated
        fail(
            FaultKind.TENSOR_MEMORY,
            f"{what} columns {ranges(region.columns)} of tensor memory, of which {ranges(missing)} are not allocated; allocated are "
            f"{ranges(self.allocated)}",
            place,
        )

    def check_written(self, region: Region, what: str, place: Place) -> None:
        """Faults unless all cells have been written."""
        lanes, columns = index_of(region.lanes), index_of(region.columns)
        seen = self.written[lanes, columns] if isinstance(lanes, slice) else self.written[lanes][:, columns]
        if seen.all():
            return
        row, column = (int(x[0]) for x in np.nonzero(~seen))
        lane, at = int(members(region.lanes)[row]), int(members(region.columns)[column])
        fail(
            FaultKind.UNINITIALISED,
            f"{what} tensor memory at lane {lane}, column {at}, where nothing has been written since it was allocated",
            place,
        )

    def refuse(self, what: str, busy: Access, place: Place) -> NoReturn:
        """The fault for an access that another one, not completed, is in the way of."""
        fail(
            FaultKind.IN_FLIGHT,
            f"{what} lanes {ranges(busy.region.lanes)}, columns {ranges(busy.region.columns)} of tensor memory, which {busy} still "
            f"{'writes' if busy.writes else 'reads'}",
            place,
            _how_to_wait(busy),
        )

    def check_load(self, region: Region, what: str, place: Place) -> None:
        """Whether a load may read: only loads, and products that read too, may be under way."""
        self.check_allocated(region, f"{what} reads", place)
        for busy in self.accesses:
            if busy.writes and busy.region.overlaps(region):
                self.refuse(f"{what} reads", busy, place)
        self.check_written(region, f"{what} reads", place)

    def check_store(self, region: Region, what: str, place: Place) -> None:
        """Whether a store may write: loads of the same thread come before it, and its stores are in order."""
        self.check_allocated(region, f"{what} writes", place)
        for busy in self.accesses:
            if busy.engine in (Engine.MMA, Engine.COPY) and busy.region.overlaps(region):
                self.refuse(f"{what} writes", busy, place)

    def check_product_reads(self, region: Region, what: str, place: Place) -> None:
        """Whether a matrix product may read an operand: copies are ordered before it, products are not."""
        self.check_allocated(region, f"{what} reads", place)
        for busy in self.accesses:
            if busy.writes and busy.engine is not Engine.COPY and busy.region.overlaps(region):
                self.refuse(f"{what} reads", busy, place)
        self.check_written(region, f"{what} reads", place)

    def check_engine_writes(
        self, region: Region, accumulator: tuple[object, ...] | None, what: str, place: Place
    ) -> None:
        """Whether a product (with its `accumulator`) or a copy (None) may write. The engine works in order, but products on other
        accumulators may overtake one another, and threads are not in its queue."""
        self.check_allocated(region, f"{what} writes", place)
        for busy in self.accesses:
            if not busy.region.overlaps(region):
                continue
            of_threads = busy.engine in (Engine.LOAD, Engine.STORE)
            if of_threads or (busy.accumulator is not None and busy.accumulator != accumulator):
                self.refuse(f"{what} writes", busy, place)

    def begin(self, access: Access) -> None:
        """An access is under way from now on. What it writes counts as written: nobody can read it before its completion."""
        if access.writes:
            lanes, columns = index_of(access.region.lanes), index_of(access.region.columns)
            if isinstance(lanes, slice) or isinstance(columns, slice):
                self.written[lanes, columns] = True
            else:
                self.written[np.ix_(lanes, columns)] = True
        self.accesses.append(access)

    def end_of_warp(self, engine: Engine, warps: set[int]) -> None:
        """`tcgen05.wait` of warps: their loads, or their stores, have completed."""
        self.accesses = [a for a in self.accesses if a.engine is not engine or a.warp not in warps]

    def end(self, done: set[Access]) -> None:
        """Accesses have completed, and a thread can know it."""
        self.accesses = [a for a in self.accesses if a not in done]


def _how_to_wait(busy: Access) -> str:
    match busy.engine:
        case Engine.LOAD:
            return "the warp that loads executes tcgen05.wait::ld first"
        case Engine.STORE:
            return "the warp that stores executes tcgen05.wait::st first"
        case _:
            return "the thread that issued it executes tcgen05.commit, and the mbarrier is waited for first"
