"""Verification that points at the operation that is wrong.

xDSL's `Operation.verify` says what is wrong but not where, and does not check that a value is defined before it is used,
which texts can violate (the parser takes forward references) and faulty passes too.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.irdl.dominance import DominanceInfo
from xdsl.traits import NoTerminator

from tilec.diagnostics import Diagnostic, TilecError, calls_to, location_of, refusal


def verify(module: ModuleOp) -> None:
    """Check `module` and everything in it; the first fault is raised as a `TilecError`."""
    _Verifier().check(module)


class _Verifier:
    def __init__(self) -> None:
        self.passed: set[Operation] = set()
        """Operations that are over at this point of the walk."""
        self.inside: dict[Region, Block] = {}
        """The block of each open region in which the walk is."""
        self.dominance: dict[Region, DominanceInfo] = {}

    def check(self, op: Operation) -> None:
        for operand in op.operands:
            if not self._visible(operand):
                note = Diagnostic("note", "it is defined here", location_of(operand))
                message = f"{_spelling(operand)} is used before it is defined"
                raise TilecError(message, location_of(op), notes=(*calls_to(op), note))
        for region in op.regions:
            for block in region.blocks:
                self.inside[region] = block
                for nested in block.ops:
                    self.check(nested)
                    self.passed.add(nested)
                if (
                    block.first_op is None
                    and region.last_block is region.first_block
                    and not op.has_trait(NoTerminator)
                ):
                    message = f"{op.name} has an empty block where a terminator is due"
                    raise TilecError(message, location_of(op), notes=calls_to(op))
            self.inside.pop(region, None)
        try:
            op.verify(verify_nested_ops=False)
        except Exception as error:
            raise refusal(error, location_of(op), calls_to(op)) from error

    def _visible(self, value: SSAValue) -> bool:
        owner = value.owner
        block = owner if isinstance(owner, Block) else owner.parent
        if block is None or block.parent is None:
            return False
        here = self.inside.get(block.parent)
        if here is block:
            return isinstance(owner, Block) or owner in self.passed
        if here is None:
            return False
        if block.parent not in self.dominance:
            self.dominance[block.parent] = DominanceInfo(block.parent)
        return self.dominance[block.parent].strictly_dominates(block, here)


def _spelling(value: SSAValue) -> str:
    return "a value" if value.name_hint is None else f"%{value.name_hint}"
