"""bar, barrier and mbarrier: counts, reductions, phases, the forms of arrive and wait."""

from __future__ import annotations

from suite.cases import Case
from suite.kernels import Body, case, words
from suite.steps import barrier, wait


def cases() -> list[Case]:
    return [_bars(), _reduce(), _phases(), _forms(), _drop(), _transactions(), _named_roles()]


def _bars() -> Case:
    body = Body(128)
    body(
        ".shared .align 4 .b32 box[128];",
        "mov.u32 r0, box;",
        "mad.lo.u32 r1, tid, 4, r0;",
        "xor.b32 r2, tid, 127;",
        "mad.lo.u32 r2, r2, 4, r0;",
    )
    synchronise = [
        "bar.sync 0;",
        "barrier.sync 1;",
        "barrier.sync.aligned 2, 128;",
        "bar.cta.sync 3, 128;",
        "mov.u32 r9, 4; bar.sync r9;",
        "barrier.cta.sync r9, 128;",
    ]
    for i, text in enumerate(synchronise):
        body(f"mad.lo.u32 r3, tid, {i + 3}, 1;", "st.shared.u32 [r1], r3;", text, "ld.shared.u32 r4, [r2];", text)
        body.out("r4")
    # Two warps hand over to the other two.
    body(
        "setp.lt.u32 p0, tid, 64;", "@p0 bra producer;", "bar.sync 5, 128;", "ld.shared.u32 r4, [r2];", "bra together;"
    )
    body(
        "producer:",
        "mul.lo.u32 r3, tid, 77;",
        "st.shared.u32 [r1], r3;",
        "bar.arrive 5, 128;",
        "mov.u32 r4, 1;",
        "together:",
        "bar.sync 0;",
    )
    body.out("r4")
    return case("bar_forms", "barriers", body, block=128)


def _reduce() -> Case:
    body = Body(128)
    body("mad.wide.u32 q0, index, 4, data;", "ld.global.u32 r0, [q0];")
    for bound in ("0x80000000", "0", "0xffffffff", "0x10000000"):
        body(f"setp.lt.u32 p0, r0, {bound};", "setp.lt.u32 p3, tid, 64;")
        body("bar.red.popc.u32 r1, 0, p0;", "bar.red.and.pred p1, 1, p0;", "barrier.red.or.pred p2, 2, 128, !p0;")
        body(
            "barrier.cta.red.popc.aligned.u32 r2, 3, 128, !p0;", "mov.u32 r3, 0;", "@p3 bar.red.popc.u32 r3, 4, 64, p0;"
        )
        body.out("r1", "r2", "r3")
        body.outp("p1", "p2")
    return case("bar_reductions", "barriers", body, [("ptr data", words(128))], block=128)


def _phases() -> Case:
    """Four phases of a barrier on which all threads arrive; every thread sees the parities change."""
    body = Body(128)
    body(
        ".shared .align 8 .b64 bar;",
        ".shared .align 4 .b32 box[128];",
        "mov.u32 r0, box;",
        "mad.lo.u32 r1, tid, 4, r0;",
    )
    body("xor.b32 r2, tid, 85;", "mad.lo.u32 r2, r2, 4, r0;")
    barrier(body, "bar", 128)
    for phase in range(4):
        body(
            f"mad.lo.u32 r3, tid, 9, {phase};", "st.shared.u32 [r1], r3;", "mbarrier.arrive.shared::cta.b64 q1, [bar];"
        )
        wait(body, "bar", phase & 1)
        body("ld.shared.u32 r4, [r2];")
        body(
            f"mbarrier.test_wait.parity.shared::cta.b64 p0, [bar], {phase & 1};",
            f"mbarrier.test_wait.parity.shared::cta.b64 p1, [bar], {1 - (phase & 1)};",
        )
        body(
            "mbarrier.test_wait.shared::cta.b64 p2, [bar], q1;",
            "mbarrier.try_wait.shared::cta.b64 p3, [bar], q1, 100;",
            "bar.sync 0;",
        )
        body.out("r4", "r301")
        body.outp("p0", "p1", "p2", "p3")
    return case("mbarrier_phases", "barriers", body, block=128)


def _forms() -> Case:
    """One thread plays all arrivals of a barrier that expects six."""
    body = Body(32)
    body(".shared .align 8 .b64 bar;", "setp.ne.u32 p20, tid, 0;", "mov.u64 q9, bar;", "cvta.shared.u64 q9, q9;")
    barrier(body, "bar", 6)
    columns = ["mbarrier.arrive.b64 q1, [q9];", "mbarrier.arrive.release.cta.shared::cta.b64 q2, [bar], 2;", "mbarrier.arrive.noComplete.b64 q3, [q9], 1;",
               "mbarrier.arrive.shared.b64 _, [bar];", "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [bar];"]  # fmt: skip
    for i in range(1, 10):
        body(f"mov.u32 r{i}, 0;")
    body(
        "@p20 bra out_of_it;",
        "mbarrier.test_wait.parity.shared::cta.b64 p1, [bar], 1;",
        "mbarrier.test_wait.parity.shared::cta.b64 p2, [bar], 0;",
    )
    body("selp.u32 r1, 1, 0, p1;", "selp.u32 r2, 1, 0, p2;", *columns)
    for i, state in enumerate(("q1", "q2", "q3")):
        body(f"mbarrier.pending_count.b64 r{3 + i}, {state};")
    body(
        "mbarrier.test_wait.shared::cta.b64 p3, [bar], q1;",
        "mbarrier.test_wait.acquire.cta.shared::cta.b64 p4, [bar], q3;",
        "selp.u32 r6, 1, 0, p3;",
        "selp.u32 r7, 1, 0, p4;",
    )
    body(
        "mbarrier.arrive.shared::cta.b64 q4, [bar];",
        "mbarrier.pending_count.b64 r8, q4;",
        "mbarrier.test_wait.shared::cta.b64 p5, [bar], q1;",
        "selp.u32 r9, 1, 0, p5;",
    )
    body("out_of_it:", "bar.warp.sync 0xffffffff;")
    body.out(*(f"r{i}" for i in range(1, 10)))
    body("@!p20 mbarrier.inval.shared::cta.b64 [bar];")
    return case("mbarrier_forms", "barriers", body, block=32)


def _drop() -> Case:
    body = Body(32)
    body(".shared .align 8 .b64 bar;", "setp.ne.u32 p20, tid, 0;")
    barrier(body, "bar", 4)
    for i in range(1, 10):
        body(f"mov.u32 r{i}, 0;")
    body(
        "@p20 bra out_of_it;",
        "mbarrier.arrive_drop.shared::cta.b64 q1, [bar];",
        "mbarrier.arrive_drop.release.cta.shared::cta.b64 q2, [bar], 1;",
    )
    body(
        "mbarrier.pending_count.b64 r1, q2;",
        "mbarrier.arrive.shared::cta.b64 q3, [bar], 2;",
        "mbarrier.test_wait.parity.shared::cta.b64 p1, [bar], 0;",
    )
    body(
        "mbarrier.arrive.shared::cta.b64 q4, [bar];",
        "mbarrier.pending_count.b64 r2, q4;",
        "mbarrier.arrive.shared::cta.b64 q5, [bar];",
        "mbarrier.pending_count.b64 r3, q5;",
    )
    body("mbarrier.test_wait.shared::cta.b64 p2, [bar], q5;", "selp.u32 r4, 1, 0, p1;", "selp.u32 r5, 1, 0, p2;")
    body(
        "mbarrier.arrive.noComplete.shared::cta.b64 q6, [bar], 1;",
        "mbarrier.pending_count.b64 r6, q6;",
        "mbarrier.arrive_drop.shared::cta.b64 q7, [bar];",
        "mbarrier.test_wait.shared::cta.b64 p4, [bar], q7;",
        "selp.u32 r9, 1, 0, p4;",
    )
    body(
        "mbarrier.arrive.shared::cta.b64 q8, [bar];",
        "mbarrier.pending_count.b64 r7, q8;",
        "mbarrier.test_wait.shared::cta.b64 p3, [bar], q8;",
        "selp.u32 r8, 1, 0, p3;",
    )
    body("out_of_it:", "bar.warp.sync 0xffffffff;")
    body.out(*(f"r{i}" for i in range(1, 10)))
    return case("mbarrier_drop", "barriers", body, block=32)


def _transactions() -> Case:
    """Bytes announced and completed by hand, in both orders."""
    body = Body(32)
    body(".shared .align 8 .b64 bar;", "setp.ne.u32 p20, tid, 0;")
    barrier(body, "bar", 1)
    for i in range(1, 10):
        body(f"mov.u32 r{i}, 0;")
    body("@p20 bra out_of_it;")
    test = "mbarrier.test_wait.parity.shared::cta.b64 p1, [bar], {}; selp.u32 r{}, 1, 0, p1;"
    body(
        "mbarrier.arrive.expect_tx.shared::cta.b64 q1, [bar], 96;",
        test.format(0, 1),
        "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 32;",
        test.format(0, 2),
    )
    body("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 64;", test.format(0, 3))
    body(
        "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 48;",
        "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 48;",
        test.format(1, 4),
        "mbarrier.arrive.shared::cta.b64 q2, [bar];",
        test.format(1, 5),
    )
    body(
        "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 16;",
        test.format(0, 6),
        "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [bar], 16;",
        test.format(0, 7),
    )
    body("mbarrier.pending_count.b64 r8, q1;", "out_of_it:", "bar.warp.sync 0xffffffff;")
    body.out(*(f"r{i}" for i in range(1, 9)))
    return case("mbarrier_transactions", "barriers", body, block=32)


def _named_roles() -> Case:
    """A producer warp and three consumer warps over a ring of two slots, with full and empty barriers."""
    body = Body(128)
    body(
        ".shared .align 8 .b64 full[2];",
        ".shared .align 8 .b64 empty[2];",
        ".shared .align 4 .b32 ring[64];",
        "mov.u32 r0, ring;",
        "mov.u32 r20, full;",
        "mov.u32 r21, empty;",
        "mov.u32 r30, 0;",
        "mov.u32 r31, 0;",
    )
    for name in ("full", "empty"):
        for slot in (0, 8):
            barrier(body, f"{name}+{slot}", 32 if name == "full" else 96)
    body("setp.ge.u32 p0, tid, 32;", "mad.lo.u32 r1, lane, 4, r0;", "@p0 bra consumer;")
    for step in range(6):
        slot, parity = step % 2, step // 2 & 1
        wait(body, f"empty+{8 * slot}", 1 - parity)
        body(
            "or.b32 r31, r31, r301;",
            f"mad.lo.u32 r2, lane, {step + 5}, {step};",
            f"st.shared.u32 [r1+{128 * slot}], r2;",
            f"mbarrier.arrive.shared::cta.b64 _, [full+{8 * slot}];",
        )
    body("bra finished;", "consumer:")
    for step in range(6):
        slot, parity = step % 2, step // 2 & 1
        wait(body, f"full+{8 * slot}", parity)
        body(
            "or.b32 r31, r31, r301;",
            f"ld.shared.u32 r2, [r1+{128 * slot}];",
            "mad.lo.u32 r30, r30, 31, r2;",
            f"mbarrier.arrive.shared::cta.b64 _, [empty+{8 * slot}];",
        )
    body("finished:", "bar.sync 0;")
    body.out("r30", "r31")
    return case("mbarrier_ring", "barriers", body, block=128)
