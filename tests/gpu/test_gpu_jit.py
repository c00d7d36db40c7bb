"""Calls of Python kernels with torch tensors: outputs, views, constants, and what a call refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jit_kernels
import numpy as np
import pytest
from harness import Buffer, finish, torch
from jit_kernels import check, expected, fresh_gemm, gemm, gemm_both_ways, gemm_into, integers, scaled_gemm

import tilec
import tilec.hosted
from tilec import tile


def test_output_is_a_new_tensor_like_the_inputs() -> None:
    a, b = integers(200, 136), integers(264, 136)
    first, second = gemm(a, b), gemm(a, b)
    assert type(first) is torch.Tensor
    assert first.device == a.device and first.dtype == torch.float16
    assert first.shape == (200, 264) and first.is_contiguous() and not first.requires_grad
    assert first.data_ptr() != second.data_ptr()
    check(first, a, b)
    check(second, a, b)


def test_output_given() -> None:
    a, b = integers(200, 136), integers(264, 136)
    buffer = Buffer(200, 264, "f16", pitch=512, shift=3)
    assert gemm(a, b, out=buffer.tensor) is buffer.tensor
    check(buffer.tensor, a, b)
    buffer.check_beside()
    d = torch.full((200, 264), float("nan"), dtype=torch.float16, device="cuda")
    assert gemm(a, b, out=(d,)) is d
    check(d, a, b)
    by_name = gemm(B=b, A=a)
    check(by_name, a, b)


def test_several_outputs() -> None:
    a, b = integers(200, 136), integers(264, 136)
    d, c = gemm_both_ways(a, b)
    check(d, a, b)
    check(c, b, a, "f32")
    # Given outputs stand in the order in which the function makes them.
    given = (torch.empty_like(c), torch.empty_like(d))
    returned = gemm_both_ways(a, b, out=given)
    assert returned[0] is given[1] and returned[1] is given[0]
    check(given[1], a, b)
    check(given[0], b, a, "f32")


def test_output_as_a_parameter() -> None:
    a, b = integers(200, 136), integers(264, 136)
    d = torch.full((200, 264), float("nan"), dtype=torch.float16, device="cuda")
    assert gemm_into(a, b, d) is None
    check(d, a, b)


VIEWS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "rows": lambda: (integers(400, 136)[100:300], integers(264, 136)[::2]),
    "columns": lambda: (integers(200, 512)[:, 64:200], integers(264, 512)[:, 8:144]),
    "columns off the grid": lambda: (integers(200, 512)[:, 3:140], integers(264, 512)[:, 5:142]),
    "transposed": lambda: (integers(136, 200).t(), integers(136, 264).t()),
    "one transposed": lambda: (integers(136, 200).t(), integers(264, 136)),
    "slice of a transpose": lambda: (integers(136, 400).t()[8:208], integers(512, 264).t()[:, 100:236]),
    "odd K": lambda: (integers(200, 71), integers(264, 71)),
    "K of 1": lambda: (integers(200, 1), integers(264, 1)),
    "every second row": lambda: (integers(400, 136)[::2], integers(528, 136)[1::2]),
    "part of a batch": lambda: (integers(3, 200, 136)[1], integers(264, 3, 136)[:, 2]),
    "a repeated row": lambda: (integers(1, 136).expand(200, 136), integers(264, 136)),
    "reshaped": lambda: (integers(10, 20, 136).reshape(200, 136), integers(264 * 136).view(264, 136)),
    "one row": lambda: (integers(1, 136), integers(264, 136)),
}


@pytest.mark.parametrize("which", VIEWS)
def test_views(which: str) -> None:
    a, b = VIEWS[which]()
    check(gemm(a, b), a, b)
    check(gemm(a, b), a, b)


def test_outputs_that_are_views() -> None:
    a, b = integers(200, 72), integers(136, 72)
    whole = torch.full((3, 256, 512), float("nan"), dtype=torch.float16, device="cuda")
    rows = torch.full((136, 200), float("nan"), dtype=torch.float16, device="cuda")
    for d in (whole[1, :200, :136], whole[2, 56:256, 7:143], rows.t()):
        assert gemm(a, b, out=d) is d
        check(d, a, b)
    assert int((~whole.isnan()).sum()) == 2 * 200 * 136


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_element_types(dtype: str) -> None:
    a, b = integers(200, 72, dtype=dtype), integers(136, 72, dtype=dtype)
    check(gemm(a, b), a, b, dtype)


def test_constants_of_a_call() -> None:
    a, b = integers(200, 72), integers(136, 72)
    for block in (64, 128, 32):
        check(scaled_gemm(a, b, block=block), 2 * a, b)
    check(scaled_gemm(a, b, kind=tile.f32), 2 * a, b, "f32")
    check(scaled_gemm(a, b, block=32, kind=tile.f32), 2 * a, b, "f32")
    check(scaled_gemm(a, b), 2 * a, b)


def test_a_global_that_changes_between_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = integers(200, 72), integers(136, 72)
    d = torch.empty(200, 136, dtype=torch.float16, device="cuda")
    for _ in range(3):
        check(scaled_gemm(a, b, out=d), 2 * a, b)
    for factor in (3.0, 1.0, 2.0, 3.0):
        monkeypatch.setattr(jit_kernels, "FACTOR", factor)
        for _ in range(2):
            check(scaled_gemm(a, b, out=d), factor * a, b)
    monkeypatch.undo()
    check(scaled_gemm(a, b, out=d), 2 * a, b)


def test_kernel_and_variant_take_the_same_tensors() -> None:
    a, b = integers(200, 136), integers(264, 136)
    d = torch.full((200, 264), float("nan"), dtype=torch.float16, device="cuda")
    assert gemm.kernel(a, b)(a, b, d) is None
    check(d, a, b)
    variant = gemm.variant(a, b)
    major, minor = torch.cuda.get_device_capability()
    assert variant.target == f"sm_{major}{minor}a"
    assert f".target {variant.target}" in variant.asm["ptx"]


@pytest.mark.parametrize("ctas", [1, 2, 7, 10_000])
def test_bounded_grid(ctas: int) -> None:
    a, b = integers(500, 72), integers(300, 72)
    check(gemm(a, b, max_ctas=ctas), a, b)
    check(gemm(a, b), a, b)


def test_empty_tensors() -> None:
    for m in (0, 1, 130):
        for n in (0, 1, 130):
            for k in (0, 1, 72):
                a, b = integers(m, k), integers(n, k)
                d = torch.full((m, n), float("nan"), dtype=torch.float16, device="cuda")
                check(gemm(a, b, out=d), a, b)
                check(gemm(a, b), a, b)


def test_host_and_gpu_give_the_same() -> None:
    a, b = integers(200, 72), integers(136, 72)
    on_gpu = gemm(a, b)
    finish()
    on_cpu = gemm(a.cpu(), b.cpu())
    assert on_cpu.device.type == "cpu" and torch.equal(on_cpu, on_gpu.cpu())
    by_numpy = gemm(a.cpu().numpy(), b.cpu().numpy())
    assert isinstance(by_numpy, np.ndarray) and (by_numpy == on_gpu.cpu().numpy()).all()


def test_simulated_tensors_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = integers(200, 72), integers(136, 72)
    on_gpu = gemm(a, b)
    finish()
    simulations: list[object] = []
    run_on_host: Callable[..., Any] = tilec.hosted.run_on_host

    def watched(*arguments: Any) -> Any:
        simulations.append(arguments)
        return run_on_host(*arguments)

    monkeypatch.setattr(tilec.hosted, "run_on_host", watched)
    monkeypatch.setenv("TILEC_SIMULATE", "1")
    function: Any = fresh_gemm()
    simulated = function(a, b)
    assert simulated.device == a.device and torch.equal(simulated, on_gpu)
    d = torch.full_like(on_gpu, float("nan"))
    assert function(a, b, out=d) is d and torch.equal(d, on_gpu)
    assert len(simulations) == 2
    monkeypatch.delenv("TILEC_SIMULATE")
    check(function(a, b, out=d), a, b)
    assert len(simulations) == 2


def test_gradients_are_refused_where_torch_records_them() -> None:
    a, b = integers(200, 72), integers(136, 72)
    weight = torch.nn.Parameter(b.clone())
    d = torch.empty(200, 136, dtype=torch.float16, device="cuda")
    for _ in range(2):
        with pytest.raises(tilec.TilecError) as caught:
            gemm(a, weight, out=d)
        assert str(caught.value) == (
            "error: argument B requires grad, but a kernel has no derivative of its own\n"
            "hint: call it under torch.no_grad(), pass B.detach(), or wrap the kernel with tilec.torch_op and register_autograd"
        )
        with torch.no_grad():
            check(gemm(a, weight, out=d), a, weight)
        with torch.inference_mode():
            check(gemm(a, weight), a, weight)
        check(gemm(a, weight.detach(), out=d), a, weight.detach())
    # The very tensor of a call that is remembered.
    inputs = b.clone()
    check(gemm(a, inputs, out=d), a, inputs)
    inputs.requires_grad_()
    with pytest.raises(tilec.TilecError, match="argument B requires grad"):
        gemm(a, inputs, out=d)


def test_outputs_that_share_memory_are_refused() -> None:
    a, b = integers(128, 128), integers(128, 128)
    with pytest.raises(tilec.TilecError) as caught:
        gemm(a, b, out=a)
    assert str(caught.value) == (
        f"error: arguments A and D are the same memory, at 0x{a.data_ptr():x}: one is an input, one an output\n"
        "hint: give each output memory of its own"
    )
    buffer = integers(129, 128)
    with pytest.raises(tilec.TilecError, match="arguments B and D overlap, from byte 256 of B and byte 0 of D on"):
        gemm(a, buffer[:128], out=buffer[1:])
    with pytest.raises(tilec.TilecError, match="argument D: its rows overlap"):
        gemm(a, b, out=torch.empty(1, 128, dtype=torch.float16, device="cuda").expand(128, 128))
    # Columns of one buffer interleave, and share nothing.
    halves = integers(128, 256)
    left = halves[:, :128].clone()
    gemm(halves[:, :128], b, out=halves[:, 128:])
    check(halves[:, 128:], left, b)
    assert torch.equal(halves[:, :128], left)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "host and GPU": (
        lambda: gemm(integers(200, 72), integers(136, 72).cpu()),
        "arguments A and B are in different places: A on GPU 0, B in host memory\n"
        "hint: move B to the GPU, or the others to the host: a call copies nothing",
    ),
    "NumPy and GPU": (
        lambda: gemm(integers(200, 72).cpu().numpy(), integers(136, 72)),
        "arguments A and B are in different places: A in host memory, B on GPU 0\n"
        "hint: move A to the GPU, or the others to the host: a call copies nothing",
    ),
    "output on the host": (
        lambda: gemm(integers(200, 72), integers(136, 72), out=integers(200, 136).cpu()),
        "arguments A and D are in different places: A on GPU 0, D in host memory\n"
        "hint: move D to the GPU, or the others to the host: a call copies nothing",
    ),
    "dtype": (
        lambda: gemm(integers(200, 72), integers(136, 72), out=integers(200, 136, dtype="f32")),
        "argument D holds f32; the kernel takes f16\nhint: convert it before the call: a call copies nothing",
    ),
    "extents": (
        lambda: gemm(integers(200, 72), integers(136, 80)),
        "arguments A and B disagree about K: dimension 1 of A has 72 elements, dimension 1 of B has 80",
    ),
    "output's extents": (
        lambda: gemm(integers(200, 72), integers(136, 72), out=integers(136, 200)),
        "arguments A and D disagree about M: dimension 0 of A has 200 elements, dimension 0 of D has 136",
    ),
    "rank": (
        lambda: gemm(integers(2, 100, 72), integers(136, 72), out=integers(200, 136)),
        "argument A has 3 dimensions; the kernel takes 2\n"
        "hint: call the kernel for each A[i], or once for A.reshape(200, 72), which is a view too",
    ),
    "every second column": (
        lambda: gemm(integers(200, 144)[:, ::2], integers(136, 72)),
        "argument A: no dimension is contiguous (strides 144, 2 elements): one needs stride 1\n"
        "hint: pass a contiguous copy, such as tensor.contiguous()",
    ),
    "no CTA": (
        lambda: gemm(integers(200, 72), integers(136, 72), max_ctas=0),
        "max_ctas = 0: a launch has at least one CTA",
    ),
    "no persistent grid": (
        lambda: gemm_both_ways(integers(200, 72), integers(136, 72), max_ctas=1),
        "max_ctas bounds the grid of a persistent kernel; this one has a CTA for each tile\n"
        "hint: add persistent to the pipeline",
    ),
    "stream": (
        lambda: gemm(integers(200, 72), integers(136, 72), stream="side"),
        "stream is a str, not a CUDA stream\n"
        "hint: pass a stream of torch, numba-cuda or cuda.core, or its handle as an integer",
    ),
}


@pytest.mark.parametrize("which", REFUSED)
def test_refused(which: str) -> None:
    call, text = REFUSED[which]
    for _ in range(2):
        with pytest.raises(tilec.TilecError) as caught:
            call()
        assert str(caught.value) == f"error: {text}"


def test_a_refused_call_leaves_the_function_usable() -> None:
    a, b = integers(200, 72), integers(136, 72)
    function: Any = fresh_gemm()
    with pytest.raises(tilec.TilecError):
        function(a, integers(136, 80))
    check(function(a, b), a, b)
    with pytest.raises(tilec.TilecError):
        function(a, b, out=a)
    assert torch.equal(function(a, b), expected(a, b))
