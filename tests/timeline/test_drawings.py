"""Timelines in the terminal, for Perfetto and as pictures, of traces written by hand and of compiled kernels."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tilec.backend.timeline import Link, Span, Trace
from tilec.timeline import Subject
from tilec.timeline.chrome_trace import chrome_trace
from tilec.timeline.rows import rows
from tilec.timeline.terminal import drawing


def span(lane: str, kind: Any, start: float, end: float, stage: int | None = None, **facts: Any) -> Span:
    fields = {"issued": start, "cta": 0, "tile": 0, "k": None, "phase": None, "what": kind, "why": "why", "lines": (7,)}
    return Span(lane, kind, start=start, end=end, stage=stage, **{**fields, **facts})


# Two loads that overlap, a wait for the first, an MMA.
HAND_MADE = Trace(
    (
        span("TMA", "load", 0, 10, 0, k=0, phase=0),
        span("threads", "wait", 0, 12, 0, phase=0),
        span("TMA", "load", 5, 20, 1, k=1, phase=1, issued=1),
        span("tensor core", "mma", 12, 20, 0, k=0, phase=0),
    ),
    (Link(0, 1, "full[0]"),),
    ("TMA", "tensor core", "threads"),
    20.0,
)


@pytest.fixture
def gemm(examples: Path, subject_of: Callable[..., Subject]) -> Subject:
    return subject_of(examples / "gemm.tile", pipeline="tma,pipeline(3)")


def lines(subject: Subject, width: int) -> list[str]:
    return [line.plain for line in drawing(subject, width)]


# ---- rows


def test_a_ring_has_a_row_a_slot() -> None:
    assert [(row.name, row.spans) for row in rows(HAND_MADE)] == [
        ("TMA 0", (0,)),
        ("TMA 1", (2,)),
        ("tensor core", (3,)),
        ("threads", (1,)),
    ]


def test_what_overlaps_has_rows_of_its_own() -> None:
    same_slot = (span("TMA", "load", 0, 10, 0), span("TMA", "load", 5, 9, 0), span("TMA", "load", 9, 12, 0))
    found = rows(Trace(same_slot, (), ("TMA",), 12.0))
    assert [(row.name, row.spans) for row in found] == [("TMA 0", (0,)), ("TMA 1", (1, 2))]


# ---- the terminal


def test_the_cells_of_a_trace(gemm: Subject) -> None:
    """A cell a unit: 20 of them behind names of 13 characters, and a margin of one."""
    drawn = lines(replace(gemm, trace=HAND_MADE, chosen=False), 34)
    start = next(i for i, line in enumerate(drawn) if line.startswith("cycles"))
    assert drawn[start : start + 5] == [
        "cycles       |0          |12",
        "TMA 0        0000000000",
        "TMA 1             111111111111111",
        "tensor core  ............00000000",
        "threads      ------------",
    ]


def test_an_odd_round_is_underlined_and_a_slot_has_its_colour(gemm: Subject) -> None:
    drawn = {line.plain[:5]: line for line in drawing(replace(gemm, trace=HAND_MADE), 80)}
    styles = {name: {str(part.style) for part in drawn[name].spans} for name in ("TMA 0", "TMA 1")}
    assert styles == {"TMA 0": {"black on #56b4e9"}, "TMA 1": {"underline black on #e69f00"}}


@pytest.mark.parametrize("width", [20, 21, 30, 40, 60, 80, 132, 200])
def test_it_fits(width: int, gemm: Subject) -> None:
    assert max(map(len, lines(gemm, width))) <= width


def test_it_is_20_wide_at_least(gemm: Subject) -> None:
    assert lines(gemm, 5) == lines(gemm, 20)


def test_half_of_a_narrow_line_is_for_the_cells(gemm: Subject) -> None:
    """20: names of 9 and a blank, 9 cells of 20 / 9 units, a margin."""
    drawn = lines(replace(gemm, trace=HAND_MADE, chosen=False), 20)
    start = next(i for i, line in enumerate(drawn) if line.startswith("cycles"))
    assert drawn[start : start + 5] == [
        "cycles    |0",
        "TMA 0     0000",
        "TMA 1       1111111",
        "tensor co .....0000",
        "threads   -----",
    ]


def test_a_long_trace_says_what_it_leaves_out(examples: Path, subject_of: Callable[..., Subject]) -> None:
    subject = subject_of(
        examples / "gemm.tile", pipeline="tma,pipeline(2)", shape={"M": 128, "N": 128, "K": 6400}, kind="abstract"
    )
    drawn = lines(subject, 80)
    (left_out,) = (line for line in drawn if line.startswith("..."))
    # 100 MMAs of 1, three cells each, in 66 cells: 22 units on either side of 100 * 1.2 + 1.
    assert left_out.endswith("more MMAs in 77 MMAs (all of them: -o timeline.html) ...")
    hidden = int(left_out.split()[1])
    first_hidden, last_hidden = 22 / 1.2, (121 - 22) / 1.2  # MMA k runs from 1.2 (k + 1) on
    assert hidden == pytest.approx(last_hidden - first_hidden, abs=1.5)
    assert sum(line.startswith("tensor core") for line in drawn) == 2


# ---- trace events


def _events(subject: Subject) -> list[dict[str, Any]]:
    return json.loads(chrome_trace(subject))["traceEvents"]


def test_each_span_is_an_event_in_microseconds(gemm: Subject) -> None:
    complete = [event for event in _events(gemm) if event["ph"] == "X"]
    assert len(complete) == len(gemm.trace.spans)
    assert gemm.clock_ghz is not None
    per_cycle = 1 / (gemm.clock_ghz * 1000)
    ends = max(event["ts"] + event["dur"] for event in complete)
    assert ends == pytest.approx(gemm.trace.makespan * per_cycle)
    mma = next(event for event in complete if event["cat"] == "mma")
    assert (mma["name"], mma["args"]["what"]) == ("MMA of K tile 0", "MMA of a[0] and b[0]")


@pytest.mark.parametrize("pipeline", ["tma", "tma,pipeline(3)", "tma,pipeline(2),persistent"])
def test_the_events_keep_the_rules_of_the_format(
    pipeline: str, examples: Path, subject_of: Callable[..., Subject]
) -> None:
    events = _events(subject_of(examples / "gemm.tile", pipeline=pipeline))
    named = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
    threads: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for event in events:
        assert event["ph"] in "MXsf"
        assert {"name", "ph", "pid", "tid"} <= event.keys()
        if event["ph"] != "M":
            assert event["ts"] >= 0 and (event["pid"], event["tid"]) in named
        if event["ph"] == "X":
            assert event["dur"] >= 0
            threads.setdefault((event["pid"], event["tid"]), []).append(event)
    for of_thread in threads.values():
        _one_after_another(of_thread)
    starts = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    assert starts.keys() == ends.keys() and starts
    for number, start in starts.items():
        end = ends[number]
        assert start["ts"] <= end["ts"] and (start["cat"], start["name"]) == (end["cat"], end["name"])
        for flow in (start, end):  # bound to the slice that it lies in
            assert any(
                event["ts"] <= flow["ts"] <= event["ts"] + event["dur"] for event in threads[flow["pid"], flow["tid"]]
            )


def _one_after_another(events: Sequence[dict[str, Any]]) -> None:
    in_order = sorted(events, key=lambda event: event["ts"])
    for before, after in pairwise(in_order):
        assert before["ts"] + before["dur"] <= after["ts"] + 1e-9


def test_a_unit_that_is_no_cycle_is_a_microsecond(examples: Path, subject_of: Callable[..., Subject]) -> None:
    subject = subject_of(examples / "gemm.tile", pipeline="tma", kind="abstract")
    complete = [event for event in _events(subject) if event["ph"] == "X"]
    assert max(event["ts"] + event["dur"] for event in complete) == pytest.approx(8 * (1.2 + 1))


# ---- pictures


def test_a_picture_shows_the_figures_and_the_lanes(gemm: Subject) -> None:
    pytest.importorskip("matplotlib")
    from tilec.timeline.picture import picture

    svg = picture(gemm, "svg").decode()
    kpis = gemm.trace.kpis
    for text in (
        "gemm for sm_100a, tma,pipeline(3), M=128 N=128 K=512",
        f"makespan {kpis.makespan:,.0f} cycles",
        "TMA 2",
        "tensor core",
        "threads",
        "TMA store",
    ):
        assert text in svg
    assert picture(gemm, "svg").decode() == svg  # nothing in it depends on when it is made
    assert picture(gemm, "png").startswith(b"\x89PNG\r\n")
