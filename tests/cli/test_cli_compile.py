"""``tilec compile``."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilec.backend.protocol import Verdict
from tilec.backend.ptxas import find_ptxas
from tilec.cli.output import write_output
from tilec.diagnostics import Diagnostic, SourceLocation, TilecError
from tilec.source import parse_text
from tilec.spec import parse_pipeline

_PIPELINE = "tma,pipeline(2),persistent"
_needs_ptxas = pytest.mark.skipif(find_ptxas() is None, reason="no ptxas")


@pytest.fixture
def gemm(examples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A copy of the example in the current folder."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(examples / "gemm.tile", "gemm.tile")
    return "gemm.tile"


@pytest.fixture
def no_ptxas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILEC_PTXAS", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("tilec.backend.ptxas._in_wheel", lambda: None)


def _fake_ptxas(folder: Path, body: str) -> str:
    path = folder / "ptxas"
    path.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo "Cuda compilation tools, release 13.0" && exit 0\n{body}\n'
    )
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("emit", "ending", "start"),
    [
        ("nvvm", ".mlir", "builtin.module {\n"),
        ("llvm", ".ll", ""),
        ("ptx", ".ptx", "// kernel gemm for sm_100a"),
    ],
)
def test_the_output_is_named_after_the_input(
    emit: str, ending: str, start: str, gemm: str, cli: Callable[..., Any]
) -> None:
    finished = cli("compile", gemm, f"--pipeline={_PIPELINE}", f"--emit={emit}")
    assert (finished.code, finished.out) == (0, "")
    assert sorted(os.listdir()) == sorted(["gemm.tile", f"gemm{ending}"])
    assert Path(f"gemm{ending}").read_text().startswith(start)


def test_the_output_goes_to_the_current_folder(examples: Path, gemm: str, cli: Callable[..., Any]) -> None:
    os.remove(gemm)
    assert cli("compile", examples / "gemm.tile").code == 0
    assert os.listdir() == ["gemm.ptx"]


@_needs_ptxas
def test_a_cubin(gemm: str, cli: Callable[..., Any]) -> None:
    assert cli("compile", gemm, "--emit=cubin", "--target=sm_90a").code == 0
    assert Path("gemm.cubin").read_bytes().startswith(b"\x7fELF")


def test_tile_code_on_stdout_is_a_program(gemm: str, cli: Callable[..., Any]) -> None:
    finished = cli("compile", gemm, f"--pipeline={_PIPELINE}", "--emit=tile", "-o", "-")
    assert (finished.code, finished.err) == (0, "")
    assert finished.out == str(parse_text(finished.out)) + "\n"
    assert 'target = "sm_100a"' in finished.out


@pytest.mark.parametrize(
    ("target", "tmem", "mma"), [("sm_100a", "128 columns", "tcgen05.mma"), ("sm_90a", "0 columns", "wgmma.mma_async")]
)
def test_the_summary(target: str, tmem: str, mma: str, gemm: str, cli: Callable[..., Any], no_ptxas: None) -> None:
    finished = cli("compile", gemm, f"--pipeline={_PIPELINE}", f"--target={target}")
    assert finished.code == 0
    summary = finished.err.splitlines()
    assert re.fullmatch(rf"gemm: {target}, \d+ threads a CTA", summary[0])
    assert summary[-1] == "wrote gemm.ptx"
    rows = dict(line.strip().split("  ", 1) for line in summary[1:-1])
    assert list(rows) == ["shared memory", "tensor memory", "stages", "barriers"]
    assert re.fullmatch(r" *\d{5} bytes", rows["shared memory"])
    assert rows["tensor memory"].strip() == tmem
    assert rows["stages"].strip() == "2"
    assert "full x2 (count 1)" in rows["barriers"]
    assert mma in Path("gemm.ptx").read_text()


@_needs_ptxas
def test_the_summary_has_what_ptxas_says(gemm: str, cli: Callable[..., Any]) -> None:
    finished = cli("compile", gemm, f"--pipeline={_PIPELINE}")
    assert re.search(r"^  registers      \d+, no spills$", finished.err, re.MULTILINE)


def test_spills_are_told(gemm: str, tmp_path: Path, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    says = "0 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\\nptxas info    : Used 255 registers"
    monkeypatch.setenv("TILEC_PTXAS", _fake_ptxas(tmp_path, f'touch "$4"; printf "{says}\\n"'))
    assert "  registers      255, 20 bytes of spills\n" in cli("compile", gemm).err


def test_ir_dumps_can_be_pasted_back(gemm: str, cli: Callable[..., Any]) -> None:
    finished = cli("compile", gemm, f"--pipeline={_PIPELINE}", "--print-ir-after-all")
    dumps = re.findall(
        r"^// -----// IR after ([^\n]*) //----- //\n(builtin\.module \{.*?^\})$", finished.err, re.M | re.S
    )
    assert [spec for spec, _ in dumps] == ["tma{staging=2}", "pipeline{stages=2}", "persistent{group=8}", "lower"]
    assert parse_pipeline(",".join(spec for spec, _ in dumps[:3])) == parse_pipeline(_PIPELINE)
    for _, module in dumps:
        assert str(parse_text(module)) == module


def test_one_ir_dump(gemm: str, cli: Callable[..., Any]) -> None:
    finished = cli("compile", gemm, f"--pipeline={_PIPELINE}", "--print-ir-after=pipeline", "--print-ir-after=lower")
    assert re.findall(r"IR after (.*?) //", finished.err) == ["pipeline{stages=2}", "lower"]


def test_times(gemm: str, cli: Callable[..., Any], no_ptxas: None) -> None:
    finished = cli("compile", gemm, f"--pipeline={_PIPELINE}", "--time-passes")
    steps = re.findall(r"^ *([\d.]+) ms  (.*)$", finished.err, re.MULTILINE)
    assert [step for _, step in steps] == [
        *(
            "tma{staging=2}",
            "pipeline{stages=2}",
            "persistent{group=8}",
            "check-protocol",
            "lower",
            "llvm",
            "ptx",
            "total",
        )
    ]
    assert float(steps[-1][0]) == pytest.approx(sum(float(ms) for ms, _ in steps[:-1]), abs=0.05)


# ---- the proof


def _reset(examples: Path) -> str:
    """The persistent kernel by hand, with the phase of the loads starting anew in each tile."""
    text = (examples / "step6_persistent.tile").read_text()
    right = "%phase_tma = %phase_tma0"
    assert right in text
    return text.replace(right, "%phase_tma = %phase0")


def test_what_the_proof_refutes_is_not_compiled(
    examples: Path, gemm: str, cli: Callable[..., Any], no_ptxas: None
) -> None:
    Path("reset.tile").write_text(_reset(examples))
    finished = cli("compile", "reset.tile")
    assert (finished.code, finished.out) == (1, "")
    assert not Path("reset.ptx").exists()
    first, *_ = finished.err.splitlines()
    assert re.match(r"reset\.tile:\d+:\d+: error: no wait orders this MMA's read of %Asmem\[\d\] after ", first)
    assert finished.err.count("error: ") == 1
    assert "carry the phase from tile to tile" in finished.err
    assert "note: this happens with M = " in finished.err
    assert cli("compile", "reset.tile", "--pipeline=lower").code == 1
    assert cli("compile", "reset.tile", "--emit=tile", "-o", "-").code == 0  # nothing is lowered
    assert cli("compile", "reset.tile", "--no-check").code == 0
    assert Path("reset.ptx").exists()


def test_what_is_only_checked_is_a_warning(
    gemm: str, cli: Callable[..., Any], no_ptxas: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = Diagnostic("warning", "not proved: the phase of a wait is not known", SourceLocation("gemm.tile", 10, 7))
    verdict = Verdict("checked", "5 tiles per CTA", why)
    monkeypatch.setattr("tilec.passes.check_protocol.check", lambda module, kernel: verdict)
    finished = cli("compile", gemm, "--pipeline=tma")
    assert finished.code == 0
    assert finished.err.startswith("gemm.tile:10:7: warning: not proved: the phase of a wait is not known\n")
    assert cli("compile", gemm, "--pipeline=tma", "--no-check").err.startswith("gemm: sm_100a")


# ---- bad input: one diagnostic, exit code 1, no output


def _refused(finished: Any, message: str) -> None:
    assert finished.code == 1
    assert finished.out == ""
    assert finished.err == f"{message}\n"


def test_a_missing_file(gemm: str, cli: Callable[..., Any]) -> None:
    _refused(
        cli("compile", "nothing.tile"),
        "error: cannot read nothing.tile: No such file or directory\nhint: give the path of a file of tile code",
    )


def test_a_binary_file(gemm: str, cli: Callable[..., Any]) -> None:
    Path("b.tile").write_bytes(b"\x7fELF\2\1\1\0")
    finished = cli("compile", "b.tile")
    assert finished.code == 1
    assert finished.err.startswith("b.tile:1:8: error: not a text file: byte 7 is 0x00\n")
    assert finished.err.endswith("\nhint: tile code is UTF-8 text; is this a compiled file?\n")


def test_a_syntax_error(gemm: str, cli: Callable[..., Any]) -> None:
    Path("s.tile").write_text("tile.kernel @f(%A: !tile.view<MxKxf16> {\n}\n")
    _refused(
        cli("compile", "s.tile"),
        "s.tile:1:40: error: ')' expected\ntile.kernel @f(%A: !tile.view<MxKxf16> {\n" + " " * 39 + "^",
    )


@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        (
            "tma,pipelin(2)",
            "<pipeline>:1:5: error: unknown pass 'pipelin'\n"
            "tma,pipelin(2)\n"
            "    ^\n"
            "hint: did you mean 'pipeline'? known: target, retile, tma, threads, pipeline, persistent, check-protocol, "
            "lower, canonicalize, cse, dce",
        ),
        (
            "tma,pipeline(2,depth=1)",
            "<pipeline>:1:16: error: pass 'pipeline' has no option 'depth'\n"
            "tma,pipeline(2,depth=1)\n"
            "               ^\n"
            "hint: options of pipeline: stages, lag",
        ),
    ],
)
def test_a_wrong_pipeline(pipeline: str, message: str, gemm: str, cli: Callable[..., Any]) -> None:
    _refused(cli("compile", gemm, f"--pipeline={pipeline}"), message)


@pytest.mark.parametrize(
    ("pipeline", "column"),
    [("tma,pipeline(0)", 5), ("retile(0,128,64)", 1), ("target(sm_90)", 1), ("tma,persistent(group=0)", 5)],
)
def test_a_value_that_a_pass_refuses(pipeline: str, column: int, gemm: str, cli: Callable[..., Any]) -> None:
    finished = cli("compile", gemm, f"--pipeline={pipeline}")
    assert finished.code == 1
    first, text, caret = finished.err.rstrip("\n").split("\n")
    assert first.startswith(f"<pipeline>:1:{column}: error: ")
    assert (text, caret) == (pipeline, " " * (column - 1) + "^")


@pytest.mark.parametrize(
    "pipeline",
    [
        "pipeline(2)",
        "tma,tma",
        "tma,pipeline(2),pipeline(2)",
        "tma,pipeline(99)",
        "retile(100,128,64)",
        "tma,retile(64,64,64)",
    ],
)
def test_a_pipeline_that_cannot_work(pipeline: str, gemm: str, cli: Callable[..., Any]) -> None:
    finished = cli("compile", gemm, f"--pipeline={pipeline}")
    assert (finished.code, finished.out) == (1, "")
    assert re.match(r"gemm\.tile:\d+:\d+: error: [^\n]+\n[^\n]+\n *\^\n", finished.err)
    assert os.listdir() == ["gemm.tile"]


def test_an_unknown_target(gemm: str, cli: Callable[..., Any]) -> None:
    _refused(
        cli("compile", gemm, "--target=sm_90"),
        "error: unknown target 'sm_90'\nhint: did you mean 'sm_90a'? known: sm_90a, sm_100a",
    )


def test_a_dump_after_a_pass_that_does_not_run(gemm: str, cli: Callable[..., Any]) -> None:
    _refused(
        cli("compile", gemm, "--pipeline=tma", "--print-ir-after=persistent"),
        "error: no pass 'persistent' runs here to print the IR after\nhint: known: tma, threads, lower",
    )


@pytest.mark.parametrize(
    ("output", "reason"),
    [("no/such/folder.ptx", "No such file or directory"), (".", "Is a directory"), ("a" * 300, "File name too long")],
)
def test_an_unwritable_output(output: str, reason: str, gemm: str, cli: Callable[..., Any]) -> None:
    _refused(
        cli("compile", gemm, "-o", output, "--emit=tile"),
        f"error: cannot write {output}: {reason}\nhint: choose another place with -o",
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk(gemm: str, cli: Callable[..., Any]) -> None:
    _refused(
        cli("compile", gemm, "-o", "/dev/full", "--emit=tile"),
        "error: cannot write /dev/full: No space left on device\nhint: choose another place with -o",
    )


def test_a_program_is_not_overwritten(gemm: str, cli: Callable[..., Any]) -> None:
    before = Path(gemm).read_text()
    for output in ([], ["-o", gemm], ["-o", str(Path(gemm).resolve())]):
        finished = cli("compile", gemm, "--emit=tile", *output)
        assert finished.code == 1
        assert finished.err.endswith("would overwrite the program itself\nhint: name the output with -o\n")
    assert Path(gemm).read_text() == before


def test_no_ptxas_is_an_error_only_for_a_cubin(gemm: str, cli: Callable[..., Any], no_ptxas: None) -> None:
    assert cli("compile", gemm).code == 0
    _refused(
        cli("compile", gemm, "--emit=cubin"),
        "error: no ptxas: $TILEC_PTXAS is not set, the wheel nvidia-cuda-nvcc is not installed, and PATH has none\n"
        "hint: pip install 'tilec[ptxas]', or emit PTX and let the driver assemble it",
    )


@pytest.mark.parametrize(("body", "reason"), [("exit 5", "exit status 5"), ("kill -9 $$", "killed by SIGKILL")])
@pytest.mark.parametrize("emit", ["ptx", "cubin"])
def test_a_failing_ptxas(
    emit: str,
    body: str,
    reason: str,
    gemm: str,
    tmp_path: Path,
    cli: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TILEC_PTXAS", _fake_ptxas(tmp_path, body))
    finished = cli("compile", gemm, f"--emit={emit}")
    assert (finished.code, finished.out) == (1, "")
    assert re.match(rf"gemm\.tile:\d+:\d+: error: ptxas failed on a kernel for sm_100a: {reason}\n", finished.err)
    assert "Traceback" not in finished.err
    assert Path("gemm.ptx").exists() == (emit == "ptx")  # the PTX is there to be looked at


@pytest.mark.parametrize("body", ["exit 1", "true"])
def test_a_ptxas_that_prints_anything(
    body: str, gemm: str, tmp_path: Path, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    said = b"\x1b[31mred\x1b]0;title\x07\r\n" + b"\x00\xff\xfe\t\xc2\xa0" + b"z" * 500 + b"\n" + b"more\n" * 100
    (tmp_path / "said").write_bytes(said)
    monkeypatch.setenv("TILEC_PTXAS", _fake_ptxas(tmp_path, f"cat {tmp_path}/said; {body}"))
    finished = cli("compile", gemm, "--emit=cubin")
    assert (finished.code, finished.out) == (1, "")
    assert not set(finished.err) & {"\x1b", "\x07", "\0", "\r"}
    _, output = finished.err.split("output: ")
    first, second, *more, rest, saved, text, caret = output.rstrip("\n").split("\n")
    assert first == r"\x1b[31mred\x1b]0;title\x07"
    assert second == ("\\x00\\xff\\xfe\t\\xa0" + "z" * 500)[:300] + "..."
    assert more == ["more"] * 18
    ptx = saved.removeprefix("PTX saved as ")
    log = str(Path(ptx).with_suffix(".log"))
    assert rest == f"(82 more lines; the output as it came is in {log})"
    assert Path(log).read_bytes() == said
    assert Path(ptx).read_text().startswith("// kernel gemm")
    assert (text, caret) == (Path(gemm).read_text().splitlines()[1], "^")


def test_a_ptxas_whose_version_is_anything(
    gemm: str, tmp_path: Path, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = tmp_path / "ptxas"
    path.write_bytes(b"#!/bin/sh\nprintf '\\033[2J\\001'\n")
    path.chmod(0o755)
    monkeypatch.setenv("TILEC_PTXAS", str(path))
    finished = cli("compile", gemm, "--emit=cubin")
    (log,) = tmp_path.glob("*.log")
    assert log.read_bytes() == b"\x1b[2J\x01"
    assert finished.err == (
        f"error: ptxas at {path} does not tell its version: no release in its output\n"
        f"command: {path} --version\n"
        f"output: \\x1b[2J\\x01\n(the output as it came is in {log})\n"
        "hint: $TILEC_PTXAS names this assembler\n"
    )


def test_output_reports_why_it_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TilecError, match="embedded null"):
        write_output("a\0b", "text")
