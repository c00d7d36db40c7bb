"""Loops over the tiles of views and over numbers."""

from __future__ import annotations

from xdsl.ir import Region

from tilec.dialects.tile import ForOp, GridOp, YieldOp
from tilec.frontend.lowering.arguments import Argument
from tilec.frontend.lowering.loops import Loop, counted
from tilec.frontend.lowering.values import View
from tilec.frontend.lowering.vocabulary import loop
from tilec.frontend.lowering.words.operands import dimension_of, number_of, steps_of, tile_of


@loop("grid")
def grid(site: Loop, *, view: Argument, step: Argument) -> None:
    if site.state.at is not site.state.body:
        site.fail("tile.grid is the outermost loop of a kernel", "for a loop inside write tile.range or tile.loop")
    over = tile_of(view, View)
    steps, rank = steps_of(step, over), over.type.rank
    variables = site.variables(rank, f"a grid over {number_of(rank, 'dimension')} has {number_of(rank, 'variable')}")
    body = site.independent(variables)
    site.emit(lambda: GridOp(over.value, steps, Region(body)))


@loop("range")
def range_(site: Loop, *, view: Argument, dim: Argument, step: Argument) -> None:
    over = tile_of(view, View)
    dimension, size = dimension_of(dim, over), step.integer()
    (variable,) = site.variables(1, "tile.range has 1 variable")
    site.carrying(
        variable,
        lambda values: YieldOp(*values),
        lambda region, inits: ForOp(over.value, dimension, size, region, inits),
    )


@loop("loop")
def loop_(site: Loop, *, start: Argument, stop: Argument, step: Argument) -> None:
    counted(site, start, stop, step)
