"""The arguments of a call, as Python binds them: tensors for the views, values for the constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tilec.diagnostics import TilecError, did_you_mean, kind_of
from tilec.frontend.function import MISSING, Function, Parameter
from tilec.frontend.reads import is_constant

_INTEGER_BITS = 63
_OPTIONS = ("out", "stream", "max_ctas", "target")
"""Names that calls have for themselves."""


class Bound(NamedTuple):
    """One tensor for each view, and the value of each constant, in the order of the parameters."""

    inputs: tuple[Any, ...]
    constants: tuple[tuple[str, object], ...]


def check_names(function: Function) -> None:
    """Refuse parameters that a call could not name."""
    arguments = function.tree.args  # whether a kernel may have such parameters is asked when it is called as one
    for node in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        if node.arg in _OPTIONS:
            message = f"a kernel has no parameter {node.arg}: that is an option of the call"
            function.fail(node, message, "give the parameter another name")


def bind(function: Function, arguments: Sequence[Any], named: Mapping[str, Any]) -> Bound:
    """Raises TilecError, in the words of the function, for arguments that it does not take."""
    parameters = function.parameters
    positional = [p for p in parameters if not p.keyword_only]
    if len(arguments) > len(positional):
        raise _wrong_count(function, len(arguments))
    given: dict[str, Any] = {p.name: a for p, a in zip(positional, arguments, strict=False)}
    for name, value in named.items():
        if name not in {p.name for p in parameters}:
            raise _unknown(function, name)
        if name in given:
            raise TilecError(f"{function.name} got two values for {name}")
        given[name] = value
    views = [p.name for p in parameters if p.kind == "view"]
    if any(view not in given for view in views):
        raise _wrong_count(function, sum(view in given for view in views))
    constants = tuple((p.name, _constant(function, p, given)) for p in parameters if p.kind == "constant")
    return Bound(tuple(given[view] for view in views), constants)


def _constant(function: Function, parameter: Parameter, given: Mapping[str, Any]) -> object:
    value = given.get(parameter.name, parameter.default)
    if value is MISSING:
        raise TilecError(f"{function.name} needs a value for {parameter.name}", hint=f"pass {parameter.name}=...")
    if isinstance(value, int) and value.bit_length() > _INTEGER_BITS:
        raise TilecError(
            f"{parameter.name} of {function.name} is out of range: integers of a kernel have 63 bits and a sign"
        )
    if not parameter.takes(value) or not _is_constant(value):
        wanted = parameter.annotation.rpartition(".")[2]
        kind = "a compile-time value: int, float, bool, str, dtype" if wanted == "constexpr" else f"a constant {wanted}"
        plain = getattr(value, "item", None)  # a number of NumPy's
        hint = f"pass {parameter.name}={plain()!r}" if callable(plain) and getattr(value, "ndim", None) == 0 else None
        raise TilecError(f"{parameter.name} of {function.name} is {kind}, not {kind_of(value)}", hint=hint)
    return value


def _is_constant(value: object) -> bool:
    try:
        return is_constant(value)
    except RecursionError:
        return False


def _wrong_count(function: Function, count: int) -> TilecError:
    views = [p.name for p in function.parameters if p.kind == "view"]
    return TilecError(f"{function.name} takes {len(views)} tensors ({', '.join(views)}), not {count}")


def _unknown(function: Function, name: str) -> TilecError:
    known = [p.name for p in function.parameters]
    hint = did_you_mean(name, [*known, "out", "stream", "max_ctas"])
    return TilecError(f"{function.name} has no parameter '{name}'", hint=hint)
