"""What the instructions of tcgen05 have in common: CTA groups, whole warps, values that a warp shares (PTX 9.7.16.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.execution.decode import Builder, Decoder, Reader, Together, instruction
from tilec.backend.emulator.execution.lanes import Execute, Lanes
from tilec.backend.emulator.faults import FaultKind
from tilec.diagnostics import SourceLocation, TilecError

_TARGETS = tuple(f"sm_{chip}{kind}" for chip in (100, 101, 103, 110) for kind in "af")
_GROUPS = ("cta_group::1", "cta_group::2")


def tcgen05(*opcodes: str) -> Callable[[Builder], Builder]:
    """Registers a builder like `instruction`, for targets that have these instructions."""

    def register(builder: Builder) -> Builder:
        def build(d: Decoder) -> Execute | Together:
            if (target := d.program.module.target) not in _TARGETS:
                d.unsupported(f"tcgen05 exists on {', '.join(_TARGETS)}, not on {target}")
            return builder(d)

        build.__module__ = builder.__module__
        instruction(*opcodes)(build)
        return builder

    return register


def take_group(d: Decoder) -> Literal[1, 2]:
    """The number of CTAs. All instructions of a kernel must name the same (ptxas refuses others)."""
    group = d.take(*_GROUPS)
    if group is None:
        d.unsupported(".cta_group::1 or .cta_group::2 is missing")
    for other in d.program.instructions:
        if other.parts[0] == "tcgen05" and (found := next((p for p in other.parts if p in _GROUPS), group)) != group:
            raise TilecError(
                f"{d.instruction.opcode}: all tcgen05 instructions of a kernel must have the same .cta_group, but line {other.line} "
                f"has .{found}",
                SourceLocation(d.program.module.file, d.instruction.line, d.instruction.column),
            )
    return 1 if group == "cta_group::1" else 2


def take_aligned(d: Decoder) -> None:
    if d.take("sync") is None or d.take("aligned") is None:
        d.unsupported(".sync.aligned is missing")


def each_warp(lanes: Lanes) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """The warps, and the positions of their threads. Faults for a warp of which threads have exited."""
    warps = lanes.threads >> 5
    for warp in lanes.warps:
        positions = np.flatnonzero(warps == warp)
        there = min(32, lanes.cta.threads - 32 * int(warp))
        if len(positions) != there:
            lanes.fault(
                FaultKind.DIVERGENT,
                f"{lanes.instruction.opcode} needs all {there} threads of warp {int(warp)}; {there - len(positions)} of them have exited",
                int(positions[0]),
            )
        yield int(warp), positions


def shared_value(lanes: Lanes, read: Reader, positions: NDArray[np.intp], name: str) -> int:
    """The value that all threads at `positions` must give."""
    values = np.broadcast_to(read(lanes), (lanes.count,))[positions]
    different = np.flatnonzero(values != values[0])
    if len(different):
        lanes.fault(
            FaultKind.ILLEGAL,
            f"{name} is not the same in all threads of the warp: {int(values[0])} and {int(values[different[0]])}",
            int(positions[different[0]]),
        )
    return int(values[0])
