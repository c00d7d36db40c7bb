"""The arithmetic that all matrix instructions share: what operands stand for, and products and sums of them, exact.

Hardware keeps fewer bits of a sum than this does; its order and rounding are not specified (PTX 9.7.14.5.14, 9.7.15.5.2): results
agree bit for bit where all partial sums are exact, as they are for integers of moderate size.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.numbers.exact import fma
from tilec.backend.emulator.numbers.narrow_floats import decode, decode_bf16, decode_tf32

RAW: dict[str, np.dtype[Any]] = {
    "f64": np.dtype(np.float64),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(np.uint16),
    "tf32": np.dtype(np.uint32),
    "e4m3": np.dtype(np.uint8),
    "e5m2": np.dtype(np.uint8),
    "s8": np.dtype(np.int8),
    "u8": np.dtype(np.uint8),
    "s4": np.dtype(np.uint8),
    "u4": np.dtype(np.uint8),
    "b1": np.dtype(np.uint8),
}
"""How operands of a type are seen in memory and registers; of less than 8 bits, by the byte that holds them."""
BITS = {"f64": 64, "f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1}
"""Of an operand."""
ACCUMULATORS: dict[str, np.dtype[Any]] = {
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "s32": np.dtype(np.int32),
}
_NAN: dict[str, NDArray[Any]] = {
    "f16": np.array(0x7FFF, np.uint16).view(np.float16),
    "f32": np.array(0x7FFFFFFF, np.uint32).view(np.float32),
}
"""The one NaN that a tensor core gives (measured on an H200)."""


def values(type: str, raw: NDArray[Any]) -> NDArray[np.float64]:
    """Operands as the numbers that they stand for. Those of less than a byte become neighbours along the last axis, lowest first."""
    match type:
        case "bf16":
            return decode_bf16(raw).astype(np.float64)
        case "tf32":
            return decode_tf32(raw).astype(np.float64)
        case "e4m3" | "e5m2":
            return decode(type, raw)
        case "s4" | "u4":
            nibbles = np.stack([raw & 15, raw >> 4], axis=-1).reshape(*raw.shape[:-1], -1).astype(np.int8)
            return (np.where(nibbles > 7, nibbles - 16, nibbles) if type == "s4" else nibbles).astype(np.float64)
        case "b1":
            return np.unpackbits(raw, axis=-1, bitorder="little").astype(np.float64)
        case _:
            return raw.astype(np.float64)


def products(a: NDArray[np.float64], b: NDArray[np.float64], operation: str | None = None) -> NDArray[np.float64]:
    """A * B^T for A (..., m, k) and B (..., n, k). `operation` on single bits: "and", or "xor", of which the set bits are counted."""
    both = a @ np.swapaxes(b, -1, -2)
    if operation == "xor":
        return a.sum(-1)[..., :, None] + b.sum(-1)[..., None, :] - 2 * both
    return both


def fused_doubles(a: NDArray[np.float64], b: NDArray[np.float64], c: NDArray[np.float64]) -> NDArray[np.float64]:
    """C + A * B^T of doubles: one fused multiply-add after the other along k; a NaN is handed on, made quiet (measured on an H200)."""
    total = c
    for k in range(a.shape[-1]):
        left, right = np.broadcast_to(a[..., :, None, k], c.shape), np.broadcast_to(b[..., None, :, k], c.shape)
        found = fma(left, right, total, "rn")
        for operand in (total, right, left):
            found = np.where(np.isnan(operand), _quiet(operand), found)
        total = found
    return total


def _quiet(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return (np.ascontiguousarray(values).view(np.uint64) | np.uint64(1 << 51)).view(np.float64)


def expanded(held: NDArray[np.float64], codes: NDArray[np.uint32], *, one_of_two: bool) -> NDArray[np.float64]:
    """A sparse operand (..., k) from the half of its elements that is held, (..., k / 2), and four bits of metadata for each group
    of neighbours, (..., groups): where the group's first and second half belong in it (two places of four), low bits first, or with
    `one_of_two` whether its one element belongs behind (0b1110) (PTX 9.7.14.6.1)."""
    if one_of_two:
        places = (codes == np.uint32(0b1110)).astype(np.intp)[..., None]
    else:
        places = np.stack([codes & np.uint32(3), codes >> np.uint32(2)], axis=-1).astype(np.intp)
    pieces = held.reshape(*places.shape, -1)
    dense = np.zeros((*codes.shape, 2 * places.shape[-1], pieces.shape[-1]))
    np.put_along_axis(dense, places[..., None], pieces, axis=-2)
    return dense.reshape(*codes.shape[:-1], -1)


def accumulate(
    type: str, product: NDArray[np.float64], c: NDArray[Any] | None, *, saturate: bool = False
) -> NDArray[Any]:
    """The products plus C (None: zero), rounded once into an accumulator of `type`; integers wrap around, or saturate."""
    if type == "s32":
        # Sums of products of an instruction are below 2^31: exact in float64.
        total = product.astype(np.int64) if c is None else product.astype(np.int64) + c
        if saturate:
            total = np.clip(total, -(2**31), 2**31 - 1)
        return total.astype(np.int32)
    total = (product if c is None else product + c.astype(np.float64)).astype(ACCUMULATORS[type])
    return np.where(np.isnan(total), _NAN[type], total)
