"""The parameters of a kernel: views with their types, and constants."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tilec.diagnostics import kind_of
from tilec.dialects.tile import DType, ViewType
from tilec.frontend.function import Parameter
from tilec.frontend.lowering import outside
from tilec.frontend.lowering.arguments import dtype_named
from tilec.frontend.lowering.frame import Frame, Site
from tilec.frontend.lowering.names import Liveness
from tilec.frontend.lowering.scope import Bound
from tilec.frontend.lowering.values import Facts, Value, View, Word, hint, kind
from tilec.frontend.reads import ABSENCE, Read, is_constant
from tilec.frontend.tile.annotation import ViewAnnotation

_SYMBOL = re.compile(r"[A-Za-wyz_][A-Za-wyz0-9_]*")
"""As in the text of a view's type, where x stands between extents."""
_AS_IN = 'write its extents, as in `A: tile.View["M", "K"]`'
Dims = list[int | str | None]


def bind_parameters(frame: Frame, dtypes: Sequence[str], constants: Mapping[str, object]) -> None:
    """Give each parameter its value: an argument of the kernel for a view, of these dtypes in order."""
    function = frame.function
    arguments = function.tree.args
    nodes = {n.arg: n for n in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    for parameter in function.parameters:  # first: extents of views may be constants
        if parameter.kind == "constant":
            site = frame.site(nodes[parameter.name])
            frame.scope.names[parameter.name] = Bound(_constant(site, parameter, constants), site.node)
    types = iter(dtypes)
    around = replace(frame, liveness=Liveness())  # annotations see no name that the body sets
    for parameter in function.parameters:
        if parameter.kind == "view":
            node = nodes[parameter.name]
            view = argument(frame.site(node), parameter.name, _view_type(around, node, next(types)))
            frame.scope.names[parameter.name] = Bound(view, node)


def _constant(site: Site, parameter: Parameter, constants: Mapping[str, object]) -> Value:
    value = constants[parameter.name]
    if not is_constant(value):
        site.fail(
            f"{parameter.name} is {kind_of(value)}: constants are numbers, strings, element types and tuples of them"
        )
    if not parameter.takes(value):
        site.fail(f"{parameter.name} is {kind_of(value)}, but its annotation is {parameter.annotation}")
    return outside.constant(site, value)


def argument(site: Site, name: str | None, type: ViewType) -> View:
    """A new argument of the kernel; without a name it gets that of the first assignment."""
    body = site.state.body
    value = body.insert_arg(type, len(body.args))
    value.location = site.loc
    hint(value, name)
    return View(value)


def _view_type(frame: Frame, parameter: ast.arg, given: str) -> ViewType:
    annotation = _unquoted(frame, parameter)
    evaluated = frame.function.annotations.get(parameter.arg)
    if not isinstance(annotation, ast.Subscript) or not (
        isinstance(evaluated, ViewAnnotation) or frame.evaluate(annotation.value) == Word("View")
    ):
        frame.site(annotation).fail(f"parameter {parameter.arg} is not annotated as a view", _AS_IN)
    dims: Dims = []
    dtype = dtype_named(frame.site(parameter), given)
    facts = Facts()
    nodes = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
    for node, value in zip(nodes, _items(frame, parameter.arg, nodes, evaluated), strict=True):
        match value:
            case DType():
                if value != dtype:
                    frame.site(node).fail(f"{parameter.arg} has elements of {value.name}, not of {given}")
            case Facts():
                facts = value
            case _:
                dims.append(extent(frame.site(node), value))
    return frame.site(annotation).guard(
        lambda: ViewType.of(dims, dtype.type, order=facts.order, align=facts.align, tail=facts.tail)
    )


def _unquoted(frame: Frame, parameter: ast.arg) -> ast.expr:
    """The annotation, read from a string if it is one; its nodes then stand where the string does."""
    annotation = parameter.annotation
    assert annotation is not None
    if not isinstance(annotation, ast.Constant) or not isinstance(annotation.value, str):
        return annotation
    try:
        inner = ast.parse(annotation.value, mode="eval").body
    except SyntaxError:
        frame.site(annotation).fail(f"parameter {parameter.arg} is not annotated as a view", _AS_IN)
    for node in ast.walk(inner):
        ast.copy_location(node, annotation)
    return inner


def _items(frame: Frame, parameter: str, nodes: Sequence[ast.expr], evaluated: object) -> Iterator[Value]:
    """What stands in the brackets of an annotation: what Python made of it where the function was defined, if it did.

    But the name of a constant parameter is that parameter, which has its value at a call.
    """
    if not isinstance(evaluated, ViewAnnotation) or len(evaluated.items) != len(nodes):
        yield from (_item(frame, node) for node in nodes)
        return
    for position, (node, item) in enumerate(zip(nodes, evaluated.items, strict=True)):
        if any(isinstance(one, ast.Name) and frame.scope.find(one.id) for one in ast.walk(node)):
            yield frame.evaluate(node)
        else:
            yield outside.annotated(frame.site(node), parameter, position, item)


def _item(frame: Frame, node: ast.expr) -> Value:
    """What a text in the brackets means now.

    A name without a value is a symbol: where annotations are not evaluated, formatters take the quotes off.
    """
    if isinstance(node, ast.Name) and frame.scope.find(node.id) is None and not frame.function.defines(node.id):
        setter = frame.function.setter(node.id)
        if setter is not None:
            frame.site(node).fail(
                f"this annotation is a text, which does not tell the value of {node.id} in {setter}",
                f'leave out `from __future__ import annotations`, or write "{node.id}" for a symbol',
            )
        outside.record(frame.site(node), Read((), node.id, ABSENCE))
        return node.id
    return frame.evaluate(node)


def extent(site: Site, value: Value) -> int | str | None:
    """An extent of a view: an integer, a symbol, or None for any."""
    if not isinstance(value, int | str) or isinstance(value, bool):
        site.fail(f"an extent is a symbol, an integer or '?', not {kind(value)}")
    if isinstance(value, str) and value != "?" and not _SYMBOL.fullmatch(value):
        site.fail(f"bad symbol '{value}': letters but x, digits and _, not a digit first")
    return None if value == "?" else value
