"""``TILEC_SIMULATE=1``: tensors on a GPU, computed by the simulator. The one place where tensors are copied, because it was asked for."""

from __future__ import annotations

from typing import Any

from tilec.backend.runtime.arguments import is_host, is_torch
from tilec.diagnostics import TilecError, kind_of


def copy_to_host(name: str, tensor: Any) -> Any:
    """The tensor in host memory; one that is there already stands for itself."""
    if is_host(name, tensor):
        return tensor
    if is_torch(tensor):
        return tensor.detach().cpu()
    for method in ("copy_to_host", "get"):  # of numba-cuda, of cupy
        if callable(getattr(tensor, method, None)):
            return getattr(tensor, method)()
    raise TilecError(
        f"argument {name} is {kind_of(tensor)}, which does not say how to copy it to host memory",
        hint="with TILEC_SIMULATE=1, pass tensors of torch, numba-cuda or cupy, or arrays in host memory",
    )


def copy_back(tensor: Any, computed: Any) -> None:
    """What was computed, into the tensor that `copy_to_host` has copied."""
    if is_torch(tensor):
        tensor.copy_(computed)
    elif hasattr(tensor, "copy_to_device"):
        tensor.copy_to_device(computed)
    else:
        tensor.set(computed)
