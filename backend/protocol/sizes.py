"""Small launches of a kernel, for simulating what a proof cannot decide, and for replaying what it refutes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import BlockArgument, Operation, SSAValue

from tilec.backend.protocol.extents import dims_of, extent_names, tile_extents
from tilec.dialects.tile import (
    AssumeOp,
    DimOp,
    ForOp,
    GridOp,
    KernelOp,
    MbarrierInitOp,
    ScheduleOp,
)

_DEFAULT_EXTENT = 64
_MOST_TRIPS = 17
"""Iterations of a loop that are tried, at most."""
_WIDEST_TILE = 4096
"""Elements of a tile of which there may be two in a launch that is tried."""


@dataclass(frozen=True)
class Size:
    """One launch."""

    extents: dict[str, int]
    trips: int
    """Iterations of each loop over an extent."""
    tiles: int
    """All tiles of the grid or the schedule."""

    def __str__(self) -> str:
        return ", ".join(f"{name} = {extent}" for name, extent in self.extents.items()) or "its only size"


def small_sizes(kernel: KernelOp, *, trips: int = 0, turns: int = 0) -> list[Size]:
    """Launches with few iterations and few tiles, smallest first; `trips` and `turns` ask for at least as many.

    Several tiles lie along the first dimension, or two along the second.
    """
    depth = max((op.res.type.depth for op in kernel.walk() if isinstance(op, MbarrierInitOp)), default=1)
    persistent = any(isinstance(op, ScheduleOp) for op in kernel.walk())
    most_trips = min(max(trips, 2 * depth + 1), _MOST_TRIPS) if loop_steps(kernel) else 0
    most_turns = max(turns, 3) if persistent else 2
    tiles = [(turn, 1) for turn in range(1, most_turns + 1)]
    if all(step <= _WIDEST_TILE for _, step in _ruled(kernel).values()):
        tiles.append((1, 2))
    sizes = [sized(kernel, count, *counts) for count, counts in product(range(most_trips + 1), tiles)]
    return list(_distinct(iter(sorted(sizes, key=lambda size: ((size.trips + 1) * size.tiles, size.trips)))))


def _distinct(sizes: Iterator[Size]) -> Iterator[Size]:
    seen: set[tuple[tuple[str, int], ...]] = set()
    for size in sizes:
        key = tuple(size.extents.items())
        if key not in seen:
            seen.add(key)
            yield size


def sized(kernel: KernelOp, trips: int, turns: int, columns: int = 1) -> Size:
    """A launch in which loops run `trips` times and there are so many tiles, as far as extents are free."""
    steps, ruled = loop_steps(kernel), _ruled(kernel)
    tiles = tile_extents(kernel)
    extents: dict[str, int] = {}
    for name in extent_names(kernel):
        if name in ruled:
            dimension, step = ruled[name]
            extents[name] = step * (turns if dimension == 0 else columns)
            if dimension > 0 and columns == 1 and name in steps:  # a loop runs along the tiles, or over a part of one
                extents[name] = steps[name] * max(trips, 1)
        elif name in steps:
            extents[name] = steps[name] * trips
        else:
            extents[name] = tiles.get(name, _DEFAULT_EXTENT)
    count = prod(-(-extents[name] // step) for name, (_, step) in ruled.items())
    return Size(extents, trips, count)


def satisfies_assumptions(kernel: KernelOp, extents: dict[str, int]) -> bool:
    """Whether a launch is one that the kernel is written for."""
    for op in kernel.walk():
        if isinstance(op, AssumeOp) and isinstance(op.view, BlockArgument):
            name = dims_of(op.view)[op.dimension]
            extent = extents[name] if isinstance(name, str) else name
            if -(-extent // op.step) % op.multiple:
                return False
    return True


def loop_steps(kernel: KernelOp) -> dict[str, int]:
    """By extent, the largest step of the loops over it."""
    steps: dict[str, int] = {}
    for op in kernel.walk():
        match op:
            case ForOp():
                _note(steps, op.view, op.dimension, op.step)
            case scf.ForOp():
                step = op.step.owner
                if isinstance(step, arith.ConstantOp) and isinstance(step.value, IntegerAttr):
                    for dim in _dims_behind(op.ub):
                        _note(steps, dim.view, dim.dimension, step.value.value.data)
            case _:
                pass
    return steps


def _dims_behind(value: SSAValue) -> list[DimOp]:
    """The extents that a value is computed from."""
    pending, seen, found = [value], set[SSAValue](), list[DimOp]()
    while pending:
        owner = pending.pop().owner
        if isinstance(owner, DimOp):
            found.append(owner)
        elif isinstance(owner, Operation):
            pending += [operand for operand in owner.operands if operand not in seen]
            seen.update(owner.operands)
    return found


def _note(extents: dict[str, int], view: SSAValue, dimension: int, extent: int) -> None:
    if isinstance(view, BlockArgument):
        name = dims_of(view)[dimension]
        if isinstance(name, str):
            extents[name] = max(extent, extents.get(name, 0))


def _ruled(kernel: KernelOp) -> dict[str, tuple[int, int]]:
    """By extent, the dimension and the step of the grid or the schedule over it."""
    for op in kernel.walk():
        if isinstance(op, GridOp | ScheduleOp) and isinstance(op.view, BlockArgument):
            names: Sequence[int | str] = dims_of(op.view)
            return {
                name: (dimension, op.step[dimension]) for dimension, name in enumerate(names) if isinstance(name, str)
            }
    return {}
