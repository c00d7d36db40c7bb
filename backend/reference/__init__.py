"""What a tile program means, executed with NumPy. The synchronous level (L0) executed here *is* the specification.

An asynchronous program (L1) runs sequentially: the CTAs one after another, each as one agent, and every asynchronous
operation takes effect when it is issued. What completes it is kept nevertheless: mbarriers count arrivals, bytes and
rounds, and these are errors (`tilec.TilecError`) at the operation's line:

* a wait for a round that can never complete; a byte budget that the copies do not meet; an arrival too many;
* reading or overwriting a shared tile or an accumulator before the load, the MMA or the store that was issued on it has
  been waited for; a CTA that ends while something is on its way.

Shared memory and the accumulators of asynchronous programs start as NaN.

It does not see what needs more than one agent, or an order other than that of the text: a wait that an *older* round of
the same parity lets pass, fences and `cta_sync` that are missing, a deadlock between roles, CTAs that touch each other's
data, and the layout and clipping of copies (16-byte units).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument

from tilec.backend.reference import control, data, scalars, sync
from tilec.backend.reference.arguments import bind_views
from tilec.backend.reference.control import schedule, tile_counts
from tilec.backend.reference.cta import Cta, Value
from tilec.backend.reference.numerics import Array, Exact, Machine, Numerics, round_bf16
from tilec.backend.reference.storage import View
from tilec.backend.target import DEFAULT_TARGET, TARGETS
from tilec.diagnostics import TilecError, fail, location_of
from tilec.dialects.tile import GridOp, KernelOp, ScheduleOp

__all__ = ["Array", "round_bf16", "run", "run_float64", "schedule"]

_HANDLERS = {**control.handlers, **data.handlers, **scalars.handlers, **sync.handlers}


def run(module: ModuleOp, inputs: Sequence[Array], *, kernel: str | None = None, ctas: int | None = None) -> None:
    """Execute the named kernel, or the only one; outputs are written in place.

    `inputs` are all arguments in order, f16 as float16, bf16 and f32 as float32 (`round_bf16` makes values that bf16
    has), with any strides. `ctas` is the size of a persistent grid; without it there is one CTA per multiprocessor of
    the target.
    """
    _run(module, inputs, Machine(), kernel, ctas)


def run_float64(
    module: ModuleOp, inputs: Sequence[Array], *, kernel: str | None = None, ctas: int | None = None
) -> None:
    """The same program where every number is a float64 and none is rounded to its dtype. All arrays are float64."""
    _run(module, inputs, Exact(), kernel, ctas)


def _run(
    module: ModuleOp, inputs: Sequence[Array], numerics: Numerics, kernel_name: str | None, ctas: int | None
) -> None:
    kernel = _find_kernel(module, kernel_name)
    with np.errstate(all="ignore"):
        views = bind_views(kernel, inputs, numerics)
        for tile, number, total in _launch(kernel, views, ctas):
            cta = Cta(_HANDLERS, numerics, {}, tile, number, total)
            cta.run(kernel.body.block, list[Value](views))
            cta.finish()


def _find_kernel(module: ModuleOp, name: str | None) -> KernelOp:
    kernels = [op for op in module.walk() if isinstance(op, KernelOp) and name in (None, op.sym_name.data)]
    if len(kernels) == 1:
        return kernels[0]
    if kernels:
        names = ", ".join(f"@{kernel.sym_name.data}" for kernel in kernels)
        raise TilecError(f"several kernels: {names}", location_of(module), hint="say which one to run")
    raise TilecError("no kernel in this module" if name is None else f"no kernel @{name} in this module")


def _launch(kernel: KernelOp, views: Sequence[View], ctas: int | None) -> Iterator[tuple[tuple[int, ...], int, int]]:
    """The CTAs of a kernel: (offsets of its tile of the grid, its number, how many there are)."""
    grids = [op for op in kernel.walk() if isinstance(op, GridOp)]
    schedules = [op for op in kernel.walk() if isinstance(op, ScheduleOp)]
    if not grids and not schedules:
        yield (), 0, 1
        return
    ruler, *more = (*grids, *schedules)
    if (grids and more) or (grids and ruler.parent_op() is not kernel):
        fail(more[0] if more else ruler, "a kernel has one tile.grid, directly in its body, or a tile.schedule")
    if not isinstance(ruler.view, BlockArgument) or ruler.view.owner is not kernel.body.block:
        fail(ruler, "tiles are counted over an argument of the kernel")
    array = views[ruler.view.index].array
    if isinstance(ruler, GridOp):
        tiles = list(product(*(range(0, extent, step) for extent, step in zip(array.shape, ruler.step, strict=True))))
        yield from ((tile, number, len(tiles)) for number, tile in enumerate(tiles))
    else:
        total = min(_persistent_ctas(kernel, ctas), prod(tile_counts(array, ruler.step)))
        yield from (((), number, total) for number in range(total))


def _persistent_ctas(kernel: KernelOp, asked: int | None) -> int:
    if asked is not None:
        if asked < 1:
            raise TilecError(f"a persistent kernel runs on at least one CTA, not {asked}", location_of(kernel))
        return asked
    name = DEFAULT_TARGET if kernel.target is None else kernel.target.data
    if name not in TARGETS:
        fail(kernel, f"unknown target '{name}'", hint=f"known: {', '.join(TARGETS)}")
    return TARGETS[name].sm_count
