"""The orders of execution: right programs give the same results in all of them, and deadlocks are told in each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from emulator.instructions.per_thread import ORDERS, OrderName, kernel, run_threads
from hypothesis import given, settings
from hypothesis import strategies as st

from tilec.backend.emulator.faults import EmulatorFault, FaultKind
from tilec.backend.emulator.launch import Emulation, emulate

SHARED = ".shared .align 16 .b64 objects[8];\n    .shared .align 16 .b32 words[1024];"


def zeros(threads: int) -> np.ndarray:
    return np.zeros(threads, np.uint32)


def notes(fault: EmulatorFault) -> list[str]:
    return [line.split(": note: ")[1] for line in str(fault).splitlines() if ": note: " in line]


RING = """
    mov.u32 %r1, objects;
    mov.u32 %r2, words;
    setp.eq.u32 %p1, %t, 0;
    @!%p1 bra READY;
    mbarrier.init.shared.b64 [%r1], 1;
    mbarrier.init.shared.b64 [%r1+8], 1;
    mbarrier.init.shared.b64 [%r1+16], 32;
    mbarrier.init.shared.b64 [%r1+24], 32;
READY:
    bar.sync 0;
    mov.u32 %r3, 0;
    mov.u32 %d0, 0;
    setp.lt.u32 %p2, %t, 32;
    @!%p2 bra CONSUMER;
    @!%p1 bra END;
PRODUCER:
    and.b32 %r4, %r3, 1;
    mad.lo.u32 %r5, %r4, 8, %r1;
    shr.u32 %r6, %r3, 1;
    and.b32 %r6, %r6, 1;
    xor.b32 %r6, %r6, 1;
P:
    mbarrier.try_wait.parity.shared.b64 %p3, [%r5+16], %r6;
    @!%p3 bra P;
    mad.lo.u32 %r7, %r4, 4, %r2;
    mad.lo.u32 %r8, %r3, %r3, 7;
    st.shared.u32 [%r7], %r8;
    mbarrier.arrive.shared.b64 _, [%r5];
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p4, %r3, {turns};
    @%p4 bra PRODUCER;
    bra END;
CONSUMER:
    and.b32 %r4, %r3, 1;
    mad.lo.u32 %r5, %r4, 8, %r1;
    shr.u32 %r6, %r3, 1;
    and.b32 %r6, %r6, 1;
C:
    mbarrier.{wait}.parity.shared.b64 %p3, [%r5], %r6;
    @!%p3 bra C;
    mad.lo.u32 %r7, %r4, 4, %r2;
    ld.shared.u32 %r8, [%r7];
    mad.lo.u32 %d0, %d0, 5, %r8;
    mbarrier.arrive.shared.b64 _, [%r5+16];
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p4, %r3, {turns};
    @%p4 bra CONSUMER;
END:
"""


@pytest.mark.parametrize("wait", ["try_wait", "test_wait"])
@settings(max_examples=15, deadline=None)
@given(order=st.sampled_from(ORDERS), seed=st.integers(0, 2**31), turns=st.integers(1, 9))
def test_a_ring_of_two_stages(wait: str, order: OrderName, seed: int, turns: int) -> None:
    (found,) = run_threads(RING.format(turns=turns, wait=wait), [zeros(64)], shared=SHARED, order=order, seed=seed)
    value = 0
    for turn in range(turns):
        value = (value * 5 + turn * turn + 7) % 2**32
    assert (found[32:] == value).all()


def test_a_ring_that_is_released_too_early_is_found() -> None:
    """The producer does not wait for the consumers: some order shows it."""
    body = RING.format(turns=8, wait="try_wait").replace(
        "mbarrier.try_wait.parity.shared.b64 %p3, [%r5+16], %r6;\n    @!%p3 bra P;", ""
    )
    assert "bra P;" not in body
    value = 0
    for turn in range(8):
        value = (value * 5 + turn * turn + 7) % 2**32

    def wrong(order: OrderName, seed: int) -> bool:
        try:
            (found,) = run_threads(body, [zeros(64)], shared=SHARED, order=order, seed=seed)
        except EmulatorFault:
            return True
        return bool((found[32:] != value).any())

    assert wrong("adversarial", 0)
    assert any(wrong("random", seed) for seed in range(10))


FLAG = """
    ld.param.u64 %x1, [flags];
    mov.u32 %r1, %ctaid.x;
    setp.ne.u32 %p1, %t, 0;
    @%p1 bra END;
    setp.eq.u32 %p2, %r1, {waits};
    @%p2 bra SPIN;
    st.global.release.gpu.u32 [%x1], 41;
    bra END;
SPIN:
    ld.global.acquire.gpu.u32 %r2, [%x1];
    setp.eq.u32 %p3, %r2, 0;
    @%p3 bra SPIN;
    add.u32 %r2, %r2, 1;
    st.global.u32 [%x1+4], %r2;
END:
"""


def launch_flag(waits: int, order: OrderName, seed: int, *, ctas: int = 2) -> np.ndarray:
    flags = np.zeros(2, np.uint32)
    text = kernel(FLAG.format(waits=waits), parameters=".param .u64 flags")
    emulate(text, "k", ctas, 32, [flags], order=order, seed=seed)
    return flags


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("waits", [0, 1, 5])
def test_a_cta_may_wait_for_one_that_starts_later(waits: int, order: OrderName) -> None:
    """CTAs are resident together while those that run cannot go on."""
    assert launch_flag(waits, order, 1, ctas=6).tolist() == [41, 42]


@pytest.mark.parametrize("order", ORDERS)
def test_all_ctas_can_wait_for_one_another(order: OrderName) -> None:
    """A barrier across the grid: one thread of each CTA polls a counter, its warp and the other wait for it at bar.sync."""
    text = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 counter, .param .u64 data) {
  .reg .pred p, q;
  .reg .b32 r<8>;
  .reg .b64 d<4>;
  ld.param.u64 d0, [counter];
  ld.param.u64 d1, [data];
  mov.u32 r0, %tid.x;
  mov.u32 r1, %ctaid.x;
  mov.u32 r2, %nctaid.x;
  mul.wide.u32 d2, r1, 4;
  add.u64 d2, d1, d2;
  setp.ne.u32 p, r0, 0;
  @p bra joined;
  st.global.u32 [d2], 7;
  fence.acq_rel.gpu;
  red.global.add.u32 [d0], 1;
again:
  ld.acquire.gpu.global.u32 r3, [d0];
  setp.ge.u32 q, r3, r2;
  @q bra joined;
  nanosleep.u32 100;
  bra again;
joined:
  bar.sync 0;
  setp.ne.u32 q, r0, 33;
  @q exit;
  rem.u32 r4, r1, r2;
  sub.u32 r4, r2, r4;
  sub.u32 r4, r4, 1;
  mul.wide.u32 d3, r4, 4;
  add.u64 d3, d1, d3;
  ld.global.u32 r5, [d3];
  add.u32 r5, r5, r1;
  st.global.u32 [d2+32], r5;
  exit;
}
"""
    data = np.zeros(16, np.uint32)
    emulate(text, "k", (6, 1, 1), (40, 1, 1), [np.zeros(1, np.uint32), data], order=order)
    assert data[8:14].tolist() == [7, 8, 9, 10, 11, 12]


@pytest.mark.parametrize("order", ORDERS)
def test_a_flag_that_nobody_sets(order: OrderName) -> None:
    with pytest.raises(EmulatorFault) as caught:
        launch_flag(0, order, 1, ctas=1)
    assert caught.value.kind is FaultKind.DEADLOCK
    assert notes(caught.value) == [
        "CTA (0, 0, 0), warp 0: repeats a loop at ld.global.acquire.gpu.u32 in which nothing changes"
    ]


def test_orders_are_repeatable() -> None:
    """The same seed gives the same run; among several seeds, some differ."""
    body = """
    ld.param.u64 %x1, [out];
    atom.global.add.u32 %r1, [%x1], 1;
    mov.u32 %r2, %ctaid.x;
    mad.lo.u32 %r2, %r2, 64, %t;
    mad.wide.u32 %x2, %r2, 4, %x1;
    st.global.u32 [%x2+4], %r1;
"""

    def tickets(order: OrderName, seed: int) -> list[int]:
        out = np.zeros(1 + 256, np.uint32)
        emulate(kernel(body, parameters=".param .u64 out"), "k", 4, 64, [out], order=order, seed=seed)
        assert sorted(out[1:].tolist()) == list(range(256))
        return out[1:].tolist()

    for order in ORDERS:
        assert tickets(order, 7) == tickets(order, 7)
    assert tickets("fifo", 0) == tickets("fifo", 1) == list(range(256))
    assert len({tuple(tickets("random", seed)) for seed in range(8)}) > 4


def deadlock(body: str, threads: int, order: OrderName = "fifo") -> EmulatorFault:
    with pytest.raises(EmulatorFault) as caught:
        run_threads(body, [zeros(threads)], shared=SHARED, order=order, seed=3)
    return caught.value


INIT = """
    mov.u32 %r1, objects;
    setp.eq.u32 %p1, %t, 0;
    @%p1 mbarrier.init.shared.b64 [%r1], 1;
    bar.sync 0;
"""


@pytest.mark.parametrize("order", ORDERS)
def test_one_thread_waits_for_ever_and_its_warp_for_it(order: OrderName) -> None:
    """The cause is the mbarrier; that the rest of the warp cannot pass its barrier follows from it."""
    body = (
        INIT
        + """
    @!%p1 bra L;
W:
    mbarrier.try_wait.parity.shared.b64 %p2, [%r1], 0;
    @!%p2 bra W;
L:
    bar.sync 1;
"""
    )
    fault = deadlock(body, 64, order)
    assert fault.kind is FaultKind.DEADLOCK
    assert fault.place.instruction.opcode == "mbarrier.try_wait.parity.shared.b64"
    assert sorted(notes(fault)) == sorted(
        [
            "CTA (0, 0, 0), lane 0 of warp 0: waits at mbarrier.try_wait.parity.shared.b64 for phase 0 (parity 0) of the mbarrier at "
            "0x400, which is in phase 0 and lacks 1 arrival",
            "CTA (0, 0, 0), lanes 1 to 31 of warp 0: wait at bar.sync for the rest of their warp",
            "CTA (0, 0, 0), warp 1: waits at bar.sync for barrier 1: 32 of 64 threads have arrived, warp 0 is missing",
        ]
    )


@pytest.mark.parametrize("order", ORDERS)
def test_full_text_of_a_deadlock(order: OrderName) -> None:
    body = """
    setp.lt.u32 %p1, %t, 32;
    @%p1 bra L;
    bar.sync 1, 64;
    bra M;
L:
    bar.sync 2, 64;
M:
"""
    fault = deadlock(body, 64, order)
    lines = str(fault).splitlines()
    one, two = (
        next(i for i, text in enumerate(kernel(body).splitlines(), 1) if f"bar.sync {n}" in text) for n in (1, 2)
    )
    shift = fault.place.instruction.line - (one if "bar.sync 1" in lines[1] else two)
    one, two = one + shift, two + shift
    texts = {
        one: ["    bar.sync 1, 64;", "    ^"],
        two: ["    bar.sync 2, 64;", "    ^"],
    }
    first = fault.place.instruction.line
    expected = {
        one: f"<ptx>:{one}:5: note: CTA (0, 0, 0), warp 1: waits at bar.sync for barrier 1: 32 of 64 threads have arrived (warp 1)",
        two: f"<ptx>:{two}:5: note: CTA (0, 0, 0), warp 0: waits at bar.sync for barrier 2: 32 of 64 threads have arrived (warp 0)",
    }
    head = f"<ptx>:{first}:5: error: deadlock: no thread can go on, and nothing asynchronous is under way (kernel k, CTA (0, 0, 0))"
    assert lines[:3] == [head, *texts[first]]
    found = [tuple(lines[at : at + 3]) for at in range(3, len(lines), 3)]
    assert set(found) == {(expected[line], *texts[line]) for line in (one, two)}


@pytest.mark.parametrize("order", ORDERS)
def test_parity_of_the_wrong_phase_is_a_deadlock(order: OrderName) -> None:
    body = (
        INIT
        + """
    @%p1 mbarrier.arrive.shared.b64 _, [%r1];
    bar.sync 0;
W:
    mbarrier.try_wait.parity.shared.b64 %p2, [%r1], 1;
    @!%p2 bra W;
"""
    )
    fault = deadlock(body, 32, order)
    assert fault.kind is FaultKind.DEADLOCK
    assert "phase 1 (parity 1) of the mbarrier at 0x400, which is in phase 1 and lacks 1 arrival" in str(fault)


@pytest.mark.parametrize("order", ORDERS)
def test_threads_that_poll_with_a_limit_go_on(order: OrderName) -> None:
    """A loop that counts its polls ends; what it waits for may even come from a thread that polls less often."""
    body = (
        INIT
        + """
    mov.u32 %r3, 0;
W:
    mbarrier.try_wait.parity.shared.b64 %p2, [%r1], 0;
    @%p2 bra DONE;
    add.u32 %r3, %r3, 1;
    setp.eq.u32 %p3, %r3, 5;
    and.pred %p3, %p3, %p1;
    @%p3 mbarrier.arrive.shared.b64 _, [%r1];
    setp.lt.u32 %p4, %r3, 40;
    @%p4 bra W;
DONE:
    mov.u32 %d0, 1;
"""
    )
    (found,) = run_threads(body, [zeros(64)], shared=SHARED, order=order, seed=8)
    assert (found == 1).all()


def counts(run: Callable[[OrderName], Emulation]) -> list[dict[str, int]]:
    return [dict(run(order).opcodes) for order in ORDERS]


def test_instructions_are_counted_alike_in_all_orders() -> None:
    body = """
    setp.lt.u32 %p1, %t, 40;
    @%p1 add.u32 %r1, %t, 1;
    elect.sync _|%p2, 0xffffffff;
    @%p2 add.s32 %r1, %t, 2;
    @!%p1 bra L;
    shfl.sync.idx.b32 %r2, %t, 0, 31, 0x000000ff;
L:
    bar.sync 0;
""".replace("0x000000ff", "%r3").replace("shfl", "activemask.b32 %r3;\n    shfl")

    def run(order: OrderName) -> Emulation:
        return emulate(kernel(body), "k", 2, 128, [], order=order, seed=1)

    fifo, random, adversarial = counts(run)
    assert fifo == random == adversarial
    assert fifo["add.u32"] == 2 * 2
    assert fifo["add.s32"] == 4 * 2
    assert fifo["shfl.sync.idx.b32"] == 2 * 2
    assert fifo["bar.sync"] == 4 * 2


DIVERGENT = """
    @%p1 bra A;
    mov.u32 %r4, 1;
    bra B;
A:
    mov.u32 %r4, 2;
B:
"""


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "inside",
    [DIVERGENT, "    bar.warp.sync 0xffffffff;", "    bar.sync 0;", "    st.shared.u32 [%r1+4], 5;"],
    ids=["diverge", "warp barrier", "barrier", "store"],
)
def test_a_loop_of_several_threads_that_only_repeats_itself(inside: str, order: OrderName) -> None:
    """What is waited for never comes, although threads part and meet, wait for one another, or write the same again."""
    body = f"""
    mov.u32 %r1, words;
    setp.eq.u32 %p2, %t, 0;
    @%p2 st.shared.u32 [%r1], 0;
    and.b32 %r3, %t, 1;
    setp.eq.u32 %p1, %r3, 0;
    bar.sync 0;
L:
    ld.shared.u32 %r2, [%r1];
{inside}
    setp.eq.u32 %p3, %r2, 0;
    @%p3 bra L;
"""
    assert deadlock(body, 128, order).kind is FaultKind.DEADLOCK


@pytest.mark.parametrize("order", ORDERS)
def test_a_lock_that_is_never_released(order: OrderName) -> None:
    body = """
    mov.u32 %r1, words;
    setp.eq.u32 %p1, %t, 0;
    @%p1 st.shared.u32 [%r1], 1;
    bar.sync 0;
    @!%p1 exit;
L:
    atom.shared.cas.b32 %r2, [%r1], 0, 1;
    setp.ne.u32 %p2, %r2, 0;
    @%p2 bra L;
"""
    fault = deadlock(body, 64, order)
    assert fault.kind is FaultKind.DEADLOCK
    assert "repeats a loop" in str(fault)


@pytest.mark.parametrize("order", ORDERS)
def test_a_long_loop_that_does_end(order: OrderName) -> None:
    """What comes back to the same registers and memory for a long time, but not for ever: the count is in memory."""
    body = """
    mov.u32 %r1, words;
    setp.eq.u32 %p1, %t, 0;
    @%p1 st.shared.u32 [%r1], 0;
    bar.sync 0;
    @!%p1 bra WAITER;
L:
    atom.shared.add.u32 %r2, [%r1], 1;
    mov.u32 %r2, 0;
    ld.shared.u32 %r3, [%r1];
    setp.lt.u32 %p2, %r3, 2000;
    mov.u32 %r3, 0;
    @%p2 bra L;
WAITER:
    ld.shared.u32 %r3, [%r1];
    setp.lt.u32 %p2, %r3, 2000;
    @%p2 bra WAITER;
    mov.u32 %d0, 1;
"""
    (found,) = run_threads(body, [zeros(64)], shared=SHARED, order=order, seed=2)
    assert (found == 1).all()


def test_grid_of_nothing() -> None:
    for order in ORDERS:
        assert emulate(kernel(""), "k", 0, 32, [], order=order).ctas == 0


@pytest.mark.parametrize("order", ORDERS)
def test_loops_of_different_length_meet_again(order: OrderName) -> None:
    """Each lane counts to its own limit; behind the loop the warp is whole again, as .aligned asks."""
    body = """
    mov.u32 %r1, 0;
    and.b32 %r2, %t, 7;
L:
    add.u32 %r1, %r1, 1;
    setp.le.u32 %p1, %r1, %r2;
    @%p1 bra L;
    activemask.b32 %d0;
    barrier.sync.aligned 0;
"""
    (found,) = run_threads(body, [zeros(96)], order=order, seed=2)
    assert all(int(mask) >> (t & 31) & 1 for t, mask in enumerate(found))
    if order == "fifo":
        assert (found == 0xFFFFFFFF).all()


def values(array: Any) -> list[int]:
    return [int(v) for v in array]


@pytest.mark.parametrize("order", ORDERS)
def test_threads_take_a_lock_in_turn(order: OrderName) -> None:
    """One thread of each warp spins on a lock that another holds."""
    body = """
    ld.param.u64 %x1, [out];
    and.b32 %r9, %t, 31;
    setp.ne.u32 %p1, %r9, 0;
    @%p1 bra END;
TAKE:
    atom.global.cas.b32 %r1, [%x1], 0, 1;
    setp.ne.u32 %p2, %r1, 0;
    @%p2 bra TAKE;
    ld.global.u32 %r2, [%x1+4];
    add.u32 %r2, %r2, 1;
    st.global.u32 [%x1+4], %r2;
    atom.global.exch.b32 %r1, [%x1], 0;
END:
"""
    out = np.zeros(2, np.uint32)
    emulate(kernel(body, parameters=".param .u64 out"), "k", 3, 128, [out], order=order, seed=5)
    assert values(out) == [0, 12]


@pytest.mark.parametrize("order", ORDERS)
def test_polls_of_a_lock_that_is_taken_are_few(order: OrderName) -> None:
    """An atomic that changes nothing is no news: who spins on it waits until another thread has changed something."""
    body = """
    ld.param.u64 %x1, [out];
    setp.eq.u32 %p1, %t, 0;
    @%p1 bra TAKE;
    mov.u32 %r1, 0;
WORK:
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p2, %r1, 3000;
    @%p2 bra WORK;
    setp.ne.u32 %p1, %t, 32;
    @%p1 bra END;
    atom.global.exch.b32 %r1, [%x1], 0;
    bra END;
TAKE:
    atom.global.cas.b32 %r1, [%x1], 0, 1;
    setp.ne.u32 %p2, %r1, 0;
    @%p2 bra TAKE;
END:
"""
    out = np.ones(1, np.uint32)
    ran = emulate(kernel(body, parameters=".param .u64 out"), "k", 1, 64, [out], order=order, seed=5)
    assert values(out) == [1]
    assert ran.opcodes["atom.global.cas.b32"] < 50
