"""Pipeline text: both forms, what they mean, and one diagnostic for each way to get it wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import parse_pipeline as xdsl_parse_pipeline

from tilec.diagnostics import TilecError
from tilec.passes import PASSES, summary
from tilec.spec import describe_options, parse_pipeline, print_pipeline


@dataclass(frozen=True)
class _Plain(ModulePass):
    """No options."""

    name = "plain"

    def apply(self, ctx: Context, op: ModuleOp) -> None: ...


@dataclass(frozen=True)
class _Ring(ModulePass):
    """A ring of stages."""

    name = "ring"

    stages: int
    lag: int | None = None

    def __post_init__(self) -> None:
        if self.stages < 1:
            raise ValueError(f"stages must be at least 1, not {self.stages}")

    def apply(self, ctx: Context, op: ModuleOp) -> None: ...


@dataclass(frozen=True)
class _Every(ModulePass):
    """An option of each kind."""

    name = "every-kind"

    number: int = 0
    flag: bool = False
    text: str = ""
    ratio: float = 0.5
    sizes: tuple[int, ...] = ()
    words: tuple[str, ...] = ("a",)
    maybe_text: str | None = None
    nested: str = "inline{depth=2}"

    def apply(self, ctx: Context, op: ModuleOp) -> None: ...


_KNOWN: dict[str, Callable[[], type[ModulePass]]] = {
    "plain": lambda: _Plain,
    "ring": lambda: _Ring,
    "every-kind": lambda: _Every,
}


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("", ()),
        ("  \n", ()),
        ("plain", (_Plain(),)),
        ("plain()", (_Plain(),)),
        ("plain{}", (_Plain(),)),
        ("ring(2)", (_Ring(2),)),
        ("ring(2, 1)", (_Ring(2, 1),)),
        ("ring(stages=2)", (_Ring(2),)),
        ("ring(2,lag=0)", (_Ring(2, 0),)),
        ("ring{stages=2}", (_Ring(2),)),
        ("ring{stages=2 lag=1}", (_Ring(2, 1),)),
        ("ring{stages=2 lag}", (_Ring(2),)),
        ("plain,ring(3),plain", (_Plain(), _Ring(3), _Plain())),
        (" plain ,\n\tring ( 3 , lag = 1 , ) ,\n ring{ stages = 4 } , ", (_Plain(), _Ring(3, 1), _Ring(4))),
        ('every-kind(7, true, word, 2, [1,2], ["x", y])', (_Every(7, True, "word", 2.0, (1, 2), ("x", "y")),)),
        ("every-kind(sizes=3)", (_Every(sizes=(3,)),)),
        ("every-kind(sizes=[])", (_Every(sizes=()),)),
        ("every-kind{sizes=1,2 words=[] flag=true}", (_Every(flag=True, sizes=(1, 2), words=()),)),
        ("every-kind(maybe-text=a)", (_Every(maybe_text="a"),)),
        ("every-kind{maybe_text=a}", (_Every(maybe_text="a"),)),
        (r'every-kind(text="a\n\t\"\\\00\7F é")', (_Every(text='a\n\t"\\\0\x7f é'),)),
        ("every-kind(ratio=-1.5e-3, number=-4)", (_Every(ratio=-1.5e-3, number=-4),)),
        ("every-kind(text=2d-slice)", (_Every(text="2d-slice"),)),
        ('every-kind(nested="ring(2),plain{}")', (_Every(nested="ring(2),plain{}"),)),
    ],
)
def test_what_a_text_means(text: str, passes: tuple[ModulePass, ...]) -> None:
    assert parse_pipeline(text, _KNOWN) == passes


def test_the_long_form() -> None:
    assert print_pipeline((_Plain(), _Ring(2), _Ring(3, 0))) == "plain,ring{stages=2},ring{stages=3 lag=0}"
    assert print_pipeline((_Every(3, True, 'a"b\n', 1.0, (1, 2), ()),)) == (
        'every-kind{number=3 flag=true text="a\\"b\\0A" ratio=1.0 sizes=1,2 words nested="inline{depth=2}"}'
    )


_INTS = st.integers(-(10**20), 10**20)
_STRINGS = st.text(st.characters(exclude_categories=["Cs"]))
_FLOATS = st.floats(allow_nan=False, allow_infinity=False)
_PASSES = st.one_of(
    st.just(_Plain()),
    st.builds(_Ring, st.integers(1, 99), st.none() | _INTS),
    st.builds(
        _Every,
        _INTS,
        st.booleans(),
        _STRINGS,
        _FLOATS,
        st.lists(_INTS).map(tuple),
        st.lists(_STRINGS).map(tuple),
        st.none() | _STRINGS,
    ),
)
_PIPELINES = st.recursive(
    st.lists(_PASSES, max_size=3).map(tuple),
    lambda inner: inner.map(lambda passes: (*passes, _Every(nested=print_pipeline(passes)))),
    max_leaves=3,
)


@given(_PIPELINES)
def test_print_and_parse_are_inverse(passes: tuple[ModulePass, ...]) -> None:
    assert parse_pipeline(print_pipeline(passes), _KNOWN) == passes


@given(st.lists(st.builds(_Ring, st.integers(1, 99), st.none() | st.integers(-9, 9)), max_size=3).map(tuple))
def test_xdsl_reads_the_long_form(passes: tuple[_Ring, ...]) -> None:
    assert tuple(_Ring.from_spec(spec) for spec in xdsl_parse_pipeline(print_pipeline(passes))) == passes


@given(st.text('plainrg(){}[]=," \n\\0123.-tue', max_size=40))
def test_any_text_is_a_pipeline_or_one_diagnostic(text: str) -> None:
    try:
        passes = parse_pipeline(text, _KNOWN)
    except TilecError as error:
        place = error.diagnostic.location
        assert place is not None
        assert 1 <= place.line <= text.count("\n") + 1
        assert 1 <= place.column <= len(text.split("\n")[place.line - 1]) + 1
        assert "\n" not in error.diagnostic.message
    else:
        assert parse_pipeline(print_pipeline(passes), _KNOWN) == passes


@pytest.mark.parametrize(
    ("text", "column", "message", "hint"),
    [
        ("ringg(2)", 1, "unknown pass 'ringg'", "did you mean 'ring'? known: plain, ring, every-kind"),
        ("plain,zzz", 7, "unknown pass 'zzz'", "known: plain, ring, every-kind"),
        ("plain,,plain", 7, "expected the name of a pass", "known: plain, ring, every-kind"),
        ("plain plain", 7, "expected ',' between passes, found 'plain'", None),
        ("plain)", 6, "expected ',' between passes, found ')'", None),
        ("@", 1, "expected the name of a pass", "known: plain, ring, every-kind"),
        ("ring(2,dept=1)", 8, "pass 'ring' has no option 'dept'", "options of ring: stages, lag"),
        ("ring{stages=2 dept=1}", 15, "pass 'ring' has no option 'dept'", "options of ring: stages, lag"),
        ("plain(1)", 7, "too many options for pass 'plain'", "plain has no options"),
        ("ring(1,2,3)", 10, "too many options for pass 'ring'", "options of ring: stages, lag"),
        ("ring(2,stages=3)", 8, "option 'stages' is given twice", None),
        ("ring{stages=2 lag=1 lag=1}", 21, "option 'lag' is given twice", None),
        ("every-kind(maybe-text=a,maybe_text=b)", 25, "option 'maybe_text' is given twice", None),
        ("ring", 1, "pass 'ring' needs option 'stages'", "options of ring: stages, lag"),
        ("ring(lag=1)", 1, "pass 'ring' needs option 'stages'", "options of ring: stages, lag"),
        ("ring(lag=1, 2)", 13, "a positional option after a named one", "name it, or move it to the front"),
        ("ring(2", 7, "expected ',' or ')' after an option, found the end", None),
        ("ring(2}", 7, "expected ',' or ')' after an option, found '}'", None),
        ("ring(", 6, "expected a value, found the end", None),
        ("ring(stages=)", 13, "expected a value, found ')'", None),
        ("ring{stages=2", 14, "expected the name of an option or '}', found the end", None),
        ("ring{2}", 6, "expected the name of an option or '}', found '2'", None),
        ("ring{stages=2,}", 15, "expected a value, found '}'", None),
        ("every-kind(sizes=[1,2)", 22, "expected ',' or ']' after a value, found ')'", None),
        ("ring(stages=abc)", 6, "option 'stages' takes an integer", None),
        ("ring(true)", 6, "option 'stages' takes an integer", None),
        ("ring(1.5)", 6, "option 'stages' takes an integer", None),
        ("ring([1,2])", 6, "option 'stages' takes an integer", None),
        ("ring{stages}", 6, "option 'stages' needs a value: an integer", None),
        ("every-kind{flag}", 12, "option 'flag' needs a value: true or false", None),
        ("every-kind(flag=1)", 12, "option 'flag' takes true or false", None),
        ("every-kind(text=1)", 12, "option 'text' takes a string", None),
        ("every-kind(ratio=x)", 12, "option 'ratio' takes a number", None),
        ("every-kind(sizes=[1,x])", 12, "option 'sizes' takes a list, each an integer", None),
        ('every-kind(text="ab', 17, "this string has no end", None),
        (
            r'every-kind(text="a\q")',
            *(19, "unknown escape in a string", 'escapes are \\n, \\t, \\", \\\\ and two hexadecimal digits'),
        ),
        ("ring(0)", 1, "stages must be at least 1, not 0", None),
        ("plain,ring(stages=-1)", 7, "stages must be at least 1, not -1", None),
    ],
)
def test_one_diagnostic_that_points_into_the_text(text: str, column: int, message: str, hint: str | None) -> None:
    with pytest.raises(TilecError) as caught:
        parse_pipeline(text, _KNOWN)
    expected = f"<pipeline>:1:{column}: error: {message}\n{text}\n{' ' * (column - 1)}^"
    assert str(caught.value) == expected + (f"\nhint: {hint}" if hint else "")


def test_a_diagnostic_names_the_line_of_a_long_pipeline() -> None:
    with pytest.raises(TilecError) as caught:
        parse_pipeline("plain,\n  ringg(2),\n  plain", _KNOWN)
    assert str(caught.value).startswith("<pipeline>:2:3: error: unknown pass 'ringg'\n  ringg(2),\n  ^\n")


def test_options_in_words() -> None:
    assert describe_options(_Plain) == ""
    assert describe_options(_Ring) == "stages: int, lag: int|None"
    assert describe_options(_Every).startswith(
        'number: int = 0, flag: bool = false, text: str = "", ratio: float = 0.5'
    )


@pytest.mark.parametrize("name", PASSES)
def test_every_registered_pass_has_its_name_and_a_summary(name: str) -> None:
    cls = PASSES[name]()
    assert cls.name == name
    assert summary(name)
