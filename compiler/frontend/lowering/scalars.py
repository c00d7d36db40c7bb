"""Arithmetic at run time: `index` (offsets and extents), `i32` (phases) and `i1` (conditions), without sign."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerAttr, i1
from xdsl.ir import Attribute, Operation, SSAValue

from tilec.frontend.lowering.frame import Site
from tilec.frontend.lowering.values import Scalar, Value, is_condition, kind

_OPERATIONS: dict[str, Callable[[SSAValue, SSAValue], Operation]] = {
    "+": arith.AddiOp,
    "-": arith.SubiOp,
    "*": arith.MuliOp,
    "//": arith.DivUIOp,
    "%": arith.RemUIOp,
    "<<": arith.ShLIOp,
    ">>": arith.ShRUIOp,
    "&": arith.AndIOp,
    "|": arith.OrIOp,
    "^": arith.XOrIOp,
    "min": arith.MinUIOp,
    "cdiv": arith.CeilDivUIOp,
}
_LOGIC = ("&", "|", "^")
_PREDICATES = {"==": "eq", "!=": "ne", "<": "ult", "<=": "ule", ">": "ugt", ">=": "uge"}
_LARGER = arith.CMPI_COMPARISON_OPERATIONS.index("ugt")
_INSTEAD = {"/": "// divides whole numbers", "**": "multiply"}


def binary(site: Site, symbol: str, left: Value, right: Value) -> Scalar:
    """`left symbol right`, one of them a run-time scalar and the other one too or a compile-time integer.

    Beside Python's operators, `symbol` is "min", "max" or "cdiv", the quotient rounded up.
    """
    type = _common(site, symbol, left, right)
    if symbol not in _OPERATIONS and symbol != "max":
        site.fail(f"`{site.text}`: run-time numbers have no {symbol}", _INSTEAD.get(symbol))
    if is_condition(type) and symbol not in _LOGIC:
        site.fail(f"`{site.text}`: conditions have no {symbol}", "they have and, or, not, &, | and ^")
    if symbol in ("//", "%", "cdiv") and right == 0 and isinstance(right, int):
        site.fail(f"`{site.text}`: division by zero")
    if symbol in ("<<", ">>") and isinstance(right, int) and right >= 32:
        site.fail(f"`{site.text}` shifts by {right}: {_article(type)} has 32 bits")
    if symbol == "-" and (known := _known(left)) is not None and (less := _known(right)) is not None and known < less:
        site.fail(
            f"`{site.text}` is {known - less}, but run-time numbers have no sign", f"compute it without tile.{type}"
        )
    lhs, rhs = operand(site, left, type), operand(site, right, type)
    if symbol == "max":
        larger = site.emit(lambda: arith.CmpiOp(lhs, rhs, "ugt")).result
        return Scalar(site.emit(lambda: arith.SelectOp(larger, lhs, rhs)).result)
    return Scalar(site.emit(lambda: _OPERATIONS[symbol](lhs, rhs)).results[0])


def compare(site: Site, symbol: str, left: Value, right: Value) -> Scalar:
    """A condition of two run-time scalars, or of one and a compile-time integer."""
    type = _common(site, symbol, left, right)
    if symbol not in _PREDICATES or (is_condition(type) and symbol not in ("==", "!=")):
        site.fail(f"`{site.text}`: {_plural(type)} have no {symbol}")
    lhs, rhs = operand(site, left, type), operand(site, right, type)
    return Scalar(site.emit(lambda: arith.CmpiOp(lhs, rhs, _PREDICATES[symbol])).result)


def negation(site: Site, value: Scalar) -> Scalar:
    """`not value` of a condition."""
    if not value.is_condition:
        site.fail(f"`{site.text}`: not is for conditions, and this is {kind(value)}", "compare it with 0")
    one = site.constant(1, i1)
    return Scalar(site.emit(lambda: arith.XOrIOp(value.value, one)).result)


def unary(site: Site, symbol: str, value: Scalar) -> NoReturn:
    """No operator of one operand has a meaning without signs."""
    hint = "write `not` for a condition" if symbol == "~" and value.is_condition else None
    if symbol == "~" and not value.is_condition:
        hint = "write `phase ^ 1` for the other parity"
    site.fail(f"`{site.text}`: run-time numbers have no sign, and no {symbol} in front of them", hint)


def select(site: Site, condition: Scalar, then: Value, otherwise: Value) -> Scalar:
    """`then if condition else otherwise`: both are computed, one is taken."""
    if isinstance(then, Scalar) or isinstance(otherwise, Scalar):
        type = _common(site, "if", then, otherwise)
    else:
        type = type_of(site, then)
        if type_of(site, otherwise) != type:
            site.fail(f"`{site.text}` is {kind(then)} or {kind(otherwise)}: both are of one type")
    lhs, rhs = operand(site, then, type), operand(site, otherwise, type)
    return Scalar(site.emit(lambda: arith.SelectOp(condition.value, lhs, rhs)).result)


def type_of(site: Site, value: Value) -> Attribute:
    """The type of a scalar; that of a compile-time integer is index, that of a bool i1."""
    match value:
        case Scalar():
            return value.type
        case bool():
            return i1
        case int():
            return IndexType()
        case _:
            site.fail(f"`{site.text}`: {kind(value)} is no run-time number")


def operand(site: Site, value: Value, type: Attribute) -> SSAValue:
    """A scalar of the given type; compile-time integers and bools become constants."""
    if isinstance(value, Scalar):
        if value.type != type:
            site.fail(f"`{site.text}`: {_article(type)} is expected, not {kind(value)}", _conversion(type))
        return value.value
    if isinstance(value, bool) != is_condition(type) or not isinstance(value, int):
        site.fail(f"`{site.text}`: {_article(type)} is expected, not {kind(value)}")
    if value < 0:
        site.fail(
            f"`{site.text}`: {value} is negative, but run-time numbers have no sign",
            "subtract, or compare with what is not negative",
        )
    return site.constant(value, type)


def is_at_least_one(value: SSAValue) -> bool:
    """Whether this is known of a number, as of a constant, of `max(x, 1)` and of `x + 1`."""
    match value.owner:
        case arith.SelectOp(cond=SSAValue(owner=arith.CmpiOp() as larger)) as op:
            is_max = larger.predicate.value.data == _LARGER and (op.lhs, op.rhs) == (larger.lhs, larger.rhs)
            return is_max and (is_at_least_one(op.lhs) or is_at_least_one(op.rhs))
        case arith.AddiOp(lhs=left, rhs=right):
            return is_at_least_one(left) or is_at_least_one(right)
        case _:
            return (_known(Scalar(value)) or 0) >= 1


def _known(value: Value) -> int | None:
    """An integer that is known at compile time, even if it is a run-time number."""
    if isinstance(value, Scalar) and isinstance(value.value.owner, arith.ConstantOp):
        attribute = value.value.owner.value
        return attribute.value.data if isinstance(attribute, IntegerAttr) else None
    return value if isinstance(value, int) else None


def _common(site: Site, symbol: str, left: Value, right: Value) -> Attribute:
    """The type of an operation's operands, of which one at least is a run-time scalar."""
    types = [v.type for v in (left, right) if isinstance(v, Scalar)]
    if len(types) == 2 and types[0] != types[1]:
        what = "both values are" if symbol == "if" else f"the operands of {symbol} are"
        hint = None if any(map(is_condition, types)) else _conversion(types[1])
        site.fail(f"`{site.text}`: {what} of one type, not {kind(left)} and {kind(right)}", hint)
    return types[0]


def _conversion(type: Attribute) -> str | None:
    return None if is_condition(type) else f"begin with tile.{type}(...) where the other number comes from"


def _article(type: Attribute) -> str:
    return "a condition" if is_condition(type) else f"an {type}"


def _plural(type: Attribute) -> str:
    return "conditions" if is_condition(type) else "run-time numbers"
