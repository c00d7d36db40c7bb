"""The IR that the tutorial shows is what the compiler prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tilec.driver import compile_module
from tilec.source import parse_file

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"```mlir pipeline=(?P<spec>\S*)\n(?P<lines>.*?)```", re.DOTALL)
BLOCKS = [(b["spec"], b["lines"].splitlines()) for b in _BLOCK.finditer((ROOT / "docs/tutorial.md").read_text())]


@pytest.mark.parametrize(("spec", "lines"), BLOCKS, ids=lambda v: v if isinstance(v, str) else "")
def test_lines_stand_in_this_order(spec: str, lines: list[str]) -> None:
    text = str(compile_module(parse_file(ROOT / "examples/gemm.tile"), pipeline=spec, emit="tile").tile)
    at = 0
    for line in lines:
        found = text.find(line, at)
        assert found >= 0, f"not after what came before: {line}"
        at = found + len(line)


def test_there_are_blocks_of_every_step() -> None:
    assert {spec for spec, _ in BLOCKS} >= {
        "",
        "tma",
        "tma,pipeline(2)",
        "tma,pipeline(3)",
        "tma,pipeline(2),persistent",
    }
