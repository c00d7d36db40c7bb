"""Python kernels on two GPUs of one process."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from harness import torch, why_no_gpu
from jit_kernels import PIPELINE, expected, fresh_gemm, gemm, integers, watch_compilations

import tilec
from tilec.backend.runtime.driver import CudaDriver

pytestmark = pytest.mark.skipif(why_no_gpu() is None and torch.cuda.device_count() < 2, reason="there is one GPU")
GPUS = ("cuda:0", "cuda:1")


def operands(device: str, m: int = 200, n: int = 136, k: int = 72) -> tuple[Any, Any]:
    return integers(m, k, device=device), integers(n, k, device=device)


def check(d: Any, a: Any, b: Any) -> None:
    """Wait for the device of `d`; it must be that of `a`, and hold A B^T."""
    torch.cuda.synchronize(d.device)
    assert d.device == a.device and torch.equal(d, expected(a, b))


def test_the_tensors_say_which_gpu() -> None:
    assert torch.cuda.current_device() == 0
    a, b = operands("cuda:1")
    function: Any = fresh_gemm()
    for call in (function, function, gemm):
        check(call(a, b), a, b)
        assert torch.cuda.current_device() == 0
    d = torch.full((200, 136), float("nan"), dtype=torch.float16, device="cuda:1")
    assert function(a, b, out=d) is d
    check(d, a, b)


def test_the_current_gpu_does_not_matter() -> None:
    for current in (0, 1):
        with torch.cuda.device(current):
            for device in GPUS:
                a, b = operands(device)
                torch.cuda.synchronize(device)
                check(gemm(a, b), a, b)
                assert torch.cuda.current_device() == current


def test_gpus_in_turn() -> None:
    """Compiled once, loaded once on each GPU; calls with the same and with new tensors."""
    function: Any = fresh_gemm()
    kept = [operands(device) for device in GPUS]
    outputs = [torch.empty(200, 136, dtype=torch.float16, device=device) for device in GPUS]
    for i in range(20):
        a, b = kept[i % 2]
        outputs[i % 2].fill_(float("nan"))
        torch.cuda.synchronize(a.device)
        assert function(a, b, out=outputs[i % 2]) is outputs[i % 2]
        check(outputs[i % 2], a, b)
        x, y = operands(GPUS[i % 2], m=8 * i + 8)
        torch.cuda.synchronize(x.device)
        check(function(x, y), x, y)
        assert torch.cuda.current_device() == 0


def test_compiled_once_and_loaded_once_on_each(monkeypatch: pytest.MonkeyPatch) -> None:
    compilations = watch_compilations(monkeypatch)
    loads: list[str] = []
    load: Any = CudaDriver.load

    def watched(self: CudaDriver, image: bytes, entry: str) -> object:
        loads.append(entry)
        return load(self, image, entry)

    monkeypatch.setattr(CudaDriver, "load", watched)
    function: Any = fresh_gemm()
    for m in (200, 264, 8):
        for device in GPUS:
            a, b = operands(device, m)
            check(function(a, b), a, b)
    assert compilations == [PIPELINE]
    assert len(loads) == 2


def test_tensors_of_different_gpus_are_refused() -> None:
    (a, b), (x, y) = (operands(device) for device in GPUS)
    d = torch.empty(200, 136, dtype=torch.float16, device="cuda:1")
    for call, names, devices in (
        (lambda: gemm(a, y), "A and B", "0 and 1"),
        (lambda: gemm(x, b), "A and B", "1 and 0"),
        (lambda: gemm(a, b, out=d), "A and D", "0 and 1"),
    ):
        for _ in range(2):
            with pytest.raises(tilec.TilecError) as caught:
                call()
            assert str(caught.value) == (
                f"error: arguments {names} are on different devices: {devices}\nhint: move them to one device"
            )
    check(gemm(a, b), a, b)
    check(gemm(x, y, out=d), x, y)


@pytest.mark.parametrize("explicit", [False, True], ids=["current stream", "stream="])
def test_the_current_stream_of_each_gpu(explicit: bool) -> None:
    """A delayed copy makes A in a side stream of each GPU; the kernel comes after it, a copy of D behind the kernel."""
    warm = [gemm(*operands(device)) for device in GPUS]
    sources = [operands(device) for device in GPUS]
    streams = [torch.cuda.Stream(device) for device in GPUS]
    inputs = [torch.full_like(a, float("nan")) for a, _ in sources]
    copies = [torch.full_like(d, float("nan")) for d in warm]
    for device in GPUS:
        torch.cuda.synchronize(device)
    for (source, b), stream, a, copy in zip(sources, streams, inputs, copies, strict=True):
        with torch.cuda.stream(stream):
            torch.cuda._sleep(20_000_000)
            a.copy_(source)
            if not explicit:
                copy.copy_(gemm(a, b))
        if explicit:
            d = gemm(a, b, stream=stream)
            with torch.cuda.stream(stream):
                copy.copy_(d)
    for (source, b), stream, copy in zip(sources, streams, copies, strict=True):
        stream.synchronize()
        assert torch.equal(copy, expected(source, b))
    assert torch.cuda.current_device() == 0


def test_equal_shapes_on_both() -> None:
    """Nothing that is remembered of one GPU's tensors, tensor maps included, is taken for the other's.

    Both GPUs are given memory in the same order, so that addresses may be equal; the views of one storage make sure that
    shapes and offsets are.
    """
    storages = [torch.zeros(1 << 20, dtype=torch.float16, device=device) for device in GPUS]
    for _ in range(3):
        for offset in (0, 4096, 8192):
            made: list[Any] = []
            for storage in storages:
                a = storage[offset : offset + 128 * 64].view(128, 64)
                b = storage[32768 : 32768 + 64 * 64].view(64, 64)
                a.copy_(integers(128, 64, device=str(storage.device)))
                b.copy_(integers(64, 64, device=str(storage.device)))
                torch.cuda.synchronize(storage.device)
                made.append((gemm(a, b), a, b))
            for d, a, b in made:
                check(d, a, b)


def test_graph_on_the_second_gpu() -> None:
    a, b = operands("cuda:1")
    gemm(a, b)
    torch.cuda.synchronize("cuda:1")
    with torch.cuda.device(1):
        graph = torch.cuda.CUDAGraph()
        # Torch's own capture stream belongs to the GPU of the first capture of the process.
        with torch.cuda.graph(graph, stream=torch.cuda.Stream("cuda:1")):
            d = gemm(a, b)
    for _ in range(2):
        a.copy_(integers(200, 72, device="cuda:1"))
        torch.cuda.synchronize("cuda:1")
        with torch.cuda.device(1):
            graph.replay()
        check(d, a, b)


def test_a_thread_for_each_gpu() -> None:
    function: Any = fresh_gemm()

    def work(device: str) -> None:
        with torch.cuda.device(device):
            for i in range(20):
                a, b = operands(device, m=8 * i + 8)
                check(function(a, b), a, b)

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(work, device) for device in GPUS * 2]:
            done.result()


def test_a_copy_between_gpus_is_the_users() -> None:
    a, b = operands("cuda:0")
    d = gemm(a.to("cuda:1"), b.to("cuda:1"))
    torch.cuda.synchronize("cuda:1")
    assert torch.equal(d.to("cuda:0"), expected(a, b))


def test_simulated_on_the_second_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEC_SIMULATE", "1")
    a, b = operands("cuda:1", 40, 24, 16)
    check(gemm(a, b), a, b)
