"""The protocol of an asynchronous kernel (L1): proved for every size, refuted with a trace, or checked up to a bound.

`explore` decides an abstraction in which data are forgotten, stages, phases and flags are kept exactly, and trip counts are
free. What it refutes is replayed on the simulator with numbers; only what fails there too is called refuted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from xdsl.dialects.builtin import ModuleOp

from tilec.backend import simulator
from tilec.backend.protocol.exploration import Counterexample, Proof, Unproved, explore
from tilec.backend.protocol.inputs import dims_of, extent_names, integer_inputs
from tilec.backend.protocol.sizes import Size, loop_steps, satisfies_assumptions, sized, small_sizes
from tilec.backend.reference.launch import find_kernel
from tilec.diagnostics import Diagnostic, location_of
from tilec.dialects.tile import AssumeOp, KernelOp, ScheduleOp, ViewType

__all__ = ["Status", "Verdict", "check"]

Status = Literal["proved", "checked", "refuted"]


@dataclass(frozen=True)
class Verdict:
    """What is known of a kernel's protocol."""

    status: Status
    summary: str
    """One line: ``for every K and every number of tiles per CTA``."""
    diagnostic: Diagnostic | None = None
    """What is wrong (refuted), or why there is no proof (checked)."""
    assumptions: tuple[str, ...] = ()
    """What the kernel assumes of its extents, as written."""
    states: int = 0
    """Abstract states that the proof visited."""


def check(module: ModuleOp, *, kernel: str | None = None) -> Verdict:
    """Check the named kernel, or the only one.

    Raises TilecError for a module without a kernel, or with several and no name.
    """
    op = find_kernel(module, kernel)
    assumptions = tuple(_assumption(one) for one in op.walk() if isinstance(one, AssumeOp))
    if not simulator.is_asynchronous(op):
        return Verdict("proved", "synchronous: nothing is in flight when the next operation starts", None, assumptions)
    found = explore(op)
    if not isinstance(found, Proof) and _has_fixed_extents(op):
        found = explore(op, any_extent=False)
    if isinstance(found, Proof):
        return Verdict("proved", _scope(op), None, assumptions, found.states)
    if isinstance(found, Counterexample):
        likely = _likely_sizes(op, found)
        sizes = [*likely, *small_sizes(op, trips=max(size.trips for size in likely), turns=found.turns)]
    else:
        sizes = small_sizes(op)
    sizes = [size for size in sizes if satisfies_assumptions(op, size.extents)]
    refuted = _first_fault(module, op, sizes)
    if refuted is not None:
        return Verdict("refuted", refuted.message, refuted, assumptions)
    return Verdict("checked", _bound(sizes), _why(found), assumptions)


def _first_fault(module: ModuleOp, kernel: KernelOp, sizes: Iterable[Size]) -> Diagnostic | None:
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


def _has_fixed_extents(kernel: KernelOp) -> bool:
    views = (argument.type for argument in kernel.body.block.args)
    return any(isinstance(view, ViewType) and any(isinstance(dim, int) for dim in view.dims) for view in views)


def _scope(kernel: KernelOp) -> str:
    loops = [name for name in extent_names(kernel) if name in loop_steps(kernel)]
    parts = [f"every {' and '.join(loops)}"] if loops else []
    if any(isinstance(op, ScheduleOp) for op in kernel.walk()):
        parts.append("every number of tiles per CTA")
    return f"for {' and '.join(parts) or 'every size'}"


def _bound(sizes: list[Size]) -> str:
    trips, turns = max((s.trips for s in sizes), default=0), max((s.turns for s in sizes), default=0)
    parts = [f"{trips} iterations a loop"] if trips else []
    parts.append(f"{turns} tile{'s' if turns > 1 else ''} per CTA")
    return f"{' and '.join(parts)}, by simulating {len(sizes)} launches"


def _why(found: Counterexample | Unproved) -> Diagnostic:
    if isinstance(found, Unproved):
        return Diagnostic(
            "warning",
            f"not proved: {found.reason}",
            location_of(found.op),
            hint="write the loop over an extent, and stages and phases as values that wrap at the ring's depth",
        )
    return Diagnostic(
        "warning",
        f"not proved: an abstract run goes wrong here, which no launch that was simulated did: {found.message}",
        location_of(found.op),
    )


def _assumption(op: AssumeOp) -> str:
    name = op.view.name_hint or "a view"
    return f"the number of tiles of {op.step} along dimension {op.dimension} of {name} is a multiple of {op.multiple}"
