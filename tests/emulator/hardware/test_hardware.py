"""The emulator against hardware: each case of the suite gives the bits that an H200 gave.

The recording is `tests/data/hardware/h200.npz`, made by `tests/gpu/record_hardware.py`. Approximate functions are compared within
the errors that the ISA states.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from record_hardware import digest
from suite import all_cases
from suite.cases import Argument, Array, Bound, Case, MapArgument, array_of

import tilec
from tilec.backend.emulator.faults import EmulatorFault, UnsupportedInstruction

DATA = Path(__file__).resolve().parents[2] / "data" / "hardware"
CASES = all_cases()
FAMILIES = {
    "approximate", "atomics", "barriers", "bits", "clusters", "comparison", "control", "conversion", "copies", "f32", "f64",
    "half", "integer", "matrix", "matrix_rounding", "memory", "registers", "system", "tensor_atoms", "tensor_bytes",
    "tensor_element_strides", "tensor_forbidden", "tensor_im2col", "tensor_im2col_store", "tensor_interleave",
    "tensor_load", "tensor_narrow", "tensor_reduce", "tensor_store", "tensor_unspecified", "tensormap", "video", "warp",
    "wgmma", "wgmma_sparse", "wgmma_special",
}  # fmt: skip


def _report() -> dict[str, Any]:
    path = DATA / "h200.json"
    return json.loads(path.read_text()) if path.exists() else {"cases": {}}


REPORT = _report()
RECORDED = np.load(DATA / "h200.npz") if (DATA / "h200.npz").exists() else None

EXACT = {name: case for name, case in CASES.items() if case.family != "tensor_bytes" and not case.forbidden}
BYTES = {name: case for name, case in CASES.items() if case.family == "tensor_bytes"}
FORBIDDEN = {name: case for name, case in CASES.items() if case.forbidden}
STOPS_BY_NAME = {
    "load_interleave_16B", "load_interleave_16B_3d", "load_interleave_32B", "store_interleave_16B",
    "load_interleave_16B_swizzle",
}  # fmt: skip
"""What the emulator does not execute, and says so."""


def _require_recording(case: Case) -> None:
    outcome = REPORT["cases"].get(case.name)
    if outcome is None or RECORDED is None:
        pytest.skip(f"{case.name} has not been recorded")
    if outcome["status"] != "ran":
        pytest.skip(f"{case.name} gave no evidence: {outcome['status']}: {outcome['message']}")
    if outcome["digest"] != digest(case):
        pytest.skip(f"{case.name} was recorded with another text or other arguments")


def _emulate(case: Case) -> list[Argument]:
    """Run the case; the arguments with what it wrote."""
    arguments = case.seeded()
    given = [_given(argument) for argument in arguments]
    tilec.emulate(
        case.ptx, case.entry, case.grid, case.block, given, cluster=case.cluster, dynamic_smem=case.dynamic_smem
    )
    return arguments


@pytest.mark.parametrize("case", FORBIDDEN.values(), ids=FORBIDDEN.keys())
def test_what_the_isa_forbids_is_a_fault(case: Case) -> None:
    with pytest.raises(EmulatorFault):
        _emulate(case)


@pytest.mark.parametrize("case", BYTES.values(), ids=BYTES.keys())
def test_byte_counts(case: Case) -> None:
    """Where hardware completes the phase, so does the emulator; where it does not, a copy is left behind at the end."""
    _require_recording(case)
    assert RECORDED is not None
    if not RECORDED[f"{case.name}/1"].any():
        assert not np.any(array_of(_emulate(case)[1]))
    else:
        with pytest.raises(EmulatorFault):
            _emulate(case)


@pytest.mark.parametrize("case", EXACT.values(), ids=EXACT.keys())
def test_as_hardware(case: Case) -> None:
    if case.name in STOPS_BY_NAME:
        with pytest.raises(UnsupportedInstruction):
            _emulate(case)
        return
    _require_recording(case)
    if case.disputed:
        pytest.skip(f"{case.name}: {case.disputed}")
    assert RECORDED is not None
    arguments = _emulate(case)
    for index, (argument, before) in enumerate(zip(arguments, case.seeded(), strict=True)):
        array, unchanged = array_of(argument), array_of(before)
        if array is None or unchanged is None:
            continue
        key = f"{case.name}/{index}"
        expected = RECORDED[key] if key in RECORDED.files else unchanged
        if case.bounds and index == len(arguments) - 1:
            _assert_within(case, array, expected)
        else:
            _assert_same_bits(case, index, array, expected)


def _given(argument: Argument) -> Any:
    """The argument as the package takes it; a tensor within a larger array is a view of it."""
    if not isinstance(argument, MapArgument):
        return argument
    view = argument.array
    if argument.shape is not None:
        view = view[tuple(slice(0, extent) for extent in argument.shape)]
    fields = {name: value for name, value in vars(argument).items() if name not in ("array", "box", "shape", "im2col")}
    if argument.im2col is not None:
        return tilec.TensorMap.im2col(view, **vars(argument.im2col), **fields)
    return tilec.TensorMap(view, argument.box, **fields)


def _assert_same_bits(case: Case, index: int, got: Array, expected: Array) -> None:
    left, right = (a.reshape(-1).view(np.uint8) for a in (got, expected))
    if not np.array_equal(left, right):
        size = got.itemsize
        wrong = np.unique(np.flatnonzero(left != right) // size)
        a, b = (v.reshape(-1, size)[wrong[:8]] for v in (left, right))
        shown = ", ".join(
            f"[{i}] {x[::-1].tobytes().hex()} not {y[::-1].tobytes().hex()}"
            for i, x, y in zip(wrong, a, b, strict=False)
        )
        threads = case.grid[0] * case.block[0]
        columns = sorted({int(i) // threads for i in wrong})[:20]
        pytest.fail(
            f"{case.name}: argument {index}: {len(wrong)} of {len(left) // size} differ: {shown}; columns {columns}"
        )


def _assert_within(case: Case, got: Array, expected: Array) -> None:
    threads = case.grid[0] * case.block[0]
    rows = [(a.reshape(-1, threads)) for a in (got, expected)]
    at = 0
    for column, bound in enumerate(case.bounds):
        words = 2 if bound.format == "f64" else 1
        a, b = (_numbers(r[at : at + words], bound) for r in rows)
        at += words
        nan = np.isnan(b)
        assert np.array_equal(np.isnan(a), nan), f"{case.name}: column {column}: NaN"
        with np.errstate(all="ignore"):
            allowed = np.maximum(bound.ulps * _ulp(b, bound), bound.absolute)
            wrong = ~nan & (a != b) & ~(np.abs(a - b) <= allowed)
        assert not wrong.any(), f"{case.name}: column {column}: {a[wrong][:4]} not {b[wrong][:4]}"


def _numbers(words: Array, bound: Bound) -> Array:
    """Columns of 32-bit words as float64 numbers of a format."""
    if bound.format == "f64":
        low, high = words.astype(np.uint64)
        return (high << np.uint64(32) | low).view(np.float64)
    flat = np.ascontiguousarray(words.reshape(-1))
    match bound.format:
        case "f32":
            return flat.view(np.float32).astype(np.float64)
        case "f16":
            return flat.astype(np.uint16).view(np.float16).astype(np.float64)
        case "bf16":
            return (flat << np.uint32(16)).view(np.float32).astype(np.float64)
        case "f16x2":
            return flat.view(np.float16).astype(np.float64)
        case "bf16x2":
            return (flat.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
        case _:
            raise ValueError(bound.format)


def _ulp(values: Array, bound: Bound) -> Array:
    digits = {"f16": 11, "f16x2": 11, "bf16": 8, "bf16x2": 8, "f32": 24, "f64": 53}[bound.format]
    smallest = {"f16": -24, "f16x2": -24, "bf16": -133, "bf16x2": -133, "f32": -149, "f64": -1074}[bound.format]
    exponent = np.frexp(np.where(np.isfinite(values), values, 0.0))[1]
    return np.ldexp(1.0, np.maximum(exponent - digits, smallest))


def test_families_are_complete() -> None:
    assert {case.family for case in CASES.values()} == FAMILIES


def test_arguments_are_the_same_each_time() -> None:
    for case in CASES.values():
        assert digest(case) == digest(case)


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas is not installed")
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_assembles(family: str, tmp_path: Path) -> None:
    for case in CASES.values():
        if case.family == family:
            text = tmp_path / f"{case.name}.ptx"
            text.write_text(case.ptx)
            command = ["ptxas", "-arch=sm_90a", "-O1", str(text), "-o", str(tmp_path / "out")]
            ended = subprocess.run(command, capture_output=True, text=True)
            assert ended.returncode == 0, f"{case.name}: {ended.stderr[:1000]}"
