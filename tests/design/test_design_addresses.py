"""Descriptors, and where each element of a tile lies in shared memory."""

from __future__ import annotations

import re

import pytest
from design_subjects import EXAMPLES, GEMM, ROLES, lowered_to_l1, quick, subject

from tilec.design.descriptors import Descriptor, descriptors
from tilec.design.subject import Subject
from tilec.source import parse_file

_TILES = [
    pytest.param(GEMM, "tma,pipeline(3)", id="swizzle 128"),
    pytest.param(GEMM, "retile(128,128,32),tma,pipeline(2)", id="swizzle 64"),
    pytest.param(GEMM, "retile(128,48,16),tma(min_bytes=0)", id="swizzle 32"),
    pytest.param(GEMM.replace("MxKxf16>", "MxKxf16, order = [0, 1]>"), "tma,pipeline(2)", id="M fastest"),
    pytest.param(GEMM.replace("%D: !tile.view<MxNxf16>", "%D: !tile.view<MxNxf32>"), "tma", id="f32 out"),
]


def _extents(one: Descriptor) -> tuple[int, int]:
    """Fast and slow extent of the tile, as its layout is printed: ``128x64 f16, f = column``."""
    rows, columns = map(int, one.address.layout.split()[0].split("x"))
    return (columns, rows) if "f = column" in one.address.layout else (rows, columns)


def _by_hand(one: Descriptor, row: int, column: int, stage: int) -> int:
    """CUDA's description of the swizzles: in each group of 8 rows of W bytes, the 16-byte chunk number is XORed with the number of
    the 128-byte line, of which there are 8 in a pattern."""
    width, size = one.swizzle, one.element_bytes
    _, rows = _extents(one)
    block, inside = divmod(column * size, width)
    chunk, rest = divmod(inside, 16)
    start = block * rows * width + row * width
    line = start // 128
    chunks_a_line = 128 // 16
    place = start % 128 // 16 + chunk
    mask = width // 16 - 1
    place ^= line % 8 & mask
    assert place < chunks_a_line
    base = one.address.base
    assert base is not None
    return base + stage * one.address.stage_bytes + line * 128 + place * 16 + rest


def _formula(one: Descriptor, f: int, s: int, stage: int) -> int:
    """The printed formula, computed."""
    names: dict[str, int] = {"f": f, "s": s, "stage": stage}
    for line in one.address.formula:
        line = line.removeprefix("no swizzle: ")
        name, _, term = line.partition(" = ")
        names[name] = eval(term, {}, names)
    return names["address"]


@pytest.mark.parametrize(("text", "pipeline"), _TILES)
def test_the_formula_and_the_examples_are_the_hardwares_layout(text: str, pipeline: str) -> None:
    for one in descriptors(subject(text, pipeline)):
        fast, slow = _extents(one)
        for f in {0, 1, 7, 8, fast // 2, fast - 1}:
            for s in {0, 1, 3, 5, 7, 8, slow - 1}:
                assert _formula(one, f, s, 1) == _by_hand(one, s, f, 1)
        row_major = "f = column" in one.address.layout
        assert len(one.address.examples) >= 4
        for example in one.address.examples:
            slow_index, fast_index = example.coordinates if row_major else example.coordinates[::-1]
            assert example.address == _by_hand(one, slow_index, fast_index, example.stage)


def test_a_descriptor_by_hand() -> None:
    a, b, d = descriptors(subject(GEMM, "tma,pipeline(3)", shape={"M": 300, "N": 200, "K": 520}))
    assert (a.view, a.tile, a.direction, a.lines, a.dtype, a.element_bytes) == ("A", "a", "load", (8,), "f16", 2)
    assert a.global_shape == ("K", "M")
    assert a.global_strides == ("2", "pitch of A, K*2 if dense")
    assert a.concrete is not None
    assert (a.concrete.extents, a.concrete.strides, a.concrete.bytes) == ((520, 300), (2, 1040), 520 * 300 * 2)
    assert (a.concrete.tiles, a.concrete.overhang) == ((9, 3), (9 * 64 - 520, 3 * 128 - 300))
    assert (a.box, a.box_bytes, a.boxes, a.tile_bytes, a.swizzle) == ((64, 128), 16384, ((0, 0, 0),), 16384, 128)
    assert a.coordinates == ("(%k, %m)", "(%next_k, %m)")
    assert (a.address.base, b.address.base, d.address.base) == (0, 3 * 16384, 6 * 16384)
    assert "arrive as zero" in a.boundary and "always 16384 bytes" in a.boundary
    assert d.direction == "store"
    assert "16-byte units" in d.boundary
    assert all(one.in_abi for one in (a, b, d))


def test_wide_tiles_take_several_boxes() -> None:
    text = GEMM.replace("128x64xf16", "128x128xf16").replace("step 64", "step 128")
    a, *_ = descriptors(subject(text, "tma"))
    assert a.boxes == ((0, 0, 0), (64, 0, 128 * 128))
    assert (a.box, a.box_bytes, a.tile_bytes) == ((64, 128), 16384, 32768)


def test_one_row_of_rank_1() -> None:
    text = (EXAMPLES / "bias_relu.tile").read_text()
    made = descriptors(subject(text, "tma(min_bytes=0)"))
    bias = next(one for one in made if one.view == "bias")
    assert (bias.global_shape, bias.global_strides, bias.box) == (("N",), ("4",), (128,))
    assert bias.swizzle == 16
    assert [example.address for example in bias.address.examples] == [
        (bias.address.base or 0) + 4 * example.coordinates[0] for example in bias.address.examples
    ]


def test_without_a_lowering_nobody_knows_what_a_launch_encodes() -> None:
    assert {one.in_abi for one in descriptors(Subject(parse_file(ROLES)))} == {None}


def test_all_addresses_are_inside_what_was_planned() -> None:
    made = Subject(lowered_to_l1("tma,pipeline(2)"))
    assert made.storage is not None
    for one in descriptors(made):
        assert all(
            example.address is not None and example.address < made.storage.total for example in one.address.examples
        )


def test_the_page_shows_them() -> None:
    text = str(quick(subject(GEMM, "tma,pipeline(2)")))
    assert re.search(
        r"lin = \(f\*2 // 128\)\*16384 \+ s\*128 \+ f\*2 % 128\n    a = lin \^ \(\(lin >> 3\) & 0x70\)", text
    )
