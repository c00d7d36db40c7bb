"""Kernels on the clock: makespans by hand, what no schedule can beat, and that the clock sees what the simulator sees."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from gemm_text import gemm
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from tilec.backend.simulator import run
from tilec.backend.timeline import MODELS, Costs, Launch, Model, Span, Trace, predict, record, replay, trace_kernel
from tilec.backend.timeline.steps import Commit, Fork, Mma, Recording, Stage, Step, Wait, WaitGroup
from tilec.diagnostics import TilecError
from tilec.driver import compile_module
from tilec.source import parse_text

ROLES = (Path(__file__).resolve().parents[1] / "protocol" / "step7_roles.tile").read_text()
TILE, BYTES, MACS = 64, 2 * 64 * 64 * 2, 64 * 64 * 64


@cache
def kernel(pipeline: str, target: str = "sm_100a") -> ModuleOp:
    """D = A * B^T in 64x64 tiles of K = 64, so that eight stages fit."""
    return compile_module(parse_text(gemm(64, 64, 64)), pipeline=pipeline, target=target, emit="tile").asynchronous


def lesson(ratio: float) -> Costs:
    return Costs.abstract(ratio=ratio, load_bytes=BYTES, macs=MACS)


def one_tile(k_tiles: int) -> dict[str, int]:
    return {"M": TILE, "N": TILE, "K": TILE * k_tiles}


@cache
def recorded(pipeline: str, k_tiles: int) -> Recording:
    return record(kernel(pipeline), one_tile(k_tiles))


def traced(pipeline: str, k_tiles: int, costs: Costs) -> Trace:
    return replay([recorded(pipeline, k_tiles)], costs)


def of_kind(trace: Trace, kind: str) -> list[Span]:
    return [span for span in trace.spans if span.kind == kind]


# ---- by hand


def test_serial_takes_turns() -> None:
    kpis = traced("tma", 8, lesson(1.2)).kpis
    assert kpis.makespan == pytest.approx(8 * (1.2 + 1))
    assert kpis.idle == pytest.approx(1 - 8 / (8 * (1.2 + 1)))
    assert not kpis.back_to_back
    assert kpis.loads_in_flight == 1


def test_two_stages_hide_the_shorter_of_the_two() -> None:
    """The engine loads without a pause, since a slot is free before the load before it has ended: 8 loads and the last MMA."""
    kpis = traced("tma,pipeline(2)", 8, lesson(1.2)).kpis
    assert kpis.makespan == pytest.approx(8 * 1.2 + 1)
    assert kpis.idle == pytest.approx(1 - 8 / (8 * 1.2 + 1))
    assert not kpis.back_to_back
    assert kpis.loads_in_flight == 2


def test_two_stages_with_short_loads_feed_the_tensor_core() -> None:
    """The first load, and 8 MMAs without a gap: the load of each has ended before the MMA before it."""
    kpis = traced("tma,pipeline(2)", 8, lesson(0.75)).kpis
    assert kpis.makespan == pytest.approx(0.75 + 8)
    assert kpis.back_to_back


def test_latencies_by_hand() -> None:
    """Serial: of each K tile the issue of its two loads, their turns at the engine, the way, the wake-up, the MMA's issue, the
    MMA, its latency, the wake-up. Before the first store, and at the end, a wait for bulk groups, of which there are none."""
    costs = replace(lesson(1), load_issue=0.25, load_latency=3, wait=0.5, mma_latency=2, mma_issue=0.125)
    second_load = max(2 * 0.25, 0.25 + 0.5) + 0.5  # each takes half of the engine's time for a stage
    k_tile = second_load + 3 + 0.5 + 0.125 + 1 + 2 + 0.5
    waits = sum(isinstance(step, WaitGroup) for step in recorded("tma", 3).flows[0])
    assert traced("tma", 3, costs).makespan == pytest.approx(3 * k_tile + waits * 0.5)


def test_no_k_tile_is_no_load() -> None:
    trace = traced("tma,pipeline(2)", 0, lesson(1.2))
    assert not of_kind(trace, "load") and not of_kind(trace, "mma")
    assert trace.kpis.idle == 1.0
    assert not trace.kpis.back_to_back


def test_no_tile_is_no_cta() -> None:
    trace = trace_kernel(kernel("tma,persistent"), {"M": 0, "N": TILE, "K": TILE}, lesson(1.2))
    assert trace.spans == () and trace.makespan == 0


# ---- whatever the costs

some = st.floats(0, 5)
costs = st.builds(
    lambda ratio, few: replace(lesson(ratio), **few),
    st.floats(0.01, 5),
    st.fixed_dictionaries(
        {name: some for name in ("load_issue", "load_latency", "wait", "arrive", "mma_issue", "mma_latency", "sync")}
    ),
)


@given(st.integers(0, 12), costs)
def test_one_stage_is_serial(k_tiles: int, costs: Costs) -> None:
    assert traced("tma,pipeline(1)", k_tiles, costs).kpis == traced("tma", k_tiles, costs).kpis


@given(st.integers(0, 12), st.floats(0.01, 5))
def test_a_deeper_ring_is_never_slower(k_tiles: int, ratio: float) -> None:
    spans = [traced(f"tma,pipeline({depth})", k_tiles, lesson(ratio)).makespan for depth in range(1, 9)]
    assert all(deeper <= shallower + 1e-9 for shallower, deeper in pairwise(spans))


@given(st.integers(1, 12), st.integers(1, 8), costs)
def test_no_schedule_beats_its_engines(k_tiles: int, depth: int, costs: Costs) -> None:
    trace = traced(f"tma,pipeline({depth})", k_tiles, costs)
    load, mma = BYTES / costs.load_rate, MACS / costs.mma_rate
    assert trace.makespan >= load + costs.load_latency + k_tiles * mma - 1e-9
    assert trace.makespan >= k_tiles * load + costs.load_latency + mma - 1e-9
    assert trace.kpis.loads_in_flight <= depth


@given(st.integers(1, 10), st.integers(1, 4), costs)
@settings(max_examples=30)
def test_engines_do_one_thing_at_a_time(k_tiles: int, depth: int, costs: Costs) -> None:
    """Two CTAs share the tensor core."""
    cta = record(kernel(f"tma,pipeline({depth})"), one_tile(k_tiles))
    trace = replay([cta, cta, cta], costs, resident=2)
    mmas = of_kind(trace, "mma")
    assert {span.cta for span in mmas} == {0, 1, 2}
    assert len(mmas) == 3 * k_tiles
    assert all(later.start >= earlier.end - 1e-9 for earlier, later in pairwise(mmas))


@given(st.integers(1, 10), st.integers(1, 6), costs)
@settings(max_examples=30)
def test_an_mma_follows_its_loads_and_a_load_the_mma_that_freed_its_slot(
    k_tiles: int, depth: int, costs: Costs
) -> None:
    trace = traced(f"tma,pipeline({depth})", k_tiles, costs)
    loads, mmas = ({span.k: span for span in of_kind(trace, kind)} for kind in ("load", "mma"))
    assert list(loads) == list(mmas) == list(range(k_tiles))
    for k in range(k_tiles):
        assert mmas[k].start >= loads[k].end - 1e-9
        assert mmas[k].stage == loads[k].stage == k % depth
        assert mmas[k].phase == loads[k].phase == k // depth % 2
        if k >= depth:
            assert loads[k].issued >= mmas[k - depth].end - 1e-9


def test_links_join_a_wait_to_what_ended_it() -> None:
    trace = traced("tma,pipeline(2)", 4, lesson(1.2))
    for link in trace.links:
        source, wait = trace.spans[link.source], trace.spans[link.wait]
        assert wait.kind == "wait" and wait.end == pytest.approx(source.end)
    assert [link.signal for link in trace.links][:3] == ["full[0]", "done[0]", "full[1]"]


# ---- beside the simulator


@pytest.mark.parametrize("pipeline", ["tma", "tma,pipeline(2)", "tma,pipeline(3),persistent", "threads"])
@pytest.mark.parametrize("k_tiles", [0, 1, 2, 5])
def test_the_clock_sees_what_the_simulator_executes(pipeline: str, k_tiles: int) -> None:
    module = kernel(pipeline)
    shape = {"M": 3 * TILE, "N": 2 * TILE, "K": k_tiles * TILE}
    arrays = [np.zeros((shape[a], shape[b]), np.float16) for a, b in ("MK", "NK", "MN")]
    ctas = 2 if "persistent" in pipeline else 6
    report = run(module, arrays, ctas=2 if "persistent" in pipeline else None)
    spans = [
        span
        for number in range(ctas)
        for span in replay(
            [record(module, shape, number=number, ctas=2 if "persistent" in pipeline else None)], lesson(1)
        ).spans
    ]
    assert sum(span.kind == "mma" for span in spans) == report.mmas == 6 * k_tiles
    loads = [span for span in spans if span.kind == "load"]
    assert len(loads) * BYTES == (0 if pipeline == "threads" else report.bytes_loaded)


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_roles_overlap_what_one_team_of_threads_does_in_turn(depth: int) -> None:
    text = ROLES.replace("tile.ring<2 x", f"tile.ring<{depth} x").replace("tile.mbarrier<2>", f"tile.mbarrier<{depth}>")
    module = parse_text(text.replace("%last_stage = arith.constant 1", f"%last_stage = arith.constant {depth - 1}"))
    costs = Costs.abstract(ratio=0.75, load_bytes=32768, macs=128 * 128 * 64)
    trace = trace_kernel(module, {"M": 128, "N": 128, "K": 8 * 64}, costs)
    assert set(trace.lanes) == {"TMA", "tensor core", "load", "mma", "store", "TMA store"}
    if depth == 1:
        assert trace.makespan == pytest.approx(8 * 1.75)
    else:
        assert trace.makespan == pytest.approx(0.75 + 8) and trace.kpis.back_to_back


def test_a_commit_is_of_the_mmas_of_its_own_role() -> None:
    """Two roles multiply. The tensor core does one after the other, and the first role waits for its own alone."""
    op = next(iter(kernel("tma").walk()))

    def role(name: str) -> tuple[Step, ...]:
        done = Stage(name, 0)
        mma = Mma(op, (), 0, 0, MACS, MACS, (Stage("a", 0), Stage("b", 0)))
        return mma, Commit(op, (), 0, 0, done), Wait(op, (), 0, 0, done, 0)

    flows = (Fork(op, (), 0, None),), role("first"), role("second")
    counts = {Stage("first", 0): 1, Stage("second", 0): 1}
    trace = replay([Recording(flows, ("threads", "one", "other"), counts, 1)], lesson(1))
    waits = {span.lane: (span.start, span.end) for span in trace.spans if span.kind == "wait"}
    assert waits == {"one": (0, 1), "other": (0, 2)}


def test_storage_of_one_name_is_not_one_storage() -> None:
    """Names are for people: the same kernel with other names, or none, takes the same time."""
    text = str(kernel("tma,pipeline(2)"))
    same = text
    for name in ("a", "b", "acc", "staging", "full", "done"):
        same = re.sub(rf"%{name}\b", f"%{ord(name[0]) * 100 + len(name)}", same)
    assert same != text
    costs = MODELS["sm_100a"].costs
    for k_tiles in (1, 5):
        wanted = trace_kernel(parse_text(text), one_tile(k_tiles), costs)
        assert trace_kernel(parse_text(same), one_tile(k_tiles), costs).makespan == wanted.makespan


# ---- what never ends


def test_a_wait_that_never_ends_is_named() -> None:
    text = str(kernel("tma")).replace(f"%full, {BYTES}", f"%full, {BYTES + 16}")
    with pytest.raises(TilecError) as caught:
        trace_kernel(parse_text(text, "broken.tile"), one_tile(1), lesson(1))
    lines = str(caught.value).splitlines()
    assert lines[0].endswith(": error: threads wait for full[0] for ever")
    assert lines[1].strip() == "tile.mbarrier.try_wait %full, %full_phase_1"
    assert lines[3:] == ["hint: `tilec check` shows how it comes about"]


def test_a_stage_that_does_not_exist_is_named() -> None:
    text = str(kernel("tma,pipeline(2)")).replace("arith.constant 2 : index", "arith.constant 3 : index", 1)
    text = text.replace("arith.cmpi eq, %stage_1, %c1", "arith.cmpi eq, %stage_1, %c64")
    with pytest.raises(TilecError, match=r"stage 2 of \w+, which has 2"):
        trace_kernel(parse_text(text, "broken.tile"), one_tile(8), lesson(1))


def test_a_synchronous_program_has_no_schedule_yet() -> None:
    with pytest.raises(TilecError, match=r"tile.copy cannot be executed here|synchronous"):
        trace_kernel(parse_text(gemm(64, 64, 64)), one_tile(1), lesson(1))


def test_a_kernel_that_does_nothing() -> None:
    module = parse_text("tile.kernel @nothing(%A: !tile.view<Mxf16>) { tile.cta_sync }")
    assert replay([record(module, {"M": 8})], lesson(1)).makespan == 0
    found = predict(module, {"M": 8})
    assert 0 < found.seconds < 1e-5 and found.flops == 0


# ---- launches


@pytest.mark.parametrize("resident", [1, 2])
@pytest.mark.parametrize("tiles", [(1, 1), (12, 11), (24, 13), (60, 20)])
def test_each_multiprocessor_gets_its_share(tiles: tuple[int, int], resident: int) -> None:
    shape = {"M": TILE * tiles[0], "N": TILE * tiles[1], "K": 0}
    total, count = tiles[0] * tiles[1], 132
    persistent = Launch.of(kernel("tma,persistent", "sm_90a"), shape, resident=resident)
    assert persistent.ctas == min(total, count * resident)
    share = persistent.busiest()
    assert len(share) == min(resident, -(-total // count))
    assert sum(cta.tiles for cta in share) == sum(1 for tile in range(total) if tile % persistent.ctas % count == 0)
    one_each = Launch.of(kernel("tma", "sm_90a"), shape, resident=resident)
    assert one_each.ctas == total
    assert len(one_each.busiest()) == -(-total // count)


def test_every_constant_has_a_source() -> None:
    for model in MODELS.values():
        of_model = {field.name for field in fields(Model)} - {"target", "costs", "sources"}
        assert set(model.sources) == of_model | {field.name for field in fields(Costs)}
        assert all(source.where for source in model.sources.values())
