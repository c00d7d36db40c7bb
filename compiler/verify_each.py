"""After each pass: is the program still what it was? The first pass that broke something is named.

Four questions, the cheap ones first: does the IR verify (`run_pass` has asked), does it fit into the chip's memory, is its
protocol right (asynchronous kernels), and does it still compute the same numbers, on a small shape with tails.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument
from xdsl.passes import ModulePass

from tilec.backend.protocol import check
from tilec.backend.protocol.extents import dims_of, extent_names, tile_extents, tile_steps
from tilec.backend.simulator import Fault
from tilec.diagnostics import Diagnostic, TilecError, location_of
from tilec.dialects.tile import (
    AssumeOp,
    GridOp,
    KernelOp,
    ScheduleOp,
    ViewType,
)
from tilec.driver import Observer, find_kernel
from tilec.pass_error import PassError
from tilec.passes.storage import plan, target_of
from tilec.passes.synchronous import is_synchronous
from tilec.simulation import Mismatch, scheduler, simulate
from tilec.spec import print_pass

_CTAS = 2
"""Of a persistent kernel, which has four tiles then: each CTA goes from one to the next."""
_K_TILES = 3
_MOST_TILES = 64
"""More than that are not tried to meet what a kernel assumes of its extents."""
_GRID = 16
"""Bytes: the grid that TMA clips its stores to (see the type of views)."""


class BrokenPass(PassError):
    """What a pass left is not the program any more."""

    def __init__(self, what_broke: str, found: Diagnostic) -> None:
        super().__init__(f"{what_broke}: {found.message}", found.location, found.hint, found.notes)
        self.what_broke = what_broke
        """``pass `pipeline{stages=2}` broke the protocol``."""


class VerifyEach(Observer):
    """Looks at `program` and at what each pass makes of it. Tells `observer` first, and raises BrokenPass."""

    def __init__(self, program: ModuleOp, observer: Observer | None = None) -> None:
        self._program = program.clone()
        self._observer = observer or Observer()
        kernel = find_kernel(self._program)
        self._extents = small_extents(kernel)
        if not is_synchronous(kernel):
            self._examine(self._program, "the program as it was given breaks")

    def pass_done(self, one: ModulePass, module: ModuleOp, seconds: float) -> None:
        self._observer.pass_done(one, module, seconds)
        kernel = next((op for op in module.walk() if isinstance(op, KernelOp)), None)
        if kernel is None:
            return  # lowered
        if is_synchronous(kernel):
            self._extents = small_extents(kernel)  # `retile` may have made tiles larger
        self._examine(module, f"pass `{print_pass(one)}` broke")

    def stage_done(self, stage: str, seconds: float) -> None:
        self._observer.stage_done(stage, seconds)

    def _examine(self, module: ModuleOp, what_broke: str) -> None:
        kernel = find_kernel(module)
        if not is_synchronous(kernel):
            try:
                check_memory(kernel)
            except TilecError as error:
                raise BrokenPass(f"{what_broke} the memory budget", error.diagnostic) from error
            verdict = check(module)
            if verdict.status == "refuted":
                raise BrokenPass(f"{what_broke} the protocol", verdict.refusal(kernel))
        shape = ", ".join(f"{name}={extent}" for name, extent in self._extents.items())
        try:
            simulate(self._program, module, self._extents, ctas=_CTAS if scheduler(kernel) is not None else None)
        except Fault as error:
            raise BrokenPass(f"{what_broke} the protocol, with {shape}", error.diagnostic) from error
        except Mismatch as error:
            raise BrokenPass(f"{what_broke} the values, with {shape}", error.diagnostic) from error


def check_memory(kernel: KernelOp) -> None:
    """Refuse what does not fit its target. `plan` itself refuses accumulators that tensor memory does not hold."""
    target, needed = target_of(kernel), plan(kernel).total
    if needed > target.smem_per_cta:
        raise TilecError(
            f"the kernel needs {needed} bytes of shared memory, a CTA of {target.name} has {target.smem_per_cta}",
            location_of(kernel),
            "use smaller tiles (retile) or fewer stages (pipeline)",
        )


def small_extents(kernel: KernelOp) -> dict[str, int]:
    """A small shape that has it all: two tiles in each direction of the grid, more along K, the last ones not full.

    The tail is odd where the views allow that; the innermost dimension of a view stays on its 16-byte grid.
    """
    steps, tiles, assumptions = tile_steps(kernel), tile_extents(kernel), _assumptions(kernel)
    grid = {
        dims_of(op.view)[dimension]
        for op in kernel.walk()
        if isinstance(op, GridOp | ScheduleOp) and isinstance(op.view, BlockArgument)
        for dimension in range(len(op.step))
    }
    extents: dict[str, int] = {}
    for name in extent_names(kernel):
        step, unit = max(steps.get(name, 0), tiles.get(name, 0), 1), grain(kernel, name)
        whole = 1 if name in grid else _K_TILES
        sizes = (
            -(-(tiles * step + tail) // unit) * unit
            for tail in (step // 8 | 1, 0)
            for tiles in range(whole, whole + _MOST_TILES)
        )
        holds = (size for size in sizes if all(one.holds(size) for one in assumptions.get(name, ())))
        extents[name] = next(holds, whole * step)
    return extents


def _assumptions(kernel: KernelOp) -> dict[str, list[AssumeOp]]:
    """By extent, what the kernel assumes of it."""
    assumptions: dict[str, list[AssumeOp]] = {}
    for op in kernel.walk():
        if isinstance(op, AssumeOp) and isinstance(op.view, BlockArgument):
            name = dims_of(op.view)[op.dimension]
            if isinstance(name, str):
                assumptions.setdefault(name, []).append(op)
    return assumptions


def grain(kernel: KernelOp, name: str) -> int:
    """What an extent is a multiple of, in elements, for the views whose rows are that long."""
    unit = 1
    for argument in kernel.body.block.args:
        view = argument.type
        assert isinstance(view, ViewType)
        if dims_of(argument)[view.order[0]] == name:
            bytes = max(view.align if view.rank > 1 else 1, _GRID if view.tail == "grid" else 1)
            unit = max(unit, bytes // view.dtype.bytes)
    return unit
