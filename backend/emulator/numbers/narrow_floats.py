"""Floating formats that NumPy does not have, decoded exactly by tables over all their codes (PTX 5.2.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Format:
    """A narrow format: sign, exponent and mantissa bits. `specials`: "ieee" has infinities and NaNs in the highest exponent, "nan"
    only NaN, in the highest code, "none" neither."""

    exponent: int
    mantissa: int
    bias: int
    specials: str
    signed: bool = True

    @property
    def bits(self) -> int:
        return self.signed + self.exponent + self.mantissa

    def value(self, code: int) -> float:
        """What a code stands for."""
        magnitude = code & ((1 << (self.exponent + self.mantissa)) - 1)
        exponent, mantissa = magnitude >> self.mantissa, magnitude & ((1 << self.mantissa) - 1)
        highest = (1 << self.exponent) - 1
        if self.specials == "ieee" and exponent == highest:
            found = np.nan if mantissa else np.inf
        elif self.specials == "nan" and magnitude == (1 << (self.exponent + self.mantissa)) - 1:
            found = np.nan
        elif exponent == 0 and self.mantissa:
            found = mantissa * 2.0 ** (1 - self.bias - self.mantissa)
        else:
            found = (1 + mantissa / (1 << self.mantissa)) * 2.0 ** (exponent - self.bias)
        return -found if self.signed and code >> (self.exponent + self.mantissa) & 1 else found


FORMATS = {
    "e4m3": Format(4, 3, 7, "nan"),
    "e5m2": Format(5, 2, 15, "ieee"),
    "e2m3": Format(2, 3, 1, "none"),
    "e3m2": Format(3, 2, 3, "none"),
    "e2m1": Format(2, 1, 1, "none"),
    "ue8m0": Format(8, 0, 127, "nan", signed=False),
    "ue4m3": Format(4, 3, 7, "nan", signed=False),
}

_TABLES = {name: np.array([f.value(code) for code in range(1 << f.bits)], np.float64) for name, f in FORMATS.items()}


def decode(format: str, codes: NDArray[Any]) -> NDArray[np.float64]:
    """Values of codes, one code in each element; bits above the format's are ignored."""
    table = _TABLES[format]
    return table[codes.astype(np.intp) & (len(table) - 1)]


def decode_bf16(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """bf16 is the upper half of f32."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def decode_tf32(bits: NDArray[np.uint32]) -> NDArray[np.float32]:
    """What a tensor core sees of a tf32 operand: the low 13 bits are ignored (PTX 9.7.14.5)."""
    return (bits & np.uint32(0xFFFFE000)).view(np.float32)
