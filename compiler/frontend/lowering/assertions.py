"""``assert`` of what is known at compile time."""

from __future__ import annotations

import ast

from tilec.diagnostics import TilecError
from tilec.dialects.tile import DType
from tilec.frontend.lowering import constants
from tilec.frontend.lowering.frame import Frame, Site, shown
from tilec.frontend.lowering.values import Thing, Value, is_constant, kind


def lower(frame: Frame, statement: ast.Assert) -> None:
    """Stop at a condition that is false, with the message, or the condition itself, and the values in it."""
    site = frame.site(statement.test)
    holds = frame.evaluate(statement.test)
    if isinstance(holds, Thing):
        site.fail(
            f"`{site.text}` is {kind(holds)}: an assert is about what is known when the kernel is compiled",
            "tile.assume(A, dim=1, step=64, multiple=4) tells of the extents",
        )
    if constants.truth(site, holds):
        return
    message = f"`{site.text}` is false" if statement.msg is None else _message(frame.site(statement.msg))
    site.fail(f"assertion failed: {message}", _values(site))


def _message(site: Site) -> str:
    node = site.node
    if isinstance(node, ast.JoinedStr):
        return "".join(_part(site.at(part)) for part in node.values)
    assert isinstance(node, ast.expr)
    return text(site.evaluate(node), site)


def _part(site: Site) -> str:
    node = site.node
    if isinstance(node, ast.Constant):
        return str(node.value)
    assert isinstance(node, ast.FormattedValue)
    if node.format_spec is not None or node.conversion != -1:
        site.at(node.value).fail(
            "values in the message of an assert have no format", "write the name alone in the braces"
        )
    return text(site.evaluate(node.value), site.at(node.value))


def text(value: Value, site: Site) -> str:
    """A compile-time value as a message shows it."""
    if not is_constant(value):
        site.fail(f"`{site.text}` is {kind(value)}, which is not known at compile time")
    return value.name if isinstance(value, DType) else str(value)


def _values(site: Site) -> str | None:
    """The names in a condition, with their values."""
    names = {shown(n): n for n in ast.walk(site.node) if isinstance(n, ast.Name | ast.Attribute)}
    told = [f"{name} = {value}" for name, n in names.items() if (value := _known(site.at(n), n)) is not None]
    return f"here {', '.join(told)}" if told else None


def _known(site: Site, node: ast.expr) -> str | None:
    """The value of a name as text, where it has one and does not name it (as tile.f16 does)."""
    try:
        value = site.evaluate(node)
    except TilecError:  # behind an `and` or `or` that did not ask for it
        return None
    names_itself = isinstance(node, ast.Attribute) and isinstance(value, DType) and node.attr == value.name
    return None if names_itself or not is_constant(value) else text(value, site)
