"""Sequences of mbarrier operations against a model of the object, written from the rules of PTX 9.7.13.15."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tilec.backend.emulator.faults import EmulatorFault, FaultKind
from tilec.backend.emulator.launch import emulate

MOST = 2**20 - 1


class Undefined(Exception):
    """The operation has no defined effect."""


@dataclass
class Model:
    """The contents of an object, and what its operations do."""

    live: bool = False
    phase: int = 0
    expected: int = 0
    pending: int = 0
    tx: int = 0
    states: list[tuple[int, int]] = field(default_factory=list)

    def require(self, condition: bool) -> None:
        if not condition:
            raise Undefined

    def init(self, count: int) -> None:
        self.require(not self.live and 1 <= count <= MOST)
        self.live, self.phase, self.expected, self.pending, self.tx = True, 0, count, count, 0

    def inval(self) -> None:
        self.require(self.live)
        self.live = False

    def settle(self) -> None:
        if self.pending == 0 and self.tx == 0:
            self.phase, self.pending = self.phase + 1, self.expected

    def arrive(self, count: int) -> None:
        self.require(self.live and 1 <= count <= self.pending)
        self.states.append((self.phase, self.pending))
        self.pending -= count
        self.settle()

    def arrive_no_complete(self, count: int) -> None:
        self.require(self.live and not (count == self.pending and self.tx == 0))
        self.arrive(count)

    def arrive_drop(self, count: int) -> None:
        self.require(self.live and 1 <= count <= self.expected)
        self.expected -= count
        self.arrive(count)

    def expect_tx(self, count: int) -> None:
        self.require(self.live and self.tx + count <= MOST)
        self.tx += count

    def arrive_expect_tx(self, count: int) -> None:
        self.expect_tx(count)
        self.arrive(1)

    def arrive_drop_expect_tx(self, count: int) -> None:
        self.expect_tx(count)
        self.arrive_drop(1)

    def complete_tx(self, count: int) -> None:
        self.require(self.live and self.tx - count >= -MOST)
        self.tx -= count
        self.settle()

    def wait_parity(self, parity: int) -> int:
        self.require(self.live)
        return int(self.phase % 2 != parity)

    def wait_state(self, number: int) -> int:
        self.require(self.live)
        phase, _ = self.states[number % len(self.states)]
        self.require(phase in (self.phase, self.phase - 1))
        return int(phase != self.phase)

    def pending_count(self, number: int) -> int:
        return self.states[number % len(self.states)][1]


SYNTAX = {
    "init": "mbarrier.init.shared::cta.b64 [%r1], {n};",
    "inval": "mbarrier.inval.shared.b64 [%r1];",
    "arrive": "mbarrier.arrive.shared.b64 {state}, [%r1], {n};",
    "arrive_no_complete": "mbarrier.arrive.noComplete.release.cta.shared.b64 {state}, [%r1], {n};",
    "arrive_drop": "mbarrier.arrive_drop.relaxed.cluster.shared::cta.b64 {state}, [%r1], {n};",
    "arrive_expect_tx": "mbarrier.arrive.expect_tx.release.cta.b64 {state}, [%x1], {n};",
    "arrive_drop_expect_tx": "mbarrier.arrive_drop.expect_tx.shared::cta.relaxed.cluster.b64 {state}, [%r1], {n};",
    "expect_tx": "mbarrier.expect_tx.relaxed.cta.shared.b64 [%r1], {n};",
    "complete_tx": "mbarrier.complete_tx.b64 [%x1], {n};",
    "wait_parity": "mbarrier.test_wait.parity.shared.b64 %p1, [%r1], {n};",
    "wait_state": "mbarrier.test_wait.acquire.cluster.shared.b64 %p1, [%r1], {known};",
    "pending_count": "mbarrier.pending_count.b64 %r2, {known};",
}
counts = st.integers(0, 4) | st.just(1) | st.just(MOST)
operations = st.one_of(
    st.tuples(st.just("init"), st.integers(1, 4)),
    st.tuples(st.just("inval"), st.just(0)),
    *(st.tuples(st.just(name), counts) for name in ("arrive", "arrive", "arrive_no_complete", "arrive_drop")),
    *(
        st.tuples(st.just(name), st.sampled_from((0, 16, 16, 32, 2**19, MOST)))
        for name in ("expect_tx", "complete_tx", "complete_tx", "arrive_expect_tx", "arrive_drop_expect_tx")
    ),
    st.tuples(st.just("wait_parity"), st.integers(0, 1)),
    *(st.tuples(st.just(name), st.integers(0, 7)) for name in ("wait_state", "pending_count")),
)


def program(steps: list[tuple[str, int]]) -> tuple[str, list[int]]:
    """The steps as PTX for one thread, and the line of each; each result goes to the next word of `out`."""
    lines = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out) {
.reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %x<4>, %s<99>;
.shared .align 8 .b64 object[2];
ld.param.u64 %x2, [out];
mov.u32 %r1, object;
add.u32 %r1, %r1, 8;
cvt.u64.u32 %x1, %r1;
cvta.shared.u64 %x1, %x1;""".splitlines()
    places: list[int] = []
    states = results = 0
    for name, number in steps:
        known = f"%s{number % states}" if states else "0"
        lines.append(SYNTAX[name].format(n=number, state=f"%s{states}", known=known))
        places.append(len(lines))
        states += name.startswith("arrive")
        if name.startswith("wait"):
            lines.append("selp.u32 %r2, 1, 0, %p1;")
        if name.startswith(("wait", "pending")):
            lines.append(f"st.global.u32 [%x2+{4 * results}], %r2;")
            results += 1
    return "\n".join([*lines, "ret;", "}"]) + "\n", places


FIRST = [
    ("init", 3),
    ("arrive", 1),
    ("arrive", 1),
    ("wait_parity", 1),
    ("arrive", 1),
    ("wait_state", 0),
    ("pending_count", 1),
]


@settings(max_examples=300, deadline=None)
@given(steps=st.lists(operations, max_size=20).map(lambda tail: [("init", 2), ("arrive", 1), *tail]))
@example(steps=FIRST)
@example(
    steps=[
        ("init", 1),
        ("expect_tx", 32),
        ("arrive", 1),
        ("complete_tx", 16),
        ("wait_parity", 0),
        ("complete_tx", 16),
        ("wait_parity", 0),
    ]
)
@example(steps=[("init", 1), ("complete_tx", 32), ("arrive_expect_tx", 32), ("wait_parity", 0), ("wait_parity", 1)])
@example(steps=[("init", 1), ("arrive_expect_tx", 16), ("complete_tx", 32), ("complete_tx", 16), ("wait_parity", 0)])
@example(steps=[("init", 2), ("arrive_drop", 1), ("arrive", 1), ("arrive", 1), ("wait_state", 2), ("wait_state", 0)])
@example(steps=[("init", 1), ("arrive", 1), ("arrive", 1), ("wait_state", 0)])
@example(steps=[("init", 2), ("init", 2)])
@example(steps=[("init", 2), ("inval", 0), ("arrive", 1)])
@example(steps=[("init", 1), ("expect_tx", MOST), ("expect_tx", 16)])
def test_sequences_of_operations(steps: list[tuple[str, int]]) -> None:
    model, results, undefined = Model(), [], None
    for at, (name, number) in enumerate(steps):
        operation = getattr(model, name)
        try:
            result = operation() if name == "inval" else operation(number)
        except Undefined:
            undefined = at
            break
        if result is not None:
            results.append(result)
    text, lines = program(steps)
    out = np.full(len(steps), 99, np.uint32)
    try:
        emulate(text, "k", 1, 1, [out])
    except EmulatorFault as fault:
        assert undefined is not None, fault
        assert fault.kind is FaultKind.MBARRIER
        assert fault.place.instruction.line == lines[undefined]
    else:
        assert undefined is None, f"step {undefined} has no defined effect"
    assert out[: len(results)].tolist() == results
    assert (out[len(results) :] == 99).all()


def message(steps: list[str], *, block: int = 1) -> str:
    """What the fault of a program says without its place."""
    text, _ = program([])
    body = "\n".join(f"    {step}" for step in steps)
    text = text.replace("ret;", body + "\nret;")
    try:
        emulate(text, "k", 1, block, [np.zeros(64, np.uint32)])
    except EmulatorFault as fault:
        return f"{str(fault).split('error: ')[1].split(' (kernel')[0]}"
    raise AssertionError("no fault")


INIT = "mbarrier.init.shared.b64 [%r1], 1;"
ARRIVE = "mbarrier.arrive.shared.b64 _, [%r1];"


def test_messages_of_faults() -> None:
    assert message([ARRIVE]) == "mbarrier: no mbarrier has been initialised at 0x408"
    assert message([INIT, INIT]) == "mbarrier: the mbarrier at 0x408 is initialised again, although it is live"
    assert message([INIT], block=2) == "mbarrier: the mbarrier at 0x408 is initialised by 2 threads at once"
    assert message([INIT, "mbarrier.inval.shared.b64 [%r1];", ARRIVE]) == (
        "mbarrier: the mbarrier at 0x408 is used, but mbarrier.inval of line 13 has ended its life"
    )
    assert message(["mbarrier.init.shared.b64 [%r1], 0;"]) == (
        "mbarrier: the mbarrier at 0x408 is initialised with a count of 0; a count is 1 to 1048575"
    )
    assert message([INIT, "mbarrier.expect_tx.shared.b64 [%r1], 16;", ARRIVE, ARRIVE]) == (
        "mbarrier: 1 arrival at the mbarrier at 0x408, whose phase 0 expects only 0 more, and waits for 16 bytes"
    )
    assert message([INIT, "mbarrier.arrive.shared.b64 _, [%r1], 2;"]) == (
        "mbarrier: 2 arrivals at the mbarrier at 0x408, whose phase 0 expects only 1 more"
    )
    assert message([INIT, "mbarrier.expect_tx.shared.b64 [%r1], 1048576;"]) == (
        "mbarrier: the tx-count of the mbarrier at 0x408 would become 1048576; it is from -1048575 to 1048575"
    )
    assert message([INIT, "mbarrier.arrive.noComplete.shared.b64 %s0, [%r1], 1;"]) == (
        "mbarrier: an arrival with .noComplete completes phase 0 of the mbarrier at 0x408"
    )
    assert message([INIT, "mbarrier.arrive_drop.shared.b64 _, [%r1], 2;"]) == (
        "mbarrier: 2 arrivals are dropped from the mbarrier at 0x408, which expects 1"
    )
    assert message([INIT, "mov.u64 %s1, 5;", "mbarrier.test_wait.shared.b64 %p1, [%r1], %s1;"]) == (
        "mbarrier: a wait for phase 10 of the mbarrier at 0x408, which is in phase 0; only the current and the preceding phase "
        "can be waited for"
    )


def test_places_that_hold_no_object() -> None:
    assert message(["add.u32 %r1, %r1, 4;", INIT]).startswith("misaligned: 8 bytes at address 0x40c")
    assert (
        message([INIT, "add.u32 %r1, %r1, 4;", ARRIVE])
        == "misaligned: an mbarrier at 0x40c, which is not a multiple of 8"
    )
    assert (
        message(["add.u32 %r1, %r1, 8;", ARRIVE])
        == "out of bounds: an mbarrier at 0x410; shared memory is 0x400 to 0x410"
    )
    assert message(["add.u32 %r1, %r1, 8;", INIT]).startswith("out of bounds: 8 bytes at address 0x410")
    assert (
        message([INIT, "mbarrier.arrive.b64 _, [%x2];"])
        == "out of bounds: a generic address that does not lie in shared memory"
    )


def test_a_store_over_a_live_object_shows_at_its_next_use() -> None:
    store = "st.shared.u32 [%r1+4], 0;"
    assert (
        message([INIT, store, ARRIVE])
        == "mbarrier: the mbarrier at 0x408 is used, but its 8 bytes have been overwritten"
    )
    assert message([INIT, store, "mbarrier.test_wait.parity.shared.b64 %p1, [%r1], 0;"]).endswith(
        "have been overwritten"
    )


def test_the_object_may_be_copied_and_its_memory_used_again() -> None:
    steps = """
    mbarrier.init.shared.b64 [%r1], 1;
    ld.shared.b64 %s1, [%r1];
    mbarrier.inval.shared.b64 [%r1];
    st.shared.u32 [%r1], 77;
    ld.shared.u32 %r2, [%r1];
    st.global.u32 [%x2], %r2;
    mbarrier.init.shared.b64 [%r1], 1;
    mbarrier.arrive.shared.b64 _, [%r1];
    mbarrier.test_wait.parity.shared.b64 %p1, [%r1], 0;
    selp.u32 %r2, 1, 0, %p1;
    st.global.u32 [%x2+4], %r2;
"""
    out = np.zeros(2, np.uint32)
    emulate(program([])[0].replace("ret;", steps + "ret;"), "k", 1, 1, [out])
    assert out.tolist() == [77, 1]


def test_a_wait_by_parity_two_phases_late_gets_the_wrong_answer() -> None:
    """As on hardware, which compares parities only."""
    steps = [("init", 1), ("arrive", 1), ("wait_parity", 0), ("arrive", 1), ("wait_parity", 0), ("wait_parity", 1)]
    out = np.zeros(3, np.uint32)
    emulate(program(steps)[0], "k", 1, 1, [out])
    assert out.tolist() == [1, 0, 1]
