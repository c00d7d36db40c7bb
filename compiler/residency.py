"""How many CTAs of a kernel a multiprocessor holds at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tilec.backend.ptxas import find_ptxas
from tilec.backend.target import Target
from tilec.dialects.tile import AccType, AllocOp, RolesOp
from tilec.driver import Compiled, find_kernel

_BESIDE_THE_ACCUMULATOR = 40
"""Registers of a thread for all else: ptxas gives 96 to a 128x128 tile of sm_90a, which has 64 for its accumulator, and 165
to a 128x256 one, which has 128. An epilogue of sm_100a holds a chunk of 64 columns in their place."""
_CHUNK_COLUMNS = 64


@dataclass(frozen=True)
class Residency:
    ctas: int
    registers: int | None
    """Per thread; None for a kernel with roles, which are not lowered yet."""
    evidence: Literal["ptxas", "estimated", "unknown"]
    spilled: int = 0
    """Bytes of registers that a thread stores and loads, as far as ptxas has said."""


def residency(compiled: Compiled) -> Residency:
    """By the registers that ptxas gives a thread, or by an estimate where there is no ptxas. A kernel with roles is taken to have
    a multiprocessor to itself. Raises TilecError for what cannot be lowered."""
    if any(isinstance(op, RolesOp) for op in compiled.asynchronous.walk()):
        return Residency(1, None, "unknown")
    target, abi = compiled.target, compiled.abi
    if find_ptxas() is None:
        registers, evidence, spilled = _estimate(compiled, target), "estimated", 0
    else:
        made = compiled.resources
        registers, evidence, spilled = made.registers, "ptxas", made.spill_stores + made.spill_loads
    ctas = target.occupancy(abi.threads, registers, abi.smem_bytes, abi.tmem_columns)
    return Residency(ctas, registers, evidence, spilled)


def _estimate(compiled: Compiled, target: Target) -> int:
    shapes = [
        op.res.type.shape
        for op in find_kernel(compiled.asynchronous).walk()
        if isinstance(op, AllocOp) and isinstance(op.res.type, AccType)
    ]
    if target.mma == "tcgen05":
        return _BESIDE_THE_ACCUMULATOR + (_CHUNK_COLUMNS if shapes else 0)
    return _BESIDE_THE_ACCUMULATOR + sum(target.acc_registers(m, n) for m, n in shapes)
