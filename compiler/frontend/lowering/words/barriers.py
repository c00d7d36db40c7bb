"""mbarriers: making them, arriving and waiting."""

from __future__ import annotations

from collections.abc import Sequence

from tilec.dialects.tile import ArriveExpectTxOp, ArriveOp, MbarrierInitOp, TryWaitOp
from tilec.frontend.lowering.arguments import Argument, Slice
from tilec.frontend.lowering.frame import Site
from tilec.frontend.lowering.values import Barrier
from tilec.frontend.lowering.vocabulary import subscript, word
from tilec.frontend.lowering.words.operands import Stage, barrier_of, phase_of, stage_index
from tilec.frontend.lowering.words.scopes import refuse_in_role


@word("mbarrier.init")
def init(site: Site, *, count: Argument, depth: Argument) -> Barrier:
    refuse_in_role(site, "a role cannot make barriers, which belong to the CTA")
    agents, stages = count.integer(), depth.integer()
    return Barrier(site.emit(lambda: MbarrierInitOp(stages, agents)).res)


@subscript(Barrier)
def stage(site: Site, barrier: Barrier, items: Sequence[Argument | Slice]) -> Stage:
    return Stage(barrier, stage_index(site, items, barrier.type.depth, "an mbarrier"))


@word("mbarrier.arrive")
def arrive(site: Site, *, barrier: Argument) -> None:
    bar, at = barrier_of(barrier)
    site.emit(lambda: ArriveOp(bar, at))


@word("mbarrier.arrive.expect_tx")
def expect_tx(site: Site, *, barrier: Argument, bytes: Argument) -> None:
    bar, at = barrier_of(barrier)
    count = bytes.integer()
    site.emit(lambda: ArriveExpectTxOp(bar, at, count))


@word("mbarrier.try_wait")
def try_wait(site: Site, *, barrier: Argument, phase: Argument, outstanding: Argument) -> None:
    bar, at = barrier_of(barrier)
    parity, in_flight = phase_of(phase), outstanding.integer()
    site.emit(lambda: TryWaitOp(bar, at, parity, outstanding=in_flight))
