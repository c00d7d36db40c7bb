"""Pieces of assembly that several tile operations share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self

from xdsl.dialects.builtin import I64, DenseArrayBase, IndexType, IntegerAttr, i64
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect

EFFECTS = (MemoryReadEffect(), MemoryWriteEffect())
"""Of every operation that touches storage, barriers or time: never merged, moved or dropped."""

Int = IntegerAttr[I64]
Ints = DenseArrayBase[I64]


def ints(values: Sequence[int]) -> Ints:
    return DenseArrayBase.from_list(i64, list(values))


def int_tuple(attr: Ints) -> tuple[int, ...]:
    return tuple(attr.get_values())


def parse_value(parser: Parser) -> SSAValue:
    """An operand whose type is the one it was defined with: tile operations never stand before their operands."""
    operand = parser.parse_unresolved_operand()
    values = parser.ssa_values.get(operand.operand_name, ())
    if operand.index >= len(values):
        parser.raise_error(f"%{operand.operand_name} is not defined here", operand.span)
    return values[operand.index]


def parse_indices(parser: Parser) -> list[SSAValue]:
    """`[%m, %k]`"""
    return parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parser.parse_operand(IndexType()))


def print_indices(printer: Printer, indices: Sequence[SSAValue]) -> None:
    printer.print_string("[")
    printer.print_list(indices, printer.print_ssa_value)
    printer.print_string("]")


def parse_optional_stage(parser: Parser) -> SSAValue | None:
    """`[%s]`, or nothing for a barrier of one stage."""
    if parser.parse_optional_punctuation("[") is None:
        return None
    stage = parser.parse_operand(IndexType())
    parser.parse_punctuation("]")
    return stage


def print_optional_stage(printer: Printer, stage: SSAValue | None) -> None:
    if stage is not None:
        print_indices(printer, [stage])


def parse_int_list(parser: Parser, delimiter: Parser.Delimiter) -> tuple[int, ...]:
    return tuple(
        parser.parse_comma_separated_list(
            delimiter, lambda: parser.parse_integer(allow_boolean=False, allow_negative=False)
        )
    )


def print_ints(printer: Printer, values: Sequence[int], open_: str, close: str) -> None:
    printer.print_string(f"{open_}{', '.join(map(str, values))}{close}")


class TileOp(IRDLOperation, ABC):
    """An operation whose own syntax is followed by its discardable attributes, if any: `tile.free %acc {note}`."""

    @classmethod
    @abstractmethod
    def parse_syntax(cls, parser: Parser) -> Self:
        """Everything between the name and the attributes."""

    @abstractmethod
    def print_syntax(self, printer: Printer) -> None:
        """Everything between the name and the attributes."""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        op = cls.parse_syntax(parser)
        op.attributes.update(parser.parse_optional_attr_dict())
        return op

    def print(self, printer: Printer) -> None:
        self.print_syntax(printer)
        printer.print_op_attributes(self.attributes)
