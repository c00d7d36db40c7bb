"""`wgmma.mma_async`, `wgmma.fence`, `wgmma.commit_group` and `wgmma.wait_group` (PTX 9.7.15)."""

from __future__ import annotations

import numpy as np

from tilec.backend.emulator.execution.decode import Decoder, Together, instruction
from tilec.backend.emulator.execution.lanes import Lanes, Part, Wait
from tilec.backend.emulator.ptx.syntax import Integer
from tilec.backend.emulator.wgmma.form import take_aligned
from tilec.backend.emulator.wgmma.product import build
from tilec.backend.emulator.wgmma.state import WarpGroups


@instruction("wgmma.fence")
def fence(d: Decoder) -> Together:
    """Orders accesses to registers before a wgmma: here they are in order as it is.

    A fence that is missing is not judged. It is undefined (PTX 9.7.15.7.1), but ptxas puts in those that it finds missing.
    """
    take_aligned(d)
    d.finish()
    d.count(0)
    return Together(lambda lanes: None, "warp")


@instruction("wgmma.commit_group")
def commit_group(d: Decoder) -> Together:
    take_aligned(d)
    d.finish()
    d.count(0)

    def execute(lanes: Lanes) -> None:
        state = lanes.cta.part(WarpGroups)
        for warp in lanes.warps:
            state.commit(int(warp))

    return Together(execute, "warp")


@instruction("wgmma.wait_group")
def wait_group(d: Decoder) -> Together:
    take_aligned(d)
    d.finish()
    d.count(1)
    operand = d.operands[0]
    if not isinstance(operand, Integer):
        d.unsupported("a number of groups that is no constant")
    allowed = operand.value

    def execute(lanes: Lanes) -> list[Part]:
        state = lanes.cta.part(WarpGroups)

        def wait(warp: int) -> Wait:
            return Wait(
                ready=lambda: not state.pending(warp, allowed),
                describe=lambda: f"all but {allowed} of {len(state.groups[warp])} wgmma groups",
                then=lambda: state.retire(warp, allowed),
            )

        return [Part(np.flatnonzero(lanes.threads >> 5 == warp), wait(int(warp))) for warp in lanes.warps]

    return Together(execute, "warp")


@instruction("wgmma.mma_async")
def mma_async(d: Decoder) -> Together:
    return build(d, sparse=False)
