"""What a case of another compiler's kernel is: a launch with arguments, and what it must leave behind.

The expected values come from NumPy and plain Python alone. Matrix products get whole numbers so small that every sum is exact,
whatever the order of the additions, so that they are compared bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

DATA = Path(__file__).resolve().parents[2] / "data"
Array = NDArray[Any]
Shape3 = tuple[int, int, int]


@dataclass(frozen=True)
class Tiled:
    """A tensor map argument over an array: the box in the array's own order, and the swizzle by name."""

    array: Array
    box: tuple[int, ...]
    swizzle: str | None = None


@dataclass(frozen=True)
class Result:
    """An argument array (or a part of one) and what it must hold; NaNs are alike, zeros have signs.

    With tolerances of zero the bits must agree; `why` says what a tolerance allows for.
    """

    array: Array
    expected: Array
    rtol: float = 0.0
    atol: float = 0.0
    why: str = ""

    def check(self) -> None:
        assert self.array.dtype == self.expected.dtype and self.array.shape == self.expected.shape
        if self.rtol or self.atol:
            assert self.why
            np.testing.assert_allclose(self.array, self.expected, rtol=self.rtol, atol=self.atol)
            return
        same = self.array == self.expected
        if self.array.dtype.kind == "f":
            same &= np.signbit(self.array) == np.signbit(self.expected)
            same |= np.isnan(self.array) & np.isnan(self.expected)
        wrong = np.argwhere(~same)
        if len(wrong):
            at = tuple(wrong[0])
            raise AssertionError(
                f"{len(wrong)} of {same.size} elements differ, first {at}: {self.array[at]!r}, expected {self.expected[at]!r}"
            )


@dataclass(frozen=True)
class Launch:
    """One launch; arguments are arrays (global memory), NumPy scalars and `Tiled`."""

    arguments: list[Any]
    results: list[Result]
    grid: Shape3 = (1, 1, 1)
    block: Shape3 = (32, 1, 1)
    cluster: Shape3 = (1, 1, 1)
    dynamic_smem: int = 0


@dataclass(frozen=True)
class Case:
    """A kernel of a PTX file of the corpus with one way to launch it."""

    name: str
    file: str
    entry: str
    make: Callable[[np.random.Generator], Launch] = field(compare=False)

    def launch(self) -> Launch:
        """The launch, with the same random numbers each time."""
        return self.make(np.random.default_rng(sum(self.name.encode())))

    def text(self) -> str:
        return (DATA / self.file).read_text()


class Nvcc:
    """The cases of the CUDA C++ files, filled by decorating a function for each kernel."""

    def __init__(self) -> None:
        self.cases: list[Case] = []

    def case(
        self, file: str, suffixes: tuple[str, ...] = ("sm_90a", "sm_100a"), entry: str | None = None
    ) -> Callable[[Callable[[np.random.Generator], Launch]], Callable[[np.random.Generator], Launch]]:
        """Makes the function the case of the kernel of its name (or `entry`) in each of the file's PTX files."""

        def add(make: Callable[[np.random.Generator], Launch]) -> Callable[[np.random.Generator], Launch]:
            for suffix in suffixes:
                name = f"{file}.{suffix}:{make.__name__}"
                self.cases.append(Case(name, f"nvcc/{file}.{suffix}.ptx", entry or make.__name__, make))
            return make

        return add


def integers(random: np.random.Generator, shape: tuple[int, ...], dtype: Any, low: int = -4, high: int = 5) -> Array:
    """Whole numbers of [low, high) as any type."""
    return random.integers(low, high, shape).astype(dtype)


def i32(value: int) -> np.int32:
    return np.int32(value)
