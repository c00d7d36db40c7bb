"""Launches on the simulator: where a proof ends without one, numbers decide."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp

from tilec.backend import simulator
from tilec.backend.protocol.exploration import Counterexample, Unproved
from tilec.backend.protocol.extents import dims_of
from tilec.backend.protocol.inputs import integer_inputs
from tilec.backend.protocol.sizes import Size, loop_steps, satisfies_assumptions, sized, small_sizes
from tilec.diagnostics import Diagnostic, location_of
from tilec.dialects.tile import KernelOp


def sizes_for(kernel: KernelOp, found: Counterexample | Unproved) -> list[Size]:
    """Launches that tell most about a kernel that has no proof, those that a counterexample names among them."""
    if isinstance(found, Counterexample):
        likely = _likely_sizes(kernel, found)
        sizes = [*likely, *small_sizes(kernel, trips=max(size.trips for size in likely), turns=found.turns)]
    else:
        sizes = small_sizes(kernel)
    return [size for size in sizes if satisfies_assumptions(kernel, size.extents)]


def first_fault(module: ModuleOp, kernel: KernelOp, sizes: Iterable[Size]) -> Diagnostic | None:
    """What the simulator says of the smallest launch that goes wrong."""
    for size in sorted(sizes, key=lambda size: (size.trips + 1) * size.turns):
        try:
            simulator.run(module, integer_inputs(kernel, size.extents), kernel=kernel.sym_name.data, ctas=1)
        except simulator.Fault as fault:
            found = fault.diagnostic
            note = Diagnostic("note", f"this happens with {size}", location_of(kernel))
            return replace(found, notes=(*found.notes, note))
    return None


def _likely_sizes(kernel: KernelOp, found: Counterexample) -> list[Size]:
    """Launches that should take the path of a counterexample."""
    names = _names_by_key(kernel)
    steps = loop_steps(kernel)
    trips = {-(-extent // steps[name]) for key, extent in found.extents.items() if (name := names.get(key)) in steps}
    return [sized(kernel, count, turns) for count in sorted(trips or {0}) for turns in (found.turns, found.turns + 1)]


def _names_by_key(kernel: KernelOp) -> dict[int, str]:
    """Names of extents by their place among those of all views, as the proof counts them."""
    names: dict[int, str] = {}
    seen: set[str] = set()
    place = 0
    for argument in kernel.body.block.args:
        for name in dims_of(argument):
            if isinstance(name, str) and name not in seen:
                seen.add(name)
                names[place] = name
            place += 1
    return names
