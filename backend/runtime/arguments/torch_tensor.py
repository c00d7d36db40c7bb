"""Tensors of torch: which of them are plain memory, and how they are read."""

from __future__ import annotations

from typing import Any, cast

from tilec.backend.runtime.arguments.argument import VIEW_NAMES, Argument, imported
from tilec.diagnostics import TilecError

_dtypes: dict[Any, str] = {}
plain_kinds: set[type] = set()
"""Classes of tensors whose memory holds their values, as met so far."""
AS_OPERATOR = "wrap the kernel with tilec.torch_op, so that torch sees one operator"


def is_torch(tensor: object) -> bool:
    torch = imported("torch")
    return torch is not None and isinstance(tensor, torch.Tensor)


def needs_grad(tensor: Any) -> bool:
    """Whether torch would record what is computed from a torch tensor, or carry a derivative along with it."""
    forward = imported("torch.autograd.forward_ad")
    if forward is not None and forward._current_level >= 0 and forward.unpack_dual(tensor).tangent is not None:
        return True
    return tensor.requires_grad and imported("torch").is_grad_enabled()


def check_grad(name: str, tensor: object) -> None:
    """Refuse a tensor whose gradient torch would expect to flow through the call. Tensors of other libraries have none."""
    if is_torch(tensor) and needs_grad(tensor):
        raise TilecError(
            f"argument {name} requires grad, but a kernel has no derivative of its own",
            hint=f"call it under torch.no_grad(), pass {name}.detach(), or wrap the kernel with tilec.torch_op and register_autograd",
        )


def read_torch(name: str, tensor: Any) -> Argument:
    """A torch tensor on a GPU or in host memory, read in place.

    A subclass is read if it has no `__torch_dispatch__` (`Parameter`, `as_subclass`): only its methods differ then. With one
    (`DTensor`, quantised weights) its memory, if it has any, need not hold its values. Raises TilecError for what is not plain
    memory.
    """
    check_plain(name, tensor)
    dtype = _dtypes.get(tensor.dtype)
    if dtype is None:
        full = str(tensor.dtype).removeprefix("torch.")
        dtype = _dtypes[tensor.dtype] = VIEW_NAMES.get(full, full)
    size: int = tensor.element_size()
    shape, strides = tuple(tensor.shape), tuple(s * size for s in tensor.stride())
    address = _address(name, tensor)
    if 0 not in shape:
        held: int = tensor.untyped_storage().nbytes()
        needed = tensor.storage_offset() * size + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + size
        if held < needed:
            raise TilecError(
                f"argument {name} reaches {needed} bytes into its storage, which has {held}: it was freed or resized",
                hint="call the kernel while the tensor has its memory",
            )
        if not address:
            raise _transformed(name)
    return Argument(address, shape, strides, dtype, tensor.get_device() if tensor.is_cuda else None)


def _address(name: str, tensor: Any) -> int:
    try:
        return tensor.data_ptr()
    except RuntimeError:
        raise _transformed(name) from None


def _transformed(name: str) -> TilecError:
    """Of what torch.func and functionalisation put in the place of a tensor."""
    return TilecError(
        f"argument {name} is a tensor inside a transformation of torch (such as vmap or grad): it has no memory",
        hint=AS_OPERATOR,
    )


def check_plain(name: str, tensor: Any) -> None:
    """Refuse tensors that are not strided memory of their own values."""
    torch, kind = imported("torch"), cast(Any, type(tensor))
    if tensor.is_nested:
        raise TilecError(
            f"argument {name} is a nested tensor: its rows have lengths of their own",
            hint=f"call the kernel for each tensor of {name}.unbind()",
        )
    if getattr(kind, "__torch_dispatch__", None) is not getattr(torch.Tensor, "__torch_dispatch__", None):
        if kind.__module__.startswith("torch._subclasses"):
            raise TilecError(
                f"argument {name} is a {kind.__name__}, which is traced by torch.compile or torch.export and has no memory",
                hint=AS_OPERATOR,
            )
        raise TilecError(
            f"argument {name} is a {kind.__name__}, whose values are not in memory of its own",
            hint=f"pass the tensor inside, such as {name}.to_local() of a DTensor",
        )
    plain_kinds.add(kind)
    if tensor.is_quantized:
        raise TilecError(
            f"argument {name} is quantized: it holds {str(tensor.dtype).removeprefix('torch.')} with scales beside them",
            hint=f"pass {name}.dequantize(), or {name}.int_repr() and the scales",
        )
    if tensor.layout is not torch.strided:
        raise TilecError(
            f"argument {name} has layout {tensor.layout}; a kernel takes strided memory", hint=f"pass {name}.to_dense()"
        )
    if tensor.is_neg() or tensor.is_conj():
        bit, what = ("neg", "negated") if tensor.is_neg() else ("conj", "conjugate")
        raise TilecError(
            f"argument {name} is a {what} view: its memory does not hold its values",
            hint=f"pass {name}.resolve_{bit}()",
        )
    if not tensor.is_cuda and (where := str(tensor.device)) != "cpu":
        memory = "which has no memory" if where == "meta" else "where no kernel runs"
        raise TilecError(
            f"argument {name} is a torch tensor on '{where}', {memory}",
            hint="pass tensors on a CUDA GPU, or tensors on the CPU",
        )
