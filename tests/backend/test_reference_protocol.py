"""Asynchronous programs: the ladder by hand, poison, and what goes wrong with barriers."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tilec.backend.reference import Array, run, run_float64
from tilec.diagnostics import TilecError
from tilec.source import parse_file, parse_text

LADDER = ("gemm", "step4_tma", "step5_pipeline", "step6_persistent")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def gemm_arrays(m: int, n: int, k: int, seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((m, k)), rng.standard_normal((n, k))
    return [a.astype(np.float16), b.astype(np.float16), np.full((m, n), np.nan, np.float16)]


def result(name: str, m: int, n: int, k: int, ctas: int | None = None) -> Array:
    arrays = gemm_arrays(m, n, k)
    run(parse_file(EXAMPLES / f"{name}.tile"), arrays, ctas=ctas)
    return arrays[2]


@pytest.mark.parametrize(
    "shape",
    [
        (128, 128, 64),
        (256, 384, 192),
        (200, 136, 72),
        (64, 64, 16),
        (128, 128, 320),
        (256, 128, 0),
        (0, 8, 8),
        (8, 0, 8),
    ],
)
def test_the_ladder_computes_one_thing(shape: tuple[int, int, int]) -> None:
    expected = result("gemm", *shape)
    assert not np.isnan(expected).any()
    for name in LADDER[1:]:
        assert np.array_equal(result(name, *shape), expected)


@pytest.mark.parametrize("ctas", [1, 2, 3, 7, 200])
@pytest.mark.parametrize("k", [0, 8, 64, 128, 192, 320])
def test_a_persistent_kernel_carries_its_phases(ctas: int, k: int) -> None:
    assert np.array_equal(result("step6_persistent", 400, 300, k, ctas), result("gemm", 400, 300, k))


@pytest.mark.parametrize("name", LADDER)
def test_the_exact_meaning_of_each_step(name: str) -> None:
    a, b, d = (array.astype(np.float64) for array in gemm_arrays(200, 136, 136))
    run_float64(parse_file(EXAMPLES / f"{name}.tile"), [a, b, d])
    assert np.allclose(d, a @ b.T, rtol=1e-13, atol=1e-13)


def mutated(name: str, pattern: str, replacement: str, *, count: int = 1) -> str:
    """The text of an example, changed; comments keep the lines where they are."""
    text, done = re.subn(pattern, replacement, (EXAMPLES / f"{name}.tile").read_text(), count=count)
    assert done, pattern
    return text


def failure(text: str, shape: tuple[int, int, int], ctas: int | None = None) -> str:
    with pytest.raises(TilecError) as error:
        run(parse_text(text, "f.tile"), gemm_arrays(*shape), ctas=ctas)
    at = error.value.diagnostic.location
    assert at is not None
    return f"{text.splitlines()[at.line - 1].strip()} | {error.value.diagnostic.message}"


def test_a_budget_above_what_the_copies_bring_is_a_wait_without_end() -> None:
    assert failure(mutated("step4_tma", "32768", "32784"), (128, 128, 64)) == (
        "tile.mbarrier.try_wait %tma_bar, %phase | this wait never ends: %tma_bar[0] is asked for parity 0 and has "
        "completed 0 rounds; round 0 of %tma_bar[0] (parity 0) has 1 of 1 arrivals, and 32768 of 32784 announced bytes"
    )


def test_bytes_are_counted_anew_in_each_round() -> None:
    text = mutated(
        "step4_tma",
        r"tile.copy_async %B[^\n]*",
        r"""%last = arith.cmpi eq, %k, %c64 : index
        scf.if %last {
        } else {
          tile.copy_async %B[%n, %k] to %b dispatch tma signal %tma_bar
        }""",
    )
    assert failure(text, (128, 128, 128)).endswith(
        "round 1 of %tma_bar[0] (parity 1) has 1 of 1 arrivals, and 16384 of 32768 announced bytes"
    )


@pytest.mark.parametrize("budget", ["32752", "32640", "16368"])
def test_a_budget_below_what_the_copies_bring(budget: str) -> None:
    message = failure(mutated("step4_tma", "32768", budget), (128, 128, 64))
    assert "dispatch tma signal %tma_bar | the byte budget does not match: round" in message
    assert f"of {budget} announced bytes" in message


@pytest.mark.parametrize(("budget", "tile"), [("16384", "%b"), ("0", "%a")])
def test_a_budget_that_is_met_early_lets_the_wait_pass(budget: str, tile: str) -> None:
    # The round completes at the first copy (or at once), and what follows counts against the next round.
    assert failure(mutated("step4_tma", "32768", budget), (128, 128, 64)) == (
        f"tile.mma %acc, %a, %b accumulate %accumulate | {tile} is read before the load of {tile} on round 1 of "
        "%tma_bar[0] (parity 1) was waited for"
    )


def test_bytes_may_be_announced_after_the_copies() -> None:
    text = mutated("step4_tma", r"(\n *tile.mbarrier.arrive.expect_tx[^\n]*)(\n[^\n]*\n[^\n]*)", r"\2\1")
    arrays = gemm_arrays(128, 128, 192)
    run(parse_text(text), arrays)
    assert np.array_equal(arrays[2], result("gemm", 128, 128, 192))


def test_a_wait_for_a_round_that_nobody_starts() -> None:
    text = mutated("step5_pipeline", r"tile.commit %mma_bar", "")
    assert failure(text, (128, 128, 64)).endswith(
        "%mma_bar[0] is asked for parity 0 and has completed 0 rounds; round 0 of %mma_bar[0] (parity 0) has 0 of 1 "
        "arrivals, and 0 of 0 announced bytes"
    )


def test_phases_that_are_reset_at_each_tile() -> None:
    reset = mutated(
        "step6_persistent",
        "scf.yield %next_turn, %end#0, %end#1, %end#2",
        "scf.yield %next_turn, %zero, %phase0, %phase0",
    )
    assert "this wait never ends" in failure(reset, (256, 128, 192), ctas=1)
    # Every barrier completes an even number of rounds per tile: the lesson's case.
    lucky = mutated(
        "step6_persistent",
        "scf.yield %next_turn, %end#0, %end#1, %end#2",
        "scf.yield %next_turn, %zero, %phase0, %phase0",
    )
    arrays = gemm_arrays(256, 128, 256)
    run(parse_text(lucky), arrays, ctas=1)
    assert np.array_equal(arrays[2], result("gemm", 256, 128, 256))


def test_a_flag_that_does_not_flip() -> None:
    text = mutated("step4_tma", "scf.yield %next : i32", "scf.yield %phase : i32")
    assert failure(text, (128, 128, 128)).startswith("tile.mbarrier.try_wait %tma_bar, %phase | this wait never ends")


def test_an_arrival_too_many() -> None:
    text = mutated(
        "step4_tma", r"(tile.mbarrier.arrive.expect_tx %tma_bar, )32768", r"\g<1>32768\n tile.mbarrier.arrive %tma_bar"
    )
    assert failure(text, (128, 128, 64)) == (
        "tile.mbarrier.arrive %tma_bar // (128*64 + 128*64) * 2 bytes | an arrival too many: round 0 of %tma_bar[0] "
        "(parity 0) has all 1, and 0 of 32768 announced bytes"
    )


def test_a_slot_is_refilled_only_after_the_mma_that_read_it() -> None:
    text = mutated("step5_pipeline", r"tile.mbarrier.try_wait %mma_bar, %phase_mma", "")
    assert failure(text, (128, 128, 192)) == (
        "tile.copy_async %A[%m, %next_k] to %a dispatch tma signal %tma_bar[%stage] | %Asmem[0] is "
        "overwritten before an "
        "MMA on %acc was waited for"
    )


def test_a_slot_is_refilled_only_after_its_load_was_waited_for() -> None:
    twice = mutated("step4_tma", r"(tile.copy_async %A[^\n]*)", r"\1\n\1")
    assert failure(twice, (128, 128, 64)) == (
        "tile.copy_async %A[%m, %k] to %a dispatch tma signal %tma_bar | %a is overwritten before the load "
        "of %a on round "
        "0 of %tma_bar[0] (parity 0) was waited for"
    )


def test_a_tile_is_read_only_after_its_load_was_waited_for() -> None:
    text = mutated("step4_tma", r"tile.mbarrier.try_wait %tma_bar, %phase", "")
    assert failure(text, (128, 128, 64)) == (
        "tile.mma %acc, %a, %b accumulate %accumulate | %a is read before the load of %a on round 0 of %tma_bar[0] "
        "(parity 0) was waited for"
    )


def test_an_accumulator_is_read_only_after_its_mma_was_waited_for() -> None:
    text = mutated("step4_tma", r"tile.mbarrier.try_wait %mma_bar, %phase", "")
    assert failure(text, (128, 128, 64)) == (
        "%r = tile.copy_async %left dispatch tmem : !tile.reg<128x64xf32> | %acc is read before an MMA on "
        "%acc was waited for"
    )


def test_the_staging_tile_is_rewritten_only_after_its_store_was_read() -> None:
    text = mutated("step4_tma", r"tile.bulk.wait_group 0 read", "")
    assert failure(text, (128, 128, 64)) == (
        "tile.store %h to %dsmem | %dsmem is overwritten before the group of a TMA store that reads %dsmem "
        "was waited for"
    )
    text = mutated("step4_tma", r"tile.bulk.commit_group", "")
    assert failure(text, (128, 128, 64)).startswith("tile.store %h to %dsmem | %dsmem is overwritten")


def test_groups_that_may_be_pending() -> None:
    text = """
    tile.kernel @f(%D: !tile.view<Nxf32>) {
      %i = arith.constant 0 : index
      %v = tile.splat 1.0 : !tile.reg<32xf32>
      %ring = tile.alloc : !tile.ring<2 x !tile.smem<32xf32, swizzle = 16>>
      %one = arith.constant 1 : index
      %two = arith.constant 2 : index
      %end = arith.constant 6 : index
      scf.for %n = %i to %end step %one {
        %s = arith.remui %n, %two : index
        %t = tile.slot %ring[%s]
        tile.bulk.wait_group PENDING read
        tile.store %v to %t
        tile.copy_async %t to %D[%i] dispatch tma
        tile.bulk.commit_group
      }
      tile.bulk.wait_group 0
    }
    """
    d = np.zeros(32, np.float32)
    run(parse_text(text.replace("PENDING", "1")), [d])
    assert (d == 1).all()
    with pytest.raises(TilecError, match=re.escape("%ring[0] is overwritten before the group")):
        run(parse_text(text.replace("PENDING", "2")), [d])


def test_nothing_is_on_its_way_when_a_cta_ends() -> None:
    text = mutated("step4_tma", r"tile.bulk.wait_group 0 // [^\n]*", "")
    assert failure(text, (128, 128, 64)) == (
        "tile.copy_async %dsmem to %D[%m, %n64] dispatch tma | the CTA ends before the group of a TMA store that reads "
        "%dsmem was waited for"
    )


def test_a_freed_accumulator_is_gone() -> None:
    text = mutated("step4_tma", r"tile.free %acc", "tile.free %acc\ntile.free %acc")
    assert failure(text, (128, 128, 64)) == "tile.free %acc | %acc was freed"
    text = mutated("step4_tma", r"tile.mma %acc", "tile.free %acc\ntile.mma %acc")
    assert failure(text, (128, 128, 64)) == "tile.mma %acc, %a, %b accumulate %accumulate | %acc was freed"


def test_a_stage_that_the_ring_does_not_have() -> None:
    text = mutated("step5_pipeline", r"%last_stage = arith.constant 1", "%last_stage = arith.constant 2")
    assert failure(text, (128, 128, 192)).endswith("| stage 2 of %Asmem, which has 2")
    text = mutated(
        "step5_pipeline",
        r"%tma_bar = tile.mbarrier.init count 1 : !tile.mbarrier<2>",
        "%tma_bar = tile.mbarrier.init count 1 : !tile.mbarrier<1>",
    )
    assert failure(text, (128, 128, 192)).endswith("| stage 1 of %tma_bar, which has 1")


def test_a_barrier_counts_to_its_number() -> None:
    text = """
    tile.kernel @f(%D: !tile.view<Nxf32>) {
      %p0 = arith.constant 0 : i32
      %p1 = arith.constant 1 : i32
      %bar = tile.mbarrier.init count 2 : !tile.mbarrier<1>
      tile.mbarrier.try_wait %bar, %p1
      tile.mbarrier.arrive %bar
      tile.mbarrier.arrive %bar
      tile.mbarrier.try_wait %bar, %p0
      tile.mbarrier.arrive %bar
      tile.mbarrier.try_wait %bar, %p0
      tile.mbarrier.try_wait %bar, %p1
    }
    """
    with pytest.raises(TilecError) as error:
        run(parse_text(text), [np.zeros(4, np.float32)])
    assert error.value.diagnostic.message == (
        "this wait never ends: %bar[0] is asked for parity 1 and has completed 1 rounds; round 1 of %bar[0] "
        "(parity 1) has "
        "1 of 2 arrivals, and 0 of 0 announced bytes"
    )


# Poison


@pytest.mark.parametrize("name", LADDER)
@pytest.mark.parametrize("k_tiles", [1, 2, 5])
def test_no_poison_reaches_the_output(name: str, k_tiles: int) -> None:
    for ctas in (1, 2):  # with one CTA, two tiles meet in its memory
        assert not np.isnan(result(name, 256, 128, 64 * k_tiles, ctas)).any()


@pytest.mark.parametrize("name", ["step4_tma", "step5_pipeline", "step6_persistent"])
def test_accumulating_onto_nothing_is_poison(name: str) -> None:
    arrays = gemm_arrays(128, 128, 128)
    run(parse_text(mutated(name, r"arith.cmpi ne, %k, %zero", "arith.cmpi eq, %zero, %zero")), arrays)
    assert np.isnan(arrays[2]).all()


def test_without_an_mma_an_accumulator_is_zero_or_poison() -> None:
    arrays = gemm_arrays(128, 128, 0)
    run(
        parse_text(mutated("step4_tma", r"%any = arith.cmpi ne, %K, %zero", "%any = arith.cmpi eq, %zero, %zero")),
        arrays,
    )
    assert np.isnan(arrays[2]).all()
    assert (result("gemm", 128, 128, 0) == 0).all()


def test_shared_memory_is_poison_until_it_is_written() -> None:
    text = """
    tile.kernel @f(%D: !tile.view<Nxf32>) {
      %i = arith.constant 0 : index
      %t = tile.alloc : !tile.smem<4xf32>
      tile.copy %t to %D[%i]
    }
    """
    d = np.zeros(4, np.float32)
    run(parse_text(text), [d])
    assert np.isnan(d).all()


# Shapes and accumulation that others got wrong


@pytest.mark.parametrize("n", range(8, 257, 8))
@pytest.mark.parametrize("order", ["", ", order = [0, 1]"])
def test_every_width_of_an_accumulator(n: int, order: str) -> None:
    text = f"""
    tile.kernel @f(%A: !tile.view<64x32xbf16>, %B: !tile.view<Nx32xbf16{order}>, %D: !tile.view<64xNxf32>) {{
      tile.grid (%m, %n) over %D step (64, {n}) {{
        %a = tile.alloc : !tile.smem<64x32xbf16>
        %b = tile.alloc : !tile.smem<{n}x32xbf16{order}>
        %acc = tile.alloc : !tile.acc<64x{n}xf32>
        tile.for %k over %A dim 1 step 32 {{
          tile.copy %A[%m, %k] to %a
          tile.copy %B[%n, %k] to %b
          tile.mma %acc, %a, %b
        }}
        tile.copy %acc to %D[%m, %n]
      }}
    }}
    """
    rng = np.random.default_rng(n)
    a, b = rng.integers(-8, 9, (64, 32)).astype(np.float32), rng.integers(-8, 9, (2 * n - 3, 32)).astype(np.float32)
    d = np.zeros((64, len(b)), np.float32)
    run(parse_text(text), [a, np.asfortranarray(b) if order else b, d])
    assert np.array_equal(d, a @ b.T)


def ones(k: int, block_k: int) -> Array:
    text = f"""
    tile.kernel @f(%A: !tile.view<MxKxbf16>, %B: !tile.view<NxKxbf16>, %D: !tile.view<MxNxf32>) {{
      tile.grid (%m, %n) over %D step (64, 64) {{
        %a = tile.alloc : !tile.smem<64x{block_k}xbf16>
        %b = tile.alloc : !tile.smem<64x{block_k}xbf16>
        %acc = tile.alloc : !tile.acc<64x64xf32>
        tile.for %k over %A dim 1 step {block_k} {{
          tile.copy %A[%m, %k] to %a
          tile.copy %B[%n, %k] to %b
          tile.mma %acc, %a, %b
        }}
        tile.copy %acc to %D[%m, %n]
      }}
    }}
    """
    d = np.zeros((64, 64), np.float32)
    run(parse_text(text), [np.ones((64, k), np.float32), np.ones((64, k), np.float32), d])
    return d


@pytest.mark.parametrize(("k", "block_k"), [(24, 16), (24, 32), (64, 64), (128, 64), (128, 16), (8, 64)])
def test_no_part_of_k_is_dropped_or_counted_twice(k: int, block_k: int) -> None:
    assert (ones(k, block_k) == k).all()


@pytest.mark.parametrize("block_k", [24, 40, 56])
def test_a_k_tile_that_no_instruction_divides_is_refused(block_k: int) -> None:
    with pytest.raises(TilecError, match=f"K = {block_k} is not a multiple of 16, the K of one bf16 instruction"):
        ones(24, block_k)


TWO_MMAS = """
tile.kernel @f(%A: !tile.view<16xKxf16>, %D: !tile.view<16x16xf32>) {
  %zero = arith.constant 0 : index
  %step = arith.constant 16 : index
  %p0 = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %yes = arith.constant true
  %a = tile.alloc : !tile.smem<16x16xf16>
  %acc = tile.alloc : !tile.acc<16x16xf32>
  %done = tile.mbarrier.init count 1 : !tile.mbarrier<1>
  %K = tile.dim %A, 1
  %last = scf.for %k = %zero to %K step %step iter_args(%p = %p0) -> (i32) {
    tile.copy_async %A[%zero, %k] to %a dispatch threads
    %first = arith.cmpi ne, %k, %zero : index
    tile.mma %acc, %a, %a accumulate %first
    tile.mma %acc, %a, %a accumulate SECOND
    tile.commit %done
    tile.mbarrier.try_wait %done, %p
    %next = arith.xori %p, %one : i32
    scf.yield %next : i32
  }
  %r = tile.copy_async %acc dispatch tmem : !tile.reg<16x16xf32>
  tile.copy %r to %D[%zero, %zero]
  tile.free %acc
}
"""


@pytest.mark.parametrize("iterations", [1, 2, 3])
def test_only_the_very_first_mma_overwrites(iterations: int) -> None:
    a, d = np.ones((16, 16 * iterations), np.float16), np.zeros((16, 16), np.float32)
    run(parse_text(TWO_MMAS.replace("SECOND", "%yes")), [a, d])
    assert (d == 32 * iterations).all()
    run(parse_text(TWO_MMAS.replace("SECOND", "%first")), [a, d])
    assert (d == 32 * iterations - 16).all()


def test_a_persistent_kernel_needs_a_cta() -> None:
    with pytest.raises(TilecError, match="a persistent kernel runs on at least one CTA, not 0"):
        result("step6_persistent", 128, 128, 64, ctas=0)


def test_an_unknown_target_is_told() -> None:
    text = mutated("step6_persistent", r"(@gemm\(.*\)) {", r'\1 attributes {target = "sm_1"} {')
    assert failure(text, (128, 128, 64)).endswith("unknown target 'sm_1'")
