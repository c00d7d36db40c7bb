"""The command line as a whole: what it imports, how it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tilec.cli import passes as passes_command

_HEAVY = ("torch", "numba", "llvmlite", "xdsl", "numpy", "rich")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["compile", "--help"],
        ["check", "--help"],
        ["run", "--help"],
        ["passes", "--help"],
        ["cache", "--help"],
        ["design", "--help"],
        ["timeline", "--help"],
        ["predict", "--help"],
    ],
)
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    program = (
        "import sys\n"
        "from tilec.cli import main\n"
        f"code = main({arguments!r})\n"
        f"print(code, [name for name in {_HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert finished.stderr == "0 []\n"
    assert finished.stdout


def test_help_names_the_commands(cli: Callable[..., Any]) -> None:
    finished = cli("--help")
    assert finished.code == 0
    for command in ("compile", "check", "run", "design", "timeline", "predict", "opt", "passes", "cache"):
        assert f"    {command} " in finished.out


def test_version(cli: Callable[..., Any]) -> None:
    assert cli("--version").out == f"tilec {version('tilec')}\n"


def test_it_runs_as_a_module() -> None:
    finished = subprocess.run([sys.executable, "-m", "tilec", "--version"], capture_output=True, text=True)
    assert (finished.returncode, finished.stdout) == (0, f"tilec {version('tilec')}\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "tilec: error: the following arguments are required: COMMAND"),
        (["frobnicate"], "tilec: error: argument COMMAND: invalid choice: 'frobnicate'"),
        (["compile"], "tilec compile: error: the following arguments are required: FILE"),
        (["check", "x", "--format=xml"], "tilec check: error: argument --format: invalid choice: 'xml'"),
        (["check", "x", "--ctas=0"], "tilec check: error: argument --ctas: expected an integer from 1 on, not 0"),
        (["run", "x", "--device=reference"], "tilec run: error: argument --device: invalid choice: 'reference'"),
        (["compile", "x", "--emit=sass"], "tilec compile: error: argument --emit: invalid choice: 'sass'"),
        (["compile", "x", "--pipelin=tma", "y"], "error: unrecognized arguments: y"),
        (["run", "x", "--seed=x"], "tilec run: error: argument --seed: invalid int value: 'x'"),
        (["opt", "--frobnicate"], "tilec opt: error: unrecognized arguments: --frobnicate"),
        (["opt", "--target=frobnicate"], "tilec opt: error: argument -t/--target: invalid choice: 'frobnicate'"),
    ],
)
def test_wrong_usage_ends_with_1(arguments: list[str], message: str, cli: Callable[..., Any]) -> None:
    finished = cli(*arguments)
    assert finished.code == 1
    assert finished.err.startswith("usage: ")
    assert message in finished.err


def test_an_interrupt_ends_with_130(cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: Namespace) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(passes_command, "main", interrupted)
    finished = cli("passes")
    assert (finished.code, finished.out, finished.err) == (130, "", "")


@pytest.mark.parametrize("debug", [False, True])
def test_a_fault_of_our_own_ends_with_70(debug: bool, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(_: Namespace) -> int:
        raise KeyError("slot")

    monkeypatch.setattr(passes_command, "main", faulty)
    monkeypatch.setenv("TILEC_DEBUG", "1" if debug else "0")
    finished = cli("passes")
    assert finished.code == 70
    assert ("Traceback" in finished.err) == debug
    assert "internal error: KeyError: 'slot'\nplease report this with the program" in finished.err
    assert ("; TILEC_DEBUG=1 shows where it happened" in finished.err) != debug


def test_a_reader_that_goes_away_is_no_fault(examples: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "tilec", "compile", str(examples / "gemm.tile"), "--emit=tile", "-o", "-"]
    finished = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (finished.returncode, finished.stderr) == (141, "")


def _shell(line: str) -> tuple[int, str, str]:
    finished = subprocess.run(
        ["sh", "-c", line.replace("tilec", f"'{sys.executable}' -m tilec", 1)], capture_output=True, text=True
    )
    return finished.returncode, finished.stdout, finished.stderr


_NO_PLACE = "error: cannot write standard output: No space left on device\n"
_CLOSED = "error: cannot write standard output: Bad file descriptor\n"
_ELSEWHERE = "hint: choose another place with -o\n"
_RUN = "run gemm.tile --shape=M=8,N=8,K=8 --device=sim"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("passes >/dev/full", _NO_PLACE),
        (f"{_RUN} >/dev/full", _NO_PLACE),
        ("compile gemm.tile --emit=tile -o - >/dev/full", _NO_PLACE + _ELSEWHERE),
        ("opt gemm.tile >/dev/full", _NO_PLACE + _ELSEWHERE),
        ("--version >/dev/full", "error: cannot write the output: No space left on device\n"),
        ("passes >&-", _CLOSED),
        (f"{_RUN} >&-", _CLOSED),
        ("compile gemm.tile --emit=tile -o - >&-", _CLOSED + _ELSEWHERE),
        ("opt gemm.tile >&-", _CLOSED + _ELSEWHERE),
    ],
)
def test_nowhere_to_write_to(line: str, message: str, examples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(examples)
    assert _shell(f"tilec {line}") == (1, "", message)


def test_a_closed_stdout_matters_only_to_who_writes_there(examples: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.tile"
    assert _shell(f"tilec compile '{examples}/gemm.tile' --emit=tile -o '{output}' >&-") == (0, "", "")
    assert output.read_text().startswith("builtin.module {")


def test_what_belongs_on_a_closed_stderr_does_not_go_to_stdout(examples: Path) -> None:
    code, out, _ = _shell(f"tilec compile '{examples}/gemm.tile' --emit=nvvm -o - 2>&-")
    assert code == 0
    assert out.startswith("builtin.module {") and out.endswith("}\n")
    assert _shell("tilec compile nothing.tile 2>&-") == (1, "", "")


def test_a_failing_system_is_no_fault_of_ours(cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_: Namespace) -> int:
        raise OSError(28, "No space left on device", "/tmp/x")

    monkeypatch.setattr(passes_command, "main", failing)
    monkeypatch.setattr("tilec.cli._drop_output", lambda: None)
    finished = cli("passes")
    assert (finished.code, finished.err) == (1, "error: cannot use /tmp/x: No space left on device\n")


def test_passes_are_listed(cli: Callable[..., Any]) -> None:
    finished = cli("passes")
    assert finished.code == 0
    lines = {line.split()[0]: line for line in finished.out.splitlines()}
    own = ["target", "retile", "tma", "threads", "pipeline", "persistent", "check-protocol", "lower"]
    assert list(lines)[:9] == ["pass", *own]
    assert "stages: int = 2, lag: int|None" in lines["pipeline"]
    assert lines["cse"].rstrip().endswith("Compute equal values once (xDSL's).")
