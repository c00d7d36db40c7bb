"""`TILEC_LOG=recompiles`: when a kernel is compiled again, and why."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilec


def arrays(k: int, m: int = 64, n: int = 64) -> list[np.ndarray]:
    return [np.zeros(shape, np.float16) for shape in ((m, k), (n, k), (m, n))]


@pytest.fixture
def kernel(examples: Path) -> tilec.Kernel:
    return tilec.compile(examples / "gemm.tile")


def test_another_class_of_tensors(
    kernel: tilec.Kernel, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TILEC_LOG", "recompiles")
    kernel(*arrays(32))
    kernel(*arrays(64, 128))
    assert capsys.readouterr().err == ""
    kernel(*arrays(31))
    changed = "is `order = [1, 0], align = 2, tail = free`, so far `order = [1, 0], align = 16, tail = grid`"
    assert capsys.readouterr().err.splitlines()[0] == f"tilec: gemm is compiled again: A {changed}; B {changed}"
    a, b, d = arrays(31)
    kernel(np.asfortranarray(a), b, d)
    assert capsys.readouterr().err.splitlines()[0] == (
        "tilec: gemm is compiled again: A is `order = [0, 1], align = 16, tail = grid`, so far "
        "`order = [1, 0], align = 2, tail = free`"
    )
    kernel.variant(target="sm_90a")
    assert capsys.readouterr().err == "tilec: gemm is compiled again: for sm_90a, after sm_100a\n"


def test_nothing_is_told_unasked(kernel: tilec.Kernel, capsys: pytest.CaptureFixture[str]) -> None:
    kernel(*arrays(32))
    kernel.variant(target="sm_90a")
    assert capsys.readouterr().err == ""


def test_a_topic_that_there_is_not(
    kernel: tilec.Kernel, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TILEC_LOG", "recompile, recompiles")
    for target in TARGETS:
        kernel.variant(target=target)
    assert capsys.readouterr().err.splitlines() == [
        "tilec: TILEC_LOG has no topic 'recompile'; it has recompiles, launches",
        "tilec: gemm is compiled again: for sm_90a, after sm_100a",
    ]


TARGETS = ("sm_100a", "sm_90a")
