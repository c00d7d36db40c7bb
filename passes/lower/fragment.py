"""Which thread holds which elements of a register tile, for each kind of tensor core.

wgmma (PTX ISA 9.7.15.5.1, D fragment): thread t of a warpgroup holds, of each 64-row block, rows 16*(t/32) + (t%32)/4 and 8 below
it, and of each 8 columns the pair 2*(t%4). tcgen05 (9.7.16.8.1): warp w reaches lanes 32w..32w+31 of tensor memory, so
thread t holds whole rows t, t + 128, ...; with 64 rows, row 16w + l in the lower half of each warp.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd

from xdsl.dialects.builtin import f32, i32
from xdsl.ir import Attribute, SSAValue

from tilec.dialects.tile import RegType
from tilec.passes.lower.kernel import KernelLowering


@dataclass(frozen=True)
class Run:
    """`Fragment.vector` consecutive columns of one row: constant parts of their position, and the first element's number."""

    row: int
    column: int
    element: int


@dataclass(frozen=True)
class Fragment(ABC):
    """Distribution of register tiles of `rows` rows over the threads of a CTA."""

    rows: int

    @property
    @abstractmethod
    def whole_rows(self) -> bool:
        """Whether a thread holds all columns of its rows."""

    @abstractmethod
    def vector(self, type: RegType) -> int:
        """Consecutive columns that a thread holds together."""

    @abstractmethod
    def runs(self, type: RegType) -> Iterator[Run]:
        """A thread's elements in the order of its registers."""

    @abstractmethod
    def row(self, k: KernelLowering) -> SSAValue:
        """The part of the row that depends on the thread."""

    @abstractmethod
    def column(self, k: KernelLowering) -> SSAValue:
        """The part of the column that depends on the thread."""

    @abstractmethod
    def active(self, k: KernelLowering) -> SSAValue | None:
        """Whether the thread's elements exist, where some threads hold none."""

    def words(self, type: RegType) -> int:
        """Registers of one thread: an f32, or a pair of 16-bit elements."""
        return sum(self.vector(type) for _ in self.runs(type)) * type.dtype.bytes // 4

    def problem(self, type: RegType) -> str | None:
        """Why a register tile cannot be spread over the threads."""
        if len(type.shape) == 2 and type.shape[0] != self.rows:
            return f"register tiles of this kernel have {self.rows} rows, not {type.shape[0]}"
        if type.shape[-1] % 8:
            return f"a register tile has a multiple of 8 columns, not {type.shape[-1]}"
        return None


def word_type(type: RegType) -> Attribute:
    """What one register of a thread's share is."""
    return f32 if type.dtype.bytes == 4 else i32


@dataclass(frozen=True)
class WgmmaFragment(Fragment):
    """`groups` warpgroups, each with `rows / groups` rows in blocks of 64."""

    groups: int

    @property
    def whole_rows(self) -> bool:
        return False

    @property
    def blocks(self) -> int:
        return self.rows // self.groups // 64

    def vector(self, type: RegType) -> int:
        return 2

    def runs(self, type: RegType) -> Iterator[Run]:
        element = 0
        blocks = range(self.blocks) if len(type.shape) == 2 else range(1)
        halves = (0, 8) if len(type.shape) == 2 else (0,)
        for block in blocks:
            for column in range(0, type.shape[-1], 8):
                for half in halves:
                    yield Run(64 * block + half, column, element)
                    element += 2

    def row(self, k: KernelLowering) -> SSAValue:
        e = k.e

        def make() -> SSAValue:
            group = e.times(k.warpgroup, self.blocks * 64)
            in_group = e.times(e.bits_and(k.warp, 3), 16)
            return e.plus(e.plus(group, in_group), e.shifted_right(k.lane, 2))

        return k.once("fragment_row", make)

    def column(self, k: KernelLowering) -> SSAValue:
        return k.once("fragment_column", lambda: k.e.times(k.e.bits_and(k.thread, 3), 2))

    def active(self, k: KernelLowering) -> SSAValue | None:
        return None


@dataclass(frozen=True)
class Tcgen05Fragment(Fragment):
    """128 threads, a row each (per block of 128 rows)."""

    @property
    def whole_rows(self) -> bool:
        return True

    def vector(self, type: RegType) -> int:
        return gcd(16 // type.dtype.bytes, type.shape[-1])

    def runs(self, type: RegType) -> Iterator[Run]:
        element = 0
        vector = self.vector(type)
        for row in range(0, self.rows, 128) if len(type.shape) == 2 else range(1):
            for column in range(0, type.shape[-1], vector):
                yield Run(row, column, element)
                element += vector

    def row(self, k: KernelLowering) -> SSAValue:
        if self.rows != 64:
            return k.thread
        e = k.e
        return k.once("fragment_row", lambda: e.plus(e.times(k.warp, 16), e.bits_and(k.lane, 15)))

    def column(self, k: KernelLowering) -> SSAValue:
        return k.e.int32(0)

    def active(self, k: KernelLowering) -> SSAValue | None:
        if self.rows != 64:
            return None
        return k.once("fragment_active", lambda: k.e.compare("ult", k.lane, 16))
