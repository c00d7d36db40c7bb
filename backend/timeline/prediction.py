"""What a whole launch takes, without the chip: the busiest multiprocessor in time, among others that ask for the same.

The busiest multiprocessor is played step by step. How long its loads take depends on how much all of them load together, and
its clock on the power that they draw; both depend on how long it takes. So it is played until that agrees. What bounds the
launch is found by taking away one cost after another. It is the time of a launch among others of the same tensors: what fits
into the L2 cache is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, sqrt
from typing import Literal

from xdsl.dialects.builtin import ModuleOp

from tilec.backend.kernels import find_kernel
from tilec.backend.target import DEFAULT_TARGET
from tilec.backend.timeline.costs import Costs
from tilec.backend.timeline.demand import Demand
from tilec.backend.timeline.models import Model, model_of
from tilec.backend.timeline.replay import makespan
from tilec.backend.timeline.share import Launch
from tilec.backend.timeline.steps import Recording
from tilec.diagnostics import fail

Bound = Literal["power", "memory", "tensor core", "load bandwidth", "latency", "epilogue", "launch"]

_PLAYED, _STEP = 5, 3
"""Output tiles that are played of a CTA with more, and those over which the time of one more is taken."""
_LONG, _PLAYED_LONG, _STEP_LONG = 4000, 2, 1
"""The same, of output tiles of more steps than this."""
_MOST_STEPS = 60_000
"""Of a multiprocessor: they are played some fifty times, which takes a few seconds."""
_ROUNDS, _ROUNDS_OF_A_GAIN = 12, 4
_LOWERED = 0.95
"""Of the highest clock: below, power is what bounds a busy tensor core."""
_AGREED = 1e-3
_INSTANT = 1e-12
"""What a launch takes at least, where everything that it does is taken to be free."""
_FULLEST = 0.985
"""Load of the L2 cache beyond which its queue is not counted: the rate itself is the limit."""


@dataclass(frozen=True)
class Prediction:
    """One launch."""

    seconds: float
    """0 where there is no output tile: then nothing is launched."""
    flops: float
    """Operations, two for each multiply-add; what tiles have outside of the tensors is not counted."""
    bound: Bound
    """What would shorten it most, were it free; power, where that is the tensor core and power has lowered its clock."""
    gains: Mapping[Bound, float]
    """By how many seconds it would."""
    clock_mhz: float
    """Of the multiprocessors, as far as power allows."""
    l2_load: float
    """The part of the L2 cache's rate that is asked for, 0 to 1."""
    load_latency: float
    """Nanoseconds from the end of a load's turn at the TMA engine until it has landed."""


def predict(module: ModuleOp, shape: Mapping[str, int], *, resident: int = 1, model: Model | None = None) -> Prediction:
    """Of an asynchronous kernel (L1), of which a multiprocessor holds `resident` CTAs at a time.

    `shape` has an extent for each name in the kernel's view types. Raises TilecError for a kernel that is not asynchronous,
    and at a wait that never ends.
    """
    settled = _settled(module, shape, resident, model)
    if settled is None:
        clock = (model or _model(module)).clock_mhz
        return Prediction(0.0, 0.0, "launch", {"launch": 0.0}, clock, 0.0, 0.0)
    whole, chip, state = settled
    total = whole.seconds(chip, state)
    gains: dict[Bound, float] = {}
    for name, other in _without(chip):
        gains[name] = max(0.0, total - whole.seconds(other, whole.settle(other, state, rounds=_ROUNDS_OF_A_GAIN)))
    bound: Bound = max(gains, key=lambda name: gains[name])
    if bound == "tensor core" and state.mhz < _LOWERED * chip.clock_mhz:
        bound = "power"  # a faster tensor core would draw as much for each multiply-add
    latency = whole.costs(chip, state).load_latency / state.mhz * 1e3
    return Prediction(total, 2 * whole.demand.useful, bound, gains, state.mhz, state.l2_load, latency)


def predict_seconds(
    module: ModuleOp, shape: Mapping[str, int], *, resident: int = 1, model: Model | None = None
) -> float:
    """The time of `predict`, for who does not ask what bounds it: an eighth of the work."""
    settled = _settled(module, shape, resident, model)
    if settled is None:
        return 0.0
    whole, chip, state = settled
    return whole.seconds(chip, state)


def _settled(
    module: ModuleOp, shape: Mapping[str, int], resident: int, model: Model | None
) -> tuple[_Whole, Model, _State] | None:
    """A launch and the chip that agree with each other; None where there is no output tile."""
    chip = model or _model(module)
    launch = Launch.of(module, shape, resident=resident)
    if not launch.ctas:
        return None
    whole = _Whole.of(launch, chip)
    return whole, chip, whole.settle(chip, _State(chip.clock_mhz, 0.3, 0.1))


def _model(module: ModuleOp) -> Model:
    kernel = find_kernel(module, None)
    return model_of(DEFAULT_TARGET if kernel.target is None else kernel.target.data)


@dataclass(frozen=True, slots=True)
class _State:
    """What the multiprocessors and the rest of the chip agree on."""

    mhz: float
    l2_load: float
    memory_load: float


@dataclass(frozen=True)
class _Whole:
    """A launch, and what it asks of the chip."""

    launch: Launch
    long: tuple[Recording, ...]
    """The busiest multiprocessor, some output tiles short of what it has."""
    short: tuple[Recording, ...]
    """And some more."""
    left_out: float
    """How often the difference of the two is missing."""
    demand: Demand

    @staticmethod
    def of(launch: Launch, chip: Model) -> _Whole:
        one = launch.busiest(max(launch.rounds - 1, 0))[0]
        played, step = (_PLAYED, _STEP) if _steps((one,)) < _LONG else (_PLAYED_LONG, _STEP_LONG)
        left_out = max(launch.rounds - played, 0)
        long = launch.busiest(left_out)
        if (count := _steps(long)) > _MOST_STEPS:
            fail(
                find_kernel(launch.module, None),
                f"{count} steps of one multiprocessor are too many to play, over {_MOST_STEPS}",
                hint="predict smaller extents: what a long loop takes grows in proportion to its length",
            )
        short = launch.busiest(left_out + step) if left_out else ()
        demand = Demand.of(launch, long[0], l2_bytes=chip.l2_bytes, l2_line=chip.l2_line, l2_split=chip.l2_split)
        return _Whole(launch, long, short, left_out / step, demand)

    def settle(self, chip: Model, state: _State, rounds: int = _ROUNDS) -> _State:
        """Play until the time, the load of the L2 cache and the clock agree."""
        for _ in range(rounds):
            cycles = self.play(self.costs(chip, state))
            seconds = max(cycles / state.mhz * 1e-6, self.floor(chip), _INSTANT)
            load = min(self.demand.loaded / seconds * 1e-9 / chip.l2_rate, _FULLEST)
            through_memory = self.demand.missed + self.demand.stored
            memory_load = min(through_memory / seconds * 1e-9 / chip.memory_rate, _FULLEST)
            drawn = (self.demand.macs + chip.power_of_load * self.demand.loaded) / (
                seconds * state.mhz * 1e6 * self.launch.multiprocessors
            )
            mhz = chip.clock_mhz * min(1.0, sqrt(chip.power / drawn)) if drawn else chip.clock_mhz
            new = _State((mhz + state.mhz) / 2, (load + state.l2_load) / 2, (memory_load + state.memory_load) / 2)
            agreed = abs(new.mhz / state.mhz - 1) < _AGREED and abs(new.l2_load - state.l2_load) < _AGREED
            state = new
            if agreed:
                break
        return state

    def seconds(self, chip: Model, state: _State) -> float:
        cycles = self.play(self.costs(chip, state))
        return chip.launch_us * 1e-6 + max(cycles / state.mhz * 1e-6, self.floor(chip))

    def floor(self, chip: Model) -> float:
        """Seconds until L2 has brought and memory has brought and taken what it must."""
        through_memory = self.demand.missed + self.demand.stored
        return max(self.demand.loaded / chip.l2_rate, through_memory / chip.memory_rate) * 1e-9

    def costs(self, chip: Model, state: _State) -> Costs:
        """Of a multiprocessor among the others."""
        cycles_per_ns = state.mhz * 1e-3
        away = chip.l2_queue * state.l2_load / (1 - state.l2_load)
        if self.demand.missed:
            away += chip.memory_latency / (1 - state.memory_load)
        # At half the clock, the way to L2 takes half the cycles.
        latency = (chip.costs.load_latency / chip.clock_mhz * 1e3 + away) * cycles_per_ns
        stores = chip.store_rate_of_all / self.launch.active / cycles_per_ns
        return replace(
            chip.costs,
            load_latency=latency,
            gather_latency=chip.costs.gather_latency + away * cycles_per_ns,
            load_jitter=chip.jitter,
            store_rate=min(chip.costs.store_rate, stores),
        )

    def play(self, costs: Costs) -> float:
        resident = self.launch.resident
        long = makespan(self.long, costs, resident=resident)
        if not self.left_out:
            return long
        return long + self.left_out * (long - makespan(self.short, costs, resident=resident))


def _steps(ctas: Sequence[Recording]) -> int:
    return sum(len(flow) for cta in ctas for flow in cta.flows)


def _without(chip: Model) -> Iterator[tuple[Bound, Model]]:
    """The chip, with one thing free."""
    costs = chip.costs
    yield "power", replace(chip, power=inf)
    yield "memory", replace(chip, memory_rate=inf, memory_latency=0.0)
    yield "tensor core", replace(chip, costs=replace(costs, mma_rate=inf))
    yield "load bandwidth", replace(chip, costs=replace(costs, load_rate=inf, gather_rate=inf), l2_rate=inf)
    waits = replace(
        costs, load_latency=0.0, mma_latency=0.0, wait=0.0, sync=0.0, iterate=0.0, arrive=0.0, load_issue=0.0,
        mma_issue=0.0, gather_latency=0.0,
    )  # fmt: skip
    yield "latency", replace(chip, costs=waits, memory_latency=0.0, jitter=0.0)
    quick = replace(
        costs, work=0.0, accumulator_rate=inf, shared_rate=inf, compute_rate=inf, scatter_rate=inf, store_issue=0.0,
        store_rate=inf, store_latency=0.0,
    )  # fmt: skip
    yield "epilogue", replace(chip, costs=quick, store_rate_of_all=inf)
    yield "launch", replace(chip, launch_us=0.0, costs=replace(costs, start=0.0, end=0.0, schedule=0.0))
