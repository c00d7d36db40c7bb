"""What kernels cannot say: every construct of Python is either understood or refused by name, at its place."""

from __future__ import annotations

import ast
import linecache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from written_kernels import cases, refusal_of

from tilec.frontend.lowering import expressions, operators, statements
from tilec.frontend.lowering.refusals import REFUSED

CASES = cases(Path(__file__).with_name("refused"))


@pytest.fixture(autouse=True)
def no_lines_of_other_tests() -> None:
    linecache.clearcache()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_a_body_is_refused_in_these_words(name: str, tmp_path: Path) -> None:
    body, message = CASES[name]
    assert refusal_of(body, tmp_path) == message


def _classes(base: type[ast.AST]) -> list[type[ast.AST]]:
    # Classes that stand for a constant are kept by Python for old programs; no parser makes them.
    return [c for c in base.__subclasses__() if "Constant" not in [b.__name__ for b in c.__mro__[1:]]]


@pytest.mark.parametrize("base", [ast.stmt, ast.expr])
def test_no_construct_of_python_falls_through(base: type[ast.AST]) -> None:
    supported = {*statements.SUPPORTED, *expressions.SUPPORTED}
    refused = set(REFUSED)
    assert not supported & refused
    assert set(_classes(base)) <= supported | refused
    assert all(what and hint for what, hint in REFUSED.values())


@pytest.mark.parametrize(
    ("base", "table"),
    [
        (ast.operator, operators.BINARY),
        (ast.cmpop, operators.COMPARE),
        (ast.unaryop, {ast.Not: "not", **operators.UNARY}),
    ],
)
def test_every_operator_is_known(base: type[ast.AST], table: dict[type[ast.AST], str]) -> None:
    assert set(base.__subclasses__()) == set(table)


_LEAVES = st.integers(-9, 9).map(lambda n: f"({n})")
_EXPRESSIONS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "//", "%", "&", "|", "^", "/"]), inner).map(
            lambda t: f"({t[0]} {t[1]} {t[2]})"
        ),
        st.tuples(st.sampled_from(["-", "+", "abs"]), inner).map(lambda t: f"{t[0]}({t[1]})"),
        st.tuples(inner, st.sampled_from(["<", "<=", "==", "!=", ">", ">="]), inner, inner, inner).map(
            lambda t: f"({t[3]} if {t[0]} {t[1]} {t[2]} else {t[4]})"
        ),
        st.tuples(inner, inner).map(lambda t: f"max({t[0]}, {t[1]}) - min({t[0]}, {t[1]})"),
    ),
    max_leaves=6,
)


@given(_EXPRESSIONS)
def test_arithmetic_at_compile_time_is_that_of_python(
    tmp_path_factory: pytest.TempPathFactory, expression: str
) -> None:
    linecache.clearcache()
    folder = tmp_path_factory.mktemp("arithmetic")
    try:
        value = eval(expression)
    except ZeroDivisionError:
        assert "zero" in refusal_of(f"x = {expression}", folder)
        return
    except TypeError:  # bits of a float
        assert " is for integers, not a float" in refusal_of(f"x = {expression}", folder)
        return
    right, wrong = f"assert {expression} == {value!r}", f"assert {expression} != {value!r}, 'it is equal'"
    assert refusal_of(right, folder) == ""
    linecache.clearcache()
    assert "error: assertion failed: it is equal\n" in refusal_of(wrong, folder)
