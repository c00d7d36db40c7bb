"""The ladder by hand and by passes: step 4, 5 and 6 of the lesson and what passes make of gemm.tile agree."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, UnknownLoc

from tilec.backend.simulator import run
from tilec.context import make_context
from tilec.dialects.tile import MbarrierInitOp
from tilec.driver import run_pass
from tilec.source import parse_file
from tilec.spec import parse_pipeline

LADDER = {
    "step4_tma": "tma",
    "step5_pipeline": "tma,pipeline(2)",
    "step6_persistent": "tma,pipeline(2),persistent",
}


def _by_passes(gemm: Path, pipeline: str) -> ModuleOp:
    module = parse_file(gemm)
    for one in parse_pipeline(pipeline):
        run_pass(one, module, make_context())
    return module


def _barriers(module: ModuleOp) -> list[tuple[int, int]]:
    return sorted((op.res.type.depth, op.count) for op in module.walk() if isinstance(op, MbarrierInitOp))


@pytest.mark.parametrize("step", LADDER)
@pytest.mark.parametrize("k", [0, 64, 200])
def test_step(step: str, k: int, examples: Path) -> None:
    by_hand = parse_file(examples / f"{step}.tile")
    by_passes = _by_passes(examples / "gemm.tile", LADDER[step])
    assert _barriers(by_hand) == _barriers(by_passes)
    random = np.random.default_rng(k)
    a, b = (random.standard_normal((rows, k)).astype(np.float16) for rows in (136, 256))
    results = [np.full((136, 256), np.nan, np.float16) for _ in range(2)]
    for module, result in zip((by_hand, by_passes), results, strict=True):
        run(module, [a, b, result], ctas=3)
    np.testing.assert_array_equal(results[0], results[1])


@pytest.mark.parametrize("pipeline", [*LADDER.values(), "threads,pipeline(3),persistent", "tma,pipeline(4),persistent"])
def test_every_operation_has_a_line(pipeline: str, examples: Path) -> None:
    module = parse_file(examples / "gemm.tile")
    for one in parse_pipeline(pipeline):
        one.apply(make_context(), module)
        for op in module.walk():
            assert not isinstance(op.location, UnknownLoc), f"{op.name} after {one.name}"
            for block in (block for region in op.regions for block in region.blocks):
                assert not any(isinstance(argument.location, UnknownLoc) for argument in block.args), f"in {op.name}"
