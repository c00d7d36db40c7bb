"""Scalar video instructions: arithmetic on bytes, halves and words of registers (PTX 9.7.18.1).

Current chips have no such instructions: assemblers emit code for them. These follow the text of the ISA, also where that code
keeps fewer bits of an intermediate result before it is limited or compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilec.backend.emulator.execution.decode import Decoder, Reader, Writer, instruction
from tilec.backend.emulator.execution.lanes import Execute, Lanes
from tilec.backend.emulator.numbers.types import Values
from tilec.backend.emulator.ptx.syntax import Operand, Part

COMPARISONS: dict[str, np.ufunc] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_SECOND: dict[str, np.ufunc] = {"add": np.add, "min": np.minimum, "max": np.maximum}
_PRIMARY: dict[str, Callable[[Any, Any], Any]] = {
    "vadd": np.add,
    "vsub": np.subtract,
    "vabsdiff": lambda a, b: np.abs(a - b),
    "vmin": np.minimum,
    "vmax": np.maximum,
}
_SCALAR = ("", "b0", "b1", "b2", "b3", "h0", "h1")
_WORD = 0xFFFFFFFF


def take_word_types(d: Decoder, count: int) -> list[str]:
    """Consume the first `count` modifiers, each .u32 or .s32."""
    types = d.modifiers[:count]
    if len(types) < count or any(type not in ("u32", "s32") for type in types):
        d.unsupported(f"{d.instruction.parts[0]} without {count} types .u32 or .s32")
    del d.modifiers[:count]
    return types


def limits(signed: bool, bits: int) -> tuple[int, int]:
    """The least and the greatest integer of so many bits."""
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


def part_bits(selector: str) -> tuple[int, int]:
    """Width and lowest bit of what a selector names: a byte, a half, or the word."""
    width = {"": 32, "b": 8, "h": 16}[selector[:1]]
    return width, width * int(selector[1:] or 0)


def extended(values: Values, signed: bool, width: int, first: int = 0) -> Values:
    """Bits from `first` on of 32-bit values, extended by the sign or by zeros to int64."""
    shifted = values.astype(np.int64) << np.int64(64 - width - first)
    if signed:
        return shifted >> np.int64(64 - width)
    return (shifted.view(np.uint64) >> np.uint64(64 - width)).view(np.int64)


def low_word(values: Values) -> Values:
    return (values & np.int64(_WORD)).astype(np.uint32)


def _selected(d: Decoder, operand: Operand, type: str) -> Reader:
    """Reads ``a.b1``, ``a.h0`` or ``a``, extended to int64."""
    selector = operand.selector if isinstance(operand, Part) else ""
    if selector not in _SCALAR:
        d.unsupported(f".{selector} selects no byte and no half")
    width, first = part_bits(selector)
    read = d.reader(operand.register if isinstance(operand, Part) else operand, "b32")
    return lambda lanes: extended(read(lanes), type == "s32", width, first)


def _refuse_negated(d: Decoder) -> None:
    if any(isinstance(operand, Part) and operand.negated for operand in d.operands):
        d.unsupported(f"{d.instruction.parts[0]} takes no negated operands")


def _result(d: Decoder, type: str) -> Callable[[Lanes, Values], None]:
    """Writes an intermediate result (int64): limited if .sat is there, then combined with or merged into the last operand."""
    signed, target = type == "s32", d.operands[0]
    selector = target.selector if isinstance(target, Part) else ""
    if selector not in _SCALAR:
        d.unsupported(f".{selector} selects no byte and no half")
    saturate, second = d.take("sat") is not None, d.take(*_SECOND)
    d.finish()
    if selector and second:
        d.unsupported("a second operation and a part of the destination exclude each other")
    d.count(*((4,) if selector or second else (3, 4)))
    write: Writer = d.writer(target.register if isinstance(target, Part) else target, "b32")
    width, first = part_bits(selector)
    lowest, highest = limits(signed, width)
    third = d.reader(d.operands[3], "b32") if len(d.operands) == 4 else None
    mask = ((1 << width) - 1) << first

    def finish(lanes: Lanes, values: Values) -> None:
        if saturate:
            # The intermediate result has 34 bits where it is limited.
            values = np.clip(extended(values, True, 34), lowest, highest)
        if third is not None and second is not None:
            values = _SECOND[second](values, extended(third(lanes), signed, 32))
        elif third is not None:
            values = (values << np.int64(first) & np.int64(mask)) | third(lanes).astype(np.int64) & np.int64(
                _WORD & ~mask
            )
        write(lanes, low_word(values))

    return finish


@instruction(*_PRIMARY)
def arithmetic(d: Decoder) -> Execute:
    _refuse_negated(d)
    result, a_type, b_type = take_word_types(d, 3)
    finish = _result(d, result)
    a, b = _selected(d, d.operands[1], a_type), _selected(d, d.operands[2], b_type)
    operation = _PRIMARY[d.instruction.parts[0]]
    return lambda lanes: finish(lanes, operation(a(lanes), b(lanes)))


@instruction("vshl", "vshr")
def shift(d: Decoder) -> Execute:
    _refuse_negated(d)
    result, a_type, b_type = take_word_types(d, 3)
    mode = d.take("clamp", "wrap")
    if b_type != "u32" or mode is None:
        d.unsupported("a video shift needs a .u32 amount and .clamp or .wrap")
    finish = _result(d, result)
    a, b = _selected(d, d.operands[1], a_type), _selected(d, d.operands[2], b_type)
    operation = np.left_shift if d.instruction.parts[0] == "vshl" else np.right_shift

    def execute(lanes: Lanes) -> None:
        amount = b(lanes)
        amount = np.minimum(amount, np.int64(32)) if mode == "clamp" else amount & np.int64(31)
        finish(lanes, operation(a(lanes), amount))

    return execute


@instruction("vset")
def compare(d: Decoder) -> Execute:
    _refuse_negated(d)
    a_type, b_type = take_word_types(d, 2)
    name = d.take(*COMPARISONS)
    if name is None:
        d.unsupported("a comparison without an operator")
    if "sat" in d.modifiers:
        d.unsupported("a comparison does not saturate")
    finish = _result(d, "u32")
    a, b = _selected(d, d.operands[1], a_type), _selected(d, d.operands[2], b_type)
    return lambda lanes: finish(lanes, np.asarray(COMPARISONS[name](a(lanes), b(lanes))).astype(np.int64))


@instruction("vmad")
def multiply_add(d: Decoder) -> Execute:
    """``a * b + c``, of which one product or `c` may be negated, or with .po plus one; then scaled and limited.

    Whole registers count as signed words here, whatever their types: unlike the text, but so they do on an H200.
    """
    _, a_type, b_type = take_word_types(d, 3)
    plus_one, saturate, scale = d.take("po") is not None, d.take("sat") is not None, d.take("shr7", "shr15")
    d.finish()
    d.count(4)
    if isinstance(d.operands[0], Part):
        d.unsupported("vmad writes a whole register")
    negated = [isinstance(operand, Part) and operand.negated for operand in d.operands[1:]]
    negate_product = negated[0] != negated[1]
    if (plus_one and any(negated)) or (negate_product and negated[2]):
        d.unsupported("vmad negates either the product or the third operand, and neither with .po")
    signed = "s32" in (a_type, b_type) or negate_product or negated[2]
    write = d.writer(d.operands[0], "b32")
    a, b = _selected(d, d.operands[1], a_type), _selected(d, d.operands[2], b_type)
    c = _selected(d, d.operands[3], "s32")
    shift, (lowest, highest) = {None: 0, "shr7": 7, "shr15": 15}[scale], limits(signed, 32)
    flip, flip_third = np.int64(-negate_product), np.int64(-negated[2])
    one = np.int64(plus_one or negate_product or negated[2])

    def execute(lanes: Lanes) -> None:
        product = extended(a(lanes), True, 32) * extended(b(lanes), True, 32)
        total = (product ^ flip) + (c(lanes) ^ flip_third) + one
        if not signed and shift:
            total = (total.view(np.uint64) >> np.uint64(shift)).view(np.int64)
        else:
            total = total >> np.int64(shift)
        write(lanes, low_word(np.clip(total, lowest, highest) if saturate else total))

    return execute
