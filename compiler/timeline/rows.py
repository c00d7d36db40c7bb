"""How a trace is laid out where it is drawn: lanes, their rows, colours, words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilec.backend.timeline import Span, Trace
from tilec.backend.timeline.trace import TMA, Kind

STAGE_COLOURS = ("#56b4e9", "#e69f00", "#35b68d", "#d992bb", "#f0e442", "#ef8354", "#9fb4c7", "#b9a6e0")
"""Okabe and Ito's, and three more; black text is readable on each. The page has the same."""
KIND_COLOURS: dict[Kind, str] = {
    "epilogue": "#d6cfbf",
    "store": "#c3d2a4",
    "setup": "#e2ded5",
    "copy": "#c9d6df",
    "teardown": "#e2ded5",
}


@dataclass(frozen=True)
class Row:
    """Spans that do not overlap, on one line of a drawing."""

    lane: str
    name: str
    """The lane, and the slot where a lane has a row for each."""
    spans: tuple[int, ...]


def rows(trace: Trace) -> list[Row]:
    """Lane by lane: a row a slot for loads, as many as are needed elsewhere."""
    found: list[Row] = []
    for lane in trace.lanes:
        of_lane = [i for i, span in enumerate(trace.spans) if span.lane == lane]
        by_slot = _by_slot(trace, of_lane) if lane == TMA else None
        if by_slot is not None:
            found += [Row(lane, f"{lane} {slot}", tuple(spans)) for slot, spans in by_slot]
            continue
        packed = _packed(trace, of_lane)
        names = [lane] if len(packed) == 1 else [f"{lane} {number}" for number in range(len(packed))]
        found += [Row(lane, name, tuple(spans)) for name, spans in zip(names, packed, strict=True)]
    return found


def _by_slot(trace: Trace, spans: Sequence[int]) -> list[tuple[int, list[int]]] | None:
    """None where loads of one slot overlap: they are those of several CTAs."""
    slots: dict[int, list[int]] = {}
    for i in spans:
        stage = trace.spans[i].stage
        before = slots.setdefault(-1 if stage is None else stage, [])
        if stage is None or (before and trace.spans[before[-1]].end > trace.spans[i].start + 1e-9):
            return None
        before.append(i)
    return sorted(slots.items())


def _packed(trace: Trace, spans: Sequence[int]) -> list[list[int]]:
    """Each span in the first row that is free when it starts."""
    found: list[list[int]] = []
    for i in spans:
        free = (row for row in found if trace.spans[row[-1]].end <= trace.spans[i].start + 1e-9)
        row = next(free, None)
        if row is None:
            found.append(row := [])
        row.append(i)
    return found


def colour(span: Span) -> str | None:
    """None for what only waits."""
    if span.kind in ("load", "mma") and span.stage is not None:
        return STAGE_COLOURS[span.stage % len(STAGE_COLOURS)]
    return KIND_COLOURS.get(span.kind) or (None if span.kind == "wait" else STAGE_COLOURS[6])


def title(span: Span) -> str:
    """``load of K tile 3, tile 1``"""
    tile = f", tile {span.tile}" if span.tile else ""
    if span.kind in ("load", "mma"):
        word = "load" if span.kind == "load" else "MMA"
        return f"{word}{'' if span.k is None else f' of K tile {span.k}'}{tile}"
    return f"{span.what if span.kind in ('wait', 'setup') else span.kind}{tile}"


def number(time: float) -> str:
    """``8,136`` or ``17.6``"""
    return f"{time:,.0f}" if abs(time) >= 100 else f"{time:.2f}".rstrip("0").rstrip(".")
