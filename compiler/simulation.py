"""A kernel in the simulator against its program: the same numbers, or the first that differs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument

from tilec.backend import reference
from tilec.backend.protocol.inputs import integer_inputs
from tilec.backend.reference import Array
from tilec.backend.reference.arguments import bind_views, is_written
from tilec.backend.reference.control import tile_counts
from tilec.backend.reference.numerics import Machine
from tilec.backend.simulator import Report, run
from tilec.backend.target import DEFAULT_TARGET, TARGETS
from tilec.diagnostics import Diagnostic, TilecError, fail, location_of
from tilec.dialects.tile import KernelOp, ScheduleOp, ViewType
from tilec.driver import find_kernel
from tilec.passes.synchronous import is_synchronous

_BITS = {2: np.uint16, 4: np.uint32}
_BLANK = {2: 0x7E5A, 4: 0x7FC05A5A}
_SAME_VIEWS = "a program to compare with has the same views in the same order"


class Mismatch(TilecError):
    """The kernel computes something else than its program."""


@dataclass(frozen=True)
class Simulated:
    """What a run did."""

    report: Report
    unwritten: tuple[Diagnostic, ...]
    """Warnings of outputs that are not written everywhere."""


def simulate(
    program: ModuleOp,
    module: ModuleOp,
    extents: Mapping[str, int],
    *,
    ctas: int | None = None,
    like: ModuleOp | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Simulated:
    """Run `module`, which passes made of `program`, on whole numbers.

    Sums of small whole numbers are exact, so that the results are those of a synchronous program to the last bit, or
    wrong. `like` is another program to compare with. Raises `Mismatch` where they differ, and
    `tilec.backend.simulator.Fault` where the kernel breaks a rule.
    """
    kernel = find_kernel(module)
    arrays = _inputs(kernel, extents)
    pairs = zip(kernel.body.block.args, arrays, strict=True)
    outputs = [(argument, array) for argument, array in pairs if is_written(argument)]
    for _, array in outputs:
        make_blank(array)
    if like is not None:
        check_alike(kernel, find_kernel(like), arrays)
        program = like
    report = run(module, arrays, ctas=grid_size(kernel, arrays, ctas), progress=progress)
    if is_synchronous(find_kernel(program)):
        wanted = _inputs(kernel, extents)
        reference.run(program, wanted)
        for argument, found in outputs:
            _compare(argument, found, wanted[argument.index])
    unwritten = (never_written(argument, array) for argument, array in outputs)
    return Simulated(report, tuple(one for one in unwritten if one is not None))


def check_alike(kernel: KernelOp, program: KernelOp, arrays: Sequence[Array]) -> None:
    """Refuse a program whose results cannot be compared with those of `kernel` on these arrays."""
    ours, theirs = kernel.body.block.args, program.body.block.args
    name = program.sym_name.data
    if not is_synchronous(program):
        fail(
            program,
            f"{name} has a schedule already, and is no program to compare with",
            "give the whole-tile program (L0), with tile.copy and tile.mma alone",
        )
    if len(ours) != len(theirs):
        fail(program, f"{name} has {len(theirs)} views, and {kernel.sym_name.data} has {len(ours)}", _SAME_VIEWS)
    for mine, yours in zip(ours, theirs, strict=True):
        assert isinstance(mine.type, ViewType)
        assert isinstance(yours.type, ViewType)
        what, other = (one.name_hint or f"argument {one.index}" for one in (yours, mine))
        if mine.type.element != yours.type.element:
            fail(yours, f"{what} is {yours.type.dtype.name}, and {other} is {mine.type.dtype.name}", _SAME_VIEWS)
        if is_written(mine) != is_written(yours):
            fail(yours, f"of {what} and {other} only one is written", _SAME_VIEWS)
    bind_views(program, arrays, Machine())


def make_blank(array: Array) -> None:
    """Fill an output with what no kernel computes: a NaN with a mark in it."""
    array.view(_BITS[array.itemsize])[...] = _BLANK[array.itemsize]


def never_written(argument: BlockArgument, array: Array) -> Diagnostic | None:
    """A warning of elements that have been blank since `make_blank`."""
    blank = array.view(_BITS[array.itemsize]) == _BLANK[array.itemsize]
    count = int(np.count_nonzero(blank))
    if not count:
        return None
    first = tuple(int(i) for i in np.unravel_index(int(np.argmax(blank)), blank.shape))
    name = argument.name_hint or f"argument {argument.index}"
    where = f"({first[0]})" if len(first) == 1 else str(first)
    message = f"{count} of {blank.size} elements of {name} are never written, the first at {where}"
    return Diagnostic("warning", message, location_of(argument))


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
        ours = "not written" if np.isnan(found[first]) else f"{found[first]:g}"
        theirs = "does not write it" if np.isnan(wanted[first]) else f"computes {wanted[first]:g}"
        raise Mismatch(
            f"{name}{list(first)} is {ours}, and the program {theirs}: {len(wrong)} of {wanted.size} elements are wrong",
            location_of(argument),
        )
