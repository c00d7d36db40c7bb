"""What to say of an access of an accumulator that comes too early or too late."""

from __future__ import annotations

from xdsl.ir import Operation

from tilec.backend.simulator.clocks import Agent
from tilec.backend.simulator.cta import AsyncCta
from tilec.backend.simulator.faults import Fault
from tilec.backend.simulator.memory import Access, Accumulator, Columns
from tilec.backend.simulator.phases import loop_of
from tilec.backend.simulator.races import after_mma, describe, fence_first, other_role
from tilec.dialects.tile import FreeOp, MmaOp


def _describe(op: Operation, name: str) -> str:
    return f"this MMA's write of {name}" if isinstance(op, MmaOp) else describe(op, name)


def check_not_freed(op: Operation, accumulator: Accumulator) -> None:
    memory = accumulator.memory
    if memory.freed is not None:
        twice = isinstance(op, FreeOp)
        raise Fault(
            "freed",
            op,
            f"{memory.name} is given back twice" if twice else f"{memory.name} is used after it was given back",
            "give it back once, behind its last use, on every path",
            [(memory.freed, "given back here")],
            (memory.history,),
        )


def uninitialised(cta: AsyncCta, op: Operation, accumulator: Accumulator) -> Fault:
    notes = [(accumulator.memory.alloc, f"{accumulator.name} is allocated here")]
    if cta.launch.counters.mmas:
        why = f"no MMA has written {accumulator.name} here. Where that may be (K = 0)"
    else:
        why = (
            "no MMA ran in this launch: does the loop of the MMAs run often enough? Where it may not run at all (K = 0)"
        )
        mma = next((other for other in cta.launch.kernel.walk() if isinstance(other, MmaOp)), None)
        if mma is not None and (loop := loop_of(mma)) is not None:
            notes.insert(0, (loop, "the loop of the MMAs"))
    return Fault(
        "uninitialised",
        op,
        f"{describe(op, accumulator.name)} finds what no MMA has written",
        f"{why}, branch on whether there was an MMA, and store zeros without reading the accumulator",
        notes,
    )


_OVERWRITE = "the first MMA of an output tile overwrites: its `accumulate` flag is false"


def accumulates_onto_nothing(op: Operation, accumulator: Accumulator) -> Fault:
    return Fault(
        "uninitialised",
        op,
        f"this MMA adds to {accumulator.name}, which holds nothing yet",
        _OVERWRITE,
        [(accumulator.memory.alloc, f"{accumulator.name} is allocated here")],
    )


def accumulates_onto_last_tile(cta: AsyncCta, op: Operation, accumulator: Accumulator, columns: Columns) -> Fault:
    assert columns.mma is not None
    return Fault(
        "uninitialised",
        op,
        f"this MMA of turn {cta.turn} adds to the sums that turn {columns.turn} has left in {accumulator.name}",
        _OVERWRITE,
        [(columns.mma.op, "the last MMA of that turn")],
        (accumulator.memory.history,),
    )


def overwritten(cta: AsyncCta, op: Operation, accumulator: Accumulator, columns: Columns) -> Fault:
    """The MMAs of a later output tile have come before this read, and nothing makes them come after it."""
    assert columns.mma is not None
    name, mma = accumulator.name, cta.flow_of(columns.mma.op)
    return Fault(
        "race",
        op,
        f"an MMA of turn {columns.turn} overwrites {name} before this read of turn {cta.turn}: nothing makes {mma.name} wait "
        f"for {cta.flow.name}",
        f"let {cta.flow.name} arrive on an mbarrier behind its reads, their `tile.tmem.wait_ld` and `tile.fence "
        f"before_thread_sync`, and {mma.name} wait for that before the first MMA of a tile, with parity 1 at first",
        [(columns.mma.op, "the MMA")],
        (accumulator.memory.history,),
    )


def mma_not_done(cta: AsyncCta, op: Operation, accumulator: Accumulator, mma: Access, agent: Agent) -> Fault:
    this, that = _describe(op, accumulator.name), f"the MMA that writes {accumulator.name}"
    return after_mma(cta, op, this, that, mma, agent, accumulator.memory.history)


def read_not_done(cta: AsyncCta, op: Operation, accumulator: Accumulator, read: Access, agent: Agent) -> Fault:
    """`op` of `agent` may overtake threads that read the accumulator."""
    name = accumulator.name
    this = _describe(op, name)
    that = f"the read of {name}"
    readers, flow = [cta.agents[i] for i in read.agents], cta.flow_of(read.op)
    sync = cta.meeting(flow)
    if any(reader.loads_done < read.time for reader in readers):
        message = f"no tmem.wait_ld between {that} and {this}"
        hint = "put `tile.tmem.wait_ld` behind the read: until then it may still be running"
    elif any(reader.clock.q[reader.index] < read.time for reader in readers):
        message = f"no fence before_thread_sync between {that} and {this}"
        meets = "an arrival on the mbarrier that this role waits for" if sync is None else f"`tile.{sync}`"
        hint = (
            f"put `tile.fence before_thread_sync` behind the tmem.wait_ld, then {meets}, then "
            "`tile.fence after_thread_sync`"
        )
    elif any(agent.clock.q[reader.index] < read.time for reader in readers):
        if sync is None:
            message, hint = other_role(cta, flow, this, that, " and `tile.fence before_thread_sync`")
        else:
            message = f"no {sync} between {that} and {this}"
            hint = f"put `tile.{sync}` behind `tile.fence before_thread_sync`: other threads have read too"
    else:
        message = f"no fence after_thread_sync orders {this} after {that}"
        hint = fence_first(agent, read.at)
    return Fault("race", op, message, hint, [(read.op, that)], (accumulator.memory.history,))
