"""The protocol of an asynchronous kernel (L1): proved for every size, refuted with a trace, or checked up to a bound.

`explore` decides an abstraction in which data are forgotten, stages, phases and flags are kept exactly, and trip counts are
free. What it refutes is replayed on the simulator with numbers; only what fails there too is called refuted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from xdsl.dialects.builtin import ModuleOp

from tilec.backend.kernels import find_kernel, is_asynchronous
from tilec.backend.protocol.extents import extent_names
from tilec.diagnostics import Diagnostic, calls_to, location_of
from tilec.dialects.tile import AssumeOp, KernelOp, RolesOp, ScheduleOp, ViewType

if TYPE_CHECKING:
    from tilec.backend.protocol.exploration import Counterexample, Unproved
    from tilec.backend.protocol.sizes import Size

__all__ = ["Status", "Verdict", "check"]

Status = Literal["proved", "checked", "refuted"]


@dataclass(frozen=True)
class Verdict:
    """What is known of a kernel's protocol."""

    status: Status
    summary: str
    """One line: ``for every K and every number of tiles per CTA``; of a refuted kernel the launch that goes wrong."""
    diagnostic: Diagnostic | None = None
    """What is wrong (refuted), or why there is no proof (checked)."""
    assumptions: tuple[str, ...] = ()
    """What the kernel assumes of its extents, as written."""
    states: int = 0
    """Abstract states that the proof visited."""

    def refusal(self, kernel: KernelOp) -> Diagnostic:
        """What is wrong with `kernel`, for a place that does not show the summary: a note has it."""
        if self.diagnostic is None:
            return Diagnostic("error", self.summary, location_of(kernel))
        note = Diagnostic("note", f"this happens {self.summary}", location_of(kernel))
        return self.diagnostic._replace(notes=(*self.diagnostic.notes, note))


def check(module: ModuleOp, *, kernel: str | None = None) -> Verdict:
    """Check the named kernel, or the only one.

    Raises TilecError for a module without a kernel, or with several and no name.
    """
    # A kernel's extents are asked for by all who compile it, and the proof may be done beside something else.
    from tilec.backend.protocol.exploration import Proof, explore

    op = find_kernel(module, kernel)
    assumptions = tuple(_assumption(one) for one in op.walk() if isinstance(one, AssumeOp))
    if not is_asynchronous(op):
        return Verdict("proved", "synchronous: nothing is in flight when the next operation starts", None, assumptions)
    found = explore(op)
    if not isinstance(found, Proof) and _has_fixed_extents(op):
        found = explore(op, any_extent=False)
    if isinstance(found, Proof):
        return Verdict("proved", _scope(op), None, assumptions, found.states)
    return _replayed(module, op, found, assumptions)


def _replayed(
    module: ModuleOp, kernel: KernelOp, found: Counterexample | Unproved, assumptions: tuple[str, ...]
) -> Verdict:
    """Without a proof, the simulator has the last word."""
    from tilec.backend.protocol.replay import (  # NumPy, which a proof does without
        first_fault,
        sizes_for,
        with_free_tiles,
    )

    module, kernel = with_free_tiles(module, kernel)
    sizes = sizes_for(kernel, found)
    refuted = first_fault(module, kernel, sizes)
    if refuted is not None:
        launch, fault = refuted
        return Verdict("refuted", f"with {launch}", fault, assumptions)
    return Verdict("checked", _bound(sizes), _why(found), assumptions)


def _has_fixed_extents(kernel: KernelOp) -> bool:
    views = (argument.type for argument in kernel.body.block.args)
    return any(isinstance(view, ViewType) and any(isinstance(dim, int) for dim in view.dims) for view in views)


def _scope(kernel: KernelOp) -> str:
    from tilec.backend.protocol.sizes import loop_steps

    loops = [name for name in extent_names(kernel) if name in loop_steps(kernel)]
    parts = [f"every {' and '.join(loops)}"] if loops else []
    if any(isinstance(op, ScheduleOp) for op in kernel.walk()):
        parts.append("every number of tiles per CTA")
    return f"for {' and '.join(parts) or 'every size'}"


def _bound(sizes: list[Size]) -> str:
    if not sizes:
        return "nothing: it is too large for the simulator"
    trips, tiles = max(s.trips for s in sizes), max(s.tiles for s in sizes)
    parts = [f"{trips} iterations a loop"] if trips else []
    parts.append(f"{tiles} tile{'s' if tiles > 1 else ''}")
    launches = "one launch" if len(sizes) == 1 else f"{len(sizes)} launches"
    return f"{' and '.join(parts)}, by simulating {launches}"


def _why(found: Counterexample | Unproved) -> Diagnostic:
    from tilec.backend.protocol.exploration import Unproved

    if isinstance(found, Unproved):
        return Diagnostic(
            "warning",
            f"not proved: {found.reason}",
            location_of(found.op),
            _hint(found),
            calls_to(found.op),
        )
    return Diagnostic(
        "warning",
        f"not proved: an abstract run goes wrong here, which no launch that was simulated did: {found.message}",
        location_of(found.op),
        notes=calls_to(found.op),
    )


def _hint(found: Unproved) -> str | None:
    if isinstance(found.op, RolesOp):
        return None
    if found.reason.startswith("more than "):  # states
        return "a shallower ring, or fewer loops over different extents"
    return "write the loop over an extent, and stages and phases as values that wrap at the ring's depth"


def _assumption(op: AssumeOp) -> str:
    name = op.view.name_hint or "a view"
    return f"the number of tiles of {op.step} along dimension {op.dimension} of {name} is a multiple of {op.multiple}"
