"""The design of a kernel that was made for calls."""

from __future__ import annotations

from collections.abc import Mapping

from tilec.backend.protocol.extents import extent_names
from tilec.backend.runtime.arguments import Facts
from tilec.design.report import Design, design
from tilec.diagnostics import TilecError, did_you_mean, kind_of, location_of
from tilec.dialects.tile import KernelOp
from tilec.driver import find_kernel
from tilec.program import Program, SourceProgram, compiling


def explain(program: Program, target: str, facts: tuple[Facts, ...], shape: Mapping[str, int] | None) -> Design:
    """The design of `program` for one target and one class of tensors."""
    module = program.program_for(facts)
    assert isinstance(program, SourceProgram)  # others have no program at hand
    if shape is not None:
        _check(find_kernel(module), shape)
    with compiling():
        return design(module, pipeline=program.pipeline, target=target, shape=shape)


def _check(kernel: KernelOp, shape: Mapping[str, int]) -> None:
    """Each name in the types of the kernel's views needs an extent, and nothing else has one."""
    if not isinstance(shape, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TilecError(f"a shape is a mapping of names to extents, not {kind_of(shape)}", hint='{"M": 256}')
    names = extent_names(kernel)
    for name, extent in shape.items():
        if name not in names:
            hint = did_you_mean(str(name), names) if names else "its extents are fixed"
            raise TilecError(f"{kernel.sym_name.data} has no extent {name}", location_of(kernel), hint)
        if isinstance(extent, bool) or not isinstance(extent, int) or extent < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TilecError(f"the extent of {name} is a number from 0 on, not {extent!r}", location_of(kernel))
    if missing := [name for name in names if name not in shape]:
        example = ", ".join(f'"{name}": {shape.get(name, 256)}' for name in names)
        raise TilecError(f"no extent for {', '.join(missing)}", location_of(kernel), f"for example {{{example}}}")
