"""What the simulator computes: the ladder by hand and by passes, its report, and that two runs agree."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from tilec.backend import reference
from tilec.backend.reference import Array
from tilec.backend.simulator import Report, run, run_float64
from tilec.context import make_context
from tilec.diagnostics import TilecError, collect
from tilec.driver import run_pass
from tilec.source import parse_file, parse_text
from tilec.spec import parse_pipeline

LADDER = ("gemm", "step4_tma", "step5_pipeline", "step6_persistent")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def gemm_arrays(m: int, n: int, k: int) -> list[Array]:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-2, 3, (m, k)), rng.integers(-2, 3, (n, k))
    return [a.astype(np.float16), b.astype(np.float16), np.full((m, n), np.nan, np.float16)]


def example(name: str) -> ModuleOp:
    return parse_file(EXAMPLES / f"{name}.tile")


def compiled(pipeline: str) -> ModuleOp:
    module = example("gemm")
    with collect():
        for one in parse_pipeline(pipeline):
            run_pass(one, module, make_context())
    return module


def expected(m: int, n: int, k: int) -> Array:
    arrays = gemm_arrays(m, n, k)
    reference.run(example("gemm"), arrays)
    return arrays[2]


def result(module: ModuleOp, m: int, n: int, k: int, ctas: int | None = None) -> Array:
    arrays = gemm_arrays(m, n, k)
    run(module, arrays, ctas=ctas)
    return arrays[2]


SHAPES = [
    (128, 128, 64),
    (256, 384, 192),
    (200, 136, 72),
    (64, 64, 16),
    (128, 128, 320),
    (256, 128, 0),
    (0, 8, 8),
    (8, 0, 8),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", LADDER)
def test_the_ladder_by_hand(name: str, shape: tuple[int, int, int]) -> None:
    np.testing.assert_array_equal(result(example(name), *shape), expected(*shape))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(
    "pipeline",
    [
        "tma",
        "threads",
        "tma,persistent",
        "tma,pipeline(2)",
        "threads,pipeline(3),persistent",
        "tma,pipeline(4),persistent",
    ],
)
def test_the_ladder_by_passes(pipeline: str, shape: tuple[int, int, int]) -> None:
    np.testing.assert_array_equal(result(compiled(pipeline), *shape, ctas=2), expected(*shape))


@pytest.mark.parametrize("ctas", [1, 2, 3, 7, 200])
@pytest.mark.parametrize("k", [0, 8, 64, 128, 192, 320])
def test_a_persistent_kernel_carries_its_phases(ctas: int, k: int) -> None:
    shape = (400, 304, k)
    np.testing.assert_array_equal(result(example("step6_persistent"), *shape, ctas=ctas), expected(*shape))


@pytest.mark.parametrize("name", LADDER)
def test_the_exact_meaning_of_each_step(name: str) -> None:
    rng = np.random.default_rng(0)
    a, b, d = rng.standard_normal((200, 136)), rng.standard_normal((136, 136)), np.zeros((200, 136))
    run_float64(example(name), [a, b, d])
    assert np.allclose(d, a @ b.T, rtol=1e-13, atol=1e-13)


def test_two_runs_agree_to_the_bit() -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((200, 200)).astype(np.float16) for _ in range(2))
    results = [np.full((200, 200), np.nan, np.float16) for _ in range(2)]
    module = compiled("tma,pipeline(3),persistent")
    reports = [run(module, [a, b, d], ctas=3) for d in results]
    assert reports[0] == reports[1]
    assert results[0].tobytes() == results[1].tobytes()


def test_the_report_of_a_persistent_kernel() -> None:
    calls: list[tuple[int, int]] = []
    arrays = gemm_arrays(256, 384, 192)
    report = run(example("step6_persistent"), arrays, ctas=4, progress=lambda done, total: calls.append((done, total)))
    # 6 tiles of 3 K tiles; two loads of 128 x 64 f16 each; a wait for the load and one for the MMA.
    assert report == Report(
        ctas=4,
        tiles=6,
        bytes_loaded=6 * 3 * 2 * 128 * 64 * 2,
        bytes_stored=256 * 384 * 2,
        mmas=18,
        waits=36,
        stalls=36,
    )
    assert calls == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_the_report_of_a_synchronous_kernel() -> None:
    calls: list[tuple[int, int]] = []
    report = run(example("gemm"), gemm_arrays(200, 136, 72), progress=lambda done, total: calls.append((done, total)))
    # What lies inside the tensors: each tile row of D loads its rows of A once for each of two tile columns.
    loaded = (2 * 200 + 2 * 136) * 72 * 2
    assert report == Report(4, 4, loaded, 200 * 136 * 2, 8, 0, 0)
    assert calls == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_copies_over_the_edge_move_what_is_inside() -> None:
    report = run(example("step4_tma"), gemm_arrays(200, 136, 72))
    assert (report.bytes_loaded, report.bytes_stored) == ((2 * 200 + 2 * 136) * 72 * 2, 200 * 136 * 2)
    assert (report.ctas, report.tiles, report.mmas) == (4, 4, 8)


def test_waits_that_an_earlier_round_lets_pass_do_not_stall() -> None:
    report = run(compiled("tma,pipeline(4),persistent"), gemm_arrays(128, 128, 256), ctas=1)
    # Waiting for MMA k-1, of which there is none in the first iteration; the last one is waited for behind the loop.
    assert (report.waits, report.stalls) == (4 + 5, 4 + 4)


def test_a_cta_executes_what_stands_around_its_tile() -> None:
    # The barrier is initialised by each CTA: its first round is round 0 in every tile.
    text = """
    tile.kernel @f(%D: !tile.view<Nxf32>) {
      %p0 = arith.constant 0 : i32
      %bar = tile.mbarrier.init count 1 : !tile.mbarrier<1>
      %t = tile.alloc : !tile.smem<4xf32>
      %r = tile.splat 1.0 : !tile.reg<4xf32>
      tile.cta_sync
      tile.grid (%i) over %D step (4) {
        tile.mbarrier.arrive %bar
        tile.mbarrier.try_wait %bar, %p0
        tile.store %r to %t
        tile.cta_sync
        tile.copy_async %t to %D[%i] dispatch threads
      }
    }
    """
    d = np.zeros(12, np.float32)
    run(parse_text(text), [d])
    assert (d == 1).all()


def test_bytes_may_be_announced_after_the_copies() -> None:
    text = (EXAMPLES / "step4_tma.tile").read_text()
    announce = "        tile.mbarrier.arrive.expect_tx %tma_bar, 32768 // (128*64 + 128*64) * 2 bytes\n"
    last_copy = "        tile.copy_async %B[%n, %k] to %b dispatch tma signal %tma_bar\n"
    assert announce in text and last_copy in text
    swapped = text.replace(announce, "").replace(last_copy, last_copy + announce)
    np.testing.assert_array_equal(result(parse_text(swapped), 128, 128, 192), expected(128, 128, 192))


TWO_MMAS = """
tile.kernel @f(%A: !tile.view<16xKxf16>, %D: !tile.view<16x16xf32>) {
  %zero = arith.constant 0 : index
  %step = arith.constant 16 : index
  %p0 = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %yes = arith.constant true
  %a = tile.alloc : !tile.smem<16x16xf16>
  %d = tile.alloc : !tile.smem<16x16xf32>
  %acc = tile.alloc : !tile.acc<16x16xf32>
  %done = tile.mbarrier.init count 1 : !tile.mbarrier<1>
  tile.cta_sync
  %K = tile.dim %A, 1
  %last = scf.for %k = %zero to %K step %step iter_args(%p = %p0) -> (i32) {
    tile.copy_async %A[%zero, %k] to %a dispatch threads
    tile.fence proxy_async
    tile.cta_sync
    tile.fence after_thread_sync
    %first = arith.cmpi ne, %k, %zero : index
    tile.mma %acc, %a, %a accumulate %first
    tile.mma %acc, %a, %a accumulate SECOND
    tile.commit %done
    tile.mbarrier.try_wait %done, %p
    %next = arith.xori %p, %one : i32
    scf.yield %next : i32
  }
  tile.fence after_thread_sync
  %r = tile.copy_async %acc dispatch tmem : !tile.reg<16x16xf32>
  tile.tmem.wait_ld
  tile.store %r to %d
  tile.fence before_thread_sync
  tile.cta_sync
  tile.copy_async %d to %D[%zero, %zero] dispatch threads
  tile.fence after_thread_sync
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
        result(example("step6_persistent"), 128, 128, 64, ctas=0)


def test_an_unknown_target_is_told() -> None:
    text = (EXAMPLES / "step6_persistent.tile").read_text()
    head = "%D: !tile.view<MxNxf16>) {"
    changed = text.replace(head, head.replace("{", 'attributes {target = "sm_1"} {'))
    with pytest.raises(TilecError, match="unknown target 'sm_1'"):
        result(parse_text(changed), 128, 128, 64)


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        (
            "tile.copy %A[%zero, %zero] to %a",
            "tile.copy is synchronous, but this kernel is asynchronous",
            "use tile.copy_async and say who copies",
        ),
        (
            "tile.for %x over %A dim 1 step 16 {\n  }",
            "tile.for is synchronous, but this kernel is asynchronous",
            "use scf.for",
        ),
        (
            "tile.mma %acc, %a, %a",
            "tile.mma is synchronous, but this kernel is asynchronous",
            "add `accumulate %flag`, a tile.commit and a wait for it",
        ),
        (
            "%x = tile.load %acc : !tile.reg<16x16xf32>",
            "tile.load reads no accumulator at this level",
            "use tile.copy_async with dispatch tmem",
        ),
    ],
)
def test_the_levels_do_not_mix(line: str, message: str, hint: str) -> None:
    text = TWO_MMAS.replace("SECOND", "%yes").replace("  %K = tile.dim", f"  {line}\n  %K = tile.dim")
    with pytest.raises(TilecError) as error:
        run(parse_text(text), [np.ones((16, 16), np.float16), np.zeros((16, 16), np.float32)])
    assert (error.value.diagnostic.message, error.value.diagnostic.hint) == (message, hint)
