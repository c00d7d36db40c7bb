"""The least that has to hold, run now: small launches in the simulator, the proof, one producer and one consumer a barrier."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod, sqrt
from typing import Literal

from tilec.backend.protocol import Status
from tilec.backend.protocol.extents import extents_of, tile_steps
from tilec.backend.protocol.sizes import satisfies_assumptions
from tilec.backend.simulator import Fault
from tilec.design.experiment import Experiment
from tilec.design.rings import Rings
from tilec.design.subject import Subject
from tilec.diagnostics import Diagnostic, TilecError
from tilec.driver import find_kernel
from tilec.simulation import Mismatch, simulate
from tilec.verify_each import grain, small_extents

_MOST_MACS = 1 << 31
"""Of the user's own shape, which is simulated too if it has no more."""
_WHOLE, _TAILS = "whole tiles", "boundary tiles"
Outcome = Literal["exact", "no fault", "differs", "fault", "skipped"]


@dataclass(frozen=True)
class Run:
    """One launch. `exact`: all numbers are those of the program (whole numbers, so that no sum is rounded). `no fault`: no rule is
    broken, and the numbers are compared with nothing."""

    what: str
    shape: dict[str, int]
    k_tiles: int | None
    outcome: Outcome
    compared: str | None
    """With what."""
    tiles: int
    mmas: int
    waits: int
    message: str | None
    """What went wrong, or why it was skipped."""
    line: int | None


@dataclass(frozen=True)
class Proof:
    verdict: Status
    summary: str
    states: int
    message: str | None
    """What is wrong, or why there is no proof."""
    line: int | None
    hint: str | None


@dataclass(frozen=True)
class HandOff:
    """Whether a barrier hands on from one producer to one consumer."""

    barrier: str
    producers: tuple[str, ...]
    consumers: tuple[str, ...]
    holds: bool
    problem: str | None


@dataclass(frozen=True)
class Validation:
    runs: tuple[Run, ...]
    proof: Proof
    handoffs: tuple[HandOff, ...]
    experiment: Experiment
    untried: str | None
    """Why no launch has shown what the kernel is for: an MMA, or else a copy."""

    @property
    def holds(self) -> bool:
        """Whether nothing went wrong, and something was tried."""
        return (
            self.untried is None
            and all(run.outcome in ("exact", "no fault", "skipped") for run in self.runs)
            and self.proof.verdict != "refuted"
            and all(handoff.holds for handoff in self.handoffs)
        )


def validation(subject: Subject, rings: Rings, experiment: Experiment) -> Validation:
    """All of it. The runs are made here and now."""
    verdict = subject.verdict
    found = verdict.diagnostic
    proof = Proof(
        verdict.status,
        verdict.summary,
        verdict.states,
        None if found is None else found.message,
        _line(found),
        None if found is None else found.hint,
    )
    handoffs = tuple(
        HandOff(one.name, one.producers, one.consumers, one.problem is None, one.problem) for one in rings.barriers
    )
    runs = tuple(_runs(subject))
    return Validation(runs, proof, handoffs, experiment, _untried(subject, runs))


def _untried(subject: Subject, runs: tuple[Run, ...]) -> str | None:
    """Broken launches have been tried as well."""
    tried = [run for run in runs if run.outcome != "skipped"]
    if subject.multiplies:
        what, shown = "an MMA", any(run.mmas or run.outcome in ("differs", "fault") for run in tried)
    elif subject.loads or subject.stores:
        what, shown = "a copy", any(run.tiles or run.outcome in ("differs", "fault") for run in tried)
    else:
        return None
    if shown:
        return None
    why = next((run.message for run in reversed(runs) if run.outcome == "skipped"), None)
    return f"no launch with {what} was simulated{'' if why is None else f': {why}'}"


def _line(found: Diagnostic | None) -> int | None:
    return None if found is None or found.location is None else found.location.line


# ---- launches


def _runs(subject: Subject) -> Iterator[Run]:
    seen: list[dict[str, int]] = []
    for what, shape in _launches(subject):
        if shape in seen:
            continue
        seen.append(shape)
        yield _run(subject, what, shape)


def _launches(subject: Subject) -> Iterator[tuple[str, dict[str, int]]]:
    """Few and many K tiles on an output that is no square and does not end on a tile; whole tiles; the shape that was asked for."""
    kernel = subject.kernel
    steps, depth = subject.loop_steps, subject.depth
    tails = _unequal(subject, small_extents(kernel))
    for count in dict.fromkeys((0, 1, depth - 1, depth, depth + 1, 2 * depth + 1)) if steps else ():
        shape = dict(tails)
        for name, step in steps.items():
            shape[name] = _extent(count, step, grain(kernel, name), whole=count % 2 == 0)
        yield _TAILS, subject.assumed(shape)
    if not steps:
        yield _TAILS, subject.assumed(tails)
    ruled = tile_steps(kernel)
    others = (name for name in tails if name not in steps)
    whole = {name: ruled.get(name, tails[name]) * (2 - place % 2) for place, name in enumerate(others)}
    ordered = {**whole, **{name: step * (depth + 1) for name, step in steps.items()}}
    yield _WHOLE, subject.assumed({name: ordered[name] for name in tails})
    if subject.shape is not None:
        yield "the given shape", subject.shape


def _extent(count: int, step: int, unit: int, *, whole: bool) -> int:
    """So many tiles, the last one not full unless `whole`, in multiples of `unit`."""
    full = count * step
    if whole or count == 0:
        return -(-full // unit) * unit
    part = max((step // 2) // unit * unit, unit)
    return (count - 1) * step + min(part, step)


def _unequal(subject: Subject, shape: Mapping[str, int]) -> dict[str, int]:
    """The same shape, no two of whose extents are equal: exchanged ones give other numbers."""
    made: dict[str, int] = {}
    steps = tile_steps(subject.kernel)
    for name, extent in shape.items():
        while extent in made.values():
            extent += max(steps.get(name, 0), grain(subject.kernel, name))
        made[name] = extent
    return made


def _run(subject: Subject, what: str, shape: dict[str, int]) -> Run:
    k_tiles = subject.k_tiles(shape)
    compared = _compared(subject)

    def outcome(kind: Outcome, message: str | None, line: int | None) -> Run:
        return Run(what, shape, k_tiles, kind, compared, 0, 0, 0, message, line)

    if not satisfies_assumptions(subject.kernel, shape):
        return outcome("skipped", "the kernel assumes that no launch has this shape", None)
    if (macs := _work(subject, shape)) > _MOST_MACS:
        return outcome("skipped", f"too large to simulate here ({macs:.0e} multiply-adds)", None)
    try:
        report = simulate(subject.program, subject.module, shape, like=subject.like).report
    except Mismatch as error:
        return outcome("differs", error.diagnostic.message, _line(error.diagnostic))
    except Fault as error:
        return outcome("fault", error.diagnostic.message, _line(error.diagnostic))
    except TilecError as error:
        if subject.like is not None:  # it is no program to compare with
            raise
        return outcome("skipped", error.diagnostic.message, _line(error.diagnostic))
    result = "no fault" if compared is None else "exact"
    return Run(what, shape, k_tiles, result, compared, report.tiles, report.mmas, report.waits, None, None)


def _compared(subject: Subject) -> str | None:
    if subject.like is not None:
        return f"@{find_kernel(subject.like).sym_name.data}"
    return None if subject.by_hand else "the program"


def _work(subject: Subject, shape: Mapping[str, int]) -> float:
    """About what the simulator has to do: elements of all views, or multiply-adds of whole tiles: for three matrices of MxK, NxK and
    MxN elements the root of their product."""
    steps = {**tile_steps(subject.kernel), **subject.loop_steps}
    full = {name: -(-max(extent, 1) // steps.get(name, 1)) * steps.get(name, 1) for name, extent in shape.items()}
    views = sorted(prod(extents_of(argument, full)) for argument in subject.kernel.body.block.args)
    return max(sqrt(prod(views[-3:])) if subject.multiplies else 0, sum(views))
