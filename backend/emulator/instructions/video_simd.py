"""SIMD video instructions: arithmetic on two halves or four bytes at a time (PTX 9.7.18.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilec.backend.emulator.execution.decode import Decoder, instruction
from tilec.backend.emulator.execution.lanes import Execute, Lanes
from tilec.backend.emulator.instructions.video import COMPARISONS, extended, limits, low_word, take_word_types
from tilec.backend.emulator.numbers.types import Values
from tilec.backend.emulator.ptx.syntax import Operand, Part

Elements = Callable[[Lanes], Values]


def _average(a: Values, b: Values) -> Values:
    total = a + b
    return total + (total >= 0) >> np.int64(1)


_PRIMARY: dict[str, Callable[[Any, Any], Any]] = {
    "vadd": np.add,
    "vsub": np.subtract,
    "vavrg": _average,
    "vabsdiff": lambda a, b: np.abs(a - b),
    "vmin": np.minimum,
    "vmax": np.maximum,
}


class _Shape:
    """Of how many elements of how many bits a register is made, and how selectors name them."""

    def __init__(self, d: Decoder) -> None:
        self.count = int(d.instruction.parts[0][-1])
        self.bits = 32 // self.count
        self.letter = "h" if self.count == 2 else "b"

    def elements(self, d: Decoder, operand: Operand, type: str, first: int) -> Elements:
        """Reads the elements that an operand's selector names, of the halves or bytes of both source registers: shape
        (lanes or 1, elements) of int64. Without a selector they are those from number `first` on."""
        selector = operand.selector if isinstance(operand, Part) else ""
        if isinstance(operand, Part) and operand.negated:
            d.unsupported(f"{d.instruction.parts[0]} takes no negated operands")
        chosen = [int(digit) for digit in reversed(selector[1:])] or list(range(first, first + self.count))
        fits = len(chosen) == self.count and max(chosen) < 2 * self.count and selector[:1] in ("", self.letter)
        if not fits:
            d.unsupported(f".{selector} does not select {self.count} of the {2 * self.count} elements")
        a, b = (d.reader(o.register if isinstance(o, Part) else o, "b32") for o in d.operands[1:3])
        bits, signed = self.bits, type == "s32"

        def read(lanes: Lanes) -> Values:
            sources = a(lanes), b(lanes)
            picked = [extended(sources[i // self.count], signed, bits, i % self.count * bits) for i in chosen]
            return np.stack(np.broadcast_arrays(*picked), axis=-1).reshape(-1, self.count)

        return read

    def written(self, d: Decoder) -> list[bool]:
        """Which elements the destination's mask names; all without one."""
        target = d.operands[0]
        selector = target.selector if isinstance(target, Part) else ""
        places = [int(digit) for digit in selector[1:]]
        if selector and (selector[0] != self.letter or sorted(set(places), reverse=True) != places):
            d.unsupported(f".{selector} is no mask of {self.count} elements")
        if any(place >= self.count for place in places):
            d.unsupported(f".{selector} is no mask of {self.count} elements")
        return [not selector or i in places for i in range(self.count)]


def _result(d: Decoder, shape: _Shape, type: str) -> Callable[[Lanes, Values], None]:
    """Writes elements (int64): limited if .sat is there; with .add their sum with the last operand, otherwise merged into it."""
    saturate, accumulate = d.take("sat") is not None, d.take("add") is not None
    d.finish()
    d.count(4)
    if saturate and accumulate:
        d.unsupported(".sat and .add exclude each other")
    mask, target = shape.written(d), d.operands[0]
    write = d.writer(target.register if isinstance(target, Part) else target, "b32")
    third = d.reader(d.operands[3], "b32")
    lowest, highest = limits(type == "s32", shape.bits)

    def finish(lanes: Lanes, elements: Values) -> None:
        if saturate:
            elements = np.clip(elements, lowest, highest)
        last = third(lanes)
        if accumulate:
            write(lanes, low_word(last.astype(np.int64) + elements[:, mask].sum(axis=1)))
            return
        total = np.zeros(1, np.int64)
        for i, named in enumerate(mask):
            element = elements[:, i] if named else extended(last, False, shape.bits, i * shape.bits)
            total = total | (element & np.int64((1 << shape.bits) - 1)) << np.int64(i * shape.bits)
        write(lanes, low_word(total))

    return finish


@instruction(*(f"{name}{count}" for name in _PRIMARY for count in (2, 4)))
def arithmetic(d: Decoder) -> Execute:
    shape = _Shape(d)
    result, a_type, b_type = take_word_types(d, 3)
    finish = _result(d, shape, result)
    a = shape.elements(d, d.operands[1], a_type, 0)
    b = shape.elements(d, d.operands[2], b_type, shape.count)
    operation = _PRIMARY[d.instruction.parts[0][:-1]]
    return lambda lanes: finish(lanes, operation(a(lanes), b(lanes)))


@instruction("vset2", "vset4")
def compare(d: Decoder) -> Execute:
    shape = _Shape(d)
    a_type, b_type = take_word_types(d, 2)
    name = d.take(*COMPARISONS)
    if name is None:
        d.unsupported("a comparison without an operator")
    if "sat" in d.modifiers:
        d.unsupported("a comparison does not saturate")
    finish = _result(d, shape, "u32")
    a = shape.elements(d, d.operands[1], a_type, 0)
    b = shape.elements(d, d.operands[2], b_type, shape.count)
    return lambda lanes: finish(lanes, COMPARISONS[name](a(lanes), b(lanes)).astype(np.int64))
