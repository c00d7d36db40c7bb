"""Loads that complete because their results are used: true register dependences are honoured (PTX 9.7.16.6.4.5).

Compilers leave `tcgen05.wait::ld` out where an instruction that uses a loaded register follows before anything else can touch the
cells that were loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilec.backend.emulator.tcgen05.tensor_memory import Access, TensorMemory

if TYPE_CHECKING:
    from tilec.backend.emulator.execution.lanes import Lanes
    from tilec.backend.emulator.execution.steps import Step


class LoadedRegisters:
    """Watches the registers of the loads of a CTA that no `tcgen05.wait::ld` has followed."""

    def __init__(self, memory: TensorMemory) -> None:
        self._memory = memory

    def watch(self) -> None:
        """A load has begun."""
        self._memory.cta.registers_in_flight = self

    def check(self, lanes: Lanes, step: Step) -> None:
        """Called before an instruction executes: it waits for the loads of the registers that it names."""
        loads: list[Access] = [a for a in self._memory.accesses if a.registers]
        if not loads:
            self._memory.cta.registers_in_flight = None
            return
        touched = step.touched()
        used = [a for a in loads if not touched.isdisjoint(a.registers)]
        if used:
            warps = {int(w) for w in lanes.warps}
            self._memory.end({a for a in used if a.warp in warps})
