"""Matrices in shared memory as the tensor cores see them: swizzles, descriptors and canonical layouts.

Sources: PTX 9.7.15.5.1 (wgmma) and 9.7.16.4 (tcgen05); PTX 5.5.7 (swizzles). All layouts move units of 16 bytes, here called
chunks: a matrix is found by the numbers of its chunks, counted from the start of the CTA's shared window.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.tma.swizzle import SWIZZLE

Swizzle = Literal["none", "32B", "64B", "128B", "128B_ATOM_32B"]
Major = Literal["K", "MN"]

_WGMMA: tuple[Swizzle, ...] = ("none", "128B", "64B", "32B")
_TCGEN05: dict[int, Swizzle] = {0: "none", 1: "128B_ATOM_32B", 2: "128B", 4: "64B", 6: "32B"}
SPAN: dict[Swizzle, int] = {"none": 16, "32B": 32, "64B": 64, "128B": 128, "128B_ATOM_32B": 128}
"""Bytes of a row of the swizzled pattern."""


def swizzled(addresses: NDArray[np.int64], mode: Swizzle, base_offset: int = 0) -> NDArray[np.int64]:
    """Where a byte is held whose address would be `addresses` without the swizzle. The pattern is one of absolute addresses, its
    rows of 128 bytes counted from `base_offset`."""
    return SWIZZLE[mode](addresses, base_offset)


@dataclass(frozen=True)
class Descriptor:
    """A shared-memory matrix descriptor: `start`, `leading` (LBO) and `stride` (SBO) in bytes."""

    start: int
    leading: int
    stride: int
    base_offset: int
    swizzle: Swizzle


def decode_wgmma(bits: int) -> Descriptor | str:
    """The descriptor of a wgmma operand, or what is wrong with it (PTX 9.7.15.5.1.2.2)."""
    reserved = bits & ~(0x3FFF | 0x3FFF << 16 | 0x3FFF << 32 | 7 << 49 | 3 << 62)
    if reserved:
        return f"bits {_bit_names(reserved)} of the matrix descriptor 0x{bits:016x} must be 0"
    return _descriptor(bits, _WGMMA[bits >> 62])


def decode_tcgen05(bits: int) -> Descriptor | str:
    """The descriptor of a tcgen05 operand, or what is wrong with it (PTX 9.7.16.4.1)."""
    if (version := bits >> 46 & 7) != 1:
        return f"bits 46-48 of the matrix descriptor 0x{bits:016x} are {version}, not 1"
    if bits >> 52 & 1:
        return f"bit 52 of the matrix descriptor 0x{bits:016x} asks for an absolute leading dimension, which sm_103a alone has"
    reserved = bits & ~(0x3FFF | 0x3FFF << 16 | 0x3FFF << 32 | 7 << 46 | 7 << 49 | 7 << 61)
    if reserved:
        return f"bits {_bit_names(reserved)} of the matrix descriptor 0x{bits:016x} must be 0"
    swizzle = _TCGEN05.get(bits >> 61)
    if swizzle is None:
        return (
            f"bits 61-63 of the matrix descriptor 0x{bits:016x}: there is no swizzle {bits >> 61}; there are 0 (none), 1 (128B with "
            "32-byte atoms), 2 (128B), 4 (64B) and 6 (32B)"
        )
    return _descriptor(bits, swizzle)


def _descriptor(bits: int, swizzle: Swizzle) -> Descriptor:
    return Descriptor(
        (bits & 0x3FFF) << 4, (bits >> 16 & 0x3FFF) << 4, (bits >> 32 & 0x3FFF) << 4, bits >> 49 & 7, swizzle
    )


def _bit_names(mask: int) -> str:
    return ", ".join(str(bit) for bit in range(64) if mask >> bit & 1)


def chunks(descriptor: Descriptor, major: Major, mn: int, k: int, bits: int) -> NDArray[np.intp]:
    """The chunks of an operand of `mn` x `k` elements of `bits` bits each.

    K-major: shape (mn, bytes of a row / 16), a row of K after the other. MN-major: shape (k, bytes of a column / 16).
    """
    # Addresses that differ by a multiple of 1024 have the same place in every pattern.
    high = descriptor.start & ~1023
    low = Descriptor(
        descriptor.start & 1023, descriptor.leading, descriptor.stride, descriptor.base_offset, descriptor.swizzle
    )
    found = _relative_chunks(low, major, mn, k, bits) + (high >> 4)
    # 18 bits of an address reach the tensor core.
    return found if int(found.max(initial=0)) < 1 << 14 else found & 0x3FFF


@lru_cache(maxsize=1024)
def _relative_chunks(d: Descriptor, major: Major, mn: int, k: int, bits: int) -> NDArray[np.intp]:
    span = SPAN[d.swizzle]
    if major == "K":
        row = np.arange(mn)[:, None]
        byte = np.arange(0, k * bits // 8, 16)[None, :]
        along = byte // 16 * d.leading if d.swizzle == "none" else byte
        offsets = row // 8 * d.stride + row % 8 * span + along
    else:
        column = np.arange(k)[:, None]
        byte = np.arange(0, mn * bits // 8, 16)[None, :]
        if d.swizzle == "none":
            offsets = byte // 16 * d.stride + column // 8 * d.leading + column % 8 * 16
        else:
            rows = 4 if d.swizzle == "128B_ATOM_32B" else 8
            offsets = byte // span * d.leading + byte % span + column // rows * d.stride + column % rows * span
    found = swizzled(d.start + offsets, d.swizzle, d.base_offset) >> 4
    found.flags.writeable = False
    return found


def gather(data: NDArray[np.uint8], found: NDArray[np.intp], major: Major, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The operand as an array (mn, k) of `dtype`, from the bytes of shared memory and its chunks."""
    rows = np.ascontiguousarray(data.reshape(-1, 16)[found]).reshape(len(found), -1).view(dtype)
    return rows if major == "K" else rows.T
