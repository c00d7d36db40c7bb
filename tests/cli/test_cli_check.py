"""``tilec check``."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tilec.backend.protocol import Verdict
from tilec.backend.simulator import Fault
from tilec.diagnostics import Diagnostic, SourceLocation
from tilec.driver import find_kernel

_PIPELINE = "--pipeline=tma,pipeline(2),persistent"
_SHAPE = "--shape=M=200,N=136,K=200"
_LESSON = Path(__file__).resolve().parents[1] / "protocol" / "lesson_step6.tile"


@pytest.fixture
def verdict(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts a verdict in place of the proof's."""

    def put(made: Verdict) -> None:
        monkeypatch.setattr("tilec.backend.protocol.check", lambda module, kernel=None: made)

    return put


def _refuted(path: Path) -> Verdict:
    note = Diagnostic("note", "the load that it finds", SourceLocation(str(path), 8, 7))
    found = Diagnostic("error", "reads the tile before", SourceLocation(str(path), 10, 7), "carry the phase", (note,))
    return Verdict("refuted", "with K = 3 tiles", found, states=7)


# ---- with the proof


@pytest.mark.parametrize("pipeline", ["", "tma", "tma,pipeline(2)", "tma,pipeline(3)", "tma,pipeline(2),persistent"])
def test_what_the_passes_make_is_proved(pipeline: str, examples: Path, cli: Callable[..., Any]) -> None:
    finished = cli("check", examples / "gemm.tile", f"--pipeline={pipeline}")
    assert (finished.code, finished.err) == (0, "")
    assert finished.out.startswith("proved: gemm, for every K")


@pytest.mark.parametrize("example", ["step4_tma", "step5_pipeline", "step6_persistent"])
def test_the_ladder_is_proved(example: str, examples: Path, cli: Callable[..., Any]) -> None:
    assert cli("check", examples / f"{example}.tile").code == 0


def test_the_lesson_is_refuted(cli: Callable[..., Any]) -> None:
    finished = cli("check", _LESSON)
    assert (finished.code, finished.err) == (1, "")
    first, second, *_ = finished.out.splitlines()
    assert first == "refuted: gemm, with M = 256, K = 64, N = 128: 2 tiles on one CTA"
    assert "this happens with" not in finished.out
    assert second.startswith(f"{_LESSON}:")
    assert ": error: " in second


def test_the_program_stays_as_it_is(examples: Path, tmp_path: Path, cli: Callable[..., Any]) -> None:
    before = cli("compile", examples / "gemm.tile", _PIPELINE, "--emit=tile", "-o", "-").out
    pipeline = f"{_PIPELINE},check-protocol"
    assert cli("compile", examples / "gemm.tile", pipeline, "--emit=tile", "-o", "-").out == before


# ---- what is printed


def test_the_verdict_comes_first(examples: Path, cli: Callable[..., Any], verdict: Callable[..., None]) -> None:
    path = examples / "gemm.tile"
    lines = path.read_text().splitlines()
    verdict(Verdict("proved", "for every K and every number of tiles per CTA", None, ("K is even",), 7))
    finished = cli("check", path, _PIPELINE)
    assert finished.code == 0
    first, second, third = finished.out.splitlines()
    assert (first, second) == ("proved: gemm, for every K and every number of tiles per CTA", "assuming K is even")
    assert third.startswith("7 states in ")
    verdict(_refuted(path))
    finished = cli("check", path, _PIPELINE)
    assert finished.code == 1
    assert finished.out.splitlines()[:-1] == [
        "refuted: gemm, with K = 3 tiles",
        f"{path}:10:7: error: reads the tile before",
        lines[9],
        "      ^",
        "hint: carry the phase",
        f"{path}:8:7: note: the load that it finds",
        lines[7],
        "      ^",
    ]
    verdict(Verdict("checked", "5 tiles per CTA", Diagnostic("warning", "the lag has no bound"), states=7))
    finished = cli("check", path, _PIPELINE)
    assert finished.code == 2
    assert finished.out.startswith("checked up to 5 tiles per CTA: gemm\nwarning: the lag has no bound\n")


def test_json(examples: Path, cli: Callable[..., Any], verdict: Callable[..., None]) -> None:
    path = examples / "gemm.tile"
    verdict(replace(_refuted(path), assumptions=("K is even",)))
    finished = cli("check", path, _PIPELINE, "--format=json")
    assert (finished.code, finished.err) == (1, "")
    found = json.loads(finished.out)
    assert list(found) == [
        "verdict",
        "kernel",
        "summary",
        "diagnostic",
        "warnings",
        "assumptions",
        "states",
        "seconds",
        "run",
        "contract",
    ]
    assert (found["verdict"], found["kernel"], found["states"]) == ("refuted", "gemm", 7)
    assert found["assumptions"] == ["K is even"]
    assert found["run"] is None
    note = {
        "severity": "note",
        "message": "the load that it finds",
        "file": str(path),
        "line": 8,
        "column": 7,
        "hint": None,
        "notes": [],
    }
    assert found["diagnostic"] == {
        "severity": "error",
        "message": "reads the tile before",
        "file": str(path),
        "line": 10,
        "column": 7,
        "hint": "carry the phase",
        "notes": [note],
    }
    assert set(found["contract"]) == {"kernel", "target", "roles", "storage", "handoffs", "lifetimes"}
    assert found["contract"]["storage"][0] == {
        "name": "a",
        "bytes": 32768,
        "stages": 2,
        "where": "shared memory",
        "layout": "128x64 f16, dimension 1 fastest, swizzle 128",
        "address": 0,
    }


def test_json_of_a_proof_and_a_run(examples: Path, cli: Callable[..., Any]) -> None:
    found = json.loads(cli("check", examples / "gemm.tile", _PIPELINE, _SHAPE, "--format=json").out)
    assert (found["verdict"], found["diagnostic"]) == ("proved", None)
    assert found["run"]["shape"] == {"M": 200, "N": 136, "K": 200}
    assert found["run"]["compared"] == "the program"
    assert found["run"]["diagnostic"] is None
    assert found["run"]["report"]["tiles"] == 4


def test_the_table(examples: Path, cli: Callable[..., Any], verdict: Callable[..., None]) -> None:
    verdict(Verdict("proved", "for every K"))
    out = cli("check", examples / "gemm.tile", _PIPELINE, "--table").out
    assert out.isascii()
    assert out.startswith("proved: gemm, for every K\n\ngemm for sm_100a: roles\n")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert all(line == line.rstrip() for line in out.splitlines())
    for row in (
        "issuing thread initialise full, done 8, 10",
        "TMA engine write a, b 8, 9",
        "a 32768 2 shared memory at 0x0 128x64 f16, dimension 1 fastest, swizzle 128",
        "a, b ready TMA engine tensor core full[2] 1 32768 flips when stage wraps; carried from tile to tile; from 0 "
        "fence after_thread_sync",
        "a, b free tensor core TMA engine done[1] 1 flips every turn; carried from tile to tile; from 0",
        "staging line 12 store, line 12 TMA store, line 12 wait_group 0, line 3",
        "full line 8 mbarrier.arrive.expect_tx, line 8 try_wait full, line 10 the end of the CTA",
    ):
        assert row in lines


def test_a_broken_pass_is_the_verdict(cli: Callable[..., Any]) -> None:
    finished = cli("check", _LESSON, "--verify-each")
    assert (finished.code, finished.err) == (1, "")
    first, second, *_ = finished.out.splitlines()
    assert first == "refuted: gemm, the program as it was given breaks the protocol"
    assert ": error: the program as it was given breaks the protocol: no wait orders this MMA's read " in second
    found = json.loads(cli("check", _LESSON, "--verify-each", "--format=json").out)
    assert (found["verdict"], found["contract"]) == ("refuted", None)


# ---- with a run


def test_a_run_of_the_program_as_well(examples: Path, cli: Callable[..., Any]) -> None:
    finished = cli("check", examples / "gemm.tile", _PIPELINE, _SHAPE, "--ctas=2")
    assert finished.code == 0
    last = finished.out.splitlines()[-1]
    assert last.startswith("run with M=200, N=136, K=200: 4 tiles on 2 CTAs, ")
    assert last.endswith("; the numbers are those of the program")
    finished = cli("check", examples / "step6_persistent.tile", _SHAPE)
    assert finished.code == 0
    assert finished.out.splitlines()[-1].endswith(
        "; compared with nothing, since this kernel has a schedule already: --like FILE compares with a program without one"
    )


def test_a_run_against_another_program(examples: Path, tmp_path: Path, cli: Callable[..., Any]) -> None:
    kernel, program = examples / "step6_persistent.tile", examples / "gemm.tile"
    finished = cli("check", kernel, _SHAPE, "--like", program)
    assert finished.code == 0
    assert finished.out.splitlines()[-1].endswith(f"; the numbers are those of {program}")
    found = json.loads(cli("check", kernel, _SHAPE, "--like", program, "--format=json").out)
    assert found["run"]["compared"] == str(program)
    assert json.loads(cli("check", kernel, _SHAPE, "--format=json").out)["run"]["compared"] is None
    half = tmp_path / "half.tile"
    half.write_text(program.read_text().replace("step (128, 128)", "step (128, 256)"))
    finished = cli("check", kernel, _SHAPE, "--like", half)
    assert finished.code == 1
    assert "error: D[0, 128] is " in finished.out
    assert ", and the program does not write it: 1600 of 27200 elements are wrong\n" in finished.out


_FIVE = "".join(f"%acc{i} = tile.alloc : !tile.acc<128x128xf32>\n" for i in range(4)) + "%acc = "


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "ring<2 x",
            "ring<8 x",
            "the kernel needs 393244 bytes of shared memory, a CTA of sm_100a has 232448",
        ),
        ("%acc = ", _FIVE, "the accumulators need 1024 tensor-memory columns, sm_100a has 512"),
    ],
)
def test_what_does_not_fit_is_said(
    old: str,
    new: str,
    message: str,
    examples: Path,
    tmp_path: Path,
    cli: Callable[..., Any],
    verdict: Callable[..., None],
) -> None:
    path = tmp_path / "large.tile"
    path.write_text(cli("compile", examples / "gemm.tile", _PIPELINE, "--emit=tile", "-o", "-").out.replace(old, new))
    verdict(Verdict("proved", "for every K"))
    finished = cli("check", path)
    assert finished.code == 0
    first, second, *_ = finished.out.splitlines()
    assert first == "proved: gemm, for every K"
    assert second == f"{path}:2:3: warning: {message}"
    assert "hint: use smaller tiles" in finished.out
    found = json.loads(cli("check", path, "--format=json").out)
    assert [one["message"] for one in found["warnings"]] == [message]


def test_a_shape_has_the_variant_of_a_launch(examples: Path, cli: Callable[..., Any]) -> None:
    path = examples / "gemm.tile"
    for command in ("check", "run"):
        finished = cli(command, path, _PIPELINE, "--shape=M=130,N=9,K=5")
        assert finished.code == 0
        assert "remark: with this shape D is `align = 2, tail = free`: this is the variant that a launch takes" in (
            finished.err
        )
        # By hand there is one variant only.
        finished = cli(command, examples / "step4_tma.tile", "--shape=M=130,N=9,K=8")
        assert (finished.code, finished.out) == (1, "")
        assert finished.err.startswith("error: argument D: base address and pitches must be multiples of 16 bytes")


def test_a_shape_does_not_improve_on_the_types(examples: Path, tmp_path: Path, cli: Callable[..., Any]) -> None:
    text = (examples / "gemm.tile").read_text()
    path = tmp_path / "free.tile"
    path.write_text(text.replace("<MxNxf16>", "<MxNxf16, align = 2, tail = free>"))
    finished = cli("check", path, _PIPELINE, _SHAPE, "--table")
    assert finished.code == 0
    assert "remark: with this shape" not in finished.err
    assert "issue TMA stores" not in finished.out


def test_a_run_that_goes_wrong_refutes(
    examples: Path, cli: Callable[..., Any], verdict: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = examples / "gemm.tile"

    def faulty(module: Any, *_: Any, **__: Any) -> None:
        raise Fault("deadlock", find_kernel(module), "the wait never ends", "announce fewer bytes")

    monkeypatch.setattr("tilec.simulation.run", faulty)
    verdict(Verdict("proved", "for every K"))
    finished = cli("check", path, _PIPELINE, _SHAPE)
    assert finished.code == 1
    assert finished.out.splitlines() == [
        "refuted: gemm, by a run with M=200, N=136, K=200",
        "run with M=200, N=136, K=200:",
        f"{path}:2:1: error: the wait never ends",
        path.read_text().splitlines()[1],
        "^",
        "hint: announce fewer bytes",
    ]
    found = json.loads(cli("check", examples / "gemm.tile", _PIPELINE, _SHAPE, "--format=json").out)
    assert found["verdict"] == "refuted"
    assert found["run"]["report"] is None
    assert found["run"]["diagnostic"]["message"] == "the wait never ends"


def test_wrong_numbers_refute(
    examples: Path, cli: Callable[..., Any], verdict: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tilec import simulation

    right = simulation.run

    def wrong(module: Any, arrays: Any, **options: Any) -> Any:
        report = right(module, arrays, **options)
        arrays[2][3, 4] = 1000
        arrays[2][5, 6] = float("nan")
        return report

    monkeypatch.setattr(simulation, "run", wrong)
    verdict(Verdict("proved", "for every K"))
    path = examples / "gemm.tile"
    finished = cli("check", path, _PIPELINE, _SHAPE)
    assert finished.code == 1
    assert f"{path}:2:" in finished.out
    assert "error: D[3, 4] is 1000, and the program computes " in finished.out
    assert ": 2 of 27200 elements are wrong\n" in finished.out


# ---- bad input: one diagnostic, exit code 1, no traceback


_LOWERED = "the pipeline leaves no tile code: lower is in it"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.tile"], "error: cannot read nothing.tile"),
        (["gemm.tile", "--pipeline=tna"], "<pipeline>:1:1: error: unknown pass 'tna'"),
        (["gemm.tile", "--pipeline=pipeline(2)"], "gemm.tile:2:1: error: no loads to run ahead"),
        (["gemm.tile", "--pipeline=tma,lower"], f"gemm.tile:2:1: error: {_LOWERED}"),
        (["gemm.tile", "--target=sm_70"], "error: unknown target 'sm_70'"),
        (["gemm.tile", "--shape=M=1"], "gemm.tile:2:1: error: no extent for K, N in --shape"),
        (["gemm.tile", "--shape=M=1,N=1,K=1,Q=1"], "gemm.tile:2:1: error: Q: no such extent in --shape"),
        (["gemm.tile", "--shape=M"], "<shape>:1:1: error: expected a name and an extent, found 'M'"),
        (["gemm.tile", "--like=gemm.tile"], "error: --like is what a run is compared with, and there is none"),
        (["gemm.py"], "error: gemm.py is Python, and what is read here is tile code"),
        (["gemm.tile", "--ctas=2"], "error: --ctas is the grid of a run, and there is none"),
        (
            ["gemm.tile", "--shape=M=1,N=1,K=1", "--ctas=2"],
            "gemm.tile:2:1: error: --ctas bounds the grid of a persistent kernel; this one has a CTA for each tile",
        ),
        (["empty.tile"], "empty.tile:1:1: error: there is no kernel in this module"),
        (["two.tile"], "two.tile:3:1: error: a second kernel in one module"),
        (["lowered.mlir"], "error: there is no tile kernel in this module: it is lowered already"),
        (["binary.tile"], "binary.tile:1:6: error: not a text file"),
        (["wrong.tile"], "wrong.tile:1:1: error: expected an operation, found 'kernel'"),
        (["gemm.tile", "--shape=M=1000000000000,N=1,K=1"], "argument A: dimension 0 has 1000000000000 elements"),
    ],
)
def test_bad_input(
    arguments: list[str],
    message: str,
    examples: Path,
    tmp_path: Path,
    cli: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("gemm.tile").write_text((examples / "gemm.tile").read_text())
    Path("gemm.py").write_text("import tilec")
    Path("empty.tile").write_text("func.func private @f()")
    Path("two.tile").write_text("tile.kernel @f() {\n}\ntile.kernel @g() {\n}\n")
    Path("binary.tile").write_bytes(b"\x7fELF\x00\xff")
    Path("wrong.tile").write_text("kernel @f() {}")
    if arguments == ["lowered.mlir"]:
        assert cli("compile", "gemm.tile", "--emit=nvvm", "-o", "lowered.mlir").code == 0
    finished = cli("check", *arguments)
    assert finished.code == 1
    text = finished.out + finished.err
    assert message in text
    assert text.count("error: ") == 1
    assert "Traceback" not in text
    finished = cli("check", *arguments, "--format=json")
    assert finished.code == 1
    found = json.loads(finished.out)
    assert found["verdict"] in ("error", "refuted")
    if found["verdict"] == "error":
        assert list(found) == ["verdict", "diagnostic"]
        assert found["diagnostic"]["message"] in text
        assert "error: " not in finished.err


def test_a_closed_stdout(examples: Path) -> None:
    command = f"'{sys.executable}' -m tilec check '{examples}/gemm.tile' >&-"
    finished = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert (finished.returncode, finished.stderr) == (
        1,
        "error: cannot write standard output: Bad file descriptor\n",
    )
