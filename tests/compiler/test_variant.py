"""What a compiled kernel shows of itself."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import tilec
from tilec.backend.target import TARGETS
from tilec.diagnostics import TilecError

PIPELINE = "tma,pipeline(3),persistent"
needs_ptxas = pytest.mark.skipif(shutil.which("ptxas") is None, reason="there is no ptxas")
needs_nvdisasm = pytest.mark.skipif(shutil.which("nvdisasm") is None, reason="there is no nvdisasm")


@pytest.fixture
def kernel(examples: Path) -> tilec.Kernel:
    return tilec.compile(examples / "gemm.tile", pipeline=PIPELINE)


def test_ir_of_the_program_and_after_each_pass(kernel: tilec.Kernel) -> None:
    assert "tile.copy %A[%m, %k] to %a" in kernel.ir()
    assert "%a = tile.alloc : !tile.smem<" in kernel.ir("tma") and "dispatch tma" in kernel.ir("tma")
    assert "%a = tile.alloc : !tile.ring<3 x" in kernel.ir("pipeline") and "tile.schedule" not in kernel.ir("pipeline")
    assert "tile.schedule" in kernel.ir("persistent")


def test_passes_that_did_not_run(kernel: tilec.Kernel, examples: Path) -> None:
    with pytest.raises(TilecError) as caught:
        kernel.ir("pipelin")
    assert str(caught.value) == (
        "error: no pass 'pipelin' ran on gemm\nhint: did you mean 'pipeline'? known: tma, pipeline, persistent"
    )
    with pytest.raises(TilecError) as caught:
        tilec.compile(examples / "gemm.tile").ir("tma")
    assert str(caught.value) == "error: no pass 'tma' ran on gemm\nhint: give the kernel a pipeline"


def test_assembly(kernel: tilec.Kernel) -> None:
    assert list(kernel.asm) == ["llvm", "ptx", "sass"]
    assert ".target sm_100a" in kernel.asm["ptx"]
    assert "define" in kernel.asm["llvm"]
    with pytest.raises(TilecError) as caught:
        kernel.asm["pxt"]
    assert str(caught.value) == "error: there is no assembly 'pxt'\nhint: did you mean 'ptx'? known: llvm, ptx, sass"
    assert "pxt" not in kernel.asm


@needs_ptxas
def test_sass_needs_nvdisasm(kernel: tilec.Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel.asm["ptx"]
    monkeypatch.setenv("PATH", "")
    with pytest.raises(TilecError) as caught:
        kernel.asm["sass"]
    assert str(caught.value) == (
        "error: there is no nvdisasm to show machine instructions with\n"
        "hint: it comes with the CUDA toolkit: put its bin folder on PATH"
    )


@needs_ptxas
@needs_nvdisasm
def test_sass(kernel: tilec.Kernel) -> None:
    assert "EXIT" in kernel.asm["sass"]


def test_without_ptxas_there_is_no_machine_code(kernel: tilec.Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilec.backend.ptxas.find_ptxas", lambda: None)
    assert kernel.resources.registers is None and kernel.resources.ctas_per_sm is None
    assert kernel.resources.smem_bytes > 3 * 32768
    with pytest.raises(TilecError, match="no ptxas has assembled this kernel"):
        kernel.asm["sass"]
    with pytest.raises(TilecError, match="kernel gemm has no machine code to save: no ptxas has assembled it"):
        kernel.variant().save("gemm.cubin")


@needs_ptxas
def test_resources(kernel: tilec.Kernel) -> None:
    found = kernel.variant(target="sm_90a").resources
    assert (found.threads, found.stages, found.tmem_columns) == (256, 3, 0)
    assert found.spill_store_bytes == found.spill_load_bytes == 0
    assert found.registers is not None and 32 < found.registers <= 255
    # Three stages of 32 KiB and the staging tiles: one CTA has more than half of a multiprocessor's shared memory.
    assert found.ctas_per_sm == 1
    blackwell = kernel.variant(target="sm_100a").resources
    assert (blackwell.threads, blackwell.tmem_columns) == (128, 128)


@pytest.mark.parametrize(
    ("threads", "registers", "smem", "columns", "fit"),
    [
        (256, 90, 98320, 0, 2),  # shared memory: 233472 / (98320 + 1024)
        (256, 255, 1024, 0, 1),  # registers: 8 warps of 255 (rounded up to 256) x 32
        (256, 128, 1024, 0, 2),
        (128, 32, 0, 0, 16),  # threads: 2048 / 128
        (32, 16, 0, 0, 32),  # CTAs
        (128, 64, 1024, 256, 2),  # tensor memory
    ],
)
def test_occupancy(threads: int, registers: int, smem: int, columns: int, fit: int) -> None:
    assert TARGETS["sm_100a"].occupancy(threads, registers, smem, columns) == fit


def test_the_variant_that_was_used_last(examples: Path) -> None:
    kernel = tilec.compile(examples / "gemm.tile", pipeline="tma")
    odd = [np.zeros(shape, np.float16) for shape in ((64, 31), (64, 31), (64, 64))]
    even = [np.zeros(shape, np.float16) for shape in ((64, 32), (64, 32), (64, 64))]
    kernel(*odd)
    assert "align = 2" in kernel.ir()
    kernel(*even)
    assert "align = 2" not in kernel.ir()
    kernel(*odd)
    assert "align = 2" in kernel.ir()
    assert kernel.variant(*odd).facts[0].align == 2


def test_every_stage_in_a_folder(
    kernel: tilec.Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, examples: Path
) -> None:
    monkeypatch.setenv("TILEC_DUMP_DIR", str(tmp_path / "dump"))
    kernel.asm["ptx"]
    tilec.compile(examples / "gemm.tile", pipeline=PIPELINE).asm["ptx"]
    first, second = sorted((tmp_path / "dump").iterdir())
    assert (first.name, second.name) == ("gemm-0", "gemm-1")
    names = [path.name for path in sorted(first.iterdir())]
    wanted = ["tma.tile", "pipeline.tile", "persistent.tile", "asynchronous.tile", "nvvm.mlir", "llvm.ll", "ptx.ptx"]
    assert names[: len(wanted) + 1] == [f"{i:02}-{name}" for i, name in enumerate([*wanted, "abi.json"])]
    assert (first / "01-pipeline.tile").read_text() == f"{kernel.ir('pipeline')}\n"
    assert (first / "06-ptx.ptx").read_text() == kernel.asm["ptx"]


def test_a_dump_that_cannot_be_written(kernel: tilec.Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("TILEC_DUMP_DIR", str(file))
    with pytest.raises(TilecError) as caught:
        kernel.asm["ptx"]
    assert str(caught.value) == (
        f"error: cannot write the stages of gemm to {file}: File exists\n"
        "hint: TILEC_DUMP_DIR names a folder that can be written"
    )
