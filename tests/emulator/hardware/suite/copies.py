"""cp.async and the copies of cp.async.bulk and cp.reduce.async.bulk that take no tensor map."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from suite.cases import Argument, Case
from suite.kernels import Body, case, words
from suite.steps import barrier, dump, fill, fill_from, wait
from suite.values import operand

_BLOCK = 128


def cases() -> list[Case]:
    return [_small(), _arrivals(), _loads(), _stores(), *_reductions(), _shared_to_shared()]


def _small() -> Case:
    """cp.async of 4, 8 and 16 bytes: source sizes, ignored sources, groups."""
    body = Body(_BLOCK)
    body(
        ".shared .align 128 .b8 tile[8192];",
        "mad.wide.u32 q0, tid, 64, data;",
        "setp.lt.u32 p0, tid, 70;",
        "and.b32 r5, tid, 15;",
        "and.b32 r6, tid, 3;",
        "and.b32 r7, tid, 7;",
    )
    fill(body, "tile", 8192, _BLOCK)
    body("mov.u32 r1, tile;", "mad.lo.u32 r1, tid, 64, r1;")
    body(
        "cp.async.ca.shared.global [r1], [q0], 4;",
        "cp.async.ca.shared::cta.global [r1+8], [q0+8], 8;",
        "cp.async.commit_group;",
    )
    body(
        "cp.async.cg.shared.global [r1+16], [q0+16], 16;",
        "cp.async.ca.shared.global.L2::128B [r1+32], [q0+32], 16, r5;",
        "cp.async.commit_group;",
    )
    body(
        "cp.async.ca.shared.global [r1+48], [q0+48], 4, r6;",
        "cp.async.ca.shared.global [r1+52], [q0+52], 4, p0;",
        "cp.async.ca.shared.global [r1+56], [q0+56], 8, r7;",
    )
    body(
        "cp.async.commit_group;",
        "cp.async.commit_group;",
        "cp.async.wait_group 2;",
        "ld.shared.u32 r10, [r1];",
        "ld.shared.u32 r11, [r1+12];",
        "cp.async.wait_group 1;",
        "ld.shared.u32 r12, [r1+20];",
        "cp.async.wait_all;",
        "bar.sync 0;",
    )
    body.out("r10", "r11", "r12")
    dump(body, "tile", 8192, _BLOCK)
    body(
        "cp.async.cg.shared.global [r1], [q0+32], 16, p0;",
        "cp.async.cg.shared.global [r1+16], [q0], 16, 0;",
        "cp.async.wait_all;",
        "bar.sync 0;",
    )
    dump(body, "tile", 8192, _BLOCK)
    return case("copy_async", "copies", body, [("ptr data", words(8192, "u1"))], block=_BLOCK)


def _arrivals() -> Case:
    """cp.async whose end is an arrival on an mbarrier."""
    body = Body(_BLOCK)
    body(
        ".shared .align 128 .b8 tile[2048];",
        ".shared .align 8 .b64 bars[2];",
        "mad.wide.u32 q0, tid, 16, data;",
        "mov.u32 r1, tile;",
        "mad.lo.u32 r1, tid, 16, r1;",
    )
    barrier(body, "bars", _BLOCK)
    barrier(body, "bars+8", _BLOCK)
    body("cp.async.cg.shared.global [r1], [q0], 16;", "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bars];")
    wait(body, "bars", 0)
    body.out("r301")
    dump(body, "tile", 2048, _BLOCK)
    body(
        "xor.b32 r2, tid, 1;",
        "mad.wide.u32 q0, r2, 16, data;",
        "cp.async.ca.shared.global [r1], [q0], 16;",
        "cp.async.mbarrier.arrive.shared.b64 [bars+8];",
        "mbarrier.arrive.shared::cta.b64 _, [bars+8];",
    )
    wait(body, "bars+8", 0)
    body.out("r301")
    dump(body, "tile", 2048, _BLOCK)
    return case("copy_async_arrivals", "copies", body, [("ptr data", words(2048, "u1"))], block=_BLOCK)


def _loads() -> Case:
    body = Body(_BLOCK)
    body(".shared .align 128 .b8 tile[4096];", ".shared .align 8 .b64 bar;")
    fill(body, "tile", 4096, _BLOCK)
    barrier(body, "bar")
    body("@p29 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 2208;", "mov.u32 r1, tile;")
    for at, source, size in ((0, 0, 16), (32, 48, 112), (1024, 512, 2048), (4064, 16, 32)):
        body(
            f"@p29 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [r1+{at}], [data+{source}], {size}, [bar];"
        )
    wait(body, "bar", 0)
    body.out("r301")
    dump(body, "tile", 4096, _BLOCK)
    body(
        "@p29 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 64;",
        "createpolicy.fractional.L2::evict_first.b64 q5, 1.0;",
    )
    body(
        "@p29 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [r1+256], [data+4032], 64, [bar], q5;"
    )
    body("@p29 cp.async.bulk.prefetch.L2.global [data], 64;")
    wait(body, "bar", 1)
    body.out("r301")
    dump(body, "tile", 512, _BLOCK)
    return case("bulk_loads", "copies", body, [("ptr data", words(4096, "u1"))], block=_BLOCK)


def _stores() -> Case:
    body = Body(_BLOCK)
    body(".shared .align 128 .b8 tile[4096];", "setp.eq.u32 p0, tid, 0;", "mov.u32 r1, tile;")
    fill_from(body, "tile", 4096, _BLOCK)
    for target, source, size in ((0, 16, 16), (32, 1024, 96), (512, 2048, 2048), (4080, 0, 16)):
        body(f"@p0 cp.async.bulk.global.shared::cta.bulk_group [target+{target}], [r1+{source}], {size};")
    body("@p0 cp.async.bulk.commit_group;", "@p0 cp.async.bulk.wait_group.read 0;", "@p0 cp.async.bulk.wait_group 0;")
    body.out("tid")
    inputs = [("ptr data", words(4096, "u1")), ("ptr target", words(4096, "u1"))]
    return case("bulk_stores", "copies", body, inputs, block=_BLOCK)


def _reductions() -> list[Case]:
    built: list[Case] = []
    operations = {
        "u32": "add min max inc dec and or xor", "s32": "add min max", "u64": "add min max and or xor", "s64": "min max",
        "f32": "add", "f64": "add", "f16": "add.noftz min max", "bf16": "add.noftz min max",
    }  # fmt: skip
    for t, names in operations.items():
        body = Body(_BLOCK)
        body(".shared .align 128 .b8 tile[1024];", "setp.eq.u32 p0, tid, 0;", "mov.u32 r1, tile;")
        fill_from(body, "tile", 1024, _BLOCK)
        inputs = [("ptr data", _values(t, 1))]
        for op in names.split():
            target = "to_" + op.split(".")[0]
            kind = t.replace("u", "b") if op in ("and", "or", "xor") else t
            body(f"@p0 cp.reduce.async.bulk.global.shared::cta.bulk_group.{op}.{kind} [{target}], [r1], 1024;")
            inputs.append((f"ptr {target}", _values(t, 0)))
        body("@p0 cp.async.bulk.commit_group;", "@p0 cp.async.bulk.wait_group 0;")
        body.out("tid")
        built.append(case(f"bulk_reduce_{t}", "copies", body, inputs, block=_BLOCK))
    return built


def _values(kind: str, position: int) -> Callable[[np.random.Generator], Argument]:
    kind = kind.replace("u", "i").replace("s", "i")
    size = int(kind.strip("bfi")) // 8
    return lambda rng: operand(kind, position, 1024 // size, rng)


def _shared_to_shared() -> Case:
    """Within the CTA and to the other CTA of a cluster, and reductions into shared memory."""
    body = Body(2 * _BLOCK)
    body(
        ".shared .align 128 .b8 tile[1024];",
        ".shared .align 128 .b8 there[1536];",
        ".shared .align 8 .b64 bar;",
        "mov.u32 r1, tile;",
        "mov.u32 r2, there;",
        "mov.u32 r3, bar;",
    )
    body(
        "mad.wide.u32 q10, cta, 1024, data;",
        "xor.b32 r4, cta, 1;",
        "mapa.shared::cluster.u32 r5, r2, r4;",
        "mapa.shared::cluster.u32 r6, r3, r4;",
    )
    fill_from(body, "tile", 1024, _BLOCK, "q10")
    fill(body, "there", 1536, _BLOCK, "3")
    barrier(body, "bar")
    body(
        "barrier.cluster.arrive.aligned;",
        "barrier.cluster.wait.aligned;",
        "@p29 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 1184;",
    )
    body("barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;")
    body("@p29 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [r5], [r1], 1024, [r6];")
    for at, op in ((1024, "add.u32"), (1056, "min.s32"), (1088, "xor.b32"), (1120, "inc.u32"), (1152, "max.u32")):
        body(
            f"@p29 cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{op} [r5+{at}], [r1+{at - 1024}], 32, [r6];"
        )
    wait(body, "bar", 0, ".acquire.cluster")
    body.out("r301")
    dump(body, "there", 1536, _BLOCK)
    body("barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;")
    return case(
        "bulk_shared_to_shared", "copies", body, [("ptr data", words(2048, "u1"))], block=_BLOCK, grid=2, cluster=2
    )
