"""Distribution of register tiles: every element has one thread, and the layouts are the PTX ISA's."""

import pytest

from tilec.dialects.tile import F16, F32, RegType
from tilec.passes.lower.fragment import Fragment, Tcgen05Fragment, WgmmaFragment


def owners(fragment: Fragment, type: RegType, threads: int) -> dict[tuple[int, int], tuple[int, int]]:
    """(row, column) -> (thread, element number), from the fragment's constant and thread parts."""
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for thread in range(threads):
        warp, lane = divmod(thread, 32)
        if isinstance(fragment, WgmmaFragment):
            row0 = (warp // 4) * fragment.blocks * 64 + (warp % 4) * 16 + lane // 4
            column0 = 2 * (lane % 4)
        elif fragment.rows == 64:
            if lane >= 16:
                continue
            row0, column0 = 16 * warp + lane, 0
        else:
            row0, column0 = thread, 0
        for run in fragment.runs(type):
            for i in range(fragment.vector(type)):
                at = (row0 + run.row, column0 + run.column + i)
                assert at not in found
                found[at] = (thread, run.element + i)
    return found


@pytest.mark.parametrize("columns", [8, 24, 64, 256])
@pytest.mark.parametrize("dtype", [F16, F32], ids=lambda d: d.name)
@pytest.mark.parametrize(
    ("fragment", "threads"),
    [
        (WgmmaFragment(64, 1), 128),
        (WgmmaFragment(128, 2), 256),
        (WgmmaFragment(256, 2), 256),
        (Tcgen05Fragment(64), 128),
        (Tcgen05Fragment(128), 128),
        (Tcgen05Fragment(256), 128),
    ],
)
def test_every_element_has_exactly_one_place(fragment, threads, dtype, columns):
    type = RegType.of((fragment.rows, columns), dtype.type)
    assert set(owners(fragment, type, threads)) == {(r, c) for r in range(fragment.rows) for c in range(columns)}
    assert fragment.words(type) == len({e for _, e in owners(fragment, type, threads).values()}) * dtype.bytes // 4


def test_wgmma_fragment_is_the_ptx_isa_one():
    type = RegType.of((64, 64), F32.type)
    for (row, column), (t, i) in owners(WgmmaFragment(64, 1), type, 128).items():
        assert row == 16 * (t // 32) + (t % 32) // 4 + 8 * ((i // 2) % 2)
        assert column == 8 * (i // 4) + 2 * (t % 4) + i % 2


def test_rows_and_row_vectors_list_columns_alike():
    """What lets tile.broadcast pick its words by column."""
    for fragment in (WgmmaFragment(128, 2), Tcgen05Fragment(128)):
        row = {run.column for run in fragment.runs(RegType.of((64,), F32.type))}
        whole = {run.column for run in fragment.runs(RegType.of((128, 64), F32.type))}
        assert row == whole


def test_refusals_say_what_fits():
    fragment = WgmmaFragment(128, 2)
    assert fragment.problem(RegType.of((64, 64), F32.type)) == "register tiles of this kernel have 128 rows, not 64"
    assert fragment.problem(RegType.of((128, 12), F32.type)) == "a register tile has a multiple of 8 columns, not 12"
    assert fragment.problem(RegType.of((128, 64), F32.type)) is None
