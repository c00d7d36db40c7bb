"""Code objects of functions as text, to tell whether two are the same, in this process or another."""

from __future__ import annotations
import __future__

import functools
from collections.abc import Iterator
from inspect import CO_NEWLOCALS
from types import CodeType
from typing import cast

_FUTURES = functools.reduce(
    int.__or__, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
)


def code_text(code: CodeType) -> str:
    """What a code object does: its instructions, constants and names, and those of the code objects in it."""
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    constants = ",".join(map(_constant_text, code.co_consts))
    return f"{code.co_name} {counts} {names} {code.co_code.hex()} [{constants}]"


def _constant_text(value: object) -> str:
    match value:
        case CodeType():
            return code_text(value)
        case tuple():
            return f"({','.join(map(_constant_text, cast('tuple[object, ...]', value)))})"
        case frozenset():  # in an order that differs from process to process
            return f"{{{','.join(sorted(map(_constant_text, cast('frozenset[object]', value))))}}}"
        case _:
            return f"{type(value).__name__}:{value!r}"


def compiled(text: str, file: str, like: CodeType) -> CodeType | None:
    """The code object that the text of a file has in the place of `like`, by name and first line; None if it has none."""
    try:
        module = _compiled_file(text, file, like.co_flags & _FUTURES)
    except (SyntaxError, ValueError):
        return None
    found = (c for c in _nested(module) if c.co_name == like.co_name and c.co_firstlineno == like.co_firstlineno)
    return next(found, None)


def functions_around(text: str, file: str, like: CodeType) -> list[CodeType]:
    """The functions that `like` is defined in, innermost first, as the text of their file has them."""
    try:
        module = _compiled_file(text, file, like.co_flags & _FUTURES)
    except (SyntaxError, ValueError):
        return []
    return [code for code in _around(module, like) if code.co_flags & CO_NEWLOCALS]


def _around(code: CodeType, like: CodeType) -> list[CodeType]:
    """Code objects on the way from `code` down to one in the place of `like`, that one left out; none where there is no way."""
    for inner in (constant for constant in code.co_consts if isinstance(constant, CodeType)):
        if (inner.co_name, inner.co_firstlineno) == (like.co_name, like.co_firstlineno):
            return [code]
        if found := _around(inner, like):
            return [*found, code]
    return []


@functools.lru_cache(maxsize=8)
def _compiled_file(text: str, file: str, flags: int) -> CodeType:
    return compile(text, file, "exec", flags, dont_inherit=True)


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)
