"""Integer arithmetic: the operations of `arith` on `index`, i32 and i1."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation

from tilec.backend.reference.cta import Cta, Handlers, bits_of
from tilec.diagnostics import fail

handlers = Handlers()

_UNSIGNED: dict[type[arith.SignlessIntegerBinaryOperation], Callable[[int, int], int]] = {
    arith.AddiOp: lambda a, b: a + b,
    arith.SubiOp: lambda a, b: a - b,
    arith.MuliOp: lambda a, b: a * b,
    arith.AndIOp: lambda a, b: a & b,
    arith.OrIOp: lambda a, b: a | b,
    arith.XOrIOp: lambda a, b: a ^ b,
    arith.MinUIOp: min,
    arith.MaxUIOp: max,
    arith.DivUIOp: lambda a, b: a // b,
    arith.CeilDivUIOp: lambda a, b: -(-a // b),
    arith.RemUIOp: lambda a, b: a % b,
    arith.ShLIOp: lambda a, b: a << b,
    arith.ShRUIOp: lambda a, b: a >> b,
}
_SIGNED: dict[type[arith.SignlessIntegerBinaryOperation], Callable[[int, int], int]] = {
    arith.MinSIOp: min,
    arith.MaxSIOp: max,
    arith.DivSIOp: lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    arith.RemSIOp: lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1),
    arith.FloorDivSIOp: lambda a, b: a // b,
    arith.CeilDivSIOp: lambda a, b: -(-a // b),
    arith.ShRSIOp: lambda a, b: a >> b,
}
_COMPARE: tuple[tuple[bool, Callable[[int, int], bool]], ...] = (
    (False, lambda a, b: a == b),
    (False, lambda a, b: a != b),
    (True, lambda a, b: a < b),
    (True, lambda a, b: a <= b),
    (True, lambda a, b: a > b),
    (True, lambda a, b: a >= b),
    (False, lambda a, b: a < b),
    (False, lambda a, b: a <= b),
    (False, lambda a, b: a > b),
    (False, lambda a, b: a >= b),
)
"""Whether signed, and the comparison, in the order of `arith.cmpi`'s predicates."""


def _binary(cta: Cta, op: arith.SignlessIntegerBinaryOperation) -> None:
    unsigned = _UNSIGNED.get(type(op))
    function = unsigned or _SIGNED[type(op)]
    read = cta.unsigned if unsigned else cta.signed
    if isinstance(op, arith.ShLIOp | arith.ShRUIOp | arith.ShRSIOp) and cta.unsigned(op.rhs) >= bits_of(op.lhs):
        fail(op, f"a shift of {bits_of(op.lhs)} bits by {cta.unsigned(op.rhs)}")
    try:
        cta.set_integer(op.result, function(read(op.lhs), read(op.rhs)))
    except ZeroDivisionError:
        fail(op, "division by zero")


for _op in (*_UNSIGNED, *_SIGNED):
    handlers.of(_op)(_binary)


@handlers.of(arith.ConstantOp)
def _constant(cta: Cta, op: arith.ConstantOp) -> None:
    if not isinstance(op.value, IntegerAttr):
        fail(op, f"a constant of type {op.result.type}: scalars are integers and index")
    cta.set_integer(op.result, op.value.value.data)


@handlers.of(arith.CmpiOp)
def _cmpi(cta: Cta, op: arith.CmpiOp) -> None:
    signed, holds = _COMPARE[op.predicate.value.data]
    read = cta.signed if signed else cta.unsigned
    cta.set_integer(op.result, int(holds(read(op.lhs), read(op.rhs))))


@handlers.of(arith.SelectOp)
def _select(cta: Cta, op: arith.SelectOp) -> None:
    cta.values[op.result] = cta.values[op.lhs if cta.unsigned(op.cond) else op.rhs]


def _sign_extend(cta: Cta, op: Operation) -> None:
    """Sign-extend or truncate; index_cast does the one or the other."""
    cta.set_integer(op.results[0], cta.signed(op.operands[0]))


def _zero_extend(cta: Cta, op: Operation) -> None:
    cta.set_integer(op.results[0], cta.unsigned(op.operands[0]))


handlers[arith.IndexCastOp] = handlers[arith.ExtSIOp] = handlers[arith.TruncIOp] = _sign_extend
handlers[arith.ExtUIOp] = _zero_extend
