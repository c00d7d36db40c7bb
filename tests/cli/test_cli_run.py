"""``tilec run``."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tilec.backend.simulator import Report
from tilec.cli import trial
from tilec.source import parse_text

_SHAPE = "--shape=M=200,N=136,K=72"


@pytest.mark.parametrize(
    "pipeline", ["", "tma", "threads", "tma,pipeline(2),persistent", "retile(64,64,32),tma,pipeline(3)"]
)
def test_a_right_kernel_passes(pipeline: str, examples: Path, cli: Callable[..., Any]) -> None:
    finished = cli("run", examples / "gemm.tile", f"--pipeline={pipeline}", _SHAPE, "--device=sim")
    assert finished.code == 0
    first, second, third, fourth = finished.out.splitlines()
    assert first == "gemm on sim, M=200 N=136 K=72"
    counted = r"  \d+ tiles on \d+ CTAs?, \d+ bytes loaded, 54400 stored, \d+ MMAs, \d+ waits?, \d+ stalls?"
    assert re.fullmatch(counted, second)
    assert re.fullmatch(r"  D: relative error 0\.000\d+ \(limit 0\.001\), largest 0\.00\d+ \(limit 0\.01\)", third)
    assert fourth == "PASS"


@pytest.mark.parametrize("example", ["step4_tma", "step5_pipeline", "step6_persistent"])
def test_the_ladder_passes(example: str, examples: Path, cli: Callable[..., Any]) -> None:
    assert cli("run", examples / f"{example}.tile", _SHAPE, "--device=sim").out.endswith("PASS\n")


@pytest.mark.parametrize("shape", ["M=0,N=8,K=8", "M=8,N=0,K=8", "M=130,N=8,K=0"])
def test_nothing_to_do_passes(shape: str, examples: Path, cli: Callable[..., Any]) -> None:
    finished = cli("run", examples / "gemm.tile", f"--shape={shape}", "--device=sim")
    assert finished.out.endswith("  D: relative error 0 (limit 0.001), largest 0 (limit 0.01)\nPASS\n")


def test_one_wrong_element_fails(examples: Path, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    right = trial.run

    def wrong(module: Any, arrays: Sequence[Any], ctas: int | None, progress: None) -> Report:
        report = right(module, arrays, ctas=ctas)
        arrays[2][7, 7] += 1
        return report

    monkeypatch.setattr(trial, "run", wrong)
    finished = cli("run", examples / "gemm.tile", _SHAPE, "--device=sim")
    assert finished.code == 1
    assert finished.out.endswith("FAIL\n")


def test_an_output_that_is_not_written_fails(
    examples: Path, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(module: Any, arrays: Any, ctas: int | None, progress: None) -> Report:
        return Report(0, 0, 0, 0, 0, 0, 0)

    monkeypatch.setattr(trial, "run", nothing)
    finished = cli("run", examples / "gemm.tile", _SHAPE, "--device=sim")
    assert (finished.code, finished.out.splitlines()[1:]) == (
        1,
        [
            "  0 tiles on 0 CTAs, 0 bytes loaded, 0 stored, 0 MMAs, 0 waits, 0 stalls",
            "  warning: 27200 of 27200 elements of D are never written, the first at (0, 0)",
            "FAIL",
        ],
    )


def _arrays(seed: int, element: str = "f16", facts: str = "") -> tuple[Any, ...]:
    text = (
        f"tile.kernel @copy(%A: !tile.view<MxKx{element}{facts}>, %D: !tile.view<Mx?xf32>, %E: !tile.view<3xf32>) {{\n"
        "  tile.grid (%m, %k) over %A step (16, 16) {\n"
        f"    %a = tile.alloc : !tile.smem<16x16x{element}>\n"
        "    tile.copy %A[%m, %k] to %a\n"
        f"    %x = tile.load %a : !tile.reg<16x16x{element}>\n"
        "    %y = tile.cast %x : !tile.reg<16x16xf32>\n"
        "    tile.copy %y to %D[%m, %k]\n"
        "  }\n"
        "}"
    )
    return trial.Trial.prepare(parse_text(text), {"M": 20, "K": 24, "D.1": 24}, seed).arrays


def test_inputs_follow_the_types_and_the_seed() -> None:
    a, d, e = _arrays(1)
    assert (a.shape, a.dtype, d.shape, d.dtype, e.shape) == ((20, 24), np.float16, (20, 24), np.float32, (3,))
    assert np.isnan(d).all()
    assert not np.isnan(e).any()
    assert 0.8 < a.std() < 1.2
    assert np.array_equal(a, _arrays(1)[0])
    assert not np.array_equal(a, _arrays(2)[0])


def test_inputs_of_bf16_and_of_another_order() -> None:
    a = _arrays(1, "bf16", ", order = [0, 1]")[0]
    assert a.dtype == np.float32
    assert not (a.view(np.uint32) & 0xFFFF).any()
    assert a.shape == (20, 24)
    assert a.strides[0] == 4


# ---- on a GPU, as far as that goes without one


class _Tensor:
    """As much of a torch tensor as `tilec run` uses, in memory of its own."""

    def __init__(self, array: Any, dtype: str) -> None:
        self.array, self.dtype = array, dtype

    def cuda(self) -> _Tensor:
        return _Tensor(self.array.copy(order="K"), self.dtype)

    def to(self, dtype: str) -> _Tensor:
        return _Tensor(self.array.copy(order="K"), dtype)

    def cpu(self) -> _Tensor:
        return self

    def numpy(self) -> Any:
        assert self.dtype != "bfloat16"  # which NumPy does not have
        return self.array


def _from_numpy(array: Any) -> _Tensor:
    return _Tensor(array, str(array.dtype))


@pytest.mark.parametrize("element", ["f16", "bf16"])
@pytest.mark.parametrize("right", [True, False])
def test_tensors_go_to_the_gpu_and_come_back(
    element: str, right: bool, examples: Path, tmp_path: Path, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda = SimpleNamespace(is_available=lambda: True, synchronize=lambda: None)
    torch = SimpleNamespace(
        __spec__=ModuleSpec("torch", None),
        bfloat16="bfloat16",
        float32="float32",
        from_numpy=_from_numpy,
        cuda=cuda,
    )
    launched: list[list[str]] = []

    def compile(module: Any, pipeline: str, target: str | None) -> Callable[..., None]:
        assert (pipeline, target) == ("tma", None)

        def kernel(a: _Tensor, b: _Tensor, d: _Tensor, max_ctas: int | None) -> None:
            assert max_ctas == 3
            launched.append([a.dtype, b.dtype, d.dtype])
            d.array[...] = a.array.astype(np.float64) @ b.array.astype(np.float64).T
            if not right:
                d.array[3, 4] += 5

        return kernel

    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr("tilec.kernel.compile", compile)
    path = tmp_path / "gemm.tile"
    path.write_text((examples / "gemm.tile").read_text().replace("xf16", f"x{element}"))
    finished = cli("run", path, "--pipeline=tma", _SHAPE, "--ctas=3")
    assert finished.out.startswith("gemm on cuda, M=200 N=136 K=72\n")
    assert (finished.code, finished.out.splitlines()[-1]) == ((0, "PASS") if right else (1, "FAIL"))
    assert launched == [["float16" if element == "f16" else "bfloat16"] * 3]


# ---- persistent kernels


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """The bound on the grid of each execution."""
    bounds: list[int | None] = []
    right = trial.run

    def run(module: Any, arrays: Any, ctas: int | None, progress: None) -> Report:
        bounds.append(ctas)
        return right(module, arrays, ctas=ctas)

    monkeypatch.setattr(trial, "run", run)
    return bounds


@pytest.mark.parametrize(
    ("shape", "options", "ctas"),
    [
        ("M=128,N=128,K=64", [], 1),
        ("M=256,N=128,K=64", [], 1),
        ("M=384,N=256,K=64", [], 3),
        ("M=0,N=256,K=64", [], 1),
        ("M=384,N=256,K=64", ["--ctas=5"], 5),
        ("M=384,N=256,K=64", ["--ctas=1"], 1),
    ],
)
def test_ctas_of_a_persistent_kernel_visit_two_tiles(
    shape: str, options: list[str], ctas: int, examples: Path, cli: Callable[..., Any], sizes: list[int | None]
) -> None:
    pipeline = "--pipeline=tma,pipeline(2),persistent"
    finished = cli("run", examples / "gemm.tile", pipeline, f"--shape={shape}", "--device=sim", *options)
    assert finished.out.endswith("PASS\n")
    assert sizes == [ctas]


def test_more_tiles_than_the_chip_holds_run_on_all_of_it(
    examples: Path, cli: Callable[..., Any], sizes: list[int | None]
) -> None:
    pipeline = "--pipeline=tma,persistent"
    shape = "--shape=M=2560,N=2048,K=8"
    for target, ctas in (("sm_90a", 132), ("sm_100a", 148)):
        finished = cli("run", examples / "gemm.tile", pipeline, shape, "--device=sim", f"--target={target}")
        assert finished.out.endswith("PASS\n")
        assert sizes.pop() == ctas


def test_other_kernels_have_a_cta_for_each_tile(
    examples: Path, cli: Callable[..., Any], sizes: list[int | None]
) -> None:
    path = examples / "gemm.tile"
    assert cli("run", path, "--pipeline=tma", _SHAPE, "--device=sim").out.endswith("PASS\n")
    assert sizes == [None]
    finished = cli("run", path, "--pipeline=tma", _SHAPE, "--device=sim", "--ctas=2")
    assert (finished.code, finished.out) == (1, "")
    assert finished.err == (
        f"{path}:2:1: error: --ctas bounds the grid of a persistent kernel; this one has a CTA for each tile\n"
        f"{path.read_text().splitlines()[1]}\n^\nhint: add persistent to --pipeline\n"
    )


# ---- what it is compared with


_ITSELF = (
    "  compared with this same kernel, run in float64: a wrong formula passes too; --like FILE compares with a program"
)


def test_a_kernel_by_hand_is_compared_with_itself(examples: Path, cli: Callable[..., Any]) -> None:
    finished = cli("run", examples / "step4_tma.tile", _SHAPE, "--device=sim")
    assert finished.out.splitlines()[2].startswith(_ITSELF)
    assert "compared with" not in cli("run", examples / "gemm.tile", "-p=tma", _SHAPE, "--device=sim").out


def test_another_program_to_compare_with(examples: Path, tmp_path: Path, cli: Callable[..., Any]) -> None:
    program = examples / "gemm.tile"
    finished = cli("run", examples / "step4_tma.tile", _SHAPE, "--device=sim", "--like", program)
    assert (finished.code, finished.out.splitlines()[2]) == (0, f"  compared with {program}")
    wrong = tmp_path / "wrong.tile"
    wrong.write_text(program.read_text().replace("over %A dim 1 step 64", "over %A dim 1 step 128"))
    finished = cli("run", examples / "step4_tma.tile", _SHAPE, "--device=sim", "--like", wrong)
    assert finished.out.endswith("FAIL\n")


@pytest.mark.parametrize("command", ["run", "check"])
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("", "nothing.tile", "error: cannot read nothing.tile"),
        ("", "step5_pipeline.tile", ": error: gemm has a schedule already, and is no program to compare with"),
        ("", "bias_relu.tile", ": error: bias_relu has 4 views, and gemm has 3"),
        ("MxNxf16", "MxNxf32", ": error: D is f32, and D is f16"),
        (
            "%B: !tile.view<NxK",
            "%B: !tile.view<KxN",
            ": error: K is 72 in dimension 1 of %A, but 136 in dimension 0 of %B",
        ),
        ("%acc to %D[%m, %n]", "%acc to %A[%m, %n]", ": error: of A and A only one is written"),
    ],
)
def test_a_program_that_is_none_to_compare_with(
    command: str,
    old: str,
    new: str,
    message: str,
    examples: Path,
    tmp_path: Path,
    cli: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    like = examples / new if new in ("step5_pipeline.tile", "bias_relu.tile") else Path("nothing.tile")
    if old:
        like.write_text((examples / "gemm.tile").read_text().replace(old, new))
    device = ["--device=sim"] if command == "run" else []
    finished = cli(command, examples / "step4_tma.tile", _SHAPE, "--like", like, *device)
    assert (finished.code, finished.out) == (1, "")
    assert message in finished.err
    assert finished.err.count("error: ") == 1


def test_what_is_not_written_is_said(examples: Path, tmp_path: Path, cli: Callable[..., Any]) -> None:
    path = tmp_path / "half.tile"
    path.write_text((examples / "gemm.tile").read_text().replace("step (128, 128)", "step (128, 256)"))
    said = "warning: 16384 of 32768 elements of D are never written, the first at (0, 128)"
    shape = "--shape=M=128,N=256,K=64"
    for pipeline in ("", "tma,pipeline(2)"):
        finished = cli("run", path, shape, "--device=sim", f"--pipeline={pipeline}")
        assert (finished.code, finished.out.splitlines()[2:]) == (1, [f"  {said}", "FAIL"])
        finished = cli("check", path, shape, f"--pipeline={pipeline}")
        assert finished.code == 0
        assert f"{path}:2:69: {said}\n" in finished.out


# ---- bad input


def test_a_pipeline_that_leaves_no_tile_code(examples: Path, cli: Callable[..., Any]) -> None:
    path = examples / "gemm.tile"
    finished = cli("run", path, "--pipeline=tma,lower", _SHAPE, "--device=sim")
    assert (finished.code, finished.out) == (1, "")
    assert finished.err == (
        f"{path}:2:1: error: the pipeline leaves no tile code: lower is in it\n"
        f"{path.read_text().splitlines()[1]}\n^\nhint: leave lower out of --pipeline\n"
    )


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--seed=-1", "argument --seed: expected an integer from 0 on, not -1"),
        ("--seed=1.5", "argument --seed: invalid int value: '1.5'"),
        ("--ctas=0", "argument --ctas: expected an integer from 1 on, not 0"),
        ("--ctas=x", "argument --ctas: invalid int value: 'x'"),
    ],
)
def test_a_number_that_cannot_be(option: str, message: str, examples: Path, cli: Callable[..., Any]) -> None:
    finished = cli("run", examples / "gemm.tile", _SHAPE, option)
    assert (finished.code, finished.out) == (1, "")
    assert finished.err.splitlines()[-1] == f"tilec run: error: {message}"


def test_missing_and_unknown_extents(examples: Path, cli: Callable[..., Any]) -> None:
    path = examples / "gemm.tile"
    kernel = path.read_text().splitlines()[1]
    finished = cli("run", path, "--shape=M=200")
    assert (finished.code, finished.out) == (1, "")
    assert finished.err == (
        f"{path}:2:1: error: no extent for K, N in --shape\n{kernel}\n^\nhint: for example --shape M=200,K=256,N=256\n"
    )
    finished = cli("run", path, f"{_SHAPE},Q=1,R=2")
    assert finished.err == (
        f"{path}:2:1: error: Q, R: no such extent in --shape\n{kernel}\n^\nhint: for example --shape M=200,K=72,N=136\n"
    )


@pytest.mark.parametrize(
    ("shape", "column", "message"),
    [
        ("M=1,N", 5, "expected a name and an extent, found 'N'"),
        ("M=1, N=x", 6, "expected a name and an extent, found 'N=x'"),
        ("M=-1", 1, "expected a name and an extent, found 'M=-1'"),
        ("M=1,", 5, "expected a name and an extent, found ''"),
    ],
)
def test_a_wrong_shape(shape: str, column: int, message: str, examples: Path, cli: Callable[..., Any]) -> None:
    finished = cli("run", examples / "gemm.tile", f"--shape={shape}")
    assert (finished.code, finished.out) == (1, "")
    caret = " " * (column - 1) + "^"
    hint = "hint: for example M=256,N=384,K=192"
    assert finished.err == f"<shape>:1:{column}: error: {message}\n{shape}\n{caret}\n{hint}\n"


def test_an_extent_twice(examples: Path, cli: Callable[..., Any]) -> None:
    finished = cli("run", examples / "gemm.tile", "--shape=M=1,M=2")
    assert finished.err == "<shape>:1:5: error: M is given twice\nM=1,M=2\n    ^\n"


def test_arrays_that_do_not_fit(examples: Path, cli: Callable[..., Any]) -> None:
    finished = cli("run", examples / "gemm.tile", "--shape=M=1000000000000,N=1,K=1000000000000")
    assert finished.code == 1
    assert "error: arrays of this shape do not fit into memory: " in finished.err


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is here")
def test_no_gpu(examples: Path, cli: Callable[..., Any]) -> None:
    finished = cli("run", examples / "gemm.tile", _SHAPE, "--device=cuda")
    assert (finished.code, finished.err) == (
        1,
        "error: --device=cuda needs torch and a GPU that it can use\nhint: pip install 'tilec[gpu]'\n",
    )


def test_a_wrong_pipeline_is_told_first(cli: Callable[..., Any]) -> None:
    assert cli("run", "nothing.tile", "--pipeline=zzz").err.startswith("<pipeline>:1:1: error: unknown pass 'zzz'")


def test_a_kernel_that_stores_nothing_cannot_be_compared(tmp_path: Path, cli: Callable[..., Any]) -> None:
    path = tmp_path / "nothing.tile"
    path.write_text("tile.kernel @nothing(%A: !tile.view<MxKxf16>) {\n}\n")
    finished = cli("run", path, "--shape=M=8,K=8", "--device=sim")
    assert finished.code == 1
    assert finished.err == (
        f"{path}:1:1: error: this kernel stores nothing: there is nothing to compare\n"
        "tile.kernel @nothing(%A: !tile.view<MxKxf16>) {\n^\nhint: end with a tile.copy to a view\n"
    )
