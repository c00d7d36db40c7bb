"""What the proof understands: the ways in which people number stages and phases, bounds, and loops; and what it says elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from tilec.backend.protocol import Verdict, check
from tilec.context import make_context
from tilec.diagnostics import collect
from tilec.driver import run_pass
from tilec.source import parse_file, parse_text
from tilec.spec import parse_pipeline

_HEAD = """
tile.kernel @gemm(%A: !tile.view<MxKxf16>, %B: !tile.view<NxKxf16>, %D: !tile.view<MxNxf16>) {
  %a = tile.alloc : !tile.ring<DEPTH x !tile.smem<64x64xf16, swizzle = 128>>
  %b = tile.alloc : !tile.ring<DEPTH x !tile.smem<64x64xf16, swizzle = 128>>
  %d = tile.alloc : !tile.smem<64x64xf16, swizzle = 128>
  %acc = tile.alloc : !tile.acc<64x64xf32>
  %full = tile.mbarrier.init count 1 : !tile.mbarrier<DEPTH>
  %done = tile.mbarrier.init count 1 : !tile.mbarrier<1>
  tile.cta_sync
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c63 = arith.constant 63 : index
  %c64 = arith.constant 64 : index
  %depth = arith.constant DEPTH : index
  %all = arith.constant MASK : index
  %p0 = arith.constant 0 : i32
  %p1 = arith.constant 1 : i32
  %false = arith.constant false
  %true = arith.constant true
  %K = tile.dim %A, 1
  %tiles = arith.ceildivui %K, %c64 : index
"""
_LOADS = """
      tile.single_thread {
        %as = tile.slot %a[%s]
        %bs = tile.slot %b[%s]
        tile.mbarrier.arrive.expect_tx %full[%s], 16384
        tile.copy_async %A[%m, %k] to %as dispatch tma signal %full[%s]
        tile.copy_async %B[%n, %k] to %bs dispatch tma signal %full[%s]
      }
"""
_TILE = """
    tile.fence after_thread_sync
    scf.if %live {
      %r = tile.copy_async %acc dispatch tmem : !tile.reg<64x64xf32>
      tile.tmem.wait_ld
      %h = tile.cast %r : !tile.reg<64x64xf16>
      tile.store %h to %d
    } else {
      %z = tile.splat 0.0 : !tile.reg<64x64xf16>
      tile.store %z to %d
    }
    tile.fence proxy_async
    tile.fence before_thread_sync
    tile.cta_sync
    tile.single_thread {
      tile.copy_async %d to %D[%m, %n] dispatch tma
      tile.bulk.commit_group
      tile.bulk.wait_group 0
    }
    tile.cta_sync
    tile.fence after_thread_sync
"""

# A count of K tiles that a persistent kernel carries on: stage and phase are computed from it. No load runs ahead.
_COUNTED = (
    _HEAD
    + """
  %end:2 = scf.while (%turn = %c0, %count = %c0) : (index, index) -> (index, index) {
    %valid, %m0, %n0 = tile.schedule %turn over %D step (64, 64) group 8
    scf.condition(%valid) %turn, %count : index, index
  } do {
  ^bb0(%turn: index, %count: index):
    %valid, %m, %n = tile.schedule %turn over %D step (64, 64) group 8
    %last:2 = scf.for %i = %c0 to %tiles step %c1 iter_args(%at = %count, %live0 = %false) -> (index, i1) {
      %k = arith.muli %i, %c64 : index
      STAGE
"""
    + _LOADS
    + """
      tile.mbarrier.try_wait %full[%s], %phase
      tile.fence after_thread_sync
      %as = tile.slot %a[%s]
      %bs = tile.slot %b[%s]
      tile.mma %acc, %as, %bs accumulate %live0
      tile.commit %done
      %odd = arith.andi %at, %c1 : index
      %done_phase = arith.index_cast %odd : index to i32
      tile.mbarrier.try_wait %done, %done_phase
      %next = arith.addi %at, %c1 : index
      scf.yield %next, %true : index, i1
    }
    %live = arith.cmpi ne, %tiles, %c0 : index
"""
    + _TILE
    + """
    %next_turn = arith.addi %turn, %c1 : index
    scf.yield %next_turn, CARRIED : index, index
  }
  tile.free %acc
}
"""
)
_REMAINDER = """
      %s = arith.remui %at, %depth : index
      %trip = arith.divui %at, %depth : index
      %parity = arith.andi %trip, %c1 : index
      %phase = arith.index_cast %parity : index to i32
"""
_BITS = """
      %s = arith.andi %at, %all : index
      %trip = arith.shrui %at, LOG : index
      %parity = arith.remui %trip, TWO : index
      %phase = arith.index_cast %parity : index to i32
"""


def _counted(depth: int, stage: str = _REMAINDER, carried: str = "%last#0") -> Verdict:
    constants = "%two = arith.constant 2 : index\n  %log = arith.constant LOG : index\n  %c0 ="
    text = _COUNTED.replace("STAGE", stage).replace("CARRIED", carried)
    text = text.replace("%trip = arith.shrui %at, LOG", "%trip = arith.shrui %at, %log").replace("TWO", "%two")
    text = text.replace("%c0 =", constants, 1).replace("LOG", str(depth.bit_length() - 1))
    return check(parse_text(text.replace("DEPTH", str(depth)).replace("MASK", str(depth - 1))))


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5])
def test_stages_are_remainders_of_a_count(depth: int) -> None:
    assert _counted(depth).status == "proved"


@pytest.mark.parametrize("depth", [2, 4, 8])
def test_stages_are_bits_of_a_count(depth: int) -> None:
    assert _counted(depth, _BITS).status == "proved"


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_count_that_starts_anew(depth: int) -> None:
    """The trap of the lesson in another dress."""
    verdict = _counted(depth, carried="%c0")
    assert verdict.status == "refuted"
    assert verdict.diagnostic is not None
    assert "carry the phase from tile to tile" in (verdict.diagnostic.hint or "")


def test_the_phase_of_another_depth() -> None:
    wrong = _REMAINDER.replace("%trip = arith.divui %at, %depth", "%trip = arith.divui %at, %c63")
    assert _counted(3, wrong).status == "refuted"


def test_number_of_tiles_rounded_up_by_hand() -> None:
    by_hand = """
  %padded = arith.addi %K, %c63 : index
  %tiles = arith.divui %padded, %c64 : index"""
    text = _COUNTED.replace("\n  %tiles = arith.ceildivui %K, %c64 : index", by_hand)
    text = text.replace("STAGE", _REMAINDER).replace("CARRIED", "%last#0").replace("DEPTH", "2").replace("MASK", "1")
    assert check(parse_text(text)).status == "proved"


def test_fixed_extents() -> None:
    """What holds for no K but the one that the types name."""
    text = _COUNTED.replace("STAGE", _REMAINDER).replace("CARRIED", "%c0").replace("DEPTH", "2").replace("MASK", "1")
    for tiles, status in ((1, "refuted"), (2, "refuted"), (3, "refuted"), (4, "proved"), (8, "proved")):
        fixed = text.replace("MxKxf16", f"Mx{64 * tiles}xf16").replace("NxKxf16", f"Nx{64 * tiles}xf16")
        assert check(parse_text(fixed)).status == status, tiles


_TWO_LOOPS = """
tile.kernel @f(%A: !tile.view<MxKxf16>, %D: !tile.view<MxKxf16>) {
  tile.grid (%m, %n) over %D step (64, 65536) {
    %a = tile.alloc : !tile.smem<64x64xf16, swizzle = 128>
    %full = tile.mbarrier.init count 1 : !tile.mbarrier<1>
    tile.cta_sync
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    %p0 = arith.constant 0 : i32
    %p1 = arith.constant 1 : i32
    %K = tile.dim %A, 1
    %first = scf.for %k = %c0 to %K step %c64 iter_args(%phase = %p0) -> (i32) {
      tile.single_thread {
        tile.mbarrier.arrive.expect_tx %full, 8192
        tile.copy_async %A[%m, %k] to %a dispatch tma signal %full
      }
      tile.mbarrier.try_wait %full, %phase
      tile.cta_sync
      %next = arith.xori %phase, %p1 : i32
      scf.yield %next : i32
    }
    scf.for %k = %c0 to %K step %c64 iter_args(%phase = START) -> (i32) {
      tile.single_thread {
        tile.mbarrier.arrive.expect_tx %full, 8192
        tile.copy_async %A[%m, %k] to %a dispatch tma signal %full
      }
      tile.mbarrier.try_wait %full, %phase
      tile.cta_sync
      %next = arith.xori %phase, %p1 : i32
      scf.yield %next : i32
    }
  }
}
"""


def test_two_loops_over_one_extent() -> None:
    assert check(parse_text(_TWO_LOOPS.replace("START", "%first"))).status == "proved"
    assert check(parse_text(_TWO_LOOPS.replace("START", "%p0"))).status == "refuted"


def test_what_cannot_be_proved_is_simulated() -> None:
    """The square of a number has its parity, which the proof does not know."""
    square = _REMAINDER.replace("%trip = arith.divui %at, %depth", "%trip = arith.muli %at, %at").replace(
        "%s = arith.remui %at, %depth", "%s = arith.remui %at, %c1"
    )
    verdict = _counted(1, square)
    assert verdict.status == "checked"
    assert verdict.summary == "3 iterations a loop and 3 tiles, by simulating 16 launches"
    assert verdict.diagnostic is not None
    assert verdict.diagnostic.message == "not proved: the phase of a wait is not known"


def test_too_many_states(examples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilec.backend.protocol.exploration._MOST_STATES", 2)
    verdict = check(parse_file(examples / "step5_pipeline.tile"))
    assert verdict.status == "checked"
    assert verdict.diagnostic is not None
    assert verdict.diagnostic.message == "not proved: more than 2 states"
    assert verdict.diagnostic.hint == "a shallower ring, or fewer loops over different extents"


def test_a_synchronous_kernel_has_no_protocol() -> None:
    verdict = check(
        parse_text("""
tile.kernel @f(%A: !tile.view<MxKxf16>, %D: !tile.view<MxKxf16>) {
  tile.grid (%m, %k) over %D step (64, 64) {
    %a = tile.alloc : !tile.smem<64x64xf16>
    tile.copy %A[%m, %k] to %a
    tile.copy %a to %D[%m, %k]
  }
}""")
    )
    assert verdict.status == "proved"
    assert verdict.summary == "synchronous: nothing is in flight when the next operation starts"


def test_fixed_extents_that_are_large() -> None:
    """The number of tiles is freed for the replay; what remains too large is said to be."""
    text = _COUNTED.replace("STAGE", _REMAINDER).replace("CARRIED", "%c0").replace("DEPTH", "2").replace("MASK", "1")
    odd = text.replace("MxKxf16", "8192x192xf16").replace("NxKxf16", "8192x192xf16").replace("MxNxf16", "8192x8192xf16")
    verdict = check(parse_text(odd))
    assert verdict.status == "refuted"
    assert verdict.summary == "with D.0 = 128, D.1 = 64: 2 tiles on one CTA"
    huge = text.replace("MxKxf16", "65536x65600xf16").replace("NxKxf16", "Nx65600xf16")
    verdict = check(parse_text(huge))
    assert verdict.status == "checked"
    assert verdict.summary == "nothing: it is too large for the simulator"


_STORES = """
tile.kernel @f(%A: !tile.view<MxKxf16>, %D: !tile.view<MxKxf16>) {
  tile.grid (%m, %n) over %D step (64, STEP) {
    %a = tile.alloc : !tile.smem<64x32xf16>
    tile.for %k over %D dim 1 step 32 {
      tile.copy %A[%m, %k] to %a
      tile.copy %a to %D[%m, %k]
    }
  }
}
"""


@pytest.mark.parametrize("pipeline", ["tma(0)", "tma(0),persistent", "tma(0),pipeline(2),persistent"])
def test_stores_that_do_not_depend_on_the_tile(pipeline: str) -> None:
    """Two tiles of one row store the same elements."""
    narrow, wide = (check(_compiled(_STORES.replace("STEP", step), pipeline)) for step in ("64", "65536"))
    assert narrow.status == "refuted"
    assert narrow.summary.startswith("with M = 64, K = 96: 2 tiles")
    assert wide.status == "checked"
    assert wide.diagnostic is not None
    assert wide.diagnostic.message == (
        "not proved: this store does not depend on where the tile lies along dimension 1: where there are several tiles, "
        "other CTAs store there too"
    )
    fixed = _STORES.replace("STEP", "65536").replace("MxKxf16>, %D: !tile.view<MxK", "Mx96xf16>, %D: !tile.view<Mx96")
    assert check(_compiled(fixed, pipeline)).status == "proved"


def test_tiles_larger_than_their_step() -> None:
    large = _STORES.replace("STEP", "64").replace("smem<64x32", "smem<128x32").replace("%k]", "%n]")
    verdict = check(_compiled(large, "tma(0)"))
    assert verdict.status == "refuted"
    assert verdict.diagnostic is not None
    assert verdict.diagnostic.message.startswith("CTA 0 stores and CTA 1 stores")


def _compiled(text: str, pipeline: str) -> ModuleOp:
    module = parse_text(text)
    with collect():
        for one in parse_pipeline(pipeline):
            run_pass(one, module, make_context())
    return module
