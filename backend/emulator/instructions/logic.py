"""Logic on bits and predicates (PTX 9.7.8.1 to 9.7.8.6)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilec.backend.emulator.execution.decode import Decoder, instruction
from tilec.backend.emulator.execution.lanes import Execute, Lanes
from tilec.backend.emulator.instructions.typed import BITS, elementwise, take_type
from tilec.backend.emulator.numbers.types import Values
from tilec.backend.emulator.ptx.syntax import Integer, Pair

OfBits = Callable[[tuple[Values, ...]], Values]

_BINARY: dict[str, np.ufunc] = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


@instruction("and", "or", "xor")
def binary(d: Decoder) -> Execute:
    type = take_type(d, ("pred", *BITS))
    return elementwise(d, _BINARY[d.instruction.parts[0]], type, type, type)


@instruction("not")
def complement(d: Decoder) -> Execute:
    type = take_type(d, ("pred", *BITS))
    return elementwise(d, np.invert, type, type)


@instruction("cnot")
def is_zero(d: Decoder) -> Execute:
    type = take_type(d, BITS)
    return elementwise(d, lambda a: (a == 0).astype(a.dtype), type, type)


def look_up(table: int, first: int = 0) -> OfBits:
    """The function of the bits from number `first` on that a truth table says. The number of a row is made of those bits, the
    first highest: there are 8 rows, 4 or 2."""
    size = 8 >> first
    ones = (1 << size) - 1
    if table == 0:
        return lambda bits: np.zeros_like(bits[0])
    if table == ones:
        return lambda bits: ~np.zeros_like(bits[0])
    if size == 2:
        return (lambda bits: bits[first]) if table == 2 else (lambda bits: ~bits[first])
    half = size // 2
    ones >>= half
    set_table, clear_table = table >> half, table & ones
    if_set, if_clear = look_up(set_table, first + 1), look_up(clear_table, first + 1)
    if set_table == clear_table:
        return if_set
    if set_table == clear_table ^ ones:
        return lambda bits: bits[first] ^ if_clear(bits)
    if clear_table == 0:
        return lambda bits: bits[first] & if_set(bits)
    if set_table == ones:
        return lambda bits: bits[first] | if_clear(bits)
    return lambda bits: (bits[first] & if_set(bits)) | (~bits[first] & if_clear(bits))


@instruction("lop3")
def lop3(d: Decoder) -> Execute:
    """Any function of three bits, by its truth table; with .and or .or, also whether any bit is set, joined with a predicate."""
    take_type(d, ("b32",))
    operation = d.take("and", "or")
    d.finish()
    d.count(5 if operation is None else 6)
    table = d.operands[4]
    if not isinstance(table, Integer) or not 0 <= table.value <= 255:
        d.unsupported("a truth table that is no constant from 0 to 255")
    function = look_up(table.value)
    a, b, c = (d.reader(operand, "b32") for operand in d.operands[1:4])
    if operation is None:
        write = d.writer(d.operands[0], "b32")
        return lambda lanes: write(lanes, function((a(lanes), b(lanes), c(lanes))))
    results = d.operands[0]
    if not isinstance(results, Pair):
        d.unsupported(f".{operation} without a predicate as the second result")
    write, write_predicate = d.writer(results.first, "b32"), d.writer(results.second, "pred")
    predicate, join = d.reader(d.operands[5], "pred"), _BINARY[operation]

    def execute(lanes: Lanes) -> None:
        value, other = function((a(lanes), b(lanes), c(lanes))), predicate(lanes)
        any_bit = np.asarray(join(value != 0, other))
        write(lanes, value)
        write_predicate(lanes, any_bit)

    return execute
