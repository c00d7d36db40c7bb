"""What to say of a wait that never ends, and of rounds that go wrong."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from tilec.backend.reference.cta import name_of
from tilec.backend.simulator.barriers import Slot
from tilec.backend.simulator.clocks import Agent
from tilec.backend.simulator.cta import AsyncCta
from tilec.backend.simulator.faults import Fault, line_of, plural
from tilec.backend.simulator.flow import Flow
from tilec.backend.simulator.history import History
from tilec.backend.simulator.phases import Notes, wrong_parity
from tilec.dialects.tile import CommitOp, CopyAsyncOp, TryWaitOp

REPORT_UNIT = 128
"""Bytes: the TMA engine reports in multiples of it (measured)."""
_SHOWN = 4
"""Steps of a barrier's history that the rendered message shows."""


def deadlock(cta: AsyncCta, op: TryWaitOp, slot: Slot, parity: int) -> Fault:
    """The pending round, for which `op` waits, cannot complete: one control flow waits, so nobody else can help."""
    if slot.announcer is not None and slot.arrivals == slot.count:
        return over_budget(op, slot, slot.announcer, f"the wait for parity {parity}")
    hint, notes = _why(cta, op, slot)
    steps = [(entry[1], entry[2]) for entry in list(slot.history)[-1 - _SHOWN : -1]]
    message = f"this wait for parity {parity} never ends: round {slot.rounds} of {slot.name} {_progress(slot)}"
    return Fault("deadlock", op, message, hint, [*notes, *steps], (slot.history,))


def over_budget(
    wait: Operation, slot: Slot, announcer: Operation, waits: str, notes: Notes = (), histories: Sequence[History] = ()
) -> Fault:
    """All have arrived, and the copies bring other bytes than were announced."""
    short = slot.issued - slot.announced
    early = "passes too early or " if short > 0 and short % REPORT_UNIT == 0 else ""
    brings = f"its copies bring {slot.issued}" if slot.issued else "no copy signals it"
    loads = [(op, text) for _, op, text in list(slot.history)[-1 - _SHOWN :] if isinstance(op, CopyAsyncOp)]
    return Fault(
        "deadlock",
        announcer,
        f"{slot.name} announces {slot.announced} bytes, but {brings}: the wait at {line_of(wait)} {early}never ends",
        _budget(slot),
        [*loads, (wait, waits), *notes],
        histories or (slot.history,),
    )


def state(who: str, slot: Slot, parity: int) -> str:
    return f"{who} for parity {parity} of {slot.name}, whose round {slot.rounds} {_progress(slot)}"


def _progress(slot: Slot) -> str:
    bytes = f" and {slot.issued} of {slot.announced} announced bytes" if slot.issued or slot.announced else ""
    return f"has {slot.arrivals} of {slot.count} arrivals{bytes}"


def _why(cta: AsyncCta, op: TryWaitOp, slot: Slot) -> tuple[str, Notes]:
    reason = wrong_round(slot)
    if reason is not None:
        return reason, ()
    barrier, mma = name_of(slot.barrier), cta.flow.last_mma
    commits = any(isinstance(use.operation, CommitOp) for use in slot.barrier.uses)
    if mma is not None and not commits and cta.commit_of(mma) is None:
        named = barrier if op.stage is None else f"{barrier}[{name_of(op.stage)}]"
        return (
            f"no tile.commit names {barrier}: put `tile.commit {named}` behind the MMA at {line_of(mma.op)}",
            [(mma.op, "the MMA, which nothing commits")],
        )
    if slot.rounds == 0:
        return (
            f"nobody arrives on round 0 of {slot.name} before this wait: the copies, or the commit, that complete it come "
            "first",
            (),
        )
    return (
        f"round {slot.rounds - 1}, the last that completed, has been waited for already, and nobody arrives on round "
        f"{slot.rounds}: either nobody refills this stage any more, or this phase was flipped too early (a phase flips once "
        "for each round of its slot)",
        (),
    )


def wrong_round(slot: Slot) -> str | None:
    """What is wrong with the pending round itself, if something of it has happened."""
    if slot.issued and slot.announcer is None:
        return (
            f"copies of {slot.issued} bytes signal this round, but nobody has announced them: "
            "`tile.mbarrier.arrive.expect_tx` comes with them, once a round"
        )
    if slot.arrivals == slot.count:
        return _budget(slot)
    if slot.arrivals:
        return (
            f"{plural(slot.count - slot.arrivals, 'more arrival')} {'is' if slot.count - slot.arrivals == 1 else 'are'} "
            f"missing: each round takes {slot.count}, one for a commit and one for each role that arrives"
        )
    return None


def _budget(slot: Slot) -> str:
    if not slot.issued:
        return f"let the copies of the round signal {slot.name}, or announce nothing"
    excess = slot.announced - slot.issued
    announce = f"announce {slot.issued} bytes, what the copies of the round bring (a box over the edge counts in full)"
    if excess > 0:
        return f"the byte budget is too large by {excess} bytes: {announce}"
    if -excess % REPORT_UNIT == 0:
        why = (
            "The engine reports in pieces: the wait passes before the tiles are there where a report ends at exactly that sum, "
            "and hangs elsewhere; left-over bytes count against the next round"
        )
    else:
        why = "The count runs through zero without stopping on it"
    return f"the byte budget is too small by {-excess} bytes: {announce}. {why}"


def arrival_too_many(op: Operation, slot: Slot) -> Fault:
    return Fault(
        "arrivals",
        op,
        f"an arrival too many: round {slot.rounds} of {slot.name} has {slot.arrivals} of {slot.count} arrivals "
        f"and {slot.issued} of {slot.announced} announced bytes",
        f"let {slot.count} arrive in each round, or give tile.mbarrier.init another count",
        [(slot.init[1], f"{slot.name} takes {plural(slot.count, 'arrival')} a round")],
        (slot.history,),
    )


def round_not_over(op: Operation, slot: Slot) -> Fault:
    """An arrival that is meant for the next round, while nobody knows that this one is complete."""
    return Fault(
        "rounds",
        op,
        f"this arrival may come before round {slot.rounds} of {slot.name} is complete: its {slot.brings} may still be on "
        "their way, and nobody has waited for them",
        f"wait for round {slot.rounds}, parity {slot.rounds & 1}, before the next one begins",
        [(entry[1], entry[2]) for entry in list(slot.history)[-_SHOWN:]],
        (slot.history,),
    )


def missed_round(cta: AsyncCta, op: Operation, slot: Slot, agent: int) -> Fault:
    """Round `slot.rounds` completes, but the one before it has not surely been seen."""
    last = slot.rounds - 1
    if agent < 0:
        return Fault(
            "rounds",
            op,
            f"round {slot.rounds} of {slot.name} completes, and nobody has waited for round {last}, which completed "
            f"{slot.brought}",
            "wait for each round before the next one begins: a parity wait cannot tell a round from the one two later",
            [(entry[1], entry[2]) for entry in list(slot.history)[-_SHOWN:]],
            (slot.history,),
        )
    flow = cta.flows[agent // 2]
    if slot.blocked.get(agent) == last:
        assert flow.waiting is not None
        return Fault(
            "rounds",
            op,
            f"round {slot.rounds} of {slot.name} completes while {flow.name} may still be waiting for round {last}: two "
            "completions without a wait between, of which it may find neither",
            f"complete a round only when all that wait for the one before have found it: let {flow.name} arrive on another "
            "mbarrier behind its wait, and who completes the next round wait for that first",
            [(flow.waiting.op, f"the wait for round {last}")],
            (slot.history,),
        )
    wait = slot.waits[agent]
    assert wait is not None
    if wait.again:
        return Fault(
            "rounds",
            op,
            f"round {slot.rounds} of {slot.name} completes, and nobody has waited for it: two completions without a wait "
            "between",
            wrong_parity(cta, wait),
            [(wait.op, f"this wait found round {last} complete, which had been waited for before")],
            (slot.history,),
        )
    name = f"round {last}" if last >= 0 else "what comes before round 0"
    return Fault(
        "rounds",
        op,
        f"round {slot.rounds} of {slot.name} completes, and nothing makes it come after the wait of {cta.agents[agent].name} "
        f"for {name}: two completions without a wait between, of which that thread may find neither",
        f"{_edge(slot, flow, last)}: a parity wait cannot tell a round from the one two later",
        [(wait.op, f"the wait for {name}")],
        (slot.history,),
    )


def _edge(slot: Slot, flow: Flow, last: int) -> str:
    """How the next completion comes after a wait of all threads of a flow."""
    waits = [(slot.waits[agent.index], slot.pending.o[agent.index]) for agent in flow.agents]
    one_is_met = any(wait is not None and wait.round == last and met >= wait.time for wait, met in waits)
    if flow.role is None or one_is_met:
        threads = "the threads" if flow.role is None else f"the threads of {flow.name}"
        return f"let {threads} meet between the wait and the next arrival, with tile.{flow.sync} or a wait for a commit"
    return (
        f"let {flow.name} arrive on an mbarrier behind its wait, and who completes the next round wait for that first"
    )


def too_early(cta: AsyncCta, op: Operation, slot: Slot, agent: Agent) -> Fault:
    """This wait has found the last completed round, but may as well come before the round in front of that."""
    last = slot.rounds - 1
    early = f"as soon as round {last - 2} is complete" if last >= 2 else "before round 0 is complete"
    return Fault(
        "rounds",
        op,
        f"this wait of {agent.name} finds round {last} of {slot.name} complete, but nothing makes it come after round {last - 1}: "
        f"it may pass {early}",
        "wait for each round, one after the other: a parity wait cannot tell a round from the one two later",
        [(entry[1], entry[2]) for entry in list(slot.history)[-1 - _SHOWN : -1]],
        (slot.history,),
    )


def not_initialised(op: Operation, slot: Slot) -> Fault:
    return Fault(
        "race",
        op,
        f"no cta_sync between the initialisation of {slot.name} and its first use by other threads",
        "put `tile.cta_sync` behind the tile.mbarrier.init operations: one thread initialises for all",
        [(slot.init[1], "initialised here, by one thread")],
        (slot.history,),
    )
