"""How much is drawn: the shape that is chosen, the CTAs of a multiprocessor, and what is too much."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilec.backend.timeline import Launch
from tilec.driver import compile_module, find_kernel
from tilec.source import parse_file
from tilec.timeline import Subject, size
from tilec.timeline.terminal import drawing

_PERSISTENT = "tma,pipeline(2),persistent"
_KERNEL_LINE = "tile.kernel @gemm(%A: !tile.view<MxKxf16>, %B: !tile.view<NxKxf16>, %D: !tile.view<MxNxf16>) {\n^\n"


def fixed(examples: Path, folder: Path, **extents: int) -> Path:
    """gemm.tile with extents in the types of its views."""
    text = (examples / "gemm.tile").read_text()
    for name, extent in extents.items():
        text = re.sub(rf"(view<|x){name}x", rf"\g<1>{extent}x", text)
    path = folder / "fixed.tile"
    path.write_text(text)
    return path


# ---- what is chosen


def test_extents_that_are_fixed_are_no_small_shape(
    examples: Path, tmp_path: Path, subject_of: Callable[..., Subject]
) -> None:
    """16 * 16 output tiles: the 148 multiprocessors get a CTA each, and 108 of them a second one."""
    subject = subject_of(fixed(examples, tmp_path, M=2048, N=2048, K=256), pipeline=_PERSISTENT)
    assert subject.amount == "one multiprocessor: 2 CTAs of 1 output tile, 4 K tiles"
    assert not any("small shape" in line.plain for line in drawing(subject, 80))


def test_one_cta_gets_all_tiles_only_where_they_are_two(
    examples: Path, tmp_path: Path, subject_of: Callable[..., Subject]
) -> None:
    """N is chosen to be two tiles, M = 2048 is 16: 32 CTAs. With M = 128 there are two tiles, and one CTA does both."""
    of_many = subject_of(fixed(examples, tmp_path, M=2048), pipeline=_PERSISTENT)
    assert of_many.amount == "one multiprocessor: 1 CTA of 1 output tile, 8 K tiles"
    of_two = subject_of(fixed(examples, tmp_path, M=128), pipeline=_PERSISTENT)
    assert of_two.amount == "one multiprocessor: 1 CTA of 2 output tiles, 8 K tiles each"


def test_each_cta_has_its_own_number_of_tiles(examples: Path, subject_of: Callable[..., Subject]) -> None:
    """10 * 30 tiles for 2 * 148 CTAs: the first four have two, and multiprocessor 0 has the first and the 149th."""
    subject = subject_of(examples / "gemm.tile", pipeline=_PERSISTENT, shape={"M": 1280, "N": 3840, "K": 256})
    assert subject.amount == "one multiprocessor: 2 CTAs of 2 and 1 output tiles, 4 K tiles each"
    assert subject.tiles == (2, 1)
    assert subject.gemm is not None and subject.gemm.tiles == (2, 1)
    assert sum(span.kind == "mma" for span in subject.trace.spans) == 3 * 4


# ---- too much


@pytest.mark.parametrize(
    ("pipeline", "shape"),
    [
        ("", {"M": 4096, "N": 4096, "K": 1024}),
        ("tma", {"M": 4096, "N": 4096, "K": 1024}),
        ("tma,pipeline(3)", {"M": 2048, "N": 4096, "K": 64}),
        ("tma,pipeline(4),persistent", {"M": 4096, "N": 4096, "K": 1000}),
    ],
)
def test_a_launch_is_sized_up_before_it_is_recorded(pipeline: str, shape: dict[str, int], examples: Path) -> None:
    module = compile_module(parse_file(examples / "gemm.tile"), pipeline=pipeline, emit="tile").asynchronous
    launch = Launch.of(module, shape)
    steps = sum(len(flow) for recording in launch.busiest() for flow in recording.flows)
    assert size._estimate(launch, find_kernel(module)) == pytest.approx(steps, rel=0.05)  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    ("options", "tiles", "hint"),
    [
        (["--shape=M=65536,N=65536,K=8192"], 512 * 512 / 148, "give a smaller --shape"),
        (["--shape=M=8192,N=8192,K=8192", "--ctas=1"], 64 * 64, "give a smaller --shape, or more --ctas"),
    ],
)
def test_a_launch_of_very_many_steps_is_refused_at_once(
    options: list[str],
    tiles: float,
    hint: str,
    examples: Path,
    cli: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A K tile is eight steps: the loop, two waits, an MMA and its commit, an announcement and two loads."""
    monkeypatch.delattr(Launch, "busiest")  # nothing of it is recorded
    file = examples / "gemm.tile"
    finished = cli("timeline", file, "-p", _PERSISTENT, *options)
    (said,) = re.findall(r"about ([\d,]+) steps", finished.err)
    assert int(said.replace(",", "")) == pytest.approx(tiles * 128 * 8, rel=0.05)
    assert (finished.code, finished.out) == (1, "")
    assert finished.err == (
        f"{file}:2:1: error: about {said} steps on one multiprocessor are too many to play: at most 200,000\n"
        f"{_KERNEL_LINE}hint: {hint}\n"
    )


def test_so_is_one_whose_extents_are_fixed(
    examples: Path, tmp_path: Path, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two CTAs of 14 tiles of 128 K tiles."""
    monkeypatch.setattr(size, "MOST_STEPS", 28 * 128 * 8)
    finished = cli("timeline", fixed(examples, tmp_path, M=8192, N=8192, K=8192), "-p", _PERSISTENT)
    assert re.search(
        r"error: about [\d,]+ steps on one multiprocessor are too many to play: at most 28,672\n", finished.err
    )
    assert finished.err.endswith("hint: name extents in its view types, such as MxKxf16, and give a small --shape\n")


def test_an_endless_loop_of_fixed_length_is_refused_at_once(
    examples: Path, tmp_path: Path, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even one of its output tiles is recorded: each tile of A is loaded once at least."""
    monkeypatch.setattr(size, "record", None)
    finished = cli("timeline", fixed(examples, tmp_path, K=64 * 10**7), "-p", "tma", "--shape=M=128,N=128")
    assert "error: about 10,000,000 steps on one multiprocessor are too many to play: at most 200,000\n" in finished.err


@pytest.mark.parametrize(("ending", "what"), [("html", "a page"), ("png", "a picture"), ("svg", "a picture")])
def test_a_page_and_a_picture_have_a_limit(
    ending: str,
    what: str,
    examples: Path,
    tmp_path: Path,
    subject_of: Callable[..., Subject],
    cli: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file, out = examples / "gemm.tile", tmp_path / f"t.{ending}"
    spans = len(subject_of(file, pipeline="tma").trace.spans)
    monkeypatch.setattr(size, "MOST_SPANS", spans - 1)
    finished = cli("timeline", file, "-p", "tma", "-o", out)
    assert (finished.code, finished.out, out.exists()) == (1, "", False)
    assert finished.err == (
        f"{file}:2:1: error: {spans} spans are too many for {what}: at most {spans - 1}\n{_KERNEL_LINE}"
        "hint: give a smaller --shape; without -o the start and the end are drawn here, and a .json for Perfetto has them all\n"
    )


def test_perfetto_gets_all(
    examples: Path, tmp_path: Path, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(size, "MOST_SPANS", 1)
    out = tmp_path / "t.json"
    assert cli("timeline", examples / "gemm.tile", "-p", "tma", "-o", out).code == 0
    events = json.loads(out.read_text())["traceEvents"]
    assert sum(event["ph"] == "X" and event["cat"] == "mma" for event in events) == 8


def test_a_picture_of_thousands_of_spans_takes_no_minute(examples: Path, subject_of: Callable[..., Subject]) -> None:
    """Spans of a row that look alike are one shape."""
    pytest.importorskip("matplotlib")
    from tilec.timeline.picture import picture

    small, large = (
        picture(subject_of(examples / "gemm.tile", pipeline="tma", shape={"M": 128, "N": 128, "K": 64 * tiles}), "svg")
        for tiles in (8, 800)
    )
    groups = [picture.count(b"<g id=") for picture in (small, large)]
    assert groups[1] < 2 * groups[0]
