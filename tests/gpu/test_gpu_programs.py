"""Programs of many shapes, not only GEMMs: what the passes make of each computes what the reference computes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness import finish, torch, torch_dtype

import tilec

sys.path.append(str(Path(__file__).parents[1] / "passes"))
from test_equivalence import Case
from tile_programs import NO_GRID, OVERWRITTEN_IN_LOOP, PROGRAMS, Program

from tilec.dialects.tile import KernelOp


def _pipelines(program: Program) -> list[str]:
    ends = [""] if program is NO_GRID else ["", ",persistent"]
    rings = ["", ",pipeline(2)", ",pipeline(4, lag=2)"] if "tile.for" in program.text else [""]
    return [f"{first}{ring}{end}" for first in ("tma(0)", "threads") for ring in rings for end in ends]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_program(program: Program) -> None:
    case = Case(program, {"M": 328, "N": 232, "K": 112, "L": 72})
    types = next(list(op.views) for op in case.module.walk() if isinstance(op, KernelOp))
    for pipeline in _pipelines(program):
        tensors = [_tensor(array, type.dtype.name, type.order) for array, type in zip(case.arrays, types, strict=True)]
        # For K = 0 one of them stores a tile that nothing has written, which the check refuses.
        kernel = tilec.compile(case.module, pipeline=pipeline, check=program is not OVERWRITTEN_IN_LOOP)
        # Few CTAs: each goes through many tiles.
        kernel(*tensors, **({"max_ctas": 3} if "persistent" in pipeline else {}))
        finish(f"{program.name} by {pipeline}")
        for got, wanted in zip(tensors[-program.outputs :], case.expected, strict=True):
            np.testing.assert_array_equal(got.float().cpu().numpy(), np.asarray(wanted, np.float32), err_msg=pipeline)


def _tensor(array: Any, dtype: str, order: tuple[int, ...]) -> Any:
    """On the GPU, its dimensions in the order of the view."""
    tensor = torch.from_numpy(np.asarray(array, np.float32)).to("cuda", torch_dtype(dtype))
    return tensor.t().contiguous().t() if order == (0, 1) else tensor
