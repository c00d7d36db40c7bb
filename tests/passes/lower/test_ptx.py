"""PTX of whole kernels: assembled by ptxas for its target, no complaint, no spill, the instructions that must be there."""

from __future__ import annotations

import re

import pytest
from gemm_text import gemm

from tilec.backend.ptxas import find_ptxas
from tilec.driver import Compiled, compile_module
from tilec.source import parse_text

COLUMN_MAJOR = ", order = [0, 1]"
UNALIGNED = ", align = 2, tail = free"
TARGETS = ("sm_90a", "sm_100a")


def build(text: str, pipeline: str, target: str) -> Compiled:
    return compile_module(parse_text(text, "gemm.tile"), pipeline=pipeline, target=target)


def assembled(compiled: Compiled) -> Compiled:
    if find_ptxas() is None:
        pytest.skip("no ptxas")
    resources = compiled.resources
    assert (resources.spill_stores, resources.spill_loads) == (0, 0), resources.log
    assert resources.stack == 0, resources.log
    return compiled


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "pipeline",
    [
        "",
        "threads",
        "tma",
        "tma,persistent",
        *(f"tma,pipeline({depth})" for depth in range(1, 6)),
        *(f"tma,pipeline({depth}),persistent" for depth in range(1, 6)),
        "tma,pipeline(4,2),persistent(group=3)",
        "threads,pipeline(3),persistent",
        "retile(64,64,32),tma,pipeline(3),persistent",
    ],
)
def test_every_schedule_assembles_without_a_spill(pipeline: str, target: str) -> None:
    assembled(build(gemm(), pipeline, target))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("dtype", "out"), [("f16", "f16"), ("f16", "f32"), ("bf16", "bf16"), ("bf16", "f32"), ("f16", "bf16")]
)
def test_dtypes(dtype: str, out: str, target: str) -> None:
    ptx = assembled(build(gemm(dtype=dtype, out=out), "tma,pipeline(2),persistent", target)).ptx
    if target == "sm_90a":
        assert f"wgmma.mma_async.sync.aligned.m64n128k16.f32.{dtype}.{dtype}" in ptx
    if out != "f32":
        assert f"cvt.rn.{out}x2.f32" in ptx


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("a", ["", COLUMN_MAJOR, UNALIGNED], ids=["rows", "columns", "unaligned"])
@pytest.mark.parametrize("b", ["", COLUMN_MAJOR, UNALIGNED], ids=["rows", "columns", "unaligned"])
def test_operands_in_any_layout(a: str, b: str, target: str) -> None:
    ptx = assembled(build(gemm(a=a, b=b), "tma,pipeline(3),persistent", target)).ptx
    tma_loads = ptx.count("cp.async.bulk.tensor.2d.shared::cluster.global")
    assert (tma_loads == 0) == (a == b == UNALIGNED)
    if target == "sm_90a":
        flags = re.search(r"wgmma\.mma_async\S* \{[^}]*\}, \S+, \S+, p, 1, 1, (\d), (\d);", ptx)
        assert flags is not None
        assert flags.groups() == (str(int(a == COLUMN_MAJOR)), str(int(b == COLUMN_MAJOR)))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("d", [COLUMN_MAJOR, UNALIGNED, ", tail = free"], ids=["columns", "unaligned", "odd width"])
def test_results_in_any_layout(d: str, target: str) -> None:
    ptx = assembled(build(gemm(d=d), "tma,pipeline(2),persistent", target)).ptx
    # TMA clips stores in 16-byte units: rows that may end between them are stored by threads.
    assert ("cp.async.bulk.tensor.2d.global" in ptx) == (d == COLUMN_MAJOR)


SIZES = [
    ("sm_90a", 64, 8, 16),
    ("sm_90a", 64, 24, 48),
    ("sm_90a", 64, 40, 80),
    ("sm_90a", 64, 256, 64),
    ("sm_90a", 128, 72, 96),
    ("sm_90a", 128, 192, 112),
    ("sm_90a", 128, 256, 64),
    ("sm_90a", 256, 128, 64),
    ("sm_100a", 64, 8, 16),
    ("sm_100a", 64, 40, 80),
    ("sm_100a", 64, 256, 64),
    ("sm_100a", 128, 48, 96),
    ("sm_100a", 128, 256, 64),
    ("sm_100a", 256, 128, 64),
    ("sm_100a", 256, 256, 64),
]


@pytest.mark.parametrize(("target", "m", "n", "k"), SIZES)
def test_tile_sizes(target: str, m: int, n: int, k: int) -> None:
    assembled(build(gemm(m, n, k), "tma,pipeline(2),persistent", target))


def test_blackwell_gemm_has_the_instructions_of_the_lesson() -> None:
    ptx = assembled(build(gemm(), "tma,pipeline(2),persistent", "sm_100a")).ptx
    (target_line,) = re.findall(r"^\.target .*$", ptx, re.MULTILINE)
    assert target_line == ".target sm_100a"
    for instruction in (
        "cp.async.bulk.tensor",
        "mbarrier.arrive.expect_tx",
        "mbarrier.try_wait.parity",
        "tcgen05.alloc",
        "tcgen05.mma",
        "tcgen05.commit",
        "tcgen05.ld",
        "fence.proxy.async",
        "cp.async.bulk.commit_group",
        "tcgen05.dealloc",
    ):
        assert instruction in ptx
    assert ".loc" in ptx and '"gemm.tile"' in ptx


@pytest.mark.parametrize(("m", "blocks"), [(128, 1), (256, 2)])
def test_only_the_first_step_of_a_tile_may_overwrite(m: int, blocks: int) -> None:
    """One MMA of each output block takes the flag; the other steps of K always add."""
    ptx = build(gemm(m), "tma,pipeline(2)", "sm_100a").ptx
    flags = re.findall(r"tcgen05\.mma\S* \[\S+\], \S+, \S+, \S+, (%p\d+);", ptx)
    assert len(flags) == 4 * blocks
    may_be_false = set(re.findall(r"mov\.pred\s+(%p\d+), 0;", ptx))
    assert [flag in may_be_false for flag in flags] == [True, False, False, False] * blocks

    ptx = build(gemm(m), "tma,pipeline(2)", "sm_90a").ptx
    scales = re.findall(r"wgmma\.mma_async\S* \{[^}]*\}, \S+, \S+, (p|1), 1, 1", ptx)
    assert scales == ["p", "1", "1", "1"] * max(m // 128, 1)


def test_the_same_text_gives_the_same_ptx() -> None:
    first, second = (build(gemm(), "tma,pipeline(3),persistent", "sm_90a").ptx for _ in range(2))
    assert first == second


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("length", [8, 16, 32])
def test_every_tma_destination_is_aligned(stages: int, length: int) -> None:
    """A small tile beside the operands gets slots of its own alignment, not of its own size."""
    compiled = build(gemm(64, length, 64), f"tma(min_bytes=0),pipeline({stages})", "sm_90a")
    for block in compiled.abi.smem:
        slot = block.size // stages
        assert block.offset % 128 == 0
        if block.name in ("a", "b"):
            assert slot % 128 == 0
