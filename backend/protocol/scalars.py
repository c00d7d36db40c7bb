"""Integer arithmetic of an abstract execution: exact on numbers, linear on counters and bounds, else a residue or unknown."""

from __future__ import annotations

import typing
from collections.abc import Callable

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerType
from xdsl.ir import Operation, SSAValue

from tilec.backend.protocol.machine import Machine, OutOfScope
from tilec.backend.protocol.state import State
from tilec.backend.protocol.values import INFINITY, UNKNOWN, Bound, Coordinate, Interval, Linear, Residue, Value

Binary = Callable[[Machine, State, Value, Value], Value]
_INDEX_BITS = 64


def bits_of(value: SSAValue) -> int:
    """Width of an integer or index."""
    return _INDEX_BITS if isinstance(value.type, IndexType) else typing.cast(IntegerType, value.type).bitwidth


_RANGE = 1 << 31
"""Numbers are 32 bits wide on the chip, an index too; what leaves them is not followed."""


def _fits(value: Value) -> Value:
    return UNKNOWN if isinstance(value, int) and not -_RANGE <= value < _RANGE else value


def _is_natural(m: Machine, s: State, value: Value) -> bool:
    """Whether unsigned operations take the number for what it is."""
    return isinstance(value, Residue) or m.interval(s, value).low >= 0


def binary(op: Operation, m: Machine, s: State, a: Value, b: Value) -> Value:
    """The result of an operation of `BINARY`."""
    if bits_of(op.operands[0]) == 1 and type(op) not in _BITWISE:
        return UNKNOWN
    if type(op) in _UNSIGNED and not (_is_natural(m, s, a) and _is_natural(m, s, b)):
        return UNKNOWN
    if type(op) in _DIVISIONS and b == 0:
        raise OutOfScope(op, "a division by zero")
    return _fits(BINARY[type(op)](m, s, a, b))


def _add(m: Machine, s: State, a: Value, b: Value) -> Value:
    match a, b:
        case int(), int():
            return a + b
        case ((Linear() | Coordinate()), int()):
            return a._replace(offset=a.offset + b)
        case int(), (Linear() | Coordinate()):
            return b._replace(offset=b.offset + a)
        case Residue(), int() if b >= 0:
            return Residue(a.modulus, (a.residue + b) % a.modulus)
        case int(), Residue() if a >= 0:
            return Residue(b.modulus, (b.residue + a) % b.modulus)
        case _:
            one, other = m.resolved(s, a), m.resolved(s, b)
            return UNKNOWN if (one, other) == (a, b) else _add(m, s, one, other)


def _sub(m: Machine, s: State, a: Value, b: Value) -> Value:
    b = m.resolved(s, b)
    return _add(m, s, a, -b) if isinstance(b, int) else UNKNOWN


def _mul(m: Machine, s: State, a: Value, b: Value) -> Value:
    match a, b:
        case int(), int():
            return a * b
        case Linear(), int() if b > 0 and a.base >= 0:
            return Linear(a.base, a.offset * b, a.scale * b)
        case int(), Linear():
            return _mul(m, s, b, a)
        case Residue(), int() if b > 0:
            return Residue(a.modulus * b, a.residue * b)
        case _:
            return 0 if 0 in (a, b) else _both_numbers(m, s, a, b, lambda x, y: x * y)


def _both_numbers(m: Machine, s: State, a: Value, b: Value, function: Callable[[int, int], int]) -> Value:
    a, b = m.resolved(s, a), m.resolved(s, b)
    return function(a, b) if isinstance(a, int) and isinstance(b, int) else UNKNOWN


def _rem(m: Machine, s: State, a: Value, b: Value) -> Value:
    a = m.resolved(s, a)
    if isinstance(b, int) and b > 0:
        if isinstance(a, int):
            return a % b
        known = m.residue(s, a)
        if known is not None and known.modulus % b == 0:
            return known.residue % b
    return UNKNOWN


def _div(m: Machine, s: State, a: Value, b: Value) -> Value:
    a = m.resolved(s, a)
    if isinstance(b, int) and b > 0:
        if isinstance(a, int):
            return a // b
        if isinstance(a, Linear) and a.base < 0 and a.scale == 1:
            return _quotient(m, ~a.base, b, a.offset)
        known = m.residue(s, a)
        if known is not None and known.modulus % b == 0 and known.modulus > b:
            return Residue(known.modulus // b, known.residue // b)
    return UNKNOWN


def _quotient(m: Machine, bound: int, divisor: int, addend: int) -> Value:
    """(bound + addend) // divisor, of which the tests of the bound itself decide."""
    name, parent, *_ = m.bounds[bound]
    if parent is not None or addend < 0:
        return UNKNOWN
    made = m.bound(Bound(f"({name} + {addend}) / {divisor}", bound, divisor, addend), Interval(0, INFINITY))
    return Linear(~made, 0, 1)


def _ceil_div(m: Machine, s: State, a: Value, b: Value) -> Value:
    return _div(m, s, _add(m, s, a, b - 1), b) if isinstance(b, int) and b > 0 else UNKNOWN


def _and(m: Machine, s: State, a: Value, b: Value) -> Value:
    if isinstance(a, int) and not isinstance(b, int):
        a, b = b, a
    if b == 0:
        return 0
    if isinstance(b, int) and not isinstance(a, int) and b & (b + 1) == 0:
        return _rem(m, s, a, b + 1)
    return _both_numbers(m, s, a, b, lambda x, y: x & y)


def _shift_left(m: Machine, s: State, a: Value, b: Value) -> Value:
    return _mul(m, s, a, 1 << b) if isinstance(b, int) and 0 <= b < 31 else UNKNOWN


def _shift_right(m: Machine, s: State, a: Value, b: Value) -> Value:
    return _div(m, s, a, 1 << b) if isinstance(b, int) and 0 <= b < 31 else UNKNOWN


def _numbers(function: Callable[[int, int], int]) -> Binary:
    return lambda m, s, a, b: _both_numbers(m, s, a, b, function)


BINARY: dict[type[Operation], Binary] = {
    arith.AddiOp: _add,
    arith.SubiOp: _sub,
    arith.MuliOp: _mul,
    arith.RemUIOp: _rem,
    arith.DivUIOp: _div,
    arith.CeilDivUIOp: _ceil_div,
    arith.AndIOp: _and,
    arith.OrIOp: _numbers(lambda x, y: x | y),
    arith.XOrIOp: _numbers(lambda x, y: x ^ y),
    arith.ShLIOp: _shift_left,
    arith.ShRUIOp: _shift_right,
    arith.MinUIOp: _numbers(min),
    arith.MaxUIOp: _numbers(max),
}

_BITWISE = (arith.AndIOp, arith.OrIOp, arith.XOrIOp)
_DIVISIONS = (arith.RemUIOp, arith.DivUIOp, arith.CeilDivUIOp)
_UNSIGNED = (*_DIVISIONS, arith.ShRUIOp, arith.MinUIOp, arith.MaxUIOp)

_MIRRORED = {4: 2, 5: 3, 8: 6, 9: 7}
"""Predicates of `arith.cmpi` that are others with exchanged operands: sgt, sge, ugt, uge."""


def compare(m: Machine, s: State, predicate: int, a: Value, b: Value, bits: int) -> bool:
    """One outcome of `arith.cmpi`; a copy of the state waits for the other if that is possible too."""
    if bits == 1 and predicate not in (0, 1):
        return m.free(s)  # true is -1 where it counts as signed
    if predicate == 0:
        return m.equal(s, a, b)
    if predicate == 1:
        return not m.equal(s, a, b)
    if predicate in _MIRRORED:
        predicate, a, b = _MIRRORED[predicate], b, a
    if predicate in (6, 7):
        a, b = _unsigned(m, s, a, bits), _unsigned(m, s, b, bits)
    return m.below(s, a, b) if predicate in (2, 6) else not m.below(s, b, a)


def _unsigned(m: Machine, s: State, value: Value, bits: int) -> Value:
    if isinstance(value, int):
        return value % (1 << bits)
    if m.interval(s, value).low >= 0:
        return value
    value = m.resolved(s, value)
    return value % (1 << bits) if isinstance(value, int) else UNKNOWN


def cast(op: Operation, value: Value) -> Value:
    """Casts keep a number where it has the same meaning in both widths."""
    if not isinstance(value, int):
        return value if bits_of(op.operands[0]) > 1 else UNKNOWN
    if bits_of(op.operands[0]) == 1 and not isinstance(op, arith.ExtUIOp):
        value = -value  # a signed bit
    bits = bits_of(op.results[0])
    if bits == 1:
        return value & 1
    if isinstance(op, arith.ExtUIOp) and value < 0:
        return UNKNOWN
    return value if -_RANGE <= value < min(_RANGE, 1 << bits - 1) else UNKNOWN
