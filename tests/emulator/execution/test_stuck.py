"""What the report of a deadlock says, and how long it may become."""

from __future__ import annotations

import pytest
from execution.grids import EXPECT_LINE, ORDERS, WAIT, WAIT_LINE, OrderName, copying, deadlock

POLL = "    mbarrier.try_wait.parity.shared.b64 q, [b], 0;\n    ^"
HINT = (
    "hint: in each phase the sum of all expect_tx is what the copies bring: of a tensor copy the bytes of the whole box, also "
    "where it reaches over an edge of the tensor"
)
BARRIER = (
    "mbarrier.try_wait.parity.shared.b64 for phase 0 (parity 0) of the mbarrier at 0x1400, which is in phase 0"
)
LOOK = "    ld.volatile.global.u32 c, [s];\n"
"""In the loop that polls: other CTAs could help then, so that all are started."""


def notes(text: str, grid: int, order: OrderName) -> list[str]:
    return [note.message for note in deadlock(text, grid, order).diagnostic.notes]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("expected", "state"),
    [
        (6144, f" and lacks 2048 of 6144 announced bytes (the last expect_tx is that of line {EXPECT_LINE})"),
        (2048, f"; 2048 bytes more than the 2048 announced have arrived (the last expect_tx is that of line {EXPECT_LINE})"),
    ],
)
def test_full_text_of_wrong_bytes(order: OrderName, expected: int, state: str) -> None:
    assert str(deadlock(copying(expected), 1, order)) == (
        f"k.ptx:{WAIT_LINE}:5: error: deadlock: no thread can go on, and nothing asynchronous is under way (kernel k, CTA (0, 0, 0))\n"
        f"{POLL}\n{HINT}\n"
        f"k.ptx:{WAIT_LINE}:5: note: CTA (0, 0, 0), warps 0 to 3: wait at {BARRIER}{state}\n"
        f"{POLL}"
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
    """Two of six CTAs need not wait."""
    leave = "    mov.u32 c, %ctaid.x;\n    and.b32 c, c, 3;\n    setp.eq.u32 q, c, 1;\n    @q bra X;\n" + LOOK + WAIT + "\nX:\n"
    drain = "    mbarrier.try_wait.parity.shared.b64 q, [b], 0;\n"
    text = copying(4096, leave + drain).replace("4096, [b]", "2048, [b]").replace("    ld.shared.u32 c, [a];\n", "")
    text = text.replace("@p cp.async", "@q cp.async").replace("_, [b], 4096", "_, [b], 2048")
    text = text.replace("    @q cp.async", "    mov.u32 c, 7;\n    setp.ne.u32 q, c, 7;\n    @q cp.async")
    (note,) = notes(text, 6, order)
    assert note.startswith("CTA (0, 0, 0) and 3 others, warps 0 to 3: wait at mbarrier.try_wait.parity.shared.b64 for phase 0")


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
        ("CTA (0, 0, 0), warps 0 and 1: wait at bar.sync for barrier 2: 64 of 96 threads have arrived (warps 0, 1)", 25),
        ("CTA (0, 0, 0), warps 2 and 3: wait at bar.sync for barrier 1: 64 of 96 threads have arrived (warps 2, 3)", 25),
    ]
