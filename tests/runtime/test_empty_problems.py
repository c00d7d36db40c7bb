"""Problems without rows, columns or products: nothing is launched for no element, and a sum over nothing is zero."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from fake_compiler import sizes
from fake_driver import FakeDriver, FakeTensor, FakeTorch
from gemm_text import gemm

import tilec
from tilec.backend.reference import Array
from tilec.diagnostics import TilecError, collect
from tilec.kernel import Kernel

PROBLEMS = list(product((0, 1, 64), repeat=3))
PIPELINES = ["", "threads", "tma", "tma,pipeline(2)", "tma,pipeline(2),persistent"]
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """That some copies are not by TMA is told elsewhere."""
    with collect():
        yield


@pytest.fixture(scope="module", params=PIPELINES)
def kernel(request: pytest.FixtureRequest) -> Kernel:
    return tilec.compile(gemm(), pipeline=request.param)


def numbers(rows: int, columns: int) -> Array:
    """Small integers, whose products f16 holds exactly."""
    return np.random.default_rng(rows * 1000 + columns).integers(-2, 3, (rows, columns)).astype(np.float16)


def expected(a: Array, b: Array) -> Array:
    return a.astype(np.float64) @ b.astype(np.float64).T


@pytest.mark.parametrize(("m", "n", "k"), PROBLEMS)
def test_every_element_is_computed_and_no_other(kernel: Kernel, m: int, n: int, k: int) -> None:
    """The output is a part of a larger array, all of NaN before."""
    a, b = numbers(m, k), numbers(n, k)
    around = np.full((m + 2, n + 16), np.nan, np.float16)
    kernel(a, b, around[1 : m + 1, 8 : n + 8])
    want = np.full(around.shape, np.nan)
    want[1 : m + 1, 8 : n + 8] = expected(a, b)
    assert np.array_equal(around, want, equal_nan=True)
    if k == 0:
        assert (around[1 : m + 1, 8 : n + 8] == 0).all()


def test_an_ordinary_problem_afterwards(kernel: Kernel) -> None:
    for m, n, k in ((64, 64, 0), (130, 200, 72), (0, 64, 64), (130, 200, 72)):
        a, b, d = numbers(m, k), numbers(n, k), np.full((m, n), np.nan, np.float16)
        kernel(a, b, d)
        assert np.array_equal(d, expected(a, b))


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_what_is_added_to_an_empty_sum_is_left(pipeline: str) -> None:
    run = tilec.compile(EXAMPLES / "bias_relu.tile", pipeline=pipeline)
    for m, n in product((1, 64), repeat=2):
        bias = np.random.default_rng(n).integers(-9, 9, n).astype(np.float32)
        d = np.full((m, n), np.nan, np.float16)
        run(numbers(m, 0), numbers(n, 0), bias, d)
        assert np.array_equal(d, np.broadcast_to(np.maximum(bias, 0), (m, n)))


def test_of_a_python_function() -> None:
    """Its outputs are made by the call, or given."""
    function = runpy.run_path(str(EXAMPLES / "gemm.py"))["gemm"]
    for m, n, k in PROBLEMS:
        a, b = numbers(m, k), numbers(n, k)
        made = function(a, b)
        assert made.shape == (m, n) and made.dtype == np.float16
        given = np.full((m, n), np.nan, np.float16)
        assert function(a, b, out=given) is given
        assert np.array_equal(made, expected(a, b)) and np.array_equal(given, expected(a, b))


def gpu_tensors(m: int, n: int, k: int) -> list[FakeTensor]:
    """As torch has them: what is empty has no address."""
    shapes = ((m, k), (n, k), (m, n))
    return [FakeTensor(s, address=0x100000 * (i + 1) if 0 not in s else 0) for i, s in enumerate(shapes)]


def test_what_the_driver_is_asked_for(driver: FakeDriver, torch: FakeTorch, monkeypatch: pytest.MonkeyPatch) -> None:
    """With real kernels, launched one after the other by one callable."""
    monkeypatch.setattr("tilec.backend.ptxas.find_ptxas", lambda: None)
    kernel = tilec.compile(gemm(), pipeline="tma", driver=driver)
    for m, n, k in PROBLEMS:
        tensors = gpu_tensors(m, n, k)
        if m and n:
            driver.sizes = sizes(kernel.variant(*tensors).artifact.abi)
        driver.launched.clear()
        kernel(*tensors)
        assert [one.shape.ctas for one in driver.launched] == [1] * (m > 0 and n > 0), (m, n, k)
        assert all(extent >= 1 for fields in driver.encoded for extent in fields.extents)
        assert all(fields.address for fields in driver.encoded)
        kernel(*tensors)  # remembered
        assert len(driver.launched) == 2 * (m > 0 and n > 0)
    assert driver.stack == []


def test_extents_are_checked_where_there_is_nothing_to_compute(driver: FakeDriver, torch: FakeTorch) -> None:
    kernel = tilec.compile(gemm(), driver=driver)
    a, b, d = gpu_tensors(0, 64, 64)
    with pytest.raises(TilecError) as caught:
        kernel(a, FakeTensor((64, 0), address=0), d)
    assert "arguments A and B disagree about K: dimension 1 of A has 64 elements, dimension 1 of B has 0" in str(
        caught.value
    )
    with pytest.raises(TilecError, match="argument A holds f32; the kernel takes f16"):
        kernel(FakeTensor((0, 64), dtype="float32", address=0), b, d)
    assert not driver.launched
