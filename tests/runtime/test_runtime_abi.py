"""Real kernels up to the driver: the parameters of the PTX entry are those of the launch, and carry the tensors' numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
    monkeypatch.setattr("tilec.backend.ptxas.find_ptxas", lambda: None)
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


def test_an_abi_is_read_back() -> None:
    for pipeline in PIPELINES:
        abi = tilec.compile(EXAMPLES / "gemm.tile", pipeline=pipeline).compiled().abi
        assert KernelABI.from_json(abi.to_json()) == abi


def _changed(change: Callable[[Any], object]) -> str:
    raw = json.loads(tilec.compile(EXAMPLES / "gemm.tile", pipeline="tma").compiled().abi.to_json())
    change(raw)
    return json.dumps(raw)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda raw: raw.pop("threads"), "it has no field 'threads'"),
        (lambda raw: raw.update(colour=1), "it has an unknown field 'colour'"),
        (lambda raw: raw.update(threads="x"), "threads is a string, not an integer"),
        (lambda raw: raw.update(threads=True), "threads is true or false, not an integer"),
        (lambda raw: raw.update(threads=1.5), "threads is a number, not an integer"),
        (lambda raw: raw.update(views={}), "views is an object, not a list"),
        (lambda raw: raw.update(grid=3), "grid is an integer, not an object"),
        (lambda raw: raw["grid"].pop("step"), "grid has no field 'step'"),
        (lambda raw: raw["grid"].update(step=[1]), "1 steps over a view of rank 2"),
        (lambda raw: raw["grid"].update(view=3), "view 3 of 3"),
        (
            lambda raw: raw["views"][1].update(dims=[[], 1]),
            "views[1].dims[0] is a list, not an integer or a string or null",
        ),
        (lambda raw: raw["views"][1].update(dims=[]), "view B of rank 0 with order [1, 0]"),
        (lambda raw: raw["params"].append(None), "params[N] is of no known kind: tensor_map, pointer, extent, pitch"),
        (
            lambda raw: raw["params"][0].update(kind=["x"]),
            "params[0] is of no known kind: tensor_map, pointer, extent, pitch",
        ),
        (lambda raw: raw["params"][0].update(view=-1), "view -1 of 3"),
        (lambda raw: raw.update(outputs=[9]), "view 9 of 3"),
        (lambda raw: raw["smem"].append("x"), "smem[N] is a string, not an object"),
    ],
)
def test_a_text_that_is_no_abi(change: Callable[[Any], object], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        KernelABI.from_json(_changed(change))
    assert re.sub(r"\[[2-9]\]", "[N]", str(caught.value)) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", "Expecting value: line 1 column 1 (char 0)"),
        ("{}", "it has no field 'name'"),
        ("[]", "it is a list, not an object"),
        ("null", "it is null, not an object"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_text_that_is_nothing_like_an_abi(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        KernelABI.from_json(text)
    assert str(caught.value) == message
