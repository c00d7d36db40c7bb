"""Allocation, stages of rings, and giving accumulators back."""

from __future__ import annotations

from tilec.backend.protocol.machine import Broken, OutOfScope
from tilec.backend.protocol.rules.context import Context, Run, broken, find_memory, find_stage
from tilec.backend.protocol.rules.order import after_accumulator_reads
from tilec.backend.protocol.state import ISSUER, Accumulator, State
from tilec.dialects.tile import AccType, AllocOp, FreeOp, RingType, SlotOp


def alloc(k: Context, op: AllocOp, single: bool) -> Run:
    del single
    at, first = k.ids[op.res], k.events.first[op.res]
    if isinstance(op.res.type, AccType):

        def allocate(s: State) -> None:
            if s.accumulators[first].status not in ("none", "freed"):
                raise Broken(op, "this accumulator is allocated again before it was freed")
            s.accumulators[first] = Accumulator("allocated")

        return allocate

    def place(s: State) -> None:
        s.environment[at] = first

    return place


def slot_of(k: Context, op: SlotOp, single: bool) -> Run:
    del single
    if not isinstance(op.ring.owner, AllocOp):
        raise OutOfScope(op, "a ring that is not the result of tile.alloc")
    at, first = k.ids[op.res], k.events.first[op.ring]
    ring = op.ring.type
    assert isinstance(ring, RingType)
    number = find_stage(k, op, op.stage, ring.depth)

    def choose(s: State) -> None:
        s.environment[at] = first + number(s)

    return choose


def free(k: Context, op: FreeOp, single: bool) -> Run:
    if single:
        return broken(op, "tile.free belongs to all threads of the CTA")
    number, memory = find_memory(k, op, op.acc)

    def give_back(s: State) -> None:
        accumulator = s.accumulators[number]
        if accumulator.status not in ("allocated", "written"):
            raise Broken(op, f"{memory.name} is freed twice, or before it was allocated")
        after_accumulator_reads(k, s, op, memory, (ISSUER,))
        if s.present & memory.mma & ~s.snapshots[ISSUER]:
            raise Broken(op, f"{memory.name} is freed before its last MMA was waited for")
        s.accumulators[number] = Accumulator("freed")

    return give_back


rules = {AllocOp: alloc, SlotOp: slot_of, FreeOp: free}
