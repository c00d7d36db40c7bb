"""``tilec design``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_PIPELINE = "--pipeline=tma,pipeline(2)"


@pytest.fixture
def gemm(examples: Path) -> Path:
    return examples / "gemm.tile"


@pytest.fixture
def broken(gemm: Path, tmp_path: Path, cli: Callable[..., Any]) -> Path:
    """gemm.tile with a ring by hand, and without the wait for its loads."""
    text = cli("compile", gemm, _PIPELINE, "--emit=tile", "-o", "-").out
    lines = [line for line in text.splitlines() if "try_wait %full" not in line]
    assert len(lines) == len(text.splitlines()) - 1
    path = tmp_path / "broken.tile"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_text(gemm: Path, cli: Callable[..., Any]) -> None:
    finished = cli("design", gemm, _PIPELINE)
    assert (finished.code, finished.err) == (0, "")
    first, rule, *_ = finished.out.splitlines()
    assert (first, rule) == ("gemm for sm_100a, tma,pipeline(2)", "=" * 33)
    assert "use " in finished.out.split("1 Conclusion")[1][:80]


def test_json(gemm: Path, cli: Callable[..., Any]) -> None:
    finished = cli("design", gemm, _PIPELINE, "--shape", "M=512,N=256,K=320", "--target=sm_90a", "--format=json")
    assert (finished.code, finished.err) == (0, "")
    found = json.loads(finished.out)
    assert list(found) == [
        "schema",
        "kernel",
        "file",
        "target",
        "pipeline",
        "shape",
        "conclusion",
        "evidence",
        "contract",
        "validation",
        "risks",
    ]
    assert (found["file"], found["target"]) == (str(gemm), "sm_90a")
    assert found["shape"] == {"M": 512, "N": 256, "K": 320}
    assert [phases["k_tiles"] for phases in found["contract"]["schedule"]] == [5, 1, 2]


def test_markdown(gemm: Path, cli: Callable[..., Any]) -> None:
    finished = cli("design", gemm, "--format=md")
    assert (finished.code, finished.err) == (0, "")
    assert finished.out.startswith("# gemm for sm\\_100a, no passes\n\n## 1 Conclusion\n\n")


def test_what_is_wrong_is_a_report_and_an_exit_code(broken: Path, cli: Callable[..., Any]) -> None:
    finished = cli("design", broken)
    assert (finished.code, finished.err) == (1, "")
    said = "wrong: no wait orders this MMA's read of %a[0] after the TMA load into %a[0]."
    assert said in finished.out
    assert "a tile is read before it is waited for: present\n\n- here: no wait orders" in finished.out
    assert "fault: no wait" in finished.out


def test_a_program_to_compare_with(broken: Path, gemm: Path, cli: Callable[..., Any]) -> None:
    found = json.loads(cli("design", gemm.parent / "step6_persistent.tile", "--like", gemm, "--format=json").out)
    assert {run["compared"] for run in found["validation"]["runs"]} == {"@gemm"}
    assert {run["outcome"] for run in found["validation"]["runs"]} == {"exact"}


def test_no_program_to_compare_with(gemm: Path, cli: Callable[..., Any]) -> None:
    by_hand = gemm.parent / "step5_pipeline.tile"
    finished = cli("design", by_hand, "--like", by_hand)
    assert (finished.code, finished.out) == (1, "")
    line, number = next(
        (text, i) for i, text in enumerate(by_hand.read_text().splitlines(), 1) if text.startswith("tile.kernel")
    )
    assert finished.err == (
        f"{by_hand}:{number}:1: error: gemm has a schedule already, and is no program to compare with\n"
        f"{line}\n^\nhint: give the whole-tile program (L0), with tile.copy and tile.mma alone\n"
    )


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ["--pipeline=tma,pipelin(2)"],
            "<pipeline>:1:5: error: unknown pass 'pipelin'\ntma,pipelin(2)\n    ^\nhint: did you mean 'pipeline'? known: target, "
            "retile, tma, threads, pipeline, persistent, check-protocol, lower, canonicalize, cse, dce\n",
        ),
        (
            ["--pipeline=tma,pipeline(8)"],
            "{file}:2:1: error: 8 stages need 295044 bytes of shared memory, a CTA of sm_100a has 232448\n"
            "{line2}\n^\nhint: the deepest ring that fits: pipeline(6)\n",
        ),
        (
            ["--shape=M=1"],
            "{file}:2:1: error: no extent for K, N in --shape\n{line2}\n^\nhint: for example --shape M=1,K=256,N=256\n",
        ),
        (["--target=sm_80"], "error: unknown target 'sm_80'\nhint: known: sm_90a, sm_100a\n"),
        (
            ["--pipeline=tma,lower"],
            "{file}:2:1: error: the pipeline leaves no tile code: lower is in it\n{line2}\n^\n"
            "hint: leave lower out of --pipeline\n",
        ),
    ],
)
def test_wrong_input(arguments: list[str], error: str, gemm: Path, cli: Callable[..., Any]) -> None:
    finished = cli("design", gemm, *arguments)
    assert (finished.code, finished.out) == (1, "")
    assert finished.err == error.format(file=gemm, line2=gemm.read_text().splitlines()[1])


def test_a_file_that_is_not_there(tmp_path: Path, cli: Callable[..., Any]) -> None:
    finished = cli("design", tmp_path / "none.tile")
    assert (finished.code, finished.out) == (1, "")
    assert finished.err.startswith("error: ") and "none.tile" in finished.err
