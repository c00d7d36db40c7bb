"""Failures that users of similar compilers met, kinds D to I: accumulators, pipelining, mbarriers, persistent loops, stores, fences.

Each docstring says what went wrong and where it was reported. Inputs are small whole numbers, so that every order of
summation gives the same sum; the simulator fails at any race, deadlock or read of what has not arrived.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from gemm_text import gemm
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tilec.backend.abi import GridRule
from tilec.backend.protocol import check
from tilec.backend.reference import Array, schedule
from tilec.backend.runtime.launch import count_ctas
from tilec.backend.simulator import Fault, FaultKind, run
from tilec.context import make_context
from tilec.diagnostics import TilecError, collect
from tilec.dialects import tile
from tilec.driver import compile_module, run_pass
from tilec.source import parse_file, parse_text
from tilec.spec import parse_pipeline

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TARGETS = ("sm_90a", "sm_100a")
FILLED = -999
"""What outputs hold before a run; no program computes it."""


def built(text: str, pipeline: str) -> ModuleOp:
    """The asynchronous program (L1) that passes make of a text."""
    module = parse_text(text, "f.tile")
    with collect():
        for one in parse_pipeline(pipeline):
            run_pass(one, module, make_context())
    return module


def ptx_of(text: str, pipeline: str, target: str) -> str:
    with collect():
        return compile_module(parse_text(text, "f.tile"), pipeline=pipeline, target=target).ptx


def gemm_arrays(m: int, n: int, k: int, out: type[np.generic] = np.float16) -> list[Array]:
    rng = np.random.default_rng(m + n + k)
    a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((m, k), (n, k)))
    return [a, b, np.full((m, n), FILLED, out)]


def product(arrays: Sequence[Array]) -> Array:
    a, b, d = arrays
    return (a.astype(np.float32) @ b.astype(np.float32).T).astype(d.dtype)


def simulate_gemm(module: ModuleOp, m: int, n: int, k: int, ctas: int | None = None) -> None:
    arrays = gemm_arrays(m, n, k)
    run(module, arrays, ctas=ctas)
    np.testing.assert_array_equal(arrays[2], product(arrays))


def changed(text: str, pattern: str, replacement: str, count: int = 1) -> str:
    text, done = re.subn(pattern, replacement, text, count=count)
    assert done, pattern
    return text


def fault(module: ModuleOp, arrays: list[Array], ctas: int | None = None) -> tuple[FaultKind, str, str]:
    """What a run ends with: its kind, its message and the source line that it points at."""
    with pytest.raises(Fault) as caught:
        run(module, arrays, ctas=ctas)
    found = caught.value.diagnostic
    return caught.value.kind, found.message, found.render().splitlines()[1].strip()


# D. Accumulator initialisation


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("k", [64, 128])
def test_only_the_first_instruction_of_the_first_k_tile_overwrites(target: str, k: int) -> None:
    """The flag that forbids to accumulate stood on each instruction of a tile, not on the first along K alone.

    triton-lang/triton#6060. The numbers of single instructions need an emulator; here their flags are read off the PTX.
    """
    ptx = ptx_of(gemm(64, 64, k, out="f32"), "tma,pipeline(2)", target)
    steps = k // 16
    if target == "sm_90a":
        assert re.findall(r"wgmma\.mma_async\S* \{[^}]*\}, \S+, \S+, (p|1), 1, 1", ptx) == ["p"] + ["1"] * (steps - 1)
    else:
        flags = re.findall(r"tcgen05\.mma\S* \[\S+\], \S+, \S+, \S+, (%p\d+);", ptx)
        may_be_false = set(re.findall(r"mov\.pred\s+(%p\d+), 0;", ptx))
        assert [flag in may_be_false for flag in flags] == [True] + [False] * (steps - 1)
    ones = [np.ones((64, 64), np.float16), np.ones((64, 64), np.float16), np.full((64, 64), FILLED, np.float32)]
    run(built(gemm(64, 64, k, out="f32"), "tma,pipeline(2)"), ones)
    assert (ones[2] == 64).all()


TWO_MMAS = """
tile.kernel @f(%A: !tile.view<MxKxf16>, %B: !tile.view<NxKxf16>, %C: !tile.view<MxKxf16>, %E: !tile.view<NxKxf16>,
               %D: !tile.view<MxNxf32>) {
  tile.grid (%m, %n) over %D step (64, 32) {
    %a = tile.alloc : !tile.smem<64x16xf16>
    %b = tile.alloc : !tile.smem<32x16xf16>
    %c = tile.alloc : !tile.smem<64x16xf16>
    %e = tile.alloc : !tile.smem<32x16xf16>
    %acc = tile.alloc : !tile.acc<64x32xf32>
    tile.for %k over %A dim 1 step 16 {
      tile.copy %A[%m, %k] to %a
      tile.copy %B[%n, %k] to %b
      tile.copy %C[%m, %k] to %c
      tile.copy %E[%n, %k] to %e
      tile.mma %acc, %a, %b
      tile.mma %acc, %c, %e
    }
    tile.copy %acc to %D[%m, %n]
  }
}
"""


@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("iterations", [1, 2, 3])
def test_the_second_mma_of_an_iteration_adds_to_the_first(stages: int, iterations: int) -> None:
    """Of two MMAs in a row on one accumulator, the second was thought to meet the zero from before the loop still.

    triton-lang/triton#10858.
    """
    module = built(TWO_MMAS, f"tma(0),pipeline({stages})")
    first, second = (op for op in module.walk() if isinstance(op, tile.MmaOp))
    assert first.accumulate is not None and second.accumulate is not None
    assert isinstance(second.accumulate.owner, Operation) and second.accumulate.owner.name == "arith.constant"
    a, b, _ = gemm_arrays(64, 32, 16 * iterations)
    c, e = a + 1, b - 1
    d = np.full((64, 32), FILLED, np.float32)
    run(module, [a, b, c, e, d])
    np.testing.assert_array_equal(d, product([a, b, d]) + product([c, e, d]))


@pytest.mark.parametrize("k_tiles", [1, 2, 5])
def test_nothing_depends_on_what_memory_held_before(k_tiles: int) -> None:
    """The accumulator was never zeroed before the first multiply.

    HazyResearch/ThunderKittens#141. The simulator fills shared and tensor memory with NaN; with one CTA, the second tile
    meets what the first one left.
    """
    simulate_gemm(built(gemm(64, 32, 16), "tma(0),pipeline(2),persistent"), 128, 32, 16 * k_tiles, ctas=1)
    leftover = changed(
        (EXAMPLES / "step6_persistent.tile").read_text(), "arith.cmpi ne, %k, %zero", "arith.cmpi eq, %k, %k"
    )
    assert fault(parse_text(leftover, "f.tile"), gemm_arrays(128, 128, 64 * k_tiles), ctas=1) == (
        "uninitialised",
        "this MMA adds to %acc, which holds nothing yet",
        "tile.mma %acc, %a, %b accumulate %accumulate",
    )


# E. Short loops, dependences, the shared-memory budget


@pytest.mark.parametrize(("stages", "most"), [(4, 3), (5, 5)])
def test_a_loop_shorter_than_the_ring_computes_each_k_tile_once(stages: int, most: int) -> None:
    """With fewer iterations than the pipeline's fill, prologue and epilogue covered the same iterations.

    apache/tvm#17579, tile-ai/tilelang#3072. Tile i of K counts 8 to the i, so that the digits of the sum are how often each
    tile was multiplied; a load too many would not be waited for, or read outside K.
    """
    for k_tiles in range(1, most + 1):
        text = gemm(64, 32, 16, out="f32").replace("MxK", f"Mx{16 * k_tiles}").replace("NxK", f"Nx{16 * k_tiles}")
        for lag in (0, 1):
            a = np.zeros((64, 16 * k_tiles), np.float16)
            a[:, ::16] = 8 ** np.arange(k_tiles)
            arrays: list[Array] = [a, np.ones((32, 16 * k_tiles), np.float16), np.full((64, 32), FILLED, np.float32)]
            report = run(built(text, f"tma(0),pipeline({stages}, {lag})"), arrays)
            assert (arrays[2] == sum(8**i for i in range(k_tiles))).all()
            assert report.mmas == k_tiles
            assert report.bytes_loaded == sum(array.nbytes for array in arrays[:2])


READ_THEN_REFILL = """
tile.kernel @f(%A: !tile.view<MxKxf32>, %D: !tile.view<MxNxf32>) {
  tile.grid (%m, %n) over %D step (64, 32) {
    %s = tile.alloc : !tile.smem<64x32xf32>
    %zero = tile.splat 0.0 : !tile.reg<64x32xf32>
    %c0 = arith.constant 0 : index
    %c32 = arith.constant 32 : index
    tile.copy %A[%m, %c0] to %s
    %sum = tile.for %k over %A dim 1 step 32 iter_args(%x = %zero) {
      %t = tile.load %s : !tile.reg<64x32xf32>
      %twice = tile.add %x, %x
      %y = tile.add %twice, %t
      %next = arith.addi %k, %c32 : index
      tile.copy %A[%m, %next] to %s
      tile.yield %y : !tile.reg<64x32xf32>
    }
    tile.copy %sum to %D[%m, %n]
  }
}
"""
REFILL_THEN_READ = """
tile.kernel @f(%A: !tile.view<MxKxf32>, %D: !tile.view<MxNxf32>) {
  tile.grid (%m, %n) over %D step (64, 32) {
    %s = tile.alloc : !tile.smem<64x32xf32>
    %zero = tile.splat 0.0 : !tile.reg<64x32xf32>
    %sum = tile.for %k over %A dim 1 step 32 iter_args(%x = %zero) {
      tile.copy %A[%m, %k] to %s
      %t = tile.load %s : !tile.reg<64x32xf32>
      %twice = tile.add %x, %x
      %y = tile.add %twice, %t
      tile.yield %y : !tile.reg<64x32xf32>
    }
    tile.copy %sum to %D[%m, %n]
  }
}
"""


@pytest.mark.parametrize("text", [READ_THEN_REFILL, REFILL_THEN_READ], ids=["read-then-refill", "refill-then-read"])
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("first", ["tma(0)", "threads"])
def test_a_tile_is_not_refilled_before_it_has_been_read(text: str, stages: int, first: str) -> None:
    """A loop that reads a shared tile and then refills it was reordered, so that the refill came first.

    tile-ai/tilelang#2668. Each iteration doubles the sum before it adds, so that the order of the tiles matters.
    """
    a = np.random.default_rng(1).integers(-2, 3, (64, 32 * 8)).astype(np.float32)
    expected = np.zeros((64, 32), np.float32)
    for k in range(8):
        expected = 2 * expected + a[:, 32 * k : 32 * k + 32]
    d = np.full((64, 32), FILLED, np.float32)
    run(built(text, f"{first},pipeline({stages})"), [a, d])
    np.testing.assert_array_equal(d, expected)


@pytest.mark.parametrize("target", TARGETS)
def test_no_descriptor_is_made_in_the_loop(target: str) -> None:
    """A descriptor built inside the K loop made the pipeliner fail, without a place in the program.

    triton-lang/triton#10229. The dialect has no such operation: a view is an argument, and its tensor map a parameter that
    the host encodes. What is left: a place that depends on the loop's index is pipelined, and maps are made ready once.
    """
    text = changed(
        gemm(64, 32, 64), "tile.copy %B.*", "%next = arith.addi %k, %c64 : index\n tile.copy %B[%n, %next] to %b"
    )
    text = changed(text, "  tile.grid", "  %c64 = arith.constant 64 : index\n  tile.grid")
    ptx = ptx_of(text, "tma,pipeline(2)", target)
    head, loop = ptx.split("mbarrier.try_wait", 1)
    assert head.count("tensormap") == head.count("prefetch.param.tensormap") == 3
    assert "tensormap" not in loop and "cp.async.bulk.tensor" in loop
    arrays = gemm_arrays(64, 32, 192)
    run(built(text, "tma,pipeline(2)"), arrays)
    a, b, d = arrays
    np.testing.assert_array_equal(d, product([a[:, :128], b[:, 64:], d]))


def test_one_plan_of_shared_memory_for_the_check_and_the_launch() -> None:
    """The estimate that chose the number of stages forgot part of the epilogue; the launch failed.

    triton-lang/triton#11648. A stage of a 128x256x64 tile of bf16 takes 49152 bytes, four slots of staging 65536.
    """
    text = gemm(128, 256, 64, dtype="bf16", out="bf16")
    abi = compile_module(parse_text(text), pipeline="tma(staging=4),pipeline(3)", target="sm_90a").abi
    needed = sum(block.size for block in abi.smem) + sum(8 * barrier.stages for barrier in abi.barriers)
    assert 212992 < needed == abi.smem_bytes < 232448
    with pytest.raises(TilecError) as error:
        compile_module(parse_text(text), pipeline="tma(staging=4),pipeline(4)", target="sm_90a")
    message, hint = error.value.diagnostic.message, error.value.diagnostic.hint
    assert message == f"4 stages need {needed + 49152 + 8} bytes of shared memory, a CTA of sm_90a has 232448"
    assert hint == "the deepest ring that fits: pipeline(3)"


# F. Phases, bytes, hangs


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_phases_go_on_from_tile_to_tile(stages: int) -> None:
    """A barrier's phase restarted with each tile of a persistent kernel, although the barrier did not.

    tile-ai/tilelang#2674. Right only for one tile, or where K_TILES is a multiple of twice the stages.
    """
    module = built(gemm(64, 16, 16), f"tma(0),pipeline({stages}),persistent")
    for k_tiles in range(10):
        for tiles in (1, 2, 3):
            simulate_gemm(module, 64, 16 * tiles, 16 * k_tiles, ctas=1)
    assert check(module).status == "proved"


def deeper(text: str, stages: int) -> str:
    """The lesson's step 5 or 6 with a ring of another depth."""
    for old, new in (
        ("tile.ring<2", f"tile.ring<{stages}"),
        ("mbarrier<2>", f"mbarrier<{stages}>"),
        ("%depth = arith.constant 2", f"%depth = arith.constant {stages}"),
        ("%last_stage = arith.constant 1", f"%last_stage = arith.constant {stages - 1}"),
        ("%ahead = arith.constant 128", f"%ahead = arith.constant {64 * stages}"),
    ):
        text = changed(text, re.escape(old), new, count=0)
    return text


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_the_parity_of_a_barrier_follows_its_own_rounds(stages: int) -> None:
    """The barrier of the MMA, one slot, was waited for with the ring's parity: the wait returned early.

    tile-ai/tilelang#3087. A stage was overwritten while the MMA still read it.
    """
    text = deeper((EXAMPLES / "step5_pipeline.tile").read_text(), stages)
    simulate_gemm(parse_text(text), 128, 128, 64 * 8)
    by_the_ring = changed(text, "try_wait %mma_bar, %phase_mma", "try_wait %mma_bar, %phase_tma")
    kind, message, line = fault(parse_text(by_the_ring, "f.tile"), gemm_arrays(128, 128, 64 * 8))
    assert (kind, line) == ("race", "tile.copy_async %A[%m, %next_k] to %a dispatch tma signal %tma_bar[%stage]")
    assert message == "no wait orders this TMA load into %Asmem[1] after the MMA that reads %Asmem[1]"
    assert check(parse_text(text)).status == "proved"
    assert check(parse_text(by_the_ring)).status == "refuted"


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("last", ["", ",persistent"])
def test_one_iteration_is_an_ordinary_case(stages: int, last: str) -> None:
    """A pipelined loop of exactly one iteration hung.

    tile-ai/tilelang#2566, triton-lang/triton#2868. There are no warp roles in the dialect yet.
    """
    simulate_gemm(built(gemm(64, 16, 16), f"tma(0),pipeline({stages}){last}"), 64, 32, 16, ctas=1)


def test_a_hang_is_told_and_not_waited_for() -> None:
    """A simulator that spins tells nobody who waits, on which barrier and for which phase (tile-ai/tilelang#2566)."""
    text = changed((EXAMPLES / "step5_pipeline.tile").read_text(), "tile.commit %mma_bar", "")
    kind, message, line = fault(parse_text(text, "f.tile"), gemm_arrays(128, 128, 64))
    assert (kind, line) == ("deadlock", "tile.mbarrier.try_wait %mma_bar, %phase_mma")
    assert message == "this wait for parity 0 never ends: round 0 of %mma_bar[0] has 0 of 1 arrivals"


@pytest.mark.parametrize(
    "pipeline", ["tma(0),persistent", "tma(0),pipeline(3),persistent", "threads,pipeline(2),persistent"]
)
def test_tiles_without_k_are_zero_and_leave_the_barriers_alone(pipeline: str) -> None:
    """With no K tile the consumer waited for its first stage, for which nobody issued a load.

    facebookexperimental/triton#1141. The tiles of one launch have one K here: extents of their own do not exist yet, nor do
    roles. What does: no K at all, over several tiles of a CTA.
    """
    module = built(gemm(64, 16, 16), pipeline)
    simulate_gemm(module, 128, 48, 0, ctas=1)
    assert check(module).status == "proved"


# G. Persistent loop and scheduler


def test_host_and_device_count_the_same_tiles() -> None:
    """The host rounded the number of tiles differently once grouping was on, so that part of the output was never computed.

    NVIDIA/cutlass#3497.
    """
    rule = GridRule(0, (128, 128), persistent=False)
    for m in range(1, 13):
        for n in range(1, 13):
            tiles = count_ctas(rule, (128 * m - 5, 128 * n - 127), 0, None)
            for group in (1, 2, 3, 4, 8, 16):
                for ctas in {1, max(tiles - 1, 1), tiles, tiles + 1, 132}:
                    turns = -(-tiles // ctas)
                    visits = [
                        schedule(turn, cta, ctas, m, n, group) for cta in range(ctas) for turn in range(turns + 1)
                    ]
                    assert Counter(visit[1:] for visit in visits if visit[0]) == Counter(
                        (i, j) for i in range(m) for j in range(n)
                    )


FILL = """
tile.kernel @fill(%D: !tile.view<MxNxf16>) {
  tile.grid (%m, %n) over %D step (64, 8) {
    %one = tile.splat 1.0 : !tile.reg<64x8xf16>
    tile.copy %one to %D[%m, %n]
  }
}
"""


def inside(frame: Array, m: int, n: int) -> Array:
    """The first m x n elements of a larger array."""
    return frame[:m, :n]


@pytest.mark.parametrize(
    ("rows", "columns"), [(8, 8), (9, 9), (10, 10), (12, 12), (13, 2), (20, 3), (5, 7), (1, 9), (9, 1)]
)
def test_the_last_group_takes_the_rows_that_remain(rows: int, columns: int) -> None:
    """Groups whose height does not divide the rows of tiles addressed tiles beyond the grid.

    ROCm/FlyDSL#979.
    """
    m, n = 64 * rows - 3, 8 * columns
    frame = np.full((m + 64, n + 64), FILLED, np.float16)
    run(built(FILL, "threads,persistent(8)"), [inside(frame, m, n)], ctas=7)
    assert (frame[:m, :n] == 1).all()
    assert (frame[m:] == FILLED).all() and (frame[:, n:] == FILLED).all()


def test_the_stride_of_the_loop_is_the_grid_that_was_launched() -> None:
    """The step from one tile of a CTA to the next was a literal count of multiprocessors; other grids left tiles out.

    facebookexperimental/triton#2148. That a tile is visited twice is an error of the simulator's.
    """
    module = built(FILL, "threads,persistent")
    for ctas in (1, 7, 100, 132, 148, 200, 256, 300):
        d = np.full((64 * 16, 8 * 16), FILLED, np.float16)
        run(module, [d], ctas=ctas)
        assert (d == 1).all()


# H. TMA stores and what completes them


@pytest.mark.parametrize("slots", [1, 2, 3, 4])
def test_a_staging_slot_is_not_written_before_its_store_has_read_it(slots: int) -> None:
    """The epilogue started at its first staging buffer in each tile, and overwrote one that was still being stored.

    NVIDIA/cutlass#3636. Four pieces a tile, five tiles of one K tile each.
    """
    module = built(gemm(64, 256, 16), f"tma(staging={slots}),pipeline(2),persistent")
    simulate_gemm(module, 64 * 5, 256, 16, ctas=1)
    assert check(module).status == "proved"


STORE_AND_RELOAD = """
tile.kernel @f(%A: !tile.view<64x64xf16>, %D: !tile.view<64x64xf16>) {
  %zero = arith.constant 0 : index
  %p0 = arith.constant 0 : i32
  %s = tile.alloc : !tile.smem<64x64xf16, swizzle = 128>
  %t = tile.alloc : !tile.smem<64x64xf16, swizzle = 128>
  %full = tile.mbarrier.init count 1 : !tile.mbarrier<1>
  tile.cta_sync
  %one = tile.splat 1.0 : !tile.reg<64x64xf16>
  tile.store %one to %s
  tile.fence proxy_async
  tile.cta_sync
  tile.single_thread {
    tile.copy_async %s to %A[%zero, %zero] dispatch tma
    tile.bulk.commit_group
    tile.bulk.wait_group 0 read
    tile.mbarrier.arrive.expect_tx %full, 8192
    tile.copy_async %A[%zero, %zero] to %t dispatch tma signal %full
  }
  tile.mbarrier.try_wait %full, %p0
  %r = tile.load %t : !tile.reg<64x64xf16>
  tile.store %r to %s
  tile.fence proxy_async
  tile.cta_sync
  tile.single_thread {
    tile.copy_async %s to %D[%zero, %zero] dispatch tma
    tile.bulk.commit_group
    tile.bulk.wait_group 0
  }
}
"""


def test_that_a_store_has_been_read_is_not_that_it_is_done() -> None:
    """A wait that shared memory had been read stood where the stored data had to be visible.

    triton-lang/triton#10415. Flags between CTAs do not exist in the dialect; loading a tile back does.
    """
    arrays = [np.full((64, 64), FILLED, np.float16) for _ in range(2)]
    assert fault(parse_text(STORE_AND_RELOAD, "f.tile"), arrays) == (
        "race",
        "this load touches what an earlier TMA store writes to %A, and nothing has waited for that write",
        "tile.copy_async %A[%zero, %zero] to %t dispatch tma signal %full",
    )
    done = changed(STORE_AND_RELOAD, "wait_group 0 read", "wait_group 0")
    run(parse_text(done), arrays)
    assert (arrays[1] == 1).all()
    with pytest.raises(TilecError, match="this view is read after the kernel has written to it"):
        built(gemm().replace("  }\n}\n", "    tile.copy %D[%m, %n] to %a\n  }\n}\n"), "tma")


@pytest.mark.parametrize("target", TARGETS)
def test_staging_waits_for_reads_and_the_end_for_writes(target: str) -> None:
    """The same, in PTX: the weak wait only before a slot is reused, the full one before the CTA ends."""
    ptx = ptx_of(gemm(), "tma,pipeline(2),persistent", target)
    stores = [m.start() for m in re.finditer(r"cp\.async\.bulk\.tensor\.\S*global\.shared", ptx)]
    weak = [m.start() for m in re.finditer(r"cp\.async\.bulk\.wait_group\.read", ptx)]
    full = [m.start() for m in re.finditer(r"cp\.async\.bulk\.wait_group\s+0", ptx)]
    assert len(stores) == len(weak) == 2 and len(full) == 1
    assert weak[0] < stores[0] < weak[1] < stores[1] < full[0]


def test_what_has_no_result_has_effects() -> None:
    """A TMA store declared no effect, and canonicalisation deleted it as dead.

    llvm/llvm-project#79427. Each operation alone: tests/dialects/test_tile_effects.py.
    """
    for path in sorted(EXAMPLES.glob("step*.tile")):
        module = parse_file(path)

        def effects(module: ModuleOp = module) -> list[str]:
            return [op.name for op in module.walk() if op.dialect_name() == "tile" and not op.results]

        before = effects()
        for one in parse_pipeline("canonicalize,cse,dce"):
            run_pass(one, module, make_context())
        assert effects() == before
        simulate_gemm(module, 128, 128, 192)


# I. Proxy fences


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("pipeline", ["tma", "tma,pipeline(3)", "tma,pipeline(2),persistent"])
def test_writers_fence_and_meet_before_a_tma_store_reads(pipeline: str, target: str) -> None:
    """No fence stood between ordinary writes to shared memory and the TMA store that reads them.

    triton-lang/triton#9610. In the PTX: writes, fence, barrier, store, in this order for each store.
    """
    ptx = ptx_of(gemm(), pipeline, target)
    order = re.findall(
        r"(st\.shared)|(fence\.proxy\.async)|(bar\.sync|barrier\.sync)|(cp\.async\.bulk\.tensor\S*global\.shared)", ptx
    )
    events = [next(i for i, word in enumerate(found) if word) for found in order]
    wrote, fenced, met = False, False, False
    for event in events:
        match event:
            case 0:
                wrote, fenced, met = True, False, False
            case 1:
                fenced = True
            case 2:
                met = fenced
            case _:
                assert wrote and fenced and met
                wrote = False
    assert 3 in events


def test_a_missing_proxy_fence_gives_the_store_stale_data() -> None:
    """The same in a simulation, which knows the two proxies (triton-lang/triton#9610, #8317)."""
    text = (EXAMPLES / "step4_tma.tile").read_text()
    simulate_gemm(parse_text(text), 128, 128, 128)
    unfenced = changed(text, "tile.fence proxy_async", "")
    assert fault(parse_text(unfenced, "f.tile"), gemm_arrays(128, 128, 128)) == (
        "race",
        "no fence proxy_async orders this TMA store's read of %dsmem after the threads' write of %dsmem",
        "tile.copy_async %dsmem to %D[%m, %n] dispatch tma",
    )


@pytest.mark.parametrize("stages", [2, 3])
def test_a_stage_that_threads_read_is_fenced_before_tma_refills_it(stages: int) -> None:
    """Only writes by threads were thought to need a fence before TMA touches the same memory; reads do as well.

    triton-lang/triton#7262.
    """
    module = built(REFILL_THEN_READ, f"tma(0),pipeline({stages})")
    loop = next(op for op in module.walk() if isinstance(op, scf.ForOp) and len(op.iter_args) > 1)
    kinds = [op for op in loop.walk() if isinstance(op, tile.LoadOp | tile.FenceOp | tile.CtaSyncOp | tile.CopyAsyncOp)]
    read = next(i for i, op in enumerate(kinds) if isinstance(op, tile.LoadOp))
    assert [op.name for op in kinds[read:]] == ["tile.load", "tile.fence", "tile.cta_sync", "tile.copy_async"]
    assert check(module).status == "proved"
    unfenced = module.clone()
    fence = [*unfenced.walk()][[*module.walk()].index(kinds[read + 1])]
    fence.detach()
    assert check(unfenced).status == "refuted"
    arrays = [np.ones((64, 32 * 8), np.float32), np.zeros((64, 32), np.float32)]
    kind, message, _ = fault(unfenced, arrays)
    assert kind == "race"
    assert message == "no fence proxy_async orders this TMA load into %s[0] after the threads' read of %s[0]"
    # What only the tensor core reads needs none.
    module = built(gemm(64, 32, 16), f"tma(0),pipeline({stages})")
    loops = [op for op in module.walk() if isinstance(op, scf.ForOp)]
    assert not [op for loop in loops for op in loop.walk() if isinstance(op, tile.FenceOp) and op.kind == "proxy_async"]
    assert check(module).status == "proved"
