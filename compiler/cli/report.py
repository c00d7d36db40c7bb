"""What the commands print beside their results: IR dumps, times, the summary of a kernel."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from errno import EBADF
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from tilec.diagnostics import TilecError, did_you_mean
from tilec.driver import Observer
from tilec.spec import print_pass

if TYPE_CHECKING:
    from rich.console import RenderableType
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


def write_output(path: str, result: str | bytes, hint: str | None = "choose another place with -o") -> None:
    """Write a result to a file, or to stdout for ``-``; `hint` says what to do where that cannot be written."""
    data = result.encode("utf-8") if isinstance(result, str) else result
    try:
        if path == "-":
            if sys.stdout is None:
                raise OSError(EBADF, os.strerror(EBADF))
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        else:
            Path(path).write_bytes(data)
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:
        where = "standard output" if path == "-" else path
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise TilecError(f"cannot write {where}: {reason}", hint=hint) from error


def rendered(*parts: RenderableType) -> str:
    """Tables and headings as text: for a terminal as wide as it is, for a pipe as wide as they have to be."""
    from rich.console import Console

    console = Console()
    text = StringIO()
    Console(
        file=text,
        force_terminal=console.is_terminal,
        width=console.width if console.is_terminal else 200,
        highlight=False,
        markup=False,
    ).print(*parts, sep="\n")
    if console.is_terminal:
        return text.getvalue()
    return "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())


def describe_run(report: SimulationReport) -> str:
    """What the simulator counted, in a line."""
    return (
        f"{_many(report.tiles, 'tile')} on {_many(report.ctas, 'CTA')}, {report.bytes_loaded} bytes loaded, "
        f"{report.bytes_stored} stored, {_many(report.mmas, 'MMA')}, {_many(report.waits, 'wait')}, "
        f"{_many(report.stalls, 'stall')}"
    )


def describe_emulation(ran: Emulation | None) -> str:
    """What the emulator counted, in a line."""
    if ran is None:
        return "no tile: nothing is launched"
    return (
        f"{_many(ran.ctas, 'CTA')}, {_many(ran.instructions.total(), 'instruction')}, {ran.tma_load_bytes} bytes loaded by TMA, "
        f"{ran.tma_store_bytes} stored, {_many(ran.mmas.total(), 'MMA')}, {_many(ran.waits.total(), 'wait')}, "
        f"{_many(ran.bank_conflicts, 'bank conflict')}"
    )


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def print_summary(compiled: Compiled, emit: Emit) -> None:
    """The resources of a kernel, to stderr; of PTX also what ptxas makes of it, if there is one."""
    from tilec.backend.ptxas import find_ptxas

    abi = compiled.abi
    rows = [
        ("shared memory", f"{abi.smem_bytes} bytes"),
        ("tensor memory", f"{abi.tmem_columns} columns"),
        ("stages", str(abi.stages)),
        ("barriers", ", ".join(f"{b.name} x{b.stages} (count {b.count})" for b in abi.barriers) or "none"),
    ]
    if emit == "cubin" or (emit == "ptx" and find_ptxas() is not None):
        made = compiled.resources
        spills = made.spill_stores + made.spill_loads
        rows.append(("registers", f"{made.registers}, " + (f"{spills} bytes of spills" if spills else "no spills")))
    print(f"{abi.name}: {abi.target}, {abi.threads} threads a CTA", file=sys.stderr)
    for name, value in rows:
        print(f"  {name:<14} {value}", file=sys.stderr)
