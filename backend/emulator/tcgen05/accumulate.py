"""Adding products to accumulators in tensor memory: exact sums, rounded once for each instruction (PTX 9.7.16.10)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.matrices import values as matrix_values


def accumulate(
    d: str, product: NDArray[np.float64], held: NDArray[np.uint32] | None, *, shift: int = 0, saturate: bool = False
) -> NDArray[np.uint32]:
    """New cells of D: `held` * 2^-shift + `product`, without `held` (None) the product. `d` is f16, f32 or s32; an f16 takes
    the low half of its cell."""
    c: NDArray[Any] | None = None
    if held is not None:
        narrow = held.astype(np.uint16) if d == "f16" else held
        c = narrow.view(matrix_values.ACCUMULATORS[d])
        if shift:
            c = c.astype(np.float64) * 2.0**-shift
    total = matrix_values.accumulate(d, product, c, saturate=saturate)
    return total.view(np.uint16).astype(np.uint32) if d == "f16" else total.view(np.uint32)
