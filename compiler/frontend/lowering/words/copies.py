"""Copies: between views and tiles, complete at once or later, and between shared tiles and registers."""

from __future__ import annotations

from typing import NoReturn

from tilec.dialects.tile import CopyAsyncOp, CopyOp, LoadOp, RegType, StoreOp
from tilec.dialects.tile.memory import DISPATCHES
from tilec.frontend.lowering.arguments import Argument
from tilec.frontend.lowering.frame import Site
from tilec.frontend.lowering.values import Acc, Place, Reg, Ring, Smem, Value, View, kind
from tilec.frontend.lowering.vocabulary import word
from tilec.frontend.lowering.words.operands import barrier_of, described, tile_of


@word("copy")
def copy(site: Site, *, source: Argument, destination: Argument) -> None:
    match source.value, destination.value:
        case Place() as place, Smem() as tile:
            site.emit(lambda: CopyOp(place.view.value, tile.value, place.offsets))
        case (Smem() | Acc() | Reg()) as tile, Place() as place:
            site.emit(lambda: CopyOp(tile.value, place.view.value, place.offsets))
        case _:
            _refuse_copy(site, "tile.copy", "a tile", source.value, destination.value)


def _refuse_copy(site: Site, word: str, tile: str, source: Value, destination: Value) -> NoReturn:
    site.fail(
        f"{word} goes from a view at offsets to {tile} or back, not from {kind(source)} to {kind(destination)}",
        _instead(source, destination),
    )


def _instead(source: Value, destination: Value) -> str:
    """What to write in place of a copy between these two."""
    match source, destination:
        case (View(), _) | (_, View()):
            return "name the place in the view by offsets, as in A[m, k]"
        case (Ring(), _) | (_, Ring()):
            return "take the tile of one stage: ring[s]"
        case Place(), Place():
            return "copy to a shared tile (tile.smem), and from there"
        case Place(), Acc() | Reg():
            return "copy to a shared tile (tile.smem), and read it with tile.load"
        case ((Smem() | Acc()), Reg()):
            return "a register tile is a value: r = tile.load(a)"
        case Reg(), Smem():
            return "use tile.store between registers and a shared tile"
        case ((Smem() | Acc() | Reg()), (Smem() | Acc())):
            return "use tile.load and tile.store between tiles"
        case _:
            return "as in tile.copy(A[m, k], a)"


@word("copy_async")
def copy_async(
    site: Site, *, source: Argument, destination: Argument, dispatch: Argument, signal: Argument
) -> Reg | None:
    match dispatch.choice(*DISPATCHES):
        case "tmem":
            return _read_accumulator(site, source, destination, signal)
        case chosen:
            return _between_view_and_tile(site, source, destination, chosen, signal)


def _read_accumulator(site: Site, source: Argument, destination: Argument, signal: Argument) -> Reg:
    acc = tile_of(source, Acc)
    example = 'r = tile.copy_async(acc, dispatch="tmem")'
    if destination.value is not None:
        destination.fail("a copy from an accumulator gives a register tile: it has no destination", f"as in {example}")
    if signal.value is not None:
        signal.fail("a copy from an accumulator signals no barrier", "wait for it with tile.tmem.wait_ld()")
    type = RegType.of(acc.type.shape, acc.type.element)
    op = site.emit(lambda: CopyAsyncOp(acc.value, None, (), "tmem", result=type))
    assert op.res is not None
    return Reg(op.res)


def _between_view_and_tile(
    site: Site, source: Argument, destination: Argument, dispatch: str, signal: Argument
) -> None:
    match source.value, destination.value:
        case (Place() as place, Smem() as tile) | (Smem() as tile, Place() as place):
            pass
        case Acc(), _:
            source.fail("an accumulator is copied to registers", 'as in r = tile.copy_async(acc, dispatch="tmem")')
        case _ if destination.value is None:
            site.fail("this copy has no destination", f'as in tile.copy_async(A[m, k], a, dispatch="{dispatch}", ...)')
        case _:
            _refuse_copy(site, "tile.copy_async", "a shared tile", source.value, destination.value)
    is_load = isinstance(source.value, Place)
    if dispatch == "tma":
        _check_tma(site, place.view, destination if is_load else source, tile)
        _check_completion(site, place.view, is_load, signal)
    elif signal.value is not None:
        signal.fail("a copy by threads signals no barrier", "the threads meet behind it: tile.cta_sync()")
    barrier, stage = (None, None) if signal.value is None else barrier_of(signal)
    ends = (place.view.value, tile.value) if is_load else (tile.value, place.view.value)
    site.emit(lambda: CopyAsyncOp(*ends, place.offsets, dispatch, barrier=barrier, stage=stage))


_BY_THREADS = 'copy it with dispatch="threads"'


def _check_tma(site: Site, view: View, argument: Argument, tile: Smem) -> None:
    """What TMA asks of a view and a shared tile, which `argument` names."""
    if not tile.type.swizzle:
        argument.fail(
            "TMA needs to know how the shared tile lies in memory", "make it with swizzle=128 (64, 32, or 16)"
        )
    if tile.type.order != view.type.order and len(tile.type.shape) == view.type.rank:
        argument.fail(f"TMA cannot transpose: the tile has order {tile.type.order}, and the view {view.type.order}")
    if view.type.align != 16:
        site.fail(f"TMA needs rows at multiples of 16 bytes, and the view has align={view.type.align}", _BY_THREADS)


def _check_completion(site: Site, view: View, is_load: bool, signal: Argument) -> None:
    """How a copy by TMA tells that it is done."""
    if is_load:
        if signal.value is None:
            site.fail("a TMA load completes on an mbarrier: say which", "add signal=full[s]")
        return
    if signal.value is not None:
        hint = "use tile.bulk.commit_group() and tile.bulk.wait_group(0)"
        signal.fail("a TMA store completes by bulk group: it signals no barrier", hint)
    if view.type.tail != "grid":
        message = 'a TMA store writes units of 16 bytes, and a row of the view may end inside of one (tail="free")'
        site.fail(message, _BY_THREADS)


@word("load")
def load(site: Site, *, source: Argument) -> Reg:
    tile = source.value if isinstance(source.value, Acc) else tile_of(source, Smem)
    type = RegType.of(tile.type.shape, tile.type.element)
    return Reg(site.emit(lambda: LoadOp(tile.value, type)).res)


@word("store")
def store(site: Site, *, value: Argument, destination: Argument) -> None:
    if isinstance(destination.value, Place | View):
        destination.fail("tile.store goes to a shared tile", "to a view, write tile.copy(r, D[m, n])")
    reg, tile = tile_of(value, Reg), tile_of(destination, Smem)
    if reg.type.shape != tile.type.shape or reg.type.dtype != tile.type.dtype:
        convert = reg.type.shape == tile.type.shape
        site.fail(
            f"{described(reg)} does not fit {described(tile)}",
            f"convert it: {value.text}.to(tile.{tile.type.dtype.name})" if convert else None,
        )
    site.emit(lambda: StoreOp(reg.value, tile.value))
