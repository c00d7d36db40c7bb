"""Inputs for a kernel: extents for the names in its views, and arrays of small whole numbers, whose sums are exact."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from xdsl.ir import BlockArgument

from tilec.backend.reference.arguments import is_written
from tilec.backend.reference.numerics import Array
from tilec.dialects.tile import F16, ForOp, GridOp, KernelOp, ScheduleOp, ViewType


def dims_of(argument: BlockArgument) -> list[int | str]:
    """Extents of a view and their names; one that the type leaves open is called after its argument: ``A.0``."""
    assert isinstance(argument.type, ViewType)
    hint = argument.name_hint or f"argument{argument.index}"
    return [f"{hint}.{i}" if dim is None else dim for i, dim in enumerate(argument.type.dims)]


def extent_names(kernel: KernelOp) -> list[str]:
    """The extents that a launch chooses, each once, in order."""
    names = dict.fromkeys(dim for argument in kernel.body.block.args for dim in dims_of(argument))
    return [name for name in names if isinstance(name, str)]


def tile_steps(kernel: KernelOp) -> dict[str, int]:
    """By extent, the step of the grid, the schedule or the loop that runs over it; the largest where several do."""
    steps: dict[str, int] = {}
    for op in kernel.walk():
        match op:
            case GridOp() | ScheduleOp():
                pairs = list(enumerate(op.step))
            case ForOp():
                pairs = [(op.dimension, op.step)]
            case _:
                continue
        if isinstance(op.view, BlockArgument):
            for dimension, step in pairs:
                name = dims_of(op.view)[dimension]
                if isinstance(name, str):
                    steps[name] = max(step, steps.get(name, 0))
    return steps


def integer_inputs(kernel: KernelOp, extents: Mapping[str, int], seed: int = 7) -> list[Array]:
    """An array for each view, in its memory order: whole numbers from -2 to 2; what the kernel writes holds NaN."""
    random = np.random.default_rng(seed)
    arrays: list[Array] = []
    for argument in kernel.body.block.args:
        view = argument.type
        assert isinstance(view, ViewType)
        shape = [extents[dim] if isinstance(dim, str) else dim for dim in dims_of(argument)]
        slowest_first = view.order[::-1]
        memory = np.empty([shape[dim] for dim in slowest_first], np.float16 if view.dtype is F16 else np.float32)
        memory[...] = np.nan if is_written(argument) else random.integers(-2, 3, memory.shape)
        arrays.append(memory.transpose([slowest_first.index(dim) for dim in range(view.rank)]))
    return arrays
