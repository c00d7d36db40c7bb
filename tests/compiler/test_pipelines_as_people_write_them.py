"""Pipelines with blanks, line breaks and trailing commas anywhere, in both forms, and what is wrong with those of real passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tilec.diagnostics import TilecError
from tilec.passes import PASSES
from tilec.spec import parse_pipeline, print_pipeline


@dataclass(frozen=True)
class _Outer(ModulePass):
    """An option of each kind; `inner` is a pipeline."""

    name = "outer-pass"

    stages: int = 2
    flag: bool = False
    label: str = "none"
    sizes: tuple[int, ...] = (1,)
    words: tuple[str, ...] = ()
    inner: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None: ...


@dataclass(frozen=True)
class _Bare(ModulePass):
    name = "bare"

    def apply(self, ctx: Context, op: ModuleOp) -> None: ...


_KNOWN: dict[str, Callable[[], type[ModulePass]]] = {"outer-pass": lambda: _Outer, "bare": lambda: _Bare}
_blanks = st.text(" \t\n\r", max_size=3)
_words = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


def _quoted(text: str) -> str:
    """As a person would: nothing is escaped that need not be."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _tokens(value: object) -> list[str]:
    match value:
        case bool():
            return [str(value).lower()]
        case int():
            return [str(value)]
        case str():
            return [_quoted(value)]
        case tuple():
            items = [_tokens(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
            return ["[", *[t for i, item in enumerate(items) for t in ([","] if i else []) + item], "]"]
        case _:
            raise AssertionError(value)


@st.composite
def _pass(draw: st.DrawFn, depth: int) -> tuple[ModulePass, list[str]]:
    """A pass, and the tokens of one way to write it."""
    if draw(st.booleans()):
        return _Bare(), draw(st.sampled_from([["bare"], ["bare", "(", ")"], ["bare", "{", "}"]]))
    inner = "" if not depth else _text(draw, draw(_pipelines(depth - 1))[1])
    made = _Outer(
        draw(st.integers(-9, 10**12)),
        draw(st.booleans()),
        draw(_words),
        tuple(draw(st.lists(st.integers(-9, 9), max_size=3))),
        tuple(draw(st.lists(_words, max_size=3))),
        inner,
    )
    values = [(f.name, getattr(made, f.name)) for f in fields(_Outer)]
    positional = draw(st.integers(0, len(values)))
    named = draw(st.permutations(values[positional:]))
    tokens = ["outer-pass", "("]
    for i, (name, value) in enumerate([*values[:positional], *named]):
        tokens += [*([","] if i else []), *([name, "="] if i >= positional else []), *_tokens(value)]
    return made, [*tokens, *([","] if draw(st.booleans()) else []), ")"]


@st.composite
def _pipelines(draw: st.DrawFn, depth: int = 1) -> tuple[tuple[ModulePass, ...], list[str]]:
    made = draw(st.lists(_pass(depth), max_size=3))
    tokens = [t for i, (_, one) in enumerate(made) for t in ([","] if i else []) + one]
    if made and draw(st.booleans()):
        tokens.append(",")
    return tuple(one for one, _ in made), tokens


def _text(draw: st.DrawFn, tokens: list[str]) -> str:
    return draw(_blanks) + "".join(token + draw(_blanks) for token in tokens)


@st.composite
def _written(draw: st.DrawFn) -> tuple[tuple[ModulePass, ...], str]:
    passes, tokens = draw(_pipelines())
    return passes, _text(draw, tokens)


@given(_written())
def test_blanks_and_trailing_commas_say_nothing(written: tuple[tuple[ModulePass, ...], str]) -> None:
    passes, text = written
    assert parse_pipeline(text, _KNOWN) == passes
    long = print_pipeline(passes)
    assert "\n" not in long and parse_pipeline(long, _KNOWN) == passes
    for one in passes:
        if isinstance(one, _Outer):  # what is inside is a pipeline by itself
            parse_pipeline(one.inner, _KNOWN)


@given(_written())
def test_a_missing_bracket_is_one_error(written: tuple[tuple[ModulePass, ...], str]) -> None:
    """Each closing bracket that is not in a string, left out in turn."""
    _, text = written
    for place in _closing(text):
        broken = text[:place] + text[place + 1 :]
        with pytest.raises(TilecError) as caught:
            parse_pipeline(broken, _KNOWN)
        assert caught.value.diagnostic.location is not None
        assert "\n" not in caught.value.diagnostic.message


def _closing(text: str) -> list[int]:
    found: list[int] = []
    in_string = escaped = False
    for i, c in enumerate(text):
        if in_string:
            in_string = escaped or c != '"'
            escaped = c == "\\" and not escaped
        elif c == '"':
            in_string = True
        elif c in ")}]":
            found.append(i)
    return found


RING = "a ring has 1 to 2048 stages."


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("pipeline(stages=abc)", 10, "option 'stages' takes an integer"),
        ("pipeline{stages=abc}", 10, "option 'stages' takes an integer"),
        ("pipeline(abc)", 10, "option 'stages' takes an integer"),
        ("pipeline(2.0)", 10, "option 'stages' takes an integer"),
        ('pipeline("2")', 10, "option 'stages' takes an integer"),
        ("pipeline(stages=)", 17, "expected a value, found ')'"),
        ("tma,pipeline(stages=-1)", 5, f"pipeline(stages = -1): {RING}"),
        ("tma,pipeline(stages=0),persistent", 5, f"pipeline(stages = 0): {RING}"),
        ("pipeline{stages=0}", 1, f"pipeline(stages = 0): {RING}"),
        ("pipeline(99999999999999999999)", 1, f"pipeline(stages = 99999999999999999999): {RING}"),
        ("pipeline(2,stages=3)", 12, "option 'stages' is given twice"),
        ("pipeline(stages=2,stages=2)", 19, "option 'stages' is given twice"),
        ("pipeline(2", 11, "expected ',' or ')' after an option, found the end"),
        ("pipeline(2,tma)", 12, "option 'lag' takes an integer"),
    ],
)
def test_one_line_and_a_place(text: str, column: int, message: str) -> None:
    with pytest.raises(TilecError) as caught:
        parse_pipeline(text)
    assert str(caught.value).split("\nhint: ")[0] == (
        f"<pipeline>:1:{column}: error: {message}\n{text}\n{' ' * (column - 1)}^"
    )


INTEGERS = [(name, f.name) for name in PASSES for f in fields(PASSES[name]()) if "int" in str(f.type)]


@pytest.mark.parametrize(("name", "option"), INTEGERS)
@pytest.mark.parametrize("value", ["abc", "", "-1", "0", "9" * 30, "true", "1.5", "[1]", '"1"', "(1)"])
def test_no_value_of_any_option_is_another_error(name: str, option: str, value: str) -> None:
    """It is a pipeline, or there is one diagnostic in one line that says where."""
    text = f"{name}({option}={value})"
    try:
        passes = parse_pipeline(text)
    except TilecError as error:
        at = error.diagnostic.location
        assert at is not None and at.line == 1 and 1 <= at.column <= len(text) + 1
        assert "\n" not in error.diagnostic.message
    else:
        assert parse_pipeline(print_pipeline(passes)) == passes
