"""What a call knows of one tensor, and the checks that need no more than that."""

# No postponed annotations: those of a record are read, and making them from text costs more than all else in here.

import math
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from tilec.diagnostics import TilecError

ELEMENT_BYTES = {"f16": 2, "bf16": 2, "f32": 4}
LIBRARY_NAMES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32"}
"""What torch, NumPy and their kin call the elements of views."""
VIEW_NAMES = {theirs: ours for ours, theirs in LIBRARY_NAMES.items()}
LEGACY_STREAM = 1
"""The driver's explicit name of the legacy default stream, as the array interfaces write it."""


class Argument(NamedTuple):
    """One tensor, on a device or in host memory.

    `shape` in elements, `strides` in bytes. `dtype` is the view's name where views have that type, else the library's.
    `device` is None in host memory, and for an empty array that does not say where it is. `producer` is a stream on which
    the tensor may still be written; `readonly` forbids to use it as an output.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    device: int | None
    producer: int | None = None
    readonly: bool = False

    @property
    def element_bytes(self) -> int:
        return ELEMENT_BYTES[self.dtype]


def imported(module: str) -> Any:
    """A module that somebody has imported already, or None: whose tensors could there be otherwise?"""
    return sys.modules.get(module)


def contiguous_strides(shape: Sequence[int], size: int) -> tuple[int, ...]:
    """Strides in bytes of a dense row-major array of elements of `size` bytes."""
    strides: list[int] = []
    for extent in reversed(shape):
        strides.insert(0, size)
        size *= max(extent, 1)
    return tuple(strides)


def check_has_memory(name: str, argument: Argument) -> Argument:
    """The argument; raises TilecError for elements at no address."""
    if argument.address == 0 and 0 not in argument.shape:
        raise TilecError(
            f"argument {name} has {math.prod(argument.shape)} elements, but its address is 0: its memory was freed or never made"
        )
    return argument


def check_dtype(name: str, argument: Argument, wanted: str | None = None) -> None:
    """Check that the elements are of a type that views have, and of the type `wanted` if that is given."""
    if argument.dtype != wanted and (wanted is not None or argument.dtype not in ELEMENT_BYTES):
        raise wrong_dtype(name, argument.dtype, wanted)


def wrong_dtype(name: str, dtype: str, wanted: str | None = None) -> TilecError:
    """The error of elements that no view has, or not the kernel's."""
    takes = "a view holds f16, bf16 or f32" if wanted is None else f"the kernel takes {wanted}"
    return TilecError(
        f"argument {name} holds {dtype}; {takes}", hint="convert it before the call: a call copies nothing"
    )


def check_rank(name: str, argument: Argument, wanted: int) -> None:
    """Check the number of dimensions; the hint is a view of the same memory wherever there is one."""
    shape, rank = argument.shape, len(argument.shape)
    if rank == wanted:
        return
    raise TilecError(
        f"argument {name} has {rank} dimension{'s' * (rank != 1)}; the kernel takes {wanted}",
        hint=_reshaped(name, shape, argument.strides, wanted),
    )


def _reshaped(name: str, shape: tuple[int, ...], strides: tuple[int, ...], wanted: int) -> str:
    rank = len(shape)
    if rank == 0:
        return f"pass {name}.reshape({', '.join(['1'] * wanted)})"
    if (rank, wanted) == (1, 2):
        return f"{name}[None, :] is a row and {name}[:, None] a column: both are views"
    dims = range(rank - wanted + 1)
    # Dimensions merge into one where each is as far from its neighbour as that has extent.
    merge = all(shape[d] == 1 or shape[d + 1] == 1 or strides[d] == shape[d + 1] * strides[d + 1] for d in dims[:-1])
    one_by_one = f"call the kernel for each {name}[{', '.join('ijklmnop'[: rank - wanted])}]"
    if not merge or rank - wanted > 8:
        return one_by_one
    flat = (math.prod(shape[: len(dims)]), *shape[len(dims) :])
    return f"{one_by_one}, or once for {name}.reshape({', '.join(map(str, flat))}), which is a view too"
