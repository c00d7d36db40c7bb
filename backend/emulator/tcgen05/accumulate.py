"""Adding products to accumulators: exact sums, rounded once for each instruction (PTX 9.7.16.10)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_LOW, _HIGH = -(2**31), 2**31 - 1


def accumulate(
    d: str, product: NDArray[np.float64], held: NDArray[np.uint32] | None, *, shift: int = 0, saturate: bool = False
) -> NDArray[np.uint32]:
    """New cells of D: `held` * 2^-shift + `product`, without `held` (None) the product. `d` is f16, f32 or s32; an f16 takes
    the low half of its cell."""
    match d:
        case "s32":
            total = product if held is None else product + held.view(np.int32)
            # Sums of at most 64 products of bytes and 32 bits are integers that float64 holds.
            whole = total.astype(np.int64)
            if saturate:
                whole = np.clip(whole, _LOW, _HIGH)
            return whole.astype(np.uint32)
        case "f32":
            if held is not None:
                product = product + held.view(np.float32).astype(np.float64) * 2.0**-shift
            return product.astype(np.float32).view(np.uint32)
        case _:
            if held is not None:
                product = product + held.astype(np.uint16).view(np.float16).astype(np.float64) * 2.0**-shift
            return product.astype(np.float16).view(np.uint16).astype(np.uint32)
