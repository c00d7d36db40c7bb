"""CUDA C++ kernels, compiled by nvcc, give on the emulator what NumPy says."""

from __future__ import annotations

import pytest

from . import nvcc_control, nvcc_floats, nvcc_libraries, nvcc_memory, nvcc_products, nvcc_words
from .cases import DATA, Case
from .running import run

MODULES = (nvcc_control, nvcc_floats, nvcc_libraries, nvcc_memory, nvcc_products, nvcc_words)
CASES = [case for module in MODULES for case in module.NVCC.cases]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_result(case: Case) -> None:
    run(case)


def test_every_kernel_has_a_case() -> None:
    kernels = {
        (f"nvcc/{path.name}", line.split("(")[0].split()[-1])
        for path in (DATA / "nvcc").glob("*.ptx")
        for line in path.read_text(errors="replace").splitlines()
        if line.startswith(".visible .entry") and "EmptyKernel" not in line  # CUB's, which does nothing
    }
    # Under fast math only the functions keep a meaning that can be checked.
    meaningless = {("nvcc/math.sm_90a.fast.ptx", name) for name in ("exact_floats", "double_functions")}
    assert kernels - meaningless == {(case.file, case.entry) for case in CASES}
