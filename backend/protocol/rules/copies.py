"""Copies by the TMA engine and by threads, and register tiles."""

from __future__ import annotations

from xdsl.ir import Operation

from tilec.backend.protocol.events import Slot
from tilec.backend.protocol.machine import Broken, OutOfScope
from tilec.backend.protocol.rules.barriers import initialised, is_complete
from tilec.backend.protocol.rules.context import Context, Run, broken, find_signal, find_slot
from tilec.backend.protocol.rules.order import before_threads, before_tma, check_written, happens, threads_did, write
from tilec.backend.protocol.rules.tensor_core import LOADING, READY, accumulator_load
from tilec.backend.protocol.rules.views import region_noter
from tilec.backend.protocol.state import ISSUER, OTHERS, Barrier, State
from tilec.dialects.tile import CopyAsyncOp, LoadOp, RegType, SmemType, StoreOp


def copy_async(k: Context, op: CopyAsyncOp, single: bool) -> Run:
    """Whoever moves the bytes."""
    match op.dispatch:
        case "tmem":
            return accumulator_load(k, op, single)
        case "threads":
            return copy_by_threads(k, op, single)
        case _:
            return load(k, op, single) if op.is_load else store(k, op, single)


def load(k: Context, op: CopyAsyncOp, single: bool) -> Run:
    """TMA: view to shared tile."""
    if not single:
        return broken(op, "every thread of the CTA would issue this copy")
    assert op.dest is not None and op.barrier is not None and isinstance(op.dest.type, SmemType)
    slot_of, signal_of = find_slot(k, op.dest), find_signal(k, op, op.barrier, op.stage)
    size = op.dest.type.layout.size
    region_of = region_noter(k, op, "load")

    def issue(s: State) -> None:
        slot, number = slot_of(s), signal_of(s)
        initialised(k, s, op, number, ISSUER)
        before_tma(k, s, op, slot, write=True)
        write(k, s, slot, slot.load)
        barrier = s.barriers[number]
        if barrier.arrivals == k.events.signals[number].arrivals and is_complete(k, number, barrier):
            name = k.events.signals[number].name
            raise Broken(op, f"these bytes may count in the round of {name} before, which nobody has waited for")
        s.barriers[number] = Barrier(
            barrier.parity,
            barrier.arrivals,
            barrier.announced,
            barrier.issued + size,
            barrier.riding | slot.load,
            True,
            barrier.unobserved,
        )
        region_of(s, slot.load)

    return issue


def store(k: Context, op: CopyAsyncOp, single: bool) -> Run:
    """TMA: shared tile to view."""
    if not single:
        return broken(op, "every thread of the CTA would issue this copy")
    slot_of, region_of = find_slot(k, op.source), region_noter(k, op, "open")

    def issue(s: State) -> None:
        slot = slot_of(s)
        check_written(k, s, op, slot)
        before_tma(k, s, op, slot, write=False)
        happens(k, s, slot.store)
        # The newer of two stores of one tile is read last: it stands for both.
        s.groups = tuple(tuple(event for event in group if event != slot.store) for group in s.groups)
        s.open = (*(event for event in s.open if event != slot.store), slot.store)
        region_of(s, 0)

    return issue


def copy_by_threads(k: Context, op: CopyAsyncOp, single: bool) -> Run:
    if single:
        return broken(op, "copies of dispatch threads belong to all threads of the CTA")
    assert op.dest is not None
    slot_of = find_slot(k, op.dest if op.is_load else op.source)
    region_of = region_noter(k, op, "load" if op.is_load else "threads")

    def copy(s: State) -> None:
        slot = slot_of(s)
        if op.is_load:
            thread_write(k, s, op, slot)
        else:
            thread_read(k, s, op, slot)
        region_of(s, slot.writes[OTHERS] if op.is_load else 0)

    return copy


def thread_read(k: Context, s: State, op: Operation, slot: Slot) -> None:
    check_written(k, s, op, slot)
    before_threads(k, s, op, slot, write=False)
    threads_did(k, s, slot.reads)


def thread_write(k: Context, s: State, op: Operation, slot: Slot) -> None:
    before_threads(k, s, op, slot, write=True)
    write(k, s, slot, 0)
    threads_did(k, s, slot.writes)


def tile_load(k: Context, op: LoadOp, single: bool) -> Run:
    if not isinstance(op.source.type, SmemType):
        raise OutOfScope(op, "tile.load of an accumulator is synchronous")
    if single:
        return broken(op, "tile.load belongs to all threads of the CTA")
    slot_of, at = find_slot(k, op.source), k.ids[op.res]

    def load(s: State) -> None:
        thread_read(k, s, op, slot_of(s))
        s.environment[at] = READY

    return load


def tile_store(k: Context, op: StoreOp, single: bool) -> Run:
    if single:
        return broken(op, "tile.store belongs to all threads of the CTA")
    slot_of, use = find_slot(k, op.dest), registers(k, op)

    def store(s: State) -> None:
        use(s)
        thread_write(k, s, op, slot_of(s))

    return store


def registers(k: Context, op: Operation) -> Run:
    """Computation on register tiles: their values must have arrived."""
    sources = [k.ids[value] for value in op.operands if isinstance(value.type, RegType)]
    results = [k.ids[value] for value in op.results]

    def use(s: State) -> None:
        for at in sources:
            if s.environment[at] == LOADING:
                raise Broken(op, "a register tile is used before tile.tmem.wait_ld")
        for at in results:
            s.environment[at] = READY

    return use


rules = {CopyAsyncOp: copy_async, LoadOp: tile_load, StoreOp: tile_store}
