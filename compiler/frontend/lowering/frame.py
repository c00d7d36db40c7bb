"""Where a lowering stands: its state, the function that it is in, and sites, which are places in that function's text."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    CallSiteLoc,
    FileLineColLoc,
    IndexType,
    IntAttr,
    IntegerAttr,
    LocationAttr,
    NameLoc,
    StringAttr,
    i1,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tilec.diagnostics import Diagnostic, SourceLocation, TilecError, refusal
from tilec.frontend.function import Function
from tilec.frontend.lowering.names import Liveness
from tilec.frontend.lowering.scope import Scope
from tilec.frontend.lowering.values import Value
from tilec.frontend.reads import Read

MAX_WRITTEN_OUT = 4096
"""Turns and calls of one kernel: each costs milliseconds, and programs of this size would compile for minutes."""
_LARGEST: dict[Attribute, int] = {IndexType(): (1 << 32) - 1, i32: (1 << 31) - 1}
"""Of run-time numbers: on the GPU, and in the coordinates of TMA, all have 32 bits."""
_Made = TypeVar("_Made", bound=Attribute | Operation)
_Operation = TypeVar("_Operation", bound=Operation)


@dataclass(frozen=True)
class Returned:
    """A `return` that was met: its value and its node."""

    value: Value
    node: ast.Return


@dataclass
class State:
    """One lowering of a kernel.

    `evaluate` and `execute` lower an expression and statements; what stands between them (words, helpers, loops) reaches
    them through here.
    """

    evaluate: Callable[[Frame, ast.expr], Value]
    execute: Callable[[Frame, Sequence[ast.stmt]], Returned | None]
    body: Block
    """The body of the kernel."""
    at: Block
    """Where operations are added."""
    outputs: list[SSAValue] = field(default_factory=list[SSAValue])
    reads: dict[Read, None] = field(default_factory=dict[Read, None])
    """In order, each once."""
    written_out: int = 0
    """Turns of loops, and calls of helpers, whose code was written out so far."""


@dataclass
class Frame:
    """A function that is being lowered; `caller` is the call that a helper is inlined at, `within` how it is reached."""

    state: State
    function: Function
    scope: Scope
    liveness: Liveness
    caller: Site | None = None
    within: tuple[str, ...] = ()
    is_conditional: bool = False
    """Whether this is inside of a run-time loop, branch or `with`, which a `return` cannot leave."""

    def site(self, node: ast.AST) -> Site:
        return Site(self, node)

    def evaluate(self, node: ast.expr) -> Value:
        return self.state.evaluate(self, node)

    def chain(self) -> Iterable[Frame]:
        """This frame and those of the calls around it, innermost first."""
        frame: Frame | None = self
        while frame is not None:
            yield frame
            frame = None if frame.caller is None else frame.caller.frame


@dataclass(frozen=True)
class Site:
    """A node of a function's text: where operations are made for, and errors point at."""

    frame: Frame
    node: ast.AST

    @property
    def state(self) -> State:
        return self.frame.state

    @property
    def text(self) -> str:
        """The code here, as a message shows it."""
        return shown(self.node)

    def at(self, node: ast.AST) -> Site:
        """Another node of the same function."""
        return Site(self.frame, node)

    # Errors

    @property
    def location(self) -> SourceLocation:
        return self.frame.function.location(self.node)

    @property
    def notes(self) -> tuple[Diagnostic, ...]:
        """The calls through which a helper was reached, innermost first."""
        return tuple(frame.caller.called_here for frame in self.frame.chain() if frame.caller is not None)

    @property
    def called_here(self) -> Diagnostic:
        """A note of this call, for what is wrong in the function that it calls."""
        return self.note(f"called from {self.frame.function.name}")

    def write_out(self) -> None:
        """Count a turn of a loop or a call that is written out here: there is an end to how many a kernel has."""
        self.state.written_out += 1
        if self.state.written_out > MAX_WRITTEN_OUT:
            self.fail(
                f"this kernel is written out in more than {MAX_WRITTEN_OUT} turns of loops and calls of functions",
                "write tile.loop(start, stop, step) for a loop at run time",
            )

    def note(self, message: str) -> Diagnostic:
        return Diagnostic("note", message, self.location)

    def error(self, message: str, hint: str | None = None, *notes: Diagnostic) -> TilecError:
        return TilecError(message, self.location, hint, (*notes, *self.notes))

    def fail(self, message: str, hint: str | None = None, *notes: Diagnostic) -> NoReturn:
        """Stop with an error that points here; the calls of helpers that led here are told of behind it."""
        raise self.error(message, hint, *notes)

    def guard(self, make: Callable[[], _Made]) -> _Made:
        """Make a type or an operation that checks itself; what it says is said here."""
        try:
            return make()
        except TilecError:
            raise
        except Exception as error:
            raise refusal(error, self.location, self.notes) from error

    # Operations

    @property
    def loc(self) -> LocationAttr:
        """The location of what is made here; that of a helper's code holds the calls around it."""
        at = self.location
        here = FileLineColLoc(StringAttr(at.file), IntAttr(at.line), IntAttr(at.column))
        caller = self.frame.caller
        if caller is None:
            return here
        return CallSiteLoc(here, _named(caller))

    def emit(self, make: Callable[[], _Operation]) -> _Operation:
        """Make an operation, check it, and add it where the lowering stands."""

        def checked() -> _Operation:
            op = make()
            op.verify_()
            return op

        return self.add(self.guard(checked))

    def add(self, op: _Operation) -> _Operation:
        """Add an operation as it is: one that can be checked only where it stands in the end."""
        op.location = self.loc
        self.state.at.add_op(op)
        return op

    def constant(self, value: int, type: Attribute) -> SSAValue:
        """An `arith.constant` of an integer type: i1, or that of a number, which is not negative."""
        largest = _LARGEST.get(type)
        if largest is not None and value > largest:
            self.fail(f"{value} does not fit into a run-time {type}, which is at most {largest}")
        stored = -int(value) if type == i1 else value
        attribute = self.guard(lambda: IntegerAttr(stored, type))  # pyright: ignore[reportArgumentType, reportCallIssue]
        return self.emit(lambda: arith.ConstantOp(attribute)).result

    def index_constant(self, value: int) -> SSAValue:
        return self.constant(value, IndexType())

    # The language

    def evaluate(self, node: ast.expr) -> Value:
        return self.state.evaluate(self.frame, node)


def _named(caller: Site) -> LocationAttr:
    """A call, by the name of the function that makes it."""
    return NameLoc(StringAttr(caller.frame.function.name), caller.loc)


_SHOWN = 80


def shown(node: ast.AST) -> str:
    """The code of a node, short enough for a message."""
    text = ast.unparse(node).split("\n")[0]
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
