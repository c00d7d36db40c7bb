"""mbarriers among threads, CTAs of a cluster and asynchronous work: waits, states of each lane, remote arrivals, deadlocks."""

from __future__ import annotations

import numpy as np
import pytest
from emulator.instructions.per_thread import ORDERS, OrderName, kernel, run_threads

from tilec.backend.emulator.faults import EmulatorFault, FaultKind, UnsupportedInstruction
from tilec.backend.emulator.launch import emulate

OBJECTS = ".shared .align 8 .b64 objects[8];\n    .shared .align 8 .b32 words[256];"
INIT = """
    mov.u32 %r1, objects;
    setp.eq.u32 %p1, %t, 0;
    @%p1 mbarrier.init.shared.b64 [%r1], {count};
    @%p1 fence.mbarrier_init.release.cluster;
    bar.sync 0;
"""


def zeros(threads: int) -> np.ndarray:
    return np.zeros(threads, np.uint32)


@pytest.mark.parametrize("order", ORDERS)
def test_arrivals_of_many_threads_complete_a_phase(order: OrderName) -> None:
    """Each thread finds another pending count; the wait by state sees the stores of all."""
    body = (
        INIT.format(count=128)
        + """
    mov.u32 %r2, words;
    mad.lo.u32 %r3, %t, 4, %r2;
    st.shared.u32 [%r3], %t;
    mbarrier.arrive.shared.b64 %x1, [%r1];
    mbarrier.pending_count.b64 %d0, %x1;
W:
    mbarrier.try_wait.shared.b64 %p2, [%r1], %x1, 100;
    @!%p2 bra W;
    xor.b32 %r4, %t, 96;
    mad.lo.u32 %r3, %r4, 4, %r2;
    ld.shared.u32 %d1, [%r3];
"""
    )
    found, other = run_threads(body, [zeros(128)], [np.uint32, np.uint32], shared=OBJECTS, order=order, seed=2)
    assert sorted(found.tolist()) == list(range(1, 129))
    for first in range(0, 128, 32):
        assert (np.diff(found[first : first + 32].astype(int)) == -1).all(), "lanes of a warp arrive in their order"
    assert other.tolist() == [t ^ 96 for t in range(128)]


@pytest.mark.parametrize("wait", ["test_wait", "try_wait"])
@pytest.mark.parametrize("order", ORDERS)
def test_phases_by_parity(order: OrderName, wait: str) -> None:
    """Twenty phases of two warps that hand a value to and fro through one word."""
    body = (
        INIT.format(count=64)
        + f"""
    mov.u32 %r2, words;
    mov.u32 %r5, 0;
    @%p1 st.shared.u32 [%r2], 1;
    setp.eq.u32 %p4, %t, 32;
LOOP:
    mbarrier.arrive.release.cta.shared::cta.b64 _, [%r1];
    and.b32 %r6, %r5, 1;
W:
    mbarrier.{wait}.parity.acquire.cta.shared::cta.b64 %p2, [%r1], %r6;
    @!%p2 bra W;
    setp.eq.u32 %p5, %r6, 0;
    and.pred %p6, %p1, %p5;
    not.pred %p5, %p5;
    and.pred %p7, %p4, %p5;
    or.pred %p6, %p6, %p7;
    @!%p6 bra SKIP;
    ld.shared.u32 %r7, [%r2];
    mad.lo.u32 %r7, %r7, 3, %r5;
    st.shared.u32 [%r2], %r7;
SKIP:
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p3, %r5, 20;
    @%p3 bra LOOP;
    bar.sync 0;
    ld.shared.u32 %d0, [%r2];
"""
    )
    (found,) = run_threads(body, [zeros(64)], shared=OBJECTS, order=order, seed=4)
    value = 1
    for turn in range(20):
        value = (value * 3 + turn) % 2**32
    assert (found == value).all()


def test_lanes_wait_for_different_objects() -> None:
    """Lane i waits for object i of four; those of objects 0 and 2 complete at once, the others by the other warp's arrivals."""
    body = """
    mov.u32 %r1, objects;
    and.b32 %r2, %t, 3;
    mad.lo.u32 %r3, %r2, 8, %r1;
    setp.lt.u32 %p1, %t, 4;
    @%p1 mbarrier.init.shared.b64 [%r3], 1;
    bar.sync 0;
    setp.ge.u32 %p2, %t, 32;
    @%p2 bra OTHER;
    and.b32 %r4, %t, 1;
    setp.eq.u32 %p4, %r4, 0;
    and.pred %p4, %p4, %p1;
    @%p4 mbarrier.arrive.shared.b64 _, [%r3];
    bar.warp.sync -1;
    mov.u32 %d0, 0;
W:
    add.u32 %d0, %d0, 1;
    mbarrier.try_wait.parity.shared.b64 %p5, [%r3], 0;
    @!%p5 bra W;
    bra END;
OTHER:
    setp.lt.u32 %p6, %t, 36;
    and.b32 %r4, %t, 1;
    setp.eq.u32 %p7, %r4, 1;
    and.pred %p6, %p6, %p7;
    @%p6 mbarrier.arrive.shared.b64 _, [%r3];
    mov.u32 %d0, 0;
END:
"""
    (found,) = run_threads(body, [zeros(64)], shared=OBJECTS)
    assert (found[:32] == 1).all()


@pytest.mark.parametrize("count", [1, 4, 16])
def test_arrivals_of_one_instruction_may_complete_several_phases(count: int) -> None:
    body = (
        INIT.format(count=count)
        + """
    mbarrier.arrive.shared.b64 %x1, [%r1];
    mbarrier.pending_count.b64 %d0, %x1;
    mbarrier.test_wait.parity.shared.b64 %p2, [%r1], 0;
    selp.u32 %d1, 1, 0, %p2;
"""
    )
    pending, odd = run_threads(body, [zeros(32)], [np.uint32, np.uint32], shared=OBJECTS)
    assert pending.tolist() == [count - t % count for t in range(32)]
    assert (odd == (32 // count) % 2).all()


def test_expected_bytes_of_many_threads_add_up() -> None:
    body = (
        INIT.format(count=32)
        + """
    mbarrier.arrive.expect_tx.shared.b64 %x1, [%r1], 8;
    mbarrier.test_wait.parity.shared.b64 %p2, [%r1], 0;
    selp.u32 %d0, 1, 0, %p2;
    @%p1 mbarrier.complete_tx.shared.b64 [%r1], 248;
    mbarrier.test_wait.parity.shared.b64 %p2, [%r1], 0;
    selp.u32 %d1, 1, 0, %p2;
    @%p1 mbarrier.complete_tx.shared.b64 [%r1], 8;
    mbarrier.test_wait.parity.shared.b64 %p2, [%r1], 0;
    selp.u32 %d2, 1, 0, %p2;
"""
    )
    found = run_threads(body, [zeros(32)], [np.uint32] * 3, shared=OBJECTS)
    assert [int(f[0]) for f in found] == [0, 0, 1]


CLUSTER = """
    mov.u32 %r1, objects;
    mov.u32 %r2, %cluster_ctarank;
    setp.eq.u32 %p1, %t, 0;
    @%p1 mbarrier.init.shared.b64 [%r1], {count};
    @%p1 fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
"""


def run_cluster(body: str, *, ctas: int = 2, threads: int = 32, order: OrderName = "fifo") -> np.ndarray:
    """Runs a cluster; %d0 of each thread is the result."""
    epilogue = (
        """
    mov.u32 %r20, %ctaid.x;
    mad.lo.u32 %r20, %r20, """
        + str(threads)
        + """, %t;
    ld.param.u64 %x30, [out];
    mad.wide.u32 %x31, %r20, 4, %x30;
    st.global.u32 [%x31], %d0;
"""
    )
    out = np.full(ctas * threads, 0xEEEE_EEEE, np.uint32)
    text = kernel(body + epilogue, parameters=".param .u64 out", shared=OBJECTS)
    emulate(text, "k", ctas, threads, [out], cluster=ctas, order=order, seed=6)
    return out.reshape(ctas, threads)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "arrival",
    [
        "mapa.shared::cluster.u32 %r3, %r1, 0;\n mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r3];",
        "cvt.u64.u32 %x1, %r1;\n cvta.shared.u64 %x1, %x1;\n mapa.u64 %x1, %x1, 0;\n mbarrier.arrive.release.cluster.b64 _, [%x1];",
        "mapa.shared::cluster.u32 %r3, %r1, 0;\n mbarrier.arrive_drop.release.cluster.shared::cluster.b64 _, [%r3], 1;",
        "mapa.shared::cluster.u32 %r3, %r1, 0;\n mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [%r3], 16;\n"
        "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r3], 8;\n"
        "mbarrier.arrive.expect_tx.relaxed.cluster.shared::cluster.b64 _, [%r3], 8;\n"
        "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r3], 16;",
    ],
)
def test_arrivals_from_other_ctas(arrival: str, order: OrderName) -> None:
    """All 96 threads of three CTAs arrive at the object of rank 0, whose threads alone wait."""
    body = (
        CLUSTER.format(count=96)
        + f"""
    {arrival}
    mov.u32 %d0, 1;
    setp.ne.u32 %p2, %r2, 0;
    @%p2 bra END;
W:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [%r1], 0;
    @!%p3 bra W;
    mov.u32 %d0, 2;
END:
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
"""
    )
    found = run_cluster(body, ctas=3, order=order)
    assert found[0].tolist() == [2] * 32
    assert (found[1:] == 1).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r3], 0;",
            "in a way that only the threads of its own CTA may",
        ),
        ("mbarrier.inval.shared::cta.b64 [%r3];", "in a way that only the threads of its own CTA may"),
        ("mbarrier.arrive.shared::cta.b64 %x3, [%r3];", "asks for a state"),
    ],
)
def test_what_other_ctas_may_not_do(text: str, message: str) -> None:
    body = (
        CLUSTER.format(count=1) + f"    xor.b32 %r4, %r2, 1;\n    mapa.shared::cluster.u32 %r3, %r1, %r4;\n    {text}\n"
    )
    with pytest.raises(EmulatorFault) as caught:
        run_cluster(body)
    assert caught.value.kind is FaultKind.MBARRIER
    assert message in str(caught.value)


def test_an_object_of_another_cta_that_was_not_initialised() -> None:
    body = (
        CLUSTER.format(count=1)
        + "    mapa.shared::cluster.u32 %r3, %r1, 1;\n mbarrier.arrive.shared::cluster.b64 _, [%r3+8];\n"
    )
    with pytest.raises(EmulatorFault) as caught:
        run_cluster(body)
    assert "no mbarrier has been initialised at 0x408 of the CTA of rank 1" in str(caught.value)


def test_deadlock_says_what_the_phase_lacks() -> None:
    body = (
        INIT.format(count=3)
        + """
    @%p1 mbarrier.expect_tx.shared.b64 [%r1], 4096;
    @%p1 mbarrier.complete_tx.shared.b64 [%r1], 1024;
    @%p1 mbarrier.arrive.shared.b64 _, [%r1], 2;
W:
    mbarrier.try_wait.parity.shared.b64 %p2, [%r1], 0;
    @!%p2 bra W;
"""
    )
    with pytest.raises(EmulatorFault) as caught:
        run_threads(body, [zeros(64)], shared=OBJECTS)
    lines = str(caught.value).splitlines()
    wait = caught.value.place.instruction.line
    assert caught.value.kind is FaultKind.DEADLOCK
    assert (
        "error: deadlock: no thread can go on, and nothing asynchronous is under way (kernel k, CTA (0, 0, 0))"
        in lines[0]
    )
    assert [line.split(": ", 1)[1] for line in lines if ": note: " in line] == [
        "note: CTA (0, 0, 0), warps 0 and 1: wait at mbarrier.try_wait.parity.shared.b64 for phase 0 (parity 0) of the mbarrier "
        "at 0x400, which is in phase 0 and lacks 1 arrival and 3072 of 4096 announced bytes (the last expect_tx is that of line "
        f"{wait - 4})"
    ]


@pytest.mark.parametrize("order", ORDERS)
def test_a_loop_of_test_wait_that_never_ends_is_a_deadlock(order: OrderName) -> None:
    body = INIT.format(count=1) + "W:\n    mbarrier.test_wait.parity.shared.b64 %p2, [%r1], 0;\n    @!%p2 bra W;\n"
    with pytest.raises(EmulatorFault) as caught:
        run_threads(body, [zeros(64)], shared=OBJECTS, order=order)
    assert caught.value.kind is FaultKind.DEADLOCK
    assert (
        "wait at mbarrier.test_wait.parity.shared.b64 for phase 0 (parity 0) of the mbarrier at 0x400, which is in phase 0 and "
        "lacks 1 arrival" in str(caught.value)
    )


@pytest.mark.parametrize("order", ORDERS)
def test_try_wait_that_gives_up_lets_the_thread_go_on(order: OrderName) -> None:
    """One `try_wait` without a loop, for what never happens: it ends without success."""
    body = (
        INIT.format(count=1) + "    mbarrier.try_wait.parity.shared.b64 %p2, [%r1], 0;\n    selp.u32 %d0, 5, 6, %p2;\n"
    )
    (found,) = run_threads(body, [zeros(64)], shared=OBJECTS, order=order)
    assert (found == 6).all()


def test_invalidating_an_object_that_is_waited_for() -> None:
    body = (
        INIT.format(count=1)
        + """
    setp.lt.u32 %p3, %t, 32;
    @%p3 bra W;
    setp.eq.u32 %p4, %t, 32;
    @%p4 mbarrier.inval.shared.b64 [%r1];
    bra END;
W:
    mbarrier.try_wait.parity.shared.b64 %p2, [%r1], 0;
    @!%p2 bra W;
END:
"""
    )
    with pytest.raises(EmulatorFault) as caught:
        run_threads(body, [zeros(64)], shared=OBJECTS)
    assert "has ended its life" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "mbarrier.arrive.shared::cluster.b64 %x1, [%r1];",
        "mbarrier.arrive.release.shared.b64 _, [%r1];",
        "mbarrier.arrive.cluster.shared.b64 _, [%r1];",
        "mbarrier.arrive.noComplete.shared.b64 %x1, [%r1];",
        "mbarrier.arrive.noComplete.expect_tx.shared.b64 %x1, [%r1], 4;",
        "mbarrier.arrive.noComplete.relaxed.cta.shared.b64 %x1, [%r1], 1;",
        "mbarrier.arrive.expect_tx.shared.b64 _, [%r1];",
        "mbarrier.arrive.acquire.cta.shared.b64 _, [%r1];",
        "mbarrier.expect_tx.release.cta.shared.b64 [%r1], 4;",
        "mbarrier.test_wait.shared::cluster.b64 %p1, [%r1], %x1;",
        "mbarrier.test_wait.shared.b64 %p1, [%r1], %x1, 10;",
        "mbarrier.try_wait.parity.release.cta.shared.b64 %p1, [%r1], 0;",
        "mbarrier.init.shared::cluster.b64 [%r1], 1;",
        "mbarrier.init.shared.b32 [%r1], 1;",
        "mbarrier.inval.global.b64 [%x1];",
    ],
)
def test_forms_that_do_not_exist(text: str) -> None:
    with pytest.raises(UnsupportedInstruction):
        run_threads(f"    mov.u32 %r1, objects;\n    {text}\n", [zeros(1)], shared=OBJECTS)
