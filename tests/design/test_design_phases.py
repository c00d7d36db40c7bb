"""Prologue, steady state and drain, against the schedule as the pass promises it."""

from __future__ import annotations

import pytest
from design_subjects import GEMM, ROLES, quick, subject

from tilec.design.phases import schedule
from tilec.design.subject import Subject
from tilec.design.turns import Phases, Turns
from tilec.source import parse_file


def _turns(phases: Phases) -> list[Turns]:
    return [*phases.steady, *phases.drain]


def _each(phases: Phases) -> dict[int, Turns]:
    return {k: turns for turns in _turns(phases) for k in range(turns.first, turns.last + 1)}


@pytest.mark.parametrize(("depth", "lag"), [(1, 0), (2, 0), (2, 1), (3, 1), (4, 0), (4, 2)])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 9])
def test_what_the_pass_promises(depth: int, lag: int, count: int) -> None:
    """K tile k waits for its own load, and behind its MMA for that of k - lag, whose stage K tile k - lag + depth is loaded into."""
    made = subject(GEMM, f"tma,pipeline({depth},{lag})", shape={"M": 128, "N": 128, "K": 64 * count})
    phases = schedule(made).phases[0]
    assert phases.k_tiles == count
    assert [(fill.k, fill.stage) for fill in phases.prologue] == [(k, k) for k in range(min(depth, count))]
    turns = _each(phases)
    assert sorted(turns) == list(range(count))
    for k, turn in turns.items():
        refilled = k - lag + depth
        refills = k >= lag and refilled < count
        assert [k + offset for offset in turn.loads] == ([refilled] if refills else [])
        assert [k + offset for offset in turn.waits_for_mma] == ([k - lag] if k >= lag else [])
        assert [k + offset for offset in turn.mmas_in_flight] == list(range(max(k - lag, 0), k))
        assert turn.stages[k - turn.first] == k % depth
        assert turn.parities[k - turn.first] == k // depth % 2
        at_issue = [j for j in range(k + 1, count) if j < depth or j - depth + lag < k]
        assert set(at_issue) <= {k + offset for offset in turn.loads_in_flight}
        assert {k + offset for offset in turn.loads_in_flight} <= set(range(k + 1, min(k + depth, count)))
    assert all(turns.loads == () for turns in phases.drain)
    drained = [word for word in phases.end if word.startswith("wait for MMA")]
    left = range(max(count - lag, 0), count)
    assert [int(word.split()[3]) for word in drained] == list(left)


@pytest.mark.parametrize(
    ("pipeline", "overlap", "ahead"), [("tma", 0, 1), ("tma,pipeline(2)", 1, 2), ("tma,pipeline(3)", 2, 2)]
)
def test_what_overlaps(pipeline: str, overlap: int, ahead: int) -> None:
    made = schedule(subject(GEMM, pipeline))
    assert (made.overlap, made.ahead) == (overlap, ahead)


def test_loads_in_flight_are_counted_at_one_moment() -> None:
    """With lag 3 of 4 stages three wait for their MMAs: one load is outstanding at a time."""
    made = schedule(subject(GEMM, "tma,pipeline(4,3)", shape={"M": 128, "N": 128, "K": 64 * 20}))
    assert (made.overlap, made.ahead) == (3, 1)
    steady = max(made.phases[0].steady, key=lambda turns: turns.last - turns.first)
    assert steady.loads_at_once == 1


def test_with_a_shape_no_more_overlaps_than_it_has_k_tiles() -> None:
    made = quick(subject(GEMM, "tma,pipeline(4)", shape={"M": 128, "N": 128, "K": 128})).conclusion.pipeline
    assert (made.loads_ahead, made.words) == (
        1,
        "while a K tile is multiplied, the load of the next K tile is in flight",
    )
    none = quick(subject(GEMM, "tma,pipeline(4)", shape={"M": 128, "N": 128, "K": 0})).conclusion.pipeline
    assert none.words == "with this shape there is no K tile, and nothing to overlap"


def test_few_and_as_many_k_tiles_as_stages_are_shown_too() -> None:
    made = schedule(subject(GEMM, "tma,pipeline(3)", shape={"M": 128, "N": 128, "K": 640}))
    assert [phases.k_tiles for phases in made.phases] == [10, 2, 3]


def test_a_persistent_kernel_loads_the_next_tile_before_its_epilogue() -> None:
    end = schedule(subject(GEMM, "tma,pipeline(2),persistent")).phases[0].end
    loads = [i for i, word in enumerate(end) if word.startswith("load K tile")]
    assert [end[i] for i in loads] == [
        "load K tile 0 of the next output tile into stage 1",
        "load K tile 1 of the next output tile into stage 0",
    ]
    assert max(loads) < min(i for i, word in enumerate(end) if word.startswith("TMA store"))


def test_roles_run_side_by_side() -> None:
    """The load role refills a stage as soon as its MMA is committed, and the role of MMAs waits for none of them."""
    phases = schedule(Subject(parse_file(ROLES))).phases[0]
    assert [(fill.k, fill.stage) for fill in phases.prologue] == [(0, 0), (1, 1)]
    for k, turns in _each(phases).items():
        assert turns.waits_for_mma == ()
        assert turns.loads == ((2,) if k + 2 < phases.k_tiles else ())
        assert turns.stages[k - turns.first] == k % 2


@pytest.mark.parametrize(("depth", "lag"), [(1, 0), (2, 0), (3, 1)])
def test_threads_copy_beside_the_mmas_that_they_have_not_waited_for(depth: int, lag: int) -> None:
    made = schedule(subject(GEMM, f"threads,pipeline({depth},{lag})", shape={"M": 128, "N": 128, "K": 64 * 9}))
    phases = made.phases[0]
    assert [(fill.k, fill.stage) for fill in phases.prologue] == [(k, None) for k in range(depth)]
    for k, turns in _each(phases).items():
        loaded = [k - lag + depth] if k >= lag and k - lag + depth < 9 else []
        assert [k + offset for offset in turns.loads] == loaded
        # With lag 1 the MMA of this turn still runs, and that of the next one is not there yet.
        assert [k + offset for offset in turns.loads_in_flight] == (loaded if lag else [])
    assert made.overlap == (1 if lag else 0)


def test_no_loop_is_one_turn_or_none() -> None:
    text = """
tile.kernel @copy(%A: !tile.view<MxNxf16>, %D: !tile.view<MxNxf16>) {
  tile.grid (%m, %n) over %D step (64, 64) {
    %t = tile.alloc : !tile.smem<64x64xf16>
    tile.copy %A[%m, %n] to %t
    tile.copy %t to %D[%m, %n]
  }
}
"""
    made = schedule(subject(text, "tma"))
    (phases,) = made.phases
    assert len(phases.prologue) == 1
    assert [turns.computes for turns in _turns(phases)] == ["store to D[0, 0]"]


def test_a_kernel_that_hangs_says_where() -> None:
    from design_subjects import lowered_to_l1

    from tilec.dialects.tile import CommitOp

    module = lowered_to_l1("tma,pipeline(2)")
    commit = next(op for op in module.walk() if isinstance(op, CommitOp))
    commit.detach()
    commit.erase()
    made = Subject(module)
    assert schedule(made).phases[0].stuck == "the wait for done[0] in line 10 never ends"
    assert "It hangs: the wait for done[0] in line 10 never ends." in str(quick(made))
