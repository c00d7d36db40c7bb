"""The launches really run, and a broken kernel's fail."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from design_subjects import EXAMPLES, GEMM, ROLES, lowered_to_l1, quick, subject

from tilec.design import Design
from tilec.design.experiment import Experiment, experiment
from tilec.design.forecast import Expected, Forecast
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
        assert run.outcome == ("fault" if run.k_tiles else "no fault"), run
        if run.k_tiles:
            assert (run.message, run.line) == (
                "no wait orders this MMA's read of %a[0] after the TMA load into %a[0]",
                10,
            )
    assert not made.holds


def test_wrong_numbers_are_found_where_there_is_a_program_to_compare_with() -> None:
    """Every MMA overwrites: no rule is broken, and from two K tiles on the sums are wrong."""
    alone, compared = _broken("no step accumulates"), _broken("no step accumulates", like=True)
    assert {run.outcome for run in alone.runs} == {"no fault"}
    assert {run.compared for run in alone.runs} == {None}
    assert {run.outcome for run in compared.runs if (run.k_tiles or 0) > 1} == {"differs"}
    assert {run.outcome for run in compared.runs if (run.k_tiles or 0) <= 1} == {"exact"}
    assert {run.compared for run in compared.runs} == {"@gemm"}
    assert not compared.holds


@pytest.mark.parametrize("like", [False, True])
def test_the_verdict_on_a_kernel_by_hand_says_whether_numbers_were_compared(like: bool) -> None:
    module = lowered_to_l1("tma,pipeline(2)")
    made = quick(Subject(module, like=parse_text(GEMM, "gemm.tile") if like else None))
    verdict = "use it: 3 of 3 copies by TMA, a ring of 2 stages, protocol proved for every K"
    alone = "; its numbers are compared with nothing: --like FILE names a program"
    assert made.conclusion.verdict == (verdict if like else verdict + alone)


def test_a_small_shape_of_the_users_is_run_as_well_and_a_large_one_is_not() -> None:
    small = _validation(subject(GEMM, "tma", shape={"M": 40, "N": 56, "K": 72})).runs[-1]
    assert (small.what, small.outcome, small.tiles) == ("the given shape", "exact", 1)
    large = _validation(subject(GEMM, "tma", shape={"M": 4096, "N": 4096, "K": 4096})).runs[-1]
    assert (large.outcome, large.message) == ("skipped", "too large to simulate here (7e+10 multiply-adds)")


def _assuming(multiple: int) -> str:
    return GEMM.replace("  tile.grid", f"  tile.assume %A dim 1 step 64 multiple {multiple}\n  tile.grid")


def test_launches_are_those_that_the_kernel_assumes() -> None:
    """0, 1, 2, 3 and 5 K tiles, rounded up to even numbers."""
    runs = _validation(subject(_assuming(2), "tma,pipeline(2)")).runs
    outcomes = {run.k_tiles: run.outcome for run in runs if run.what == "boundary tiles"}
    assert outcomes == {0: "exact", 2: "exact", 4: "exact", 6: "exact"}
    phases = quick(subject(_assuming(4), "tma,pipeline(2)")).contract.schedule
    assert [one.k_tiles for one in phases] == [8, 4]


def test_a_given_shape_that_the_kernel_does_not_assume_is_skipped() -> None:
    run = _validation(subject(_assuming(2), "tma,pipeline(2)", shape={"M": 128, "N": 136, "K": 192})).runs[-1]
    assert (run.outcome, run.message) == ("skipped", "the kernel assumes that no launch has this shape")


def test_a_wrong_kernel_of_few_launches_is_found() -> None:
    """Sums are wrong from two K tiles on, and a launch has a multiple of four."""
    module = lowered_to_l1("tma,pipeline(2)")
    (text,) = {str(next(mutants(next(one for one in KINDS if one.name == "no step accumulates"), module)).module)}
    text = text.replace("tile.grid", "tile.assume %A dim 1 step 64 multiple 4\n    tile.grid", 1)
    made = quick(subject(text, like=parse_text(GEMM, "gemm.tile")))
    assert {run.outcome for run in made.validation.runs if run.k_tiles} == {"differs"}
    assert made.conclusion.verdict.startswith("wrong: D[0, 0] is ") and not made.holds


def test_nothing_tried_is_nothing_verified() -> None:
    made = quick(subject(_assuming(1 << 14), "tma,pipeline(2)"))
    runs = made.validation.runs
    assert {run.outcome for run in runs if run.k_tiles} == {"skipped"}
    assert made.conclusion.verdict == (
        "not verified: no launch with an MMA was simulated: too large to simulate here (3e+10 multiply-adds); "
        "3 of 3 copies by TMA, a ring of 2 stages, protocol checked up to 2 tiles, by simulating 3 launches"
    )
    assert not made.holds


def test_fixed_extents_count_for_what_is_too_large() -> None:
    text = GEMM.replace("MxKx", "4096x4096x").replace("NxKx", "4096x4096x").replace("MxNx", "4096x4096x")
    (run,) = _validation(subject(text, "tma")).runs
    assert (run.outcome, run.message) == ("skipped", "too large to simulate here (7e+10 multiply-adds)")


def test_whole_tiles_count_for_what_is_too_large() -> None:
    run = _validation(subject(GEMM, "tma", shape={"M": 65536, "N": 4096, "K": 8})).runs[-1]
    assert (run.outcome, run.message) == ("skipped", "too large to simulate here (2e+10 multiply-adds)")


def test_an_execution_that_hangs_contradicts_a_proof() -> None:
    made = quick(subject(GEMM, "tma,pipeline(2)"))
    found = made._schedule  # pyright: ignore[reportPrivateUsage]
    hung = replace(found.phases[0], stuck="the wait for done[0] in line 10 never ends")
    vars(made)["_schedule"] = replace(found, phases=(hung,))
    assert made.conclusion.verdict == (
        "wrong: an execution hangs (the wait for done[0] in line 10 never ends), though the protocol is proved"
    )
    assert not made.holds


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


def test_who_announces_may_arrive_as_well_and_a_barrier_may_be_unused() -> None:
    text = str(lowered_to_l1("tma,pipeline(2)"))
    unused = text.replace("%full = ", "%spare = tile.mbarrier.init count 1 : !tile.mbarrier<1>\n      %full = ", 1)
    twice = re.sub(
        r"( *)(tile.mbarrier.arrive.expect_tx )(%full\[%\w+\]), 32768\n",
        r"\1\2\3, 32768\n\1tile.mbarrier.arrive \3\n",
        text.replace("%full = tile.mbarrier.init count 1", "%full = tile.mbarrier.init count 2"),
    )
    for made in (unused, twice):
        found = quick(subject(made))
        assert all(one.holds for one in found.validation.handoffs)
        assert found.holds, found.conclusion.verdict


def test_a_barrier_that_does_not_hand_on_is_in_the_verdict() -> None:
    made = quick(subject(GEMM, "tma,pipeline(2)"))
    rings = made._rings  # pyright: ignore[reportPrivateUsage]
    vars(made)["_rings"] = replace(rings, barriers=(replace(rings.barriers[0], consumers=()), *rings.barriers[1:]))
    assert made.conclusion.verdict == "wrong: barrier full does not hand on from one to one: nobody waits for it"
    assert not made.holds


def test_the_experiment_names_numbers_and_a_command() -> None:
    asked = Design(Subject(parse_file(EXAMPLES / "gemm.tile"), pipeline="tma,pipeline(2)", target="sm_90a")).validation
    made = asked.experiment
    assert set(made.numbers) == {"microseconds", "tflops", "speedup over one stage"}
    assert all(number > 0 for number in made.numbers.values())
    path = EXAMPLES / "gemm.tile"
    shape = "--shape M=4096,K=4096,N=4096 --target sm_90a --device=cuda"
    assert made.command == f"tilec predict {path} --pipeline 'tma,pipeline(2)' {shape}"
    assert made.beside == f"tilec run {path} --pipeline 'tma,pipeline(2)' {shape}"
    assert made.refuted_if.startswith(f"measured is more than 25% off {made.numbers['microseconds']} us")
    assert made.save is None


def _expecting(target: str, **options: object) -> Experiment:
    chosen = Expected(1, 100e-6, 500.0, "latency", {"latency": 1e-5})
    times = {1: 300e-6, 2: 100e-6}
    measured = target == "sm_90a"
    made = subject(GEMM, "tma,pipeline(2)", target=target, **options)
    return experiment(made, Forecast({"M": 64, "K": 64, "N": 64}, True, chosen, times, "none", measured, None))


def test_what_refutes_depends_on_whether_the_target_was_measured() -> None:
    assert _expecting("sm_90a").refuted_if == (
        "measured is more than 25% off 100.0 us; or it is not faster than the row of one stage"
    )
    assert _expecting("sm_100a").refuted_if == (
        "measured is over 250.0 us or under 40.0 us: nothing of sm_100a has been measured yet, and against published figures "
        "the model is off by up to a factor of 2 (docs/prediction.md); or it is not faster than the row of one stage"
    )
    assert _expecting("sm_90a").prediction == (
        "100.0 us a launch (500 TFLOP/s), bound by latency; 3.00 times as fast as with one stage (300.0 us)"
    )


def test_a_program_that_no_file_has_is_written_first() -> None:
    made = _expecting("sm_90a", code="gemm.ir()")
    assert made.save == 'from pathlib import Path; Path("gemm_ir.tile").write_text(gemm.ir())'
    assert made.command.startswith("tilec predict gemm_ir.tile --pipeline ")


def test_roles_are_measured_in_the_simulator_alone() -> None:
    made = Design(Subject(parse_file(ROLES)))
    asked = made.validation.experiment
    assert (
        asked.command == asked.beside == (f"tilec run {ROLES} --shape M=145,K=208,N=152 --target sm_100a --device=sim")
    )
    assert "--device=cuda" not in str(made)
    assert made.conclusion.verdict == (
        "not for a GPU: roles are not lowered yet; 4 of 4 copies by TMA, a ring of 2 stages, protocol checked up to 5 "
        "iterations a loop and 3 tiles, by simulating 24 launches"
    )


def test_no_output_tile_is_no_launch() -> None:
    made = Design(subject(GEMM, "tma,pipeline(2)", shape={"M": 0, "N": 128, "K": 128}))
    asked = made.validation.experiment
    nothing = "there is no output tile, and nothing is launched"
    assert (asked.prediction, asked.refuted_if) == (
        f"with M = 0, N = 128, K = 128 {nothing}",
        "a kernel is launched, or the call fails",
    )
    assert made.conclusion.bound.words == f"none: {nothing}"
    assert made.conclusion.verdict == (
        f"use it: 3 of 3 copies by TMA, a ring of 2 stages, protocol proved for every K; with this shape {nothing}"
    )


def test_without_a_forecast_the_numbers_themselves_are_the_experiment() -> None:
    made = experiment(subject(GEMM, "tma"), Forecast({"M": 64}, True, None, {}, "none", False, "no model"))
    assert made.command == "tilec run kernel.tile --pipeline tma --shape M=64 --target sm_100a --device=cuda"
    assert made.beside == made.command
    assert made.refuted_if == "an element is off, or the launch does not end"


def test_runs_are_told_apart() -> None:
    seen: list[dict[str, int]] = [run.shape for run in _validation(subject(GEMM, "tma,pipeline(2)")).runs]
    assert all(seen.count(shape) == 1 for shape in seen)
