"""The caller's arrays against the kernel's views."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import BlockArgument

from tilec.backend.reference.numerics import Array, Numerics
from tilec.backend.reference.storage import View
from tilec.diagnostics import fail
from tilec.dialects.tile import CopyAsyncOp, CopyOp, KernelOp, ViewType


def bind_views(kernel: KernelOp, arrays: Sequence[Array], numerics: Numerics) -> list[View]:
    """The arrays as the kernel's arguments; what does not fit is a `TilecError` that names the argument."""
    arguments = kernel.body.block.args
    if len(arrays) != len(arguments):
        fail(kernel, f"@{kernel.sym_name.data} takes {len(arguments)} arrays, not {len(arrays)}")
    views: list[View] = []
    symbols: dict[str, tuple[str, int]] = {}
    for argument, array in zip(arguments, arrays, strict=True):
        assert isinstance(argument.type, ViewType)
        view = View(_name(argument), argument.type, array)
        _check_dtype(argument, view, numerics)
        _check_extents(argument, view, symbols)
        views.append(view)
    return views


def is_written(argument: BlockArgument) -> bool:
    """Whether a copy stores into the view."""
    return any(isinstance(use.operation, CopyOp | CopyAsyncOp) and not use.operation.is_load for use in argument.uses)


def _name(argument: BlockArgument) -> str:
    return f"%{argument.name_hint}" if argument.name_hint else f"argument {argument.index}"


def _check_dtype(argument: BlockArgument, view: View, numerics: Numerics) -> None:
    wanted = numerics.array_dtype(view.type.dtype)
    if view.array.dtype != wanted:
        fail(argument, f"{view.name} is {view.type.dtype.name}: it takes {wanted} arrays, not {view.array.dtype}")
    if is_written(argument):
        # What an output holds before it is written may be anything.
        if not view.array.flags.writeable:
            fail(argument, f"{view.name} is written, but its array is read-only")
    elif not np.array_equal(numerics.round(view.array, view.type.dtype), view.array, equal_nan=True):
        fail(
            argument,
            f"{view.name} is {view.type.dtype.name}, but its array holds values that are not",
            hint=f"round the array to {view.type.dtype.name} first",
        )


def _check_extents(argument: BlockArgument, view: View, symbols: dict[str, tuple[str, int]]) -> None:
    shape = view.array.shape
    if len(shape) != view.type.rank:
        fail(argument, f"{view.name} has rank {view.type.rank}, its array has rank {len(shape)}")
    for dim, (declared, extent) in enumerate(zip(view.type.dims, shape, strict=True)):
        where = f"dimension {dim} of {view.name}"
        match declared:
            case int() if declared != extent:
                fail(argument, f"{where} is {declared}, its array has {extent}")
            case str():
                first, known = symbols.setdefault(declared, (where, extent))
                if known != extent:
                    fail(argument, f"{declared} is {known} in {first}, but {extent} in {where}")
            case _:
                pass
