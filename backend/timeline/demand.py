"""What a launch asks of the whole chip: bytes from the L2 cache and from memory, and multiply-adds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, prod

from xdsl.ir import BlockArgument

from tilec.backend.kernels import find_kernel
from tilec.backend.protocol.extents import dims_of
from tilec.backend.reference.arguments import is_written
from tilec.backend.reference.storage import View
from tilec.backend.timeline import steps
from tilec.backend.timeline.record import views_of
from tilec.backend.timeline.share import Launch
from tilec.backend.timeline.steps import Recording
from tilec.dialects.tile import CopyAsyncOp, GridOp, KernelOp, ScheduleOp, SmemType


@dataclass(frozen=True)
class Demand:
    """Of all CTAs together; what tiles have outside of the tensors is not loaded."""

    loaded: float
    """Bytes that the multiprocessors get from the L2 cache, whole lines of it."""
    missed: float
    """Bytes that have to come from memory."""
    stored: float
    """Bytes that have to go to memory."""
    macs: int
    """Of all MMAs."""
    useful: float
    """Of those, what lies inside the tensors."""

    @staticmethod
    def of(launch: Launch, cta: Recording, *, l2_bytes: int, l2_line: int, l2_split: float) -> Demand:
        """Of a launch whose CTAs do as `cta` does for each of their output tiles."""
        kernel = find_kernel(launch.module, None)
        done = [step for flow in cta.flows for step in flow]
        views = dict(zip(kernel.body.block.args, views_of(kernel, launch.shape), strict=True))
        shares = _shares(kernel, launch)
        tiles = prod(launch.tiles) / cta.tiles
        loaded = sum(
            _inside(step, shares) * (1 if _on_lines(views, step, l2_line) else l2_split)
            for step in done
            if isinstance(step, steps.Load) or (isinstance(step, steps.Work) and step.kind == "gather")
        )
        mmas = [step for step in done if isinstance(step, steps.Mma)]
        touched = sum(view.array.size * view.type.dtype.bytes for view in views.values())
        resident = touched <= l2_bytes
        written = sum(view.array.size * view.type.dtype.bytes for one, view in views.items() if is_written(one))
        return Demand(
            loaded * tiles,
            0.0 if resident else _first_asked(kernel, views, launch),
            0.0 if resident else float(written),
            int(sum(step.macs for step in mmas) * tiles),
            sum(step.useful for step in mmas) * tiles * prod(launch.inside),
        )


def _shares(kernel: KernelOp, launch: Launch) -> dict[int | str, float]:
    """By extent of the output, the part of all tiles along it that lies inside."""
    ruler = next((op for op in kernel.walk() if isinstance(op, GridOp | ScheduleOp)), None)
    if ruler is None or not isinstance(ruler.view, BlockArgument):
        return {}
    return dict(zip(dims_of(ruler.view), launch.inside, strict=False))


def _inside(step: steps.Load | steps.Work, shares: Mapping[int | str, float]) -> float:
    """Bytes of a box that lie inside the tensor, on average over all output tiles: along the output's extents by their
    share, along others (K) as the step has it."""
    assert isinstance(step.op, CopyAsyncOp) and isinstance(step.op.source, BlockArgument)
    assert step.op.dest is not None and isinstance(step.op.dest.type, SmemType)
    part = 1.0
    for name, within, box in zip(dims_of(step.op.source), step.within, step.op.dest.type.shape, strict=True):
        part *= shares.get(name, within / box)
    return step.bytes * part


def _on_lines(views: dict[BlockArgument, View], step: steps.Step, line: int) -> bool:
    """Whether the rows that a step loads start on lines of the L2 cache, in a dense tensor on a line."""
    assert isinstance(step.op, CopyAsyncOp) and isinstance(step.op.source, BlockArgument)
    view = views[step.op.source]
    return view.array.shape[view.type.order[0]] * view.type.dtype.bytes % line == 0


def _first_asked(kernel: KernelOp, views: dict[BlockArgument, View], launch: Launch) -> float:
    """Bytes of the tensors that are loaded, each once for all CTAs that run at a time.

    Of a tensor that shares an extent with the output, a wave of CTAs asks for the part along which its tiles lie.
    """
    rows, columns = launch.tiles
    at_a_time = min(launch.ctas, launch.multiprocessors * launch.resident)
    if launch.group is None:
        wave = min(ceil(at_a_time / columns), rows), min(at_a_time, columns)
    else:
        high = min(launch.group, rows)
        wave = high, min(ceil(at_a_time / high), columns)
    ruler = next((op for op in kernel.walk() if isinstance(op, GridOp | ScheduleOp)), None)
    names = dims_of(ruler.view) if ruler is not None and isinstance(ruler.view, BlockArgument) else []
    asked = 0.0
    for argument, view in views.items():
        if any(isinstance(use.operation, CopyAsyncOp) and use.operation.is_load for use in argument.uses):
            parts = [w / t for name, w, t in zip(names, wave, launch.tiles, strict=False) if name in dims_of(argument)]
            size = view.array.size * view.type.dtype.bytes
            asked += max(size, size * prod(parts) * ceil(rows * columns / at_a_time))
    return asked
