"""Register tiles: immutable values, computed element by element."""

from __future__ import annotations

from abc import ABC
from math import isinf

from xdsl.dialects.builtin import Float32Type, FloatAttr, f32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tilec.dialects.tile.assembly import TileOp, parse_value
from tilec.dialects.tile.types import RegType


def _parse_type(parser: Parser) -> RegType:
    parser.parse_punctuation(":")
    at = parser.pos
    type = parser.parse_type()
    if not isinstance(type, RegType):
        parser.raise_error("expected a register tile: !tile.reg<...>", at, parser.pos)
    return type


def _parse_f32(parser: Parser) -> float:
    """`-1.5`, `2`, `inf`, `-inf`, `nan`"""
    at = parser.pos
    negative = parser.parse_optional_punctuation("-") is not None
    name = parser.parse_optional_keyword("inf") or parser.parse_optional_keyword("nan")
    value = parser.parse_optional_float(allow_negative=False) if name is None else float(name)
    if value is None:
        value = float(
            parser.parse_integer(allow_boolean=False, allow_negative=False, context_msg=": a number, inf or nan")
        )
    if name is None and isinf(FloatAttr(value, f32).value.data):
        parser.raise_error(f"{value!r} is too large for f32: write inf", at, parser.pos)
    return -value if negative else value


def _float_text(value: float) -> str:
    """The shortest text that `_parse_f32` reads as the same number; MLIR wants a point before an exponent."""
    same = (t for digits in range(1, 10) if FloatAttr(float(t := f"{value:.{digits}g}"), f32).value.data == value)
    text = repr(float(next(same, "nan")))
    return text if "." in text else text.replace("e", ".0e")


@irdl_op_definition
class SplatOp(TileOp):
    """`%z = tile.splat 0.0 : !tile.reg<128x64xf16>`: every element is the constant."""

    name = "tile.splat"

    value_attr = prop_def(FloatAttr[Float32Type], prop_name="value")
    res = result_def(RegType)

    traits = traits_def(Pure())

    def __init__(self, value: float, type: Attribute):
        super().__init__(properties={"value": FloatAttr(value, f32)}, result_types=[type])

    @property
    def value(self) -> float:
        return self.value_attr.value.data

    @classmethod
    def parse_syntax(cls, parser: Parser) -> SplatOp:
        return SplatOp(_parse_f32(parser), _parse_type(parser))

    def print_syntax(self, printer: Printer) -> None:
        printer.print_string(f" {_float_text(self.value)} : ")
        printer.print_attribute(self.res.type)


class _Convert(TileOp, ABC):
    """`%b = op %a : type of b`"""

    value = operand_def(RegType)
    res = result_def(RegType)

    traits = traits_def(Pure())

    def __init__(self, value: SSAValue, type: Attribute):
        super().__init__(operands=[value], result_types=[type])

    @classmethod
    def parse_syntax(cls, parser: Parser):
        return cls(parse_value(parser), _parse_type(parser))

    def print_syntax(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.value)
        printer.print_string(" : ")
        printer.print_attribute(self.res.type)


@irdl_op_definition
class CastOp(_Convert):
    """`%h = tile.cast %r : !tile.reg<128x64xf16>`: another dtype, rounded to nearest even."""

    name = "tile.cast"

    def verify_(self) -> None:
        assert isinstance(self.value.type, RegType) and isinstance(self.res.type, RegType)
        if self.value.type.shape != self.res.type.shape:
            raise VerifyException("tile.cast keeps the shape")


@irdl_op_definition
class BroadcastOp(_Convert):
    """`%b = tile.broadcast %row : !tile.reg<128x64xf32>`: a row of 64 elements becomes every row."""

    name = "tile.broadcast"

    def verify_(self) -> None:
        assert isinstance(self.value.type, RegType) and isinstance(self.res.type, RegType)
        source, dest = self.value.type, self.res.type
        if source.element != dest.element or len(dest.shape) != 2 or source.shape != dest.shape[1:]:
            raise VerifyException("tile.broadcast takes a row of N elements to MxN of the same type")


class _Binary(TileOp, ABC):
    """`%c = op %a, %b`: element by element, in the operands' dtype."""

    lhs = operand_def(RegType)
    rhs = operand_def(RegType)
    res = result_def(RegType)

    traits = traits_def(Pure())

    def __init__(self, lhs: SSAValue, rhs: SSAValue):
        super().__init__(operands=[lhs, rhs], result_types=[lhs.type])

    def verify_(self) -> None:
        if not self.lhs.type == self.rhs.type == self.res.type:
            raise VerifyException(f"operands and result have one type, not {self.lhs.type} and {self.rhs.type}")

    @classmethod
    def parse_syntax(cls, parser: Parser):
        lhs = parse_value(parser)
        parser.parse_punctuation(",")
        return cls(lhs, parse_value(parser))

    def print_syntax(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list((self.lhs, self.rhs), printer.print_ssa_value)


@irdl_op_definition
class AddOp(_Binary):
    """`%c = tile.add %a, %b`"""

    name = "tile.add"


@irdl_op_definition
class SubOp(_Binary):
    """`%c = tile.sub %a, %b`"""

    name = "tile.sub"


@irdl_op_definition
class MulOp(_Binary):
    """`%c = tile.mul %a, %b`"""

    name = "tile.mul"


@irdl_op_definition
class MaxOp(_Binary):
    """`%c = tile.max %a, %b`: the larger element; a NaN operand gives the other one."""

    name = "tile.max"
