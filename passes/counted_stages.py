"""Stages that a loop counts: for `persistent`, where the next tile starts at another stage than 0.

    scf.for %s = 0 to 2 { fill slot %s }               %start = scf.for %i = 0 to 2 iter_args(%s = 0) { fill slot %s; one up }
    scf.for %k ... iter_args(%stage = 0, ...)    ->    scf.for %k ... iter_args(%stage = %start, ...)

One trip through the whole ring ends where it started, so that the tile is what it was, and now its stages come from one
value, which goes on from tile to tile.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import scf
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Operation, SSAValue

from tilec.dialects.tile import (
    ArriveExpectTxOp,
    ArriveOp,
    CommitOp,
    CopyAsyncOp,
    MbarrierType,
    RingType,
    SlotOp,
    TryWaitOp,
)
from tilec.passes.builder import LocatedBuilder, Scalars, constant
from tilec.passes.carry import with_carried, yield_more
from tilec.passes.setup import scalars_of


def carry_counted_stages(body: Block) -> None:
    """Carry the stage of each loop that goes once through a ring, where a later loop goes on with that ring from stage 0."""
    for loop in [op for op in body.ops if isinstance(op, scf.ForOp)]:
        counter = loop.body.block.args[0]
        counted = [use for use in _stages(loop) if use[0].operands[use[1]] is counter]
        rings = {ring for _, _, ring in counted}
        goes_on = [place for place in _places_behind(loop) if _is_stage_of(*place, rings)]
        if counted and goes_on and all(_goes_once_through(loop, ring) for ring in rings):
            _carry(loop, counted, goes_on, scalars_of(body))


_Stage = tuple[Operation, int, SSAValue]
"""An operation, which of its operands is a stage, and the ring or barrier that it is a stage of."""


def _stages(loop: scf.ForOp) -> Iterator[_Stage]:
    for op in loop.body.walk():
        match op:
            case SlotOp():
                yield op, 1, op.ring
            case ArriveExpectTxOp() | ArriveOp() | CommitOp() | TryWaitOp() if op.stage is not None:
                yield op, 1, op.barrier
            case CopyAsyncOp() if op.stage is not None and op.barrier is not None:
                yield op, len(op.operands) - 1, op.barrier
            case _:
                pass


def _goes_once_through(loop: scf.ForOp, ring: SSAValue) -> bool:
    assert isinstance(ring.type, MbarrierType | RingType)
    return [constant(bound) for bound in (loop.lb, loop.ub, loop.step)] == [0, ring.type.depth, 1]


def _places_behind(loop: scf.ForOp) -> Iterator[tuple[scf.ForOp, int]]:
    """What later loops carry from 0, as an index."""
    op = loop.next_op
    while op is not None:
        if isinstance(op, scf.ForOp):
            for place, init in enumerate(op.iter_args):
                if init.type == IndexType() and constant(init) == 0:
                    yield op, place
        op = op.next_op


def _is_stage_of(loop: scf.ForOp, place: int, rings: set[SSAValue]) -> bool:
    argument = loop.body.block.args[1 + place]
    return any(op.operands[operand] is argument and ring in rings for op, operand, ring in _stages(loop))


def _carry(loop: scf.ForOp, counted: list[_Stage], goes_on: list[tuple[scf.ForOp, int]], scalars: Scalars) -> None:
    last = constant(loop.ub)
    assert last is not None
    zero, one = scalars.index(0), scalars.index(1)
    loop, (stage,) = with_carried(loop, [("stage", zero)])
    for op, operand, _ in counted:
        op.operands[operand] = stage
    end = loop.body.block.last_op
    assert end is not None
    b = LocatedBuilder.before(end)
    wrapped = b.compare(stage, "eq", scalars.index(last - 1), "wrapped")
    yield_more(loop, [b.select(wrapped, zero, b.add_index(stage, one), "stage")])
    for later, place in goes_on:
        later.operands[3 + place] = loop.res[-1]
