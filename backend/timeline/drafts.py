"""Spans in the making, and what is said of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilec.backend.timeline import steps
from tilec.backend.timeline.steps import Stage, Step
from tilec.backend.timeline.trace import Kind, Span

AT_FIRST = "the CTA's start"
GROUP = "the bulk group"


@dataclass(slots=True)
class Draft:
    """A span in the making."""

    lane: str
    kind: Kind
    issued: float
    start: float
    end: float
    cta: int
    tile: int
    k: int | None
    stage: int | None
    phase: int | None
    steps: list[Step]
    after: Stage | str
    """What the threads waited for before."""
    busy: bool
    """Whether the engine still had earlier work."""
    source: int | None = None
    """The span that a wait was for."""


def finished(draft: Draft, drafts: Sequence[Draft]) -> Span:
    return Span(
        draft.lane,
        draft.kind,
        draft.issued,
        draft.start,
        draft.end,
        draft.cta,
        draft.tile,
        draft.k,
        draft.stage,
        draft.phase,
        _what(draft),
        _why(draft, drafts),
        tuple(sorted({line for step in draft.steps for line in step.lines})),
    )


def _what(draft: Draft) -> str:
    if draft.kind == "setup":
        return "set up the CTA"
    if draft.kind == "teardown":
        return "leave the multiprocessor"
    return ", ".join(dict.fromkeys(map(_words, draft.steps)))


def _words(step: Step) -> str:
    match step:
        case steps.Load():
            return f"{step.slot} <- {step.place}"
        case steps.Store():
            return f"{step.place} <- {step.slot}"
        case steps.Mma():
            return f"MMA of {' and '.join(map(str, step.reads))}"
        case steps.Wait():
            return f"wait for {step.barrier}"
        case steps.WaitGroup():
            return f"wait for {GROUP}"
        case steps.Work():
            return step.what
        case _:
            raise AssertionError(step)


def _why(draft: Draft, drafts: Sequence[Draft]) -> str:
    if draft.kind == "wait":
        what = draft.steps[0].barrier if isinstance(draft.steps[0], steps.Wait) else GROUP
        source = "" if draft.source is None else f": {_what(drafts[draft.source])}"
        return f"{what} was not complete{source}"
    after = f"after {draft.after if isinstance(draft.after, str) else f'the wait for {draft.after}'}"
    if draft.kind in ("setup", "teardown", "copy", "epilogue"):
        return after
    engine = "tensor core" if draft.kind == "mma" else "engine"
    return f"issued {after}" + (f"; the {engine} was busy with earlier work" if draft.busy else "")
