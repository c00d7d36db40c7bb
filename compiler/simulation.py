"""A kernel in the simulator against its program: the same numbers, or the first that differs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument

from tilec.backend import reference
from tilec.backend.protocol.inputs import integer_inputs
from tilec.backend.reference import Array
from tilec.backend.reference.arguments import is_written
from tilec.backend.reference.control import tile_counts
from tilec.backend.simulator import Report, run
from tilec.backend.target import DEFAULT_TARGET, TARGETS
from tilec.diagnostics import TilecError, fail, location_of
from tilec.dialects.tile import KernelOp, ScheduleOp
from tilec.driver import find_kernel
from tilec.passes.synchronous import is_synchronous


class Mismatch(TilecError):
    """The kernel computes something else than its program."""


def simulate(
    program: ModuleOp,
    module: ModuleOp,
    extents: Mapping[str, int],
    *,
    ctas: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Run `module`, which passes made of `program`, on whole numbers.

    Sums of small whole numbers are exact, so that the results are those of a synchronous program to the last bit, or
    wrong. Raises `Mismatch` where they differ, and `tilec.backend.simulator.Fault` where the kernel breaks a rule.
    """
    kernel = find_kernel(module)
    arrays = _inputs(kernel, extents)
    report = run(module, arrays, ctas=grid_size(kernel, arrays, ctas), progress=progress)
    if is_synchronous(find_kernel(program)):
        wanted = _inputs(kernel, extents)
        reference.run(program, wanted)
        for argument, found, right in zip(kernel.body.block.args, arrays, wanted, strict=True):
            if is_written(argument):
                _compare(argument, found, right)
    return report


def grid_size(kernel: KernelOp, arrays: Sequence[Array], asked: int | None = None) -> int | None:
    """The number of CTAs of a persistent kernel, None for others.

    Where nobody asks it is so small that a CTA visits two tiles where there are two: going from one to the next is where
    errors hide.
    """
    schedule = scheduler(kernel)
    if schedule is None or not isinstance(schedule.view, BlockArgument):
        return None
    if asked is not None:
        return asked
    tiles = prod(tile_counts(arrays[schedule.view.index], schedule.step))
    target = TARGETS[DEFAULT_TARGET if kernel.target is None else kernel.target.data]
    return max(1, min(target.sm_count, tiles // 2))


def scheduler(kernel: KernelOp) -> ScheduleOp | None:
    """What makes a kernel persistent."""
    return next((op for op in kernel.walk() if isinstance(op, ScheduleOp)), None)


def _inputs(kernel: KernelOp, extents: Mapping[str, int]) -> list[Array]:
    try:
        return integer_inputs(kernel, extents)
    except (MemoryError, ValueError) as error:  # ValueError: more bytes than there are addresses
        fail(kernel, f"arrays of this shape do not fit into memory: {error}")


def _compare(argument: BlockArgument, found: Array, wanted: Array) -> None:
    wrong = np.argwhere(~((found == wanted) | (np.isnan(found) & np.isnan(wanted))))
    if len(wrong):
        first = tuple(int(i) for i in wrong[0])
        name = argument.name_hint or f"argument {argument.index}"
        raise Mismatch(
            f"{name}{list(first)} is {_number(found[first])}, and the program computes {_number(wanted[first])}: "
            f"{len(wrong)} of {wanted.size} elements are wrong",
            location_of(argument),
        )


def _number(value: object) -> str:
    return "not written" if np.isnan(number := float(str(value))) else f"{number:g}"
