"""Parsing: locations, what can be wrong with a file, and texts that nobody would write."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.printer import Printer

from tilec.diagnostics import InternalError, SourceLocation, TilecError, resolve
from tilec.source import parse_file, parse_text

_EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.tile"))


def _printed(module: ModuleOp, *, generic: bool = True, locations: bool = True) -> str:
    out = io.StringIO()
    Printer(out, print_generic_format=generic, print_debuginfo=locations).print_op(module)
    return out.getvalue()


def _op(module: ModuleOp, name: str) -> Operation:
    return next(op for op in module.walk() if op.name == name)


def _error(text: str, name: str = "t.tile") -> str:
    with pytest.raises(TilecError) as caught:
        parse_text(text, name)
    return str(caught.value)


# ---- locations


def test_every_operation_and_block_argument_knows_its_text() -> None:
    text = (
        "func.func @f(%x: i32, %c: i1) -> i32 {\n"
        "  %y, %z = arith.mulsi_extended %x, %x : i32\n"
        "\tcf.cond_br %c, ^bb1(%y : i32), ^bb1(%z : i32)\n"
        '^bb1(%r: i32): %é = "arith.addi"(%r, %r) : (i32, i32) -> i32\n'
        "  func.return %r : i32\n"
        "}"
    ).replace("%é", "%e")
    module = parse_text(text, "t.tile")
    found = {op.name: resolve(op.location) for op in module.walk()}
    assert found == {
        "builtin.module": SourceLocation("t.tile", 1, 1),
        "func.func": SourceLocation("t.tile", 1, 1),
        "arith.mulsi_extended": SourceLocation("t.tile", 2, 12),
        "cf.cond_br": SourceLocation("t.tile", 3, 2),
        "arith.addi": SourceLocation("t.tile", 4, 21),
        "func.return": SourceLocation("t.tile", 5, 3),
    }
    blocks = list(_op(module, "func.func").regions[0].blocks)
    assert [resolve(arg.location) for block in blocks for arg in block.args] == [
        SourceLocation("t.tile", 1, 14),
        SourceLocation("t.tile", 1, 23),
        SourceLocation("t.tile", 4, 6),
    ]


def test_a_location_in_the_text_wins() -> None:
    module = parse_text('tile.cta_sync loc("other.py":7:9)\ntile.cta_sync loc(unknown)', "t.tile")
    first, second = module.body.ops
    assert resolve(first.location) == SourceLocation("other.py", 7, 9)
    assert resolve(second.location) == SourceLocation("t.tile", 2, 1)


@pytest.mark.parametrize("path", _EXAMPLES, ids=lambda path: path.name)
def test_examples_come_back(path: Path) -> None:
    module = parse_file(path)
    text = _printed(module, generic=False, locations=False)
    again = parse_text(text)
    assert module.is_structurally_equivalent(again)
    assert _printed(again, generic=False, locations=False) == text


@pytest.mark.parametrize("path", _EXAMPLES, ids=lambda path: path.name)
def test_examples_come_back_with_their_locations(path: Path) -> None:
    # In the generic format: the pretty one has no room for those of loop variables.
    text = _printed(parse_file(path))
    assert "loc(unknown)" not in text
    assert _printed(parse_text(text, "again.tile")) == text


def test_a_module_may_be_written_or_left_out() -> None:
    bare = parse_text("tile.cta_sync")
    wrapped = parse_text("builtin.module {\n  tile.cta_sync\n}")
    assert bare.is_structurally_equivalent(wrapped)


# ---- strings

_STRINGS = [
    *("", "a\nb", "\t", '"', "\\", "\0", "\x7f", "é", "é\n", "😀", "😀\t", "\x85", "\u2028", "\r", "\v", "\x1b"),
    *("\\n", "\\22", 'a\\"', "日本\n\\"),
]


@pytest.mark.parametrize("value", _STRINGS, ids=ascii)
def test_strings_survive_print_and_parse(value: str) -> None:
    """MLIR's escapes, wherever a string stands: attribute, symbol name, file of a location."""
    module = parse_text("func.func private @f()", "t.tile")
    function = _op(module, "func.func")
    function.attributes["text"] = StringAttr(value)
    function.properties["sym_name"] = StringAttr(value)
    function.location = FileLineColLoc(StringAttr(value), IntAttr(1), IntAttr(2))
    for generic in (False, True):
        text = _printed(module, generic=generic)
        again = _op(parse_text(text), "func.func")
        assert again.attributes["text"] == StringAttr(value)
        assert again.properties["sym_name"] == StringAttr(value)
        assert again.location == function.location
        assert _printed(parse_text(text), generic=generic) == text


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_string_attribute_survives(value: str) -> None:
    module = ModuleOp([], attributes={"text": StringAttr(value)})
    assert parse_text(_printed(module)).attributes["text"] == StringAttr(value)


# ---- what can be wrong


def test_syntax_error() -> None:
    assert _error("tile.kernel @f() {\n  tile.cta_sync tile\n}") == (
        "t.tile:2:17: error: expected an operation, found 'tile'\n  tile.cta_sync tile\n                ^"
    )
    assert _error("tile.kernel f() {}") == ("t.tile:1:13: error: expect symbol name\ntile.kernel f() {}\n            ^")


def test_unexpected_end() -> None:
    assert _error("tile.kernel @f() {\n  tile.cta_sync\n\n") == (
        "t.tile:2:16: error: expected an operation or '}'\n  tile.cta_sync\n               ^"
    )


def test_unknown_operation() -> None:
    assert _error("tile.kernel @f() {\n  tile.cta_sink\n}") == (
        "t.tile:2:3: error: unknown operation 'tile.cta_sink'\n"
        "  tile.cta_sink\n"
        "  ^\n"
        "hint: did you mean 'tile.cta_sync'?"
    )


def test_unknown_dialect() -> None:
    assert _error("tyle.kernel @f() {}") == (
        "t.tile:1:1: error: unknown dialect 'tyle' of operation 'tyle.kernel'\n"
        "tyle.kernel @f() {}\n"
        "^\n"
        "hint: did you mean 'tile'? known: builtin, arith, scf, cf, func, llvm, tile, nvvm"
    )


def test_unknown_type() -> None:
    assert _error("tile.kernel @f(%A: !tile.vue<4xf16>) {}") == (
        "t.tile:1:20: error: unknown type 'tile.vue'\n"
        "tile.kernel @f(%A: !tile.vue<4xf16>) {}\n"
        "                   ^\n"
        "hint: did you mean 'tile.view'? known: tile.acc, tile.mbarrier, tile.reg, tile.ring, tile.smem, tile.view"
    )


def test_unknown_element_type() -> None:
    assert _error("tile.kernel @f(%A: !tile.view<MxKxf12>) {}").startswith(
        "t.tile:1:31: error: unsupported element type 'f12': tiles hold f16, bf16, f32\n"
    )


def test_a_value_without_a_definition() -> None:
    text = (
        "tile.kernel @f(%size: index) {\n  %a = arith.addi %siz, %size : index\n  %b = arith.addi %siz, %q : index\n}"
    )
    assert _error(text) == (
        "t.tile:2:19: error: %siz is not defined\n"
        "  %a = arith.addi %siz, %size : index\n"
        "                  ^\n"
        "hint: did you mean %size?\n"
        "t.tile:3:25: note: nor is %q\n"
        "  %b = arith.addi %siz, %q : index\n"
        "                        ^"
    )


def test_a_name_that_is_defined_elsewhere() -> None:
    """The use that counts is one that no definition follows."""
    one = "  %x = arith.addi %t, %t : i32\n  %t = arith.constant 1 : i32\n"
    error = _error(f"tile.kernel @f() {{\n{one}}}\ntile.kernel @g() {{\n  %y = arith.addi %t, %t : i32\n}}")
    assert error.startswith("t.tile:6:19: error: %t is not defined\n")


def test_python_is_no_tile_code(examples: Path, cli: Callable[..., Any]) -> None:
    path = examples / "gemm.py"
    for command in ("compile", "check", "run", "opt"):
        finished = cli(command, path)
        assert (finished.code, finished.out) == (1, "")
        assert finished.err.startswith(f"error: {path} is Python, and what is read here is tile code\nhint: ")


def test_a_value_used_before_its_definition() -> None:
    assert _error("tile.kernel @f() {\n  %a = arith.addi %b, %b : i32\n  %b = arith.constant 1 : i32\n}") == (
        "t.tile:2:8: error: %b is used before it is defined\n"
        "  %a = arith.addi %b, %b : i32\n"
        "       ^\n"
        "t.tile:3:8: note: it is defined here\n"
        "  %b = arith.constant 1 : i32\n"
        "       ^"
    )


def test_a_value_of_an_inner_scope() -> None:
    inner = '"scf.if"(%c) ({\n %b = arith.constant 1 : i32\n scf.yield\n}, {}) : (i1) -> ()'
    error = _error(f"func.func @f(%c: i1) {{\n %a = arith.addi %b, %b : i32\n {inner}\n func.return\n}}")
    assert error.startswith("t.tile:2:7: error: %b is used before it is defined\n")


def test_dominance_over_branches() -> None:
    diamond = (
        "func.func @f(%c: i1) -> i32 {\n"
        "  cf.cond_br %c, ^left, ^right\n"
        "^left:\n"
        "  %x = arith.constant 1 : i32\n"
        "  cf.br ^end\n"
        "^right:\n"
        "  cf.br ^end\n"
        "^end:\n"
        "  func.return %x : i32\n"
        "}"
    )
    assert _error(diamond).startswith("t.tile:9:3: error: %x is used before it is defined\n")
    dominated = diamond.replace("  cf.cond_br", "  %x = arith.constant 1 : i32\n  cf.cond_br", 1)
    parse_text(re.sub(r"\^left:\n.*\n", "^left:\n", dominated))


def test_errors_of_verifiers_point_at_their_operation() -> None:
    assert _error("tile.kernel @f(%A: !tile.view<MxKxf16>) {\n  %n = tile.dim %A, 7\n}") == (
        "t.tile:2:8: error: dim 7 of a view of rank 2\n  %n = tile.dim %A, 7\n       ^"
    )


def test_a_missing_terminator() -> None:
    assert _error("func.func @f() {\n  %a = arith.constant 1 : i32\n}").startswith("t.tile:2:8: error: ")
    assert _error('func.func @f() {\n  "scf.execute_region"() ({\n  ^bb0:\n  }) : () -> ()\n  func.return\n}') == (
        "t.tile:2:3: error: scf.execute_region has an empty block where a terminator is due\n"
        '  "scf.execute_region"() ({\n'
        "  ^"
    )


@pytest.mark.parametrize("text", ["", "\n\n", "  \n", "// only a comment\n"])
def test_nothing_there(text: str) -> None:
    line = text.rstrip()
    message = f"t.tile:1:{len(line) + 1}: error: there is no operation in this text"
    assert _error(text) == (f"{message}\n{line}\n{' ' * len(line)}^" if line else message)


_OWN_REGION = {
    "its body": ("scf.if %t {\n    %t = arith.constant true\n  }", 3, "t"),
    "its variable": ("scf.for %k = %k to %n step %n {\n  }", 2, "k"),
    "its argument": (
        "%0 = scf.while (%p = %p) : (i32) -> (i32) {\n    scf.condition(%c) %p : i32\n  } do {\n"
        "  ^a(%q: i32):\n    scf.yield %q : i32\n  }",
        2,
        "p",
    ),
    "below its body": ("scf.if %t {\n    scf.if %t {\n      %t = arith.constant true\n    }\n  }", 4, "t"),
    "one of several results": (
        "scf.if %t#1 {\n    %t:2 = scf.if %c -> (i1, i1) {\n      scf.yield %c, %c : i1, i1\n    } else {\n"
        "      scf.yield %c, %c : i1, i1\n    }\n  }",
        3,
        "t",
    ),
}


@pytest.mark.parametrize(("text", "line", "name"), _OWN_REGION.values(), ids=_OWN_REGION)
def test_a_name_that_an_operation_uses_and_defines_inside(text: str, line: int, name: str) -> None:
    program = f"func.func @f(%n: index, %c: i1) {{\n  {text}\n  func.return\n}}"
    lines = program.split("\n")
    used = 3 + (text.index("= ") + 2 if text.startswith("%0") else 0)
    shown = _error(program).split("\n")
    assert shown[:3] == [
        f"t.tile:2:{used}: error: %{name} is used before it is defined",
        lines[1],
        " " * (used - 1) + "^",
    ]
    place, note = shown[3].split(": note: ")
    assert place.startswith(f"t.tile:{line}:")
    assert note == "it is defined here"
    assert shown[4] == lines[line - 1]


def test_an_unterminated_string_takes_no_time() -> None:
    """The expression for strings must not backtrack: this took exponential time."""
    assert _error('"' + "a" * 100_000).startswith(
        "t.tile:1:1: error: End of file reached before closing string literal."
    )


def test_deep_nesting() -> None:
    assert "nested too deeply" in _error("#a = " + "[" * 100_000)


def test_a_missing_file() -> None:
    with pytest.raises(TilecError) as caught:
        parse_file("/no/such/file.tile")
    assert str(caught.value) == (
        "error: cannot read /no/such/file.tile: No such file or directory\nhint: give the path of a file of tile code"
    )


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(TilecError, match=f"error: cannot read {tmp_path}: Is a directory"):
        parse_file(tmp_path)


def test_a_name_that_no_file_can_have() -> None:
    with pytest.raises(TilecError, match="embedded null"):
        parse_file("a\0b")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\x7fELF\2\1\1\0\0", "x.tile:1:8: error: not a text file: byte 7 is 0x00"),
        (b"\x89PNG\r\n", "x.tile:1:1: error: not a text file: byte 0 is 0x89"),
        ("// é\n// ".encode() + b"\xff", "x.tile:2:4: error: not a text file: byte 9 is 0xff"),
    ],
)
def test_a_binary_file(data: bytes, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.tile").write_bytes(data)
    with pytest.raises(TilecError) as caught:
        parse_file("x.tile")
    message, *rest = str(caught.value).split("\n")
    assert message == expected
    assert rest[-1] == "hint: tile code is UTF-8 text; is this a compiled file?"


def test_a_byte_order_mark_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "x.tile"
    path.write_bytes(b"\xef\xbb\xbftile.cta_sync")
    assert resolve(_op(parse_file(path), "tile.cta_sync").location) == SourceLocation(str(path), 1, 1)


# ---- texts that nobody would write

_PRETTY = [path.read_text() for path in _EXAMPLES]
_TEXTS = _PRETTY + [_printed(parse_text(text), locations=False) for text in _PRETTY]
_WORD = re.compile(r"[%@!]?[\w.]+|\S")
_WORDS = sorted(
    {word for text in _TEXTS for word in _WORD.findall(text)} | {"-1", "0", "99999999999999999999", '"', "\0"}
)


@st.composite
def _damaged(draw: st.DrawFn) -> str:
    """A program with one to three words replaced, put in or taken out, perhaps cut off."""
    text = draw(st.sampled_from(_TEXTS))
    for _ in range(draw(st.integers(1, 3))):
        places = [(found.start(), found.end()) for found in _WORD.finditer(text)]
        start, end = draw(st.sampled_from(places))
        word = draw(st.sampled_from([*_WORDS, ""]))
        text = f"{text[:start]}{word} {text[draw(st.sampled_from([start, end])) :]}"
    return text[: draw(st.integers(0, len(text)))] if draw(st.booleans()) else text


@settings(max_examples=400)
@given(_damaged())
@example("tile.kernel @f(%A: memref<*xi99999999999999999999>) {}")
def test_a_damaged_program_parses_or_gives_one_diagnostic(text: str) -> None:
    try:
        module = parse_text(text, "t.tile")
    except TilecError as error:
        assert not isinstance(error, InternalError)
        place = error.diagnostic.location
        assert place is not None
        assert 1 <= place.line <= text.count("\n") + 1
        assert 1 <= place.column <= len(text.split("\n")[place.line - 1]) + 1
        assert "\n" not in error.diagnostic.message
    else:
        assert parse_text(_printed(module)).is_structurally_equivalent(module)


@settings(max_examples=200)
@given(st.binary(max_size=80))
def test_any_bytes_give_one_diagnostic(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.tile"
    path.write_bytes(data)
    with pytest.raises(TilecError):
        parse_file(path)
