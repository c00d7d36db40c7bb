"""Calls that were made before: they go to the driver without Python, and only where nothing has changed that they depend on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jit_kernels
import pytest
from harness import finish, torch
from jit_kernels import PIPELINE, check, expected, fresh_gemm, gemm, gemm_both_ways, integers

import tilec
from tilec.backend.runtime.launch import Plan


@pytest.fixture
def through_python(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that were launched by Python, from here on."""
    seen: list[str] = []
    launch: Callable[..., Any] = Plan.launch

    def watched(self: Plan, *arguments: Any) -> Any:
        seen.append(self.kernel.abi.name)
        return launch(self, *arguments)

    monkeypatch.setattr(Plan, "launch", watched)
    return seen


def native_or_skip(function: Any) -> Any:
    """The function; the test is skipped where all calls go through Python."""
    if type(function) is tilec.JitFunction:
        pytest.skip("this interpreter has no native launches")
    return function


def test_warm_calls_go_to_the_driver(through_python: list[str]) -> None:
    a, b, d = integers(200, 72), integers(136, 72), integers(200, 136)
    function: Any = native_or_skip(fresh_gemm())
    kernel = function.kernel(a, b)
    for call in (lambda: function(a, b, out=d), lambda: function(a, b), lambda: kernel(a, b, d)):
        made = None
        for turn in range(12):
            if turn == 8:  # torch's allocator gives new outputs the same few addresses by now
                del through_python[:]
            d.fill_(float("nan"))
            made = call()
            check(d if made is None else made, a, b)
        assert through_python == []


def test_new_tensors_are_looked_at_once(through_python: list[str]) -> None:
    b = integers(136, 72)
    function: Any = native_or_skip(fresh_gemm())
    pairs = [(integers(200, 72), integers(200, 136)) for _ in range(4)]
    function(pairs[0][0], b, out=pairs[0][1])  # a function that is called once is not prepared for more
    del through_python[:]
    for a, d in pairs:
        function(a, b, out=d)
    assert len(through_python) == 4
    for _ in range(3):
        for a, d in pairs:
            d.fill_(float("nan"))
            assert function(a, b, out=d) is d
            check(d, a, b)
    assert len(through_python) == 4


def test_several_outputs_are_made_anew() -> None:
    a, b = integers(200, 72), integers(136, 72)
    kept = [gemm_both_ways(a, b) for _ in range(4)]
    assert len({t.data_ptr() for pair in kept for t in pair}) == 8
    for d, c in kept:
        check(d, a, b)
        check(c, b, a, "f32")


def test_a_global_is_looked_at_in_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    scaled: Any = tilec.jit(pipeline=PIPELINE)(jit_kernels.scaled)
    a, b, d = integers(200, 72), integers(136, 72), integers(200, 136)
    for factor in (2.0, 2.0, 3.0, 3.0, 2.0, 1.0, 2.0):
        monkeypatch.setattr(jit_kernels, "FACTOR", factor)
        for _ in range(2):
            d.fill_(float("nan"))
            check(scaled(a, b, out=d), factor * a, b)
            check(scaled(a, b), factor * a, b)
    monkeypatch.delattr(jit_kernels, "FACTOR")
    for _ in range(2):
        with pytest.raises(tilec.TilecError, match="FACTOR"):
            scaled(a, b, out=d)


def warm_up() -> tuple[Any, Any, Any]:
    """Tensors that `gemm` was called with more than once."""
    a, b, d = integers(200, 72), integers(136, 72), integers(200, 136)
    for _ in range(3):
        gemm(a, b, out=d)
        gemm(a, b)
    finish()
    return a, b, d


REFUSED: dict[str, tuple[Callable[[Any, Any, Any], Any], str]] = {
    "one tensor": (lambda a, b, d: gemm(a, out=d), "product takes 2 tensors (A, B), not 1"),
    "three tensors": (lambda a, b, d: gemm(a, b, d), "product takes 2 tensors (A, B), not 3"),
    "two outputs": (lambda a, b, d: gemm(a, b, out=(d, d)), "product has 1 outputs (D), not 2"),
    "twice": (lambda a, b, d: gemm(a, b, A=a), "product got two values for A"),
    "a negated view": (
        lambda a, b, d: gemm(torch._neg_view(a), b, out=d),
        "argument A is a negated view: its memory does not hold its values",
    ),
    "no tensor": (lambda a, b, d: gemm(a, 5, out=d), "argument B is an int, not a tensor"),
    "another element type": (
        lambda a, b, d: gemm(a.view(torch.bfloat16), b.view(torch.bfloat16), out=d),
        "argument D holds f16; the kernel takes bf16",
    ),
    "integers": (
        lambda a, b, d: gemm(a.view(torch.int16), b, out=d),
        "argument A holds int16; a view holds f16, bf16 or f32",
    ),
}


@pytest.mark.parametrize("which", REFUSED)
def test_refused_where_a_like_call_is_warm(which: str) -> None:
    call, text = REFUSED[which]
    a, b, d = warm_up()
    for _ in range(2):
        with pytest.raises(tilec.TilecError) as caught:
            call(a, b, d)
        assert str(caught.value).splitlines()[0].partition("error: ")[2] == text
    check(gemm(a, b, out=d), a, b)


def test_memory_that_was_freed_is_refused() -> None:
    a, b, d = warm_up()
    size = a.untyped_storage().nbytes()
    a.untyped_storage().resize_(0)
    with pytest.raises(tilec.TilecError, match="argument A reaches 28800 bytes into its storage, which has 0"):
        gemm(a, b, out=d)
    a.untyped_storage().resize_(size)
    a.copy_(integers(200, 72))
    check(gemm(a, b, out=d), a, b)


def test_shapes_that_change_in_place() -> None:
    a, b, d = warm_up()
    values = a.clone()
    a.resize_(100, 72)
    check(gemm(a, b), values[:100], b)
    with pytest.raises(tilec.TilecError, match="arguments A and D disagree about M"):
        gemm(a, b, out=d)
    a.resize_(200, 72)
    check(gemm(a, b, out=d), values, b)
    turned = integers(72, 200)
    a.set_(turned.t())
    check(gemm(a, b, out=d), turned.t(), b)


def test_subclasses_of_tensors() -> None:
    class Plain(torch.Tensor):
        pass

    a, b, d = warm_up()
    check(gemm(a.as_subclass(Plain), b, out=d), a, b)
    weight = torch.nn.Parameter(b, requires_grad=False)
    for _ in range(3):
        d.fill_(float("nan"))
        check(gemm(a, weight, out=d), a, b)


PLAIN = """
import tilec, torch
from pathlib import Path
import runpy, sys
gemm = runpy.run_path(sys.argv[1])["gemm"]
a, b = (torch.randint(-2, 3, (rows, 136), device="cuda").half() for rows in (200, 264))
d = torch.empty(200, 264, dtype=torch.float16, device="cuda")
for _ in range(3):
    d.fill_(float("nan"))
    for got in (gemm(a, b, out=d), gemm(a, b)):
        assert torch.equal(got, (a.double() @ b.double().t()).half())
print("right")
"""


def test_without_the_native_launcher() -> None:
    example = jit_kernels.EXAMPLES / "gemm.py"
    ran = subprocess.run(
        [sys.executable, "-c", PLAIN, str(example)],
        capture_output=True,
        text=True,
        timeout=80,
        env={**os.environ, "TILEC_NATIVE_LAUNCH": "0"},
    )
    assert ran.stdout == "right\n", ran.stderr


def test_both_ways_give_the_same_bits() -> None:
    """Random numbers, so that the order of the sums shows: the launch through Python and the one without it."""
    a, b = (torch.randn(rows, 520, device="cuda").half() for rows in (1000, 1016))
    function: Any = fresh_gemm()
    cold = function(a, b)
    finish()
    d = torch.empty_like(cold)
    for _ in range(3):
        d.fill_(float("nan"))
        function(a, b, out=d)
        finish()
        assert torch.equal(d, cold)
        assert torch.equal(function(a, b), cold)
    assert float((cold.double() - a.double() @ b.double().t()).norm() / expected(a, b, "f32").norm()) < 1e-3
