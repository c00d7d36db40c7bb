"""Matrices of wgmma in the registers of a warpgroup, and D of operations that nobody has waited for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.execution.cta import Cta
from tilec.backend.emulator.execution.decode import Reader
from tilec.backend.emulator.execution.lanes import Lanes
from tilec.backend.emulator.matrices.values import ACCUMULATORS, RAW, values
from tilec.backend.emulator.wgmma.shapes import THREADS, M, Shape, accumulator_place, operand_place


def read_a(shape: Shape, lanes: Lanes, registers: tuple[Reader, ...]) -> NDArray[np.float64]:
    """A from four registers of each thread, as numbers, as much of it as is held."""
    held = np.stack([np.broadcast_to(r(lanes), (THREADS,)) for r in registers], axis=1)
    raw = np.ascontiguousarray(held).view(RAW[shape.a]).T
    rows, columns = operand_place(shape.bits)
    a = np.empty((M, 32 // raw.dtype.itemsize), raw.dtype)
    a[rows, columns] = raw
    return values(shape.a, a)


@dataclass(frozen=True)
class Accumulators:
    """Which registers of the threads from `first` on are D: `type`, 64 x `n`."""

    first: int
    slots: tuple[int, ...]
    type: str
    n: int


class Results:
    """D of the warpgroups of a CTA between operations: threads may not look at the registers before they have waited, so a chain of
    operations hands D on as a matrix, and registers are written once."""

    def __init__(self, cta: Cta) -> None:
        self._cta = cta
        self._held: dict[Accumulators, NDArray[Any]] = {}

    def take(self, where: Accumulators) -> NDArray[Any]:
        """D as it is now: (64, n)."""
        found = self._held.pop(where, None)
        if found is not None:
            return found
        self._write_overlapping(where)
        return _read(self._cta, where)

    def put(self, where: Accumulators, d: NDArray[Any]) -> None:
        """What D has become."""
        self._held.pop(where, None)
        self._write_overlapping(where)
        self._held[where] = d

    def write_unless(self, first: int, owned: frozenset[int]) -> None:
        """Write what threads of the warpgroup from `first` on may look at now: registers that no operation owns."""
        for where in [w for w in self._held if w.first == first and owned.isdisjoint(w.slots)]:
            _write(self._cta, where, self._held.pop(where))

    def _write_overlapping(self, where: Accumulators) -> None:
        slots = frozenset(where.slots)
        for other in [w for w in self._held if w.first == where.first and not slots.isdisjoint(w.slots)]:
            _write(self._cta, other, self._held.pop(other))


def _read(cta: Cta, where: Accumulators) -> NDArray[Any]:
    threads = slice(where.first, where.first + THREADS)
    raw = np.stack([cta.registers[slot][threads] for slot in where.slots])
    rows, columns = accumulator_place(where.n)
    d = np.empty((M, where.n), ACCUMULATORS[where.type])
    d[rows, columns] = _UNPACK[where.type](raw)
    return d


def _write(cta: Cta, where: Accumulators, d: NDArray[Any]) -> None:
    threads = slice(where.first, where.first + THREADS)
    rows, columns = accumulator_place(where.n)
    raw = _PACK[where.type](d[rows, columns])
    for at, slot in enumerate(where.slots):
        cta.registers[slot][threads] = raw[at]


def _unpack_f16(raw: NDArray[np.uint32]) -> NDArray[np.float16]:
    """Two accumulators of a thread lie in one register."""
    halves = np.empty((2 * len(raw), raw.shape[1]), np.uint16)
    halves[0::2], halves[1::2] = raw & 0xFFFF, raw >> 16
    return halves.view(np.float16)


def _pack_f16(d: NDArray[Any]) -> NDArray[np.uint32]:
    halves = d.view(np.uint16).astype(np.uint32)
    return halves[0::2] | halves[1::2] << np.uint32(16)


_UNPACK: dict[str, Callable[[NDArray[np.uint32]], NDArray[Any]]] = {
    "f16": _unpack_f16,
    "f32": lambda raw: raw.view(np.float32),
    "s32": lambda raw: raw.view(np.int32),
}
_PACK: dict[str, Callable[[NDArray[Any]], NDArray[np.uint32]]] = {
    "f16": _pack_f16,
    "f32": lambda d: d.view(np.uint32),
    "s32": lambda d: d.view(np.uint32),
}
