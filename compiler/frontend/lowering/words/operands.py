"""What words take: tiles, shapes, barriers and stages, each refused with what to write in place of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

from xdsl.dialects.builtin import i1, i32
from xdsl.ir import SSAValue

from tilec.dialects.tile import DType
from tilec.frontend.lowering.arguments import Argument, Slice
from tilec.frontend.lowering.frame import Site
from tilec.frontend.lowering.values import (
    Acc,
    Barrier,
    Place,
    Reg,
    Ring,
    RunTime,
    Scalar,
    Smem,
    Thing,
    Value,
    View,
    kind,
)

_Tile = TypeVar("_Tile", bound=RunTime)


@dataclass(frozen=True)
class Stage(Thing):
    """The barrier of one stage, ``full[s]``."""

    noun: ClassVar[str] = "the barrier of a stage"

    barrier: Barrier
    stage: SSAValue


_INSTEAD: dict[tuple[type[RunTime], type[object]], str] = {
    (Smem, View): "copy a part of it to a shared tile first: tile.copy(A[m, k], a)",
    (Smem, Place): "copy it to a shared tile first: tile.copy(A[m, k], a)",
    (Smem, Ring): "take the tile of one stage: ring[s]",
    (Smem, Acc): "an accumulator goes to registers, and from there to a shared tile by tile.store",
    (Smem, Reg): "write it to a shared tile first: tile.store(r, a)",
    (Reg, Smem): "read it first: tile.load(a)",
    (Reg, Acc): 'read it first: tile.load(acc), or tile.copy_async(acc, dispatch="tmem") in an asynchronous kernel',
    (Reg, int): "write a tile of it: tile.splat(value, 128, 64, tile.f32)",
    (Reg, float): "write a tile of it: tile.splat(value, 128, 64, tile.f32)",
    (View, Place): "name the view alone, without offsets",
}
"""What to write where a value of the first class is wanted and one of the second is given."""


def tile_of(argument: Argument, wanted: type[_Tile]) -> _Tile:
    """The value of an argument that is of one class of tiles (or a view)."""
    return argument.of(wanted, instead_of(wanted, argument.value))


def instead_of(wanted: type[RunTime], given: Value) -> str | None:
    """What to write where a value of this class is wanted and another is given."""
    return _INSTEAD.get((wanted, type(given)))


def shape_of(
    site: Site, word: str, shape: Sequence[Argument], dtype: Argument, example: str
) -> tuple[tuple[int, ...], DType]:
    """The extents and the element type of ``tile.smem(128, 64, tile.f16)``; the extents may be one tuple."""
    extents, element = list(shape), dtype
    if dtype.is_default:
        if not extents or not isinstance(extents[-1].value, DType | str):
            site.fail(f"{word} needs an element type behind its extents", f"as in {example}")
        element = extents.pop()
    if len(extents) == 1 and isinstance(extents[0].value, tuple):
        sizes = extents[0].integers()
    else:
        sizes = tuple(_extent(e) for e in extents)
    if len(sizes) not in (1, 2):
        site.fail(f"a tile has one or two extents, not {len(sizes)}", f"as in {example}")
    return sizes, element.dtype()


def _extent(argument: Argument) -> int:
    if not isinstance(argument.value, int) or isinstance(argument.value, bool):
        argument.fail(f"an extent of a tile must be an integer known at compile time, not {kind(argument.value)}")
    return argument.value


def steps_of(argument: Argument, view: View) -> tuple[int, ...]:
    """The steps of a loop over the tiles of a view: one for each of its dimensions."""
    steps = argument.integers()
    rank = view.type.rank
    if len(steps) != rank:
        argument.fail(
            f"{number_of(len(steps), 'step')} over a view of {number_of(rank, 'dimension')}: give one for each dimension"
        )
    return steps


def dimension_of(argument: Argument, view: View) -> int:
    dim, rank = argument.integer(), view.type.rank
    if not 0 <= dim < rank:
        argument.fail(f"there is no dimension {dim} in a view of {number_of(rank, 'dimension')}", "they count from 0")
    return dim


def number_of(number: int, noun: str) -> str:
    """As in "1 step", "2 steps"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def stage_index(site: Site, items: Sequence[Argument | Slice], depth: int, what: str) -> SSAValue:
    """The stage in ``ring[s]`` or ``full[s]``."""
    if len(items) != 1 or isinstance(items[0], Slice):
        site.fail(f"{what} is indexed by one stage", "as in ring[s]" if what == "a ring" else "as in full[s]")
    item = items[0]
    value = item.value
    if isinstance(value, int) and not isinstance(value, bool) and not 0 <= value < depth:
        stages = "stage 0 only" if depth == 1 else f"stages 0 to {depth - 1}"
        item.fail(f"there is no stage {value}: {what} of depth {depth} has {stages}")
    if isinstance(value, Scalar) and value.type == i32:
        item.fail("a stage must be a run-time index, not a run-time i32", "start it with tile.index(0)")
    return replace(item, name="a stage").index()


def barrier_of(argument: Argument) -> tuple[SSAValue, SSAValue | None]:
    """A barrier and, where there are several of them, the stage: ``full[s]``, or ``done`` where there is one."""
    match argument.value:
        case Stage(barrier, stage):
            return barrier.value, stage
        case Barrier() as barrier:
            depth = barrier.type.depth
            if depth > 1:
                argument.fail(
                    f"`{argument.text}` has {depth} stages, each with a barrier of its own",
                    f"name one: {argument.text}[s]",
                )
            return barrier.value, None
        case _:
            argument.refuse("an mbarrier", "make it with tile.mbarrier.init")


def phase_of(argument: Argument) -> SSAValue:
    """The parity of a round: an i32 at run time, or 0 or 1."""
    value = argument.value
    if isinstance(value, Scalar) and value.type == i32:
        return value.value
    if isinstance(value, Scalar):
        argument.refuse("a run-time i32", "start it with tile.i32(0), and flip it with ^= 1")
    if not isinstance(value, int) or isinstance(value, bool):
        argument.refuse("a run-time i32, or 0 or 1")
    if value not in (0, 1):
        argument.fail(f"{argument.name} must be the parity of a round, 0 or 1, not {value}")
    return argument.constant(value, i32)


def flag_of(argument: Argument) -> SSAValue:
    """A condition at run time, or True or False."""
    value = argument.value
    if isinstance(value, Scalar) and value.is_condition:
        return value.value
    if not isinstance(value, bool):
        argument.refuse("a condition", "as in accumulate=k != 0")
    return argument.constant(value, i1)


def described(value: Value) -> str:
    """A tile with its shape and element type, for a message."""
    match value:
        case Smem() | Acc() | Reg():
            shape = "x".join(map(str, (*value.type.shape, value.type.dtype.name)))
            return f"{value.kind} of {shape}"
        case _:
            return kind(value)
