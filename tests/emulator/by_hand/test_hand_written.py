"""The hand-written kernels give in every order what NumPy says, and those that show instructions alone stop where they must."""

from __future__ import annotations

import re

import numpy as np
import pytest
from by_hand.hand_written import DATA, KERNELS, Kernel, run
from hypothesis import given, settings
from hypothesis import strategies as st

import tilec
from tilec.backend.emulator.faults import EmulatorFault, FaultKind

ORDERS = ("fifo", "random", "adversarial")
BY_NAME = {kernel.name: kernel for kernel in KERNELS}


def line_of(text: str, pattern: str) -> int:
    """The first line whose code matches from its start on."""
    found = re.search(rf"^[ \t]*(?={pattern})", text, re.MULTILINE)
    assert found
    return text.count("\n", 0, found.start()) + 1


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_result(kernel: Kernel, order: str) -> None:
    launch = kernel.launch()
    run(kernel.text(), launch, order)
    for result in launch.results:
        result.check()


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
@settings(max_examples=5)
@given(seed=st.integers(0, 2**31))
def test_result_of_any_interleaving(kernel: Kernel, seed: int) -> None:
    launch = kernel.launch()
    run(kernel.text(), launch, "random", seed)
    for result in launch.results:
        result.check()


def test_every_file_has_a_kernel() -> None:
    shown_alone = {"08_tcgen05_cp_st_blockscale.ptx"}
    assert {path.name for path in DATA.glob("*.ptx")} - shown_alone == {kernel.file for kernel in KERNELS}


@pytest.mark.parametrize("order", ORDERS)
def test_every_thread_of_mbarrier_arrives(order: str) -> None:
    launch = BY_NAME["mbarrier"].launch()
    emulation = run(BY_NAME["mbarrier"].text(), launch, order)
    counts = {opcode: n for opcode, n in emulation.opcodes.items() if "arrive" in opcode or "inval" in opcode}
    assert counts == {
        "mbarrier.arrive.expect_tx.shared::cta.b64": 1,
        "mbarrier.arrive.shared::cta.b64": 4,
        "mbarrier.arrive.release.cluster.shared::cluster.b64": 4,
        "mbarrier.inval.shared::cta.b64": 2,
    }


@pytest.mark.parametrize("order", ORDERS)
def test_mbarrier_with_the_parity_of_the_next_phase(order: str) -> None:
    """When the thread that completes phase 0 comes to its wait, nobody can complete phase 1."""
    text = BY_NAME["mbarrier"].text()
    with pytest.raises(EmulatorFault) as caught:
        tilec.emulate(text, "mbar", 1, 128, [np.uint32(1)], order=order)  # type: ignore[arg-type]
    assert caught.value.kind is FaultKind.DEADLOCK
    waits = line_of(text, r"mbarrier\.try_wait\.parity")
    assert f"<ptx>:{waits}:3: note: CTA (0, 0, 0), warp" in str(caught.value)
    assert "for phase 1 (parity 1) of the mbarrier at 0x400, which is in phase 1 and lacks 1 arrival" in str(
        caught.value
    )


@pytest.mark.parametrize("order", ORDERS)
def test_multicast_as_it_stands(order: str) -> None:
    """It stores nothing; each CTA receives its 8192 bytes."""
    launch = BY_NAME["multicast"].launch()
    text = (DATA / "03_tma_multicast_cluster.ptx").read_text()
    emulation = tilec.emulate(text, "mc", 2, 32, launch.arguments[:3], dynamic_smem=8192, order=order)  # type: ignore[arg-type]
    assert emulation.tma_load_bytes == 2 * 8192


@pytest.mark.parametrize("order", ORDERS)
def test_tcgen05_pair_as_it_stands(order: str) -> None:
    """All threads of both CTAs store the first element of their row to one address: one of them is there."""
    launch = BY_NAME["tcgen05_pair"].launch()
    emulation = run((DATA / "06_tcgen05_2cta_256x256x64.ptx").read_text(), launch, order)
    (result,) = launch.results
    stored, rest = result.array.ravel()[0], result.array.ravel()[1:]
    assert stored in result.expected[:, 0] and not rest.any()
    assert emulation.mmas == {"tcgen05.mma.cta_group::2.kind::f16": 4}


@pytest.mark.parametrize("order", ORDERS)
def test_block_scaled_as_it_stands(order: str) -> None:
    """Nobody has allocated the tensor memory that its first store writes; and all its warps store to the lanes of warp 0."""
    text = (DATA / "08_tcgen05_cp_st_blockscale.ptx").read_text()
    with pytest.raises(EmulatorFault) as caught:
        tilec.emulate(text, "bs", 1, 128, [np.uint64(0)] * 3 + [np.uint32(0)] * 2, order=order, file="08.ptx")  # type: ignore[arg-type]
    assert caught.value.kind is FaultKind.TENSOR_MEMORY
    thread = caught.value.place.thread
    assert thread is not None
    warp = thread[0] // 32
    what = (
        f" of warp {warp} at lanes 0-31 of tensor memory; a warp with that number reaches lanes {32 * warp}-{32 * warp + 31}, from a "
        "multiple of 16 on"
        if warp
        else " writes columns 0-3 of tensor memory, of which 0-3 are not allocated; allocated are none"
    )
    line = line_of(text, r"tcgen05\.st")
    assert str(caught.value).startswith(
        f"08.ptx:{line}:3: error: tensor memory: tcgen05.st{what} (kernel bs, CTA (0, 0, 0), thread {thread})\n"
    )


@pytest.mark.parametrize("order", ORDERS)
def test_reduction_as_it_stands(order: str) -> None:
    """It changes a tensor map in shared memory that something else must have put there."""
    launch = BY_NAME["reduction"].launch()
    text = (DATA / "09_tma_reduce_tensormap.ptx").read_text()
    with pytest.raises(EmulatorFault) as caught:
        tilec.emulate(text, "red", 1, 32, launch.arguments[:4], dynamic_smem=2048, order=order, file="09.ptx")  # type: ignore[arg-type]
    assert caught.value.kind is FaultKind.UNINITIALISED
    assert caught.value.place.instruction.line == line_of(text, r"@elect tensormap\.replace")
