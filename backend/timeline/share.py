"""What a launch is made of, and what the busiest multiprocessor gets of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument

from tilec.backend.kernels import find_kernel
from tilec.backend.reference.control import tile_counts
from tilec.backend.target import DEFAULT_TARGET, TARGETS
from tilec.backend.timeline.record import record, views_of
from tilec.backend.timeline.steps import Recording
from tilec.dialects.tile import GridOp, KernelOp, ScheduleOp


@dataclass(frozen=True)
class Launch:
    """The CTAs of a launch, where every multiprocessor holds `resident` of them at a time."""

    module: ModuleOp
    shape: Mapping[str, int]
    resident: int
    multiprocessors: int
    tiles: tuple[int, int]
    """Output tiles along M and N."""
    inside: tuple[float, ...]
    """Along each dimension, the part of all output tiles that lies inside the output."""
    group: int | None
    """Rows of tiles that a persistent kernel visits together; None where each tile has a CTA."""
    ctas: int

    @staticmethod
    def of(module: ModuleOp, shape: Mapping[str, int], *, resident: int = 1, ctas: int | None = None) -> Launch:
        """`shape` has an extent for each name in the kernel's view types. `ctas` limits the grid of a persistent kernel, which
        is otherwise as many as all multiprocessors hold."""
        kernel = find_kernel(module, None)
        count = TARGETS[DEFAULT_TARGET if kernel.target is None else kernel.target.data].sm_count
        tiles, inside, group = _tiles(kernel, shape)
        total = prod(tiles)
        launched = total if group is None else min(total, ctas or count * resident)
        return Launch(module, shape, resident, count, tiles, inside, group, launched)

    @property
    def active(self) -> int:
        """Multiprocessors that get anything."""
        return min(self.ctas, self.multiprocessors)

    @property
    def rounds(self) -> int:
        """Output tiles, one after another, of the CTA or the place that gets most."""
        at_a_time = self.ctas if self.group is not None else min(self.ctas, self.multiprocessors * self.resident)
        return -(-prod(self.tiles) // at_a_time) if at_a_time else 0

    def busiest(self, less: int = 0) -> tuple[Recording, ...]:
        """The CTAs of multiprocessor 0, in the order in which it gets them, each `less` output tiles shorter than it is; or, of
        a kernel with a CTA for each tile, `less` CTAs fewer a place. CTAs are handed out one to a multiprocessor first, then the
        next one to each."""
        if not self.ctas:
            return ()
        if self.group is None:
            count = -(-self.ctas // self.multiprocessors) - less * self.resident
            return (record(self.module, self.shape),) * max(count, 1)
        total = prod(self.tiles)
        shares = ((number, -(-(total - number) // self.ctas)) for number in range(0, self.ctas, self.multiprocessors))
        return tuple(
            record(self.module, self.shape, number=number, ctas=self.ctas, most=tiles - less)
            for number, tiles in shares
            if tiles > less
        )


def _tiles(kernel: KernelOp, shape: Mapping[str, int]) -> tuple[tuple[int, int], tuple[float, ...], int | None]:
    """Output tiles along each dimension, how much of them is inside, and the group of a persistent kernel."""
    rulers = [op for op in kernel.walk() if isinstance(op, GridOp | ScheduleOp)]
    if not rulers:
        return (1, 1), (), None
    view, step = rulers[0].view, rulers[0].step
    assert isinstance(view, BlockArgument)
    array = views_of(kernel, shape)[view.index].array
    counts = tile_counts(array, step)
    inside = tuple(
        extent / (count * size) if count else 1.0 for extent, count, size in zip(array.shape, counts, step, strict=True)
    )
    group = rulers[0].group if isinstance(rulers[0], ScheduleOp) else None
    return (counts[0], (*counts, 1)[1]), inside, group
