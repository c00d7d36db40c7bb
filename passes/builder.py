"""Insertion of operations that know which source line they come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, LocationAttr, i1, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tilec.dialects.tile import DimOp, SingleThreadOp

OpT = TypeVar("OpT", bound=Operation)


def constant(value: SSAValue) -> int | None:
    """The number that a value is, where that is known."""
    if isinstance(value.owner, arith.ConstantOp) and isinstance(value.owner.value, IntegerAttr):
        return value.owner.value.value.data
    return None


@dataclass(frozen=True)
class LocatedBuilder:
    """Inserts at one point; everything that it makes carries one source location."""

    point: InsertPoint
    location: LocationAttr

    @staticmethod
    def before(op: Operation) -> LocatedBuilder:
        return LocatedBuilder(InsertPoint.before(op), op.location)

    @staticmethod
    def after(op: Operation) -> LocatedBuilder:
        return LocatedBuilder(InsertPoint.after(op), op.location)

    @staticmethod
    def at_end(block: Block, source: Operation) -> LocatedBuilder:
        return LocatedBuilder(InsertPoint.at_end(block), source.location)

    def of(self, source: Operation) -> LocatedBuilder:
        """The same place, for operations that come from `source`."""
        return LocatedBuilder(self.point, source.location)

    def inside(self, block: Block) -> LocatedBuilder:
        """The end of another block, for operations that come from the same source."""
        return LocatedBuilder(InsertPoint.at_end(block), self.location)

    def add(self, op: OpT, *hints: str | None) -> OpT:
        """Insert `op`; `hints` name its results in order."""
        op.location = self.location
        for result, hint in zip(op.results, hints, strict=False):
            result.name_hint = hint
        Rewriter.insert_op(op, self.point)
        return op

    def single_thread(self) -> LocatedBuilder:
        """A scope that one thread executes."""
        return self.inside(self.add(SingleThreadOp([])).body.block)

    def if_(self, condition: SSAValue) -> LocatedBuilder:
        """A conditional without results; the builder works before its terminator."""
        end = scf.YieldOp()
        end.location = self.location
        self.add(scf.IfOp(condition, [], Region(Block([end]))))
        return LocatedBuilder(InsertPoint.before(end), self.location)

    def if_else(
        self, condition: SSAValue, result: Attribute | None = None, hint: str | None = None
    ) -> tuple[scf.IfOp, LocatedBuilder, LocatedBuilder]:
        """A conditional with two branches, each of which the caller ends with `yield_`."""
        then, otherwise = Block(), Block()
        types = [] if result is None else [result]
        op = self.add(scf.IfOp(condition, types, Region(then), Region(otherwise)), hint)
        return op, self.inside(then), self.inside(otherwise)

    def yield_(self, *values: SSAValue) -> None:
        self.add(scf.YieldOp(*values))

    def add_index(self, lhs: SSAValue, rhs: SSAValue, hint: str | None = None) -> SSAValue:
        return self.add(arith.AddiOp(lhs, rhs), hint).result

    def compare(self, lhs: SSAValue, predicate: str, rhs: SSAValue, hint: str | None = None) -> SSAValue:
        return self.add(arith.CmpiOp(lhs, rhs, predicate), hint).result

    def select(self, condition: SSAValue, then: SSAValue, otherwise: SSAValue, hint: str | None = None) -> SSAValue:
        return self.add(arith.SelectOp(condition, then, otherwise), hint).result

    def flip(self, phase: SSAValue, one: SSAValue, hint: str | None = None) -> SSAValue:
        """The other parity."""
        return self.add(arith.XOrIOp(phase, one), hint).result


class Scalars:
    """Constants and extents of a kernel, each made once, in a row behind `anchor`."""

    def __init__(self, anchor: Operation):
        self._last = anchor
        self._made: dict[object, SSAValue] = {}
        op: Operation | None = anchor
        while op is not None:  # what the setup has already is used again
            match op:
                case arith.ConstantOp():
                    self._made[op.value] = op.result
                case DimOp():
                    self._made[op.view, op.dimension] = op.res
                case _:
                    pass
            op = op.prev_op

    def index(self, value: int) -> SSAValue:
        return self._constant(IntegerAttr(value, IndexType()), f"c{value}")

    def phase(self, value: int) -> SSAValue:
        return self._constant(IntegerAttr(value, i32), f"phase{value}")

    def flag(self, value: bool) -> SSAValue:
        return self._constant(IntegerAttr(-1 if value else 0, i1), "true" if value else "false")

    def dim(self, view: SSAValue, dimension: int) -> SSAValue:
        hint = None if view.name_hint is None else f"{view.name_hint}_dim{dimension}"
        return self._once((view, dimension), DimOp(view, dimension), hint)

    def _constant(self, value: IntegerAttr, hint: str) -> SSAValue:
        return self._once(value, arith.ConstantOp(value), hint)

    def _once(self, key: object, op: arith.ConstantOp | DimOp, hint: str | None) -> SSAValue:
        if key not in self._made:
            self._last = LocatedBuilder.after(self._last).add(op, hint)
            self._made[key] = self._last.results[0]
        else:
            op.erase()
        return self._made[key]
