"""cp.async.bulk.tensor and cp.reduce.async.bulk.tensor: what arrives where, who is told, and what faults say."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from bulk_kernels import (
    ORDERS,
    TILE,
    OrderName,
    barrier,
    dump,
    expect,
    fault,
    fill,
    kernel,
    loaded,
    numbered,
    run,
    wait,
)

from tilec.backend.emulator.faults import EmulatorFault, FaultKind, UnsupportedInstruction
from tilec.backend.emulator.tensor_map import TensorMap

LOAD = "@%p0 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
STORE = "@%p0 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"
DONE = "@%p0 cp.async.bulk.commit_group;\n@%p0 cp.async.bulk.wait_group 0;\n"


@pytest.mark.parametrize("order", ORDERS)
def test_a_load_of_a_box_inside(order: OrderName) -> None:
    a = numbered(16, 64)
    found = loaded(TensorMap(a, (8, 16), None), (32, 4), 256, order=order).view(np.uint16)
    assert found.reshape(8, 16).tolist() == a[4:12, 32:48].tolist()


@pytest.mark.parametrize(
    ("shape", "box", "start"),
    [((64,), (16,), (48,)), ((3, 8, 32), (2, 4, 16), (16, 4, 1)), ((2, 3, 4, 32), (1, 2, 2, 16), (0, 2, 1, 1)), ((2, 2, 2, 3, 16), (2, 1, 2, 2, 8), (8, 1, 0, 1, 0))],
)  # fmt: skip
def test_all_ranks(shape: tuple[int, ...], box: tuple[int, ...], start: tuple[int, ...]) -> None:
    a = numbered(*shape)
    found = loaded(TensorMap(a, box, None), start, int(np.prod(box)) * 2).view(np.uint16)
    inside = a[tuple(slice(s, s + n) for s, n in zip(start[::-1], box, strict=True))]
    assert found.tolist() == inside.ravel().tolist()


@pytest.mark.parametrize("shape", [(16, 3), (8, 64), (16, 1), (4, 4)])
def test_a_box_larger_than_the_tensor_is_zero_outside_and_completes_all_its_bytes(shape: tuple[int, int]) -> None:
    held = numbered(shape[0], 64)
    a = held[:, : shape[1]]
    found = loaded(TensorMap(a, (32, 64)), (0, 0), 4096, size=4096).view(np.uint16).reshape(32, 8, 8)
    # With 128 bytes a row, the chunk that is column c without the swizzle is held at c ^ (row % 8).
    plain = np.stack([found[row][np.arange(8) ^ row % 8] for row in range(32)]).reshape(32, 64)
    expected = np.zeros((32, 64), np.uint16)
    expected[: shape[0], : shape[1]] = a
    assert plain.tolist() == expected.tolist()


@pytest.mark.parametrize(
    "start", [(-8, 0), (0, -3), (-16, -8), (64, 0), (0, 16), (2147483640, 0), (0, -2147483648), (0, 2147483647)]
)
def test_boxes_partly_or_wholly_outside(start: tuple[int, int]) -> None:
    a = numbered(16, 64)
    found = loaded(TensorMap(a, (8, 16), None), start, 256).view(np.uint16).reshape(8, 16)
    for row in range(8):
        for column in range(16):
            r, c = start[1] + row, start[0] + column
            assert found[row, column] == (a[r, c] if 0 <= r < 16 and 0 <= c < 64 else 0)


@pytest.mark.parametrize(
    ("dtype", "named", "nan"),
    [("float16", None, 0x7FF7), ("float32", None, 0x7FF77FF7), ("float64", None, 0x7FF77FF77FF77FF7), ("uint16", "bf16", 0x7FF7)],
)  # fmt: skip
def test_elements_outside_can_be_nan(dtype: str, named: str | None, nan: int) -> None:
    a = np.zeros((4, 16), dtype)
    size = a.itemsize
    found = (
        loaded(TensorMap(a, (8, 16), None, oob="nan", dtype=named), (0, 0), 128 * size).view(f"u{size}").reshape(8, 16)
    )
    assert (found[:4] == 0).all()
    assert (found[4:] == nan).all()


def test_element_strides_bring_every_second_row_and_count_what_comes() -> None:
    a = numbered(16, 64)
    found = loaded(TensorMap(a, (7, 16), None, element_strides=(2, 3)), (0, 1), 4 * 32).view(np.uint16).reshape(4, 16)
    assert found.tolist() == a[1:9:2, :16].tolist()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("wrong", [16, 128, -16])
def test_a_budget_that_the_copy_does_not_bring_never_completes(order: OrderName, wrong: int) -> None:
    body = barrier() + expect(4096 + wrong) + f"{LOAD} [%s], [m, {{0, 0}}], [%b];\n" + wait()
    text = kernel(body, maps=["m"])
    message = fault(text, [TensorMap(numbered(64, 64), (32, 64))], FaultKind.DEADLOCK, order=order)
    assert message.startswith("no thread can go on")


def test_a_budget_short_by_a_multiple_of_128_bytes_hangs_or_passes_early() -> None:
    """The engine reports in pieces; the wait passes where their sum happens to be what was expected."""
    body = barrier() + expect(4096) + f"{LOAD} [%s], [m, {{0, 0}}], [%b];\n" + wait() + dump(4096)
    text = kernel(body, maps=["m"], parameters=["out"])
    outcomes: set[FaultKind] = set()
    for seed in range(12):
        map = TensorMap(numbered(64, 64), (64, 64))
        try:
            run(text, [map, np.zeros(4096, np.uint8)], order="random", seed=seed)
        except EmulatorFault as caught:
            outcomes.add(caught.kind)
    assert outcomes >= {FaultKind.DEADLOCK}
    assert outcomes - {FaultKind.DEADLOCK} <= {FaultKind.IN_FLIGHT, FaultKind.LEFT_BEHIND}
    assert len(outcomes) > 1


@pytest.mark.parametrize(
    "modifiers",
    [
        "2d.shared::cluster.global.mbarrier::complete_tx::bytes",
        "2d.shared::cta.global.tile.mbarrier::complete_tx::bytes",
        "2d.tile.shared::cluster.global.mbarrier::complete_tx::bytes",
        "2d.shared::cluster.global.mbarrier::complete_tx::bytes.cta_group::1",
        "2d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes",
        "2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint",
        "2d.shared::cta.global.mbarrier::complete_tx::bytes.cta_group::1.L2::cache_hint",
        "2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint",
        "2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.cta_group::2",
    ],
)
def test_spellings_of_a_load(modifiers: str) -> None:
    a = numbered(16, 64)
    more = (", 1" if "multicast" in modifiers else "") + (", %x0" if "hint" in modifiers else "")
    body = barrier() + expect(256) + "mov.u64 %x0, 0;\n"
    body += f"@%p0 cp.async.bulk.tensor.{modifiers} [%s], [m, {{16, 2}}], [%b]{more};\n" + wait() + dump(256)
    out = np.zeros(256, np.uint8)
    result = run(kernel(body, maps=["m"], parameters=["out"]), [TensorMap(a, (8, 16), None), out])
    assert out.view(np.uint16).tolist() == a[2:10, 16:32].ravel().tolist()
    assert result.tma_load_bytes == 256


@pytest.mark.parametrize("order", ORDERS)
def test_every_lane_issues_a_copy_of_its_own(order: OrderName) -> None:
    a = numbered(32, 16)
    body = barrier() + expect(32 * 32) + "shl.b32 %r0, %t, 7; add.u32 %r0, %r0, %s;\n"
    body += (
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r0], [m, {0, %t}], [%b];\n"
        + wait()
    )
    body += "shl.b32 %r1, %t, 2; mad.wide.u32 %x0, %t, 4, out; ld.shared.u32 %r2, [%r0]; st.global.u32 [%x0], %r2;\n"
    out = np.zeros(32, np.uint32)
    run(kernel(body, maps=["m"], parameters=["out"]), [TensorMap(a, (1, 16), None), out], order=order)
    assert (out & 0xFFFF).tolist() == a[:, 0].tolist()


MEET = "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n"


@pytest.mark.parametrize("order", ORDERS)
def test_multicast_reaches_the_same_place_in_each_cta_of_the_mask(order: OrderName) -> None:
    a = numbered(16, 64)
    body = "mov.u32 %r10, %cluster_ctarank;\n" + fill(256) + barrier() + MEET
    body += "setp.eq.and.u32 %p2, %r10, 1, %p0;\nsetp.ne.and.u32 %p3, %r10, 2, %p0;\nsetp.eq.u32 %p4, %r10, 2;\n"
    body += "@%p3 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 256;\n"
    body += (
        f"{LOAD.replace('%p0', '%p2')}.multicast::cluster [%s], [m, {{0, 3}}], [%b], 11;\n@%p4 bra END;\n"
        + wait()
        + "END:\n"
    )
    body += "mad.wide.u32 out, %r10, 256, out;\n" + dump(256) + MEET
    out = np.zeros((4, 128), np.uint16)
    result = run(
        kernel(body, maps=["m"], parameters=["out"], cluster=4), [TensorMap(a, (8, 16), None), out], grid=4, order=order
    )
    tile = a[3:11, :16].ravel().tolist()
    assert [row.tolist() for row in out] == [tile, tile, [0] * 128, tile]
    assert result.tma_load_bytes == 3 * 256


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("parity", [0, 1])
def test_with_cta_group_2_the_parity_of_the_barrier_says_who_of_a_pair_is_told(order: OrderName, parity: int) -> None:
    """Both CTAs of each pair receive data; the even or the odd ones learn of both."""
    a = numbered(16, 64)
    body = "mov.u32 %r10, %cluster_ctarank;\n" + barrier() + MEET + "and.b32 %r11, %r10, 1;\n"
    body += f"setp.eq.u32 %p4, %r11, {parity};\nand.pred %p5, %p4, %p0;\nsetp.eq.and.u32 %p2, %r10, 0, %p0;\n"
    body += "@%p5 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 512;\n"
    body += f"mapa.shared::cluster.u32 %r12, %b, {parity};\n"
    body += f"{LOAD.replace('%p0', '%p2')}.multicast::cluster.cta_group::2 [%s], [m, {{0, 3}}], [%r12], 15;\n"
    body += "@!%p4 bra END;\n" + wait() + "END:\n" + MEET
    body += "mad.wide.u32 out, %r10, 256, out;\n" + dump(256) + MEET
    out = np.zeros((4, 128), np.uint16)
    run(
        kernel(body, maps=["m"], parameters=["out"], cluster=4), [TensorMap(a, (8, 16), None), out], grid=4, order=order
    )
    assert out.tolist() == [a[3:11, :16].ravel().tolist()] * 4


def test_the_barrier_of_another_cta_is_refused_without_cta_group_2() -> None:
    body = barrier() + MEET + "mapa.shared::cluster.u32 %r12, %b, 1;\n"
    body += f"{LOAD} [%s], [m, {{0, 0}}], [%r12];\n" + MEET
    message = fault(
        kernel(body, maps=["m"], cluster=2), [TensorMap(numbered(16, 64), (8, 16), None)], FaultKind.MBARRIER, grid=2
    )
    assert message == (
        f"the mbarrier 0x1000400 is in the CTA of rank 1, the destination 0x{TILE:x} in that of rank 0; it must be in the CTA of the "
        "destination"
    )


def test_gather4_brings_four_rows_one_below_the_other() -> None:
    a = numbered(16, 64)
    body = barrier() + expect(4 * 128)
    body += "@%p0 cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes "
    body += "[%s], [m, {0, 7, 15, 16, 2}], [%b];\n" + wait() + dump(512)
    out = np.zeros((4, 64), np.uint16)
    run(kernel(body, maps=["m"], parameters=["out"]), [TensorMap(a, (1, 64), None), out])
    assert out.tolist() == [a[7].tolist(), a[15].tolist(), [0] * 64, a[2].tolist()]


def test_scatter4_takes_four_rows_apart() -> None:
    source, out = numbered(4, 64), np.zeros((16, 64), np.uint16)
    body = fill(512, "src")
    body += (
        "@%p0 cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [m, {0, 7, 3, 16, 15}], [%s];\n"
        + DONE
    )
    run(kernel(body, maps=["m"], parameters=["src"]), [TensorMap(out, (1, 64), None), source])
    expected = np.zeros((16, 64), np.uint16)
    expected[[7, 3, 15]] = source[[0, 1, 3]]
    assert out.tolist() == expected.tolist()


@pytest.mark.parametrize("order", ORDERS)
def test_im2col_loads_and_stores(order: OrderName) -> None:
    """A tap of a 3 x 3 filter over two images, and all pixels stored again."""
    images, back = numbered(2, 4, 5, 8), np.zeros((2, 4, 5, 8), np.uint16)
    body = barrier() + expect(40 * 16) + "mov.u16 %h0, 2;\nmov.u16 %h1, 0;\n"
    body += "@%p0 cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.L2::cache_hint "
    body += "[%s], [m, {0, -1, -1, 0}], [%b], {%h0, %h1}, 0;\n" + wait()
    body += (
        "@%p0 cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [n, {0, 0, 0, 0}], [%s];\n" + DONE
    )
    load = TensorMap.im2col(images, lower=(-1, -1), upper=(-1, -1), channels=8, pixels=40, swizzle=None)
    store = TensorMap.im2col(back, lower=(0, 0), upper=(0, 0), channels=8, pixels=40, swizzle=None)
    run(kernel(body, maps=["m", "n"]), [load, store], order=order)
    # The tap (r, s) = (0, 2) sees the pixel one row up and one column to the right.
    expected = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))[:, :4, 2:]
    assert back.tolist() == expected.tolist()


# What an H200 wrote past the edge of each row: widths off the 16-byte grid.
@pytest.mark.parametrize(
    ("dtype", "width", "past"),
    [("uint8", 466, 14), ("uint16", 470, 4), ("uint32", 466, 8), ("uint8", 464, 0), ("uint16", 472, 0)],
)
def test_stores_clip_in_units_of_16_bytes(dtype: str, width: int, past: int) -> None:
    held = np.zeros((4, 512), dtype)
    inner = 128 // held.itemsize
    source = np.full(4 * 128, 0x11, np.uint8)
    column = width // inner * inner
    body = fill(512, "src") + f"{STORE} [m, {{{column}, 0}}], [%s];\n" + DONE
    run(kernel(body, maps=["m"], parameters=["src"]), [TensorMap(held[:, :width], (4, inner), None), source])
    raw = held.view(np.uint8).reshape(4, -1)
    end = width * held.itemsize
    assert (raw[:, column * held.itemsize : end + past] == 0x11).all()
    assert (raw[:, end + past :] == 0).all()
    assert (raw[:, : column * held.itemsize] == 0).all()


@pytest.mark.parametrize("order", ORDERS)
def test_a_store_drops_rows_outside(order: OrderName) -> None:
    source, out = numbered(8, 16), np.zeros((10, 32), np.uint16)
    body = fill(256, "src") + f"{STORE}.L2::cache_hint [m, {{16, 5}}], [%s], 0;\n" + DONE
    result = run(kernel(body, maps=["m"], parameters=["src"]), [TensorMap(out, (8, 16), None), source], order=order)
    assert out[5:, 16:].tolist() == source[:5].tolist()
    assert np.count_nonzero(out) == 5 * 16
    assert result.tma_store_bytes == 256


def test_after_a_wait_for_reading_the_tile_may_be_written_and_the_store_is_not_harmed() -> None:
    source, out = numbered(8, 16), np.zeros((8, 16), np.uint16)
    body = fill(256, "src") + f"{STORE} [m, {{0, 0}}], [%s];\n@%p0 cp.async.bulk.commit_group;\n"
    body += "@%p0 cp.async.bulk.wait_group.read 0;\n@%p0 st.shared.u32 [%s], 7;\n"
    for order in ORDERS:
        out[:] = 0
        run(kernel(body, maps=["m"], parameters=["src"]), [TensorMap(out, (8, 16), None), source], order=order)
        assert out.tolist() == source.tolist()


def test_a_tile_that_a_store_still_reads_must_not_be_written() -> None:
    body = fill(256) + f"{STORE} [m, {{0, 0}}], [%s];\n@%p0 st.shared.u32 [%s], 7;\n" + DONE
    message = fault(
        kernel(body, maps=["m"]), [TensorMap(numbered(8, 16), (8, 16), None)], FaultKind.IN_FLIGHT, order="adversarial"
    )
    assert "the TMA store of line" in message


@pytest.mark.parametrize("order", ORDERS)
def test_rows_that_a_store_drops_need_not_be_written(order: OrderName) -> None:
    """The tile has 8 rows, of which threads write 3: as many as the tensor has from row 5 on."""
    source, out = numbered(3, 16), np.zeros((8, 16), np.uint16)
    body = fill(96, "src") + f"{STORE} [m, {{0, 5}}], [%s];\n" + DONE
    run(kernel(body, maps=["m"], parameters=["src"]), [TensorMap(out, (8, 16), None), source], order=order)
    assert out[5:].tolist() == source.tolist()
    assert not out[:5].any()
    inside = fill(96, "src") + f"{STORE} [m, {{0, 4}}], [%s];\n" + DONE
    message = fault(
        kernel(inside, maps=["m"], parameters=["src"]), [TensorMap(out, (8, 16), None), source], FaultKind.UNINITIALISED
    )
    assert message == f"the TMA store reads shared memory at 0x{TILE + 96:x}, where nothing has been written"


def test_stores_of_threads_must_be_fenced_before_a_tma_store() -> None:
    body = fill(256, fence=False) + f"{STORE} [m, {{0, 0}}], [%s];\n" + DONE
    message = fault(kernel(body, maps=["m"]), [TensorMap(numbered(8, 16), (8, 16), None)], FaultKind.PROXY_FENCE)
    assert message == (
        f"the TMA store reads shared memory at 0x{TILE:x} through the async proxy, but it was written by ordinary stores that no "
        "fence.proxy.async has followed"
    )


def test_a_tile_must_not_be_read_before_the_barrier_says_so() -> None:
    body = barrier() + expect(256) + f"{LOAD} [%s], [m, {{0, 0}}], [%b];\nld.shared.u32 %r0, [%s];\n" + wait()
    message = fault(
        kernel(body, maps=["m"]), [TensorMap(numbered(8, 16), (8, 16), None)], FaultKind.IN_FLIGHT, order="adversarial"
    )
    assert re.search("the TMA load of line [0-9]+ has not completed", message)


def test_a_cta_must_not_exit_while_a_load_is_under_way() -> None:
    body = barrier() + expect(256) + f"{LOAD} [%s], [m, {{0, 0}}], [%b];\n"
    message = fault(
        kernel(body, maps=["m"]),
        [TensorMap(numbered(8, 16), (8, 16), None)],
        FaultKind.LEFT_BEHIND,
        order="adversarial",
    )
    assert message == "CTA (0, 0, 0) has exited, but the TMA load still uses its shared memory"


REDUCTIONS: list[tuple[str, str, Any]] = [
    ("add", "uint32", lambda a, b: a + b),
    ("add", "int32", lambda a, b: a + b),
    ("add", "uint64", lambda a, b: a + b),
    ("add", "float16", lambda a, b: a + b),
    ("add", "float32", lambda a, b: a + b),
    ("min", "int32", min),
    ("max", "uint64", max),
    ("min", "int64", min),
    ("max", "float16", max),
    ("inc", "uint32", lambda a, b: 0 if a >= b else a + 1),
    ("dec", "uint32", lambda a, b: b if a == 0 or a > b else a - 1),
    ("and", "uint32", lambda a, b: a & b),
    ("or", "int64", lambda a, b: a | b),
    ("xor", "uint64", lambda a, b: a ^ b),
]


@pytest.mark.parametrize(("operation", "dtype", "formula"), REDUCTIONS)
def test_reductions(operation: str, dtype: str, formula: Any) -> None:
    rng = np.random.default_rng(3)
    inner = 64 // np.dtype(dtype).itemsize
    low = 0 if dtype.startswith("u") else -50
    source = rng.integers(low, 50, (4, inner)).astype(dtype)
    out = rng.integers(low, 50, (4, 2 * inner)).astype(dtype)
    expected = out.copy()
    for r in range(3):
        for c in range(inner):
            expected[r + 1, inner + c] = formula(out[r + 1, inner + c].item(), source[r, c].item())
    body = fill(256, "src")
    body += (
        f"@%p0 cp.reduce.async.bulk.tensor.2d.global.shared::cta.{operation}.tile.bulk_group [m, {{{inner}, 1}}], [%s];\n"
        + DONE
    )
    run(kernel(body, maps=["m"], parameters=["src"]), [TensorMap(out, (4, inner), None), source])
    assert out.tolist() == expected.tolist()


def test_a_reduction_onto_one_row_adds_all_rows() -> None:
    source, out = numbered(8, 4, dtype="float32"), np.zeros((8, 4), np.float32)
    body = fill(128, "src")
    body += "@%p0 cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [m, {0, 0}], [%s];\n" + DONE
    run(kernel(body, maps=["m"], parameters=["src"]), [TensorMap(out, (8, 4), None, strides=(0,)), source])
    assert out[0].tolist() == source.sum(axis=0).tolist()
    assert not out[1:].any()


def test_a_reduction_that_the_type_does_not_have() -> None:
    body = (
        fill(128) + "@%p0 cp.reduce.async.bulk.tensor.2d.global.shared::cta.min.bulk_group [m, {0, 0}], [%s];\n" + DONE
    )
    message = fault(
        kernel(body, maps=["m"]), [TensorMap(np.zeros((8, 4), np.float32), (8, 4), None)], FaultKind.DESCRIPTOR
    )
    assert message == "there is no reduction .min of elements of f32"


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (
            f"{LOAD} [%s], [m, {{4, 0}}], [%b];",
            FaultKind.ILLEGAL,
            "coordinate 4 along the innermost dimension is byte 8 of a row of u16: it must be a multiple of 16 bytes",
        ),
        (f"{LOAD} [%s+64], [m, {{0, 0}}], [%b];", FaultKind.MISALIGNED, f"the destination 0x{TILE + 64:x} is not a multiple of 128 bytes"),
        (
            f"{LOAD} [%s], [m, {{0, 0}}], [%b+8];",
            FaultKind.MBARRIER,
            "no mbarrier has been initialised at 0x408",
        ),
        (
            f"{LOAD} [%s+8192], [m, {{0, 0}}], [%b];",
            FaultKind.OUT_OF_BOUNDS,
            "the TMA load accesses shared memory at 0x2800; it is 0x400 to 0x2800",
        ),
        (
            f"{LOAD.replace('2d', '3d')} [%s], [m, {{0, 0, 0}}], [%b];",
            FaultKind.DESCRIPTOR,
            "the tensor map has rank 2, the instruction .3d",
        ),
        (
            f"{LOAD.replace('.tile', '.tile::gather4')} [%s], [m, {{0, 0, 0, 0, 0}}], [%b];",
            FaultKind.DESCRIPTOR,
            "the tensor map's box has 8 rows; .tile::gather4 takes boxes of 1",
        ),
        (
            f"{LOAD.replace('2d', '3d').replace('tile', 'im2col')} [%s], [m, {{0, 0, 0}}], [%b], {{%h0}};",
            FaultKind.DESCRIPTOR,
            "the tensor map has rank 2, the instruction .3d",
        ),
        (
            f"{LOAD}.multicast::cluster [%s], [m, {{0, 0}}], [%b], 0;",
            FaultKind.ILLEGAL,
            "the mask of a multicast copy names no CTA",
        ),
        (
            f"{LOAD}.multicast::cluster [%s], [m, {{0, 0}}], [%b], 2;",
            FaultKind.OUT_OF_BOUNDS,
            "a shared address of the CTA of rank 1, but the cluster has 1",
        ),
        (
            f"{STORE} [m, {{0, -1}}], [%s];",
            FaultKind.ILLEGAL,
            "coordinates (0, -1): those of a store are 0 or more",
        ),
        (f"{LOAD} [%s], [out, {{0, 0}}], [%b];", FaultKind.DESCRIPTOR, "no tensor map at address 0x700201000000, in array out_"),
        ("add.u64 m, m, 16;" + f"{LOAD} [%s], [m, {{0, 0}}], [%b];", FaultKind.MISALIGNED, "the tensor map's address 0x300000010 is not a multiple of 64 bytes"),
        ("add.u64 m, m, 1024;" + f"{LOAD} [%s], [m, {{0, 0}}], [%b];", FaultKind.OUT_OF_BOUNDS, "the 128 bytes of a tensor map at address 0x300000400 are in no memory"),
        ("cvt.u64.u32 m, %s; cvta.shared.u64 m, m;" + f"{LOAD} [%s], [m, {{0, 0}}], [%b];", FaultKind.DESCRIPTOR, "the tensor map's address 0x100000800 lies in shared memory, which TMA does not read"),
    ],
)  # fmt: skip
def test_faults(text: str, kind: FaultKind, message: str) -> None:
    body = barrier() + text + "\n" + wait()
    arguments = [TensorMap(numbered(8, 16), (8, 16), None), np.zeros(128, np.uint8)]
    assert fault(kernel(body, maps=["m"], parameters=["out"]), arguments, kind) == message


def test_a_map_whose_pitch_is_wrong_reads_past_its_array() -> None:
    body = barrier() + expect(256) + f"{LOAD} [%s], [m, {{0, 0}}], [%b];\n" + wait()
    message = fault(
        kernel(body, maps=["m"]), [TensorMap(numbered(8, 16), (8, 16), None, strides=(64,))], FaultKind.OUT_OF_BOUNDS
    )
    assert message == (
        "the TMA load reads the box at (0, 0): 480 bytes from address 0x700001000000 on, which reach 224 bytes over the end of array m_ "
        "(256 bytes)"
    )


def test_an_array_that_is_read_only_cannot_be_stored_to() -> None:
    a = numbered(8, 16)
    a.flags.writeable = False
    body = fill(256) + f"{STORE} [m, {{0, 0}}], [%s];\n" + DONE
    message = fault(kernel(body, maps=["m"]), [TensorMap(a, (8, 16), None)], FaultKind.OUT_OF_BOUNDS)
    assert message == "the TMA store writes the box at (0, 0), but array m_ is read-only"


@pytest.mark.parametrize(
    "instruction",
    [
        "cp.async.bulk.tensor.3d.shared::cluster.global.im2col::w.mbarrier::complete_tx::bytes [%s], [m, {0, 0, 0}], [%b], {%h0, %h1};",
        "cp.async.bulk.tensor.3d.shared::cluster.global.im2col::w::128.mbarrier::complete_tx::bytes [%s], [m, {0, 0, 0}], [%b], {%h0, %h1};",
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [m, {0, 0, 0}], [%b];",
        "cp.async.bulk.tensor.2d.shared::cluster.global.bulk_group [%s], [m, {0, 0}], [%b];",
        "cp.async.bulk.tensor.2d.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%s], [m, {0, 0}], [%b];",
        "cp.async.bulk.tensor.2d.global.shared::cta.tile::gather4.bulk_group [m, {0, 0, 0, 0, 0}], [%s];",
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L1::hint [%s], [m, {0, 0}], [%b];",
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.mul.bulk_group [m, {0, 0}], [%s];",
    ],
)
def test_forms_that_do_not_exist_or_are_not_done_stop(instruction: str) -> None:
    with pytest.raises(UnsupportedInstruction):
        run(kernel(instruction, maps=["m"]), [TensorMap(numbered(8, 16), (8, 16), None)])


# As an H200 does it.
def test_loads_of_tf32_elements_round_and_make_nan_one() -> None:
    a = np.array(
        [0x4165DC40, 0x3F000001, 0x7F812345, 0xFFC12345, 0x7F7FFFFF, 0x807FFFFF, 0x00000001, 0xFF800000], np.uint32
    )
    found = loaded(TensorMap(a[None], (1, 8), None, dtype="tf32"), (0, 0), 32).view(np.uint32)
    assert found.tolist() == [0x4165E000, 0x3F000000, 0x7FFFE000, 0x7FFFE000, 0x7F800000, 0x80800000, 0, 0xFF800000]


def test_loads_of_f32_ftz_elements_keep_subnormal_numbers() -> None:
    a = np.array([0x00000001, 0x807FFFFF, 0x7F812345, 0x3F800001], np.uint32)
    assert loaded(TensorMap(a[None], (1, 4), None, dtype="f32_ftz"), (0, 0), 16).view(np.uint32).tolist() == a.tolist()


TF32 = TensorMap(np.full((2, 8, 8), 1 + 2.0**-11, np.float32), (1, 8, 8), None, dtype="tf32")


@pytest.mark.parametrize(
    ("map", "stored", "why"),
    [
        (
            TensorMap(np.zeros((2, 8, 8), np.float16), (1, 8, 8), None, interleave="16B"),
            False,
            "a tensor map with interleave 16B",
        ),
        (
            TensorMap(np.zeros((2, 8, 64), np.float16), (1, 8, 64), "128B_ATOM_32B_FLIP_8B"),
            False,
            "a tensor map with swizzle 128B_ATOM_32B_FLIP_8B",
        ),
        (TF32, False, "a load of tf32 elements that lie halfway between two tf32 numbers"),
        (TF32, True, "a store of tf32 elements"),
        (
            TensorMap(np.zeros((2, 8, 8), np.float32), (1, 8, 8), None, dtype="tf32_ftz"),
            False,
            "a load of tf32_ftz elements",
        ),
    ],
)
def test_maps_that_are_not_known_well_enough_stop(map: TensorMap, stored: bool, why: str) -> None:
    load, store = (text.replace("2d", "3d") for text in (LOAD, STORE))
    body = (
        fill(256)
        + barrier()
        + (f"{store} [m, {{0, 0, 0}}], [%s];\n" if stored else f"{load} [%s], [m, {{0, 0, 0}}], [%b];\n" + wait())
    )
    with pytest.raises(UnsupportedInstruction, match=why):
        run(kernel(body, maps=["m"]), [map])


@pytest.mark.parametrize(
    ("map", "what"),
    [
        (TensorMap(np.zeros((8, 64), np.float16), (8, 64), "128B_ATOM_32B"), "swizzle 128B_ATOM_32B"),
        (TensorMap(np.zeros((8, 64), np.uint8), (8, 128), "128B", dtype="16u4_align16b"), "elements of 16u4_align16b"),
    ],
)
def test_maps_that_the_driver_refuses_on_hopper(map: TensorMap, what: str) -> None:
    text = kernel(barrier() + f"{LOAD} [%s], [m, {{0, 0}}], [%b];\n", maps=["m"], target="sm_90a")
    assert fault(text, [map], FaultKind.DESCRIPTOR) == f"the tensor map has {what}; sm_90a knows none"


@pytest.mark.parametrize(("named", "held", "bits"), [("16u4_align16b", 64, 4), ("16u6_align16b", 96, 6)])
def test_padded_elements_take_16_bytes_for_16_and_report_no_gaps(named: str, held: int, bits: int) -> None:
    a = np.random.default_rng(0).integers(0, 256, (4, held), np.uint8)
    found = loaded(TensorMap(a, (4, 128), None, dtype=named), (0, 0), 4 * held, size=512).reshape(4, 8, 16)
    assert found[:, :, : 2 * bits].reshape(4, held).tolist() == a.tolist()


def test_packed_elements_without_gaps_are_copied_as_they_are() -> None:
    a = np.random.default_rng(0).integers(0, 256, (4, 64), np.uint8)
    found = loaded(TensorMap(a, (4, 64), None, dtype="16u4_align8b"), (32, 0), 128).reshape(4, 32)
    assert found.tolist() == a[:, 16:48].tolist()


def test_stores_of_6_bit_elements_pack_the_low_bits_of_each_byte() -> None:
    source = np.random.default_rng(0).integers(0, 256, (2, 128), np.uint8)
    out = np.zeros((2, 96), np.uint8)
    body = fill(256, "src") + f"{STORE} [m, {{0, 0}}], [%s];\n" + DONE
    run(kernel(body, maps=["m"], parameters=["src"]), [TensorMap(out, (2, 128), None, dtype="16u6_align16b"), source])
    for row in range(2):
        whole = sum((int(v) & 63) << 6 * i for i, v in enumerate(source[row]))
        assert out[row].tobytes() == whole.to_bytes(96, "little")
