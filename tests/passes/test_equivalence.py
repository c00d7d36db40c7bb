"""Every pass keeps a program's meaning: integer-valued inputs give the same numbers after each pass as before all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from ordering import check_ordering
from tile_programs import NO_GRID, PROGRAMS, Program
from xdsl.dialects.builtin import ModuleOp

from tilec.backend.reference import run
from tilec.context import make_context
from tilec.diagnostics import collect
from tilec.dialects.tile import KernelOp
from tilec.driver import run_pass
from tilec.source import parse_text
from tilec.spec import parse_pipeline

Array = npt.NDArray[np.generic]

EXTENTS = {"M": 130, "N": 104, "K": 80, "L": 40}


def inputs(module: ModuleOp, program: Program, extents: dict[str, int]) -> list[Array]:
    """Small whole numbers in the inputs, a number that no program computes in the outputs."""
    kernel = next(op for op in module.walk() if isinstance(op, KernelOp))
    random = np.random.default_rng(7)
    arrays: list[Array] = []
    for place, type in enumerate(kernel.views):
        shape = [extents[d] if isinstance(d, str) else d or 0 for d in type.dims]
        values = random.integers(-2, 3, shape).astype(np.float32)
        if place >= len(kernel.views) - program.outputs:
            values[...] = -999
        arrays.append(values.astype(np.float16) if type.dtype.name == "f16" else values)
    return arrays


def outputs(module: ModuleOp, program: Program, arrays: Sequence[Array], ctas: int) -> list[Array]:
    copies = [array.copy() for array in arrays]
    run(module, copies, ctas=ctas)
    return copies[len(copies) - program.outputs :]


def check(program: Program, pipeline: str, extents: dict[str, int] | None = None, ctas: int = 3) -> None:
    """Run the program after every prefix of a pipeline."""
    module = parse_text(program.text)
    context = make_context()
    arrays = inputs(module, program, extents or EXTENTS)
    expected = outputs(module, program, arrays, ctas)
    with collect():
        for one in parse_pipeline(pipeline):
            run_pass(one, module, context)
            for got, wanted in zip(outputs(module, program, arrays, ctas), expected, strict=True):
                np.testing.assert_array_equal(got, wanted, err_msg=f"after {one}")
    check_ordering(module, [array.copy() for array in arrays], ctas)


def _loops(program: Program) -> bool:
    return "tile.for" in program.text


def _pipelines(program: Program) -> list[str]:
    persistent = "" if program is NO_GRID else ",persistent"
    asynchronous = ["tma(0)", "tma", "threads"]
    if not _loops(program):
        return [f"{first}{persistent}" for first in asynchronous]
    rings = ["1", "2", "3", "4, lag=2", "2, lag=1", "5"]
    return [f"{first},pipeline({ring}){persistent}" for first in asynchronous for ring in rings]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_all_pipelines(program: Program) -> None:
    for pipeline in _pipelines(program):
        check(program, pipeline)
