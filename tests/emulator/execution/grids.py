"""A kernel of many CTAs that copy 4096 bytes each and wait for them."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from tilec.backend.emulator.faults import EmulatorFault, FaultKind
from tilec.backend.emulator.launch import emulate

OrderName = Literal["fifo", "random", "adversarial"]
ORDERS: tuple[OrderName, ...] = ("fifo", "random", "adversarial")
WAIT = "    mbarrier.try_wait.parity.shared.b64 q, [b], 0;\n    @!q bra W;"
EXPECT_LINE, WAIT_LINE = 17, 20


def copying(expected: int, wait: str = WAIT) -> str:
    """Thread 0 announces `expected` bytes, in line EXPECT_LINE, and copies 4096; all threads `wait`, from line WAIT_LINE on. Each
    thread then loads its word of them."""
    return f""".version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 src, .param .u64 flags)
{{
    .reg .b32 t, a, b, c;
    .reg .b64 s, f;
    .reg .pred p, q;
    .shared .align 128 .b8 buf[4096];
    .shared .align 8 .b64 bar;
    mov.u32 t, %tid.x; mov.u32 b, bar; mov.u32 a, buf; mov.u32 c, 0;
    ld.param.u64 s, [src]; ld.param.u64 f, [flags];
    setp.eq.u32 p, t, 0;
    @p mbarrier.init.shared.b64 [b], 1;
    bar.sync 0;

    @p mbarrier.arrive.expect_tx.shared.b64 _, [b], {expected};
    @p cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [a], [s], 4096, [b];
W:
{wait}
    mad.lo.u32 a, t, 4, a;
    ld.shared.u32 c, [a];
    ret;
}}
"""


def run(text: str, grid: int, order: OrderName, flags: list[int] | None = None, *, cluster: int = 1) -> list[int]:
    """The flags afterwards."""
    held = np.array(flags or [0], np.uint32)
    emulate(text, "k", grid, 128, [np.zeros(1024, np.uint32), held], cluster=cluster, order=order, file="k.ptx")
    return [int(flag) for flag in held]


def deadlock(text: str, grid: int, order: OrderName, *, cluster: int = 1) -> EmulatorFault:
    with pytest.raises(EmulatorFault) as caught:
        run(text, grid, order, cluster=cluster)
    assert caught.value.kind is FaultKind.DEADLOCK
    return caught.value
