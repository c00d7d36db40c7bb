"""bar, barrier and bar.warp.sync: who waits for whom, reductions, faults, and what a deadlock says."""

from __future__ import annotations

import re

import numpy as np
import pytest
from emulator.instructions.per_thread import ORDERS, OrderName, run_threads
from hypothesis import given, settings
from hypothesis import strategies as st

from tilec.backend.emulator.faults import EmulatorFault, FaultKind, UnsupportedInstruction

WORDS = ".shared .align 4 .b32 words[256];"
EXCHANGE = """
    mov.u32 %r1, words;
    shl.b32 %r2, %t, 2;
    add.u32 %r2, %r1, %r2;
    st.shared.u32 [%r2], %a0;
    {barrier}
    add.u32 %r3, %t, {distance};
    rem.u32 %r3, %r3, {threads};
    shl.b32 %r3, %r3, 2;
    add.u32 %r3, %r1, %r3;
    ld.shared.u32 %d0, [%r3];
"""


def zeros(threads: int) -> np.ndarray:
    return np.zeros(threads, np.uint32)


def fault(body: str, threads: int, *, shared: str = "", order: OrderName = "fifo") -> EmulatorFault:
    with pytest.raises(EmulatorFault) as caught:
        run_threads(body, [zeros(threads)], shared=shared, order=order)
    return caught.value


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "barrier",
    [
        "bar.sync 0;",
        "bar.cta.sync 15, 128;",
        "barrier.sync 3;",
        "barrier.cta.sync.aligned 3, 128;",
        "bar.sync 0, 0;",
        "mov.u32 %r9, 4; mov.u32 %r10, 128; barrier.sync %r9, %r10;",
    ],
)
def test_all_stores_are_seen_behind_the_barrier(barrier: str, order: OrderName) -> None:
    values = np.arange(128, dtype=np.uint32) * 3
    body = EXCHANGE.format(barrier=barrier, distance=33, threads=128)
    (found,) = run_threads(body, [values], shared=WORDS, order=order, seed=5)
    assert found.tolist() == np.roll(values, -33).tolist()


def test_without_the_barrier_the_adversary_finds_it() -> None:
    body = EXCHANGE.format(barrier="", distance=33, threads=128)
    with pytest.raises(EmulatorFault) as caught:
        run_threads(body, [zeros(128)], shared=WORDS, order="adversarial")
    assert caught.value.kind is FaultKind.UNINITIALISED


@pytest.mark.parametrize("order", ORDERS)
def test_a_block_that_does_not_fill_its_last_warp(order: OrderName) -> None:
    values = np.arange(80, dtype=np.uint32)
    for barrier in ("bar.sync 0;", "bar.sync 0, 96;", "barrier.sync 0;"):
        body = EXCHANGE.format(barrier=barrier, distance=33, threads=80)
        (found,) = run_threads(body, [values], shared=WORDS, order=order)
        assert found.tolist() == np.roll(values, -33).tolist()


@pytest.mark.parametrize("order", ORDERS)
def test_threads_that_have_exited_do_not_take_part(order: OrderName) -> None:
    """Warp 1 exits as a whole, warp 2 in part: neither is waited for by a barrier of all threads."""
    body = """
    setp.ge.u32 %p1, %t, 32;
    setp.lt.u32 %p2, %t, 70;
    and.pred %p3, %p1, %p2;
    @%p3 exit;
    bar.red.popc.u32 %d0, 2, 1;
"""
    (found,) = run_threads(
        body.replace(", 1;", ", %p4;").replace("@%p3", "setp.eq.u32 %p4, %t, %t;\n    @%p3"), [zeros(128)], order=order
    )
    alive = [t for t in range(128) if not 32 <= t < 70]
    assert {int(found[t]) for t in alive} == {len(alive)}


@pytest.mark.parametrize("order", ORDERS)
def test_a_thread_may_exit_while_others_wait(order: OrderName) -> None:
    body = """
    setp.lt.u32 %p1, %t, 32;
    @%p1 bra DONE;
    bar.sync 0;
    mov.u32 %d0, 7;
    bra END;
DONE:
    exit;
END:
"""
    (found,) = run_threads(body, [zeros(64)], order=order)
    assert found[32:].tolist() == [7] * 32


@pytest.mark.parametrize("order", ORDERS)
def test_producer_and_consumer(order: OrderName) -> None:
    """The scheme of 9.7.13.1: a producer arrives at one barrier and waits at another; the consumer does the reverse."""
    body = """
    mov.u32 %r1, words;
    mov.u32 %r4, 0;
    mov.u32 %d0, 0;
    and.b32 %r5, %t, 31;
    shl.b32 %r5, %r5, 2;
    add.u32 %r1, %r1, %r5;
    setp.lt.u32 %p1, %t, 32;
    @!%p1 bra CONSUMER;
PRODUCER:
    add.u32 %r6, %r4, %t;
    st.shared.u32 [%r1], %r6;
    bar.arrive 1, 64;
    bar.sync 2, 64;
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p2, %r4, 10;
    @%p2 bra PRODUCER;
    bra END;
CONSUMER:
    bar.sync 1, 64;
    ld.shared.u32 %r6, [%r1];
    mad.lo.u32 %d0, %d0, 3, %r6;
    bar.arrive 2, 64;
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p2, %r4, 10;
    @%p2 bra CONSUMER;
END:
"""
    (found,) = run_threads(body, [zeros(64)], shared=WORDS, order=order, seed=9)
    for lane in range(32):
        total = 0
        for turn in range(10):
            total = total * 3 + turn + lane
        assert found[32 + lane] == total


@settings(max_examples=25, deadline=None)
@given(flags=st.lists(st.booleans(), min_size=96, max_size=96), order=st.sampled_from(ORDERS), seed=st.integers(0, 99))
def test_reductions(flags: list[bool], order: OrderName, seed: int) -> None:
    body = """
    setp.ne.u32 %p1, %a0, 0;
    bar.red.popc.u32 %d0, 0, %p1;
    bar.cta.red.and.pred %p2, 1, 96, !%p1;
    barrier.cta.red.or.pred %p3, 0, %p1;
    barrier.red.popc.aligned.u32 %d3, 0, 96, !%p1;
    selp.u32 %d1, 1, 0, %p2;
    selp.u32 %d2, 1, 0, %p3;
"""
    results = run_threads(body, [np.array(flags, np.uint32)], [np.uint32] * 4, order=order, seed=seed)
    expected = [sum(flags), int(not any(flags)), int(any(flags)), 96 - sum(flags)]
    for found, value in zip(results, expected, strict=True):
        assert (found == value).all()


@pytest.mark.parametrize("order", ORDERS)
def test_barriers_of_parts_of_the_block_are_apart(order: OrderName) -> None:
    """Each pair of warps has its own barrier, by register, and reduces over its own threads only."""
    body = """
    shr.u32 %r1, %t, 6;
    and.b32 %r2, %t, 3;
    setp.le.u32 %p1, %r2, %r1;
    bar.red.popc.u32 %d0, %r1, 64, %p1;
"""
    (found,) = run_threads(body, [zeros(256)], order=order)
    assert found.tolist() == [16 * (1 + t // 64) for t in range(256)]


@pytest.mark.parametrize("order", ORDERS)
def test_more_warps_than_the_barrier_is_for_use_it_in_turn(order: OrderName) -> None:
    """Four warps at a barrier for two: it completes twice, each time for 64 threads."""
    body = "    setp.eq.u32 %p1, %t, %t;\n    bar.red.popc.u32 %d0, 1, 64, %p1;\n"
    (found,) = run_threads(body, [zeros(128)], order=order)
    assert (found == 64).all()


@pytest.mark.parametrize("order", ORDERS)
def test_one_warp_more_than_the_barrier_is_for(order: OrderName) -> None:
    caught = fault("    bar.sync 1, 64;\n", 96, order=order)
    assert caught.kind is FaultKind.DEADLOCK
    assert "waits at bar.sync for barrier 1: 32 of 64 threads have arrived" in str(caught)


@pytest.mark.parametrize("order", ORDERS)
def test_unaligned_barrier_from_two_places(order: OrderName) -> None:
    """Without .aligned, threads of a warp may come from different instructions; the warp has arrived when all have."""
    body = """
    and.b32 %r2, %t, 1;
    setp.eq.u32 %p1, %r2, 0;
    setp.eq.u32 %p2, %t, %t;
    @%p1 bra EVEN;
    barrier.red.popc.u32 %d0, 0, %p1;
    bra END;
EVEN:
    barrier.red.popc.u32 %d0, 0, %p2;
END:
"""
    (found,) = run_threads(body, [zeros(64)], order=order)
    assert (found == 32).all()


@pytest.mark.parametrize("order", ORDERS)
def test_unaligned_arrival_waits_for_its_warp(order: OrderName) -> None:
    body = """
    setp.lt.u32 %p1, %t, 32;
    @!%p1 bra CONSUMER;
    setp.lt.u32 %p2, %t, 7;
    @%p2 bra LATE;
    barrier.arrive 1, 64;
    bra END;
LATE:
    barrier.arrive 1, 64;
    bra END;
CONSUMER:
    barrier.sync 1, 64;
END:
    mov.u32 %d0, 1;
"""
    (found,) = run_threads(body, [zeros(64)], order=order)
    assert (found == 1).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mov.u32 %r1, 16; bar.sync %r1;", "barrier 16; a CTA has the barriers 0 to 15"),
        ("mov.u32 %r1, 48; bar.sync 0, %r1;", "barrier 0 for 48 threads, which is not a multiple of 32"),
        ("mov.u32 %r1, 0; bar.arrive 3, %r1;", "an arrival at barrier 3 for 0 threads"),
        ("bar.arrive 5, 128; bar.arrive 5, 128;", "a thread arrives again at barrier 5 before it has completed"),
        ("bar.arrive 5, 128; bar.sync 5, 128;", "a thread arrives again at barrier 5 before it has completed"),
    ],
)
def test_faults(text: str, message: str) -> None:
    caught = fault(f"    {text}\n", 64)
    assert caught.kind is FaultKind.ILLEGAL
    assert message in str(caught)


def test_full_text_of_a_fault() -> None:
    caught = fault("    mov.u32 %r1, 48;\n    bar.sync 0, %r1;\n", 64)
    line = caught.place.instruction.line
    assert str(caught).splitlines() == [
        f"<ptx>:{line}:5: error: illegal instruction: barrier 0 for 48 threads, which is not a multiple of 32 "
        "(kernel k, CTA (0, 0, 0), thread (0, 0, 0))",
        "    bar.sync 0, %r1;",
        "    ^",
        "hint: barriers count whole warps",
    ]


@pytest.mark.parametrize("order", ORDERS)
def test_different_numbers_of_threads(order: OrderName) -> None:
    body = """
    setp.lt.u32 %p1, %t, 32;
    @%p1 bra L;
    bar.sync 1, 64;
    bra M;
L:
    bar.arrive 1, 96;
M:
"""
    caught = fault(body, 64, order=order)
    assert caught.kind is FaultKind.ILLEGAL
    assert re.search(r"barrier 1 is used by (64|96) threads while line \d+ uses it by (?!\1)(64|96)", str(caught))
    assert "all that take part in a barrier give the same number of threads" in str(caught)


def test_reduction_and_synchronisation_at_one_barrier() -> None:
    body = """
    setp.lt.u32 %p1, %t, 32;
    @%p1 bra L;
    bar.sync 1;
    bra M;
L:
    bar.red.popc.u32 %d0, 1, %p1;
M:
"""
    caught = fault(body, 64)
    assert caught.kind is FaultKind.ILLEGAL
    assert "synchronisation" in str(caught)
    assert "a reduction by .popc" in str(caught)


def test_aligned_barrier_by_part_of_a_warp() -> None:
    body = """
    setp.lt.u32 %p1, %t, 12;
    @%p1 bar.sync 0;
L:
    @%p1 bra M;
    bar.sync 1;
M:
"""
    caught = fault(body, 64)
    assert caught.kind is FaultKind.DIVERGENT
    assert "of warp 0 execute bar.sync, and the other threads that take part never do" in str(caught)
    assert "CTA (0, 0, 0), lanes 0 to 11 of warp 0: wait at bar.sync for the rest of their warp" in str(caught)
    assert "CTA (0, 0, 0), lanes 12 to 31 of warp 0: wait at bar.sync for the rest of their warp" in str(caught)


def test_deadlock_names_the_missing_warps() -> None:
    body = """
    setp.lt.u32 %p1, %t, 64;
    @%p1 bra L;
    bar.sync 1;
    bra M;
L:
    bar.sync 2, 96;
M:
"""
    caught = fault(body, 128)
    assert caught.kind is FaultKind.DEADLOCK
    assert [line.split(": ", 1)[1] for line in str(caught).splitlines() if ": note: " in line] == [
        "note: CTA (0, 0, 0), warps 2 and 3: wait at bar.sync for barrier 1: 64 of 128 threads have arrived, "
        "warps 0, 1 are missing",
        "note: CTA (0, 0, 0), warps 0 and 1: wait at bar.sync for barrier 2: 64 of 96 threads have arrived (warps 0, 1)",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "bar.sync;",
        "bar.sync 0, 32, 32;",
        "bar.sync.aligned 0;",
        "bar.red.xor.pred %p1, 0, %p2;",
        "bar.arrive 0;",
        "bar.red.popc.pred %p1, 0, %p2;",
        "barrier.sync.relaxed 0;",
    ],
)
def test_forms_that_do_not_exist(text: str) -> None:
    with pytest.raises(UnsupportedInstruction):
        run_threads(f"    {text}\n", [zeros(32)])


@pytest.mark.parametrize("order", ORDERS)
def test_warp_barrier_from_two_places(order: OrderName) -> None:
    body = """
    mov.u32 %r1, words;
    shl.b32 %r2, %t, 2;
    add.u32 %r2, %r1, %r2;
    xor.b32 %r3, %t, 1;
    shl.b32 %r3, %r3, 2;
    add.u32 %r3, %r1, %r3;
    and.b32 %r4, %t, 1;
    setp.eq.u32 %p1, %r4, 0;
    @%p1 bra EVEN;
    st.shared.u32 [%r2], %t;
    bar.warp.sync 0xffffffff;
    ld.shared.u32 %d0, [%r3];
    bra END;
EVEN:
    st.shared.u32 [%r2], %t;
    bar.warp.sync 0xffffffff;
    ld.shared.u32 %d0, [%r3];
END:
"""
    (found,) = run_threads(body, [zeros(64)], shared=WORDS, order=order)
    assert found.tolist() == [t ^ 1 for t in range(64)]


@pytest.mark.parametrize("order", ORDERS)
def test_warp_barrier_of_halves_and_of_what_is_left_of_a_warp(order: OrderName) -> None:
    body = """
    setp.ge.u32 %p1, %t, 60;
    @%p1 exit;
    and.b32 %r1, %t, 16;
    setp.eq.u32 %p2, %r1, 0;
    selp.b32 %r2, 0x0000ffff, 0xffff0000, %p2;
    bar.warp.sync %r2;
    bar.warp.sync 0xffffffff;
    mov.u32 %d0, 1;
"""
    (found,) = run_threads(body, [zeros(64)], order=order)
    assert (found[:60] == 1).all()


def test_warp_barrier_that_is_never_reached() -> None:
    body = """
    setp.lt.u32 %p1, %t, 31;
    @%p1 bar.warp.sync 0xffffffff;
    @%p1 bra L;
    bar.sync 0;
L:
"""
    caught = fault(body, 32)
    assert "the threads 0x80000000 of its member mask 0xffffffff" in str(caught)
