"""Constants and constant expressions of PTX 4.5, against rules written here from its text and values that ptxas 13.0 assembled."""

from __future__ import annotations

import struct
from ctypes import c_int64, c_uint64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilec.backend.emulator.ptx.parser import parse_ptx
from tilec.backend.emulator.ptx.syntax import Float, Integer, Operand
from tilec.diagnostics import TilecError

MODULE = ".version 9.0\n.target sm_90a\n.address_size 64\n"


def operand(text: str) -> Operand:
    module = parse_ptx(f"{MODULE}.func f()\n{{\n.reg .b64 r;\nmov.b64 r, {text};\n}}\n", "f.ptx")
    body = module.functions["f"].body
    assert body is not None
    return body[0].operands[1]


def integer(text: str) -> int:
    found = operand(text)
    assert isinstance(found, Integer)
    return found.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("42", 42),
        ("42U", 42),
        ("0x2a", 42),
        ("0X2AU", 42),
        ("052", 42),
        ("0b101010", 42),
        ("0B11", 3),
        ("-1", -1),
        ("-1U", 2**64 - 1),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", 2**63),
        ("0xfabc123400000000", 0xFABC123400000000),
        ("-9223372036854775808", 2**63),
        ("WARP_SZ", 32),
        ("-WARP_SZ", -32),
    ],
)
def test_integer_literals(text: str, value: int) -> None:
    assert integer(text) == value


# What `ptxas` writes into the data of `.global .u64 x = ...`, as an unsigned number of 64 bits.
ASSEMBLED = {
    "(-1 & -1) >> 60": 2**64 - 1,
    "(-1 | 0) >> 60": 2**64 - 1,
    "(-1 ^ 0) >> 60": 2**64 - 1,
    "(5 % 3) - 6 >> 60": 0xF,
    "(~0) >> 60": 0xF,
    "-7 / 2": 2**64 - 3,
    "-7 % 4": 1,
    "1 << 64": 1,
    "1 << 65": 2,
    "-1 >> 100": 2**64 - 1,
    "1 << -1": 2**63,
    "-1 < 1U": 0,
    "-1 < 1": 1,
    "(.s64)0xffffffffffffffff < 1": 1,
    "(.u64)-1 >> 60": 0xF,
    "(1 ? -1 : 2U) >> 60": 2**64 - 1,
    "-9223372036854775808 / -1": 0,
    "-0x8000000000000000 >> 60": 8,
    "!5U - 1 >> 60": 2**64 - 1,
    "3 > 2 > 1": 0,
    "2 + 3 * 4 - 1 << 2 & 0xff | 1": 0x35,
    "WARP_SZ*2": 64,
    "-5U/2": 0x7FFFFFFFFFFFFFFD,
    "1.0 < 2.0": 1,
    "1 ? 2 ? 3 : 4 : 5": 3,
}


@pytest.mark.parametrize(("text", "bits"), ASSEMBLED.items())
def test_expressions_have_the_bits_that_ptxas_assembles(text: str, bits: int) -> None:
    assert integer(text) % 2**64 == bits


SIGNED = st.integers(-(2**63), 2**63 - 1)
OPERATORS = ("+", "-", "*", "/", "%", "<<", ">>", "<", ">", "<=", ">=", "==", "!=", "&", "^", "|", "&&", "||")


class Value:
    """A number of 64 bits with its sign rule, by the text of PTX 4.5.5."""

    def __init__(self, number: int, unsigned: bool) -> None:
        self.unsigned = unsigned
        self.number = c_uint64(number).value if unsigned else c_int64(number).value


def combined(operator: str, a: Value, b: Value) -> Value | None:
    """`a operator b`; None for a division by zero."""
    if operator == "&&" or operator == "||":
        truths = [a.number != 0, b.number != 0]
        return Value(all(truths) if operator == "&&" else any(truths), False)
    if operator == "<<":
        return Value(a.number * 2 ** (b.number % 64), a.unsigned)
    if operator == ">>":
        return Value(a.number // 2 ** (b.number % 64), a.unsigned)
    unsigned = a.unsigned or b.unsigned or operator == "%"
    x, y = Value(a.number, unsigned).number, Value(b.number, unsigned).number
    if operator in ("<", ">", "<=", ">=", "==", "!="):
        truth = {"<": x < y, ">": x > y, "<=": x <= y, ">=": x >= y, "==": x == y, "!=": x != y}
        return Value(truth[operator], False)
    if operator in ("/", "%") and y == 0:
        return None
    if operator == "/":
        quotient = abs(x) // abs(y)
        return Value(quotient if (x < 0) == (y < 0) else -quotient, unsigned)
    results = {"+": x + y, "-": x - y, "*": x * y, "&": x & y, "^": x ^ y, "|": x | y}
    return Value(x % y if operator == "%" else results[operator], unsigned)


@st.composite
def expressions(draw: st.DrawFn, depth: int = 4) -> tuple[str, Value] | None:
    """A fully parenthesised expression and its value; None if it divides by zero."""
    kind = draw(
        st.sampled_from(("literal", "unary", "cast", "binary", "binary", "binary", "choice") if depth else ("literal",))
    )
    if kind == "literal":
        number = draw(st.one_of(st.integers(0, 70), st.integers(0, 2**64 - 1)))
        suffix = draw(st.sampled_from(("", "U")))
        written = draw(st.sampled_from((str(number), hex(number), bin(number), f"0{number:o}")))
        return written + suffix, Value(number, bool(suffix) or number >= 2**63)
    first = draw(expressions(depth - 1))
    if first is None:
        return None
    text, value = first
    if kind == "unary":
        operator = draw(st.sampled_from("+-!~"))
        results = {
            "+": value,
            "-": Value(-value.number, value.unsigned),
            "!": Value(value.number == 0, False),
            "~": Value(-1 - value.number, True),
        }
        return f"{operator}({text})", results[operator]
    if kind == "cast":
        unsigned = draw(st.booleans())
        return f"(.{'u' if unsigned else 's'}64)({text})", Value(value.number, unsigned)
    second = draw(expressions(depth - 1))
    if second is None:
        return None
    if kind == "choice":
        third = draw(expressions(depth - 1))
        if third is None:
            return None
        return f"({text}) ? ({second[0]}) : ({third[0]})", second[1] if value.number else third[1]
    operator = draw(st.sampled_from(OPERATORS))
    result = combined(operator, value, second[1])
    return None if result is None else (f"({text}) {operator} ({second[0]})", result)


@given(expressions())
def test_integer_expressions_follow_the_64_bit_rules(pair: tuple[str, Value] | None) -> None:
    if pair is not None:
        text, value = pair
        assert integer(f"({text})") == value.number


@given(
    st.lists(st.tuples(st.sampled_from(("+", "-", "*", "<<", "&", "^", "|")), st.integers(0, 9)), max_size=6),
    st.integers(0, 9),
)
def test_precedence_and_associativity_are_those_of_c(tail: list[tuple[str, int]], first: int) -> None:
    # Python gives these operators the order of C; a result that needs more than 64 bits, or a negative shift, is out of its reach.
    text = str(first) + "".join(f" {operator} {number}" for operator, number in tail)
    try:
        expected = eval(text)  # of digits and operators only
    except ValueError:
        return
    if text.count("<<") <= 1 and abs(expected) < 2**63:
        assert integer(text) == expected


@pytest.mark.parametrize(
    ("text", "bits", "width"),
    [
        ("1.0", 0x3FF0000000000000, 64),
        ("1.", 0x3FF0000000000000, 64),
        (".5", 0x3FE0000000000000, 64),
        ("1e-5", struct.unpack("<Q", struct.pack("<d", 1e-5))[0], 64),
        ("-2.5E+1", 0xC039000000000000, 64),
        ("1.0 + 2.0 * 3.0", struct.unpack("<Q", struct.pack("<d", 7.0))[0], 64),
        ("1 ? 0.25 : 0.5", 0x3FD0000000000000, 64),
        ("0f3F800000", 0x3F800000, 32),
        ("0FfF800001", 0xFF800001, 32),
        ("0d7FF0000000000001", 0x7FF0000000000001, 64),
        ("0DfFF8000000000000", 0xFFF8000000000000, 64),
    ],
)
def test_floating_constants(text: str, bits: int, width: int) -> None:
    found = operand(text)
    assert isinstance(found, Float)
    assert (found.bits, found.width) == (bits, width)


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("09", 12, "malformed number '09'"),
        ("0x", 12, "malformed number '0x'"),
        ("0b12", 12, "malformed number '0b12'"),
        ("7u", 12, "malformed number '7u'"),
        ("0f3F8", 12, "malformed number '0f3F8'"),
        ("0d3FF0", 12, "malformed number '0d3FF0'"),
        ("1 / 0", 14, "division by zero in a constant expression"),
        ("1 % (2 - 2)", 14, "division by zero in a constant expression"),
        ("1.0 / 0.0", 16, "division by zero in a constant expression"),
        ("0x10000000000000000", 12, "the integer 0x10000000000000000 has more than 64 bits"),
        ("1e999", 12, "the constant 1e999 is too large for a double"),
        ("1 + 1.0", 14, "'+' of an integer and a floating constant"),
        ("1.0 & 2.0", 16, "'&' needs integers"),
        ("~1.0", 12, "'~' needs integers"),
        ("-0f3F800000", 12, "a constant 0f... cannot be negated"),
        ("0f3F800000 + 1.0", 23, "a constant 0f... cannot stand in an expression"),
        ("1 ? 2 : 3.0", 14, "both values of '?:' must be integers, or both floating"),
        ("(1 + 2", 18, "expected ')' after the expression in parentheses, not ';'"),
        ("1 +", 15, "expected a constant, not ';'"),
    ],
)
def test_what_is_no_constant_is_refused(text: str, column: int, message: str) -> None:
    with pytest.raises(TilecError) as caught:
        operand(text)
    first, *_ = str(caught.value).split("\n")
    assert first == f"f.ptx:7:{column}: error: {message}"
