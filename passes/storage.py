"""Where everything of an L1 kernel lies in shared and tensor memory: one plan for budget checks, lowering and launch."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue

from tilec.backend.target import DEFAULT_TARGET, TARGETS, Target
from tilec.diagnostics import fail
from tilec.dialects.tile import (
    AccType,
    AllocOp,
    ArriveExpectTxOp,
    ArriveOp,
    CommitOp,
    CopyAsyncOp,
    KernelOp,
    MbarrierInitOp,
    RingType,
    SmemType,
)

BARRIER_BYTES = 8
TMEM_SLOT_BYTES = 4
TMEM_GRANULE = 32
"""tcgen05.alloc takes powers of two from 32 columns on (PTX ISA 9.7.16.7.1)."""


def target_of(kernel: KernelOp) -> Target:
    """The row of the target table that the kernel is compiled for."""
    name = kernel.attributes.get("target")
    if name is None:
        return TARGETS[DEFAULT_TARGET]
    if not isinstance(name, StringAttr) or name.data not in TARGETS:
        fail(kernel, f"unknown target {name}", hint=f"targets are {', '.join(TARGETS)}")
    return TARGETS[name.data]


def is_commit_only(barrier: SSAValue) -> bool:
    """Whether nothing but `tile.commit` arrives on this barrier: on wgmma it becomes a group and needs no memory."""
    arrivals = [use.operation for use in barrier.uses]
    others = (ArriveExpectTxOp, ArriveOp, CopyAsyncOp)
    return any(isinstance(op, CommitOp) for op in arrivals) and not any(isinstance(op, others) for op in arrivals)


@dataclass(frozen=True)
class Block:
    """`size` bytes at `offset` for `value`; the slots of a ring lie `slot_size` apart."""

    name: str
    value: SSAValue
    offset: int
    size: int
    slot_size: int


@dataclass(frozen=True)
class StoragePlan:
    """Shared tiles first, barriers behind them, then the slot that receives the tensor-memory address."""

    tiles: tuple[Block, ...]
    barriers: tuple[Block, ...]
    tmem_slot: int | None
    total: int
    """Bytes of dynamic shared memory that the launch asks for."""
    acc_columns: dict[SSAValue, int]
    """First tensor-memory column of each accumulator."""
    tmem_columns: int
    """Columns that the kernel allocates; 0 without tensor memory."""


def _aligned(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


def plan(kernel: KernelOp) -> StoragePlan:
    """Lay out the kernel's storage. The dynamic segment starts on a 1024-byte boundary.

    Raises PassError for a shared tile that has no layout yet.
    """
    target = target_of(kernel)
    offset = 0
    tiles: list[Block] = []
    barriers: list[tuple[str, SSAValue, int]] = []
    acc_columns: dict[SSAValue, int] = {}
    columns = 0
    for op in kernel.walk():
        match op:
            case AllocOp():
                match op.res.type:
                    case SmemType() as tile:
                        depth = 1
                    case RingType() as ring:
                        tile, depth = ring.slot, ring.depth
                    case AccType() as acc:
                        acc_columns[op.res] = columns
                        columns += target.acc_columns(*acc.shape)
                        continue
                    case _:
                        raise AssertionError(op.res.type)
                if not tile.swizzle:
                    fail(op, "this shared tile has no layout", hint="run `tma` or `threads` first")
                layout = tile.layout
                offset = _aligned(offset, layout.alignment)
                size = layout.slot_size * depth
                tiles.append(Block(op.res.name_hint or "tile", op.res, offset, size, layout.slot_size))
                offset += size
            case MbarrierInitOp():
                if target.mma == "wgmma" and is_commit_only(op.res):
                    continue
                barriers.append((op.res.name_hint or "barrier", op.res, op.res.type.depth))
            case _:
                pass
    placed: list[Block] = []
    offset = _aligned(offset, BARRIER_BYTES)
    for name, value, depth in barriers:
        placed.append(Block(name, value, offset, depth * BARRIER_BYTES, BARRIER_BYTES))
        offset += depth * BARRIER_BYTES
    tmem_slot = None
    if target.mma != "tcgen05":
        columns = 0
    elif columns:
        tmem_slot, offset = offset, offset + TMEM_SLOT_BYTES
        columns = max(TMEM_GRANULE, 1 << (columns - 1).bit_length())
        if columns > target.tmem_columns:
            fail(
                kernel,
                f"the accumulators need {columns} tensor-memory columns, {target.name} has {target.tmem_columns}",
                hint="use smaller tiles: retile(m, n, k)",
            )
    return StoragePlan(tuple(tiles), tuple(placed), tmem_slot, offset, acc_columns, columns)
