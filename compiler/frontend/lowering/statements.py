"""Statements: assignments, assertions, calls and returns; loops, branches and `with` are handed on."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from tilec.frontend.lowering import assertions, branches, calls, loops, operators, whiles
from tilec.frontend.lowering.arguments import Argument
from tilec.frontend.lowering.blocks import With
from tilec.frontend.lowering.frame import Frame, Returned, shown
from tilec.frontend.lowering.refusals import refuse
from tilec.frontend.lowering.targets import bind
from tilec.frontend.lowering.values import Word
from tilec.frontend.lowering.vocabulary import VOCABULARY


def execute(frame: Frame, statements: Sequence[ast.stmt]) -> Returned | None:
    """Lower statements up to a return that is met; None if there is none."""
    for statement in statements:
        handler = SUPPORTED.get(type(statement))
        if handler is None:
            refuse(frame.site(statement))
        returned = handler(frame, statement)
        if returned is not None:
            return returned
    return None


def _nothing(frame: Frame, statement: ast.stmt) -> None:
    pass


def _expression(frame: Frame, statement: ast.Expr) -> None:
    match statement.value:
        case ast.Constant(value=value) if isinstance(value, str) or value is ...:
            pass  # a docstring, a remark, or a body that is still to be written
        case ast.Call() as call:
            calls.call(frame.site(call), call)
        case node:
            frame.evaluate(node)
            frame.site(node).fail(
                f"`{shown(node)}` has no effect: its value is not used", "give it a name, or leave it out"
            )


def _assign(frame: Frame, statement: ast.Assign) -> None:
    value = frame.evaluate(statement.value)
    for target in statement.targets:
        bind(frame, target, value)


def _annotated(frame: Frame, statement: ast.AnnAssign) -> None:
    if statement.value is not None:
        bind(frame, statement.target, frame.evaluate(statement.value))


def _augmented(frame: Frame, statement: ast.AugAssign) -> None:
    site = frame.site(statement)
    if not isinstance(statement.target, ast.Name):
        bind(frame, statement.target, None)
        return
    read = ast.copy_location(ast.Name(statement.target.id, ast.Load()), statement.target)
    left = Argument(frame, read, frame.evaluate(read), "the left operand")
    right = Argument(frame, statement.value, frame.evaluate(statement.value), "the right operand")
    bind(frame, statement.target, operators.combine(site, operators.BINARY[type(statement.op)], left, right))


def _return(frame: Frame, statement: ast.Return) -> Returned:
    if frame.is_conditional:
        frame.site(statement).fail(
            "return is inside of a loop, a branch or a `with` that the GPU executes",
            "set a name there, and return at the end of the function",
        )
    return Returned(None if statement.value is None else frame.evaluate(statement.value), statement)


def _with(frame: Frame, statement: ast.With) -> None:
    _with_items(frame, statement, statement.items)


def _with_items(frame: Frame, statement: ast.With, items: Sequence[ast.withitem]) -> None:
    """Each item stands inside of the one before it."""
    if not items:
        frame.state.execute(frame, statement.body)
        return
    item, *others = items
    call = item.context_expr
    site = frame.site(call)
    function = frame.evaluate(call.func) if isinstance(call, ast.Call) else None
    if not isinstance(call, ast.Call) or not isinstance(function, Word) or function.name not in VOCABULARY.scopes:
        known = ", ".join(f"tile.{name}" for name in sorted(VOCABULARY.scopes))
        site.fail(f"`{site.text}` is no block of a kernel", f"a `with` is over {known}")
    if item.optional_vars is not None:
        frame.site(item.optional_vars).fail(f"`with {shown(call.func)}` gives no value", "leave out the `as`")
    callee = VOCABULARY.scopes[function.name]
    within = With(frame, call, statement, lambda inner: _with_items(inner, statement, others))
    callee.handler(within, **calls.bound(site, call, callee))


SUPPORTED: dict[type[ast.stmt], Callable[[Frame, Any], Returned | None]] = {
    ast.Pass: _nothing,
    ast.Expr: _expression,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.Assert: assertions.lower,
    ast.Return: _return,
    ast.For: loops.lower_for,
    ast.While: whiles.lower_while,
    ast.If: branches.lower_if,
    ast.With: _with,
}
