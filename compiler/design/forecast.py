"""What the cost model of the target expects of a launch, with the chosen depth and without any overlap."""

from __future__ import annotations

from dataclasses import dataclass

from tilec.backend.protocol.extents import tile_steps
from tilec.backend.timeline import Prediction, model_of, predict
from tilec.design.depths import Depths, at_depth, roomier
from tilec.design.subject import Subject
from tilec.diagnostics import TilecError

_EXTENT, _TILES, _K_TILES = 4096, 32, 64
"""Of each dimension of a launch that nobody has named: the extent at most, the output tiles and the K tiles."""
_MOST_TURNS = 4096
"""K tiles of a multiprocessor at a time that are played."""


@dataclass(frozen=True)
class Expected:
    """One launch, by the cost model."""

    pipeline: str
    depth: int
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
    serial: Expected | None
    """The same kernel with one stage."""
    roomier: Expected | None
    """The same kernel with the deepest ring that leaves room for more CTAs on a multiprocessor."""
    evidence: str
    """Where the constants of the model come from."""
    problem: str | None


def forecast(subject: Subject, depths: Depths) -> Forecast:
    """Of the chosen depth, and of depth 1 where the pass list can make one."""
    given = subject.shape is not None
    shape = subject.shape or _common_shape(subject)
    chosen = serial = other = problem = None
    room = roomier(depths)
    try:
        evidence = _evidence(subject)
        if not (subject.loads or subject.stores):
            raise TilecError("the kernel copies nothing")
        chosen = _expected(subject, depths, subject.depth, shape)
        if subject.depth > 1:
            serial = _expected(subject, depths, 1, shape)
        if room is not None:
            other = serial if room.depth == 1 else _expected(subject, depths, room.depth, shape)
    except TilecError as error:
        evidence, problem = "no cost model", error.diagnostic.message
    return Forecast(shape, given, chosen, serial, other, evidence, problem)


def _common_shape(subject: Subject) -> dict[str, int]:
    steps = tile_steps(subject.kernel)
    shape: dict[str, int] = {}
    for name in subject.extents:
        loop = subject.loop_steps.get(name)
        tiles = steps.get(name, _EXTENT) * _TILES if loop is None else loop * _K_TILES
        shape[name] = min(_EXTENT, tiles)
    return shape


def compared(forecast: Forecast) -> str | None:
    """The chosen depth beside the one that leaves room for more CTAs, in words."""
    chosen, other = forecast.chosen, forecast.roomier
    if chosen is None or other is None or not chosen.seconds:
        return None
    stages = "1 stage takes" if other.depth == 1 else f"{other.depth} stages take"
    return f"{stages} {other.seconds * 1e6:.1f} us, {chosen.depth} take {chosen.seconds * 1e6:.1f} us"


def _expected(subject: Subject, depths: Depths, depth: int, shape: dict[str, int]) -> Expected | None:
    found = at_depth(subject, depth)
    row = next((one for one in depths.rows if one.depth == depth), None)
    if found is None or row is None or not row.fits:
        return None
    compiled, spec = found
    resident = max(row.ctas_per_sm or 1, 1)
    if (subject.k_tiles(shape) or 1) * resident > _MOST_TURNS:
        raise TilecError(f"{subject.k_tiles(shape)} K tiles are too many to play here: `tilec predict` does")
    made: Prediction = predict(compiled.asynchronous, shape, resident=resident)
    rate = made.flops / made.seconds / 1e12 if made.seconds else 0.0
    gains = {str(name): seconds for name, seconds in made.gains.items()}
    return Expected(spec, depth, resident, made.seconds, rate, str(made.bound), gains)


def _evidence(subject: Subject) -> str:
    sources = model_of(subject.target.name).sources
    kinds = dict.fromkeys(source.evidence for source in sources.values())
    said = f", constants {', '.join(kinds)}" if kinds else ""
    return f"docs/costs.md, {subject.target.name}{said}"
