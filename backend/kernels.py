"""The kernel of a module that is meant, and its level."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from tilec.diagnostics import TilecError, location_of
from tilec.dialects.tile import (
    ArriveExpectTxOp,
    ArriveOp,
    CommitGroupOp,
    CommitOp,
    CopyAsyncOp,
    CtaSyncOp,
    FenceOp,
    FreeOp,
    KernelOp,
    MbarrierInitOp,
    MmaOp,
    RolesOp,
    RoleSyncOp,
    SingleThreadOp,
    SliceOp,
    SlotOp,
    TryWaitOp,
    WaitGroupOp,
    WaitLdOp,
)

_ASYNCHRONOUS = (
    ArriveExpectTxOp,
    ArriveOp,
    CommitGroupOp,
    CommitOp,
    CopyAsyncOp,
    CtaSyncOp,
    FenceOp,
    FreeOp,
    MbarrierInitOp,
    RolesOp,
    RoleSyncOp,
    SingleThreadOp,
    SliceOp,
    SlotOp,
    TryWaitOp,
    WaitGroupOp,
    WaitLdOp,
)


def find_kernel(module: ModuleOp, name: str | None) -> KernelOp:
    """The kernel of this name, or the only one."""
    kernels = [op for op in module.walk() if isinstance(op, KernelOp) and name in (None, op.sym_name.data)]
    if len(kernels) == 1:
        return kernels[0]
    if kernels:
        names = ", ".join(f"@{kernel.sym_name.data}" for kernel in kernels)
        raise TilecError(f"several kernels: {names}", location_of(module), hint="say which one to run")
    raise TilecError("no kernel in this module" if name is None else f"no kernel @{name} in this module")


def is_asynchronous(kernel: KernelOp) -> bool:
    """Whether a kernel has an operation that is not complete when the next one starts, or that completes such ones."""
    return any(
        isinstance(op, _ASYNCHRONOUS) or (isinstance(op, MmaOp) and op.accumulate is not None) for op in kernel.walk()
    )
