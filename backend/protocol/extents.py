"""The extents of a kernel's views: their names, and the steps that its grid and its loops take over them."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import BlockArgument

from tilec.dialects.tile import (
    AccType,
    CopyAsyncOp,
    CopyOp,
    ForOp,
    GridOp,
    KernelOp,
    RegType,
    ScheduleOp,
    SmemType,
    ViewType,
)


def dims_of(argument: BlockArgument) -> list[int | str]:
    """Extents of a view and their names; one that the type leaves open is called after its argument: ``A.0``."""
    assert isinstance(argument.type, ViewType)
    hint = argument.name_hint or f"argument{argument.index}"
    return [f"{hint}.{i}" if dim is None else dim for i, dim in enumerate(argument.type.dims)]


def extents_of(argument: BlockArgument, shape: Mapping[str, int]) -> list[int]:
    """Extents of a view in a launch, where `shape` has one for each name."""
    return [shape[dim] if isinstance(dim, str) else dim for dim in dims_of(argument)]


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


def tile_extents(kernel: KernelOp) -> dict[str, int]:
    """By extent, the largest tile that is copied along it."""
    tiles: dict[str, int] = {}
    for op in kernel.walk():
        if isinstance(op, CopyOp | CopyAsyncOp) and op.dest is not None:
            view, tile = (op.source, op.dest) if op.is_load else (op.dest, op.source)
            if isinstance(view, BlockArgument):
                assert isinstance(tile.type, SmemType | AccType | RegType)
                for name, extent in zip(dims_of(view), tile.type.shape, strict=True):
                    if isinstance(name, str):
                        tiles[name] = max(extent, tiles.get(name, 0))
    return tiles
