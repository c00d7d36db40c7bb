"""Loops that run as long as a condition holds."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace

from xdsl.dialects import scf
from xdsl.ir import Block, Region, SSAValue

from tilec.frontend.lowering import builtin, carry, constants
from tilec.frontend.lowering.blocks import discard, forget, inside, lower, splice
from tilec.frontend.lowering.frame import Frame, Returned, Site, shown
from tilec.frontend.lowering.scope import Scope
from tilec.frontend.lowering.values import Scalar, kind


def lower_while(frame: Frame, statement: ast.While) -> Returned | None:
    if statement.orelse:
        frame.site(statement.orelse[0]).fail("a loop of a kernel has no else", "write it behind the loop")
    site = frame.site(statement.test)
    for _ in range(builtin.MAX_TURNS):
        block = Block()
        condition = inside(frame, block, lambda: site.evaluate(statement.test))
        if isinstance(condition, Scalar):
            discard(block)  # it is lowered again where the loop has it
            _at_run_time(site, statement)
            return None
        splice(frame, block)
        if not constants.truth(site, condition):
            return None
        site.write_out()
        returned = frame.state.execute(frame, statement.body)
        if returned is not None:
            return returned
    site.fail(
        f"`{site.text}` is still true after {builtin.MAX_TURNS} turns, each of which would be written out",
        "a loop at run time has a condition of run-time numbers, as those of tile.index(0)",
    )


def _at_run_time(site: Site, statement: ast.While) -> None:
    def check(scope: Scope, own: Sequence[SSAValue]) -> SSAValue:
        condition = replace(site.frame, scope=scope).evaluate(statement.test)
        if not isinstance(condition, Scalar) or not condition.is_condition:
            site.fail(f"`{shown(statement.test)}` is {kind(condition)}, and no condition", "compare it with a number")
        return condition.value

    repeat(site.at(statement), statement, (), check, lambda scope, own: None, lambda own: ())


def repeat(
    site: Site,
    statement: ast.For | ast.While,
    own: Sequence[SSAValue],
    check: Callable[[Scope, Sequence[SSAValue]], SSAValue],
    enter: Callable[[Scope, Sequence[SSAValue]], None],
    advance: Callable[[Sequence[SSAValue]], Sequence[SSAValue]],
) -> None:
    """An `scf.while` that carries values of its own, of which `own` are the first, and the names that its body changes.

    `check` makes the condition, `enter` prepares the scope of the body, and `advance` makes the own values of the next turn.
    """
    frame = site.frame
    carried, fixed = carry.carried(site, statement)
    inits = [*own, *(c.init for c in carried)]
    types = [v.type for v in inits]

    def bind_carried(scope: Scope, block: Block) -> Sequence[SSAValue]:
        scope.fixed.update(fixed)
        carry.bind_arguments(scope, block, carried)
        for first, argument in zip(own, block.args, strict=False):
            argument.name_hint = first.name_hint
        return block.args[: len(own)]

    def prepare_check(scope: Scope, block: Block) -> None:
        condition = check(scope, bind_carried(scope, block))
        site.emit(lambda: scf.ConditionOp(condition, *block.args))

    def prepare_body(scope: Scope, block: Block) -> None:
        enter(scope, bind_carried(scope, block))

    before, _ = lower(frame, (), types, prepare_check)
    after, scope = lower(frame, statement.body, types, prepare_body)
    values = carry.next_values(site, carried, after, scope)

    def finish() -> None:
        next_own = advance(after.args[: len(own)])
        site.emit(lambda: scf.YieldOp(*next_own, *values))

    inside(frame, after, finish)
    op = site.emit(lambda: scf.WhileOp(inits, types, Region(before), Region(after)))
    forget(frame, [statement], "this loop", keep=[*fixed, *(c.name for c in carried)])
    carry.bind_results(frame, carried, list(op.results[len(own) :]))
