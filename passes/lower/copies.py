"""Copies between global and shared memory: TMA boxes, and the vectorised, masked copy by all threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from tilec.diagnostics import fail
from tilec.dialects import nvvm
from tilec.dialects.tile import CopyAsyncOp
from tilec.passes.divisibility import divides, divisor
from tilec.passes.lower.barriers import barrier_pointer
from tilec.passes.lower.emit import PTR_CLUSTER, integer_bytes
from tilec.passes.lower.kernel import KernelLowering, SmemTile, View

_VECTOR_BYTES = 16
"""The widest access of one thread."""


@dataclass(frozen=True)
class _Copy:
    """A copy between `view` at `indices` and `tile`, which lies in memory along the view's fast dimension or across it."""

    view: View
    tile: SmemTile
    indices: tuple[SSAValue, ...]
    is_load: bool


def _copy(k: KernelLowering, op: CopyAsyncOp) -> _Copy:
    assert op.dest is not None
    view, tile = (op.source, op.dest) if op.is_load else (op.dest, op.source)
    return _Copy(k.view(view), k.smem(tile), tuple(op.indices), op.is_load)


# TMA


def lower_tma(k: KernelLowering, op: CopyAsyncOp) -> None:
    if not k.in_single_thread:
        fail(op, "every thread of the CTA would issue this copy", hint="put it into tile.single_thread { ... }")
    copy = _copy(k, op)
    view = copy.view.type
    fast = copy.indices[view.order[0]]
    if not divides(16 // gcd(16, view.dtype.bytes), fast):
        fail(
            op,
            f"TMA needs the innermost coordinate on the 16-byte grid; this one is only known to be a multiple of "
            f"{divisor(fast)} x {view.dtype.bytes} bytes",
            hint="use dispatch threads, or offsets that are multiples of the grid",
        )
    e = k.e
    coordinates = [k.scalar(copy.indices[dim]) for dim in view.order]
    tensor_map = k.tensor_map(copy.view, copy.tile.type)
    for fast_offset, slow_offset, bytes in copy.tile.type.layout.boxes():
        box = [e.plus(c, o) for c, o in zip(coordinates, (fast_offset, slow_offset), strict=False)]
        pointer = k.smem_pointer(
            e.plus(copy.tile.offset, bytes) if isinstance(copy.tile.offset, SSAValue) else copy.tile.offset + bytes
        )
        if op.is_load:
            assert op.barrier is not None
            mbar = barrier_pointer(k, op.barrier, op.stage)
            cluster = e.address_space(pointer, PTR_CLUSTER)
            e.add(nvvm.CpAsyncBulkTensorGlobalToSharedClusterOp(cluster, tensor_map, box, mbar))
        else:
            e.add(nvvm.CpAsyncBulkTensorSharedCTAToGlobalOp(tensor_map, pointer, box))


# Threads


def lower_threads(k: KernelLowering, op: CopyAsyncOp) -> None:
    """Each thread moves vectors of the tile's fast dimension; a vector over the tensor's edge goes element by element."""
    if k.in_single_thread:
        fail(op, "a thread copy belongs to all threads of its role", hint="move it out of tile.single_thread")
    copy = _copy(k, op)
    e = k.e
    layout = copy.tile.type.layout
    vector = _vector_elements(copy)
    per_row = layout.fast // vector

    def body(number: SSAValue) -> None:
        fast = e.times(e.modulo(number, per_row), vector)
        slow = e.divided(number, per_row)
        _move(k, copy, fast, slow, vector)

    e.loop(k.thread, per_row * layout.slow, k.threads, body)


def _vector_elements(copy: _Copy) -> int:
    """Elements that one access may take: a power of two, limited by everything's alignment."""
    view, tile = copy.view.type, copy.tile.type
    if view.order[0] != tile.order[0]:
        return 1
    bytes = gcd(_VECTOR_BYTES, view.align)
    size = view.dtype.bytes
    start = divisor(copy.indices[view.order[0]])
    return max(gcd(gcd(bytes // size, tile.layout.fast), start), 1)


def _tile_offset(k: KernelLowering, copy: _Copy, fast: SSAValue, slow: SSAValue) -> SSAValue:
    """Byte offset in shared memory of tile element (fast, slow)."""
    e, layout = k.e, copy.tile.type.layout
    bytes = e.times(fast, layout.element_bytes)
    block = e.times(e.divided(bytes, layout.swizzle), layout.block_bytes)
    linear = e.plus(e.plus(block, e.times(slow, layout.swizzle)), e.modulo(bytes, layout.swizzle))
    if layout.swizzle > 16:
        linear = e.bits_xor(linear, e.bits_and(e.shifted_right(linear, 3), layout.swizzle - 16))
    return e.plus(linear, copy.tile.offset)


def _coordinates(k: KernelLowering, copy: _Copy, fast: SSAValue, slow: SSAValue) -> list[SSAValue]:
    """The view's coordinates of tile element (fast, slow)."""
    inside: dict[int, SSAValue] = dict(zip(copy.tile.type.order, (fast, slow), strict=False))
    return [k.e.plus(k.scalar(index), inside[dim]) for dim, index in enumerate(copy.indices)]


def _global_address(k: KernelLowering, copy: _Copy, at: Sequence[SSAValue]) -> SSAValue:
    e, view = k.e, copy.view.type
    offset: SSAValue | None = None
    for dim, coordinate in enumerate(at):
        wide = e.extended(coordinate, i64)
        part = e.times(wide, view.dtype.bytes if dim == view.order[0] else k.pitch(copy.view, dim))
        offset = part if offset is None else e.plus(offset, part)
    assert offset is not None
    return e.offset(k.pointer(copy.view), offset)


def _move(k: KernelLowering, copy: _Copy, fast: SSAValue, slow: SSAValue, vector: int) -> None:
    e, view = k.e, copy.view.type
    size = view.dtype.bytes
    at = _coordinates(k, copy, fast, slow)
    inner = copy.tile.type.order[0]
    inside = None
    for dim, coordinate in enumerate(at):
        if dim != inner:
            inside = e.compare("ult", coordinate, k.extent(copy.view, dim))
    extent = k.extent(copy.view, inner)

    def in_bounds(last: SSAValue) -> SSAValue:
        fits = e.compare("ult", last, extent)
        return fits if inside is None else e.bits_and(inside, fits)

    shared = k.smem_pointer(_tile_offset(k, copy, fast, slow))
    address = _global_address(k, copy, at)

    def transfer(index: int, elements: int) -> None:
        type = integer_bytes(size * elements)
        there, here = e.offset(address, index * size), e.offset(shared, index * size)
        if copy.is_load:
            e.store(e.load(there, type, size * elements), here, size * elements)
        else:
            e.store(e.load(here, type, size * elements), there, size * elements)

    def element(index: int) -> None:
        """One element, or its zero."""
        inside_view, outside, after = e.new_block(), e.new_block(), e.new_block()
        e.branch_if(in_bounds(e.plus(at[inner], index)), inside_view, outside)
        e.at(inside_view)
        transfer(index, 1)
        e.branch(after)
        e.at(outside)
        if copy.is_load:
            type = integer_bytes(size)
            e.store(e.constant(0, type), e.offset(shared, index * size), size)
        e.branch(after)
        e.at(after)

    if vector == 1:
        element(0)
        return
    whole, edge, after = e.new_block(), e.new_block(), e.new_block()
    e.branch_if(in_bounds(e.plus(at[inner], vector - 1)), whole, edge)
    e.at(whole)
    transfer(0, vector)
    e.branch(after)
    e.at(edge)
    for index in range(vector):
        element(index)
    e.branch(after)
    e.at(after)
