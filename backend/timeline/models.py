"""The cost model of each target: what steps take, and what the multiprocessors share. Every constant has its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Literal

from tilec.backend.target import find_target
from tilec.backend.timeline.costs import Costs

Evidence = Literal["measured", "derived", "published", "assumed"]


@dataclass(frozen=True, slots=True)
class Source:
    """Where a constant comes from."""

    evidence: Evidence
    where: str


@dataclass(frozen=True, kw_only=True)
class Model:
    """One chip. What lies outside of the multiprocessors keeps its own time: nanoseconds, whatever their clock."""

    target: str
    costs: Costs
    """Of a multiprocessor that has L2 and memory to itself, at `clock_mhz`."""
    clock_mhz: float
    """At which the multiprocessors run while power does not limit them."""
    launch_us: float
    """Of a launch behind another one: from the end of its last CTA to the start of the next one's first."""
    l2_bytes: int
    """Of the L2 cache."""
    l2_rate: float
    """Bytes per nanosecond that the L2 cache gives to all multiprocessors together, to tiles that share operands."""
    l2_line: int
    """Bytes of a line of the L2 cache."""
    l2_split: float
    """Lines that a row of a box takes where rows do not start on one: it lies across two."""
    l2_queue: float
    """Nanoseconds on top of a load's latency where half of `l2_rate` is asked for; it grows as ``load / (1 - load)``."""
    memory_rate: float
    """Bytes per nanosecond."""
    memory_latency: float
    """Nanoseconds on top of a load's latency where its data is not in the L2 cache and memory has little to do; it grows as
    ``1 / (1 - load)``."""
    jitter: float
    """By how much of itself the latency of a load varies, where all multiprocessors load."""
    store_rate_of_all: float
    """Bytes per nanosecond that all multiprocessors together store by TMA."""
    power: float
    """Multiply-adds per cycle and multiprocessor that the power limit allows at `clock_mhz`. With more, the clock goes down as
    the square root of the excess."""
    power_of_load: float
    """Multiply-adds that draw as much power as a loaded byte."""
    sources: Mapping[str, Source]
    """By the name of a field, here or of `costs`."""


def model_of(target: str) -> Model:
    """The cost model of a target. Raises TilecError for one that is not known."""
    return MODELS[find_target(target).name]


_CALIBRATED = "benchmarks/calibrate.py on one H200"
_FITTED = (
    "fitted to benchmarks/predictions.py on one H200: 2048^3, 8192^3, 8192x8192x512, 128x8192x8192 and 4000x4104x4072; "
    "the other five shapes took no part"
)


def _h200_sources() -> dict[str, Source]:
    def calibrated(what: str) -> Source:
        return Source("measured", f"{_CALIBRATED}: {what}")

    turn = calibrated("time of a tile of a persistent kernel beside that of its K tiles")
    epilogue = calibrated("MMA and epilogue of a tile with TMA stores, beside the MMA")
    fitted = Source("measured", _FITTED)
    by_threads = Source(
        "measured", "tilec predict on one H200: K tiles of 1024^3 that threads copy, in tiles of 128x128 and 128x256"
    )
    return {
        "start": calibrated("what a launch of one tile takes beside its K tiles"),
        "end": calibrated("what a launch of one tile takes beside its K tiles"),
        "schedule": turn,
        "iterate": calibrated("the loop around waits for a complete barrier"),
        "sync": calibrated("four cta_sync beside one"),
        "wait": calibrated("four waits for a complete barrier beside one"),
        "arrive": calibrated("8 boxes of 8 rows in flight"),
        "load_issue": calibrated("8 boxes of 8 rows in flight"),
        "load_latency": calibrated("one round of 32 and of 48 KB in flight, L2, one CTA"),
        "load_jitter": Source("derived", "one CTA alone sees none; `jitter` is for all together"),
        "load_rate": calibrated("4 to 8 rounds in flight, L2, one CTA"),
        "mma_issue": calibrated("MMAs of K = 16 to 128 that are waited for, at K = 0"),
        "mma_rate": calibrated("MMAs with one behind, zeros, one CTA"),
        "mma_latency": calibrated("MMAs of K = 16 to 128 that are waited for, at K = 0"),
        "work": epilogue,
        "accumulator_rate": Source("derived", "accumulators are registers"),
        "shared_rate": epilogue,
        "compute_rate": Source("derived", "in `shared_rate`"),
        "gather_latency": by_threads,
        "gather_rate": by_threads,
        "scatter_rate": calibrated("MMA and epilogue of a tile by the threads alone, beside the MMA"),
        "store_issue": calibrated("stores until read, one CTA"),
        "store_rate": calibrated("stores with one and three in flight, L2, one CTA"),
        "store_latency": calibrated("stores until written beside until read, one CTA"),
        "clock_mhz": Source("measured", "nvidia-smi: the highest clock of an H200"),
        "launch_us": calibrated("what a launch of one tile takes beside its K tiles"),
        "l2_bytes": Source("published", "NVIDIA H100 and H200: 50 MB of L2 cache"),
        "l2_rate": fitted,
        "l2_line": Source("published", "CUDA C programming guide: lines of 128 bytes"),
        "l2_split": Source("derived", "it lies across two lines"),
        "l2_queue": fitted,
        "memory_rate": calibrated("loads of rows of their own from memory, all multiprocessors"),
        "memory_latency": fitted,
        "jitter": fitted,
        "store_rate_of_all": calibrated("stores, L2, all multiprocessors"),
        "power": fitted,
        "power_of_load": fitted,
    }


_H200 = Model(
    target="sm_90a",
    costs=Costs(
        start=1000,
        end=300,
        schedule=650,
        iterate=11,
        sync=28,
        wait=45,
        arrive=20,
        load_issue=30,
        load_latency=307,
        load_jitter=0,
        load_rate=107,
        mma_issue=18,
        mma_rate=1839,
        mma_latency=18,
        work=20,
        accumulator_rate=inf,
        shared_rate=60,
        compute_rate=inf,
        gather_latency=700,
        gather_rate=11.5,
        scatter_rate=60,
        store_issue=30,
        store_rate=31.7,
        store_latency=50,
    ),
    clock_mhz=1980,
    launch_us=1.5,
    l2_bytes=50 << 20,
    l2_rate=20000,
    l2_line=128,
    l2_split=2,
    l2_queue=445,
    memory_rate=4200,
    memory_latency=225,
    jitter=0.25,
    store_rate_of_all=4200,
    power=1550,
    power_of_load=30.5,
    sources=_h200_sources(),
)

_CYCLES = "cycle table of facebookexperimental/triton, buffer_depth_model.md, for Blackwell"


def _b200_sources() -> dict[str, Source]:
    like = {name: Source("assumed", f"as on sm_90a: {source.where}") for name, source in _h200_sources().items()}
    return {
        **like,
        "load_latency": Source("published", f"{_CYCLES}: 460 cycles, and 240 for a second load"),
        "load_rate": Source("published", f"{_CYCLES}: 6 cycles a KB"),
        "mma_rate": Source("published", f"{_CYCLES}: 4096 a cycle"),
        "mma_latency": Source("published", f"{_CYCLES}: 559 cycles for 128x128x64, 256 of them at work"),
        "accumulator_rate": Source("assumed", "a column of 128 lanes a cycle"),
        "compute_rate": Source("derived", "in `shared_rate`"),
        "load_jitter": like["load_jitter"],
        "store_rate": Source("published", f"{_CYCLES}: 52 cycles a KB"),
        "store_latency": Source("published", f"{_CYCLES}: 130 cycles"),
        "clock_mhz": Source(
            "published", "2250 TFLOP/s of dense f16, over 148 multiprocessors of 4096 multiply-adds a cycle"
        ),
        "l2_bytes": Source("published", "NVIDIA B200: 126 MB of L2 cache"),
        "l2_rate": Source("assumed", "as on sm_90a, by the number of multiprocessors"),
        "memory_rate": Source("published", "NVIDIA B200: 8 TB/s"),
        "store_rate_of_all": Source("assumed", "as on sm_90a, by the number of multiprocessors"),
        "power": Source(
            "derived",
            "cuBLAS reaches 1567 TFLOP/s at 16384^3: with tensor cores busy for 95 % and 64 bytes a cycle that is 0.73 of the clock",
        ),
    }


_B200 = replace(
    _H200,
    target="sm_100a",
    costs=replace(
        _H200.costs,
        load_latency=700,
        load_rate=1024 / 6,
        mma_rate=4096,
        mma_latency=285,
        accumulator_rate=512,
        store_rate=1024 / 52,
        store_latency=130,
    ),
    clock_mhz=1856,
    l2_bytes=126 << 20,
    l2_rate=_H200.l2_rate * 148 / 132,
    memory_rate=8000,
    store_rate_of_all=_H200.store_rate_of_all * 148 / 132,
    power=3140,
    sources=_b200_sources(),
)

MODELS: dict[str, Model] = {model.target: model for model in (_H200, _B200)}
