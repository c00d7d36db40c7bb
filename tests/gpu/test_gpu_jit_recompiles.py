"""How often a Python kernel is compiled: once for all extents of one class of tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jit_kernels
import pytest
from harness import torch
from jit_kernels import PIPELINE, check, fresh_gemm, integers, watch_compilations

import tilec
from tilec import tile


def run(function: Any, m: int, n: int, k: int, **constants: Any) -> None:
    a, b = integers(m, k), integers(n, k)
    check(function(a, b, **constants), a, b)


def told(capfd: pytest.CaptureFixture[str]) -> list[str]:
    """What was told of recompilations since the last time; remarks of the passes stand beside that."""
    lines = capfd.readouterr().err.splitlines()
    return [line.removeprefix("tilec: ") for line in lines if line.startswith("tilec: ")]


def test_other_extents_compile_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    compilations = watch_compilations(monkeypatch)
    gemm = fresh_gemm()
    for m, n, k in ((128, 128, 64), (1, 8, 8), (200, 136, 72), (1000, 1016, 520), (4096, 256, 64), (7, 24, 512)):
        run(gemm, m, n, k)
        run(gemm, m, n, k)
    assert compilations == [PIPELINE]


def test_a_new_class_of_tensors_compiles_once_more(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    compilations = watch_compilations(monkeypatch)
    monkeypatch.setenv("TILEC_LOG", "recompiles")
    gemm = fresh_gemm()
    run(gemm, 200, 136, 72)
    assert told(capfd) == []
    for m, n, k in ((200, 136, 71), (128, 128, 33), (72, 8, 511)):
        run(gemm, m, n, k)
        run(gemm, m, n, k)
    assert len(compilations) == 2
    odd = "is `order = [1, 0], align = 2, tail = free`, so far `order = [1, 0], align = 16, tail = grid`"
    assert told(capfd) == [f"gemm is compiled again: A {odd}; B {odd}"]
    a, b = integers(72, 200).t(), integers(136, 72)
    check(gemm(a, b), a, b)
    assert len(compilations) == 3
    assert told(capfd) == [
        "gemm is compiled again: A is `order = [0, 1], align = 16, tail = grid`, "
        "so far `order = [1, 0], align = 16, tail = grid`"
    ]
    run(gemm, 264, 264, 264)
    assert len(compilations) == 3
    assert told(capfd) == []


def test_other_element_types_compile_once_more(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    compilations = watch_compilations(monkeypatch)
    monkeypatch.setenv("TILEC_LOG", "recompiles")
    gemm: Any = fresh_gemm()
    for _ in range(2):
        for dtype in ("f16", "bf16"):
            a, b = integers(200, 72, dtype=dtype), integers(136, 72, dtype=dtype)
            check(gemm(a, b), a, b, dtype)
    assert len(compilations) == 2
    (said,) = told(capfd)
    assert said.startswith("gemm is compiled again: ") and said.count("bf16, so far f16") == 2


def test_other_constants_compile_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    compilations = watch_compilations(monkeypatch)
    scaled: Any = tilec.jit(pipeline=PIPELINE)(jit_kernels.scaled)
    a, b = integers(200, 72), integers(136, 72)
    for _ in range(2):
        check(scaled(a, b), 2 * a, b)
        check(scaled(a, b, block=64), 2 * a, b)
        check(scaled(a, b, kind=tile.f32), 2 * a, b, "f32")
        check(scaled(a, b, block=32), 2 * a, b)
    assert len(compilations) == 3


def test_a_changed_global_compiles_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    compilations = watch_compilations(monkeypatch)
    scaled: Any = tilec.jit(pipeline=PIPELINE)(jit_kernels.scaled)
    a, b = integers(200, 72), integers(136, 72)
    for factor in (2.0, 3.0, 2.0, 3.0):
        monkeypatch.setattr(jit_kernels, "FACTOR", factor)
        check(scaled(a, b), factor * a, b)
        check(scaled(a, b), factor * a, b)
    assert len(compilations) == 2
    monkeypatch.setattr(jit_kernels, "BLOCK_N", 256)
    check(scaled(a, b), 3 * a, b)
    assert len(compilations) == 2, "the function does not read BLOCK_N"


def test_what_is_on_disk_is_not_compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compilations = watch_compilations(monkeypatch)
    monkeypatch.setenv("TILEC_CACHE_DIR", str(tmp_path / "cache"))
    run(fresh_gemm(), 200, 136, 72)
    run(fresh_gemm(), 264, 136, 520)
    assert len(compilations) == 1
    monkeypatch.setenv("TILEC_CACHE_DIR", "off")
    run(fresh_gemm(), 200, 136, 72)
    assert len(compilations) == 2


def test_looking_at_a_variant_compiles_nothing_again(monkeypatch: pytest.MonkeyPatch) -> None:
    compilations = watch_compilations(monkeypatch)
    gemm: Any = fresh_gemm()
    a, b = integers(200, 72), integers(136, 72)
    d = gemm(a, b)
    assert "wgmma" in gemm.asm["ptx"] or "tcgen05" in gemm.asm["ptx"]
    assert "tile.mbarrier.init" in gemm.ir("pipeline")
    assert gemm.resources == gemm.variant(a, b).resources
    gemm.kernel(a, b)(a, b, torch.empty_like(d))
    assert len(compilations) == 1
