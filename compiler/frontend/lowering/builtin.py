"""Functions of Python that a kernel may call on what is known at compile time (`min` and `max` on run-time values too)."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, cast

from tilec.diagnostics import one_line
from tilec.frontend.lowering.arguments import Argument
from tilec.frontend.lowering.frame import Site
from tilec.frontend.lowering.values import Value, is_constant, kind

_CALLED: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "bool": bool,
    "divmod": divmod,
    "float": float,
    "int": int,
    "len": len,
    "max": max,
    "min": min,
    "round": round,
    "sum": sum,
    "tuple": tuple,
}
_ITERATED = ("range", "enumerate", "zip", "reversed")
_OF_ANY_TUPLE = ("len", "tuple", "enumerate", "zip", "reversed")
MAX_TURNS = 1024
"""Turns of a loop at compile time, whose body is written out once for each."""
_NAMES = {id(getattr(builtins, name)): name for name in (*_CALLED, *_ITERATED, "print", "isinstance", "type")}
INSTEAD: dict[str, str] = {
    "print": "a kernel prints nothing: to see its program, call it and print what its .ir() gives",
    "isinstance": "compare A.dtype or A.ndim",
    "type": "compare A.dtype or A.ndim",
}


def name_of(value: object) -> str | None:
    """The name of a function of Python that has a meaning in kernels, or that is refused by name."""
    return _NAMES.get(id(value))


def call(site: Site, name: str, arguments: Sequence[Argument], named: Mapping[str, Argument]) -> Value:
    """The value of a function of Python for compile-time arguments."""
    if name in INSTEAD:
        site.fail(f"a kernel cannot call {name}", INSTEAD[name])
    for argument in (*arguments, *named.values()):
        if not (is_constant(argument.value) or (name in _OF_ANY_TUPLE and isinstance(argument.value, tuple))):
            argument.fail(f"{name}(...) takes what is known at compile time, not {kind(argument.value)}")
    values = [cast("Any", a.value) for a in arguments]
    function = cast("Callable[..., Any]", getattr(builtins, name))
    try:
        result = function(*values, **{key: cast("Any", a.value) for key, a in named.items()})
        return turns(site, result) if name in _ITERATED else result
    except (TypeError, ValueError, OverflowError, ZeroDivisionError) as error:
        site.fail(f"`{site.text}`: {one_line(error)}")


def turns(site: Site, values: Iterable[Value]) -> tuple[Value, ...]:
    """What an iteration at compile time goes through."""
    found = tuple(islice(values, MAX_TURNS + 1))
    if len(found) > MAX_TURNS:
        site.fail(
            f"`{site.text}` has more than {MAX_TURNS} turns, each of which would be written out",
            "write tile.loop(start, stop, step) for a loop at run time",
        )
    return found
