"""What the cost model of the target expects of a launch, with the chosen depth and with the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilec.backend.protocol.extents import tile_steps
from tilec.backend.timeline import Prediction, model_of, predict, predict_seconds
from tilec.design.compilations import at_depth
from tilec.design.depths import Depths
from tilec.design.subject import Subject
from tilec.diagnostics import TilecError

_EXTENT, _TILES, _K_TILES = 4096, 32, 64
"""Of each dimension of a launch that nobody has named: the extent at most, the output tiles and the K tiles."""
_MOST_TURNS = 4096
"""K tiles of a multiprocessor at a time that are played."""
NOTHING = "there is no output tile, and nothing is launched"


@dataclass(frozen=True)
class Expected:
    """One launch, by the cost model."""

    ctas_per_sm: int
    seconds: float
    tflops: float
    bound: str
    """What would shorten it most, were it free."""
    gains: dict[str, float]
    """By how many seconds it would."""


@dataclass(frozen=True)
class Forecast:
    """`shape` is the one that was asked for (`given`), or a common one."""

    shape: dict[str, int]
    given: bool
    chosen: Expected | None
    times: Mapping[int, float]
    """Seconds of a launch by depth, of all that fit and can be compiled."""
    evidence: str
    """Where the constants of the model come from."""
    measured: bool
    """Whether they are of the target: by measurements, and not by what is published of it."""
    problem: str | None


def forecast(subject: Subject, depths: Depths) -> Forecast:
    """Of the chosen depth, and the time of each other one that the pass list can make."""
    given = subject.shape is not None
    shape = subject.shape or _common_shape(subject)
    chosen = problem = None
    times: dict[int, float] = {}
    try:
        sources = model_of(subject.target.name).sources
        evidence, measured = _evidence(subject), sources["mma_rate"].evidence == "measured"
        if not (subject.loads or subject.stores):
            raise TilecError("the kernel copies nothing")
        chosen = _expected(subject, depths, shape)
        if chosen is not None and not chosen.seconds:
            chosen, problem = None, NOTHING
        elif chosen is not None:
            times = {subject.depth: chosen.seconds, **_times(subject, depths, shape)}
    except TilecError as error:
        evidence, measured, problem = "no cost model", False, error.diagnostic.message
    return Forecast(shape, given, chosen, times, evidence, measured, problem)


def _common_shape(subject: Subject) -> dict[str, int]:
    steps = tile_steps(subject.kernel)
    shape: dict[str, int] = {}
    for name in subject.extents:
        loop = subject.loop_steps.get(name)
        tiles = steps.get(name, _EXTENT) * _TILES if loop is None else loop * _K_TILES
        shape[name] = min(_EXTENT, tiles)
    return subject.assumed(shape)


def _expected(subject: Subject, depths: Depths, shape: dict[str, int]) -> Expected | None:
    row = depths.chosen
    if row is None or not row.fits:
        return None
    resident = max(row.ctas_per_sm or 1, 1)
    if (subject.k_tiles(shape) or 1) * resident > _MOST_TURNS:
        raise TilecError(f"{subject.k_tiles(shape)} K tiles are too many to play here: `tilec predict` does")
    made: Prediction = predict(subject.module, shape, resident=resident)
    rate = made.flops / made.seconds / 1e12 if made.seconds else 0.0
    gains = {str(name): seconds for name, seconds in made.gains.items()}
    return Expected(resident, made.seconds, rate, str(made.bound), gains)


def _times(subject: Subject, depths: Depths, shape: dict[str, int]) -> Mapping[int, float]:
    """Of the other depths, each with the CTAs that it leaves room for."""
    times: dict[int, float] = {}
    for row in depths.rows:
        compiled = at_depth(subject, row.depth) if row.fits and row.source == "passes" and not row.chosen else None
        if compiled is not None:
            resident = max(row.ctas_per_sm or 1, 1)
            times[row.depth] = predict_seconds(compiled.asynchronous, shape, resident=resident)
    return times


def _evidence(subject: Subject) -> str:
    sources = model_of(subject.target.name).sources
    kinds = dict.fromkeys(source.evidence for source in sources.values())
    said = f", constants {', '.join(kinds)}" if kinds else ""
    return f"docs/costs.md, {subject.target.name}{said}"
