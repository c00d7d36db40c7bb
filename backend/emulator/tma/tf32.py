"""Loads of single-precision elements as tf32: TMA rounds them, as an H200 was seen to do."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_CUT = np.uint32(13)
"""Bits of the mantissa that tf32 does not have."""
_HALF = np.uint32(1 << 12)
_MAGNITUDE = np.uint32(0x7FFFFFFF)
_INFINITY = np.uint32(0x7F800000)
_NAN = np.uint32(0x7FFFE000)


def between(bits: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Which values lie halfway between two tf32 numbers: to which of them TMA rounds is not known."""
    return (bits & np.uint32((1 << 13) - 1)) == _HALF


def rounded(bits: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The nearest tf32 numbers, of values of which none is halfway between two; NaN becomes one NaN."""
    nearest = (bits + _HALF) >> _CUT << _CUT
    return np.where((bits & _MAGNITUDE) > _INFINITY, _NAN, nearest)
