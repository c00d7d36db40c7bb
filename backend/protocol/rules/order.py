"""What must be ordered before an access, and how accesses become events."""

from __future__ import annotations

from xdsl.ir import Operation

from tilec.backend.protocol.events import Memory, Slot
from tilec.backend.protocol.machine import Broken
from tilec.backend.protocol.rules.context import BOTH, Context
from tilec.backend.protocol.state import ISSUER, OTHERS, State


def need(k: Context, s: State, op: Operation, what: int, known: int, edge: str) -> None:
    """The events `what` that have happened must be in `known`, which has them at the same bits."""
    missing = s.present & what & ~known
    if missing:
        raise Broken(op, f"nothing orders this after {k.events.describe(missing)}: {edge}")


def before_threads(k: Context, s: State, op: Operation, slot: Slot, *, write: bool) -> None:
    """Threads read or write a shared tile: each of them."""
    for agent in BOTH:
        conflicts = slot.all if write else slot.written
        own = slot.writes[agent] | slot.reads[agent]
        need(k, s, op, conflicts & ~own, s.known[agent], "a wait or a cta_sync is missing")


def before_tma(k: Context, s: State, op: Operation, slot: Slot, *, write: bool) -> None:
    """The TMA engine reads or writes a shared tile for the issuer."""
    known, width = s.known[ISSUER], k.events.width
    engines = slot.by_engines if write else slot.load
    threads = slot.by_threads if write else slot.writes[ISSUER] | slot.writes[OTHERS]
    need(k, s, op, engines, known, "a wait is missing")
    need(k, s, op, threads, known >> width, "a proxy fence and a cta_sync behind it are missing")


def after_accumulator_reads(k: Context, s: State, op: Operation, memory: Memory, agents: tuple[int, ...]) -> None:
    reads = memory.reads[ISSUER] | memory.reads[OTHERS]
    for agent in agents:
        # Its own are over after wait_ld; those of others have been published, and seen by its last fence.
        known = s.snapshots[agent] >> 2 * k.events.width | s.known[agent] & memory.reads[agent]
        need(k, s, op, reads, known, "tcgen05 fences around a cta_sync are missing")


def check_written(k: Context, s: State, op: Operation, slot: Slot) -> None:
    if not s.present & slot.written:
        raise Broken(op, f"{slot.name} is read, but nothing has written it")


def happens(k: Context, s: State, events: int) -> None:
    """New events that nobody knows of; older ones of the same bits are over."""
    s.forget(events, k.events.everywhere(events))
    s.present |= events


def write(k: Context, s: State, slot: Slot, events: int) -> None:
    """A write that comes after all that was done with the slot, and so stands for it."""
    s.forget(slot.all, k.events.everywhere(slot.all))
    s.present |= events


def threads_did(k: Context, s: State, events: tuple[int, int]) -> None:
    happens(k, s, events[ISSUER] | events[OTHERS])
    for agent in BOTH:
        s.known[agent] |= events[agent]


def meet(k: Context, s: State) -> None:
    s.known[ISSUER] = s.known[OTHERS] = s.known[ISSUER] | s.known[OTHERS]
