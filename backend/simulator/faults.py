"""Faults: what a kernel does that no run of it may, with the place, the reason, and what happened before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from xdsl.ir import Operation, SSAValue

from tilec.backend.simulator.history import STEPS, History
from tilec.diagnostics import Diagnostic, SourceLocation, TilecError, calls_to, location_of

FaultKind = Literal[
    "deadlock",
    "race",
    "uninitialised",
    "in flight",
    "freed",
    "leak",
    "arrivals",
    "bytes",
    "rounds",
    "scope",
    "stage",
    "tma",
    "tiles",
    "ctas",
]
"""
* deadlock: a wait that never ends, a byte budget that the copies do not meet
* race: two conflicting accesses that nothing orders
* uninitialised: reading what nothing has written
* in flight: a register tile used, or a CTA that ends, before something is complete
* freed, leak: an accumulator used after it was given back, given back twice, or never
* arrivals, bytes: more than an mbarrier's round takes; a round left pending
* rounds: a round completes before somebody has seen the one before it
* scope: an operation of one thread by all, or the other way round
* stage: a stage that a ring or a barrier does not have
* tma: a copy that the engine refuses or that writes past the edge
* tiles: an output tile that is never stored, or by two turns
* ctas: two CTAs at one element
"""


@dataclass(frozen=True)
class Step:
    """One thing that happened on the barrier or the storage concerned."""

    location: SourceLocation | None
    text: str


class Fault(TilecError):
    """A kernel breaks the protocol."""

    kind: FaultKind
    trace: tuple[Step, ...]
    """What led here, oldest first."""

    def __init__(
        self,
        kind: FaultKind,
        at: Operation | SSAValue,
        message: str,
        hint: str | None = None,
        notes: Sequence[tuple[Operation, str]] = (),
        histories: Sequence[History] = (),
    ) -> None:
        calls = calls_to(at)
        told = dict.fromkeys(_note(op, text, calls) for op, text in notes)
        super().__init__(message, location_of(at), hint, (*calls, *told))
        self.kind = kind
        # What one operation did to a tile and to a barrier is one step.
        entries = sorted({entry[:2]: entry for history in histories for entry in history}.values(), key=_time)
        self.trace = tuple(Step(location_of(op), text) for _, op, text in entries[-STEPS:])


def _note(op: Operation, text: str, calls: tuple[Diagnostic, ...]) -> Diagnostic:
    """A note at another operation, with the calls that led there where they are others than `calls`."""
    own = calls_to(op)
    return Diagnostic("note", text, location_of(op), notes=() if own == calls else own)


def _time(entry: tuple[int, Operation, str]) -> int:
    return entry[0]


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def line_of(op: Operation) -> str:
    """`line 12`, for a sentence."""
    location = location_of(op)
    return "some line" if location is None else f"line {location.line}"


def storage_outside(op: Operation) -> Fault:
    return Fault("scope", op, "storage is set up once for a CTA", "move it in front of the loops and conditions")
