"""Python kernels in several threads, and the context that a call leaves behind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from harness import torch
from jit_kernels import expected, fresh_gemm, gemm, integers, product_by, watch_compilations

THREADS = 8


def together(work: Callable[[int], None]) -> None:
    """Run `work` in threads that begin at the same time; the first failure is raised here."""
    barrier = threading.Barrier(THREADS)

    def begin(number: int) -> None:
        barrier.wait()
        work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(begin, number) for number in range(THREADS)]:
            done.result()


def product_in_own_stream(function: Any, a: Any, b: Any) -> None:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        d = function(a, b)
        stream.synchronize()
        assert torch.equal(d, expected(a, b))


def test_first_calls_of_one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    compilations = watch_compilations(monkeypatch)
    function = fresh_gemm()
    problems = [(integers(100 + 8 * i, 72), integers(136, 72)) for i in range(THREADS)]
    torch.cuda.synchronize()
    together(lambda number: product_in_own_stream(function, *problems[number]))
    assert len(compilations) == 1


def test_first_calls_of_as_many_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    compilations = watch_compilations(monkeypatch)
    functions = [product_by(16 * (number + 1)) for number in range(THREADS)]
    a, b = integers(200, 72), integers(136, 72)
    torch.cuda.synchronize()
    together(lambda number: product_in_own_stream(functions[number], a, b))
    together(lambda number: product_in_own_stream(functions[-1 - number], a, b))
    assert len(compilations) == THREADS


def test_calls_in_streams_of_their_own() -> None:
    """Warm calls at the same time: with tensors of their own, and with inputs that all share."""
    shared = integers(136, 72)
    gemm(shared, shared)
    problems = [[(integers(8 * i + j + 1, 72), integers(72, 72)) for j in range(5)] for i in range(THREADS)]
    torch.cuda.synchronize()

    def work(number: int) -> None:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(10):
                made = [(gemm(a, b), gemm(a, shared), a, b) for a, b in problems[number]]
                stream.synchronize()
                for own, other, a, b in made:
                    assert torch.equal(own, expected(a, b))
                    assert torch.equal(other, expected(a, shared))

    together(work)


def test_outputs_given_in_threads() -> None:
    """One function, one pair of inputs, an output a thread: no call writes where another one's output is."""
    a, b = integers(200, 72), integers(136, 72)
    want = expected(a, b)
    outputs = [torch.empty_like(want) for _ in range(THREADS)]
    torch.cuda.synchronize()

    def work(number: int) -> None:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(20):
                outputs[number].fill_(float("nan"))
                gemm(a, b, out=outputs[number])
                stream.synchronize()
                assert torch.equal(outputs[number], want)

    together(work)


def test_the_context_is_as_it_was() -> None:
    """A thread that has no context has none after a call; torch's current device stays."""
    driver: Any = pytest.importorskip("cuda.bindings.driver")
    a, b = integers(200, 72), integers(136, 72)
    d = torch.empty(200, 136, dtype=torch.float16, device="cuda")
    seen: list[tuple[int, int]] = []

    def context() -> int:
        status, current = driver.cuCtxGetCurrent()
        assert int(status) == 0
        return int(current)

    def work() -> None:
        for function in (fresh_gemm(), gemm, gemm):
            before = context()
            function(a, b, out=d, stream=0)
            seen.append((before, context()))

    device = torch.cuda.current_device()
    torch.cuda.synchronize()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()
    assert len(seen) == 3 and all(before == after for before, after in seen)
    work()
    assert len(seen) == 6 and all(before == after != 0 for before, after in seen[3:])
    assert torch.cuda.current_device() == device
    torch.cuda.synchronize()
    assert torch.equal(d, expected(a, b))
