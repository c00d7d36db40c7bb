"""Every fault of the simulator, with its full text: small kernels, each with one thing wrong."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from tilec.backend.reference import Array
from tilec.backend.simulator import Fault, Report, run
from tilec.source import parse_text

GEMM = """tile.kernel @f(%A: !tile.view<MxKxf16>, %D: !tile.view<Mx16xf32>) {
  %ring = tile.alloc : !tile.ring<2 x !tile.smem<16x16xf16, swizzle = 32>>
  %d = tile.alloc : !tile.smem<16x16xf32, swizzle = 64>
  %acc = tile.alloc : !tile.acc<16x16xf32>
  %full = tile.mbarrier.init count 1 : !tile.mbarrier<2>
  %done = tile.mbarrier.init count 1 : !tile.mbarrier<1>
  tile.cta_sync // set up
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %p0 = arith.constant 0 : i32
  %p1 = arith.constant 1 : i32
  %yes = arith.constant true
  %no = arith.constant false
  %K = tile.dim %A, 1
  %end:4 = scf.while (%turn = %c0, %s0 = %c0, %t0 = %p0, %m0 = %p0) : (index, index, i32, i32) -> (index, index, i32, i32) {
    %valid, %m, %n = tile.schedule %turn over %D step (16, 16) group 8
    scf.condition(%valid) %turn, %s0, %t0, %m0 : index, index, i32, i32
  } do {
  ^bb0(%turn: index, %s0: index, %t0: i32, %m0: i32):
    %valid, %m, %n = tile.schedule %turn over %D step (16, 16) group 8
    %last:4 = scf.for %k = %c0 to %K step %c16 iter_args(%live = %no, %s = %s0, %tma = %t0, %mma = %m0) -> (i1, index, i32, i32) {
      %a = tile.slot %ring[%s]
      tile.single_thread {
        tile.mbarrier.arrive.expect_tx %full[%s], 512
        tile.copy_async %A[%m, %k] to %a dispatch tma signal %full[%s]
      }
      tile.mbarrier.try_wait %full[%s], %tma
      tile.fence after_thread_sync // loaded
      tile.mma %acc, %a, %a accumulate %live
      tile.commit %done
      tile.mbarrier.try_wait %done, %mma
      %wraps = arith.cmpi eq, %s, %c1 : index
      %other = arith.subi %c1, %s : index
      %flipped = arith.xori %tma, %p1 : i32
      %next = arith.select %wraps, %flipped, %tma : i32
      %next_mma = arith.xori %mma, %p1 : i32
      scf.yield %yes, %other, %next, %next_mma : i1, index, i32, i32
    }
    tile.fence after_thread_sync // multiplied
    %r = tile.copy_async %acc dispatch tmem : !tile.reg<16x16xf32>
    tile.tmem.wait_ld
    tile.single_thread {
      tile.bulk.wait_group 0 read
    }
    tile.cta_sync // staging is free
    tile.store %r to %d
    tile.fence proxy_async
    tile.fence before_thread_sync
    tile.cta_sync // staging is full
    tile.single_thread {
      tile.copy_async %d to %D[%m, %n] dispatch tma
      tile.bulk.commit_group
    }
    %next_turn = arith.addi %turn, %c1 : index
    scf.yield %next_turn, %last#1, %last#2, %last#3 : index, index, i32, i32
  }
  tile.single_thread {
    tile.bulk.wait_group 0
  }
  tile.fence after_thread_sync // free
  tile.free %acc
}
"""
"""D = A * A^T, 16 rows a tile: a ring of two slots, one load and one MMA in flight."""

COPY = """tile.kernel @f(%A: !tile.view<MxNxf16>, %D: !tile.view<MxNxf16>) {
  tile.grid (%m, %n) over %D step (16, 16) {
    %a = tile.alloc : !tile.smem<16x16xf16, swizzle = 32>
    %b = tile.alloc : !tile.smem<16x16xf16, swizzle = 32>
    %full = tile.mbarrier.init count 1 : !tile.mbarrier<1>
    tile.cta_sync // set up
    %p0 = arith.constant 0 : i32
    tile.single_thread {
      tile.mbarrier.arrive.expect_tx %full, 512
      tile.copy_async %A[%m, %n] to %a dispatch tma signal %full
    }
    tile.mbarrier.try_wait %full, %p0
    %r = tile.load %a : !tile.reg<16x16xf16>
    tile.store %r to %b
    tile.fence proxy_async
    tile.cta_sync // written
    tile.single_thread {
      tile.copy_async %b to %D[%m, %n] dispatch tma
      tile.bulk.commit_group
      tile.bulk.wait_group 0
    }
  }
}
"""
"""D = A through registers."""

IN_PLACE = COPY.replace("%A: !tile.view<MxNxf16>, ", "")
"""The same with one view: edits make it load from %D."""


@dataclass(frozen=True)
class Case:
    """A kernel, texts in it with what replaces them, and what the simulator says."""

    name: str
    kind: str
    program: str
    edits: tuple[tuple[str, str], ...]
    shape: tuple[int, int]
    """Of the first view."""
    expected: str
    ctas: int | None = None


def execute(program: str, edits: tuple[tuple[str, str], ...], shape: tuple[int, int], ctas: int | None) -> Report:
    text = program
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new, 1)
    arrays: list[Array] = [np.ones(shape, np.float16)] if "%A" in text else []
    arrays.append(np.zeros((shape[0], 16), np.float32) if program is GEMM else np.zeros(shape, np.float16))
    return run(parse_text(text, "f.tile"), arrays, ctas=ctas)


CASES = [
    Case(
        "phases are reset at each tile",
        "race",
        GEMM,
        (("scf.yield %next_turn, %last#1, %last#2, %last#3", "scf.yield %next_turn, %c0, %p0, %p0"),),
        (32, 48),
        """\
f.tile:30:7: error: no wait orders this MMA's read of %ring[1] after the TMA load into %ring[1]
      tile.mma %acc, %a, %a accumulate %live
      ^
hint: the wait at line 28 asks for parity 0, which round 0 satisfied; the load into %ring[1] counts in round 1, parity 1: round r is waited for with parity r & 1, counted over the life of the kernel; carry the phase from tile to tile
f.tile:26:9: note: the TMA load into %ring[1], whose bytes count in round 1 of %full[1]
        tile.copy_async %A[%m, %k] to %a dispatch tma signal %full[%s]
        ^
f.tile:28:7: note: this wait found round 0 complete, not round 1
      tile.mbarrier.try_wait %full[%s], %tma
      ^""",
        ctas=1,
    ),
    Case(
        "budget above",
        "deadlock",
        GEMM,
        (("%full[%s], 512", "%full[%s], 528"),),
        (16, 16),
        """\
f.tile:25:9: error: %full[0] announces 528 bytes, but its copies bring 512: the wait at line 28 never ends
        tile.mbarrier.arrive.expect_tx %full[%s], 528
        ^
hint: the byte budget is too large by 16 bytes: announce 512 bytes, what the copies of the round bring (a box over the edge counts in full)
f.tile:26:9: note: round 0 of %full[0]: a load into %ring[0] brings 512 bytes
        tile.copy_async %A[%m, %k] to %a dispatch tma signal %full[%s]
        ^
f.tile:28:7: note: the wait for parity 0
      tile.mbarrier.try_wait %full[%s], %tma
      ^""",
        ctas=1,
    ),
    Case(
        "budget below by a report",
        "deadlock",
        GEMM,
        (("%full[%s], 512", "%full[%s], 384"),),
        (16, 16),
        """\
f.tile:25:9: error: %full[0] announces 384 bytes, but its copies bring 512: the wait at line 28 passes too early or never ends
        tile.mbarrier.arrive.expect_tx %full[%s], 384
        ^
hint: the byte budget is too small by 128 bytes: announce 512 bytes, what the copies of the round bring (a box over the edge counts in full). The engine reports in pieces: the wait passes before the tiles are there where a report ends at exactly that sum, and hangs elsewhere; left-over bytes count against the next round
f.tile:26:9: note: round 0 of %full[0]: a load into %ring[0] brings 512 bytes
        tile.copy_async %A[%m, %k] to %a dispatch tma signal %full[%s]
        ^
f.tile:28:7: note: the wait for parity 0
      tile.mbarrier.try_wait %full[%s], %tma
      ^""",
        ctas=1,
    ),
    Case(
        "budget below",
        "deadlock",
        GEMM,
        (("%full[%s], 512", "%full[%s], 500"),),
        (16, 16),
        """\
f.tile:25:9: error: %full[0] announces 500 bytes, but its copies bring 512: the wait at line 28 never ends
        tile.mbarrier.arrive.expect_tx %full[%s], 500
        ^
hint: the byte budget is too small by 12 bytes: announce 512 bytes, what the copies of the round bring (a box over the edge counts in full). The count runs through zero without stopping on it
f.tile:26:9: note: round 0 of %full[0]: a load into %ring[0] brings 512 bytes
        tile.copy_async %A[%m, %k] to %a dispatch tma signal %full[%s]
        ^
f.tile:28:7: note: the wait for parity 0
      tile.mbarrier.try_wait %full[%s], %tma
      ^""",
        ctas=1,
    ),
    Case(
        "no announcement",
        "deadlock",
        GEMM,
        (("        tile.mbarrier.arrive.expect_tx %full[%s], 512\n", ""),),
        (16, 16),
        """\
f.tile:27:7: error: this wait for parity 0 never ends: round 0 of %full[0] has 0 of 1 arrivals and 512 of 0 announced bytes
      tile.mbarrier.try_wait %full[%s], %tma
      ^
hint: copies of 512 bytes signal this round, but nobody has announced them: `tile.mbarrier.arrive.expect_tx` comes with them, once a round
f.tile:25:9: note: round 0 of %full[0]: a load into %ring[0] brings 512 bytes
        tile.copy_async %A[%m, %k] to %a dispatch tma signal %full[%s]
        ^""",
        ctas=1,
    ),
    Case(
        "no commit",
        "deadlock",
        GEMM,
        (("      tile.commit %done\n", ""),),
        (16, 16),
        """\
f.tile:31:7: error: this wait for parity 0 never ends: round 0 of %done[0] has 0 of 1 arrivals
      tile.mbarrier.try_wait %done, %mma
      ^
hint: no tile.commit names %done: put `tile.commit %done` behind the MMA at line 30
f.tile:30:7: note: the MMA, which nothing commits
      tile.mma %acc, %a, %a accumulate %live
      ^""",
        ctas=1,
    ),
    Case(
        "flag does not flip",
        "rounds",
        GEMM,
        (("scf.yield %yes, %other, %next, %next_mma :", "scf.yield %yes, %other, %next, %mma :"),),
        (16, 48),
        """\
f.tile:31:7: error: round 1 of %done[0] completes, and nobody has waited for it: two completions without a wait between
      tile.commit %done
      ^
hint: the wait at line 32 asks for parity 0, which round 0 satisfied; round 1, parity 1, comes next: round r is waited for with parity r & 1, counted over the life of the kernel
f.tile:32:7: note: this wait found round 0 complete, which had been waited for before
      tile.mbarrier.try_wait %done, %mma
      ^""",
        ctas=1,
    ),
    Case(
        "flag flips early",
        "race",
        GEMM,
        (("%next = arith.select %wraps, %flipped, %tma : i32", "%next = arith.select %yes, %flipped, %tma : i32"),),
        (16, 64),
        """\
f.tile:30:7: error: no wait orders this MMA's read of %ring[1] after the TMA load into %ring[1]
      tile.mma %acc, %a, %a accumulate %live
      ^
hint: the wait at line 28 asks for parity 1, which is satisfied before round 0 completes; the load into %ring[1] counts in round 0, parity 0: round r is waited for with parity r & 1, counted over the life of the kernel
f.tile:26:9: note: the TMA load into %ring[1], whose bytes count in round 0 of %full[1]
        tile.copy_async %A[%m, %k] to %a dispatch tma signal %full[%s]
        ^
f.tile:28:7: note: this wait came before all rounds
      tile.mbarrier.try_wait %full[%s], %tma
      ^""",
        ctas=1,
    ),
    Case(
        "two arrivals wanted",
        "deadlock",
        GEMM,
        (("%done = tile.mbarrier.init count 1", "%done = tile.mbarrier.init count 2"),),
        (16, 16),
        """\
f.tile:32:7: error: this wait for parity 0 never ends: round 0 of %done[0] has 1 of 2 arrivals
      tile.mbarrier.try_wait %done, %mma
      ^
hint: 1 more arrival is missing: each round takes 2, one for a commit and one for each role that arrives
f.tile:31:7: note: round 0 of %done[0]: a commit of the MMAs up to number 1
      tile.commit %done
      ^""",
        ctas=1,
    ),
    Case(
        "nobody refills",
        "deadlock",
        GEMM,
        (
            (
                """\
      tile.single_thread {
        tile.mbarrier.arrive.expect_tx %full[%s], 512""",
                """\
      %first = arith.cmpi ult, %k, %c16 : index
      scf.if %first { tile.single_thread {
        tile.mbarrier.arrive.expect_tx %full[%s], 512""",
            ),
            ("signal %full[%s]\n      }", "signal %full[%s]\n      } }"),
            ("%other = arith.subi %c1, %s : index", "%other = arith.subi %s, %s : index"),
            ("%next = arith.select %wraps, %flipped, %tma : i32", "%next = arith.select %yes, %flipped, %tma : i32"),
        ),
        (16, 48),
        """\
f.tile:29:7: error: this wait for parity 1 never ends: round 1 of %full[0] has 0 of 1 arrivals
      tile.mbarrier.try_wait %full[%s], %tma
      ^
hint: round 0, the last that completed, has been waited for already, and nobody arrives on round 1: either nobody refills this stage any more, or this phase was flipped too early (a phase flips once for each round of its slot)
f.tile:26:9: note: round 0 of %full[0]: 512 bytes are announced
        tile.mbarrier.arrive.expect_tx %full[%s], 512
        ^
f.tile:27:9: note: round 0 of %full[0]: a load into %ring[0] brings 512 bytes
        tile.copy_async %A[%m, %k] to %a dispatch tma signal %full[%s]
        ^
f.tile:29:7: note: a wait for parity 0 of %full[0] blocks on round 0
      tile.mbarrier.try_wait %full[%s], %tma
      ^""",
        ctas=1,
    ),
    Case(
        "load not waited",
        "race",
        GEMM,
        (("      tile.mbarrier.try_wait %full[%s], %tma\n", ""),),
        (16, 16),
        """\
f.tile:29:7: error: no wait orders this MMA's read of %ring[0] after the TMA load into %ring[0]
      tile.mma %acc, %a, %a accumulate %live
      ^
hint: wait for %full[0] between lines 26 and 29: `tile.mbarrier.try_wait` with a phase that flips once for each round of its slot
f.tile:26:9: note: the TMA load into %ring[0], whose bytes count in round 0 of %full[0]
        tile.copy_async %A[%m, %k] to %a dispatch tma signal %full[%s]
        ^""",
        ctas=1,
    ),
    Case(
        "load waited by one",
        "race",
        COPY,
        (
            (
                "    tile.mbarrier.try_wait %full, %p0\n",
                """\
    tile.single_thread {
      tile.mbarrier.try_wait %full, %p0
    }
""",
            ),
        ),
        (16, 16),
        """\
f.tile:15:10: error: the issuing thread alone has waited for the TMA load into %a: nothing orders this read of %a after it
    %r = tile.load %a : !tile.reg<16x16xf16>
         ^
hint: wait outside of tile.single_thread, or put `tile.cta_sync` behind the wait
f.tile:10:7: note: the TMA load into %a, whose bytes count in round 0 of %full[0]
      tile.copy_async %A[%m, %n] to %a dispatch tma signal %full
      ^
f.tile:13:7: note: the wait
      tile.mbarrier.try_wait %full, %p0
      ^""",
    ),
    Case(
        "no fence after the load",
        "race",
        GEMM,
        (("      tile.fence after_thread_sync // loaded\n", ""),),
        (16, 16),
        """\
f.tile:29:7: error: no fence after_thread_sync orders this MMA's read of %ring[0] after the wait for the TMA load into %ring[0]
      tile.mma %acc, %a, %a accumulate %live
      ^
hint: put `tile.fence after_thread_sync` between that and this operation: tensor-core operations are ordered after what the threads know at their last such fence, and after nothing else
f.tile:26:9: note: the TMA load into %ring[0], whose bytes count in round 0 of %full[0]
        tile.copy_async %A[%m, %k] to %a dispatch tma signal %full[%s]
        ^
f.tile:28:7: note: the wait
      tile.mbarrier.try_wait %full[%s], %tma
      ^""",
        ctas=1,
    ),
    Case(
        "mma not waited, refill",
        "race",
        GEMM,
        (("      tile.mbarrier.try_wait %done, %mma\n", ""),),
        (16, 48),
        """\
f.tile:26:9: error: no wait orders this TMA load into %ring[0] after the MMA that reads %ring[0]
        tile.copy_async %A[%m, %k] to %a dispatch tma signal %full[%s]
        ^
hint: wait for %done[0] behind line 31, before the loop comes to line 26 again: `tile.mbarrier.try_wait` with a phase that flips once for each round of its slot
f.tile:30:7: note: the MMA that reads %ring[0]
      tile.mma %acc, %a, %a accumulate %live
      ^
f.tile:31:7: note: its commit, which arrives in round 0 of %done[0]
      tile.commit %done
      ^""",
        ctas=1,
    ),
    Case(
        "mma not committed",
        "race",
        GEMM,
        (
            ("      tile.commit %done\n", ""),
            ("      tile.mbarrier.try_wait %done, %mma\n", ""),
        ),
        (16, 16),
        """\
f.tile:39:10: error: no wait orders this read of %acc after the MMA that writes %acc
    %r = tile.copy_async %acc dispatch tmem : !tile.reg<16x16xf32>
         ^
hint: no tile.commit follows that MMA: commit it to an mbarrier and wait for that, its only completion
f.tile:30:7: note: the MMA that writes %acc
      tile.mma %acc, %a, %a accumulate %live
      ^""",
        ctas=1,
    ),
    Case(
        "no fence after the mma",
        "race",
        GEMM,
        (("    tile.fence after_thread_sync // multiplied\n", ""),),
        (16, 16),
        """\
f.tile:40:10: error: no fence after_thread_sync orders this read of %acc after the wait for the MMA that writes %acc
    %r = tile.copy_async %acc dispatch tmem : !tile.reg<16x16xf32>
         ^
hint: put `tile.fence after_thread_sync` between that and this operation: tensor-core operations are ordered after what the threads know at their last such fence, and after nothing else
f.tile:30:7: note: the MMA that writes %acc
      tile.mma %acc, %a, %a accumulate %live
      ^
f.tile:31:7: note: its commit, which arrives in round 0 of %done[0]
      tile.commit %done
      ^
f.tile:32:7: note: the wait
      tile.mbarrier.try_wait %done, %mma
      ^""",
        ctas=1,
    ),
    Case(
        "no wait_ld",
        "in flight",
        GEMM,
        (("    tile.tmem.wait_ld\n", ""),),
        (16, 16),
        """\
f.tile:46:5: error: %r is used before its load from the accumulator is complete
    tile.store %r to %d
    ^
hint: put `tile.tmem.wait_ld` between the load and the first use
f.tile:41:10: note: loaded here
    %r = tile.copy_async %acc dispatch tmem : !tile.reg<16x16xf32>
         ^""",
        ctas=1,
    ),
    Case(
        "no wait_ld before the next tile",
        "race",
        GEMM,
        (
            ("    tile.tmem.wait_ld\n", ""),
            (
                "    tile.store %r to %d",
                """\
    %z = tile.splat 0.0 : !tile.reg<16x16xf32>
    tile.store %z to %d""",
            ),
        ),
        (32, 16),
        """\
f.tile:30:7: error: no tmem.wait_ld between the read of %acc and this MMA's write of %acc
      tile.mma %acc, %a, %a accumulate %live
      ^
hint: put `tile.tmem.wait_ld` behind the read: until then it may still be running
f.tile:41:10: note: the read of %acc
    %r = tile.copy_async %acc dispatch tmem : !tile.reg<16x16xf32>
         ^""",
        ctas=1,
    ),
    Case(
        "no fence before",
        "race",
        GEMM,
        (("    tile.fence before_thread_sync\n", ""),),
        (32, 16),
        """\
f.tile:30:7: error: no fence before_thread_sync between the read of %acc and this MMA's write of %acc
      tile.mma %acc, %a, %a accumulate %live
      ^
hint: put `tile.fence before_thread_sync` behind the tmem.wait_ld, then `tile.cta_sync`, then `tile.fence after_thread_sync`
f.tile:41:10: note: the read of %acc
    %r = tile.copy_async %acc dispatch tmem : !tile.reg<16x16xf32>
         ^""",
        ctas=1,
    ),
    Case(
        "fence before behind the barrier",
        "race",
        GEMM,
        (
            (
                """\
    tile.fence before_thread_sync
    tile.cta_sync // staging is full
""",
                """\
    tile.cta_sync // staging is full
    tile.fence before_thread_sync
""",
            ),
            (
                """\
      tile.commit %done
      tile.mbarrier.try_wait %done, %mma
""",
                """\
      tile.commit %done
      tile.mbarrier.try_wait %done, %mma
""",
            ),
        ),
        (16, 16),
        """\
f.tile:62:3: error: no cta_sync between the read of %acc and giving back %acc
  tile.free %acc
  ^
hint: put `tile.cta_sync` behind `tile.fence before_thread_sync`: other threads have read too
f.tile:41:10: note: the read of %acc
    %r = tile.copy_async %acc dispatch tmem : !tile.reg<16x16xf32>
         ^""",
        ctas=1,
    ),
    Case(
        "store not waited",
        "race",
        GEMM,
        (("      tile.bulk.wait_group 0 read\n", ""),),
        (32, 16),
        """\
f.tile:46:5: error: the TMA store that reads %d has not been waited for: nothing orders this write of %d after it
    tile.store %r to %d
    ^
hint: the issuing thread waits first, `tile.bulk.wait_group 0 read` or fewer pending, then `tile.cta_sync` tells the other threads
f.tile:51:7: note: the TMA store that reads %d
      tile.copy_async %d to %D[%m, %n] dispatch tma
      ^""",
        ctas=1,
    ),
    Case(
        "store not committed",
        "race",
        GEMM,
        (("      tile.bulk.commit_group\n", ""),),
        (32, 16),
        """\
f.tile:47:5: error: the TMA store that reads %d has not been waited for: nothing orders this write of %d after it
    tile.store %r to %d
    ^
hint: no tile.bulk.commit_group follows that store, so that no wait_group covers it: commit it, then wait
f.tile:52:7: note: the TMA store that reads %d
      tile.copy_async %d to %D[%m, %n] dispatch tma
      ^""",
        ctas=1,
    ),
    Case(
        "no sync after wait_group",
        "race",
        GEMM,
        (("    tile.cta_sync // staging is free\n", ""),),
        (32, 16),
        """\
f.tile:46:5: error: no cta_sync between the wait_group for the TMA store that reads %d and this write of %d
    tile.store %r to %d
    ^
hint: put `tile.cta_sync` behind the wait_group: the issuing thread alone knows that the tile has been read
f.tile:51:7: note: the TMA store that reads %d
      tile.copy_async %d to %D[%m, %n] dispatch tma
      ^""",
        ctas=1,
    ),
    Case(
        "no sync before the store",
        "race",
        COPY,
        (("    tile.cta_sync // written\n", ""),),
        (16, 16),
        """\
f.tile:17:7: error: no cta_sync between the threads' write of %b and this TMA store's read of %b
      tile.copy_async %b to %D[%m, %n] dispatch tma
      ^
hint: put `tile.cta_sync` behind `tile.fence proxy_async`: one thread issues for all
f.tile:14:5: note: the threads' write of %b
    tile.store %r to %b
    ^""",
    ),
    Case(
        "no proxy fence",
        "race",
        COPY,
        (("    tile.fence proxy_async\n", ""),),
        (16, 16),
        """\
f.tile:17:7: error: no fence proxy_async orders this TMA store's read of %b after the threads' write of %b
      tile.copy_async %b to %D[%m, %n] dispatch tma
      ^
hint: put `tile.fence proxy_async` between that and the `tile.cta_sync` behind it: TMA and MMAs go through another proxy than the threads' loads and stores
f.tile:14:5: note: the threads' write of %b
    tile.store %r to %b
    ^""",
    ),
    Case(
        "no proxy fence, no sync",
        "race",
        COPY,
        (
            ("    tile.fence proxy_async\n", ""),
            ("    tile.cta_sync // written\n", ""),
        ),
        (16, 16),
        """\
f.tile:16:7: error: no fence proxy_async orders this TMA store's read of %b after the threads' write of %b
      tile.copy_async %b to %D[%m, %n] dispatch tma
      ^
hint: put `tile.fence proxy_async` and then `tile.cta_sync` behind that: TMA and MMAs go through another proxy than the threads' loads and stores
f.tile:14:5: note: the threads' write of %b
    tile.store %r to %b
    ^""",
    ),
    Case(
        "proxy fence behind the barrier",
        "race",
        COPY,
        (
            (
                "    tile.fence proxy_async\n    tile.cta_sync // written\n",
                "    tile.cta_sync // written\n    tile.fence proxy_async\n",
            ),
        ),
        (16, 16),
        """\
f.tile:18:7: error: the fence proxy_async between the threads' write of %b and this TMA store's read of %b stands behind the barrier of the threads
      tile.copy_async %b to %D[%m, %n] dispatch tma
      ^
hint: put `tile.fence proxy_async` in front of `tile.cta_sync`: each thread makes its own accesses visible to the async proxy, then they meet
f.tile:14:5: note: the threads' write of %b
    tile.store %r to %b
    ^""",
    ),
    Case(
        "proxy fence by one",
        "race",
        COPY,
        (("    tile.fence proxy_async\n", "    tile.single_thread {\n      tile.fence proxy_async\n    }\n"),),
        (16, 16),
        """\
f.tile:20:7: error: only one thread has executed fence proxy_async between the threads' write of %b and this TMA store's read of %b
      tile.copy_async %b to %D[%m, %n] dispatch tma
      ^
hint: move `tile.fence proxy_async` out of tile.single_thread: every thread makes its own accesses visible
f.tile:14:5: note: the threads' write of %b
    tile.store %r to %b
    ^""",
    ),
    Case(
        "no sync between threads",
        "race",
        COPY,
        (
            (
                "    tile.fence proxy_async\n",
                """\
    %x = tile.load %b : !tile.reg<16x16xf16>
    tile.fence proxy_async
""",
            ),
        ),
        (16, 16),
        """\
f.tile:15:10: error: no cta_sync between the threads' write of %b and this read of %b
    %x = tile.load %b : !tile.reg<16x16xf16>
         ^
hint: put `tile.cta_sync` between the two
f.tile:14:5: note: the threads' write of %b
    tile.store %r to %b
    ^""",
    ),
    Case(
        "barriers not visible",
        "race",
        COPY,
        (("    tile.cta_sync // set up\n", ""),),
        (16, 16),
        """\
f.tile:11:5: error: no cta_sync between the initialisation of %full[0] and its first use by other threads
    tile.mbarrier.try_wait %full, %p0
    ^
hint: put `tile.cta_sync` behind the tile.mbarrier.init operations: one thread initialises for all
f.tile:5:13: note: initialised here, by one thread
    %full = tile.mbarrier.init count 1 : !tile.mbarrier<1>
            ^""",
    ),
    Case(
        "tile not written",
        "uninitialised",
        COPY,
        (("    tile.store %r to %b\n", ""),),
        (16, 16),
        """\
f.tile:17:7: error: this TMA store's read of %b finds what nothing has written
      tile.copy_async %b to %D[%m, %n] dispatch tma
      ^
hint: fill it first: with a copy and its wait, or with tile.store
f.tile:4:10: note: %b is allocated here
    %b = tile.alloc : !tile.smem<16x16xf16, swizzle = 32>
         ^""",
    ),
    Case(
        "accumulator not written",
        "uninitialised",
        GEMM,
        (),
        (16, 0),
        """\
f.tile:41:10: error: this read of %acc finds what no MMA has written
    %r = tile.copy_async %acc dispatch tmem : !tile.reg<16x16xf32>
         ^
hint: no MMA ran in this launch: does the loop of the MMAs run often enough? Where it may not run at all (K = 0), branch on whether there was an MMA, and store zeros without reading the accumulator
f.tile:22:15: note: the loop of the MMAs
    %last:4 = scf.for %k = %c0 to %K step %c16 iter_args(%live = %no, %s = %s0, %tma = %t0, %mma = %m0) -> (i1, index, i32, i32) {
              ^
f.tile:4:10: note: %acc is allocated here
  %acc = tile.alloc : !tile.acc<16x16xf32>
         ^""",
        ctas=1,
    ),
    Case(
        "adds to nothing",
        "uninitialised",
        GEMM,
        (("%live = %no", "%live = %yes"),),
        (16, 16),
        """\
f.tile:30:7: error: this MMA adds to %acc, which holds nothing yet
      tile.mma %acc, %a, %a accumulate %live
      ^
hint: the first MMA of an output tile overwrites: its `accumulate` flag is false
f.tile:4:10: note: %acc is allocated here
  %acc = tile.alloc : !tile.acc<16x16xf32>
         ^""",
        ctas=1,
    ),
    Case(
        "adds to the last tile",
        "uninitialised",
        GEMM,
        (
            ("%live = %no", "%live = %started"),
            ("    %last:4", "    %started = arith.cmpi ne, %turn, %c0 : index\n    %last:4"),
        ),
        (32, 16),
        """\
f.tile:31:7: error: this MMA of turn 1 adds to the sums that turn 0 has left in %acc
      tile.mma %acc, %a, %a accumulate %live
      ^
hint: the first MMA of an output tile overwrites: its `accumulate` flag is false
f.tile:31:7: note: the last MMA of that turn
      tile.mma %acc, %a, %a accumulate %live
      ^""",
        ctas=1,
    ),
    Case(
        "register tile",
        "in flight",
        GEMM,
        (
            ("    tile.tmem.wait_ld\n", ""),
            ("    tile.fence proxy_async\n", "    tile.tmem.wait_ld\n    tile.fence proxy_async\n"),
        ),
        (16, 16),
        """\
f.tile:46:5: error: %r is used before its load from the accumulator is complete
    tile.store %r to %d
    ^
hint: put `tile.tmem.wait_ld` between the load and the first use
f.tile:41:10: note: loaded here
    %r = tile.copy_async %acc dispatch tmem : !tile.reg<16x16xf32>
         ^""",
        ctas=1,
    ),
    Case(
        "load in flight at exit",
        "in flight",
        COPY,
        (
            (
                "      tile.bulk.wait_group 0\n",
                """\
      tile.bulk.wait_group 0
      tile.mbarrier.arrive.expect_tx %full, 512
      tile.copy_async %A[%m, %n] to %a dispatch tma signal %full
""",
            ),
            ("    tile.fence proxy_async\n", "    tile.fence proxy_async\n"),
        ),
        (16, 16),
        """\
f.tile:22:7: error: the CTA ends before this TMA load, which completes on round 1 of %full[0], has been waited for
      tile.copy_async %A[%m, %n] to %a dispatch tma signal %full
      ^
hint: wait for it with parity 1, or do not issue it: the engine would write into the shared memory of the next CTA""",
    ),
    Case(
        "mma in flight at exit",
        "in flight",
        GEMM,
        (
            (
                "  tile.single_thread {\n    tile.bulk.wait_group 0\n",
                """\
  %a = tile.slot %ring[%c0]
  tile.fence after_thread_sync
  tile.mma %acc, %a, %a accumulate %no
  tile.commit %done
  tile.single_thread {
    tile.bulk.wait_group 0
""",
            ),
            ("  tile.free %acc\n", ""),
        ),
        (16, 16),
        """\
f.tile:60:3: error: the CTA ends before this MMA has been waited for
  tile.mma %acc, %a, %a accumulate %no
  ^
hint: wait for round 1 of %done[0], parity 1, which its commit completes
f.tile:61:3: note: its commit
  tile.commit %done
  ^""",
        ctas=1,
    ),
    Case(
        "store in flight at exit",
        "in flight",
        COPY,
        (("      tile.bulk.wait_group 0\n", ""),),
        (16, 16),
        """\
f.tile:18:7: error: the CTA ends before this TMA store has read its tile
      tile.copy_async %b to %D[%m, %n] dispatch tma
      ^
hint: end with `tile.bulk.wait_group 0` in the issuing thread""",
    ),
    Case(
        "store not committed at exit",
        "in flight",
        COPY,
        (("      tile.bulk.commit_group\n", ""),),
        (16, 16),
        """\
f.tile:18:7: error: the CTA ends before this TMA store has read its tile
      tile.copy_async %b to %D[%m, %n] dispatch tma
      ^
hint: no tile.bulk.commit_group follows: commit the group, then `tile.bulk.wait_group 0`""",
    ),
    Case(
        "leak",
        "leak",
        GEMM,
        (("  tile.free %acc\n", ""),),
        (16, 16),
        """\
f.tile:4:10: error: the CTA ends, and %acc has not been given back
  %acc = tile.alloc : !tile.acc<16x16xf32>
         ^
hint: end with `tile.free`, on every path: tensor memory that is not given back is lost to the next CTA""",
        ctas=1,
    ),
    Case(
        "freed twice",
        "freed",
        GEMM,
        (("  tile.free %acc\n", "  tile.free %acc\n  tile.free %acc\n"),),
        (16, 16),
        """\
f.tile:63:3: error: %acc is given back twice
  tile.free %acc
  ^
hint: give it back once, behind its last use, on every path
f.tile:62:3: note: given back here
  tile.free %acc
  ^""",
        ctas=1,
    ),
    Case(
        "used after free",
        "freed",
        GEMM,
        (
            (
                "    %next_turn =",
                """\
    tile.fence after_thread_sync
    tile.free %acc
    %next_turn =""",
            ),
            ("  tile.fence after_thread_sync // free\n  tile.free %acc\n", ""),
        ),
        (32, 16),
        """\
f.tile:30:7: error: %acc is used after it was given back
      tile.mma %acc, %a, %a accumulate %live
      ^
hint: give it back once, behind its last use, on every path
f.tile:56:5: note: given back here
    tile.free %acc
    ^""",
        ctas=1,
    ),
    Case(
        "free not ordered",
        "race",
        GEMM,
        (("  tile.fence after_thread_sync // free\n", ""),),
        (16, 16),
        """\
f.tile:61:3: error: no fence after_thread_sync orders giving back %acc after the read of %acc
  tile.free %acc
  ^
hint: put `tile.fence after_thread_sync` between that and this operation: tensor-core operations are ordered after what the threads know at their last such fence, and after nothing else
f.tile:41:10: note: the read of %acc
    %r = tile.copy_async %acc dispatch tmem : !tile.reg<16x16xf32>
         ^""",
        ctas=1,
    ),
    Case(
        "round pending at exit",
        "arrivals",
        COPY,
        (
            (
                "    tile.fence proxy_async\n",
                """\
    tile.fence proxy_async
    tile.single_thread {
      tile.mbarrier.arrive.expect_tx %full, 512
    }
""",
            ),
        ),
        (16, 16),
        """\
f.tile:5:13: error: the CTA ends in the middle of round 1 of %full[0]: 1 of 1 arrivals and 0 of 512 announced bytes
    %full = tile.mbarrier.init count 1 : !tile.mbarrier<1>
            ^
hint: complete each round that was begun, and wait for it
f.tile:17:7: note: round 1 of %full[0]: 512 bytes are announced
      tile.mbarrier.arrive.expect_tx %full, 512
      ^""",
    ),
    Case(
        "arrival too many",
        "arrivals",
        GEMM,
        (
            (
                "        tile.mbarrier.arrive.expect_tx %full[%s], 512\n",
                """\
        tile.mbarrier.arrive.expect_tx %full[%s], 512
        tile.mbarrier.arrive %full[%s]
""",
            ),
        ),
        (16, 16),
        """\
f.tile:26:9: error: an arrival too many: round 0 of %full[0] has 1 of 1 arrivals and 0 of 512 announced bytes
        tile.mbarrier.arrive %full[%s]
        ^
hint: let 1 arrive in each round, or give tile.mbarrier.init another count
f.tile:5:11: note: %full[0] takes 1 arrival a round
  %full = tile.mbarrier.init count 1 : !tile.mbarrier<2>
          ^""",
        ctas=1,
    ),
    Case(
        "bytes",
        "bytes",
        COPY,
        (
            ("arrive.expect_tx %full, 512", "arrive.expect_tx %full, 1048575"),
            ("init count 1", "init count 2"),
            (
                "      tile.copy_async %A",
                """\
      tile.mbarrier.arrive.expect_tx %full, 512
      tile.copy_async %A""",
            ),
        ),
        (16, 16),
        """\
f.tile:10:7: error: round 0 of %full[0] has 1049087 bytes pending: an mbarrier counts up to 1048575
      tile.mbarrier.arrive.expect_tx %full, 512
      ^
hint: load less at once, or spread the copies over more barriers""",
    ),
    Case(
        "round nobody waited for",
        "rounds",
        GEMM,
        (
            ("      tile.mbarrier.try_wait %done, %mma\n", ""),
            ("%full = tile.mbarrier.init", "%full = tile.mbarrier.init"),
            (
                """\
      tile.mbarrier.try_wait %full[%s], %tma
      tile.fence after_thread_sync // loaded
      tile.mma %acc, %a, %a accumulate %live
      tile.commit %done
""",
                """\
      tile.mbarrier.try_wait %full[%s], %tma
      tile.fence after_thread_sync // loaded
      tile.mma %acc, %a, %a accumulate %live
      tile.commit %done
      tile.commit %done
      tile.commit %done
""",
            ),
        ),
        (16, 16),
        """\
f.tile:33:7: error: round 1 of %done[0] completes, and nobody has waited for round 0, which completed MMAs
      tile.commit %done
      ^
hint: wait for each round before the next one begins: a parity wait cannot tell a round from the one two later
f.tile:31:7: note: round 0 of %done[0]: a commit of the MMAs up to number 1
      tile.commit %done
      ^
f.tile:32:7: note: round 1 of %done[0]: a commit of the MMAs up to number 1
      tile.commit %done
      ^""",
        ctas=1,
    ),
    Case(
        "two completions",
        "rounds",
        COPY,
        (
            (
                "    tile.store %r to %b\n",
                """\
    tile.store %r to %b
    tile.single_thread {
      tile.mbarrier.arrive.expect_tx %full, 0
    }
    tile.mbarrier.try_wait %full, %p1
""",
            ),
            (
                """\
    tile.single_thread {
      tile.mbarrier.arrive.expect_tx %full, 512""",
                """\
    %p1 = arith.constant 1 : i32
    tile.single_thread {
      tile.mbarrier.arrive.expect_tx %full, 512""",
            ),
        ),
        (16, 16),
        """\
f.tile:19:5: error: round 1 of %full[0] completes, and nothing makes it come after the wait of the other threads for round 0: two completions without a wait between, of which that thread may find neither
    tile.mbarrier.try_wait %full, %p1
    ^
hint: let the threads meet between the wait and the next arrival, with tile.cta_sync or a wait for a commit: a parity wait cannot tell a round from the one two later
f.tile:13:5: note: the wait for round 0
    tile.mbarrier.try_wait %full, %p0
    ^""",
    ),
    Case(
        "announced by all",
        "scope",
        COPY,
        (
            (
                "    tile.mbarrier.try_wait %full, %p0\n",
                """\
    tile.mbarrier.arrive.expect_tx %full, 512
    tile.mbarrier.try_wait %full, %p0
""",
            ),
        ),
        (16, 16),
        """\
f.tile:12:5: error: every thread of the CTA would announce these bytes
    tile.mbarrier.arrive.expect_tx %full, 512
    ^
hint: put arrive.expect_tx and its copies into tile.single_thread { ... }""",
    ),
    Case(
        "copied by all",
        "scope",
        COPY,
        (
            (
                "    tile.fence proxy_async\n",
                """\
    tile.copy_async %A[%m, %n] to %a dispatch tma signal %full
    tile.fence proxy_async
""",
            ),
        ),
        (16, 16),
        """\
f.tile:15:5: error: every thread of the CTA would issue this copy
    tile.copy_async %A[%m, %n] to %a dispatch tma signal %full
    ^
hint: put it into tile.single_thread { ... }""",
    ),
    Case(
        "groups by all",
        "scope",
        COPY,
        (("    tile.fence proxy_async\n", "    tile.bulk.commit_group\n    tile.fence proxy_async\n"),),
        (16, 16),
        """\
f.tile:15:5: error: bulk groups belong to the thread that issued the stores
    tile.bulk.commit_group
    ^
hint: put it into tile.single_thread { ... }, where the stores are issued""",
    ),
    Case(
        "sync by one",
        "scope",
        COPY,
        (("      tile.bulk.commit_group\n", "      tile.bulk.commit_group\n      tile.cta_sync\n"),),
        (16, 16),
        """\
f.tile:20:7: error: one thread alone would wait here for ever
      tile.cta_sync
      ^
hint: move tile.cta_sync out of tile.single_thread""",
    ),
    Case(
        "store by one",
        "scope",
        COPY,
        (("    tile.store %r to %b\n", "    tile.single_thread {\n      tile.store %r to %b\n    }\n"),),
        (16, 16),
        """\
f.tile:15:7: error: tile.store belongs to all threads of its role
      tile.store %r to %b
      ^
hint: move tile.store out of tile.single_thread""",
    ),
    Case(
        "stage",
        "stage",
        GEMM,
        (("%other = arith.subi %c1, %s : index", "%other = arith.addi %c1, %s : index"),),
        (16, 48),
        """\
f.tile:23:12: error: stage 2 of %ring, which has 2
      %a = tile.slot %ring[%s]
           ^
hint: stages run from 0 to 1: wrap the stage where it reaches 2""",
        ctas=1,
    ),
    Case(
        "off the grid",
        "tma",
        COPY,
        (
            ("%A[%m, %n]", "%A[%m, %n4]"),
            (
                "    %p0 = arith",
                """\
    %c4 = arith.constant 4 : index
    %n4 = arith.addi %n, %c4 : index
    %p0 = arith""",
            ),
        ),
        (16, 16),
        """\
f.tile:12:7: error: this TMA copy starts at element 4 of dimension 1 of %A, the contiguous one: byte 8 is off the 16-byte grid, an illegal instruction on hardware
      tile.copy_async %A[%m, %n4] to %a dispatch tma signal %full
      ^
hint: start at a multiple of 8 elements, or use dispatch threads""",
    ),
    Case(
        "past the edge",
        "tma",
        COPY,
        (),
        (16, 22),
        """\
f.tile:18:7: error: this TMA store writes 4 bytes past the edge of %D in each row: stores are clipped in units of 16 bytes, and dimension 1 has 22 elements, 44 bytes
      tile.copy_async %b to %D[%m, %n] dispatch tma
      ^
hint: give %D an extent that is a multiple of 8 elements, or say `tail = free` in its type and use dispatch threads""",
    ),
    Case(
        "never stored",
        "tiles",
        GEMM,
        (
            (
                "%next_turn = arith.addi %turn, %c1",
                """\
%c2 = arith.constant 2 : index
    %next_turn = arith.addi %turn, %c2""",
            ),
        ),
        (64, 16),
        """\
f.tile:17:22: error: the tile at (32, 0) of %D is never stored, or not all of it
    %valid, %m, %n = tile.schedule %turn over %D step (16, 16) group 8
                     ^
hint: each turn stores the whole tile that its tile.schedule names, and turns count from 0 in steps of 1""",
        ctas=2,
    ),
    Case(
        "stored twice",
        "tiles",
        GEMM,
        (("to %D[%m, %n] dispatch", "to %D[%c16, %n] dispatch"),),
        (64, 16),
        """\
f.tile:52:7: error: the tile at (16, 0) of %D is stored by turn 0 of CTA 0 and turn 1 of CTA 0
      tile.copy_async %d to %D[%c16, %n] dispatch tma
      ^
hint: each tile of the schedule is stored in the turn that visits it: use the offsets of that turn's tile.schedule""",
        ctas=2,
    ),
    Case(
        "two ctas",
        "ctas",
        COPY,
        (
            ("to %D[%m, %n] dispatch", "to %D[%c0, %n] dispatch"),
            ("    %p0 = arith", "    %c0 = arith.constant 0 : index\n    %p0 = arith"),
        ),
        (32, 16),
        """\
f.tile:19:7: error: CTA 0 stores and CTA 1 stores (0, 0) of %D: nothing orders two CTAs of a launch
      tile.copy_async %b to %D[%c0, %n] dispatch tma
      ^
hint: let each CTA store its own part, and load nothing that another one stores
f.tile:19:7: note: the other CTA's store
      tile.copy_async %b to %D[%c0, %n] dispatch tma
      ^""",
    ),
    Case(
        "another cta's store is read",
        "ctas",
        IN_PLACE,
        (
            ("%A[%m, %n] to", "%D[%c0, %n] to"),
            ("    %p0 = arith", "    %c0 = arith.constant 0 : index\n    %p0 = arith"),
        ),
        (32, 16),
        """\
f.tile:11:7: error: CTA 0 stores and CTA 1 loads (0, 0) of %D: nothing orders two CTAs of a launch
      tile.copy_async %D[%c0, %n] to %a dispatch tma signal %full
      ^
hint: let each CTA store its own part, and load nothing that another one stores
f.tile:19:7: note: the other CTA's store
      tile.copy_async %b to %D[%m, %n] dispatch tma
      ^""",
    ),
    Case(
        "another cta's load is overwritten",
        "ctas",
        IN_PLACE,
        (
            ("%A[%m, %n] to", "%D[%up, %n] to"),
            (
                "    %p0 = arith",
                """\
    %c16 = arith.constant 16 : index
    %up = arith.addi %m, %c16 : index
    %p0 = arith""",
            ),
        ),
        (32, 16),
        """\
f.tile:20:7: error: CTA 0 loads and CTA 1 stores (16, 0) of %D: nothing orders two CTAs of a launch
      tile.copy_async %b to %D[%m, %n] dispatch tma
      ^
hint: let each CTA store its own part, and load nothing that another one stores""",
    ),
    Case(
        "store overtakes store",
        "race",
        COPY,
        (
            (
                "      tile.bulk.commit_group\n",
                """\
      tile.bulk.commit_group
      tile.copy_async %b to %D[%m, %n] dispatch tma
      tile.bulk.commit_group
""",
            ),
        ),
        (16, 16),
        """\
f.tile:20:7: error: this store touches what an earlier TMA store writes to %D, and nothing has waited for that write
      tile.copy_async %b to %D[%m, %n] dispatch tma
      ^
hint: the issuing thread waits first, `tile.bulk.wait_group 0` without `read`, then `tile.cta_sync` tells the other threads
f.tile:18:7: note: the store
      tile.copy_async %b to %D[%m, %n] dispatch tma
      ^""",
    ),
    Case(
        "threads store twice",
        "race",
        COPY,
        (
            (
                "    tile.single_thread {\n      tile.copy_async %b",
                """\
    tile.copy_async %b to %D[%m, %n] dispatch threads
    tile.copy_async %a to %D[%m, %n] dispatch threads
    tile.single_thread {
      tile.copy_async %b""",
            ),
        ),
        (16, 16),
        """\
f.tile:18:5: error: this store touches what threads have stored to %D, and nothing orders it after that
    tile.copy_async %a to %D[%m, %n] dispatch threads
    ^
hint: put `tile.cta_sync` between the two
f.tile:17:5: note: the store by threads
    tile.copy_async %b to %D[%m, %n] dispatch threads
    ^""",
    ),
    Case(
        "store overtakes load",
        "race",
        IN_PLACE,
        (
            ("%A[%m, %n] to", "%D[%m, %n] to"),
            (
                """\
    tile.mbarrier.try_wait %full, %p0
    %r = tile.load %a : !tile.reg<16x16xf16>
""",
                "    %r = tile.splat 1.0 : !tile.reg<16x16xf16>\n",
            ),
            (
                "      tile.bulk.wait_group 0\n    }\n",
                """\
      tile.bulk.wait_group 0
    }
    tile.mbarrier.try_wait %full, %p0
""",
            ),
        ),
        (16, 16),
        """\
f.tile:17:7: error: this store to %D may overtake an earlier load from the same place
      tile.copy_async %b to %D[%m, %n] dispatch tma
      ^
hint: wait for the load first
f.tile:10:7: note: the load
      tile.copy_async %D[%m, %n] to %a dispatch tma signal %full
      ^""",
    ),
    Case(
        "outstanding",
        "race",
        GEMM,
        (("try_wait %done, %mma", "try_wait %done, %mma outstanding 1"),),
        (16, 16),
        """\
f.tile:32:7: error: this wait leaves 1 commit outstanding, but only 0 came after the one that it is for
      tile.mbarrier.try_wait %done, %mma outstanding 1
      ^
hint: write `outstanding 0` at most: on sm_90a the wait would return before its MMAs are complete""",
        ctas=1,
    ),
    Case(
        "budget for nothing",
        "deadlock",
        COPY,
        (("      tile.copy_async %A[%m, %n] to %a dispatch tma signal %full\n", ""),),
        (16, 16),
        """\
f.tile:9:7: error: %full[0] announces 512 bytes, but no copy signals it: the wait at line 11 never ends
      tile.mbarrier.arrive.expect_tx %full, 512
      ^
hint: let the copies of the round signal %full[0], or announce nothing
f.tile:11:5: note: the wait for parity 0
    tile.mbarrier.try_wait %full, %p0
    ^""",
    ),
    Case(
        "an arrival in place of the announcement",
        "deadlock",
        GEMM,
        (("tile.mbarrier.arrive.expect_tx %full[%s], 512", "tile.mbarrier.arrive %full[%s]"),),
        (16, 16),
        """\
f.tile:28:7: error: this wait for parity 0 never ends: round 0 of %full[0] has 1 of 1 arrivals and 512 of 0 announced bytes
      tile.mbarrier.try_wait %full[%s], %tma
      ^
hint: copies of 512 bytes signal this round, but nobody has announced them: `tile.mbarrier.arrive.expect_tx` comes with them, once a round
f.tile:25:9: note: round 0 of %full[0]: an arrival
        tile.mbarrier.arrive %full[%s]
        ^
f.tile:26:9: note: round 0 of %full[0]: a load into %ring[0] brings 512 bytes
        tile.copy_async %A[%m, %k] to %a dispatch tma signal %full[%s]
        ^""",
        ctas=1,
    ),
    Case(
        "no commit, in a ring",
        "deadlock",
        GEMM,
        (
            ("      tile.commit %done\n", ""),
            (
                "%done = tile.mbarrier.init count 1 : !tile.mbarrier<1>",
                "%done = tile.mbarrier.init count 1 : !tile.mbarrier<2>",
            ),
            ("try_wait %done, %mma", "try_wait %done[%s], %mma"),
        ),
        (16, 16),
        """\
f.tile:31:7: error: this wait for parity 0 never ends: round 0 of %done[0] has 0 of 1 arrivals
      tile.mbarrier.try_wait %done[%s], %mma
      ^
hint: no tile.commit names %done: put `tile.commit %done[%s]` behind the MMA at line 30
f.tile:30:7: note: the MMA, which nothing commits
      tile.mma %acc, %a, %a accumulate %live
      ^""",
        ctas=1,
    ),
    Case(
        "wait in front of the load",
        "deadlock",
        COPY,
        (("    tile.single_thread {\n", "    tile.mbarrier.try_wait %full, %p0\n    tile.single_thread {\n"),),
        (16, 16),
        """\
f.tile:8:5: error: this wait for parity 0 never ends: round 0 of %full[0] has 0 of 1 arrivals
    tile.mbarrier.try_wait %full, %p0
    ^
hint: nobody arrives on round 0 of %full[0] before this wait: the copies, or the commit, that complete it come first""",
    ),
    Case(
        "load not waited, no loop",
        "race",
        COPY,
        (("    tile.mbarrier.try_wait %full, %p0\n", ""),),
        (16, 16),
        """\
f.tile:12:10: error: no wait orders this read of %a after the TMA load into %a
    %r = tile.load %a : !tile.reg<16x16xf16>
         ^
hint: wait for round 0 of %full[0] first: `tile.mbarrier.try_wait` with parity 0
f.tile:10:7: note: the TMA load into %a, whose bytes count in round 0 of %full[0]
      tile.copy_async %A[%m, %n] to %a dispatch tma signal %full
      ^""",
    ),
    Case(
        "fence in front of the wait",
        "race",
        GEMM,
        (
            (
                "      tile.mbarrier.try_wait %full[%s], %tma\n      tile.fence after_thread_sync // loaded\n",
                "      tile.fence after_thread_sync // loaded\n      tile.mbarrier.try_wait %full[%s], %tma\n",
            ),
        ),
        (16, 16),
        """\
f.tile:30:7: error: no fence after_thread_sync orders this MMA's read of %ring[0] after the wait for the TMA load into %ring[0]
      tile.mma %acc, %a, %a accumulate %live
      ^
hint: the fence at line 28 stands in front of the wait at line 29; put it behind: tensor-core operations are ordered after what the threads know at their last such fence, and after nothing else
f.tile:26:9: note: the TMA load into %ring[0], whose bytes count in round 0 of %full[0]
        tile.copy_async %A[%m, %k] to %a dispatch tma signal %full[%s]
        ^
f.tile:29:7: note: the wait
      tile.mbarrier.try_wait %full[%s], %tma
      ^""",
        ctas=1,
    ),
    Case(
        "fence in front of the barrier",
        "race",
        GEMM,
        (
            ("  tile.fence after_thread_sync // free\n", ""),
            (
                "    tile.fence before_thread_sync\n",
                "    tile.fence before_thread_sync\n    tile.fence after_thread_sync\n    tile.fence proxy_async\n",
            ),
        ),
        (16, 16),
        """\
f.tile:63:3: error: no fence after_thread_sync orders giving back %acc after the read of %acc
  tile.free %acc
  ^
hint: the fence at line 50 stands in front of the cta_sync at line 52; put it behind: tensor-core operations are ordered after what the threads know at their last such fence, and after nothing else
f.tile:41:10: note: the read of %acc
    %r = tile.copy_async %acc dispatch tmem : !tile.reg<16x16xf32>
         ^""",
        ctas=1,
    ),
    Case(
        "more loads than its loop waits for",
        "in flight",
        COPY,
        (
            (
                "    tile.mbarrier.try_wait %full, %p0\n    %r = tile.load %a : !tile.reg<16x16xf16>\n",
                """\
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    scf.for %i = %c0 to %c0 step %c1 {
      tile.mbarrier.try_wait %full, %p0
    }
    %r = tile.splat 1.0 : !tile.reg<16x16xf16>
""",
            ),
        ),
        (16, 16),
        """\
f.tile:10:7: error: the CTA ends before this TMA load, which completes on round 0 of %full[0], has been waited for
      tile.copy_async %A[%m, %n] to %a dispatch tma signal %full
      ^
hint: guard it: issue only for the steps that the loop at line 14, which waits, comes to (%i < %c0): the engine would write into the shared memory of the next CTA""",
    ),
    Case(
        "more loads than its open loop waits for",
        "in flight",
        COPY,
        (
            (
                "    tile.mbarrier.try_wait %full, %p0\n    %r = tile.load %a : !tile.reg<16x16xf16>\n",
                """\
    %no = arith.constant false
    scf.while () : () -> () {
      scf.condition(%no)
    } do {
      tile.mbarrier.try_wait %full, %p0
      scf.yield
    }
    %r = tile.splat 1.0 : !tile.reg<16x16xf16>
""",
            ),
        ),
        (16, 16),
        """\
f.tile:10:7: error: the CTA ends before this TMA load, which completes on round 0 of %full[0], has been waited for
      tile.copy_async %A[%m, %n] to %a dispatch tma signal %full
      ^
hint: guard it: issue only for the steps that the loop at line 13, which waits, comes to: the engine would write into the shared memory of the next CTA""",
    ),
    Case(
        "the wait for a load finds the round before",
        "in flight",
        COPY,
        (
            (
                "    tile.single_thread {\n",
                "    %c0 = arith.constant 0 : index\n    %c1 = arith.constant 1 : index\n    %c2 = arith.constant 2 : index\n    scf.for %i = %c0 to %c2 step %c1 {\n    tile.single_thread {\n",
            ),
            (
                "    %r = tile.load %a : !tile.reg<16x16xf16>\n",
                "    }\n    %r = tile.splat 1.0 : !tile.reg<16x16xf16>\n",
            ),
        ),
        (16, 16),
        """\
f.tile:14:7: error: the CTA ends before this TMA load, which completes on round 1 of %full[0], has been waited for
      tile.copy_async %A[%m, %n] to %a dispatch tma signal %full
      ^
hint: wait for it with parity 1, or do not issue it: the engine would write into the shared memory of the next CTA""",
    ),
    Case(
        "another accumulator not written",
        "uninitialised",
        GEMM,
        (
            ("    %r = tile.copy_async %acc", "    %r = tile.copy_async %other_acc"),
            ("  %full =", "  %other_acc = tile.alloc : !tile.acc<16x16xf32>\n  %full ="),
        ),
        (16, 16),
        """\
f.tile:42:10: error: this read of %other_acc finds what no MMA has written
    %r = tile.copy_async %other_acc dispatch tmem : !tile.reg<16x16xf32>
         ^
hint: no MMA has written %other_acc here. Where that may be (K = 0), branch on whether there was an MMA, and store zeros without reading the accumulator
f.tile:5:16: note: %other_acc is allocated here
  %other_acc = tile.alloc : !tile.acc<16x16xf32>
               ^""",
        ctas=1,
    ),
]


@pytest.mark.parametrize("program", [GEMM, COPY], ids=["gemm", "copy"])
def test_nothing_is_wrong_to_begin_with(program: str) -> None:
    execute(program, (), (48, 48), None)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_text_of(case: Case) -> None:
    with pytest.raises(Fault) as caught:
        execute(case.program, case.edits, case.shape, case.ctas)
    assert str(caught.value) == case.expected
    assert caught.value.kind == case.kind


def test_a_trace_tells_what_happened_oldest_first() -> None:
    with pytest.raises(Fault) as caught:
        execute(
            GEMM,
            (("scf.yield %next_turn, %last#1, %last#2, %last#3", "scf.yield %next_turn, %c0, %p0, %p0"),),
            (32, 48),
            1,
        )
    assert [f"{step.location}: {step.text}" for step in caught.value.trace] == [
        "f.tile:25:9: round 0 of %full[1]: 512 bytes are announced",
        "f.tile:26:9: round 0 of %full[1]: a load into %ring[1] brings 512 bytes",
        "f.tile:28:7: a wait for parity 0 of %full[1] blocks on round 0",
        "f.tile:30:7: MMA 2 reads %ring[1]",
        "f.tile:25:9: round 1 of %full[1]: 512 bytes are announced",
        "f.tile:26:9: round 1 of %full[1]: a load into %ring[1] brings 512 bytes",
        "f.tile:28:7: a wait for parity 0 of %full[1] finds round 0 complete",
    ]


def test_a_trace_is_short() -> None:
    with pytest.raises(Fault) as caught:
        execute(GEMM, (("  tile.free %acc\n", ""),), (16, 1600), 1)
    assert len(caught.value.trace) == 12


def test_a_store_past_the_edge_does_its_damage() -> None:
    buffer = np.zeros((20, 40), np.float16)
    a = np.arange(1, 1 + 18 * 22, dtype=np.float16).reshape(18, 22)
    with pytest.raises(Fault, match="writes 4 bytes past the edge of %D in each row"):
        run(parse_text(COPY), [a, buffer[1:19, 4:26]])
    # The second tile of the first row is cut at column 22, and its next two columns, which are zero in it, are written.
    assert np.array_equal(buffer[1:17, 4:26], a[:16])
    buffer[1:17, 4:26] = 0
    assert not buffer.any()
    buffer[...] = 7
    with pytest.raises(Fault):
        run(parse_text(COPY), [a, buffer[1:19, 4:26]])
    assert (buffer[1:17, 26:28] == 0).all()
    buffer[1:17, 4:28] = 7
    assert (buffer == 7).all()


def test_a_store_past_the_end_of_an_array_touches_nothing() -> None:
    with pytest.raises(Fault, match="writes 4 bytes past the edge of %D in each row"):
        execute(COPY, (), (16, 22), None)
