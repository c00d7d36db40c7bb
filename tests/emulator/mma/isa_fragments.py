"""Which element of a matrix is element i of a lane, as the ISA writes it shape by shape (PTX 9.7.14.5.1 to 9.7.14.5.13, 9.7.14.6.2)."""

from __future__ import annotations

from warp_kernels import Place


def of_a(m: int, k: int, bits: int) -> tuple[int, Place]:
    """Elements of a lane, and their places, of A as it is held: m x k."""

    def lower(lane: int, i: int) -> bool:
        match m, k, bits:
            case (8, _, _):
                return False
            case (16, 8, 16):
                return i >= 2
            case (16, 16, 16):
                return not (i < 2 or 4 <= i < 6)
            case (16, 4, 32 | 64):
                return i == 1
            case (16, 8 | 16, 32 | 64):
                return i % 2 == 1
            case (16, 16, 8):
                return i >= 4
            case (16, 32, 8):
                return not (i < 4 or 8 <= i < 12)
            case (16, 32, 4):
                return i >= 8
            case (16, 64, 4):
                return not (i < 8 or 16 <= i < 24)
            case (16, 128, 1):
                return i >= 32
            case (16, 256, 1):
                return not (i < 32 or 64 <= i < 96)
            case _:
                raise AssertionError((m, k, bits))

    def column(lane: int, i: int) -> int:
        t = lane % 4
        match k, bits:
            case (8, 16):
                return t * 2 + (i & 1)
            case (16, 16):
                return t * 2 + (i & 1) + (8 if i >= 4 else 0)
            case (4, 32 | 64):
                return t
            case (8 | 16, 32 | 64):
                return t + 4 * (i // 2)
            case (16, 8):
                return t * 4 + (i & 3)
            case (32, 8):
                return t * 4 + (i & 3) + (16 if i >= 8 else 0)
            case (32, 4):
                return t * 8 + (i & 7)
            case (64, 4):
                return t * 8 + (i & 7) + (32 if i >= 16 else 0)
            case (128, 1):
                return t * 32 + (i & 31)
            case (256, 1):
                return t * 32 + (i & 31) + (128 if i >= 64 else 0)
            case _:
                raise AssertionError((k, bits))

    return m * k // 32, lambda lane, i: (lane // 4 + (8 if lower(lane, i) else 0), column(lane, i))


def of_b(k: int, bits: int) -> tuple[int, Place]:
    """Elements of a lane, and their places, of B: k x 8. A register holds neighbours along k; the next one lies `4 registers` on."""
    neighbours = max(32 // bits, 1)
    step = 4 * neighbours
    return k // 4, lambda lane, i: (lane % 4 * neighbours + i % neighbours + i // neighbours * step, lane // 4)


def of_c(m: int) -> tuple[int, Place]:
    """Elements of a lane, and their places, of C and D: m x 8."""
    return m // 4, lambda lane, i: (lane // 4 + (8 if i >= 2 else 0), lane % 4 * 2 + (i & 1))
