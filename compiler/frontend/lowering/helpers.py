"""Helpers: Python functions from outside of a kernel, whose code is lowered where they are called."""

from __future__ import annotations

import ast
import inspect

from tilec.diagnostics import TilecError
from tilec.frontend import reads
from tilec.frontend.function import Function
from tilec.frontend.lowering import outside
from tilec.frontend.lowering.arguments import Argument, bind
from tilec.frontend.lowering.frame import Frame, Site, shown
from tilec.frontend.lowering.names import Liveness
from tilec.frontend.lowering.scope import Bound, Scope
from tilec.frontend.lowering.values import Helper, Value
from tilec.frontend.reads import Read


def inline(site: Site, node: ast.Call, helper: Helper) -> Value:
    """Lower a helper's body here, and give what it returns."""
    function = _read(site, node, helper)
    outside.record(site, Read(helper.within, helper.path, reads.helper(function)))
    _check_recursion(site, function)
    site.write_out()
    arguments = bind(site, node, _signature(site, function), shown(node.func))
    within = (*helper.within, helper.path)
    frame = Frame(site.state, function, Scope(), Liveness.of(function.tree), site, within)
    tree = function.tree.args
    for parameter in (*tree.posonlyargs, *tree.args, *tree.kwonlyargs):
        given = arguments.get(parameter.arg)
        if isinstance(given, Argument):
            value = given.value
        else:
            value = outside.default(frame.site(parameter), parameter.arg, function.defaults[parameter.arg])
        frame.scope.names[parameter.arg] = Bound(value, parameter)
    returned = site.state.execute(frame, function.tree.body)
    return None if returned is None else returned.value


def _read(site: Site, node: ast.Call, helper: Helper) -> Function:
    try:
        function = reads.read_helper(helper.callable)
    except TilecError as error:
        site.fail(
            f"`{shown(node.func)}` cannot be called in a kernel: {error.diagnostic.message}",
            "a kernel calls functions that are defined with def in a file, and lowers their code in place",
        )
    try:
        function.check_text()
    except TilecError as error:
        found = error.diagnostic
        raise TilecError(found.message, found.location, found.hint, (site.called_here, *site.notes)) from None
    return function


def _signature(site: Site, function: Function) -> inspect.Signature:
    arguments = function.tree.args
    for extra in (arguments.vararg, arguments.kwarg):
        if extra is not None:
            place = Frame(site.state, function, Scope(), Liveness(), site).site(extra)
            place.fail(f"a function that a kernel calls has no *{extra.arg}", "name each parameter")
    positional_only, either, named = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
    )
    kinds = ((positional_only, arguments.posonlyargs), (either, arguments.args), (named, arguments.kwonlyargs))
    defaults, none = function.defaults, inspect.Parameter.empty
    return inspect.Signature(
        [inspect.Parameter(p.arg, kind, default=defaults.get(p.arg, none)) for kind, nodes in kinds for p in nodes]
    )


def _check_recursion(site: Site, function: Function) -> None:
    chain = [frame.function for frame in site.frame.chain()]
    if any(f.callable.__code__ is function.callable.__code__ for f in chain):
        names = " -> ".join([*(f.name for f in reversed(chain)), function.name])
        site.fail(f"{function.name} calls itself ({names}): a kernel has no recursion", "write a loop")
