"""One CTA: its values, and the table of what each operation does. The simulator's CTA is one of these."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar, cast

import numpy as np
from xdsl.dialects.builtin import IndexType, IntegerType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from tilec.backend.reference.numerics import Array, Numerics
from tilec.diagnostics import fail

Value = object
"""What an SSA value is: int, a register tile (an array), a view, or storage as the executor keeps it."""
Op = TypeVar("Op", bound=Operation)
State = TypeVar("State", bound="Cta")
Kind = TypeVar("Kind")

INDEX_BITS = 32
"""An index is as wide as a TMA coordinate."""


class Handlers(dict[type[Operation], Callable[[Any, Any], None]]):
    """What to do for an operation, by its class."""

    def of(self, op_type: type[Op]) -> Callable[[Callable[[State, Op], None]], Callable[[State, Op], None]]:
        """Register the decorated function."""

        def register(function: Callable[[State, Op], None]) -> Callable[[State, Op], None]:
            self[op_type] = function
            return function

        return register


def name_of(value: SSAValue) -> str:
    return f"%{value.name_hint}" if value.name_hint else "the value"


def bits_of(value: SSAValue) -> int:
    """Width of an integer or index."""
    return INDEX_BITS if isinstance(value.type, IndexType) else cast(IntegerType, value.type).bitwidth


Plan = tuple[list[tuple[Callable[[Any, Any], None], Operation]], Sequence[SSAValue]]
"""A block as its operations with what executes each, and what its terminator passes on."""


@dataclass
class Cta:
    """The state of one CTA. Integers are kept as they lie in a register: modulo 2 to the width, not negative."""

    handlers: Mapping[type[Operation], Callable[[Any, Any], None]]
    plans: dict[Block, Plan]
    """Of the blocks executed so far; the CTAs of a launch share it."""
    numerics: Numerics
    tile: tuple[int, ...]
    """Offsets of the one tile of the kernel's `tile.grid` that this CTA executes."""
    number: int
    total: int
    """This CTA, and how many were launched, for `tile.schedule`."""
    values: dict[SSAValue, Value] = field(default_factory=dict[SSAValue, Value], init=False)

    def run(self, block: Block, arguments: Sequence[Value] = ()) -> list[Value]:
        """Execute a block; the result is what its terminator passes on."""
        if arguments:
            self.bind(block.args, arguments)
        if (plan := self.plans.get(block)) is None:
            plan = self.plans[block] = self._plan(block)
        for handler, op in plan[0]:
            handler(self, op)
        return self.get_all(plan[1])

    def _plan(self, block: Block) -> Plan:
        steps: list[tuple[Callable[[Any, Any], None], Operation]] = []
        for op in block.ops:
            if op.has_trait(IsTerminator):
                return steps, tuple(op.operands)
            steps.append((self.handlers.get(type(op), self.unknown), op))
        return steps, ()

    @staticmethod
    def unknown(cta: Cta, op: Operation) -> NoReturn:
        """Refuse an operation that has no handler."""
        del cta
        if op.dialect_name() == "tile":
            fail(
                op,
                f"{op.name} is asynchronous: the reference executes synchronous kernels",
                hint="tilec.backend.simulator executes both",
            )
        fail(op, f"{op.name} cannot be executed here: NumPy executes tile, scf and integer arith")

    def never_ends(self, op: Operation, message: str, hint: str) -> NoReturn:
        """Execution would go on for ever at this operation."""
        fail(op, message, hint)

    def bind(self, names: Sequence[SSAValue], values: Sequence[Value]) -> None:
        self.values.update(zip(names, values, strict=True))

    def get(self, value: SSAValue, kind: type[Kind]) -> Kind:
        found = self.values[value]
        assert isinstance(found, kind)
        return found

    def get_all(self, values: Sequence[SSAValue]) -> list[Value]:
        return [self.values[v] for v in values]

    def unsigned(self, value: SSAValue) -> int:
        found = self.values[value]
        assert isinstance(found, int)
        return found

    def signed(self, value: SSAValue) -> int:
        half = 1 << bits_of(value) - 1
        return (self.unsigned(value) ^ half) - half

    def set_integer(self, name: SSAValue, value: int) -> None:
        self.values[name] = value % (1 << bits_of(name))

    def registers(self, op: Operation, value: SSAValue) -> Array:
        """The register tile that `op` takes."""
        del op
        return self.get(value, np.ndarray)
