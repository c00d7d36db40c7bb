"""What families of scalar instructions share: builders by type, and instructions that compute each lane from its own operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilec.backend.emulator.execution.decode import Decoder, instruction
from tilec.backend.emulator.execution.lanes import Execute, Lanes
from tilec.backend.emulator.numbers.types import Values

UNSIGNED = ("u16", "u32", "u64")
SIGNED = ("s16", "s32", "s64")
INTEGERS = (*UNSIGNED, *SIGNED)
BITS = ("b16", "b32", "b64")
PAIRS = ("u16x2", "s16x2")

TypedBuilder = Callable[[Decoder, str], Execute]


def typed(opcodes: str, types: Sequence[str]) -> Callable[[TypedBuilder], TypedBuilder]:
    """Registers a builder for each of the opcodes (separated by spaces) with each of the types as its next part: for opcodes
    that are another family's for other types. The builder is given the type."""

    def register(builder: TypedBuilder) -> TypedBuilder:
        for opcode in opcodes.split():
            for type in types:
                instruction(f"{opcode}.{type}")(_with_type(builder, type))
        return builder

    return register


def _with_type(builder: TypedBuilder, type: str) -> Callable[[Decoder], Execute]:
    def build(d: Decoder) -> Execute:
        return builder(d, type)

    build.__module__ = builder.__module__
    return build


def take_type(d: Decoder, types: Sequence[str]) -> str:
    """Consume the last modifier, one of `types`."""
    type = d.take_type()
    if type not in types:
        d.unsupported(f".{type} is no type of {d.instruction.parts[0]}")
    return type


Elementwise = (
    Callable[[Values], Any]
    | Callable[[Values, Values], Any]
    | Callable[[Values, Values, Values], Any]
    | Callable[[Values, Values, Values, Values], Any]
)
"""From the values of the operands, one for each lane or one for all, to those of the result."""


def elementwise(d: Decoder, function: Elementwise, result: str, *operands: str) -> Execute:
    """The first operand, of type `result`, becomes `function` of the others, of types `operands`. Refuses modifiers that are left."""
    d.finish()
    d.count(len(operands) + 1)
    write = d.writer(d.operands[0], result)
    readers = [d.reader(operand, type) for operand, type in zip(d.operands[1:], operands, strict=True)]
    compute: Callable[..., Any] = function
    match readers:
        case [a]:
            return lambda lanes: write(lanes, compute(a(lanes)))
        case [a, b]:
            return lambda lanes: write(lanes, compute(a(lanes), b(lanes)))
        case [a, b, c]:
            return lambda lanes: write(lanes, compute(a(lanes), b(lanes), c(lanes)))
        case _:

            def execute(lanes: Lanes) -> None:
                write(lanes, compute(*(read(lanes) for read in readers)))

            return execute


def parts_of(values: Values, dtype: np.dtype[Any]) -> Values:
    """Packed values, shape (lanes,) or (), as their elements: shape (lanes or 1, elements)."""
    return np.ascontiguousarray(values)[:, None].view(dtype)


def packed(parts: Values, dtype: np.dtype[Any]) -> Values:
    """The inverse of `parts_of`."""
    return np.ascontiguousarray(parts).view(dtype)[:, 0]
