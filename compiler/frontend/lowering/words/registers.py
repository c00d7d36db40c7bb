"""Register tiles: constants, conversions, and arithmetic element by element."""

from __future__ import annotations

from math import isfinite, isinf
from struct import pack, unpack

from xdsl.dialects.builtin import FloatAttr, f32

from tilec.dialects.tile import F32, AddOp, BroadcastOp, CastOp, DType, MaxOp, MulOp, RegType, SplatOp, SubOp
from tilec.frontend import tile
from tilec.frontend.lowering.arguments import Argument
from tilec.frontend.lowering.frame import Site
from tilec.frontend.lowering.values import Reg, Thing, kind
from tilec.frontend.lowering.vocabulary import method, operator, word
from tilec.frontend.lowering.words.operands import described, instead_of, shape_of, tile_of

_BELOW_HALVES = (1 << 12) - 1
"""Bits of an f32 that are 0 halfway between two f16, and between two bf16."""
_OPS = {"+": AddOp, "-": SubOp, "*": MulOp, "max": MaxOp}


@word("splat")
def splat(site: Site, *, value: Argument, shape: tuple[Argument, ...], dtype: Argument) -> Reg:
    extents, element = shape_of(site, "tile.splat", shape, dtype, "tile.splat(1.0, 128, 64, tile.f32)")
    number = _number(value)
    return _splat(site, number, site.guard(lambda: RegType.of(extents, element.type)))


@word("zeros")
def zeros(site: Site, *, shape: tuple[Argument, ...], dtype: Argument) -> Reg:
    extents, element = shape_of(site, "tile.zeros", shape, dtype, "tile.zeros(128, 64, tile.f32)")
    return _splat(site, 0.0, site.guard(lambda: RegType.of(extents, element.type)))


def _splat(site: Site, number: float, type: RegType) -> Reg:
    return Reg(site.emit(lambda: SplatOp(_rounded_once(number, type), type)).res)


def _rounded_once(number: float, type: RegType) -> float:
    """A number of f32, as splats hold it, that the element type rounds to what it rounds the given one to.

    The nearest f32 may be halfway between two elements while the number is on one side: the next f32 on that side is not.
    """
    nearest = FloatAttr(number, f32).value.data
    (bits,) = unpack("<I", pack("<f", nearest))
    if type.dtype == F32 or nearest == number or not isfinite(number) or bits & _BELOW_HALVES:
        return number
    (beside,) = unpack("<f", pack("<I", bits + 1 if abs(number) > abs(nearest) else bits - 1))
    return beside


def _number(argument: Argument) -> float:
    """A constant as splats hold it, in f32."""
    number = float(argument.number())
    if isfinite(number) and isinf(FloatAttr(number, f32).value.data):
        argument.fail(f"{number:g} is too large for f32", 'write float("inf") for infinity')
    return number


@word("cast")
def cast(site: Site, *, value: Argument, dtype: Argument) -> Reg:
    return _cast(site, tile_of(value, Reg), dtype.dtype())


@method(Reg, "to", tile.Reg.to)
def to(site: Site, value: Reg, *, dtype: Argument) -> Reg:
    return _cast(site, value, dtype.dtype())


def _cast(site: Site, value: Reg, dtype: DType) -> Reg:
    type = RegType.of(value.type.shape, dtype.type)
    return Reg(site.emit(lambda: CastOp(value.value, type)).res)


@word("broadcast")
def broadcast(site: Site, *, row: Argument, rows: Argument) -> Reg:
    one, count = tile_of(row, Reg), rows.integer()
    if len(one.type.shape) != 1:
        row.fail(f"row has one dimension, and this is {described(one)}")
    return _rows(site, one, rows.guard(lambda: RegType.of((count, *one.type.shape), one.type.element)))


def _rows(site: Site, row: Reg, type: RegType) -> Reg:
    return Reg(site.emit(lambda: BroadcastOp(row.value, type)).res)


@word("max")
def maximum(site: Site, *, a: Argument, b: Argument) -> Reg:
    if not isinstance(a.value, Thing) and not isinstance(b.value, Thing):
        site.fail(f"tile.max compares register tiles, not {kind(a.value)} and {kind(b.value)}", "of numbers, use max")
    return arithmetic(site, "max", a, b)


@operator(Reg)
def arithmetic(site: Site, symbol: str, left: Argument, right: Argument) -> Reg:
    """Both sides in one type: a number becomes a tile of it, and a row every row."""
    op = _OPS.get(symbol)
    if op is None:
        site.fail(f"register tiles have + - * and tile.max, not `{symbol}`", _INSTEAD.get(symbol))
    a, b = _together(site, left, right)
    return Reg(site.emit(lambda: op(a.value, b.value)).res)


_INSTEAD = {
    "/": "multiply by the inverse of a number: r * (1 / 3)",
    "//": "multiply by the inverse of a number: r * (1 / 3)",
    "**": "write the product: r * r",
    "min": "write 0.0 - tile.max(0.0 - a, 0.0 - b)",
}


def _together(site: Site, left: Argument, right: Argument) -> tuple[Reg, Reg]:
    match left.value, right.value:
        case Reg() as a, Reg() as b:
            return _same_type(site, a, b)
        case Reg() as a, _:
            return a, _splat(right, _operand(right), a.type)
        case _, Reg() as b:
            return _splat(left, _operand(left), b.type), b
        case _:
            return tile_of(left, Reg), tile_of(right, Reg)


def _operand(argument: Argument) -> float:
    value = argument.value
    if not isinstance(value, int | float) or isinstance(value, bool):
        argument.fail(
            f"register tiles are computed with each other and with numbers known at compile time, not with {kind(value)}",
            instead_of(Reg, value),
        )
    return _number(argument)


def _same_type(site: Site, a: Reg, b: Reg) -> tuple[Reg, Reg]:
    if a.type.dtype != b.type.dtype:
        site.fail(
            f"{described(a)} and {described(b)}: their element types differ",
            f"convert one of them, as in x.to(tile.{max(a.type.dtype, b.type.dtype, key=lambda d: d.bytes).name})",
        )
    if a.type.shape[1:] == b.type.shape:
        return a, _rows(site, b, a.type)
    if b.type.shape[1:] == a.type.shape:
        return _rows(site, a, b.type), b
    if a.type.shape != b.type.shape:
        site.fail(
            f"{described(a)} and {described(b)}: their shapes differ",
            "both have one shape, or one is a row as long as the other's rows",
        )
    return a, b
