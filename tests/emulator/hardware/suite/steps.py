"""Pieces of kernels that several families share: filling and dumping shared memory, barriers, bounded waits.

No kernel of the suite may hang: a wait gives up after `TRIES` attempts with pauses between them and says so in register r301 (0: it succeeded).
"""

from __future__ import annotations

from suite.kernels import Body

TRIES = 200


def fill(body: Body, tile: str, size: int, block: int, word: str = "0xA5A5A5A5") -> None:
    """All threads write `word` over `size` bytes (a multiple of 4 bytes a thread), seen by both proxies after a barrier."""
    body(f"mov.u32 r310, {tile};", "mad.lo.u32 r310, tid, 4, r310;", f"mov.b32 r311, {word};")
    for at in range(0, size, 4 * block):
        body(f"st.shared.b32 [r310+{at}], r311;")
    body("fence.proxy.async.shared::cta;", "bar.sync 0;")


def fill_from(body: Body, tile: str, size: int, block: int, source: str = "data") -> None:
    """The same from global memory."""
    body(f"mov.u32 r310, {tile};", "mad.lo.u32 r310, tid, 4, r310;", f"mad.wide.u32 q150, tid, 4, {source};")
    for at in range(0, size, 4 * block):
        body(f"ld.global.b32 r311, [q150+{at}];", f"st.shared.b32 [r310+{at}], r311;")
    body("fence.proxy.async.shared::cta;", "bar.sync 0;")


def dump(body: Body, tile: str, size: int, block: int) -> None:
    """`size` bytes of shared memory as columns of results, then a barrier."""
    body(f"mov.u32 r310, {tile};", "mad.lo.u32 r310, tid, 4, r310;")
    for at in range(0, size, 4 * block):
        body(f"ld.shared.b32 r311, [r310+{at}];")
        body.out("r311")
    body("bar.sync 0;")


def barrier(body: Body, name: str, arrivals: int = 1) -> None:
    """One thread initialises the mbarrier, the others wait for it."""
    body("setp.eq.u32 p29, tid, 0;", f"@p29 mbarrier.init.shared::cta.b64 [{name}], {arrivals};")
    body("@p29 fence.mbarrier_init.release.cluster;", "bar.sync 0;")


def wait(body: Body, name: str, parity: str | int, scope: str = "") -> None:
    """Wait for the phase of a parity, at most `TRIES` attempts; r301 is 1 where they did not suffice."""
    here = body.label("wait")
    body("mov.u32 r300, 0;", "mov.u32 r301, 0;", f"{here}:")
    body(f"mbarrier.try_wait.parity{scope}.shared::cta.b64 p30, [{name}], {parity};", f"@p30 bra {here}_done;")
    body(
        "nanosleep.u32 2000;",
        "add.u32 r300, r300, 1;",
        f"setp.lt.u32 p31, r300, {TRIES};",
        f"@p31 bra {here};",
        "mov.u32 r301, 1;",
        f"{here}_done:",
    )


def pause(body: Body, rounds: int = 100) -> None:
    """About `rounds` times 10 microseconds, in which every copy of a few kilobytes ends."""
    here = body.label("pause")
    body("mov.u32 r300, 0;", f"{here}:", "nanosleep.u32 10000;", "add.u32 r300, r300, 1;")
    body(f"setp.lt.u32 p31, r300, {rounds};", f"@p31 bra {here};")
