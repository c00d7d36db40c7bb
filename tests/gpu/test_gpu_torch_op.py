"""Kernels as operators of torch: its own checks, `torch.compile` with changing shapes, modules, derivatives."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from harness import finish, torch
from jit_kernels import check, expected, gemm, gemm_both_ways, gemm_into, integers, scaled_gemm

import tilec


@functools.cache
def operator(which: str) -> Any:
    """An operator of each kernel; a name is registered once in a process."""
    functions = {"product": gemm, "both": gemm_both_ways, "into": gemm_into, "scaled": scaled_gemm, "learned": gemm}
    return tilec.torch_op(functions[which], name=f"tilec_gpu_tests::{which}")


@pytest.fixture(autouse=True)
def fresh_compiler() -> None:
    torch.compiler.reset()


def test_operator_is_called() -> None:
    a, b = integers(200, 72), integers(136, 72)
    check(operator("product")(a, b), a, b)
    check(torch.ops.tilec_gpu_tests.product(a, b), a, b)
    d, c = operator("both")(a, b)
    check(d, a, b)
    check(c, b, a, "f32")
    into = torch.full((200, 136), float("nan"), dtype=torch.float16, device="cuda")
    assert operator("into")(a, b, into) is None
    check(into, a, b)


@pytest.mark.parametrize("which", ["product", "both", "into"])
def test_torchs_own_checks(which: str) -> None:
    for m, n, k in ((200, 136, 72), (128, 8, 71)):
        arguments = [integers(m, k), integers(n, k)]
        if which == "into":
            arguments.append(integers(m, n))
        torch.library.opcheck(operator(which), tuple(arguments))
    finish()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_compiled_with_changing_shapes(backend: str) -> None:
    multiply = operator("product")

    def around(a: Any, b: Any) -> Any:
        return torch.relu(multiply(a + 1, b)) - 1

    compiled = torch.compile(around, backend=backend, fullgraph=True, dynamic=True)
    for m, n, k in ((200, 136, 72), (264, 128, 72), (8, 520, 136), (100, 24, 71)):
        a, b = integers(m, k), integers(n, k)
        d = compiled(a, b)
        finish()
        assert torch.equal(d, torch.relu(expected(a + 1, b)) - 1)


def test_compiled_module() -> None:
    multiply = operator("product")

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(integers(136, 72), requires_grad=False)

        def forward(self, x: Any) -> Any:
            return multiply(x, self.weight) * 2

    layer = Layer()
    compiled = torch.compile(layer, fullgraph=True)
    for m in (200, 200, 264, 72):
        x = integers(m, 72)
        d = compiled(x)
        finish()
        assert torch.equal(d, expected(x, layer.weight) * 2)


def test_a_written_argument_in_a_compiled_function() -> None:
    into = operator("into")

    def around(a: Any, b: Any, d: Any) -> Any:
        into(a, b, d)
        return d * 2

    compiled = torch.compile(around, fullgraph=True)
    a, b = integers(200, 72), integers(136, 72)
    d = torch.full((200, 136), float("nan"), dtype=torch.float16, device="cuda")
    twice = compiled(a, b, d)
    check(d, a, b)
    assert torch.equal(twice, d * 2)


def test_compiled_into_a_graph() -> None:
    """`mode="reduce-overhead"` captures the operator in a CUDA graph and replays it with new inputs."""
    multiply = operator("product")
    compiled = torch.compile(lambda a, b: multiply(a, b) + 1, fullgraph=True, mode="reduce-overhead")
    for _ in range(5):
        a, b = integers(200, 72), integers(136, 72)
        d = compiled(a, b)
        finish()
        assert torch.equal(d, expected(a, b) + 1)


def test_a_derivative_that_is_registered() -> None:
    """d(A B^T) = G B for A and G^T A for B: the same kernel, of transposes."""
    multiply = operator("learned")

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    def backward(ctx: Any, grad: Any) -> Any:
        a, b = ctx.saved_tensors
        return gemm(grad, b.t()), gemm(grad.t(), a.t())

    multiply.register_autograd(backward, setup_context=setup)
    a, b = (integers(rows, 72).requires_grad_() for rows in (200, 136))
    weights = integers(200, 136)
    (multiply(a, b) * weights).sum().backward()
    finish()
    assert torch.equal(a.grad, (weights.double() @ b.detach().double()).half())
    assert torch.equal(b.grad, (weights.double().t() @ a.detach().double()).half())


def test_a_kernel_that_is_no_operator_says_so_when_it_is_traced() -> None:
    a, b = integers(200, 72), integers(136, 72)
    fake: Any = pytest.importorskip("torch._subclasses.fake_tensor")
    with fake.FakeTensorMode() as mode, pytest.raises(tilec.TilecError, match=r"wrap the kernel with tilec\.torch_op"):
        gemm(mode.from_tensor(a), mode.from_tensor(b), out=mode.from_tensor(a))
