"""Pieces of assembly that several tile operations share."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IndexType, IntAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect

EFFECTS = (MemoryReadEffect(), MemoryWriteEffect())
"""Of every operation that touches storage, barriers or time: never merged, moved or dropped."""

Ints = DenseArrayBase


def ints(values: Sequence[int]) -> DenseArrayBase:
    return DenseArrayBase.from_list(i64, list(values))


def int_tuple(attr: DenseArrayBase) -> tuple[int, ...]:
    return tuple(int(v) for v in attr.get_values())


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


def parse_attributes(parser: Parser) -> dict[str, Attribute]:
    """An optional trailing `{...}`."""
    parsed = parser.parse_optional_attr_dict()
    return dict(parsed)


def as_ints(attr: ArrayAttr[IntAttr]) -> tuple[int, ...]:
    return tuple(a.data for a in attr)
