"""``tilec run --device=emulator``: a program's own PTX, executed on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("pipeline", ["", "tma", "tma,pipeline(3),persistent"])
def test_gemm(cli: Cli, examples: Path, target: str, pipeline: str) -> None:
    shape = "M=136,N=200,K=136"
    ran = cli(
        "run", examples / "gemm.tile", "-p", pipeline, "--shape", shape, "--device=emulator", f"--target={target}"
    )
    assert ran.code == 0, ran.err
    assert ran.out.startswith("gemm on emulator, M=136 N=200 K=136\n  ")
    assert ran.out.endswith("PASS\n")
    assert " bytes loaded by TMA, " in ran.out


def test_ctas_bound_a_persistent_grid(cli: Cli, examples: Path) -> None:
    ran = cli(
        "run",
        examples / "gemm.tile",
        "-p",
        "tma,persistent",
        "--shape",
        "M=300,N=300,K=64",
        "--device=emulator",
        "--ctas=2",
    )
    assert ran.code == 0, ran.err
    assert "\n  2 CTAs, " in ran.out


def test_ctas_of_a_plain_grid_are_refused(cli: Cli, examples: Path) -> None:
    ran = cli(
        "run", examples / "gemm.tile", "-p", "tma", "--shape", "M=300,N=300,K=64", "--device=emulator", "--ctas=2"
    )
    assert ran.code == 1
    assert "--ctas bounds the grid of a persistent kernel; this one has a CTA for each tile" in ran.err


def test_no_tile_launches_nothing(cli: Cli, examples: Path) -> None:
    ran = cli("run", examples / "gemm.tile", "-p", "tma", "--shape", "M=0,N=128,K=64", "--device=emulator")
    assert ran.code == 0, ran.err
    assert "\n  no tile: nothing is launched\n" in ran.out


def test_bf16(cli: Cli, examples: Path, tmp_path: Path) -> None:
    program = tmp_path / "gemm.tile"
    program.write_text((examples / "gemm.tile").read_text().replace("xf16", "xbf16"))
    ran = cli("run", program, "-p", "tma,pipeline(2)", "--shape", "M=128,N=72,K=80", "--device=emulator")
    assert ran.code == 0, ran.err
    assert ran.out.endswith("PASS\n")


def test_elements_that_are_never_written_are_counted(cli: Cli, tmp_path: Path) -> None:
    program = tmp_path / "half.tile"
    program.write_text(
        """tile.kernel @half(%A: !tile.view<MxNxbf16>, %D: !tile.view<MxNxbf16>) {
  tile.grid (%m, %n) over %A step (64, 64) {
    %a = tile.alloc : !tile.smem<64x32xbf16>
    tile.copy %A[%m, %n] to %a
    tile.copy %a to %D[%m, %n]
  }
}
"""
    )
    ran = cli("run", program, "--shape", "M=64,N=64", "--device=emulator")
    assert "2048 of 4096 elements of D are never written, the first at (0, 32)" in ran.out + ran.err


def test_orders(cli: Cli, examples: Path) -> None:
    base = ("run", examples / "gemm.tile", "-p", "tma,pipeline(2)", "--shape", "M=128,N=128,K=128")
    ran = cli(*base, "--device=emulator", "--order=adversarial", "--seed=3")
    assert ran.code == 0, ran.err
    refused = cli(*base, "--device=sim", "--order=random")
    assert refused.code == 1
    assert refused.err == "error: --order is the emulator's\nhint: add --device=emulator\n"
