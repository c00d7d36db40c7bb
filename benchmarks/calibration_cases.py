"""What calibrate.py times: the loops of calibration_kernels.py, their lengths, and what one pass through each does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from calibration_kernels import (
    Arguments,
    Grid,
    epilogue,
    epilogue_arguments,
    gemm,
    gemm_arguments,
    kernel_text,
    load,
    load_arguments,
    load_pair,
    mma,
    mma_arguments,
    pair_arguments,
    step,
    step_arguments,
    store,
    store_arguments,
    swap,
    tile_arguments,
    tiles_only,
)
from compile_ahead import Program

RESIDENT_TILES = 8
"""K tiles of an operand that is read again and again: it stays in L2."""
STREAMED_TILES = 256
"""K tiles of an operand each byte of which is read once: the longest loop over it."""
ONE, OWN_ROWS, SAME_ROWS, PRODUCT = Grid(1, 1), Grid(132, 1), Grid(1, 132), Grid(11, 12)
"""One CTA; as many as an H200 has multiprocessors: each with rows of A of its own, all with the same, and as in a product."""


@dataclass(frozen=True)
class Case:
    """One row of the table: the time of a pass is the slope over `sizes`, which cancels all that a launch has once."""

    group: str
    name: str
    program: Program
    arguments: Arguments
    grid: Grid
    sizes: tuple[int, ...]
    unit: str
    """What a pass is: "round"."""
    bytes: int = 0
    """That all CTAs move in a pass."""
    macs: int = 0
    """Multiply-adds of one CTA in a pass."""
    cold: bool = False
    """L2 holds other data at the start; each launch is timed alone."""
    max_ctas: int | None = None
    zeros: bool = False
    """Operands are zeros: the tensor core takes little power."""
    long: bool = False
    """Long bursts: the clock has to settle under load."""


def cases() -> list[Case]:
    return [
        *_loads(),
        *_pairs(),
        *_mmas(),
        *_steps(),
        *_stores(),
        *_epilogues(),
        *_ctas(),
        *_k_sweeps(),
        *_tile_sweeps(),
    ]


def _loads() -> Iterator[Case]:
    group = "TMA loads, 128x64 f16 (16 KB) a round"
    short, long = (64, 128, 256), (32, 128, 256)
    places = (
        ("L2, one CTA", ONE, (1, 2, 3, 4, 6, 8), False),
        ("L2, all SMs, rows of their own", OWN_ROWS, (1, 2, 4, 8), False),
        ("L2, all SMs, the same rows", SAME_ROWS, (1, 2, 4, 8), False),
        ("memory, one CTA", ONE, (1, 4, 8), True),
        ("memory, all SMs, rows of their own", OWN_ROWS, (1, 2, 4, 8), True),
    )
    for place, grid, depths, cold in places:
        arguments = load_arguments(STREAMED_TILES if cold else RESIDENT_TILES)
        for depth in depths:
            name, sizes = f"{depth} in flight, {place}", long if cold else short
            yield Case(group, name, load(depth), arguments, grid, sizes, "round", 16384 * grid.ctas, cold=cold)
    group = "TMA loads, boxes of other heights"
    for rows, depths in ((8, (1, 8)), (32, (1, 8)), (64, (1, 8)), (256, (1, 6))):
        for depth in depths:
            name, arguments = f"{rows} rows, {depth} in flight, L2, one CTA", load_arguments(RESIDENT_TILES)
            yield Case(group, name, load(depth, rows), arguments, ONE, short, "round", rows * 128)


def _pairs() -> Iterator[Case]:
    for columns, most in ((128, (1, 2, 3, 4, 6)), (256, (1, 2, 3, 4))):
        group = f"TMA loads of a GEMM, 128x{columns}x64 f16 ({16 + columns // 8} KB) a round"
        some = tuple(depth for depth in most if depth != 3)
        places = (
            ("L2, one CTA", ONE, most, False),
            ("L2, all SMs, 11 x 12 tiles", PRODUCT, most, False),
            ("memory, one CTA", ONE, (1, 4), True),
            ("memory, all SMs, 11 x 12 tiles", PRODUCT, some, True),
        )
        for place, grid, depths, cold in places:
            arguments = pair_arguments(STREAMED_TILES if cold else RESIDENT_TILES, columns)
            moved, sizes = (128 + columns) * 128 * grid.ctas, (32, 128, 256) if cold else (64, 128, 256)
            for depth in depths:
                name = f"{depth} in flight, {place}"
                yield Case(group, name, load_pair(depth, columns), arguments, grid, sizes, "round", moved, cold=cold)


def _mmas() -> Iterator[Case]:
    group, sizes = "MMA, operands resident", (256, 512, 1024)
    for columns in (128, 256):
        arguments, macs = mma_arguments(columns, 64), 128 * columns * 64
        shape = f"128x{columns}x64"
        yield Case(group, f"{shape}, waited for, one CTA", mma(columns, 64), arguments, ONE, sizes, "MMA", macs=macs)
        behind = mma(columns, 64, behind=True)
        for kind, zeros in (("zeros", True), ("random", False)):
            name = f"{shape}, wait one behind, {kind}"
            yield Case(group, f"{name}, one CTA", behind, arguments, ONE, sizes, "MMA", macs=macs, zeros=zeros)
            name = f"{name}, all SMs"
            yield Case(group, name, behind, arguments, OWN_ROWS, sizes, "MMA", macs=macs, zeros=zeros, long=True)
        name, four = f"{shape}, four a commit, wait one behind, one CTA", mma(columns, 64, behind=True, a_commit=4)
        yield Case(group, name, four, arguments, ONE, (64, 128, 256), "four MMAs", macs=4 * macs)
        for k in (16, 32, 128) if columns == 128 else (16, 32):
            name, arguments = f"128x{columns}x{k}, waited for, one CTA", mma_arguments(columns, k)
            yield Case(group, name, mma(columns, k), arguments, ONE, sizes, "MMA", macs=128 * columns * k)


_ALONE = "tile.single_thread {{\n{}\n}}\n"
STEPS = {
    "wait for a complete barrier, all threads": "tile.mbarrier.try_wait %idle, %one\n",
    "wait for a complete barrier, one thread": _ALONE.format("tile.mbarrier.try_wait %idle, %one"),
    "cta_sync": "tile.cta_sync\n",
    "wait for a complete barrier, cta_sync": "tile.mbarrier.try_wait %idle, %one\ntile.cta_sync\n",
    "fence proxy_async, cta_sync": "tile.fence proxy_async\ntile.cta_sync\n",
    "wait_group 1 read by one thread (nothing pending), cta_sync": _ALONE.format("tile.bulk.wait_group 1 read")
    + "tile.cta_sync\n",
    "arrive and wait for it, one thread, twice": _ALONE.format(
        "tile.mbarrier.arrive %own\ntile.mbarrier.try_wait %own, %phase0\n"
        "tile.mbarrier.arrive %own\ntile.mbarrier.try_wait %own, %one"
    ),
    "arrive of all threads (they meet first) and wait, twice": "tile.mbarrier.arrive %own\n"
    "tile.mbarrier.try_wait %own, %phase0\ntile.mbarrier.arrive %own\ntile.mbarrier.try_wait %own, %one\n",
}
"""What a loop of step.tile does, once or four times: the difference is three times its cost, without the loop's."""


def _steps() -> Iterator[Case]:
    for name, body in STEPS.items():
        for times in (1, 4):
            program = step(body, times)
            yield Case("Steps of threads", f"{times} x {name}", program, step_arguments, ONE, (512, 1024, 2048), "pass")


def _stores() -> Iterator[Case]:
    for wait, what in (
        ("0", "until written"),
        ("0 read", "until read"),
        ("1 read", "one in flight, until read"),
        ("3 read", "three in flight, until read"),
        ("3", "three in flight, until written"),
    ):
        for place, grid, sizes in (
            ("L2, one CTA", ONE, (64, 128, 256)),
            ("L2, all SMs", OWN_ROWS, (8, 12, 16)),
            ("memory, all SMs", OWN_ROWS, (64, 128, 256)),
        ):
            moved, name = 16384 * grid.ctas, f"{what}, {place}"
            yield Case(
                "TMA stores, 128x64 f16 (16 KB)", name, store(wait), store_arguments, grid, sizes, "store", moved
            )


def _epilogues() -> Iterator[Case]:
    for stores, what in ((False, "threads only"), (True, "with TMA stores")):
        places = ("L2, one CTA", ONE, (32, 64, 128)), ("memory, all SMs", OWN_ROWS, (32, 64, 128))
        for place, grid, sizes in places if stores else places[:1]:
            name, program = f"MMA and epilogue, {what}, {place}", epilogue(stores=stores)
            yield Case("Epilogue 128x128", name, program, epilogue_arguments, grid, sizes, "tile", 32768 * grid.ctas)


def _ctas() -> Iterator[Case]:
    group, text = "CTAs", kernel_text("cta")
    waves = (8, 16, 32)
    yield Case(
        group, "one at a time on each SM, barriers and cta_sync", Program(text), tiles_only, OWN_ROWS, waves, "wave"
    )
    bare = swap(text, ("    %full = tile.mbarrier.init count 1 : !tile.mbarrier<4>\n", ""))
    yield Case(group, "one at a time on each SM, cta_sync", Program(bare), tiles_only, OWN_ROWS, waves, "wave")
    many = swap(text, ("ring<12 x", "ring<1 x"))
    yield Case(group, "as many as an SM takes", Program(many), tiles_only, OWN_ROWS, waves, "132 CTAs")
    turns = Program(kernel_text("turns"))
    yield Case(group, "turn of the scheduler, cta_sync", turns, tiles_only, ONE, (512, 1024, 2048), "turn", max_ctas=1)


def _depths(columns: int) -> tuple[int, ...]:
    return (1, 2, 3, 4, 5, 6) if columns == 128 else (1, 2, 3, 4)


def _k_sweeps() -> Iterator[Case]:
    for columns in (128, 256):
        group, macs = f"GEMM 128x{columns}x64, by K tiles", 128 * columns * 64
        for passes in ("tma", *(f"tma,pipeline({depth})" for depth in _depths(columns))):
            program, arguments = gemm(columns, passes), gemm_arguments(columns)
            yield Case(group, f"{passes}, L2, one CTA", program, arguments, ONE, (16, 32, 64), "K tile", macs=macs)
            name = f"{passes}, L2, 11 x 12 CTAs"
            yield Case(group, name, program, arguments, PRODUCT, (8, 16, 32), "K tile", macs=macs)
            if passes in ("tma", "tma,pipeline(2)", "tma,pipeline(4)"):
                name = f"{passes}, memory, 11 x 12 CTAs"
                yield Case(group, name, program, arguments, PRODUCT, (32, 64, 128), "K tile", macs=macs, cold=True)


def _tile_sweeps() -> Iterator[Case]:
    for columns in (128, 256):
        group = f"GEMM 128x{columns}x64, by output tiles"
        for k_tiles in (1, 4, 16):
            arguments = tile_arguments(columns, k_tiles)
            macs = 128 * columns * 64 * k_tiles
            for depth in (1, 2, 3, 4):
                name, program = (
                    f"pipeline({depth}),persistent, K = {64 * k_tiles}",
                    gemm(columns, f"tma,pipeline({depth}),persistent"),
                )
                one = Grid(8, 1)
                yield Case(
                    group, f"{name}, one CTA", program, arguments, one, (4, 8, 16), "8 tiles", macs=8 * macs, max_ctas=1
                )
                yield Case(group, f"{name}, all SMs", program, arguments, PRODUCT, (2, 4, 6), "132 tiles", macs=macs)
            program = gemm(columns, "tma")
            yield Case(
                group,
                f"tma, K = {64 * k_tiles}, one tile a CTA",
                program,
                arguments,
                PRODUCT,
                (6, 12, 24),
                "132 tiles",
                macs=macs,
            )
