"""A compiled kernel: tensors in, launch out.

A tile program is compiled once for each *class of facts* of its arguments (fastest dimension, alignment, tail of the rows)
and each target, and loaded once on each device. A call picks the variant, encodes tensor maps and launches; what a call
needs is remembered by all that it depends on, so that the second call with the same tensors goes straight to the driver.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import ModuleOp

from tilec.backend.ptxas import find_ptxas, probe_ptxas
from tilec.backend.runtime.arguments import (
    Argument,
    Facts,
    Placement,
    check_symbols,
    identity,
    imported,
    is_torch,
    place,
    read,
)
from tilec.backend.runtime.driver import Driver, cuda_driver
from tilec.backend.runtime.launch import Loaded, ParameterBlock, Plan, count_ctas, load, parameter_values, target_of
from tilec.backend.runtime.tensor_map import MapCache, MapFields, fix_small_tensor
from tilec.backend.target import DEFAULT_TARGET
from tilec.diagnostics import TilecError, kind_of
from tilec.driver import Compiled, compile_module, find_kernel, find_target
from tilec.source import parse_file, parse_text
from tilec.spec import parse_pipeline
from tilec.variants import check_facts, declared, is_by_hand, specialised

if TYPE_CHECKING:
    from tilec.backend.emulator.launch import Emulation, OrderName
    from tilec.backend.reference import Array

_compile_lock = threading.Lock()
"""Code generation is one at a time in a process: LLVM's global context is shared by all kernels."""
_MAX_CALLS = 1024


def compile(
    source: str | Path | ModuleOp,
    *,
    pipeline: str = "",
    target: str | None = None,
    check: bool = True,
    driver: Driver | None = None,
) -> Kernel:
    """A kernel from the path of a ``.tile`` file, from the text of one, or from a module.

    `pipeline` is as on the command line (``"tma,pipeline(2),persistent"``). Without `target` the GPU of the tensors decides.
    `check` is the proof of its protocol, without which a kernel is not lowered. `driver` takes the place of the CUDA driver,
    for tests. Raises TilecError for all that is wrong with the arguments; what the passes and the proof refuse is raised when
    a variant is compiled: by the first call, or by `Kernel.compiled`.
    """
    match source:
        case ModuleOp():
            module = source
        case str() if "\n" in source or "{" in source:
            module = parse_text(source)
        case str() | Path():
            module = parse_file(source)
        case _:  # pyright: ignore[reportUnnecessaryComparison]
            raise TilecError(
                f"a program is a path, the text of a file or a module, not {kind_of(source)}",
                hint='for example tilec.compile("gemm.tile")',
            )
    return Kernel(module, pipeline=pipeline, target=target, check=check, driver=driver)


@dataclass(frozen=True)
class _Call:
    """What a call with certain tensors launches, the streams it waits for, and whether torch says which stream it uses."""

    plan: Plan
    producers: tuple[int, ...]
    of_torch: bool

    def stream(self) -> int:
        """The stream of a call that names none."""
        if self.of_torch:
            return int(imported("torch")._C._cuda_getCurrentRawStream(self.plan.kernel.device))
        return self.producers[0] if len(self.producers) == 1 else 0


class Kernel:
    """One kernel, callable with one tensor for each of its views, outputs included.

    Threads may share it.
    """

    def __init__(
        self,
        module: ModuleOp,
        *,
        pipeline: str = "",
        target: str | None = None,
        check: bool = True,
        driver: Driver | None = None,
    ) -> None:
        if not isinstance(module, ModuleOp):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TilecError(f"a kernel is made of a module, not {kind_of(module)}", hint="tilec.compile reads files")
        self.module = module
        """The program as given."""
        self._passes = parse_pipeline(pipeline)
        self._check_protocol = check
        kernel = find_kernel(module)
        self.name = kernel.sym_name.data
        written = kernel.attributes.get("target")
        self._target: str | None = getattr(written, "data", None) if target is None else target
        if self._target is not None:
            find_target(self._target)
        self._views = kernel.views
        arguments = kernel.body.block.args
        self._names = tuple(a.name_hint or f"number {i}" for i, a in enumerate(arguments))
        self._by_hand = is_by_hand(kernel)
        self._given_driver = driver
        self._load_lock = threading.Lock()
        self._variants: dict[tuple[str, tuple[Facts, ...]], Compiled] = {}
        self._loaded: dict[tuple[int, tuple[Facts, ...]], Loaded] = {}
        self._calls: dict[Hashable, _Call] = {}
        self._maps = MapCache(self._encode)

    def __repr__(self) -> str:
        return f"<tilec.Kernel {self.name}({', '.join(self._names)})>"

    def __call__(self, *tensors: object, stream: object = None, max_ctas: int | None = None) -> None:
        """Launch on the device of the tensors; outputs are written in place. Returns before the kernel has run.

        `tensors`: one for each view, in the order of the kernel's arguments. `stream`: a stream of torch, numba-cuda or
        cuda.core, or its handle; by default torch's current stream of that device (without torch tensors: the stream
        that the arrays name, else the default stream). `max_ctas` bounds the grid of a persistent kernel in place of what
        the device holds at a time. With no element to compute nothing is launched.

        Raises TilecError for tensors that the kernel cannot take, or when the driver refuses the launch.
        """
        driver = self._driver
        if max_ctas is not None and not hasattr(max_ctas, "__index__"):
            raise TilecError(f"max_ctas is an integer, not {kind_of(max_ctas)}")
        if len(tensors) != len(self._names):
            raise TilecError(
                f"kernel {self.name} takes {len(self._names)} tensors ({', '.join(self._names)}), not {len(tensors)}"
            )
        key = (max_ctas, *(identity(n, t, driver.device_of) for n, t in zip(self._names, tensors, strict=True)))
        call = self._calls.get(key)
        if call is None:
            call = self._prepare(tensors, max_ctas)
            if len(self._calls) >= _MAX_CALLS:
                self._calls.clear()
            self._calls[key] = call
        call.plan.launch(driver, call.stream() if stream is None else stream_handle(stream), call.producers)

    def compiled(self, *tensors: object, target: str | None = None) -> Compiled:
        """What was or will be compiled for tensors like these; without tensors, for the classes that the types declare.

        `target` is only needed where neither the kernel nor a GPU says it.
        """
        if target is not None:
            find_target(target)
        if not tensors:
            return self._variant(target or self._target or DEFAULT_TARGET, tuple(declared(v) for v in self._views))
        driver = self._driver
        arguments = tuple(read(n, t, driver.device_of) for n, t in zip(self._names, tensors, strict=True))
        self._check(arguments)
        device = self._device(arguments)
        facts = tuple(p.facts for p in self._place(arguments))
        return self._variant(target_of(driver, device, target or self._target), facts)

    def emulate(
        self,
        *arrays: object,
        target: str | None = None,
        max_ctas: int | None = None,
        order: OrderName = "fifo",
        seed: int = 0,
    ) -> Emulation | None:
        """Run the kernel's PTX on the CPU, on one NumPy array for each view; outputs are written in place.

        Views of bf16 are arrays of float32 that hold bf16 values. `target` is only needed where the kernel does not say it.
        `max_ctas` bounds the grid of a persistent kernel; `order` and `seed` are those of `tilec.emulate`. Returns what ran,
        None where there was no tile. Raises TilecError for arrays that the kernel cannot take, EmulatorFault for a rule that
        it breaks.
        """
        from tilec.emulation import argument_of, emulate_kernel, on_device

        if len(arrays) != len(self._names):
            raise TilecError(
                f"kernel {self.name} takes {len(self._names)} arrays ({', '.join(self._names)}), not {len(arrays)}"
            )
        dtypes = [view.dtype.name for view in self._views]
        device = [on_device(n, a, t) for n, a, t in zip(self._names, arrays, dtypes, strict=True)]
        arguments = tuple(argument_of(a, t) for a, t in zip(device, dtypes, strict=True))
        self._check(arguments)
        facts = tuple(p.facts for p in self._place(arguments))
        if target is not None:
            find_target(target)
        compiled = self._variant(target or self._target or DEFAULT_TARGET, facts)
        return emulate_kernel(
            compiled.abi,
            compiled.ptx,
            cast("Sequence[Array]", arrays),
            max_ctas=max_ctas,
            order=order,
            seed=seed,
            file=f"<PTX of {self.name}>",
        )

    @property
    def _driver(self) -> Driver:
        return self._given_driver or cuda_driver()

    def _encode(self, fields: MapFields) -> bytes:
        return fix_small_tensor(self._driver.encode(fields), fields, self._driver.version())

    def _prepare(self, tensors: Sequence[object], max_ctas: int | None) -> _Call:
        driver = self._driver
        arguments = tuple(read(n, t, driver.device_of) for n, t in zip(self._names, tensors, strict=True))
        self._check(arguments)
        device = self._device(arguments)
        placements = self._place(arguments)
        facts = tuple(p.facts for p in placements)
        target = target_of(driver, device, self._target)
        with driver.current(device):
            loaded = self._load(target, device, facts)
            abi = loaded.abi
            _check_outputs(self._names, abi.outputs, arguments, placements)
            shape = () if abi.grid is None else arguments[abi.grid.view].shape
            ctas = count_ctas(abi.grid, shape, loaded.resident, max_ctas)
            values = parameter_values(abi, device, arguments, placements, self._maps) if ctas else []
            plan = Plan(loaded, ctas, ParameterBlock(values))
        producers = {a.producer for a in arguments if a.producer is not None}
        return _Call(plan, tuple(producers), any(is_torch(t) for t in tensors))

    def _load(self, target: str, device: int, facts: tuple[Facts, ...]) -> Loaded:
        """The variant for `facts` on `device`, whose context is current."""
        loaded = self._loaded.get((device, facts))
        if loaded is None:
            compiled = self._variant(target, facts)
            with self._load_lock:
                if (device, facts) not in self._loaded:
                    cubin = _machine_code(compiled)
                    self._loaded[device, facts] = load(
                        self._driver, compiled.abi, device, cubin=cubin, ptx=compiled.ptx
                    )
                loaded = self._loaded[device, facts]
        return loaded

    def _variant(self, target: str, facts: tuple[Facts, ...]) -> Compiled:
        """Compile for one class of facts; once, whoever asks. A failure is raised and not remembered."""
        found = self._variants.get((target, facts))
        if found is None:
            with _compile_lock:
                if (target, facts) not in self._variants:
                    module = self.module if self._by_hand else specialised(self.module, facts)
                    compiled = compile_module(module, pipeline=self._passes, target=target, check=self._check_protocol)
                    self._variants[target, facts] = compiled
                found = self._variants[target, facts]
        return found

    def _check(self, arguments: Sequence[Argument]) -> None:
        """Ranks, element types and extents against the types of the views."""
        for name, view, argument in zip(self._names, self._views, arguments, strict=True):
            if len(argument.shape) != view.rank:
                raise TilecError(f"argument {name} has {len(argument.shape)} dimensions; the kernel takes {view.rank}")
            if argument.dtype != view.dtype.name:
                raise TilecError(f"argument {name} holds {argument.dtype}; the kernel takes {view.dtype.name}")
        check_symbols(self._names, [v.dims for v in self._views], arguments)

    def _device(self, arguments: Sequence[Argument]) -> int:
        """The one device of all tensors."""
        placed = [(n, a.device) for n, a in zip(self._names, arguments, strict=True) if a.device is not None]
        if not placed:
            return 0
        first, device = placed[0]
        for name, other in placed:
            if other != device:
                raise TilecError(
                    f"arguments {first} and {name} are on different devices: {device} and {other}",
                    hint="move them to one device",
                )
        return device

    def _place(self, arguments: Sequence[Argument]) -> tuple[Placement, ...]:
        if not self._by_hand:
            return tuple(place(n, a) for n, a in zip(self._names, arguments, strict=True))
        placements: list[Placement] = []
        for name, view, argument in zip(self._names, self._views, arguments, strict=True):
            facts = declared(view)
            placement = place(name, argument, facts.order)
            check_facts(name, facts, placement, argument)
            placements.append(Placement(facts, placement.pitches))
        return tuple(placements)


def _machine_code(compiled: Compiled) -> bytes | None:
    """What ptxas makes of the kernel, or None where only the driver can assemble it."""
    if find_ptxas() is None or probe_ptxas().ptx_version < compiled.target.ptx_version:
        return None
    return compiled.cubin


def _check_outputs(
    names: Sequence[str], outputs: Sequence[int], arguments: Sequence[Argument], placements: Sequence[Placement]
) -> None:
    """Outputs can be written, and each element of them has its own memory."""
    for view in outputs:
        argument, (fast, *slow) = arguments[view], placements[view].facts.order
        if argument.readonly:
            raise TilecError(f"argument {names[view]} is read-only; the kernel writes it")
        row_bytes = argument.shape[fast] * argument.element_bytes
        for dim in slow:
            if argument.shape[dim] > 1 and placements[view].pitches[dim] < row_bytes:
                raise TilecError(
                    f"argument {names[view]}: its rows overlap (pitch {placements[view].pitches[dim]} bytes, rows of "
                    f"{row_bytes} bytes), so the kernel cannot write it"
                )


def stream_handle(stream: object) -> int:
    """The driver's handle of a stream of torch, numba-cuda or cuda.core."""
    if isinstance(stream, int):
        return stream
    handle = getattr(stream, "cuda_stream", None)
    if isinstance(handle, int):
        return handle
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        # A pair of the protocol's version and the handle; a property in early versions.
        return cast("tuple[int, int]", protocol() if callable(protocol) else protocol)[1]
    raise TilecError(
        f"stream is a {type(stream).__name__}, not a CUDA stream",
        hint="pass a stream of torch, numba-cuda or cuda.core, or its handle as an integer",
    )
