"""Arithmetic of what is known at compile time: as in Python, within 64 bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from tilec.diagnostics import one_line
from tilec.dialects.tile import DType
from tilec.frontend.lowering.frame import Site
from tilec.frontend.lowering.values import Thing, Value, is_constant, kind

_MAX_BITS = 63
_MAX_VALUES = 4096
_Binary = Callable[[Any, Any], Any]
_NUMBERS: dict[str, _Binary] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "**": lambda a, b: a**b,
}
_BITS: dict[str, _Binary] = {
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
}
_COMPARISONS: dict[str, _Binary] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_UNARY: dict[str, Callable[[Any], Any]] = {"-": lambda a: -a, "+": lambda a: +a, "~": lambda a: ~a}


def checked(site: Site, value: Value) -> Value:
    """The value, if all integers in it fit into 64 bits, and it is no tuple of endlessly many."""
    seen, left = 0, [value]
    while left:
        one = left.pop()
        seen += 1
        if isinstance(one, tuple):
            left.extend(one)
        elif isinstance(one, int) and one.bit_length() > _MAX_BITS:
            _out_of_range(site)
        if seen + len(left) > _MAX_VALUES:
            site.fail(f"`{site.text}` is a tuple of more than {_MAX_VALUES} values")
    return value


def _out_of_range(site: Site) -> None:
    site.fail(f"`{site.text}` is out of range: an integer of a kernel has {_MAX_BITS} bits and a sign")


def binary(site: Site, symbol: str, left: Value, right: Value) -> Value:
    """`left symbol right` of two compile-time values; tuples can be joined."""
    if symbol == "+" and isinstance(left, tuple) and isinstance(right, tuple):
        return left + right
    whole = isinstance(left, int) and isinstance(right, int)
    numbers = isinstance(left, int | float) and isinstance(right, int | float)
    if not (whole if symbol in _BITS else numbers):
        of = "integers" if symbol in _BITS else "numbers"
        wrong = left if not isinstance(left, int if symbol in _BITS else int | float) else right
        site.fail(f"`{site.text}`: {symbol} is for {of}, not {kind(wrong)}")
    _check_growth(site, symbol, left, right)
    return _computed(site, lambda: (_BITS | _NUMBERS)[symbol](left, right))


def _check_growth(site: Site, symbol: str, left: Value, right: Value) -> None:
    """Refuse what would take longer to compute than anybody waits."""
    if not (isinstance(left, int) and isinstance(right, int)):
        return
    power = symbol == "**" and abs(left) > 1 and right > _MAX_BITS
    if power or (symbol == "<<" and left != 0 and right > _MAX_BITS):
        _out_of_range(site)


def unary(site: Site, symbol: str, operand: Value) -> Value:
    wanted = int if symbol == "~" else int | float
    if not isinstance(operand, wanted):
        site.fail(f"`{site.text}`: {symbol} is for {'integers' if symbol == '~' else 'numbers'}, not {kind(operand)}")
    return _computed(site, lambda: _UNARY[symbol](operand))


def compare(site: Site, symbol: str, left: Value, right: Value) -> bool:
    """A comparison of compile-time values; `is` and `is not` are for None, `in` and `not in` for tuples."""
    match symbol:
        case "is" | "is not":
            if left is not None and right is not None:
                site.fail(f"`{site.text}`: {symbol} is for None", "compare values with == or !=")
            return (left is right) == (symbol == "is")
        case "in" | "not in":
            if isinstance(left, Thing) or not isinstance(right, tuple) or not is_constant(right):
                if isinstance(right, tuple):
                    site.fail(
                        f"`{site.text}`: {symbol} is for what is known at compile time",
                        "compare with ==, and combine with or",
                    )
                site.fail(f"`{site.text}`: {symbol} looks into a tuple, not into {kind(right)}")
            return any(left is one or compare(site, "==", left, one) for one in right) == (symbol == "in")
        case "==" | "!=":
            # Words take the name of an element type for the type, so both are equal here too.
            return _COMPARISONS[symbol](_named(left), _named(right))
        case _:
            return bool(_computed(site, lambda: _COMPARISONS[symbol](left, right)))


def _named(value: Value) -> Value:
    """A value with the names of the element types in it."""
    if isinstance(value, tuple):
        return tuple(map(_named, value))
    return value.name if isinstance(value, DType) else value


def _computed(site: Site, compute: Callable[[], Any]) -> Value:
    try:
        value = compute()
    except (ArithmeticError, TypeError, ValueError) as error:
        site.fail(f"`{site.text}`: {one_line(error)}")
    if isinstance(value, complex):
        site.fail(f"`{site.text}` is a complex number")
    return cast("Value", value)


def truth(site: Site, value: Value) -> bool:
    """Whether a compile-time value counts as true, as in Python."""
    if isinstance(value, Thing):
        site.fail(f"`{site.text}` is {kind(value)}, which is neither true nor false")
    return bool(value)
