"""What to say of an access that is not ordered: which edge is missing, and how to add it."""

from __future__ import annotations

from xdsl.ir import Operation

from tilec.backend.simulator.barriers import Slot
from tilec.backend.simulator.clocks import Agent
from tilec.backend.simulator.cta import AsyncCta
from tilec.backend.simulator.faults import Fault, line_of
from tilec.backend.simulator.flow import Flow
from tilec.backend.simulator.history import History
from tilec.backend.simulator.memory import Access, SharedTile
from tilec.backend.simulator.phases import Notes, found, latest, own_waits, wait_for, wrong_parity
from tilec.dialects.tile import CopyAsyncOp, CtaSyncOp, FenceOp, FreeOp, LoadOp, MmaOp, RoleSyncOp

AFTER_HINT = (
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
            message, hint, notes = _no_wait(cta, this, that, earlier, agent, slot)
            if hint is None:
                again = isinstance(op, CopyAsyncOp) and op.is_load and cta.flow.role is not None
                counts = f"the load into {tile.name} counts in"
                hint, more = (
                    _refilled(cta, tile, earlier)
                    if again
                    else wait_for(cta, op, slot, round, earlier, earlier.op, counts)
                )
                notes = [*more, *notes]
            notes = [(earlier.op, f"{that}, whose bytes count in round {round} of {slot.name}"), *notes]
            return Fault("race", op, message, hint, notes, (tile.history, slot.history))
        case "mma":
            return after_mma(cta, op, this, that, earlier, agent, tile.history)
        case "store":
            message, hint = _after_store(cta, this, that, earlier)
            return Fault("race", op, message, hint, [(earlier.op, that)], (tile.history,))
        case "threads":
            message, hint = _after_threads(cta, op, this, that, earlier, agent)
            return Fault("race", op, message, hint, [(earlier.op, that)], (tile.history,))


def _no_wait(
    cta: AsyncCta, this: str, that: str, earlier: Access, agent: Agent, slot: Slot | None
) -> tuple[str, str | None, Notes]:
    """Message, hint and notes where an engine's work has not been waited for. No hint: nobody has."""
    waits = [] if slot is None else [(wait.op, "the wait") for wait in own_waits(cta, slot)]
    component = earlier.component
    if agent.clock.g[component] >= earlier.time:
        return (
            f"no fence after_thread_sync orders {this} after the wait for {that}",
            fence_first(agent, earlier.at, waits),
            waits,
        )
    who = next((other for other in cta.flow.threads if other.clock.g[component] >= earlier.time), None)
    if who is not None and who not in cta.flow.agents:
        return (
            f"{who.name} has waited for {that}, but nothing orders {this} after it",
            "put `tile.cta_sync` behind tile.roles, whose end does not bring the threads together",
            waits,
        )
    if who is not None:
        return (
            f"{who.name} alone has waited for {that}: nothing orders {this} after it",
            f"wait outside of tile.single_thread, or put `tile.{cta.flow.sync}` behind the wait",
            waits,
        )
    return f"no wait orders {this} after {that}", None, ()


def _refilled(cta: AsyncCta, tile: SharedTile, earlier: Access) -> tuple[str, Notes]:
    """What to do about a role that fills a tile again before another one has read it."""
    waits = [wait for slot in cta.slots for wait in own_waits(cta, slot) if wait.again and wait.time > earlier.at]
    if waits:
        stale = latest(waits)
        return wrong_parity(cta, stale), [(stale.op, f"this wait found {found(stale)}, as one before it did")]
    return (
        f"wait until {tile.name} has been read: its readers commit or arrive on an mbarrier of their own (`empty`), and this "
        "role waits for that before it fills the tile again",
        (),
    )


def fence_first(agent: Agent, since: int, waits: Notes = ()) -> str:
    """What to do about a missing `fence after_thread_sync`: it may stand right in front of what it has to come after."""
    fence = agent.fence_op
    if fence is None or agent.synced < since:
        return AFTER_HINT
    barrier = fence.next_op
    while isinstance(barrier, FenceOp):
        barrier = barrier.next_op
    if isinstance(barrier, CtaSyncOp | RoleSyncOp):
        what = f"the {barrier.name.removeprefix('tile.')}"
    elif any(barrier is wait for wait, _ in waits):
        what = "the wait"
    else:
        return AFTER_HINT
    assert barrier is not None
    return (
        f"the fence at {line_of(fence)} stands in front of {what} at {line_of(barrier)}; put it behind: tensor-core operations "
        "are ordered after what the threads know at their last such fence, and after nothing else"
    )


def after_mma(
    cta: AsyncCta, op: Operation, this: str, that: str, earlier: Access, agent: Agent, history: History
) -> Fault:
    commit = cta.commit_of(earlier)
    message, hint, notes = _no_wait(cta, this, that, earlier, agent, None if commit is None else commit.slot)
    lines = [(earlier.op, that)]
    trace = [history]
    if commit is not None:
        lines.append((commit.op, f"its commit, which arrives in round {commit.round} of {commit.slot.name}"))
        trace.append(commit.slot.history)
    if hint is None:
        core = cta.flow_of(earlier.op)
        if core is not cta.flow and (commit is None or not cta.waits_for(commit.slot)):
            hint, more = _commit_for(cta, core)
            notes = [*more, *notes]
        elif commit is None:
            hint = "no tile.commit follows that MMA: commit it to an mbarrier and wait for that, its only completion"
        else:
            counts = f"the commit at {line_of(commit.op)} arrives in"
            hint, more = wait_for(cta, op, commit.slot, commit.round, earlier, commit.op, counts)
            notes = [*more, *notes]
    return Fault("race", op, message, hint, [*lines, *notes], trace)


def _commit_for(cta: AsyncCta, core: Flow) -> tuple[str, Notes]:
    """What to do about MMAs of another role whose commits this flow does not wait for, or has not waited for yet."""
    slots = (slot for slot in cta.slots if core.role in slot.committers)
    waits = [wait for slot in slots for wait in own_waits(cta, slot)]
    if waits:
        last = latest(waits)
        return wrong_parity(cta, last), [(last.op, f"this wait found {found(last)}")]
    return (
        f"let {core.name} commit to an mbarrier of its own behind the MMAs that matter here, and {cta.flow.name} wait for that",
        (),
    )


def _after_store(cta: AsyncCta, this: str, that: str, earlier: Access) -> tuple[str, str]:
    flow = cta.flow_of(earlier.op)
    bulk, known = flow.bulk, flow.agents[0].clock.g[flow.bulk_read]
    if earlier.time == bulk.open:
        return (
            f"{that} has not been waited for: nothing orders {this} after it",
            "no tile.bulk.commit_group follows that store, so that no wait_group covers it: commit it, then wait",
        )
    if known >= earlier.time:
        if (sync := cta.meeting(flow)) is None:
            return other_role(cta, flow, this, f"the wait_group for {that}")
        return (
            f"no {sync} between the wait_group for {that} and {this}",
            f"put `tile.{sync}` behind the wait_group: the issuing thread alone knows that the tile has been read",
        )
    return (
        f"{that} has not been waited for: nothing orders {this} after it",
        f"the issuing thread waits first, `tile.bulk.wait_group {bulk.after(earlier.time)} read` or fewer pending, "
        f"then `tile.{flow.sync}` tells the other threads",
    )


def other_role(cta: AsyncCta, flow: Flow, this: str, that: str, fence: str = "") -> tuple[str, str]:
    """Between two roles an mbarrier is missing; `fence` stands in front of the arrival."""
    return (
        f"nothing orders {this}, by {cta.flow.name}, after {that}, by {flow.name}",
        f"let {flow.name} arrive on an mbarrier behind it{fence} (`tile.mbarrier.arrive`), and {cta.flow.name} wait for that "
        "round here",
    )


def _after_threads(
    cta: AsyncCta, op: Operation, this: str, that: str, earlier: Access, agent: Agent
) -> tuple[str, str]:
    """Which of the steps from an access by threads to `op` is missing."""
    met = all(agent.clock.g[i] >= earlier.time or i == agent.index for i in earlier.agents)
    flow = cta.flow_of(earlier.op)
    sync = cta.meeting(flow)
    by_engine = isinstance(op, MmaOp) or (isinstance(op, CopyAsyncOp) and op.dispatch == "tma")
    if sync is None:
        if not met:
            fence = " and `tile.fence proxy_async`" if by_engine else ""
            return other_role(cta, flow, this, that, fence)
        sync = "mbarrier.arrive"
    if not by_engine:
        return f"no {sync} between {that} and {this}", f"put `tile.{sync}` between the two"
    if all(agent.clock.p[i] >= earlier.time for i in earlier.agents):
        return f"no fence after_thread_sync orders {this} after {that}", fence_first(agent, earlier.at)
    fenced = all(cta.agents[i].clock.p[i] >= earlier.time for i in earlier.agents)
    if fenced and met:
        return (
            f"the fence proxy_async between {that} and {this} stands behind the barrier of the threads",
            f"put `tile.fence proxy_async` in front of `tile.{sync}`: each thread makes its own accesses visible to the "
            "async proxy, then they meet",
        )
    if fenced:
        return (
            f"no {sync} between {that} and {this}",
            f"put `tile.{sync}` behind `tile.fence proxy_async`: one thread issues for all",
        )
    if any(cta.agents[i].clock.p[i] >= earlier.time for i in earlier.agents):
        return (
            f"only one thread has executed fence proxy_async between {that} and {this}",
            "move `tile.fence proxy_async` out of tile.single_thread: every thread makes its own accesses visible",
        )
    where = f"between that and the `tile.{sync}` behind it" if met else f"and then `tile.{sync}` behind that"
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
