"""`cp.async`, its groups and its arrivals at an mbarrier (PTX 9.7.9.25.3, 9.7.13.15.15)."""

from __future__ import annotations

from collections.abc import Callable, Generator

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.execution.cta import Cta
from tilec.backend.emulator.execution.decode import Decoder, Reader, instruction
from tilec.backend.emulator.execution.engines import AsyncWork
from tilec.backend.emulator.execution.lanes import Execute, Lanes, Wait
from tilec.backend.emulator.faults import FaultKind
from tilec.backend.emulator.instructions.load_store import take_policy
from tilec.backend.emulator.memory.accesses import Access, resolve, subset
from tilec.backend.emulator.memory.async_copies import AsyncCopies, Copy
from tilec.backend.emulator.memory.unfenced import writers_of
from tilec.backend.emulator.numbers.types import Values
from tilec.backend.emulator.ptx.syntax import Integer, Not, Operand, Register
from tilec.backend.emulator.synchronisation import mbarrier

_BYTE = np.dtype(np.uint8)


@instruction("cp.async")
def cp_async(d: Decoder) -> Execute:
    cache = d.take("ca", "cg")
    space = d.take("shared", "shared::cta")
    source_space = d.take("global")
    d.take("L2::64B", "L2::128B", "L2::256B")
    operands = take_policy(d)
    d.finish()
    if cache is None or space is None or source_space is None:
        d.unsupported("a copy goes from .global to .shared, by .ca or .cg")
    if len(operands) not in (3, 4):
        d.unsupported(f"{len(operands)} operands, not 3 or 4, and a policy")
    size = operands[2]
    if not isinstance(size, Integer) or size.value not in ((16,) if cache == "cg" else (4, 8, 16)):
        d.unsupported("the size is 16, or with .ca also 4 or 8")
    unit = size.value
    target, source = d.address(operands[0]), d.address(operands[1])
    amount = _source_size(d, operands[3], unit) if len(operands) == 4 else None

    def execute(lanes: Lanes) -> None:
        targets = resolve(lanes, space, np.broadcast_to(target(lanes), (lanes.count,)), unit)
        places = targets[0].offsets // unit
        sizes = None if amount is None else np.broadcast_to(amount(lanes), (lanes.count,))
        parts = _sources(lanes, np.broadcast_to(source(lanes), (lanes.count,)), sizes, unit)
        _submit(lanes, places, unit, parts)

    return execute


def _source_size(d: Decoder, operand: Operand, unit: int) -> Reader:
    """How many bytes come from the source; zeros make up the rest. A predicate says that none do."""
    if isinstance(operand, Not) or (isinstance(operand, Register) and operand.type == "pred"):
        ignore = d.reader(operand, "pred")
        return lambda lanes: np.where(ignore(lanes), np.uint32(0), np.uint32(unit))
    read = d.reader(operand, "u32")

    def checked(lanes: Lanes) -> Values:
        sizes = read(lanes)
        if int(np.max(sizes)) > unit:
            lane = int(np.argmax(np.broadcast_to(sizes > unit, (lanes.count,))))
            lanes.fault(
                FaultKind.ILLEGAL, f"cp.async of {unit} bytes with a source size of {int(np.max(sizes))} bytes", lane
            )
        return sizes

    return checked


class _Source:
    """Where `width` bytes for each of some lanes come from."""

    def __init__(self, access: Access, positions: NDArray[np.intp], width: int) -> None:
        self.access = access
        self.positions = positions
        self.width = width

    def read_into(self, data: NDArray[np.uint8]) -> None:
        segment, offsets, _ = self.access
        if self.width == data.shape[1]:
            data[self.positions] = segment.rows(_BYTE, self.width).take(offsets // self.width, 0)
        else:
            data[self.positions, : self.width] = segment.data[offsets[:, None] + np.arange(self.width)]


def _sources(lanes: Lanes, addresses: Values, sizes: Values | None, unit: int) -> list[_Source]:
    """The places in global memory that are read, after a fault for one that is misaligned or out of bounds. Of lanes that read
    nothing the address does not matter."""
    everyone = np.arange(lanes.count)
    found: list[_Source] = []
    for width in [unit] if sizes is None else sorted({int(s) for s in np.unique(sizes)} - {0}):
        chosen = everyone if sizes is None else np.flatnonzero(sizes == width)
        part = lanes if len(chosen) == lanes.count else subset(lanes, chosen)
        wanted = addresses[chosen]
        _check_alignment(part, wanted, unit)
        if width == unit:
            accesses = resolve(part, "global", wanted, unit)
        else:
            resolve(part, "global", wanted + np.uint64(width - 1), 1)
            accesses = resolve(part, "global", wanted, 1)
        found += [_Source(a, chosen if a.positions is None else chosen[a.positions], width) for a in accesses]
    return found


def _check_alignment(lanes: Lanes, addresses: Values, unit: int) -> None:
    off = addresses % np.uint64(unit)
    if off.any():
        lane = int(np.flatnonzero(off)[0])
        lanes.fault(
            FaultKind.MISALIGNED,
            f"cp.async of {unit} bytes from address 0x{int(addresses[lane]):x}: the address is {int(off[lane])} bytes behind a "
            f"multiple of {unit}",
            lane,
        )


def _submit(lanes: Lanes, places: NDArray[np.int64], unit: int, sources: list[_Source]) -> None:
    cta = lanes.cta
    copies = cta.part(AsyncCopies)

    def steps() -> Generator[None]:
        data = np.zeros((len(places), unit), np.uint8)
        for source in sources:
            source.read_into(data)
        yield
        cta.shared.rows(_BYTE, unit)[places] = data

    work = AsyncWork(f"cp.async of {unit} bytes", cta, lanes.place(), steps())
    copy = Copy(work, lanes.threads, places, unit)
    work.on_done = lambda: copies.ended(copy)
    cta.shared.begin_write(work, places.astype(np.intp, copy=False), unit)
    copies.add(copy)
    lanes.machine.engines.submit(work)


@instruction("cp.async.commit_group")
def commit_group(d: Decoder) -> Execute:
    d.finish()
    d.count(0)
    return lambda lanes: lanes.cta.part(AsyncCopies).commit(lanes.threads)


@instruction("cp.async.wait_group")
def wait_group(d: Decoder) -> Execute:
    d.finish()
    d.count(1)
    pending = d.operands[0]
    if not isinstance(pending, Integer):
        d.unsupported("the number of groups is a constant")
    return lambda lanes: _wait(lanes, pending.value)


@instruction("cp.async.wait_all")
def wait_all(d: Decoder) -> Execute:
    d.finish()
    d.count(0)

    def execute(lanes: Lanes) -> Wait | None:
        lanes.cta.part(AsyncCopies).commit(lanes.threads)
        return _wait(lanes, 0)

    return execute


def _wait(lanes: Lanes, pending: int) -> Wait | None:
    copies = lanes.cta.part(AsyncCopies)
    parts = copies.awaited(lanes.threads, pending)
    works = [copy.work for copy, _ in parts]
    if all(work.done for work in works):
        copies.show(parts)
        return None
    return Wait(
        lambda: all(work.done for work in works),
        lambda: f"{sum(not work.done for work in works)} cp.async that have not ended",
        lambda: copies.show(parts),
    )


@instruction("cp.async.mbarrier.arrive")
def mbarrier_arrive(d: Decoder) -> Execute:
    increment = d.take("noinc") is None
    space = d.take("shared", "shared::cta")
    if d.take_type() != "b64":
        d.unsupported("an mbarrier is .b64")
    d.finish()
    d.count(1)
    address = d.shared_address(d.operands[0], space)

    def execute(lanes: Lanes) -> None:
        addresses = np.broadcast_to(address(lanes), (lanes.count,))
        for value in np.unique(addresses):
            positions = np.flatnonzero(addresses == value)
            part = lanes if len(positions) == lanes.count else subset(lanes, positions)
            _arrive_later(part, int(value) & 0xFFFFFF, increment)

    return execute


def _arrive_later(lanes: Lanes, offset: int, increment: bool) -> None:
    """Let threads arrive at an mbarrier, each when all that it has copied so far has ended."""
    cta = lanes.cta
    barrier = mbarrier.find(cta, offset, lanes)
    if increment:
        barrier.add_pending(lanes.count)
    parts = cta.part(AsyncCopies).all_of(lanes.threads)
    waiting = [copy for copy, _ in parts if not copy.work.done]
    work = AsyncWork("cp.async.mbarrier.arrive", cta, lanes.place(), _arrive(lanes, offset, parts, lambda: work))
    if not waiting:
        lanes.machine.engines.submit(work)
        return
    left = len(waiting)

    def one_less() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            lanes.machine.engines.submit(work)

    for copy in waiting:
        copy.followers.append(one_less)


def _arrive(
    lanes: Lanes, offset: int, parts: list[tuple[Copy, NDArray[np.bool_]]], work: Callable[[], AsyncWork]
) -> Generator[None]:
    cta: Cta = lanes.cta
    yield
    cta.part(AsyncCopies).show(parts)
    cta.shared.publish(writers_of(lanes))
    mbarrier.find(cta, offset, work()).arrive_each(np.ones(lanes.count, np.int64))
