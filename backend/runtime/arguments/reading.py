"""One argument of any library, on a GPU or in host memory."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from tilec.backend.runtime.arguments.argument import LEGACY_STREAM, Argument, check_dtype
from tilec.backend.runtime.arguments.array_interface import CUDA, HOST, read_cuda_array, read_host_array
from tilec.backend.runtime.arguments.dlpack import dlpack_device, read_dlpack, speaks_dlpack
from tilec.backend.runtime.arguments.numpy_array import is_numpy, is_numpy_scalar, read_numpy, share
from tilec.backend.runtime.arguments.torch_tensor import (
    AS_OPERATOR,
    check_plain,
    is_torch,
    needs_grad,
    plain_kinds,
    read_torch,
)
from tilec.diagnostics import TilecError, kind_of, one_line

if TYPE_CHECKING:
    from numpy import ndarray

_READ = "pass tensors of torch, arrays of NumPy or numba-cuda, or arrays with DLPack or an array interface"


def read(name: str, tensor: Any, device_of: Callable[[int], int], stream: int = LEGACY_STREAM) -> Argument:
    """Read one tensor on a GPU; `device_of` asks the driver which device holds an address.

    Arrays with DLPack make their data ready on `stream`, the stream of the launch where it is known. Raises TilecError,
    naming the argument, for what is no tensor on a GPU, and for a tensor whose memory does not hold its values. Elements that
    no view has are read: see `check_dtype`.
    """
    if is_torch(tensor):
        argument = read_torch(name, tensor)
        if not tensor.is_cuda:
            raise _host(name, f"a torch tensor on '{tensor.device}'")
        return argument
    _check_is_array(name, tensor)
    interface = _cuda_interface(name, tensor)
    # Elements that a typestr cannot name, such as those of bf16, DLPack names.
    if interface is not None and not (speaks_dlpack(tensor) and _is_unnamed(interface)):
        return read_cuda_array(name, interface, device_of)
    if is_host(name, tensor):
        raise _host(name, kind_of(tensor))
    return read_dlpack(name, tensor, stream or LEGACY_STREAM)


def read_host(name: str, array: Any) -> Argument:
    """Read one array in host memory: a NumPy array, a CPU tensor of torch, ``__array_interface__`` or DLPack.

    Raises TilecError as `read` does.
    """
    if not is_host(name, array):
        raise TilecError(
            f"argument {name} is {kind_of(array)}, on a GPU", hint="copy it to the host, or run the kernel on the GPU"
        )
    if is_torch(array):
        return read_torch(name, array)
    if is_numpy(array):
        return read_numpy(name, array)
    interface = getattr(array, HOST, None)
    return read_dlpack(name, array, LEGACY_STREAM) if interface is None else read_host_array(name, interface)


def host_array(name: str, array: Any) -> ndarray[Any, Any]:
    """The memory of an array on the host as a NumPy array of float16, float32, or uint16 for the bits of bf16.

    It is shared, never copied, and lives as long as the result. Which of the types it is, `read_host` tells.
    """
    argument = read_host(name, array)
    check_dtype(name, argument)
    return share(argument, array)


def is_host(name: str, tensor: Any) -> bool:
    """Whether a tensor lies in host memory. Raises TilecError for what is no tensor that is read."""
    if is_torch(tensor):
        check_plain(name, tensor)
        return not tensor.is_cuda
    _check_is_array(name, tensor)
    # Before NumPy: numba-cuda's arrays in mapped host memory are NumPy arrays that a GPU reads.
    if _cuda_interface(name, tensor) is not None:
        return False
    if is_numpy(tensor) or hasattr(tensor, HOST):
        return True
    if speaks_dlpack(tensor):
        return dlpack_device(name, tensor) is None
    raise TilecError(f"argument {name} is {kind_of(tensor)}, not a tensor", hint=_READ)


def where(names: Sequence[str], tensors: Sequence[Any]) -> Literal["device", "host"]:
    """Where the arguments of a call are: all on a GPU, or all in host memory. Without any, on a GPU."""
    on_host = [is_host(n, t) for n, t in zip(names, tensors, strict=True)]
    if not any(on_host):
        return "device"
    if all(on_host):
        return "host"
    gpu, host = on_host.index(False), on_host.index(True)
    i, j = sorted((gpu, host))
    raise TilecError(
        f"arguments {names[i]} and {names[j]} are in different places: "
        + ", ".join(f"{names[k]} {'in host memory' if on_host[k] else _on_gpu(names[k], tensors[k])}" for k in (i, j)),
        hint=f"move {names[host]} to the GPU, or the others to the host: a call copies nothing",
    )


def identity(name: str, tensor: Any, device_of: Callable[[int], int], stream: int = LEGACY_STREAM) -> Hashable:
    """Equal for tensors that `read` (in host memory: `read_host`) reads alike; for torch tensors cheaper than to read them.

    Of a torch tensor that requires grad while grad mode is on, the key is another: `check_grad` is not skipped by a call that
    is remembered.
    """
    if type(tensor) not in plain_kinds:
        if not is_torch(tensor):
            return read_host(name, tensor) if is_host(name, tensor) else read(name, tensor, device_of, stream)
        check_plain(name, tensor)
    try:
        address: int = tensor.data_ptr()
        # Without memory it is empty, or not plain: reading it tells.
        if not address:
            return read_torch(name, tensor)
        key = address, tensor.shape, tensor.stride(), tensor.dtype, tensor.get_device(), tensor.is_neg()
    except RuntimeError:
        return read_torch(name, tensor)
    return (*key, True) if needs_grad(tensor) else key


def _host(name: str, what: str) -> TilecError:
    return TilecError(
        f"argument {name} is {what}, in host memory: the kernel runs on a GPU", hint="move it to the device"
    )


def _on_gpu(name: str, tensor: Any) -> str:
    if is_torch(tensor):
        return f"on GPU {tensor.get_device()}"
    # The array interface does not say which one.
    return f"on GPU {dlpack_device(name, tensor)}" if speaks_dlpack(tensor) else "on a GPU"


def _check_is_array(name: str, tensor: object) -> None:
    """Refuse what has the attributes of an array, or seems to, but no memory that stays."""
    if isinstance(tensor, type):
        raise TilecError(f"argument {name} is the class {tensor.__name__}, not a tensor", hint=_READ)
    if is_numpy_scalar(tensor):
        raise TilecError(f"argument {name} is {kind_of(tensor)}, a single number, not a tensor", hint=_READ)
    if type(tensor).__module__.startswith("torch.fx"):
        raise TilecError(f"argument {name} is {kind_of(tensor)} of torch.fx, which has no memory", hint=AS_OPERATOR)


def _cuda_interface(name: str, tensor: Any) -> object:
    """The ``__cuda_array_interface__`` of an object that has one. Some make it only when asked, and fail for some arrays."""
    try:
        return getattr(tensor, CUDA, None)
    except Exception as error:
        if speaks_dlpack(tensor):
            return None
        raise TilecError(f"argument {name} cannot be shared through {CUDA}: {one_line(error)}") from error


def _is_unnamed(interface: object) -> bool:
    return isinstance(interface, dict) and "V" in str(cast("dict[str, object]", interface).get("typestr"))
