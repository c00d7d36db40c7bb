"""MMAs, their commits, and loads from accumulators."""

from __future__ import annotations

from xdsl.ir import Operation

from tilec.backend.protocol.machine import Broken, OutOfScope
from tilec.backend.protocol.rules.barriers import arrive
from tilec.backend.protocol.rules.context import BOTH, Context, Run, broken, find_memory, find_signal, find_slot
from tilec.backend.protocol.rules.order import after_accumulator_reads, check_written, happens, need
from tilec.backend.protocol.state import ISSUER, OTHERS, Accumulator, State
from tilec.backend.protocol.values import Linear
from tilec.dialects.tile import CommitOp, CopyAsyncOp, MmaOp, SliceOp, WaitLdOp

READY, LOADING = 0, 1
"""A register tile may be used, or waits for `tmem.wait_ld`."""


def mma(k: Context, op: MmaOp, single: bool) -> Run:
    if single:
        return broken(op, "an MMA belongs to all threads of its role")
    if op.accumulate is None:
        raise OutOfScope(op, "tile.mma without `accumulate` is synchronous")
    if isinstance(op.acc.owner, SliceOp):
        raise OutOfScope(op, "an MMA on a part of an accumulator")
    number, memory = find_memory(k, op, op.acc)
    operands, flag = (find_slot(k, op.a), find_slot(k, op.b)), k.ids[op.accumulate]
    counter = _turn_counter(k, op)

    def multiply(s: State) -> None:
        for find in operands:
            slot = find(s)
            check_written(k, s, op, slot)
            for agent in BOTH:
                snapshot = s.snapshots[agent]
                need(k, s, op, slot.load, snapshot, "a wait with a fence after_thread_sync behind it is missing")
                by_threads = slot.writes[ISSUER] | slot.writes[OTHERS]
                need(k, s, op, by_threads, snapshot >> k.events.width, "a proxy fence or a cta_sync is missing")
        after_accumulator_reads(k, s, op, memory, BOTH)
        accumulator = s.accumulators[number]
        accumulate = s.environment[flag]
        tile = 0 if counter is None else Linear(counter, 0, 1)
        if accumulator.status not in ("allocated", "written"):
            raise Broken(op, f"{memory.name} is not allocated here")
        if not isinstance(accumulate, int):
            raise OutOfScope(op, "whether this MMA accumulates is not known")
        if accumulate and accumulator.status != "written":
            raise Broken(op, f"this adds to {memory.name}, which nothing has written")
        if accumulate and accumulator.tile != tile:
            raise Broken(op, f"this adds to the sums in {memory.name} of the tile before")
        for find in operands:
            happens(k, s, find(s).mma)
        happens(k, s, memory.mma)
        s.forget(memory.reads[0] | memory.reads[1], k.events.everywhere(memory.reads[0] | memory.reads[1]))
        s.accumulators[number] = Accumulator("written", tile)

    return multiply


def _turn_counter(k: Context, op: Operation) -> int | None:
    above = op.parent_op()
    while above is not None:
        if above in k.turn_counters:
            return k.turn_counters[above]
        above = above.parent_op()
    return None


def accumulator_load(k: Context, op: CopyAsyncOp, single: bool) -> Run:
    if single:
        return broken(op, "a copy of dispatch tmem belongs to all threads of the CTA")
    assert op.res is not None
    number, memory = find_memory(k, op, op.source)
    at = k.ids[op.res]

    def load(s: State) -> None:
        if s.accumulators[number].status != "written":
            raise Broken(op, f"{memory.name} is read, but no MMA has written it")
        for agent in BOTH:
            edge = "a wait for its commit with a fence after_thread_sync behind it is missing"
            need(k, s, op, memory.mma, s.snapshots[agent], edge)
        happens(k, s, memory.reads[ISSUER] | memory.reads[OTHERS])
        s.environment[at] = LOADING
        s.pending_loads = (*s.pending_loads, at)

    return load


def wait_ld(k: Context, op: WaitLdOp, single: bool) -> Run:
    if single:
        return broken(op, "tile.tmem.wait_ld belongs to all threads of the CTA")
    reads = k.events.accumulator_reads

    def wait(s: State) -> None:
        for at in s.pending_loads:
            s.environment[at] = READY
        s.pending_loads = ()
        for agent in BOTH:
            s.known[agent] |= s.present & reads[agent]

    return wait


def commit(k: Context, op: CommitOp, single: bool) -> Run:
    if single:
        return broken(op, "a commit belongs to all threads of its role")
    signal_of, most = find_signal(k, op, op.barrier, op.stage), k.most_outstanding

    def run(s: State) -> None:
        released = s.present & k.events.tensor_core | s.known[ISSUER] & k.events.waits
        number = signal_of(s)
        arrive(k, s, op, number, released, 0, carries=True)
        if most:
            s.later_commits = [min(count + 1, most) for count in s.later_commits]
            s.later_commits[number] = 0

    return run


rules = {MmaOp: mma, WaitLdOp: wait_ld, CommitOp: commit}
