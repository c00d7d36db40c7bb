"""Tiles that do not fit their steps: legal, but rarely meant.

A loop that advances by 32 over tiles of 64 visits elements twice; a grid that advances by 128 over tiles of 64 leaves gaps, and
one over A does not cover D.
"""

from __future__ import annotations

from xdsl.ir import Block, BlockArgument, SSAValue

from tilec.diagnostics import remark
from tilec.dialects.tile import AccType, CopyOp, ForOp, GridOp, RegType, SmemType, ViewType


def remark_misfits(body: Block) -> None:
    """Tell the user of every copy whose tile is larger or smaller than the step of the variable that places it."""
    for op in body.walk():
        if not isinstance(op, CopyOp):
            continue
        tile = op.dest.type if op.is_load else op.source.type
        assert isinstance(tile, SmemType | AccType | RegType)
        if not op.is_load:
            _remark_other_extent(op)
        for dim, (index, extent) in enumerate(zip(op.indices, tile.shape, strict=True)):
            step = _step_of(index)
            if step is None or step == extent:
                continue
            what = "neighbouring tiles overlap" if extent > step else "elements between the tiles are skipped"
            remark(
                op,
                f"this tile spans {extent} along dimension {dim}, but %{index.name_hint or dim} advances by {step}: {what}",
            )


def _remark_other_extent(store: CopyOp) -> None:
    """A grid over one view that places stores to another one, whose extent has another name."""
    assert isinstance(store.dest.type, ViewType)
    for dim, (index, symbol) in enumerate(zip(store.indices, store.dest.type.dims, strict=True)):
        grid = index.block.parent_op() if isinstance(index, BlockArgument) else None
        if not isinstance(grid, GridOp) or not isinstance(index, BlockArgument) or not isinstance(symbol, str):
            continue
        assert isinstance(grid.view.type, ViewType)
        counted = grid.view.type.dims[index.index]
        if counted != symbol and isinstance(counted, str):
            view, over = store.dest.name_hint or "the view", grid.view.name_hint or "another view"
            remark(
                store,
                f"%{index.name_hint or dim} runs over {counted} of %{over}, and dimension {dim} of %{view} is {symbol}: "
                "where it is longer, the rest is not stored",
                hint=f"let the grid run over %{view}",
            )


def _step_of(index: SSAValue) -> int | None:
    """The step of a grid's or a loop's variable; None for any other value."""
    if not isinstance(index, BlockArgument):
        return None
    match index.block.parent_op():
        case GridOp() as grid:
            return grid.step[index.index]
        case ForOp() as loop if index.index == 0:
            return loop.step
        case _:
            return None
