"""What a tile program means, executed with NumPy: a synchronous kernel (L0) executed here *is* the specification.

The CTAs run one after another, and each operation is complete when the next one starts. Asynchronous kernels (L1) run on
`tilec.backend.simulator`, which shares the arithmetic, the control flow and the scheduler with this package.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block

from tilec.backend.kernels import find_kernel
from tilec.backend.reference import control, data, registers, scalars
from tilec.backend.reference.arguments import bind_views
from tilec.backend.reference.control import schedule
from tilec.backend.reference.cta import Plan
from tilec.backend.reference.data import SynchronousCta, Work
from tilec.backend.reference.launch import launch
from tilec.backend.reference.numerics import Array, Exact, Machine, Numerics, round_bf16
from tilec.dialects.tile import KernelOp

__all__ = ["Array", "round_bf16", "run", "run_float64", "schedule"]

_HANDLERS = {**control.handlers, **data.handlers, **registers.handlers, **scalars.handlers}


def run(module: ModuleOp, inputs: Sequence[Array], *, kernel: str | None = None, ctas: int | None = None) -> None:
    """Execute the named kernel, or the only one; outputs are written in place.

    `inputs` are all arguments in order, f16 as float16, bf16 and f32 as float32 (`round_bf16` makes values that bf16
    has), with any strides. `ctas` is the size of a persistent grid; without it there is one CTA per multiprocessor of
    the target.
    """
    execute(find_kernel(module, kernel), inputs, Machine(), ctas)


def run_float64(
    module: ModuleOp, inputs: Sequence[Array], *, kernel: str | None = None, ctas: int | None = None
) -> None:
    """The same program where every number is a float64 and none is rounded to its dtype. All arrays are float64."""
    execute(find_kernel(module, kernel), inputs, Exact(), ctas)


def execute(
    kernel: KernelOp,
    inputs: Sequence[Array],
    numerics: Numerics,
    ctas: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Work:
    """Run a kernel; `progress` is called after each CTA with how many are done and how many there are."""
    work = Work()
    plans: dict[Block, Plan] = {}
    with np.errstate(all="ignore"):
        views = bind_views(kernel, inputs, numerics)
        for tile, number, total in launch(kernel, views, ctas):
            SynchronousCta(_HANDLERS, plans, numerics, tile, number, total, work).run(kernel.body.block, views)
            work.ctas += 1
            if progress is not None:
                progress(work.ctas, total)
    return work
