"""One GEMM through every schedule: shapes, depths, grids and element types."""

from __future__ import annotations

import pytest
from harness import FAST, Errors, kernel, problem

DEPTHS = (1, 2, 3, 4, 5)
PIPELINES = [
    "",
    "tma",
    "tma,persistent",
    *(f"tma,pipeline({depth})" for depth in DEPTHS),
    *(f"tma,pipeline({depth}),persistent" for depth in DEPTHS),
]
RETILED = "retile(128,256,64),tma,pipeline(4),persistent"
SHAPES = [
    (128, 128, 64),
    (256, 128, 192),
    (64, 64, 16),
    (200, 136, 72),
    (1000, 1016, 520),
    (4096, 4096, 4096),
    (8192, 8192, 512),
    (16, 8192, 8192),
    (256, 256, 8),
    (256, 256, 0),
]


def name(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


@pytest.mark.parametrize("shape", SHAPES, ids=name)
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_shapes(pipeline: str, dtype: str, shape: tuple[int, int, int], errors: Errors) -> None:
    errors.add(problem(*shape, dtype).run(kernel(pipeline, dtype)))


@pytest.mark.parametrize("shape", [s for s in SHAPES if s[2] <= 520], ids=name)
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_integers_are_exact(pipeline: str, dtype: str, shape: tuple[int, int, int]) -> None:
    problem(*shape, dtype, True).run(kernel(pipeline, dtype))


@pytest.mark.parametrize("shape", [*SHAPES, (4000, 4104, 4072)], ids=name)
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_retiled(dtype: str, shape: tuple[int, int, int], errors: Errors) -> None:
    errors.add(problem(*shape, dtype).run(kernel(RETILED, dtype)))


@pytest.mark.parametrize("out", ["f16", "bf16", "f32"])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("pipeline", ["tma", "tma,pipeline(2),persistent", RETILED.replace("(4)", "(2)")])
def test_output_types(pipeline: str, dtype: str, out: str, errors: Errors) -> None:
    for shape in ((256, 128, 192), (200, 136, 72), (1000, 1016, 520)):
        errors.add(problem(*shape, dtype).run(kernel(pipeline, dtype, out), out))
        problem(*shape, dtype, True).run(kernel(pipeline, dtype, out), out)


@pytest.mark.parametrize("ctas", [1, 7, None], ids=["1 CTA", "7 CTAs", "all SMs"])
@pytest.mark.parametrize("depth", DEPTHS)
def test_persistent_grids(depth: int, ctas: int | None, errors: Errors) -> None:
    persistent = kernel(f"tma,pipeline({depth}),persistent")
    for shape in ((1000, 1016, 520), (640, 384, 320), (2048, 1152, 192)):
        errors.add(problem(*shape).run(persistent, max_ctas=ctas))
        problem(*shape, "f16", True).run(persistent, max_ctas=ctas)


@pytest.mark.parametrize("ctas", [1, 7, 100, 132, 148, 200, 256, 300])
def test_every_tile_is_written_once(ctas: int) -> None:
    problem(2048, 2048, 64, "f16", True).run(kernel(FAST), max_ctas=ctas)


@pytest.mark.parametrize("depth", DEPTHS)
def test_phases_are_carried_from_tile_to_tile(depth: int) -> None:
    """Any number of K tiles, odd ones included, on CTAs that visit 12, 6, 3 or 1 tiles."""
    for k_tiles in range(10):
        case = problem(384, 512, 64 * k_tiles, "f16", True)
        for ctas in (1, 2, 4, 12):
            case.run(kernel(f"tma,pipeline({depth}),persistent"), max_ctas=ctas)
        case.run(kernel(f"tma,pipeline({depth})"))


@pytest.mark.parametrize("size", [1024, 1152, 1280, 1536, 1664, 2048, 2560, 3072])
def test_groups_that_do_not_divide_the_tile_rows(size: int) -> None:
    problem(size, size, 128, "f16", True).run(kernel(FAST))


@pytest.mark.parametrize("pipeline", ["tma", FAST])
def test_smaller_than_a_tile(pipeline: str, errors: Errors) -> None:
    for m in (1, 3, 63, 64, 65):
        for n in (8, 16, 130):
            errors.add(problem(m, n, 128).run(kernel(pipeline)))


@pytest.mark.parametrize("pipeline", ["", "tma", "tma,pipeline(2)", FAST, RETILED])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_rows_off_the_16_byte_grid(dtype: str, pipeline: str, errors: Errors) -> None:
    for shape in ((256, 256, 4071), (1000, 1016, 511), (128, 471, 72)):
        errors.add(problem(*shape, dtype).run(kernel(pipeline, dtype)))
        problem(*shape, dtype, True).run(kernel(pipeline, dtype))
