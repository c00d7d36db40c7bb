"""The steps by which loads and stores complete, in full, and the byte budgets."""

from __future__ import annotations

import re

import pytest
from design_subjects import GEMM, lowered_to_l1, quick, subject

from tilec.design.protocols import Step


def _said(steps: tuple[Step, ...]) -> list[tuple[str, str]]:
    return [(step.what, step.by) for step in steps]


def test_the_load_protocol_in_full() -> None:
    made = quick(subject(GEMM, "tma,pipeline(3)")).contract
    assert _said(made.load_protocol) == [
        ("initialise full[3], 1 arrival a round", "issuing thread"),
        ("fence.mbarrier_init, so that the TMA engine sees full", "issuing thread"),
        ("meet, so that all see it initialised", "all threads"),
        ("arrive.expect_tx on full[stage]: 32768 bytes", "issuing thread"),
        ("issue the loads of a, b, which complete bytes on full[stage]", "issuing thread"),
        ("wait for full[stage]; phase flips when stage wraps; from 0", "all threads"),
        ("read a, b behind fence after_thread_sync", "tensor core"),
        ("wait for done[stage] before a refill of a, b", "all threads"),
    ]


def test_the_fence_is_in_the_code() -> None:
    assert "fence.mbarrier_init" in subject(GEMM, "tma,pipeline(2)").compiled.ptx


def test_the_store_protocol_in_full() -> None:
    made = quick(subject(GEMM, "tma,pipeline(3)")).contract
    assert _said(made.store_protocol) == [
        ("write staging", "all threads"),
        ("fence proxy_async", "all threads"),
        ("meet", "all threads"),
        ("issue the TMA stores of staging", "issuing thread"),
        ("cp.async.bulk.commit_group", "issuing thread"),
        ("cp.async.bulk.wait_group.read 1, then meet, before a slot is written again", "issuing thread"),
        ("cp.async.bulk.wait_group 0, before the CTA ends", "issuing thread"),
    ]


def test_a_full_wait_before_a_slot_is_written_again_is_told_too() -> None:
    text = str(lowered_to_l1("tma,pipeline(2),persistent")).replace("wait_group 1 read", "wait_group 1")
    steps = [step.what for step in quick(subject(text)).contract.store_protocol]
    assert "cp.async.bulk.wait_group 1, then meet, before a slot is written again" in steps


def test_groups_of_wgmma_are_named() -> None:
    made = quick(subject(GEMM, "tma,pipeline(3)", target="sm_90a")).contract
    assert {one.name: one.becomes for one in made.barriers} == {
        "full": "3 x 8 bytes in shared memory",
        "done": "wgmma.commit_group and wgmma.wait_group, no memory",
    }


def test_what_is_stored_is_for_readers_after_the_kernel() -> None:
    row = quick(subject(GEMM, "tma")).contract.issue[-1]
    assert (row.tile, row.consumer, row.consumption_scope) == ("staging", "readers of D", "after the kernel")


@pytest.mark.parametrize("apart", [False, True])
def test_a_round_may_be_announced_in_two_parts(apart: bool) -> None:
    """Two announcements of half the bytes each; or one, by a thread that leaves the loads to another block."""
    text = str(lowered_to_l1("tma,pipeline(2)"))
    whole = r"( *)tile.mbarrier.arrive.expect_tx (%full\[%\w+\]), 32768\n"
    one = r"\1tile.mbarrier.arrive.expect_tx \2, 32768\n\1}\n\1tile.single_thread {\n"
    half = r"\1tile.mbarrier.arrive.expect_tx \2, 16384\n" * 2
    text = re.sub(whole, one if apart else half, text)
    if not apart:
        text = text.replace("%full = tile.mbarrier.init count 1", "%full = tile.mbarrier.init count 2")
    made = quick(subject(text))
    assert {(one.announced, one.brought) for one in made.contract.budgets} == {(32768, 32768)}
    assert made.holds, made.conclusion.verdict
