"""What a program must not do, and what the emulator does not know."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NoReturn

from tilec.diagnostics import Diagnostic, SourceLocation, TilecError

if TYPE_CHECKING:
    from tilec.backend.emulator.ptx.syntax import Instruction, SourceLine


class FaultKind(StrEnum):
    """Kinds of faults. Each is the string that messages begin with: ``fault.kind == "deadlock"``."""

    OUT_OF_BOUNDS = "out of bounds"
    MISALIGNED = "misaligned"
    UNINITIALISED = "uninitialised"
    IN_FLIGHT = "in flight"
    DESCRIPTOR = "illegal descriptor"
    TENSOR_MEMORY = "tensor memory"
    MBARRIER = "mbarrier"
    DIVERGENT = "divergent"
    PROXY_FENCE = "missing proxy fence"
    DEADLOCK = "deadlock"
    ILLEGAL = "illegal instruction"
    TRAP = "trap"
    LEFT_BEHIND = "left behind at exit"


@dataclass(frozen=True)
class Place:
    """Where something happens: an instruction of a CTA, and the thread that executes it where there is one. `cta` and `thread`
    are (x, y, z)."""

    file: str
    kernel: str
    cta: tuple[int, int, int]
    thread: tuple[int, int, int] | None
    instruction: Instruction

    @property
    def location(self) -> SourceLocation:
        return SourceLocation(self.file, self.instruction.line, self.instruction.column)

    def notes(self) -> tuple[Diagnostic, ...]:
        """The chain of source lines, from the innermost out."""
        found: list[Diagnostic] = []
        source: SourceLine | None = self.instruction.source
        message = "compiled from here"
        while source is not None and source.line > 0:
            found.append(Diagnostic("note", message, SourceLocation(source.file, source.line, max(source.column, 1))))
            source, message = source.inlined_at, "inlined here"
        return tuple(found)

    def __str__(self) -> str:
        thread = "" if self.thread is None else f", thread {_triple(self.thread)}"
        return f"kernel {self.kernel}, CTA {_triple(self.cta)}{thread}"


def _triple(index: tuple[int, int, int]) -> str:
    return f"({index[0]}, {index[1]}, {index[2]})"


class EmulatorFault(TilecError):
    """What the program did would be undefined, or a fault, on hardware. Carries `kind` and `place`."""

    def __init__(
        self,
        kind: FaultKind,
        message: str,
        place: Place,
        hint: str | None = None,
        notes: tuple[Diagnostic, ...] = (),
    ) -> None:
        self.kind = kind
        self.place = place
        super().__init__(f"{kind.value}: {message} ({place})", place.location, hint, (*place.notes(), *notes))


class UnsupportedInstruction(TilecError):
    """An instruction, or a form of one, that the emulator does not execute; it never guesses."""

    def __init__(
        self, file: str, instruction: Instruction, why: str = "the emulator does not know this instruction"
    ) -> None:
        self.instruction = instruction
        super().__init__(
            f"{why}: {instruction.opcode}",
            SourceLocation(file, instruction.line, instruction.column),
            hint="docs/emulator.md lists the forms that it executes",
        )


def fail(kind: FaultKind, message: str, place: Place, hint: str | None = None) -> NoReturn:
    raise EmulatorFault(kind, message, place, hint)
