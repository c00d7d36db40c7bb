"""`Kernel.emulate`: a compiled kernel on NumPy arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilec


@pytest.fixture
def gemm(examples: Path) -> tilec.Kernel:
    return tilec.compile(examples / "gemm.tile", pipeline="tma,pipeline(2)")


def _matrices(m: int, n: int, k: int) -> tuple[Any, Any, Any]:
    random = np.random.default_rng(1)
    a, b = (random.integers(-2, 3, shape).astype(np.float16) for shape in ((m, k), (n, k)))
    return a, b, np.zeros((m, n), np.float16)


@pytest.mark.parametrize("order", ["fifo", "random", "adversarial"])
def test_product(gemm: tilec.Kernel, order: Any) -> None:
    a, b, d = _matrices(130, 72, 80)
    ran = gemm.emulate(a, b, d, target="sm_90a", order=order, seed=2)
    assert (d == a @ b.T).all()
    assert ran is not None
    assert ran.ctas == 2


def test_layouts_choose_the_variant(gemm: tilec.Kernel) -> None:
    """Transposed operands, a slice that starts off the 16-byte grid, and a result with a pitch."""
    a, b, _ = _matrices(64, 64, 96)
    wide = np.zeros((64, 80), np.float16)
    gemm.emulate(np.asfortranarray(a)[:, 5:], b[:, 5:], wide[:, 3:67])
    assert (wide[:, 3:67] == a[:, 5:] @ b[:, 5:].T).all()
    assert not wide[:, :3].any()
    assert not wide[:, 67:].any()


def test_no_tile(gemm: tilec.Kernel) -> None:
    assert gemm.emulate(*_matrices(0, 72, 80)) is None


def test_refused(gemm: tilec.Kernel) -> None:
    a, b, d = _matrices(64, 64, 64)
    for arrays, text in (
        ((a, b), "error: kernel gemm takes 3 arrays (A, B, D), not 2"),
        ((a, [1], d), "error: argument B is a list: the emulator takes NumPy arrays"),
        ((a, b.astype(np.float32), d), "error: argument B is an array of float32; a view of f16 is one of float16"),
        ((a, b[0], d), "error: argument B has 1 dimension; the kernel takes 2"),
    ):
        with pytest.raises(tilec.TilecError) as caught:
            gemm.emulate(*arrays)
        assert text in str(caught.value)
