"""`redux.sync` (PTX 9.7.13.12): reductions over the lanes of a warp."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.execution.decode import Decoder, Together, instruction
from tilec.backend.emulator.execution.lanes import Lanes
from tilec.backend.emulator.numbers.types import dtype_of
from tilec.backend.emulator.synchronisation.warps import groups, members

Reduction = Callable[[NDArray[Any]], Any]
"""From the values of a group to one value of the same type."""

_INTEGER: dict[str, tuple[tuple[str, ...], Reduction]] = {
    "add": (("u32", "s32"), lambda v: v.sum(dtype=v.dtype)),
    "min": (("u32", "s32"), lambda v: v.min()),
    "max": (("u32", "s32"), lambda v: v.max()),
    "and": (("b32",), np.bitwise_and.reduce),
    "or": (("b32",), np.bitwise_or.reduce),
    "xor": (("b32",), np.bitwise_xor.reduce),
}
_CANONICAL_NAN = np.uint32(0x7FFFFFFF)


@instruction("redux.sync")
def redux(d: Decoder) -> Together:
    operation = d.take(*_INTEGER)
    if operation is None:
        d.unsupported("redux.sync is .add, .min, .max, .and, .or or .xor")
    type = d.take_type()
    types, reduce = _INTEGER[operation]
    if type == "f32" and operation in ("min", "max"):
        reduce = _floating(operation, magnitudes=d.take("abs") is not None, propagate=d.take("NaN") is not None)
        type = "b32"
    elif type not in types:
        d.unsupported(f"redux.sync.{operation} is not for .{type}")
    d.finish()
    d.count(3)
    write, read = d.writer(d.operands[0], type), d.reader(d.operands[1], type)
    read_mask = d.reader(d.operands[2], "u32")

    def execute(lanes: Lanes) -> None:
        group = members(lanes, read_mask(lanes))
        values = np.broadcast_to(read(lanes), (lanes.count,))
        found = np.empty(lanes.count, dtype_of(type))
        for _, positions in groups(lanes, group):
            found[positions] = reduce(values[positions])
        write(lanes, found)

    return Together(execute, "mask", read_mask)


def _floating(operation: str, *, magnitudes: bool, propagate: bool) -> Reduction:
    """Minimum or maximum of the bits of binary32 values: -0 is below +0; NaNs are left out unless `propagate` makes one the result."""

    def reduce(bits: NDArray[np.uint32]) -> np.uint32:
        if magnitudes:
            bits = bits & np.uint32(0x7FFFFFFF)
        nan = (bits & np.uint32(0x7FFFFFFF)) > 0x7F800000
        if nan.all() or (propagate and nan.any()):
            return _CANONICAL_NAN
        numbers = bits[~nan]
        # As integers, bits of negative numbers fall while their values rise: turned over, all bits are in the order of values.
        order = np.where(numbers >> 31 != 0, ~numbers, numbers | np.uint32(1 << 31))
        return numbers[int(order.argmin() if operation == "min" else order.argmax())]

    return reduce
