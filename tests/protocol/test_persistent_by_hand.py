"""`persistent` on tiles written by hand, which knew of no next tile: what it makes is proved, and computes the same numbers."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from pipelined import Meaning, compiled
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation

from tilec.backend.protocol import check
from tilec.dialects.tile import CtaSyncOp
from tilec.pass_error import PassError
from tilec.passes.between_tiles import Missing, disturbs, missing_between_tiles
from tilec.source import parse_file, parse_text

sys.path.append(str(Path(__file__).parents[1]))
sys.path.append(str(Path(__file__).parents[1] / "passes"))
from tile_programs import NO_GRID, PROGRAMS

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
STEP4 = (EXAMPLES / "step4_tma.tile").read_text()
STEP5 = (EXAMPLES / "step5_pipeline.tile").read_text()

GEMM = Meaning(parse_file(EXAMPLES / "gemm.tile"))
COPY = Meaning(
    parse_text("""
tile.kernel @f(%A: !tile.view<MxKxf16>, %D: !tile.view<MxKxf16>) {
  tile.grid (%m, %k) over %D step (64, 64) {
    %a = tile.alloc : !tile.smem<64x64xf16>
    tile.copy %A[%m, %k] to %a
    tile.copy %a to %D[%m, %k]
  }
}""")
)


def edited(text: str, *edits: tuple[str, str]) -> str:
    """A text in which each of `edits` replaces the last place where its first half stands."""
    for old, new in edits:
        assert old in text, old
        text = new.join(text.rsplit(old, 1))
    return text


_WAITED = "      tile.bulk.wait_group 0 // [+] drained before the CTA exits\n    }\n"
_DRAINED_APART = (_WAITED, "    }\n    tile.single_thread {\n      tile.bulk.wait_group 0\n    }\n")
_FREED = "    tile.fence after_thread_sync\n    tile.free %acc"
_FENCED_AT_THE_END = (
    ("    tile.fence before_thread_sync // [+]", "    //"),
    (_FREED, f"    tile.fence before_thread_sync\n    tile.cta_sync\n{_FREED}"),
)


def copying(after_the_wait: str) -> str:
    """A kernel that loads a tile with TMA, and stores it somehow."""
    return f"""
tile.kernel @f(%A: !tile.view<MxKxf16>, %D: !tile.view<MxKxf16>) {{
  tile.grid (%m, %k) over %D step (64, 64) {{
    %a = tile.alloc : !tile.smem<64x64xf16, swizzle = 128>
    %b = tile.alloc : !tile.smem<64x64xf16, swizzle = 128>
    %full = tile.mbarrier.init count 1 : !tile.mbarrier<1>
    tile.cta_sync
    %phase = arith.constant 0 : i32
    tile.single_thread {{
      tile.mbarrier.arrive.expect_tx %full, 8192
      tile.copy_async %A[%m, %k] to %a dispatch tma signal %full
    }}
    tile.mbarrier.try_wait %full, %phase
    {after_the_wait}
  }}
}}"""


_TO_B = "%r = tile.load %a : !tile.reg<64x64xf16>\n tile.store %r to %b\n"
_OUT_OF_B = "tile.single_thread {\n tile.copy_async %b to %D[%m, %k] dispatch tma\n tile.bulk.commit_group\n"
_DRAIN = "tile.single_thread {\n tile.bulk.wait_group 0\n}"

# A ring that the threads read, in which a loop of loads of its own starts each tile. The threads meet at the end of the tile
# alone: the next tile's loads must not be issued before.
READ_RING = """
tile.kernel @f(%A: !tile.view<MxKxf16>, %D: !tile.view<MxKxf16>) {
  tile.grid (%m, %k) over %D step (64, 64) {
    %a = tile.alloc : !tile.ring<2 x !tile.smem<64x64xf16, swizzle = 128>>
    %full = tile.mbarrier.init count 1 : !tile.mbarrier<2>
    tile.cta_sync
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %phase0 = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %start = scf.for %i = %c0 to %c1 step %c1 iter_args(%s = %c0) -> (index) {
      tile.single_thread {
        %slot = tile.slot %a[%s]
        tile.mbarrier.arrive.expect_tx %full[%s], 8192
        tile.copy_async %A[%m, %k] to %slot dispatch tma signal %full[%s]
      }
      scf.yield %s : index
    }
    %end:2 = scf.for %i = %c0 to %c1 step %c1 iter_args(%stage = %start, %phase = %phase0) -> (index, i32) {
      tile.mbarrier.try_wait %full[%stage], %phase
      %slot = tile.slot %a[%stage]
      tile.copy_async %slot to %D[%m, %k] dispatch threads
      %flipped = arith.xori %phase, %one : i32
      scf.yield %stage, %flipped : index, i32
    }
    tile.fence proxy_async
    tile.cta_sync
  }
}"""


def meetings(module: ModuleOp) -> int:
    """Of the threads, in a tile."""
    tiles = next(op for op in module.walk() if isinstance(op, scf.WhileOp))
    return sum(isinstance(op, CtaSyncOp) for op in tiles.walk())


@dataclass(frozen=True)
class ByHand:
    name: str
    text: str
    lacking: bool
    """Whether the threads have to meet at the end of a tile, where they did not."""
    meaning: Meaning = GEMM
    told: bool = False
    """Whether the wait for the next tile's loads, which one thread announces, would do in place of the meeting."""


KERNELS = [
    ByHand("step 4", STEP4, True),
    ByHand("step 5", STEP5, True),
    ByHand(
        "step 4, the threads meet before the free alone",
        edited(STEP4, (_WAITED, f"{_WAITED}    tile.cta_sync\n")),
        True,
    ),
    ByHand("step 4, drained apart", edited(STEP4, _DRAINED_APART), True),
    ByHand("step 4, fences before the free alone", edited(STEP4, *_FENCED_AT_THE_END), True),
    ByHand("step 4, both", edited(STEP4, *_FENCED_AT_THE_END, _DRAINED_APART), True),
    ByHand("step 5, fences before the free alone", edited(STEP5, *_FENCED_AT_THE_END), True),
    ByHand("from the loaded tile by threads", copying("tile.copy_async %a to %D[%m, %k] dispatch threads"), True, COPY),
    ByHand(
        "through another tile",
        copying(f"{_TO_B} tile.cta_sync\n tile.copy_async %b to %D[%m, %k] dispatch threads"),
        True,
        COPY,
    ),
    ByHand(
        "through another tile by TMA",
        copying(f"{_TO_B} tile.fence proxy_async\n tile.cta_sync\n {_OUT_OF_B} tile.bulk.wait_group 0\n }}"),
        True,
        COPY,
        told=True,
    ),
    ByHand(
        "through another tile by TMA, drained apart",
        copying(f"{_TO_B} tile.fence proxy_async\n tile.cta_sync\n {_OUT_OF_B} }}\n {_DRAIN}"),
        True,
        COPY,
    ),
    ByHand(
        "through another tile, claimed before it is written",
        copying(
            "tile.single_thread {\n tile.bulk.wait_group 0 read\n }\n tile.cta_sync\n"
            f"{_TO_B} tile.fence proxy_async\n tile.cta_sync\n {_OUT_OF_B} }}\n {_DRAIN}"
        ),
        False,
        COPY,
    ),
    ByHand("a ring that threads read", READ_RING, False, COPY),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_tiles_by_hand(kernel: ByHand) -> None:
    by_hand = parse_text(kernel.text)
    assert check(by_hand).status == "proved"
    module = compiled(by_hand, "persistent(2)")
    verdict = check(module)
    assert verdict.status == "proved", verdict
    names = ("M", "N", "K") if kernel.meaning is GEMM else ("M", "K")
    for k in (0, 40, 64, 136, 200, 320):
        for rows, columns, ctas in ((1, 1, True), (2, 1, True), (3, 2, True), (3, 2, 4), (2, 2, 132)):
            shape = {"M": 128 * rows - 24, "N": 128 * columns - 24, "K": k}
            kernel.meaning.check(module, {name: shape[name] for name in names}, kernel.name, ctas=ctas)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_what_is_added_is_needed(kernel: ByHand, monkeypatch: pytest.MonkeyPatch) -> None:
    by_hand = parse_text(kernel.text)
    made = compiled(by_hand, "persistent")
    monkeypatch.setattr("tilec.passes.persistent.missing_between_tiles", lambda body: Missing())
    bare = compiled(by_hand, "persistent")
    assert meetings(made) - meetings(bare) == int(kernel.lacking)
    assert check(bare).status == ("refuted" if kernel.lacking and not kernel.told else "proved")


def test_loads_do_not_run_ahead_of_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    module = parse_text(READ_RING)
    assert check(compiled(module, "persistent")).status == "proved"
    monkeypatch.setattr("tilec.passes.run_ahead.disturbs", lambda body, last, moved: False)
    assert check(compiled(module, "persistent")).status == "refuted"


@pytest.mark.parametrize("ring", ["", "pipeline(3),"])
@pytest.mark.parametrize("first", ["tma(0)", "threads", "tma(0, staging=1)"])
def test_what_passes_make_lacks_nothing(first: str, ring: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[bool] = []

    def missing(body: Block) -> Missing:
        found.append(bool(missing_between_tiles(body)))
        return Missing()

    def disturbs_too(body: Block, last: Operation, moved: Operation) -> bool:
        found.append(disturbs(body, last, moved))
        return found[-1]

    monkeypatch.setattr("tilec.passes.persistent.missing_between_tiles", missing)
    monkeypatch.setattr("tilec.passes.run_ahead.disturbs", disturbs_too)
    for program in PROGRAMS:
        if program is not NO_GRID and (not ring or "tile.for" in program.text):
            compiled(parse_text(program.text), f"{first},{ring}persistent")
    assert len(found) > 25 and not any(found)


# Stages that a loop counts


def test_stages_are_carried_from_the_prologue() -> None:
    module = compiled(parse_text(STEP5), "persistent")
    tiles = next(op for op in module.walk() if isinstance(op, scf.WhileOp))
    hints = [argument.name_hint for argument in tiles.after_region.block.args]
    assert hints == ["turn", "stage", "phase_tma", "phase_mma", "m", "n"]


@pytest.mark.parametrize(
    "edit",
    [
        ("scf.for %s = %zero to %depth", "scf.for %s = %zero to %c1"),
        ("scf.for %s = %zero to %depth", "scf.for %s = %c1 to %depth"),
        ("%stage = %zero, %phase_tma", "%stage = %c1, %phase_tma"),
    ],
)
def test_a_loop_that_does_not_go_once_round_is_refused(edit: tuple[str, str]) -> None:
    with pytest.raises(PassError, match="the stage of this operation is computed from a loop counter"):
        compiled(parse_text(edited(STEP5, edit)), "persistent")
