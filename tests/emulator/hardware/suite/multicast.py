"""Loads into several CTAs of a cluster at once."""

from __future__ import annotations

import numpy as np

from suite.cases import Case, MapArgument
from suite.clusters import MEET
from suite.kernels import Body, case, words
from suite.steps import barrier, dump, fill, wait

_BLOCK = 64


def cases() -> list[Case]:
    return [*_multicast(), _bulk_multicast()]


def _multicast() -> list[Case]:
    """Rank 0 and rank 2 of four load a tile into several CTAs at once."""
    built: list[Case] = []
    for name, masks in (("all", ("15",)), ("some", ("5", "10")), ("one", ("8",))):
        body = Body(4 * _BLOCK)
        body(
            ".shared .align 1024 .b8 tile[2048];",
            ".shared .align 8 .b64 bar;",
            "mov.u32 r1, tile;",
            "mov.u32 r2, %cluster_ctarank;",
        )
        fill(body, "tile", 2048, _BLOCK)
        barrier(body, "bar")
        body("mov.u32 r5, 0;", "mov.u32 r6, 1;", "shl.b32 r6, r6, r2;")
        for mask in masks:
            body(f"and.b32 r7, r6, {mask};", "setp.ne.u32 p3, r7, 0;", "@p3 add.u32 r5, r5, 1024;")
        body(
            "setp.ne.u32 p4, r5, 0;",
            "and.pred p5, p4, p29;",
            "@p5 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], r5;",
            *MEET,
        )
        for i, mask in enumerate(masks):
            body(f"setp.eq.and.u32 p6, r2, {2 * i}, p29;", f"mov.u16 h0, {mask};")
            body(
                f"@p6 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [r1], [tensor, {{0, {4 * i}}}], [bar], h0;"
            )
        body("mov.u32 r301, 0;", "@!p4 bra nothing;")
        wait(body, "bar", 0)
        body("nothing:")
        body.out("r301")
        dump(body, "tile", 2048, _BLOCK)
        body(*MEET)

        def tensor(rng: np.random.Generator) -> MapArgument:
            return MapArgument(rng.integers(0, 2**16, (16, 64), dtype=np.uint16), box=(8, 64), swizzle="128B")

        built.append(
            case(f"multicast_{name}", "clusters", body, [("map tensor", tensor)], block=_BLOCK, grid=4, cluster=4)
        )
    return built


def _bulk_multicast() -> Case:
    body = Body(2 * _BLOCK)
    body(
        ".shared .align 128 .b8 tile[1024];",
        ".shared .align 8 .b64 bar;",
        "mov.u32 r1, tile;",
        "mov.u32 r2, %cluster_ctarank;",
    )
    fill(body, "tile", 1024, _BLOCK)
    barrier(body, "bar")
    body(
        "@p29 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;",
        *MEET,
        "setp.eq.and.u32 p6, r2, 1, p29;",
        "mov.u16 h0, 3;",
    )
    body(
        "@p6 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [r1+256], [data+64], 512, [bar], h0;"
    )
    wait(body, "bar", 0)
    body.out("r301")
    dump(body, "tile", 1024, _BLOCK)
    body(*MEET)
    return case("multicast_bulk", "clusters", body, [("ptr data", words(1024, "u1"))], block=_BLOCK, grid=2, cluster=2)
