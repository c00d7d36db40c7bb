"""`emulate`: one launch of a kernel, from PTX text and host arrays to results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from tilec.backend.emulator.execution.machine import Machine
from tilec.backend.emulator.execution.orders import ORDERS
from tilec.backend.emulator.execution.program import Program
from tilec.backend.emulator.instructions import register_all
from tilec.backend.emulator.memory.address_space import GlobalMemory, Segment
from tilec.backend.emulator.parameters import HostArrays, encode_parameters
from tilec.backend.emulator.ptx.parser import parse_ptx
from tilec.backend.emulator.ptx.syntax import Function, Module
from tilec.backend.emulator.whole_numbers import whole, wholes
from tilec.backend.target import TARGETS, Target
from tilec.diagnostics import SourceLocation, TilecError, kind_of

OrderName = Literal["fifo", "random", "adversarial"]
Extent = int | tuple[int, ...]

_LARGEST_GRID = (2**31 - 1, 65535, 65535)
"""CTAs along x, y and z that a device takes."""
_MOST_CTAS = 1 << 24
"""Of a launch: far more than can be emulated in a day."""


@dataclass(frozen=True)
class Emulation:
    """What ran.

    `instructions`: instructions executed, counted once for each warp, by opcode without modifiers; `opcodes`: the same by whole
    opcode; `waits`: times that threads were parked, by opcode; `mmas`: matrix instructions by opcode; `tma_load_bytes`,
    `tma_store_bytes`: bytes that TMA moved to and from shared memory; `bank_conflicts`: extra cycles of shared-memory accesses;
    `printed`: what the kernel printed.
    """

    kernel: str
    ctas: int
    instructions: Counter[str]
    opcodes: Counter[str]
    waits: Counter[str]
    mmas: Counter[str]
    tma_load_bytes: int
    tma_store_bytes: int
    bank_conflicts: int
    printed: str


def emulate(
    ptx: str,
    kernel: str | None,
    grid: Extent,
    block: Extent,
    args: Sequence[Any],
    *,
    cluster: Extent = (1, 1, 1),
    dynamic_smem: int = 0,
    target: str | None = None,
    order: OrderName = "fifo",
    seed: int = 0,
    file: str = "<ptx>",
) -> Emulation:
    """Run `kernel` of a PTX text (None: its only entry) on `args`, in the order of its parameters.

    NumPy arrays stand for their addresses in global memory and are updated in place, also when a fault ends the run; NumPy
    scalars are passed by value, Python numbers as the parameter's type; a `TensorMap` is a tensor map,
    a tuple a structure of such members. `grid`, `block` and `cluster` are
    (x, y, z), missing ones 1. `target`: "sm_90a" or "sm_100a", by default that of the text. `order`: how threads, CTAs and engines
    are interleaved, "fifo", "random" or "adversarial", the latter two by `seed`. `file` names the text in messages.

    Raises EmulatorFault for what hardware would not define, UnsupportedInstruction for what the emulator does not know, and
    TilecError for text or arguments that are wrong.
    """
    register_all()
    _check_text("the PTX", ptx)
    _check_text("the name of the file", file)
    if kernel is not None:
        _check_text("the kernel's name", kernel)
    module = parse_ptx(ptx, file)
    function = _find_kernel(module, kernel)
    where = SourceLocation(file, max(function.line, 1), 1)
    chip = _target(module, target, where)
    if target:
        # What the text was made for counts no more: instructions that this target lacks stop.
        module = replace(module, target=target)
    shape = _Shape.of(function, grid, block, cluster, where)
    if order not in tuple(ORDERS):
        raise TilecError(f"order {order!r}: it is one of {', '.join(ORDERS)}")
    seed, dynamic_smem = whole("seed", seed), whole("dynamic_smem", dynamic_smem)
    memory = GlobalMemory()
    program = Program(module, function, memory)
    _check_shared(program, chip, dynamic_smem, where)
    arrays = HostArrays(memory)
    parameters = Segment("the kernel's parameters", program.parameter_bytes, writable=False)
    encode_parameters(function, program, args, arrays, parameters)
    machine = Machine(
        program,
        memory,
        parameters,
        chip,
        ORDERS[order](seed),
        grid=shape.grid,
        block=shape.block,
        cluster=shape.cluster,
        explicit_cluster=shape.explicit_cluster,
        dynamic_smem=dynamic_smem,
        seed=seed,
    )
    try:
        with np.errstate(all="ignore"):
            machine.run()
    finally:
        arrays.copy_back()
    return _result(machine)


def _result(machine: Machine) -> Emulation:
    opcodes: Counter[str] = Counter()
    for step in machine.flow.steps.built():
        opcodes[step.instruction.opcode] += step.executed
    instructions: Counter[str] = Counter()
    for opcode, count in opcodes.items():
        instructions[opcode.split(".")[0]] += count
    s = machine.statistics
    return Emulation(
        machine.kernel,
        s.ctas,
        instructions,
        opcodes,
        s.waits,
        s.mmas,
        s.tma_load_bytes,
        s.tma_store_bytes,
        s.bank_conflicts,
        "".join(s.printed),
    )


def _find_kernel(module: Module, name: str | None) -> Function:
    entries = {f.name: f for f in module.functions.values() if f.entry and f.body is not None}
    listed = ", ".join(entries) or "none"
    top = SourceLocation(module.file, 1, 1)
    if name is None:
        if len(entries) != 1:
            raise TilecError(f"the text has {len(entries)} kernels: {listed}", top, hint="name the one to run")
        return next(iter(entries.values()))
    if name not in entries:
        raise TilecError(f"no kernel {name} in the text; there are: {listed}", top)
    return entries[name]


def _target(module: Module, wanted: str | None, where: SourceLocation) -> Target:
    if wanted is not None:
        _check_text("the target", wanted)
    name = wanted or module.target
    if name in TARGETS:
        return TARGETS[name]
    digits = "".join(c for c in name if c.isdigit())
    # Plain targets and those of a family run on the chip that tilec knows of that family, or on a later one.
    if wanted is None and digits.isdigit():
        return TARGETS["sm_100a" if int(digits) >= 100 else "sm_90a"]
    raise TilecError(f"the emulator knows no target {name}; it knows {', '.join(TARGETS)}", where)


@dataclass(frozen=True)
class _Shape:
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    explicit_cluster: bool

    @staticmethod
    def of(function: Function, grid: Extent, block: Extent, cluster: Extent, where: SourceLocation) -> _Shape:
        """The launch's shape, checked against the kernel's directives (PTX 11.4, 11.7)."""
        g, b, c = _triple("grid", grid), _triple("block", block), _triple("cluster", cluster)
        required = function.directives.get("reqntid")
        if required is not None and _padded(required) != b:
            raise TilecError(
                f"kernel {function.name} requires blocks of {_padded(required)} threads (.reqntid), not {b}", where
            )
        most = function.directives.get("maxntid")
        threads = b[0] * b[1] * b[2]
        if most is not None and threads > (limit := int(np.prod(most))):
            raise TilecError(f"kernel {function.name} takes at most {limit} threads (.maxntid), not {threads}", where)
        if not 1 <= threads <= 1024 or b[2] > 64:
            raise TilecError(f"a block of {threads} threads: a CTA has 1 to 1024, at most 64 of them along z")
        clusters = function.directives.get("reqnctapercluster")
        if clusters:
            if c not in ((1, 1, 1), _padded(clusters)):
                raise TilecError(
                    f"kernel {function.name} requires clusters of {_padded(clusters)} CTAs (.reqnctapercluster), not {c}",
                    where,
                )
            c = _padded(clusters)
        if "blocksareclusters" in function.directives:
            g = g[0] * c[0], g[1] * c[1], g[2] * c[2]
        if c[0] * c[1] * c[2] > 16:
            raise TilecError(f"a cluster of {c[0] * c[1] * c[2]} CTAs: there are at most 16")
        if any(a % n for a, n in zip(g, c, strict=True)):
            raise TilecError(f"a grid of {g} CTAs is not made of whole clusters of {c}")
        if any(a > most for a, most in zip(g, _LARGEST_GRID, strict=True)):
            raise TilecError(f"a grid of {g} CTAs: a device takes at most {_LARGEST_GRID}")
        if g[0] * g[1] * g[2] > _MOST_CTAS:
            raise TilecError(f"a grid of {g} CTAs: the emulator takes at most {_MOST_CTAS} of them")
        return _Shape(g, b, c, bool(clusters) or c != (1, 1, 1))


def _triple(name: str, extent: Extent) -> tuple[int, int, int]:
    lowest = 0 if name == "grid" else 1
    several = isinstance(extent, list | tuple) or (isinstance(extent, np.ndarray) and extent.ndim > 0)
    given = wholes(name, extent) if several else (whole(name, extent),)
    if not 1 <= len(given) <= 3 or any(n < lowest for n in given):
        raise TilecError(
            f"{name} = {extent!r}: it is one to three whole numbers from {lowest} on, (x, y, z); missing ones are 1"
        )
    return _padded(given)


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise TilecError(
            f"{name} is {kind_of(value)}, not a str", hint="decode it first" if isinstance(value, bytes) else None
        )


def _padded(given: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*given, 1, 1)[:3]
    return x, y, z


def _check_shared(program: Program, target: Target, dynamic: int, where: SourceLocation) -> None:
    used = program.dynamic_offset - 0x400 + dynamic
    if dynamic < 0 or used > target.smem_per_cta:
        raise TilecError(
            f"kernel {program.kernel.name} uses {program.static_shared} bytes of static and {dynamic} bytes of dynamic shared "
            f"memory; a CTA of {target.name} has at most {target.smem_per_cta}",
            where,
        )
