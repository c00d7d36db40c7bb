"""Executes tile programs with NumPy as a GPU does: engines, mbarriers, proxies and threads are modelled as such.

A synchronous kernel (L0) runs on the reference, which is its meaning. An asynchronous one (L1) runs here: a copy or an MMA
is in flight until its barrier's round completes and somebody has waited for it, and every access is judged by
happens-before. What no run may do is a `Fault`, whichever order this run took: a race, a wait that never ends, a byte
budget that the copies do not meet, reading what nothing has written, something in flight when a CTA ends, two CTAs at one
element, a tile that is never stored.

The CTAs run one after another. Each is two agents that walk the same control flow in lock step: the thread that executes
`tile.single_thread`, and all other threads. Each of its roles is two more, on a path of its own; one role goes on at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, BlockArgument

from tilec.backend import reference
from tilec.backend.kernels import find_kernel, is_asynchronous
from tilec.backend.reference.arguments import bind_views, is_written
from tilec.backend.reference.cta import Plan
from tilec.backend.reference.launch import launch
from tilec.backend.reference.numerics import Array, Exact, Machine, Numerics
from tilec.backend.reference.storage import View
from tilec.backend.simulator import control, data, roles, sync
from tilec.backend.simulator.clocks import Components
from tilec.backend.simulator.cta import AsyncCta, Launch, roles_of
from tilec.backend.simulator.faults import Fault, FaultKind, Step
from tilec.backend.simulator.finish import finish, finish_launch
from tilec.backend.simulator.report import Report
from tilec.backend.simulator.tensors import Tensor
from tilec.dialects.tile import CopyAsyncOp, KernelOp, MbarrierInitOp, ScheduleOp

__all__ = ["Fault", "FaultKind", "Report", "Step", "run", "run_float64"]

_HANDLERS = {
    **reference.control.handlers,
    **reference.registers.handlers,
    **reference.scalars.handlers,
    **control.handlers,
    **data.handlers,
    **roles.handlers,
    **sync.handlers,
}


def run(
    module: ModuleOp,
    inputs: Sequence[Array],
    *,
    kernel: str | None = None,
    ctas: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    seed: int | None = None,
) -> Report:
    """Execute the named kernel, or the only one; outputs are written in place.

    `inputs` and `ctas` are as in `tilec.backend.reference.run`; `progress` is called after each CTA with how many are done
    and how many there are. With a `seed`, roles take turns in another order: no order changes the results of a kernel that
    obeys the rules, nor hides that one breaks them. Raises `Fault` at the first thing that a kernel must not do.
    """
    return _run(find_kernel(module, kernel), inputs, Machine(), ctas, progress, seed)


def run_float64(
    module: ModuleOp, inputs: Sequence[Array], *, kernel: str | None = None, ctas: int | None = None
) -> Report:
    """The same program where every number is a float64 and none is rounded to its dtype. All arrays are float64."""
    return _run(find_kernel(module, kernel), inputs, Exact(), ctas, None, None)


def _run(
    kernel: KernelOp,
    inputs: Sequence[Array],
    numerics: Numerics,
    ctas: int | None,
    progress: Callable[[int, int], None] | None,
    seed: int | None,
) -> Report:
    if not is_asynchronous(kernel):
        work = reference.execute(kernel, inputs, numerics, ctas, progress)
        return Report(work.ctas, work.ctas, work.bytes_loaded, work.bytes_stored, work.mmas, 0, 0)
    control.check_mixture(kernel)
    slots = sum(op.res.type.depth for op in kernel.walk() if isinstance(op, MbarrierInitOp))
    plans: dict[Block, Plan] = {}
    done = 0
    with np.errstate(all="ignore"):
        views = bind_views(kernel, inputs, numerics)
        components = Components(1 + len(roles_of(kernel)), slots)
        shared = Launch(kernel, components, _tensors(kernel, views), control.turn_blocks(kernel), seed)
        for tile, number, total in launch(kernel, views, ctas):
            for tensor in shared.tensors.values():
                tensor.loads.clear()
            cta = AsyncCta(_HANDLERS, plans, numerics, tile, number, total, shared)
            cta.run(kernel.body.block, views)
            finish(cta)
            shared.counters.tiles += 1 + max(flow.turn for flow in cta.flows)
            done += 1
            if progress is not None:
                progress(done, total)
        finish_launch(shared)
    made = shared.counters
    tiles = made.tiles if shared.turns else done
    return Report(done, tiles, made.bytes_loaded, made.bytes_stored, made.mmas, made.waits, made.stalls)


def _tensors(kernel: KernelOp, views: Sequence[View]) -> dict[int, Tensor]:
    """Of each view that the kernel writes."""
    steps = {op.view: op.step for op in kernel.walk() if isinstance(op, ScheduleOp)}
    return {
        id(view): Tensor(view, _is_loaded(argument), _is_stored_by_tma(argument), steps.get(argument))
        for argument, view in zip(kernel.body.block.args, views, strict=True)
        if is_written(argument)
    }


def _is_loaded(argument: BlockArgument) -> bool:
    return any(isinstance(use.operation, CopyAsyncOp) and use.operation.is_load for use in argument.uses)


def _is_stored_by_tma(argument: BlockArgument) -> bool:
    return any(
        isinstance(use.operation, CopyAsyncOp) and use.operation.dispatch == "tma" and not use.operation.is_load
        for use in argument.uses
    )
