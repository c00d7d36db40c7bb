"""What names mean where: the scopes of a module and of its functions, and the registers of a function."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilec.backend.emulator.ptx.special import SPECIAL
from tilec.backend.emulator.ptx.syntax import Operand, Register, Vector
from tilec.backend.emulator.ptx.types import ELEMENTS

_MOST_DIGITS = 10
"""Digits of the largest number behind a prefix that can be declared."""


class RegisterFile:
    """The registers of one function, numbered in the order in which they come up."""

    def __init__(self) -> None:
        self.registers: list[Register] = []

    def scalar(self, name: str, kind: str) -> Register:
        register = Register(name, kind, len(self.registers))
        self.registers.append(register)
        return register


@dataclass(frozen=True, slots=True)
class _Range:
    """``%r<100>``"""

    count: int
    type: str
    lanes: int


class Scope:
    """The names declared in one block, and the block around it.

    The registers of a range ``%r<100>`` come into being when they are first named: programs declare more than they use.
    """

    def __init__(self, parent: Scope | None = None, registers: RegisterFile | None = None) -> None:
        self.parent = parent
        self.names: dict[str, Operand] = {}
        self._ranges: dict[str, _Range] = {}
        self.registers = registers

    def find(self, name: str) -> Operand | None:
        """What `name` (with its element, if it has one) stands for, from the inside out; special registers come last."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.names.get(name)
            if found is None and scope._ranges:
                found = scope._from_range(name)
            if found is not None:
                return found
            scope = scope.parent
        return SPECIAL.get(name)

    def declares(self, name: str) -> bool:
        """Whether this very scope has `name`."""
        return name in self.names or (bool(self._ranges) and self._from_range(name) is not None)

    def declares_any(self, prefix: str, count: int) -> bool:
        """Whether this very scope has one of the names `prefix`0 to `prefix`(count - 1)."""
        if prefix in self._ranges:
            return True
        tails = (name[len(prefix) :] for name in self.names if name.startswith(prefix))
        return any(
            tail.isdecimal() and len(tail) <= _MOST_DIGITS and str(int(tail)) == tail and int(tail) < count
            for tail in tails
        )

    def declare_register(self, name: str, kind: str, lanes: int) -> Operand:
        """Add a register of `lanes` elements, 1 for a scalar."""
        assert self.registers is not None
        if lanes == 1:
            self.names[name] = register = self.registers.scalar(name, kind)
            return register
        elements = tuple(self.registers.scalar(f"{name}.{ELEMENTS[lane][0]}", kind) for lane in range(lanes))
        for lane, element in enumerate(elements):
            for letter in ELEMENTS[lane]:
                self.names[f"{name}.{letter}"] = element
        self.names[name] = vector = Vector(elements)
        return vector

    def declare_range(self, prefix: str, count: int, kind: str, lanes: int) -> None:
        """Add the registers `prefix`0 to `prefix`(count - 1)."""
        self._ranges[prefix] = _Range(count, kind, lanes)

    def _from_range(self, name: str) -> Operand | None:
        base = name.partition(".")[0]
        first = len(base)
        while first > max(0, len(base) - _MOST_DIGITS) and base[first - 1].isdigit():
            first -= 1
            found = self._ranges.get(base[:first])
            if found is not None and (base[first] != "0" or first == len(base) - 1) and int(base[first:]) < found.count:
                if base not in self.names:
                    self.declare_register(base, found.type, found.lanes)
                return self.names.get(name)
        return None

    def range_of(self, name: str) -> tuple[str, int] | None:
        """The range, by its prefix and count, whose name `name` would be if it had more."""
        scope: Scope | None = self
        while scope is not None:
            if (found := scope._ranges.get(name.rstrip("0123456789"))) is not None:
                return name.rstrip("0123456789"), found.count
            scope = scope.parent
        return None

    def known(self) -> Iterator[str]:
        """All names that can be seen from here, for suggestions."""
        scope: Scope | None = self
        while scope is not None:
            yield from scope.names
            for prefix, declared in scope._ranges.items():
                yield from (f"{prefix}{i}" for i in range(min(declared.count, 256)))
            scope = scope.parent
