"""Kernels as two files: what is written, what is read back, and every way in which they can be wrong."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilec
from tilec.diagnostics import TilecError

pytestmark = pytest.mark.skipif(shutil.which("ptxas") is None, reason="there is no ptxas to make a cubin with")
FAKES = Path(__file__).resolve().parents[1] / "runtime"
sys.path.insert(0, str(FAKES))

from fake_driver import FakeArray, FakeDriver  # noqa: E402

PIPELINE = "tma,pipeline(2),persistent"


@pytest.fixture
def files(tmp_path: Path, examples: Path, monkeypatch: pytest.MonkeyPatch, cli: Callable[..., Any]) -> Path:
    """The folder of gemm.cubin and gemm.json."""
    monkeypatch.chdir(tmp_path)
    done = cli("compile", examples / "gemm.tile", "--emit=cubin", "--target=sm_90a", f"--pipeline={PIPELINE}")
    assert done.code == 0
    assert done.err.endswith("wrote gemm.cubin and gemm.json\n")
    return tmp_path


def arrays(m: int = 256, n: int = 384, k: int = 128) -> list[FakeArray]:
    shapes = ((m, k), (n, k), (m, n))
    return [FakeArray(shape, address=0x1000000 * i) for i, shape in enumerate(shapes, 1)]


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_kernel_launches_from_its_files(files: Path) -> None:
    driver = FakeDriver()
    kernel = tilec.load(files / "gemm.cubin", driver=driver)
    assert kernel.signature.names == ("A", "B", "D")
    kernel(*arrays())
    assert [image for _, image in driver.loaded] == [(files / "gemm.cubin").read_bytes()]
    (launched,) = driver.launched
    assert launched.shape.ctas == 2 * 3
    compiled = tilec.compile("examples/gemm.tile" if Path("examples").exists() else _example(), pipeline=PIPELINE)
    assert kernel.resources == compiled.variant(target="sm_90a").resources
    assert kernel.variant(target="sm_90a").artifact.abi == compiled.variant(target="sm_90a").artifact.abi


def _example() -> Path:
    return Path(__file__).resolve().parents[2] / "examples" / "gemm.tile"


def test_loading_needs_no_compiler(files: Path) -> None:
    code = (
        "import sys; from fake_driver import FakeArray, FakeDriver; import tilec\n"
        "d = FakeDriver(); k = tilec.load('gemm.json', driver=d)\n"
        "k(*[FakeArray(s, address=0x1000000 * i) for i, s in enumerate(((256, 128), (384, 128), (256, 384)), 1)])\n"
        "print(len(d.launched), [m for m in ('xdsl', 'llvmlite', 'numpy', 'tilec.backend.ptxas') if m in sys.modules])"
    )
    environment = {**os.environ, "PATH": "", "PYTHONPATH": str(FAKES)}
    ran = subprocess.run([sys.executable, "-c", code], cwd=files, env=environment, capture_output=True, text=True)
    assert ran.stderr == ""
    assert ran.stdout == "1 []\n"


def test_a_python_kernel_is_saved_for_the_tensors_it_was_compiled_for(tmp_path: Path, examples: Path) -> None:
    import runpy

    gemm = runpy.run_path(str(examples / "gemm.py"))["gemm"]
    a, b = np.zeros((64, 24), np.float16), np.zeros((72, 24), np.float16)
    variant = gemm.variant(a, b, target="sm_90a")
    variant.save(tmp_path / "gemm")
    kernel = tilec.load(tmp_path / "gemm", driver=FakeDriver())
    assert tuple(view.facts for view in kernel.signature.views) == variant.facts
    assert (tmp_path / "gemm.cubin").read_bytes() == variant.artifact.machine.cubin


def test_tensors_of_a_lesser_class_are_refused(files: Path) -> None:
    kernel = tilec.load(files / "gemm.cubin", driver=FakeDriver())
    with pytest.raises(TilecError) as caught:
        kernel(*arrays(k=127))
    assert str(caught.value) == (
        "error: argument A: base address and pitches must be multiples of 16 bytes (align = 16), but the pitch of dimension 0 "
        "is 254 bytes\nhint: pad the rows to multiples of 16 bytes, or write the kernel without explicit TMA copies"
    )


def test_another_gpu_is_refused(files: Path) -> None:
    kernel = tilec.load(files / "gemm.cubin", driver=FakeDriver(capabilities=((10, 0),)))
    with pytest.raises(TilecError, match="the kernel was compiled for sm_90a, but device 0 is sm_100a"):
        kernel(*arrays())


def test_the_program_is_not_at_hand(files: Path) -> None:
    kernel = tilec.load(files / "gemm.cubin", driver=FakeDriver())
    gone = "kernel gemm was compiled ahead of time: its program is not at hand"
    attempts: list[Callable[[], object]] = [
        lambda: kernel.module,
        lambda: kernel.ir(),
        lambda: kernel.ir("tma"),
        lambda: kernel.asm["llvm"],
        lambda: kernel(*(np.zeros((64, 64), np.float16) for _ in range(3))),
    ]
    for attempt in attempts:
        with pytest.raises(TilecError, match=gone):
            attempt()
    with pytest.raises(TilecError, match="kernel gemm was compiled ahead of time for sm_90a, not for sm_100a"):
        kernel.variant(target="sm_100a").artifact  # noqa: B018


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, "gemm.json does not describe a kernel: its format is 2, and this version of tilec reads 1"),
        ({"abi": 3}, "gemm.json does not describe a kernel: abi is an integer, not an object"),
        ({"extra": 1}, "gemm.json does not describe a kernel: it has an unknown field 'extra'"),
        ({"registers": "many"}, "gemm.json does not describe a kernel: registers is a string, not an integer"),
        ({"sha256": "0"}, "gemm.cubin is not the cubin that gemm.json describes: its checksum differs"),
    ],
)
def test_a_description_that_is_wrong(changes: dict[str, Any], message: str, files: Path) -> None:
    edit(files / "gemm.json", **changes)
    with pytest.raises(TilecError) as caught:
        tilec.load("gemm.cubin")
    assert str(caught.value).splitlines()[0] == f"error: {message}"


def test_an_abi_that_contradicts_itself(files: Path) -> None:
    abi = json.loads((files / "gemm.json").read_text())["abi"]
    edit(files / "gemm.json", abi=abi | {"outputs": [7]})
    with pytest.raises(TilecError, match=r"gemm\.json does not describe a kernel: view 7 of 3"):
        tilec.load("gemm.cubin")
    edit(files / "gemm.json", abi=abi | {"target": "sm_80"})
    with pytest.raises(TilecError, match="unknown target 'sm_80'"):
        tilec.load("gemm.cubin")


def test_files_that_are_missing_or_damaged(files: Path) -> None:
    (files / "gemm.json").write_bytes(b"\xff{")
    with pytest.raises(TilecError, match=r"gemm\.json does not describe a kernel: "):
        tilec.load("gemm.cubin")
    (files / "gemm.json").unlink()
    with pytest.raises(TilecError) as caught:
        tilec.load("gemm.cubin")
    assert str(caught.value) == (
        "error: cannot read gemm.json: No such file or directory\n"
        "hint: a kernel is two files, gemm.cubin and gemm.json, as tilec compile --emit=cubin writes them"
    )


def test_a_damaged_cubin(files: Path) -> None:
    cubin = bytearray((files / "gemm.cubin").read_bytes())
    cubin[100] ^= 1
    (files / "gemm.cubin").write_bytes(bytes(cubin))
    with pytest.raises(TilecError, match="its checksum differs"):
        tilec.load("gemm.cubin")


def test_names_of_both_files(files: Path, examples: Path, cli: Callable[..., Any]) -> None:
    for name, target in (("a.1", "sm_90a"), ("a.2", "sm_100a")):
        assert cli("compile", examples / "gemm.tile", "--emit=cubin", f"--target={target}", "-o", name).code == 0
    assert sorted(path.name for path in files.iterdir()) == [
        "a.1", "a.1.json", "a.2", "a.2.json", "gemm.cubin", "gemm.json",
    ]  # fmt: skip
    for name, target in (("a.1", "sm_90a"), ("a.2", "sm_100a")):
        assert tilec.load(name, driver=FakeDriver()).signature.target == target
    for ending in ("cubin", "json"):
        (files / f"moved.{ending}").write_bytes((files / f"gemm.{ending}").read_bytes())
        (files / f"gemm.{ending}").unlink()
    assert tilec.load("moved", driver=FakeDriver()).name == "gemm"


@pytest.mark.parametrize("path", ["", ".", "/", None, 5, b"gemm.cubin"])
def test_what_is_no_path(path: Any) -> None:
    with pytest.raises(TilecError, match="a kernel is loaded from a path, not from "):
        tilec.load(path)


@pytest.mark.parametrize("path", ["", None, "gemm.ptx", "gemm.64"])
def test_what_is_no_name_of_a_cubin(path: Any, examples: Path) -> None:
    with pytest.raises(TilecError) as caught:
        tilec.compile(examples / "gemm.tile").variant(target="sm_90a").save(path)
    assert str(caught.value) == f'error: {path!r} is no name of a cubin\nhint: as in save("gemm.cubin")'


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"threads": -5}, "-5 threads, "),
        ({"smem_bytes": -1}, "256 threads, -1 bytes of shared memory"),
        ({"grid": {"view": 2, "step": [0, 128], "persistent": True}}, "steps of [0, 128]"),
    ],
)
def test_an_abi_that_no_kernel_has(changes: dict[str, Any], message: str, files: Path) -> None:
    abi = json.loads((files / "gemm.json").read_text())["abi"]
    edit(files / "gemm.json", abi=abi | changes)
    with pytest.raises(TilecError) as caught:
        tilec.load("gemm.cubin")
    assert str(caught.value).startswith(f"error: gemm.json does not describe a kernel: {message}")


def test_a_view_that_contradicts_itself(files: Path) -> None:
    abi = json.loads((files / "gemm.json").read_text())["abi"]
    for change, message in (
        ({"order": [5, 1]}, "view A of rank 2 with order [5, 1]"),
        ({"dims": []}, "view A of rank 0 with order [1, 0]"),
        ({"align": 0}, "view A with an alignment of 0 bytes"),
    ):
        edit(files / "gemm.json", abi=abi | {"views": [abi["views"][0] | change, *abi["views"][1:]]})
        with pytest.raises(TilecError, match=re.escape(message)):
            tilec.load("gemm.cubin")
