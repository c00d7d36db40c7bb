"""Exchange within a warp: shfl, vote, match, redux, elect, activemask, and the registers that say who runs."""

from __future__ import annotations

from suite.cases import Case, blank
from suite.kernels import Body, case, module, words

_FULL = "0xffffffff"


def cases() -> list[Case]:
    return [
        *_shuffles(),
        _votes(),
        _matches(),
        _reductions(),
        _election(),
        _partial(),
        _registers(),
        _three_dimensions(),
    ]


def _value(body: Body) -> None:
    body("mad.wide.u32 q0, index, 4, data;", "ld.global.u32 r0, [q0];")


def _shuffles() -> list[Case]:
    built: list[Case] = []
    for mode in ("up", "down", "bfly", "idx"):
        body = Body(64)
        _value(body)
        for width in (32, 16, 8, 2):
            for clamp in (0, 0x1F, 0x0B):
                control = (32 - width) << 8 | clamp
                for distance in (0, 1, 3, 8, 17, 31, 33):
                    body(f"shfl.sync.{mode}.b32 r1|p1, r0, {distance}, {control}, {_FULL};")
                    body("selp.u32 r2, 1, 0, p1;", "shl.b32 r2, r2, 31;", "xor.b32 r1, r1, r2;")
                    body.out("r1")
        body("shr.u32 r3, r0, 7;", "and.b32 r4, r3, 0x1f1f;")
        body(f"shfl.sync.{mode}.b32 r1|p1, r0, r3, 0x1f, {_FULL};")
        body.out("r1")
        body.outp("p1")
        body(f"shfl.sync.{mode}.b32 r1|p1, r0, r3, r4, {_FULL};")
        body.out("r1")
        body.outp("p1")
        built.append(case(f"shuffle_{mode}", "warp", body, [("ptr data", words(64))], block=64))
    return built


def _votes() -> Case:
    body = Body(96)
    _value(body)
    for bound in ("0x40000000", "0x80000000", "0x10000000", "0xffffffff", "0"):
        body(f"setp.lt.u32 p0, r0, {bound};")
        for mode in ("all", "any", "uni"):
            body(f"vote.sync.{mode}.pred p1, p0, {_FULL};", f"vote.sync.{mode}.pred p2, !p0, {_FULL};")
            body.outp("p1", "p2")
        body(f"vote.sync.ballot.b32 r1, p0, {_FULL};", f"vote.sync.ballot.b32 r2, !p0, {_FULL};")
        body.out("r1", "r2")
    body("activemask.b32 r3;")
    body.out("r3")
    return case("votes", "warp", body, [("ptr data", words(96))], block=96)


def _matches() -> Case:
    body = Body(64)
    _value(body)
    for bits in (0, 1, 3, 7):
        body(f"and.b32 r1, r0, {bits};", "cvt.u64.u32 q1, r1;", "shl.b64 q1, q1, 40;")
        body(f"match.any.sync.b32 r2, r1, {_FULL};", f"match.any.sync.b64 r3, q1, {_FULL};")
        body(f"match.all.sync.b32 r4|p1, r1, {_FULL};", f"match.all.sync.b64 r5|p2, q1, {_FULL};")
        body.out("r2", "r3", "r4", "r5")
        body.outp("p1", "p2")
    return case("matches", "warp", body, [("ptr data", words(64))], block=64)


def _reductions() -> Case:
    body = Body(64)
    _value(body)
    body("setp.lt.u32 p0, lane, 13;")
    for op in ["add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32", "and.b32", "or.b32", "xor.b32"]:
        body(f"redux.sync.{op} r1, r0, {_FULL};")
        body.out("r1")
        body("mov.u32 r2, 0;", f"@p0 redux.sync.{op} r2, r0, 0x1fff;")
        body.out("r2")
    return case("reductions", "warp", body, [("ptr data", words(64))], block=64)


def _election() -> Case:
    body = Body(64)
    body(f"elect.sync r1|p1, {_FULL};")
    body.out("r1")
    body.outp("p1")
    body("mov.u32 r2, 99;", "setp.ge.u32 p3, lane, 5;", "setp.lt.and.u32 p3, lane, 9, p3;", "mov.pred p2, p3;")
    body("@p3 elect.sync r2|p2, 0x1e0;")
    body.out("r2")
    body.outp("p2")
    return case("election", "warp", body, block=64)


def _partial() -> Case:
    """Exchange within the sides of a branch, with the mask of a side."""
    body = Body(64)
    _value(body)
    body("mov.u32 r8, 7;", "mov.u32 r9, 7;", "mov.u32 r10, 7;", "setp.lt.u32 p0, lane, 11;", "@p0 bra small;")
    for label, mask in (("big", 0xFFFFF800), ("small", 0x7FF)):
        if label == "small":
            body("small:")
        body(f"vote.sync.ballot.b32 r8, 1, {mask};", f"shfl.sync.bfly.b32 r9|p1, r0, 1, 0x1f, {mask};")
        body("and.b32 r11, r0, 1;", f"match.any.sync.b32 r10, r11, {mask};", f"bar.warp.sync {mask};")
        if label == "big":
            body("bra both;")
    body("both:", f"bar.warp.sync {_FULL};")
    # Lane 10 exchanges with lane 11 of the other side: what it gets is undefined, so its result is left out.
    body("setp.eq.u32 p2, lane, 10;", "@p2 mov.u32 r9, 0;", "setp.eq.u32 p2, lane, 11;", "@p2 mov.u32 r9, 0;")
    body.out("r8", "r9", "r10")
    return case("partial_masks", "warp", body, [("ptr data", words(64))], block=64)


def _registers() -> Case:
    body = Body(128)
    for name in [
        "tid.x",
        "tid.y",
        "tid.z",
        "ntid.x",
        "ntid.y",
        "ntid.z",
        "ctaid.x",
        "ctaid.y",
        "ctaid.z",
        "nctaid.x",
        "nctaid.y",
        "nctaid.z",
        "laneid",
    ]:
        body(f"mov.u32 r0, %{name};")
        body.out("r0")
    for name in ["lanemask_eq", "lanemask_lt", "lanemask_le", "lanemask_gt", "lanemask_ge"]:
        body(f"mov.u32 r0, %{name};")
        body.out("r0")
    for name in [
        "clusterid.x",
        "nclusterid.x",
        "cluster_ctaid.x",
        "cluster_nctaid.x",
        "cluster_ctarank",
        "cluster_nctarank",
    ]:
        body(f"mov.u32 r0, %{name};")
        body.out("r0")
    body("mov.u32 r0, %total_smem_size;", "mov.u32 r1, %dynamic_smem_size;")
    body.out("r1")
    body("mov.pred p0, %is_explicit_cluster;")
    body.outp("p0")
    return case("special_registers", "warp", body, block=32, grid=4, cluster=2, dynamic_smem=64)


def _three_dimensions() -> Case:
    """Threads and CTAs along all dimensions; a thread's place in its CTA decides its lane."""
    names = [
        "tid.x",
        "tid.y",
        "tid.z",
        "ctaid.x",
        "ctaid.y",
        "ctaid.z",
        "ntid.y",
        "ntid.z",
        "nctaid.y",
        "nctaid.z",
        "laneid",
        "clusterid.y",
        "cluster_ctaid.y",
    ]
    threads = 60 * 12
    lines = [
        "mov.u32 r1, %tid.y;", "mov.u32 r2, %tid.z;", "mad.lo.u32 r1, r2, 3, r1;", "mad.lo.u32 r1, r1, 4, tid;",
        "mov.u32 r2, %ctaid.y;", "mov.u32 r3, %ctaid.z;", "mad.lo.u32 r2, r3, 3, r2;", "mad.lo.u32 r2, r2, 2, cta;",
        "mad.lo.u32 r1, r2, 60, r1;", "mad.wide.u32 q0, r1, 4, out;",
    ]  # fmt: skip
    for i, name in enumerate(names):
        lines += [f"mov.u32 r0, %{name};", f"st.global.u32 [q0+{4 * threads * i}], r0;"]
    return Case(
        name="three_dimensions",
        family="warp",
        ptx=module("three_dimensions", ["ptr out"], "\n".join(lines)),
        entry="three_dimensions",
        grid=(2, 3, 2),
        block=(4, 3, 5),
        cluster=(1, 3, 1),
        arguments=lambda rng: [blank("u4", threads * len(names))],
    )
