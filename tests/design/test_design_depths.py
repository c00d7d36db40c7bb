"""What each depth takes."""

from __future__ import annotations

import re

import pytest
from design_subjects import EXAMPLES, GEMM, ROLES, lowered_to_l1, quick, subject

from tilec.backend.target import TARGETS
from tilec.design import Design
from tilec.design.depths import Depths, depths
from tilec.design.subject import Subject
from tilec.diagnostics import TilecError
from tilec.ladder import ladder
from tilec.source import parse_file, parse_text
from tilec.spec import parse_pipeline

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
    monkeypatch.setattr("tilec.residency.find_ptxas", lambda: None)
    made = depths(subject(GEMM, "tma,pipeline(2)"), (1,))
    assert made.registers_from == "unknown: no ptxas"
    assert [(row.registers, row.spill_bytes) for row in made.rows] == [(None, None)] * 2
    assert [row.ctas_per_sm for row in made.rows] == [3, 2]
    assert "a thread (unknown: no ptxas)" in " ".join(str(quick(subject(GEMM, "tma,pipeline(2)"))).split())


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
    assert (row.ctas_per_sm, row.bound_by) == (1, "roles")
    assert TARGETS["sm_100a"].occupancy(32, 1, row.smem_bytes, row.tmem_columns) > 1


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


# ---- time


def test_times_are_those_of_predict() -> None:
    shape = {"M": 1024, "N": 1024, "K": 512}
    made = Design(subject(GEMM, "tma,pipeline(3)", shape=shape)).contract.depths
    for depth in (1, 3, 6):
        (row,) = (row for row in made.rows if row.depth == depth)
        rung = ladder(parse_text(GEMM, "gemm.tile"), parse_pipeline(f"tma,pipeline({depth})"), shape, None)[-1]
        assert row.seconds == pytest.approx(rung.prediction.seconds, rel=1e-9)
        assert row.ctas_per_sm == rung.residency.ctas
    assert [row.seconds for row in made.rows if not row.fits] == [None, None]


def test_roles_get_the_time_of_predict() -> None:
    shape = {"M": 1024, "N": 1024, "K": 512}
    module = parse_file(ROLES)
    row = Design(Subject(module, shape=shape)).contract.depths.chosen
    (rung,) = ladder(module, (), shape, None)
    assert row is not None and row.seconds == pytest.approx(rung.prediction.seconds, rel=1e-9)


def _verdict(pipeline: str, times: dict[int, float]) -> str:
    made = quick(subject(GEMM, pipeline), tuple(times))
    vars(made)["_depths"] = made.contract.depths.timed(times)
    return made.conclusion.verdict


@pytest.mark.parametrize(
    ("times", "verdict"),
    [
        (
            {2: 191.3, 3: 231.9, 4: 189.6, 6: 156.2},
            "use 6 stages: 156.2 us against 231.9, by the cost model; as it is, {}",
        ),
        ({1: 28.6, 2: 48.1, 3: 65.7}, "use 1 stage: 28.6 us against 65.7, by the cost model; as it is, {}"),
        ({2: 191.3, 3: 104.9, 4: 100.0}, "use it: {}"),  # within 5 %
        ({2: 191.3, 3: 105.1, 4: 100.0}, "use 4 stages: 100.0 us against 105.1, by the cost model; as it is, {}"),
        ({3: 231.9}, "use it: {}"),
    ],
)
def test_the_verdict_on_a_depth(times: dict[int, float], verdict: str) -> None:
    made = "3 of 3 copies by TMA, a ring of 3 stages, protocol proved for every K"
    assert _verdict("tma,pipeline(3)", {depth: us * 1e-6 for depth, us in times.items()}) == verdict.format(made)


def test_the_table_has_times_and_marks_the_fastest() -> None:
    made = quick(subject(GEMM, "tma,pipeline(3)"), (1, 2, 3, 7))
    timed = made.contract.depths.timed({1: 239.48e-6, 2: 191.31e-6, 3: 231.94e-6})
    vars(made)["_depths"] = timed
    vars(made).pop("contract")
    assert (
        "depth    SMEM  TMEM  registers  spills  CTAs  bound by     us  note\n"
        "1       65556   128    unknown       -     3  SMEM      239.5\n"
        "2       98332   128    unknown       -     2  SMEM      191.3  fastest\n"
        "3 *    131124   128    unknown       -     1  SMEM      231.9\n"
        "7      262260   128    unknown       -     -  -             -  29812 bytes too\n"
        "                                                               many\n"
    ) in str(made)
    vars(made)["_depths"] = timed.timed({1: 48.1e-6, 2: 48.2e-6, 3: 48.1e-6})
    vars(made).pop("contract")
    text = str(made)
    assert "The depth changes nothing: each takes about 48.1 us." in text
    assert "fastest" not in text.split("What a depth takes")[1].split("The depth changes")[0]


def test_spills_are_stores_and_loads() -> None:
    made = subject((EXAMPLES / "bias_relu.tile").read_text().replace("f16", "bf16"), "retile(128,256,64),tma")
    row = depths(made, ()).chosen
    if row is None or row.registers is None:
        pytest.skip("no ptxas")
    assembled = made.compiled.resources
    assert assembled.spill_stores and assembled.spill_loads
    assert row.spill_bytes == assembled.spill_stores + assembled.spill_loads


def test_more_turns_than_can_be_played_are_not_predicted() -> None:
    made = Design(subject(GEMM, "tma,pipeline(4)", shape={"M": 128, "N": 128, "K": 64 * 5000}))
    assert made.conclusion.bound.words == "unknown: 5000 K tiles are too many to play here: `tilec predict` does"
    assert {row.seconds for row in made.contract.depths.rows} == {None}
    assert "Of more K tiles than 512 the first 512 are shown." in str(made)


def test_another_target_where_the_pass_list_names_one() -> None:
    made = quick(subject(GEMM, "target(sm_90a),tma")).risks.fallbacks
    (other,) = (one.then for one in made if one.when == "the chip is sm_100a")
    assert other == "target(sm_100a) in the pass list: the same program and passes, 65556 bytes of shared memory"
