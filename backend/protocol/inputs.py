"""Inputs for a kernel: arrays of small whole numbers, whose sums are exact."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tilec.backend.protocol.extents import extents_of
from tilec.backend.reference.arguments import is_written
from tilec.backend.reference.numerics import Array
from tilec.dialects.tile import F16, KernelOp, ViewType


def integer_inputs(kernel: KernelOp, extents: Mapping[str, int], seed: int = 7) -> list[Array]:
    """An array for each view, in its memory order: whole numbers from -2 to 2; what the kernel writes holds NaN."""
    random = np.random.default_rng(seed)
    arrays: list[Array] = []
    for argument in kernel.body.block.args:
        view = argument.type
        assert isinstance(view, ViewType)
        shape = extents_of(argument, extents)
        slowest_first = view.order[::-1]
        memory = np.empty([shape[dim] for dim in slowest_first], np.float16 if view.dtype is F16 else np.float32)
        memory[...] = np.nan if is_written(argument) else random.integers(-2, 3, memory.shape)
        arrays.append(memory.transpose([slowest_first.index(dim) for dim in range(view.rank)]))
    return arrays
