"""How threads access memory: which bytes of which segment an address names, and loads and stores that check every one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.faults import FaultKind
from tilec.backend.emulator.memory.address_space import (
    FRAME_WINDOW,
    LOCAL_WINDOW,
    PARAM_WINDOW,
    SHARED_SPACES,
    SHARED_WINDOW,
    STACK_TOP,
    Segment,
)
from tilec.backend.emulator.numbers.types import Values

if TYPE_CHECKING:
    from tilec.backend.emulator.execution.lanes import Lanes

_SHARED, _LOCAL, _PARAM, _FRAME = (w >> 32 for w in (SHARED_WINDOW, LOCAL_WINDOW, PARAM_WINDOW, FRAME_WINDOW))
_STACK = _LOCAL + (1 << 32)
_WINDOW_NAMES = {
    _SHARED: "shared memory",
    _LOCAL: "local memory",
    _PARAM: "the kernel's parameters",
    _FRAME: "the parameters of calls",
}
_ALIEN = {
    "global": (_SHARED, _LOCAL, _FRAME),
    "const": (_SHARED, _LOCAL, _PARAM, _FRAME),
    "param::entry": (_SHARED, _LOCAL, _FRAME),
    "param::func": (_SHARED, _LOCAL, _PARAM),
    "param": (_SHARED, _LOCAL),
}
"""Windows in which no address of a space may lie. Parameters of the kernel lie in global memory too (PTX 9.7.9.19)."""
_LOW = np.uint64(0xFFFFFFFF)
_SHARED_OFFSET = np.uint64(0xFFFFFF)
# Bytes that are copied as one value; NumPy copies the bits of a complex number as they are.
_WHOLE = {1: np.dtype("u1"), 2: np.dtype("u2"), 4: np.dtype("u4"), 8: np.dtype("u8"), 16: np.dtype("c16")}


class Access(NamedTuple):
    """What some lanes access in one segment. `positions` are positions in the lanes, None for all of them."""

    segment: Segment
    offsets: NDArray[np.int64]
    positions: NDArray[np.intp] | None


def resolve(lanes: Lanes, space: str, addresses: Values, width: int) -> list[Access]:
    """Where `width` bytes at each address are: `space` is a state space, or "generic". Addresses: uint64, one for each lane, or
    a single one for all of them.

    Faults for what is out of bounds or not aligned to `width`, a power of two up to 32.
    """
    if int(np.bitwise_or.reduce(addresses)) & (width - 1):
        _misaligned(lanes, space, addresses, width)
    low, high = int(np.minimum.reduce(addresses)), int(np.maximum.reduce(addresses))
    if low >> 32 == high >> 32:
        window = _window_of(space, low)
        if window == _window_of(space, high):
            return [_resolve_window(lanes, space, window, addresses, width, None)]
    found: list[Access] = []
    tops, which = np.unique(addresses >> np.uint64(24), return_inverse=True)
    windows = np.array([_window_of(space, int(top) << 24) for top in tops], np.int64)[which.reshape(-1)]
    for window in np.unique(windows):
        positions = np.flatnonzero(windows == window)
        found.append(_resolve_window(lanes, space, int(window), addresses[positions], width, positions))
    return found


def _window_of(space: str, address: int) -> int:
    """The window of an address; one of shared memory has the rank of the CTA above bit 32, one of local memory a one there if
    it is of the stack. Addresses of spaces with 32-bit addresses are truncated (PTX 6.4.1)."""
    window = address >> 32
    if space in SHARED_SPACES:
        window = _SHARED
    elif space == "local":
        window = _LOCAL
    elif window == 0 and space in ("param", "param::entry"):
        window = _PARAM
    if window == _SHARED:
        return window + ((address >> 24 & 0xFF) << 32)
    if window == _LOCAL:
        return window + ((STACK_TOP // 2 <= address & 0xFFFFFFFF <= STACK_TOP) << 32)
    return window


def _resolve_window(
    lanes: Lanes, space: str, window: int, addresses: Values, width: int, positions: NDArray[np.intp] | None
) -> Access:
    kind, rank = window & 0xFFFFFFFF, window >> 32
    if kind in _ALIEN.get(space, ()):
        name = _WINDOW_NAMES[kind]
        _out_of_bounds(lanes, _at(positions, 0), int(addresses[0]), width, f"lies in {name}, not in .{space}")
    cta = lanes.cta
    if kind == _SHARED:
        if rank != cta.rank and space in ("shared", "shared::cta"):
            what = f"is one of the CTA of rank {rank}, but .{space} reaches only the CTA's own memory (rank {cta.rank})"
            _out_of_bounds(lanes, _at(positions, 0), int(addresses[0]), width, what)
        segment: Segment = cta.cluster.shared_of(lanes, rank)
        offsets = (addresses & _SHARED_OFFSET).view(np.int64)
    elif window == _STACK:
        return _resolve_stack(lanes, addresses, width, positions)
    elif kind in (_LOCAL, _FRAME):
        segment = cta.local if kind == _LOCAL else cta.frames
        stride = segment.size // cta.padded
        offsets = (addresses & _LOW).astype(np.uint32).view(np.int32).astype(np.int64)
        _check_bounds(lanes, segment, offsets, width, positions, addresses, stride)
        threads = lanes.threads if positions is None else lanes.threads[positions]
        return Access(segment, offsets + threads * stride, positions)
    elif kind == _PARAM:
        segment = lanes.machine.parameters
        offsets = (addresses & _LOW).view(np.int64)
    else:
        found = lanes.machine.memory.window(window)
        if found is None:
            _out_of_bounds(lanes, _at(positions, 0), int(addresses[0]), width, "is in no memory")
        segment = found
        offsets = (addresses - np.uint64(found.address)).view(np.int64)
    _check_bounds(lanes, segment, offsets, width, positions, addresses, segment.size)
    return Access(segment, offsets, positions)


def _resolve_stack(lanes: Lanes, addresses: Values, width: int, positions: NDArray[np.intp] | None) -> Access:
    from tilec.backend.emulator.memory.stack import Stack

    stack = lanes.cta.part(Stack)
    threads = lanes.threads if positions is None else lanes.threads[positions]
    places = (addresses & _LOW).view(np.int64)
    outside = (places < stack.pointers[threads]) | (places > STACK_TOP - width)
    if outside.any():
        at = int(np.flatnonzero(outside)[0])
        what = (
            f"is outside of what is allocated on the stack (0x{int(stack.pointers[threads[at]]):x} to 0x{STACK_TOP:x})"
        )
        _out_of_bounds(lanes, _at(positions, at), int(addresses[at]), width, what)
    return Access(stack.segment, places - STACK_TOP + (threads + 1) * stack.depth, positions)


def _at(positions: NDArray[np.intp] | None, index: int) -> int:
    return index if positions is None else int(positions[index])


def _check_bounds(
    lanes: Lanes,
    segment: Segment,
    offsets: NDArray[np.int64],
    width: int,
    positions: NDArray[np.intp] | None,
    addresses: Values,
    end: int,
) -> None:
    lowest = segment.lowest
    if int(np.maximum.reduce(offsets)) <= end - width and int(np.minimum.reduce(offsets)) >= lowest:
        return
    at = int(np.flatnonzero((offsets > end - width) | (offsets < lowest))[0])
    offset = int(offsets[at])
    if offset >= end:
        what = f"is {offset - end} bytes behind the end of {segment.name} ({end} bytes)"
    elif offset < lowest:
        what = f"is {lowest - offset} bytes before {segment.name}"
    else:
        what = f"reaches {offset + width - end} bytes over the end of {segment.name} ({end} bytes)"
    _out_of_bounds(lanes, _at(positions, at), int(addresses[at]), width, what, segment.hint)


def _out_of_bounds(lanes: Lanes, lane: int, address: int, width: int, what: str, hint: str | None = None) -> NoReturn:
    lanes.fault(FaultKind.OUT_OF_BOUNDS, f"{width} bytes at address 0x{address:x}: the address {what}", lane, hint)


def _misaligned(lanes: Lanes, space: str, addresses: Values, width: int) -> NoReturn:
    lane = int(np.flatnonzero(addresses & np.uint64(width - 1))[0])
    address = int(addresses[lane])
    window = _window_of(space, address)
    kind = window & 0xFFFFFFFF
    found = lanes.machine.memory.window(window)
    name = (
        _WINDOW_NAMES.get(kind, "no memory") if found is None else f"{found.name} at offset {address - found.address}"
    )
    what = f"is {address % width} bytes behind a multiple of {width} (in {name})"
    lanes.fault(FaultKind.MISALIGNED, f"{width} bytes at address 0x{address:x}: the address {what}", lane)


def load(lanes: Lanes, space: str, addresses: Values, dtype: np.dtype[Any], count: int = 1) -> NDArray[Any]:
    """Read `count` neighbouring values for each lane: shape (lanes, count). Addresses: uint64, shape (lanes,), or () for one that
    all lanes read; the result may then have the shape (1, count)."""
    if addresses.ndim == 0:
        each = _window_of(space, int(addresses)) in (_LOCAL, _FRAME)
        addresses = np.broadcast_to(addresses, (lanes.count,)) if each else addresses.reshape(1)
    found = resolve(lanes, space, addresses, dtype.itemsize * count)
    if len(found) == 1:
        return _load(lanes, found[0], dtype, count)
    values = np.empty((lanes.count, count), dtype)
    for access in found:
        values[access.positions] = _load(subset(lanes, access.positions), access, dtype, count)
    return values


def _load(lanes: Lanes, access: Access, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    segment, offsets, _ = access
    width = dtype.itemsize * count
    segment.check_load(lanes, offsets, width)
    return segment.rows(dtype, count).take(offsets // width, 0)


def store(
    lanes: Lanes, space: str, addresses: Values, values: NDArray[Any], columns: NDArray[np.intp] | None = None
) -> None:
    """Write `values`, shape (lanes, count), neighbours for each lane; only `columns` of them, if given. Of lanes that write one
    address, the last wins."""
    if addresses.ndim == 0:
        addresses = np.broadcast_to(addresses, (lanes.count,))
    width = values.dtype.itemsize * values.shape[1]
    for segment, offsets, positions in resolve(lanes, space, addresses, width):
        part, written = (lanes, values) if positions is None else (subset(lanes, positions), values[positions])
        check_writable(part, segment, offsets, width)
        segment.check_store(part, offsets, width)
        _write(segment, offsets // width, written, columns)
    lanes.machine.touch()


def _write(segment: Segment, at: NDArray[np.int64], values: NDArray[Any], columns: NDArray[np.intp] | None) -> None:
    count = values.shape[1]
    if columns is not None:
        segment.rows(values.dtype, count)[at[:, None], columns] = values[:, columns]
        return
    whole = _WHOLE.get(values.dtype.itemsize * count)
    if whole is None or not values.flags.c_contiguous:
        segment.rows(values.dtype, count)[at] = values
    else:
        segment.view(whole)[at] = values.view(whole)[:, 0]


def check_writable(lanes: Lanes, segment: Segment, offsets: NDArray[np.int64], width: int) -> None:
    """Faults for a write of `width` bytes to what is read-only."""
    if not segment.writable:
        what = f"{width} bytes at offset {int(offsets[0])} of {segment.name}, which is read-only, are written"
        lanes.fault(FaultKind.OUT_OF_BOUNDS, what)


def subset(lanes: Lanes, positions: NDArray[np.intp] | None) -> Lanes:
    """Those of the lanes at `positions`."""
    from tilec.backend.emulator.execution.lanes import Lanes as Subset

    if positions is None:
        return lanes
    return Subset(lanes.cta, lanes.threads[positions], len(positions), lanes.instruction)
