"""Loads run ahead into the next tile: the second half of `persistent`.

    prologue of the first tile
    scf.while                                     scf.while
      prologue; loop; epilogue          ->          loop; prologue of the next tile; epilogue

A tile's epilogue keeps the tensor core waiting; the loads of the next tile need not wait with it. Legal because the loop's
last wait says that no MMA reads the ring any more, because nothing behind that wait uses the ring or its full barriers,
because no thread is still to meet the others after it has read the ring (`between_tiles.py`), and because the prologue touches
nothing else: the stage that it starts from is where the loop ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from tilec.dialects.tile import CopyAsyncOp, ScheduleOp, SlotOp, TryWaitOp
from tilec.passes.between_tiles import disturbs
from tilec.passes.builder import LocatedBuilder


@dataclass(frozen=True)
class _Prologue:
    """A loop that only fills a ring, and the place of the stage that it starts from among the while's values."""

    loop: scf.ForOp
    place: int


def run_ahead(tiles: scf.WhileOp) -> scf.WhileOp:
    """Move the prologue of each tile before the epilogue of the tile before it, if `tiles` has that shape.

    Gives the loop that stands in its place.
    """
    body = tiles.after_region.block
    schedule, turn_up, end = body.first_op, _turn_up(body), body.last_op
    if not isinstance(schedule, ScheduleOp) or turn_up is None or end is None:
        return tiles
    prologue = _prologue(body, schedule)
    drained = _last_wait(body)
    if prologue is None or drained is None or not _comes_before(prologue.loop, drained):
        return tiles
    if _touched_behind(drained, prologue.loop) or disturbs(body, drained, prologue.loop):
        return tiles
    stage_end = end.operands[prologue.place]
    if not (isinstance(stage_end, OpResult) and _reaches(stage_end.op, drained)):
        return tiles

    first = LocatedBuilder.before(tiles)
    places = _schedule(first.of(schedule), schedule, tiles.operands[0])
    start = _load(first, schedule, places, prologue, tiles.operands[prologue.place])

    # The next tile's place is computed before the last wait, while the tensor core has work, and carried to the next turn.
    turn_up.detach()
    working = LocatedBuilder.before(drained)
    next_turn = working.of(turn_up).add(turn_up, turn_up.result.name_hint).result
    ahead = _schedule(working.of(schedule), schedule, next_turn)
    stage = _load(LocatedBuilder.after(drained), schedule, ahead, prologue, stage_end)

    prologue.loop.res[0].replace_all_uses_with(body.args[prologue.place])
    prologue.loop.detach()
    prologue.loop.erase()
    end.operands[prologue.place] = stage
    tiles.operands[prologue.place] = start
    return _carry(tiles, schedule, places, ahead)


def _schedule(b: LocatedBuilder, schedule: ScheduleOp, turn: SSAValue) -> ScheduleOp:
    """The scheduler at another turn."""
    hints = [result.name_hint for result in schedule.results]
    return b.add(ScheduleOp(turn, schedule.view, schedule.step, schedule.group), *hints)


def _carry(tiles: scf.WhileOp, schedule: ScheduleOp, first: ScheduleOp, ahead: ScheduleOp) -> scf.WhileOp:
    """Make the place of the tile one of the values that the turns carry, in place of `schedule`."""
    condition, body = tiles.before_region.block, tiles.after_region.block
    test, end = condition.last_op, body.last_op
    assert isinstance(test, scf.ConditionOp) and end is not None
    for offset in schedule.offsets:
        passed = condition.insert_arg(offset.type, len(condition.args), offset.owner.location)
        taken = body.insert_arg(offset.type, len(body.args), offset.owner.location)
        passed.name_hint = taken.name_hint = offset.name_hint
        test.operands = [*test.operands, passed]
        offset.replace_all_uses_with(taken)
    end.operands = [*end.operands, *ahead.offsets]
    schedule.detach()
    schedule.erase()
    inits = [*tiles.operands, *first.offsets]
    grown = scf.WhileOp(inits, [value.type for value in inits], tiles.detach_region(0), tiles.detach_region(0))
    LocatedBuilder.before(tiles).add(grown, *(result.name_hint for result in tiles.results))
    for old, new in zip(tiles.results, grown.results, strict=False):
        old.replace_all_uses_with(new)
    tiles.detach()
    tiles.erase()
    return grown


def _load(b: LocatedBuilder, schedule: ScheduleOp, ahead: ScheduleOp, prologue: _Prologue, start: SSAValue) -> SSAValue:
    """The prologue of tile `ahead`, if there is one, from stage `start`; gives the stage behind it."""
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


def _touched_behind(drained: Operation, loop: scf.ForOp) -> bool:
    """Whether the rest of the tile uses what the prologue fills or signals: then the ring is not free yet."""
    filled: set[SSAValue] = set()
    for op in loop.body.walk():
        if isinstance(op, SlotOp):
            filled.add(op.ring)
        elif isinstance(op, CopyAsyncOp) and op.barrier is not None:
            filled.add(op.barrier)
    rest = drained.next_op
    while rest is not None:
        for op in rest.walk():
            for value in op.operands:
                if value in filled or (isinstance(value.owner, SlotOp) and value.owner.ring in filled):
                    return True
        rest = rest.next_op
    return False


def _comes_before(one: Operation, other: Operation) -> bool:
    block = one.parent
    assert block is not None and other.parent is block
    return block.get_operation_index(one) < block.get_operation_index(other)


def _reaches(definition: Operation, use: Operation) -> bool:
    """Whether a value that `definition` makes is known behind `use`."""
    return definition is use or _comes_before(definition, use)
