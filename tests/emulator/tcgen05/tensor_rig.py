"""A kernel around the instructions under test: shared and tensor memory are filled first, and tensor memory is read out after.

Each CTA has 128 threads. Its shared memory image lies at BASE; all of its tensor memory is allocated, so that addresses in it are
columns from 0 on. One thread, of the first CTA, executes the instructions under test.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.launch import Emulation, OrderName, emulate

BASE = 0x400
"""Where the image begins in the shared window of a CTA: dynamic shared memory starts there."""


@dataclass(frozen=True)
class Finished:
    """`tensor`: uint32 (CTAs, 128 lanes, columns) after the run."""

    tensor: NDArray[np.uint32]
    emulation: Emulation


def program(
    body: str, image_bytes: int, columns: int, group: int, *, completion: str | None = None, filled: bool = True
) -> str:
    """The text. `body` may use registers t0-t9 (b32), d0-d9 (b64), yes and no (predicates), and what it declares itself.
    `completion`: what the thread does after it, by default a commit. `filled`: tensor memory is written before."""
    mbar, slot = image_bytes, image_bytes + 8
    if completion is None:
        multicast = (".multicast::cluster", ", both") if group == 2 else ("", "")
        completion = f"tcgen05.commit.cta_group::{group}.mbarrier::arrive::one.shared::cluster{multicast[0]}.b64 [mbar]{multicast[1]};"
    meet = (
        "barrier.cluster.arrive.release.aligned;\n barrier.cluster.wait.acquire.aligned;"
        if group == 2
        else "bar.sync 0;"
    )
    registers = [f"r{i}" for i in range(32)]
    vector = "{" + ", ".join(registers) + "}"
    quads = [(4 * i, "{" + ", ".join(registers[4 * i : 4 * i + 4]) + "}") for i in range(8)]
    fill = f"""
 mov.u32 column, 0;
FILL:
 {chr(10).join(f"ld.global.v4.b32 {quad}, [in+{4 * at}];" for at, quad in quads)}
 add.u32 where, lane, column;
 tcgen05.st.sync.aligned.32x32b.x32.b32 [where], {vector};
 add.u64 in, in, 128;
 add.u32 column, column, 32;
 setp.lt.u32 p, column, {columns};
 @p bra FILL;
 tcgen05.wait::st.sync.aligned;"""
    return f"""
.version 8.8
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 dynamic[];
.visible .entry rig(.param .u64 image_, .param .u64 in_, .param .u64 out_)
.reqntid 128
{f".reqnctapercluster {group}, 1, 1" if group == 2 else ""}
{{
 .reg .pred p, yes, no, warp0, first;
 .reg .b16 both;
 .reg .b32 tid, warp, lane, where, column, mbar, slot, at, rank, smem;
 .reg .b32 {", ".join(registers)};
 .reg .b32 {", ".join(f"t{i}" for i in range(10))};
 .reg .b64 {", ".join(f"d{i}" for i in range(10))};
 .reg .b64 image, in, out, offset;
 ld.param.u64 image, [image_];
 ld.param.u64 in, [in_];
 ld.param.u64 out, [out_];
 mov.u32 tid, %tid.x;
 mov.u32 rank, %cluster_ctarank;
 shr.u32 warp, tid, 5;
 setp.eq.u32 warp0, warp, 0;
 shl.b32 lane, warp, 21;
 setp.eq.u32 yes, tid, tid;
 setp.ne.u32 no, tid, tid;
 mov.u16 both, 3;
 mov.u32 smem, dynamic;
 add.u32 mbar, smem, {mbar};
 add.u32 slot, smem, {slot};
 mul.wide.u32 offset, rank, {image_bytes};
 add.u64 image, image, offset;
 mad.lo.u32 at, rank, 128, tid;
 mul.wide.u32 offset, at, {columns * 4};
 add.u64 in, in, offset;
 add.u64 out, out, offset;
 mul.wide.u32 offset, tid, 16;
 add.u64 image, image, offset;
 mul.lo.u32 at, tid, 16;
COPY:
 setp.ge.u32 p, at, {image_bytes};
 @p bra COPIED;
 ld.global.v4.b32 {{r0, r1, r2, r3}}, [image];
 add.u32 where, smem, at;
 st.shared.v4.b32 [where], {{r0, r1, r2, r3}};
 add.u64 image, image, 2048;
 add.u32 at, at, 2048;
 bra COPY;
COPIED:
 fence.proxy.async.shared::cta;
 setp.eq.u32 first, tid, 0;
 @first mbarrier.init.shared::cta.b64 [mbar], 1;
 @first fence.mbarrier_init.release.cluster;
 {meet}
 @!warp0 bra ALLOCATED;
 tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [slot], 512;
ALLOCATED:
 {meet}
 {fill if filled else ""}
 tcgen05.fence::before_thread_sync;
 {meet}
 tcgen05.fence::after_thread_sync;
 setp.eq.and.u32 first, rank, 0, first;
 @!first bra ISSUED;
 {body}
 {completion}
ISSUED:
 bar.warp.sync 0xffffffff;
WAIT:
 mbarrier.try_wait.parity.shared::cta.b64 p, [mbar], 0;
 @!p bra WAIT;
 tcgen05.fence::after_thread_sync;
 mov.u32 column, 0;
READ:
 add.u32 where, lane, column;
 tcgen05.ld.sync.aligned.32x32b.x32.b32 {vector}, [where];
 tcgen05.wait::ld.sync.aligned;
 {chr(10).join(f"st.global.v4.b32 [out+{4 * at}], {quad};" for at, quad in quads)}
 add.u64 out, out, 128;
 add.u32 column, column, 32;
 setp.lt.u32 p, column, {columns};
 @p bra READ;
 tcgen05.fence::before_thread_sync;
 {meet}
 @!warp0 bra DONE;
 tcgen05.relinquish_alloc_permit.cta_group::{group}.sync.aligned;
 tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 0, 512;
DONE:
 ret;
}}
"""


def run(
    body: str,
    image: NDArray[np.uint8],
    tensor: NDArray[np.uint32],
    *,
    order: OrderName = "fifo",
    seed: int = 0,
    **options: Any,
) -> Finished:
    """Run with shared memory `image` (CTAs, bytes) and tensor memory `tensor` (CTAs, 128, columns); one CTA, or a pair of them."""
    group, size = image.shape
    assert size % 16 == 0 and tensor.shape[:2] == (group, 128) and tensor.shape[2] % 32 == 0
    text = program(body, size, tensor.shape[2], group, **options)
    before, after = np.ascontiguousarray(tensor, np.uint32), np.zeros_like(tensor, np.uint32)
    done = emulate(
        text,
        "rig",
        group,
        128,
        [np.ascontiguousarray(image), before, after],
        dynamic_smem=size + 16,
        order=order,
        seed=seed,
    )
    return Finished(after, done)


def move(register: str, value: int) -> str:
    """A constant into a register of the body."""
    return f"mov.b{64 if register.startswith('d') else 32} {register}, 0x{value:x};\n"
