"""Warp roles in the simulator: a specialised GEMM by hand, the classic mistakes in it, and what roles know of each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import active_count
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from tilec.backend import reference
from tilec.backend.reference import Array
from tilec.backend.simulator import Fault, run
from tilec.diagnostics import TilecError
from tilec.source import parse_file, parse_text

KERNELS = Path(__file__).resolve().parents[1] / "protocol"
GEMM = (KERNELS / "step7_roles.tile").read_text()
SEEDS = (None, 0, 1, 2)
Edits = tuple[tuple[str, str], ...]


def edited(text: str, *edits: tuple[str, str]) -> str:
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


def at_depth(depth: int) -> ModuleOp:
    text = GEMM.replace("tile.ring<2 x", f"tile.ring<{depth} x").replace("tile.mbarrier<2>", f"tile.mbarrier<{depth}>")
    return parse_text(edited(text, ("%last_stage = arith.constant 1", f"%last_stage = arith.constant {depth - 1}")))


def operands(m: int, n: int, k: int) -> list[Array]:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-2, 3, (m, k)), rng.integers(-2, 3, (n, k))
    return [a.astype(np.float16), b.astype(np.float16), np.full((m, n), np.nan, np.float16)]


def expected(m: int, n: int, k: int) -> Array:
    arrays = operands(m, n, k)
    reference.run(parse_file(Path(__file__).resolve().parents[2] / "examples" / "gemm.tile"), arrays)
    return arrays[2]


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@pytest.mark.parametrize("tiles", [1, 2, 3])
def test_a_specialised_gemm_computes_what_the_program_does(tiles: int, depth: int) -> None:
    module = at_depth(depth)
    m, n = 128 * tiles - 40, 120
    for k_tiles in range(2 * depth + 2):
        k = max(64 * k_tiles - 24 * (k_tiles % 2), 0)
        wanted = expected(m, n, k)
        for seed in SEEDS:
            arrays = operands(m, n, k)
            run(module, arrays, ctas=1, seed=seed)
            np.testing.assert_array_equal(arrays[2], wanted, f"{k_tiles} K tiles, seed {seed}")


@pytest.mark.parametrize("ctas", [2, 3])
def test_several_ctas(ctas: int) -> None:
    arrays = operands(384, 136, 200)
    report = run(parse_text(GEMM), arrays, ctas=ctas, seed=7)
    np.testing.assert_array_equal(arrays[2], expected(384, 136, 200))
    assert (report.ctas, report.tiles, report.mmas) == (ctas, 6, 24)


def test_a_seed_is_an_order() -> None:
    reports = [run(parse_text(GEMM), operands(256, 128, 320), ctas=1, seed=seed) for seed in (None, None, 3, 3)]
    assert reports[0] == reports[1] and reports[2] == reports[3]
    assert len({report.waits for report in reports}) == 1


def test_no_thread_is_left() -> None:
    before = active_count()
    run(parse_text(GEMM), operands(128, 128, 128), ctas=1)
    with pytest.raises(Fault):
        run(parse_text(edited(GEMM, NEVER_RELEASED)), operands(128, 128, 320), ctas=1)
    with pytest.raises(TilecError, match="the loop's step is 0"):
        run(parse_text(edited(GEMM, ("to %K step %step", "to %K step %zero"))), operands(128, 128, 320), ctas=1)
    assert active_count() == before


EMPTY_WAIT = (
    "            tile.mbarrier.try_wait %empty[%stage], %phase // the MMA that read this stage last is complete\n"
)
NEVER_RELEASED = ("          tile.commit %empty[%stage]\n", "")
READY_WAIT = "          tile.mbarrier.try_wait %acc_ready, %ready\n"
FREE_WAIT = "          tile.mbarrier.try_wait %acc_free, %free // the epilogue has read the tile before\n"
FREE_ARRIVAL = (
    "          tile.mbarrier.arrive %acc_free // the next tile's MMAs may overwrite it while this one is stored\n"
)
MMA_SYNC = (
    "          tile.role_sync // one thread commits for all: all have seen this round before the next can complete\n"
)
LOAD_YIELD = "scf.yield %next_turn, %end#0, %end#1 : index, index, i32\n"


@dataclass(frozen=True)
class Mistake:
    """Texts in the GEMM with what replaces them, and what the simulator says of it."""

    name: str
    kind: str
    edits: Edits
    shape: tuple[int, int, int]
    expected: str


MISTAKES = [
    Mistake(
        "the byte budget is too small",
        "deadlock",
        (("], 32768", "], 32752"),),
        (128, 128, 64),
        """\
f.tile:50:13: error: %full[0] announces 32752 bytes, but its copies bring 32768: the wait at line 77 never ends
            tile.mbarrier.arrive.expect_tx %full[%stage], 32752
            ^
hint: the byte budget is too small by 16 bytes: announce 32768 bytes, what the copies of the round bring (a box over the edge counts in full). The count runs through zero without stopping on it
f.tile:51:13: note: round 0 of %full[0]: a load into %Asmem[0] brings 16384 bytes
            tile.copy_async %A[%m, %k] to %a dispatch tma signal %full[%stage]
            ^
f.tile:52:13: note: round 0 of %full[0]: a load into %Bsmem[0] brings 16384 bytes
            tile.copy_async %B[%n, %k] to %b dispatch tma signal %full[%stage]
            ^
f.tile:77:11: note: role "mma" waits for parity 0 of %full[0], whose round 0 has 1 of 1 arrivals and 32768 of 32752 announced bytes
          tile.mbarrier.try_wait %full[%stage], %phase
          ^
f.tile:38:5: note: role "load" is over
    tile.role "load" {
    ^
f.tile:110:11: note: role "store" waits for parity 0 of %acc_ready[0], whose round 0 has 0 of 1 arrivals: role "mma", which arrives on it, waits too, at line 77
          tile.mbarrier.try_wait %acc_ready, %ready
          ^""",
    ),
    Mistake(
        "the producer's first wait asks for phase 0",
        "deadlock",
        (("%p0 = %one) : (index, index, i32)", "%p0 = %phase0) : (index, index, i32)"),),
        (128, 128, 64),
        """\
f.tile:49:13: error: this wait never ends, and no other role can go on either: the issuing thread of role "load" waits for parity 0 of %empty[0], whose round 0 has 0 of 1 arrivals
            tile.mbarrier.try_wait %empty[%stage], %phase // the MMA that read this stage last is complete
            ^
hint: nothing has used this stage yet, so that nobody releases it: the first pass through a ring must not wait. Start with parity 1, which reads as complete before round 0 is, and flip it once for each round of the slot
f.tile:77:11: note: role "mma" waits for parity 0 of %full[0], whose round 0 has 0 of 1 arrivals: role "load", which arrives on it, waits too, at line 49
          tile.mbarrier.try_wait %full[%stage], %phase
          ^
f.tile:110:11: note: role "store" waits for parity 0 of %acc_ready[0], whose round 0 has 0 of 1 arrivals: role "mma", which arrives on it, waits too, at line 77
          tile.mbarrier.try_wait %acc_ready, %ready
          ^""",
    ),
    Mistake(
        "the consumer never releases",
        "deadlock",
        (NEVER_RELEASED,),
        (128, 128, 320),
        """\
f.tile:49:13: error: this wait never ends, and no other role can go on either: the issuing thread of role "load" waits for parity 0 of %empty[0], whose round 0 has 0 of 1 arrivals
            tile.mbarrier.try_wait %empty[%stage], %phase // the MMA that read this stage last is complete
            ^
hint: nobody arrives on %empty[0]: whoever has used what it guards releases it once a round, with tile.commit behind its MMAs or with tile.mbarrier.arrive
f.tile:77:11: note: role "mma" waits for parity 1 of %full[0], whose round 1 has 0 of 1 arrivals: role "load", which arrives on it, waits too, at line 49
          tile.mbarrier.try_wait %full[%stage], %phase
          ^
f.tile:109:11: note: role "store" waits for parity 0 of %acc_ready[0], whose round 0 has 0 of 1 arrivals: role "mma", which arrives on it, waits too, at line 77
          tile.mbarrier.try_wait %acc_ready, %ready
          ^""",
    ),
    Mistake(
        "an empty barrier expects two arrivals",
        "deadlock",
        (("%empty = tile.mbarrier.init count 1", "%empty = tile.mbarrier.init count 2"),),
        (128, 128, 192),
        """\
f.tile:49:13: error: this wait never ends, and no other role can go on either: the issuing thread of role "load" waits for parity 0 of %empty[0], whose round 0 has 1 of 2 arrivals
            tile.mbarrier.try_wait %empty[%stage], %phase // the MMA that read this stage last is complete
            ^
hint: 1 more arrival is missing: each round takes 2, one for a commit and one for each role that arrives
f.tile:77:11: note: role "mma" waits for parity 1 of %full[0], whose round 1 has 0 of 1 arrivals: role "load", which arrives on it, waits too, at line 49
          tile.mbarrier.try_wait %full[%stage], %phase
          ^
f.tile:110:11: note: role "store" waits for parity 0 of %acc_ready[0], whose round 0 has 0 of 1 arrivals: role "mma", which arrives on it, waits too, at line 77
          tile.mbarrier.try_wait %acc_ready, %ready
          ^""",
    ),
    Mistake(
        "phases are reset at each tile",
        "race",
        (
            (LOAD_YIELD, "scf.yield %next_turn, %zero, %one : index, index, i32\n"),
            ("%end#0, %end#1, %next_free", "%zero, %phase0, %next_free"),
        ),
        (256, 128, 192),
        """\
f.tile:81:11: error: no wait orders this MMA's read of %Asmem[1] after the TMA load into %Asmem[1]
          tile.mma %acc, %a, %b accumulate %accumulate
          ^
hint: the wait at line 77 asks for parity 0, which round 0 satisfied; the load into %Asmem[1] counts in round 1, parity 1: round r is waited for with parity r & 1, counted over the life of the kernel; carry the phase from tile to tile
f.tile:51:13: note: the TMA load into %Asmem[1], whose bytes count in round 1 of %full[1]
            tile.copy_async %A[%m, %k] to %a dispatch tma signal %full[%stage]
            ^
f.tile:77:11: note: this wait found round 0 complete, not round 1
          tile.mbarrier.try_wait %full[%stage], %phase
          ^""",
    ),
    Mistake(
        "the producer resets its phases",
        "race",
        ((LOAD_YIELD, "scf.yield %next_turn, %zero, %one : index, index, i32\n"),),
        (256, 128, 320),
        """\
f.tile:51:13: error: no wait orders this TMA load into %Asmem[0] after the TMA load into %Asmem[0]
            tile.copy_async %A[%m, %k] to %a dispatch tma signal %full[%stage]
            ^
hint: the wait at line 49 asks for parity 1, which round 1 satisfied; round 2, parity 0, comes next: round r is waited for with parity r & 1, counted over the life of the kernel; carry the phase from tile to tile
f.tile:51:13: note: the TMA load into %Asmem[0], whose bytes count in round 2 of %full[0]
            tile.copy_async %A[%m, %k] to %a dispatch tma signal %full[%stage]
            ^
f.tile:49:13: note: this wait found round 1 complete, as one before it did
            tile.mbarrier.try_wait %empty[%stage], %phase // the MMA that read this stage last is complete
            ^""",
    ),
    Mistake(
        "the producer does not wait for an empty stage",
        "race",
        ((EMPTY_WAIT, ""),),
        (128, 128, 192),
        """\
f.tile:50:13: error: no wait orders this TMA load into %Asmem[0] after the TMA load into %Asmem[0]
            tile.copy_async %A[%m, %k] to %a dispatch tma signal %full[%stage]
            ^
hint: wait until %Asmem[0] has been read: its readers commit or arrive on an mbarrier of their own (`empty`), and this role waits for that before it fills the tile again
f.tile:50:13: note: the TMA load into %Asmem[0], whose bytes count in round 0 of %full[0]
            tile.copy_async %A[%m, %k] to %a dispatch tma signal %full[%stage]
            ^""",
    ),
    Mistake(
        "the epilogue does not wait for the MMAs",
        "race",
        ((READY_WAIT, ""),),
        (128, 128, 128),
        """\
f.tile:113:17: error: no wait orders this read of %acc after the MMA that writes %acc
          %r0 = tile.copy_async %left dispatch tmem : !tile.reg<128x64xf32>
                ^
hint: let role "mma" commit to an mbarrier of its own behind the MMAs that matter here, and role "store" wait for that
f.tile:81:11: note: the MMA that writes %acc
          tile.mma %acc, %a, %b accumulate %accumulate
          ^
f.tile:82:11: note: its commit, which arrives in round 0 of %empty[1]
          tile.commit %empty[%stage]
          ^""",
    ),
    Mistake(
        "the epilogue's first wait asks for phase 1",
        "race",
        (("%ready = %phase0)", "%ready = %one)"),),
        (128, 128, 128),
        """\
f.tile:114:17: error: no wait orders this read of %acc after the MMA that writes %acc
          %r0 = tile.copy_async %left dispatch tmem : !tile.reg<128x64xf32>
                ^
hint: the wait at line 110 asks for parity 1, which is satisfied before round 0 completes; the commit at line 91 arrives in round 0, parity 0: round r is waited for with parity r & 1, counted over the life of the kernel
f.tile:81:11: note: the MMA that writes %acc
          tile.mma %acc, %a, %b accumulate %accumulate
          ^
f.tile:91:11: note: its commit, which arrives in round 0 of %acc_ready[0]
          tile.commit %acc_ready
          ^
f.tile:110:11: note: this wait came before all rounds
          tile.mbarrier.try_wait %acc_ready, %ready
          ^""",
    ),
    Mistake(
        "the epilogue reads without a fence",
        "race",
        ((READY_WAIT + "          tile.fence after_thread_sync\n", READY_WAIT),),
        (128, 128, 128),
        """\
f.tile:113:17: error: no fence after_thread_sync orders this read of %acc after the wait for the MMA that writes %acc
          %r0 = tile.copy_async %left dispatch tmem : !tile.reg<128x64xf32>
                ^
hint: put `tile.fence after_thread_sync` between that and this operation: tensor-core operations are ordered after what the threads know at their last such fence, and after nothing else
f.tile:81:11: note: the MMA that writes %acc
          tile.mma %acc, %a, %b accumulate %accumulate
          ^
f.tile:91:11: note: its commit, which arrives in round 0 of %acc_ready[0]
          tile.commit %acc_ready
          ^
f.tile:110:11: note: the wait
          tile.mbarrier.try_wait %acc_ready, %ready
          ^""",
    ),
    Mistake(
        "the MMAs do not wait for the epilogue",
        "race",
        ((FREE_WAIT, ""),),
        (256, 128, 64),
        """\
f.tile:113:17: error: an MMA of turn 1 overwrites %acc before this read of turn 0: nothing makes role "mma" wait for role "store"
          %r0 = tile.copy_async %left dispatch tmem : !tile.reg<128x64xf32>
                ^
hint: let role "store" arrive on an mbarrier behind its reads, their `tile.tmem.wait_ld` and `tile.fence before_thread_sync`, and role "mma" wait for that before the first MMA of a tile, with parity 1 at first
f.tile:80:11: note: the MMA
          tile.mma %acc, %a, %b accumulate %accumulate
          ^""",
    ),
    Mistake(
        "the epilogue never releases the accumulator",
        "deadlock",
        ((FREE_ARRIVAL, ""),),
        (256, 128, 64),
        """\
f.tile:72:11: error: this wait never ends, and no other role can go on either: role "mma" waits for parity 0 of %acc_free[0], whose round 0 has 0 of 1 arrivals
          tile.mbarrier.try_wait %acc_free, %free // the epilogue has read the tile before
          ^
hint: nobody arrives on %acc_free[0]: whoever has used what it guards releases it once a round, with tile.commit behind its MMAs or with tile.mbarrier.arrive
f.tile:38:5: note: role "load" is over
    tile.role "load" {
    ^
f.tile:110:11: note: role "store" waits for parity 1 of %acc_ready[0], whose round 1 has 0 of 1 arrivals: role "mma", which arrives on it, waits too, at line 72
          tile.mbarrier.try_wait %acc_ready, %ready
          ^""",
    ),
    Mistake(
        "the epilogue releases the accumulator before it has read it",
        "race",
        (("          tile.tmem.wait_ld\n", ""), (FREE_ARRIVAL, FREE_ARRIVAL + "          tile.tmem.wait_ld\n")),
        (256, 128, 64),
        """\
f.tile:81:11: error: no fence before_thread_sync between the read of %acc and this MMA's write of %acc
          tile.mma %acc, %a, %b accumulate %accumulate
          ^
hint: put `tile.fence before_thread_sync` behind the tmem.wait_ld, then an arrival on the mbarrier that this role waits for, then `tile.fence after_thread_sync`
f.tile:114:17: note: the read of %acc
          %r0 = tile.copy_async %left dispatch tmem : !tile.reg<128x64xf32>
                ^""",
    ),
    Mistake(
        "no fence before the accumulator is released",
        "race",
        (("          tile.fence before_thread_sync\n", ""),),
        (256, 128, 64),
        """\
f.tile:81:11: error: no fence before_thread_sync between the read of %acc and this MMA's write of %acc
          tile.mma %acc, %a, %b accumulate %accumulate
          ^
hint: put `tile.fence before_thread_sync` behind the tmem.wait_ld, then an arrival on the mbarrier that this role waits for, then `tile.fence after_thread_sync`
f.tile:114:17: note: the read of %acc
          %r0 = tile.copy_async %left dispatch tmem : !tile.reg<128x64xf32>
                ^""",
    ),
    Mistake(
        "no role_sync before the store",
        "race",
        (("        tile.role_sync // one thread stores for all\n", ""),),
        (128, 128, 64),
        """\
f.tile:131:11: error: no role_sync between the threads' write of %dleft and this TMA store's read of %dleft
          tile.copy_async %dleft to %D[%m, %n] dispatch tma
          ^
hint: put `tile.role_sync` behind `tile.fence proxy_async`: one thread issues for all
f.tile:121:11: note: the threads' write of %dleft
          tile.store %h0 to %dleft
          ^""",
    ),
    Mistake(
        "no proxy fence before the store",
        "race",
        (("        tile.fence proxy_async\n", ""),),
        (128, 128, 64),
        """\
f.tile:131:11: error: no fence proxy_async orders this TMA store's read of %dleft after the threads' write of %dleft
          tile.copy_async %dleft to %D[%m, %n] dispatch tma
          ^
hint: put `tile.fence proxy_async` between that and the `tile.role_sync` behind it: TMA and MMAs go through another proxy than the threads' loads and stores
f.tile:121:11: note: the threads' write of %dleft
          tile.store %h0 to %dleft
          ^""",
    ),
    Mistake(
        "no role_sync before the staging tiles are written",
        "race",
        (("        tile.role_sync // the staging tiles are free\n", ""),),
        (256, 128, 0),
        """\
f.tile:124:11: error: no role_sync between the wait_group for the TMA store that reads %dleft and this write of %dleft
          tile.store %zeros to %dleft
          ^
hint: put `tile.role_sync` behind the wait_group: the issuing thread alone knows that the tile has been read
f.tile:131:11: note: the TMA store that reads %dleft
          tile.copy_async %dleft to %D[%m, %n] dispatch tma
          ^""",
    ),
    Mistake(
        "the threads of the MMA role do not meet",
        "rounds",
        ((MMA_SYNC, ""),),
        (128, 128, 192),
        """\
f.tile:77:11: error: round 1 of %full[0] completes, and nothing makes it come after the wait of the other threads of role "mma" for round 0: two completions without a wait between, of which that thread may find neither
          tile.mbarrier.try_wait %full[%stage], %phase
          ^
hint: let the threads of role "mma" meet between the wait and the next arrival, with tile.role_sync or a wait for a commit: a parity wait cannot tell a round from the one two later
f.tile:77:11: note: the wait for round 0
          tile.mbarrier.try_wait %full[%stage], %phase
          ^""",
    ),
    Mistake(
        "one K tile, and the producer flips for nothing",
        "deadlock",
        (
            (
                "%next_phase = arith.select %wrapped, %flipped, %phase : i32\n            scf.yield %next_stage, %next_phase",
                "%next_phase = arith.xori %phase, %one : i32\n            scf.yield %next_stage, %next_phase",
            ),
        ),
        (384, 128, 64),
        """\
f.tile:49:13: error: this wait never ends, and no other role can go on either: the issuing thread of role "load" waits for parity 0 of %empty[1], whose round 0 has 0 of 1 arrivals
            tile.mbarrier.try_wait %empty[%stage], %phase // the MMA that read this stage last is complete
            ^
hint: nothing has used this stage yet, so that nobody releases it: the first pass through a ring must not wait. Start with parity 1, which reads as complete before round 0 is, and flip it once for each round of the slot
f.tile:77:11: note: role "mma" waits for parity 0 of %full[1], whose round 0 has 0 of 1 arrivals: role "load", which arrives on it, waits too, at line 49
          tile.mbarrier.try_wait %full[%stage], %phase
          ^
f.tile:110:11: note: role "store" waits for parity 1 of %acc_ready[0], whose round 1 has 0 of 1 arrivals: role "mma", which arrives on it, waits too, at line 77
          tile.mbarrier.try_wait %acc_ready, %ready
          ^""",
    ),
    Mistake(
        "K = 0, and the MMA role waits for a tile",
        "deadlock",
        (
            (
                "        scf.if %any {\n" + FREE_WAIT,
                "        tile.mbarrier.try_wait %full[%s0], %p0\n        scf.if %any {\n" + FREE_WAIT,
            ),
        ),
        (128, 128, 0),
        """\
f.tile:71:9: error: this wait never ends: role "mma" waits for parity 0 of %full[0], whose round 0 has 0 of 1 arrivals
        tile.mbarrier.try_wait %full[%s0], %p0
        ^
hint: role "load", which arrives on it, is over: nobody completes this round any more. All roles count the same rounds: where one skips a tile (K = 0), all do
f.tile:38:5: note: role "load" is over
    tile.role "load" {
    ^
f.tile:99:5: note: role "store" is over
    tile.role "store" {
    ^""",
    ),
    Mistake(
        "K = 0, and the epilogue waits for an accumulator",
        "deadlock",
        (
            (
                "        scf.if %any {\n" + READY_WAIT,
                "        tile.mbarrier.try_wait %acc_ready, %ready\n        scf.if %any {\n" + READY_WAIT,
            ),
        ),
        (128, 128, 0),
        """\
f.tile:109:9: error: this wait never ends: role "store" waits for parity 0 of %acc_ready[0], whose round 0 has 0 of 1 arrivals
        tile.mbarrier.try_wait %acc_ready, %ready
        ^
hint: role "mma", which arrives on it, is over: nobody completes this round any more. All roles count the same rounds: where one skips a tile (K = 0), all do
f.tile:38:5: note: role "load" is over
    tile.role "load" {
    ^
f.tile:65:5: note: role "mma" is over
    tile.role "mma" {
    ^""",
    ),
    Mistake(
        "no cta_sync in front of the roles",
        "race",
        (("  tile.cta_sync // all roles find the barriers initialised\n", ""),),
        (128, 128, 64),
        """\
f.tile:48:13: error: no cta_sync between the initialisation of %empty[0] and its first use by other threads
            tile.mbarrier.try_wait %empty[%stage], %phase // the MMA that read this stage last is complete
            ^
hint: put `tile.cta_sync` behind the tile.mbarrier.init operations: one thread initialises for all
f.tile:22:12: note: initialised here, by one thread
  %empty = tile.mbarrier.init count 1 : !tile.mbarrier<2>
           ^""",
    ),
    Mistake(
        "no cta_sync behind the roles",
        "race",
        (
            (
                "  tile.cta_sync\n  tile.fence after_thread_sync\n  tile.free",
                "  tile.fence after_thread_sync\n  tile.free",
            ),
        ),
        (128, 128, 64),
        """\
f.tile:146:3: error: the issuing thread of role "store" has waited for the MMA that writes %acc, but nothing orders giving back %acc after it
  tile.free %acc
  ^
hint: put `tile.cta_sync` behind tile.roles, whose end does not bring the threads together
f.tile:81:11: note: the MMA that writes %acc
          tile.mma %acc, %a, %b accumulate %accumulate
          ^
f.tile:82:11: note: its commit, which arrives in round 0 of %empty[0]
          tile.commit %empty[%stage]
          ^
f.tile:49:13: note: the wait
            tile.mbarrier.try_wait %empty[%stage], %phase // the MMA that read this stage last is complete
            ^""",
    ),
    Mistake(
        "the last stores are not waited for",
        "in flight",
        (("        tile.bulk.wait_group 0\n", ""),),
        (128, 128, 64),
        """\
f.tile:133:11: error: the CTA ends before this TMA store has read its tile
          tile.copy_async %dright to %D[%m, %n64] dispatch tma
          ^
hint: end with `tile.bulk.wait_group 0` in the issuing thread""",
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_is_told(mistake: Mistake) -> None:
    m, n, k = mistake.shape
    for seed in (None, 0, 1, 2, 3):
        with pytest.raises(Fault) as error:
            run(parse_text(edited(GEMM, *mistake.edits), "f.tile"), operands(m, n, k), ctas=1, seed=seed)
        if seed is None:
            assert (error.value.kind, str(error.value)) == (mistake.kind, mistake.expected)


SETUP = """tile.kernel @f(%D: !tile.view<16x16xf32>) {
  %a = tile.alloc : !tile.smem<16x16xf32, swizzle = 64>
  %x = tile.alloc : !tile.smem<16x16xf16, swizzle = 32>
  %acc = tile.alloc : !tile.acc<16x16xf32>
  %bar = tile.mbarrier.init count 1 : !tile.mbarrier<1>
  %two = tile.mbarrier.init count 2 : !tile.mbarrier<1>
  %done = tile.mbarrier.init count 1 : !tile.mbarrier<1>
  %done_b = tile.mbarrier.init count 1 : !tile.mbarrier<1>
  %c0 = arith.constant 0 : index
  %p0 = arith.constant 0 : i32
  %p1 = arith.constant 1 : i32
  %yes = arith.constant true
  %no = arith.constant false
  %r = tile.splat 1.0 : !tile.reg<16x16xf32>
  %h = tile.splat 1.0 : !tile.reg<16x16xf16>
  tile.store %h to %x
  tile.fence proxy_async
  tile.cta_sync
  tile.fence after_thread_sync
"""
TEARDOWN = """
  tile.cta_sync
  tile.fence after_thread_sync
  tile.free %acc
}
"""
FILL, READ = "tile.store %r to %a\n", "%v = tile.load %a : !tile.reg<16x16xf32>\n"
ARRIVE, WAIT, WAIT_1 = (
    "tile.mbarrier.arrive %bar\n",
    "tile.mbarrier.try_wait %bar, %p0\n",
    "tile.mbarrier.try_wait %bar, %p1\n",
)
OUT = "tile.copy_async %a to %D[%c0, %c0] dispatch threads\n"
STORE = "tile.single_thread {\ntile.copy_async %a to %D[%c0, %c0] dispatch tma\ntile.bulk.commit_group\n}\n"
DRAIN = "tile.single_thread {\ntile.bulk.wait_group 0\n}\n"
MMA, COMMIT, WAIT_MMA = (
    "tile.mma %acc, %x, %x accumulate %no\n",
    "tile.commit %done\n",
    "tile.mbarrier.try_wait %done, %p0\n",
)
MMA_B = "tile.mma %acc, %x, %x accumulate %yes\ntile.commit %done_b\ntile.mbarrier.try_wait %done_b, %p0\n"
AFTER = "tile.fence after_thread_sync\n"
READ_ACC = "%v = tile.copy_async %acc dispatch tmem : !tile.reg<16x16xf32>\n"
ENDLESS = "scf.while () : () -> () {\nscf.condition(%yes)\n} do {\nscf.yield\n}\n"


def kernel(before: str, roles: tuple[str, ...], after: str) -> ModuleOp:
    """Roles "a", "b", ... with these bodies."""
    bodies = "".join(f'tile.role "{name}" {{\n{body}}}\n' for name, body in zip("abc", roles, strict=False))
    return parse_text(f"{SETUP}{before}tile.roles {{\n{bodies}}}\n{after}{TEARDOWN}", "f.tile")


@pytest.mark.parametrize(
    ("before", "roles", "after"),
    [
        (FILL + "tile.cta_sync\n", (READ, READ), ""),
        ("", (FILL + ARRIVE, WAIT + READ), ""),
        ("", (WAIT + READ, FILL + ARRIVE), ""),
        ("", (FILL,), "tile.cta_sync\n" + OUT),
        (
            "",
            (
                FILL + "tile.mbarrier.arrive %two\n",
                "tile.mbarrier.arrive %two\n",
                "tile.mbarrier.try_wait %two, %p0\n" + READ,
            ),
            "",
        ),
        ("", (ARRIVE + ARRIVE + WAIT_1,), ""),
        (FILL + "tile.fence proxy_async\ntile.cta_sync\n", (STORE + DRAIN + ARRIVE, WAIT + STORE + DRAIN), ""),
        ("", (MMA + COMMIT, "tile.single_thread {\n" + WAIT_MMA + "}\n"), ""),
        ("", (MMA + COMMIT, WAIT_MMA + AFTER + MMA_B), ""),
        ("", (MMA + COMMIT, WAIT_MMA + AFTER + READ_ACC), "tile.tmem.wait_ld\ntile.fence before_thread_sync\n"),
        (
            "",
            (MMA + COMMIT, WAIT_MMA + AFTER + READ_ACC, WAIT_MMA + AFTER + READ_ACC),
            "tile.tmem.wait_ld\ntile.fence before_thread_sync\n",
        ),
    ],
)
@pytest.mark.parametrize("seed", [None, 0, 1, 2, 3])
def test_what_is_handed_over_is_known(before: str, roles: tuple[str, ...], after: str, seed: int | None) -> None:
    run(kernel(before, roles, after), [np.zeros((16, 16), np.float32)], seed=seed)


@pytest.mark.parametrize(
    ("before", "roles", "after", "kind", "message"),
    [
        (FILL, (READ,), "", "race", "no cta_sync between the threads' write of %a and this read of %a"),
        ("", (FILL, READ), "", "race", """nothing orders this read of %a, by role "b", after the threads' write of %a, by role "a\""""),
        (FILL + "tile.cta_sync\n", (READ, FILL), "", "race", """nothing orders this write of %a, by role "b", after the threads' read of %a, by role "a\""""),
        ("", (FILL,), OUT, "race", "no cta_sync between the threads' write of %a and this read of %a"),
        ("", ("tile.single_thread {\ntile.role_sync\n}\n",), "", "scope", "one thread alone would wait here for ever"),
        ("", (ENDLESS,), "", "deadlock", "this loop never ends: it carries the same numbers again"),
        ("", (FILL + ARRIVE, ARRIVE, WAIT + READ), "", "rounds", """round 1 of %bar[0] completes, and nothing makes it come after the wait of the issuing thread of role "c" for round 0"""),
        ("", (ARRIVE + ARRIVE, WAIT), "", "rounds", """round 1 of %bar[0] completes, and nothing makes it come after the wait of the issuing thread of role "b" for round 0"""),
        ("", (ARRIVE + ARRIVE + ARRIVE, WAIT), "", "rounds", """this wait of the issuing thread of role "b" finds round 2 of %bar[0] complete, but nothing makes it come after round 1: it may pass as soon as round 0 is complete"""),
        ("", (WAIT, ARRIVE + WAIT + ARRIVE + WAIT_1), "", "rounds", """round 1 of %bar[0] completes while role "a" may still be waiting for round 0: two completions without a wait between"""),
        ("", (ARRIVE + WAIT + ARRIVE + WAIT_1, WAIT), "", "deadlock", """this wait never ends: role "b" waits for parity 0 of %bar[0], whose round 2 has 0 of 1 arrivals"""),
        ("", (WAIT_1, ARRIVE + WAIT), "", "rounds", """round 0 of %bar[0] completes, and nothing makes it come after the wait of the issuing thread of role "a" for what comes before round 0"""),
        (FILL + "tile.fence proxy_async\ntile.cta_sync\n", (STORE + ARRIVE, WAIT + DRAIN), "", "in flight", "the CTA ends before this TMA store has read its tile"),
        (FILL + "tile.fence proxy_async\ntile.cta_sync\n", (STORE + DRAIN, STORE + DRAIN), "", "race", "this store touches what an earlier TMA store writes to %D, and nothing has waited for that write"),
        ("", (MMA + COMMIT + "tile.single_thread {\n" + WAIT_MMA + "}\n",), "", "scope", "tile.mbarrier.try_wait belongs to all threads of its role"),
        ("", (MMA + COMMIT + ARRIVE, WAIT + MMA_B), "", "race", "no wait orders this MMA's write of %acc after the MMA that writes %acc"),
        ("", (MMA + ARRIVE, WAIT + COMMIT + WAIT_MMA + AFTER + READ_ACC), "", "race", "no wait orders this read of %acc after the MMA that writes %acc"),
        ("", (MMA + COMMIT, WAIT_MMA + AFTER + READ_ACC), "", "race", "no tmem.wait_ld between the read of %acc and giving back %acc"),
    ],
)  # fmt: skip
def test_what_is_not_handed_over_is_not_known(
    before: str, roles: tuple[str, ...], after: str, kind: str, message: str
) -> None:
    for seed in (None, 0, 1, 2, 3):
        with pytest.raises(Fault) as error:
            run(kernel(before, roles, after), [np.zeros((16, 16), np.float32)], seed=seed)
        if seed is None:
            assert error.value.kind == kind
            assert error.value.diagnostic.message.startswith(message)


def test_a_parity_that_is_two_back_is_told() -> None:
    with pytest.raises(Fault) as error:
        run(kernel("", (ARRIVE + WAIT + ARRIVE + WAIT_1, WAIT), ""), [np.zeros((16, 16), np.float32)])
    assert error.value.diagnostic.hint == (
        "this wait is for round 0, whose parity is already two back: round 1 has completed since. Each round must have been waited "
        "for before the next one completes, by everyone who waits for it"
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("tile.mma %acc, %x, %x\n", "tile.mma is synchronous, but this kernel is asynchronous"),
        ("%v = tile.load %acc : !tile.reg<16x16xf32>\n", "tile.load reads no accumulator at this level"),
    ],
)
def test_a_role_is_asynchronous(line: str, message: str) -> None:
    with pytest.raises(TilecError) as error:
        run(kernel("", (line,), ""), [np.zeros((16, 16), np.float32)])
    assert error.value.diagnostic.message == message


def test_check_says_that_roles_are_not_proved(cli: Callable[..., Any]) -> None:
    finished = cli("check", KERNELS / "step7_roles.tile")
    assert finished.code == 2
    assert finished.out.startswith("checked up to 5 iterations a loop and 3 tiles")
    assert "warning: not proved: warp roles: the proof follows one control flow" in finished.out


def test_check_shows_no_table_of_roles(cli: Callable[..., Any]) -> None:
    finished = cli("check", KERNELS / "step7_roles.tile", "--table")
    assert finished.code == 2 and "hand-offs" not in finished.out
    assert "no table of a kernel with roles yet" in finished.err


def test_a_run_in_the_simulator(cli: Callable[..., Any]) -> None:
    finished = cli("run", KERNELS / "step7_roles.tile", "--shape", "M=256,N=256,K=320", "--device=sim")
    assert (finished.code, finished.out.splitlines()[-1]) == (0, "PASS")
