"""Loops: written out over what is known at compile time, operations over what is not."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects import scf
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Operation, Region, SSAValue

from tilec.frontend.lowering import builtin, calls, carry
from tilec.frontend.lowering.arguments import Argument
from tilec.frontend.lowering.blocks import forget, inside, lower
from tilec.frontend.lowering.frame import Frame, Returned, Site
from tilec.frontend.lowering.scope import Bound, Fixed, Scope
from tilec.frontend.lowering.targets import bind, check_free
from tilec.frontend.lowering.values import Builtin, Scalar, Value, Word, hint, kind
from tilec.frontend.lowering.vocabulary import VOCABULARY
from tilec.frontend.lowering.whiles import repeat

_OVER = "a loop is over tile.grid, tile.range, tile.loop or range, or over a tuple"


@dataclass(frozen=True)
class Loop(Site):
    """A ``for`` over a word of `tile`: its node is the call."""

    statement: ast.For

    def variables(self, count: int, what: str) -> list[ast.Name]:
        """The names of the loop's variables, of which there are `count`."""
        target = self.statement.target
        nodes = target.elts if isinstance(target, ast.Tuple) else [target]
        found = [n for n in nodes if isinstance(n, ast.Name)]
        if len(found) < len(nodes):
            self.at(target).fail("the variables of a loop are names")
        if len(found) != count:
            self.at(target).fail(f"{what}, not {len(found)}")
        for name in found:
            check_free(self.frame, name)
        return found

    def _body(
        self, variables: Sequence[ast.Name], carried: Sequence[carry.Carried], fixed: dict[str, Fixed]
    ) -> tuple[Block, Scope]:
        """Lower the body into a block whose arguments are the variables (index) and what is carried."""

        def prepare(scope: Scope, block: Block) -> None:
            scope.fixed.update(fixed)
            for target, variable in zip(variables, block.args, strict=False):
                hint(variable, target.id)
                variable.location = self.at(target).loc
                scope.names[target.id] = Bound(Scalar(variable), target)
            carry.bind_arguments(scope, block, list(carried))

        types = [*(IndexType() for _ in variables), *(c.type for c in carried)]
        return lower(self.frame, self.statement.body, types, prepare)

    def independent(self, variables: Sequence[ast.Name]) -> Block:
        """The body of a loop whose turns hand nothing on."""
        fixed = {
            name: Fixed(
                f"{name} is assigned outside of this loop: a loop cannot change it",
                "the turns of tile.grid are independent: give it another name",
            )
            for name in carry.changed(self.frame, self.statement)
        }
        block, _ = self._body(variables, (), fixed)
        forget(self.frame, [self.statement], "this loop", keep=fixed)
        return block

    def carrying(
        self,
        variable: ast.Name,
        terminator: Callable[[Sequence[SSAValue]], Operation],
        make: Callable[[Region, Sequence[SSAValue]], Operation],
    ) -> None:
        """Make a loop of one variable that carries what its body changes."""
        carried, fixed = carry.carried(self, self.statement)
        block, scope = self._body([variable], carried, fixed)
        values = carry.next_values(self, carried, block, scope)
        inside(self.frame, block, lambda: self.emit(lambda: terminator(values)))
        op = self.emit(lambda: make(Region(block), [c.init for c in carried]))
        forget(self.frame, [self.statement], "this loop", keep=[*fixed, *(c.name for c in carried)])
        carry.bind_results(self.frame, carried, list(op.results))


def repeated(
    loop: Loop,
    variables: Sequence[ast.Name],
    own: Sequence[SSAValue],
    check: Callable[[Sequence[SSAValue]], SSAValue],
    enter: Callable[[Sequence[SSAValue]], Sequence[Value]],
    advance: Callable[[Sequence[SSAValue]], Sequence[SSAValue]],
) -> None:
    """An `scf.while` that counts with values of its own, of which `own` are the first.

    `check` makes the condition of a turn from them, `enter` the values of the loop's variables, and `advance` those of the
    next turn; each adds operations where they belong.
    """

    def bind_variables(scope: Scope, values: Sequence[SSAValue]) -> None:
        inner = replace(loop.frame, scope=scope)
        for variable, value in zip(variables, enter(values), strict=True):
            bind(inner, variable, value)

    repeat(loop, loop.statement, own, lambda scope, values: check(values), bind_variables, advance)


def counted(loop: Loop, start: Argument, stop: Argument, step: Argument) -> None:
    """An `scf.for`."""
    (variable,) = loop.variables(1, "a counted loop has one variable")
    if isinstance(step.value, int) and step.value < 1:
        step.fail(f"the step of a loop is at least 1, not {step.value}", "count up, and subtract inside")
    first, end, by = start.index(), stop.index(), step.index()
    loop.carrying(
        variable,
        lambda values: scf.YieldOp(*values),
        lambda region, inits: scf.ForOp(first, end, by, list(inits), region),
    )


def lower_for(frame: Frame, statement: ast.For) -> Returned | None:
    if statement.orelse:
        frame.site(statement.orelse[0]).fail("a loop of a kernel has no else", "write it behind the loop")
    site = frame.site(statement.iter)
    if not isinstance(statement.iter, ast.Call):
        return _written_out(frame, statement, site.evaluate(statement.iter))
    call = statement.iter
    match site.evaluate(call.func):
        case Word(name) if name in VOCABULARY.loops:
            callee = VOCABULARY.loops[name]
            callee.handler(Loop(frame, call, statement), **calls.bound(site, call, callee))
            return None
        case Builtin("range"):
            return _range(frame, statement, call)
        case function:
            return _written_out(frame, statement, calls.value_of(site, call, function))


def _range(frame: Frame, statement: ast.For, call: ast.Call) -> Returned | None:
    """Python's range: written out if all its bounds are known, counted at run time otherwise."""
    site = frame.site(call)
    arguments = calls.positional(site, call, "range")
    if call.keywords or not any(isinstance(a.value, Scalar) for a in arguments):
        return _written_out(frame, statement, builtin.call(site, "range", arguments, calls.named(site, call)))
    if len(arguments) > 3:
        site.fail(f"range takes at most 3 arguments, not {len(arguments)}")
    zero, one = Argument(frame, call, 0, "start"), Argument(frame, call, 1, "step")
    match arguments:
        case [stop]:
            counted(Loop(frame, call, statement), zero, stop, one)
        case [start, stop]:
            counted(Loop(frame, call, statement), start, stop, one)
        case _:
            start, stop, step = arguments
            counted(Loop(frame, call, statement), start, stop, step)
    return None


def _written_out(frame: Frame, statement: ast.For, values: Value) -> Returned | None:
    site = frame.site(statement.iter)
    if not isinstance(values, tuple):
        site.fail(f"a loop cannot run over {kind(values)}", _OVER)
    for value in values:
        site.write_out()
        bind(frame, statement.target, value)
        returned = frame.state.execute(frame, statement.body)
        if returned is not None:
            return returned
    return None
