"""What the commands print beside their results: IR dumps, times, the summary of a kernel."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilec.diagnostics import TilecError, did_you_mean
from tilec.driver import Observer
from tilec.spec import print_pass
from tilec.wording import many

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

    from tilec.backend.emulator.launch import Emulation
    from tilec.backend.simulator import Report as SimulationReport
    from tilec.driver import Compiled, Emit

_IMPLIED = ("threads", "lower")
"""Passes that the driver runs by itself."""


class Report(Observer):
    """Dumps IR after passes, under a header that can be pasted into a pipeline, and keeps times."""

    def __init__(self, after_all: bool = False, after: Sequence[str] = (), passes: Sequence[ModulePass] = ()) -> None:
        known = dict.fromkeys((*(one.name for one in passes), *_IMPLIED))
        for name in after:
            if name not in known:
                raise TilecError(f"no pass '{name}' runs here to print the IR after", hint=did_you_mean(name, known))
        self._after_all = after_all
        self._after = after
        self._times: list[tuple[str, float]] = []

    def pass_done(self, one: ModulePass, module: ModuleOp, seconds: float) -> None:
        self._times.append((print_pass(one), seconds))
        if self._after_all or one.name in self._after:
            print(f"// -----// IR after {print_pass(one)} //----- //\n{module!s}\n", file=sys.stderr)

    def stage_done(self, stage: str, seconds: float) -> None:
        self._times.append((stage, seconds))

    def print_times(self) -> None:
        for what, seconds in (*self._times, ("total", sum(seconds for _, seconds in self._times))):
            print(f"{seconds * 1e3:9.2f} ms  {what}", file=sys.stderr)


def describe_run(report: SimulationReport) -> str:
    """What the simulator counted, in a line."""
    return (
        f"{many(report.tiles, 'tile')} on {many(report.ctas, 'CTA')}, {report.bytes_loaded} bytes loaded, "
        f"{report.bytes_stored} stored, {many(report.mmas, 'MMA')}, {many(report.waits, 'wait')}, "
        f"{many(report.stalls, 'stall')}"
    )


def describe_emulation(ran: Emulation | None) -> str:
    """What the emulator counted, in a line."""
    if ran is None:
        return "no tile: nothing is launched"
    return (
        f"{many(ran.ctas, 'CTA')}, {many(ran.instructions.total(), 'instruction')}, {ran.tma_load_bytes} bytes loaded by TMA, "
        f"{ran.tma_store_bytes} stored, {many(ran.mmas.total(), 'MMA')}, {many(ran.waits.total(), 'wait')}, "
        f"{many(ran.bank_conflicts, 'bank conflict')}"
    )


def print_summary(compiled: Compiled, emit: Emit) -> None:
    """The resources of a kernel, to stderr; of PTX also what ptxas makes of it, if there is one."""
    from tilec.backend.ptxas import find_ptxas

    abi = compiled.abi
    rows = [
        ("shared memory", f"{abi.smem_bytes} bytes"),
        ("tensor memory", f"{abi.tmem_columns} columns"),
        ("stages", str(abi.stages)),
        ("barriers", ", ".join(f"{b.name} x{b.stages} (count {b.arrivals})" for b in abi.barriers) or "none"),
    ]
    if emit == "cubin" or (emit == "ptx" and find_ptxas() is not None):
        made = compiled.resources
        spills = made.spill_stores + made.spill_loads
        rows.append(("registers", f"{made.registers}, " + (f"{spills} bytes of spills" if spills else "no spills")))
    print(f"{abi.name}: {abi.target}, {abi.threads} threads a CTA", file=sys.stderr)
    for name, value in rows:
        print(f"  {name:<14} {value}", file=sys.stderr)
