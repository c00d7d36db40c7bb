"""The cost model of each target: what steps take, and what the multiprocessors share. Every constant has its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tilec.backend.target import find_target
from tilec.backend.timeline.costs import Costs

Evidence = Literal["measured", "published", "assumed"]


@dataclass(frozen=True, slots=True)
class Source:
    """Where a constant comes from."""

    evidence: Evidence
    where: str


@dataclass(frozen=True, kw_only=True)
class Model:
    """One chip."""

    target: str
    costs: Costs
    clock_mhz: float
    """At which the multiprocessors run while power does not limit them."""
    launch_us: float
    """Between one launch and the next in a stream, for a kernel that does nothing."""
    l2_rate: float
    """Bytes per cycle that the L2 cache gives to all multiprocessors together."""
    l2_bytes: int
    hbm_rate: float
    """Bytes per cycle from memory, at `clock_mhz`."""
    hbm_latency: float
    """Cycles on top of a load's latency where its data is not in the L2 cache."""
    power_tflops: float
    """What the tensor cores reach, f16 and random data, before power lowers the clock. 10^12 operations per second."""
    sources: Mapping[str, Source]
    """By the name of a field, here or of `costs`."""


_MEASURED_H200 = "benchmarks/calibrate.py on one H200"
_SWEEP = "benchmarks/predictions.py on one H200"


def model_of(target: str) -> Model:
    """The cost model of a target. Raises TilecError for one that is not known."""
    return MODELS[find_target(target).name]


_H200_COSTS = Costs(
    start=1500,
    end=300,
    schedule=60,
    iterate=10,
    sync=30,
    wait=30,
    arrive=15,
    load_issue=25,
    load_latency=600,
    load_rate=64,
    mma_issue=40,
    mma_rate=2048,
    mma_latency=60,
    work=20,
    accumulator_rate=1024,
    shared_rate=100,
    compute_rate=400,
    gather_latency=700,
    gather_rate=32,
    scatter_rate=32,
    store_issue=30,
    store_rate=64,
    store_latency=700,
)
MODELS: dict[str, Model] = {
    "sm_90a": Model(
        target="sm_90a",
        costs=_H200_COSTS,
        clock_mhz=1980,
        launch_us=2.0,
        l2_rate=5000,
        l2_bytes=50 << 20,
        hbm_rate=2300,
        hbm_latency=400,
        power_tflops=665,
        sources={},
    ),
}
MODELS["sm_100a"] = MODELS["sm_90a"]
