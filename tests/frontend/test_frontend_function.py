"""Functions as texts: what is read of them, what is refused, and whether text and code are the same."""

from __future__ import annotations

import functools
import inspect
import linecache
import runpy
import subprocess
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import python_language
from written_kernels import function_in

from tilec import tile
from tilec.diagnostics import TilecError
from tilec.frontend.function import MISSING, Function
from tilec.frontend.lowering import lower

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def no_lines_of_other_tests() -> None:
    linecache.clearcache()


def refused(function: object, path: Path | None = None) -> str:
    with pytest.raises(TilecError) as error:
        Function.read(function).parameters  # pyright: ignore[reportArgumentType]  # noqa: B018
    return str(error.value).replace(str(path), "file.py")


def test_parameters_are_facts() -> None:
    function = Function.read(python_language.of_constants)
    assert (function.name, function.file) == ("of_constants", python_language.__file__)
    lines = Path(function.file).read_text().split("\n")
    assert lines[function.first_line - 1] == "def of_constants("
    facts = [(p.name, p.kind, p.keyword_only, p.default, p.classes) for p in function.parameters]
    assert facts == [
        ("A", "view", False, MISSING, ()),
        ("BM", "constant", False, MISSING, ()),
        ("dtype", "constant", False, MISSING, ()),
        ("scale", "constant", True, 2, (int, float)),
        ("wide", "constant", True, False, (bool,)),
    ]
    assert [p.annotation for p in function.parameters][:2] == ["tile.View['M', 'BN']", "tilec.constexpr"]
    scale, wide = function.parameters[3:]
    assert scale.takes(2.5) and scale.takes(3) and not scale.takes(True) and not scale.takes("a")
    assert wide.takes(True) and not wide.takes(1)
    assert function.parameters[1].takes(tile.f16)


def test_a_digest_is_of_text_place_and_code(tmp_path: Path) -> None:
    text = "def kernel(A):\n    return 1 in {1, 2, 'a', 'b', 'c'}\n"
    path = tmp_path / "file.py"

    def digest(text: str, path: Path = path) -> str:
        linecache.clearcache()
        return Function.read(function_in(path, text)).digest

    first = digest(text)
    assert digest(text) == first
    others = [
        digest(text, tmp_path / "other.py"),
        digest("\n" + text),
        digest(text + "# behind the function\n"),
        digest(text.replace("'c'", "'d'")),
        digest(text.replace("return", "return  ")),
    ]
    assert others[2] == first
    assert len({first, *others}) == 5


def test_a_digest_is_the_same_in_another_process(tmp_path: Path) -> None:
    path = tmp_path / "file.py"
    function = function_in(path, "def kernel(A):\n    return A in {'a', 'b', 'c', 'd', 'e'}\n")
    code = f"""
import runpy
from tilec.frontend.function import Function
print(Function.read(runpy.run_path({str(path)!r})['kernel']).digest)
"""
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        )
        assert done.stdout.strip() == Function.read(function).digest


def test_reading_a_function_is_light() -> None:
    code = (
        "import sys; from tilec.frontend import function, reads; "
        "print([m for m in ('xdsl', 'numpy', 'llvmlite') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


class Named:
    def method(self, A: object) -> None:
        """Not a kernel."""

    def __call__(self, A: object) -> None:
        """Not one either."""

    @staticmethod
    def plain(A: object) -> None:
        """A function after all."""


def _wrapped() -> Callable[..., Any]:
    @functools.wraps(python_language.helpers)
    def wrapper(*arguments: object) -> object:
        return python_language.helpers(*arguments)

    return wrapper


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (Named, "error: Named is a class\nhint: decorate a function defined with def"),
        (len, "error: len is not a Python function\nhint: decorate a function defined with def"),
        (3, "error: an int is not a Python function\nhint: decorate a function defined with def"),
        (
            Named(),
            "error: a Named is not a Python function, though it can be called\nhint: decorate a function defined with def",
        ),
        (Named().method, "error: method is a method of a Named\nhint: decorate a function defined with def"),
        (
            functools.partial(python_language.helpers, 3),
            "error: a functools.partial is not a kernel\n"
            "hint: decorate the function, and give its constants by name where it is called",
        ),
        (
            staticmethod(python_language.helpers),
            "error: helpers is a staticmethod\nhint: put @staticmethod above the kernel's decorator",
        ),
        (
            _wrapped(),
            "error: helpers is a wrapper around helpers: what the decorator adds would be lost\n"
            "hint: put the kernel's decorator under the others, next to def",
        ),
    ],
)
def test_what_is_no_function_is_refused_by_name(function: object, message: str) -> None:
    assert refused(function) == message


def test_a_static_method_is_a_function() -> None:
    assert Function.read(Named.plain).name == "plain"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "async def f(A): pass",
            "file.py:1:1: error: f is an async function\nasync def f(A): pass\n^\n"
            "hint: define it with def: a kernel awaits nothing",
        ),
        (
            "def f(A): yield A",
            "file.py:1:1: error: f is a generator\ndef f(A): yield A\n^\n"
            "hint: a kernel returns its outputs, and yields nothing",
        ),
        (
            "class C:\n    def f(self): pass\nf = C.f",
            "file.py:2:5: error: f is a method of a class\n    def f(self): pass\n    ^\n"
            "hint: define it outside of the class: a kernel has no self",
        ),
        (
            "f = lambda A: A",
            "file.py:1:1: error: <lambda> is not defined with def\nf = lambda A: A\n^\n"
            "hint: decorate a function, not a lambda",
        ),
        (
            "def f(A, *rest): pass",
            "file.py:1:11: error: a kernel has no *rest: name each of its views\ndef f(A, *rest): pass\n          ^",
        ),
        (
            "def f(A): pass",
            "file.py:1:7: error: parameter A has no annotation\ndef f(A): pass\n      ^\n"
            'hint: write its extents, as in `A: tile.View["M", "K"]`, or that it is a constant: tilec.constexpr',
        ),
        (
            "def f(n: int, A: list = 3): pass",
            "file.py:1:25: error: parameter A is a view: it has no default\n"
            "def f(n: int, A: list = 3): pass\n                        ^",
        ),
    ],
)
def test_what_kernels_cannot_be_is_refused_at_its_place(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "file.py"
    assert refused(function_in(path, text + "\n", "f"), path) == message


def test_a_function_without_a_file() -> None:
    scope: dict[str, Any] = {}
    exec("def invented(A): pass", scope)
    assert refused(scope["invented"]) == (
        "error: the source of function invented cannot be read: could not get source code\n"
        "hint: define it in a file or a notebook cell"
    )


KERNEL = """\
from tilec import tile

def kernel(A: tile.View["M", 64], D: tile.View["M", 64]):
    for m, n in tile.grid(D, step=(64, 64)):
        a = tile.smem(64, 64, A.dtype)
        tile.copy(A[m, n], a)
        tile.copy(a, D[m, n])
"""


def test_a_file_that_has_changed_since_its_import(tmp_path: Path) -> None:
    path = tmp_path / "file.py"
    function = function_in(path, KERNEL)
    assert lower(Function.read(function), ("f16", "f16"), {}).returns.returned == ()
    path.write_text(KERNEL.replace("step=(64, 64)", "step=(32, 64)"))
    linecache.clearcache()
    with pytest.raises(TilecError) as error:
        lower(Function.read(function), ("f16", "f16"), {})
    assert str(error.value).replace(str(path), "file.py") == (
        "file.py:3:1: error: the text of kernel is not what Python runs: its file has changed since it was imported\n"
        'def kernel(A: tile.View["M", 64], D: tile.View["M", 64]):\n^\n'
        "hint: import it again, or start Python anew"
    )
    path.write_text(KERNEL + "\n\nprint('another line behind it')\n")
    linecache.clearcache()
    assert lower(Function.read(function), ("f16", "f16"), {}).returns.returned == ()


@pytest.mark.parametrize(
    "text",
    [
        "from __future__ import annotations\n" + KERNEL,
        KERNEL.replace('tile.View["M", 64]', "\"tile.View['M', 64]\""),
        "def outer():\n    from tilec import tile\n"
        + "".join(f"    {line}\n" for line in KERNEL.split("\n")[2:])
        + "    return kernel\nkernel = outer()\n",
        KERNEL.replace("def kernel", "def same(f):\n    return f\n\n@same\n@same\ndef kernel"),
        KERNEL.replace("\n", "\r\n"),
        KERNEL.replace("    for", '    """ümläut"""\n    for'),
    ],
)
def test_a_function_is_read_wherever_it_stands(text: str, tmp_path: Path) -> None:
    path = tmp_path / "file.py"
    path.write_bytes(text.encode())
    function = Function.read(runpy.run_path(str(path))["kernel"])
    module = str(lower(function, ("f16", "f16"), {}).module)
    assert "tile.kernel @kernel(%A: !tile.view<Mx64xf16>, %D: !tile.view<Mx64xf16>) {" in module
    line = next(node for node in function.tree.body if hasattr(node, "iter"))
    at = function.location(line)
    assert text.replace("\r", "").split("\n")[at.line - 1][at.column - 1 :].startswith("for m, n")


def test_annotations_are_the_values_of_the_definition(tmp_path: Path) -> None:
    text = (
        "from tilec import tile\nN = 64\n\ndef kernel(A: tile.View['M', N], B: 'tile.View[N]', n: int): pass\nN = 32\n"
    )
    kernel = function_in(tmp_path / "file.py", text)
    function = Function.read(kernel)
    assert function.annotations == {"A": tile.View["M", 64], "B": "tile.View[N]", "n": int}
    assert repr(function.annotations["A"]) == "tile.View['M', 64]"
    assert tile.View["M", 64] != tile.View["M", 32] and tile.View["M"] == tile.View["M",]
    assert typing.get_type_hints(kernel) == {"A": tile.View["M", 64], "B": tile.View[32], "n": int}


def test_a_helper_takes_what_its_text_says(tmp_path: Path) -> None:
    text = KERNEL.replace(
        "from tilec import tile\n", "from tilec import tile\n\ndef half(x, by=2):\n    return x // by\n"
    ).replace("a = tile.smem(64,", "a = tile.smem(half(128),")
    kernel = function_in(tmp_path / "file.py", text)
    kernel.__globals__["half"].__signature__ = inspect.Signature([])
    assert "!tile.smem<64x64xf16>" in str(lower(Function.read(kernel), ("f16", "f16"), {}).module)


def test_a_variable_around_that_has_no_value_yet(tmp_path: Path) -> None:
    lines = KERNEL.replace("(64, 64)", "(rows, 64)").split("\n")
    inner = "".join(f"    {line}\n" for line in lines[2:])
    path = tmp_path / "file.py"
    kernel = function_in(path, f"{lines[0]}\ndef outer():\n{inner}    return kernel\n    rows = 64\nkernel = outer()\n")
    with pytest.raises(TilecError) as error:
        lower(Function.read(kernel), ("f16", "f16"), {})
    assert str(error.value).replace(str(path), "file.py") == (
        "file.py:4:40: error: rows has no value yet: the function around kernel sets it later\n"
        "        for m, n in tile.grid(D, step=(rows, 64)):\n"
        "                                       ^\n"
        "hint: set rows first"
    )
