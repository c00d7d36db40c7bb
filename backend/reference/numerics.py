"""How numbers are stored and rounded: the one thing in which the machine and the exact meaning of a program differ."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tilec.dialects.tile import BF16, F16, F32, DType

Array = npt.NDArray[Any]


def round_bf16(values: Array) -> Array:
    """The nearest bf16 numbers (to even), as float32; float64 values are rounded to float32 first."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    # The carry must not walk a NaN's payload into its sign.
    result = np.where(bits & np.uint32(0x7FFFFFFF) > np.uint32(0x7F800000), np.uint32(0x7FC00000), rounded)
    return result.view(np.float32).reshape(np.shape(values))


class Numerics(Protocol):
    """Storage of a dtype, and the rounding into it."""

    def array_dtype(self, dtype: DType) -> np.dtype[Any]:
        """The NumPy dtype of arrays that hold values of `dtype`."""
        ...

    def round(self, values: Array, dtype: DType) -> Array:
        """`values` as numbers of `dtype`, to nearest even."""
        ...


_MACHINE_DTYPES = {F16: np.dtype(np.float16), BF16: np.dtype(np.float32), F32: np.dtype(np.float32)}


class Machine:
    """What the hardware stores. bf16 is kept in float32 arrays, since NumPy has no such type."""

    def array_dtype(self, dtype: DType) -> np.dtype[Any]:
        return _MACHINE_DTYPES[dtype]

    def round(self, values: Array, dtype: DType) -> Array:
        return round_bf16(values) if dtype is BF16 else values.astype(_MACHINE_DTYPES[dtype])


class Exact:
    """float64 throughout and nothing rounded on the way: what a result is compared with."""

    def array_dtype(self, dtype: DType) -> np.dtype[Any]:
        return np.dtype(np.float64)

    def round(self, values: Array, dtype: DType) -> Array:
        return values.astype(np.float64)
