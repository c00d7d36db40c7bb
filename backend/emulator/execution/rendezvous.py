"""Instructions of a member mask that threads execute at different places of the program.

`shfl.sync`, `vote.sync` and their like wait for the same instruction, with the same qualifiers and mask, of the other members
(PTX 9.7.9.6, 9.7.13.5): it need not be at the same place, nor after the same calls. The operands of all threads are brought into
registers of an instruction made for the purpose, which is executed for all of them, and its results are handed out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.execution.cta import Cta
from tilec.backend.emulator.execution.decode import Decoder, Together, find_builder
from tilec.backend.emulator.execution.group import as_index
from tilec.backend.emulator.execution.lanes import Execute, Lanes
from tilec.backend.emulator.execution.program import Program
from tilec.backend.emulator.numbers.types import bytes_of
from tilec.backend.emulator.ptx.syntax import Instruction, Not, Operand, Pair, Register, Sink


class Party(NamedTuple):
    """Threads, ascending, that stand at the instruction at `pc`."""

    pc: int
    threads: NDArray[np.intp]


@dataclass(frozen=True)
class _Stand:
    """The instruction that stands in for those of all parties: `results` and `sources` are its registers, None where there is none."""

    execute: Execute
    instruction: Instruction
    results: tuple[Register | None, ...]
    sources: tuple[Register, ...]


class Rendezvous:
    """Executes one instruction for parties at different places."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._stands: dict[tuple[str, tuple[str | None, ...], tuple[str, ...]], _Stand] = {}

    def execute(self, cta: Cta, parties: Sequence[Party]) -> None:
        """Execute the instruction that the parties stand at, which has the same opcode for all."""
        stand = self._stand([self._program.instructions[p.pc] for p in parties], parties[0].pc)
        while len(cta.registers) < len(self._program.registers):
            cta.registers.append(_row(cta, self._program.registers[len(cta.registers)]))
        own = Decoder(self._program, self._program.owners[parties[0].pc], stand.instruction, 1)
        for party in parties:
            decoder, lanes = self._at(cta, party)
            operands = decoder.operands[1:] if stand.results else decoder.operands
            for register, operand in zip(stand.sources, operands, strict=True):
                values = decoder.reader(operand, register.type)(lanes)
                own.writer(register, register.type)(lanes, np.broadcast_to(values, (lanes.count,)))
        threads = np.sort(np.concatenate([p.threads for p in parties]))
        stand.execute(Lanes(cta, as_index(threads), len(threads), stand.instruction))
        for party in parties:
            decoder, lanes = self._at(cta, party)
            for register, operand in zip(stand.results, _results(decoder.operands[:1]), strict=False):
                if register is not None and not isinstance(operand, Sink):
                    value = own.reader(register, register.type)(lanes)
                    decoder.writer(operand, register.type)(lanes, np.array(value))

    def _at(self, cta: Cta, party: Party) -> tuple[Decoder, Lanes]:
        ins = self._program.instructions[party.pc]
        decoder = Decoder(self._program, self._program.owners[party.pc], ins, 1)
        return decoder, Lanes(cta, as_index(party.threads), len(party.threads), ins)

    def _stand(self, instructions: Sequence[Instruction], pc: int) -> _Stand:
        first = instructions[0]
        # Of the instructions with a member mask, bar.warp.sync alone has no result.
        has_result = first.parts[0] != "bar"
        columns = list(zip(*(i.operands[1:] if has_result else i.operands for i in instructions), strict=True))
        sources = tuple(_type(column) for column in columns)
        rows = [_results(i.operands[:1]) for i in instructions] if has_result else []
        results = tuple(_result_type(column) for column in zip(*rows, strict=True))
        key = first.opcode, results, sources
        found = self._stands.get(key)
        if found is None:
            found = self._stands[key] = self._make(first, pc, results, sources)
        return found

    def _make(
        self, like: Instruction, pc: int, result_types: tuple[str | None, ...], source_types: tuple[str, ...]
    ) -> _Stand:
        owner = self._program.owners[pc]

        def register(type: str) -> Register:
            self._program.registers.append(type)
            return Register("", type, len(self._program.registers) - 1 - owner.first_register)

        results = tuple(None if t is None else register(t) for t in result_types)
        sources = tuple(register(t) for t in source_types)
        written: tuple[Operand, ...] = tuple(Sink() if r is None else r for r in results)
        head = () if not written else (Pair(*written),) if len(written) == 2 else written
        ins = Instruction(like.parts, (*head, *sources), None, like.line, like.column, like.text, like.source)
        found = find_builder(ins.parts)
        assert found is not None
        builder, named = found
        made = builder(Decoder(self._program, owner, ins, named))
        assert isinstance(made, Together)
        return _Stand(made.execute, ins, results, sources)


def _row(cta: Cta, type: str) -> NDArray[np.generic]:
    return np.zeros(cta.padded, np.bool_ if type == "pred" else f"u{bytes_of(type)}")


def _results(operands: Sequence[Operand]) -> tuple[Operand, ...]:
    """``d`` or ``d|p`` as one or two results."""
    return tuple(
        o
        for operand in operands
        for o in ((operand.first, operand.second) if isinstance(operand, Pair) else (operand,))
    )


def _type(column: tuple[Operand, ...]) -> str:
    """The type of an operand that is a register in some of the instructions, or a constant in all."""
    for operand in column:
        match operand:
            case Register():
                return operand.type
            case Not():
                return "pred"
            case _:
                pass
    return "b32"


def _result_type(column: tuple[Operand, ...]) -> str | None:
    return next((o.type for o in column if isinstance(o, Register)), None)
