"""Kernels around a few memory instructions: arrays of the host as pointers, and registers of every kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import pytest
from numpy.typing import NDArray

from tilec.backend.emulator.faults import EmulatorFault, FaultKind, UnsupportedInstruction
from tilec.backend.emulator.launch import Emulation, emulate

OrderName = Literal["fifo", "random", "adversarial"]
ORDERS: tuple[OrderName, ...] = ("fifo", "random", "adversarial")


def kernel(
    body: str, pointers: int, *, module: str = "", inside: str = "", target: str = "sm_90a", cluster: int = 1
) -> str:
    """PTX of a kernel `k` whose parameters are pointers: the first is in %a, the second in %b, the third in %c. %t is the thread,
    %h (b16), %r (b32), %x (b64), %q (b128), %f (f32), %d (f64) and %p (predicates) are free. `module` and `inside` are declared
    outside and inside of the kernel."""
    names = "abc"[:pointers]
    loads = "".join(f"    ld.param.u64 %{n}, [in_{n}];\n" for n in names)
    return f"""
.version 8.8
.target {target}
.address_size 64
{module}
.visible .entry k({", ".join(f".param .u64 in_{n}" for n in names)})
{f".reqnctapercluster {cluster}, 1, 1" if cluster > 1 else ""}
{{
    .reg .pred %p<8>;
    .reg .b16 %h<32>;
    .reg .b32 %r<32>, %t;
    .reg .b64 %x<32>, %a, %b, %c;
    .reg .b128 %q<8>;
    .reg .f32 %f<16>;
    .reg .f64 %d<16>;
    {inside}
    mov.u32 %t, %tid.x;
{loads}
{body}
    ret;
}}
"""


def run(
    body: str,
    arrays: Sequence[NDArray[Any]],
    *,
    threads: int = 1,
    grid: int = 1,
    module: str = "",
    inside: str = "",
    target: str = "sm_90a",
    cluster: int = 1,
    order: OrderName = "fifo",
    seed: int = 0,
) -> Emulation:
    """Run a body once; the arrays are changed in place."""
    text = kernel(body, len(arrays), module=module, inside=inside, target=target, cluster=cluster)
    return emulate(text, "k", grid, threads, arrays, order=order, seed=seed)


def fault(body: str, arrays: Sequence[NDArray[Any]], kind: FaultKind, **options: Any) -> str:
    """What the fault says that a body ends with, without the place; the place must be the line with ``// here``."""
    text = kernel(
        body, len(arrays), **{k: v for k, v in options.items() if k in ("module", "inside", "target", "cluster")}
    )
    with pytest.raises(EmulatorFault) as caught:
        run(body, arrays, **options)
    found = caught.value
    assert found.kind is kind, found
    marked = [n for n, line in enumerate(text.splitlines(), 1) if "// here" in line]
    assert [found.place.instruction.line] == marked, found
    line = str(found).splitlines()[0]
    return line.split(f"error: {kind.value}: ", 1)[1].rsplit(" (kernel k", 1)[0]


def refused(instruction: str, *, module: str = "", inside: str = "", target: str = "sm_90a") -> str:
    """Why the emulator does not take an instruction."""
    with pytest.raises(UnsupportedInstruction) as caught:
        emulate(kernel(instruction, 0, module=module, inside=inside, target=target), "k", 1, 1, [])
    return str(caught.value).splitlines()[0].split("error: ", 1)[1]
