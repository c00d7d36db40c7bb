"""mbarrier objects (PTX 9.7.13.15): a phase completes when all arrivals and all bytes that it expects have come.

An object lies in shared memory, but its state is kept here, by offset. Its eight bytes hold the same state as bits, so that a
store over a live object shows when the object is used next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.execution.lanes import Lanes
from tilec.backend.emulator.faults import FaultKind

if TYPE_CHECKING:
    from tilec.backend.emulator.execution.cta import Cta
    from tilec.backend.emulator.execution.engines import AsyncWork

MOST = (1 << 20) - 1
"""The largest number of arrivals that a phase can expect, and of bytes that can be outstanding or ahead (9.7.13.15.2)."""

_COUNT_BITS = 20
_WORD = np.dtype(np.uint64)


class MBarrier:
    """One object at `offset` in the shared memory of `cta`.

    `phase` counts from 0; `expected` arrivals are what `pending` starts from in each phase; `tx` is what `expect_tx` has announced
    less what has come: negative while bytes are ahead of their announcement. Changes touch the machine. Faults are those of
    the threads or the work that `find` was called for last.
    """

    __slots__ = (
        "_announced",
        "_expect_line",
        "_lane",
        "_unseen",
        "_user",
        "_word",
        "cta",
        "expected",
        "inval_line",
        "live",
        "offset",
        "passed",
        "pending",
        "phase",
        "tx",
    )

    def __init__(self, cta: Cta, offset: int, count: int, lanes: Lanes, lane: int) -> None:
        self.cta = cta
        self.offset = offset
        self.live = True
        self.inval_line = 0
        self._user: Lanes | AsyncWork = lanes
        self._lane = lane
        if not 1 <= count <= MOST:
            self.fault(f"{self} is initialised with a count of {count}; a count is 1 to {MOST}")
        self.phase = 0
        self.expected = count
        self.pending = count
        self.tx = 0
        self._announced = 0
        """Bytes that `expect_tx` has announced in this phase, the last by `_expect_line`."""
        self._expect_line = 0
        self.passed: tuple[int, int] | None = None
        """The line of the wait that was satisfied last, and the phase that was current then: the wait was for an earlier one."""
        self._word = 0
        self._unseen: list[tuple[int, Callable[[], None]]] = []
        self._write()

    def __str__(self) -> str:
        owner = f" of the CTA of rank {self.cta.rank}" if len(self.cta.cluster.ctas) > 1 else ""
        return f"the mbarrier at 0x{self.offset:x}{owner}"

    def arrive(self, count: int = 1) -> None:
        """An arrive-on operation (9.7.13.15.7)."""
        self._check_arrival(count)
        self.pending -= count
        self._settle()

    def arrive_each(self, counts: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Arrivals of several threads as one, of which at most the last completes the phase. Returns the state that each finds,
        as waits take it."""
        if (counts < 1).any():
            self._check_arrival(int(counts.min()))
        found = self.pending - (np.cumsum(counts) - counts)
        states = _states(self.phase, found)
        self.arrive(int(counts.sum()))
        return states

    def drop(self, count: int = 1) -> None:
        """All later phases expect `count` arrivals less. The arrival in this phase is left to `arrive`."""
        if count > self.expected:
            self.fault(f"{count} arrivals are dropped from {self}, which expects {self.expected}")
        self.expected -= count

    def add_pending(self, count: int = 1) -> None:
        """This phase expects `count` arrivals more (cp.async.mbarrier.arrive without .noinc)."""
        if self.pending + count > MOST:
            self.fault(f"{self} would await {self.pending + count} arrivals; it can await {MOST}")
        self.pending += count
        self._write()

    def expect_tx(self, bytes: int) -> None:
        """An expect-tx operation: it does not complete a phase (9.7.13.15.5.1)."""
        self._set_tx(self.tx + bytes)
        self._announced += bytes
        self._expect_line = (self._user if isinstance(self._user, Lanes) else self._user.place).instruction.line
        self._write()

    def complete_tx(self, bytes: int) -> None:
        """A complete-tx operation (9.7.13.15.5.2)."""
        self._set_tx(self.tx - bytes)
        self._settle()

    def would_complete(self, count: int) -> bool:
        """Whether `count` arrivals complete the phase."""
        return self.pending == count and self.tx == 0

    def completed(self, phase: int) -> bool:
        """Whether a phase that a state names has completed. Faults unless it is the current or the preceding one."""
        behind = self.phase - phase
        if behind not in (0, 1):
            self.fault(
                f"a wait for phase {phase} of {self}, which is in phase {self.phase}; only the current and the preceding phase "
                "can be waited for",
            )
        return behind == 1

    def when_seen(self, action: Callable[[], None]) -> None:
        """Do something as soon as a thread has seen that the current phase has completed: only then it can know what the phase
        stands for."""
        self._unseen.append((self.phase, action))

    def see(self) -> None:
        """A thread has waited for the phase before the current one, with success."""
        seen = [action for phase, action in self._unseen if phase < self.phase]
        if not seen:
            return
        self._unseen = [(phase, action) for phase, action in self._unseen if phase >= self.phase]
        for action in seen:
            action()

    def invalidate(self, line: int) -> None:
        self.live = False
        self.inval_line = line
        self.cta.machine.touch()

    def state(self) -> str:
        """The current phase and what it has not got yet, for reports: "is in phase 0 and lacks 1 arrival"."""
        lacks = [_amount(self.pending, "arrival")] if self.pending else []
        if self.tx > 0:
            lacks.append(
                f"{self.tx} of {self._announced} announced bytes (the last expect_tx is that of line {self._expect_line})"
            )
        text = f"is in phase {self.phase}" + (f" and lacks {' and '.join(lacks)}" if lacks else "")
        if self.tx >= 0:
            return text
        announced = f"the {self._announced} announced" if self._announced else "announced"
        last = (
            f"(the last expect_tx is that of line {self._expect_line})"
            if self._announced
            else "(there was no expect_tx)"
        )
        return f"{text}; {_amount(-self.tx, 'byte')} more than {announced} {'has' if self.tx == -1 else 'have'} arrived {last}"

    def hint(self) -> str | None:
        """What may help those who wait for the current phase: only wrong numbers of bytes have one cause."""
        if self.tx == 0:
            return None
        return (
            "in each phase the sum of all expect_tx is what the copies bring: of a tensor copy the bytes of the whole box, also "
            "where it reaches over an edge of the tensor"
        )

    def too_early(self) -> str | None:
        """For those who read what is still to come in the current phase: the wait that they may take for one for it."""
        if self.passed is None or self.passed[1] != self.phase or self.tx <= 0:
            return None
        line, phase = self.passed
        return (
            f"the wait of line {line} for parity {(phase - 1) & 1} of {self} was satisfied by an earlier phase, and this is phase "
            f"{phase} (parity {phase & 1})"
        )

    def use(self, user: Lanes | AsyncWork, lane: int) -> None:
        """Called before each use: the object must be live, and what it says in memory must be what was written there."""
        self._user, self._lane = user, lane
        if not self.live:
            self.fault(
                f"{self} is used, but mbarrier.inval of line {self.inval_line} has ended its life",
                "initialise it again before it is used",
            )
        if self.cta.shared.view(_WORD)[self.offset >> 3] != self._word:
            self.fault(
                f"{self} is used, but its 8 bytes have been overwritten",
                "keep data off a live mbarrier, and invalidate it before its memory is used for anything else",
            )

    def fault(self, message: str, hint: str | None = None) -> NoReturn:
        if isinstance(self._user, Lanes):
            self._user.fault(FaultKind.MBARRIER, message, self._lane, hint)
        self._user.fault(FaultKind.MBARRIER, message, hint)

    def _check_arrival(self, count: int) -> None:
        if not 1 <= count <= MOST:
            self.fault(f"an arrival at {self} with a count of {count}; a count is 1 to {MOST}")
        if count > self.pending:
            waiting = f", and waits for {_amount(self.tx, 'byte')}" if self.pending == 0 else ""
            self.fault(
                f"{_amount(count, 'arrival')} at {self}, whose phase {self.phase} expects only {self.pending} more{waiting}",
                f"each phase takes {_amount(self.expected, 'arrival')}; the next phase begins when this one has completed",
            )

    def _set_tx(self, tx: int) -> None:
        if not -MOST <= tx <= MOST:
            self.fault(f"the tx-count of {self} would become {tx}; it is from -{MOST} to {MOST}")
        self.tx = tx

    def _settle(self) -> None:
        """Complete the phase if it is due (9.7.13.15.6)."""
        if self.pending == 0 and self.tx == 0:
            self.phase += 1
            self.pending = self.expected
            self._announced = 0
        self._write()

    def _write(self) -> None:
        """The word as hardware lays it out: counts are kept negated, the parity of the phase is the highest bit."""
        count = (1 << _COUNT_BITS) - 1
        self._word = (
            (-self.expected & count) << 1
            | (self.tx & ((1 << 22) - 1)) << 21
            | (-self.pending & count) << 43
            | (self.phase & 1) << 63
        )
        self.cta.shared.view(_WORD)[self.offset >> 3] = self._word
        self.cta.machine.touch()


def _amount(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _states(phase: int, pending: NDArray[np.int64]) -> NDArray[np.uint64]:
    """States that arrivals return: the parity of the phase and the pending count where hardware has them, the rest of the phase
    below."""
    count = (-pending & ((1 << _COUNT_BITS) - 1)).astype(np.uint64) << np.uint64(43)
    return count | np.uint64((phase & 1) << 63 | (phase >> 1) & ((1 << 43) - 1))


def phase_of(state: int) -> int:
    """The phase that was current when the state was taken."""
    return (state & ((1 << 43) - 1)) << 1 | state >> 63


def pending_of(states: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """The arrivals that were pending when each state was taken."""
    count = np.uint64((1 << _COUNT_BITS) - 1)
    return ((np.uint64(1 << _COUNT_BITS) - (states >> np.uint64(43) & count)) & count).astype(np.uint32)


class MBarriers:
    """The objects of a CTA by offset, the invalidated ones among them."""

    def __init__(self, cta: Cta) -> None:
        self.by_offset: dict[int, MBarrier] = {}

    def at_exit(self) -> None:
        """Objects may be left as they are."""


def find(cta: Cta, offset: int, where: Lanes | AsyncWork, lane: int = 0) -> MBarrier:
    """The live object at `offset` in the shared memory of `cta`, for a use by `where`; `lane` is the position in its threads.

    Faults if there is none, if it has been invalidated, or if something was stored over it.
    """
    found = cta.part(MBarriers).by_offset.get(offset)
    if found is None:
        _refuse(cta, offset, where, lane)
    found.use(where, lane)
    return found


def _refuse(cta: Cta, offset: int, where: Lanes | AsyncWork, lane: int) -> NoReturn:
    kind = FaultKind.MBARRIER
    hint: str | None = None
    if offset % 8:
        kind, message = FaultKind.MISALIGNED, f"an mbarrier at 0x{offset:x}, which is not a multiple of 8"
    elif not cta.shared.lowest <= offset <= cta.shared.size - 8:
        kind = FaultKind.OUT_OF_BOUNDS
        message = f"an mbarrier at 0x{offset:x}; shared memory is 0x{cta.shared.lowest:x} to 0x{cta.shared.size:x}"
    else:
        owner = f" of the CTA of rank {cta.rank}" if len(cta.cluster.ctas) > 1 else ""
        message = f"no mbarrier has been initialised at 0x{offset:x}{owner}"
        hint = "one thread initialises it, and a barrier follows, before other threads or asynchronous work use it"
    if isinstance(where, Lanes):
        where.fault(kind, message, lane, hint)
    where.fault(kind, message, hint)
