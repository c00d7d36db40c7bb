"""All facts of the chips that tilec compiles for: one frozen row a target, queried by passes and backend.

Sources: PTX ISA 9.1 (9.7.15 wgmma, 9.7.16 tcgen05), CUDA C programming guide (limits), and measurements on an H200.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tilec.diagnostics import TilecError, did_you_mean, kind_of


@dataclass(frozen=True)
class Target:
    """One chip. Sizes in bytes unless said otherwise."""

    name: str
    ptx_version: int
    """Lowest ``.version`` (times ten) that covers what we emit."""
    mma: str
    """Tensor-core generation: "tcgen05" or "wgmma"."""
    smem_per_cta: int
    tmem_columns: int
    """Tensor-memory columns of 32 bits x 128 lanes per SM; 0 where accumulators are registers."""
    sm_count: int
    """Multiprocessors assumed where no device can be asked."""
    mma_m: tuple[int, ...]
    """Legal accumulator heights of one MMA over a whole CTA tile, in rows."""
    mma_n_max: int
    max_acc_registers: int
    """32-bit accumulator registers a thread may hold (wgmma)."""
    tma_min_bytes: int = 2048
    """A copy below this stays a thread copy."""
    smem_per_sm: int = 233472
    smem_reserved: int = 1024
    """Shared memory that the driver takes of each CTA for itself."""
    registers_per_sm: int = 65536
    registers_per_warp_step: int = 256
    """Registers are given to a warp in multiples of this."""
    threads_per_sm: int = 2048
    ctas_per_sm: int = 32

    def mma_problem(self, m: int, n: int) -> str | None:
        """Why no MMA of this chip computes an m x n accumulator, or None when one does."""
        if m not in self.mma_m:
            return f"M = {m}: {self.name} takes {', '.join(map(str, self.mma_m))} rows"
        step = 16 if self.mma == "tcgen05" and m > 64 else 8
        if n % step or not step <= n <= self.mma_n_max:
            return f"N = {n}: with M = {m} {self.name} takes multiples of {step} up to {self.mma_n_max} columns"
        if self.mma == "wgmma" and self.acc_registers(m, n) > self.max_acc_registers:
            return (
                f"{m}x{n}: {self.acc_registers(m, n)} accumulator registers a thread, {self.name} keeps at most "
                f"{self.max_acc_registers}"
            )
        if self.mma == "tcgen05" and self.acc_columns(m, n) > self.tmem_columns:
            return f"{m}x{n}: {self.acc_columns(m, n)} tensor-memory columns of {self.tmem_columns}"
        return None

    def occupancy(self, threads: int, registers: int, smem_bytes: int, tmem_columns: int) -> int:
        """CTAs that one multiprocessor holds at a time: of `threads` threads with `registers` registers each, `smem_bytes` of
        dynamic shared memory and `tmem_columns` (CUDA C programming guide, "Compute Capabilities")."""
        step = self.registers_per_warp_step
        warps = -(-threads // 32)
        per_warp = -(-max(registers, 1) * 32 // step) * step
        # Registers belong to the four schedulers of an SM, each of which has a quarter of them and of the warps.
        warps_per_quarter = self.registers_per_sm // 4 // per_warp
        bounds = [
            self.ctas_per_sm,
            self.threads_per_sm // (warps * 32),
            warps_per_quarter * 4 // warps,
            self.smem_per_sm // (smem_bytes + self.smem_reserved),
        ]
        if tmem_columns:
            bounds.append(self.tmem_columns // tmem_columns)
        return min(bounds)

    def acc_registers(self, m: int, n: int) -> int:
        """32-bit accumulator registers of one thread (wgmma)."""
        return m * n // self.threads(m)

    def acc_columns(self, m: int, n: int) -> int:
        """Tensor-memory columns of an m x n accumulator (tcgen05): 128 rows a block of columns."""
        return n * max(m // 128, 1)

    def threads(self, m: int) -> int:
        """Threads of a CTA that computes an accumulator of `m` rows."""
        if self.mma == "tcgen05":
            return 128
        return 128 * min(max(m // 64, 1), 2)


TARGETS: dict[str, Target] = {
    t.name: t
    for t in (
        Target(
            name="sm_90a",
            ptx_version=80,
            mma="wgmma",
            smem_per_cta=232448,
            tmem_columns=0,
            sm_count=132,
            mma_m=(64, 128, 256),
            mma_n_max=256,
            max_acc_registers=128,
        ),
        Target(
            name="sm_100a",
            ptx_version=86,
            mma="tcgen05",
            smem_per_cta=232448,
            tmem_columns=512,
            sm_count=148,
            mma_m=(64, 128, 256),
            mma_n_max=256,
            max_acc_registers=0,
        ),
    )
}
DEFAULT_TARGET = "sm_100a"


def find_target(name: str) -> Target:
    """The row of the target table."""
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TilecError(f"a target is a name, not {kind_of(name)}", hint=f"known: {', '.join(TARGETS)}")
    if name not in TARGETS:
        raise TilecError(f"unknown target '{name}'", hint=target_hint(name))
    return TARGETS[name]


def target_hint(name: str) -> str | None:
    """What to write in place of an unknown target. The name of another chip is no misspelling: code for one does not run on
    another."""
    chip = re.fullmatch(r"(sm_\d+)[af]?", name)
    if chip is not None and f"{chip[1]}a" not in TARGETS:
        return f"known: {', '.join(TARGETS)}"
    return did_you_mean(name, TARGETS)
