"""Operands of an mma: matrices in the registers of whole warps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.execution.decode import Decoder, Reader, Writer
from tilec.backend.emulator.execution.lanes import Lanes
from tilec.backend.emulator.matrices.values import ACCUMULATORS, BITS, RAW, values
from tilec.backend.emulator.mma.forms import Types
from tilec.backend.emulator.mma.fragments import Fragment
from tilec.backend.emulator.mma.registers import read, write


@dataclass(frozen=True)
class Operands:
    """The registers of D, A, B and C of one mma, their types, and where their elements lie (`fragments`, in that order)."""

    types: Types
    fragments: tuple[Fragment, Fragment, Fragment, Fragment]
    d: list[Writer]
    registers: tuple[list[Reader], list[Reader], list[Reader]]

    def elements_a(self, lanes: Lanes) -> NDArray[np.float64]:
        """The numbers of A in each lane, in the order of its registers: (warps, 32, elements)."""
        return values(self.types[1], read(lanes, self.registers[0], RAW[self.types[1]]))

    def elements_b(self, lanes: Lanes) -> NDArray[np.float64]:
        return values(self.types[2], read(lanes, self.registers[1], RAW[self.types[2]]))

    def elements_c(self, lanes: Lanes) -> NDArray[Any]:
        return read(lanes, self.registers[2], ACCUMULATORS[self.types[3]])

    def a(self, lanes: Lanes) -> NDArray[np.float64]:
        """(warps, m, columns that are held)."""
        return placed(self.elements_a(lanes), self.fragments[1])

    def b(self, lanes: Lanes) -> NDArray[np.float64]:
        """B by its columns: (warps, n, k)."""
        return placed(self.elements_b(lanes), self.fragments[2])

    def c(self, lanes: Lanes) -> NDArray[Any]:
        """(warps, m, n), of the type of C."""
        return placed(self.elements_c(lanes), self.fragments[3])

    def write(self, lanes: Lanes, total: NDArray[Any]) -> None:
        """D, (warps, m, n), of its type."""
        rows, columns = self.fragments[0]
        write(lanes, self.d, total[:, rows, columns])


def placed(elements: NDArray[Any], fragment: Fragment) -> NDArray[Any]:
    """Elements of lanes, (warps, lanes, elements), at their places: (warps, rows, columns)."""
    rows, columns = fragment
    matrix = np.empty((len(elements), int(rows.max()) + 1, int(columns.max()) + 1), elements.dtype)
    matrix[:, rows, columns] = elements
    return matrix


def bind(d: Decoder, types: Types, fragments: tuple[Fragment, Fragment, Fragment, Fragment]) -> Operands:
    """The first four operands as matrices of these types; refuses other numbers of registers than they have."""
    dt, at, bt, ct = types
    width = 64 if at == "f64" else 32
    bits = [ACCUMULATORS[dt].itemsize * 8, BITS[at], BITS[bt], ACCUMULATORS[ct].itemsize * 8]
    registers = [d.elements(o) for o in d.operands[:4]]
    for name, held, size, fragment in zip("DABC", registers, bits, fragments, strict=True):
        needed = fragment[0].shape[1] * size // width
        if len(held) != needed:
            d.unsupported(f"{len(held)} registers of {name}, not {needed}")
    a, b, c = ([d.reader(r, f"b{width}") for r in held] for held in registers[1:])
    return Operands(types, fragments, [d.writer(r, f"b{width}") for r in registers[0]], (a, b, c))
