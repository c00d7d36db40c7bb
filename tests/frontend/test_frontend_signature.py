"""Annotations of a kernel's views: the types that they give, and what is no annotation of a view."""

from __future__ import annotations

from pathlib import Path

import pytest
from ir_text import kernel_of
from written_kernels import function_in

from tilec.diagnostics import TilecError
from tilec.frontend.function import Function
from tilec.frontend.lowering import lower

KERNEL = """\
from __future__ import annotations
import tilec
from tilec import tile
View = tile.View
COLUMNS, SYMBOL, LIST = 64, "S", [64]


def kernel(A: {annotation}, D: tile.View[64, 64], *, size: tilec.constexpr):
    for m, n in tile.grid(D, step=(64, 64)):
        tile.copy(tile.smem(64, 64, D.dtype), D[m, n])
"""


def lowered_type(annotation: str, folder: Path) -> str:
    function = function_in(folder / "file.py", KERNEL.format(annotation=annotation))
    return str(kernel_of(lower(Function.read(function), ("f16", "f16"), {"size": 32}).module).views[0])


@pytest.mark.parametrize(
    ("annotation", "type"),
    [
        ('tile.View["M", "K"]', "!tile.view<MxKxf16>"),
        ('View["M"]', "!tile.view<Mxf16>"),
        ("tile.View[M, K]", "!tile.view<MxKxf16>"),
        ("\"tile.View['M', 64]\"", "!tile.view<Mx64xf16>"),
        ('tile.View["?", 2 * COLUMNS]', "!tile.view<?x128xf16>"),
        ("tile.View[SYMBOL, size]", "!tile.view<Sx32xf16>"),
        ('tile.View["M", "K", tile.f16]', "!tile.view<MxKxf16>"),
        (
            'tile.View["M", "K", tile.facts(order=(0, 1), align=8, tail="free")]',
            "!tile.view<MxKxf16, order = [0, 1], align = 8, tail = free>",
        ),
        ('tile.View["M", tile.facts(tail="free"), tile.f16]', "!tile.view<Mxf16, tail = free>"),
    ],
)
def test_an_annotation_is_a_type(annotation: str, type: str, tmp_path: Path) -> None:
    assert lowered_type(annotation, tmp_path) == type


AS_IN = 'hint: write its extents, as in `A: tile.View["M", "K"]`'


@pytest.mark.parametrize(
    ("annotation", "at", "message"),
    [
        ("list", "list", f"parameter A is not annotated as a view {AS_IN}"),
        ("tile.View", "tile.View", f"parameter A is not annotated as a view {AS_IN}"),
        ("tile.Smem[64, 64]", "tile.Smem", "a kernel cannot use `tile.Smem`, a class"),
        ('"tile.View["', '"tile', f"parameter A is not annotated as a view {AS_IN}"),
        ('tile.View["M", 1.5]', "1.5", "an extent is a symbol, an integer or '?', not a float"),
        ('tile.View["M", True]', "True", "an extent is a symbol, an integer or '?', not a bool"),
        ('tile.View["M", "Kx"]', '"Kx"', "bad symbol 'Kx': letters but x, digits and _, not a digit first"),
        ("tile.View[-1]", "tile.View", "bad extent -1 of a view: expected an integer from 0 to 2147483647, "),
        ('tile.View["M", "N", "K"]', "tile.View", "view has rank 3: 1 and 2 are supported"),
        ("tile.View[()]", "tile.View", "view has rank 0: 1 and 2 are supported"),
        ('tile.View["M", tile.f32]', "tile.f32", "A has elements of f32, not of f16"),
        (
            'tile.View["M", tile.facts(align=3)]',
            "tile.View",
            "align = 3: expected one of 16, 8, 4, 2, at least the 2 bytes of one f16",
        ),
        ('tile.View["M", LIST]', "LIST", "`LIST` is a list from outside of the kernel hint: numbers, strings, "),
        ('tile.View["M", tile.nosuch]', "tile.nosuch", "module tilec.frontend.tile has no attribute 'nosuch'"),
    ],
)
def test_what_is_no_annotation_of_a_view(annotation: str, at: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(TilecError) as error:
        lowered_type(annotation, tmp_path)
    place, said, line, caret, *hint = str(error.value).replace(": error: ", "\n", 1).split("\n")
    assert place.startswith(f"{tmp_path / 'file.py'}:")
    assert line[len(caret) - 1 :].startswith(at)
    assert " ".join([said, *hint]).startswith(message)
