"""What to say of a wait that asks for the wrong parity, and of one that is missing."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import scf
from xdsl.ir import Operation

from tilec.backend.simulator.barriers import Slot, Wait
from tilec.backend.simulator.cta import AsyncCta
from tilec.backend.simulator.faults import line_of
from tilec.backend.simulator.memory import Access
from tilec.diagnostics import location_of

Notes = Sequence[tuple[Operation, str]]


def own_waits(cta: AsyncCta, slot: Slot) -> list[Wait]:
    """Of the threads that go on now."""
    return [wait for agent in cta.flow.threads if (wait := slot.waits[agent.index]) is not None]


def latest(waits: Sequence[Wait]) -> Wait:
    return max(waits, key=_time)


def _time(wait: Wait) -> int:
    return wait.time


def found(wait: Wait) -> str:
    return f"round {wait.round} complete" if wait.round >= 0 else "no round complete yet"


def wrong_parity(cta: AsyncCta, wait: Wait, meant: str | None = None) -> str:
    """What a wait asked for, that an older round than the one meant has let pass; without `meant`, the next one is."""
    satisfied = f"round {wait.round} satisfied" if wait.round >= 0 else "is satisfied before round 0 completes"
    if meant is None:
        meant = f"round {wait.round + 1}, parity {wait.round + 1 & 1}, comes next"
    carry = "; carry the phase from tile to tile" if any(flow.turn > 0 for flow in cta.flows) else ""
    return (
        f"the wait at {line_of(wait.op)} asks for parity {wait.parity}, which {satisfied}; {meant}: round r is waited for with "
        f"parity r & 1, counted over the life of the kernel{carry}"
    )


def wait_for(
    cta: AsyncCta, op: Operation, slot: Slot, round: int, earlier: Access, arrival: Operation, counts: str
) -> tuple[str, Notes]:
    """What to do about a round that `op` does not come after; a wait that an older round let pass is the reason.

    `counts` says what of the round is concerned, up to its number; `arrival` is the operation behind which to wait for it.
    """
    waits = [wait for wait in own_waits(cta, slot) if wait.time > earlier.at and wait.round < round]
    if not waits:
        return _missing(op, slot, round, arrival), ()
    stale = latest(waits)
    came = f"found {found(stale)}, not round {round}" if stale.round >= 0 else "came before all rounds"
    return wrong_parity(cta, stale, f"{counts} round {round}, parity {round & 1}"), [(stale.op, f"this wait {came}")]


def _missing(op: Operation, slot: Slot, round: int, arrival: Operation) -> str:
    if loop_of(op) is None and loop_of(arrival) is None:
        return f"wait for round {round} of {slot.name} first: `tile.mbarrier.try_wait` with parity {round & 1}"
    return (
        f"wait for {slot.name} {_between(arrival, op)}: `tile.mbarrier.try_wait` with a phase that flips once for each round of "
        "its slot"
    )


def loop_of(op: Operation) -> Operation | None:
    """The innermost loop around an operation."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, scf.ForOp | scf.WhileOp):
        parent = parent.parent_op()
    return parent


def _between(first: Operation, last: Operation) -> str:
    """Where something is missing; what comes later may stand further up, in the next trip of a loop."""
    one, other = location_of(first), location_of(last)
    if one is None or other is None or one.line == other.line:
        return "between that and this operation"
    if one.line < other.line:
        return f"between lines {one.line} and {other.line}"
    return f"behind line {one.line}, before the loop comes to line {other.line} again"
