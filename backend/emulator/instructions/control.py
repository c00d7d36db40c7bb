"""Instructions about the flow of control that do not change it: traps, hints and delays (PTX 9.7.12, 9.7.19)."""

from __future__ import annotations

from tilec.backend.emulator.execution.decode import Decoder, instruction
from tilec.backend.emulator.execution.lanes import Execute, Lanes
from tilec.backend.emulator.faults import FaultKind


@instruction("trap")
def trap(d: Decoder) -> Execute:
    d.count(0)
    d.finish()

    def execute(lanes: Lanes) -> None:
        lanes.fault(FaultKind.TRAP, "the program executed a trap")

    return execute


@instruction("nanosleep")
def nanosleep(d: Decoder) -> Execute:
    """Suspends the thread for some time; here, no time passes."""
    if d.take("u32") is None:
        d.unsupported("a delay without .u32")
    d.finish()
    d.count(1)
    return lambda lanes: None


@instruction("brkpt")
def breakpoint(d: Decoder) -> Execute:
    """Stops for a debugger: there is none."""
    d.count(0)
    d.finish()
    return lambda lanes: None


@instruction("pmevent")
def profiler_event(d: Decoder) -> Execute:
    """Tells a profiler something: there is none."""
    d.take("mask")
    d.count(1)
    d.finish()
    return lambda lanes: None
