"""The CTAs that a kernel is launched with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

from xdsl.ir import BlockArgument

from tilec.backend.reference.control import tile_counts
from tilec.backend.reference.storage import View
from tilec.backend.target import DEFAULT_TARGET, TARGETS
from tilec.diagnostics import TilecError, fail, location_of
from tilec.dialects.tile import GridOp, KernelOp, ScheduleOp


def launch(kernel: KernelOp, views: Sequence[View], ctas: int | None) -> Iterator[tuple[tuple[int, ...], int, int]]:
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
        ranges = [range(0, extent, step) for extent, step in zip(array.shape, ruler.step, strict=True)]
        total = prod(map(len, ranges))
        # Made as they are asked for: one CTA of millions may be all that somebody wants.
        yield from ((tile, number, total) for number, tile in enumerate(product(*ranges)))
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
