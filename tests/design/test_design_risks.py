"""The failure modes: each fires on a kernel that has it, at its place, and says of a good one what rules it out."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from design_subjects import GEMM, ROLES, lowered_to_l1, quick, subject

from tilec.design import risks
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
    assert {risk.status for risk in modes.values()} == {"ruled out"}
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
        "a, b: overwritten by TMA engine behind done[3], where tensor core has read",
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


def test_a_depth_that_halves_residency() -> None:
    made = subject(GEMM, "tma,pipeline(3)")
    found = _modes(made, (1, 2))[risks.DEPTH]
    assert (found.status, found.where) == (
        "present",
        "3 stages leave 1 CTA a multiprocessor, 2 stages 2: residency is halved",
    )
    # A choice, and no mistake: the design holds.
    assert quick(made, (1, 2)).holds


def test_a_depth_that_costs_no_residency() -> None:
    assert _modes(subject(GEMM, "tma,pipeline(2)"), (1,))[risks.DEPTH].status == "ruled out"


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
