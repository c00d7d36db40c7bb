"""The launches really run, and a broken kernel's fail."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from design_subjects import EXAMPLES, GEMM, ROLES, lowered_to_l1, quick, subject

from tilec.design.experiment import experiment
from tilec.design.forecast import Forecast
from tilec.design.subject import Subject
from tilec.design.validation import Validation
from tilec.source import parse_file, parse_text

sys.path.append(str(Path(__file__).resolve().parents[1] / "protocol"))
from mutations import KINDS, mutants


def _validation(made: Subject) -> Validation:
    return quick(made).validation


def _broken(kind: str, like: bool = False) -> Validation:
    module = next(mutants(next(one for one in KINDS if one.name == kind), lowered_to_l1("tma,pipeline(2)"))).module
    return _validation(Subject(module, like=parse_text(GEMM, "gemm.tile") if like else None))


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_k_tiles_around_the_depth(depth: int) -> None:
    runs = _validation(subject(GEMM, f"tma,pipeline({depth})")).runs
    edges = [run for run in runs if run.what == "boundary tiles"]
    wanted = dict.fromkeys((0, 1, depth - 1, depth, depth + 1, 2 * depth + 1))
    assert [run.k_tiles for run in edges] == list(wanted)
    for run in edges:
        assert run.outcome == "exact" and run.compared == "the program"
        assert -(-run.shape["K"] // 64) == run.k_tiles
        assert (run.tiles, run.mmas) == (4, 4 * (run.k_tiles or 0))
        # No square, and no extent ends on a tile.
        assert run.shape["M"] != run.shape["N"]
        assert run.shape["M"] % 128 and run.shape["N"] % 128
    assert any(run.shape["K"] % 64 for run in edges)
    (whole,) = (run for run in runs if run.what == "whole tiles")
    assert not any(whole.shape[name] % 128 for name in "MN")


def test_nothing_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers of the report are those of runs: without the simulator there are none."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("it runs")

    monkeypatch.setattr("tilec.simulation.run", refuse)
    with pytest.raises(AssertionError, match="it runs"):
        _validation(subject(GEMM, "tma,pipeline(2)"))


def test_a_missing_wait_is_a_fault_in_each_launch_that_multiplies() -> None:
    made = _broken("wait for a load dropped")
    assert made.proof.verdict == "refuted"
    assert made.proof.line == 10
    for run in made.runs:
        assert run.outcome == ("fault" if run.k_tiles else "exact"), run
        if run.k_tiles:
            assert (run.message, run.line) == (
                "no wait orders this MMA's read of %a[0] after the TMA load into %a[0]",
                10,
            )
    assert not made.holds


def test_wrong_numbers_are_found_where_there_is_a_program_to_compare_with() -> None:
    """Every MMA overwrites: no rule is broken, and from two K tiles on the sums are wrong."""
    alone, compared = _broken("no step accumulates"), _broken("no step accumulates", like=True)
    assert {run.outcome for run in alone.runs} == {"exact"}
    assert {run.compared for run in alone.runs} == {None}
    assert {run.outcome for run in compared.runs if (run.k_tiles or 0) > 1} == {"differs"}
    assert {run.outcome for run in compared.runs if (run.k_tiles or 0) <= 1} == {"exact"}
    assert {run.compared for run in compared.runs} == {"@gemm"}
    assert not compared.holds


def test_a_small_shape_of_the_users_is_run_as_well_and_a_large_one_is_not() -> None:
    small = _validation(subject(GEMM, "tma", shape={"M": 40, "N": 56, "K": 72})).runs[-1]
    assert (small.what, small.outcome, small.tiles) == ("the given shape", "exact", 1)
    large = _validation(subject(GEMM, "tma", shape={"M": 4096, "N": 4096, "K": 4096})).runs[-1]
    assert (large.outcome, large.message) == ("skipped", "too large to simulate here (7e+10 multiply-adds)")


def test_shapes_that_the_kernel_does_not_assume_are_skipped() -> None:
    text = GEMM.replace("  tile.grid", "  tile.assume %A dim 1 step 64 multiple 2\n  tile.grid")
    runs = _validation(subject(text, "tma,pipeline(2)")).runs
    outcomes = {run.k_tiles: run.outcome for run in runs if run.what == "boundary tiles"}
    assert outcomes == {0: "exact", 1: "skipped", 2: "exact", 3: "skipped", 5: "skipped"}
    assert {run.message for run in runs if run.outcome == "skipped"} == {
        "the kernel assumes that no launch has this shape"
    }


def test_roles_are_simulated_though_not_proved() -> None:
    made = _validation(Subject(parse_file(ROLES), like=parse_text(GEMM, "gemm.tile")))
    assert made.proof.verdict == "checked"
    assert {run.outcome for run in made.runs} == {"exact"}


def test_a_kernel_of_fixed_extents_has_one_launch() -> None:
    text = GEMM.replace("MxKx", "160x96x").replace("NxKx", "136x96x").replace("MxNx", "160x136x")
    runs = _validation(subject(text, "tma,pipeline(2)")).runs
    assert [(run.shape, run.outcome) for run in runs] == [({}, "exact")]


def _one(made: Validation, barrier: str) -> tuple[tuple[str, ...], tuple[str, ...], bool, str | None]:
    found = next(one for one in made.handoffs if one.barrier == barrier)
    return found.producers, found.consumers, found.holds, found.problem


def test_each_barrier_has_one_producer_and_one_consumer() -> None:
    made = _validation(subject(GEMM, "tma,pipeline(3),persistent"))
    assert _one(made, "full") == (("TMA engine, announced by the issuing thread",), ("all threads",), True, None)
    assert _one(made, "done") == (("tensor core, committed by all threads",), ("all threads",), True, None)
    roles = _validation(Subject(parse_file(ROLES)))
    assert _one(roles, "full") == (
        ('TMA engine, announced by the issuing thread of role "load"',),
        ('role "mma"',),
        True,
        None,
    )
    assert _one(roles, "empty") == (
        ('tensor core, committed by role "mma"',),
        ('issuing thread of role "load"',),
        True,
        None,
    )


def test_a_barrier_that_nobody_waits_for_is_told() -> None:
    found = _one(_broken("wait for a load dropped"), "full")
    assert (found[2], found[3]) == (False, "nobody waits for it")


def test_the_experiment_names_numbers_and_a_command() -> None:
    from tilec.design import Design

    asked = Design(Subject(parse_file(EXAMPLES / "gemm.tile"), pipeline="tma,pipeline(2)", target="sm_90a")).validation
    made = asked.experiment
    assert set(made.numbers) == {"microseconds", "tflops", "speedup over one stage"}
    assert all(number > 0 for number in made.numbers.values())
    path = EXAMPLES / "gemm.tile"
    shape = "--shape M=4096,K=4096,N=4096 --target sm_90a --device=cuda"
    assert made.command == f"tilec predict {path} --pipeline 'tma,pipeline(2)' {shape}"
    assert made.beside == f"tilec run {path} --pipeline 'tma,pipeline(2)' {shape}"
    assert f"{made.numbers['microseconds']} us" in made.refuted_if


def test_without_a_forecast_the_numbers_themselves_are_the_experiment() -> None:
    made = experiment(subject(GEMM, "tma"), Forecast({"M": 64}, True, None, None, None, "none", "no model"))
    assert made.command == "tilec run kernel.tile --pipeline tma --shape M=64 --target sm_100a --device=cuda"
    assert made.beside == made.command
    assert made.refuted_if == "an element is off, or the launch does not end"


def test_runs_are_told_apart() -> None:
    seen: list[dict[str, int]] = [run.shape for run in _validation(subject(GEMM, "tma,pipeline(2)")).runs]
    assert all(seen.count(shape) == 1 for shape in seen)
