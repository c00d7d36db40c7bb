"""Branches, loops, indexed branches and exits of threads that part and meet again."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from threads import NOTHING, ORDERS, OrderName, kernel, run

from tilec.backend.emulator.faults import EmulatorFault, FaultKind, UnsupportedInstruction
from tilec.backend.emulator.launch import emulate

orders = pytest.mark.parametrize(("order", "seed"), ORDERS)


def numbers(count: int, below: int = 1 << 32) -> list[int]:
    rng = Random(count)
    return [rng.randrange(below) for _ in range(count)]


@orders
def test_nested_branches(order: OrderName, seed: int) -> None:
    body = """
    and.b32 r1, a, 1;
    setp.eq.u32 p1, r1, 0;
    mov.u32 d, 0;
    @p1 bra even;
    setp.gt.s32 p2, a, 0;
    @!p2 bra odd_negative;
    add.u32 d, d, 1;
    bra.uni odd_done;
odd_negative:
    and.b32 r2, a, 2;
    setp.ne.u32 p3, r2, 0;
    @p3 add.u32 d, d, 20;
    @!p3 add.u32 d, d, 10;
odd_done:
    add.u32 d, d, 100;
    bra done;
even:
    @!p1 bra done;
    add.u32 d, d, 1000;
done:
    add.u32 d, d, 10000;
"""

    def expected(a: int) -> int:
        if a % 2 == 0:
            return 11000
        return 10100 + (1 if a < 2**31 else 20 if a & 2 else 10)

    words = numbers(75)
    assert run(body, words, order=order, seed=seed)[0] == [expected(a) for a in words]


LOOPS = """
    mov.u32 d, 0;
    mov.u32 r1, 0;
outer:
    mov.u32 r2, r1;
inner:
    setp.eq.u32 p1, r2, 0;
    @p1 bra inner_done;
    sub.u32 r2, r2, 1;
    add.u32 d, d, 3;
    and.b32 r3, r2, 3;
    setp.eq.u32 p2, r3, 2;
    @p2 bra inner;
    add.u32 d, d, 1;
    bra inner;
inner_done:
    add.u32 r1, r1, 1;
    setp.lt.u32 p3, r1, a;
    @p3 bra outer;
"""


def loops(a: int) -> int:
    return sum(3 + (r % 4 != 2) for outer in range(max(a, 1)) for r in range(outer))


@orders
def test_loops_of_different_lengths(order: OrderName, seed: int) -> None:
    words = numbers(70, 13)
    assert run(LOOPS, words, order=order, seed=seed)[0] == [loops(a) for a in words]


def test_threads_in_lock_step_meet_again_behind_loops() -> None:
    words = numbers(70, 13)
    found, done = run(f"{LOOPS}\n    activemask.b32 r4;\n    add.u32 d, d, r4;\n", words)
    masks = [2**32 - 1] * 64 + [2**6 - 1] * 6
    assert found == [(loops(a) + mask) % 2**32 for a, mask in zip(words, masks, strict=True)]
    assert done.opcodes["activemask.b32"] == 3


@orders
def test_a_loop_with_exits_in_its_middle(order: OrderName, seed: int) -> None:
    # The length of the Collatz sequence, but threads that reach 16 leave the loop, and those that reach 40 the kernel.
    body = """
    mov.u32 d, 0;
again:
    setp.eq.u32 p1, a, 16;
    @p1 bra out;
    setp.eq.u32 p1, a, 40;
    @p1 exit;
    setp.le.u32 p1, a, 1;
    @p1 bra out;
    add.u32 d, d, 1;
    and.b32 r1, a, 1;
    setp.eq.u32 p2, r1, 1;
    @p2 mad.lo.u32 a, a, 3, 1;
    @!p2 shr.u32 a, a, 1;
    bra again;
out:
"""

    def expected(a: int) -> int:
        steps = 0
        while a > 1 and a != 16:
            if a == 40:
                return NOTHING
            a = 3 * a + 1 if a % 2 else a // 2
            steps += 1
        return steps

    words = list(range(1, 97))
    assert run(body, words, order=order, seed=seed)[0] == [expected(a) for a in words]


@orders
@pytest.mark.parametrize("guard", ["", "@p0 "])
def test_indexed_branches(order: OrderName, seed: int, guard: str) -> None:
    body = f"""
    .reg .b32 chosen;
    setp.ne.u32 p0, a, 3;
    rem.u32 chosen, a, 5;
table: .branchtargets zero, one, two, one, last;
    mov.u32 d, 7;
    {guard}brx.idx chosen, table;
    bra last;
zero:
    mov.u32 d, 100;
    bra last;
one:
    mov.u32 d, 101;
two:
    add.u32 d, d, 1000;
last:
    add.u32 d, d, 1;
"""

    def expected(a: int) -> int:
        if guard and a == 3:
            return 8
        return [101, 1102, 1008, 1102, 8][a % 5]

    words = [*range(8), *numbers(60)]
    assert run(body, words, order=order, seed=seed)[0] == [expected(a) for a in words]


def test_an_index_beyond_the_table_is_a_fault() -> None:
    body = "table: .branchtargets here, here;\n    brx.idx a, table;\nhere:\n    mov.u32 d, 1;\n"
    assert run(body, [0, 1])[0] == [1, 1]
    with pytest.raises(EmulatorFault, match="index 2 into a table of 2 labels") as caught:
        run(body, [0, 1, 2])
    assert caught.value.kind is FaultKind.ILLEGAL
    assert caught.value.place.thread == (2, 0, 0)


@orders
def test_exited_threads_are_not_waited_for_at_a_barrier(order: OrderName, seed: int) -> None:
    body = """
    .shared .b32 pool[128];
    setp.ge.u32 p1, t, 80;
    @p1 ret;
    setp.eq.u32 p1, t, 33;
    @p1 exit;
    shl.b32 r1, t, 2;
    mov.u32 r2, pool;
    add.u32 r2, r2, r1;
    st.shared.u32 [r2], a;
    bar.sync 0;
    setp.eq.u32 p2, t, 79;
    @p2 bra skip;
    setp.eq.u32 p3, t, 32;
    selp.u32 r3, 8, 4, p3;
    add.u32 r2, r2, r3;
    ld.shared.u32 d, [r2];
    bra done;
skip:
    mov.u32 d, 5;
done:
"""
    words = numbers(96)
    expected = [words[i + 2] if i == 32 else words[i + 1] for i in range(79)] + [5] + [NOTHING] * 16
    expected[33] = NOTHING
    assert run(body, words, order=order, seed=seed)[0] == expected


@orders
def test_a_body_may_end_without_a_return(order: OrderName, seed: int) -> None:
    text = """
    setp.lt.u32 p1, a, 10;
    mov.u32 d, 3;
    st.global.u32 [o], d;
    @p1 bra end;
    mov.u32 d, 4;
    st.global.u32 [o], d;
end:
"""
    whole = kernel("").replace("    st.global.u32 [o], d;\n    ret;\n", text)
    assert "ret" not in whole
    words, results = np.array([5, 15, 9, 10], np.uint32), np.zeros(4, np.uint32)
    emulate(whole, "k", 1, 4, [words, results], order=order, seed=seed)
    assert results.tolist() == [3, 4, 3, 4]


def test_instructions_are_counted_for_each_warp_that_executes_them() -> None:
    body = """
    setp.lt.u32 p1, t, 32;
    @!p1 bra done;
    mul.lo.u32 r1, a, a;
    @!p1 mul.lo.u32 r1, a, a;
done:
    mov.u32 d, 0;
"""
    _, done = run(body, [0] * 96)
    assert done.opcodes["mul.lo.u32"] == 1
    assert done.opcodes["bra"] == 2
    assert done.opcodes["setp.lt.u32"] == 3
    assert done.opcodes["mov.u32"] == 6


def test_a_guarded_trap_names_the_thread() -> None:
    body = "    setp.eq.u32 p1, a, 9;\n    @p1 trap;\n    mov.u32 d, 1;\n"
    assert run(body, [1, 2])[0] == [1, 1]
    with pytest.raises(EmulatorFault) as caught:
        run(body, [1, 2, 3, 9])
    assert caught.value.kind is FaultKind.TRAP
    assert str(caught.value) == (
        "k.ptx:18:9: error: trap: the program executed a trap (kernel k, CTA (0, 0, 0), thread (3, 0, 0))\n"
        "    @p1 trap;\n"
        "        ^"
    )


def test_hints_and_delays_change_nothing() -> None:
    body = "    nanosleep.u32 a;\n    nanosleep.u32 20;\n    pmevent 3;\n    pmevent.mask 0xff;\n    mov.u32 d, a;\n"
    assert run(body, [1, 2])[0] == [1, 2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("trap 3;", "1 operands, not 0: trap"),
        ("exit.uni;", "the emulator does not know .uni here: exit.uni"),
        ("bra.idx done;", "the emulator does not know .idx here: bra.idx"),
        ("ret.idx;", "the emulator does not know .idx here: ret.idx"),
        ("nanosleep.u64 5;", "a delay without .u32: nanosleep.u64"),
        ("bra.far done;", "the emulator does not know .far here: bra.far"),
        ("pmevent;", "0 operands, not 1: pmevent"),
    ],
)
def test_what_is_no_form_is_refused(text: str, message: str) -> None:
    with pytest.raises(UnsupportedInstruction) as caught:
        run(f"{text}\ndone:\n    mov.u32 d, 1;\n", [1])
    assert str(caught.value) == (
        f"k.ptx:17:1: error: {message}\n{text}\n^\nhint: docs/emulator.md lists the forms that it executes"
    )
