"""What a compiled kernel takes of a multiprocessor."""

from __future__ import annotations

from dataclasses import dataclass

from tilec.artifact import Artifact
from tilec.backend.target import TARGETS


@dataclass(frozen=True)
class Resources:
    """Registers are per thread, bytes per CTA (spills and stack per thread), tensor-memory columns per CTA.

    `ctas_per_sm` is how many CTAs one multiprocessor of the target holds at a time. What ptxas says (`registers`, `spill_*`,
    `stack_bytes`, and so `ctas_per_sm`) is None where no ptxas assembled the kernel.
    """

    threads: int
    stages: int
    smem_bytes: int
    tmem_columns: int
    registers: int | None
    spill_store_bytes: int | None
    spill_load_bytes: int | None
    stack_bytes: int | None
    ctas_per_sm: int | None

    @staticmethod
    def of(artifact: Artifact) -> Resources:
        abi, machine = artifact.abi, artifact.machine
        resident = None
        if machine is not None:
            resident = TARGETS[abi.target].occupancy(abi.threads, machine.registers, abi.smem_bytes, abi.tmem_columns)
        return Resources(
            threads=abi.threads,
            stages=abi.stages,
            smem_bytes=abi.smem_bytes,
            tmem_columns=abi.tmem_columns,
            registers=None if machine is None else machine.registers,
            spill_store_bytes=None if machine is None else machine.spill_stores,
            spill_load_bytes=None if machine is None else machine.spill_loads,
            stack_bytes=None if machine is None else machine.stack,
            ctas_per_sm=resident,
        )
