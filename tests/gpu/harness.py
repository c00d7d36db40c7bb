"""Kernels, problems and buffers of the GPU tests.

Every buffer is all NaN but for the tensor that lies in it, so that a read beside a tensor shows in the result and a write
beside it shows in the buffer. Every wait has a deadline: a kernel that hangs ends the process, not the run.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import tilec

HUNG = 86
"""Exit status of a process that a kernel hung."""
DEADLINE_S = 20.0
GUARD = 4096
"""Elements of NaN before and behind a tensor; a multiple of 256 bytes of every element type."""
EXAMPLES = Path(__file__).parents[2] / "examples"
TOLERANCE = {"f16": 1e-3, "bf16": 8e-3, "f32": 1e-3}
"""Largest relative error (Frobenius) against float64 where this is the least precise type involved."""
FAST = "tma,pipeline(3),persistent"


def why_no_gpu() -> str | None:
    """What is missing to run these tests here."""
    if importlib.util.find_spec("torch") is None:
        return "torch is not installed"
    if not importlib.import_module("torch").cuda.is_available():
        return "torch sees no CUDA GPU"
    return None


torch: Any = None if why_no_gpu() else importlib.import_module("torch")


def torch_dtype(name: str) -> Any:
    return {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}[name]


@functools.cache
def kernel(pipeline: str, dtype: str = "f16", out: str | None = None) -> tilec.Kernel:
    """examples/gemm.tile with other element types, through a pipeline."""
    text = (EXAMPLES / "gemm.tile").read_text().replace("MxNxf16", f"MxNx{out or dtype}")
    return tilec.compile(
        text.replace("MxKxf16", f"MxKx{dtype}").replace("NxKxf16", f"NxKx{dtype}").replace("64xf16", f"64x{dtype}"),
        pipeline=pipeline,
    )


class Buffer:
    """A rows x columns tensor inside a buffer of NaN.

    `pitch`: elements between rows; `shift`: elements by which the tensor starts behind a multiple of 256 bytes;
    `transposed`: the tensor is stored column by column, and `pitch` lies between columns.
    """

    def __init__(
        self, rows: int, columns: int, dtype: str, *, pitch: int | None = None, shift: int = 0, transposed: bool = False
    ) -> None:
        stored = (columns, rows) if transposed else (rows, columns)
        pitch = stored[1] if pitch is None else pitch
        bits, self._nan = (torch.int32, 0x7FFFFFFF) if dtype == "f32" else (torch.int16, 0x7FFF)
        self._bits = torch.full((2 * GUARD + shift + stored[0] * pitch,), self._nan, dtype=bits, device="cuda")
        start = GUARD + shift
        inner = self._bits[start : start + stored[0] * pitch].view(stored[0], pitch)[:, : stored[1]]
        self._inner = inner.t() if transposed else inner
        self.tensor: Any = self._inner.view(torch_dtype(dtype))

    def poison(self) -> None:
        self._inner.fill_(self._nan)

    def check_beside(self) -> None:
        """Everything beside the tensor is as it was. The tensor is poisoned by this."""
        self.poison()
        assert bool((self._bits == self._nan).all()), "the kernel wrote beside its output"


class Measured(NamedTuple):
    """A relative error (Frobenius, against float64), and the least precise type involved."""

    dtype: str
    error: float


class Errors:
    """Relative errors of a test, for the report, which shows the largest of each type."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item

    def add(self, measured: Measured) -> None:
        self._item.user_properties.append((measured.dtype, measured.error))


class Problem:
    """A[M, K] and B[N, K] of random numbers, and their product in float64.

    `integers`: from -2 to 2, so that every sum is exact; `a` and `b` are options of their `Buffer`.
    """

    def __init__(
        self,
        m: int,
        n: int,
        k: int,
        dtype: str = "f16",
        *,
        integers: bool = False,
        a: dict[str, Any] | None = None,
        b: dict[str, Any] | None = None,
    ) -> None:
        generator = torch.Generator(device="cuda").manual_seed(m * 1_000_003 + n * 1009 + k)
        self.name = f"{m}x{n}x{k} {dtype}{' integers' if integers else ''}"
        self.shape = (m, n)
        self.dtype = dtype
        self.integers = integers
        self.a = self._operand(m, k, generator, a or {})
        self.b = self._operand(n, k, generator, b or {})
        self.want: Any = self.a.tensor.double() @ self.b.tensor.double().t()

    def _operand(self, rows: int, columns: int, generator: Any, options: dict[str, Any]) -> Buffer:
        buffer = Buffer(rows, columns, self.dtype, **options)
        if self.integers:
            values = torch.randint(-2, 3, (rows, columns), generator=generator, device="cuda")
        else:
            values = torch.randn((rows, columns), generator=generator, device="cuda")
        buffer.tensor.copy_(values)
        return buffer

    def run(
        self, kernel: tilec.Kernel, out: str | None = None, *, d: dict[str, Any] | None = None, **options: Any
    ) -> Measured:
        """Launch into a fresh output and check it."""
        buffer = Buffer(*self.shape, out or self.dtype, **(d or {}))
        what = f"{self.name} {options}" if options else self.name
        kernel(self.a.tensor, self.b.tensor, buffer.tensor, **options)
        finish(what)
        try:
            measured = self.check(buffer.tensor, out)
            buffer.check_beside()
        except AssertionError as error:
            raise AssertionError(f"{what}: {error}") from None
        return measured

    def check(self, got: Any, out: str | None = None) -> Measured:
        """Compare with float64."""
        out = out or self.dtype
        loosest = max(self.dtype, out, key=lambda d: TOLERANCE[d])
        assert not bool(torch.isnan(got).any()), f"{int(torch.isnan(got).sum())} of {got.numel()} elements are NaN"
        if self.integers:
            wrong = int((got != self.want.to(torch_dtype(out))).sum())
            assert wrong == 0, f"{wrong} of {got.numel()} integers differ"
            return Measured(loosest, 0.0)
        norm = float(self.want.norm())
        error = float((got.double() - self.want).norm()) / (norm or 1.0)
        limit = TOLERANCE[loosest]
        assert error < limit, f"relative error {error:.2e}, allowed {limit:.0e}"
        return Measured(loosest, error)


@functools.lru_cache(maxsize=24)
def problem(m: int, n: int, k: int, dtype: str = "f16", integers: bool = False) -> Problem:
    return Problem(m, n, k, dtype, integers=integers)


def finish(what: str = "a kernel", seconds: float = DEADLINE_S) -> None:
    """Wait for all that was launched in the current stream; ends the process if that takes too long."""
    event = torch.cuda.Event()
    event.record()
    end = time.monotonic() + seconds
    while not event.query():
        if time.monotonic() > end:
            hung(f"{what} did not finish within {seconds:g} s")
        time.sleep(20e-6)


hang_listeners: list[Callable[[str], None]] = []
"""Told why, before a process is ended."""


def hung(reason: str) -> None:
    """End this process: nothing can be launched beside a kernel that hangs."""
    for listener in hang_listeners:
        listener(reason)
    os._exit(HUNG)


def refused(words: str) -> Any:
    """The context in which a launch must be refused with these words."""
    return pytest.raises(tilec.TilecError, match=words)
