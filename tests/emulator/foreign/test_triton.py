"""Triton's kernels, launched as Triton launches them, give on the emulator what NumPy says."""

from __future__ import annotations

import pytest

from .cases import DATA, Case
from .running import run
from .triton_cases import TRITON


@pytest.mark.parametrize("case", TRITON.cases, ids=lambda case: case.name)
def test_result(case: Case) -> None:
    run(case)


def test_every_kernel_has_a_case() -> None:
    assert {path.stem for path in (DATA / "triton").glob("*.ptx")} == {case.name for case in TRITON.cases}
