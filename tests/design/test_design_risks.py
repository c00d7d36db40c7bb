"""The failure modes: each fires on a kernel that has it, at its place, and says of a good one what rules it out."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from design_subjects import GEMM, ROLES, lowered_to_l1, quick, subject

from tilec.design import risks
from tilec.design.depths import depths, roomier
from tilec.design.risks import Risk
from tilec.design.subject import Subject
from tilec.source import parse_file, parse_text

sys.path.append(str(Path(__file__).resolve().parents[1] / "protocol"))
from mutations import KINDS, mutants

_PERSISTENT = "tma,pipeline(2),persistent"


def _modes(made: Subject, rows: tuple[int, ...] = ()) -> dict[str, Risk]:
    return {risk.mode: risk for risk in quick(made, rows).risks.modes}


def _broken(kind: str, pipeline: str = _PERSISTENT, label: str | None = None) -> Subject:
    found = mutants(next(one for one in KINDS if one.name == kind), lowered_to_l1(pipeline))
    return Subject(next(one.module for one in found if label in (None, one.label)))


@pytest.mark.parametrize("pipeline", ["tma", "tma,pipeline(2)", "tma,pipeline(3),persistent", "threads,pipeline(2)"])
def test_a_good_kernel_has_none(pipeline: str) -> None:
    modes = _modes(subject(GEMM, pipeline))
    assert list(modes) == [risks.SWIZZLE, risks.MISSING_WAIT, risks.REUSE, risks.DEPTH, risks.OTHER]
    depth = modes[risks.DEPTH]
    assert {risk.status for risk in modes.values() if risk is not depth} == {"ruled out"}
    # What ptxas has not said is not ruled out.
    assert depth.status == "not found"
    assert depth.facts[-1].what == "registers and spills are unknown: no ptxas"
    assert all(risk.facts and risk.where is None for risk in modes.values())


def test_facts_are_of_this_kernel() -> None:
    modes = _modes(subject(GEMM, "tma,pipeline(3),persistent"))
    said = {mode: [(fact.what, fact.lines) for fact in risk.facts] for mode, risk in modes.items()}
    proved = ("the protocol is proved for every K and every number of tiles per CTA", ())
    assert said[risks.SWIZZLE][0] == (
        "a: TMA load, MMA take 128x64 f16, order [1, 0], swizzle 128, one type",
        (8, 10),
    )
    assert said[risks.MISSING_WAIT] == [
        ("the MMA reads a behind a wait for full", (10,)),
        ("the MMA reads b behind a wait for full", (10,)),
        ("full: 32768 bytes announced, 32768 brought", (8,)),
        proved,
    ]
    assert (
        "a, b: overwritten by the TMA engine behind done[3], when the tensor core has read",
        (),
    ) in said[risks.REUSE]
    assert ("D: drained by wait_group 0 before the CTA ends", (3,)) in said[risks.REUSE]
    assert proved in said[risks.REUSE]


@pytest.mark.parametrize(
    ("kind", "mode", "line"),
    [
        ("wait for a load dropped", risks.MISSING_WAIT, 10),
        ("wait for a load by one thread only", risks.MISSING_WAIT, 10),
        ("phases reset per tile", risks.MISSING_WAIT, 12),
        ("wait_group dropped", risks.REUSE, 12),
        ("last wait_group dropped", risks.REUSE, 12),
        ("barrier after wait_group dropped", risks.REUSE, 12),
        ("refill before the MMA has read", risks.REUSE, 8),
        ("slot with another swizzle", risks.SWIZZLE, 8),
        ("budget 16 bytes too large", risks.OTHER, 8),
        ("accumulator leaked", risks.OTHER, 6),
    ],
)
def test_a_broken_kernel_has_it_at_its_place(kind: str, mode: str, line: int) -> None:
    found = _modes(_broken(kind))[mode]
    assert (found.status, found.line) == ("present", line)
    assert found.where


@pytest.mark.parametrize("kind", ["wait for a load dropped", "last wait_group dropped", "slot with another swizzle"])
def test_only_that_one(kind: str) -> None:
    present = [mode for mode, risk in _modes(_broken(kind)).items() if risk.status == "present"]
    assert len(present) == 1


def test_a_missing_wait_in_full() -> None:
    found = _modes(_broken("wait for a load dropped"))[risks.MISSING_WAIT]
    assert found.where == "no wait orders this MMA's read of %a[0] after the TMA load into %a[0]"
    design = quick(_broken("wait for a load dropped"))
    assert design.conclusion.verdict == f"wrong: {found.where}"
    assert not design.holds


def test_another_swizzle_in_full() -> None:
    found = _modes(_broken("slot with another swizzle"))[risks.SWIZZLE]
    tile = "128x64 f16, order [1, 0]"
    assert found.where == f"a is {tile}, swizzle 128, and TMA load in line 8 takes it for {tile}, swizzle 64"


def test_a_dropped_wait_group_that_nothing_needs_is_none() -> None:
    """One tile a CTA: no slot of the staging ring is written twice."""
    modes = _modes(_broken("wait_group dropped", "tma,pipeline(2)"))
    assert modes[risks.REUSE].status == "ruled out"


# ---- depth


def test_a_depth_that_does_not_fit() -> None:
    ring = "!tile.ring<2 x !tile.smem<128x64xf16, swizzle = 128>>"
    text = str(lowered_to_l1("tma,pipeline(2)"))
    deep = text.replace(f"%a = tile.alloc : {ring}", f"%a = tile.alloc : {ring.replace('2 x', '12 x')}")
    assert deep != text
    design = quick(Subject(parse_text(deep, "deep.tile")))
    found = {risk.mode: risk for risk in design.risks.modes}[risks.DEPTH]
    bytes = 12 * 16384 + 2 * 16384 + 2 * 16384 + 16 + 8 + 4
    assert (found.status, found.where) == (
        "present",
        f"12 stages need {bytes - 232448} bytes more than a CTA of sm_100a has",
    )
    assert design.conclusion.verdict == (f"does not fit sm_100a: a ring of 12 stages, {bytes - 232448} bytes too many")
    assert not design.holds


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ({}, "whether that pays is not predicted"),
        ({2: 200e-6, 3: 250e-6}, "predicted 25% slower, 250.0 us against 200.0"),
        ({2: 200e-6, 3: 150e-6}, "predicted 25% faster, 150.0 us against 200.0"),
        ({2: 200e-6, 3: 200.1e-6}, "predicted as fast, 200.1 us against 200.0"),
    ],
)
def test_a_depth_that_costs_a_cta_is_a_trade(times: dict[int, float], words: str) -> None:
    made = quick(subject(GEMM, "tma,pipeline(3)"), (1, 2))
    vars(made)["_depths"] = made.contract.depths.timed(times)
    (found,) = (risk for risk in made.risks.modes if risk.mode == risks.DEPTH)
    assert (found.status, found.where) == (
        "a trade",
        f"3 stages cost 1 CTA of the 2 that 2 stages leave room for: {words}",
    )
    # A choice, and no mistake: the design holds.
    assert made.holds


def test_a_depth_that_costs_no_cta() -> None:
    """From four stages on none has room for more than three have."""
    made = quick(subject(GEMM, "tma,pipeline(4)"), (3,))
    taken = made.contract.depths
    vars(made)["_depths"] = replace(taken, rows=tuple(replace(row, registers=76, spill_bytes=0) for row in taken.rows))
    (found,) = (risk for risk in made.risks.modes if risk.mode == risks.DEPTH)
    assert (found.status, found.where) == ("ruled out", None)


def test_any_shallower_ring_may_be_the_one_that_has_room() -> None:
    """Of those with room for more CTAs the deepest with room for twice as many is told, else the deepest."""
    made = depths(subject(GEMM, "retile(64,32,64),tma,pipeline(4)"), (1, 2, 3))
    counts = {row.depth: row.ctas_per_sm or 0 for row in made.rows}
    twice = [depth for depth in (1, 2, 3) if counts[depth] >= 2 * counts[4]]
    assert counts[3] > counts[4] and twice and 3 not in twice
    best = roomier(made)
    assert best is not None and best.depth == max(twice)


def test_spills_are_a_failure() -> None:
    made = quick(subject(GEMM, "tma,pipeline(2)"), (1,))
    taken = made.contract.depths
    spilling = tuple(replace(row, spill_bytes=1080) if row.chosen else row for row in taken.rows)
    vars(made)["_depths"] = replace(taken, rows=spilling)
    vars(made).pop("contract")
    (found,) = (risk for risk in made.risks.modes if risk.mode == risks.DEPTH)
    said = "1080 bytes of registers spilled a thread: use a smaller tile"
    assert (found.status, found.where) == ("present", said)
    assert made.conclusion.verdict == f"{said}; 3 of 3 copies by TMA, a ring of 2 stages, protocol proved for every K"
    assert not made.holds
    (row,) = (line.split() for line in str(made).splitlines() if line.startswith("2 * "))
    assert row[5] == "1080"


def test_what_a_finding_refutes_is_not_assured() -> None:
    module = parse_file(Path(__file__).resolve().parents[1] / "protocol" / "lesson_step6.tile")
    modes = {risk.mode: risk for risk in quick(Subject(module)).risks.modes}
    for mode in (risks.MISSING_WAIT, risks.REUSE):
        assert (modes[mode].status, modes[mode].facts) == ("present", ())
    other = modes[risks.OTHER]
    assert (other.status, [fact.what for fact in other.facts]) == (
        "not found",
        [
            "the protocol is refuted with M = 256, K = 64, N = 128: 2 tiles on one CTA (a tile is read before it is waited "
            "for), and the proof ends there"
        ],
    )


def test_without_a_proof_they_are_not_found() -> None:
    modes = _modes(Subject(parse_file(ROLES)))
    assert modes[risks.MISSING_WAIT].status == modes[risks.REUSE].status == "not found"
    assert modes[risks.SWIZZLE].status == "ruled out"


def test_fallbacks_are_tried() -> None:
    made = quick(subject(GEMM, "tma,pipeline(3)"), (1, 2)).risks.fallbacks
    assert {one.when: one.then for one in made} == {
        "a tensor is not aligned to 16 bytes, or its rows end off the grid": "the launch compiles the variant of that class: "
        "its threads copy, into the same swizzled tiles",
        "shared memory is needed elsewhere, or more CTAs must be resident": "2 stages: 98332 bytes, 2 CTAs a multiprocessor",
        "the chip is sm_90a": "--target sm_90a: the same program and passes, 131096 bytes of shared memory",
    }
    wide = quick(subject(GEMM, "retile(256,256,64),tma")).risks.fallbacks
    (other,) = (one.then for one in wide if one.when == "the chip is sm_90a")
    assert other.startswith("other tiles or passes: ")


def test_a_map_that_the_launch_does_not_encode_is_present() -> None:
    made = quick(subject(GEMM, "tma"))
    maps = made.contract.descriptors
    vars(made)["_descriptors"] = (replace(maps[0], in_abi=False), *maps[1:])
    (found,) = (risk for risk in made.risks.modes if risk.mode == risks.SWIZZLE)
    assert (found.status, found.where, found.line) == (
        "present",
        "the lowered kernel has no map of A with box [64, 128] and swizzle 128",
        8,
    )
    assert not made.holds


_ROLES_WITHOUT = {
    "empty": (
        "tile.mbarrier.try_wait %empty",
        "no wait orders this TMA load into %Asmem[0] after the TMA load into %Asmem[0]",
    ),
    "acc_free": (
        "tile.mbarrier.try_wait %acc_free",
        'an MMA of turn 1 overwrites %acc before this read of turn 0: nothing makes role "mma" wait for role "store"',
    ),
}


@pytest.mark.parametrize("barrier", _ROLES_WITHOUT)
def test_a_stage_that_nobody_waits_for_is_reuse(barrier: str) -> None:
    wait, message = _ROLES_WITHOUT[barrier]
    lines = ROLES.read_text().splitlines(keepends=True)
    assert sum(wait in line for line in lines) == 1
    modes = _modes(subject("".join(line for line in lines if wait not in line)))
    assert (modes[risks.REUSE].status, modes[risks.REUSE].where, modes[risks.REUSE].facts) == ("present", message, ())


@pytest.mark.parametrize(
    ("kind", "claim"), [("last wait_group dropped", "drained"), ("refill before the MMA has read", "done")]
)
def test_the_contract_claims_no_wait_that_is_not_there(kind: str, claim: str) -> None:
    rows = [row for row in _broken(kind).contract.handoffs if row.state in ("free", "stored")]
    refilled = [row for row in rows if {"a", "b"} & set(row.tiles)]
    stored = [row for row in rows if row.state == "stored"]
    assert {row.signal for row in (stored if claim == "drained" else refilled)} == {"none"}
