"""Kernels of `unproved/` that are wrong, or that the proof cannot follow: none of them may be called proved."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilec.backend import simulator
from tilec.backend.kernels import find_kernel
from tilec.backend.protocol import check
from tilec.backend.protocol.inputs import integer_inputs
from tilec.diagnostics import TilecError
from tilec.source import parse_file

KERNELS = sorted((Path(__file__).parent / "unproved").glob("*.tile"))


@pytest.mark.parametrize("file", KERNELS, ids=lambda file: file.stem)
def test_none_is_proved(file: Path) -> None:
    try:
        status = check(parse_file(file)).status
    except TilecError:  # refused as a program
        return
    assert status != "proved"


def test_there_are_some() -> None:
    assert len(KERNELS) > 30


def test_a_schedule_that_is_asked_twice() -> None:
    """Right, and slow: the tile's place is asked for again in each iteration over K."""
    module = parse_file(Path(__file__).parent / "schedule_asked_twice.tile")
    assert check(module).status == "proved"
    arrays = integer_inputs(find_kernel(module, None), {"M": 256, "N": 128, "K": 128})
    assert simulator.run(module, arrays, ctas=1).tiles == 2
