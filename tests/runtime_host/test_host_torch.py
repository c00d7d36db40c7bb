"""Tensors of torch on the CPU: which are taken for the same, and which are never launched natively."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from recording_host import Misses, RecordingDriver, entry

from tilec.backend.runtime.host import HostLauncher, HostUnavailable
from tilec.backend.runtime.host.tensors import tensor_memory, torch_tensors

torch: Any = pytest.importorskip("torch")
if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    pytest.skip("this torch has no exchange API", allow_module_level=True)


@pytest.fixture(params=["memory", "methods"])
def driver(request: pytest.FixtureRequest) -> RecordingDriver:
    """With torch's tensors, asked in both ways."""
    driver = RecordingDriver()
    tensors = torch_tensors()
    assert tensors.memory is not None
    if request.param == "methods":
        tensors = replace(tensors, memory=None)
    driver.host = replace(driver.host, tensors=tensors)
    return driver


def known(driver: RecordingDriver, *tensors: Any, outputs: int = 0) -> tuple[HostLauncher, Misses]:
    misses = Misses()
    launcher = driver.launcher(len(tensors) - outputs, outputs, misses)
    assert launcher.remember(tensors, entry())
    return launcher, misses


def test_a_call_with_tensors(driver: RecordingDriver) -> None:
    a, b, d = torch.zeros(8, 4), torch.zeros(3, 4, dtype=torch.bfloat16), torch.zeros(8, 3)
    launcher, misses = known(driver, a, b, d, outputs=1)
    assert launcher.call(a, b, out=d) is d
    assert launcher.call(a.view(8, 4), b.detach(), out=d, stream=9) is d
    assert [launch.stream for launch in driver.launches] == [0, 9]
    assert misses.calls == []


def test_other_views_of_the_memory_are_others(driver: RecordingDriver) -> None:
    base = torch.zeros(8, 8)
    launcher, _ = known(driver, base)
    others = [
        base[1:],
        base[:7],
        base[:, :4],
        base.t(),
        base.view(4, 16),
        base.view(64),
        base.view(torch.int32),
        base[None],
        base.clone(),
        base.double(),
        base.expand(2, 8, 8),
    ]
    for other in others:
        assert launcher.call(other) == "miss"
    assert driver.launches == []
    assert launcher.call(base.t().t()) is None


def test_a_freed_tensor_whose_memory_is_used_again(driver: RecordingDriver) -> None:
    storage = torch.zeros(64)
    first = storage[:32].view(4, 8)
    launcher, _ = known(driver, first)
    address = first.data_ptr()
    del first
    again = storage[:32].view(8, 4)
    assert again.data_ptr() == address
    assert launcher.call(again) == "miss"
    assert launcher.call(storage[:32].view(4, 8)) is None


def test_a_tensor_that_gets_other_memory(driver: RecordingDriver) -> None:
    tensor = torch.zeros(8, 4)
    launcher, _ = known(driver, tensor)
    other = torch.zeros(8, 4)
    tensor.data = other
    assert launcher.call(tensor) == "miss"
    tensor.resize_(4, 4)
    assert launcher.call(tensor) == "miss"


def test_gradients(driver: RecordingDriver) -> None:
    tensor = torch.zeros(8, 4)
    launcher, _ = known(driver, tensor)
    tensor.requires_grad_(True)
    assert launcher.call(tensor) == "miss"
    assert launcher.call(tensor.view(8, 4)) == "miss"
    assert launcher.call(tensor.detach()) is None
    with torch.no_grad():
        assert launcher.call(tensor) == "miss"
    tensor.requires_grad_(False)
    assert launcher.call(tensor) is None


def test_parameters(driver: RecordingDriver) -> None:
    parameter = torch.nn.Parameter(torch.zeros(8, 4), requires_grad=False)
    launcher, _ = known(driver, parameter)
    assert launcher.call(parameter) is None
    assert launcher.call(parameter.data) is None
    parameter.requires_grad_(True)
    assert launcher.call(parameter) == "miss"


def test_a_negative_view_shares_all_but_its_values(driver: RecordingDriver) -> None:
    numbers = torch.zeros(4, 4, dtype=torch.complex64)
    imaginary, negative = numbers.imag, numbers.conj().imag
    assert negative.is_neg()
    assert not imaginary.is_neg()
    assert (imaginary.data_ptr(), imaginary.stride()) == (negative.data_ptr(), negative.stride())
    launcher, misses = known(driver, imaginary)
    assert launcher.call(imaginary) is None
    assert launcher.call(negative) == "miss"
    assert launcher.call(torch._neg_view(imaginary)) == "miss"
    assert launcher.call(torch._neg_view(negative)) is None
    assert launcher.call(negative.as_strided((4, 4), imaginary.stride())) == "miss"
    assert not launcher.remember([negative], entry())
    assert len(misses.calls) == 3


def fake_tensor() -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.zeros(8, 4)


class Subclass(torch.Tensor):
    pass


ODD: dict[str, Callable[[], Any]] = {
    "complex": lambda: torch.zeros(8, 4, dtype=torch.complex64),
    "conjugate": lambda: torch.zeros(8, 4, dtype=torch.complex64).conj(),
    "fake": fake_tensor,
    "subclass": lambda: torch.zeros(8, 4).as_subclass(Subclass),
    "meta": lambda: torch.zeros(8, 4, device="meta"),
    "sparse": lambda: torch.eye(4).to_sparse(),
    "csr": lambda: torch.eye(4).to_sparse_csr(),
    "mkldnn": lambda: torch.zeros(8, 4).to_mkldnn(),
    "quantized": lambda: torch.quantize_per_tensor(torch.zeros(8, 4), 0.1, 0, torch.qint8),
    "storage": lambda: torch.zeros(8, 4).untyped_storage(),
    "buffer": lambda: torch.nn.UninitializedParameter(requires_grad=False),
    "scalar": lambda: 1.0,
    "NumPy": lambda: torch.zeros(8, 4).numpy(),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("make", ODD.values(), ids=ODD.keys())
def test_other_objects_are_never_remembered(driver: RecordingDriver, make: Callable[[], Any]) -> None:
    odd = make()
    plain = torch.zeros(8, 4)
    launcher, _ = known(driver, plain, plain)
    assert not launcher.remember([plain, odd], entry())
    assert launcher.call(plain, odd) == "miss"
    assert driver.launches == []


def test_tensors_inside_of_a_transform(driver: RecordingDriver) -> None:
    """Their Python type is torch.Tensor, but they stand for others."""
    plain = torch.zeros(8, 4)
    launcher, misses = known(driver, plain)
    remembered: list[bool] = []

    def call(x: Any) -> Any:
        assert type(x) is torch.Tensor
        remembered.append(launcher.remember([x], entry()))
        assert launcher.call(x) == "miss"
        return x

    torch.func.vmap(call)(torch.zeros(2, 8, 4))
    assert remembered == [False]
    assert len(misses.calls) == 1
    assert driver.launches == []


@pytest.fixture
def no_garbage() -> Iterator[None]:
    """What other tests have left behind refers to None and False too; it must not go away while those are counted."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_garbage")
def test_references_and_memory_stay_the_same(driver: RecordingDriver) -> None:
    a, b, d = torch.zeros(8, 4), torch.zeros(3, 4), torch.zeros(8, 3)
    launcher, misses = known(driver, a, b, d, outputs=1)
    namespace: dict[str, Any] = {"BM": object()}
    launcher.remember([a, b, d], entry(ctas=0), [(namespace, "BM", namespace["BM"])])
    launcher.remember_outputs([a, b], lambda: d)
    watched = [a, b, d, None, False, namespace, namespace["BM"], launcher, launcher.call, driver.host, "out", 1 << 40]

    def counts() -> list[int]:
        return [sys.getrefcount(o) for o in watched]

    stream = watched[-1]
    before = counts()
    for _ in range(100_000):
        launcher.call(a, b, out=d, stream=stream)
        launcher.call(a, b)
    # Others hold None, now and then.
    assert all(abs(x - y) <= 100 for x, y in zip(before, counts(), strict=True)), (before, counts())
    for _ in range(2_000):
        launcher.call(a, b, out=None)
        launcher.call(a, b, out=d, stream="no")
        launcher.call(a, 5, out=d)
        launcher.call(b, a)
    misses.calls.clear()
    assert all(abs(x - y) <= 100 for x, y in zip(before, counts(), strict=True)), (before, counts())


def resident_kib() -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def test_a_million_calls_need_no_more_memory(driver: RecordingDriver) -> None:
    a, b, d = torch.zeros(8, 4), torch.zeros(3, 4), torch.zeros(8, 3)
    launcher = driver.launcher(2, 1, Misses())
    launcher.remember([a, b, d], entry(ctas=0))
    call = launcher.call
    for _ in range(1000):
        call(a, b, out=d)
    gc.collect()
    before = resident_kib()
    for _ in range(1_000_000):
        call(a, b, out=d)
    # One object of 16 bytes kept at each call would be 15 MiB.
    assert resident_kib() - before < 4096


def test_where_tensors_keep_what_dlpack_does_not_tell() -> None:
    memory = tensor_memory(torch)
    assert memory is not None

    def word(address: int) -> int:
        return ctypes.c_uint64.from_address(address).value

    for tensor in (torch.zeros(3), torch.zeros(2, 2, 2, 2, 2, 2, dtype=torch.int8), torch.nn.Parameter(torch.zeros(3))):
        impl = word(id(tensor) + memory.impl)
        assert impl == tensor._cdata
        assert word(impl + memory.keys) == torch._C._dispatch_keys(tensor).raw_repr()
        assert word(impl + memory.keys) & memory.lazy == 0
        assert (word(impl + memory.autograd) != 0) == tensor.requires_grad


def test_modes_of_the_caller_do_not_matter() -> None:
    expected = tensor_memory(torch)
    with torch.inference_mode():
        assert tensor_memory(torch) == expected
    with torch.no_grad(), torch.device("meta"):
        assert tensor_memory(torch) == expected


def test_tensors_of_inference(driver: RecordingDriver) -> None:
    with torch.inference_mode():
        tensor = torch.zeros(8, 4)
        launcher, _ = known(driver, tensor)
        assert launcher.call(tensor) is None
    assert launcher.call(tensor) is None
    assert len(driver.launches) == 2


def test_memory_that_is_not_understood_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch, "_neg_view")
    assert tensor_memory(torch) is None
    assert torch_tensors().memory is None


def test_a_torch_without_the_exchange_api(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.Tensor, "__dlpack_c_exchange_api__")
    with pytest.raises(HostUnavailable, match="has no DLPack exchange API"):
        torch_tensors()
    monkeypatch.delitem(sys.modules, "torch")
    with pytest.raises(HostUnavailable, match="torch has not been imported"):
        torch_tensors()
