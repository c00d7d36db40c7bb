"""What a program depends on: seen when it changes, unmoved by all else, and the same in another process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from types import CellType
from typing import Any

import pytest
import python_around
from hypothesis import given
from hypothesis import strategies as st
from written_kernels import function_in

from tilec import tile
from tilec.backend.runtime.host.guards import Guard
from tilec.frontend.function import Function
from tilec.frontend.lowering import lower
from tilec.frontend.reads import (
    ABSENT,
    Read,
    constant,
    guards,
    is_constant,
    reads_from_json,
    reads_to_json,
    still,
)


def reads_of(function: Callable[..., Any]) -> tuple[Function, tuple[Read, ...]]:
    read = Function.read(function)
    return read, lower(read, ("f16", "f16"), {}).reads


def test_reads_are_what_was_looked_at() -> None:
    _, reads = reads_of(python_around.around)
    found = {(r.within, r.path, r.of): r.fact for r in reads if r.fact[0] not in ("function", "some")}
    assert found == {
        ((), "A.0", "annotation"): ("str", "M"),
        ((), "A.1", "annotation"): ("str", "K"),
        ((), "D.0", "annotation"): ("str", "M"),
        ((), "D.1", "annotation"): ("str", "K"),
        ((), "ZERO", "name"): ("float", "0x0.0p+0"),
        ((), "NAN", "name"): ("float", "nan"),
        ((), "NOTHING", "name"): ("NoneType", None),
        ((), "FLAG", "name"): ("bool", True),
        (("helper", "inner"), "SIZE", "name"): ("int", 32),
        (("helper", "inner"), "len", "name"): ("builtin", "len"),
        (("helper", "inner"), "more", "default"): ("tuple", [["int", 1], ["int", 2]]),
        (("helper",), "times", "default"): ("int", 1),
        ((), "tile.grid", "name"): ("word", "grid"),
        ((), "STEP", "name"): ("tuple", [["int", 64], ["tuple", [["int", 64], ["float", "0x1.8000000000000p+0"]]]]),
        ((), "config.nested.COLUMNS", "name"): ("int", 64),
        ((), "tile.smem", "name"): ("word", "smem"),
        ((), "config.ROWS", "name"): ("int", 64),
        ((), "TYPE", "name"): ("dtype", "f16"),
        ((), "NAME", "name"): ("str", "f16"),
        ((), "copy", "name"): ("word", "copy"),
        ((), "tile.copy", "name"): ("word", "copy"),
    }
    functions = {(r.within, r.path): r.fact[1] for r in reads if r.fact[0] == "function"}
    assert functions == {
        ((), "helper"): Function.read(python_around.helper).digest,
        (("helper",), "inner"): Function.read(python_around.inner).digest,
    }
    assert {(r.within, r.path, r.fact[1]) for r in reads if r.fact[0] == "some"} == {
        ((), "helper", "function"),
        (("helper",), "inner", "function"),
        ((), "tile", "module"),
        ((), "config", "module"),
        ((), "config.nested", "module"),
    }


def _other_helper(x: int, times: int = 1) -> int:
    return x * times


def _other_inner(x: int, more: tuple[int, ...] = (1, 2)) -> int:
    return x + len(more)


class _Len:
    """What another `len` in the globals hides Python's by."""


CHANGES: list[tuple[str, object]] = [
    ("ZERO", -0.0),
    ("ZERO", 0),
    ("NAN", 1.0),
    ("NOTHING", False),
    ("FLAG", 1),
    ("STEP", (64, (64, 1.0))),
    ("STEP", (64, 64)),
    ("STEP", [64, (64, 1.5)]),
    ("TYPE", tile.bf16),
    ("TYPE", "f16"),
    ("NAME", tile.f16),
    ("config.ROWS", 32),
    ("config.ROWS", 64.0),
    ("config.nested.COLUMNS", 65),
    ("config.nested", 3),
    ("config", None),
    ("copy", tile.mma),
    ("copy", 3),
    ("SIZE", 33),
    ("helper", _other_helper),
    ("inner", _other_inner),
    ("helper", len),
    ("len", _Len),
]


@pytest.mark.parametrize(("name", "value"), CHANGES)
def test_every_change_of_what_was_read_is_seen(name: str, value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    function, reads = reads_of(python_around.around)
    made = guards(function, reads)
    assert made is not None
    assert still(function, reads) and _hold(made)
    owner, _, attribute = name.rpartition(".")
    monkeypatch.setattr(
        attrgetter(owner)(python_around) if owner else python_around, attribute, value, raising=name != "len"
    )
    assert not still(function, reads)
    assert not _hold(made)
    monkeypatch.undo()
    assert still(function, reads) and _hold(made)


def _hold(made: list[Guard]) -> bool:
    return all(_now(place, name) is value for place, name, value in made)


def _now(place: object, name: str | None) -> object:
    """What a guard looks at."""
    match place:
        case CellType():
            return place.cell_contents
        case dict():
            return place.get(name, ABSENT)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        case _:
            return getattr(place, str(name))


def test_a_name_that_is_gone_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    function, reads = reads_of(python_around.around)
    monkeypatch.delattr(python_around, "STEP")
    assert not still(function, reads)


def test_what_was_not_read_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    function, reads = reads_of(python_around.around)
    monkeypatch.setattr(python_around, "UNREAD", 8)
    monkeypatch.setitem(vars(python_around.config), "UNREAD", 8)
    monkeypatch.setattr(python_around, "STEP", tuple([64, (64, 1.5)]))  # another object, the same value
    monkeypatch.setattr(python_around, "NAN", float("inf") - float("inf"))
    assert still(function, reads)


def _named(x: int, *, more: int = 3) -> int:
    return x + more


@pytest.mark.parametrize(
    ("helper", "attribute", "value"),
    [
        (python_around.inner, "__defaults__", ((1, 2, 3),)),
        (python_around.helper, "__defaults__", (2,)),
        (python_around.inner, "__code__", _other_inner.__code__),
        (python_around.helper, "__code__", _other_helper.__code__),
    ],
)
def test_what_is_changed_in_a_helper_is_seen(
    helper: Any, attribute: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    function, reads = reads_of(python_around.around)
    made = guards(function, reads)
    assert made is not None and _hold(made)
    monkeypatch.setattr(helper, attribute, value)
    assert not still(function, reads)
    assert not _hold(made)


@pytest.mark.parametrize(
    "change", [lambda: _named.__kwdefaults__.update(more=4), lambda: setattr(_named, "__kwdefaults__", {"more": 4})]
)
def test_a_default_of_a_keyword_is_guarded(change: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_named, "__kwdefaults__", {"more": 3})
    monkeypatch.setattr(python_around, "inner", _named)
    function, reads = reads_of(python_around.around)
    made = guards(function, reads)
    assert made is not None and _hold(made) and still(function, reads)
    change()
    assert not still(function, reads)
    assert not _hold(made)


def test_a_closure_is_read_and_guarded() -> None:
    function, reads = reads_of(python_around.closed(64))
    assert Read((), "rows", ("int", 64)) in reads
    assert still(function, reads)
    (cell,) = (place for place, name, _ in guards(function, reads) or () if name is None)
    assert isinstance(cell, CellType) and cell.cell_contents == 64
    other = Function.read(python_around.closed(32))
    assert other.digest == function.digest
    assert not still(other, reads)


UNQUOTED = """\
from __future__ import annotations
from tilec import tile
N = 64

def kernel(A: tile.View[M, N], D: tile.View[M, "K"]):
    M, N = A.shape
    for m, n in tile.grid(D, step=(64, 64)):
        a = tile.smem(64, 64, A.dtype)
        tile.copy(A[m, n], a)
        tile.copy(a, D[m, n])
"""


def test_a_symbol_without_quotes_is_one_as_long_as_it_has_no_value(tmp_path: Path) -> None:
    kernel = function_in(tmp_path / "unquoted.py", UNQUOTED)
    function = Function.read(kernel)
    module, reads = (lowered := lower(function, ("f16", "f16"), {})).module, lowered.reads
    assert "(%A: !tile.view<Mx64xf16>, %D: !tile.view<MxKxf16>)" in str(module)
    made = guards(function, reads)
    assert made is not None and _hold(made) and still(function, reads)
    kernel.__globals__["M"] = 64
    assert not _hold(made) and not still(function, reads)


def test_a_name_that_would_hide_one_of_python_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    function, reads = reads_of(python_around.of_builtins)
    made = guards(function, reads)
    assert made is not None and (vars(python_around), "min", ABSENT) in made
    monkeypatch.setattr(python_around, "min", max, raising=False)
    assert not _hold(made) and not still(function, reads)


def test_reads_hold_in_another_process() -> None:
    _, reads = reads_of(python_around.around)
    text = json.dumps(reads_to_json(reads))
    assert reads_from_json(json.loads(text)) == reads
    code = f"""
import json, sys
sys.path.insert(0, {str(Path(python_around.__file__).parent)!r})
import python_around
from tilec.frontend.function import Function
from tilec.frontend.reads import reads_from_json, still
reads = reads_from_json(json.loads(sys.stdin.read()))
function = Function.read(python_around.around)
print(still(function, reads), 'xdsl' in sys.modules)
python_around.SIZE = 33
print(still(function, reads))
"""
    done = subprocess.run([sys.executable, "-c", code], input=text, capture_output=True, text=True, check=True)
    assert done.stdout == "True False\nFalse\n"


@pytest.mark.parametrize("data", [3, [3], [["a", "b"]], [[[], "a", [], "name"]], [[[], "a", ["int"], "name"]]])
def test_other_data_are_no_reads(data: object) -> None:
    with pytest.raises(ValueError, match="these are no reads"):
        reads_from_json(data)


_ATOMS = st.one_of(
    st.integers(), st.floats(), st.booleans(), st.text(max_size=3), st.none(), st.sampled_from([tile.f16, tile.f32])
)
_VALUES = st.recursive(_ATOMS, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=5)


def _same(a: object, b: object) -> bool:
    """By type and value: what the facts of two values must say of them."""
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_same, a, b))  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(a, float) and isinstance(b, float):
        return a.hex() == b.hex()
    return a == b


@given(_VALUES, _VALUES)
def test_facts_are_equal_where_values_are(a: object, b: object) -> None:
    assert is_constant(a) and is_constant(b)
    one, other = (json.dumps(constant(v)) for v in (a, b))
    assert (one == other) == _same(a, b)
    assert json.loads(one) == json.loads(json.dumps(constant(a)))


def _nested(depth: int) -> tuple[object, ...]:
    return (_nested(depth - 1),) if depth > 1 else ()


def test_a_tuple_has_some_tuples_in_it_but_not_endlessly_many() -> None:
    assert is_constant(_nested(100)) and constant(_nested(100))
    endless: tuple[object, ...] = ()
    for _ in range(100_000):
        endless = (endless,)
    assert not is_constant(endless)


@pytest.mark.parametrize("value", [[1], {1}, object(), 1j, b"a", len, (1, [2]), type, tile.facts()])
def test_what_is_no_constant(value: object) -> None:
    assert not is_constant(value)
