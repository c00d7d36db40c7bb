"""Programs: what is kept of them, what is not, and the lock that all share."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tilec
from tilec.cache import toolchain
from tilec.diagnostics import collect
from tilec.program import compiling, recall, remember
from tilec.source import parse_file


def test_a_module_is_taken_as_it_is(examples: Path) -> None:
    module = parse_file(examples / "gemm.tile")
    kernel = tilec.compile(module)
    before = kernel.ir()
    for op in list(module.walk()):
        op.attributes.clear()
    next(iter(module.body.block.ops)).detach()
    given = kernel.module
    next(iter(given.body.block.ops)).detach()
    assert kernel.ir() == before
    assert str(kernel.module).count("tile.mma") == 1


def test_nothing_is_kept_of_a_tilec_that_was_edited_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tilec.cache import toolchain as answer

    monkeypatch.setenv("TILEC_CACHE_DIR", str(tmp_path))
    module = __import__("sys").modules["tilec.cache.toolchain"]
    assert answer()
    monkeypatch.setattr(module, "_STARTED", module._STARTED + 1e9)
    remember("kernel", "a", b"1")
    assert recall("kernel", "a") == b"1"
    listing = module._listing()
    changed = [listing[0]._replace(size=listing[0].size + 1), *listing[1:]]
    monkeypatch.setattr(module, "_listing", lambda: changed)
    remember("kernel", "b", b"2")
    assert recall("kernel", "b") is None
    monkeypatch.undo()


def test_nor_of_one_that_is_newer_than_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEC_CACHE_DIR", str(tmp_path))
    module = __import__("sys").modules["tilec.cache.toolchain"]
    toolchain()
    monkeypatch.setattr(module, "_STARTED", 0.0)
    remember("kernel", "c", b"3")
    assert recall("kernel", "c") is None


def test_whoever_compiles_may_compile() -> None:
    with compiling(), compiling():
        pass


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_while_another_thread_compiles() -> None:
    inside, leave = threading.Event(), threading.Event()

    def compile_for_long() -> None:
        with compiling():
            inside.set()
            leave.wait(30)

    thread = threading.Thread(target=compile_for_long)
    thread.start()
    assert inside.wait(10)
    child = os.fork()
    if child == 0:
        os._exit(0 if compiling().acquire(timeout=5) else 1)
    _, status = os.waitpid(child, 0)
    leave.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0


def test_remarks_are_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, examples: Path) -> None:
    monkeypatch.setenv("TILEC_CACHE_DIR", str(tmp_path))
    module = __import__("sys").modules["tilec.cache.toolchain"]
    monkeypatch.setattr(module, "_STARTED", module._STARTED + 1e9)
    odd = [np.zeros(shape, np.float16) for shape in ((64, 31), (64, 31), (64, 64))]

    def told(look: Callable[[tilec.Variant], object]) -> int:
        with collect() as said:
            look(tilec.compile(examples / "gemm.tile", pipeline="tma").variant(*odd))
        return len(said)

    first = told(lambda variant: variant.artifact)
    assert first > 0
    assert told(lambda variant: (variant.artifact, variant.compiled)) == first
    assert told(lambda variant: (variant.compiled, variant.artifact, variant.compiled)) == first
