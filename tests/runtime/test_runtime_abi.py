"""Real kernels up to the driver: the parameters of the PTX entry are those of the launch, and carry the tensors' numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fake_compiler import sizes
from fake_driver import FakeDriver, FakeTensor, FakeTorch

import tilec
from tilec.backend.abi import ExtentParam, KernelABI, PitchParam, PointerParam, TensorMapParam

EXAMPLES = Path(__file__).parents[2] / "examples"
PIPELINES = ["", "tma", "tma,pipeline(2),persistent"]
TENSORS = {
    "row-major": [
        FakeTensor((200, 136), address=0x10000),
        FakeTensor((264, 136), address=0x80000),
        FakeTensor((200, 264), address=0x100000),
    ],
    "column slices": [
        FakeTensor((200, 470), (512, 1), address=0x10000),
        FakeTensor((471, 470), (512, 1), address=0x80000),
        FakeTensor((200, 471), (512, 1), address=0x100000),
    ],
    "transposed inputs": [
        FakeTensor((200, 136), (1, 200), address=0x10000),
        FakeTensor((264, 136), (1, 272), address=0x80000),
        FakeTensor((200, 264), address=0x100000),
    ],
    "off the grid": [
        FakeTensor((200, 135), address=0x10002),
        FakeTensor((265, 135), address=0x80000),
        FakeTensor((200, 265), address=0x100002),
    ],
}


def entry_parameters(ptx: str) -> list[tuple[int, int]]:
    """(bytes, alignment) of each parameter of the entry."""
    entry = re.search(r"\.entry\s+\w+\((.*?)\)", ptx, re.DOTALL)
    assert entry is not None
    found: list[tuple[int, int]] = []
    for line in entry[1].split(","):
        blob = re.search(r"\.param\s+\.align\s+(\d+)\s+\.b8\s+\w+\[(\d+)\]", line)
        scalar = re.search(r"\.param\s+\.[ubs](\d+)\s+(?:\.ptr.*\s)?\w+", line)
        if blob is not None:
            found.append((int(blob[2]), int(blob[1])))
        elif scalar is not None:
            found.append((int(scalar[1]) // 8, int(scalar[1]) // 8))
    return found


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_entry_declares_what_the_launch_passes(pipeline: str, target: str) -> None:
    compiled = tilec.compile(EXAMPLES / "gemm.tile", pipeline=pipeline).compiled(target=target)
    declared = entry_parameters(compiled.ptx)
    assert [size for size, _ in declared] == sizes(compiled.abi)
    assert all(alignment == 64 for size, alignment in declared if size == 128)


def expected(abi: KernelABI, index: int, tensors: list[FakeTensor]) -> int:
    parameter = abi.params[index]
    tensor = tensors[parameter.view]
    match parameter:
        case PointerParam():
            return tensor.data_ptr()
        case ExtentParam(dim=dim):
            return tensor.shape[dim]
        case PitchParam(dim=dim):
            return tensor.stride()[dim] * 2
        case TensorMapParam():
            raise AssertionError("a map is compared with what was encoded")


@pytest.mark.parametrize("tensors", TENSORS.values(), ids=TENSORS)
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_parameters_carry_the_tensors_numbers(
    pipeline: str, tensors: list[FakeTensor], driver: FakeDriver, torch: FakeTorch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilec.kernel.find_ptxas", lambda: None)
    kernel = tilec.compile(EXAMPLES / "gemm.tile", pipeline=pipeline, driver=driver)
    abi = kernel.compiled(*tensors).abi
    driver.sizes = sizes(abi)
    kernel(*tensors)
    (launched,) = driver.launched
    assert launched.shape.smem_bytes == abi.smem_bytes == driver.reserved[-1]
    for i, parameter in enumerate(abi.params):
        value = launched.parameters[i]
        if not isinstance(parameter, TensorMapParam):
            assert int.from_bytes(value, "little") == expected(abi, i, tensors)
            continue
        fields = driver.encoded[int.from_bytes(value[:2], "little") - 1]
        tensor = tensors[parameter.view]
        assert fields.address == tensor.data_ptr()
        assert fields.extents == tuple(tensor.shape[d] for d in parameter.order)
        assert fields.pitches == tuple(tensor.stride()[d] * 2 for d in parameter.order[1:])
        assert fields.box == parameter.box
