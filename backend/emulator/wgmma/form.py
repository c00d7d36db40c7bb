"""What the text of one `wgmma.mma_async` says (PTX 9.7.15.5.2, 9.7.15.6.3)."""

from __future__ import annotations

from dataclasses import dataclass

from tilec.backend.emulator.execution.decode import Decoder, Reader
from tilec.backend.emulator.matrices.layout import Major
from tilec.backend.emulator.mma.sparse import Sparsity, take_selector
from tilec.backend.emulator.ptx.syntax import Integer, Operand, Register, Vector
from tilec.backend.emulator.wgmma.shapes import Shape, parse


@dataclass(frozen=True)
class Metadata:
    """Of a sparse A: how it is sparse, the register that holds the metadata, and which of four lanes give them."""

    sparsity: Sparsity
    register: Reader
    selector: int


@dataclass(frozen=True)
class Form:
    """One wgmma.mma_async as written: A comes by descriptor or from four registers of each thread. `name` is the shape's;
    `accumulators` and `inputs` are the registers of D and A, by slot."""

    shape: Shape
    name: str
    saturate: bool
    accumulators: tuple[int, ...]
    inputs: frozenset[int]
    a: Reader | tuple[Reader, ...]
    b: Reader
    metadata: Metadata | None
    accumulate: Reader
    negate: tuple[bool, bool]
    major: tuple[Major, Major]
    operation: str | None
    opcode: str


def take_aligned(d: Decoder) -> None:
    """Consume what every wgmma instruction begins with; refuses targets without them (PTX 9.7.15.5.2, Target ISA Notes)."""
    if (target := d.program.module.target) != "sm_90a":
        d.unsupported(f"wgmma exists on sm_90a alone, not on {target}")
    if d.take("sync") is None or d.take("aligned") is None:
        d.unsupported(".sync.aligned is missing")


def take_form(d: Decoder, *, sparse: bool) -> Form:
    """Consume all modifiers and operands."""
    take_aligned(d)
    saturate = d.take("satfinite") is not None
    operation = d.take("and")
    if (d.take("popc") is None) != (operation is None):
        d.unsupported(".and goes with .popc")
    if len(d.modifiers) != 4:
        d.unsupported("wgmma.mma_async takes a shape and three types")
    name, types = d.modifiers[0], d.modifiers[1:]
    shape = parse(name, types[0], types[1], types[2], sparse=sparse)
    if isinstance(shape, str):
        d.unsupported(shape)
    if (shape.a == "b1") != (operation is not None) or (saturate and shape.a not in ("s8", "u8")):
        d.unsupported()
    if len(d.operands) < 3:
        d.unsupported(f"{len(d.operands)} operands")
    accumulators, a, b, *rest = d.operands
    from_registers = isinstance(a, Vector)
    scales = 0 if shape.integer else 2
    transposes = (1 if from_registers else 2) if shape.transposable else 0
    before = 3 + (2 if sparse else 0)
    if len(d.operands) != before + 1 + scales + transposes:
        d.unsupported(f"{len(d.operands)} operands, not {before + 1 + scales + transposes}")
    metadata = None
    if sparse:
        sparsity = Sparsity(shape.bits, shape.k, ordered=False)
        metadata = Metadata(sparsity, d.reader(rest[0], "b32"), take_selector(d, rest[1], sparsity))
        rest = rest[2:]
    negate = [_immediate(d, o, {1: False, -1: True}, "1 or -1") for o in rest[1 : 1 + scales]] or [False, False]
    flags = [_immediate(d, o, {0: False, 1: True}, "0 or 1") for o in rest[1 + scales :]]
    major: list[Major] = ["MN" if flag else "K" for flag in flags]
    slots = _slots(d, accumulators)
    if len(slots) != shape.accumulators:
        d.unsupported(f"{len(slots)} accumulator registers, not {shape.accumulators}")
    if from_registers and len(a.elements) != 4:
        d.unsupported(f"{len(a.elements)} registers of A, not 4")
    return Form(
        shape,
        name,
        saturate,
        tuple(slots),
        frozenset(_slots(d, a)) if from_registers else frozenset(),
        tuple(d.reader(r, "b32") for r in a.elements) if from_registers else d.reader(a, "b64"),
        d.reader(b, "b64"),
        metadata,
        d.reader(rest[0], "pred"),
        (negate[0], negate[1]),
        (major[0] if len(major) == 2 else "K", major[-1] if major else "K"),
        operation,
        d.instruction.opcode,
    )


def _slots(d: Decoder, operand: Operand) -> list[int]:
    return [d.slot(r) for r in d.elements(operand) if isinstance(r, Register)]


def _immediate(d: Decoder, operand: Operand, meanings: dict[int, bool], names: str) -> bool:
    if not isinstance(operand, Integer) or operand.value not in meanings:
        d.unsupported(f"an operand that must be {names}")
    return meanings[operand.value]
