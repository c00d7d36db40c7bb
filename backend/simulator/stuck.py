"""What to say of a wait that never ends, and of rounds that go wrong."""

from __future__ import annotations

from xdsl.ir import Operation

from tilec.backend.simulator.barriers import Slot
from tilec.backend.simulator.clocks import Agent
from tilec.backend.simulator.cta import AsyncCta
from tilec.backend.simulator.faults import Fault, plural
from tilec.backend.simulator.flow import Flow
from tilec.backend.simulator.races import stale_phase

REPORT_UNIT = 128
"""Bytes: the TMA engine reports in multiples of it (measured)."""
_SHOWN = 4
"""Steps of a barrier's history that the rendered message shows."""


def deadlock(cta: AsyncCta, op: Operation, slot: Slot, parity: int) -> Fault:
    """The pending round, for which `op` waits, cannot complete: one control flow waits, so nobody else can help."""
    who = f"{cta.issuer.name} waits" if cta.alone else "all threads wait"
    notes = [(entry[1], entry[2]) for entry in list(slot.history)[-1 - _SHOWN : -1]]
    return Fault(
        "deadlock", op, f"this wait never ends: {state(who, slot, parity)}", _why(slot), notes, (slot.history,)
    )


def state(who: str, slot: Slot, parity: int) -> str:
    return (
        f"{who} for parity {parity} of {slot.name}, which has completed {plural(slot.rounds, 'round')}; round {slot.rounds} "
        f"(parity {slot.rounds & 1}) has {slot.arrivals} of {slot.count} arrivals and {slot.issued} of {slot.announced} "
        "announced bytes"
    )


def _why(slot: Slot) -> str:
    reason = wrong_round(slot)
    if reason is not None:
        return reason
    if slot.rounds == 0:
        return (
            f"nobody arrives on round 0 of {slot.name} before this wait: the copies, or the commit, that complete it come "
            "first"
        )
    return (
        f"round {slot.rounds - 1}, the last that completed, has been waited for already, and nobody arrives on round "
        f"{slot.rounds}: either nobody refills this stage any more, or this phase was flipped too early (a phase flips once "
        "for each round of its slot)"
    )


def wrong_round(slot: Slot) -> str | None:
    """What is wrong with the pending round itself, if something of it has happened."""
    if slot.arrivals == slot.count:
        return _budget(slot)
    if slot.arrivals == 0 and slot.issued:
        return (
            f"copies of {slot.issued} bytes signal this round, but nobody has announced them: "
            "`tile.mbarrier.arrive.expect_tx` comes with them, once a round"
        )
    if slot.arrivals:
        return (
            f"{plural(slot.count - slot.arrivals, 'more arrival')} {'is' if slot.count - slot.arrivals == 1 else 'are'} "
            f"missing: each round takes {slot.count}, one for a commit and one for each role that arrives"
        )
    return None


def _budget(slot: Slot) -> str:
    excess = slot.announced - slot.issued
    announce = f"announce {slot.issued} bytes, what the copies of the round bring (a box over the edge counts in full)"
    if excess > 0:
        return f"the byte budget is too large by {excess} bytes: {announce}"
    short = -excess
    if short % REPORT_UNIT == 0:
        return (
            f"the byte budget is too small by {short} bytes: the engine reports in pieces, so the wait passes early where it "
            "happens to report at exactly that sum, before the tiles are there, and hangs elsewhere; left-over bytes count "
            f"against the next round: {announce}"
        )
    return (
        f"the byte budget is too small by {short} bytes: the count runs through zero without stopping on it, and the wait "
        f"hangs: {announce}"
    )


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
            stale_phase(wait),
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
