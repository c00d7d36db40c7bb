"""What must be over when a CTA ends, and when a launch has ended."""

from __future__ import annotations

from xdsl.dialects import scf

from tilec.backend.reference.cta import name_of
from tilec.backend.simulator.barriers import Slot
from tilec.backend.simulator.cta import AsyncCta, Launch
from tilec.backend.simulator.faults import Fault, line_of
from tilec.backend.simulator.flow import Flow
from tilec.backend.simulator.memory import Access
from tilec.backend.simulator.phases import loop_of
from tilec.backend.simulator.stuck import missed_round
from tilec.dialects.tile import ScheduleOp, TryWaitOp


def finish(cta: AsyncCta) -> None:
    """A CTA ends: nothing may be on its way, pending or still allocated."""
    _check_loads(cta)
    _check_mmas(cta)
    _check_stores(cta)
    for memory in cta.accumulators:
        if memory.freed is None:
            cta.fail(
                "leak",
                memory.alloc,
                f"the CTA ends, and {memory.name} has not been given back",
                "end with `tile.free`, on every path: tensor memory that is not given back is lost to the next CTA",
                (),
                memory.history,
            )
    for slot in cta.slots:
        if slot.open and slot.complete:
            if (agent := slot.missed()) is not None:
                raise missed_round(cta, slot.history[-1][1], slot, agent)
        elif slot.open:
            cta.fail(
                "arrivals",
                slot.init[1],
                f"the CTA ends in the middle of round {slot.rounds} of {slot.name}: {slot.arrivals} of "
                f"{slot.count} arrivals and {slot.issued} of {slot.announced} announced bytes",
                "complete each round that was begun, and wait for it",
                [(slot.history[-1][1], slot.history[-1][2])],
                slot.history,
            )


def _check_loads(cta: AsyncCta) -> None:
    for slot in cta.slots:
        if slot.load is not None and all(agent.clock.g[slot.component] < slot.loads for agent in cta.agents):
            cta.fail(
                "in flight",
                slot.load,
                f"the CTA ends before this TMA load, which completes on round {slot.loads - 1} of {slot.name}, has been waited "
                "for",
                f"{_guard(slot)}: the engine would write into the shared memory of the next CTA",
                (),
                slot.history,
            )


def _guard(slot: Slot) -> str:
    """What to do about a round of loads that nobody has waited for: a loop that waits may not run that often."""
    waits = [use.operation for use in slot.barrier.uses if isinstance(use.operation, TryWaitOp)]
    loop = next((loop for wait in waits if (loop := loop_of(wait)) is not None), None)
    if loop is None or any(wait is not None and wait.again for wait in slot.waits):
        return f"wait for it with parity {slot.loads - 1 & 1}, or do not issue it"
    where = f" ({name_of(loop.body.block.args[0])} < {name_of(loop.ub)})" if isinstance(loop, scf.ForOp) else ""
    return f"guard it: issue only for the steps that the loop at {line_of(loop)}, which waits, comes to{where}"


def _check_mmas(cta: AsyncCta) -> None:
    for flow in cta.flows:
        if flow.last_mma is not None:
            _check_last_mma(cta, flow, flow.last_mma)


def _check_last_mma(cta: AsyncCta, flow: Flow, last: Access) -> None:
    if any(agent.clock.g[flow.tensor_core] >= last.time for agent in cta.agents):
        return
    commit = cta.commit_of(last)
    cta.fail(
        "in flight",
        last.op,
        "the CTA ends before this MMA has been waited for",
        "commit it to an mbarrier and wait for that"
        if commit is None
        else f"wait for round {commit.round} of {commit.slot.name}, parity {commit.round & 1}, which its commit completes",
        [] if commit is None else [(commit.op, "its commit")],
    )


def _check_stores(cta: AsyncCta) -> None:
    for flow in cta.flows:
        if flow.bulk.last is None:
            continue
        group, op = flow.bulk.last
        if flow.agents[0].clock.g[flow.bulk_read] < group:
            cta.fail(
                "in flight",
                op,
                "the CTA ends before this TMA store has read its tile",
                "end with `tile.bulk.wait_group 0` in the issuing thread"
                if group != flow.bulk.open
                else "no tile.bulk.commit_group follows: commit the group, then `tile.bulk.wait_group 0`",
            )


def finish_launch(launch: Launch) -> None:
    """All CTAs have ended: each tile that a persistent kernel visits has been stored."""
    for tensor in launch.tensors.values():
        tile = tensor.never_stored()
        if tile is not None:
            schedule = next(op for op in launch.kernel.walk() if isinstance(op, ScheduleOp))
            raise Fault(
                "tiles",
                schedule,
                f"the tile at ({', '.join(map(str, tile))}) of {tensor.view.name} is never stored, or not all of it",
                "each turn stores the whole tile that its tile.schedule names, and turns count from 0 in steps of 1",
            )
