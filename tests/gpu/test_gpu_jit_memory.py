"""What a Python kernel remembers of earlier calls: never values, never memory, never a tensor."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import Any

from harness import finish, torch
from jit_kernels import check, gemm, integers, scaled_gemm

from tilec import tile

CALLS = 10_000
KINDS = ["f16", "bf16"]


def test_one_address_with_other_shapes_and_types() -> None:
    """The same memory as other tensors, through calls that are remembered by then."""
    storage = torch.empty(1 << 18, dtype=torch.uint8, device="cuda")
    b = {dtype: {k: integers(136, k, dtype=dtype) for k in (64, 72, 71, 128)} for dtype in KINDS}
    for _ in range(3):
        for dtype in KINDS:
            for m, k in ((256, 64), (128, 128), (64, 128), (512, 64), (200, 72), (200, 71)):
                values = integers(m, k, dtype=dtype)
                a = storage[: m * k * 2].view(values.dtype).view(m, k)
                a.copy_(values)
                assert a.data_ptr() == storage.data_ptr()
                check(gemm(a, b[dtype][k]), values, b[dtype][k], dtype)
                turned = storage[: m * k * 2].view(values.dtype).view(k, m).t()
                turned.copy_(values)
                check(gemm(turned, b[dtype][k]), values, b[dtype][k], dtype)


def test_memory_that_torch_gives_to_another_tensor() -> None:
    """torch's allocator gives a block that was freed to the next tensor that fits."""
    reused = 0
    address = 0
    for shape, dtype in [((256, 64), "f16"), ((128, 128), "f16"), ((128, 128), "bf16"), ((64, 256), "bf16")] * 5:
        a = integers(*shape, dtype=dtype)
        reused += a.data_ptr() == address
        address = a.data_ptr()
        b = integers(136, shape[1], dtype=dtype)
        d = gemm(a, b)
        check(d, a, b, dtype)
        del a, b, d
    assert reused, "no block was given twice: the test shows nothing"


def test_two_tensors_in_turn() -> None:
    b = integers(136, 72)
    inputs, outputs = [integers(200, 72) for _ in range(2)], [integers(200, 136) for _ in range(2)]
    for i in range(100):
        outputs[i % 2].fill_(float("nan"))
        gemm(inputs[i % 2], b, out=outputs[i % 2])
        check(outputs[i % 2], inputs[i % 2], b)
    for i in range(100):
        inputs[i % 2].copy_(integers(200, 72))
        check(gemm(inputs[i % 2], b), inputs[i % 2], b)


def test_another_number_of_ctas_or_constant_with_the_same_tensors() -> None:
    a, b, d = integers(500, 72), integers(300, 72), integers(500, 300)
    for ctas in (None, 1, None, 3, 1):
        d.fill_(float("nan"))
        check(gemm(a, b, out=d, max_ctas=ctas), a, b)
    for block in (64, 32, 64):
        d.fill_(float("nan"))
        check(scaled_gemm(a, b, out=d, block=block), 2 * a, b)
    check(scaled_gemm(a, b, kind=tile.f32), 2 * a, b, "f32")


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Held:
    """What this process holds: counts that calls must not change, and bytes that they may hardly change."""

    def __init__(self, tensors: tuple[Any, ...]) -> None:
        finish()
        gc.collect()
        self.counts = {
            "references": [sys.getrefcount(t) for t in tensors],
            "bytes of torch": torch.cuda.memory_allocated(),
        }
        self.objects = len(gc.get_objects())
        self.resident = resident_bytes()


def launch_many(tensors: tuple[Any, ...], *, given: bool) -> None:
    a, b, d = tensors
    for i in range(CALLS):
        if given:
            gemm(a, b, out=d)
        else:
            gemm(a, b)
        if i % 500 == 0:
            finish()


def test_many_calls_leave_nothing_behind() -> None:
    tensors = (integers(128, 64), integers(128, 64), integers(128, 128))
    for given in (True, False):
        gemm(tensors[0], tensors[1], out=tensors[2])
        gemm(tensors[0], tensors[1])
        before = Held(tensors)
        launch_many(tensors, given=given)
        after = Held(tensors)
        assert after.counts == before.counts
        assert after.objects - before.objects < 200
        assert after.resident - before.resident < 8 << 20
        check(tensors[2], *tensors[:2])


def test_calls_with_new_tensors_leave_nothing_behind() -> None:
    """2,000 tensors at as many addresses: what is remembered of calls has a bound."""
    storage = torch.zeros(64 << 20, dtype=torch.float16, device="cuda")
    b, d = integers(8, 8), integers(8, 8)

    def launch(first: int) -> None:
        for i in range(first, first + 2000):
            gemm(storage[64 * i : 64 * (i + 1)].view(8, 8), b, out=d)
            if i % 500 == 0:
                finish()

    launch(0)
    launch(2000)
    before = Held((b, d))
    launch(4000)
    after = Held((b, d))
    assert after.counts == before.counts
    assert after.resident - before.resident < 8 << 20
