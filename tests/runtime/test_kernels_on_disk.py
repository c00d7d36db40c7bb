"""Compiled kernels on disk: what the next process finds there, and when it compiles all the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fake_compiler import FakeCompiler
from fake_driver import FakeArray, FakeDriver
from gemm_text import gemm

import tilec

SCRIPT = Path(__file__).with_name("launch_in_a_process.py")
PIPELINE = "tma,pipeline(2),persistent"


def launch(folder: Path, *arguments: str, **environment: str) -> dict[str, Any]:
    """What a new process says."""
    ran = subprocess.run(
        [sys.executable, SCRIPT, *(arguments or (PIPELINE,))],
        capture_output=True,
        text=True,
        env={**os.environ, "TILEC_CACHE_DIR": str(folder), **environment},
    )
    assert ran.returncode == 0, ran.stderr
    said = json.loads(ran.stdout)
    said["stderr"] = ran.stderr
    return said


def test_a_new_process_needs_no_compiler(tmp_path: Path) -> None:
    first, second = launch(tmp_path), launch(tmp_path)
    assert set(first["heavy"]) == {"xdsl", "llvmlite"}
    assert second["heavy"] == []
    assert second["loaded"] == first["loaded"]
    # Another extent is no other kernel; another class of tensors is.
    assert launch(tmp_path, PIPELINE, "512", "384", "640")["heavy"] == []
    assert launch(tmp_path, PIPELINE, "256", "256", "127")["heavy"] != []
    assert launch(tmp_path, "tma,pipeline(3)")["heavy"] != []


def test_eight_processes_on_one_cold_cache(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(lambda _: launch(tmp_path), range(8)))
    assert len({tuple(one["loaded"]) for one in said}) == 1
    assert launch(tmp_path)["heavy"] == []


@pytest.mark.parametrize("damage", ["truncated", "empty", "garbage"])
def test_a_damaged_entry_is_made_anew(damage: str, tmp_path: Path) -> None:
    good = launch(tmp_path)
    for path in [p for p in tmp_path.rglob("*") if p.is_file()]:
        data = path.read_bytes()
        path.write_bytes({"truncated": data[: len(data) // 2], "empty": b"", "garbage": b"\xff" * len(data)}[damage])
    again = launch(tmp_path)
    assert again["heavy"] != []
    assert again["loaded"] == good["loaded"]
    assert launch(tmp_path)["heavy"] == []


def test_an_entry_that_is_whole_but_of_another_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEC_CACHE_DIR", str(tmp_path))
    from tilec.cache import open_store
    from tilec.program import recall, remember

    store = open_store()
    assert store is not None
    remember("kernel", "some key", b"\0\0\0\0{}")
    assert recall("kernel", "some key") == b"\0\0\0\0{}"
    from tilec.artifact import Artifact

    with pytest.raises(ValueError, match="it has no field 'abi'"):
        Artifact.from_bytes(b"\2\0\0\0{}")


def test_a_cache_that_is_off_or_cannot_be_used(tmp_path: Path) -> None:
    assert launch(tmp_path, TILEC_CACHE_DIR="off")["heavy"] != []
    assert list(tmp_path.iterdir()) == []
    file = tmp_path / "file"
    file.write_text("not a folder")
    said = launch(tmp_path, TILEC_CACHE_DIR=str(file))
    assert said["heavy"] != []
    assert "warning" in said["stderr"]


def test_one_kernel_in_memory_and_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: FakeDriver, compiler: FakeCompiler
) -> None:
    monkeypatch.setenv("TILEC_CACHE_DIR", str(tmp_path))

    def call(text: str, k: int = 128) -> None:
        tensors = [FakeArray(s, address=0x10000 * i) for i, s in enumerate(((64, k), (64, k), (64, 64)), 1)]
        tilec.compile(text, driver=driver)(*tensors)

    call(gemm())
    call(gemm())
    assert len(compiler.compiled) == 1
    call(f"{gemm()}\n// another text, and the same program")
    assert len(compiler.compiled) == 1
    call(f"\n{gemm()}")  # every operation is on another line, which the code tells debuggers
    assert len(compiler.compiled) == 2
    call(gemm(), 127)
    assert len(compiler.compiled) == 3
    tilec.compile(gemm(), driver=driver, check=False)(
        *(FakeArray(s, address=0x10000 * i) for i, s in enumerate(((64, 128), (64, 128), (64, 64)), 1))
    )
    assert len(compiler.compiled) == 4


def test_remarks_are_told_again(tmp_path: Path) -> None:
    first, second = (launch(tmp_path, PIPELINE, "256", "256", "127") for _ in range(2))
    assert "remark: " in first["stderr"]
    assert second["stderr"] == first["stderr"]
    assert second["heavy"] == []
