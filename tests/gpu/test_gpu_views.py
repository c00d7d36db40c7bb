"""Tensors that are views: slices, shifted bases, transposes, steps; every byte beside an output stays as it was."""

from __future__ import annotations

from typing import Any

import pytest
from harness import FAST, Buffer, Errors, Problem, finish, kernel, refused, torch

PIPELINES = ["tma", FAST]
SLICE = {"pitch": 512}


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_column_slices_as_inputs(dtype: str, pipeline: str, errors: Errors) -> None:
    errors.add(Problem(200, 136, 470, dtype, a=SLICE, b=SLICE).run(kernel(pipeline, dtype)))
    errors.add(Problem(128, 128, 511, dtype, a=SLICE, b=SLICE).run(kernel(pipeline, dtype)))


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize(("out", "width"), [("f16", 470), ("f32", 466), ("bf16", 471), ("f16", 464), ("f32", 468)])
def test_column_slices_as_outputs(pipeline: str, out: str, width: int, errors: Errors) -> None:
    for m in (32, 200):
        case = Problem(m, width, 72)
        errors.add(case.run(kernel(pipeline, "f16", out), out, d=SLICE))


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("shift", [1, 2, 4, 8], ids=lambda s: f"{2 * s} bytes")
@pytest.mark.parametrize("which", ["a", "b", "d", "abd"])
def test_shifted_bases(which: str, shift: int, pipeline: str, errors: Errors) -> None:
    options: dict[str, Any] = {name: {"shift": shift} for name in which}
    d = options.pop("d", None)
    errors.add(Problem(200, 136, 72, **options).run(kernel(pipeline), d=d))
    errors.add(Problem(256, 256, 192, **options).run(kernel(pipeline), d=d))


@pytest.mark.parametrize("pipeline", ["", *PIPELINES, "retile(128,256,64),tma,pipeline(4),persistent"])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("which", ["a", "b", "ab"])
def test_transposed_inputs(which: str, dtype: str, pipeline: str, errors: Errors) -> None:
    options: dict[str, Any] = {name: {"transposed": True} for name in which}
    for shape in ((256, 128, 192), (200, 136, 72), (1000, 1016, 520)):
        errors.add(Problem(*shape, dtype, **options).run(kernel(pipeline, dtype)))
        Problem(*shape, dtype, integers=True, **options).run(kernel(pipeline, dtype))


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_transposed_inputs_off_the_grid(pipeline: str, errors: Errors) -> None:
    transposed: dict[str, Any] = {"transposed": True}
    errors.add(Problem(201, 137, 71, a=transposed, b=transposed).run(kernel(pipeline)))
    errors.add(Problem(470, 200, 96, a={**transposed, "pitch": 512}).run(kernel(pipeline)))


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_transposed_output(pipeline: str, errors: Errors) -> None:
    errors.add(Problem(200, 136, 72).run(kernel(pipeline), d={"transposed": True}))
    errors.add(Problem(256, 256, 192).run(kernel(pipeline), d={"transposed": True}))


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_every_second_row(pipeline: str, errors: Errors) -> None:
    errors.add(Problem(200, 136, 72, a={"pitch": 144}, b={"pitch": 144}).run(kernel(pipeline), d={"pitch": 272}))


def test_one_row_for_all() -> None:
    case = Problem(256, 128, 192)
    row = case.a.tensor[:1].expand(256, 192)
    d = Buffer(256, 128, "f16")
    kernel(FAST)(row, case.b.tensor, d.tensor)
    finish()
    want = row.double() @ case.b.tensor.double().t()
    assert float((d.tensor.double() - want).norm() / want.norm()) < 1e-3


def test_views_that_no_kernel_takes() -> None:
    case = Problem(256, 128, 192)
    d = Buffer(256, 128, "f16")
    with refused("argument A: no dimension is contiguous"):
        kernel(FAST)(case.a.tensor[:, ::2], case.b.tensor[:, :96], d.tensor)
    with refused("argument D: its rows overlap"):
        kernel(FAST)(case.a.tensor, case.b.tensor, d.tensor[:1].expand(256, 128))
    with refused("arguments A and B disagree about K"):
        kernel(FAST)(case.a.tensor, case.b.tensor[:, :96], d.tensor)
    with refused("argument A holds bf16; the kernel takes f16"):
        kernel(FAST)(case.a.tensor.bfloat16(), case.b.tensor, d.tensor)
    with refused("arguments A and B are in different places: A on GPU 0, B in host memory"):
        kernel(FAST)(case.a.tensor, case.b.tensor.cpu(), d.tensor)
    d.poison()
    finish()
    d.check_beside()


def test_one_callable_over_changing_alignment() -> None:
    """The check is of the address at every call, not of the one that was compiled for."""
    flat = torch.randn(64 * 136 + 64, device="cuda").half()
    case = Problem(64, 128, 136)
    for offset in (0, 1, 2, 4, 8, 0):
        a = flat[offset : offset + 64 * 136].view(64, 136)
        d = Buffer(64, 128, "f16")
        kernel(FAST)(a, case.b.tensor, d.tensor)
        finish()
        want = a.double() @ case.b.tensor.double().t()
        assert float((d.tensor.double() - want).norm() / want.norm()) < 1e-3
