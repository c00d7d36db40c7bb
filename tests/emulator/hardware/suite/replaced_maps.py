"""Tensor maps that a kernel changes: tensormap.replace in shared and global memory, then a load through the new map."""

from __future__ import annotations

from suite.cases import Case
from suite.kernels import Body, case, words
from suite.steps import barrier, dump, fill, wait
from suite.tensors import BLOCK, Tensor

_SIZE = 2048


def cases() -> list[Case]:
    return [_shared(), _global()]


def _start() -> Body:
    body = Body(BLOCK)
    body(f".shared .align 1024 .b8 tile[{_SIZE}];", ".shared .align 128 .b8 draft[128];", ".shared .align 8 .b64 bar;")
    body("mov.u32 r1, tile;", "mov.u64 q20, built;", "cvta.global.u64 q21, q20;", "setp.eq.u32 p0, tid, 0;")
    body("cvta.global.u64 q22, other;")
    barrier(body, "bar")
    return body


def _load(body: Body, size: int, start: str) -> None:
    fill(body, "tile", _SIZE, BLOCK)
    body(f"@p29 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {size};")
    spelling = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    body(
        "@p0 fence.proxy.tensormap::generic.acquire.gpu [q21], 128;", f"@p0 {spelling} [r1], [q21, {{{start}}}], [bar];"
    )
    wait(body, "bar", 0)
    body.out("r301")
    dump(body, "tile", _SIZE, BLOCK)


def _case(name: str, body: Body) -> Case:
    tensor = Tensor("u2", (16, 64), (4, 16))
    inputs = [tensor.input(), ("ptr other", words(4096, "u1"))]
    return case(name, "tensormap", body, inputs, block=BLOCK, version="8.3", top=".global .align 128 .b8 built[128];")


def _shared() -> Case:
    """A draft in shared memory gets another address, height, pitch and box, and is published."""
    body = _start()
    for i in range(0, 128, 16):
        body(f"@p0 ld.param.v2.b64 {{q30, q31}}, [tensor_map+{i}];", f"@p0 st.shared.v2.b64 [draft+{i}], {{q30, q31}};")
    replace = "@p0 tensormap.replace.tile"
    body("bar.sync 0;", f"{replace}.global_address.shared::cta.b1024.b64 [draft], q22;")
    body(f"{replace}.global_dim.shared::cta.b1024.b32 [draft], 1, 10;", "mov.b64 q32, 256;")
    body(
        f"{replace}.global_stride.shared::cta.b1024.b64 [draft], 0, q32;",
        f"{replace}.box_dim.shared::cta.b1024.b32 [draft], 1, 8;",
    )
    body("bar.sync 0;", "setp.lt.u32 p1, tid, 32;", "@!p1 bra published;", "bar.warp.sync 0xffffffff;")
    publish = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"
    body("mov.u64 q34, draft;", f"{publish} [q20], [q34], 128;", "published:", "bar.sync 0;")
    _load(body, 8 * 16 * 2, "16, 5")
    return _case("tensormap_shared", body)


def _global() -> Case:
    """A map in global memory gets another element type, swizzle, box and first dimension."""
    body = _start()
    for i in range(0, 128, 16):
        body(f"@p0 ld.param.v2.b64 {{q30, q31}}, [tensor_map+{i}];", f"@p0 st.global.v2.b64 [built+{i}], {{q30, q31}};")
    replace = "@p0 tensormap.replace.tile"
    body(f"{replace}.elemtype.global.b1024.b32 [q20], 2;", f"{replace}.swizzle_mode.global.b1024.b32 [q20], 2;")
    body(f"{replace}.global_dim.global.b1024.b32 [q20], 0, 30;", f"{replace}.box_dim.global.b1024.b32 [q20], 0, 16;")
    body(f"{replace}.fill_mode.global.b1024.b32 [q20], 0;", f"{replace}.interleave_layout.global.b1024.b32 [q20], 0;")
    body("@p0 fence.proxy.tensormap::generic.release.gpu;", "bar.sync 0;")
    _load(body, 4 * 16 * 4, "20, 6")
    return _case("tensormap_global", body)
