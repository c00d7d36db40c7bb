"""Element types and shapes of arguments, of any library."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, cast

from tilec.backend.runtime.arguments import ELEMENT_BYTES, VIEW_NAMES, Argument, read, read_host, where, wrong_dtype
from tilec.frontend.tile import DType

_known: dict[Hashable, str] = {}
"""Names of the dtype objects that were met."""


def dtype_of(name: str, value: object) -> str:
    """The element type of argument `name`, as views call it: a tensor, an element type or the name of one.

    Raises TilecError for what is none of these, and for elements that no view has.
    """
    found = _dtype_of(name, value)
    if found not in ELEMENT_BYTES:
        raise wrong_dtype(name, found)
    return found


def _dtype_of(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, DType):
        return value.name
    dtype = getattr(value, "dtype", None)
    if dtype is not None and isinstance(dtype, Hashable) and _has_shape(value):
        known = _known.get(dtype)
        if known is None:
            plain = str(cast("Any", getattr(dtype, "name", dtype))).removeprefix("torch.")
            known = _known[dtype] = VIEW_NAMES.get(plain, plain)
        return known
    return described(name, value).dtype


def _has_shape(value: object) -> bool:
    try:
        return hasattr(value, "shape")
    except RuntimeError:  # torch's nested tensors
        return False


def shape_of(name: str, value: Any) -> tuple[Any, ...]:
    """The shape of argument `name`, a tensor; torch's symbolic extents stay what they are."""
    shape = getattr(value, "shape", None)
    return described(name, value).shape if shape is None else tuple(shape)


def described(name: str, value: object) -> Argument:
    """All that a launch would read of a tensor; what is none is refused."""
    on_host = where((name,), (value,)) == "host"
    return read_host(name, value) if on_host else read(name, value, lambda _: 0)
