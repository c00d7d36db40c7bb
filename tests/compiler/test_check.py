"""The proof in the Python API: on where nothing else is said."""

from __future__ import annotations

from pathlib import Path

import pytest

import tilec
from tilec import tile
from tilec.backend.protocol import Verdict
from tilec.diagnostics import collect
from tilec.pass_error import PassError
from tilec.passes.check_protocol import CheckProtocol


def _reset(examples: Path) -> str:
    text = (examples / "step6_persistent.tile").read_text()
    return text.replace("%phase_tma = %phase_tma0", "%phase_tma = %phase0")


def test_what_is_refuted_is_not_compiled(examples: Path) -> None:
    with pytest.raises(PassError, match="no wait orders this MMA's read"):
        tilec.compile(_reset(examples)).compiled()
    assert tilec.compile(_reset(examples), check=False).compiled().ptx


def test_the_refusal_names_the_launch(examples: Path) -> None:
    with pytest.raises(PassError) as caught:
        tilec.compile(_reset(examples)).compiled()
    assert caught.value.diagnostic.notes[-1].message.startswith("this happens with M = ")


def test_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilec.passes.check_protocol.check", lambda module, kernel: Verdict("refuted", "by decree"))

    def copy(A: tile.View["M", "K"]):  # noqa: F821, UP037
        D = tile.empty("M", "K", dtype=A.dtype)
        for m, k in tile.grid(D, step=(64, 64)):
            a = tile.smem(64, 64, A.dtype)
            tile.copy(A[m, k], a)
            tile.copy(a, D[m, k])
        return D

    with pytest.raises(PassError, match="by decree"):
        tilec.jit(copy).kernel("f16").compiled()
    assert tilec.jit(check=False)(copy).kernel("f16").compiled().ptx


def test_the_pass_says_what_it_is_in_one_line() -> None:
    assert (CheckProtocol.__doc__ or "").startswith("Prove barriers, phases, fences and lifetimes right for every size")


def test_without_a_diagnostic_the_summary_speaks(examples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilec.passes.check_protocol.check", lambda module, kernel: Verdict("checked", "3 tiles"))
    with collect() as diagnostics:
        tilec.compile(examples / "gemm.tile", pipeline="tma").compiled()
    assert [(d.severity, d.message) for d in diagnostics] == [("warning", "3 tiles")]
