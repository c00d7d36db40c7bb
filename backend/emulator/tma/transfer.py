"""Bulk copies as asynchronous work: which shared memory they write or read, and how they tell that they are done.

Copies into shared memory complete bytes on an mbarrier; copies out of it belong to a bulk group of the thread (PTX 9.7.9.25.1).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.execution.cta import Cta
from tilec.backend.emulator.execution.engines import AsyncWork
from tilec.backend.emulator.execution.lanes import Lanes
from tilec.backend.emulator.faults import FaultKind
from tilec.backend.emulator.memory.address_space import GlobalSegment
from tilec.backend.emulator.synchronisation import mbarrier
from tilec.backend.emulator.tma.placement import Placement
from tilec.backend.emulator.tma.reductions import Reduction

OFFSET_MASK = 0xFFFFFF
REPORT = 128
"""The engine reports the bytes that have come in multiples of this."""

Fetch = Callable[[AsyncWork], NDArray[np.uint8]]
"""Reads the source when the work runs: the bytes, 16 for each unit of the placement."""
Deliver = Callable[[AsyncWork, NDArray[np.uint8]], None]
"""Writes the destination when the work runs, given what the placement has read."""


@dataclass(frozen=True)
class Target:
    """A CTA that data goes to, and the mbarrier that is told: a CTA and an offset in its shared memory."""

    cta: Cta
    signalled: Cta
    barrier: int


def split_address(address: int) -> tuple[int, int]:
    """Rank and offset of a shared address."""
    return address >> 24, address & OFFSET_MASK


def cta_of(lanes: Lanes, lane: int, rank: int) -> Cta:
    """The CTA of a rank in the cluster. Faults if there is none, or if it has exited."""
    one = Lanes(lanes.cta, lanes.threads[lane : lane + 1], 1, lanes.instruction)
    lanes.cta.cluster.shared_of(one, rank)
    return lanes.cta.cluster.ctas[rank]


def aligned(lanes: Lanes, lane: int, what: str, address: int, alignment: int) -> None:
    """Fault if an address is not a multiple of `alignment` bytes."""
    if address % alignment:
        lanes.fault(FaultKind.MISALIGNED, f"{what} 0x{address:x} is not a multiple of {alignment} bytes", lane)


def own_offset(lanes: Lanes, lane: int, address: int, what: str) -> int:
    """The offset of a shared::cta address, which must be one of the executing CTA."""
    rank, offset = split_address(address)
    if rank != lanes.cta.rank:
        lanes.fault(
            FaultKind.OUT_OF_BOUNDS,
            f"{what} 0x{address:x} is shared memory of the CTA of rank {rank}; .shared::cta is that of the executing CTA, of rank "
            f"{lanes.cta.rank}",
            lane,
        )
    return offset


def submit_load(
    lanes: Lanes, lane: int, name: str, fetch: Fetch, placement: Placement, targets: list[Target], size: int
) -> None:
    """Issue a copy into shared memory: the same bytes to each target, which learns of `size` of them."""
    machine = lanes.machine

    def steps() -> Generator[None]:
        data = fetch(work)
        machine.statistics.tma_load_bytes += size * len(targets)
        for at, target in enumerate(targets):
            if at:
                yield
            placement.write(target.cta.shared.data, data)
            yield from _report(work, target, size)

    work = AsyncWork(name, lanes.cta, lanes.place(lane), steps())
    for target in targets:
        work.barriers.append(mbarrier.find(target.signalled, target.barrier, lanes, lane))
        target.cta.shared.begin_write(work, placement.units)
    machine.engines.submit(work)


def _report(work: AsyncWork, target: Target, size: int) -> Generator[None]:
    """Complete the bytes on the mbarrier, in pieces of the engine's choice. A phase that ends with a piece that is not the last
    expected too few bytes: those who wait for it may then go on before all has come."""
    left = size
    for piece in target.cta.machine.order.pieces(-(-size // REPORT)):
        count = min(left, piece * REPORT)
        left -= count
        if not left:
            target.cta.shared.end_write(work)
        barrier = mbarrier.find(target.signalled, target.barrier, work)
        phase = barrier.phase
        barrier.complete_tx(count)
        if left and barrier.phase != phase:
            yield


class Operation:
    """A copy out of shared memory: whether it has read its source, and whether it is complete."""

    __slots__ = ("done", "name", "read")

    def __init__(self, name: str) -> None:
        self.name = name
        self.read = False
        self.done = False


def submit_store(
    lanes: Lanes,
    lane: int,
    name: str,
    deliver: Deliver,
    placement: Placement,
    size: int,
    needed: NDArray[np.intp] | None = None,
) -> Operation:
    """Issue a copy out of shared memory of the executing CTA. The caller puts the operation into the thread's bulk group.

    `needed`: the units of which something reaches global memory, by default all. The others are dropped, whatever they hold.
    """
    shared, machine = lanes.cta.shared, lanes.machine
    operation = Operation(name)

    def steps() -> Generator[None]:
        data = placement.read(shared.data)
        shared.end_read(work)
        machine.statistics.tma_store_bytes += size
        operation.read = True
        yield
        deliver(work, data)
        operation.done = True

    work = AsyncWork(name, lanes.cta, lanes.place(lane), steps())
    shared.check_bounds(work, placement.units)
    shared.begin_read(work, placement.units if needed is None else needed)
    machine.engines.submit(work)
    return operation


def submit_copy(lanes: Lanes, lane: int, source: Placement, destination: Placement, target: Target, size: int) -> None:
    """Issue a copy from shared memory of the executing CTA to that of another."""
    own, other, machine = lanes.cta.shared, target.cta.shared, lanes.machine

    def steps() -> Generator[None]:
        data = source.read(own.data)
        own.end_read(work)
        machine.statistics.tma_store_bytes += size
        yield
        destination.write(other.data, data)
        machine.statistics.tma_load_bytes += size
        yield from _report(work, target, size)

    work = AsyncWork("the bulk copy", lanes.cta, lanes.place(lane), steps())
    work.barriers.append(mbarrier.find(target.signalled, target.barrier, lanes, lane))
    own.begin_read(work, source.units)
    other.begin_write(work, destination.units)
    machine.engines.submit(work)


def submit_reduction(
    lanes: Lanes, lane: int, source: Placement, destination: Placement, target: Target, size: int, reduce: Reduction
) -> None:
    """Issue a reduction of shared memory of another CTA. Several may be under way at one place: each is atomic, so that what it
    changes is in flight only while it does."""
    own, machine = lanes.cta.shared, lanes.machine

    def steps() -> Generator[None]:
        data = source.read(own.data)
        own.end_read(work)
        machine.statistics.tma_store_bytes += size
        yield
        other = target.cta.shared
        if target.cta.exited:
            work.fault(
                FaultKind.LEFT_BEHIND, f"{work.name} changes shared memory of CTA {target.cta.index}, which has exited"
            )
        other.begin_read(work, destination.units)
        other.end_read(work)
        other.begin_write(work, destination.units)
        reduced = destination.read(other.data)
        reduce.apply(reduced, data)
        destination.write(other.data, reduced)
        machine.statistics.tma_load_bytes += size
        yield from _report(work, target, size)

    work = AsyncWork("the bulk reduction", lanes.cta, lanes.place(lane), steps())
    work.barriers.append(mbarrier.find(target.signalled, target.barrier, lanes, lane))
    own.begin_read(work, source.units)
    machine.engines.submit(work)


def segment_at(
    work: AsyncWork, address: int, size: int, verb: str, what: str, *, written: bool = False
) -> tuple[GlobalSegment, int]:
    """The global memory that holds `size` bytes at `address`, and the offset in it. Faults if there is none, or if it is
    read-only and `written`. `verb` and `what` are for messages: "reads", "the box at (0, 8)"."""
    memory = work.cta.machine.memory
    found = memory.find(address, size)
    if found is None:
        _outside(work, memory.window(address >> 32), address, size, f"{work.name} {verb} {what}")
    if written and not found[0].writable:
        work.fault(FaultKind.OUT_OF_BOUNDS, f"{work.name} {verb} {what}, but {found[0].name} is read-only")
    return found


def _outside(work: AsyncWork, segment: GlobalSegment | None, address: int, size: int, what: str) -> NoReturn:
    place = f"{size} bytes from address 0x{address:x} on"
    if segment is None:
        work.fault(FaultKind.OUT_OF_BOUNDS, f"{what}: {place}, which are in no array")
    first = address - segment.address
    if first < 0:
        where = f"begin {-first} bytes before {segment.name}"
    elif first >= segment.size:
        where = f"begin {first - segment.size} bytes behind the end of {segment.name} ({segment.size} bytes)"
    else:
        where = f"reach {first + size - segment.size} bytes over the end of {segment.name} ({segment.size} bytes)"
    work.fault(FaultKind.OUT_OF_BOUNDS, f"{what}: {place}, which {where}")
