"""Shared memory of a CTA, and what is known of each of its bytes.

Each byte is initialised or not; written by ordinary stores that no proxy fence has followed, or not; being written by
asynchronous work, or not; and being read by so many asynchronous works. Ordinary loads and stores go through the generic
proxy; TMA, wgmma and tcgen05 go through the async proxy (PTX 8.3, 9.7.13 fence.proxy.async).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.faults import FaultKind
from tilec.backend.emulator.memory.address_space import Segment
from tilec.backend.emulator.memory.unfenced import Unfenced, writers_of

if TYPE_CHECKING:
    from tilec.backend.emulator.execution.engines import AsyncWork
    from tilec.backend.emulator.execution.lanes import Lanes

RESERVED = 0x400
"""Bytes at the start of shared memory that the system keeps: the first variable lies behind them."""
SCRATCH = RESERVED - 288
"""Where in them the memory of cooperative groups is (%reserved_smem_offset_1, PTX 10.29). The place is not documented: it is the
last that has room for what cooperative_groups/details/memory.h counts on."""
_SCRATCH_ZEROED = 32
"""Bytes of it that are zero from the start, without which its barriers would not work; the rest holds nothing."""

_INITIALISED, _UNFENCED, _WRITING = 1, 2, 4
_PATTERN = 0xA5
"""What bytes hold that nothing has been written to."""


def _spread(bits: int, width: int) -> int:
    """The pattern `bits` in each byte of an unsigned integer of `width` bytes."""
    return int.from_bytes(bytes([bits]) * width, "little")


class SharedMemory(Segment):
    """Shared memory of the CTA of `rank` in its cluster. Offsets count from the start of the CTA's window; those below `lowest`
    are the system's."""

    def __init__(self, size: int, rank: int, *, track_proxies: bool, hint: str | None = None) -> None:
        """`size` without the reserved bytes. `track_proxies`: whether the kernel uses the async proxy at all. `hint`: why it may be
        smaller than the kernel thinks."""
        super().__init__("shared memory", RESERVED + size)
        self.rank = rank
        self.hint = hint
        self.lowest = RESERVED
        self.data[:] = _PATTERN
        self.state = np.zeros(len(self.data), np.uint8)
        self._state_rows: dict[int, NDArray[np.unsignedinteger]] = {}
        self.readers = np.zeros(len(self.data), np.uint16)
        self._track = track_proxies
        self._unfenced = Unfenced()
        self._writes: dict[AsyncWork, tuple[NDArray[np.intp], int]] = {}
        self._reads: dict[AsyncWork, list[tuple[NDArray[np.intp], int]]] = {}

    def open_scratch(self) -> int:
        """Let threads use the memory that the system keeps for cooperative groups, and say where it is."""
        if self.lowest > SCRATCH:
            self.lowest = SCRATCH
            self.state[SCRATCH : SCRATCH + _SCRATCH_ZEROED] = _INITIALISED
            self.data[SCRATCH : SCRATCH + _SCRATCH_ZEROED] = 0
        return SCRATCH

    # Ordinary accesses: the generic proxy.

    def check_load(self, lanes: Lanes, offsets: NDArray[np.int64], width: int) -> None:
        seen = self._states(width).take(offsets // width, 0)
        unit = seen.dtype.itemsize
        readable = int(np.bitwise_and.reduce(seen, axis=None)) & _spread(_INITIALISED, unit) == _spread(
            _INITIALISED, unit
        )
        if not readable or (self._writes and int(np.bitwise_or.reduce(seen, axis=None)) & _spread(_WRITING, unit)):
            bad = self._unreadable(offsets, width)
            if bad.any():
                lane = int(np.flatnonzero(bad)[0])
                self._refuse_load(lanes, lane, int(offsets[lane]), width)
        lanes.machine.statistics.note_shared_access(lanes, offsets, width)

    def _unreadable(self, offsets: NDArray[np.int64], width: int) -> NDArray[np.bool_]:
        """For each lane, whether it reads something in flight, or a word of which no byte has been written: compilers copy structures
        by words, with the padding between their members."""
        states = self.state[offsets[:, None] + np.arange(width)]
        words = (states & _INITIALISED).reshape(len(offsets), -1, min(width, 4))
        written = np.bitwise_or.reduce(words, axis=2)
        unwritten = np.bitwise_and.reduce(written, axis=1) == 0
        in_flight = np.bitwise_or.reduce(states & _WRITING, axis=1) != 0
        return unwritten | in_flight

    def _states(self, width: int) -> NDArray[np.unsignedinteger]:
        """The state of all bytes, `width` to a row."""
        rows = self._state_rows.get(width)
        if rows is None:
            unit = min(width, 8)
            rows = self._state_rows[width] = self.state.view(f"u{unit}").reshape(-1, width // unit)
        return rows

    def _refuse_load(self, lanes: Lanes, lane: int, offset: int, width: int) -> NoReturn:
        state = self.state[offset : offset + width]
        what = f"{width} bytes of shared memory at 0x{offset:x} are read"
        if (state & _WRITING).any():
            at = offset + int(np.flatnonzero(state & _WRITING)[0])
            lanes.fault(
                FaultKind.IN_FLIGHT,
                f"{what}, but at 0x{at:x} {self._writer_of(at)} has not completed",
                lane,
                self._how_to_wait(at),
            )
        at = offset + int(np.flatnonzero(~state & _INITIALISED)[0])
        hint = "no thread has written there yet: is a barrier missing between the writer and this read?"
        lanes.fault(FaultKind.UNINITIALISED, f"{what}, but nothing has been written at 0x{at:x}", lane, hint)

    def check_store(self, lanes: Lanes, offsets: NDArray[np.int64], width: int) -> None:
        index = offsets // width
        if self._writes or self._reads:
            busy = (self.state.reshape(-1, width)[index] & np.uint8(_WRITING)).any(axis=1)
            busy |= self.readers.reshape(-1, width)[index].any(axis=1)
            if busy.any():
                self._refuse_store(lanes, int(np.flatnonzero(busy)[0]), offsets, width)
        states = self._states(width)
        states[index] = _spread(_INITIALISED | _UNFENCED, states.dtype.itemsize)
        if self._track:
            self._unfenced.add(writers_of(lanes), offsets, width)
        lanes.machine.statistics.note_shared_access(lanes, offsets, width)

    def _refuse_store(self, lanes: Lanes, lane: int, offsets: NDArray[np.int64], width: int) -> NoReturn:
        offset = int(offsets[lane])
        at = next(at for at in range(offset, offset + width) if self.state[at] & _WRITING or self.readers[at])
        who = self._writer_of(at) if self.state[at] & _WRITING else self._reader_of(at)
        lanes.fault(
            FaultKind.IN_FLIGHT,
            f"{width} bytes of shared memory at 0x{offset:x} are written, but at 0x{at:x} {who} has not completed",
            lane,
            "wait for its completion first, on its mbarrier or its group",
        )

    def complete_copies(self, work: AsyncWork, index: NDArray[np.intp], unit: int, *, last: bool) -> None:
        """Some of what work of the generic proxy (cp.async) writes has become visible to the threads that asked for it. `last`:
        nothing of the work is left.

        By the letter a proxy fence is needed before the async proxy reads these bytes. CUTLASS and Triton have none between
        cp.async.wait_group and wgmma or tcgen05.mma, and are right on hardware: no fault.
        """
        self.state.reshape(-1, unit)[index] = _INITIALISED
        if last:
            del self._writes[work]

    # Proxies.

    def publish(self, writers: NDArray[np.int64]) -> None:
        """Threads released their writes: from now on a fence of any thread covers them."""
        self._unfenced.publish(writers)

    def fence(self, writers: NDArray[np.int64]) -> None:
        """`fence.proxy.async` by threads: their writes so far, and those published, are visible to the async proxy."""
        covered, still = self._unfenced.fence(writers)
        # A byte that others wrote too stays unfenced, unless asynchronous work has overwritten it since.
        still = still[(self.state[still] & _UNFENCED) != 0]
        self.state[covered] &= np.uint8(0xFF ^ _UNFENCED)
        self.state[still] |= np.uint8(_UNFENCED)

    # Asynchronous accesses: the async proxy. `index` numbers units of `unit` bytes from the start of the window.

    def begin_write(self, work: AsyncWork, index: NDArray[np.intp], unit: int = 16) -> None:
        """Asynchronous work starts to write. Faults for what other work still writes or reads, or what is out of bounds."""
        self.check_bounds(work, index, unit)
        states = self.state.reshape(-1, unit)
        if (states[index] & _WRITING).any() or (self._reads and self.readers.reshape(-1, unit)[index].any()):
            for at in (int(i) * unit + b for i in index for b in range(unit)):
                if self.state[at] & _WRITING:
                    work.fault(
                        FaultKind.IN_FLIGHT,
                        f"{work.name} writes shared memory at 0x{at:x}, which {self._writer_of(at)} still writes",
                    )
                if self.readers[at]:
                    work.fault(
                        FaultKind.IN_FLIGHT,
                        f"{work.name} writes shared memory at 0x{at:x}, which {self._reader_of(at)} still reads",
                    )
        states[index] |= np.uint8(_WRITING)
        self._writes[work] = index, unit

    def end_write(self, work: AsyncWork) -> None:
        """The work has written all that it began."""
        index, unit = self._writes.pop(work)
        self.state.reshape(-1, unit)[index] = _INITIALISED

    def begin_read(self, work: AsyncWork, index: NDArray[np.intp], unit: int = 16) -> None:
        """Asynchronous work starts to read: until `end_read` nobody may write there. Faults for bytes that are uninitialised, in
        flight, or written through the generic proxy with no fence since."""
        self.check_bounds(work, index, unit)
        seen = self.state.reshape(-1, unit)[index]
        if (seen != _INITIALISED).any():
            row, column = (int(x[0]) for x in np.nonzero(seen != _INITIALISED))
            self._refuse_read(work, int(index[row]) * unit + column)
        self.readers.reshape(-1, unit)[index] += np.uint16(1)
        self._reads.setdefault(work, []).append((index, unit))

    def _refuse_read(self, work: AsyncWork, at: int) -> NoReturn:
        state = int(self.state[at])
        if state & _WRITING:
            work.fault(
                FaultKind.IN_FLIGHT,
                f"{work.name} reads shared memory at 0x{at:x}, which {self._writer_of(at)} still writes",
                self._how_to_wait(at),
            )
        if not state & _INITIALISED:
            work.fault(
                FaultKind.UNINITIALISED, f"{work.name} reads shared memory at 0x{at:x}, where nothing has been written"
            )
        work.fault(
            FaultKind.PROXY_FENCE,
            f"{work.name} reads shared memory at 0x{at:x} through the async proxy, but it was written by ordinary stores that no "
            "fence.proxy.async has followed",
            "each writing thread executes fence.proxy.async.shared::cta before the barrier that hands the bytes over",
        )

    def end_read(self, work: AsyncWork) -> None:
        """The work has read all that it began to read."""
        for index, unit in self._reads.pop(work, []):
            self.readers.reshape(-1, unit)[index] -= np.uint16(1)

    def busy(self) -> AsyncWork | None:
        """Some work that still reads or writes here."""
        return next(iter((*self._writes, *self._reads)), None)

    def check_bounds(self, work: AsyncWork, index: NDArray[np.intp], unit: int = 16) -> None:
        """Faults for units that are not in shared memory."""
        if len(index) and (int(index.max()) * unit + unit > self.size or int(index.min()) * unit < self.lowest):
            outside = index[(index * unit + unit > self.size) | (index * unit < self.lowest)]
            work.fault(
                FaultKind.OUT_OF_BOUNDS,
                f"{work.name} accesses shared memory at 0x{int(outside[0]) * unit:x}; it is 0x{self.lowest:x} to 0x{self.size:x}",
                self.hint,
            )

    def _how_to_wait(self, at: int) -> str:
        """For those who read what asynchronous work still writes."""
        works = [work for work, (index, unit) in self._writes.items() if (index == at // unit).any()]
        barriers = [barrier for work in works for barrier in work.barriers if barrier.cta.shared is self]
        early = [text for barrier in barriers if (text := barrier.too_early()) is not None]
        return "; ".join(("wait for its completion first, on its mbarrier or its group", *early[:1]))

    def _writer_of(self, at: int) -> str:
        return self._covering(list(self._writes.items()), at)

    def _reader_of(self, at: int) -> str:
        return self._covering([(w, part) for w, parts in self._reads.items() for part in parts], at)

    @staticmethod
    def _covering(works: list[tuple[AsyncWork, tuple[NDArray[np.intp], int]]], at: int) -> str:
        for work, (index, unit) in works:
            if (index == at // unit).any():
                return f"{work.name} of line {work.place.instruction.line}"
        return "asynchronous work"
