"""Constants and constant expressions (PTX 4.5).

Where the rules leave something open, or text and table of PTX 4.5 differ, this does what ptxas 13.0 does: a remainder is of type
u64, shift counts are taken modulo 64, and '?:' leaves its values in their own types.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tilec.backend.emulator.ptx.lexer import Cursor, shown
from tilec.backend.emulator.ptx.syntax import Float, Integer

WARP_SIZE = 32
_INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[1-9][0-9]*)(U?)")
_DECIMAL = re.compile(r"(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][+-]?[0-9]+)?")
_EXACT = re.compile(r"0(?:[fF]([0-9a-fA-F]{8})|[dD]([0-9a-fA-F]{16}))")
_PRECEDENCE = {
    **dict.fromkeys(("*", "/", "%"), 10),
    **dict.fromkeys(("+", "-"), 9),
    **dict.fromkeys(("<<", ">>"), 8),
    **dict.fromkeys(("<", ">", "<=", ">="), 7),
    **dict.fromkeys(("==", "!="), 6),
    "&": 5,
    "^": 4,
    "|": 3,
    "&&": 2,
    "||": 1,
}
TERM = 10
"""The precedence of what stands between '+' and '-'."""
SHIFT = 8
"""The precedence above that of comparisons: for what stands in '<' and '>'."""

_COMPARE: dict[str, Callable[[int | float, int | float], bool]] = {
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}


@dataclass(frozen=True, slots=True)
class Constant:
    """The value of a constant expression. Of type f32, which only a literal ``0f...`` has, it is the bits."""

    value: int | float
    type: Literal["s64", "u64", "f64", "f32"]

    @property
    def is_integer(self) -> bool:
        return self.type in ("s64", "u64")

    def operand(self) -> Integer | Float:
        """As an operand of an instruction."""
        if self.type == "f64":
            return Float(struct.unpack("<Q", struct.pack("<d", self.value))[0], 64)
        return Float(int(self.value), 32) if self.type == "f32" else Integer(int(self.value))


def signed(value: int) -> Constant:
    """The low 64 bits of `value` as a constant of type s64."""
    return Constant((value + (1 << 63)) % (1 << 64) - (1 << 63), "s64")


def unsigned(value: int) -> Constant:
    """The low 64 bits of `value` as a constant of type u64."""
    return Constant(value % (1 << 64), "u64")


def starts_constant(text: str) -> bool:
    """Whether a token begins a constant expression, other than by a parenthesis or '!'."""
    return text[:1].isdigit() or text in ("-", "+", "~", "WARP_SZ") or (text[:1] == "." and text[1:2].isdigit())


def literal(cursor: Cursor) -> Constant:
    """Take a number or WARP_SZ."""
    text = cursor.peek()
    if match := _INTEGER.fullmatch(text):
        digits, suffix = match.groups()
        base = {"x": 16, "b": 2}.get(digits[1:2].lower(), 8 if digits[0] == "0" else 10)
        value = int(digits[2:] if base in (16, 2) else digits, base)
        if value >> 64:
            cursor.fail(f"the integer {text} has more than 64 bits")
        constant = Constant(value, "u64" if suffix or value >> 63 else "s64")
    elif match := _EXACT.fullmatch(text):
        single, double = match.groups()
        constant = (
            Constant(int(single, 16), "f32")
            if single
            else Constant(struct.unpack("<d", struct.pack("<Q", int(double, 16)))[0], "f64")
        )
    elif _DECIMAL.fullmatch(text):
        if math.isinf(value := float(text)):
            cursor.fail(f"the constant {text} is too large for a double", "write infinity as 0d7FF0000000000000")
        constant = Constant(value, "f64")
    elif text == "WARP_SZ":
        constant = Constant(WARP_SIZE, "s64")
    elif text[:1].isdigit() or text[:1] == ".":
        cursor.fail(f"malformed number {shown(text)}", _number_hint(text))
    else:
        cursor.fail(f"expected a constant, not {shown(text)}")
    cursor.at += 1
    return constant


def _number_hint(text: str) -> str:
    head = text[:2].lower()
    if head == "0f":
        return "a single is 0f and 8 hexadecimal digits"
    if head == "0d":
        return "a double is 0d and 16 hexadecimal digits"
    if head == "0b":
        return "a binary number is 0b and digits 0 and 1"
    if head == "0x":
        return "a hexadecimal number is 0x and digits 0 to 9 and a to f"
    if text.isdigit():
        return "a number that begins with 0 is octal: digits 0 to 7"
    return "write 42, 42U, 0x2A, 052, 0b101010, 4.2, 4.2e1, 0f42280000 or 0d4045000000000000"


def expression(cursor: Cursor, minimum: int = 0) -> Constant:
    """Take a constant expression of operators of at least the precedence `minimum`; 0 allows '?:' too."""
    left = _unary(cursor)
    while True:
        operator = cursor.peek()
        precedence = _PRECEDENCE.get(operator, 0)
        if precedence == 0 or precedence < minimum:
            break
        at = cursor.at
        cursor.at += 1
        left = _binary(cursor, at, operator, left, expression(cursor, precedence + 1))
    if minimum == 0 and cursor.peek() == "?":
        return _conditional(cursor, left)
    return left


def integer(cursor: Cursor, what: str, minimum: int = 0) -> int:
    """Take a constant expression whose value must be an integer; `what` says what it is for."""
    at = cursor.at
    constant = expression(cursor, minimum)
    if not constant.is_integer:
        cursor.fail(f"{what} must be an integer", at=at)
    return int(constant.value)


def _unary(cursor: Cursor) -> Constant:
    at, text = cursor.at, cursor.peek()
    if text == "(":
        cursor.at += 1
        if (cast := cursor.peek()) in (".s64", ".u64"):
            cursor.at += 1
            cursor.expect(")", f"the cast '({cast}'")
            value = _integer_of(cursor, at, f"({cast})", _unary(cursor))
            return signed(value) if cast == ".s64" else unsigned(value)
        inner = expression(cursor)
        cursor.expect(")", "the expression in parentheses")
        return inner
    if text not in ("+", "-", "!", "~"):
        return literal(cursor)
    cursor.at += 1
    operand = _unary(cursor)
    if text == "+":
        return operand
    if text == "-":
        if operand.type == "f32":
            cursor.fail("a constant 0f... cannot be negated", "set its uppermost bit, or write it in decimal", at=at)
        if operand.type == "f64":
            return Constant(-operand.value, "f64")
        return _wrap(-int(operand.value), operand.type)
    value = _integer_of(cursor, at, text, operand)
    return signed(int(value == 0)) if text == "!" else unsigned(~value)


def _integer_of(cursor: Cursor, at: int, operator: str, operand: Constant) -> int:
    if not operand.is_integer:
        cursor.fail(f"'{operator}' needs integers", at=at)
    return int(operand.value)


def _wrap(value: int, kind: str) -> Constant:
    return unsigned(value) if kind == "u64" else signed(value)


def _conditional(cursor: Cursor, condition: Constant) -> Constant:
    at = cursor.at
    test = _integer_of(cursor, at, "?:", condition)
    cursor.expect("?", "the condition")
    first = expression(cursor)
    cursor.expect(":", "the first value of '?:'")
    second = expression(cursor)
    chosen = first if test else second
    if first.is_integer != second.is_integer:
        cursor.fail("both values of '?:' must be integers, or both floating", at=at)
    return chosen


def _binary(cursor: Cursor, at: int, operator: str, left: Constant, right: Constant) -> Constant:
    if not (left.is_integer and right.is_integer):
        return _floating(cursor, at, operator, left, right)
    a, b = int(left.value), int(right.value)
    if operator in ("&&", "||"):
        return signed(int(bool(a and b) if operator == "&&" else bool(a or b)))
    if operator in ("<<", ">>"):
        return _wrap(a << b % 64 if operator == "<<" else a >> b % 64, left.type)
    kind = "u64" if operator == "%" or "u64" in (left.type, right.type) else "s64"
    a, b = int(_wrap(a, kind).value), int(_wrap(b, kind).value)
    if operator in _COMPARE:
        return signed(int(_COMPARE[operator](a, b)))
    if operator in ("/", "%") and b == 0:
        cursor.fail("division by zero in a constant expression", at=at)
    match operator:
        case "+":
            value = a + b
        case "-":
            value = a - b
        case "*":
            value = a * b
        case "/":
            value = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        case "%":
            value = a % b
        case "&":
            value = a & b
        case "^":
            value = a ^ b
        case _:
            value = a | b
    return _wrap(value, kind)


def _floating(cursor: Cursor, at: int, operator: str, left: Constant, right: Constant) -> Constant:
    if "f32" in (left.type, right.type):
        cursor.fail("a constant 0f... cannot stand in an expression", "write it in decimal, or as 0d...", at=at)
    if left.is_integer or right.is_integer:
        cursor.fail(
            f"'{operator}' of an integer and a floating constant", "write both as integers, or both as floats", at=at
        )
    a, b = left.value, right.value
    if operator in _COMPARE:
        return signed(int(_COMPARE[operator](a, b)))
    match operator:
        case "+":
            return Constant(a + b, "f64")
        case "-":
            return Constant(a - b, "f64")
        case "*":
            return Constant(a * b, "f64")
        case "/" if b != 0:
            return Constant(a / b, "f64")
        case "/":
            cursor.fail("division by zero in a constant expression", at=at)
        case _:
            cursor.fail(f"'{operator}' needs integers", at=at)
