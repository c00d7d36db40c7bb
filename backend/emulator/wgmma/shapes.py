"""Which shapes and types wgmma has (PTX 9.7.15.2, 9.7.15.3, 9.7.15.6.3), and how their elements lie in registers (9.7.15.5.1.1)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

M = 64
THREADS = 128
_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "b1": 1}
_FLOAT_WIDTHS = range(8, 257, 8)
_INTEGER_WIDTHS = (8, 16, 24, *range(32, 257, 16))
_ROW_BITS = 256
"""An instruction takes 32 bytes of each row of A and column of B, whatever the type; with a sparse A, 64 bytes of B."""


@dataclass(frozen=True)
class Shape:
    """One wgmma: D (64 x n, of type `d`) += A (64 x k, `a`) * B (k x n, `b`). Of a sparse A half is held."""

    n: int
    k: int
    d: str
    a: str
    b: str
    sparse: bool

    @property
    def held_k(self) -> int:
        """Elements of a row of A that are held."""
        return self.k // 2 if self.sparse else self.k

    @property
    def bits(self) -> int:
        """Of an element of A or B."""
        return _BITS[self.a]

    @property
    def accumulators(self) -> int:
        """32-bit registers of D in a thread."""
        return self.n // (4 if self.d == "f16" else 2)

    @property
    def transposable(self) -> bool:
        """Whether operands in shared memory may be MN-major."""
        return self.bits == 16

    @property
    def integer(self) -> bool:
        return self.d == "s32"


def parse(shape: str, d: str, a: str, b: str, *, sparse: bool) -> Shape | str:
    """The shape that ``m64n128k16`` and three types name, or why there is none."""
    found = re.fullmatch(r"m64n(\d+)k(\d+)", shape)
    none = f"wgmma.mma_async{'.sp' if sparse else ''} has no shape .{shape}.{d}.{a}.{b}"
    if found is None or a not in _BITS or b not in _BITS or (sparse and a == "b1"):
        return none
    n, k = int(found[1]), int(found[2])
    same = a == b or {a, b} <= {"e4m3", "e5m2"} or {a, b} <= {"s8", "u8"}
    results = {
        "f16": ("f16", "f32"),
        "bf16": ("f32",),
        "tf32": ("f32",),
        "e4m3": ("f16", "f32"),
        "e5m2": ("f16", "f32"),
    }
    widths = _INTEGER_WIDTHS if a in ("s8", "u8", "b1") else _FLOAT_WIDTHS
    depth = _ROW_BITS // _BITS[a] * (2 if sparse else 1)
    if not same or d not in results.get(a, ("s32",)) or k != depth or n not in widths:
        return none
    return Shape(n, k, d, a, b, sparse)


@lru_cache(maxsize=256)
def accumulator_place(n: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Row and column of accumulator i of thread t of the warpgroup, each of shape (n / 2, 128): an element for each i and t."""
    i, t = np.arange(n // 2)[:, None], np.arange(THREADS)[None, :]
    return 16 * (t // 32) + t % 32 // 4 + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * (t % 4) + i % 2


@lru_cache(maxsize=16)
def operand_place(bits: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Row and column (in elements; for 1-bit elements in bytes) of element e of A in the registers of thread t: shape (elements, 128)."""
    width = max(bits, 8)
    per_register = 32 // width
    e, t = np.arange(4 * per_register)[:, None], np.arange(THREADS)[None, :]
    register = e // per_register
    row = 16 * (t // 32) + t % 32 // 4 + 8 * (register % 2)
    return row, per_register * (t % 4) + e % per_register + 4 * per_register * (register // 2)
