"""The second half of `pipeline`: build the loop that a schedule describes.

    prologue    load the first tiles, one a stage, as far as there are any
    loop        wait for the stage; compute; commit; wait for the MMAs `lag` iterations back; refill their stage
    after it    wait for the MMAs that are left

Stage and phase are carried: the stage goes round the ring, and the phase flips when it wraps. Waiting for an earlier MMA is
waiting on that stage's predecessor in the ring; before any round has run, its parity reads as complete, so that the first
iterations, short loops and empty ones need no case of their own.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Operation, SSAValue

from tilec.dialects.tile import (
    AllocOp,
    ArriveExpectTxOp,
    CommitOp,
    CopyAsyncOp,
    MbarrierInitOp,
    RingType,
    SingleThreadOp,
    SlotOp,
    SmemType,
    TryWaitOp,
)
from tilec.dialects.tile.sync import MAX_OUTSTANDING
from tilec.passes.builder import LocatedBuilder, Scalars, constant
from tilec.passes.carry import drop_unused, with_carried, yield_more
from tilec.passes.pipeline_schedule import Schedule


def expand(plan: Schedule, stages: int, lag: int, scalars: Scalars) -> None:
    """Replace the loop of `plan` by its pipeline."""
    _Expansion(plan, stages, lag, scalars).run()


class _Expansion:
    def __init__(self, plan: Schedule, stages: int, lag: int, scalars: Scalars):
        self._plan = plan
        self._stages = stages
        self._lag = lag
        self._scalars = scalars
        step = constant(plan.loop.step)
        assert step is not None
        self._step = step
        self._counter = plan.loop.body.block.args[0]
        self._rings: dict[SSAValue, SSAValue] = {tile.res: self._ring(tile) for tile in plan.tiles}
        self._full: dict[SSAValue, SSAValue] = {}
        for load in plan.loads:
            if load.barrier is not None and load.barrier not in self._full:
                self._full[load.barrier] = self._deepen(load.barrier)
        self._done: SSAValue | None = None
        if lag:
            self._done = self._deepen(plan.done[0].barrier)

    def run(self) -> None:
        plan, scalars = self._plan, self._scalars
        outer, (stage0, phase0) = self._carry_through_outer_loops()
        loop, (stage, phase) = with_carried(plan.loop, [("stage", self._prologue(stage0)), ("phase", phase0)])
        body = loop.body.block
        end = body.last_op
        assert body.first_op is not None and end is not None
        top = LocatedBuilder.before(body.first_op)
        slots: dict[SSAValue, SSAValue] = {tile.res: self._slot(top.of(tile), tile.res, stage) for tile in plan.tiles}
        for wait in plan.full_waits:
            LocatedBuilder.before(wait).add(TryWaitOp(self._full[wait.barrier], stage, phase))
        issue = plan.issue[0]
        if self._lag:
            assert plan.last_mma is not None and self._done is not None
            b = LocatedBuilder.after(plan.last_mma)
            b.add(CommitOp(self._done, stage))
            free, free_phase = self._predecessor(b, stage, phase, self._lag)
            b.add(TryWaitOp(self._done, free, free_phase, outstanding=min(self._lag, MAX_OUTSTANDING)))
            self._refill(b.of(issue), loop.ub, free, None)
            b = LocatedBuilder.before(end)
        else:
            b = LocatedBuilder.before(end)
            self._refill(b.of(issue), loop.ub, stage, slots)
        b = b.of(issue)
        wrapped, next_stage = self._advance(b, stage)
        next_phase = b.select(wrapped, b.flip(phase, scalars.phase(1)), phase, "phase")
        yield_more(loop, [next_stage, next_phase])
        after = LocatedBuilder.after(loop)
        for back in range(self._lag, 0, -1):
            assert self._done is not None
            last, last_phase = self._predecessor(after, loop.res[-2], loop.res[-1], back)
            after.add(TryWaitOp(self._done, last, last_phase, outstanding=min(back - 1, MAX_OUTSTANDING)))
        self._erase_serial_form(loop, slots)
        inner = loop
        for around in outer:
            yield_more(around, inner.res[-2:])
            inner = around
        drop_unused(loop)

    # Storage

    def _ring(self, tile: AllocOp) -> SSAValue:
        type = tile.res.type
        assert isinstance(type, SmemType)
        return LocatedBuilder.before(tile).add(AllocOp(RingType.of(self._stages, type)), tile.res.name_hint).res

    def _deepen(self, barrier: SSAValue) -> SSAValue:
        old = barrier.owner
        assert isinstance(old, MbarrierInitOp)
        return LocatedBuilder.before(old).add(MbarrierInitOp(self._stages, old.count), barrier.name_hint).res

    def _slot(self, b: LocatedBuilder, tile: SSAValue, stage: SSAValue) -> SSAValue:
        return b.add(SlotOp(self._rings[tile], stage), tile.name_hint).res

    # Places in the ring

    def _advance(self, b: LocatedBuilder, stage: SSAValue) -> tuple[SSAValue, SSAValue]:
        """Whether the stage is the last one, and the one after it."""
        wrapped = b.compare(stage, "eq", self._scalars.index(self._stages - 1), "wrapped")
        above = b.add_index(stage, self._scalars.index(1))
        return wrapped, b.select(wrapped, self._scalars.index(0), above, "stage")

    def _predecessor(self, b: LocatedBuilder, stage: SSAValue, phase: SSAValue, back: int) -> tuple[SSAValue, SSAValue]:
        """The place of the iteration `back` ones earlier."""
        scalars = self._scalars
        wraps = b.compare(stage, "ult", scalars.index(back), "wraps")
        below = b.add(arith.SubiOp(stage, scalars.index(back))).result
        above = b.add_index(stage, scalars.index(self._stages - back))
        earlier = b.select(wraps, above, below, "earlier")
        return earlier, b.select(wraps, b.flip(phase, scalars.phase(1)), phase, "earlier_phase")

    # Loads

    def _prologue(self, stage0: SSAValue) -> SSAValue:
        """Load the first tiles; the stage behind them, which is the first one again."""
        plan, scalars = self._plan, self._scalars
        before = LocatedBuilder.before(plan.loop).of(plan.issue[0])
        body = Block(arg_types=[IndexType(), IndexType()])
        ahead, stage = body.args
        ahead.name_hint, stage.name_hint = "ahead", "stage"
        ahead.location = stage.location = before.location
        b = before.inside(body)
        k = b.add(arith.MuliOp(ahead, scalars.index(self._step)), "k").result
        self._load(b.if_(b.compare(k, "ult", plan.loop.ub, "exists")), k, stage, None)
        b.yield_(self._advance(b, stage)[1])
        bounds = scalars.index(0), scalars.index(self._stages), scalars.index(1)
        return before.add(scf.ForOp(*bounds, [stage0], body), "stage").res[0]

    def _refill(
        self,
        b: LocatedBuilder,
        extent: SSAValue,
        stage: SSAValue,
        slots: Mapping[SSAValue, SSAValue] | None,
    ) -> None:
        """Load what comes next into a stage that is free, if there is more, and if the prologue has not done it."""
        scalars = self._scalars
        ahead = scalars.index((self._stages - self._lag) * self._step)
        k = b.add_index(self._counter, ahead, "next_k")
        wanted = b.compare(k, "ult", extent, "more")
        if self._lag:
            warm = b.compare(self._counter, "uge", scalars.index(self._lag * self._step), "warm")
            wanted = b.add(arith.AndIOp(wanted, warm), "refill").result
        self._load(b.if_(wanted), k, stage, slots)

    def _load(self, b: LocatedBuilder, k: SSAValue, stage: SSAValue, slots: Mapping[SSAValue, SSAValue] | None) -> None:
        """Start the loads of the tiles at `k` into a stage, whose `slots` are known or made here."""
        plan = self._plan
        values: dict[SSAValue, SSAValue] = {self._counter: k}
        for op in plan.indices:
            b.of(op).add(op.clone(values))
        if slots is None:
            slots = {tile.res: self._slot(b.of(tile), tile.res, stage) for tile in plan.tiles}
        for op in plan.issue:
            here = b.of(op)
            match op:
                case SingleThreadOp():
                    one = here.single_thread()
                    for inner in op.body.ops:
                        self._load_op(one.of(inner), inner, values, slots, stage)
                case CopyAsyncOp():
                    self._load_op(here, op, values, slots, stage)
                case _:  # the fence and the barrier that publish thread copies
                    here.add(op.clone())

    def _load_op(
        self,
        b: LocatedBuilder,
        op: Operation,
        values: Mapping[SSAValue, SSAValue],
        slots: Mapping[SSAValue, SSAValue],
        stage: SSAValue,
    ) -> None:
        match op:
            case ArriveExpectTxOp():
                b.add(ArriveExpectTxOp(self._full[op.barrier], stage, op.bytes))
            case CopyAsyncOp(dest=SSAValue() as dest):
                indices = [values.get(index, index) for index in op.indices]
                barrier = None if op.barrier is None else self._full[op.barrier]
                signalled = None if barrier is None else stage
                b.add(CopyAsyncOp(op.source, slots[dest], indices, op.dispatch, barrier=barrier, stage=signalled))
            case _:
                raise AssertionError(op.name)

    # Around the loop

    def _carry_through_outer_loops(self) -> tuple[list[scf.ForOp], tuple[SSAValue, SSAValue]]:
        """Start at stage 0, phase 0 before all loops around this one, innermost first, which carry both."""
        start: tuple[SSAValue, SSAValue] = self._scalars.index(0), self._scalars.phase(0)
        around: list[scf.ForOp] = []
        above = self._plan.loop.parent_op()
        while isinstance(above, scf.ForOp):
            around.append(above)
            above = above.parent_op()
        carrying: list[scf.ForOp] = []
        for loop in reversed(around):
            new, (stage, phase) = with_carried(loop, [("stage", start[0]), ("phase", start[1])])
            carrying.insert(0, new)
            start = stage, phase
        return carrying, start

    def _erase_serial_form(self, loop: scf.ForOp, slots: Mapping[SSAValue, SSAValue]) -> None:
        """Remove what the pipeline has replaced."""
        plan = self._plan
        replaced: list[Operation] = [*plan.issue, *plan.full_waits, *(plan.done if self._lag else ())]
        for op in replaced:
            op.detach()
            op.erase()
        for op in reversed(plan.indices):
            if all(result.first_use is None for result in op.results):
                op.detach()
                op.erase()
        for tile, slot in slots.items():
            tile.replace_uses_with_if(slot, lambda use: loop.is_ancestor(use.operation))
        old = [*(tile.res for tile in plan.tiles), *self._full, *(op.barrier for op in plan.done)]
        for value in old:
            if value.first_use is None and isinstance(value.owner, Operation) and value.owner.parent is not None:
                value.owner.detach()
                value.owner.erase()
