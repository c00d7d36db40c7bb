"""Memory: segments of bytes, and where they lie in the generic address space.

An address of 64 bits names a window by its upper half (PTX 5.1, 6.4.1): each array of global memory has windows of its own, so
that an access past its end meets nothing else. Shared addresses are ``rank of the CTA << 24 | offset``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.faults import FaultKind

if TYPE_CHECKING:
    from tilec.backend.emulator.execution.engines import AsyncWork
    from tilec.backend.emulator.execution.lanes import Lanes
    from tilec.backend.emulator.memory.unfenced import UnfencedGlobal

SHARED_WINDOW = 1 << 32
LOCAL_WINDOW = 2 << 32
PARAM_WINDOW = 3 << 32
"""Parameters of the kernel."""
FRAME_WINDOW = 4 << 32
"""`.param` variables of device functions and of calls: each thread has its own."""
FIRST_GLOBAL_WINDOW = 0x7000
_INSIDE_WINDOW = 1 << 24
"""Where an array starts in its window: an access a little before it stays in the window, and can be explained."""
STACK_TOP = 1 << 30
"""Where the stack of each thread begins in the window of local memory; variables are far below it."""
WIDEST = 32
"""Bytes of the widest access of one thread."""

SHARED_SPACES = ("shared", "shared::cta", "shared::cluster")


class Segment:
    """Bytes that lie side by side. `data` is padded to a multiple of `WIDEST`, `size` is what may be accessed, from `lowest` on."""

    lowest = 0
    hint: str | None = None
    """What an access out of bounds may come from."""

    def __init__(self, name: str, size: int, *, writable: bool = True) -> None:
        self.name = name
        self.size = size
        self.writable = writable
        self.data = np.zeros(-(-size // WIDEST) * WIDEST, np.uint8)
        self._views: dict[np.dtype[Any], NDArray[Any]] = {}
        self._rows: dict[tuple[np.dtype[Any], int], NDArray[Any]] = {}

    def view(self, dtype: np.dtype[Any]) -> NDArray[Any]:
        """The bytes as values of `dtype`."""
        view = self._views.get(dtype)
        if view is None:
            view = self._views[dtype] = self.data.view(dtype)
        return view

    def rows(self, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
        """The bytes as values of `dtype`, `count` in a row; a row has at most `WIDEST` bytes, and a power of two."""
        rows = self._rows.get((dtype, count))
        if rows is None:
            rows = self._rows[dtype, count] = self.data.view(dtype).reshape(-1, count)
        return rows

    def check_load(self, lanes: Lanes, offsets: NDArray[np.int64], width: int) -> None:
        """Called before threads read `width` bytes (a power of two) at each offset; one offset may stand for all lanes."""

    def check_store(self, lanes: Lanes, offsets: NDArray[np.int64], width: int) -> None:
        """Called before threads write `width` bytes at each offset."""


class GlobalSegment(Segment):
    """An array of the host, or a variable of the module, at `address` in global memory, or in constant memory."""

    def __init__(self, name: str, size: int, address: int, *, writable: bool = True, constant: bool = False) -> None:
        super().__init__(name, size, writable=writable)
        self.address = address
        self.constant = constant
        self.unfenced: NDArray[np.bool_] | None = None
        """Of each byte, whether threads have written it and no proxy fence has followed; None if there is no such byte."""

    def check_store(self, lanes: Lanes, offsets: NDArray[np.int64], width: int) -> None:
        if (writes := lanes.machine.memory.unfenced) is not None:
            writes.add(lanes, self, offsets, width)

    def check_async_read(self, work: AsyncWork, part: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
        """Called before asynchronous work reads the part of the bytes that `part` takes. Faults for bytes that were written through
        the generic proxy with no fence since."""
        if self.unfenced is None or not (unfenced := part(self.unfenced)).any():
            return
        first = np.argwhere(unfenced)[0]
        at = unfenced.ctypes.data - self.unfenced.ctypes.data + int(first @ np.array(unfenced.strides))
        work.fault(
            FaultKind.PROXY_FENCE,
            f"{work.name} reads {self.name} at offset {at} through the async proxy, but it was written by ordinary stores that no "
            "fence.proxy.async has followed",
            "each writing thread executes fence.proxy.async.global before the barrier that hands the bytes over",
        )


class GlobalMemory:
    """Global and constant memory. `unfenced` is given to a program in which asynchronous work may read what threads have written."""

    def __init__(self) -> None:
        self.unfenced: UnfencedGlobal | None = None
        self._windows: dict[int, GlobalSegment] = {}
        self._next = FIRST_GLOBAL_WINDOW
        self.heap: dict[int, GlobalSegment] = {}
        """What threads have taken from the device heap, by address."""

    def __iter__(self) -> Iterator[GlobalSegment]:
        return iter(dict.fromkeys(self._windows.values()))

    def allocate(self, name: str, size: int, *, writable: bool = True, constant: bool = False) -> GlobalSegment:
        """A new segment of zeros, at an address that is a multiple of 16 MiB."""
        address = (self._next << 32) + _INSIDE_WINDOW
        segment = GlobalSegment(name, size, address, writable=writable and not constant, constant=constant)
        windows = -(-(size + _INSIDE_WINDOW) // (1 << 32))
        self._windows.update(dict.fromkeys(range(self._next, self._next + windows), segment))
        self._next += windows + 1
        return segment

    def free(self, address: int) -> bool:
        """Give memory of the device heap back; False if none was taken at that address."""
        segment = self.heap.pop(address, None)
        if segment is None:
            return False
        self._windows = {number: found for number, found in self._windows.items() if found is not segment}
        return True

    def window(self, number: int) -> GlobalSegment | None:
        return self._windows.get(number)

    def find(self, address: int, size: int) -> tuple[GlobalSegment, int] | None:
        """The segment that holds `size` bytes at `address`, and the offset in it; None if not all are in one segment."""
        segment = self._windows.get(address >> 32)
        if segment is None or not 0 <= address - segment.address <= segment.size - size:
            return None
        return segment, address - segment.address
