"""The kernels that calibrate.py times, varied in text, and their tensors. Each is a loop; tensors say how long it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from compile_ahead import Program

KERNELS = Path(__file__).with_name("calibration")
GEMM = (Path(__file__).parents[1] / "examples" / "gemm.tile").read_text()


class Grid(NamedTuple):
    """Rows and columns of CTAs."""

    rows: int
    columns: int

    @property
    def ctas(self) -> int:
        return self.rows * self.columns


class Memory:
    """Tensors to read and to write, of f16. The CPU's and the GPU's make them differently."""

    def input(self, *shape: int) -> Any:
        raise NotImplementedError

    def output(self, *shape: int) -> Any:
        raise NotImplementedError


Arguments = Callable[[Memory, Grid, int], tuple[Any, ...]]
"""The kernel's tensors, for so many passes through its loop."""


def kernel_text(name: str) -> str:
    return (KERNELS / f"{name}.tile").read_text()


def swap(text: str, *changes: tuple[str, str]) -> str:
    """Replace texts, each of which must be there."""
    for old, new in changes:
        if old not in text:
            raise ValueError(f"there is no '{old}' to replace")
        text = text.replace(old, new)
    return text


def between(text: str, mark: str, new: str) -> str:
    """Replace what stands between the lines ``// [mark]`` and ``// [end]``."""
    before, rest = text.split(f"// [{mark}]\n")
    return before + new + rest.split("// [end]\n")[1]


# Programs


def _with_depth(text: str, depth: int) -> str:
    return swap(
        text,
        ("ring<4 x", f"ring<{depth} x"),
        ("mbarrier<4>", f"mbarrier<{depth}>"),
        ("constant 4 : index", f"constant {depth} : index"),
    )


def load(depth: int, rows: int = 128) -> Program:
    text = swap(kernel_text("load"), ("128x64xf16", f"{rows}x64xf16"), ("16384", str(rows * 128)))
    return Program(_with_depth(text, depth))


def load_pair(depth: int, columns: int = 128) -> Program:
    b_ring = "%b_ring = tile.alloc : !tile.ring<4 x !tile.smem<{}x64xf16"
    text = swap(
        kernel_text("load_pair"),
        (b_ring.format(128), b_ring.format(columns)),
        ("32768", str((128 + columns) * 128)),
        ("step (128, 128)", f"step (128, {columns})"),
    )
    return Program(_with_depth(text, depth))


_BEHIND = """      tile.commit %done[%stage]
      %other = arith.subi %c1, %stage : index
      %is_first = arith.cmpi eq, %stage, %c0 : index
      %flip = arith.xori %phase, %one : i32
      %other_phase = arith.select %is_first, %flip, %phase : i32
      tile.mbarrier.try_wait %done[%other], %other_phase outstanding 1
"""
"""A commit, and the wait for the one before it."""
_DRAIN = """%other = arith.subi %c1, %end#0 : index
    %is_first = arith.cmpi eq, %end#0, %c0 : index
    %flip = arith.xori %end#1, %one : i32
    %other_phase = arith.select %is_first, %flip, %end#1 : i32
    tile.mbarrier.try_wait %done[%other], %other_phase
"""


def mma(columns: int, k: int, *, behind: bool = False, a_commit: int = 1) -> Program:
    """MMAs of 128 x `columns` x `k`, each waited for, or (`behind`) when the next one has been issued."""
    swizzle = min(128, 2 * k)
    text = swap(
        kernel_text("mma"),
        ("%b = tile.alloc : !tile.smem<128x", f"%b = tile.alloc : !tile.smem<{columns}x"),
        (
            "%a = tile.alloc : !tile.smem<128x64xf16, swizzle = 128>",
            f"%a = tile.alloc : !tile.smem<128x{k}xf16, swizzle = {swizzle}>",
        ),
        (f"smem<{columns}x64xf16, swizzle = 128>\n    %d", f"smem<{columns}x{k}xf16, swizzle = {swizzle}>\n    %d"),
        ("acc<128x128xf32>\n    %full", f"acc<128x{columns}xf32>\n    %full"),
        ("32768", str((128 + columns) * k * 2)),
    )
    if behind:
        text = swap(between(text, "completion", _BEHIND), ("// [drain]\n", _DRAIN))
    one = "      tile.mma %acc, %a, %b accumulate %true\n"
    return Program(swap(text, (one, one * a_commit)))


def step(body: str, times: int) -> Program:
    return Program(swap(kernel_text("step"), ("// [step]\n", body * times)))


def store(wait: str) -> Program:
    return Program(between(kernel_text("store"), "wait", f"tile.bulk.wait_group {wait}\n"))


def epilogue(*, stores: bool) -> Program:
    lines = kernel_text("epilogue").splitlines(keepends=True)
    away = ("tile.copy_async %left to", "tile.copy_async %right to", "tile.bulk.commit_group")
    return Program("".join(line for line in lines if stores or not any(word in line for word in away)))


def gemm(columns: int, passes: str) -> Program:
    return Program(GEMM, passes if columns == 128 else f"retile(128,{columns},64),{passes}")


# Arguments


def load_arguments(tiles: int) -> Arguments:
    def arguments(memory: Memory, grid: Grid, rounds: int) -> tuple[Any, ...]:
        a, d = memory.input(128 * grid.rows, 64 * tiles), memory.input(128 * grid.rows, 128 * grid.columns)
        return memory.input(rounds), a, d

    return arguments


def pair_arguments(tiles: int, columns: int) -> Arguments:
    def arguments(memory: Memory, grid: Grid, rounds: int) -> tuple[Any, ...]:
        a, b = memory.input(128 * grid.rows, 64 * tiles), memory.input(columns * grid.columns, 64 * tiles)
        return memory.input(rounds), a, b, memory.input(128 * grid.rows, columns * grid.columns)

    return arguments


def mma_arguments(columns: int, k: int) -> Arguments:
    def arguments(memory: Memory, grid: Grid, rounds: int) -> tuple[Any, ...]:
        return memory.input(rounds), memory.input(128, k), memory.input(columns, k), memory.output(128 * grid.rows, 64)

    return arguments


def step_arguments(memory: Memory, grid: Grid, rounds: int) -> tuple[Any, ...]:
    return memory.input(rounds), memory.input(128 * grid.rows, 128)


def store_arguments(memory: Memory, grid: Grid, rounds: int) -> tuple[Any, ...]:
    return memory.input(128 * grid.ctas), memory.output(128 * grid.ctas, 64 * rounds)


def epilogue_arguments(memory: Memory, grid: Grid, rounds: int) -> tuple[Any, ...]:
    operands = memory.input(128, 64), memory.input(128, 64)
    return memory.input(128 * grid.ctas), *operands, memory.output(128 * grid.ctas, 128 * rounds)


def tiles_only(memory: Memory, grid: Grid, rounds: int) -> tuple[Any, ...]:
    """So many rounds of CTAs, which look at no tensor."""
    return (memory.input(128 * grid.rows, 128 * grid.columns * rounds),)


def gemm_arguments(columns: int) -> Arguments:
    def arguments(memory: Memory, grid: Grid, tiles: int) -> tuple[Any, ...]:
        m, n, k = 128 * grid.rows, columns * grid.columns, 64 * tiles
        return memory.input(m, k), memory.input(n, k), memory.output(m, n)

    return arguments


def tile_arguments(columns: int, k_tiles: int) -> Arguments:
    def arguments(memory: Memory, grid: Grid, rounds: int) -> tuple[Any, ...]:
        return gemm_arguments(columns)(memory, Grid(grid.rows, grid.columns * rounds), k_tiles)

    return arguments
