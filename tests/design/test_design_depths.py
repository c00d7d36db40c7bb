"""What each depth takes."""

from __future__ import annotations

import re

import pytest
from design_subjects import GEMM, ROLES, lowered_to_l1, quick, subject

from tilec.backend.target import TARGETS
from tilec.design.depths import Depths, depths
from tilec.design.subject import Subject
from tilec.diagnostics import TilecError
from tilec.source import parse_file

_STAGE = 2 * 128 * 64 * 2
_STAGING = 2 * 128 * 64 * 2


@pytest.fixture(scope="module")
def gemm() -> Depths:
    return depths(subject(GEMM, "tma,pipeline(3)"))


def test_bytes_by_hand(gemm: Depths) -> None:
    """Rings and staging, a full barrier a stage, one done barrier a stage where MMAs lag (from 3 on), the slot of the TMEM address."""
    assert [row.depth for row in gemm.rows] == list(range(1, 9))
    for row in gemm.rows:
        barriers = 8 * row.depth + 8 * (row.depth if row.depth >= 3 else 1)
        assert row.smem_bytes == row.depth * _STAGE + _STAGING + barriers + 4
        assert row.tmem_columns == 128
        assert row.over_bytes == max(row.smem_bytes - 232448, 0)
        assert row.fits == (row.over_bytes == 0)
        assert row.source == ("passes" if row.fits else "plan")
    assert [row.depth for row in gemm.rows if row.chosen] == [3]
    assert gemm.rows[6].note == "29812 bytes too many"


def test_residency_by_hand(gemm: Depths) -> None:
    for row in gemm.rows:
        by_memory = 233472 // (row.smem_bytes + 1024)
        assert row.ctas_per_sm == (by_memory or None)
        assert row.bound_by == ("shared memory" if by_memory else None)


def test_too_many_bytes_are_those_that_the_pass_complains_of(gemm: Depths) -> None:
    for row in gemm.rows[6:]:
        with pytest.raises(TilecError) as caught:
            subject(GEMM, f"tma,pipeline({row.depth})")
        found = re.fullmatch(
            r"(\d+) stages need (\d+) bytes of shared memory, a CTA of sm_100a has (\d+)",
            caught.value.diagnostic.message,
        )
        assert found is not None
        assert (int(found[1]), int(found[2]), int(found[3])) == (row.depth, row.smem_bytes, 232448)


def test_registers_are_ptxas_or_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilec.backend.ptxas.find_ptxas", lambda: None)
    made = depths(subject(GEMM, "tma,pipeline(2)"), (1,))
    assert made.registers_from == "unknown: no ptxas"
    assert [(row.registers, row.spill_bytes) for row in made.rows] == [(None, None)] * 2
    assert [row.ctas_per_sm for row in made.rows] == [3, 2]
    assert "registers a thread\n(unknown: no ptxas)" in str(quick(subject(GEMM, "tma,pipeline(2)")))


def test_an_assembler_that_does_not_work_is_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEC_PTXAS", "/nowhere/ptxas")
    made = depths(subject(GEMM, "tma,pipeline(2)"), ())
    assert made.registers_from.startswith("unknown: ptxas at /nowhere/ptxas cannot be used")
    assert made.rows[0].registers is None


def test_without_a_ring_the_pass_is_added() -> None:
    made = depths(subject(GEMM, "tma"), (1, 2))
    assert made.how == "pipeline(depth) was added to the pass list"
    assert [(row.depth, row.chosen, row.smem_bytes) for row in made.rows] == [
        (1, True, _STAGE + _STAGING + 8 + 8 + 4),
        (2, False, 2 * _STAGE + _STAGING + 16 + 8 + 4),
    ]


def test_passes_behind_the_ring_are_run_as_well() -> None:
    made = depths(subject(GEMM, "tma,pipeline(2),persistent", target="sm_90a"), (1, 2))
    # sm_90a has no tensor memory, and a commit that only its own role waits for is a group: no memory.
    assert [row.smem_bytes for row in made.rows] == [n * _STAGE + _STAGING + 8 * n for n in (1, 2)]
    assert {row.tmem_columns for row in made.rows} == {0}
    assert [row.threads for row in made.rows] == [256, 256]


def test_the_given_lag_is_kept_as_far_as_it_goes() -> None:
    made = depths(subject(GEMM, "tma,pipeline(4,2)"), (2,))
    shallow = made.rows[0]
    # With lag 1 there is a done barrier a stage also at depth 2.
    assert shallow.smem_bytes == 2 * _STAGE + _STAGING + 16 + 16 + 4


def test_rings_by_hand_are_planned() -> None:
    by_hand = depths(Subject(lowered_to_l1("tma,pipeline(3)")))
    passes = depths(subject(GEMM, "tma,pipeline(3)"))
    assert by_hand.how == "The rings were written by hand: other depths are the plan of the storage with other rings"
    assert [row.source for row in by_hand.rows] == ["plan", "plan", "passes", *["plan"] * 5]
    assert [row.smem_bytes for row in by_hand.rows[2:]] == [row.smem_bytes for row in passes.rows[2:]]


def test_roles_are_not_lowered() -> None:
    row = depths(Subject(parse_file(ROLES)), ()).rows[0]
    assert (row.registers, row.threads, row.note) == (None, None, "roles are not lowered yet")
    assert row.ctas_per_sm == TARGETS["sm_100a"].occupancy(32, 1, row.smem_bytes, row.tmem_columns)


def test_where_nothing_can_be_put_into_a_ring_there_is_one_row() -> None:
    text = """
tile.kernel @copy(%A: !tile.view<MxNxf16>, %D: !tile.view<MxNxf16>) {
  tile.grid (%m, %n) over %D step (64, 64) {
    %t = tile.alloc : !tile.smem<64x64xf16>
    tile.copy %A[%m, %n] to %t
    tile.copy %t to %D[%m, %n]
  }
}
"""
    made = depths(subject(text, "tma"), range(1, 4))
    assert [(row.depth, row.chosen) for row in made.rows] == [(1, True)]
    assert made.how == "There is no other depth: no loop with loads: there is nothing to run ahead of"
