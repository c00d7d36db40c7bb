"""``tilec opt``; its annotations and chunks are in ``lit/cli``."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilec.cli.expected import Expected, expected_diagnostics, unmet
from tilec.diagnostics import Diagnostic, Severity, SourceLocation
from tilec.source import parse_file


def test_both_forms_of_a_pipeline(examples: Path, cli: Callable[..., Any]) -> None:
    short = cli("opt", examples / "gemm.tile", "-p", "tma,pipeline(3,lag=1)")
    long = cli("opt", examples / "gemm.tile", "-p", "tma,pipeline{stages=3 lag=1}")
    assert short.code == long.code == 0
    assert short.out == long.out
    assert "tile.ring<3 x" in short.out


def test_without_passes_a_program_is_printed(examples: Path, cli: Callable[..., Any]) -> None:
    finished = cli("opt", examples / "gemm.tile")
    assert finished.out == str(parse_file(examples / "gemm.tile")) + "\n\n"


def test_passes_of_xdsl_are_there(examples: Path, cli: Callable[..., Any]) -> None:
    assert cli("opt", examples / "step4_tma.tile", "-p", "licm").code == 0


def test_switches_of_xdsl(examples: Path, tmp_path: Path, cli: Callable[..., Any]) -> None:
    path = examples / "gemm.tile"
    assert '"tile.kernel"() <{sym_name = "gemm"}>' in cli("opt", path, "--print-op-generic").out
    assert f'loc("{path}":2:1)' in cli("opt", path, "--print-debuginfo").out
    assert "IR after tma:\nbuiltin.module {" in cli("opt", path, "-p", "tma,cse", "--print-between-passes").out
    assert "// -----// IR after tma{staging=2} //----- //" in cli("opt", path, "-p", "tma", "--print-ir-after-all").err
    assert " ms  tma{staging=2}\n" in cli("opt", path, "-p", "tma", "--time-passes").err
    finished = cli("opt", path, "-o", tmp_path / "out.tile")
    assert (finished.code, finished.out) == (0, "")
    assert (tmp_path / "out.tile").read_text().startswith("builtin.module {")


def test_a_module_can_be_required(examples: Path, cli: Callable[..., Any]) -> None:
    finished = cli("opt", examples / "gemm.tile", "--no-implicit-module")
    assert finished.code == 1
    assert "error: builtin.module operation expected" in finished.err


def test_unregistered_operations(tmp_path: Path, cli: Callable[..., Any]) -> None:
    path = tmp_path / "x.mlir"
    path.write_text('"foo.bar"() : () -> ()')
    assert cli("opt", path).code == 1
    assert '"foo.bar"()' in cli("opt", path, "--allow-unregistered-dialect").out


def test_verification_can_be_left_out(tmp_path: Path, cli: Callable[..., Any]) -> None:
    path = tmp_path / "x.tile"
    path.write_text("tile.kernel @f(%A: !tile.view<MxKxf16>) {\n  %n = tile.dim %A, 7\n}")
    assert cli("opt", path).code == 1
    assert "tile.dim %A, 7" in cli("opt", path, "--disable-verify").out


def test_standard_input(cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"tile.kernal @f() {}")))
    assert cli("opt").err.startswith("<stdin>:1:1: error: unknown operation 'tile.kernal'\n")


def test_any_ending_will_do(tmp_path: Path, cli: Callable[..., Any]) -> None:
    path = tmp_path / "program.txt"
    path.write_text("tile.kernel @f() {\n}")
    assert cli("opt", path).code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.tile"], "error: cannot read nothing.tile: No such file or directory"),
        (["--passes", "nothing(1"], "<pipeline>:1:1: error: unknown pass 'nothing'"),
        (["--target={"], "error: Error parsing pass pipeline specification:"),
    ],
)
def test_bad_input(arguments: list[str], message: str, cli: Callable[..., Any]) -> None:
    finished = cli("opt", *arguments)
    assert (finished.code, finished.out) == (1, "")
    assert finished.err.startswith(message)


def test_an_unwritable_output(examples: Path, cli: Callable[..., Any]) -> None:
    finished = cli("opt", examples / "gemm.tile", "-o", "no/such/folder")
    assert (finished.code, finished.err) == (
        1,
        "error: cannot write no/such/folder: No such file or directory\nhint: choose another place with -o\n",
    )


def test_annotations_are_read_with_their_lines() -> None:
    text = "a // expected-error {{x}} expected-note@+2 {{y}}\n// expected-warning@-1 {{}}\nexpected-remark@+1{{z}}"
    assert expected_diagnostics(text, 10) == [
        Expected("error", 11, "x"),
        Expected("note", 13, "y"),
        Expected("warning", 11, ""),
        Expected("remark", 14, "z"),
    ]


def test_what_differs_from_the_annotations() -> None:
    def at(line: int, severity: Severity, message: str, hint: str | None = None) -> Diagnostic:
        return Diagnostic(severity, message, SourceLocation("f", line, 1), hint)

    expected = [Expected("error", 1, "bad"), Expected("remark", 2, "slow")]
    assert unmet(expected, [at(1, "error", "a bad thing"), at(2, "remark", "how slow")], "f") == []
    assert unmet(expected, [at(1, "error", "thing", hint="bad"), at(2, "remark", "slow")], "f") == []
    # One diagnostic meets one annotation; a remark that nobody expects is no failure.
    assert unmet(expected, [at(1, "error", "bad"), at(3, "remark", "x")], "f") == [
        "f:2: expected remark was not produced: {{slow}}"
    ]
    assert unmet(expected[:1] * 2, [at(1, "error", "bad")], "f") == ["f:1: expected error was not produced: {{bad}}"]
    assert unmet([], [at(4, "error", "worse")], "f") == ["unexpected f:4:1: error: worse"]
    assert unmet(expected[:1], [at(1, "warning", "bad")], "f") == ["f:1: expected error was not produced: {{bad}}"]


def test_llvm_ir_of_a_lowered_kernel(examples: Path, cli: Callable[..., Any]) -> None:
    finished = cli("opt", examples / "gemm.tile", "-p", "tma,lower", "-t", "llvm")
    assert finished.code == 0
    assert 'define ptx_kernel void @"gemm"(' in finished.out
