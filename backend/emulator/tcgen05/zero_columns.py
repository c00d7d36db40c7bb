"""Zero-column mask descriptors: columns of B that count as zero in a `.ws` product (PTX 9.7.16.4.3)."""

from __future__ import annotations


def zero_columns(descriptor: int, m: int, n: int) -> int | str:
    """The columns that count as zero, as a set, or what the emulator does not do.

    The mask is one of n bits for each 128 / m of n. Runs of ones (skip span + 1 of them) and zeros (use span + 1) alternate,
    beginning with the value of first span; the first start-count bits are left out. That is how the examples of the ISA read.
    """
    if descriptor >> 36 & 7:
        return "bits 36-38 of a zero-column mask descriptor must be 0"
    if descriptor >> 56 & 63:
        return "the emulator does not shift columns (bits 56-61 of the zero-column mask descriptor)"
    if not descriptor >> 39 & 1:
        return 0
    parts = 128 // m
    width = n // parts
    runs = ((descriptor >> 48 & 0xFF) + 1, (descriptor >> 40 & 0xFF) + 1)
    found = 0
    for part in range(parts):
        value = descriptor >> (32 + part) & 1
        start = descriptor >> 8 * part & 0xFF
        pattern: list[int] = []
        while len(pattern) < start + width:
            pattern += [value] * runs[value]
            value ^= 1
        found |= sum(bit << at for at, bit in enumerate(pattern[start : start + width])) << (width * part)
    return found
