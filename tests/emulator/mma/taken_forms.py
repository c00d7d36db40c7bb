"""Which of many instructions the emulator takes: they are built, not run."""

from __future__ import annotations

from collections.abc import Sequence

from tilec.backend.emulator.execution.program import Program
from tilec.backend.emulator.execution.steps import Steps
from tilec.backend.emulator.faults import UnsupportedInstruction
from tilec.backend.emulator.instructions import register_all
from tilec.backend.emulator.memory.address_space import GlobalMemory
from tilec.backend.emulator.ptx.parser import parse_ptx


def taken(instructions: Sequence[str], target: str) -> set[str]:
    """Those that are taken; registers r0 to r299 (b32), f0 to f299 (f32), d0 to d299 (f64), q0 to q9 (b64) and predicate p are there."""
    text = (
        f".version 9.0\n.target {target}\n.address_size 64\n.visible .entry k() {{\n"
        ".reg .b32 r<300>; .reg .f32 f<300>; .reg .f64 d<300>; .reg .b64 q<10>; .reg .pred p;\n"
        + "\n".join(instructions)
        + "\nret;\n}\n"
    )
    register_all()
    module = parse_ptx(text)
    steps = Steps(Program(module, module.functions["k"], GlobalMemory()))
    found: set[str] = set()
    for at, instruction in enumerate(instructions):
        try:
            steps[at]
        except UnsupportedInstruction:
            continue
        found.add(instruction)
    return found


def vector(kind: str, count: int, first: int = 0) -> str:
    """``{r0, r1}`` of the registers that hold a type."""
    prefix = {"f64": "d", "f32": "f"}.get(kind, "r")
    return "{" + ", ".join(f"{prefix}{first + i}" for i in range(count)) + "}"
