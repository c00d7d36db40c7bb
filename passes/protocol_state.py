"""The state of a kernel's barriers and rings: which values say the phase, or the stage, at the start of a tile.

Read off the IR backwards from each operand that is a phase or a stage, through free computations and the values that loops
carry, to the constants that they start from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from xdsl.dialects import arith, scf
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue
from xdsl.traits import is_side_effect_free

from tilec.diagnostics import fail
from tilec.dialects.tile import (
    ArriveExpectTxOp,
    ArriveOp,
    CommitOp,
    CopyAsyncOp,
    SlotOp,
    TryWaitOp,
)
from tilec.passes.builder import LocatedBuilder, Scalars

_Entry = tuple[scf.ForOp, int]
"""A loop of the tile's block, and which of its iter_args."""


@dataclass(frozen=True)
class State:
    """A value that goes on from tile to tile."""

    hint: str
    start: SSAValue
    """Its constant at the first tile."""
    carry: Callable[[SSAValue, Scalars], SSAValue]
    """Use another value in place of the constant; gives the value at the end of the tile."""


def find_state(body: Block) -> list[State]:
    """The state that a tile starts with, in program order.

    Raises PassError where a phase or a stage does not come from such a value: it would be wrong at the second tile.
    """
    found: list[State] = []
    entries: set[_Entry] = set()
    starts: dict[SSAValue, set[_Entry]] = {}
    for op, value, is_phase in _protocol_operands(body):
        origin = _Origin(body)
        origin.trace(value)
        if origin.counter is not None:
            what = "phase" if is_phase else "stage"
            fail(
                op,
                f"the {what} of this operation is computed from {origin.counter}: it starts anew at each tile, but barriers "
                "do not",
                hint=f"carry the {what} through the loops as an iter_arg, as `pipeline` does",
            )
        entries |= origin.entries
        if not is_phase:
            continue
        assert isinstance(op, TryWaitOp)
        if starts.setdefault(op.barrier, origin.starts) != origin.starts:
            fail(
                op,
                "two loops start the phase of this barrier anew, but the barrier goes on from one to the other",
                hint="start the second loop with the phase where the first ends, or give it a barrier of its own",
            )
        if not origin.starts:
            if op.parent is not body or len(_waits(op.barrier)) > 1:
                fail(
                    op,
                    "the phase of this wait is a constant: it starts anew at each tile, but its barrier does not",
                    hint="carry the phase through the loops as an iter_arg, as `tma` does",
                )
            found.append(_once_a_tile(op))
    firsts = [entry for entry in entries if _starts(entry)]
    ordered = sorted(firsts, key=lambda entry: (_position(entry[0]), entry[1]))
    return [*found, *(_through_loop(body, loop, place) for loop, place in ordered)]


def _protocol_operands(body: Block) -> Iterator[tuple[Operation, SSAValue, bool]]:
    """Each operand that is a stage or (True) a phase, with its operation."""
    for op in body.walk():
        match op:
            case TryWaitOp():
                yield op, op.phase, True
                if op.stage is not None:
                    yield op, op.stage, False
            case ArriveExpectTxOp() | ArriveOp() | CommitOp() | CopyAsyncOp() | SlotOp():
                if op.stage is not None:
                    yield op, op.stage, False
            case _:
                pass


@dataclass
class _Origin:
    """Where a value comes from."""

    body: Block
    entries: set[_Entry] = field(default_factory=lambda: set[_Entry]())
    """The loops of the tile's block that carry it, and as which iter_arg."""
    counter: str | None = None
    """Something that starts anew at each tile."""
    _seen: set[SSAValue] = field(default_factory=set[SSAValue])

    @property
    def starts(self) -> set[_Entry]:
        """Those of `entries` that begin at a constant."""
        return {entry for entry in self.entries if _starts(entry)}

    def trace(self, value: SSAValue) -> None:
        if value in self._seen:
            return
        self._seen.add(value)
        if isinstance(value, BlockArgument):
            self._trace_argument(value)
            return
        assert isinstance(value, OpResult)
        match value.op:
            case scf.ForOp() as loop:
                self.trace(loop.body.block.args[1 + value.index])
                self._carried(loop, value.index)
            case scf.IfOp() as choice:
                for region in choice.regions:
                    assert region.block.last_op is not None
                    self.trace(region.block.last_op.operands[value.index])
            case arith.ConstantOp():
                pass
            case op if op.dialect_name() == "arith" and is_side_effect_free(op):
                for operand in op.operands:
                    self.trace(operand)
            case op:
                self.counter = op.name

    def _trace_argument(self, argument: BlockArgument) -> None:
        loop = argument.block.parent_op()
        if isinstance(loop, scf.ForOp) and argument.index:
            self._carried(loop, argument.index - 1)
        else:
            self.counter = "a loop counter" if isinstance(loop, scf.ForOp) else "the tile's place"

    def _carried(self, loop: scf.ForOp, place: int) -> None:
        end = loop.body.block.last_op
        assert end is not None
        if loop.parent is self.body:
            self.entries.add((loop, place))
        self.trace(loop.iter_args[place])
        self.trace(end.operands[place])


def _starts(entry: _Entry) -> bool:
    loop, place = entry
    return isinstance(loop.iter_args[place].owner, arith.ConstantOp)


def _position(op: Operation) -> int:
    assert op.parent is not None
    return op.parent.get_operation_index(op)


def _waits(barrier: SSAValue) -> list[TryWaitOp]:
    return [use.operation for use in barrier.uses if isinstance(use.operation, TryWaitOp)]


def _once_a_tile(wait: TryWaitOp) -> State:
    """A barrier that completes one round a tile: its phase flips behind the wait."""

    def carry(value: SSAValue, scalars: Scalars) -> SSAValue:
        wait.operands = [value if operand is wait.phase else operand for operand in wait.operands]
        return LocatedBuilder.after(wait).flip(value, scalars.phase(1), value.name_hint)

    return State(f"{wait.barrier.name_hint or 'barrier'}_phase", wait.phase, carry)


def _through_loop(body: Block, loop: scf.ForOp, place: int) -> State:
    """A value that enters the tile as a loop's iter_arg, and leaves it as the result of the last loop that carries it."""
    result: SSAValue = loop.res[place]
    while True:
        following = [
            (use.operation, use.index - 3)
            for use in result.uses
            if isinstance(use.operation, scf.ForOp) and use.operation.parent is body and use.index >= 3
        ]
        if not following:
            break
        if len(following) > 1:
            fail(
                following[1][0], "two loops start from one phase or stage", hint="start the second where the first ends"
            )
        last, index = following[0]
        result = last.res[index]

    def carry(value: SSAValue, scalars: Scalars) -> SSAValue:
        loop.operands = [value if index == 3 + place else operand for index, operand in enumerate(loop.operands)]
        return result

    return State(loop.body.block.args[1 + place].name_hint or "state", loop.iter_args[place], carry)
