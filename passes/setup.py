"""The setup of an asynchronous kernel: what is paid once, at the top of its block.

In this order: allocations; barrier initialisations; one `tile.cta_sync` that makes them known; constants and extents.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from tilec.dialects.tile import AccType, AllocOp, CtaSyncOp, DimOp, MbarrierInitOp
from tilec.passes.builder import LocatedBuilder, Scalars


class Setup:
    """Builds the setup at the top of a block that has none yet."""

    def __init__(self, block: Block, source: Operation):
        self._sync = CtaSyncOp()
        self._sync.location = source.location
        if block.first_op is None:
            block.add_op(self._sync)
        else:
            block.insert_op_before(self._sync, block.first_op)
        self._first_barrier: Operation = self._sync
        self.scalars = Scalars(self._sync)
        self.accs: list[SSAValue] = []

    def alloc(self, op: AllocOp, source: Operation, hint: str | None) -> SSAValue:
        """Insert an allocation, or move it here."""
        if op.parent is not None:
            op.detach()
        LocatedBuilder.before(self._first_barrier).of(source).add(op, hint)
        if isinstance(op.res.type, AccType):
            self.accs.append(op.res)
        return op.res

    def barrier(self, source: Operation, hint: str) -> SSAValue:
        """A barrier of one stage, on which one agent arrives a round."""
        op = LocatedBuilder.before(self._sync).of(source).add(MbarrierInitOp(1), hint)
        if self._first_barrier is self._sync:
            self._first_barrier = op
        return op.res

    def finish(self) -> None:
        """Drop the synchronisation where it has nothing to make known."""
        if self._first_barrier is self._sync and not self.accs:
            self._sync.detach()
            self._sync.erase()


def scalars_of(block: Block) -> Scalars:
    """The constants of a block, in or behind its setup."""
    setup = setup_of(block)
    if setup:
        return Scalars(setup[-1])
    assert block.first_op is not None
    return scalars_before(block.first_op)


def scalars_before(op: Operation) -> Scalars:
    """The constants that stand before an operation."""
    if op.prev_op is not None:
        return Scalars(op.prev_op)
    return Scalars(LocatedBuilder.before(op).add(arith.ConstantOp(IntegerAttr(0, IndexType())), "c0"))


def setup_of(block: Block) -> list[Operation]:
    """The operations of a block's setup, in order; other free computations may stand between them."""
    found: list[Operation] = []
    to_make_known = False
    for op in block.ops:
        match op:
            case AllocOp() | MbarrierInitOp():
                to_make_known |= isinstance(op, MbarrierInitOp) or isinstance(op.res.type, AccType)
            case CtaSyncOp() if to_make_known:
                to_make_known = False
            case arith.ConstantOp() | DimOp():
                pass
            case _:
                break
        found.append(op)
    return found
