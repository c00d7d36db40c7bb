"""What to say when all roles wait or are over: who waits for what, and which of the waits is likely the wrong one."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from tilec.backend.simulator.cta import AsyncCta
from tilec.backend.simulator.faults import Fault, line_of
from tilec.backend.simulator.flow import Flow, Waiting
from tilec.backend.simulator.stuck import over_budget, state, wrong_round
from tilec.dialects.tile import ArriveExpectTxOp, ArriveOp, CommitOp
from tilec.dialects.tile.roles import role_of

_ROUND, _LATE, _SLOT, _NOBODY, _CHAIN = range(5)
"""How telling a reason is, the most telling first: the pending round itself is wrong, or long past; the first use of a slot is
waited for by those that it waits for; nobody is left who could arrive; those that could wait themselves."""


def all_wait(cta: AsyncCta, roles: Sequence[Flow]) -> Fault:
    """None of the roles can go on. All of them are named; the hint is for the wait that is likely the wrong one."""
    waiters = [(flow, flow.waiting) for flow in roles if flow.waiting is not None]
    reasons = {flow: _reason(cta, flow, waiting) for flow, waiting in waiters}
    first, waiting = min(waiters, key=lambda waiter: reasons[waiter[0]][0])
    notes: list[tuple[Operation, str]] = []
    for flow in roles:
        if flow.waiting is None:
            assert flow.role is not None
            notes.append((flow.role, f"{flow.name} is over"))
        elif flow is not first:
            notes.append((flow.waiting.op, f"{_waits(flow, flow.waiting)}: {reasons[flow][1]}"))
    others = ", and no other role can go on either" if len(waiters) > 1 else ""
    histories = [waiting.slot.history for _, waiting in waiters]
    slot = waiting.slot
    if slot.announcer is not None and slot.arrivals == slot.count:
        return over_budget(waiting.op, slot, slot.announcer, _waits(first, waiting), notes, histories)
    return Fault(
        "deadlock",
        waiting.op,
        f"this wait never ends{others}: {_waits(first, waiting)}",
        reasons[first][1],
        notes,
        histories,
    )


def _waits(flow: Flow, waiting: Waiting) -> str:
    who = f"{flow.agents[0].name} waits" if waiting.alone else f"{flow.name} waits"
    return state(who, waiting.slot, waiting.parity)


def _reason(cta: AsyncCta, flow: Flow, waiting: Waiting) -> tuple[int, str]:
    """How telling it is, and why the wait does not end."""
    slot = waiting.slot
    if (wrong := wrong_round(slot)) is not None:
        return _ROUND, wrong
    before = slot.waits[flow.agents[0].index]
    found = -1 if before is None else before.round
    wanted = found + 1 if before is not None or waiting.parity == 0 else -1
    if wanted & 1 == waiting.parity and wanted < slot.rounds:
        name = f"round {wanted}" if wanted >= 0 else "what comes before round 0"
        return _LATE, (
            f"this wait is for {name}, whose parity is already two back: round {wanted + 1} has completed since. Each round "
            "must have been waited for before the next one completes, by everyone who waits for it"
        )
    arrivals = _arrivals(waiting)
    if not arrivals:
        return _NOBODY, (
            f"nobody arrives on {slot.name}: whoever has used what it guards releases it once a round, with tile.commit "
            "behind its MMAs or with tile.mbarrier.arrive"
        )
    loads = any(isinstance(op, ArriveExpectTxOp) for op in arrivals)
    if slot.rounds == 0 and before is None and not loads and flow in _behind(cta, flow):
        return _SLOT, (
            "nothing has used this stage yet, so that nobody releases it: the first pass through a ring must not wait. Start "
            "with parity 1, which reads as complete before round 0 is, and flip it once for each round of the slot"
        )
    who = list(dict.fromkeys(_flow_of(cta, op) for op in arrivals))
    left = [other for other in who if not other.over]
    if not left:
        names = " and ".join(other.name for other in who)
        return _NOBODY, (
            f"{names}, which {'arrives' if len(who) == 1 else 'arrive'} on it, {'is' if len(who) == 1 else 'are'} over: nobody "
            "completes this round any more. All roles count the same rounds: where one skips a tile (K = 0), all do"
        )
    return _CHAIN, " and ".join(_is_doing(flow, other) for other in left)


def _arrivals(waiting: Waiting) -> list[Operation]:
    """The operations that arrive on the barrier, wherever they stand."""
    uses = [use.operation for use in waiting.slot.barrier.uses]
    return [op for op in uses if isinstance(op, ArriveExpectTxOp | ArriveOp | CommitOp)]


def _behind(cta: AsyncCta, flow: Flow) -> set[Flow]:
    """The flows that would have to go on first: those that arrive where this one waits, those that arrive where they do, ..."""
    found: set[Flow] = set()
    pending = [flow]
    while pending:
        waiting = pending.pop().waiting
        arriving = {_flow_of(cta, op) for op in _arrivals(waiting)} if waiting is not None else set[Flow]()
        pending += arriving - found
        found |= arriving
    return found


def _flow_of(cta: AsyncCta, op: Operation) -> Flow:
    role = role_of(op)
    return next(flow for flow in cta.flows if flow.role is role)


def _is_doing(flow: Flow, other: Flow) -> str:
    if other.role is None:
        return "all threads arrive on it, in front of the roles or behind them"
    assert other.waiting is not None
    who = "this role itself" if other is flow else other.name
    return f"{who}, which arrives on it, waits too, at {line_of(other.waiting.op)}"
