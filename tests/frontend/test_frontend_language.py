"""The language of kernels: what each construct becomes, and where its operations come from."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import python_language
from ir_text import canonical, kernel_of
from written_kernels import function_in
from xdsl.dialects.builtin import CallSiteLoc

import tilec
from tilec import tile
from tilec.diagnostics import TilecError, calls_to, fail, location_of
from tilec.dialects.tile import CopyOp
from tilec.frontend.function import Function
from tilec.frontend.lowering import Lowered, lower
from tilec.source import parse_text

SAID: dict[str, Callable[..., Any]] = {
    name: value
    for name, value in vars(python_language).items()
    if inspect.isfunction(value) and "tile.kernel" in (value.__doc__ or "")
}


def lowered(function: Callable[..., Any], *dtypes: str, **constants: object) -> Lowered:
    return lower(Function.read(function), dtypes, constants)


@pytest.mark.parametrize("name", SAID)
def test_the_function_is_the_tile_code_in_its_docstring(name: str) -> None:
    parsed = parse_text(inspect.getdoc(SAID[name]) or "", f"{name}.tile")
    dtypes = [view.dtype.name for view in kernel_of(parsed).views]
    result = lowered(SAID[name], *dtypes)
    assert (result.returns.outputs, result.returns.returned, result.returns.as_tuple) == ((), (), False)
    assert canonical(result.module) == canonical(parsed)


def test_constants_of_every_class_are_part_of_the_program() -> None:
    constants = {"BM": 32, "dtype": tile.bf16, "scale": 0.5, "wide": False}
    result = lowered(python_language.of_constants, "f16", **constants)
    text = str(result.module)
    assert "step (32, 64)" in text and "tile.splat 0.5" in text and "%D: !tile.view<MxBNxbf16>" in text
    assert [(o.name, o.dims, o.dtype) for o in result.returns.outputs] == [("D", ("M", "BN"), "bf16")]
    assert (result.returns.returned, result.returns.as_tuple) == ((0,), True)
    wide = str(lowered(python_language.of_constants, "f16", **{**constants, "wide": True, "dtype": "f32"}).module)
    assert "step (64, 64)" in wide and "%D: !tile.view<MxBNxf32>" in wide


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ({"BM": [1]}, "BM is a list: constants are numbers, strings, element types and tuples of them"),
        ({"scale": "a"}, "scale is a str, but its annotation is float"),
        ({"wide": 1}, "wide is an int, but its annotation is bool"),
        ({"dtype": "f64"}, "unsupported element type f64: tiles hold f16, bf16, f32"),
    ],
)
def test_constants_of_another_class(constants: dict[str, object], message: str) -> None:
    every = {"BM": 32, "dtype": tile.bf16, "scale": 0.5, "wide": False, **constants}
    with pytest.raises(TilecError) as error:
        lowered(python_language.of_constants, "f16", **every)
    assert str(error.value).split("\n")[0].split(": error: ")[1] == message


def test_a_closure_is_read() -> None:
    assert "step (32, 16)" in str(lowered(python_language.with_closure(32, (8, 16)), "f16").module)


def test_an_element_type_in_an_annotation_fixes_it() -> None:
    with pytest.raises(TilecError, match="A has elements of f16, not of f32"):
        lowered(python_language.compile_time, "f32", "f32")


def _line(function: Callable[..., Any], text: str) -> tuple[int, int]:
    """Line and column (from 1) at which a function's source has a text."""
    lines, first = inspect.getsourcelines(function)
    row = next(i for i, line in enumerate(lines) if text in line)
    return first + row, lines[row].index(text) + 1


def test_operations_of_helpers_know_the_calls() -> None:
    kernel = kernel_of(lowered(python_language.helpers, "f16", "f16").module)
    copy = [op for op in kernel.walk() if isinstance(op, CopyOp)][-1]
    assert isinstance(copy.location, CallSiteLoc)
    at = location_of(copy)
    assert at is not None
    assert (at.line, at.column) == _line(python_language.stored, "tile.copy(a, D[m, n])")
    (note,) = calls_to(copy)
    line, column = _line(python_language.helpers, "stored(b, n=")
    assert note.message == "called from helpers"
    assert note.location is not None
    assert (note.location.line, note.location.column) == (line, column)
    with pytest.raises(TilecError) as error:
        fail(copy, "a pass says no", "do otherwise")
    file = python_language.__file__
    source = Path(file).read_text().split("\n")
    assert str(error.value) == (
        f"{file}:{at.line}:{at.column}: error: a pass says no\n{source[at.line - 1]}\n{' ' * (at.column - 1)}^\n"
        f"hint: do otherwise\n"
        f"{file}:{line}:{column}: note: called from helpers\n{source[line - 1]}\n{' ' * (column - 1)}^"
    )


def test_every_operation_has_a_position_in_the_kernel() -> None:
    for name, function in SAID.items():
        lines, first = inspect.getsourcelines(function)
        views = len(kernel_of(parse_text(inspect.getdoc(function) or "", "")).views)
        for op in lowered(function, *["f16" if name != "branches" else "f32"] * views).module.walk():
            at = location_of(op)
            assert at is not None and at.file == python_language.__file__
            if not isinstance(op.location, CallSiteLoc):
                assert first <= at.line < first + len(lines)


def test_a_kernel_whose_code_a_test_runner_has_rewritten() -> None:
    def kernel(A: tile.View[M, K], D: tile.View[M, K]):  # noqa: F821  # pyright: ignore
        assert A.ndim == 2, "rewritten by pytest, for its messages"
        for m, k in tile.grid(D, step=(64, 64)):
            a = tile.smem(64, 64, A.dtype)
            tile.copy(A[m, k], a)
            tile.copy(a, D[m, k])

    assert "tile.grid (%m, %k) over %D" in str(lowered(kernel, "f16", "f16").module)


def test_outputs_have_names_of_their_own() -> None:
    result = lowered(python_language.of_many_outputs, "f16")
    assert [o.name for o in result.returns.outputs] == ["made", "made2", "A2", "out"]
    assert (result.returns.returned, result.returns.as_tuple) == ((3, 0, 1, 2), True)
    names = [argument.name_hint for argument in kernel_of(result.module).body.block.args]
    assert names == ["A", "made", "made2", "A2", "out"]


CANNOT = "cannot be called in a kernel"
IN_PLACE = "hint: a kernel calls functions that are defined with def in a file, and lowers their code in place"
ELSEWHERE = "hint: compute the value outside of the kernel; tile.cdiv(a, b) is a quotient rounded up"
CALLED = """\
import functools
from tilec import tile
{definition}
def kernel(A: tile.View["M", "K"]):
    x = f(3)
"""


@pytest.mark.parametrize(
    ("definition", "message", "hint"),
    [
        ("f = lambda x: x", f"`f` {CANNOT}: <lambda> is not defined with def", IN_PLACE),
        ("async def f(x): pass", f"`f` {CANNOT}: f is an async function", IN_PLACE),
        ("def f(x): yield x", f"`f` {CANNOT}: f is a generator", IN_PLACE),
        (
            "exec('def f(x): return x')",
            f"`f` {CANNOT}: the source of function f cannot be read: could not get source code",
            IN_PLACE,
        ),
        (
            "@functools.wraps(len)\ndef f(x): return x",
            f"`f` {CANNOT}: len is a wrapper around len: what the decorator adds would be lost",
            IN_PLACE,
        ),
        ("def f(*x): return x", "a function that a kernel calls has no *x", "hint: name each parameter"),
        ("f = functools.partial(print, 3)", "a kernel cannot use `f`, a partial", ELSEWHERE),
        ("class f: pass", "a kernel cannot use `f`, a class", ELSEWHERE),
        ("f = [].append", "a kernel cannot use `f`, a function that is not written in Python", ELSEWHERE),
        ("class C:\n    def g(self, x): pass\nf = C().g", "a kernel cannot use `f`, a method", ELSEWHERE),
        (
            "def f(x, y=[]): return x",
            "the default of y is a list: numbers, strings, element types and tuples of them, functions, and the words of "
            "tilec.tile can be used",
            None,
        ),
    ],
)
def test_what_cannot_be_called(definition: str, message: str, hint: str | None, tmp_path: Path) -> None:
    function = function_in(tmp_path / "file.py", CALLED.format(definition=definition))
    with pytest.raises(TilecError) as error:
        lowered(function, "f16")
    lines = str(error.value).split("\n")
    assert lines[0].split(": error: ")[1] == message
    if hint is not None:
        assert lines[3] == hint


def test_a_helper_whose_file_has_changed(tmp_path: Path) -> None:
    helper, path = tmp_path / "helper.py", tmp_path / "file.py"
    helper.write_text("def f(x):\n    return x\n")
    text = CALLED.format(definition=f"import runpy\nf = runpy.run_path({str(helper)!r})['f']")
    function = function_in(path, text)
    helper.write_text("def f(x):\n    return x + 1\n")
    with pytest.raises(TilecError) as error:
        lowered(function, "f16")
    shown = str(error.value).replace(str(helper), "helper.py").replace(str(path), "file.py")
    assert shown == (
        "helper.py:1:1: error: the text of f is not what Python runs: its file has changed since it was imported\n"
        "def f(x):\n^\nhint: import it again, or start Python anew\n"
        "file.py:6:9: note: called from kernel\n    x = f(3)\n        ^"
    )


def test_arithmetic_branches_and_loops_at_run_time_mean_what_they_say() -> None:
    random = np.random.default_rng(0)
    a = random.standard_normal((64, 192), np.float32)
    d = np.zeros_like(a)
    assert tilec.jit(python_language.reversed_tiles)(a, d) is None
    tiles = a.reshape(4, 16, 3, 4, 16)
    expected = tiles.copy()
    expected[::2] = tiles[::2, :, :, ::-1]
    assert (d == expected.reshape(64, 192)).all()


COLUMN = """\
from tilec import tile


def column(m, n):
{body}


def kernel(A: tile.View["M", "K"], D: tile.View["M", "K"]):
    for m, n in tile.grid(D, step=(64, 64)):
        a = tile.smem(64, 64, A.dtype)
        tile.copy(A[m, column(m, n)], a)
        tile.copy(a, D[m, n])


def twice(x):
    return x + x
"""


@pytest.mark.parametrize(
    "body",
    [
        "return 64 if 0 <= n < 128 else 128",
        "return twice(n) if m < 64 and n <= 64 else n - n % 128",
        "return 64 if n > 64 and (m == 0 or n == 192) else 0",
        "return 64 if n > 64 or False else 128",
        "return 64 if n > 64 or True else 128",
        "return 64 if n > 64 and False else 128",
        "return 64 if 0 or n > 64 else 128",
        "return 64 if 3 and n > 64 else 128",
        "return 128 // max(n // 64, 1) if n != 192 else 0",
        "return 640 // (1 + n) // 10 if n != 192 else 0",
        "return n % 128 + m % 3",
        "q = float('nan')\nreturn 64 if q in (q,) else 0",
        "q = float('nan')\nreturn 64 if q in (-q,) else 0",
        "q = float('nan')\nreturn 64 if (q, 1) == (q, 1) else 0",
        "return 64 if ('a', (1, 2)) == ('a', (1, 2.0)) else 0",
        "x = 0\nwhile x < 128:\n    x += 64\nreturn x",
        "ß, π = n + 0, 64\nreturn ß - ß % π",
    ],
)
def test_numbers_are_those_of_python(body: str, tmp_path: Path) -> None:
    text = COLUMN.format(body=textwrap.indent(body, "    "))
    kernel, column = (function_in(tmp_path / "file.py", text, name) for name in ("kernel", "column"))
    a = np.arange(128 * 256, dtype=np.float32).reshape(128, 256)
    d = np.zeros_like(a)
    tilec.jit(kernel)(a, d)
    for m, n in product(range(0, 128, 64), range(0, 256, 64)):
        at = column(m, n)
        assert (d[m : m + 64, n : n + 64] == a[m : m + 64, at : at + 64]).all()


def test_a_condition_that_is_known_has_its_effects() -> None:
    a = np.arange(64 * 256, dtype=np.float32).reshape(64, 256)
    d = np.zeros_like(a)
    tilec.jit(python_language.copies_in_a_condition)(a, d)
    assert (d == np.tile(a[:, 128:192], 4)).all()


def test_branches_may_stand_behind_a_condition() -> None:
    a = np.arange(64 * 256, dtype=np.float32).reshape(64, 256)
    d = np.zeros_like(a)
    tilec.jit(python_language.branches_behind_a_condition)(a, d)
    assert (d == np.hstack([a[:, :64], a[:, 128:192], a[:, 128:192], a[:, 128:192]])).all()


def test_names_of_other_letters_than_those_of_ascii() -> None:
    a = np.arange(64 * 256, dtype=np.float32).reshape(64, 256)
    assert (tilec.jit(python_language.of_other_letters)(a) == np.tile(a[:, 192:], 4)).all()


def test_a_name_that_a_loop_could_have_set_is_still_there() -> None:
    a = np.arange(64 * 256, dtype=np.float32).reshape(64, 256)
    d = np.zeros_like(a)
    tilec.jit(python_language.sets_nothing)(a, d)
    assert (d == np.tile(a[:, 64:128], 4)).all()


def test_a_name_that_a_with_could_have_set_is_still_there() -> None:
    assert "step (64, 64)" in str(lowered(python_language.sets_nothing_by_one_thread, "f16").module)


def test_element_types_in_tuples_are_equal_to_their_names() -> None:
    assert "tile.splat 64" in str(lowered(python_language.compares_types, "f16").module)
    assert "tile.splat 32" in str(lowered(python_language.compares_types, "f32").module)


PRIVATE = """\
import math
from tilec import tile


class _Outer:
    class Holder:
        def read():
            {body}

        def made():
            def read():
                {body}

            return read


_Holder__width, __width = 64, 0
f = _Outer.Holder.{function}


def kernel(A: tile.View["M", "K"], D: tile.View["M", "K"]):
    tile.copy(tile.splat(f(), 64, 64, A.dtype), D[0, 0])
"""


@pytest.mark.parametrize(("function", "line", "indent"), [("read", 8, 12), ("made()", 12, 16)])
@pytest.mark.parametrize("read", ["__width", "math.__width"])
def test_a_name_that_python_changes_in_a_class(
    function: str, line: int, indent: int, read: str, tmp_path: Path
) -> None:
    kernel = function_in(tmp_path / "file.py", PRIVATE.format(body=f"return {read}", function=function))
    with pytest.raises(TilecError) as error:
        lowered(kernel, "f16", "f16")
    assert str(error.value).replace(str(tmp_path / "file.py"), "file.py") == (
        f"file.py:{line}:{indent + 8}: error: __width is private here: in class Holder Python reads _Holder__width in its place\n"
        f"{' ' * indent}return {read}\n{' ' * (indent + 7)}^\nhint: name it _width\n"
        "file.py:22:26: note: called from kernel\n"
        f"    tile.copy(tile.splat(f(), 64, 64, A.dtype), D[0, 0])\n{' ' * 25}^"
    )


def test_names_that_python_keeps_in_a_class(tmp_path: Path) -> None:
    body = "__width = len(__name__); return 3 * __width // __width"
    kernel = function_in(tmp_path / "file.py", PRIVATE.format(body=body, function="read"))
    assert "tile.splat 3" in str(lowered(kernel, "f16", "f16").module)
