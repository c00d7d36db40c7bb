"""One step for each instruction of a program, made when it is first reached."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum

from tilec.backend.emulator.execution.decode import Decoder, Reader, Scope, Together, find_builder
from tilec.backend.emulator.execution.lanes import Execute
from tilec.backend.emulator.execution.program import Program
from tilec.backend.emulator.faults import UnsupportedInstruction
from tilec.backend.emulator.ptx.syntax import (
    Address,
    Arguments,
    Instruction,
    Label,
    Not,
    Operand,
    Pair,
    Register,
    Table,
    Vector,
)


class Kind(Enum):
    """How the scheduler treats an instruction: plain ones execute and go on, the others change the flow of control."""

    PLAIN = "plain"
    BRANCH = "bra"
    INDEXED = "brx"
    CALL = "call"
    RETURN = "ret"
    EXIT = "exit"


class Step:
    """An instruction, ready to be executed. `executed` counts warps."""

    __slots__ = (
        "_touched",
        "_written",
        "execute",
        "executed",
        "first_register",
        "guard",
        "instruction",
        "kind",
        "mask",
        "negated",
        "reader",
        "scope",
        "target",
        "targets",
    )

    def __init__(self, ins: Instruction, kind: Kind, guard: int | None, negated: bool, first_register: int) -> None:
        self.instruction = ins
        self.first_register = first_register
        self._touched: frozenset[int] | None = None
        self._written: frozenset[int] | None = None
        self.kind = kind
        self.guard = guard
        self.negated = negated
        self.execute: Execute = _nothing
        self.executed = 0
        self.scope: Scope | None = None
        self.mask: Reader | None = None
        self.reader: Reader | None = None
        """The index of an indexed branch."""
        self.target = -1
        self.targets: tuple[int, ...] = ()

    def touched(self) -> frozenset[int]:
        """The registers of all operands, by slot."""
        if self._touched is None:
            self._touched = self._slots(self.instruction.operands)
        return self._touched

    def written(self) -> frozenset[int]:
        """The registers of the first operand, where results are."""
        if self._written is None:
            self._written = self._slots(self.instruction.operands[:1])
        return self._written

    def register_name(self, slot: int) -> str:
        found = (r for r in _registers(self.instruction.operands) if r.slot + self.first_register == slot)
        return next(r.name for r in found)

    def chains(self, shape: str) -> bool:
        """Whether this is a wgmma of the same shape, whose accumulators the tensor core keeps in order (PTX 9.7.15.7.1)."""
        parts = self.instruction.parts
        return parts[:2] == ("wgmma", "mma_async") and shape in parts

    def _slots(self, operands: tuple[Operand, ...]) -> frozenset[int]:
        return frozenset(r.slot + self.first_register for r in _registers(operands))


def _registers(operands: Iterable[Operand]) -> Iterator[Register]:
    """The registers in operands, those of vectors and addresses among them."""
    for operand in operands:
        match operand:
            case Register():
                yield operand
            case Not():
                yield operand.register
            case Vector() | Arguments():
                yield from _registers(operand.elements)
            case Pair():
                yield from _registers((operand.first, operand.second))
            case Address() if isinstance(operand.base, Register):
                yield operand.base
            case _:
                pass


def _nothing(lanes: object) -> None:
    return None


class Steps:
    """The steps of a program by place."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._steps: list[Step | None] = [None] * len(program.instructions)

    def __getitem__(self, pc: int) -> Step:
        step = self._steps[pc]
        if step is None:
            step = self._steps[pc] = self._build(pc)
        return step

    def built(self) -> list[Step]:
        return [s for s in self._steps if s is not None]

    def _build(self, pc: int) -> Step:
        program = self.program
        ins, owner = program.instructions[pc], program.owners[pc]
        guard = None if ins.guard is None else owner.first_register + ins.guard.register.slot
        step = Step(
            ins,
            _KINDS.get(ins.parts[0], Kind.PLAIN),
            guard,
            ins.guard is not None and ins.guard.negated,
            owner.first_register,
        )
        decoder = Decoder(program, owner, ins, 1)
        if step.kind is not Kind.PLAIN:
            if step.kind is Kind.INDEXED and decoder.take("idx") is None:
                decoder.unsupported("an indexed branch without .idx")
            if step.kind is not Kind.EXIT:
                decoder.take("uni")
            decoder.finish()
            _FLOW.get(step.kind, _no_operands)(step, decoder)
            return step
        found = find_builder(ins.parts)
        if found is None:
            raise UnsupportedInstruction(program.module.file, ins)
        builder, named = found
        made = builder(Decoder(program, owner, ins, named))
        if isinstance(made, Together):
            step.execute, step.scope, step.mask = made.execute, made.scope, made.mask
        else:
            step.execute = made
        return step


def _branch(step: Step, decoder: Decoder) -> None:
    decoder.count(1)
    label = decoder.operands[0]
    if not isinstance(label, Label):
        decoder.unsupported("a branch to something that is no label")
    step.target = decoder.owner.start + label.target


def _indexed(step: Step, decoder: Decoder) -> None:
    decoder.count(2)
    index, table = decoder.operands
    if not isinstance(table, Table) or not isinstance(index, Register):
        decoder.unsupported("an indexed branch without a table")
    step.reader = decoder.reader(index, "u32")
    step.targets = tuple(decoder.owner.start + label.target for label in table.labels)


def _no_operands(step: Step, decoder: Decoder) -> None:
    decoder.count(0)


def _call(step: Step, decoder: Decoder) -> None:
    """Calls are looked at by the scheduler's `calls` module, which needs both functions."""


_KINDS = {k.value: k for k in Kind if k is not Kind.PLAIN}
_FLOW: dict[Kind, Callable[[Step, Decoder], None]] = {Kind.BRANCH: _branch, Kind.INDEXED: _indexed, Kind.CALL: _call}
