"""cp.async.bulk and cp.reduce.async.bulk: bytes side by side, between global memory and shared memory of a cluster."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from bulk_kernels import ORDERS, TILE, OrderName, barrier, dump, expect, fault, fill, kernel, numbered, run, wait

from tilec.backend.emulator.faults import FaultKind, UnsupportedInstruction

LOAD = "@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
STORE = "@%p0 cp.async.bulk.global.shared::cta.bulk_group"
DONE = "@%p0 cp.async.bulk.commit_group;\n@%p0 cp.async.bulk.wait_group 0;\n"
MEET = "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n"
RANK = "mov.u32 %r10, %cluster_ctarank;\n"


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "modifiers",
    [
        "shared::cluster.global.mbarrier::complete_tx::bytes",
        "shared::cta.global.mbarrier::complete_tx::bytes",
        "shared::cta.global.mbarrier::complete_tx::bytes.L2::cache_hint",
        "shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster",
        "shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint",
    ],
)
def test_from_global_memory(modifiers: str, order: OrderName) -> None:
    source, out = numbered(256, dtype="uint8"), np.zeros(128, np.uint8)
    more = (", 1" if "multicast" in modifiers else "") + (", 0" if "hint" in modifiers else "")
    body = fill(128) + barrier() + expect(96) + "mov.u32 %r0, 96;\n"
    body += f"@%p0 cp.async.bulk.{modifiers} [%s+16], [src+48], %r0, [%b]{more};\n" + wait() + dump(128)
    result = run(kernel(body, parameters=["src", "out"]), [source, out], order=order)
    assert out.tolist() == [0] * 16 + source[48:144].tolist() + [0] * 16
    assert result.tma_load_bytes == 96


@pytest.mark.parametrize("order", ORDERS)
def test_multicast_to_some_ctas_of_a_cluster(order: OrderName) -> None:
    source, out = numbered(64, dtype="uint8"), np.zeros((4, 64), np.uint8)
    body = RANK + fill(64) + barrier() + MEET + "setp.ne.u32 %p4, %r10, 1;\nand.pred %p5, %p4, %p0;\n"
    body += "@%p5 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 64;\nsetp.eq.and.u32 %p2, %r10, 3, %p0;\n"
    body += (
        f"{LOAD.replace('%p0', '%p2')}.multicast::cluster [%s], [src], 64, [%b], 13;\n@!%p4 bra END;\n"
        + wait()
        + "END:\n"
    )
    body += "mad.wide.u32 out, %r10, 64, out;\n" + dump(64) + MEET
    run(kernel(body, parameters=["src", "out"], cluster=4), [source, out], grid=4, order=order)
    assert out.tolist() == [source.tolist(), [0] * 64, source.tolist(), source.tolist()]


@pytest.mark.parametrize("order", ORDERS)
def test_to_global_memory(order: OrderName) -> None:
    source, out = numbered(64, dtype="uint8"), np.zeros(96, np.uint8)
    body = fill(64, "src") + f"{STORE}.L2::cache_hint [out+32], [%s+16], 48, 0;\n" + DONE
    result = run(kernel(body, parameters=["src", "out"]), [source, out], order=order)
    assert out.tolist() == [0] * 32 + source[16:].tolist() + [0] * 16
    assert result.tma_store_bytes == 48


@pytest.mark.parametrize("mask", [0, 1, 0x8001, 0xFFFF, 0x0F0F])
@pytest.mark.parametrize("hint", [False, True])
def test_a_byte_mask_says_which_of_16_bytes_are_copied(mask: int, hint: bool) -> None:
    source, out = numbered(48, dtype="uint8"), np.full(48, 0xEE, np.uint8)
    policy, modifier = (", 0", ".L2::cache_hint") if hint else ("", "")
    body = fill(48, "src") + f"mov.u16 %h0, {mask};\n{STORE}{modifier}.cp_mask [out], [%s], 48{policy}, %h0;\n" + DONE
    run(kernel(body, parameters=["src", "out"]), [source, out])
    assert out.tolist() == [source[i] if mask >> i % 16 & 1 else 0xEE for i in range(48)]


@pytest.mark.parametrize("order", ORDERS)
def test_from_one_cta_to_another(order: OrderName) -> None:
    source, out = numbered(2, 64, dtype="uint8"), np.zeros((2, 64), np.uint8)
    body = RANK + "mad.wide.u32 src, %r10, 64, src;\nmad.wide.u32 out, %r10, 64, out;\n" + fill(64, "src") + barrier()
    body += "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 64;\n" + MEET
    body += (
        "xor.b32 %r11, %r10, 1;\nmapa.shared::cluster.u32 %r12, %s, %r11;\nmapa.shared::cluster.u32 %r13, %b, %r11;\n"
    )
    body += (
        "@%p0 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r12+1024], [%s], 64, [%r13];\n"
    )
    body += wait() + "add.u32 %s, %s, 1024;\n" + dump(64) + MEET
    run(kernel(body, parameters=["src", "out"], cluster=2), [source, out], grid=2, order=order)
    assert out.tolist() == source[::-1].tolist()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("operation", "dtype", "formula"),
    [
        ("add.u32", "uint32", lambda a, b: a + b),
        ("add.s32", "int32", lambda a, b: a + b),
        ("add.u64", "uint64", lambda a, b: a + b),
        ("min.s32", "int32", min),
        ("max.u32", "uint32", max),
        ("and.b32", "uint32", lambda a, b: a & b),
        ("xor.b32", "uint32", lambda a, b: a ^ b),
        ("inc.u32", "uint32", lambda a, b: 0 if a >= b else a + 1),
        ("dec.u32", "uint32", lambda a, b: b if a == 0 or a > b else a - 1),
    ],
)
def test_all_ctas_reduce_into_shared_memory_of_one(operation: str, dtype: str, formula: Any, order: OrderName) -> None:
    """Four reductions at one place, in any order."""
    source, out = np.random.default_rng(0).integers(0, 9, (4, 8)).astype(dtype), np.zeros(8, dtype)
    size = source[0].nbytes
    body = RANK + f"mad.wide.u32 src, %r10, {size}, src;\n" + fill(size, "src") + barrier()
    body += f"@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], {4 * size};\n"
    body += "mapa.shared::cluster.u32 %r12, %s, 0;\nmapa.shared::cluster.u32 %r13, %b, 0;\nsetp.ne.u32 %p4, %r10, 0;\n"
    zeros = "".join(f"@%p0 st.shared.u32 [%s+{1024 + at}], 3;\n" for at in range(0, size, 4))
    body += zeros + "fence.proxy.async.shared::cta;\n" + MEET
    body += f"@%p0 cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{operation} "
    body += (
        f"[%r12+1024], [%s], {size}, [%r13];\n@%p4 bra END;\n"
        + wait()
        + "add.u32 %s, %s, 1024;\n"
        + dump(size)
        + f"END:\n{MEET}"
    )
    run(kernel(body, parameters=["src", "out"], cluster=4), [source, out], grid=4, order=order)
    start = np.full(size // 4, 3, np.uint32).view(dtype)
    assert out.tolist() in [_fold(formula, start, list(rows)) for rows in permutations(source)]


def _fold(formula: Any, start: Any, rows: list[Any]) -> list[int]:
    found = start.tolist()
    for row in rows:
        found = [formula(a, b) for a, b in zip(found, row.tolist(), strict=True)]
    return found


def bf16(values: np.ndarray) -> np.ndarray:
    """The nearest bf16, as bits; the values here are exact in bf16 or tie to even in Python's own arithmetic."""
    bits = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


@pytest.mark.parametrize(
    ("operation", "dtype", "formula"),
    [
        ("add.u32", "uint32", lambda a, b: a + b),
        ("add.u64", "uint64", lambda a, b: a + b),
        ("add.f32", "float32", lambda a, b: a + b),
        ("add.f64", "float64", lambda a, b: a + b),
        ("add.noftz.f16", "float16", lambda a, b: a + b),
        ("min.f16", "float16", np.minimum),
        ("max.s64", "int64", np.maximum),
        ("min.u64", "uint64", np.minimum),
        ("or.b64", "uint64", lambda a, b: a | b),
        ("xor.s32", "int32", lambda a, b: a ^ b),
        ("inc.u32", "uint32", lambda a, b: np.where(a >= b, 0, a + 1)),
        ("dec.u32", "uint32", lambda a, b: np.where((a == 0) | (a > b), b, a - 1)),
    ],
)
def test_reductions_of_global_memory(operation: str, dtype: str, formula: Any) -> None:
    rng = np.random.default_rng(1)
    source, out = (rng.integers(0, 60, 64 // np.dtype(dtype).itemsize).astype(dtype) for _ in range(2))
    expected = formula(out.copy(), source)
    body = (
        fill(64, "src")
        + f"@%p0 cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation} [out], [%s], 64;\n"
        + DONE
    )
    run(kernel(body, parameters=["src", "out"]), [source, out])
    assert out.tolist() == expected.tolist()


@pytest.mark.parametrize(("operation", "formula"), [("add.noftz", np.add), ("min", np.minimum), ("max", np.maximum)])
def test_bf16_reductions_round_once(operation: str, formula: Any) -> None:
    rng = np.random.default_rng(2)
    a, b = (bf16(rng.standard_normal(32) * 2.0 ** rng.integers(-6, 6, 32)) for _ in range(2))
    wide = [(v.astype(np.uint32) << 16).view(np.float32).astype(np.float64) for v in (a, b)]
    expected = bf16(formula(*wide))
    out = a.copy()
    body = (
        fill(64, "src")
        + f"@%p0 cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation}.bf16 [out], [%s], 64;\n"
        + DONE
    )
    run(kernel(body, parameters=["src", "out"]), [b, out])
    assert out.tolist() == expected.tolist()


def bits(values: list[int], size: int) -> np.ndarray:
    return np.array(values, f"u{size}")


# As an H200 does it.
@pytest.mark.parametrize(
    ("type", "memory", "source", "results"),
    [
        (
            "f32",
            bits([0x00000000, 0x80000000, 0x00000001, 0x807FFFFF, 0x7F800000, 0x7FC12345, 0x3F800000, 0x00000000], 4),
            bits([0x00000001, 0x80000001, 0x00000001, 0x00000001, 0xFF800000, 0x00000000, 0x7F812345, 0x807FFFFF], 4),
            [0x00000001, 0x80000001, 0x00000002, 0x807FFFFE, 0x7FFFFFFF, 0x7FFFFFFF, 0x7FFFFFFF, 0x807FFFFF],
        ),
        (
            "f64",
            bits([0x7FF0000000000000, 0, 0xFFF8123456789ABC, 0x3FF0000000000000], 8),
            bits([0xFFF0000000000000, 0x7FF0123456789ABC, 0x7FF8000000000000, 0x3FF0000000000000], 8),
            [0xFFF8000000000000, 0x7FF0123456789ABC, 0x7FF8000000000000, 0x4000000000000000],
        ),
    ],
)
def test_additions_of_subnormal_and_special_numbers(
    type: str, memory: np.ndarray, source: np.ndarray, results: list[int]
) -> None:
    out = memory.copy()
    body = (
        fill(32, "src")
        + f"@%p0 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.{type} [out], [%s], 32;\n"
        + DONE
    )
    run(kernel(body, parameters=["src", "out"]), [source, out])
    assert out.tolist() == results


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (f"{LOAD} [%s+8], [src], 16, [%b];", FaultKind.MISALIGNED, f"the destination 0x{TILE + 8:x} is not a multiple of 16 bytes"),
        (f"{LOAD} [%s], [src+8], 16, [%b];", FaultKind.MISALIGNED, "the source 0x700001000008 is not a multiple of 16 bytes"),
        (f"{LOAD} [%s], [src], 24, [%b];", FaultKind.ILLEGAL, "the size of 24 bytes is not a multiple of 16"),
        (
            f"{LOAD} [%s], [src+48], 32, [%b];",
            FaultKind.OUT_OF_BOUNDS,
            "the bulk copy reads global memory: 32 bytes from address 0x700001000030 on, which reach 16 bytes over the end of array src_ "
            "(64 bytes)",
        ),
        (
            f"{LOAD} [%s], [src+-16], 32, [%b];",
            FaultKind.OUT_OF_BOUNDS,
            "the bulk copy reads global memory: 32 bytes from address 0x700000fffff0 on, which begin 16 bytes before array src_",
        ),
        (
            f"mov.u64 src, 64; {LOAD} [%s], [src], 32, [%b];",
            FaultKind.OUT_OF_BOUNDS,
            "the bulk copy reads global memory: 32 bytes from address 0x40 on, which are in no array",
        ),
        (
            f"{LOAD} [%s+8176], [src], 32, [%b];",
            FaultKind.OUT_OF_BOUNDS,
            "the bulk copy accesses shared memory at 0x2800; it is 0x400 to 0x2800",
        ),
        (
            f"{STORE} [src], [%s], 32;",
            FaultKind.UNINITIALISED,
            f"the bulk copy reads shared memory at 0x{TILE:x}, where nothing has been written",
        ),
        (
            f"add.u32 %s, %s, 0x1000000; {STORE} [src], [%s], 32;",
            FaultKind.OUT_OF_BOUNDS,
            f"the source 0x1000{TILE:x} is shared memory of the CTA of rank 1; .shared::cta is that of the executing CTA, of rank 0",
        ),
    ],
)  # fmt: skip
def test_faults(text: str, kind: FaultKind, message: str) -> None:
    body = barrier() + expect(32) + text + "\n" + wait() + DONE
    assert fault(kernel(body, parameters=["src"]), [np.zeros(64, np.uint8)], kind) == message


def test_two_copies_to_one_place_are_refused() -> None:
    body = barrier() + expect(64) + f"{LOAD} [%s], [src], 32, [%b];\n{LOAD} [%s+16], [src], 32, [%b];\n" + wait()
    message = fault(
        kernel(body, parameters=["src"]), [np.zeros(64, np.uint8)], FaultKind.IN_FLIGHT, order="adversarial"
    )
    assert message.startswith(f"the bulk copy writes shared memory at 0x{TILE + 16:x}, which the bulk copy of line ")
    assert message.endswith(" still writes")


@pytest.mark.parametrize(
    "instruction",
    [
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.multicast::cluster [%s], [src], 16, [%b], 1;",
        "cp.async.bulk.shared::cta.shared::cta.mbarrier::complete_tx::bytes [%s], [%s], 16, [%b];",
        "cp.async.bulk.shared::cluster.global.bulk_group [%s], [src], 16, [%b];",
        "cp.async.bulk.global.shared::cta.mbarrier::complete_tx::bytes [src], [%s], 16;",
        "cp.async.bulk.global.shared::cta.bulk_group.cp_mask [src], [%s], 16;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f16 [src], [%s], 16;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f32 [src], [%s], 16;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s64 [src], [%s], 16;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.max.f32 [src], [%s], 16;",
        "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.f32 [%s], [%s], 16, [%b];",
        "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.min.u64 [%s], [%s], 16, [%b];",
    ],
)
def test_forms_that_do_not_exist_stop(instruction: str) -> None:
    with pytest.raises(UnsupportedInstruction):
        run(kernel(instruction, parameters=["src"]), [np.zeros(64, np.uint8)])


COPY_BACK = (
    f"{LOAD} [%s+1024], [out], 16, [%b];\n"
    + wait()
    + "ld.shared.u32 %r0, [%s+1024];\n@%p0 st.global.u32 [seen], %r0;\n"
)


@pytest.mark.parametrize("fence", ["", "fence.proxy.async.global;\n", "fence.proxy.async;\n"])
def test_global_memory_that_threads_wrote_is_fenced_before_it_is_copied(fence: str) -> None:
    body = barrier() + expect(16) + "@%p0 st.global.u32 [out], 5;\n" + fence + COPY_BACK
    text, arguments = kernel(body, parameters=["out", "seen"]), [np.zeros(4, np.uint32), np.zeros(1, np.uint32)]
    if fence:
        run(text, arguments)
        assert arguments[1][0] == 5
    else:
        message = fault(text, arguments, FaultKind.PROXY_FENCE)
        assert message.startswith("the bulk copy reads array out_ at offset 0 through the async proxy")


def test_what_a_bulk_store_has_overwritten_needs_no_fence() -> None:
    arguments = [numbered(4, dtype="uint32"), np.zeros(4, np.uint32), np.zeros(1, np.uint32)]
    body = (
        fill(16, "src")
        + barrier()
        + expect(16)
        + "@%p0 st.global.u32 [out], 5;\n"
        + f"{STORE} [out], [%s], 16;\n"
        + DONE
        + COPY_BACK
    )
    run(kernel(body, parameters=["src", "out", "seen"]), arguments)
    assert arguments[2][0] == 1
