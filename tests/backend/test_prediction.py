"""What a launch takes: beside an H200's figures, by hand, and against what no chip can beat."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp

from tilec.backend.timeline import MODELS, Costs, Launch, model_of, predict, predict_seconds, prediction, record, replay
from tilec.backend.timeline.demand import Demand
from tilec.diagnostics import TilecError
from tilec.driver import compile_module
from tilec.residency import residency
from tilec.source import parse_file, parse_text

ROOT = Path(__file__).resolve().parents[2]
H200 = MODELS["sm_90a"]
ADD = """
tile.kernel @double(%A: !tile.view<MxNxf16>, %D: !tile.view<MxNxf16>) {
  tile.grid (%m, %n) over %D step (128, 64) {
    %a = tile.alloc : !tile.smem<128x64xf16>
    tile.copy %A[%m, %n] to %a
    %x = tile.load %a : !tile.reg<128x64xf16>
    %y = tile.add %x, %x
    tile.copy %y to %D[%m, %n]
  }
}
"""


@cache
def compiled(pipeline: str, target: str = "sm_90a") -> Any:
    return compile_module(parse_file(ROOT / "examples" / "gemm.tile"), pipeline=pipeline, target=target, emit="tile")


def kernel(pipeline: str, target: str = "sm_90a") -> ModuleOp:
    return compiled(pipeline, target).asynchronous


def shaped(m: int, n: int, k: int) -> dict[str, int]:
    return {"M": m, "N": n, "K": k}


# ---- beside the chip


@cache
def resident(pipeline: str) -> int:
    return residency(compiled(pipeline)).ctas


def test_predictions_beside_an_h200() -> None:
    """All rows of docs/prediction.md, ten shapes at depths 1 to 4 in two tiles; benchmarks/predictions.py measured them."""
    rows = json.loads((ROOT / "benchmarks" / "measured" / "h200.json").read_text())["rows"]
    errors: dict[tuple[str, str], float] = {}
    for row in rows:
        if row["pipeline"] != "torch.matmul":
            pipeline, shape = row["pipeline"], shaped(*map(int, row["shape"].split("x")))
            seconds = predict_seconds(kernel(pipeline), shape, resident=resident(pipeline))
            errors[row["shape"], pipeline] = seconds / row["seconds"] - 1
    assert len(errors) == 84
    assert statistics.median(map(abs, errors.values())) < 0.10
    assert {row: error for row, error in errors.items() if abs(error) > 0.25} == {}


# ---- playing a part of it


@pytest.mark.parametrize(
    ("pipeline", "shape"),
    [
        ("tma", (2048, 6656, 256)),
        ("tma,pipeline(3)", (2048, 6656, 256)),
        ("tma,pipeline(2),persistent", (1536, 16896, 64)),
        ("tma,pipeline(4),persistent", (1408, 9216, 512)),
        ("retile(128,256,64),tma,pipeline(3),persistent", (2048, 16640, 512)),
    ],
)
@pytest.mark.parametrize("ctas", [1, 2])
def test_what_is_left_out_is_not_missed(
    pipeline: str, shape: tuple[int, int, int], ctas: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = predict_seconds(kernel(pipeline), shaped(*shape), resident=ctas)
    monkeypatch.setattr(prediction, "_PLAYED", 1000)
    assert part == pytest.approx(predict_seconds(kernel(pipeline), shaped(*shape), resident=ctas), rel=0.03)


def test_too_long_to_play() -> None:
    with pytest.raises(TilecError) as caught:
        predict(kernel("tma"), shaped(128, 128, 64 * 10000))
    message, *_, hint = str(caught.value).splitlines()
    assert message.endswith("80019 steps of one multiprocessor are too many to play, over 60000")
    assert hint == "hint: predict smaller extents: what a long loop takes grows in proportion to its length"


# ---- demand, by hand


def demand(pipeline: str, shape: Mapping[str, int]) -> Demand:
    launch = Launch.of(kernel(pipeline), shape)
    return Demand.of(launch, launch.busiest()[0], l2_bytes=H200.l2_bytes, l2_line=128, l2_split=2)


def test_whole_tiles_load_each_operand_once_for_each_tile_across() -> None:
    """4 x 3 tiles: A once for each column of tiles, B once for each row. All of it stays in L2."""
    found = demand("tma", shaped(512, 384, 256))
    assert found.loaded == pytest.approx(2 * 256 * (512 * 3 + 384 * 4))
    assert found.macs == found.useful == 512 * 384 * 256
    assert found.missed == found.stored == 0


@pytest.mark.parametrize("pipeline", ["tma", "tma,pipeline(4),persistent", "threads"])
def test_boxes_are_clipped_by_the_tensor_that_they_are_of(pipeline: str) -> None:
    """One row of A, and all of B: what is outside of A takes nothing of B's. Rows of 136 elements do not start on lines."""
    found = demand(pipeline, shaped(1, 1000, 136))
    assert found.loaded == pytest.approx(2 * 2 * 136 * (1 * 8 + 1000), rel=1e-6)
    assert found.useful == pytest.approx(1 * 1000 * 136)
    assert found.macs == 128 * 1024 * 192


def test_what_does_not_fit_into_l2_comes_from_memory_and_goes_there() -> None:
    """16384^2 outputs: a wave of 132 tiles in groups of 8 rows is 8 x 17 of 128 x 128 tiles."""
    found = demand("tma,persistent", shaped(16384, 16384, 1024))
    waves = -(-128 * 128 // 132)
    assert found.missed == pytest.approx(2 * 16384 * 1024 * (8 / 128 + 17 / 128) * waves)
    assert found.stored == 2 * 16384 * 16384


# ---- what no chip can beat


@pytest.mark.parametrize("target", MODELS)
@pytest.mark.parametrize("extent", [8192, 16384])
@pytest.mark.parametrize("pipeline", ["tma", "tma,persistent", "threads"])
def test_nothing_is_faster_than_memory(pipeline: str, extent: int, target: str) -> None:
    module = compile_module(parse_text(ADD), pipeline=pipeline, target=target, emit="tile").asynchronous
    seconds = predict_seconds(module, {"M": extent, "N": extent}, resident=4)
    assert seconds >= 2 * 2 * extent**2 / model_of(target).memory_rate * 1e-9


@pytest.mark.parametrize("target", MODELS)
def test_nothing_is_faster_than_the_tensor_cores(target: str) -> None:
    chip = model_of(target)
    found = predict(kernel("retile(128,256,64),tma,pipeline(4),persistent", target), shaped(8192, 8192, 1024))
    peak = 2 * chip.costs.mma_rate * (132 if target == "sm_90a" else 148) * chip.clock_mhz * 1e6
    assert found.flops / found.seconds < peak


def test_more_work_takes_longer() -> None:
    for pipeline in ("tma", "tma,pipeline(3),persistent"):
        times = [predict_seconds(kernel(pipeline), shaped(1024, 1024, 64 * k)) for k in (0, 1, 2, 4, 8, 16, 32)]
        assert times == sorted(times)


# ---- power, jitter, bounds


def test_power_lowers_the_clock_of_busy_tensor_cores() -> None:
    pipeline, shape = "retile(128,256,64),tma,pipeline(4),persistent", shaped(8192, 8192, 1024)
    found = predict(kernel(pipeline), shape)
    assert found.bound == "power" and found.clock_mhz < 1600
    cool = predict(kernel(pipeline), shape, model=replace(H200, power=1e9))
    assert cool.clock_mhz == H200.clock_mhz and cool.bound == "tensor core" and cool.seconds < found.seconds
    light = predict(kernel(pipeline), shape, model=replace(H200, power_of_load=0))
    assert light.clock_mhz > found.clock_mhz


def test_a_small_launch_is_bound_by_being_launched() -> None:
    assert predict(kernel("tma"), shaped(128, 128, 64)).bound == "launch"


def test_stores_of_all_share_what_memory_takes() -> None:
    shape = shaped(8192, 8192, 64)
    slow = predict_seconds(kernel("tma,persistent"), shape, model=replace(H200, store_rate_of_all=500))
    assert slow >= 2 * 8192 * 8192 / 500e9


def test_loads_vary_around_their_latency() -> None:
    """Serial, one load a round: the sum of the spread over many is theirs without it, and each is within it."""
    costs = replace(Costs.abstract(ratio=1, load_bytes=2 * 128 * 64 * 2, macs=128 * 128 * 64), load_latency=10)
    steps = record(kernel("tma"), shaped(128, 128, 64 * 200))
    spans = [span for span in replay([steps], replace(costs, load_jitter=0.5)).spans if span.kind == "load"]
    lengths = [span.end - span.start - 1 for span in spans]
    assert min(lengths) >= 5 and max(lengths) <= 15 and max(lengths) - min(lengths) > 5
    plain = replay([steps], costs).makespan
    assert (
        replay([steps], replace(costs, load_jitter=0.5)).makespan > plain
    )  # a round lands with the later of its two loads


# ---- CTAs of a multiprocessor


def test_registers_are_estimated_where_no_ptxas_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilec.residency.find_ptxas", lambda: None)
    found = residency(compiled("tma,pipeline(2)"))
    assert (found.registers, found.evidence, found.ctas) == (64 + 40, "estimated", 2)
    on_blackwell = residency(compiled("tma,pipeline(2)", "sm_100a"))
    assert on_blackwell.registers == 64 + 40  # of a chunk of 64 columns
