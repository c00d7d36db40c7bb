"""Memory that is freed and given to another tensor: what a call remembers is never told apart by its address alone."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest
from fake_compiler import FakeCompiler, sizes
from fake_driver import DEVICE_MEMORY, FakeDriver, FakeTensor, FakeTorch
from gemm_text import gemm

import tilec
from tilec.backend.runtime.tensor_map import MapFields
from tilec.diagnostics import TilecError, collect
from tilec.kernel import Kernel

A, B, D = 0x10000, 0x400000, 0x800000


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """That some copies are not by TMA is told elsewhere."""
    with collect():
        yield


@pytest.fixture
def kernel(driver: FakeDriver, compiler: FakeCompiler, torch: FakeTorch) -> Kernel:
    return tilec.compile(gemm(), driver=driver)


def call(kernel: Kernel, *, a: FakeTensor | None = None, b: FakeTensor | None = None, m: int = 256) -> None:
    """A is m x 128, B 256 x 128; the tensors are freed when the call is over."""
    kernel(
        a or FakeTensor((m, 128), address=A), b or FakeTensor((256, 128), address=B), FakeTensor((m, 256), address=D)
    )


@dataclass
class OnDevices(FakeDriver):
    """Writes down where maps are encoded as well."""

    encoded_on: list[int] = field(default_factory=lambda: list[int]())

    def encode(self, fields: MapFields) -> bytes:
        self.encoded_on.append(self.stack[-1])
        return super().encode(fields)


def test_the_same_address_with_another_shape(kernel: Kernel, driver: FakeDriver, compiler: FakeCompiler) -> None:
    call(kernel)
    driver.sizes = sizes(compiler.compiled[0].abi)
    call(kernel, m=128)
    call(kernel, m=256)
    extents = [(int.from_bytes(one.parameters[3], "little"), one.shape.ctas) for one in driver.launched[1:]]
    assert extents == [(128, 2), (256, 4)]
    assert [f.extents for f in driver.encoded] == [(128, 256), (128, 256), (256, 256), (128, 128), (256, 128)]


def test_the_same_address_with_other_strides(kernel: Kernel, driver: FakeDriver, compiler: FakeCompiler) -> None:
    pitches = (128, 256, 136, 131, 128)
    for pitch in pitches:
        call(kernel, a=FakeTensor((256, 128), (pitch, 1), address=A))
    # Of a pitch of 131 elements there is no map, but another variant.
    assert [f.pitches for f in driver.encoded if f.address == A] == [(256,), (512,), (272,)]
    assert [c.abi.views[0].align for c in compiler.compiled] == [16, 2]
    call(kernel, a=FakeTensor((256, 128), (1, 256), address=A))
    assert [c.abi.views[0].order for c in compiler.compiled][2:] == [(0, 1)]


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "int16"])
def test_the_same_address_with_another_dtype(kernel: Kernel, driver: FakeDriver, dtype: str) -> None:
    """bf16 and int16 are as large as f16: shape, strides and address say nothing of them."""
    for _ in range(2):
        call(kernel)
        with pytest.raises(TilecError, match=r"argument A holds \w+; the kernel takes f16"):
            call(kernel, a=FakeTensor((256, 128), dtype=dtype, address=A))
    assert len(driver.launched) == 2


def test_two_kernels_over_one_address(driver: FakeDriver, compiler: FakeCompiler, torch: FakeTorch) -> None:
    """A map says f16 or bf16; two callables share no map."""
    for dtype, code in (("f16", 6), ("bf16", 9), ("f16", 6)):
        driver.encoded.clear()
        name = {"f16": "float16", "bf16": "bfloat16"}[dtype]
        tensors = [FakeTensor(s, None, name, address=a) for s, a in (((256, 128), A), ((256, 128), B), ((256, 256), D))]
        tilec.compile(gemm(dtype=dtype, out=dtype), driver=driver)(*tensors)
        assert [f.data_type for f in driver.encoded] == [code] * 3


def test_the_same_address_on_another_device(compiler: FakeCompiler, torch: FakeTorch) -> None:
    """Addresses of two GPUs differ where they are unified; the device is looked at all the same."""
    driver = OnDevices()
    kernel = tilec.compile(gemm(), driver=driver)
    shapes = (((256, 128), A), ((256, 128), B), ((256, 256), D))
    for device in (0, 1, 0, 1):
        kernel(*(FakeTensor(s, address=a, device=device) for s, a in shapes))
    assert driver.encoded_on == [0, 0, 0, 1, 1, 1]
    assert [one.device for one in driver.launched] == [0, 1, 0, 1]


def test_every_field_of_a_map_tells_tensors_apart() -> None:
    """With a field more, the cache has to know it too: it takes all of them, since they are one value."""
    base = MapFields(A, (128, 256), (256,), (64, 128), 6, 3, 3)
    changes: dict[str, object] = {
        "address": B,
        "extents": (128, 255),
        "pitches": (512,),
        "box": (64, 64),
        "data_type": 9,
        "swizzle": 2,
        "l2_promotion": 2,
    }
    assert set(changes) == set(MapFields._fields)
    other = {base._replace(**{name: value}) for name, value in changes.items()}
    assert len({base, *other}) == 1 + len(changes)


def test_two_tensors_in_turn(kernel: Kernel, driver: FakeDriver, compiler: FakeCompiler) -> None:
    call(kernel)
    driver.sizes = sizes(compiler.compiled[0].abi)
    driver.cuda = (13, 2)  # from then on maps are passed as they are encoded
    driver.launched.clear()
    for i in range(200):
        call(kernel, a=FakeTensor((256, 128), address=(A, A + DEVICE_MEMORY // 2)[i % 2]))
    assert [f.address for f in driver.encoded] == [A, B, D, A + DEVICE_MEMORY // 2]
    maps = [int.from_bytes(one.parameters[0][:2], "little") for one in driver.launched]
    assert maps == [1, 4] * 100


def test_misaligned_tensors_are_not_copied(kernel: Kernel, driver: FakeDriver, compiler: FakeCompiler) -> None:
    """So that no copy can be freed before the launch has read it: the kernel gets the address that was passed."""
    off = FakeTensor((256, 128), (136, 1), address=A + 2)
    call(kernel, a=off)
    driver.sizes = sizes(compiler.compiled[0].abi)
    for _ in range(100):
        call(kernel, a=FakeTensor((256, 128), (136, 1), address=A + 2))
        assert int.from_bytes(driver.launched[-1].parameters[0], "little") == A + 2
        assert int.from_bytes(driver.launched[-1].parameters[1], "little") == 272
    assert [f.address for f in driver.encoded] == [B, D]


def test_a_remembered_call_keeps_no_tensor_alive(kernel: Kernel) -> None:
    a = FakeTensor((256, 128), address=A)
    kept = weakref.ref(a)
    call(kernel, a=a)
    call(kernel, a=a)
    del a
    gc.collect()
    assert kept() is None


def test_calls_beyond_what_is_remembered(kernel: Kernel, driver: FakeDriver, compiler: FakeCompiler) -> None:
    """Forgotten calls and maps are made again, right."""
    call(kernel)
    driver.sizes = sizes(compiler.compiled[0].abi)
    for i in [*range(1500), *range(3)]:
        call(kernel, a=FakeTensor((256, 128), address=A + 256 * i))
        number = int.from_bytes(driver.launched[-1].parameters[0][:2], "little")
        assert driver.encoded[number - 1].address == A + 256 * i


def test_one_piece_of_host_memory_for_many_problems() -> None:
    """On the simulator: one buffer, seen as arrays of other shapes, strides and element types one after the other."""
    memory = np.zeros(1 << 14, np.float16)
    f16, f32 = (tilec.compile(gemm(out=out), pipeline="tma") for out in ("f16", "f32"))
    rng = np.random.default_rng(0)
    for m, n, k, transposed, run in [(64, 40, 72, False, f16), (64, 40, 72, True, f32), (40, 64, 64, False, f16)] * 2:
        a = memory[: m * k].reshape((k, m) if transposed else (m, k))
        a[...] = rng.integers(-2, 3, a.shape)
        a = a.T if transposed else a
        b = rng.integers(-2, 3, (n, k)).astype(np.float16)
        d = memory[1 << 13 :].view(np.float32 if run is f32 else np.float16)[: m * n].reshape(m, n)
        d[...] = np.nan
        run(a, b, d)
        assert np.array_equal(d, a.astype(np.float64) @ b.astype(np.float64).T)
