"""`mbarrier` (PTX 9.7.13.15): initialisation, arrivals and transactions. The waits are in mbarrier_wait.py.

Threads of one instruction that use one object do so as one operation on it, in the order of their lanes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.execution.cta import Cta
from tilec.backend.emulator.execution.decode import Decoder, instruction
from tilec.backend.emulator.execution.lanes import Execute, Lanes
from tilec.backend.emulator.faults import FaultKind
from tilec.backend.emulator.instructions.fences import publish
from tilec.backend.emulator.memory.accesses import resolve
from tilec.backend.emulator.numbers.types import Values
from tilec.backend.emulator.ptx.syntax import Sink
from tilec.backend.emulator.synchronisation.mbarrier import MBarrier, MBarriers, find, pending_of

_OFFSET = 0xFFFFFF


def take_space(d: Decoder, *, remote: bool) -> str | None:
    """The state space of the object; None for a generic address. `remote`: other CTAs' objects are allowed."""
    space = d.take("shared", "shared::cta", "shared::cluster")
    if space == "shared::cluster" and not remote:
        d.unsupported("an object in .shared::cluster cannot be used so")
    return space


def take_semantics(d: Decoder, *allowed: str) -> str:
    """The .sem and .scope modifiers, which go together; the first allowed .sem is the default."""
    semantics, scope = d.take(*allowed), d.take("cta", "cluster")
    if (semantics is None) != (scope is None):
        d.unsupported(".sem and .scope are specified together")
    return semantics or allowed[0]


def take_b64(d: Decoder) -> None:
    """The type that all these instructions end with."""
    if d.take_type() != "b64":
        d.unsupported("an mbarrier is .b64")


class Use(NamedTuple):
    """An object and the lanes that use it."""

    cta: Cta
    offset: int
    lanes: NDArray[np.intp]


def uses(lanes: Lanes, addresses: Values, *, remote: bool) -> Iterator[Use]:
    """The objects that lanes name by shared addresses, each once, in the order in which lanes first name them."""
    addresses = np.broadcast_to(addresses, (lanes.count,))
    first = int(addresses[0])
    if (addresses == addresses[0]).all():
        yield Use(_owner(lanes, first, 0, remote=remote), first & _OFFSET, np.arange(lanes.count))
        return
    _, firsts, groups = np.unique(addresses, return_index=True, return_inverse=True)
    for group in np.argsort(firsts):
        lane = int(firsts[group])
        address = int(addresses[lane])
        yield Use(_owner(lanes, address, lane, remote=remote), address & _OFFSET, np.flatnonzero(groups == group))


def _owner(lanes: Lanes, address: int, lane: int, *, remote: bool) -> Cta:
    """The CTA whose shared memory holds an address."""
    if address >> 32:
        lanes.fault(FaultKind.OUT_OF_BOUNDS, f"0x{address:x} is no address in shared memory", lane)
    rank = address >> 24
    if rank == lanes.cta.rank:
        return lanes.cta
    if not remote:
        lanes.fault(
            FaultKind.MBARRIER,
            f"the mbarrier at 0x{address & _OFFSET:x} of the CTA of rank {rank} is used by a thread of rank {lanes.cta.rank} in a "
            "way that only the threads of its own CTA may",
            lane,
            "other CTAs may only arrive without a result, expect and complete bytes",
        )
    lanes.cta.cluster.shared_of(lanes, rank)
    return lanes.cta.cluster.ctas[rank]


@instruction("mbarrier.init")
def init(d: Decoder) -> Execute:
    space = take_space(d, remote=False)
    take_b64(d)
    d.finish()
    d.count(2)
    read_address, read_count = d.shared_address(d.operands[0], space), d.reader(d.operands[1], "u32")

    def execute(lanes: Lanes) -> None:
        addresses = np.broadcast_to(read_address(lanes), (lanes.count,))
        counts = np.broadcast_to(read_count(lanes), (lanes.count,))
        accesses = resolve(lanes, "shared::cta", addresses, 8)
        for use in uses(lanes, addresses, remote=False):
            _refuse_live(lanes, use)
        for access in accesses:
            part = lanes if access.positions is None else lanes.only(access.positions)
            access.segment.check_store(part, access.offsets, 8)
        objects = lanes.cta.part(MBarriers).by_offset
        for lane in range(lanes.count):
            offset = int(addresses[lane]) & _OFFSET
            objects[offset] = MBarrier(lanes.cta, offset, int(counts[lane]), lanes, lane)

    return execute


def _refuse_live(lanes: Lanes, use: Use) -> None:
    """Only memory that holds no live object can become one (9.7.13.15.9)."""
    hint = "one thread initialises it, once; mbarrier.inval ends its life"
    lane = int(use.lanes[0])
    found = use.cta.part(MBarriers).by_offset.get(use.offset)
    if found is not None and found.live:
        lanes.fault(FaultKind.MBARRIER, f"{found} is initialised again, although it is live", lane, hint)
    if len(use.lanes) > 1:
        message = f"the mbarrier at 0x{use.offset:x} is initialised by {len(use.lanes)} threads at once"
        lanes.fault(FaultKind.MBARRIER, message, int(use.lanes[1]), hint)


@instruction("mbarrier.inval")
def inval(d: Decoder) -> Execute:
    space = take_space(d, remote=False)
    take_b64(d)
    d.finish()
    d.count(1)
    read_address = d.shared_address(d.operands[0], space)

    def execute(lanes: Lanes) -> None:
        for use in uses(lanes, read_address(lanes), remote=False):
            for lane in use.lanes:
                find(use.cta, use.offset, lanes, int(lane)).invalidate(lanes.instruction.line)

    return execute


@instruction("mbarrier.expect_tx", "mbarrier.complete_tx")
def transactions(d: Decoder) -> Execute:
    complete = d.instruction.parts[1] == "complete_tx"
    space = take_space(d, remote=True)
    take_semantics(d, "relaxed")
    take_b64(d)
    d.finish()
    d.count(2)
    read_address, read_bytes = d.shared_address(d.operands[0], space), d.reader(d.operands[1], "u32")

    def execute(lanes: Lanes) -> None:
        sizes = np.broadcast_to(read_bytes(lanes), (lanes.count,))
        for use in uses(lanes, read_address(lanes), remote=True):
            for lane in use.lanes:
                barrier = find(use.cta, use.offset, lanes, int(lane))
                if complete:
                    barrier.complete_tx(int(sizes[lane]))
                else:
                    barrier.expect_tx(int(sizes[lane]))

    return execute


@instruction("mbarrier.arrive", "mbarrier.arrive_drop")
def arrive(d: Decoder) -> Execute:
    """All forms of 9.7.13.15.13 and 9.7.13.15.14. A thread that arrives with `.release` publishes its writes."""
    drop = d.instruction.parts[1] == "arrive_drop"
    expect, incomplete = d.take("expect_tx") is not None, d.take("noComplete") is not None
    if expect and incomplete:
        d.unsupported(".expect_tx and .noComplete exclude each other")
    space = take_space(d, remote=not incomplete)
    releases = (
        take_semantics(d, "release") == "release"
        if incomplete
        else take_semantics(d, "release", "relaxed") == "release"
    )
    take_b64(d)
    d.finish()
    operands = list(d.operands)
    if space == "shared::cluster" and len(operands) and not isinstance(operands[0], Sink):
        d.unsupported("an arrival in .shared::cluster has no result but _")
    given = d.count(3) if expect or incomplete else d.count(2, 3)
    sink = isinstance(operands[0], Sink)
    write = d.writer(operands[0], "b64")
    read_address = d.shared_address(operands[1], space)
    read_number = d.reader(operands[2], "u32") if given == 3 else None

    def execute(lanes: Lanes) -> None:
        if releases:
            publish(lanes)
        one = np.ones(lanes.count, np.int64)
        numbers = one if read_number is None else np.broadcast_to(read_number(lanes), (lanes.count,)).astype(np.int64)
        counts = one if expect else numbers
        states = np.empty(lanes.count, np.uint64)
        for use in uses(lanes, read_address(lanes), remote=True):
            if not sink and use.cta is not lanes.cta:
                _refuse_result(lanes, use)
            barrier = find(use.cta, use.offset, lanes, int(use.lanes[0]))
            for together in _within_a_phase(barrier, use.lanes, counts):
                barrier.use(lanes, int(together[-1]))
                if expect:
                    barrier.expect_tx(int(numbers[together].sum()))
                total = int(counts[together].sum())
                if incomplete and barrier.would_complete(total):
                    barrier.fault(f"an arrival with .noComplete completes phase {barrier.phase} of {barrier}")
                if drop:
                    barrier.drop(total)
                states[together] = barrier.arrive_each(counts[together])
        write(lanes, states)

    return execute


def _within_a_phase(
    barrier: MBarrier, positions: NDArray[np.intp], counts: NDArray[np.int64]
) -> Iterator[NDArray[np.intp]]:
    """The lanes that arrive at an object: all at once if none but the last can complete the phase, else one after another."""
    if int(counts[positions].sum()) <= barrier.pending:
        yield positions
    else:
        yield from (positions[at : at + 1] for at in range(len(positions)))


def _refuse_result(lanes: Lanes, use: Use) -> NoReturn:
    lanes.fault(
        FaultKind.MBARRIER,
        f"an arrival at 0x{use.offset:x} of the CTA of rank {use.cta.rank}, another CTA, asks for a state",
        int(use.lanes[0]),
        "the result of an arrival in another CTA is _",
    )


@instruction("mbarrier.pending_count")
def pending_count(d: Decoder) -> Execute:
    take_b64(d)
    d.finish()
    d.count(2)
    write, read = d.writer(d.operands[0], "u32"), d.reader(d.operands[1], "b64")

    def execute(lanes: Lanes) -> None:
        write(lanes, pending_of(np.asarray(read(lanes))))

    return execute
