"""tensormap.replace, tensormap.cp_fenceproxy and the tensormap proxy fences: maps that threads make."""

from __future__ import annotations

import numpy as np
import pytest
from bulk_kernels import ORDERS, TILE, OrderName, barrier, dump, expect, fault, kernel, numbered, run, wait

from tilec.backend.emulator.faults import FaultKind, UnsupportedInstruction
from tilec.backend.emulator.tensor_map import TensorMap

LOAD = "@%p0 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%s], "
ACQUIRE = "fence.proxy.tensormap::generic.acquire.gpu [{map}], 128;\n"
RELEASE = "fence.proxy.tensormap::generic.release.gpu;\n"


def copy(source: str, target: str, space: str) -> str:
    """Thread 0 copies 128 bytes of the map to shared or global memory."""
    lines = ""
    for at in range(0, 128, 16):
        lines += f"@%p0 ld.v2.u64 {{%x20, %x21}}, [{source}+{at}];\n@%p0 st.{space}.v2.u64 [{target}+{at}], {{%x20, %x21}};\n"
    return lines


def replace(
    field: str, value: str, *, space: str = "shared::cta", address: str = "%s", ordinal: int | None = None
) -> str:
    type = "b64" if field in ("global_address", "global_stride") else "b32"
    order = "" if ordinal is None else f", {ordinal}"
    return f"@%p0 tensormap.replace.tile.{field}.{space}.b1024.{type} [{address}]{order}, {value};\n"


CP_FENCE = "bar.warp.sync 0xffffffff;\ntensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [work], [%s], 128;\n"


@pytest.mark.parametrize("order", ORDERS)
def test_a_map_is_changed_in_shared_memory_and_used_from_global_memory(order: OrderName) -> None:
    a, other = numbered(8, 16), numbered(16, 32) + 1000
    out, work = np.zeros(256, np.uint8), np.zeros(128, np.uint8)
    body = copy("m", "%s", "shared::cta")
    body += (
        replace("global_address", "other")
        + replace("global_dim", "32", ordinal=0)
        + replace("global_dim", "16", ordinal=1)
    )
    body += replace("global_stride", "64", ordinal=0) + CP_FENCE + ACQUIRE.format(map="work") + "bar.sync 0;\n"
    body += "@%p0 fence.proxy.async.shared::cta;\n" + barrier() + expect(256)
    body += LOAD + "[work, {16, 8}], [%b];\n" + wait() + dump(256)
    run(
        kernel(body, maps=["m"], parameters=["other", "out", "work"]),
        [TensorMap(a, (8, 16), None), other, out, work],
        order=order,
    )
    assert out.view(np.uint16).reshape(8, 16).tolist() == other[8:16, 16:].tolist()


@pytest.mark.parametrize("blank", [True, False])
def test_all_fields_can_be_changed(blank: bool) -> None:
    """What is left of the first map is nothing, and there need not be one: 128 zeros will do."""
    a, other = numbered(8, 16), np.zeros((3, 4, 10, 16), np.float32)
    other[...] = numbered(3, 4, 10, 16, dtype="float32")
    out, work = np.zeros(512, np.uint8), np.zeros(128, np.uint8)
    body = "" if blank else copy("m", "work", "global")
    for field, value, ordinal in [
        ("global_address", "other", None),
        ("rank", "3", None),
        ("global_dim", "16", 0),
        ("global_dim", "10", 1),
        ("global_dim", "4", 2),
        ("global_dim", "2", 3),
        ("global_stride", "64", 0),
        ("global_stride", "640", 1),
        ("global_stride", "2560", 2),
        ("box_dim", "8", 0),
        ("box_dim", "7", 1),
        ("box_dim", "1", 2),
        ("box_dim", "2", 3),
        ("element_stride", "1", 0),
        ("element_stride", "2", 1),
        ("element_stride", "1", 2),
        ("element_stride", "1", 3),
        ("elemtype", "7", None),
        ("interleave_layout", "0", None),
        ("swizzle_mode", "1", None),
        ("swizzle_atomicity", "0", None),
        ("fill_mode", "1", None),
    ]:
        body += replace(field, value, space="global", address="work", ordinal=ordinal)
    body += RELEASE + ACQUIRE.format(map="work") + barrier() + expect(256)
    body += LOAD.replace("2d", "4d") + "[work, {8, 3, 1, 1}], [%b];\n" + wait() + dump(256)
    run(kernel(body, maps=["m"], parameters=["other", "out", "work"]), [TensorMap(a, (8, 16), None), other, out, work])
    # Rows of 32 bytes with the 32-byte swizzle: lines of 128 bytes have four rows, and the halves change places in every other.
    found = out[:256].view(np.float32).reshape(2, 4, 2, 4)
    expected = np.full((2, 4, 8), np.nan, np.float32)
    expected[0] = other[1, 1, 3:10:2, 8:]
    for image in range(2):
        for row in range(4):
            halves = found[image, row][::-1] if image == 1 else found[image, row]
            np.testing.assert_array_equal(halves.ravel(), expected[image, row])


@pytest.mark.parametrize(
    ("fences", "missing"), [("", "release"), (RELEASE, "acquire"), (ACQUIRE.format(map="work"), "release"), (ACQUIRE.format(map="work") + RELEASE, "acquire")]
)  # fmt: skip
def test_a_changed_map_needs_both_fences(fences: str, missing: str) -> None:
    body = copy("m", "work", "global") + replace("global_address", "other", space="global", address="work") + fences
    body += barrier() + expect(256) + LOAD + "[work, {0, 0}], [%b];\n" + wait()
    arguments = [TensorMap(numbered(8, 16), (8, 16), None), numbered(8, 16), np.zeros(128, np.uint8)]
    message = fault(kernel(body, maps=["m"], parameters=["other", "work"]), arguments, FaultKind.PROXY_FENCE)
    assert message.startswith("the tensor map at address 0x700401000000, in array work_, was changed in line ")
    assert message.endswith(f", and no fence.proxy.tensormap::generic.{missing} has followed")


def test_a_map_that_was_copied_with_its_release_needs_an_acquire() -> None:
    body = (
        copy("m", "%s", "shared::cta") + CP_FENCE + barrier() + expect(256) + LOAD + "[work, {0, 0}], [%b];\n" + wait()
    )
    arguments = [TensorMap(numbered(8, 16), (8, 16), None), np.zeros(128, np.uint8)]
    message = fault(kernel(body, maps=["m"], parameters=["work"]), arguments, FaultKind.PROXY_FENCE)
    assert message.endswith("no fence.proxy.tensormap::generic.acquire has followed")


def test_a_map_that_has_become_invalid() -> None:
    body = copy("m", "work", "global") + replace("box_dim", "4", space="global", address="work", ordinal=0)
    body += RELEASE + ACQUIRE.format(map="work") + barrier() + LOAD + "[work, {0, 0}], [%b];\n"
    arguments = [TensorMap(numbered(8, 16), (8, 16), None), np.zeros(128, np.uint8)]
    message = fault(kernel(body, maps=["m"], parameters=["work"]), arguments, FaultKind.DESCRIPTOR)
    assert message == (
        "the tensor map at address 0x700201000000, in array work_ is not valid: a box of 4 elements along the innermost dimension has 8 "
        "bytes, no multiple of 16"
    )


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("@%p0 st.global.u32 [work], 5;\n" + replace("rank", "1", space="global", address="work"), FaultKind.DESCRIPTOR, "no tensor map at address 0x700001000000"),
        (replace("rank", "1", space="global", address="work+16"), FaultKind.MISALIGNED, "the tensor map's address 0x700001000010 is not a multiple of 64 bytes"),
        (replace("rank", "1"), FaultKind.UNINITIALISED, f"16 bytes of shared memory at 0x{TILE:x} are read, but nothing has been written at 0x{TILE:x}"),
    ],
)  # fmt: skip
def test_there_must_be_a_map_to_change(text: str, kind: FaultKind, message: str) -> None:
    assert fault(kernel(text, parameters=["work"]), [np.zeros(256, np.uint8)], kind) == message


def test_zeros_are_no_map_to_copy_through() -> None:
    body = barrier() + expect(256) + LOAD + "[work, {0, 0}], [%b];\n"
    message = fault(kernel(body, parameters=["work"]), [np.zeros(256, np.uint8)], FaultKind.DESCRIPTOR)
    assert message == "no tensor map at address 0x700001000000, in array work_"


@pytest.mark.parametrize(
    "instruction",
    [
        "tensormap.replace.tile.global_address.global.b1024.b32 [work], %r0;",
        "tensormap.replace.tile.rank.global.b1024.b64 [work], %x0;",
        "tensormap.replace.im2col.rank.global.b1024.b32 [work], 1;",
        "tensormap.replace.tile.elemtype.global.b1024.b32 [work], 16;",
        "tensormap.replace.tile.elemtype.global.b1024.b32 [work], %r0;",
        "tensormap.replace.tile.swizzle_mode.global.b1024.b32 [work], 4;",
        "tensormap.replace.tile.global_stride.global.b1024.b64 [work], 4, %x0;",
        "tensormap.replace.tile.box_dim.global.b1024.b32 [work], %r0, %r1;",
        "tensormap.replace.tile.pixels.global.b1024.b32 [work], 1;",
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [work], [%s], 64;",
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.sync.aligned [work], [%s], 128;",
        "fence.proxy.tensormap::generic.acquire.gpu [work], 64;",
        "fence.proxy.tensormap::generic.acq_rel.gpu;",
    ],
)
def test_forms_that_do_not_exist_or_are_not_done_stop(instruction: str) -> None:
    with pytest.raises(UnsupportedInstruction):
        run(kernel(instruction, parameters=["work"]), [np.zeros(128, np.uint8)])
