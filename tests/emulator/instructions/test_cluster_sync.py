"""barrier.cluster: phases of all threads of a cluster, and what is a fault."""

from __future__ import annotations

import numpy as np
import pytest
from emulator.instructions.per_thread import ORDERS, OrderName, kernel

from tilec.backend.emulator.faults import EmulatorFault, FaultKind, UnsupportedInstruction
from tilec.backend.emulator.launch import emulate

ARRIVE = ("barrier.cluster.arrive", "barrier.cluster.arrive.release.aligned", "barrier.cluster.arrive.aligned.release")
WAIT = ("barrier.cluster.wait", "barrier.cluster.wait.acquire.aligned", "barrier.cluster.wait.aligned.acquire")


def run(
    body: str, *, ctas: int = 2, threads: int = 64, clusters: int = 1, order: OrderName = "fifo", seed: int = 3
) -> np.ndarray:
    """Runs clusters of `ctas` CTAs; the result of each thread is %d0: shape (CTAs, threads)."""
    epilogue = f"""
    mov.u32 %r20, %ctaid.x;
    mad.lo.u32 %r20, %r20, {threads}, %t;
    ld.param.u64 %x30, [out];
    mad.wide.u32 %x31, %r20, 4, %x30;
    st.global.u32 [%x31], %d0;
"""
    out = np.full(ctas * clusters * threads, 0xEEEE_EEEE, np.uint32)
    text = kernel(body + epilogue, parameters=".param .u64 out", shared=".shared .align 8 .b32 words[256];")
    emulate(text, "k", ctas * clusters, threads, [out], cluster=ctas, order=order, seed=seed)
    return out.reshape(ctas * clusters, threads)


def fault(body: str, *, ctas: int = 2, order: OrderName = "fifo") -> EmulatorFault:
    with pytest.raises(EmulatorFault) as caught:
        run(body, ctas=ctas, order=order)
    return caught.value


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("arrive", "wait"), list(zip(ARRIVE, WAIT, strict=True)))
def test_words_are_passed_round_a_cluster(arrive: str, wait: str, order: OrderName) -> None:
    """In each of four turns every CTA writes into the next one's memory, and reads what was written into its own."""
    body = f"""
    mov.u32 %r1, words;
    mad.lo.u32 %r1, %t, 4, %r1;
    mov.u32 %r2, %cluster_ctarank;
    add.u32 %r3, %r2, 1;
    rem.u32 %r3, %r3, 3;
    mapa.shared::cluster.u32 %r4, %r1, %r3;
    mad.lo.u32 %d0, %r2, 1000, %t;
    mov.u32 %r5, 0;
LOOP:
    {arrive};
    {wait};
    st.shared::cluster.u32 [%r4], %d0;
    {arrive};
    {wait};
    ld.shared.u32 %d0, [%r1];
    add.u32 %d0, %d0, 1;
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p1, %r5, 4;
    @%p1 bra LOOP;
    {arrive};
    {wait};
"""
    found = run(body, ctas=3, clusters=2, order=order)
    for cta in range(6):
        rank = cta % 3
        assert found[cta].tolist() == [(rank - 4) % 3 * 1000 + t + 4 for t in range(64)]


@pytest.mark.parametrize("order", ORDERS)
def test_threads_that_have_exited_are_not_waited_for(order: OrderName) -> None:
    body = """
    mov.u32 %r2, %cluster_ctarank;
    setp.eq.u32 %p1, %r2, 1;
    setp.lt.u32 %p2, %t, 20;
    and.pred %p1, %p1, %p2;
    @%p1 exit;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    mov.u32 %d0, 1;
"""
    found = run(body, order=order)
    assert (found[0] == 1).all()
    assert (found[1, 20:] == 1).all()


@pytest.mark.parametrize("order", ORDERS)
def test_a_whole_cta_may_exit_while_others_wait(order: OrderName) -> None:
    body = """
    mov.u32 %r2, %cluster_ctarank;
    setp.eq.u32 %p1, %r2, 1;
    @%p1 exit;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    mov.u32 %d0, 1;
"""
    assert (run(body, order=order)[0] == 1).all()


@pytest.mark.parametrize("order", ORDERS)
def test_unaligned_arrivals_from_two_places(order: OrderName) -> None:
    body = """
    setp.lt.u32 %p1, %t, 40;
    @%p1 bra L;
    barrier.cluster.arrive.relaxed;
    bra M;
L:
    barrier.cluster.arrive;
M:
    barrier.cluster.wait;
    mov.u32 %d0, 1;
"""
    assert (run(body, order=order) == 1).all()


def test_a_launch_without_clusters_has_clusters_of_one() -> None:
    body = "    barrier.cluster.arrive;\n    barrier.cluster.wait;\n    mov.u32 %d0, 1;\n"
    assert (run(body, ctas=1, clusters=3) == 1).all()


def test_wait_without_arrival() -> None:
    caught = fault("    barrier.cluster.wait;\n")
    assert caught.kind is FaultKind.ILLEGAL
    assert "a thread waits at the barrier of its cluster without having arrived there since its last wait" in str(
        caught
    )
    again = "    barrier.cluster.arrive;\n    barrier.cluster.wait;\n"
    assert "without having arrived" in str(fault(again + "    barrier.cluster.wait;\n"))


@pytest.mark.parametrize("order", ORDERS)
def test_second_arrival_in_a_phase(order: OrderName) -> None:
    caught = fault("    barrier.cluster.arrive.aligned;\n    barrier.cluster.arrive.aligned;\n", ctas=2, order=order)
    assert caught.kind is FaultKind.ILLEGAL
    assert "a thread arrives again at the barrier of its cluster before it has completed" in str(caught)


def test_deadlock_names_the_warps_of_each_cta() -> None:
    body = """
    mov.u32 %r2, %cluster_ctarank;
    setp.eq.u32 %p1, %r2, 1;
    setp.ge.u32 %p2, %t, 32;
    and.pred %p1, %p1, %p2;
    @%p1 bra L;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    bra M;
L:
    bar.sync 1, 64;
M:
"""
    caught = fault(body)
    assert caught.kind is FaultKind.DEADLOCK
    waiting = "at barrier.cluster.wait.aligned for the barrier of the cluster; missing: warp 1 of rank 1"
    assert [line.split(": note: ")[1] for line in str(caught).splitlines() if ": note: " in line] == [
        f"CTA (0, 0, 0), warps 0 and 1: wait {waiting}",
        f"CTA (1, 0, 0), warp 0: waits {waiting}",
        "CTA (1, 0, 0), warp 1: waits at bar.sync for barrier 1: 32 of 64 threads have arrived (warp 1)",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "barrier.cluster.wait.relaxed;",
        "barrier.cluster.arrive.acquire;",
        "barrier.cluster.sync;",
        "barrier.cluster.arrive 1;",
    ],
)
def test_forms_that_do_not_exist(text: str) -> None:
    with pytest.raises(UnsupportedInstruction):
        run(f"    {text}\n")
