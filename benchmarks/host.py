"""How long a warm call takes, without the driver.

    python benchmarks/host.py

Calls of a kernel with two inputs and one output, torch tensors on the GPU or else on the CPU, with functions that do nothing in
place of the driver's. Prints nanoseconds a call, the best of many short loops: other work on the machine delays most; asserts nothing.
"""

from __future__ import annotations

import functools
import platform
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter_ns
from typing import Any

import torch
from llvmlite import binding
from rich.console import Console
from rich.table import Table

from tilec.backend.runtime.host import Host, HostLauncher, LaunchEntry
from tilec.backend.runtime.host.callable_type import callable_type
from tilec.backend.runtime.host.driver import DriverFunctions
from tilec.backend.runtime.host.machine_code import machine_code, map_code
from tilec.backend.runtime.host.tensors import torch_tensors

_LOOPS = 100
_CALLS = 5_000
_STUBS = """
define i32 @nothing() { ret i32 0 }
define i32 @no_context(ptr %context) { store ptr null, ptr %context ret i32 0 }
"""


def _stubs() -> tuple[DriverFunctions, object]:
    """Functions of a driver that do nothing, and what keeps them."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_default_triple().create_target_machine()
    engine = binding.create_mcjit_compiler(binding.parse_assembly(_STUBS), target)
    engine.finalize_object()
    nothing, no_context = (engine.get_function_address(name) for name in ("nothing", "no_context"))
    return DriverFunctions(nothing, no_context, nothing, nothing), engine


class _Kernel:
    """As a class of Python would forward its calls."""

    def __init__(self, call: Callable[..., object]) -> None:
        self._call = call

    def __call__(self, *inputs: object, out: object = None, stream: object = None) -> object:
        return self._call(*inputs, out=out, stream=stream)


class _SlotKernel:
    __slots__ = ("__call__",)

    def __init__(self, call: Callable[..., object]) -> None:
        self.__call__ = call


def _per_call(run: Callable[[range], None]) -> float:
    best = float("inf")
    for _ in range(_LOOPS):
        calls = range(_CALLS)
        start = perf_counter_ns()
        run(calls)
        best = min(best, (perf_counter_ns() - start) / _CALLS)
    return best


def _with_out(call: Any, a: Any, b: Any, d: Any) -> float:
    def run(calls: range) -> None:
        for _ in calls:
            call(a, b, out=d)

    return _per_call(run)


def _bare(call: Any, *arguments: Any) -> float:
    def run(calls: range) -> None:
        for _ in calls:
            call(*arguments)

    return _per_call(run)


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a, b, d = (torch.zeros(256, 256, device=device) for _ in range(3))
    driver, engine = _stubs()
    code = map_code(machine_code(lambda name: None, lambda name, stored: None))
    host = Host(code, torch_tensors(), driver)

    def miss(*arguments: object, **keywords: object) -> None:
        raise LookupError("the benchmark's call was not remembered")

    def launcher(ctas: int, host: Host = host) -> HostLauncher:
        made = HostLauncher(2, 1, miss, miss, host)
        made.remember((a, b, d), LaunchEntry(1, 0, ctas, 128, 0, 0, None))
        return made

    full = launcher(4)
    native = callable_type(_Kernel)(full.call)
    full.attach(native)
    new = torch.zeros_like(d)
    full.remember((a, b, new), LaunchEntry(1, 0, 4, 128, 0, 0, None))
    full.remember_outputs((a, b), lambda: new)
    allocate = functools.partial(torch.empty, (256, 256), dtype=a.dtype, device=device)

    rows = [
        ("a loop that calls a built-in of Python with three arguments", _bare(max, 1, 2, 3)),
        ("key of three tensors, as bytes", _bare(full._key, a, b, d)),
        ("call(a, b, out=d), nothing to launch", _with_out(launcher(0).call, a, b, d)),
        ("call(a, b, out=d)", _with_out(full.call, a, b, d)),
        (
            "the same, tensors asked through their methods",
            _with_out(launcher(4, replace(host, tensors=replace(host.tensors, memory=None))).call, a, b, d),
        ),
        ("callable_type: kernel(a, b, out=d)", _with_out(native, a, b, d)),
        ("callable_type: kernel(a, b), outputs from a Python function", _bare(native, a, b)),
        ("__call__ in a slot: kernel(a, b, out=d)", _with_out(_SlotKernel(full.call), a, b, d)),
        ("__call__ in Python: kernel(a, b, out=d)", _with_out(_Kernel(full.call), a, b, d)),
        ("torch.empty, for comparison", _bare(allocate)),
    ]
    table = Table(title=f"Python {platform.python_version()}, torch {torch.__version__}, {device}")
    table.add_column("what")
    table.add_column("ns", justify="right")
    for what, time in rows:
        table.add_row(what, f"{time:.0f}")
    Console().print(table)
    del engine


if __name__ == "__main__":
    main()
