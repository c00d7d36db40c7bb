"""Rendering, locations and sinks of diagnostics."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    ModuleOp,
    NameLoc,
    NoneAttr,
    StringAttr,
)
from xdsl.dialects.test import TestOp as AnyOp
from xdsl.ir import Attribute, Block, Region
from xdsl.utils.exceptions import PassFailedException

from tilec.diagnostics import (
    Diagnostic,
    SourceLocation,
    TilecError,
    collect,
    did_you_mean,
    fail,
    location_of,
    one_line,
    register_source,
    remark,
    resolve,
    warn,
)
from tilec.pass_error import PassError


def _at(line: int, column: int, file: str = "f.tile") -> FileLineColLoc:
    return FileLineColLoc(StringAttr(file), IntAttr(line), IntAttr(column))


def test_rendering_shows_the_line_the_caret_the_hint_and_the_notes() -> None:
    register_source("f.tile", "first\n  second word\nthird")
    note = Diagnostic("note", "it began here", SourceLocation("f.tile", 1, 1))
    error = TilecError("wrong word", SourceLocation("f.tile", 2, 10), hint="use another", notes=(note,))
    assert str(error) == (
        "f.tile:2:10: error: wrong word\n"
        "  second word\n"
        "         ^\n"
        "hint: use another\n"
        "f.tile:1:1: note: it began here\n"
        "first\n"
        "^"
    )


def test_a_message_without_a_place() -> None:
    assert str(TilecError("no file", hint="name one")) == "error: no file\nhint: name one"


def test_tabs_and_carriage_returns_keep_the_caret_in_place() -> None:
    register_source("tabs.tile", "\tx\ty\r\n")
    assert Diagnostic("error", "m", SourceLocation("tabs.tile", 1, 4)).render() == (
        "tabs.tile:1:4: error: m\n\tx\ty\n\t \t^"
    )


def test_a_very_long_line_is_cut_around_the_caret() -> None:
    register_source("long.tile", "a" * 5000 + "!" + "b" * 5000)
    _, text, caret = Diagnostic("error", "m", SourceLocation("long.tile", 1, 5001)).render().split("\n")
    assert len(text) == 240
    assert text[caret.index("^")] == "!"


def test_the_line_is_read_from_the_file_if_nobody_registered_it(tmp_path: object) -> None:
    path = f"{tmp_path}/x.tile"
    with open(path, "w", encoding="utf-8") as file:
        file.write("one\ntwo\n")
    assert Diagnostic("error", "m", SourceLocation(path, 2, 3)).render() == f"{path}:2:3: error: m\ntwo\n  ^"


@pytest.mark.parametrize("place", [SourceLocation("/no/such/file", 1, 1), SourceLocation("f.tile", 99, 1)])
def test_a_line_that_is_not_there_is_left_out(place: SourceLocation) -> None:
    register_source("f.tile", "first")
    assert Diagnostic("error", "m", place).render() == f"{place}: error: m"


_HERE = SourceLocation("f.tile", 3, 4)


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        (_at(3, 4), _HERE),
        (NameLoc(StringAttr("loop"), _at(3, 4)), _HERE),
        (NameLoc(StringAttr("loop"), NoneAttr()), None),
        (CallSiteLoc(_at(3, 4), _at(1, 1)), _HERE),
        (CallSiteLoc(UNKNOWN_LOC, _at(3, 4)), _HERE),
        (FusedLoc((UNKNOWN_LOC, NameLoc(StringAttr("x"), _at(3, 4)), _at(9, 9)), NoneAttr()), _HERE),
        (FusedLoc(ArrayAttr[Attribute]([]), NoneAttr()), None),
        (UNKNOWN_LOC, None),
    ],
)
def test_file_positions_are_found_inside_locations(location: Attribute, expected: SourceLocation | None) -> None:
    assert resolve(location) == expected


def test_operations_and_values_without_a_location_are_at_their_parents() -> None:
    inner = AnyOp(result_types=[IntAttr(0)])
    block = Block([inner], arg_types=[IntAttr(0), IntAttr(0)])
    block.args[1].location = _at(7, 7)
    outer = AnyOp(regions=[Region(block)])
    outer.location = _at(3, 4)
    module = ModuleOp([outer])
    assert location_of(inner) == location_of(inner.results[0]) == location_of(block.args[0]) == _HERE
    assert location_of(block.args[1]) == SourceLocation("f.tile", 7, 7)
    assert location_of(module) is None
    inner.location = _at(5, 6)
    assert location_of(inner.results[0]) == SourceLocation("f.tile", 5, 6)


def test_fail_raises_an_error_that_is_ours_and_xdsls() -> None:
    op = AnyOp()
    op.location = _at(3, 4)
    with pytest.raises(PassError) as caught:
        fail(op, "cannot", hint="do not")
    assert isinstance(caught.value, TilecError)
    assert isinstance(caught.value, PassFailedException)
    assert caught.value.diagnostic == Diagnostic("error", "cannot", _HERE, "do not")


def test_remarks_go_to_the_innermost_collector_and_else_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    op = AnyOp()
    with collect() as outer:
        with collect() as inner:
            remark(op, "inside", hint="h")
        warn(op, "outside")
    remark(op, "nobody collects")
    assert inner == [Diagnostic("remark", "inside", None, "h")]
    assert outer == [Diagnostic("warning", "outside")]
    assert capsys.readouterr().err == "remark: nobody collects\n"


def test_did_you_mean() -> None:
    assert did_you_mean("pipelin", ["tma", "pipeline"]) == "did you mean 'pipeline'? known: tma, pipeline"
    assert did_you_mean("zzz", ["tma", "pipeline"]) == "known: tma, pipeline"
    many = [f"word{i}" for i in range(20)]
    assert did_you_mean("word3x", many) == "did you mean 'word3'?"
    assert did_you_mean("zzz", many) is None


def test_one_line() -> None:
    assert one_line(ValueError("a\n  b")) == "a b"
    assert one_line(RecursionError()) == "RecursionError"


def test_a_column_behind_the_line_has_no_caret() -> None:
    register_source("macro.cu", "SWAP(a, b);\n")
    place = SourceLocation("macro.cu", 1, 40)
    assert TilecError("wrong", place).diagnostic.render() == "macro.cu:1:40: error: wrong\nSWAP(a, b);"
