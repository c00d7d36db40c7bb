"""Every operation knows its line, and keeps it through copies and passes."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tile_corpus import TEXTS
from tile_strategies import texts
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.printer import Printer
from xdsl.traits import IsTerminator

from tilec.context import make_context
from tilec.diagnostics import location_of, resolve
from tilec.driver import compile_module
from tilec.passes import PASSES
from tilec.source import parse_file, parse_text

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PROGRAMS = {**TEXTS, **{path.stem: path.read_text() for path in sorted(EXAMPLES.glob("*.tile"))}}


def misplaced(module: ModuleOp, text: str) -> list[Operation]:
    """Operations whose name does not stand where their location says."""
    lines = text.split("\n")

    def stands(op: Operation) -> bool:
        at = location_of(op)
        if isinstance(op, ModuleOp):
            return at is not None
        # A terminator that nobody wrote is at some line of its block.
        written = not op.has_trait(IsTerminator) or op.operands
        return at is not None and (not written or lines[at.line - 1][at.column - 1 :].startswith(op.name))

    return [op for op in module.walk() if not stands(op)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_locations_survive_copies_and_clean_up(name: str) -> None:
    text = PROGRAMS[name]
    module = parse_text(text, name)
    assert not misplaced(module, text)
    copy = module.clone()
    assert [location_of(op) for op in copy.walk()] == [location_of(op) for op in module.walk()]
    for clean_up in ("canonicalize", "cse", "dce"):
        PASSES[clean_up]()().apply(make_context(), copy)
    assert not misplaced(copy, text)


def test_a_location_is_the_place_of_the_operations_name() -> None:
    module = parse_text("tile.kernel @f(%A: !tile.view<MxKxf16>) {\n\n    %n = tile.dim %A, 1\n}", "f.tile")
    (dim,) = (op for op in module.walk() if op.name == "tile.dim")
    assert str(location_of(dim)) == "f.tile:3:10"
    assert str(location_of(dim.operands[0])) == "f.tile:1:16"


@given(texts, st.integers(1, 10**6), st.integers(1, 10**4))
def test_locations_can_be_written_down(file: str, line: int, column: int) -> None:
    module = parse_text("tile.kernel @f(%A: !tile.view<MxKxf16>) {\n  %n = tile.dim %A, 1 {note}\n}")
    at = FileLineColLoc(StringAttr(file), IntAttr(line), IntAttr(column))
    for op in module.walk():
        op.location = at
    out = StringIO()
    Printer(out, print_debuginfo=True).print_op(module)
    again = parse_text(out.getvalue())
    assert [op.location for op in again.walk()] == [at, at, at]


@pytest.mark.parametrize(
    "pipeline", ["retile(128,256,64)", "threads", "tma", "tma,pipeline(3)", "tma,pipeline(2),persistent"]
)
def test_what_passes_make_is_somewhere_in_the_source(pipeline: str) -> None:
    path = EXAMPLES / "gemm.tile"
    module = compile_module(parse_file(path), pipeline=pipeline, emit="tile").tile
    last = len(path.read_text().splitlines())
    for op in module.walk():
        at = resolve(op.location)
        assert at is not None, f"{op.name} has no location of its own"
        assert at.file == str(path) and 1 <= at.line <= last
