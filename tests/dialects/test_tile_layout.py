"""The layout of shared tiles against the tables of the PTX ISA (5.5.7, swizzling modes)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilec.dialects.tile import MAX_BOX, SWIZZLES, SmemLayout, swizzled, widest_swizzle

# table[line][cell]: the 16-byte chunk of a 128-byte line that is stored in that cell. The pattern repeats below.
PTX_TABLES: dict[int, list[list[int]]] = {
    128: [
        [0, 1, 2, 3, 4, 5, 6, 7],
        [1, 0, 3, 2, 5, 4, 7, 6],
        [2, 3, 0, 1, 6, 7, 4, 5],
        [3, 2, 1, 0, 7, 6, 5, 4],
        [4, 5, 6, 7, 0, 1, 2, 3],
        [5, 4, 7, 6, 1, 0, 3, 2],
        [6, 7, 4, 5, 2, 3, 0, 1],
        [7, 6, 5, 4, 3, 2, 1, 0],
    ],
    64: [
        [0, 1, 2, 3, 4, 5, 6, 7],
        [1, 0, 3, 2, 5, 4, 7, 6],
        [2, 3, 0, 1, 6, 7, 4, 5],
        [3, 2, 1, 0, 7, 6, 5, 4],
    ],
    32: [
        [0, 1, 2, 3, 4, 5, 6, 7],
        [1, 0, 3, 2, 5, 4, 7, 6],
    ],
    16: [
        [0, 1, 2, 3, 4, 5, 6, 7],
    ],
}


@pytest.mark.parametrize("swizzle", SWIZZLES)
def test_the_swizzle_is_that_of_the_ptx_tables(swizzle: int) -> None:
    table = PTX_TABLES[swizzle]
    for address in range(4096):
        line, cell = address // 128, address % 128 // 16
        source = table[line % len(table)][cell]
        assert swizzled(line * 128 + source * 16 + address % 16, swizzle) == address


def test_a_matrix_of_one_block_is_stored_as_the_table_of_its_mode_says() -> None:
    layout = SmemLayout(fast=64, slow=16, element_bytes=2, swizzle=128)
    for row in range(16):
        for column in range(64):
            cell = PTX_TABLES[128][row % 8].index(column // 8)
            assert layout.offset(column, row) == row * 128 + cell * 16 + column % 8 * 2


def test_two_rows_of_a_narrow_block_share_a_line() -> None:
    layout = SmemLayout(fast=32, slow=8, element_bytes=2, swizzle=64)
    for row in range(8):
        for column in range(32):
            chunk = row % 2 * 4 + column // 8
            cell = PTX_TABLES[64][row // 2].index(chunk)
            assert layout.offset(column, row) == row // 2 * 128 + cell * 16 + column % 8 * 2


def test_blocks_follow_each_other_along_the_fast_dimension() -> None:
    layout = SmemLayout(fast=128, slow=32, element_bytes=2, swizzle=128)
    assert (layout.blocks, layout.block_elements, layout.block_bytes) == (2, 64, 32 * 128)
    assert layout.linear(64, 0) == 32 * 128
    assert layout.linear(63, 31) == 31 * 128 + 126
    assert layout.size == 128 * 32 * 2


@pytest.mark.parametrize(
    ("fast_bytes", "swizzle"), [(128, 128), (256, 128), (192, 64), (96, 32), (160, 32), (48, 16), (16, 16), (8, None)]
)
def test_the_widest_swizzle_is_the_widest_that_divides_the_row(fast_bytes: int, swizzle: int | None) -> None:
    assert widest_swizzle(fast_bytes) == swizzle


@st.composite
def layouts(draw: st.DrawFn) -> SmemLayout:
    swizzle = draw(st.sampled_from(SWIZZLES))
    element_bytes = draw(st.sampled_from((2, 4)))
    blocks = draw(st.integers(1, 4))
    slow = draw(st.integers(1, 40) | st.sampled_from((64, 256, 258, 264, 272, 512)))
    return SmemLayout(blocks * swizzle // element_bytes, slow, element_bytes, swizzle)


@given(layouts())
def test_every_element_has_bytes_of_its_own_inside_the_tile(layout: SmemLayout) -> None:
    offsets = {layout.offset(f, s) for f in range(layout.fast) for s in range(layout.slow)}
    assert len(offsets) == layout.fast * layout.slow
    assert all(offset % layout.element_bytes == 0 for offset in offsets)
    assert min(offsets) >= 0 and max(offsets) < layout.size


@given(layouts())
def test_boxes_cover_the_tile_once_and_lie_where_the_elements_lie(layout: SmemLayout) -> None:
    fast, slow = layout.box
    assert 1 <= fast <= MAX_BOX and 1 <= slow <= MAX_BOX
    covered: list[tuple[int, int]] = []
    for first_fast, first_slow, start in layout.boxes():
        for s in range(slow):
            for f in range(fast):
                # A box is dense: rows of its inner extent, one after another.
                inside = (s * fast + f) * layout.element_bytes
                assert layout.linear(first_fast + f, first_slow + s) == start + inside
                covered.append((first_fast + f, first_slow + s))
    assert len(covered) == len(set(covered)) == layout.fast * layout.slow


@given(layouts())
def test_boxes_lie_at_legal_addresses_or_the_layout_says_that_they_do_not(layout: SmemLayout) -> None:
    legal = all(start % 128 == 0 for _, _, start in layout.boxes())
    assert (layout.tma_problem is None) == legal


@pytest.mark.parametrize(
    ("layout", "box"),
    [
        (SmemLayout(64, 128, 2, 128), (64, 128)),
        (SmemLayout(64, 512, 2, 128), (64, 256)),  # more than 256 rows
        (SmemLayout(64, 257, 2, 128), (64, 1)),
        (SmemLayout(16, 264, 2, 32), (16, 132)),  # 132 rows of 32 bytes: a multiple of 128
        (SmemLayout(16, 268, 2, 32), (16, 4)),  # 134 rows of 32 bytes would not be
        (SmemLayout(512, 1, 2, 16), (256, 1)),  # a row goes in wide pieces
        (SmemLayout(320, 1, 4, 16), (160, 1)),
        (SmemLayout(520, 1, 2, 16), (104, 1)),  # no piece of 128 bytes divides it
        (SmemLayout(8, 1, 2, 16), (8, 1)),
    ],
)
def test_the_box_is_the_largest_that_divides_the_tile(layout: SmemLayout, box: tuple[int, int]) -> None:
    assert layout.box == box


def test_a_row_without_legal_pieces_is_known() -> None:
    problem = SmemLayout(520, 1, 2, 16).tma_problem
    assert problem == "a box of 1 x 104 elements would lie 208 bytes into the tile: boxes lie at multiples of 128 bytes"


@pytest.mark.parametrize(
    ("layout", "slot"),
    [
        (SmemLayout(64, 128, 2, 128), 16384),
        (SmemLayout(64, 3, 2, 128), 1024),
        (SmemLayout(32, 1, 2, 16), 128),
        (SmemLayout(8, 1, 2, 16), 128),
        (SmemLayout(80, 1, 2, 16), 256),
    ],
)
def test_the_slots_of_a_ring_keep_the_alignment(layout: SmemLayout, slot: int) -> None:
    assert layout.slot_size == slot
    assert layout.slot_size % layout.alignment == 0
