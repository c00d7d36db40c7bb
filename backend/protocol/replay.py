"""Launches on the simulator: where a proof ends without one, numbers decide."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation
from xdsl.rewriter import Rewriter

from tilec.backend import simulator
from tilec.backend.kernels import find_kernel
from tilec.backend.protocol.exploration import Counterexample, Unproved
from tilec.backend.protocol.extents import dims_of
from tilec.backend.protocol.facts import constant_of
from tilec.backend.protocol.inputs import integer_inputs
from tilec.backend.protocol.sizes import Size, loop_steps, satisfies_assumptions, sized, small_sizes
from tilec.diagnostics import Diagnostic
from tilec.dialects.tile import DimOp, GridOp, KernelOp, ScheduleOp, ViewType

_MOST_ELEMENTS = 1 << 26
"""Of all arrays of a launch that is simulated."""
_MOST_ITERATIONS = 10_000


def sizes_for(kernel: KernelOp, found: Counterexample | Unproved) -> list[Size]:
    """Launches that tell most about a kernel that has no proof, those that a counterexample names among them."""
    if isinstance(found, Counterexample):
        likely = _likely_sizes(kernel, found)
        sizes = [*likely, *small_sizes(kernel, trips=max(size.trips for size in likely), turns=found.turns)]
    else:
        sizes = small_sizes(kernel)
    if any(_is_long(op) for op in kernel.walk()):
        return []
    return [size for size in sizes if satisfies_assumptions(kernel, size.extents) and _is_small(kernel, size)]


def with_free_tiles(module: ModuleOp, kernel: KernelOp) -> tuple[ModuleOp, KernelOp]:
    """The kernel for any number of tiles, where its types fix one and nothing else asks for it: launches can be small then."""
    ruler = next((op for op in kernel.walk() if isinstance(op, GridOp | ScheduleOp)), None)
    if ruler is None or not isinstance(ruler.view, BlockArgument) or not isinstance(ruler.view.type, ViewType):
        return module, kernel
    view, place = ruler.view.type, ruler.view.index
    asked = {op.dimension for op in kernel.walk() if isinstance(op, DimOp) and op.view is ruler.view}
    dims = [dim if isinstance(dim, str) or i in asked else None for i, dim in enumerate(view.dims)]
    if tuple(dims) == view.dims:
        return module, kernel
    module = module.clone()
    kernel = find_kernel(module, kernel.sym_name.data)
    argument = kernel.body.block.args[place]
    free = ViewType.of(dims, view.element, order=view.order, align=view.align, tail=view.tail)
    fresh = Rewriter.replace_value_with_new_type(argument, free)
    assert isinstance(fresh, BlockArgument)
    fresh.location = argument.location
    return module, kernel


def _is_long(op: Operation) -> bool:
    """A loop that takes the simulator too long at every size."""
    if not isinstance(op, scf.ForOp):
        return False
    low, high, step = (constant_of(value) for value in (op.lb, op.ub, op.step))
    return low is not None and high is not None and high - low > (step or 1) * _MOST_ITERATIONS


def _is_small(kernel: KernelOp, size: Size) -> bool:
    """Whether the launch's arrays are worth making."""
    shapes = ([size.extents[d] if isinstance(d, str) else d for d in dims_of(a)] for a in kernel.body.block.args)
    return sum(prod(shape) for shape in shapes) <= _MOST_ELEMENTS


def first_fault(module: ModuleOp, kernel: KernelOp, sizes: Iterable[Size]) -> tuple[str, Diagnostic] | None:
    """The smallest launch that goes wrong, one whose loops run if there is one, and what the simulator says of it."""
    persistent = any(isinstance(op, ScheduleOp) for op in kernel.walk())
    for size in sorted(sizes, key=lambda size: (not size.trips, (size.trips + 1) * size.tiles)):
        try:
            simulator.run(module, integer_inputs(kernel, size.extents), kernel=kernel.sym_name.data, ctas=1)
        except simulator.Fault as fault:
            tiles = "one tile" if size.tiles == 1 else f"{size.tiles} tiles{' on one CTA' if persistent else ''}"
            return f"{size}: {tiles}", fault.diagnostic
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
