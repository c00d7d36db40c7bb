"""Tensors of the real torch: which are memory that holds their values, and what the others are told."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilec.backend.runtime.arguments import (
    Argument,
    check_dtype,
    check_grad,
    host_array,
    identity,
    is_host,
    place,
    read,
    read_host,
    where,
)
from tilec.diagnostics import TilecError

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*(beta state|prototype stage|deprecated|data pointer of FakeTensor)"),
]
AS_OPERATOR = "hint: wrap the kernel with tilec.torch_op, so that torch sees one operator"
TRANSFORMED = (
    f"argument A is a tensor inside a transformation of torch (such as vmap or grad): it has no memory\n{AS_OPERATOR}"
)


def nowhere(address: int) -> int:
    raise AssertionError("torch says itself on which device a tensor is")


def dense() -> Any:
    return torch.arange(12.0).reshape(3, 4)


class Methods(torch.Tensor):
    """A subclass that shares its memory with the tensor that it was made of."""


class Wrapper(torch.Tensor):
    """A subclass whose values are those of another tensor, as `DTensor` has them."""

    @staticmethod
    def __new__(cls, inside: Any) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, inside.shape, dtype=inside.dtype)

    @classmethod
    def __torch_dispatch__(cls, *_: object, **__: object) -> Any:
        raise AssertionError("reading an argument computes nothing")


def fake(device: str) -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.empty(3, 4, device=device)


def functional() -> Any:
    from torch._subclasses.functional_tensor import FunctionalTensor, FunctionalTensorMode

    with FunctionalTensorMode():
        return FunctionalTensor.to_functional(dense())


def freed(row: int) -> Any:
    tensor = dense()
    rows = tensor[row:]
    tensor.untyped_storage().resize_(0)
    return rows


def complex_numbers() -> Any:
    return torch.zeros(3, 4, dtype=torch.complex64)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "sparse": (
        lambda: dense().to_sparse(),
        "argument A has layout torch.sparse_coo; a kernel takes strided memory\nhint: pass A.to_dense()",
    ),
    "sparse rows": (
        lambda: dense().to_sparse_csr(),
        "argument A has layout torch.sparse_csr; a kernel takes strided memory\nhint: pass A.to_dense()",
    ),
    "oneDNN": (
        lambda: dense().to_mkldnn(),
        "argument A has layout torch._mkldnn; a kernel takes strided memory\nhint: pass A.to_dense()",
    ),
    "quantized": (
        lambda: torch.quantize_per_tensor(dense(), 1.0, 0, torch.qint8),
        "argument A is quantized: it holds qint8 with scales beside them\n"
        "hint: pass A.dequantize(), or A.int_repr() and the scales",
    ),
    "nested": (
        lambda: torch.nested.nested_tensor([dense(), dense()[1:]]),
        "argument A is a nested tensor: its rows have lengths of their own\n"
        "hint: call the kernel for each tensor of A.unbind()",
    ),
    "jagged": (
        lambda: torch.nested.nested_tensor([dense(), dense()[1:]], layout=torch.jagged),
        "argument A is a nested tensor: its rows have lengths of their own\n"
        "hint: call the kernel for each tensor of A.unbind()",
    ),
    "meta": (
        lambda: torch.empty(3, 4, device="meta"),
        "argument A is a torch tensor on 'meta', which has no memory\n"
        "hint: pass tensors on a CUDA GPU, or tensors on the CPU",
    ),
    "fake on a GPU": (
        lambda: fake("cuda"),
        "argument A is a FakeTensor, which is traced by torch.compile or torch.export and has no memory\n"
        + AS_OPERATOR,
    ),
    "fake on the CPU": (
        lambda: fake("cpu"),
        "argument A is a FakeTensor, which is traced by torch.compile or torch.export and has no memory\n"
        + AS_OPERATOR,
    ),
    "functional": (
        functional,
        "argument A is a FunctionalTensor, which is traced by torch.compile or torch.export and has no memory\n"
        + AS_OPERATOR,
    ),
    "functional in C++": (lambda: torch._to_functional_tensor(dense()), TRANSFORMED),
    "wrapper": (
        lambda: Wrapper(dense()),
        "argument A is a Wrapper, whose values are not in memory of its own\n"
        "hint: pass the tensor inside, such as A.to_local() of a DTensor",
    ),
    "negated": (
        lambda: complex_numbers().conj().imag,
        "argument A is a negated view: its memory does not hold its values\nhint: pass A.resolve_neg()",
    ),
    "conjugate": (
        lambda: complex_numbers().conj(),
        "argument A is a conjugate view: its memory does not hold its values\nhint: pass A.resolve_conj()",
    ),
    "freed": (
        lambda: freed(0),
        "argument A reaches 48 bytes into its storage, which has 0: it was freed or resized\n"
        "hint: call the kernel while the tensor has its memory",
    ),
    "freed from its second row on": (
        lambda: freed(1),
        "argument A reaches 48 bytes into its storage, which has 0: it was freed or resized\n"
        "hint: call the kernel while the tensor has its memory",
    ),
    "traced by torch.fx": (
        lambda: torch.fx.Proxy(torch.fx.Node(torch.fx.Graph(), "x", "placeholder", "x", (), {})),
        "argument A is a Proxy of torch.fx, which has no memory\n" + AS_OPERATOR,
    ),
    "a class": (
        lambda: torch.Tensor,
        "argument A is the class Tensor, not a tensor\n"
        "hint: pass tensors of torch, arrays of NumPy or numba-cuda, or arrays with DLPack or an array interface",
    ),
    "a device": (
        lambda: torch.device("cpu"),
        "argument A is a device, not a tensor\n"
        "hint: pass tensors of torch, arrays of NumPy or numba-cuda, or arrays with DLPack or an array interface",
    ),
}


@pytest.mark.parametrize(("make", "text"), REFUSED.values(), ids=REFUSED)
def test_tensors_that_are_not_plain_memory(make: Callable[[], Any], text: str) -> None:
    """With the same words on a GPU and on the host."""
    tensor = make()
    for attempt in (lambda: read("A", tensor, nowhere), lambda: read_host("A", tensor)):
        with pytest.raises(TilecError) as caught:
            attempt()
        assert str(caught.value) == f"error: {text}"


NO_KEY = sorted(set(REFUSED) - {"quantized", "negated", "conjugate", "freed from its second row on"})
"""The four have an address: no plain tensor has it with their type, or see the next test."""


@pytest.mark.parametrize("case", NO_KEY)
def test_what_is_not_plain_memory_has_no_key(case: str) -> None:
    make, text = REFUSED[case]
    with pytest.raises(TilecError) as caught:
        identity("A", make(), nowhere)
    assert str(caught.value) == f"error: {text}"


def test_a_remembered_call_is_not_taken_for_a_negated_view() -> None:
    numbers = complex_numbers()
    plain, negated = numbers.imag, numbers.conj().imag
    assert plain.data_ptr() == negated.data_ptr() and plain.stride() == negated.stride()
    assert identity("A", plain, nowhere) != identity("A", negated, nowhere)


@pytest.mark.parametrize("transform", [torch.vmap, lambda f: torch.func.grad(lambda x: f(x).sum())])
def test_tensors_inside_transformations(transform: Callable[[Any], Any]) -> None:
    texts: list[str] = []

    def look(x: Any) -> Any:
        for attempt in (
            lambda: read_host("A", x),
            lambda: read("A", x, nowhere),
            lambda: identity("A", x, nowhere),
        ):
            with pytest.raises(TilecError) as caught:
                attempt()
            texts.append(str(caught.value))
        return x

    transform(look)(dense())
    assert set(texts) == {f"error: {TRANSFORMED}"}


@pytest.mark.parametrize(
    "make",
    [
        lambda t: t,
        lambda t: t.as_subclass(Methods),
        lambda t: torch.nn.Parameter(t, requires_grad=False),
        lambda t: torch.nn.Parameter(t),
        lambda t: t.detach(),
        lambda t: t.requires_grad_()[:],
    ],
)
def test_plain_tensors_and_subclasses_without_dispatch_are_read_in_place(make: Callable[[Any], Any]) -> None:
    memory = torch.zeros(3, 8)[:, 1:5]
    tensor = make(memory)
    assert read_host("A", tensor) == Argument(memory.data_ptr(), (3, 4), (32, 4), "f32", None)
    shared = host_array("A", tensor)
    shared[1, 2] = 5
    assert memory[1, 2] == 5


def test_tensors_of_inference_mode_are_plain() -> None:
    with torch.inference_mode():
        tensor = dense()
        check_grad("A", tensor)
    assert read_host("A", tensor).shape == (3, 4)


def test_bits_of_bf16_are_shared() -> None:
    tensor = torch.tensor([[1.0, -2.0]], dtype=torch.bfloat16)
    assert read_host("A", tensor).dtype == "bf16"
    shared = host_array("A", tensor)
    assert shared.dtype == np.uint16
    assert shared.tolist() == [[0x3F80, 0xC000]]
    shared[0, 0] = 0x4040
    assert tensor[0, 0] == 3.0


def test_the_array_holds_the_memory() -> None:
    shared = host_array("A", torch.full((1000, 1000), 7.0))
    torch.zeros(1000, 1000)
    assert (shared == 7.0).all()


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (torch.float64, "float64"),
        (torch.int8, "int8"),
        (torch.bool, "bool"),
        (torch.complex64, "complex64"),
        (torch.float8_e4m3fn, "float8_e4m3fn"),
    ],
)
def test_elements_that_no_view_has(dtype: Any, name: str) -> None:
    argument = read_host("A", torch.zeros(2, 2, dtype=dtype))
    for attempt in (
        lambda: check_dtype("A", argument),
        lambda: place("A", argument),
        lambda: host_array("A", torch.zeros(2, 2, dtype=dtype)),
    ):
        with pytest.raises(TilecError) as caught:
            attempt()
        assert str(caught.value) == (
            f"error: argument A holds {name}; a view holds f16, bf16 or f32\n"
            "hint: convert it before the call: a call copies nothing"
        )


def test_elements_of_another_kernel() -> None:
    argument = read_host("A", torch.zeros(2, 2))
    check_dtype("A", argument, "f32")
    with pytest.raises(TilecError) as caught:
        check_dtype("A", argument, "f16")
    assert str(caught.value) == (
        "error: argument A holds f32; the kernel takes f16\nhint: convert it before the call: a call copies nothing"
    )


def test_gradients_do_not_get_lost() -> None:
    leaf = dense().requires_grad_()
    for tensor in (leaf, leaf * 2, torch.nn.Parameter(dense())):
        with pytest.raises(TilecError) as caught:
            check_grad("A", tensor)
        assert str(caught.value) == (
            "error: argument A requires grad, but a kernel has no derivative of its own\n"
            "hint: call it under torch.no_grad(), pass A.detach(), or wrap the kernel with tilec.torch_op and "
            "register_autograd"
        )
        check_grad("A", tensor.detach())
        with torch.no_grad():
            check_grad("A", tensor)
    check_grad("A", dense())
    check_grad("A", np.zeros(3))
    check_grad("A", "text")


def test_a_remembered_call_does_not_hide_gradients() -> None:
    tensor = dense()
    leaf = tensor.detach().requires_grad_()
    assert leaf.data_ptr() == tensor.data_ptr()
    assert identity("A", tensor, nowhere) != identity("A", leaf, nowhere)
    with torch.no_grad():
        assert identity("A", tensor, nowhere) == identity("A", leaf, nowhere)


def test_keys_differ_where_tensors_do() -> None:
    memory = torch.zeros(64)
    tensors = [
        memory[:32].view(4, 8),
        memory[:32].view(8, 4),
        memory[:32].view(8, 4).t(),
        memory[1:33].view(4, 8),
        memory.view(torch.float16)[:32].view(4, 8),
        memory.view(torch.bfloat16)[:32].view(4, 8),
        memory[:0].view(0, 8),
        memory[:0].view(0, 4),
    ]
    keys = [identity("A", t, nowhere) for t in tensors]
    assert len(set(keys)) == len(tensors)
    assert keys[0] == identity("A", memory[:32].view(4, 8), nowhere)


def test_a_key_is_made_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TilecError, match="FakeTensor"):
            identity("A", fake("cuda"), nowhere)


def test_host_tensors_are_no_arguments_of_a_launch() -> None:
    with pytest.raises(TilecError) as caught:
        read("A", dense(), nowhere)
    assert str(caught.value) == (
        "error: argument A is a torch tensor on 'cpu', in host memory: the kernel runs on a GPU\n"
        "hint: move it to the device"
    )


def test_tensors_on_the_cpu_are_in_host_memory() -> None:
    assert is_host("A", dense())
    assert where("ABC", [dense(), np.zeros(3), dense()]) == "host"
