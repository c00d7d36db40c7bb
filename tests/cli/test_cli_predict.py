"""``tilec predict``: the ladder of a pipeline, on paper and beside a GPU."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilec import ladder
from tilec.residency import Residency

_SHAPE = "--shape=M=2048,N=2048,K=512"
_PASSES = "--pipeline=tma,pipeline(4),persistent"
_H200 = "--target=sm_90a"


@pytest.fixture(autouse=True)
def no_ptxas(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the residency rests on must not depend on the machine."""
    monkeypatch.setattr("tilec.residency.find_ptxas", lambda: None)


def steps(cli: Callable[..., Any], file: Path, *options: str) -> list[dict[str, Any]]:
    finished = cli("predict", file, *options, "--format=json")
    assert finished.code == 0, finished.err
    return json.loads(finished.out)["steps"]


def test_every_pass_is_a_step(examples: Path, cli: Callable[..., Any]) -> None:
    finished = cli("predict", examples / "gemm.tile", _PASSES, _SHAPE, _H200, "--device=none")
    assert finished.code == 0
    first, blank, headings, *rows, last = finished.out.splitlines()
    assert first == "gemm for sm_90a, M=2048 N=2048 K=512: one launch among others of the same tensors"
    assert blank == ""
    assert headings.split() == ["passes", "time", "TFLOP/s", "CTAs/SM", "bound", "by", "were", "it", "free"]
    assert [row.split("  ")[0] for row in rows] == [
        "(as written)",
        "tma{staging=2}",
        "tma{staging=2},pipeline{stages=4}",
        "tma{staging=2},pipeline{stages=4},persistent{group=8}",
    ]
    assert last == "?: no ptxas has said how many registers a thread takes; pip install 'tilec[ptxas]'"


def test_json_has_the_figures(examples: Path, cli: Callable[..., Any]) -> None:
    for step in steps(cli, examples / "gemm.tile", _PASSES, _SHAPE, _H200, "--device=none"):
        assert step["tflops"] == pytest.approx(2 * 2048 * 2048 * 512 / step["seconds"] / 1e12)
        assert step["gains"][step["bound"]] == max(step["gains"].values())
        assert step["measured"] is None
        assert step["registers_from"] == "estimated"
        assert 1000 < step["clock_mhz"] <= 1980


def test_operations_outside_the_tensors_do_not_count(examples: Path, cli: Callable[..., Any]) -> None:
    (step,) = steps(cli, examples / "gemm.tile", "--shape=M=200,N=136,K=72", _H200, "--device=none")
    assert step["tflops"] == pytest.approx(2 * 200 * 136 * 72 / step["seconds"] / 1e12)


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_each_step_of_the_course_is_faster(target: str, examples: Path, cli: Callable[..., Any]) -> None:
    options = "--shape=M=4096,N=4096,K=1024", f"--target={target}", "--device=none"
    seconds = [one["seconds"] for one in steps(cli, examples / "gemm.tile", "--pipeline=tma,pipeline(2)", *options)]
    assert seconds == sorted(seconds, reverse=True) and len(seconds) == 3


@pytest.mark.parametrize("shape", ["M=0,N=8,K=8", "M=8,N=0,K=8"])
def test_no_output_tile_is_no_launch(shape: str, examples: Path, cli: Callable[..., Any]) -> None:
    finished = cli("predict", examples / "gemm.tile", f"--shape={shape}", _H200, "--device=none")
    assert (finished.code, finished.out) == (0, "gemm: no output tile, nothing is launched\n")


@pytest.mark.parametrize("shape", ["M=8,N=8,K=0", "M=1,N=1,K=1", "M=130,N=1,K=65"])
def test_little_to_do(shape: str, examples: Path, cli: Callable[..., Any]) -> None:
    for step in steps(cli, examples / "gemm.tile", _PASSES, f"--shape={shape}", _H200, "--device=none"):
        assert 1e-6 < step["seconds"] < 1e-5


@pytest.mark.parametrize("example", ["step4_tma", "step5_pipeline", "step6_persistent", "bias_relu"])
def test_kernels_with_a_schedule_of_their_own(example: str, examples: Path, cli: Callable[..., Any]) -> None:
    (step,) = steps(cli, examples / f"{example}.tile", _SHAPE, _H200, "--device=none")
    assert step["pipeline"] == "" and step["seconds"] > 0


def test_roles_are_taken_to_be_alone(cli: Callable[..., Any]) -> None:
    file = Path(__file__).resolve().parents[1] / "protocol" / "step7_roles.tile"
    finished = cli("predict", file, _SHAPE, _H200, "--device=none")
    assert finished.code == 0
    assert finished.out.splitlines()[-1] == (
        "a kernel with roles is not lowered yet: it is taken to have a multiprocessor to itself"
    )


def test_remarks_are_said_once(examples: Path, cli: Callable[..., Any]) -> None:
    finished = cli("predict", examples / "bias_relu.tile", _PASSES, _SHAPE, _H200, "--device=none")
    assert finished.err.count("remark") == 1


def test_a_chip_that_nobody_has_measured_is_said_to_be_one(examples: Path, cli: Callable[..., Any]) -> None:
    finished = cli("predict", examples / "gemm.tile", _SHAPE, "--target=sm_100a", "--device=none")
    assert finished.out.splitlines()[-1] == (
        "nothing of sm_100a has been measured: docs/prediction.md has predictions beside figures that others published"
    )


def test_spills_are_said(examples: Path, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ladder, "residency", lambda compiled: Residency(1, 255, "ptxas", 1080))
    finished = cli("predict", examples / "gemm.tile", _SHAPE, _H200, "--device=none")
    assert finished.out.splitlines()[-1] == (
        "as written: 1080 bytes of registers a thread are spilled, which is not reckoned"
    )


# ---- beside a GPU


def test_what_a_gpu_measures_stands_beside(
    examples: Path, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ladder, "device_target", lambda: "sm_90a")
    monkeypatch.setattr(ladder, "measure", lambda program, pipeline, target, shape: 100e-6)
    finished = cli("predict", examples / "gemm.tile", "--pipeline=tma", _SHAPE)
    assert finished.code == 0
    _, _, headings, *rows, _ = finished.out.splitlines()
    assert headings.split()[-4:] == ["measured", "TFLOP/s", "predicted", "is"]
    for row, step in zip(rows, steps(cli, examples / "gemm.tile", "--pipeline=tma", _SHAPE), strict=True):
        assert step["measured"] == 100e-6
        assert row.split()[-4:] == ["100.0", "us", "42.9", f"{step['seconds'] / 100e-6 - 1:+.0%}"]


def test_another_target_than_the_gpu_is_not_measured(
    examples: Path, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ladder, "device_target", lambda: "sm_90a")
    (step,) = steps(cli, examples / "gemm.tile", _SHAPE, "--target=sm_100a")
    assert step["measured"] is None


def test_who_insists_on_a_gpu_is_told_that_there_is_none(
    examples: Path, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ladder, "device_target", lambda: None)
    finished = cli("predict", examples / "gemm.tile", _SHAPE, "--device=cuda")
    assert finished.code == 1
    assert finished.err == (
        "error: --device=cuda measures on a GPU of the target, and there is none\n"
        "hint: leave it out, or choose the GPU's own with --target\n"
    )


# ---- bad input


def test_a_missing_extent(examples: Path, cli: Callable[..., Any]) -> None:
    finished = cli("predict", examples / "gemm.tile", "--shape=M=128")
    assert finished.code == 1
    lines = finished.err.splitlines()
    assert lines[0].endswith("gemm.tile:2:1: error: no extent for K, N in --shape")
    assert lines[-1] == "hint: for example --shape M=128,K=256,N=256"


def test_nothing_is_left_to_play(examples: Path, cli: Callable[..., Any]) -> None:
    finished = cli("predict", examples / "gemm.tile", "--pipeline=tma,lower", _SHAPE, _H200)
    assert finished.code == 1
    lines = finished.err.splitlines()
    assert lines[0].endswith("gemm.tile:2:1: error: the pipeline leaves no tile code: lower is in it")
    assert lines[-1] == "hint: leave lower out of --pipeline"


def test_a_pass_that_refuses(examples: Path, cli: Callable[..., Any]) -> None:
    finished = cli("predict", examples / "gemm.tile", "--pipeline=tma,pipeline(9)", _SHAPE, _H200)
    assert finished.code == 1
    assert "9 stages need" in finished.err and finished.out == ""
