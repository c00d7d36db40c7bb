"""A cluster that nothing can help is found at once, and one that another cluster can help is not taken for one."""

from __future__ import annotations

import pytest
from grids import ORDERS, WAIT, OrderName, copying, deadlock, run

FOR_EVER = [
    WAIT,
    "    mbarrier.test_wait.parity.shared.b64 q, [b], 0;\n    @!q bra W;",
    "    mbarrier.try_wait.parity.shared.b64 q, [b], 0;\n    bar.warp.sync -1;\n    @!q bra W;",
    "    mbarrier.try_wait.parity.shared.b64 q, [b], 0;\n    add.u32 c, c, 1;\n    @!q bra W;",
    "    mbarrier.try_wait.parity.shared.b64 q, [b], 0;\n    mov.u32 c, %clock;\n    @!q bra W;",
]


@pytest.mark.parametrize("wait", FOR_EVER)
@pytest.mark.parametrize("order", ORDERS)
def test_no_more_clusters_are_started(order: OrderName, wait: str) -> None:
    """With as many CTAs as would run for minutes if each were started."""
    caught = deadlock(copying(6144, wait), 1 << 20, order)
    assert "deadlock: no thread of this CTA can go on, and nothing asynchronous is under way" in str(caught)


@pytest.mark.parametrize("order", ORDERS)
def test_a_cluster_is_stuck_as_a_whole(order: OrderName) -> None:
    """Of two CTAs one waits for bytes, and the other for it at the barrier of their cluster."""
    meet = "\n    barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;"
    alone = "    mov.u32 c, %cluster_ctarank;\n    setp.eq.u32 q, c, 0;\n    @q bra M;\nX:\n"
    text = copying(6144, alone + WAIT.replace("W;", "X;") + "\nM:" + meet)
    caught = deadlock(text, 64, order, cluster=2)
    assert "deadlock: no thread of this cluster can go on, and nothing asynchronous is under way" in str(caught)
    assert "warps 0 to 3: wait at barrier.cluster.wait.aligned for the barrier of the cluster; missing: warp" in str(
        caught
    )
    assert len(caught.diagnostic.notes) == 2


TURNS = """
    mov.u32 t, %ctaid.x;
    @p ld.acquire.gpu.global.u32 c, [f];
    @p setp.ne.u32 q, c, t;
    @p bra V;
    bra E;
V:
    @q bra W;
    add.u32 c, c, 1;
    @p st.release.gpu.global.u32 [f], c;
E:
    bar.sync 0;
    mov.u32 t, %tid.x;
"""


@pytest.mark.parametrize("order", ORDERS)
def test_clusters_that_wait_for_others_through_global_memory(order: OrderName) -> None:
    """Each CTA waits until the CTA before it has had its turn, in global memory."""
    assert run(copying(4096, TURNS + "X:\n" + WAIT.replace("W;", "X;")), 12, order) == [12]


LOOK_AROUND = """
    mbarrier.try_wait.parity.shared.b64 q, [b], 0;
    @q bra OUT;
    ld.relaxed.gpu.global.u32 c, [f];
    setp.lt.u32 q, c, 5;
    @q bra W;
    @p mbarrier.complete_tx.shared.b64 [b], 2048;
X:
    mbarrier.try_wait.parity.shared.b64 q, [b], 0;
    @!q bra X;
OUT:
    mov.u32 c, %laneid;
    setp.eq.u32 q, c, 0;
    @q red.relaxed.gpu.global.add.u32 [f], 0;
"""
FIRST = """
    mov.u32 c, %ctaid.x;
    setp.ne.u32 q, c, 5;
    @q bra W;
    @p st.relaxed.gpu.global.u32 [f], 5;
    bra W;
"""


@pytest.mark.parametrize("order", ORDERS)
def test_a_poll_with_a_look_at_global_memory_can_be_helped(order: OrderName) -> None:
    """Bytes are missing until a CTA that starts later says in global memory that the others need not wait for them."""
    text = copying(6144, LOOK_AROUND).replace("W:\n", FIRST + "W:\n", 1)
    assert run(text, 6, order) == [5]
