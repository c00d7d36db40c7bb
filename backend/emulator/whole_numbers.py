"""Whole numbers among a user's arguments, of whatever type they are."""

from __future__ import annotations

from operator import index
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tilec.diagnostics import TilecError, kind_of


def whole(name: str, value: Any) -> int:
    """A whole number of any type that is one. Raises TilecError for others, floating-point numbers among them."""
    try:
        return index(value)
    except TypeError:
        raise TilecError(f"{name} = {value!r}: it is a whole number, not {kind_of(value)}") from None


def wholes(name: str, values: Any) -> tuple[int, ...]:
    """The whole numbers of a list, a tuple or an array. Raises TilecError for what is none, or holds others."""
    if isinstance(values, np.ndarray) and values.ndim:
        values = cast("NDArray[Any]", values).tolist()
    if not isinstance(values, list | tuple):
        raise TilecError(f"{name} = {values!r}: it is a tuple of whole numbers, not {kind_of(cast('object', values))}")
    return tuple(whole(f"{name}[{at}]", value) for at, value in enumerate(cast("list[Any] | tuple[Any, ...]", values)))
