"""`mov` (PTX 9.7.9.3, 9.7.9.4): registers, constants, addresses, and packing and unpacking of vectors."""

from __future__ import annotations

import numpy as np

from tilec.backend.emulator.execution.decode import Decoder, instruction
from tilec.backend.emulator.execution.lanes import Execute, Lanes
from tilec.backend.emulator.instructions.typed import BITS, INTEGERS, take_type
from tilec.backend.emulator.ptx.syntax import Vector


@instruction("mov")
def mov(d: Decoder) -> Execute:
    type, vector = take_type(d, ("pred", *BITS, "b128", *INTEGERS, "f32", "f64")), d.take("v2", "v4")
    d.finish()
    d.count(2)
    if vector is not None:
        return _elements(d, type, int(vector[1]))
    vectors = sum(isinstance(operand, Vector) for operand in d.operands)
    if vectors and type[0] != "b":
        d.unsupported("packing and unpacking are for bit-size types")
    if vectors == 2:
        d.unsupported("a move from a vector to a vector without .v2 or .v4")
    write, read = d.writer(d.operands[0], type), d.reader(d.operands[1], type)

    def execute(lanes: Lanes) -> None:
        write(lanes, read(lanes))

    return execute


def _elements(d: Decoder, type: str, count: int) -> Execute:
    """Moves the elements of a vector register, or of a special register of four elements."""
    targets, sources = d.elements(d.operands[0]), d.elements(d.operands[1])
    if len(targets) != count or len(sources) != count:
        d.unsupported(f"a move of {count} elements between {len(sources)} and {len(targets)}")
    writers, readers = [d.writer(t, type) for t in targets], [d.reader(s, type) for s in sources]

    def execute(lanes: Lanes) -> None:
        # A register may be on both sides: all are read before one is written.
        values = [np.array(read(lanes)) for read in readers]
        for write, value in zip(writers, values, strict=True):
            write(lanes, value)

    return execute
