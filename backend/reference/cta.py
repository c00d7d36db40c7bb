"""One CTA as one sequential agent: its values, and the table of what each operation does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import numpy as np
from xdsl.dialects.builtin import IndexType, IntegerType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from tilec.backend.reference.numerics import Array, Numerics
from tilec.backend.reference.storage import (
    Accumulator,
    Barriers,
    BulkGroups,
    InFlight,
    Mbarrier,
    Ring,
    SharedTile,
    TensorCore,
    View,
)
from tilec.diagnostics import fail
from tilec.dialects.tile import AccType, SmemType

Value = int | Array | View | SharedTile | Ring | Accumulator | Barriers
Op = TypeVar("Op", bound=Operation)
Kind = TypeVar("Kind")

INDEX_BITS = 64


class Handlers(dict[type[Operation], Callable[["Cta", Any], None]]):
    """What to do for an operation, by its class."""

    def of(self, op_type: type[Op]) -> Callable[[Callable[[Cta, Op], None]], Callable[[Cta, Op], None]]:
        """Register the decorated function."""

        def register(function: Callable[[Cta, Op], None]) -> Callable[[Cta, Op], None]:
            self[op_type] = function
            return function

        return register


def name_of(value: SSAValue) -> str:
    return f"%{value.name_hint}" if value.name_hint else "the value"


def bits_of(value: SSAValue) -> int:
    """Width of an integer or index."""
    return INDEX_BITS if isinstance(value.type, IndexType) else cast(IntegerType, value.type).bitwidth


@dataclass
class Cta:
    """The state of one CTA. Integers are kept as they lie in a register: modulo 2 to the width, not negative."""

    handlers: Mapping[type[Operation], Callable[[Cta, Any], None]]
    numerics: Numerics
    values: dict[SSAValue, Value]
    tile: tuple[int, ...]
    """Offsets of the one tile of the kernel's `tile.grid` that this CTA executes."""
    number: int
    total: int
    """This CTA, and how many were launched, for `tile.schedule`."""
    bulk: BulkGroups = field(default_factory=BulkGroups)
    in_flight: list[InFlight] = field(default_factory=list[InFlight])
    mmas: list[InFlight] = field(default_factory=list[InFlight])
    """MMAs issued and not yet known to be complete."""

    def run(self, block: Block, arguments: Sequence[Value] = ()) -> list[Value]:
        """Execute a block; the result is what its terminator passes on."""
        self.bind(block.args, arguments)
        for op in block.ops:
            if op.has_trait(IsTerminator):
                return self.get_all(op.operands)
            handler = self.handlers.get(type(op))
            if handler is None:
                fail(op, f"{op.name} cannot be executed here: the reference knows tile, scf and integer arith")
            handler(self, op)
        return []

    def bind(self, names: Sequence[SSAValue], values: Sequence[Value]) -> None:
        self.values.update(zip(names, values, strict=True))

    def get(self, value: SSAValue, kind: type[Kind]) -> Kind:
        found = self.values[value]
        assert isinstance(found, kind)
        return found

    def get_all(self, values: Sequence[SSAValue]) -> list[Value]:
        return [self.values[v] for v in values]

    def unsigned(self, value: SSAValue) -> int:
        return self.get(value, int)

    def signed(self, value: SSAValue) -> int:
        half = 1 << bits_of(value) - 1
        return (self.get(value, int) ^ half) - half

    def set_integer(self, name: SSAValue, value: int) -> None:
        self.values[name] = value % (1 << bits_of(name))

    def registers(self, value: SSAValue) -> Array:
        found = self.values[value]
        assert isinstance(found, np.ndarray)
        return found

    def barrier(self, op: Operation, barrier: SSAValue, stage: SSAValue | None) -> Mbarrier:
        """The mbarrier of a stage."""
        return self._stage_of(op, self.get(barrier, Barriers), barrier, stage)

    def slot(self, op: Operation, ring: SSAValue, stage: SSAValue) -> SharedTile:
        """The shared tile of a stage."""
        return self._stage_of(op, self.get(ring, Ring), ring, stage)

    def _stage_of(self, op: Operation, stages: list[Kind], array: SSAValue, stage: SSAValue | None) -> Kind:
        index = 0 if stage is None else self.signed(stage)
        if not 0 <= index < len(stages):
            fail(op, f"stage {index} of {name_of(array)}, which has {len(stages)}")
        return stages[index]

    def new_tile(self, name: str, type: SmemType) -> SharedTile:
        """Fresh shared memory holds NaN."""
        return SharedTile(name, np.full(type.shape, np.nan, self.numerics.array_dtype(type.dtype)))

    def new_accumulator(self, name: str, type: AccType, fill: float) -> Accumulator:
        values = np.full(type.shape, fill, self.numerics.array_dtype(type.dtype))
        return Accumulator(name, values, TensorCore())

    def launch(self, op: Operation, what: str) -> InFlight:
        """An asynchronous operation has been issued."""
        flight = InFlight(op, what)
        self.in_flight.append(flight)
        return flight

    def finish(self) -> None:
        """The CTA ends: nothing may be on its way still."""
        for flight in self.in_flight:
            if not flight.landed:
                fail(flight.op, f"the CTA ends before {flight.what} was waited for")
