"""Python kernels with arrays of other libraries, by the protocols that those have, and with several libraries in one call."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from harness import finish, torch
from jit_kernels import check, gemm, integers

import tilec


class WithInterface:
    """Only a ``__cuda_array_interface__``, over the memory of a torch tensor."""

    def __init__(self, tensor: Any, *, stream: int | None = None, readonly: bool = False) -> None:
        self._tensor = tensor
        fields = tensor.__cuda_array_interface__
        self.__cuda_array_interface__ = {
            **fields,
            "version": 3,
            "stream": stream,
            "data": (fields["data"][0], readonly),
        }


class WithDLPack:
    """Only ``__dlpack__``, of a torch tensor."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def __dlpack__(self, **options: Any) -> Any:
        return self._tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._tensor.__dlpack_device__()


def nan(*shape: int, dtype: Any = None) -> Any:
    return torch.full(shape, float("nan"), dtype=dtype or torch.float16, device="cuda")


WRAPPERS = {"interface": WithInterface, "DLPack": WithDLPack}


@pytest.mark.parametrize("protocol", WRAPPERS)
def test_protocols(protocol: str) -> None:
    wrap: Any = WRAPPERS[protocol]
    for a, b in (
        (integers(200, 136), integers(264, 136)),
        (integers(136, 200).t(), integers(264, 512)[:, 8:144]),
        (integers(200, 71), integers(264, 71)),
    ):
        d = nan(200, 264)
        for _ in range(2):
            d.fill_(float("nan"))
            out = wrap(d)
            assert gemm(wrap(a), wrap(b), out=out) is out
            check(d, a, b)


def test_dlpack_of_bfloat16() -> None:
    a, b = integers(200, 72, dtype="bf16"), integers(136, 72, dtype="bf16")
    d = nan(200, 136, dtype=torch.bfloat16)
    gemm(WithDLPack(a), WithDLPack(b), out=WithDLPack(d))
    check(d, a, b, "bf16")


@pytest.mark.parametrize("a_kind", [*WRAPPERS, "torch"])
@pytest.mark.parametrize("b_kind", [*WRAPPERS, "torch"])
@pytest.mark.parametrize("d_kind", [*WRAPPERS, "torch"])
def test_mixed_libraries_in_one_call(a_kind: str, b_kind: str, d_kind: str) -> None:
    a, b, d = integers(200, 72), integers(136, 72), nan(200, 136)
    wrap: dict[str, Any] = {**WRAPPERS, "torch": lambda t: t}
    gemm(wrap[a_kind](a), wrap[b_kind](b), out=wrap[d_kind](d))
    check(d, a, b)


@pytest.mark.parametrize("protocol", WRAPPERS)
def test_outputs_are_torch_tensors_where_an_input_is(protocol: str) -> None:
    wrap: Any = WRAPPERS[protocol]
    a, b = integers(200, 72), integers(136, 72)
    d = gemm(a, wrap(b))
    assert type(d) is torch.Tensor
    check(d, a, b)


@pytest.mark.parametrize("protocol", WRAPPERS)
def test_outputs_that_no_library_is_known_for_must_be_given(protocol: str) -> None:
    wrap: Any = WRAPPERS[protocol]
    with pytest.raises(tilec.TilecError) as caught:
        gemm(wrap(integers(200, 72)), wrap(integers(136, 72)))
    assert caught.value.diagnostic.hint == "pass the outputs as out="


def test_data_of_another_stream_is_waited_for() -> None:
    """An array names the stream that makes it: the launch comes after what is in there."""
    source, b, d = integers(256, 192), integers(128, 192), nan(256, 128)
    a = nan(256, 192)
    gemm(source, b, out=d)
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    for stream in (None, torch.cuda.Stream()):
        a.fill_(float("nan"))
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)
            a.copy_(source)
        gemm(WithInterface(a, stream=side.cuda_stream), b, out=d, stream=stream)
        torch.cuda.synchronize()
        check(d, source, b)


def test_read_only_arrays() -> None:
    a, b, d = integers(200, 72), integers(136, 72), nan(200, 136)
    gemm(WithInterface(a, readonly=True), b, out=WithInterface(d))
    check(d, a, b)
    with pytest.raises(tilec.TilecError) as caught:
        gemm(a, b, out=WithInterface(d, readonly=True))
    assert str(caught.value) == (
        "error: argument D is read-only; the kernel writes it\nhint: pass an output of its own"
    )


def numba_cuda() -> Any:
    """numba.cuda; the test is skipped where it cannot make an array."""
    try:
        module: Any = importlib.import_module("numba.cuda")
        module.to_device(np.zeros((8, 8), np.float16))
    except Exception as error:
        pytest.skip(f"numba-cuda makes no arrays here: {type(error).__name__}: {error}")
    return module


def host(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).integers(-2, 3, shape).astype(np.float16)


def exact(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return (a.astype(np.float64) @ b.astype(np.float64).T).astype(np.float16)


def test_numba_arrays() -> None:
    cuda = numba_cuda()
    a, b = host(200, 72), host(136, 72)
    on_a, on_b = cuda.to_device(a), cuda.to_device(b)
    d = gemm(on_a, on_b)
    assert cuda.is_cuda_array(d) and type(d) is type(on_a) and d.dtype == np.float16
    assert (d.copy_to_host() == exact(a, b)).all()
    given = cuda.device_array((200, 136), np.float16)
    for _ in range(2):
        assert gemm(on_a, on_b, out=given) is given
        assert (given.copy_to_host() == exact(a, b)).all()


def test_numba_and_torch_in_one_call() -> None:
    cuda = numba_cuda()
    a, b = host(200, 72), integers(136, 72)
    d = gemm(cuda.to_device(a), b)
    assert type(d) is torch.Tensor
    finish()
    assert (d.cpu().numpy() == exact(a, b.cpu().numpy())).all()


def test_numba_arrays_in_a_stream_of_numba() -> None:
    cuda = numba_cuda()
    a, b = host(200, 72), host(136, 72)
    stream = cuda.stream()
    on_a, on_b = cuda.to_device(a, stream=stream), cuda.to_device(b, stream=stream)
    d = cuda.device_array((200, 136), np.float16, stream=stream)
    gemm(on_a, on_b, out=d, stream=stream)
    got = d.copy_to_host(stream=stream)
    stream.synchronize()
    assert (got == exact(a, b)).all()


def test_numba_kernels_around_a_call() -> None:
    """A numba-cuda kernel makes A, ours multiplies, another one doubles the product: all in one stream."""
    cuda = numba_cuda()

    def copy(source: Any, target: Any) -> None:
        i, j = cuda.grid(2)
        if i < target.shape[0] and j < target.shape[1]:
            target[i, j] = source[i, j]

    def double(values: Any) -> None:
        i, j = cuda.grid(2)
        if i < values.shape[0] and j < values.shape[1]:
            values[i, j] = values[i, j] + values[i, j]

    try:
        copies, doubles = cuda.jit(copy), cuda.jit(double)
        probe = cuda.to_device(np.zeros((8, 8), np.float16))
        copies[(1, 1), (8, 8)](probe, probe)
        doubles[(1, 1), (8, 8)](probe)
    except Exception as error:
        pytest.skip(f"numba-cuda compiles nothing here: {type(error).__name__}: {error}")
    a, b = host(256, 192), host(128, 192)
    stream = cuda.stream()
    source, weights = cuda.to_device(a, stream=stream), cuda.to_device(b, stream=stream)
    made = cuda.device_array((256, 192), np.float16, stream=stream)
    product = cuda.device_array((256, 128), np.float16, stream=stream)
    for _ in range(2):
        copies[(16, 12), (16, 16), stream](source, made)
        gemm(made, weights, out=product, stream=stream)
        doubles[(16, 8), (16, 16), stream](product)
        got = product.copy_to_host(stream=stream)
        stream.synchronize()
        assert (got == 2 * exact(a, b)).all()
