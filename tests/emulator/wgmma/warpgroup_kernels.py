"""A kernel around wgmma: shared memory and registers are filled first, and D is read out after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.launch import Emulation, OrderName, emulate

START = 0x400
"""Where the image lies in the shared window: dynamic shared memory begins there."""
SPANS = {"none": 16, "32B": 32, "64B": 64, "128B": 128}
_CODES = {"none": 0, "128B": 1, "64B": 2, "32B": 3}
_MASKS = {"none": 0, "32B": 1, "64B": 3, "128B": 7}
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "b1": 1}
_RANGES = {"s8": (-128, 128), "u8": (0, 256), "b1": (0, 2)}
_DTYPES: dict[str, type[np.generic]] = {"f16": np.float16, "f32": np.float32, "s32": np.int32}


def random_matrix(rng: np.random.Generator, kind: str, shape: tuple[int, int]) -> NDArray[np.int64]:
    return rng.integers(*_RANGES.get(kind, (-4, 5)), shape)


def encode(kind: str, matrix: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The bytes of each row of a matrix of small integers."""
    match kind:
        case "f16":
            held: NDArray[Any] = matrix.astype(np.float16)
        case "bf16":
            held = (matrix.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        case "tf32" | "f32":
            held = matrix.astype(np.float32)
        case "e4m3" | "e5m2":
            table = [0, 0x38, 0x40, 0x44, 0x48] if kind == "e4m3" else [0, 0x3C, 0x40, 0x42, 0x44]
            held = (np.array(table)[np.abs(matrix)] | np.where(matrix < 0, 0x80, 0)).astype(np.uint8)
        case "b1":
            held = np.packbits(matrix.astype(np.uint8), axis=1, bitorder="little")
        case "s32":
            held = matrix.astype(np.int32)
        case _:
            held = (matrix & 0xFF).astype(np.uint8)
    return np.ascontiguousarray(held).view(np.uint8)


@dataclass(frozen=True)
class Tile:
    """Where a matrix lies in the image: from `start` (a multiple of 128), with LBO `leading` and SBO `stride` in bytes. The operand
    begins `advance` bytes on."""

    start: int
    leading: int
    stride: int
    swizzle: str = "none"
    mn_major: bool = False
    advance: int = 0

    @property
    def descriptor(self) -> int:
        """The pattern begins where the tile does: its place among rows of 128 bytes is the base offset."""
        at = START + self.start
        base = at >> 7 & _MASKS[self.swizzle]
        fields = (at + self.advance) >> 4 | (self.leading >> 4) << 16 | (self.stride >> 4) << 32
        return fields | base << 49 | _CODES[self.swizzle] << 62

    def put(self, image: NDArray[np.uint8], rows: NDArray[np.uint8]) -> None:
        """Write a matrix: a row of bytes for each row (of A; column of B), or with `mn_major` for each k."""
        span = SPANS[self.swizzle]
        for at, row in enumerate(rows):
            for byte, value in enumerate(row):
                if not self.mn_major:
                    within = at // 8 * self.stride + at % 8 * span
                    within += byte // 16 * self.leading + byte % 16 if self.swizzle == "none" else byte + self.advance
                elif self.swizzle == "none":
                    within = byte // 16 * self.stride + at // 8 * self.leading + at % 8 * 16 + byte % 16
                else:
                    within = byte // span * self.leading + byte % span + at // 8 * self.stride + at % 8 * span
                if self.swizzle == "none":
                    within += self.advance
                image[self.start + (within ^ (within >> 7 & _MASKS[self.swizzle]) << 4)] = value


def k_major(start: int, swizzle: str = "128B", advance: int = 0) -> Tile:
    """Rows of one pattern, eight of them after the other."""
    if swizzle == "none":
        return Tile(start, 128, 256, advance=advance)
    return Tile(start, 16, 8 * SPANS[swizzle], swizzle, advance=advance)


def to_registers(kind: str, d: NDArray[np.int64]) -> NDArray[np.uint32]:
    """D (64, n) as the registers of each thread (PTX 9.7.15.5.1.1): warp w has rows 16 w to 16 w + 15, of them a quarter warp a row and
    eight below; a thread has pairs of neighbours, 8 columns apart."""
    n = d.shape[1]
    by = d.reshape(4, 2, 8, n // 8, 4, 2)
    # (warp, half, quarter, octet of columns, thread of four, neighbour)
    threads = by.transpose(0, 2, 4, 3, 1, 5).reshape(128, n // 2)
    return encode(kind, threads).view(np.uint32)


def from_registers(kind: str, registers: NDArray[np.uint32]) -> NDArray[np.int64]:
    held = np.ascontiguousarray(registers).view(_DTYPES[kind]).astype(np.int64)
    n = held.shape[1] * 2
    return held.reshape(4, 8, 4, n // 8, 2, 2).transpose(0, 4, 1, 3, 2, 5).reshape(64, n)


def a_registers(kind: str, a: NDArray[np.int64]) -> NDArray[np.uint32]:
    """A (64 rows of 32 bytes) as four registers of each thread: those of its row, eight rows below, and both 16 bytes on."""
    words = encode(kind, a).view(np.uint32)
    by = words.reshape(4, 2, 8, 2, 4)
    # (warp, half, quarter, 16 bytes, thread of four)
    return np.ascontiguousarray(by.transpose(0, 2, 4, 3, 1).reshape(128, 4))


def accumulators(count: int) -> str:
    return "{" + ", ".join(f"d{i}" for i in range(count)) + "}"


@dataclass(frozen=True)
class Inputs:
    """What the kernel begins with. `d`: D of each thread; its number of columns is that of the registers."""

    image: NDArray[np.uint8]
    d: NDArray[np.uint32]
    a: NDArray[np.uint32] | None = None
    meta: NDArray[np.uint32] | None = None
    descriptors: tuple[int, int] = (0, 0)


def finish(instructions: str) -> str:
    return (
        f"wgmma.fence.sync.aligned;\n{instructions}\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;"
    )


def text(body: str, registers: int, image_bytes: int, *, proxy_fence: bool = True) -> str:
    """The kernel. `body` may use d0... (D), a0 to a3, meta, da and db (descriptors), yes and no, r0 to r9, q0 to q9, p."""
    per_thread = image_bytes // 128
    fill = "".join(
        f"ld.global.v4.b32 {{r0, r1, r2, r3}}, [from+{i}]; st.shared.v4.b32 [to+{i}], {{r0, r1, r2, r3}};\n"
        for i in range(0, per_thread, 16)
    )
    load = "".join(f"ld.global.b32 d{i}, [at+{4 * i}];\n" for i in range(registers))
    store = "".join(f"st.global.b32 [at+{4 * i}], d{i};\n" for i in range(registers))
    return f"""
.version 8.4
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 tile[];
.visible .entry k(.param .u64 image, .param .u64 in_d, .param .u64 in_a, .param .u64 in_meta, .param .u64 desc_a, .param .u64 desc_b)
{{
.reg .pred yes, no, p, fills;
.reg .b32 d<{registers}>, a<4>, meta, to, tid, r<10>;
.reg .b64 da, db, from, at, q<10>;
mov.u32 tid, %tid.x;
setp.eq.u32 yes, tid, tid;
setp.ne.u32 no, tid, tid;
setp.lt.u32 fills, tid, 128;
mov.u32 to, tile;
mad.lo.u32 to, tid, {per_thread}, to;
ld.param.u64 from, [image]; mad.wide.u32 from, tid, {per_thread}, from;
@!fills bra FILLED;
{fill}
FILLED:
{"fence.proxy.async.shared::cta;" if proxy_fence else ""}
bar.sync 0;
ld.param.u64 at, [in_a]; mad.wide.u32 at, tid, 16, at;
ld.global.v4.b32 {{a0, a1, a2, a3}}, [at];
ld.param.u64 at, [in_meta]; mad.wide.u32 at, tid, 4, at;
ld.global.b32 meta, [at];
ld.param.u64 da, [desc_a];
ld.param.u64 db, [desc_b];
ld.param.u64 at, [in_d]; mad.wide.u32 at, tid, {4 * registers}, at;
{load}
{body}
{store}
ret;
}}
"""


def run(
    body: str, inputs: Inputs, *, threads: int = 128, order: OrderName = "fifo", seed: int = 0, proxy_fence: bool = True
) -> tuple[NDArray[np.uint32], Emulation]:
    """Runs `body`; D of each thread afterwards."""
    d = np.zeros((max(threads, 128), inputs.d.shape[1]), np.uint32)
    d[: len(inputs.d)] = inputs.d
    a = np.zeros((max(threads, 128), 4), np.uint32) if inputs.a is None else inputs.a
    meta = np.zeros(max(threads, 128), np.uint32) if inputs.meta is None else inputs.meta
    kernel = text(body, d.shape[1], len(inputs.image), proxy_fence=proxy_fence)
    arguments: list[Any] = [inputs.image, d, a, meta, *(np.uint64(x) for x in inputs.descriptors)]
    ran = emulate(kernel, "k", 1, threads, arguments, dynamic_smem=len(inputs.image), order=order, seed=seed)
    return d, ran
