"""The operands of one tcgen05.mma (PTX 9.7.16.10.9)."""

from __future__ import annotations

from dataclasses import dataclass

from tilec.backend.emulator.tcgen05.instruction_descriptor import InstructionDescriptor


@dataclass(frozen=True)
class Arguments:
    """What one thread gave. `a` is a matrix descriptor, or an address in tensor memory (`a_in_tensor_memory`). `kept` are lanes of
    D that are not written, of each CTA, as sets. `zeroed` are the columns of B that count as zero. `scales` are the addresses of
    the scale factors of A and B, and `factors` how many of them there are along K."""

    descriptor: InstructionDescriptor
    d: int
    a: int
    a_in_tensor_memory: bool
    b: int
    accumulate: bool
    shift: int = 0
    kept: tuple[int, int] = (0, 0)
    zeroed: int = 0
    metadata: int = 0
    scales: tuple[int, int] | None = None
    factors: int = 0
