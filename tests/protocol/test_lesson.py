"""The lesson's step 6 as it is written: for which K its phases are right, and what its pseudocode leaves out.

`lesson_step6.tile` is that pseudocode with the missing pieces added, each marked `[+]` and a word; stage and phases start at
0 in each tile. `lesson_step6_assumed.tile` adds the condition under which that is right.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tilec.backend.protocol import check
from tilec.backend.reference import Array
from tilec.backend.simulator import Fault, FaultKind, run
from tilec.source import parse_file, parse_text

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
LESSON = (HERE / "lesson_step6.tile").read_text()
ASSUMED = (HERE / "lesson_step6_assumed.tile").read_text()
CARRIED = (EXAMPLES / "step6_persistent.tile").read_text()
BLK_K = 64

Edit = Callable[[str], str]


def without(piece: str, *which: int) -> Edit:
    """Leave out the lines marked with a word: those numbered `which`, or all."""

    def edit(text: str) -> str:
        lines = text.splitlines()
        marked = [i for i, line in enumerate(lines) if re.search(rf"// \[\+\] {piece}\b", line)]
        assert marked, piece
        left_out = {marked[n] for n in which} if which else set(marked)
        return "\n".join(line for i, line in enumerate(lines) if i not in left_out)

    return edit


def replaced(old: str, new: str, which: int = 0) -> Edit:
    """Change one of the places where a text stands."""

    def edit(text: str) -> str:
        parts = text.split(old)
        assert len(parts) > which + 1, old
        return old.join(parts[: which + 1]) + new + old.join(parts[which + 1 :])

    return edit


def both(*edits: Edit) -> Edit:
    def edit(text: str) -> str:
        for one in edits:
            text = one(text)
        return text

    return edit


def refutation(text: str) -> str:
    """All that a refutation says, with the source lines that it points at."""
    verdict = check(parse_text(text, "lesson.tile"))
    assert verdict.status == "refuted", verdict
    assert verdict.diagnostic is not None
    return verdict.diagnostic.render()


def is_proved(text: str) -> bool:
    return check(parse_text(text, "lesson.tile")).status == "proved"


def arrays(k: int) -> list[Array]:
    """Two output tiles."""
    rng = np.random.default_rng(k)
    a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((256, k), (128, k)))
    return [a, b, np.full((256, 128), np.nan, np.float16)]


def simulate(text: str, k: int) -> None:
    """Both tiles by one CTA, against NumPy."""
    a, b, d = arrays(k)
    run(parse_text(text, "lesson.tile"), [a, b, d], ctas=1)
    np.testing.assert_array_equal(d, (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16))


def fault(text: str, k: int) -> Fault:
    with pytest.raises(Fault) as caught:
        run(parse_text(text, "lesson.tile"), arrays(k), ctas=1)
    return caught.value


# The steps, and the phases


@pytest.mark.parametrize("name", ["step4_tma", "step5_pipeline", "step6_persistent"])
def test_the_steps_of_the_ladder_are_proved(name: str) -> None:
    verdict = check(parse_file(EXAMPLES / f"{name}.tile"))
    assert (verdict.status, verdict.diagnostic, verdict.assumptions) == ("proved", None, ()), verdict


def test_the_two_texts_differ_in_the_assumption_alone() -> None:
    def program(text: str) -> list[str]:
        return text[text.index("tile.kernel") :].splitlines()

    assumed = program(ASSUMED)
    assert assumed.pop(1) == "  tile.assume %A dim 1 step 64 multiple 4"
    assert assumed == program(LESSON)


REFUTED = """\
lesson.tile:54:7: error: no wait orders this MMA's read of %Asmem[0] after the TMA load into %Asmem[0]
      tile.mma %acc, %a, %b accumulate %accumulate
      ^
hint: the wait at line 51 asks for parity 0, which round 0 satisfied; the load into %Asmem[0] counts in round 1, parity 1: \
round r is waited for with parity r & 1, counted over the life of the kernel; carry the phase from tile to tile
lesson.tile:41:11: note: the TMA load into %Asmem[0], whose bytes count in round 1 of %tma_bar[0]
          tile.copy_async %A[%m, %k] to %a dispatch tma signal %tma_bar[%s]
          ^
lesson.tile:51:7: note: this wait found round 0 complete, not round 1
      tile.mbarrier.try_wait %tma_bar[%stage], %phase_tma
      ^"""


def test_phases_reset_at_each_tile_are_refuted() -> None:
    assert refutation(LESSON) == REFUTED


def test_phases_reset_at_each_tile_are_right_under_the_assumption() -> None:
    verdict = check(parse_text(ASSUMED, "lesson.tile"))
    assert (verdict.status, verdict.diagnostic) == ("proved", None), verdict
    assert verdict.assumptions == ("the number of tiles of 64 along dimension 1 of A is a multiple of 4",)


@pytest.mark.parametrize("k_tiles", [0, 1, 2, 3, 4, 5, 6, 7, 8, 12])
def test_where_k_is_known_the_proof_knows_it(k_tiles: int) -> None:
    """The last tile may hang over the edge."""
    fixed = LESSON.replace("MxKx", f"Mx{BLK_K * k_tiles}x").replace("NxKx", f"Nx{BLK_K * k_tiles}x")
    if k_tiles % 4 == 0:
        assert is_proved(fixed)
        assert is_proved(fixed.replace(f"x{BLK_K * k_tiles}x", f"x{max(BLK_K * k_tiles - 24, 0)}x"))
    else:
        assert "round r is waited for with parity r & 1" in refutation(fixed)


@pytest.mark.parametrize("k_tiles", range(9))
def test_the_phases_of_a_simulation(k_tiles: int) -> None:
    """Stage 0 completes ceil(K_TILES / 2) rounds per tile, stage 1 floor(K_TILES / 2): both even, or the reset is wrong."""
    if k_tiles % 4 == 0:
        simulate(LESSON, BLK_K * k_tiles)
    else:
        error = fault(LESSON, BLK_K * k_tiles)
        assert error.kind in ("race", "deadlock")
        assert "round r is waited for with parity r & 1" in str(error), error
    simulate(CARRIED, BLK_K * k_tiles)


RESETS = {
    "stage": ("%end#0, %end#1, %end#2", "%zero, %end#1, %end#2"),
    "phase_tma": ("%end#0, %end#1, %end#2", "%end#0, %phase0, %end#2"),
    "phase_mma": ("%end#0, %end#1, %end#2", "%end#0, %end#1, %phase0"),
}


@pytest.mark.parametrize("which", RESETS)
def test_stage_and_both_phases_are_carried(which: str) -> None:
    refutation(replaced(*RESETS[which])(CARRIED))


@pytest.mark.parametrize("multiple", [1, 2, 3, 6])
def test_a_weaker_assumption_is_not_enough(multiple: int) -> None:
    refutation(replaced("multiple 4", f"multiple {multiple}")(ASSUMED))


@pytest.mark.parametrize("multiple", [8, 12, 20])
def test_a_stronger_assumption_is(multiple: int) -> None:
    assert is_proved(replaced("multiple 4", f"multiple {multiple}")(ASSUMED))


def test_an_assumption_of_something_else_is_not_enough() -> None:
    refutation(replaced("tile.assume %A dim 1 step 64", "tile.assume %A dim 0 step 64")(ASSUMED))
    for weaker in ("step 32 multiple 4", "step 128 multiple 2", "step 256 multiple 1"):
        refutation(replaced("step 64 multiple 4", weaker)(ASSUMED))


def test_equal_symbols_are_equal_extents() -> None:
    assert is_proved(replaced("tile.assume %A dim 1", "tile.assume %B dim 1")(ASSUMED))


# What the pseudocode leaves out


@dataclass(frozen=True)
class LeftOut:
    """A piece without which the kernel is wrong: how a simulation of `k` ends, and words that both messages have."""

    piece: str
    edit: Edit
    kind: FaultKind
    words: tuple[str, ...]
    k: int = 4 * BLK_K
    base: str = ASSUMED


_WAIT_GROUP = "      tile.bulk.wait_group 0\n"
_WAITS_LATE = both(
    replaced(_WAIT_GROUP, "", 1),
    replaced(
        "    tile.fence after_thread_sync // [+] result",
        "    tile.single_thread {\n      tile.bulk.wait_group 0 read\n    }\n    tile.cta_sync\n"
        "    tile.fence after_thread_sync // [+] result",
    ),
)
"""The wait for a tile's last store stands in the next tile, in front of the staging tile's next use."""
_DRAINED = replaced("  tile.free", "  tile.single_thread {\n    tile.bulk.wait_group 0\n  }\n  tile.free")

LEFT_OUT = [
    LeftOut("the prologue's guard, K = 0", without("guard"), "race", ("TMA load", "%tma_bar[0]"), k=0),
    LeftOut(
        "the prologue's guard, K_TILES = 1",
        replaced("arith.cmpi ult, %k, %K : index // [+] s < K_TILES", "arith.constant true"),
        "race",
        ("TMA load", "%tma_bar["),
        k=BLK_K,
        base=CARRIED,
    ),
    LeftOut(
        "the commit to mma_bar",
        without("commit"),
        "deadlock",
        ("never ends", "%mma_bar[0]", "0 of 1 arrival", "no tile.commit names %mma_bar"),
    ),
    LeftOut("cta_sync before the first store", without("written", 0), "race", ("no cta_sync", "TMA store", "%dsmem")),
    LeftOut("cta_sync before the second store", without("written", 1), "race", ("no cta_sync", "TMA store", "%dsmem")),
    LeftOut(
        "cta_sync behind the first wait_group", without("reuse", 0), "race", ("no cta_sync", "wait_group", "%dsmem")
    ),
    LeftOut(
        # Where K > 0, the next tile's wait for its first MMA brings the threads together as well.
        "cta_sync behind the second wait_group",
        without("reuse", 1),
        "race",
        ("no cta_sync", "wait_group", "%dsmem"),
        k=0,
    ),
    LeftOut(
        "reads before the next tile's overwriting MMA",
        without("reads"),
        "race",
        ("no fence before_thread_sync", "read of %acc", "tile.cta_sync", "tile.fence after_thread_sync"),
    ),
    LeftOut("the fence behind the reads", without("reads", 0), "race", ("no fence before_thread_sync", "read of %acc")),
    LeftOut(
        "the fence between the last reads and tile.free", without("reads", 1), "race", ("no fence after_thread_sync",)
    ),
    LeftOut("cta_sync behind the initialisation", without("init"), "race", ("no cta_sync", "initialisation")),
    LeftOut(
        "wait_ld", replaced("      tile.tmem.wait_ld\n", ""), "in flight", ("before its load", "tile.tmem.wait_ld")
    ),
    LeftOut(
        "the fence between a load's wait and its MMA",
        without("operands"),
        "race",
        ("no fence after_thread_sync", "this MMA's read of %Asmem[0]"),
    ),
    LeftOut(
        "the fence between the last MMA's wait and the reads",
        without("result"),
        "race",
        ("no fence after_thread_sync", "this read of %acc"),
    ),
    LeftOut("the zeros of K = 0", without("zeros"), "uninitialised", ("%acc",), k=0),
    LeftOut("the wait for the last store", replaced(_WAIT_GROUP, "", 1), "race", ("TMA store", "%dsmem", "wait_group")),
    LeftOut("the drain at the end", _WAITS_LATE, "in flight", ("the CTA ends", "TMA store")),
    LeftOut("tile.free", without("free"), "leak", ("%acc", "tile.free")),
    LeftOut(
        "the proxy fence",
        replaced("    tile.fence proxy_async\n", ""),
        "race",
        ("no fence proxy_async", "TMA store", "%dsmem"),
    ),
    LeftOut(
        "the commit of a store",
        replaced("      tile.bulk.commit_group\n", ""),
        "race",
        ("TMA store", "tile.bulk.commit_group"),
    ),
]


@pytest.mark.parametrize("left_out", LEFT_OUT, ids=lambda left_out: left_out.piece)
def test_a_piece_left_out_is_refuted(left_out: LeftOut) -> None:
    message = refutation(left_out.edit(left_out.base))
    for word in left_out.words:
        assert word in message, message


@pytest.mark.parametrize("left_out", LEFT_OUT, ids=lambda left_out: left_out.piece)
def test_a_piece_left_out_is_a_fault(left_out: LeftOut) -> None:
    simulate(left_out.base, left_out.k)
    error = fault(left_out.edit(left_out.base), left_out.k)
    assert error.kind == left_out.kind, error
    for word in left_out.words:
        assert word in str(error), error


def test_a_store_may_be_waited_for_in_the_next_tile() -> None:
    text = both(_WAITS_LATE, _DRAINED)(ASSUMED)
    simulate(text, 4 * BLK_K)
    assert is_proved(text)
