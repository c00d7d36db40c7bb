"""What the TMA engine is told about each tensor, and where each element of a tile lies in shared memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Literal

from xdsl.ir import SSAValue

from tilec.backend.abi import TensorMapParam
from tilec.backend.protocol.contract_walk import line_of, root_of
from tilec.backend.protocol.extents import dims_of
from tilec.design.copies import Ends, index_name
from tilec.design.subject import Subject
from tilec.dialects.tile import CopyAsyncOp, SmemType


@dataclass(frozen=True)
class Example:
    """One element: its logical coordinates in the tile, the stage, and its byte address from the start of shared memory."""

    coordinates: tuple[int, ...]
    stage: int
    address: int | None


@dataclass(frozen=True)
class SmemAddress:
    """Where the element at fast index `f` and slow index `s` of stage `t` lies, in bytes from the start of shared memory."""

    tile: str
    layout: str
    base: int | None
    stage_bytes: int
    formula: tuple[str, ...]
    examples: tuple[Example, ...]


@dataclass(frozen=True)
class Concrete:
    """Of a launch with the given shape."""

    extents: tuple[int, ...]
    """In elements, fastest first."""
    strides: tuple[int, ...]
    """In bytes, fastest first; those of a dense tensor."""
    bytes: int
    tiles: tuple[int, ...]
    """Steps of the box's tile along each dimension, fastest first."""
    overhang: tuple[int, ...]
    """Elements of the last tile that lie outside of the tensor, fastest first."""


@dataclass(frozen=True)
class Descriptor:
    """A tensor map, dimensions fastest first, and the copies that use it."""

    view: str
    tile: str
    direction: Literal["load", "store"]
    lines: tuple[int, ...]
    dtype: str
    element_bytes: int
    global_shape: tuple[str, ...]
    global_strides: tuple[str, ...]
    concrete: Concrete | None
    box: tuple[int, ...]
    box_bytes: int
    boxes: tuple[tuple[int, ...], ...]
    """Of one tile: the offset of each in elements, fastest first, and behind it its byte offset in the tile."""
    tile_bytes: int
    coordinates: tuple[str, ...]
    """Fastest first, once for each place of the program that copies."""
    boundary: str
    swizzle: int
    """Bytes of a swizzled row; 16 is no swizzle."""
    in_abi: bool | None
    """Whether the lowered kernel asks for this very map; None where it is not lowered."""
    address: SmemAddress


def descriptors(subject: Subject) -> tuple[Descriptor, ...]:
    """One for each map and shared tile that TMA copies with, in the order of the text."""
    groups: dict[tuple[SSAValue, SSAValue, SmemType], list[CopyAsyncOp]] = {}
    for op in (*subject.loads, *subject.stores):
        if op.dispatch == "tma":
            ends = Ends.of(op)
            groups.setdefault((ends.view, root_of(ends.tile), ends.tile_type), []).append(op)
    return tuple(_descriptor(subject, ops) for ops in groups.values())


def tensor_map(ends: Ends) -> TensorMapParam:
    """The recipe of the map that copies between the two."""
    box = ends.tile_type.layout.box
    view = ends.view_type
    return TensorMapParam(
        ends.view.index, box if view.rank == 2 else box[:1], ends.tile_type.swizzle, view.order, view.dtype.name
    )


def _descriptor(subject: Subject, ops: list[CopyAsyncOp]) -> Descriptor:
    first, ends = ops[0], Ends.of(ops[0])
    view, tile = ends.view_type, ends.tile_type
    layout, recipe = tile.layout, tensor_map(ends)
    names = [str(dims_of(ends.view)[dim]) for dim in view.order]
    size = view.dtype.bytes
    boxes = tuple((*offsets[: view.rank], at) for *offsets, at in layout.boxes())
    places = dict.fromkeys(f"({', '.join(index_name(op.indices[dim]) for dim in view.order)})" for op in ops)
    return Descriptor(
        ends.view_name,
        subject.walk.name(ends.tile),
        "load" if first.is_load else "store",
        tuple(sorted({line for op in ops if (line := line_of(op)) is not None})),
        view.dtype.name,
        size,
        tuple(names),
        (f"{size}", *(f"pitch of {ends.view_name}, {names[0]}*{size} if dense" for _ in names[1:])),
        None if subject.shape is None else _concrete(subject, ends, subject.shape),
        recipe.box,
        prod(recipe.box) * size,
        boxes,
        layout.size,
        tuple(places),
        _boundary(first, ends),
        tile.swizzle,
        None if subject.abi is None else recipe in subject.abi.params,
        _address(subject, ends),
    )


def _boundary(op: CopyAsyncOp, ends: Ends) -> str:
    if op.is_load:
        return (
            f"elements outside of {ends.view_name} arrive as zero, and a box over the edge counts in full: always "
            f"{ends.tile_type.layout.size} bytes"
        )
    return (
        f"what lies outside of {ends.view_name} is not written; the engine clips in 16-byte units, so that rows must end on "
        f"that grid (tail = {ends.view_type.tail})"
    )


def _concrete(subject: Subject, ends: Ends, shape: Mapping[str, int]) -> Concrete:
    view = ends.view_type
    dims = dims_of(ends.view)
    extents = [shape[dim] if isinstance(dim, str) else dim for dim in dims]
    fastest_first = [extents[dim] for dim in view.order]
    sizes = [ends.tile_type.shape[dim] for dim in view.order]
    strides = [view.dtype.bytes]
    for extent in fastest_first[:-1]:
        strides.append(strides[-1] * extent)
    tiles = [-(-extent // size) for extent, size in zip(fastest_first, sizes, strict=True)]
    over = [count * size - extent for count, size, extent in zip(tiles, sizes, fastest_first, strict=True)]
    total = prod(fastest_first) * view.dtype.bytes
    return Concrete(tuple(fastest_first), tuple(strides), total, tuple(tiles), tuple(over))


def _address(subject: Subject, ends: Ends) -> SmemAddress:
    root = root_of(ends.tile)
    layout, tile = ends.tile_type.layout, ends.tile_type
    blocks = () if subject.storage is None else subject.storage.tiles
    block = next((one for one in blocks if one.value is root), None)
    base = None if block is None else block.offset
    stages = 1 if block is None else block.size // block.slot_size
    width, size = tile.swizzle, layout.element_bytes
    mask = width - 16
    swizzle = "no swizzle: a = lin" if not mask else f"a = lin ^ ((lin >> 3) & {mask:#x})"
    formula = (
        f"lin = (f*{size} // {width})*{layout.block_bytes} + s*{width} + f*{size} % {width}",
        swizzle,
        f"address = {'base' if base is None else f'{base:#x}'} + stage*{layout.slot_size} + a",
    )
    order = "f = column, s = row" if tile.order[0] == 1 else "f = row, s = column"
    words = "one row" if len(tile.shape) == 1 else order
    return SmemAddress(
        subject.walk.name(ends.tile),
        f"{'x'.join(map(str, tile.shape))} {tile.dtype.name}, {words}, rows of {width} bytes",
        base,
        layout.slot_size,
        formula,
        tuple(_examples(ends, base, stages)),
    )


def _examples(ends: Ends, base: int | None, stages: int) -> list[Example]:
    """Corners and their neighbours: the first element, the next 16-byte unit, the next row, a row of each parity, the last."""
    tile, layout = ends.tile_type, ends.tile_type.layout
    unit = max(16 // layout.element_bytes, 1)
    places = [(0, 0), (unit, 0), (0, 1), (unit, 5), (layout.block_elements, 2), (layout.fast - 1, layout.slow - 1)]
    inside = dict.fromkeys((f, s) for f, s in places if f < layout.fast and s < layout.slow)
    found: list[Example] = []
    for number, (fast, slow) in enumerate(inside):
        stage = 0 if number < len(inside) - 1 else stages - 1
        at = layout.offset(fast, slow) + stage * layout.slot_size
        logical = (fast,) if len(tile.shape) == 1 else (slow, fast) if tile.order[0] == 1 else (fast, slow)
        found.append(Example(logical, stage, None if base is None else base + at))
    return found
