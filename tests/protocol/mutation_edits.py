"""Small changes of the IR, of which mistakes are made."""

from __future__ import annotations

from mutation_anatomy import Anatomy, scope_of
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, i1, i32
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from tilec.dialects.tile import SingleThreadOp, TryWaitOp
from tilec.passes.builder import LocatedBuilder


def drop(_: Anatomy, op: Operation) -> None:
    """Remove an operation without results, and the scope that it leaves empty."""
    scope = scope_of(op)
    op.detach()
    op.erase()
    if scope is not None and scope.body.block.first_op is None:
        scope.detach()
        scope.erase()


def index(at: LocatedBuilder, value: int) -> SSAValue:
    return at.add(arith.ConstantOp(IntegerAttr(value, IndexType()))).result


def flag(at: LocatedBuilder, value: bool) -> SSAValue:
    return at.add(arith.ConstantOp(IntegerAttr(-1 if value else 0, i1))).result


def phase_one(at: LocatedBuilder) -> SSAValue:
    return at.add(arith.ConstantOp(IntegerAttr(1, i32))).result


def next_stage(at: LocatedBuilder, stage: SSAValue, depth: int) -> SSAValue:
    up = at.add_index(stage, index(at, 1))
    return at.add(arith.RemUIOp(up, index(at, depth))).result


def set_stage(op: Operation, stage: SSAValue) -> None:
    """Change the stage of a barrier operation: a wait's comes before its phase, all others' last."""
    op.operands[1 if isinstance(op, TryWaitOp) else len(op.operands) - 1] = stage


def inline(op: SingleThreadOp | scf.IfOp) -> None:
    """Put the operations of a scope (of a conditional: its first branch) in its place."""
    block = op.body.block if isinstance(op, SingleThreadOp) else op.true_region.block
    at = LocatedBuilder.before(op)
    for inside in list(block.ops):
        inside.detach()
        if not isinstance(inside, scf.YieldOp):
            Rewriter.insert_op(inside, at.point)
    op.detach()
    op.erase()


def move_behind(op: Operation, other: Operation) -> None:
    op.detach()
    Rewriter.insert_op(op, LocatedBuilder.after(other).point)


def move_ahead(op: Operation, other: Operation) -> None:
    op.detach()
    Rewriter.insert_op(op, LocatedBuilder.before(other).point)
