"""Runs one instruction of whole warps on registers that a test gives, and packs small numbers into them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.launch import OrderName, emulate

BITS = {
    "f64": 64, "f32": 32, "s32": 32, "tf32": 32, "f16": 16, "bf16": 16, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "s4": 4, "u4": 4,
    "b1": 1,
}  # fmt: skip
RANGES = {"u8": (0, 256), "s8": (-128, 128), "s4": (-8, 8), "u4": (0, 16), "b1": (0, 2), "s32": (-(2**31), 2**31)}
"""All numbers of a type; of floats small integers do."""
Place = Callable[[int, int], tuple[int, int]]
"""Row and column of element i of a lane."""


def random_matrix(rng: np.random.Generator, kind: str, shape: tuple[int, int]) -> NDArray[np.int64]:
    return rng.integers(*RANGES.get(kind, (-4, 5)), shape)


def code(kind: str, value: int) -> int:
    """The bits of an integer in a type."""
    match kind:
        case "f64":
            return int(np.float64(value).view(np.uint64))
        case "f32" | "tf32":
            return int(np.float32(value).view(np.uint32))
        case "bf16":
            return int(np.float32(value).view(np.uint32)) >> 16
        case "f16":
            return int(np.float16(value).view(np.uint16))
        case "e4m3" | "e5m2":
            # Sign, and for 1, 2, 3, 4 exponents of bias 7 with 3 bits of fraction, of bias 15 with 2.
            size = {0: 0, 1: 0x38, 2: 0x40, 3: 0x44, 4: 0x48}[abs(value)]
            if kind == "e5m2":
                size = {0: 0, 1: 0x3C, 2: 0x40, 3: 0x42, 4: 0x44}[abs(value)]
            return size | (0x80 if value < 0 else 0)
        case _:
            return value & ((1 << BITS[kind]) - 1)


def pack(kind: str, matrix: NDArray[np.int64], elements: int, place: Place) -> NDArray[np.uint32]:
    """The 32-bit words of each lane, (32, words), that hold its `elements` elements of a matrix."""
    words = np.zeros((32, max(elements * BITS[kind] // 32, 1)), np.uint32)
    for lane in range(32):
        whole = 0
        for i in range(elements):
            whole |= code(kind, int(matrix[place(lane, i)])) << (BITS[kind] * i)
        words[lane] = [whole >> (32 * w) & 0xFFFFFFFF for w in range(words.shape[1])]
    return words


def unpack(kind: str, words: NDArray[np.uint32], shape: tuple[int, int], place: Place) -> NDArray[np.int64]:
    """The inverse of `pack`, for types of accumulators."""
    dtype = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "s32": np.int32}[kind]
    held = np.ascontiguousarray(words).view(dtype)
    matrix = np.zeros(shape, np.int64)
    for lane in range(32):
        for i in range(held.shape[1]):
            matrix[place(lane, i)] = int(held[lane, i])
    return matrix


def run_warps(
    opcode: str,
    inputs: Sequence[NDArray[np.uint32]],
    result_words: int,
    *,
    tail: str = "",
    wide: bool = False,
    target: str = "sm_90a",
    order: OrderName = "fifo",
    before: str = "",
    scalars: Sequence[NDArray[np.uint32]] = (),
) -> NDArray[np.uint32]:
    """Executes ``opcode {d...}, {a...}, {b...} tail`` in as many threads as the inputs have rows; each thread's vectors are its rows.
    `wide`: registers of 64 bits. `before` goes in front. `scalars`: further arrays, behind the inputs as parameters ``in<i>``, for
    `before` to read. Gives the words of D, (threads, result_words)."""
    threads = len(inputs[0])
    bits, step = (64, 8) if wide else (32, 4)
    lines: list[str] = []
    vectors: list[str] = []
    for at, words in enumerate(inputs):
        names = [f"v{at}_{i}" for i in range(words.shape[1] * 4 // step)]
        lines.append(f".reg .b{bits} {', '.join(names)};")
        lines.append(f"ld.param.u64 base, [in{at}]; mad.wide.u32 base, tid, {words.shape[1] * 4}, base;")
        lines += [f"ld.global.b{bits} {name}, [base+{step * i}];" for i, name in enumerate(names)]
        vectors.append("{" + ", ".join(names) + "}")
    results = [f"d{i}" for i in range(result_words * 4 // step)]
    lines.append(f".reg .b{bits} {', '.join(results)};")
    lines += [before, f"{opcode} {', '.join(['{' + ', '.join(results) + '}', *vectors])}{tail};"]
    lines.append(f"ld.param.u64 base, [out]; mad.wide.u32 base, tid, {result_words * 4}, base;")
    lines += [f"st.global.b{bits} [base+{step * i}], {name};" for i, name in enumerate(results)]
    given = [*inputs, *scalars]
    parameters = ", ".join([f".param .u64 in{at}" for at in range(len(given))] + [".param .u64 out"])
    text = kernel(parameters, "\n".join(lines), target)
    out = np.zeros((threads, result_words), np.uint32)
    arguments: list[Any] = [*(np.ascontiguousarray(words) for words in given), out]
    emulate(text, "k", 1, threads, arguments, order=order)
    return out


def kernel(parameters: str, body: str, target: str = "sm_90a") -> str:
    """PTX of a kernel `k`; `tid` is the thread."""
    return f"""
.version 8.8
.target {target}
.address_size 64
.visible .entry k({parameters})
{{
.reg .pred p, yes;
.reg .b32 tid;
.reg .b64 base;
mov.u32 tid, %tid.x;
{body}
ret;
}}
"""
