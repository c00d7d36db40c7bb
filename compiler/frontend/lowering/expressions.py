"""Expressions: what each node of the syntax tree gives."""

from __future__ import annotations

import ast
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from tilec.diagnostics import did_you_mean
from tilec.dialects.tile import DType
from tilec.frontend.lowering import calls, constants, operators, outside
from tilec.frontend.lowering.arguments import Argument, Slice
from tilec.frontend.lowering.frame import Frame, Site
from tilec.frontend.lowering.refusals import refuse
from tilec.frontend.lowering.scope import Bound, Lost
from tilec.frontend.lowering.values import Method, Module, Thing, Value, Word, kind
from tilec.frontend.lowering.vocabulary import VOCABULARY


def evaluate(frame: Frame, node: ast.expr) -> Value:
    """Lower an expression. Raises TilecError at the node that is wrong."""
    site = frame.site(node)
    handler = SUPPORTED.get(type(node))
    if handler is None:
        refuse(site)
    return constants.checked(site, handler(site, node))


def _constant(site: Site, node: ast.Constant) -> Value:
    if node.value is None or isinstance(node.value, bool | int | float | str):
        return node.value
    refuse(site)


def _name(site: Site, node: ast.Name) -> Value:
    found = site.frame.scope.find(node.id)
    if isinstance(found, Bound):
        return found.value
    if isinstance(found, Lost):
        site.fail(found.message, found.hint, site.at(found.node).note("it is set here"))
    _check_private(site, node.id)
    return outside.free_name(site, node.id)


def _check_private(site: Site, name: str) -> None:
    """Refuse a name that Python changes where it stands in a class."""
    around = site.frame.function.callable.__code__.co_qualname.split(".")
    classes = [outer for outer, inner in pairwise(around) if "<locals>" not in (outer, inner)]
    if classes and name.startswith("__") and not name.endswith("__"):
        read = f"_{classes[-1].lstrip('_')}{name}"
        site.fail(
            f"{name} is private here: in class {classes[-1]} Python reads {read} in its place", f"name it {name[1:]}"
        )


def _attribute(site: Site, node: ast.Attribute) -> Value:
    owner = site.evaluate(node.value)
    match owner:
        case Module():
            _check_private(site, node.attr)
            return outside.module_attribute(site, owner, node.attr)
        case Word():
            return outside.word_attribute(site, owner, node.attr)
        case Thing() if (type(owner), node.attr) in VOCABULARY.attributes:
            return VOCABULARY.attributes[type(owner), node.attr](site, owner)
        case Thing() if (type(owner), node.attr) in VOCABULARY.methods:
            return Method(owner, node.attr)
        case _:
            known = VOCABULARY.members(type(owner)) if isinstance(owner, Thing) else _constant_members(owner)
            hint = did_you_mean(node.attr, known) if known else None
            return _constant_attribute(site, owner, node.attr, hint)


def _constant_members(owner: Value) -> list[str]:
    return ["bits", "itemsize", "name"] if kind(owner) == "an element type" else []


def _constant_attribute(site: Site, owner: Value, name: str, hint: str | None) -> Value:
    if isinstance(owner, DType) and name in _constant_members(owner):
        return {"name": owner.name, "itemsize": owner.bytes, "bits": 8 * owner.bytes}[name]
    site.fail(f"{kind(owner)} has no attribute '{name}'", hint)


def _tuple(site: Site, node: ast.Tuple) -> Value:
    return tuple(site.evaluate(element) for element in node.elts)


def _subscript(site: Site, node: ast.Subscript) -> Value:
    owner = site.evaluate(node.value)
    items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if isinstance(owner, tuple):
        return _element(site, owner, items)
    handler = VOCABULARY.subscripts.get(type(owner)) if isinstance(owner, Thing) else None
    if handler is None:
        site.fail(f"{kind(owner)} cannot be indexed")
    return handler(site, owner, tuple(_item(site, item) for item in items))


def _element(site: Site, owner: tuple[Value, ...], items: list[ast.expr]) -> Value:
    if len(items) == 1 and isinstance(items[0], ast.Slice):
        bounds = (items[0].lower, items[0].upper, items[0].step)
        start, stop, step = (None if b is None else _argument(site, b, "a bound").integer() for b in bounds)
        if step == 0:
            site.fail("a slice's step is not 0")
        return owner[start:stop:step]
    if len(items) != 1:
        site.fail("a tuple has one index")
    at = _argument(site, items[0], "the index of a tuple").integer()
    if not -len(owner) <= at < len(owner):
        site.fail(f"`{site.text}`: the tuple has {len(owner)} elements")
    return owner[at]


def _item(site: Site, node: ast.expr) -> Argument | Slice:
    if not isinstance(node, ast.Slice):
        return _argument(site, node, "an index")
    if node.step is not None:
        site.at(node.step).fail("a slice of a tile has no step")
    start, stop = (None if b is None else _argument(site, b, "a bound") for b in (node.lower, node.upper))
    return Slice(site.frame, node, start, stop)


def _argument(site: Site, node: ast.expr, name: str) -> Argument:
    return Argument(site.frame, node, site.evaluate(node), name)


SUPPORTED: dict[type[ast.expr], Callable[[Site, Any], Value]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Tuple: _tuple,
    ast.BinOp: operators.binary,
    ast.UnaryOp: operators.unary,
    ast.Compare: operators.comparison,
    ast.BoolOp: operators.logic,
    ast.IfExp: operators.conditional,
    ast.Subscript: _subscript,
    ast.Call: calls.value,
}
