"""A case of the hardware suite: a small kernel, its launch and its arguments, as data.

A case runs on an H200 (`tests/gpu/record_hardware.py`) and on the emulator (`test_hardware.py`) with the same arguments.
Nothing here imports the package or a CUDA binding: the machine that records needs NumPy alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
SEED = 20_260
SENTINEL = 0xA5
"""The byte that fills outputs before the launch: what a kernel leaves out stays visible."""


@dataclass(frozen=True)
class Im2col:
    """What an im2col map has in place of a box: corners outermost first, channels of a pixel, pixels of a column."""

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    channels: int
    pixels: int


@dataclass(frozen=True, eq=False)
class MapArgument:
    """A tensor map parameter over `array`, as `tilec.TensorMap` takes it: outermost dimension first, strides in bytes."""

    array: Array
    box: tuple[int, ...]
    swizzle: str | None = None
    strides: tuple[int, ...] | None = None
    oob: str = "zero"
    interleave: str | None = None
    element_strides: tuple[int, ...] | None = None
    shape: tuple[int, ...] | None = None
    """The tensor's extents where the array holds more (rows that are padded to the pitch)."""
    dtype: str | None = None
    """An element type that NumPy does not have: "bf16" (over u2), "tf32", "f32_ftz" (over f4)."""
    im2col: Im2col | None = None


Argument = Array | np.generic | MapArgument


@dataclass(frozen=True)
class Bound:
    """What an approximate result may be off: `ulps` of the recorded value or `absolute`, whichever is more."""

    format: str
    ulps: float
    absolute: float = 0.0


@dataclass(frozen=True)
class Case:
    """One launch. `arguments` builds the same values from the same generator state each time."""

    name: str
    family: str
    ptx: str
    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: Callable[[np.random.Generator], list[Argument]]
    cluster: tuple[int, int, int] = (1, 1, 1)
    dynamic_smem: int = 0
    forbidden: bool = False
    """The ISA forbids what the kernel does: the emulator stops; the recording is there to know what hardware does."""
    disputed: str = ""
    """Why the emulator does not follow the recording: what the ISA defines and hardware's code for it differ."""
    bounds: tuple[Bound, ...] = ()
    """For approximate results: one bound for each column (equal part) of the last argument."""

    def seeded(self) -> list[Argument]:
        """The arguments of the launch, new ones at each call."""
        return self.arguments(np.random.default_rng([SEED, *self.name.encode()]))


def array_of(argument: Argument) -> Array | None:
    """The global memory that an argument stands for, if any."""
    if isinstance(argument, MapArgument):
        return argument.array
    return argument if isinstance(argument, np.ndarray) else None


def with_array(argument: Argument, array: Array) -> Argument:
    """The argument over other memory."""
    return replace(argument, array=array) if isinstance(argument, MapArgument) else array


def blank(dtype: str, size: int) -> Array:
    """An output of `size` elements, every byte the sentinel."""
    return np.full(size * np.dtype(dtype).itemsize, SENTINEL, np.uint8).view(dtype)
