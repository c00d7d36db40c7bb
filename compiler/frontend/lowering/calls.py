"""Calls: of words, of methods, of Python's own functions, and of helpers, which are lowered in place."""

from __future__ import annotations

import ast

from tilec.frontend.lowering import builtin, helpers, operators
from tilec.frontend.lowering.arguments import Argument, Bound, bind_stub, refuse_stars
from tilec.frontend.lowering.frame import Site, shown
from tilec.frontend.lowering.values import Builtin, Helper, Method, Thing, Value, Word, kind
from tilec.frontend.lowering.vocabulary import VOCABULARY, Callee


def call(site: Site, node: ast.Call) -> Value:
    """What a call gives; None where it is made for its effect."""
    return _called(site, node, site.evaluate(node.func))


def value(site: Site, node: ast.Call) -> Value:
    """What a call gives, which is wanted."""
    return value_of(site, node, site.evaluate(node.func))


def value_of(site: Site, node: ast.Call, function: Value) -> Value:
    """As `value`, of what is called."""
    result = _called(site, node, function)
    if result is None and isinstance(function, Word | Method):
        site.fail("this gives no value: write it as a statement of its own")
    return result


def _called(site: Site, node: ast.Call, function: Value) -> Value:
    match function:
        case Word():
            return _word(site, node, function)
        case Method():
            owner = function.owner
            assert isinstance(owner, Thing)
            callee = VOCABULARY.methods[type(owner), function.name]
            return callee.handler(site, owner, **bound(site, node, callee))
        case Builtin("min" | "max"):
            return _extremum(site, node, function)
        case Builtin():
            return builtin.call(site, function.name, positional(site, node, function.name), named(site, node))
        case Helper():
            return helpers.inline(site, node, function)
        case _:
            site.fail(f"`{shown(node.func)}` is {kind(function)}: it cannot be called")


def bound(site: Site, node: ast.Call, callee: Callee) -> Bound:
    """The arguments of a word or a method, by the names of its stub."""
    return bind_stub(site, node, callee.signature, shown(node.func))


def _word(site: Site, node: ast.Call, word: Word) -> Value:
    text = shown(node.func)
    if word.name in VOCABULARY.loops:
        site.fail(f"`{text}` is what a loop runs over", f"write `for ... in {text}(...):`")
    if word.name in VOCABULARY.scopes:
        site.fail(f"`{text}` is a block of its own", f"write `with {text}(...):`")
    callee = VOCABULARY.words.get(word.name)
    if callee is None:
        site.fail(f"`{text}` cannot be called in a kernel")
    return callee.handler(site, **bound(site, node, callee))


def positional(site: Site, node: ast.Call, name: str) -> list[Argument]:
    """The arguments of a function of Python that have no names."""
    return [Argument(site.frame, a, site.evaluate(a), f"the argument of {name}") for a in node.args]


def named(site: Site, node: ast.Call) -> dict[str, Argument]:
    """The arguments of a function of Python that have names."""
    given: dict[str, Argument] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            refuse_stars(site.at(keyword))
        given[keyword.arg] = Argument(
            site.frame, keyword.value, site.evaluate(keyword.value), f"argument {keyword.arg}"
        )
    return given


def _extremum(site: Site, node: ast.Call, function: Builtin) -> Value:
    """`min` and `max`, two at a time where something is known at run time only."""
    arguments = positional(site, node, function.name)
    if len(arguments) < 2 or node.keywords or not any(isinstance(a.value, Thing) for a in arguments):
        return builtin.call(site, function.name, arguments, named(site, node))
    result = arguments[0]
    for argument in arguments[1:]:
        if isinstance(result.value, Thing) or isinstance(argument.value, Thing):
            value = operators.combine(site, function.name, result, argument)
        else:
            value = builtin.call(site, function.name, [result, argument], {})
        result = Argument(site.frame, node, value, result.name)
    return result.value
