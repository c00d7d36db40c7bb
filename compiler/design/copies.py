"""For each copy: does TMA suit it, who does it, and if it is the threads, why."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal

from xdsl.ir import BlockArgument, SSAValue

from tilec.backend.protocol.contract_walk import constant, line_of, root_of
from tilec.backend.protocol.extents import dims_of
from tilec.design.subject import Subject
from tilec.diagnostics import collect, location_of
from tilec.dialects.tile import CopyAsyncOp, CopyOp, SmemType, ViewType
from tilec.passes.dispatch import TMA_ALIGNMENT, Dispatch
from tilec.passes.divisibility import divisor

_NO_LAYOUT = "the shared tile has no layout"


@dataclass(frozen=True)
class Criterion:
    """One condition on what TMA copies."""

    name: Literal["regular", "rectangular", "fixed strides", "large enough"]
    holds: bool
    because: str


@dataclass(frozen=True)
class Copy:
    """The copies between one view and one shared tile."""

    view: str
    tile: str
    direction: Literal["load", "store"]
    lines: tuple[int, ...]
    """Of the program."""
    bytes: int
    """Of one copy: a whole tile, whatever part of it lies inside the tensor."""
    criteria: tuple[Criterion, ...]
    suits: bool
    engine: Literal["TMA", "threads"]
    reason: str | None
    """Why TMA does not suit, or why the threads do it all the same."""

    @property
    def choice(self) -> str:
        """What is done, in a sentence."""
        what = f"{self.view} -> {self.tile}" if self.direction == "load" else f"{self.tile} -> {self.view}"
        suits = "TMA suits" if self.suits else "do not use TMA"
        done = "TMA does it" if self.engine == "TMA" else "the threads copy it in vectors"
        why = "" if self.reason is None else f" ({self.reason})"
        return f"{what}: {suits}, and {done}{why}"


@dataclass(frozen=True)
class Ends:
    """A copy's view, its shared tile, and the types of both."""

    view: BlockArgument
    view_type: ViewType
    tile: SSAValue
    tile_type: SmemType

    @staticmethod
    def of(op: CopyAsyncOp) -> Ends:
        assert op.dest is not None
        view, tile = (op.source, op.dest) if op.is_load else (op.dest, op.source)
        assert isinstance(view, BlockArgument) and isinstance(view.type, ViewType) and isinstance(tile.type, SmemType)
        return Ends(view, view.type, tile, tile.type)

    @property
    def view_name(self) -> str:
        return self.view.name_hint or f"argument {self.view.index}"


def index_name(index: SSAValue) -> str:
    """A coordinate as the program writes it: ``%k``, or a number."""
    number = constant(index)
    return f"%{index.name_hint or 'index'}" if number is None else str(number)


def copies(subject: Subject) -> tuple[Copy, ...]:
    """One row for each view and shared tile that are copied into each other, in the order of the text."""
    groups: dict[tuple[SSAValue, SSAValue, str], list[CopyAsyncOp]] = {}
    for op in (*subject.loads, *subject.stores):
        ends = Ends.of(op)
        groups.setdefault((ends.view, root_of(ends.tile), op.dispatch), []).append(op)
    return tuple(_copy(subject, ops) for ops in groups.values())


def _copy(subject: Subject, ops: list[CopyAsyncOp]) -> Copy:
    first, ends = ops[0], Ends.of(ops[0])
    problems = [problem for op in ops if (problem := _problem(subject, op)) is not None]
    tma = first.dispatch == "tma"
    reason = problems[0] if problems else None
    if reason is None and not tma:
        reason = _chosen(subject)
    return Copy(
        ends.view_name,
        subject.walk.name(ends.tile),
        "load" if first.is_load else "store",
        tuple(sorted({line for op in ops if (line := line_of(op)) is not None})),
        prod(ends.tile_type.shape) * ends.tile_type.dtype.bytes,
        _criteria(subject, first, ends),
        not problems,
        "TMA" if tma else "threads",
        reason,
    )


def _chosen(subject: Subject) -> str:
    """Who decided that the threads do what TMA suits."""
    if subject.by_hand:
        return "the kernel is written so"
    named = any(one.name == "threads" for one in subject.passes)
    return "the pass list says so" if named else "the pass list has no tma"


def _problem(subject: Subject, op: CopyAsyncOp) -> str | None:
    """Why TMA does not suit a copy: what the pass said of it, else what it would say."""
    place = location_of(op)
    told = f"the threads {'load' if op.is_load else 'store'} this tile: "
    for remark in subject.remarks:
        if remark.location == place and remark.message.startswith(told) and op.dispatch == "threads":
            return remark.message.removeprefix(told)
    return _why_not(subject, op)


def _why_not(subject: Subject, op: CopyAsyncOp) -> str | None:
    ends = Ends.of(op)
    if not ends.tile_type.swizzle:
        return _NO_LAYOUT
    assert op.dest is not None
    asked = CopyOp(op.source, op.dest, list(op.indices))
    try:
        with collect():
            chooser = Dispatch(subject.least_tma_bytes)
            return chooser.choose(asked, ends.view_type, ends.tile_type, rewritten=False)
    finally:
        asked.drop_all_references()


def _criteria(subject: Subject, op: CopyAsyncOp, ends: Ends) -> tuple[Criterion, ...]:
    view, least = ends.view_type, subject.least_tma_bytes
    size = prod(ends.tile_type.shape) * view.dtype.bytes
    tail = "" if view.tail == "grid" else ", rows end off the 16-byte grid"
    return (
        _regular(op, ends),
        _rectangular(ends),
        Criterion(
            "fixed strides",
            view.align >= TMA_ALIGNMENT and (op.is_load or view.tail == "grid"),
            f"base and pitches are multiples of {view.align} bytes{tail}",
        ),
        Criterion("large enough", size >= least, f"{size} bytes a copy; TMA pays from {least} on"),
    )


def _regular(op: CopyAsyncOp, ends: Ends) -> Criterion:
    fast = ends.view_type.order[0]
    inner = op.indices[fast]
    grid = divisor(inner) * ends.view_type.dtype.bytes
    place = ", ".join(index_name(index) for index in op.indices)
    multiple = f"a multiple of {grid} bytes" if grid else "0"
    because = f"starts at [{place}]; {index_name(inner)} along {dims_of(ends.view)[fast]} is {multiple}"
    return Criterion("regular", grid % TMA_ALIGNMENT == 0, because)


def _rectangular(ends: Ends) -> Criterion:
    view, tile = ends.view_type, ends.tile_type
    if not tile.swizzle:
        return Criterion("rectangular", False, _NO_LAYOUT)
    if tile.order != view.order:
        because = f"the tile has order {list(tile.order)}, the view {list(view.order)}"
        return Criterion("rectangular", False, because)
    layout = tile.layout
    if layout.tma_problem is not None:
        return Criterion("rectangular", False, layout.tma_problem)
    boxes = len(layout.boxes())
    box = " x ".join(map(str, layout.box[: view.rank]))
    return Criterion("rectangular", True, f"{boxes} box{'' if boxes == 1 else 'es'} of {box} elements")
