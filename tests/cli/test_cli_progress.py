"""The bar that long runs show."""

from __future__ import annotations

import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from tilec.cli import progress as progress_module
from tilec.cli.progress import progress


class _Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def _terminal(monkeypatch: pytest.MonkeyPatch, delay: float = 0) -> _Terminal:
    """Stands in for stderr; pytest's own one is put there after the fixtures have run."""
    terminal = _Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress_module, "DELAY", delay)
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


def test_there_is_none_in_a_pipe(examples: Path, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "DELAY", 0)
    with progress("gemm") as bar:
        assert bar is None
    assert cli("run", examples / "gemm.tile", "--shape=M=200,N=136,K=72", "--device=sim").err == ""


def test_a_short_run_shows_none(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _terminal(monkeypatch, delay=60)
    with progress("gemm") as bar:
        assert bar is not None
        bar(1, 2)
    assert terminal.getvalue() == ""


def test_a_long_run_shows_one_and_removes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _terminal(monkeypatch)
    with progress("gemm") as bar:
        assert bar is not None
        bar(1, 2)
        bar(2, 2)
    shown = terminal.getvalue()
    assert "gemm" in shown
    assert "100%" in shown
    assert shown.endswith("\x1b[2K")  # the line is empty again


def test_it_ends_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _terminal(monkeypatch)
    with pytest.raises(KeyError), progress("gemm") as bar:
        assert bar is not None
        bar(1, 2)
        raise KeyError
    assert terminal.getvalue().endswith("\x1b[2K")
