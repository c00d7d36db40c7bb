"""What a program must not do with the tensor core: descriptors that are illegal, cells that are in flight or were never written."""

from __future__ import annotations

import numpy as np
import pytest
from tensor_operands import instruction_descriptor, matrix_descriptor, scaled_descriptor
from tensor_rig import move, program, run

from tilec.backend.emulator.faults import EmulatorFault, FaultKind, UnsupportedInstruction
from tilec.backend.emulator.launch import emulate

DENSE = matrix_descriptor(0x400, "128B", 16, 1024)
F16 = instruction_descriptor(128, 32, "f16", "f16")


def attempt(
    body: str, *, completion: str | None = None, filled: bool = True, group: int = 1, order: str = "fifo"
) -> None:
    image = np.zeros((group, 32 * 1024), np.uint8)
    tensor = np.zeros((group, 128, 64), np.uint32)
    run(body, image, tensor, completion=completion, filled=filled, order=order)  # type: ignore[arg-type]


def fault(body: str, **options: object) -> EmulatorFault:
    with pytest.raises(EmulatorFault) as caught:
        attempt(body, **options)  # type: ignore[arg-type]
    return caught.value


def mma(
    kind: str = "f16",
    *,
    a: int = DENSE,
    b: int = DENSE,
    bits: int = F16,
    d: int = 0,
    rest: str = "no",
    ws: str = "",
    group: int = 1,
) -> str:
    return (
        move("d0", a) + move("d1", b) + move("t0", d) + move("t1", bits) + move("t2", 32) + move("t3", 0)
        + f"tcgen05.mma{ws}.cta_group::{group}.kind::{kind} [t0], d0, d1, t1, {rest};\n"
    )  # fmt: skip


DESCRIPTORS: list[tuple[str, str, int, str]] = [
    # kind, .ws, instruction descriptor, what the message says
    ("f16", "", F16 | 1 << 6, "reserved bits must be 0, but set are 6"),
    ("f16", "", F16 | 1 << 23 | 1 << 29, "reserved bits must be 0, but set are 23, 29"),
    ("f16", "", F16 | 1 << 3, "saturation (bit 3) is for integers"),
    ("f16", "", F16 | 1 << 2, "bit 2 says that A is sparse, but the instruction is not"),
    ("f16", "", F16 | 2 << 4, "the type of D (bits 4-5) is 3; it is one of 0 (f16), 1 (f32)"),
    ("f16", "", F16 | 2 << 7, "the type of A (bits 7-9) is 2; it is one of 0 (f16), 1 (bf16)"),
    ("f16", "", F16 | 5 << 10, "the type of B (bits 10-12) is 5; it is one of 0 (f16), 1 (bf16)"),
    ("tf32", "", F16, "the type of A (bits 7-9) is 0; it is one of 2 (tf32)"),
    ("f8f6f4", "", instruction_descriptor(128, 32, "tf32", "e4m3"), "the type of A (bits 7-9) is 2; it is one of 0 (e4m3), 1 (e5m2), 3 (e2m3), 4 (e3m2), 5 (e2m1)"),
    ("i8", "", F16, "the type of D (bits 4-5) is 1; it is one of 2 (s32)"),
    ("i8", "", instruction_descriptor(128, 32, "s8", "s8", "s32", negated=(True, False)), "integers cannot be negated (bits 13-14 must be 0)"),
    ("f16", "", instruction_descriptor(128, 32, "bf16", "bf16", "f16"), "D is f16, but A and B are not (it is f32 for bf16)"),
    ("f16", "", instruction_descriptor(256, 32, "f16", "f16"), "M is 256; it is one of 64, 128 with cta_group::1"),
    ("f16", "", instruction_descriptor(128, 0, "f16", "f16"), "N is 0; it is one of 8, 16, ... 256 with cta_group::1"),
    ("f16", "", instruction_descriptor(128, 264, "f16", "f16"), "N is 264; it is one of 8, 16, ... 256 with cta_group::1"),
    ("i8", "", instruction_descriptor(128, 40, "s8", "s8", "s32"), "N is 40; it is one of 8, 16, 24, 32, 48,"),
    ("f16", ".ws", instruction_descriptor(128, 32, "f16", "f16"), "N is 32; it is one of 64, 128, 256 with .ws cta_group::1"),
    ("f16", ".ws", instruction_descriptor(256, 64, "f16", "f16"), "M is 256; it is one of 32, 64, 128 with .ws cta_group::1"),
    ("f8f6f4", "", instruction_descriptor(128, 24, "e4m3", "e4m3", transposed=(False, True)), "N is 24; it is one of 16, 32, ... 256"),
    ("f8f6f4", "", instruction_descriptor(128, 32, "e2m1", "e4m3", transposed=(True, False)), "A is e2m1, which cannot be transposed (bits 15-16)"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "ws", "bits", "message"), DESCRIPTORS)
def test_instruction_descriptors(kind: str, ws: str, bits: int, message: str) -> None:
    caught = fault(mma(kind, bits=bits, ws=ws))
    assert caught.kind is FaultKind.DESCRIPTOR
    assert f"illegal descriptor: instruction descriptor 0x{bits:08x} of kind::{kind}: {message}" in str(caught)
    assert caught.place.instruction.parts[:2] == ("tcgen05", "mma")


def test_shapes_of_pairs() -> None:
    bits = instruction_descriptor(64, 32, "f16", "f16")
    caught = fault(mma(bits=bits, group=2), group=2)
    assert "M is 64; it is one of 128, 256 with cta_group::2" in str(caught)
    bits = instruction_descriptor(256, 24, "f16", "f16")
    assert "N is 24; it is one of 16, 32, ... 256 with cta_group::2" in str(fault(mma(bits=bits, group=2), group=2))


def scaled(kind: str, bits: int, size: str = "") -> str:
    return mma(f"{kind}.block_scale{size}", bits=bits, rest="[t2], [t2], no")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (scaled("mxf4", scaled_descriptor(128, 32, "e2m1", "e2m1", "ue8m0", four_bit=True) | 1 << 31), "K = 96 (bit 31) is for sm_103a"),
        (scaled("mxf4", scaled_descriptor(128, 32, "e2m1", "e2m1", "ue8m0", four_bit=True, ids=(1, 0))), "the scale factor id of A (bits 29-30) is 1; it is one of 0, 2"),
        (scaled("mxf4", scaled_descriptor(128, 32, "e2m1", "e2m1", "ue4m3", four_bit=True)), "the type of the scale factors (bits 23) is 0; it is one of 1 (ue8m0)"),
        (scaled("mxf4", scaled_descriptor(128, 32, "e2m1", "e2m1", "ue8m0", four_bit=True) | 1 << 15), "A and B cannot be transposed (bits 15-16 must be 0)"),
        (scaled("mxf8f6f4", scaled_descriptor(256, 32, "e4m3", "e4m3", "ue8m0")), "M is 256; it is one of 128 with cta_group::1"),
        (scaled("mxf8f6f4", scaled_descriptor(128, 32, "e4m3", "e4m3", "ue8m0") | 1 << 24), "reserved bits must be 0, but set are 24"),
        (scaled("mxf4nvf4", scaled_descriptor(128, 32, "e2m1", "e2m1", "ue4m3", four_bit=True), ".block32"), "the scale factors are ue4m3 (bit 23 of the instruction descriptor is 0), which needs .scale_vec::4X"),
        (scaled("mxf4nvf4", scaled_descriptor(128, 32, "e2m1", "e2m1", "ue4m3", four_bit=True, ids=(0, 2)), ".block16"), "the scale factor id of B in the instruction descriptor is 2; with .scale_vec::4X it is 0"),
    ],
)  # fmt: skip
def test_scaled_descriptors(text: str, message: str) -> None:
    caught = fault(text)
    assert caught.kind is FaultKind.DESCRIPTOR
    assert message in str(caught)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (mma(a=DENSE & ~(1 << 46)), "A: bits 46-48 of the matrix descriptor"),
        (mma(b=DENSE | 1 << 55), "B: bits 55 of the matrix descriptor"),
        (mma(b=DENSE | 1 << 52), "B: bit 52 of the matrix descriptor"),
        (mma(a=DENSE & ~(7 << 61) | 3 << 61), "there is no swizzle 3; there are 0 (none), 1 (128B with 32-byte atoms), 2 (128B), 4 (64B) and 6 (32B)"),
        (mma("tf32", bits=instruction_descriptor(128, 32, "tf32", "tf32", transposed=(True, False))), "A is tf32 and transposed, which needs swizzle 1 (128B with 32-byte atoms) in its matrix descriptor, not 128B"),
        (mma(b=matrix_descriptor(0x400, "128B_ATOM_32B", 16, 512), bits=instruction_descriptor(128, 64, "f16", "f16", transposed=(False, True))), "B is f16 and transposed, which swizzle 1 (128B with 32-byte atoms) of its matrix descriptor is not for; it is one of 0 (none), 2 (128B), 4 (64B) and 6 (32B)"),
    ],
)  # fmt: skip
def test_matrix_descriptors(text: str, message: str) -> None:
    caught = fault(text)
    assert caught.kind is FaultKind.DESCRIPTOR
    assert message in str(caught)


def test_matrices_outside_of_shared_memory() -> None:
    caught = fault(mma(a=matrix_descriptor(0x400 + 24 * 1024, "128B", 16, 1024)))
    assert caught.kind is FaultKind.OUT_OF_BOUNDS
    assert "tcgen05.mma accesses shared memory at 0x" in str(caught)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (mma(d=16 << 16), "D of M = 128 at lane 16 of tensor memory; with this shape it begins at lane 0"),
        (mma(d=8 << 16, bits=instruction_descriptor(64, 32, "f16", "f16")), "D of M = 64 at lane 8 of tensor memory; with this shape it begins at lane 0 or 16"),
        (mma(d=500), "tcgen05.mma writes columns 500-531 of tensor memory, of which 512-531 are not allocated; allocated are 0-511"),
        (move("t4", 16 << 16) + mma().replace("d0, d1", "[t4], d1"), "A at lane 16 of tensor memory; with D of M = 128 at lane 0 it begins at lane 0"),
    ],
)  # fmt: skip
def test_places_in_tensor_memory(text: str, message: str) -> None:
    caught = fault(text)
    assert caught.kind is FaultKind.TENSOR_MEMORY
    assert message in str(caught)


def test_accumulation_onto_nothing() -> None:
    caught = fault(mma(rest="yes"), filled=False)
    assert caught.kind is FaultKind.UNINITIALISED
    assert (
        "tcgen05.mma accumulates onto tensor memory at lane 0, column 0, where nothing has been written since it was allocated"
        in str(caught)
    )


def test_reading_what_was_never_written() -> None:
    caught = fault(mma(), filled=False)
    assert caught.kind is FaultKind.UNINITIALISED
    assert "tcgen05.ld reads tensor memory at lane 0, column 32, where nothing has been written" in str(caught)


COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [mbar];\n"
ARRIVE = "mbarrier.arrive.shared::cta.b64 _, [mbar];\n"


@pytest.mark.parametrize("order", ["fifo", "random", "adversarial"])
def test_a_load_before_completion(order: str) -> None:
    """Nothing waits for the product: the barrier is arrived on by the thread itself."""
    caught = fault(mma(), completion=ARRIVE, order=order)
    assert caught.kind is FaultKind.IN_FLIGHT
    line = next(i for i, text in enumerate(_program_lines(mma(), ARRIVE), 1) if "tcgen05.mma" in text)
    assert (
        f"tcgen05.ld reads lanes 0-127, columns 0-31 of tensor memory, which tcgen05.mma of line {line} still writes"
        in str(caught)
    )
    assert "the thread that issued it executes tcgen05.commit, and the mbarrier is waited for first" in str(caught)


def _program_lines(body: str, completion: str) -> list[str]:
    return program(body, 32 * 1024, 64, 1, completion=completion).splitlines()


def test_a_product_onto_another_accumulator_that_overlaps() -> None:
    """Products are ordered only on one accumulator and with one shape (9.7.16.6.2)."""
    caught = fault(mma() + mma(d=16))
    assert caught.kind is FaultKind.IN_FLIGHT
    assert "tcgen05.mma writes lanes 0-127, columns 0-31 of tensor memory, which tcgen05.mma of line" in str(caught)


def test_a_product_that_reads_a_result_in_flight() -> None:
    caught = fault(mma() + move("t4", 0) + mma(d=32).replace("d0, d1", "[t4], d1"))
    assert caught.kind is FaultKind.IN_FLIGHT
    assert "tcgen05.mma reads lanes 0-127, columns 0-31 of tensor memory, which tcgen05.mma of line" in str(caught)


def test_products_beside_one_another() -> None:
    attempt(mma() + mma(d=32) + mma(rest="yes"))


def test_a_copy_onto_a_result_in_flight() -> None:
    caught = fault(mma() + "tcgen05.cp.cta_group::1.128x128b [t3], d0;\n")
    assert "tcgen05.cp writes lanes 0-127, columns 0-31 of tensor memory, which tcgen05.mma of line" in str(caught)


def test_shared_memory_is_read_until_the_commit() -> None:
    """The stage is overwritten although no commit has said that the product has read it."""
    caught = fault(mma() + "st.shared.b32 [dynamic], t0;\n", order="adversarial")
    assert caught.kind is FaultKind.IN_FLIGHT
    assert "shared memory at 0x400 are written, but at 0x400 tcgen05.mma of line" in str(caught)


def test_missing_proxy_fence() -> None:
    caught = fault("st.shared.b32 [dynamic], t0;\n" + mma())
    assert caught.kind is FaultKind.PROXY_FENCE
    assert "tcgen05.mma reads shared memory at 0x400 through the async proxy" in str(caught)


def test_commit_on_no_barrier() -> None:
    caught = fault(mma(), completion=COMMIT.replace("[mbar]", "[mbar+8]"))
    assert caught.kind is FaultKind.MBARRIER


@pytest.mark.parametrize("order", ["fifo", "random", "adversarial"])
def test_a_commit_of_another_thread_covers_nothing(order: str) -> None:
    """Thread 1 commits what thread 0 issued: that commit has nothing to wait for."""
    text = program(mma(), 32 * 1024, 32, 1, completion="").replace(
        " bar.warp.sync 0xffffffff;", f" bar.warp.sync 0xffffffff;\n setp.eq.u32 p, tid, 1;\n @p {COMMIT}"
    )
    zeros = np.zeros((1, 128, 32), np.uint32)
    arguments = [np.zeros(32 * 1024, np.uint8), zeros, zeros.copy()]
    with pytest.raises(EmulatorFault) as caught:
        emulate(text, "rig", 1, 128, arguments, dynamic_smem=32 * 1024 + 16, order=order)  # type: ignore[arg-type]
    assert caught.value.kind is FaultKind.IN_FLIGHT
    assert "tcgen05.ld reads lanes 0-127, columns 0-31 of tensor memory" in str(caught.value)


UNSUPPORTED = [
    ("tcgen05.shift.cta_group::1.down [t0];", "the emulator does not shift rows of tensor memory"),
    ("tcgen05.mma.cta_group::1.kind::f16.ashift [t0], [t0], d1, t1, no;", "the emulator does not shift A"),
    ("tcgen05.ld.red.sync.aligned.32x32b.x2.max.f32 {t0, t1}, t2, [t3];", "loads with a reduction are not for sm_100a"),
    ("tcgen05.mma.cta_group::1.kind::f16 [t0], d0, d1, t1, no, 16;", "scale-input-d is a constant from 0 to 15"),
    ("tcgen05.mma.cta_group::1.kind::i8 [t0], d0, d1, t1, no, 1;", "1 operands too many"),
    ("tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale [t0], d0, d1, t1, [t2], [t3], no;", ".kind::mxf4nvf4 needs the size of its scale vectors"),
    ("tcgen05.mma.cta_group::1.kind::f16.collector::b0::use [t0], d0, d1, t1, no;", "the emulator does not know .collector::b0::use here"),
    ("tcgen05.cp.cta_group::1.64x128b [t0], d0;", "no shape with that multicast"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), UNSUPPORTED)
def test_what_stops_by_name(text: str, message: str) -> None:
    with pytest.raises(UnsupportedInstruction) as caught:
        attempt(text + "\n")
    assert message in str(caught.value)
    assert caught.value.instruction.opcode in text


@pytest.mark.parametrize("target", ["sm_90a", "sm_100", "sm_120a"])
def test_other_targets(target: str) -> None:
    text = program(mma(), 32 * 1024, 32, 1).replace(".target sm_100a", f".target {target}")
    zeros = np.zeros((1, 128, 32), np.uint32)
    arguments = [np.zeros(32 * 1024, np.uint8), zeros, zeros.copy()]
    with pytest.raises(UnsupportedInstruction, match=rf"tcgen05 exists on sm_100a, .*, not on {target}"):
        emulate(text, "rig", 1, 128, arguments, dynamic_smem=32 * 1024 + 16)


def test_zero_columns_that_are_shifted() -> None:
    with pytest.raises(UnsupportedInstruction, match="the emulator does not shift columns"):
        attempt(
            move("d2", 1 << 56 | 1 << 39)
            + mma(ws=".ws", bits=instruction_descriptor(128, 64, "f16", "f16"), rest="no, d2")
        )


def test_scales_that_differ_between_partitions() -> None:
    """Partition 1 holds other scale factors than partition 0 (9.7.16.10.7: they are duplicated)."""
    image = np.zeros((1, 32 * 1024), np.uint8)
    tensor = np.zeros((1, 128, 64), np.uint32)
    tensor[0, 33, 32] = 1
    text = scaled("mxf8f6f4", scaled_descriptor(128, 32, "e4m3", "e4m3", "ue8m0"))
    with pytest.raises(EmulatorFault) as caught:
        run(text, image, tensor)
    assert caught.value.kind is FaultKind.TENSOR_MEMORY
    assert "the scale factors of A differ between the partitions of 32 lanes" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tcgen05.ld.sync.aligned.32x32b.x1.b32 {t0}, [t3];", "tcgen05.ld of warp 1 at lanes 0-31 of tensor memory; a warp with that number reaches lanes 32-63"),
        ("tcgen05.st.sync.aligned.16x64b.x1.b32 [t3+1048576], {t0};", "tcgen05.st of warp 1 at lanes 16-31 of tensor memory; a warp with that number reaches lanes 32-63"),
    ],
)  # fmt: skip
def test_lanes_of_other_warps(text: str, message: str) -> None:
    with pytest.raises(EmulatorFault) as caught:
        _whole_warps(text)
    assert caught.value.kind is FaultKind.TENSOR_MEMORY
    assert message in str(caught.value)


def _whole_warps(text: str) -> None:
    """All warps execute `text` once tensor memory is filled."""
    whole = program("", 1024, 32, 1, completion=ARRIVE).replace(
        " setp.eq.and.u32 first, rank, 0, first;", f" mov.u32 t3, 0;\n {text}\n setp.eq.and.u32 first, rank, 0, first;"
    )
    zeros = np.zeros((1, 128, 32), np.uint32)
    emulate(whole, "rig", 1, 128, [np.zeros(1024, np.uint8), zeros, zeros.copy()], dynamic_smem=1040)


def test_a_store_that_a_product_does_not_wait_for() -> None:
    """No tcgen05.wait::st between a store and a product onto its cells."""
    text = program(mma(), 32 * 1024, 32, 1).replace(" tcgen05.wait::st.sync.aligned;", "")
    zeros = np.zeros((1, 128, 32), np.uint32)
    with pytest.raises(EmulatorFault) as caught:
        emulate(text, "rig", 1, 128, [np.zeros(32 * 1024, np.uint8), zeros, zeros.copy()], dynamic_smem=32 * 1024 + 16)
    assert caught.value.kind is FaultKind.IN_FLIGHT
    assert "columns 0-31 of tensor memory, which tcgen05.st of line" in str(caught.value)
    assert "the warp that stores executes tcgen05.wait::st first" in str(caught.value)
