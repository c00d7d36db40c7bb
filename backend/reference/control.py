"""Order of execution: grids, loops, branches and the tile scheduler."""

from __future__ import annotations

from xdsl.dialects import scf

from tilec.backend.reference.cta import Cta, Handlers, Value
from tilec.backend.reference.numerics import Array
from tilec.backend.reference.storage import View
from tilec.diagnostics import fail
from tilec.dialects.tile import AssumeOp, DimOp, ForOp, GridOp, ScheduleOp

handlers = Handlers()


def schedule(turn: int, cta: int, ctas: int, tiles_m: int, tiles_n: int, group: int) -> tuple[bool, int, int]:
    """The tile that CTA `cta` of `ctas` visits at its turn: (valid, index along M, index along N).

    Tiles are numbered in groups of `group` tile rows, along M inside a group; the last group takes the rows that
    remain. Past the last tile the indices mean nothing and are 0.
    """
    tile = cta + turn * ctas
    if tile >= tiles_m * tiles_n:
        return False, 0, 0
    width = group * tiles_n
    first_row = tile // width * group
    rows = min(tiles_m - first_row, group)
    return True, first_row + tile % width % rows, tile % width // rows


def tile_counts(array: Array, step: tuple[int, ...]) -> tuple[int, ...]:
    """Tiles along each dimension of a tensor."""
    return tuple(-(-extent // s) for extent, s in zip(array.shape, step, strict=True))


@handlers.of(GridOp)
def _grid(cta: Cta, op: GridOp) -> None:
    cta.run(op.body.block, cta.tile)


@handlers.of(ForOp)
def _tile_for(cta: Cta, op: ForOp) -> None:
    carried: list[Value] = cta.get_all(op.inits)
    for offset in range(0, cta.get(op.view, View).array.shape[op.dimension], op.step):
        carried = cta.run(op.body.block, [offset, *carried])
    cta.bind(op.res, carried)


@handlers.of(DimOp)
def _dim(cta: Cta, op: DimOp) -> None:
    cta.set_integer(op.res, cta.get(op.view, View).array.shape[op.dimension])


@handlers.of(AssumeOp)
def _assume(cta: Cta, op: AssumeOp) -> None:
    view = cta.get(op.view, View)
    extent = view.array.shape[op.dimension]
    if not op.holds(extent):
        fail(
            op,
            f"the kernel assumes a multiple of {op.multiple} tiles of {op.step} along dimension {op.dimension} of {view.name}, "
            f"which has {extent} elements: {op.tiles(extent)} tiles",
        )


@handlers.of(ScheduleOp)
def _schedule(cta: Cta, op: ScheduleOp) -> None:
    tiles_m, tiles_n = (*tile_counts(cta.get(op.view, View).array, op.step), 1)[:2]
    valid, *tile = schedule(cta.unsigned(op.turn), cta.number, cta.total, tiles_m, tiles_n, op.group)
    cta.set_integer(op.valid, int(valid))
    for name, index, step in zip(op.offsets, tile, op.step, strict=False):  # a view of rank 1 has one offset
        cta.set_integer(name, index * step)


@handlers.of(scf.ForOp)
def _scf_for(cta: Cta, op: scf.ForOp) -> None:
    step = cta.signed(op.step)
    if step <= 0:
        fail(op, f"the loop's step is {step}: it must be positive")
    carried = cta.get_all(op.iter_args)
    for i in range(cta.signed(op.lb), cta.signed(op.ub), step):
        carried = cta.run(op.body.block, [i, *carried])
    cta.bind(op.res, carried)


@handlers.of(scf.IfOp)
def _scf_if(cta: Cta, op: scf.IfOp) -> None:
    region = op.true_region if cta.unsigned(op.cond) else op.false_region
    cta.bind(op.output, cta.run(region.block) if region.blocks else [])


_ADVANCE = "advance what its condition depends on: the turn of a persistent loop grows by 1"


_MOST_TURNS = 1 << 18


@handlers.of(scf.WhileOp)
def _scf_while(cta: Cta, op: scf.WhileOp) -> None:
    carried: list[Value] = cta.get_all(op.arguments)
    turns, earlier = 0, list[int]()
    while True:
        # Nothing but its scalars decides how a loop goes on. Those of one earlier turn are kept, a later one whenever the
        # number of turns has doubled: the numbers of a loop without end come round, and one of the kept ones with them.
        scalars = [value for value in carried if isinstance(value, int)]
        if turns and scalars == earlier:
            cta.never_ends(op, "this loop never ends: it carries the same numbers again", _ADVANCE)
        if turns == _MOST_TURNS:
            cta.never_ends(op, f"this loop has not ended after {turns} iterations", _ADVANCE)
        if turns & (turns - 1) == 0:
            earlier = scalars
        turns += 1
        goes_on, *carried = cta.run(op.before_region.block, carried)
        if not goes_on:
            break
        carried = cta.run(op.after_region.block, carried)
    cta.bind(op.res, carried)
