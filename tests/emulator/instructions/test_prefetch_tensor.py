"""Prefetches of maps, boxes and bytes: nothing happens, but what they name is checked."""

from __future__ import annotations

import numpy as np
import pytest
from bulk_kernels import fault, kernel, numbered, run

from tilec.backend.emulator.faults import FaultKind, UnsupportedInstruction
from tilec.backend.emulator.tensor_map import TensorMap


def arguments() -> list[object]:
    return [TensorMap(numbered(8, 16), (8, 16), None), np.zeros(64, np.uint8)]


@pytest.mark.parametrize(
    "instruction",
    [
        "prefetch.tensormap [m];",
        "prefetch.param.tensormap [m_];",
        "prefetch.param.tensormap [m];",
        "prefetch.const.tensormap [m];",
        "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [m, {0, -3}];",
        "cp.async.bulk.prefetch.tensor.2d.L2.global [m, {0, 0}];",
        "cp.async.bulk.prefetch.tensor.2d.L2.global.tile.L2::cache_hint [m, {0, 0}], %x0;",
        "cp.async.bulk.prefetch.L2.global [src], 64;",
        "cp.async.bulk.prefetch.L2.global.L2::cache_hint [src], %r0, %x0;",
    ],
)
def test_prefetches_do_nothing(instruction: str) -> None:
    result = run(kernel("mov.u32 %r0, 32;\n" + instruction, maps=["m"], parameters=["src"]), arguments())
    assert (result.tma_load_bytes, result.tma_store_bytes) == (0, 0)


@pytest.mark.parametrize(
    ("instruction", "kind", "message"),
    [
        (
            "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [m, {1, 0}];",
            FaultKind.ILLEGAL,
            "coordinate 1 along the innermost dimension is byte 2 of a row of u16: it must be a multiple of 16 bytes",
        ),
        (
            "cp.async.bulk.prefetch.tensor.1d.L2.global.tile [m, {0}];",
            FaultKind.DESCRIPTOR,
            "the tensor map has rank 2, the instruction .1d",
        ),
        (
            "cp.async.bulk.prefetch.L2.global [src+8], 16;",
            FaultKind.MISALIGNED,
            "the source 0x700201000008 is not a multiple of 16 bytes",
        ),
        (
            "cp.async.bulk.prefetch.L2.global [src], 8;",
            FaultKind.ILLEGAL,
            "the size of 8 bytes is not a multiple of 16",
        ),
    ],
)
def test_faults(instruction: str, kind: FaultKind, message: str) -> None:
    assert fault(kernel(instruction, maps=["m"], parameters=["src"]), arguments(), kind) == message


@pytest.mark.parametrize(
    "instruction",
    [
        "cp.async.bulk.prefetch.tensor.2d.L1.global.tile [m, {0, 0}];",
        "cp.async.bulk.prefetch.tensor.2d.L2.global.tile::scatter4 [m, {0, 0, 0, 0, 0}];",
        "cp.async.bulk.prefetch.tensor.4d.L2.global.im2col::w::128 [m, {0, 0, 0, 0}], {%h0, %h1};",
        "cp.async.bulk.prefetch.L2.shared::cta [%s], 16;",
        "prefetch.tensormap [m], 128;",
    ],
)
def test_forms_that_do_not_exist_or_are_not_done_stop(instruction: str) -> None:
    with pytest.raises(UnsupportedInstruction):
        run(kernel(instruction, maps=["m"], parameters=["src"]), arguments())
