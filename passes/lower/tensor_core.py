"""What the lowering asks of a chip's tensor core; `wgmma` and `tcgen05` answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from tilec.diagnostics import fail
from tilec.dialects.tile import AllocOp, CommitOp, CopyAsyncOp, FreeOp, MmaOp, TryWaitOp
from tilec.passes.lower.descriptors import Operand
from tilec.passes.lower.emit import PTR_SHARED
from tilec.passes.lower.fragment import Fragment
from tilec.passes.lower.kernel import KernelLowering, SmemTile

FragmentT_co = TypeVar("FragmentT_co", bound=Fragment, covariant=True)


class TensorCore(ABC, Generic[FragmentT_co]):
    """Accumulators, MMAs and their completion."""

    fragment: FragmentT_co

    @abstractmethod
    def alloc(self, k: KernelLowering, op: AllocOp) -> None: ...

    @abstractmethod
    def free(self, k: KernelLowering, op: FreeOp) -> None: ...

    @abstractmethod
    def mma(self, k: KernelLowering, op: MmaOp) -> None: ...

    @abstractmethod
    def commit(self, k: KernelLowering, op: CommitOp) -> None: ...

    @abstractmethod
    def wait(self, k: KernelLowering, op: TryWaitOp) -> None:
        """Wait for commits of the own role, and bring its threads together: none may fall two rounds behind."""

    @abstractmethod
    def load(self, k: KernelLowering, op: CopyAsyncOp) -> None:
        """Accumulator to registers."""


def accumulate_flag(k: KernelLowering, op: MmaOp) -> SSAValue:
    if op.accumulate is None:
        fail(op, "tile.mma without `accumulate` is synchronous (L0)", hint="run `tma` or `threads` first")
    if k.in_single_thread:
        fail(op, "an MMA belongs to all threads of its role", hint="move tile.mma out of tile.single_thread")
    return k.scalar(op.accumulate)


def descriptor(k: KernelLowering, tile: SmemTile, constant: int, offset: SSAValue | int = 0) -> SSAValue:
    """A matrix descriptor whose start address is the tile's plus `offset` bytes."""
    e = k.e
    pointer = k.smem_pointer(tile.offset)
    assert pointer.type == PTR_SHARED
    address = e.plus(e.pointer_to_int(pointer), offset)
    # 18 bits: the rest of a shared address is the CTA's rank in its cluster.
    field = e.shifted_right(e.bits_and(address, 0x3FFFF), 4)
    signed = constant - (1 << 64) if constant >> 63 else constant
    return e.bits_or(e.extended(field, i64), e.constant(signed, i64))


def advanced(k: KernelLowering, base: SSAValue, bytes: int) -> SSAValue:
    """The descriptor `bytes` further on; the address field cannot overflow inside one tile."""
    return k.e.plus(base, bytes >> 4)


def operands(k: KernelLowering, op: MmaOp) -> tuple[SmemTile, Operand, SmemTile, Operand]:
    a, b = k.smem(op.a), k.smem(op.b)
    for tile, value in ((a, "a"), (b, "b")):
        if not tile.type.swizzle:
            fail(op, f"operand {value} has no layout", hint="give its tile `swizzle = 128` (64, 32, or 16)")
    return a, Operand(a.type), b, Operand(b.type)
