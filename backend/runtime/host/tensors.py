"""How torch tells of a tensor without Python: DLPack's exchange API, and what cannot be asked through it."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from tilec.backend.runtime.host.unavailable import HostUnavailable

_CAPSULE = b"dlpack_exchange_api"
_MAJOR = 1
_SCAN_BYTES = 192


class _ExchangeAPI(ctypes.Structure):
    """``DLPackExchangeAPI`` of dlpack.h 1.3."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("previous", ctypes.c_void_p),
        ("managed_tensor_allocator", ctypes.c_void_p),
        ("managed_tensor_from_py_object_no_sync", ctypes.c_void_p),
        ("managed_tensor_to_py_object_no_sync", ctypes.c_void_p),
        ("dltensor_from_py_object_no_sync", ctypes.c_void_p),
        ("current_work_stream", ctypes.c_void_p),
    ]


@dataclass(frozen=True)
class TensorMemory:
    """Where a tensor keeps what DLPack does not tell: bytes from the Python object to a pointer to its implementation, and
    from there to a pointer that is null as long as nothing was asked of autograd, and to the set of dispatch keys. `lazy` are
    the keys of a tensor whose memory holds the negative or the conjugate of its values."""

    impl: int
    autograd: int
    keys: int
    lazy: int


@dataclass(frozen=True)
class TensorLibrary:
    """Python types of its tensors, addresses of two functions of its exchange API, and how to learn of lazy negation: from
    memory where that is known, else from the method `is_neg`."""

    tensor: type
    parameter: type
    is_neg: Callable[..., object]
    view_of: int
    current_stream: int
    memory: TensorMemory | None


def torch_tensors() -> TensorLibrary:
    """torch, which has been imported. Raises HostUnavailable for versions without the exchange API."""
    torch = sys.modules.get("torch")
    if torch is None:
        raise HostUnavailable("torch has not been imported")
    capsule = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if type(capsule).__name__ != "PyCapsule":
        raise HostUnavailable(f"torch {torch.__version__} has no DLPack exchange API")
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    try:
        address = pointer(capsule, _CAPSULE)
    except ValueError as error:
        raise HostUnavailable(f"torch's DLPack exchange API has another name: {error}") from error
    api = _find_version(address)
    if api is None:
        raise HostUnavailable(f"torch {torch.__version__} has a DLPack exchange API of another version than {_MAJOR}")
    view_of, current_stream = api.dltensor_from_py_object_no_sync, api.current_work_stream
    if not view_of or not current_stream:
        raise HostUnavailable(f"torch {torch.__version__} does not describe tensors without owning them")
    tensor, parameter = torch.Tensor, torch.nn.Parameter
    return TensorLibrary(tensor, parameter, tensor.is_neg, view_of, current_stream, tensor_memory(torch))


def _find_version(address: int | None) -> _ExchangeAPI | None:
    """Newer versions link to older ones; only the header is the same in all."""
    while address:
        api = _ExchangeAPI.from_address(address)
        if api.major == _MAJOR:
            return api
        address = api.previous
    return None


def tensor_memory(torch: ModuleType) -> TensorMemory | None:
    """Find it by looking at tensors of which torch itself tells the address and the keys. None if that is ambiguous.

    It saves two calls a tensor, which are half of the time of a warm call. An implementation is the same C++ class, or
    begins like it, for all tensors of a process.
    """
    try:
        return _look(torch)
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return None


def _look(torch: Any) -> TensorMemory | None:
    # Whatever default device and mode the caller has set.
    with torch.inference_mode(False):
        plain, complex_plain, integer, matrix = (
            torch.zeros(shape, dtype=dtype, device="cpu")
            for shape, dtype in ((2, torch.float32), (2, torch.complex64), (2, torch.int32), ((3, 4), torch.bfloat16))
        )
        negative, conjugate = torch._neg_view(plain), complex_plain.conj()
    tensors = [plain, complex_plain, negative, conjugate, integer, matrix.t()]
    if any(type(t) is not torch.Tensor for t in tensors):
        return None
    keys = [int(torch._C._dispatch_keys(t).raw_repr()) for t in tensors]
    bits = (keys[0] ^ keys[2], keys[1] ^ keys[3])
    if any(bit.bit_count() != 1 for bit in bits) or any(k & bit for k in (keys[0], keys[1]) for bit in bits):
        return None

    impls = [int(t._cdata) for t in tensors]
    objects = [_words(id(t), torch.Tensor.__basicsize__) for t in tensors]
    impl = _places(
        lambda i: all(words[i] == address for words, address in zip(objects, impls, strict=True)), objects[0]
    )
    contents = [_words(address, _SCAN_BYTES) for address in impls]
    key = _places(lambda i: all(words[i] == k for words, k in zip(contents, keys, strict=True)), contents[0])

    before = contents[0]
    plain.requires_grad_(True)
    after = _words(impls[0], _SCAN_BYTES)
    autograd = _places(lambda i: before[i] != after[i], before)
    if not (len(impl) == len(key) == len(autograd) == 1) or before[autograd[0] // 8] or not impl[0]:
        return None
    return TensorMemory(impl[0], autograd[0], key[0], bits[0] | bits[1])


def _words(address: int, size: int) -> list[int]:
    return list((ctypes.c_uint64 * (size // 8)).from_address(address))


def _places(holds: Callable[[int], bool], words: list[int]) -> list[int]:
    """Byte offsets of the words of which that is true."""
    return [8 * i for i in range(len(words)) if holds(i)]
