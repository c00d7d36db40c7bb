"""Extended-precision arithmetic with the carry flag CC.CF of each thread (PTX 9.7.2).

A subtraction adds the complement of what is taken away and a carry, as the hardware does: after `sub.cc` the flag is set if
nothing was borrowed, which an `addc` behind it sees.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.execution.cta import Cta
from tilec.backend.emulator.execution.decode import Decoder, instruction
from tilec.backend.emulator.execution.lanes import Execute, Lanes
from tilec.backend.emulator.instructions.multiply import product
from tilec.backend.emulator.instructions.typed import take_type
from tilec.backend.emulator.numbers.types import Values, dtype_of

_TYPES = ("u32", "s32", "u64", "s64")


class CarryFlags:
    """CC.CF of the threads of a CTA."""

    def __init__(self, cta: Cta) -> None:
        self.set: NDArray[np.bool_] = np.zeros(cta.padded, np.bool_)

    def at_exit(self) -> None:
        """A flag may be left as it is."""


def add_with_carry(a: Values, b: Values, carry: Values) -> tuple[Values, Values]:
    """The sum of unsigned integers and a carry (0 or 1), and the carry out of it, as bool."""
    first = a + b
    total = first + carry.astype(a.dtype)
    return total, (first < a) | (total < first)


_NONE, _ONE = np.array(False), np.array(True)


def _sum(
    d: Decoder, terms: Callable[[Lanes], tuple[Values, Values]], width: int, start: Values | None, keep: bool
) -> Execute:
    """Writes the sum of two unsigned terms and a carry: `start`, or the flag if that is None. With `keep` the flag is set."""
    d.finish()
    write = d.writer(d.operands[0], f"b{width}")

    def execute(lanes: Lanes) -> None:
        flags = lanes.cta.part(CarryFlags).set
        a, b = terms(lanes)
        total, carry = add_with_carry(a, b, flags[lanes.index] if start is None else start)
        write(lanes, total)
        if keep:
            flags[lanes.index] = carry

    return execute


@instruction("add.cc", "addc", "sub.cc", "subc")
def add_sub(d: Decoder) -> Execute:
    type = take_type(d, _TYPES)
    d.count(3)
    opcode, width = d.instruction.parts[0], int(type[1:])
    keep = opcode in ("add", "sub") or d.take("cc") is not None
    a, b = d.reader(d.operands[1], f"b{width}"), d.reader(d.operands[2], f"b{width}")
    if opcode.startswith("add"):
        return _sum(d, lambda lanes: (a(lanes), b(lanes)), width, None if opcode == "addc" else _NONE, keep)
    return _sum(d, lambda lanes: (a(lanes), ~b(lanes)), width, None if opcode == "subc" else _ONE, keep)


@instruction("mad.lo.cc", "mad.hi.cc", "madc")
def mad(d: Decoder) -> Execute:
    type = take_type(d, _TYPES)
    d.count(4)
    with_carry = d.instruction.parts[0] == "madc"
    mode = d.take("lo", "hi") if with_carry else d.instruction.parts[1]
    if mode is None:
        d.unsupported("a product without .lo or .hi")
    keep = not with_carry or d.take("cc") is not None
    multiply, width = product(mode, type), int(type[1:])
    unsigned = dtype_of(f"u{width}")
    a, b = d.reader(d.operands[1], type), d.reader(d.operands[2], type)
    c = d.reader(d.operands[3], f"b{width}")

    def terms(lanes: Lanes) -> tuple[Values, Values]:
        return multiply(a(lanes), b(lanes)).view(unsigned), c(lanes)

    return _sum(d, terms, width, None if with_carry else _NONE, keep)
