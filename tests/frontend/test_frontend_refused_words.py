"""Words that are said wrongly: files of refused_words/ have the last lines of a kernel, and the full text that refuses them."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from written_kernels import cases, function_in

from tilec.diagnostics import TilecError
from tilec.frontend.function import Function
from tilec.frontend.lowering import lower

CASES = cases(Path(__file__).with_name("refused_words"))
KERNEL = """\
from tilec import tile


def kernel(A: tile.View["M", "K"], B: tile.View["N"], D: tile.View["M", "K", tile.facts(tail="free")]):
    a = tile.smem(128, 64, A.dtype)
    h = tile.smem(128, 64, A.dtype, swizzle=128)
    f = tile.smem(128, 64, tile.f32)
    c = tile.smem(64, tile.f32)
    ring = tile.ring(128, 64, A.dtype, depth=2, swizzle=128)
    acc = tile.acc(128, 128)
    full = tile.mbarrier.init(depth=2)
    done = tile.mbarrier.init()
    m, k, phase = tile.index(0), tile.index(64), tile.i32(0)
    valid = k < 3
    r = tile.load(f)
    row = tile.load(c)
    s = r.to(tile.f16)
    tile.copy_async(a, D[m, k], dispatch="threads")
"""


@pytest.mark.parametrize("name", CASES)
def test_the_text_that_refuses_a_word(name: str, tmp_path: Path) -> None:
    lines, text = CASES[name]
    file = tmp_path / "kernel.py"
    function = function_in(file, KERNEL + textwrap.indent(lines.strip("\n"), "    ") + "\n")
    with pytest.raises(TilecError) as raised:
        lower(Function.read(function), ("f16", "f16", "f16"), {})
    assert str(raised.value).replace(str(file), "kernel.py") == text


def test_the_kernel_is_right_without_them(tmp_path: Path) -> None:
    lower(Function.read(function_in(tmp_path / "kernel.py", KERNEL)), ("f16", "f16", "f16"), {})
