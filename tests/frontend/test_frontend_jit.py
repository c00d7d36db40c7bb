"""Kernels written as Python functions: the tile code that they become, their errors and their calls."""

from __future__ import annotations

import inspect
import runpy
import subprocess
import sys
from operator import attrgetter
from pathlib import Path

import around_kernels
import kernels
import numpy as np
import pytest
import wrong_kernels
from xdsl.dialects.builtin import FileLineColLoc

import tilec
from tilec.diagnostics import TilecError
from tilec.source import parse_file

EXAMPLES = Path(__file__).parents[2] / "examples"
WRONG = [name for name, value in vars(wrong_kernels).items() if inspect.isfunction(value)]


def test_gemm_is_word_for_word_the_example() -> None:
    assert kernels.gemm.kernel("f16", "f16").ir() == str(parse_file(EXAMPLES / "gemm.tile"))


def test_every_operation_knows_its_python_line() -> None:
    lines = Path(kernels.__file__).read_text().split("\n")
    words = {
        "tile.kernel": "def gemm",
        "tile.grid": "tile.grid(",
        "tile.alloc": "tile.",
        "tile.for": "tile.range(",
        "tile.copy": "tile.copy(",
        "tile.mma": "tile.mma(",
        "tile.yield": "tile.range(",
    }
    for op in kernels.gemm.kernel("f16", "f16").module.walk():
        if op.name in words:
            at = op.location
            assert isinstance(at, FileLineColLoc)
            assert at.filename.data == kernels.__file__
            assert lines[at.line.data - 1][at.column.data - 1 :].startswith(words[op.name])


def test_integers_from_everywhere() -> None:
    function = tilec.jit(kernels.configurable(64))
    text = function.kernel("f16", "f16").ir()
    assert "step (64, 64)" in text
    assert "!tile.smem<64x64xf16>" in text
    assert "%D: !tile.view<MxNxf32>" in text
    assert "dim 1 step 32" in function.kernel("bf16", "bf16", BK=32).ir()
    assert "step (256, 64)" in tilec.jit(kernels.configurable(256)).kernel("f16", "f16").ir()


def test_integers_around_the_function_are_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    function = tilec.jit(kernels.configurable(64))
    before = function.kernel("f16", "f16")
    assert function.kernel("f16", "f16") is before
    monkeypatch.setattr(kernels, "BLOCK", 256)
    assert "step (64, 128)" in function.kernel("f16", "f16").ir()
    assert function.kernel("f16", "f16") is not before
    monkeypatch.undo()
    assert function.kernel("f16", "f16") is before


def around(monkeypatch: pytest.MonkeyPatch, name: str, value: object) -> None:
    owner, _, attribute = name.rpartition(".")
    monkeypatch.setattr(attrgetter(owner)(around_kernels) if owner else around_kernels, attribute, value)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("STEP", (128, 64), "step (128, 64)"),
        ("NAMED", "bf16", "%D: !tile.view<MxKxbf16>"),
        ("TYPE", tilec.tile.bf16, "!tile.smem<64x64xbf16>"),
        ("config.ROWS", 32, "!tile.smem<32x64x"),
        ("config", around_kernels.other_config, "!tile.smem<16x64x"),
        ("config.nested.COLUMNS", 32, "x32xf16>"),
        ("SYMBOL", "K", "%A: !tile.view<MxKxf16>, %D: !tile.view<KxKxf16>"),  # the annotation has been evaluated
        ("copy", tilec.tile.mma, ""),
    ],
)
def test_every_value_around_the_function_is_part_of_it(
    name: str, value: object, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = around_kernels.reads_everything
    before, ir = function.kernel("f16"), function.kernel("f16").ir()
    assert text == "" or text not in ir
    around(monkeypatch, name, value)
    if text:
        assert text in function.kernel("f16").ir()
        assert function.kernel("f16") is not before
        assert function.kernel("f16") is function.kernel("f16")
    else:
        with pytest.raises(TilecError, match=r"`copy` takes acc, a, b"):
            function.kernel("f16")
    monkeypatch.undo()
    assert function.kernel("f16") is before


def test_what_the_function_does_not_read_is_not_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    before = around_kernels.reads_everything.kernel("f16")
    around(monkeypatch, "UNREAD", 8)
    around(monkeypatch, "config.UNREAD", 8)
    around(monkeypatch, "STEP", tuple([64, 64]))  # another object, the same value
    assert around_kernels.reads_everything.kernel("f16") is before


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("STEP", (True, 64), "argument step must hold integers known at compile time, not a bool"),
        ("STEP", None, "argument step must hold integers known at compile time, not None"),
        ("config.ROWS", 64.0, "an extent of a tile must be an integer known at compile time, not a float"),
    ],
)
def test_a_value_that_has_become_unusable_is_seen(
    name: str, value: object, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    around_kernels.reads_everything.kernel("f16").ir()
    around(monkeypatch, name, value)
    with pytest.raises(TilecError, match=message):
        around_kernels.reads_everything.kernel("f16").ir()


def test_a_name_that_is_gone_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    around_kernels.reads_everything.kernel("f16").ir()
    monkeypatch.delattr(around_kernels, "STEP")
    with pytest.raises(TilecError, match="name 'STEP' is not defined here"):
        around_kernels.reads_everything.kernel("f16").ir()


def test_defaults_are_those_of_the_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    around(monkeypatch, "UNREAD", 64)
    assert "!tile.smem<32x16xf16>" in around_kernels.has_defaults.kernel("f16").ir()


def test_outputs_are_arguments_behind_the_inputs() -> None:
    text = kernels.two_outputs.kernel("f16", "f16").ir()
    assert (
        "(%A: !tile.view<Mx64xf16>, %B: !tile.view<Nx64xf16>, %C: !tile.view<NxMxf32>, %D: !tile.view<MxNxf16>)" in text
    )


@pytest.mark.parametrize("name", WRONG)
def test_errors_point_at_the_python_code(name: str) -> None:
    function = getattr(wrong_kernels, name)
    with pytest.raises(TilecError) as error:
        tilec.jit(function).kernel(*["f16"] * len(inspect.signature(function).parameters))
    shown = str(error.value).split("\n")
    lines, first = inspect.getsourcelines(function)
    line, expected = next((i, text) for i, text in enumerate(lines) if "  # " in text)
    message, word = expected.split("  # ", 1)[1].split(" ~ ")
    word = word.split("  #")[0].strip("\n")
    place, column = shown[0].split(": error: ")[0].rsplit(":", 1)
    assert place == f"{wrong_kernels.__file__}:{first + line}"
    assert shown[0].split(": error: ")[1].startswith(message)
    assert shown[1] == expected.rstrip("\n")
    assert expected[int(column) - 1 :].startswith(word)
    assert shown[2] == " " * (int(column) - 1) + "^"


def test_errors_without_a_line() -> None:
    with pytest.raises(TilecError, match=r"gemm takes 2 tensors \(A, B\), not 1"):
        kernels.gemm.kernel("f16").ir()
    with pytest.raises(TilecError, match="gemm has no parameter 'BK'"):
        kernels.gemm.kernel("f16", "f16", BK=3).ir()
    function = tilec.jit(kernels.configurable(64))
    with pytest.raises(TilecError) as error:
        function.kernel("f16", "f16", BQ=3).ir()
    assert str(error.value) == (
        "error: gemm has no parameter 'BQ'\nhint: did you mean 'B'? known: A, B, BK, out, stream, max_ctas"
    )
    with pytest.raises(TilecError, match="must be an integer known at compile time, not a string"):
        function.kernel("f16", "f16", BK="64").ir()  # pyright: ignore[reportArgumentType]
    with pytest.raises(TilecError, match="argument A holds f64; a view holds f16, bf16 or f32"):
        kernels.gemm.kernel("f64", "f64")
    with pytest.raises(TilecError, match="argument A is an int, not a tensor"):
        kernels.gemm(3, 4)
    with pytest.raises(TilecError, match="unknown pass 'tmaa'"):
        kernels.bad_pipeline.kernel("f16", "f16")
    with pytest.raises(TilecError, match="the source of function invented cannot be read"):
        scope: dict[str, object] = {}
        exec("def invented(A): pass", scope)
        tilec.jit(scope["invented"]).kernel("f16").ir()  # pyright: ignore
    with pytest.raises(TilecError, match="len is not a Python function"):
        tilec.jit(len).kernel("f16").ir()
    with pytest.raises(TilecError, match="is not defined with def"):
        tilec.jit(lambda: None).kernel()
    with pytest.raises(TilecError, match="must be an integer known at compile time, not a bool"):
        function.kernel("f16", "f16", BK=True).ir()


@pytest.mark.parametrize(
    "text",
    [
        "f = lambda A: A\n",
        "f = (\n    lambda A:\n    A\n)\n",
        "f = [lambda A:\n     A, 3][0]\n",
        "f = dict(\n    f=lambda A: (\n        A\n    ),\n)['f']\n",
        "def make():\n    return (lambda A: [\n      A])\nf = make()\n",
    ],
)
def test_lambdas_of_any_shape_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "lambdas.py"
    path.write_text(text)
    with pytest.raises(TilecError) as error:
        tilec.jit(runpy.run_path(str(path))["f"]).kernel("f16").ir()
    lines = text.split("\n")
    line = next(i for i, one in enumerate(lines) if "lambda" in one)
    assert str(error.value) == (
        f"{path}:{line + 1}:1: error: <lambda> is not defined with def\n{lines[line]}\n^\n"
        "hint: decorate a function, not a lambda"
    )


def test_a_file_that_has_changed_since(tmp_path: Path) -> None:
    path = tmp_path / "changing.py"
    path.write_text("def f(A):\n    return A\n")
    scope = runpy.run_path(str(path))
    path.write_text("def f(A)\n    return A\n")
    with pytest.raises(TilecError) as error:
        tilec.jit(scope["f"]).kernel("f16").ir()
    assert str(error.value) == (
        f"{path}:1:1: error: the source of function f cannot be read: expected ':' (<unknown>, line 1)\n"
        "def f(A)\n^\nhint: has the file changed since it was imported?"
    )


def test_arguments_of_a_launch_that_are_no_tensors() -> None:
    a = np.ones((64, 64), np.float16)

    def refused(*inputs: object, **options: object) -> str:
        with pytest.raises(TilecError) as error:
            kernels.gemm(*inputs, **options)
        return str(error.value)

    hint = "\nhint: pass tensors of torch, arrays of NumPy or numba-cuda, or arrays with DLPack or an array interface"
    assert refused(a, a, out=3) == f"error: argument D is an int, not a tensor{hint}"
    assert refused(a, a, out=[a]) == (
        "error: out= is a tensor, or a tuple of them, not a list\nhint: write parentheses: out=(d, e)"
    )
    assert refused(a, a, out=(None,)) == f"error: argument D is None, not a tensor{hint}"
    assert refused("f16", "f16") == f"error: argument A is a str, not a tensor{hint}"
    assert refused(a, "f16") == f"error: argument B is a str, not a tensor{hint}"
    odd = type("Odd", (), {"dtype": [], "shape": (1, 1)})()
    assert refused(a, odd) == f"error: argument B is an Odd, not a tensor{hint}"
    frozen = np.empty((64, 64), np.float16)
    frozen.flags.writeable = False
    assert refused(a, a, out=frozen) == (
        "error: argument D is read-only; the kernel writes it\nhint: pass an output of its own"
    )
    assert refused(a, a, out=np.empty((64, 65), np.float16)) == (
        "error: arguments B and D disagree about N: dimension 0 of B has 64 elements, dimension 1 of D has 65"
    )


@pytest.mark.parametrize(
    ("pipeline", "target", "message"),
    [
        (3, None, "a pipeline is a text, not an int\nhint: for example 'tma,pipeline"),
        (["tma"], None, "a pipeline is a text, not a list\nhint: "),
        ("", 3, "a target is a name, not an int\nhint: known: sm_90a, sm_100a"),
    ],
)
def test_options_of_the_wrong_class(pipeline: object, target: object, message: str) -> None:
    with pytest.raises(TilecError, match=message):
        tilec.jit(pipeline=pipeline, target=target)(kernels.gemm.__wrapped__).kernel("f16", "f16")  # pyright: ignore


def test_a_pipeline_in_place_of_the_function() -> None:
    with pytest.raises(TilecError) as caught:
        tilec.jit("tma")  # pyright: ignore
    assert str(caught.value) == (
        "error: a kernel is made of a function, not of the text 'tma'\n"
        "hint: give passes by name: @tilec.jit(pipeline=...)"
    )


def test_words_mean_nothing_outside_of_a_kernel() -> None:
    with pytest.raises(TilecError, match=r"tile\.acc has a meaning only inside a kernel function"):
        tilec.tile.acc(128, 128)


def float64(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.float64) @ b.astype(np.float64).T


def test_numpy_arrays_run_the_meaning() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((200, 72), (136, 72)))
    d = kernels.gemm(a, b)
    assert d.dtype == np.float16 and d.shape == (200, 136)
    want = float64(a, b)
    assert np.linalg.norm(d - want) < 1e-3 * np.linalg.norm(want)


def test_numpy_outputs_can_be_given() -> None:
    a, b = np.ones((64, 64), np.float16), np.full((128, 64), 2, np.float16)
    c, d = np.empty((128, 64), np.float32), np.empty((64, 128), np.float16)
    got = kernels.two_outputs(a, b, out=(c, d))
    assert got[0] is d and got[1] is c
    assert (d == 128).all() and (c == 128).all()
    with pytest.raises(TilecError, match=r"two_outputs has 2 outputs \(C, D\), not 1"):
        kernels.two_outputs(a, b, out=d)


@pytest.mark.parametrize("name", ["gemm.py", "step6.py"])
def test_examples_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert "PASS" in capsys.readouterr().out


def test_import_is_light() -> None:
    heavy = "[m for m in ('torch', 'numba', 'llvmlite', 'xdsl', 'numpy') if m in sys.modules]"
    code = f"import sys, tilec; assert dir(tilec); print({heavy})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_public_names() -> None:
    for name in tilec.__all__:
        assert getattr(tilec, name) is not None
    assert tilec.__version__.count(".") >= 1
    with pytest.raises(AttributeError, match="module 'tilec' has no attribute 'jitt'"):
        tilec.jitt  # noqa: B018  # pyright: ignore
