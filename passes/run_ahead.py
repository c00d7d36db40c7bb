"""Loads run ahead into the next tile: the second half of `persistent`.

    prologue of the first tile
    scf.while                                     scf.while
      prologue; loop; epilogue          ->          loop; prologue of the next tile; epilogue

A tile's epilogue keeps the tensor core waiting; the loads of the next tile need not wait with it. Legal because the loop's
last wait says that no MMA reads the ring any more, so that its slots are free before the epilogue begins, and because the
prologue touches nothing but the ring and its full barriers: the stage that it starts from is where the loop ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from tilec.dialects.tile import CopyAsyncOp, ScheduleOp, SlotOp, TryWaitOp
from tilec.passes.builder import LocatedBuilder


@dataclass(frozen=True)
class _Prologue:
    """A loop that only fills a ring, and the place of the stage that it starts from among the while's values."""

    loop: scf.ForOp
    place: int


def run_ahead(tiles: scf.WhileOp) -> None:
    """Move the prologue of each tile before the epilogue of the tile before it, if `tiles` has that shape."""
    body = tiles.after_region.block
    schedule, turn_up, end = body.first_op, _turn_up(body), body.last_op
    if not isinstance(schedule, ScheduleOp) or turn_up is None or end is None:
        return
    prologue = _prologue(body, schedule)
    drained = _last_wait(body)
    if prologue is None or drained is None or not _comes_before(prologue.loop, drained):
        return
    stage_end = end.operands[prologue.place]
    if not (isinstance(stage_end, OpResult) and _reaches(stage_end.op, drained)):
        return

    first = LocatedBuilder.before(tiles)
    start = tiles.operands[prologue.place]
    tiles.operands[prologue.place] = _load(first, schedule, tiles.operands[0], prologue, start)
    carried = body.args[prologue.place]

    turn_up.detach()
    behind = LocatedBuilder.after(drained).of(turn_up)
    turn = behind.add(turn_up, turn_up.result.name_hint).result
    end.operands[prologue.place] = _load(behind.of(schedule), schedule, turn, prologue, stage_end)

    prologue.loop.res[0].replace_all_uses_with(carried)
    prologue.loop.detach()
    prologue.loop.erase()


def _load(b: LocatedBuilder, schedule: ScheduleOp, turn: SSAValue, prologue: _Prologue, start: SSAValue) -> SSAValue:
    """The prologue of the tile at `turn`, if there is one, from stage `start`; gives the stage behind it."""
    ahead = b.add(
        ScheduleOp(turn, schedule.view, schedule.step, schedule.group), *(r.name_hint for r in schedule.results)
    )
    choice, then, otherwise = b.of(prologue.loop).if_else(ahead.valid, start.type, "stage")
    mapping: dict[SSAValue, SSAValue] = dict(zip(schedule.results, ahead.results, strict=True))
    mapping[prologue.loop.iter_args[0]] = start
    loop = prologue.loop.clone(value_mapper=mapping)
    then.of(prologue.loop).add(loop, prologue.loop.res[0].name_hint)
    then.yield_(loop.res[0])
    otherwise.yield_(start)
    return choice.output[0]


def _turn_up(body: Block) -> arith.AddiOp | None:
    end = body.last_op
    assert end is not None
    owner = end.operands[0].owner
    return owner if isinstance(owner, arith.AddiOp) and owner.lhs is body.args[0] else None


def _prologue(body: Block, schedule: ScheduleOp) -> _Prologue | None:
    """The only loop of the tile that loads ring slots and waits for nothing."""
    loops = [op for op in body.ops if isinstance(op, scf.ForOp) and _only_fills(op)]
    if len(loops) != 1 or len(loops[0].iter_args) != 1:
        return None
    (loop,) = loops
    start = loop.iter_args[0]
    if not isinstance(start, BlockArgument) or start.block is not body:
        return None
    if any(use.operation is not loop for use in start.uses) or not _depends_only_on(loop, body, schedule):
        return None
    return _Prologue(loop, start.index)


def _only_fills(loop: scf.ForOp) -> bool:
    inside = list(loop.body.walk())
    copies = [op for op in inside if isinstance(op, CopyAsyncOp)]
    into_rings = all(op.is_load and op.dest is not None and isinstance(op.dest.owner, SlotOp) for op in copies)
    return bool(copies) and into_rings and not any(isinstance(op, TryWaitOp) for op in inside)


def _depends_only_on(loop: scf.ForOp, body: Block, schedule: ScheduleOp) -> bool:
    """Whether all that the loop uses of its tile are the tile's place and the stage it starts from."""
    used: Sequence[SSAValue] = [v for op in (loop, *loop.body.walk()) for v in op.operands]
    for value in used:
        owner = value.owner
        block = owner if isinstance(owner, Block) else owner.parent
        if block is body and owner is not schedule and value is not loop.iter_args[0]:
            return False
    return True


def _last_wait(body: Block) -> Operation | None:
    """The last operation of the tile's block that waits for a barrier: behind it the ring is free."""
    waiting = [op for op in body.ops if any(isinstance(inner, TryWaitOp) for inner in op.walk())]
    return waiting[-1] if waiting else None


def _comes_before(one: Operation, other: Operation) -> bool:
    block = one.parent
    assert block is not None and other.parent is block
    return block.get_operation_index(one) < block.get_operation_index(other)


def _reaches(definition: Operation, use: Operation) -> bool:
    """Whether a value that `definition` makes is known behind `use`."""
    return definition is use or _comes_before(definition, use)
