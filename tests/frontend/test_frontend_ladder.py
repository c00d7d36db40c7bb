"""The ladder of programs as Python functions: each is its .tile file, operation for operation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import python_ladder
from ir_text import canonical, kernel_of

from tilec.frontend.function import Function
from tilec.frontend.lowering import lower
from tilec.source import parse_file

_TESTS = Path(__file__).parents[1]
_EXAMPLES = _TESTS.parent / "examples"
LADDER: dict[str, tuple[Callable[..., Any], Path]] = {
    "gemm": (python_ladder.gemm, _EXAMPLES / "gemm.tile"),
    "bias_relu": (python_ladder.bias_relu, _EXAMPLES / "bias_relu.tile"),
    "step4": (python_ladder.step4, _EXAMPLES / "step4_tma.tile"),
    "step5": (python_ladder.step5, _EXAMPLES / "step5_pipeline.tile"),
    "step6": (python_ladder.step6, _EXAMPLES / "step6_persistent.tile"),
    "step7": (python_ladder.step7, _TESTS / "protocol" / "step7_roles.tile"),
}


@pytest.mark.parametrize("step", LADDER)
def test_the_function_is_its_tile_file(step: str) -> None:
    function, file = LADDER[step]
    parsed = parse_file(file)
    inputs = kernel_of(parsed).views[:-1]
    lowered = lower(Function.read(function), [view.dtype.name for view in inputs], {})
    assert canonical(lowered.module) == canonical(parsed)


def test_different_programs_have_different_texts() -> None:
    """What is compared is more than nothing."""
    assert len({canonical(parse_file(file)) for _, file in LADDER.values()}) == len(LADDER)
