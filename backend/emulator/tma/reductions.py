"""What cp.reduce does to each element in memory (PTX 9.7.9.25.4.2, 9.7.9.27.1.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.numbers import combine

OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")

_BITWISE = dict.fromkeys(("and", "or", "xor"), ("b32", "b64"))
_COUNTING = dict.fromkeys(("inc", "dec"), ("u32",))
TO_GLOBAL: dict[str, tuple[str, ...]] = {
    "add": ("u32", "s32", "u64", "f32", "f64", "f16", "bf16"),
    **dict.fromkeys(("min", "max"), ("u32", "s32", "u64", "s64", "f16", "bf16")),
    **_COUNTING,
    **_BITWISE,
}
"""Types of cp.reduce.async.bulk by operation."""
TO_SHARED: dict[str, tuple[str, ...]] = {
    "add": ("u32", "s32", "u64"),
    **dict.fromkeys(("min", "max"), ("u32", "s32")),
    **_COUNTING,
    **dict.fromkeys(_BITWISE, ("b32",)),
}
THROUGH_MAP: dict[str, tuple[str, ...]] = {
    "add": ("u32", "s32", "u64", "f32", "f16", "bf16"),
    **dict.fromkeys(("min", "max"), ("u32", "s32", "u64", "s64", "f16", "bf16")),
    **_COUNTING,
    **dict.fromkeys(_BITWISE, ("u32", "s32", "u64", "s64")),
}
"""Element types of a tensor map by operation."""


@dataclass(frozen=True)
class Reduction:
    """``memory = combine(memory, source)`` for each element of `dtype`."""

    dtype: np.dtype[Any]
    combine: combine.Combine

    def apply(self, memory: NDArray[np.uint8], source: NDArray[np.uint8]) -> None:
        """Reduce bytes in place. Both have the same shape, elements contiguous along the last axis."""
        target = memory.view(self.dtype)
        target[...] = self.combine(np.ascontiguousarray(target), np.ascontiguousarray(source).view(self.dtype))


def reduction(operation: str, type: str) -> Reduction:
    """The reduction of elements of a PTX type by an operation that exists for it.

    Additions of f32 keep subnormal numbers, as an H200 does (the ISA says that they are flushed); those of f64 are the ones of
    atomic operations in global memory.
    """
    found = combine.find(operation, type, in_global=type == "f64")
    assert found is not None
    return Reduction(combine.ELEMENTS[type].dtype, found)
