"""No program outlives what it was made of, in memory or on disk, and none is made twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import stale_kernels
from written_kernels import function_in

import tilec
from tilec.frontend import lowering
from tilec.frontend.function import Function
from tilec.frontend.lowering import lower
from tilec.frontend.reads import ABSENT, guards, reads_from_json, reads_to_json, still

SCRIPT = Path(__file__).with_name("stale_in_a_process.py")
NAMES = [kernel.function.name for kernel in stale_kernels.KERNELS]


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    stale_kernels.change(stale_kernels.BEFORE)


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Names of the functions that are lowered, one by one; the disk has none of them."""
    monkeypatch.setenv("TILEC_CACHE_DIR", str(tmp_path))
    names: list[str] = []

    def counted(function: Any, *rest: Any) -> object:
        names.append(function.name)
        return lower(function, *rest)

    monkeypatch.setattr(lowering, "lower", counted)
    return names


def rows_of(kernel: tilec.JitFunction) -> str:
    """The rows of its tile, as its code has them."""
    return kernel.kernel("f16").ir().split("!tile.smem<")[1].split("x")[0]


@pytest.mark.parametrize("kernel", stale_kernels.KERNELS, ids=NAMES)
def test_a_change_gives_another_program_and_back_the_first(kernel: tilec.JitFunction, lowered: list[str]) -> None:
    fresh = tilec.jit(kernel.function.callable)
    for _ in range(3):
        assert rows_of(fresh) == "64"
    first = fresh.kernel("f16")
    assert len(lowered) == 1
    stale_kernels.change(stale_kernels.AFTER)
    for _ in range(3):
        assert rows_of(fresh) == "32"
    assert len(lowered) == 2
    stale_kernels.change(stale_kernels.BEFORE)
    assert fresh.kernel("f16") is first
    assert len(lowered) == 2


@pytest.mark.parametrize("kernel", stale_kernels.KERNELS, ids=NAMES)
def test_reads_and_guards_hold_until_the_change(kernel: tilec.JitFunction) -> None:
    function = kernel.function
    reads = lower(function, ("f16",), {}).reads
    reads = reads_from_json(json.loads(json.dumps(reads_to_json(reads))))
    made = guards(function, reads)
    assert made is not None

    def hold() -> bool:
        return all(space.get(key, ABSENT) is value for space, key, value in made if isinstance(space, dict))

    assert still(function, reads) and hold()
    stale_kernels.change(stale_kernels.AFTER)
    assert not still(function, reads)
    assert not hold()


def test_a_function_in_a_closure_is_followed_into_helpers(lowered: list[str]) -> None:
    double, same = (stale_kernels.of_a_closure(f) for f in (stale_kernels.double, stale_kernels.same))
    for _ in range(3):
        assert (rows_of(double), rows_of(same)) == ("64", "32")
    assert lowered == ["closed", "closed"]
    made = guards(double.function, lower(double.function, ("f16",), {}).reads)
    assert made is not None and any(key is None and value is stale_kernels.double for _, key, value in made)


@pytest.mark.parametrize(
    ("make", "value", "text"),
    [
        (stale_kernels.of_an_extent, 256, "%A: !tile.view<Mx256xf16>"),
        (stale_kernels.of_an_extent, "N", "%A: !tile.view<MxNxf16>"),
        (stale_kernels.of_facts, 8, "%A: !tile.view<MxKxf16, align = 8>"),
    ],
)
def test_an_annotation_is_what_it_was_at_the_definition(make: Callable[..., Any], value: object, text: str) -> None:
    assert text in make(value).kernel("f16").ir()


def test_kernels_of_a_loop_have_the_extents_of_their_turns() -> None:
    kernels = [stale_kernels.of_an_extent(columns) for columns in (256, 128)]
    texts = [kernel.kernel("f16").ir() for kernel in kernels]
    assert ["%A: !tile.view<Mx256xf16>" in text for text in texts] == [True, False]
    assert ["%A: !tile.view<Mx128xf16>" in text for text in texts] == [False, True]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (True, "an extent is a symbol, an integer or '?', not a bool"),
        (1.5, "an extent is a symbol, an integer or '?', not a float"),
        ([64], "an extent is a symbol, an integer or '?', not a list"),
        ("a b", "bad symbol 'a b': letters but x, digits and _, not a digit first"),
    ],
)
def test_what_an_annotation_cannot_hold_is_refused_at_its_place(value: Any, message: str) -> None:
    with pytest.raises(tilec.TilecError) as error:
        stale_kernels.of_an_extent(value).kernel("f16")
    line = '    def fixed(A: tile.View["M", columns]):'
    where = error.value.diagnostic.location
    assert where is not None and (where.file, where.column) == (stale_kernels.__file__, line.index("columns") + 1)
    assert str(error.value) == f"{where}: error: {message}\n{line}\n{' ' * line.index('columns')}^"


def in_a_process(when: str, cache: Path) -> dict[str, Any]:
    environment = {**os.environ, "TILEC_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, SCRIPT, when], env=environment, capture_output=True, text=True, check=True, timeout=300
    )
    return json.loads(done.stdout)


def test_another_process_finds_the_programs_that_are_right_for_it(tmp_path: Path) -> None:
    before = in_a_process("before", tmp_path / "one")
    assert before["heavy"] == ["xdsl", "llvmlite"]
    expected = in_a_process("after", tmp_path / "another")["codes"]
    assert in_a_process("after", tmp_path / "one")["codes"] == expected
    assert [name for name, code in expected.items() if code == before["codes"][name]] == []
    for when, codes in (("before", before["codes"]), ("after", expected)):
        assert in_a_process(when, tmp_path / "one") == {"codes": codes, "heavy": []}


LOCAL = """\
from __future__ import annotations

def make(columns):
    from tilec import tile

    class Around:
        rows = 64

    def kernel(A: tile.View[M, columns], D: tile.View["M", "K"]):
        for m, k in tile.grid(D, step=(64, 64)):
            a = tile.smem(64, 64, A.dtype)
            tile.copy(A[m, k], a)
            tile.copy(a, D[m, k])

    return kernel

kernel = make(64)
"""


def test_a_text_does_not_tell_what_a_variable_around_it_is(tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    with pytest.raises(tilec.TilecError) as error:
        lower(Function.read(function_in(path, LOCAL)), ("f16", "f16"), {})
    assert str(error.value).replace(str(path), "kernel.py") == (
        "kernel.py:9:32: error: this annotation is a text, which does not tell the value of columns in make\n"
        '    def kernel(A: tile.View[M, columns], D: tile.View["M", "K"]):\n'
        "                               ^\n"
        'hint: leave out `from __future__ import annotations`, or write "columns" for a symbol'
    )


@pytest.mark.parametrize(
    ("text", "view"),
    [
        (LOCAL.replace("from __future__ import annotations\n", "M = 'Q'\n"), "Qx64xf16"),
        (LOCAL.replace("columns], D", '"columns"], D'), "Mxcolumnsxf16"),
        (LOCAL.replace("A.dtype)", "A.dtype) if columns else None"), "Mx64xf16"),  # a variable of the closure
        (LOCAL.replace("columns], D", "rows], D"), "Mxrowsxf16"),  # a class's names are no variables
    ],
)
def test_extents_that_functions_around_set(text: str, view: str, tmp_path: Path) -> None:
    function = Function.read(function_in(tmp_path / "kernel.py", text))
    assert f"(%A: !tile.view<{view}>" in str(lower(function, ("f16", "f16"), {}).module)


PARAMETER = """\
from tilec import constexpr, tile
ROWS, FACTS, Tensor = 128, tile.facts(align=8, tail="free"), tile.View

def kernel(A: Tensor[ROWS, 2 * ROWS, FACTS], D: Tensor["?", "K", tile.f16], *, ROWS: constexpr = ROWS):
    for m, k in tile.grid(D, step=(64, 64)):
        a = tile.smem(64, 64, A.dtype)
        tile.copy(A[m, k], a)
        tile.copy(a, D[m, k])

ROWS, FACTS, Tensor = "a", None, None
"""


def test_a_parameter_in_an_annotation_is_what_the_call_gives(tmp_path: Path) -> None:
    function = Function.read(function_in(tmp_path / "kernel.py", PARAMETER))
    lowered = lower(function, ("f16", "f16"), {"ROWS": 64})
    assert "(%A: !tile.view<64x128xf16, align = 8, tail = free>, %D: !tile.view<?xKxf16>)" in str(lowered.module)
    assert still(function, lowered.reads)
