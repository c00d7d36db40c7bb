"""`wgmma.mma_async.sp` (PTX 9.7.15.6): A is sparse, half of it is held."""

from __future__ import annotations

from tilec.backend.emulator.execution.decode import Decoder, Together, instruction
from tilec.backend.emulator.wgmma.product import build


@instruction("wgmma.mma_async.sp")
def mma_async_sparse(d: Decoder) -> Together:
    return build(d, sparse=True)
