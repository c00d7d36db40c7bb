"""What is said of a compiled kernel, beside what the driver says of it."""

from __future__ import annotations

from typing import Any

import pytest
from harness import torch
from jit_kernels import fresh_gemm, gemm, gemm_both_ways, integers, scaled_gemm

import tilec
from tilec.backend.ptxas import find_ptxas
from tilec.backend.runtime.driver import cuda_driver

KERNELS = {"gemm": gemm, "scaled": scaled_gemm, "both ways": gemm_both_ways}


def loaded(variant: Any) -> Any:
    """The driver's function of a variant, ready to be launched."""
    artifact, driver = variant.artifact, cuda_driver()
    function = driver.load(artifact.machine.cubin, artifact.abi.name)
    driver.reserve_smem(function, artifact.abi.smem_bytes)
    return function


@pytest.mark.skipif(find_ptxas() is None, reason="no ptxas is installed")
@pytest.mark.parametrize("which", KERNELS)
def test_resources_are_those_that_the_driver_sees(which: str) -> None:
    bindings: Any = pytest.importorskip("cuda.bindings.driver")
    attributes = bindings.CUfunction_attribute

    def attribute(function: Any, name: str) -> int:
        status, value = bindings.cuFuncGetAttribute(getattr(attributes, f"CU_FUNC_ATTRIBUTE_{name}"), function)
        assert int(status) == 0
        return int(value)

    a, b = integers(200, 72), integers(136, 72)
    KERNELS[which](a, b)
    resources = KERNELS[which].resources
    variant = KERNELS[which].variant(a, b)
    assert resources == variant.resources
    driver = cuda_driver()
    with driver.current(torch.cuda.current_device()):
        function = loaded(variant)
        assert resources.ctas_per_sm == driver.occupancy(function, resources.threads, resources.smem_bytes)
        assert resources.registers == attribute(function, "NUM_REGS")
        assert resources.stack_bytes == attribute(function, "LOCAL_SIZE_BYTES")
        assert resources.threads <= attribute(function, "MAX_THREADS_PER_BLOCK")
    assert resources.spill_store_bytes == resources.spill_load_bytes == 0
    torch.cuda.synchronize()


def test_stages_are_those_of_the_pipeline() -> None:
    a, b = integers(200, 72), integers(136, 72)
    gemm(a, b)
    assert gemm.resources.stages == 2
    gemm_both_ways(a, b)
    assert gemm_both_ways.resources.stages == 1
    torch.cuda.synchronize()


def test_machine_instructions() -> None:
    function: Any = fresh_gemm()
    a, b = integers(200, 72), integers(136, 72)
    function(a, b)
    try:
        sass = function.asm["sass"]
    except tilec.TilecError as error:
        pytest.skip(str(error))
    matrix = "HGMMA" if torch.cuda.get_device_capability()[0] == 9 else "UTCHMMA"
    assert matrix in sass and "UTMALDG" in sass and "UTMASTG" in sass and "EXIT" in sass
    assert list(function.asm) == ["llvm", "ptx", "sass"]
    assert "define" in function.asm["llvm"]
    torch.cuda.synchronize()
