"""What a kernel may hold, for passes that take no other: a synchronous (L0) one, or one without roles."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.ir import Block, Operation
from xdsl.traits import is_side_effect_free

from tilec.diagnostics import fail
from tilec.dialects.tile import (
    AddOp,
    AllocOp,
    AssumeOp,
    BroadcastOp,
    CastOp,
    CopyOp,
    DimOp,
    ForOp,
    GridOp,
    KernelOp,
    LoadOp,
    MaxOp,
    MmaOp,
    MulOp,
    RingType,
    RolesOp,
    SplatOp,
    StoreOp,
    SubOp,
    YieldOp,
)

_REGISTERS = (SplatOp, CastOp, BroadcastOp, AddOp, SubOp, MulOp, MaxOp)
_SYNCHRONOUS = (AllocOp, CopyOp, LoadOp, StoreOp, MmaOp, ForOp, YieldOp, DimOp, AssumeOp, GridOp, *_REGISTERS)


def body_of(kernel: KernelOp) -> Block:
    """The block that one CTA of a synchronous kernel executes: the grid's body, or the kernel's if there is no grid."""
    inside = [op for op in kernel.walk() if op is not kernel]
    for op in inside:
        if _is_asynchronous(op):
            fail(
                op,
                f"this kernel is asynchronous already: it has {op.name}",
                hint="`retile`, then one of `tma` and `threads`, come first and run once, on a synchronous kernel",
            )
    for op in inside:
        _check(op)
    top = kernel.body.block
    grids = [op for op in top.ops if isinstance(op, GridOp)]
    if not grids:
        return top
    for op in top.ops:
        if isinstance(op, GridOp | AssumeOp):
            continue
        if isinstance(op, AllocOp) or not _is_pure(op):
            fail(op, f"{op.name} outside of the grid", hint="move it into the grid, whose body each tile executes")
    return grids[0].body.block


def is_synchronous(kernel: KernelOp) -> bool:
    """Whether there is a whole-tile operation left that only a synchronous kernel may hold."""
    return any(
        isinstance(op, CopyOp | ForOp) or (isinstance(op, MmaOp) and op.accumulate is None) for op in kernel.walk()
    )


def refuse_roles(kernel: KernelOp, message: str, hint: str) -> None:
    """For passes and lowerings that follow the one control flow of a CTA."""
    for op in kernel.walk():
        if isinstance(op, RolesOp):
            fail(op, message, hint=hint)


def _is_asynchronous(op: Operation) -> bool:
    if isinstance(op, MmaOp):
        return op.accumulate is not None
    return op.dialect_name() == "tile" and not isinstance(op, _SYNCHRONOUS)


def _is_pure(op: Operation) -> bool:
    """Whether it only computes; xDSL does not say so of remainders."""
    return is_side_effect_free(op) or isinstance(op, arith.RemUIOp | arith.RemSIOp)


def _check(op: Operation) -> None:
    if isinstance(op, AllocOp) and isinstance(op.res.type, RingType):
        fail(op, "a ring in a synchronous kernel", hint="allocate one !tile.smem: `pipeline` makes rings")
    if not isinstance(op, _SYNCHRONOUS) and (op.regions or not _is_pure(op)):
        hint = "tile.grid and tile.for (in Python, tile.range) are its control flow; asynchronous kernels have scf"
        fail(op, f"{op.name} has no place in a synchronous kernel", hint=hint)
