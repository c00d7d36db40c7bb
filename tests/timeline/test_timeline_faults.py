"""Kernels that are at fault, or no plain loop: what they do is drawn, or the wait that never ends is named."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tilec.backend.timeline import Launch, steps
from tilec.backend.timeline.steps import Recording
from tilec.diagnostics import InternalError, TilecError, collect
from tilec.driver import compile_module
from tilec.source import parse_file, parse_text
from tilec.timeline import Request, Subject, make
from tilec.timeline.chrome_trace import chrome_trace
from tilec.timeline.gemm import NoGemm, bytes_of_mma, gemm_of
from tilec.timeline.page import page
from tilec.timeline.terminal import drawing


@pytest.fixture
def changed(examples: Path, tmp_path: Path) -> Callable[..., Path]:
    """step5_pipeline.tile, in which what an expression matches is something else."""

    def change(*changes: tuple[str, str]) -> Path:
        text = (examples / "step5_pipeline.tile").read_text()
        for pattern, other in changes:
            text, count = re.subn(pattern, other, text, flags=re.MULTILINE)
            assert count, pattern
        path = tmp_path / "changed.tile"
        path.write_text(text)
        return path

    return change


ANY_WAIT = (r"^ *tile\.mbarrier\.try_wait .*\n", "")
MMA_WAIT = (r"^ *tile\.mbarrier\.try_wait %mma_bar.*\n", "")
EXPECT = (r"^ *tile\.mbarrier\.arrive\.expect_tx .*\n", "")
COMMIT = (r"^ *tile\.commit .*\n", "")
OF_NO_BYTES = (r"(expect_tx .*), 32768", r"\1, 0")


# ---- faults


@pytest.mark.parametrize("kind", ["chip", "abstract"])
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ([ANY_WAIT], "Nothing waits for its loads."),
        ([MMA_WAIT], "Nothing waits for its MMAs."),
        ([ANY_WAIT, EXPECT], "No bytes are announced for its loads."),
        ([ANY_WAIT, COMMIT], "No barrier tells when its MMAs are complete."),
        ([ANY_WAIT, OF_NO_BYTES], "Nothing waits for its loads."),
    ],
)
def test_what_waits_for_nothing_is_drawn(
    changes: list[tuple[str, str]],
    why: str,
    kind: str,
    changed: Callable[..., Path],
    subject_of: Callable[..., Subject],
) -> None:
    subject = subject_of(changed(*changes), kind=kind)
    assert (subject.gemm, subject.why_not) == (None, why)
    assert sum(span.kind == "mma" for span in subject.trace.spans) == 8


@pytest.mark.parametrize("options", [[], ["--costs=abstract"]])
@pytest.mark.parametrize(
    ("change", "barrier", "wait"),
    [
        (EXPECT, "tma_bar[0]", "tile.mbarrier.try_wait %tma_bar[%stage], %phase_tma"),
        (OF_NO_BYTES, "tma_bar[0]", "tile.mbarrier.try_wait %tma_bar[%stage], %phase_tma"),
        (COMMIT, "mma_bar[0]", "tile.mbarrier.try_wait %mma_bar, %phase_mma"),
    ],
)
def test_a_wait_that_never_ends_is_named(
    change: tuple[str, str],
    barrier: str,
    wait: str,
    options: list[str],
    changed: Callable[..., Path],
    cli: Callable[..., Any],
) -> None:
    path = changed(change)
    line = next(number for number, text in enumerate(path.read_text().splitlines(), 1) if wait in text)
    finished = cli("timeline", path, *options)
    assert (finished.code, finished.out) == (1, "")
    assert finished.err == (
        f"{path}:{line}:7: error: threads wait for {barrier} for ever\n"
        f"      {wait}\n"
        "      ^\n"
        "hint: `tilec check` shows how it comes about\n"
    )


def test_whatever_a_kernel_lacks_is_no_fault_of_the_tool(examples: Path) -> None:
    """Each line left out in turn: drawn, or refused with a diagnostic."""
    lines = (examples / "step5_pipeline.tile").read_text().split("\n")
    drawn = refused = 0
    for number, line in enumerate(lines):
        if not line.strip().startswith("tile."):
            continue
        text = "\n".join([*lines[:number], *lines[number + 1 :]])
        try:
            with collect():
                subject = make(parse_text(text, "lacking.tile"), Request(), file="lacking.tile", source=text)
        except TilecError as error:
            assert not isinstance(error, InternalError), line
            refused += 1
        else:
            assert drawing(subject, 80) and chrome_trace(subject) and page(subject)
            drawn += 1
    assert drawn > 10 and refused > 5


# ---- stages that are announced in parts

_HALF = "expect_tx %tma_bar[%{0}], 16384\n          tile.mbarrier.arrive.expect_tx %{1}[%{0}], 16384"
ON_TWO_ARRAYS = [
    (r"^( *)(%tma_bar = .*)$", r"\1\2\n\1%tma_b = tile.mbarrier.init count 1 : !tile.mbarrier<2>"),
    (r"expect_tx %tma_bar\[%s\], 32768", _HALF.format("s", "tma_b")),
    (r"expect_tx %tma_bar\[%stage\], 32768", _HALF.format("stage", "tma_b")),
    (r"(copy_async %B.* signal) %tma_bar", r"\1 %tma_b"),
    (r"^( *tile\.mbarrier\.try_wait) %tma_bar(.*)$", r"\1 %tma_bar\2\n\1 %tma_b\2"),
]
IN_TWO_PARTS = [
    (r"(%tma_bar = tile\.mbarrier\.init count) 1", r"\1 2"),
    (r"expect_tx %tma_bar\[%s\], 32768", _HALF.format("s", "tma_bar")),
    (r"expect_tx %tma_bar\[%stage\], 32768", _HALF.format("stage", "tma_bar")),
]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (ON_TWO_ARRAYS, "Its loads complete on several arrays of barriers."),
        (IN_TWO_PARTS, "The bytes of a stage are not announced at once."),
    ],
)
def test_the_ratio_is_that_of_all_an_mma_reads(
    changes: list[tuple[str, str]], why: str, changed: Callable[..., Path], subject_of: Callable[..., Subject]
) -> None:
    """However it is announced: 8 loads of 1.2, one after another, and the last MMA."""
    subject = subject_of(changed(*changes), kind="abstract")
    assert subject.trace.kpis.makespan == pytest.approx(8 * 1.2 + 1)
    assert subject.trace.kpis.idle == pytest.approx(1 - 8 / 10.6)
    assert subject.why_not == why


def test_what_no_mma_reads_is_not_of_its_ratio(examples: Path) -> None:
    """A stage of the first K tile is two tiles of 128 x 64 f16; of what else is loaded nothing counts."""
    recording = _recording(examples)
    load = next(step for step in recording.flows[0] if isinstance(step, steps.Load))
    other = replace(load, slot=steps.Stage("bias", 0), bytes=1000)
    assert bytes_of_mma(recording) == 2 * 128 * 64 * 2
    assert bytes_of_mma(replace(recording, flows=((*recording.flows[0], other),))) == 2 * 128 * 64 * 2
    assert bytes_of_mma(replace(recording, flows=((other,),))) == 1000
    assert bytes_of_mma(replace(recording, flows=((),))) == 1


def test_a_stage_is_all_that_its_mma_reads(examples: Path) -> None:
    """Where only one of the two tiles is loaded by TMA, the page's loop would be another."""
    recording = _recording(examples)

    def without_b(step: steps.Step) -> list[steps.Step]:
        if isinstance(step, steps.Expect):
            return [replace(step, bytes=step.bytes // 2)]
        return [] if isinstance(step, steps.Load) and step.slot.name == "b" else [step]

    flow = tuple(left for step in recording.flows[0] for left in without_b(step))
    assert gemm_of([recording], 1).load_bytes == 2 * 128 * 64 * 2
    with pytest.raises(NoGemm, match=r"^Its stages are not all loaded alike, each with what its MMA reads\.$"):
        gemm_of([replace(recording, flows=(flow,))], 1)


def _recording(examples: Path) -> Recording:
    module = compile_module(parse_file(examples / "gemm.tile"), pipeline="tma,pipeline(2)", emit="tile").asynchronous
    (recording,) = Launch.of(module, {"M": 128, "N": 128, "K": 512}).busiest()
    return recording
