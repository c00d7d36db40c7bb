"""Runs a few instructions with inputs and results of its own for each thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.launch import emulate

OrderName = Literal["fifo", "random", "adversarial"]
ORDERS: tuple[OrderName, ...] = ("fifo", "random", "adversarial")


def kernel(body: str, *, parameters: str = "", shared: str = "", target: str = "sm_90a") -> str:
    """PTX of a kernel `k` with this body and registers for it: %p, %r (b32), %x (b64), %q (b128), inputs %a and %A, results %d
    and %D, and %t, the number of the thread."""
    return f"""
.version 8.8
.target {target}
.address_size 64
.visible .entry k({parameters})
{{
    .reg .pred %p<16>;
    .reg .b32 %r<32>, %a<8>, %d<8>, %t;
    .reg .b64 %x<32>, %A<8>, %D<8>;
    .reg .b128 %q<4>;
    {shared}
    mov.u32 %t, %tid.x;
{body}
    ret;
}}
"""


def run_threads(
    body: str,
    inputs: Sequence[NDArray[Any]],
    results: Sequence[type[np.uint32 | np.uint64]] = (np.uint32,),
    *,
    shared: str = "",
    target: str = "sm_90a",
    order: OrderName = "fifo",
    seed: int = 0,
) -> list[NDArray[Any]]:
    """Runs `body` in as many threads as the inputs have values. Input i is in %ai, or %Ai if it has 64 bits; result i is taken
    from %di or %Di. Threads that exit before the end leave 0xEEEE_EEEE (repeated) as their results."""
    threads = len(inputs[0])
    prologue, epilogue, names = "", "", []
    for at, values in enumerate(inputs):
        bits, register = values.itemsize * 8, f"%{'a' if values.itemsize == 4 else 'A'}{at}"
        names.append(f"in{at}")
        prologue += _address(names[-1], values.itemsize) + f"    ld.global.b{bits} {register}, [%x31];\n"
    for at, kind in enumerate(results):
        size = np.dtype(kind).itemsize
        names.append(f"out{at}")
        epilogue += _address(names[-1], size) + f"    st.global.b{size * 8} [%x31], %{'d' if size == 4 else 'D'}{at};\n"
    parameters = ", ".join(f".param .u64 {name}" for name in names)
    arrays = [np.full(threads, 0xEEEE_EEEE_EEEE_EEEE & (2 ** (8 * np.dtype(k).itemsize) - 1), k) for k in results]
    text = kernel(prologue + body + epilogue, parameters=parameters, shared=shared, target=target)
    emulate(text, "k", 1, threads, [*(values.copy() for values in inputs), *arrays], order=order, seed=seed)
    return arrays


def _address(parameter: str, size: int) -> str:
    return f"""
    ld.param.u64 %x30, [{parameter}];
    mad.wide.u32 %x31, %t, {size}, %x30;
"""
