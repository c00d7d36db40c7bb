"""Runs a body in threads that each start from a word of their own and end with one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from tilec.backend.emulator.launch import Emulation, emulate

OrderName = Literal["fifo", "random", "adversarial"]
ORDERS: tuple[tuple[OrderName, int], ...] = (("fifo", 0), ("random", 1), ("random", 2), ("adversarial", 1))
NOTHING = 0xEEEEEEEE
"""What is left as the result of a thread that stores none."""


def kernel(body: str, top: str = "", target: str = "sm_90a") -> str:
    """A module with the kernel `k`. The body finds the thread's number in `t`, its word in `a` and the place of its result in
    `[o]`; what is in `d` at its end is stored there."""
    return f"""
.version 8.8
.target {target}
.address_size 64
{top}
.visible .entry k(.param .u64 words, .param .u64 results)
{{
    .reg .b32 a, d, t, r<16>;
    .reg .b64 o, x<16>;
    .reg .pred p<8>;
    mov.u32 t, %tid.x;
    ld.param.u64 o, [words];
    mad.wide.u32 o, t, 4, o;
    ld.global.u32 a, [o];
    ld.param.u64 o, [results];
    mad.wide.u32 o, t, 4, o;
{body}
    st.global.u32 [o], d;
    ret;
}}
"""


def run(
    body: str, words: Sequence[int], *, top: str = "", order: OrderName = "fifo", seed: int = 0
) -> tuple[list[int], Emulation]:
    """The results of the threads, one for each word, and what ran."""
    results = np.full(len(words), NOTHING, np.uint32)
    inputs = np.array([word & 0xFFFFFFFF for word in words], np.uint32)
    done = emulate(kernel(body, top), "k", 1, len(words), [inputs, results], order=order, seed=seed, file="k.ptx")
    return [int(value) for value in results], done
