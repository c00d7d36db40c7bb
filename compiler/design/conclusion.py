"""The choice: who copies what, what the pipeline overlaps, and what bounds the kernel."""

from __future__ import annotations

from dataclasses import dataclass

from tilec.design.blocks import counted
from tilec.design.copies import Copy
from tilec.design.depths import Depths, stages
from tilec.design.forecast import NOTHING, Forecast
from tilec.design.phases import Schedule
from tilec.design.subject import Subject
from tilec.design.turns import MMA
from tilec.design.validation import Validation


@dataclass(frozen=True)
class Pipeline:
    """What the schedule does, read off one execution."""

    depth: int
    lag: int | None
    """MMAs that stay queued when a stage is refilled; None where no turn refills, or roles do."""
    loads_ahead: int
    """K tiles whose loads are in flight while one is computed, at most."""
    mmas_queued: int
    """At most, the one that runs included."""
    persistent: bool
    roles: tuple[str, ...]
    overlaps: bool
    words: str


@dataclass(frozen=True)
class Bound:
    """What bounds the kernel; `what` is None where the cost model says nothing."""

    what: str | None
    words: str


@dataclass(frozen=True)
class Conclusion:
    verdict: str
    """One sentence."""
    copies: tuple[Copy, ...]
    pipeline: Pipeline
    bound: Bound
    remarks: tuple[str, ...]
    """What the passes said, each with its line."""


def conclusion(
    subject: Subject,
    copies: tuple[Copy, ...],
    schedule: Schedule,
    depths: Depths,
    forecast: Forecast,
    validation: Validation,
) -> Conclusion:
    pipeline = _pipeline(subject, schedule)
    remarks = tuple(
        one.message if one.location is None else f"line {one.location.line}: {one.message}" for one in subject.remarks
    )
    return Conclusion(
        _verdict(subject, copies, pipeline, schedule, depths, forecast, validation),
        copies,
        pipeline,
        _bound(forecast),
        remarks,
    )


def _verdict(
    subject: Subject,
    copies: tuple[Copy, ...],
    pipeline: Pipeline,
    schedule: Schedule,
    depths: Depths,
    forecast: Forecast,
    validation: Validation,
) -> str:
    tma = sum(copy.engine == "TMA" for copy in copies)
    copied = f"{tma} of {len(copies)} copies by TMA" if copies else "no copies"
    ring = "one stage" if pipeline.depth == 1 else f"a ring of {pipeline.depth} stages"
    row = depths.chosen
    if subject.storage_problem is not None:
        return f"cannot be lowered: {subject.storage_problem.message}"
    if row is not None and not row.fits:
        return f"does not fit {subject.target.name}: {ring}, {row.over_bytes} bytes too many"
    if validation.proof.verdict == "refuted":
        return f"wrong: {validation.proof.message}"
    if (stuck := schedule.stuck) is not None:
        return f"wrong: an execution hangs ({stuck}), though the protocol is {validation.proof.verdict}"
    wrong = next((run for run in validation.runs if run.outcome in ("differs", "fault")), None)
    if wrong is not None:
        return f"wrong: {wrong.message}"
    apart = next((one for one in validation.handoffs if not one.holds), None)
    if apart is not None:
        return f"wrong: barrier {apart.barrier} does not hand on from one to one: {apart.problem}"
    proof = validation.proof
    if proof.verdict == "checked":
        protocol = f"protocol checked up to {proof.summary}"
    else:
        protocol = f"protocol proved {proof.summary}" if proof.summary.startswith("for ") else "nothing asynchronous"
    made = f"{copied}, {ring}, {protocol}"
    if validation.untried is not None:
        return f"not verified: {validation.untried}; {made}"
    if subject.not_lowered is not None:
        return f"not for a GPU: {subject.not_lowered}; {made}"
    if row is not None and row.spill_bytes:
        return f"{row.spill_bytes} bytes of registers spilled a thread: use a smaller tile; {made}"
    if (suiting := sum(copy.suits for copy in copies)) and not tma and not subject.by_hand:
        instead = " in place of threads" if any(one.name == "threads" for one in subject.passes) else ""
        return f"add the pass tma{instead}: TMA suits {suiting} of {len(copies)} copies, and does none; {made}"
    if forecast.problem == NOTHING:
        return f"use it: {made}; with this shape {NOTHING}"
    if row is not None and row.seconds and (best := depths.faster) is not None and best.seconds:
        against = f"{best.seconds * 1e6:.1f} us against {row.seconds * 1e6:.1f}, by the cost model"
        return f"use {stages(best)}: {against}; as it is, {made}"
    alone = "; its numbers are compared with nothing: --like FILE names a program"
    return f"use it: {made}{alone if copies and subject.by_hand and subject.like is None else ''}"


def _pipeline(subject: Subject, schedule: Schedule) -> Pipeline:
    roles = subject.roles
    depth, ahead, overlap = subject.depth, schedule.ahead, schedule.overlap
    lag = depth - ahead if ahead is not None and not roles and overlap else None
    return Pipeline(
        depth,
        lag,
        overlap,
        schedule.mmas_at_once,
        subject.is_persistent,
        roles,
        overlap > 0,
        _words(subject, schedule, lag, roles),
    )


def _words(subject: Subject, schedule: Schedule, lag: int | None, roles: tuple[str, ...]) -> str:
    if schedule.problem is not None:
        return f"no execution can be followed: {schedule.problem}"
    if (stuck := schedule.stuck) is not None:
        return f"it hangs: {stuck}"
    computes = {turns.computes for phases in schedule.phases for turns in (*phases.steady, *phases.drain)}
    what = "multiplied" if MMA in computes else "used"
    if subject.shape is not None and subject.k_tiles(subject.shape) == 0:
        return "with this shape there is no K tile, and nothing to overlap"
    if not computes:
        return "no loop and no turns: each load is waited for once"
    if not schedule.overlap:
        return f"within a CTA nothing overlaps: each K tile is loaded, waited for and {what} before the next is loaded"
    several = f"loads of up to {schedule.overlap} more are"
    if schedule.overlap == 1:
        several = f"load of {'the next' if schedule.farthest == 1 else 'a later'} K tile is"
    words = f"while a K tile is {what}, the {several} in flight"
    if roles:
        words += f"; the roles {', '.join(roles)} run side by side and hand stages on through mbarriers"
    elif lag is not None:
        when = (
            "that MMA is waited for before its stage is refilled"
            if lag == 0
            else (
                f"a stage is refilled when the MMA {counted(lag, 'turn')} back is complete, so that "
                f"{counted(schedule.mmas_at_once, 'MMA')} {'is' if schedule.mmas_at_once == 1 else 'are'} queued"
            )
        )
        words += f"; {when}" if MMA in computes else ""
    if subject.is_persistent:
        words += "; a CTA goes from tile to tile"
    return words


def _bound(forecast: Forecast) -> Bound:
    chosen = forecast.chosen
    if chosen is None:
        if forecast.problem == NOTHING:
            return Bound(None, f"none: {NOTHING}")
        return Bound(None, f"unknown: {forecast.problem or 'the kernel does not fit'}")
    where = ", ".join(f"{name} = {extent}" for name, extent in forecast.shape.items()) or "its fixed extents"
    gain = chosen.gains.get(chosen.bound, 0.0) / chosen.seconds if chosen.seconds else 0.0
    return Bound(
        chosen.bound,
        f"{chosen.bound}, with {where}: were it free, a launch would take {gain:.0%} less of its "
        f"{chosen.seconds * 1e6:.1f} us ({chosen.tflops:.0f} TFLOP/s)",
    )
