"""The vocabulary of kernels in Python: every word, in its various ways, is the operation of the dialect that it names."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import python_ladder
import python_words
from ir_text import canonical, kernel_of

from tilec import tile
from tilec.diagnostics import TilecError, location_of
from tilec.dialects.tile import Tile
from tilec.frontend.function import Function
from tilec.frontend.lowering import lower, values
from tilec.frontend.lowering.vocabulary import VOCABULARY
from tilec.frontend.lowering.words.schedule import Scheduled
from tilec.source import parse_text


def _functions(module: ModuleType) -> dict[str, Callable[..., Any]]:
    return {
        name: value
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__
    }


SAID = _functions(python_words)
LADDER = ("gemm", "bias_relu", "step4", "step5", "step6", "step7")


@pytest.mark.parametrize("name", SAID)
def test_the_function_is_the_tile_code_in_its_docstring(name: str) -> None:
    parsed = parse_text(inspect.getdoc(SAID[name]) or "", f"{name}.tile")
    function = Function.read(SAID[name])
    views = [p for p in function.parameters if p.kind == "view"]
    dtypes = [view.dtype.name for view in kernel_of(parsed).views[: len(views)]]
    assert canonical(lower(function, dtypes, {}).module) == canonical(parsed)


def test_every_operation_of_the_dialect_can_be_said() -> None:
    functions = [*SAID.values(), *(vars(python_ladder)[name] for name in LADDER)]
    made: set[str] = set()
    for function in functions:
        read = Function.read(function)
        dtypes = [
            "f32" if p.name in ("bias", "row") or function is SAID["arithmetic"] else "f16" for p in read.parameters
        ]
        made |= {op.name for op in kernel_of(lower(read, dtypes, {}).module).walk()}
    kernel = {"tile.kernel"}
    assert {op.name for op in Tile.operations} <= made | kernel


def _words(names: list[str], prefix: str = "") -> Iterator[str]:
    """The dotted names of what can be called in `tile`."""
    for name in names:
        value = attrgetter(prefix + name)(tile)
        if isinstance(value, ModuleType):
            yield from _words(
                [n for n in vars(value) if getattr(vars(value)[n], "__module__", "") == value.__name__],
                f"{prefix}{name}.",
            )
        elif callable(value) and not inspect.isclass(value):
            yield prefix + name


def test_every_stub_has_a_handler_and_the_other_way_round() -> None:
    callees = {*VOCABULARY.words, *VOCABULARY.loops, *VOCABULARY.scopes}
    stubs = {*_words(tile.__all__), "mbarrier.arrive.expect_tx"} - {"maximum"}
    assert callees == stubs
    assert tile.maximum is tile.max


@pytest.mark.parametrize("word", sorted({*_words(tile.__all__)} - {"facts", "cdiv"}))
def test_a_word_outside_of_a_kernel(word: str) -> None:
    stub = attrgetter(word)(tile)
    parameters = inspect.signature(stub).parameters.values()
    required = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    given = [0 for p in required if p.kind is not p.KEYWORD_ONLY]
    named = {p.name: 0 for p in required if p.kind is p.KEYWORD_ONLY}
    with pytest.raises(TilecError) as raised:
        stub(*given, **named)
    assert str(raised.value) == (
        f"error: tile.{'max' if word == 'maximum' else word} has a meaning only inside a kernel function\n"
        "hint: decorate the function that uses it with @tilec.jit"
    )


_CLASSES: dict[type[object], type[values.Thing]] = {
    tile.View: values.View,
    tile.Smem: values.Smem,
    tile.Ring: values.Ring,
    tile.Acc: values.Acc,
    tile.Reg: values.Reg,
    tile.Mbarrier: values.Barrier,
    tile.Scheduled: Scheduled,
}


@pytest.mark.parametrize("stub", _CLASSES, ids=attrgetter("__name__"))
def test_every_attribute_that_editors_show_has_a_handler_and_the_other_way_round(stub: type[object]) -> None:
    shown = {name for name in (*vars(stub), *inspect.get_annotations(stub)) if not name.startswith("_")}
    assert set(VOCABULARY.members(_CLASSES[stub])) == shown


@pytest.mark.parametrize("step", ["step6", "step7"])
def test_operations_stand_where_python_says_them(step: str) -> None:
    """Also those of helpers, which are lowered where they are called."""
    function = Function.read(vars(python_ladder)[step])
    module = lower(function, ("f16", "f16"), {}).module
    lines = Path(function.file).read_text().split("\n")
    said: set[str] = set()
    for op in kernel_of(module).walk():
        at = location_of(op)
        assert at is not None and at.file == function.file
        if op.name.removeprefix("tile.") in VOCABULARY.words | VOCABULARY.scopes:
            text = lines[at.line - 1][at.column - 1 :]
            words = ("tile.persistent(", "tile.schedule(") if op.name == "tile.schedule" else (f"{op.name}(",)
            words = ("r.to(", "r0.to(", "r1.to(") if op.name == "tile.cast" else words
            words = ("tile.zeros(",) if op.name == "tile.splat" else words
            assert text.startswith(words)
            said.add(op.name)
    assert len(said) > 15


def test_what_python_itself_may_compute() -> None:
    assert tile.cdiv(100, 16) == 7
    assert tile.cdiv(96, 16) == 6
    assert tile.facts(align=8) == tile.Facts(None, 8, "grid")


def test_the_vocabulary_is_light() -> None:
    heavy = "{'xdsl', 'llvmlite', 'numpy', 'torch'}"
    code = f"import sys; from tilec import tile; print({heavy} & {{m.split('.')[0] for m in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
