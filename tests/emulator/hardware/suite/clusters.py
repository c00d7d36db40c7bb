"""Clusters: distributed shared memory, remote barriers, st.async, red.async."""

from __future__ import annotations

from suite.cases import Case
from suite.kernels import Body, case, words
from suite.steps import barrier, dump, fill, wait

_BLOCK = 64
MEET = ("barrier.cluster.arrive.release.aligned;", "barrier.cluster.wait.acquire.aligned;")


def cases() -> list[Case]:
    return [
        _remote(),
        _remote_atomics(),
        _remote_barrier(),
        _async_stores(),
        _async_reductions(),
        _barrier_forms(),
    ]


def _remote() -> Case:
    """Each CTA of four reads and writes the memory of the others."""
    body = Body(4 * _BLOCK)
    body(
        ".shared .align 16 .b32 box[256];",
        "mov.u32 r1, %cluster_ctarank;",
        "mov.u32 r2, box;",
        "mad.lo.u32 r3, tid, 4, r2;",
        "mad.lo.u32 r4, index, 3, 7;",
        "st.shared.u32 [r3], r4;",
    )
    body(*MEET)
    for step in (1, 2, 3):
        body(
            f"add.u32 r5, r1, {step};",
            "and.b32 r5, r5, 3;",
            "mapa.shared::cluster.u32 r6, r3, r5;",
            "ld.shared::cluster.u32 r7, [r6];",
            f"xor.b32 r8, r7, {step};",
            f"st.shared::cluster.u32 [r6+{256 * step}], r8;",
        )
        body.out("r7")
    body(
        "cvt.u64.u32 q1, r2;",
        "cvta.shared.u64 q1, q1;",
        "xor.b32 r5, r1, 1;",
        "mapa.u64 q2, q1, r5;",
        "ld.v2.u32 {r9, r10}, [q2+8];",
        "getctarank.u64 r11, q2;",
        "getctarank.shared::cluster.u32 r12, r6;",
    )
    body.out("r9", "r10", "r11", "r12")
    body(
        "isspacep.shared::cluster p0, q2;",
        "isspacep.shared::cta p1, q2;",
        "isspacep.shared p2, q2;",
        "isspacep.global p3, q2;",
    )
    body.outp("p0", "p1", "p2", "p3")
    body(
        "mapa.shared::cluster.u32 r13, box, 2;",
        "ld.shared::cluster.v4.u32 {r14, r15, r16, r17}, [r13];",
        "fence.acq_rel.cluster;",
        *MEET,
    )
    body.out("r14", "r15", "r16", "r17")
    for step in (1, 2, 3):
        body(f"ld.shared.u32 r7, [r3+{256 * step}];")
        body.out("r7")
    return case("cluster_memory", "clusters", body, block=_BLOCK, grid=4, cluster=4)


def _remote_atomics() -> Case:
    body = Body(2 * _BLOCK)
    body(
        ".shared .align 16 .b64 cells[8];",
        "setp.lt.u32 p0, tid, 16;",
        "mov.u32 r2, cells;",
        "mad.lo.u32 r3, tid, 4, r2;",
        "mad.wide.u32 q0, index, 4, data;",
        "ld.global.u32 r0, [q0];",
        "@p0 st.shared.u32 [r3], tid;",
    )
    body(*MEET, "mapa.shared::cluster.u32 r4, r2, 0;")
    for i, op in enumerate(["add.u32", "min.s32", "max.u32", "and.b32", "or.b32", "xor.b32"]):
        body(
            f"red.shared::cluster.{op} [r4+{4 * i}], r0;"
            if i % 2
            else f"atom.shared::cluster.{op} r5, [r4+{4 * i}], r0;"
        )
    body(
        "cvt.u64.u32 q1, r0;",
        "red.relaxed.cluster.shared::cluster.add.u64 [r4+32], q1;",
        "and.b32 r6, r0, 63;",
        "cvt.rn.f32.u32 r6, r6;",
        "red.shared::cluster.add.f32 [r4+40], r6;",
    )
    body(*MEET, "mov.u32 r7, 0;", "@p0 ld.shared.u32 r7, [r3];")
    body.out("r7")
    return case("cluster_atomics", "clusters", body, [("ptr data", words(128))], block=_BLOCK, grid=2, cluster=2)


def _remote_barrier() -> Case:
    """All threads of the cluster arrive on the barrier of rank 0; rank 0 hands on to the others."""
    body = Body(4 * _BLOCK)
    body(
        ".shared .align 8 .b64 bars[2];",
        ".shared .align 4 .b32 box[256];",
        "mov.u32 r1, %cluster_ctarank;",
        "mov.u32 r2, bars;",
        "mov.u32 r3, box;",
    )
    barrier(body, "bars", 4 * _BLOCK + 1)
    barrier(body, "bars+8", 1)
    body(
        *MEET,
        "mapa.shared::cluster.u32 r4, r2, 0;",
        "mapa.shared::cluster.u32 r5, r3, 0;",
        "mad.lo.u32 r5, index, 4, r5;",
        "mul.lo.u32 r6, index, 13;",
        "st.shared::cluster.u32 [r5], r6;",
    )
    body(
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [r4];",
        "setp.eq.u32 p0, r1, 0;",
        "setp.eq.u32 p1, index, 0;",
    )
    body(
        "@p1 mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [r4], 32;",
        "@p1 mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [r4], 32;",
        "mov.u32 r7, 0;",
        "mov.u32 r301, 0;",
        "@!p0 bra others;",
    )
    wait(body, "bars", 0, ".acquire.cluster")
    body(
        "xor.b32 r8, tid, 255;",
        "mad.lo.u32 r8, r8, 4, r3;",
        "ld.shared.u32 r7, [r8];",
        "setp.lt.u32 p2, tid, 4;",
        "@p2 mapa.shared::cluster.u32 r9, r2, tid;",
        "@p2 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [r9+8], 1;",
    )
    body("others:")
    body.out("r7", "r301")
    wait(body, "bars+8", 0, ".acquire.cluster")
    body.out("r301")
    body(*MEET)
    return case("cluster_barrier_remote", "clusters", body, block=_BLOCK, grid=4, cluster=4)


def _async_stores() -> Case:
    body = Body(2 * _BLOCK)
    body(
        ".shared .align 128 .b8 box[2048];",
        ".shared .align 8 .b64 bar;",
        "mad.wide.u32 q0, index, 16, data;",
        "ld.global.v4.u32 {r4, r5, r6, r7}, [q0];",
        "mov.b64 q1, {r5, r6};",
        "mov.u32 r1, box;",
        "mov.u32 r2, bar;",
        "xor.b32 r3, cta, 1;",
    )
    fill(body, "box", 2048, _BLOCK)
    barrier(body, "bar")
    body(f"@p29 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {_BLOCK * 28};", *MEET)
    body("mad.lo.u32 r8, tid, 32, r1;", "mapa.shared::cluster.u32 r8, r8, r3;", "mapa.shared::cluster.u32 r9, r2, r3;")
    form = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes"
    body(
        f"{form}.b32 [r8], r4, [r9];",
        f"{form}.u64 [r8+8], q1, [r9];",
        f"{form}.v4.b32 [r8+16], {{r7, r6, r5, r4}}, [r9];",
    )
    wait(body, "bar", 0, ".acquire.cluster")
    body.out("r301")
    dump(body, "box", 2048, _BLOCK)
    body(*MEET)
    return case(
        "cluster_async_stores",
        "clusters",
        body,
        [("ptr data", words(2048, "u1"))],
        block=_BLOCK,
        grid=2,
        cluster=2,
        version="8.1",
    )


def _async_reductions() -> Case:
    body = Body(2 * _BLOCK)
    operations = [
        "add.u32",
        "add.s32",
        "min.u32",
        "min.s32",
        "max.u32",
        "max.s32",
        "inc.u32",
        "dec.u32",
        "and.b32",
        "or.b32",
        "xor.b32",
    ]
    size = 4 * len(operations) + 8
    body(
        ".shared .align 128 .b8 box[4096];",
        ".shared .align 8 .b64 bar;",
        "mad.wide.u32 q0, index, 8, data;",
        "ld.global.v2.u32 {r4, r5}, [q0];",
        "mov.b64 q1, {r4, r5};",
        "mov.u32 r1, box;",
        "mov.u32 r2, bar;",
        "xor.b32 r3, cta, 1;",
    )
    fill(body, "box", 4096, _BLOCK, "7")
    barrier(body, "bar")
    body(f"@p29 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {_BLOCK * size};", *MEET)
    body("mad.lo.u32 r8, tid, 64, r1;", "mapa.shared::cluster.u32 r8, r8, r3;", "mapa.shared::cluster.u32 r9, r2, r3;")
    form = "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes"
    body(f"{form}.add.u64 [r8+56], q1, [r9];")
    for i, op in enumerate(operations):
        body(f"{form}.{op} [r8+{4 * i}], r4, [r9];")
    wait(body, "bar", 0, ".acquire.cluster")
    body.out("r301")
    dump(body, "box", 4096, _BLOCK)
    body(*MEET)
    return case(
        "cluster_async_reductions",
        "clusters",
        body,
        [("ptr data", words(1024, "u1"))],
        block=_BLOCK,
        grid=2,
        cluster=2,
        version="8.1",
    )


def _barrier_forms() -> Case:
    body = Body(2 * _BLOCK)
    body(
        ".shared .align 4 .b32 box[64];",
        "mov.u32 r2, box;",
        "mad.lo.u32 r3, tid, 4, r2;",
        "xor.b32 r4, cta, 1;",
        "mapa.shared::cluster.u32 r5, r3, r4;",
    )
    pairs = [
        ("arrive", "wait"),
        ("arrive.release", "wait.acquire"),
        ("arrive.aligned", "wait.aligned"),
        ("arrive.release.aligned", "wait.acquire.aligned"),
    ]
    for i, (arrive, wait_form) in enumerate(pairs):
        body(
            f"mad.lo.u32 r6, index, {i + 5}, {i};",
            "st.shared.u32 [r3], r6;",
            f"barrier.cluster.{arrive};",
            "add.u32 r6, r6, 1;",
            f"barrier.cluster.{wait_form};",
            "ld.shared::cluster.u32 r7, [r5];",
        )
        body("fence.acq_rel.cluster;", "barrier.cluster.arrive.relaxed;", "barrier.cluster.wait;")
        body.out("r7")
    return case("cluster_barrier_forms", "clusters", body, block=_BLOCK, grid=2, cluster=2)
