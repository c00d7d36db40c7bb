"""Counting, finding and moving bits (PTX 9.7.1.14 to 9.7.1.22)."""

from __future__ import annotations

import numpy as np

from tilec.backend.emulator.execution.decode import Decoder, instruction
from tilec.backend.emulator.execution.lanes import Execute
from tilec.backend.emulator.instructions.typed import elementwise, take_type
from tilec.backend.emulator.numbers.types import Values, dtype_of, is_signed

_NOT_FOUND = np.uint32(0xFFFFFFFF)
_WORD = np.uint32(32)


@instruction("popc")
def popc(d: Decoder) -> Execute:
    type = take_type(d, ("b32", "b64"))
    return elementwise(d, lambda a: np.bitwise_count(a).astype(np.uint32), "u32", type)


def leading_zeros(values: Values) -> Values:
    """Zeros above the highest set bit of unsigned integers, as uint32."""
    width = 8 * values.dtype.itemsize
    for step in (1, 2, 4, 8, 16, 32):
        if step < width:
            values = values | values >> values.dtype.type(step)
    return np.uint32(width) - np.bitwise_count(values).astype(np.uint32)


@instruction("clz")
def clz(d: Decoder) -> Execute:
    return elementwise(d, leading_zeros, "u32", take_type(d, ("b32", "b64")))


@instruction("bfind")
def bfind(d: Decoder) -> Execute:
    """Where the highest bit is that differs from the sign, or with .shiftamt, by how much to shift it to the top."""
    type = take_type(d, ("u32", "u64", "s32", "s64"))
    shift = d.take("shiftamt") is not None
    dtype = dtype_of(type)
    unsigned, highest = np.dtype(f"u{dtype.itemsize}"), np.uint32(8 * dtype.itemsize - 1)

    def find(a: Values) -> Values:
        bits = (np.where(a < 0, ~a, a) if is_signed(type) else a).view(unsigned)
        zeros = leading_zeros(bits)
        return np.where(bits == 0, _NOT_FOUND, zeros if shift else highest - zeros)

    return elementwise(d, find, "u32", type)


@instruction("fns")
def fns(d: Decoder) -> Execute:
    take_type(d, ("b32",))
    return elementwise(d, find_nth_set, "b32", "b32", "u32", "s32")


def find_nth_set(mask: Values, base: Values, offset: Values) -> Values:
    """Where the bit is that is the `offset`-th set one from `base` on, upwards if positive, downwards if negative.

    A base beyond 31 is undefined; the hardware finds nothing from there. For an offset of -2^31 it gives 0.
    """
    mask, base, offset = np.broadcast_arrays(mask, base, offset)
    found = np.full(mask.shape, _NOT_FOUND)
    seen = np.zeros(mask.shape, np.int64)
    wanted = np.maximum(np.abs(offset.astype(np.int64)), 1)
    for step in range(32):
        position = np.where(offset < 0, base.astype(np.int64) - step, base.astype(np.int64) + step)
        inside = (position >= 0) & (position < 32) & (base < 32) & ((offset != 0) | (step == 0))
        bit = inside & (mask >> np.where(inside, position, 0).astype(np.uint32) & np.uint32(1) != 0)
        seen += bit
        found = np.where(bit & (seen == wanted), position.astype(np.uint32), found)
    return np.where(offset == np.iinfo(np.int32).min, np.uint32(0), found)


@instruction("brev")
def brev(d: Decoder) -> Execute:
    type = take_type(d, ("b32", "b64"))
    width = int(type[1:])
    word = dtype_of(type).type
    ones = (1 << width) - 1

    def reverse(a: Values) -> Values:
        step = width // 2
        while step:
            # Ones in the lower half of every 2 * step bits.
            low = word(ones // ((1 << step) + 1))
            a = (a >> word(step) & low) | (a & low) << word(step)
            step //= 2
        return a

    return elementwise(d, reverse, type, type)


def _field(position: Values, length: Values, width: int) -> tuple[Values, Values]:
    """Start and length of a bit field, limited to the width, as uint64.

    PTX leaves amounts beyond 255 open: of those the hardware takes 8 bits for 32-bit values, and all bits for 64-bit ones.
    """
    if width == 32:
        position, length = position & np.uint32(0xFF), length & np.uint32(0xFF)
    limit = np.uint32(width)
    return np.minimum(position, limit).astype(np.uint64), np.minimum(length, limit).astype(np.uint64)


def _low_ones(count: Values) -> Values:
    """The lowest `count` bits, up to 64, as uint64."""
    return (np.uint64(1) << count) - np.uint64(1)


@instruction("bfe")
def bfe(d: Decoder) -> Execute:
    """A field of bits; beyond the highest bit there are copies of the sign, or zeros."""
    type = take_type(d, ("u32", "u64", "s32", "s64"))
    dtype = dtype_of(type)
    width = 8 * dtype.itemsize

    def extract_unsigned(a: Values, b: Values, c: Values) -> Values:
        position, length = _field(b, c, width)
        return (a.astype(np.uint64) >> position & _low_ones(length)).astype(dtype)

    def extract_signed(a: Values, b: Values, c: Values) -> Values:
        position, length = _field(b, c, width)
        unused = np.int64(64) - length.astype(np.int64)
        return (a.astype(np.int64) >> position.astype(np.int64) << unused >> unused).astype(dtype)

    return elementwise(d, extract_signed if is_signed(type) else extract_unsigned, type, type, "u32", "u32")


@instruction("bfi")
def bfi(d: Decoder) -> Execute:
    """The second operand with a field of bits from the first."""
    type = take_type(d, ("b32", "b64"))
    dtype = dtype_of(type)
    width = 8 * dtype.itemsize

    def insert(a: Values, b: Values, c: Values, e: Values) -> Values:
        position, length = _field(c, e, width)
        field = (_low_ones(length) << position).astype(dtype)
        return (b & ~field) | ((a.astype(np.uint64) << position).astype(dtype) & field)

    return elementwise(d, insert, type, type, type, "u32", "u32")


def _mode(d: Decoder) -> str:
    mode = d.take("clamp", "wrap")
    if mode is None:
        d.unsupported("neither .clamp nor .wrap")
    return mode


@instruction("szext")
def szext(d: Decoder) -> Execute:
    """Extends the lowest bits by the sign or by zeros; 32 bits or more are all (.clamp) or counted modulo 32 (.wrap)."""
    type = take_type(d, ("u32", "s32"))
    mode, dtype = _mode(d), dtype_of(type)

    def extend(a: Values, b: Values) -> Values:
        length = np.minimum(b, _WORD) if mode == "clamp" else b & np.uint32(31)
        unused = (_WORD - length).astype(dtype)
        return a << unused >> unused

    return elementwise(d, extend, type, type, "u32")


@instruction("bmsk")
def bmsk(d: Decoder) -> Execute:
    """Ones from a position on; with .wrap position and number count modulo 32."""
    take_type(d, ("b32",))
    mode = _mode(d)

    def mask(a: Values, b: Values) -> Values:
        if mode == "wrap":
            a, b = a & np.uint32(31), b & np.uint32(31)
        start, length = np.minimum(a, _WORD).astype(np.uint64), np.minimum(b, _WORD).astype(np.uint64)
        return (_low_ones(length) << start).astype(np.uint32)

    return elementwise(d, mask, "b32", "u32", "u32")
