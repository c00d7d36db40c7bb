"""Arrays of NumPy, and memory of the host as NumPy arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilec.backend.runtime.arguments.argument import Argument, imported
from tilec.backend.runtime.arguments.array_interface import read_host_array
from tilec.diagnostics import TilecError

if TYPE_CHECKING:
    from numpy import ndarray

_TYPESTRS = {"f16": "<f2", "bf16": "<u2", "f32": "<f4"}


def is_numpy(tensor: object) -> bool:
    numpy = imported("numpy")
    return numpy is not None and isinstance(tensor, numpy.ndarray)


def is_numpy_scalar(tensor: object) -> bool:
    numpy = imported("numpy")
    return numpy is not None and isinstance(tensor, numpy.generic)


def read_numpy(name: str, array: Any) -> Argument:
    """A NumPy array, read in place. Subclasses (`memmap`, `matrix`) are, but for masked arrays."""
    if isinstance(array, imported("numpy").ma.MaskedArray):
        raise TilecError(
            f"argument {name} is a masked array: masks are not supported", hint=f"pass {name}.filled(0), or {name}.data"
        )
    argument = read_host_array(name, array.__array_interface__)._replace(strides=array.strides)
    # The interface calls what ml_dtypes adds to NumPy raw bytes.
    added = array.dtype.kind == "V" and array.dtype.names is None and array.dtype.subdtype is None
    if added and not array.dtype.name.startswith("void"):
        return argument._replace(dtype={"bfloat16": "bf16"}.get(array.dtype.name, array.dtype.name))
    return argument


class _Shared:
    """What NumPy makes an array of; the array keeps it, and with it the owner of the memory."""

    def __init__(self, argument: Argument, owner: object) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "version": 3,
            "shape": argument.shape,
            "strides": argument.strides,
            "typestr": _TYPESTRS[argument.dtype],
            "data": (argument.address, argument.readonly),
        }


def share(argument: Argument, owner: object) -> ndarray[Any, Any]:
    """An array on the memory of `argument`, which `owner` holds; elements of bf16 are the 16 bits of uint16."""
    import numpy

    return numpy.asarray(_Shared(argument, owner))
