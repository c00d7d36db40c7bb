"""Storage of a CTA: shared tiles, rings of them, accumulators; their parts and what is known of them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import Attribute, SSAValue

from tilec.dialects.tile import F32, SWIZZLES, AccType, AllocOp, FreeOp, RingType, SliceOp, SlotOp, SmemType
from tilec.frontend.lowering.arguments import Argument, Slice
from tilec.frontend.lowering.frame import Site
from tilec.frontend.lowering.values import Acc, Barrier, Reg, Ring, Smem, Value
from tilec.frontend.lowering.vocabulary import attribute, subscript, word
from tilec.frontend.lowering.words.operands import shape_of, stage_index, tile_of
from tilec.frontend.lowering.words.scopes import refuse_in_role

_Shape = tuple[Argument, ...]


@word("smem")
def smem(site: Site, *, shape: _Shape, dtype: Argument, order: Argument, swizzle: Argument) -> Smem:
    extents, element = shape_of(site, "tile.smem", shape, dtype, "tile.smem(128, 64, A.dtype)")
    facts = _order(order), _swizzle(swizzle)
    return Smem(_alloc(site, _slot_type(site, extents, element.type, *facts)))


@word("ring")
def ring(site: Site, *, shape: _Shape, dtype: Argument, depth: Argument, order: Argument, swizzle: Argument) -> Ring:
    extents, element = shape_of(site, "tile.ring", shape, dtype, "tile.ring(128, 64, A.dtype, depth=2)")
    stages, facts = depth.integer(), (_order(order), _swizzle(swizzle))
    slot = _slot_type(site, extents, element.type, *facts)
    return Ring(_alloc(site, depth.guard(lambda: RingType.of(stages, slot))))


@word("acc")
def acc(site: Site, *, rows: Argument, columns: Argument) -> Acc:
    extents = rows.integer(), columns.integer()
    return Acc(_alloc(site, site.guard(lambda: AccType.of(extents, F32.type))))


@word("free")
def free(site: Site, *, acc: Argument) -> None:
    whole = tile_of(acc, Acc)
    if isinstance(whole.value.owner, SliceOp):
        acc.fail("acc is a part of an accumulator, whose memory is given back as a whole", "name the whole of it")
    site.emit(lambda: FreeOp(whole.value))


def _slot_type(
    site: Site, extents: tuple[int, ...], element: Attribute, order: tuple[int, ...] | None, swizzle: int
) -> SmemType:
    return site.guard(lambda: SmemType.of(extents, element, order=order, swizzle=swizzle))


def _order(argument: Argument) -> tuple[int, ...] | None:
    return None if argument.value is None else argument.integers()


def _swizzle(argument: Argument) -> int:
    """Bytes of a swizzled row; 0 where no layout is chosen yet."""
    if argument.value is None:
        return 0
    swizzle = argument.integer()
    if swizzle not in SWIZZLES:
        argument.fail(f"swizzle is 128, 64 or 32 bytes, or 16 for none, not {swizzle}")
    return swizzle


def _alloc(site: Site, type: SmemType | RingType | AccType) -> SSAValue:
    refuse_in_role(site, "a role cannot make storage, which belongs to the CTA")
    return site.emit(lambda: AllocOp(type)).res


@subscript(Ring)
def slot(site: Site, ring: Ring, items: Sequence[Argument | Slice]) -> Smem:
    stage = stage_index(site, items, ring.type.depth, "a ring")
    return Smem(site.emit(lambda: SlotOp(ring.value, stage)).res)


@subscript(Acc)
def part(site: Site, acc: Acc, items: Sequence[Argument | Slice]) -> Acc:
    if len(items) != 2 or not all(isinstance(item, Slice) for item in items):
        site.fail("a part of an accumulator is a range of rows and one of columns", "as in acc[:, 0:64]")
    ranges = [
        _range(item, extent) for item, extent in zip(items, acc.type.shape, strict=True) if isinstance(item, Slice)
    ]
    offsets = [start for start, _ in ranges]
    type = site.guard(lambda: AccType.of([stop - start for start, stop in ranges], F32.type))
    return Acc(site.emit(lambda: SliceOp(acc.value, offsets, type)).res)


def _range(item: Slice, extent: int) -> tuple[int, int]:
    start = 0 if item.start is None else item.start.integer()
    stop = extent if item.stop is None else item.stop.integer()
    if not 0 <= start < stop <= extent:
        item.fail(f"{start}:{stop} is no range inside of 0:{extent}")
    return start, stop


@attribute(Smem, "shape")
@attribute(Acc, "shape")
@attribute(Reg, "shape")
def shape(site: Site, tile: Smem | Acc | Reg) -> Value:
    return tile.type.shape


@attribute(Smem, "dtype")
@attribute(Acc, "dtype")
@attribute(Reg, "dtype")
def dtype(site: Site, tile: Smem | Acc | Reg) -> Value:
    return tile.type.dtype


@attribute(Smem, "nbytes")
@attribute(Acc, "nbytes")
@attribute(Reg, "nbytes")
def nbytes(site: Site, tile: Smem | Acc | Reg) -> Value:
    return prod(tile.type.shape) * tile.type.dtype.bytes


@attribute(Ring, "shape")
def slot_shape(site: Site, ring: Ring) -> Value:
    return ring.type.slot.shape


@attribute(Ring, "dtype")
def slot_dtype(site: Site, ring: Ring) -> Value:
    return ring.type.slot.dtype


@attribute(Ring, "nbytes")
def slot_nbytes(site: Site, ring: Ring) -> Value:
    return prod(ring.type.slot.shape) * ring.type.slot.dtype.bytes


@attribute(Ring, "depth")
@attribute(Barrier, "depth")
def depth(site: Site, owner: Ring | Barrier) -> Value:
    return owner.type.depth
