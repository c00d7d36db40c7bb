"""The types of PTX (5.2) as NumPy types.

Bits are held in registers as unsigned integers; a type says how an instruction sees them. bf16, tf32, the packed and the
narrow formats have no NumPy type: they are seen as bits, and formats.py converts them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[Any]
"""One value for each lane: shape (lanes,), or () for what all lanes share; (lanes, 2) of uint64 for b128, low half first."""

_BY_NAME: dict[str, np.dtype[Any]] = {
    "pred": np.dtype(np.bool_),
    **{f"{kind}{bits}": np.dtype(f"uint{bits}") for kind in "bu" for bits in (8, 16, 32, 64)},
    **{f"s{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "bf16": np.dtype(np.uint16),
    "tf32": np.dtype(np.uint32),
    **dict.fromkeys(("f16x2", "bf16x2", "u16x2", "s16x2", "u8x4", "s8x4", "e4m3x4", "e5m2x4"), np.dtype(np.uint32)),
    **dict.fromkeys(("e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "ue8m0x2", "e2m1x4"), np.dtype(np.uint16)),
    **dict.fromkeys(("e4m3", "e5m2", "e2m1x2"), np.dtype(np.uint8)),
    "f32x2": np.dtype(np.uint64),
}

BITS: dict[int, np.dtype[Any]] = {n: np.dtype(f"uint{n}") for n in (8, 16, 32, 64)}
"""The unsigned type of so many bits."""


def is_type(name: str) -> bool:
    return name in _BY_NAME or name == "b128"


def dtype_of(name: str) -> np.dtype[Any]:
    """The NumPy type by which a value of a PTX type is seen; b128 is a pair of uint64."""
    return np.dtype(np.uint64) if name == "b128" else _BY_NAME[name]


def bytes_of(name: str) -> int:
    """Bytes of a value of that type in memory."""
    return 16 if name == "b128" else _BY_NAME[name].itemsize


def is_signed(name: str) -> bool:
    return name.startswith("s")
