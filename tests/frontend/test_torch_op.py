"""Kernels as operators of torch: the operator's own tests, fake tensors, `torch.compile`, derivatives."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import operator_kernels
import pytest

import tilec
from tilec.diagnostics import TilecError

torch: Any = pytest.importorskip("torch")
PIPELINE = "tma,pipeline(2)"
_names = (f"tilec_tests::op{i}" for i in count())


def operator(function: Any) -> Any:
    return tilec.torch_op(tilec.jit(pipeline=PIPELINE)(function), name=next(_names))


def integers(*shape: int, dtype: Any = None) -> Any:
    return torch.randint(-4, 5, shape).to(dtype or torch.float16)


def product(a: Any, b: Any) -> Any:
    return (a.double() @ b.double().t()).to(a.dtype)


@pytest.fixture
def compiled_anew() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def test_call_and_schema() -> None:
    op = operator(operator_kernels.product)
    a, b = integers(72, 40), integers(136, 40)
    assert torch.equal(op(a, b), product(a, b))
    assert torch.equal(op(a, b, block=128), product(a, b))
    assert str(op._opoverload._schema).partition("(")[2] == "Tensor A, Tensor B, *, int block=64) -> Tensor"


def test_the_default_name() -> None:
    op = tilec.torch_op(tilec.jit(operator_kernels.product))
    assert op._opoverload.name() == "tilec::product"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_torchs_own_test_of_an_operator(dtype: str) -> None:
    dtype = getattr(torch, dtype)
    torch.library.opcheck(
        operator(operator_kernels.product), (integers(72, 40, dtype=dtype), integers(136, 40, dtype=dtype))
    )


def test_several_results() -> None:
    op = operator(operator_kernels.product_twice)
    a, b = integers(72, 40), integers(136, 40)
    d, c = op(a, b)
    assert d.dtype == torch.float16 and c.dtype == torch.float32
    assert torch.equal(d, product(a, b)) and torch.equal(c, product(a, b).float())
    torch.library.opcheck(op, (a, b))


def test_an_argument_that_is_written() -> None:
    op = operator(operator_kernels.product_into)
    a, b, d = integers(72, 40), integers(136, 40), torch.full((72, 136), float("nan"), dtype=torch.float16)
    assert op(a, b, d) is None
    assert torch.equal(d, product(a, b))
    assert str(op._opoverload._schema).partition("(")[2] == "Tensor A, Tensor B, Tensor(a0!) D) -> ()"
    torch.library.opcheck(op, (a, b, d))


def test_compile_has_no_graph_break_and_dynamic_shapes(compiled_anew: None) -> None:
    op = operator(operator_kernels.product)
    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    function = torch.compile(lambda x, y: op(x + 1, y) * 2, fullgraph=True, dynamic=True, backend=backend)
    for m, n, k in ((72, 136, 40), (130, 64, 24), (200, 72, 128)):
        a, b = integers(m, k), integers(n, k)
        assert torch.equal(function(a, b), product(a + 1, b) * 2)
    assert len(graphs) == 1


def test_compile_with_autograd_traced(compiled_anew: None) -> None:
    op = operator(operator_kernels.product)
    function = torch.compile(lambda x, y: op(x, y) + 1, fullgraph=True, backend="aot_eager")
    a, b = integers(72, 40), integers(136, 40)
    assert torch.equal(function(a, b), product(a, b) + 1)


def test_a_derivative_can_be_given() -> None:
    op = operator(operator_kernels.product)

    def backward(context: Any, gradient: Any) -> Any:
        a, b = context.saved_tensors
        return gradient @ b, gradient.t() @ a

    def setup(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    op.register_autograd(backward, setup_context=setup)
    a, b = (integers(*shape).requires_grad_() for shape in ((72, 40), (136, 40)))
    op(a, b).sum().backward()
    ones = torch.ones(72, 136, dtype=torch.float16)
    assert torch.equal(a.grad, ones @ b) and torch.equal(b.grad, ones.t() @ a)


def test_without_a_derivative_backward_says_so() -> None:
    op = operator(operator_kernels.product)
    a = integers(72, 40).requires_grad_()
    with pytest.raises(RuntimeError, match="register_autograd"):
        op(a, integers(136, 40)).sum().backward()


def test_fake_tensors_of_wrong_shapes() -> None:
    op = operator(operator_kernels.product)
    with torch._subclasses.FakeTensorMode():
        a = torch.empty(72, 40, dtype=torch.float16)
        assert op(a, torch.empty(136, 40, dtype=torch.float16)).shape == (72, 136)
        with pytest.raises(Exception, match="argument B disagrees about K"):
            op(a, torch.empty(136, 48, dtype=torch.float16))
        with pytest.raises(TilecError, match="argument B has 3 dimensions; the kernel takes 2"):
            op(a, torch.empty(1, 136, 40, dtype=torch.float16))


def test_what_no_operator_is_made_of() -> None:
    with pytest.raises(TilecError) as caught:
        tilec.torch_op(operator_kernels.product)  # pyright: ignore[reportArgumentType]
    assert str(caught.value) == (
        "error: an operator is made of a tilec.jit function, not of a function\n"
        "hint: decorate the function with @tilec.jit first"
    )
    for name in ("gemm", "a::b::c", "a::1", "::", "a::def", "a::\u00fcn", 5, b"a::b"):
        with pytest.raises(TilecError) as caught:
            tilec.torch_op(tilec.jit(operator_kernels.product), name=name)  # pyright: ignore
        assert str(caught.value) == f'error: {name!r} is no name of an operator\nhint: as in "mine::gemm"'


def test_a_constant_that_is_a_float() -> None:
    op = tilec.torch_op(tilec.jit(pipeline="tma")(operator_kernels.scaled), name=next(_names))
    assert str(op._opoverload._schema).partition("(")[2] == "Tensor A, float factor) -> Tensor"
    a = integers(72, 40)
    assert torch.equal(op(a, 2.0), a * 2) and torch.equal(op(a, 0.5), a / 2)


def test_a_kernel_that_is_no_operator_breaks_the_graph(compiled_anew: None) -> None:
    kernel = tilec.jit(pipeline=PIPELINE)(operator_kernels.product)
    a, b = integers(72, 40), integers(136, 40)
    function = torch.compile(lambda x, y: kernel(x + 1, y) * 2, backend="eager")
    assert torch.equal(function(a, b), product(a + 1, b) * 2)
    whole = torch.compile(lambda x, y: kernel(x, y), backend="eager", fullgraph=True)
    with pytest.raises(Exception, match=r"wrap it with tilec\.torch_op to have it in the graph"):
        whole(a, b)


def test_a_name_is_that_of_one_function() -> None:
    first = tilec.jit(operator_kernels.product)
    op = tilec.torch_op(first, name="tilec_tests::taken")
    assert tilec.torch_op(first, name="tilec_tests::taken") is op
    with pytest.raises(TilecError) as caught:
        tilec.torch_op(tilec.jit(operator_kernels.product_twice), name="tilec_tests::taken")
    assert str(caught.value) == (
        "error: there is an operator tilec_tests::taken already, of another function\nhint: give this one a name="
    )
