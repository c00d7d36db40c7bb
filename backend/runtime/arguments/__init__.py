"""Tensors of a call, read without copying, and the facts that pick the variant of a kernel.

Tensors of torch, arrays of NumPy and numba-cuda, and everything else with DLPack or an array interface are read, on a GPU or
in host memory. From shape and strides follow the facts of a view's type: which dimension is fastest, what divides the base
address and every pitch, and whether the innermost extent keeps to the 16-byte grid. What cannot be read exactly is refused by
the name of the argument.
"""

from tilec.backend.runtime.arguments.argument import (
    ELEMENT_BYTES,
    LEGACY_STREAM,
    LIBRARY_NAMES,
    VIEW_NAMES,
    Argument,
    check_dtype,
    check_rank,
    imported,
    wrong_dtype,
)
from tilec.backend.runtime.arguments.overlap import check_overlap, check_written
from tilec.backend.runtime.arguments.placement import ALIGNMENTS, MAX_EXTENT, Facts, Placement, check_symbols, place
from tilec.backend.runtime.arguments.reading import host_array, identity, is_host, read, read_host, where
from tilec.backend.runtime.arguments.torch_tensor import check_grad, is_torch

__all__ = [
    "ALIGNMENTS",
    "ELEMENT_BYTES",
    "LEGACY_STREAM",
    "LIBRARY_NAMES",
    "MAX_EXTENT",
    "VIEW_NAMES",
    "Argument",
    "Facts",
    "Placement",
    "check_dtype",
    "check_grad",
    "check_overlap",
    "check_rank",
    "check_symbols",
    "check_written",
    "host_array",
    "identity",
    "imported",
    "is_host",
    "is_torch",
    "place",
    "read",
    "read_host",
    "where",
    "wrong_dtype",
]
