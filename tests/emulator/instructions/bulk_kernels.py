"""Kernels around bulk copies: fill shared memory, copy, wait, and bring all of shared memory back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from tilec.backend.emulator.faults import EmulatorFault, FaultKind
from tilec.backend.emulator.launch import Emulation, emulate
from tilec.backend.emulator.tensor_map import TensorMap

OrderName = Literal["fifo", "random", "adversarial"]
ORDERS: tuple[OrderName, ...] = ("fifo", "random", "adversarial")
TILE = 0x800
"""Where the tile lies in the shared window, 1024 bytes behind the start of the CTA's own."""


def kernel(
    body: str,
    *,
    parameters: Sequence[str] = (),
    maps: Sequence[str] = (),
    target: str = "sm_100a",
    size: int = 8192,
    cluster: int = 1,
) -> str:
    """PTX of a kernel `k`. Each of `maps` is a tensor map and a register with its generic address; each of `parameters` is a pointer,
    with a register of its name. %s is the address of `size` bytes of shared memory, %b that of four mbarriers, %t the thread."""
    declared = ", ".join([f".param .align 64 .b8 {m}_[128]" for m in maps] + [f".param .u64 {p}_" for p in parameters])
    reads = "".join(f"mov.b64 {m}, {m}_; cvta.param.u64 {m}, {m};\n" for m in maps)
    reads += "".join(f"ld.param.u64 {p}, [{p}_];\n" for p in parameters)
    registers = "".join(f".reg .b64 {name};\n" for name in (*maps, *parameters))
    return f"""
.version 8.8
.target {target}
.address_size 64
.visible .entry k({declared})
{f".reqnctapercluster {cluster}, 1, 1" if cluster > 1 else ""}
{{
.reg .pred %p<16>;
.reg .b16 %h<16>;
.reg .b32 %r<64>, %s, %b, %t;
.reg .b64 %x<32>;
{registers}
.shared .align 8 .b64 bars[4];
.shared .align 1024 .b8 tile[{size}];
mov.u32 %s, tile;
mov.u32 %b, bars;
mov.u32 %t, %tid.x;
setp.eq.u32 %p0, %t, 0;
{reads}
{body}
ret;
}}
"""


def barrier(count: int = 1) -> str:
    """Thread 0 initialises the barrier at %b; all threads of the CTA know."""
    return f"@%p0 mbarrier.init.shared::cta.b64 [%b], {count};\nfence.mbarrier_init.release.cluster;\nbar.sync 0;\n"


def expect(count: int) -> str:
    return f"@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], {count};\n"


def wait(parity: int = 0, label: str = "W") -> str:
    return f"{label}: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%b], {parity};\n@!%p1 bra {label};\n"


def fill(size: int, source: str | None = None, *, fence: bool = True) -> str:
    """Thread 0 writes `size` bytes of the tile, zeros or those at `source`, and fences."""
    lines = "mov.u32 %r60, 0;\n"
    for at in range(0, size, 4):
        lines += f"@%p0 ld.global.u32 %r60, [{source}+{at}];\n" if source else ""
        lines += f"@%p0 st.shared.u32 [%s+{at}], %r60;\n"
    return lines + ("fence.proxy.async.shared::cta;\n" if fence else "") + "bar.sync 0;\n"


def dump(size: int, target: str = "out") -> str:
    """Thread 0 brings `size` bytes of the tile to `target`."""
    lines = ""
    for at in range(0, size, 16):
        lines += f"@%p0 ld.shared.v4.u32 {{%r60, %r61, %r62, %r63}}, [%s+{at}];\n"
        lines += f"@%p0 st.global.v4.u32 [{target}+{at}], {{%r60, %r61, %r62, %r63}};\n"
    return lines


def run(
    text: str, args: Sequence[Any], *, grid: int = 1, threads: int = 32, order: OrderName = "fifo", seed: int = 0
) -> Emulation:
    return emulate(text, "k", grid, threads, args, order=order, seed=seed)


def fault(
    text: str, args: Sequence[Any], kind: FaultKind, *, grid: int = 1, threads: int = 32, order: OrderName = "fifo"
) -> str:
    """The first line of the fault that the kernel ends with, without the place."""
    with pytest.raises(EmulatorFault) as caught:
        run(text, args, grid=grid, threads=threads, order=order)
    assert caught.value.kind is kind, caught.value
    line = str(caught.value).splitlines()[0]
    return line.split(f"error: {kind.value}: ", 1)[1].rsplit(" (kernel k", 1)[0]


def numbered(*shape: int, dtype: str = "uint16") -> NDArray[Any]:
    """An array of which every element is another."""
    return np.arange(1, int(np.prod(shape)) + 1).astype(dtype).reshape(shape)


def loaded(
    map: TensorMap,
    start: Sequence[int],
    expected: int,
    *,
    size: int | None = None,
    order: OrderName = "fifo",
    seed: int = 0,
) -> NDArray[np.uint8]:
    """The first bytes of the tile after one box has been loaded over zeros."""
    size = size or expected
    rank = map.array.ndim
    coordinates = ", ".join(str(c) for c in start)
    body = (
        fill(size)
        + barrier()
        + expect(expected)
        + f"@%p0 cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        + f"[%s], [m, {{{coordinates}}}], [%b];\n"
        + wait()
        + dump(size)
    )
    out = np.zeros(size, np.uint8)
    run(kernel(body, maps=["m"], parameters=["out"]), [map, out], order=order, seed=seed)
    return out
