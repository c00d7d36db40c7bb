"""What to say of an access that is not ordered: which edge is missing, and how to add it."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from tilec.backend.simulator.barriers import Slot, Wait
from tilec.backend.simulator.clocks import Agent
from tilec.backend.simulator.cta import AsyncCta
from tilec.backend.simulator.faults import Fault, line_of
from tilec.backend.simulator.history import History
from tilec.backend.simulator.memory import Access, Accumulator, Columns, SharedTile
from tilec.dialects.tile import CopyAsyncOp, FreeOp, LoadOp, MmaOp

Notes = Sequence[tuple[Operation, str]]

_AFTER_HINT = (
    "put `tile.fence after_thread_sync` between that and this operation: tensor-core operations are ordered after what "
    "the threads know at their last such fence, and after nothing else"
)


def describe(op: Operation, name: str) -> str:
    """What an operation does to storage called `name`."""
    match op:
        case MmaOp():
            return f"this MMA's read of {name}"
        case CopyAsyncOp(dispatch="tma", is_load=True):
            return f"this TMA load into {name}"
        case CopyAsyncOp(dispatch="tma"):
            return f"this TMA store's read of {name}"
        case CopyAsyncOp(dispatch="threads", is_load=True):
            return f"this copy into {name}"
        case CopyAsyncOp() | LoadOp():
            return f"this read of {name}"
        case FreeOp():
            return f"giving back {name}"
        case _:
            return f"this write of {name}"


def _earlier(access: Access, name: str) -> str:
    match access.kind:
        case "load":
            return f"the TMA load into {name}"
        case "mma":
            return f"the MMA that reads {name}"
        case "store":
            return f"the TMA store that reads {name}"
        case "threads":
            return f"the threads' {'write' if access.writes else 'read'} of {name}"


def race(cta: AsyncCta, op: Operation, tile: SharedTile, earlier: Access, agent: Agent) -> Fault:
    """`op` of `agent` is not ordered after an earlier access of the shared tile."""
    this, that = describe(op, tile.name), _earlier(earlier, tile.name)
    match earlier.kind:
        case "load":
            assert earlier.slot is not None
            slot, round = earlier.slot, earlier.time - 1
            message, hint, notes = _no_wait(cta, this, that, earlier, agent, slot.component, slot)
            if hint is None:
                hint, more = _wait_for(cta, slot, round, earlier)
                notes = [*more, *notes]
            notes = [(earlier.op, f"{that}, whose bytes count in round {round} of {slot.name}"), *notes]
            return Fault("race", op, message, hint, notes, (tile.history, slot.history))
        case "mma":
            return _after_mma(cta, op, this, that, earlier, agent, tile.history)
        case "store":
            message, hint = _after_store(cta, this, that, earlier)
            return Fault("race", op, message, hint, [(earlier.op, that)], (tile.history,))
        case "threads":
            message, hint = _after_threads(cta, op, this, that, earlier, agent)
            return Fault("race", op, message, hint, [(earlier.op, that)], (tile.history,))


def _no_wait(
    cta: AsyncCta, this: str, that: str, earlier: Access, agent: Agent, component: int, slot: Slot | None
) -> tuple[str, str | None, Notes]:
    """Message, hint and notes where an engine's work has not been waited for. No hint: nobody has."""
    waits = [] if slot is None else [(wait.op, "the wait") for wait in slot.waits if wait is not None]
    if agent.clock.g[component] >= earlier.time:
        return f"no fence after_thread_sync orders {this} after the wait for {that}", _AFTER_HINT, waits
    who = next((other for other in cta.agents if other.clock.g[component] >= earlier.time), None)
    if who is not None:
        return (
            f"{who.name} alone has waited for {that}: nothing orders {this} after it",
            "wait outside of tile.single_thread, or put `tile.cta_sync` behind the wait",
            waits,
        )
    return f"no wait orders {this} after {that}", None, ()


def _wait_for(cta: AsyncCta, slot: Slot, round: int, earlier: Access) -> tuple[str, Notes]:
    """What to do about a round that nobody has waited for; a wait that an older round let pass is the reason."""
    waits = [wait for wait in slot.waits if wait is not None and wait.time > earlier.at and wait.round < round]
    if waits:
        stale = max(waits, key=_wait_time)
        found = (
            f"found round {stale.round} complete, not round {round}" if stale.round >= 0 else "came before all rounds"
        )
        return stale_phase(stale), [(stale.op, f"this wait {found}")]
    return (
        f"wait for round {round} of {slot.name} first: `tile.mbarrier.try_wait` with parity {round & 1}",
        (),
    )


def _wait_time(wait: Wait) -> int:
    return wait.time


def stale_phase(wait: Wait) -> str:
    """The parity rule, at a wait that an older round than the one meant has let pass."""
    satisfied = (
        f"round {wait.round} had already satisfied" if wait.round >= 0 else "reads as complete before round 0 is"
    )
    return (
        f"the wait at {line_of(wait.op)} asked for parity {wait.parity}, which {satisfied}; a barrier keeps its parity "
        "for the life of the kernel, and round r is waited for with parity r & 1: flip the phase once for each round of its "
        "slot, and carry it from tile to tile (resetting it is right only if every barrier completes an even number of "
        "rounds per tile)"
    )


def _after_mma(
    cta: AsyncCta, op: Operation, this: str, that: str, earlier: Access, agent: Agent, history: History
) -> Fault:
    commit = next((commit for commit in cta.recent_commits if commit.mmas >= earlier.time), None)
    core = cta.launch.components.tensor_core
    message, hint, notes = _no_wait(cta, this, that, earlier, agent, core, None if commit is None else commit.slot)
    lines = [(earlier.op, that)]
    trace = [history]
    if commit is not None:
        lines.append((commit.op, f"its commit, which arrives in round {commit.round} of {commit.slot.name}"))
        trace.append(commit.slot.history)
    if hint is None:
        if commit is None:
            hint = "no tile.commit follows that MMA: commit it to an mbarrier and wait for that, its only completion"
        else:
            hint, more = _wait_for(cta, commit.slot, commit.round, earlier)
            notes = [*more, *notes]
    return Fault("race", op, message, hint, [*lines, *notes], trace)


def _after_store(cta: AsyncCta, this: str, that: str, earlier: Access) -> tuple[str, str]:
    bulk, known = cta.bulk, cta.issuer.clock.g[cta.launch.components.bulk_read]
    if earlier.time > bulk.committed:
        return (
            f"{that} has not been waited for: nothing orders {this} after it",
            "no tile.bulk.commit_group follows that store, so that no wait_group covers it: commit it, then wait",
        )
    if known >= earlier.time:
        return (
            f"no cta_sync between the wait_group for {that} and {this}",
            "put `tile.cta_sync` behind the wait_group: the issuing thread alone knows that the tile has been read",
        )
    return (
        f"{that} has not been waited for: nothing orders {this} after it",
        f"the issuing thread waits first, `tile.bulk.wait_group {bulk.committed - earlier.time} read` or fewer pending, "
        "then `tile.cta_sync` tells the other threads",
    )


def _after_threads(
    cta: AsyncCta, op: Operation, this: str, that: str, earlier: Access, agent: Agent
) -> tuple[str, str]:
    """Which of the steps from an access by threads to `op` is missing."""
    met = all(agent.clock.g[i] >= earlier.time or i == agent.index for i in earlier.agents)
    if not isinstance(op, MmaOp) and not (isinstance(op, CopyAsyncOp) and op.dispatch == "tma"):
        return f"no cta_sync between {that} and {this}", "put `tile.cta_sync` between the two"
    if all(agent.clock.p[i] >= earlier.time for i in earlier.agents):
        return f"no fence after_thread_sync orders {this} after {that}", _AFTER_HINT
    fenced = all(cta.agents[i].clock.p[i] >= earlier.time for i in earlier.agents)
    if fenced and met:
        return (
            f"the fence proxy_async between {that} and {this} stands behind the barrier of the threads",
            "put `tile.fence proxy_async` in front of `tile.cta_sync`: each thread makes its own accesses visible to the "
            "async proxy, then they meet",
        )
    if fenced:
        return (
            f"no cta_sync between {that} and {this}",
            "put `tile.cta_sync` behind `tile.fence proxy_async`: one thread issues for all",
        )
    if any(cta.agents[i].clock.p[i] >= earlier.time for i in earlier.agents):
        return (
            f"only one thread has executed fence proxy_async between {that} and {this}",
            "move `tile.fence proxy_async` out of tile.single_thread: every thread makes its own accesses visible",
        )
    where = "between that and the `tile.cta_sync` behind it" if met else "and then `tile.cta_sync` behind that"
    return (
        f"no fence proxy_async orders {this} after {that}",
        f"put `tile.fence proxy_async` {where}: TMA and MMAs go through another proxy than the threads' loads and stores",
    )


def uninitialised(op: Operation, tile: SharedTile) -> Fault:
    return Fault(
        "uninitialised",
        op,
        f"{describe(op, tile.name)} finds what nothing has written",
        "fill it first: with a copy and its wait, or with tile.store",
        [(tile.alloc, f"{tile.name} is allocated here")],
    )


# Accumulators


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


def accumulator_uninitialised(op: Operation, accumulator: Accumulator) -> Fault:
    return Fault(
        "uninitialised",
        op,
        f"{describe(op, accumulator.name)} finds what no MMA has written",
        "a tile with no MMA (K = 0) stores zeros without reading the accumulator: branch on whether there was one",
        [(accumulator.memory.alloc, f"{accumulator.name} is allocated here")],
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


def mma_not_done(cta: AsyncCta, op: Operation, accumulator: Accumulator, mma: Access, agent: Agent) -> Fault:
    this, that = describe(op, accumulator.name), f"the MMA that writes {accumulator.name}"
    return _after_mma(cta, op, this, that, mma, agent, accumulator.memory.history)


def read_not_done(cta: AsyncCta, op: Operation, accumulator: Accumulator, read: Access, agent: Agent) -> Fault:
    """`op` of `agent` may overtake threads that read the accumulator."""
    name = accumulator.name
    this = f"this MMA's write of {name}" if isinstance(op, MmaOp) else describe(op, name)
    that = f"the read of {name}"
    readers = [cta.agents[i] for i in read.agents]
    if any(reader.loads_done < read.time for reader in readers):
        message = f"no tmem.wait_ld between {that} and {this}"
        hint = "put `tile.tmem.wait_ld` behind the read: until then it may still be running"
    elif any(reader.clock.q[reader.index] < read.time for reader in readers):
        message = f"no fence before_thread_sync between {that} and {this}"
        hint = (
            "put `tile.fence before_thread_sync` behind the tmem.wait_ld, then `tile.cta_sync`, then "
            "`tile.fence after_thread_sync`"
        )
    elif any(agent.clock.q[reader.index] < read.time for reader in readers):
        message = f"no cta_sync between {that} and {this}"
        hint = "put `tile.cta_sync` behind `tile.fence before_thread_sync`: other threads have read too"
    else:
        message = f"no fence after_thread_sync orders {this} after {that}"
        hint = _AFTER_HINT
    return Fault("race", op, message, hint, [(read.op, that)], (accumulator.memory.history,))
