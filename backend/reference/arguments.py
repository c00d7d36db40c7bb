"""The caller's arrays against the kernel's views."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import BlockArgument

from tilec.backend.reference.numerics import Array, Numerics
from tilec.backend.reference.storage import View
from tilec.diagnostics import fail
from tilec.dialects.tile import CopyAsyncOp, CopyOp, KernelOp, ViewType

_CHECKED_AT_ONCE = 1 << 14
"""Elements of an input."""


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
    elif not _is_rounded(view, numerics):
        fail(
            argument,
            f"{view.name} is {view.type.dtype.name}, but its array holds values that are not",
            hint=f"round the array to {view.type.dtype.name} first",
        )


def _is_rounded(view: View, numerics: Numerics) -> bool:
    """Some rows at a time: a rounded copy of a whole array would be larger than all else that a run needs."""
    rows = max(1, _CHECKED_AT_ONCE // max(1, view.array[:1].size))
    pieces = (view.array[row : row + rows] for row in range(0, len(view.array), rows))
    return all(np.array_equal(numerics.round(piece, view.type.dtype), piece, equal_nan=True) for piece in pieces)


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
