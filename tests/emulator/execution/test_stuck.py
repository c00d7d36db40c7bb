"""What the report of a deadlock says, and how long it may become."""

from __future__ import annotations

import pytest
from grids import EXPECT_LINE, ORDERS, WAIT, WAIT_LINE, OrderName, copying, deadlock, run

from tilec.backend.emulator.faults import EmulatorFault, FaultKind

POLL = "    mbarrier.try_wait.parity.shared.b64 q, [b], 0;\n    ^"
HINT = (
    "hint: in each phase the sum of all expect_tx is what the copies bring: of a tensor copy the bytes of the whole box, also "
    "where it reaches over an edge of the tensor"
)
BARRIER = "mbarrier.try_wait.parity.shared.b64 for phase 0 (parity 0) of the mbarrier at 0x1400, which is in phase 0"
LOOK = "    ld.volatile.global.u32 c, [s];\n"
"""In the loop that polls: other CTAs could help then, so that all are started."""


def notes(text: str, grid: int, order: OrderName) -> list[str]:
    return [note.message for note in deadlock(text, grid, order).diagnostic.notes]


def full_text(state: str) -> str:
    return (
        f"k.ptx:{WAIT_LINE}:5: error: deadlock: no thread can go on, and nothing asynchronous is under way (kernel k, CTA (0, 0, 0))\n"
        f"{POLL}\n{HINT}\n"
        f"k.ptx:{WAIT_LINE}:5: note: CTA (0, 0, 0), warps 0 to 3: wait at {BARRIER}{state} (the last expect_tx is that of line "
        f"{EXPECT_LINE})\n{POLL}"
    )


@pytest.mark.parametrize("order", ORDERS)
def test_full_text_of_too_many_announced_bytes(order: OrderName) -> None:
    assert str(deadlock(copying(6144), 1, order)) == full_text(" and lacks 2048 of 6144 announced bytes")


def test_full_text_of_too_few_announced_bytes() -> None:
    """Where bytes come in pieces, the phase may complete with one of them."""
    assert str(deadlock(copying(2048), 1, "fifo")) == full_text(
        "; 2048 bytes more than the 2048 announced have arrived"
    )


@pytest.mark.parametrize("order", ORDERS)
def test_bytes_that_were_not_announced(order: OrderName) -> None:
    text = copying(4096).replace("mbarrier.arrive.expect_tx.shared.b64 _, [b], 4096", "mov.u32 c, 1")
    (note,) = notes(text, 1, order)
    assert note == (
        f"CTA (0, 0, 0), warps 0 to 3: wait at {BARRIER} and lacks 1 arrival; 4096 bytes more than announced have arrived "
        "(there was no expect_tx)"
    )


@pytest.mark.parametrize("order", ORDERS)
def test_ctas_that_wait_for_the_same_share_a_note(order: OrderName) -> None:
    (note,) = notes(copying(6144, LOOK + WAIT), 9, order)
    assert note == (
        f"CTAs (0, 0, 0) to (8, 0, 0), warps 0 to 3: wait at {BARRIER} and lacks 2048 of 6144 announced bytes (the last expect_tx "
        f"is that of line {EXPECT_LINE})"
    )


@pytest.mark.parametrize("order", ORDERS)
def test_other_ctas_that_have_ended(order: OrderName) -> None:
    """CTAs 1 and 5 of seven do not wait for a second phase."""
    leave = "\n    mov.u32 c, %ctaid.x;\n    and.b32 c, c, 3;\n    setp.eq.u32 q, c, 1;\n    @q bra END;\nX:\n"
    second = WAIT.replace("[b], 0", "[b], 1").replace("W;", "X;") + "\nEND:\n"
    (note,) = notes(copying(4096, WAIT + leave + LOOK + second), 7, order)
    assert note == (
        "CTA (0, 0, 0) and 4 others, warps 0 to 3: wait at mbarrier.try_wait.parity.shared.b64 for phase 1 (parity 1) of the "
        "mbarrier at 0x1400, which is in phase 1 and lacks 1 arrival"
    )


def test_one_warp_and_one_lane() -> None:
    """Lane 3 of warp 0 waits at one place, the rest of its warp for it, warp 1 at a place of its own, and two warps at another."""
    body = """    setp.eq.u32 q, t, 3;
    @q bra ONE;
    shr.u32 c, t, 5;
    setp.eq.u32 q, c, 1;
    @q bra TWO;
    bar.sync 1, 128;
    bra END;
ONE:
    mbarrier.try_wait.parity.shared.b64 q, [b], 0;
    @!q bra ONE;
    bra END;
TWO:
    bar.sync 2, 64;
END:
"""
    assert sorted(notes(copying(6144, body), 1, "adversarial")) == [
        f"CTA (0, 0, 0), lane 3 of warp 0: waits at {BARRIER} and lacks 2048 of 6144 announced bytes (the last expect_tx is that of "
        f"line {EXPECT_LINE})",
        "CTA (0, 0, 0), lanes 0 to 2 and 4 to 31 of warp 0: wait at bar.sync for the rest of their warp",
        "CTA (0, 0, 0), warp 1: waits at bar.sync for barrier 2: 32 of 64 threads have arrived (warp 1)",
        "CTA (0, 0, 0), warps 2 and 3: wait at bar.sync for barrier 1: 64 of 128 threads have arrived (warps 2, 3)",
    ]


def test_a_report_is_bounded() -> None:
    """Each of 20 threads waits in a loop of its own, and the others in another."""
    branches = "".join(f"    setp.eq.u32 q, t, {n};\n    @q bra W{n};\n" for n in range(20))
    loop = "W{0}:\n    mbarrier.try_wait.parity.shared.b64 q, [b], 0;\n    @!q bra W{0};\n"
    found = notes(copying(6144, branches + "".join(loop.format(n) for n in (20, *range(20)))), 1, "fifo")
    assert len(found) == 9
    assert found[-1] == "13 more notes like these are left out; 1 CTA waits in all"


def test_source_lines_are_named_once() -> None:
    """Two notes at one line of PTX, which comes from line 7 of a source file."""
    body = """    shr.u32 c, t, 5;
    mad.lo.u32 c, c, 0, 1;
    setp.lt.u32 q, t, 64;
    @q add.u32 c, c, 1;
    .loc 1 7 3
    bar.sync c, 96;
"""
    text = copying(6144, body) + '.file 1 "k.cu"\n'
    found = deadlock(text, 1, "fifo").diagnostic.notes
    assert [(n.message, n.location and n.location.line) for n in found] == [
        ("compiled from here", 7),
        (
            "CTA (0, 0, 0), warps 2 and 3: wait at bar.sync for barrier 1: 64 of 96 threads have arrived (warps 2, 3)",
            25,
        ),
        (
            "CTA (0, 0, 0), warps 0 and 1: wait at bar.sync for barrier 2: 64 of 96 threads have arrived (warps 0, 1)",
            25,
        ),
    ]


EARLY = "wait for its completion first, on its mbarrier or its group"


def in_flight(text: str) -> str | None:
    """The hint of a read that comes too early: engines are as late as they may be."""
    with pytest.raises(EmulatorFault) as caught:
        run(text, 1, "adversarial")
    assert caught.value.kind is FaultKind.IN_FLIGHT
    return caught.value.diagnostic.hint


def test_a_wait_for_the_wrong_parity() -> None:
    assert in_flight(copying(4096, WAIT.replace("[b], 0", "[b], 1"))) == (
        f"{EARLY}; the wait of line {WAIT_LINE} for parity 1 of the mbarrier at 0x1400 was satisfied by an earlier phase, and this is "
        "phase 0 (parity 0)"
    )


def test_a_parity_that_is_not_turned() -> None:
    """The second copy is waited for with the parity of the first."""
    again = """
    bar.sync 0;
    @p mbarrier.arrive.expect_tx.shared.b64 _, [b], 4096;
    @p cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [a], [s], 4096, [b];
X:
"""
    text = copying(4096, WAIT + again + WAIT.replace("W;", "X;"))
    assert in_flight(text) == (
        f"{EARLY}; the wait of line {WAIT_LINE + 6} for parity 0 of the mbarrier at 0x1400 was satisfied by an earlier phase, and this "
        "is phase 1 (parity 1)"
    )


def test_no_wait_at_all() -> None:
    assert in_flight(copying(4096, "")) == EARLY
