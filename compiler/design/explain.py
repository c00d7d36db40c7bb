"""The design of a kernel that was made for calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from tilec.backend.protocol.extents import extent_names
from tilec.backend.runtime.arguments import Facts
from tilec.design.report import Design, design
from tilec.diagnostics import TilecError, did_you_mean, kind_of, location_of
from tilec.dialects.tile import KernelOp
from tilec.driver import find_kernel
from tilec.program import Program, SourceProgram, compiling


def explain(program: Program, target: str, facts: tuple[Facts, ...], shape: Mapping[str, int] | None) -> Design:
    """The design of `program` for one target and one class of tensors, and with a `shape` for dense ones of these extents."""
    source, module = _source(program, facts)
    if shape is not None:
        _check(find_kernel(module), shape)
    with compiling():
        code = _code(source, module, facts)
        return design(module, pipeline=source.pipeline, target=target, shape=shape, code=code)


def explain_call(program: Program, target: str, facts: tuple[Facts, ...], shapes: Sequence[Sequence[int]]) -> Design:
    """The design for a call with tensors of that class and these shapes, which need not be dense."""
    source, module = _source(program, facts)
    extents = {
        dim: extent
        for view, shape in zip(source.signature.views, shapes, strict=True)
        for dim, extent in zip(view.dims, shape, strict=True)
        if isinstance(dim, str)
    }
    with compiling():
        code = _code(source, module, facts)
        return design(module, pipeline=source.pipeline, target=target, shape=extents, code=code, variant="given")


def _source(program: Program, facts: tuple[Facts, ...]) -> tuple[SourceProgram, ModuleOp]:
    module = program.program_for(facts)
    assert isinstance(program, SourceProgram)  # others have no program at hand
    return program, module


def _code(program: SourceProgram, module: ModuleOp, facts: tuple[Facts, ...]) -> str | None:
    """How Python says the text of the program, where a command cannot read it: no file has it, or a launch of what is in the file
    may take another variant."""
    kernel = find_kernel(module)
    place = location_of(kernel)
    if place is not None and place.file.endswith(".py"):
        return f"{kernel.sym_name.data}.ir()"
    declared = tuple(view.facts for view in program.signature.views)
    return None if place is not None and Path(place.file).is_file() and facts == declared else "kernel.ir()"


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
