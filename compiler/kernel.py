"""A compiled kernel: tensors in, launch out.

A program is compiled once for each *class of facts* of its arguments (fastest dimension, alignment, tail of the rows) and
each target, and loaded once on each device. A call picks the variant, encodes tensor maps and launches; what a call needs is
remembered by all that it depends on, so that the second call with the same tensors goes straight to the driver.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Hashable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, SupportsIndex, cast

from tilec import log
from tilec.backend.runtime.arguments import (
    LEGACY_STREAM,
    Argument,
    Facts,
    check_grad,
    host_array,
    identity,
    is_host,
    read,
    read_host,
    where,
)
from tilec.backend.runtime.driver import Driver, cuda_driver
from tilec.backend.runtime.launch import Loaded, ParameterBlock, Plan, count_ctas, load, parameter_values, target_of
from tilec.backend.runtime.streams import current_stream, stream_handle
from tilec.backend.runtime.tensor_map import MapCache, MapFields, fix_small_tensor
from tilec.backend.target import DEFAULT_TARGET, find_target
from tilec.call_checks import check_count, check_memory, check_shapes, one_device, placements_of
from tilec.diagnostics import TilecError, kind_of
from tilec.program import Program, SourceProgram, compiling, of_module, of_text
from tilec.variant import Assembly, Variant
from tilec.warm import PreparedCall, Warm, native, untraced

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from tilec.backend.emulator.launch import Emulation, OrderName
    from tilec.backend.reference import Array
    from tilec.design import Design
    from tilec.driver import Compiled
    from tilec.resources import Resources

SIMULATE_VARIABLE = "TILEC_SIMULATE"
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
    return make_kernel(_program(source, pipeline, bool(check)), target=target, driver=driver)


def make_kernel(program: Program, *, target: str | None = None, driver: Driver | None = None) -> Kernel:
    """The kernel of a program, of the class whose calls need no Python once they are warm."""
    return _native_kernel()(program, target=target, driver=driver)


def _program(source: object, pipeline: str, check: bool) -> SourceProgram:
    match source:
        case str() if "\n" in source or "{" in source:
            return of_text(source, "<text>", pipeline, check)
        case str() | Path():
            from tilec.source_text import read_source, refuse_python

            text = read_source(source)
            refuse_python(str(source))
            return of_text(text, str(source), pipeline, check)
        case _:
            from xdsl.dialects.builtin import ModuleOp

            if isinstance(source, ModuleOp):
                return of_module(source, pipeline, check)
    raise TilecError(
        f"a program is a path, the text of a file or a module, not {kind_of(source)}",
        hint='for example tilec.compile("gemm.tile")',
    )


class Kernel:
    """One kernel, callable with one tensor for each of its views, outputs included.

    Threads may share it.
    """

    def __init__(self, program: Program, *, target: str | None = None, driver: Driver | None = None) -> None:
        self._program = program
        self.signature = program.signature
        """Its views, and what they are declared for."""
        self.name = self.signature.name
        self._target = self.signature.target if target is None else target
        if self._target is not None:
            find_target(self._target)
        self._names = self.signature.names
        self._given_driver = driver
        self._variants: dict[tuple[str, tuple[Facts, ...]], Variant] = {}
        self._loaded: dict[tuple[int, tuple[Facts, ...]], Loaded] = {}
        self._calls: dict[Hashable, PreparedCall] = {}
        self._maps = MapCache(self._encode)
        self._warm = Warm(len(self._names), 0)
        self._used: Variant | None = None
        """That of the call that was prepared last: a warm one does not say that it was made."""
        self._shapes: tuple[tuple[int, ...], ...] = ()
        """Of that call's tensors."""

    def __repr__(self) -> str:
        return f"<tilec.Kernel {self.name}({', '.join(self._names)})>"

    def __copy__(self) -> Kernel:
        return self

    def __deepcopy__(self, memo: object) -> Kernel:
        return self

    def __call__(self, *tensors: object, stream: object = None, max_ctas: int | None = None) -> None:
        """Launch on the device of the tensors; outputs are written in place. Returns before the kernel has run.

        `tensors`: one for each view, in the order of the kernel's arguments. `stream`: a stream of torch, numba-cuda or
        cuda.core, or its handle; by default torch's current stream of that device (without torch tensors: the stream
        that the arrays name, else the default stream). `max_ctas` bounds the grid of a persistent kernel in place of what
        the device holds at a time. With no element to compute nothing is launched. NumPy arrays and tensors in host memory
        are computed by the simulator, and so is all where the environment variable ``TILEC_SIMULATE`` is 1 from the first call on.

        Raises TilecError for tensors that the kernel cannot take, or when the driver refuses the launch.
        """
        self.call_through_python(*tensors, stream=stream, max_ctas=max_ctas)

    def call_with_new(
        self, tensors: Sequence[object], new: Sequence[object], stream: object, max_ctas: int | None
    ) -> None:
        """A call with outputs that hold nothing: in host memory it is an error if the kernel does not write all of them."""
        if new and is_host(self._names[-1], new[-1]):
            self._call((*tensors, *new), stream, max_ctas, len(new))
        else:
            self(*tensors, *new, stream=stream, max_ctas=max_ctas)

    def call_through_python(self, *tensors: object, stream: object = None, max_ctas: int | None = None) -> None:
        """What a call does that has not been made before with tensors like these."""
        untraced(self._call)(tensors, stream, max_ctas, 0)

    def _call(self, tensors: Sequence[object], stream: object, max_ctas: int | None, new: int) -> None:
        max_ctas = _count(max_ctas)
        check_count(self.signature, "tensors", len(tensors))
        if is_simulated():
            self._simulate_copies(tensors, max_ctas, new)
        elif where(self._names, tensors) == "host":
            self._simulate(tensors, max_ctas, new)
        else:
            call = self._launch(tensors, stream, max_ctas)
            if max_ctas is None:
                self._warm.remember(self, tensors, call, self._driver)

    def prepared(self, *tensors: object) -> tuple[PreparedCall, Driver]:
        """What a call with these tensors on a GPU launches, for callers that launch it themselves."""
        return self._prepared(tensors, current_stream(tensors), None), self._driver

    @property
    def module(self) -> ModuleOp:
        """The program as given. Raises TilecError for a kernel that was loaded from a file."""
        if not isinstance(self._program, SourceProgram):
            raise TilecError(f"kernel {self.name} was compiled ahead of time: its program is not at hand")
        return self._program.module.clone()

    def variant(self, *tensors: object, target: str | None = None) -> Variant:
        """What is compiled for tensors like these; without tensors, for the classes that the types declare.

        `target` is only needed where neither the kernel nor a GPU says it.
        """
        if target is not None:
            find_target(target)
        if not tensors:
            return self._variant(target or self._target or DEFAULT_TARGET, self._declared)
        check_count(self.signature, "tensors", len(tensors))
        if where(self._names, tensors) == "host":
            arguments = tuple(read_host(n, t) for n, t in zip(self._names, tensors, strict=True))
            target = target or self._target or DEFAULT_TARGET
        else:
            driver = self._driver
            arguments = tuple(read(n, t, driver.device_of) for n, t in zip(self._names, tensors, strict=True))
            target = target_of(driver, one_device(self.signature, arguments), target or self._target)
        check_shapes(self.signature, arguments)
        return self._variant(target, self._facts(arguments))

    def compiled(self, *tensors: object, target: str | None = None) -> Compiled:
        """Every stage of the compilation that `variant` gives."""
        return self.variant(*tensors, target=target).compiled

    def ir(self, after: str | None = None) -> str:
        """The tile code, or what it is after the pass named `after` ("pipeline"); of the call that was prepared last."""
        return self._last.ir(after)

    @property
    def asm(self) -> Assembly:
        """``["llvm"]``, ``["ptx"]`` and ``["sass"]`` of the call that was prepared last."""
        return self._last.asm

    @property
    def resources(self) -> Resources:
        """What the kernel of the call that was prepared last takes of the machine."""
        return self._last.resources

    def explain(self, shape: Mapping[str, int] | None = None) -> Design:
        """The design of the pipeline of the call that was prepared last: what was chosen, why, and what was checked.

        ``print(kernel.explain())`` shows it. `shape`, an extent for each name in the types of the views, gives it numbers; by
        default they are those of that call, and before the first call there are none.
        """
        if shape is None and self._shapes:
            from tilec.design.explain import explain_call

            return explain_call(self._program, self._last.target, self._last.facts, self._shapes)
        return self._last.explain(shape)

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

        check_count(self.signature, "arrays", len(arrays))
        dtypes = [view.dtype for view in self.signature.views]
        device = [on_device(n, a, t) for n, a, t in zip(self._names, arrays, dtypes, strict=True)]
        arguments = tuple(argument_of(a, t) for a, t in zip(device, dtypes, strict=True))
        check_shapes(self.signature, arguments)
        facts = self._facts(arguments)
        if target is not None:
            find_target(target)
        variant = self._variant(target or self._target or DEFAULT_TARGET, facts)
        return emulate_kernel(
            variant.artifact.abi,
            variant.ptx,
            cast("Sequence[Array]", arrays),
            max_ctas=_count(max_ctas),
            order=order,
            seed=seed,
            file=f"<PTX of {self.name}>",
        )

    @property
    def _driver(self) -> Driver:
        return self._given_driver or cuda_driver()

    @property
    def _declared(self) -> tuple[Facts, ...]:
        return tuple(view.facts for view in self.signature.views)

    @property
    def _last(self) -> Variant:
        return self._used or next(reversed(self._variants.values()), None) or self.variant()

    def _launch(self, tensors: Sequence[object], stream: object, max_ctas: int | None) -> PreparedCall:
        handle = current_stream(tensors) if stream is None else stream_handle(stream)
        call = self._prepared(tensors, handle, max_ctas)
        if handle is None:
            handle = call.producers[0] if len(call.producers) == 1 else 0
        call.plan.launch(self._driver, handle, call.producers)
        return call

    def _prepared(self, tensors: Sequence[object], stream: int | None, max_ctas: int | None) -> PreparedCall:
        """The launch for tensors like these, prepared once."""
        driver = self._driver
        # Producers of DLPack make their data ready on the stream that they are told.
        ready = LEGACY_STREAM if stream is None else stream
        key = (max_ctas, *(identity(n, t, driver.device_of, ready) for n, t in zip(self._names, tensors, strict=True)))
        call = self._calls.get(key)
        if call is None:
            call = self._prepare(tensors, ready, max_ctas)
            if len(self._calls) >= _MAX_CALLS:
                self._calls.clear()
            self._calls[key] = call
        return call

    def _simulate(self, tensors: Sequence[object], max_ctas: int | None, new: int) -> None:
        from tilec.hosted import run_on_host

        self._check_grad(tensors)
        arguments = tuple(read_host(n, t) for n, t in zip(self._names, tensors, strict=True))
        check_shapes(self.signature, arguments)
        check_memory(self.signature, arguments)
        facts = self._facts(arguments)
        self._used = self._variant(self._target or DEFAULT_TARGET, facts)
        self._shapes = tuple(argument.shape for argument in arguments)
        passed = self._used.passed
        arrays = [host_array(n, t) for n, t in zip(self._names, tensors, strict=True)]
        run_on_host(passed.asynchronous, self.signature, arrays, max_ctas, new)

    def _simulate_copies(self, tensors: Sequence[object], max_ctas: int | None, new: int) -> None:
        """Tensors on a GPU take the way over host memory."""
        from tilec.simulated_gpu import copy_back, copy_to_host

        copies = [copy_to_host(n, t) for n, t in zip(self._names, tensors, strict=True)]
        self._simulate(copies, max_ctas, new)
        for view, tensor, copy in zip(self.signature.views, tensors, copies, strict=True):
            if view.written and copy is not tensor:
                copy_back(tensor, copy)

    def _encode(self, fields: MapFields) -> bytes:
        return fix_small_tensor(self._driver.encode(fields), fields, self._driver.version())

    def _check_grad(self, tensors: Sequence[object]) -> None:
        for name, tensor in zip(self._names, tensors, strict=True):
            check_grad(name, tensor)

    def _facts(self, arguments: Sequence[Argument]) -> tuple[Facts, ...]:
        return tuple(placement.facts for placement in placements_of(self.signature, arguments))

    def _prepare(self, tensors: Sequence[object], stream: int, max_ctas: int | None) -> PreparedCall:
        driver = self._driver
        self._check_grad(tensors)
        arguments = tuple(read(n, t, driver.device_of, stream) for n, t in zip(self._names, tensors, strict=True))
        check_shapes(self.signature, arguments)
        check_memory(self.signature, arguments)
        device = one_device(self.signature, arguments)
        placements = placements_of(self.signature, arguments)
        facts = tuple(p.facts for p in placements)
        target = target_of(driver, device, self._target)
        with driver.current(device):
            loaded = self._load(target, device, facts)
            self._shapes = tuple(argument.shape for argument in arguments)
            abi = loaded.abi
            shape = () if abi.grid is None else arguments[abi.grid.view].shape
            ctas = count_ctas(abi.grid, shape, loaded.resident, max_ctas)
            values = parameter_values(abi, device, arguments, placements, self._maps) if ctas else []
            plan = Plan(loaded, ctas, ParameterBlock(values))
        producers = {a.producer for a in arguments if a.producer is not None}
        return PreparedCall(plan, tuple(producers))

    def _load(self, target: str, device: int, facts: tuple[Facts, ...]) -> Loaded:
        """The variant for `facts` on `device`, whose context is current."""
        variant = self._used = self._variant(target, facts)
        loaded = self._loaded.get((device, facts))
        if loaded is None:
            artifact = variant.artifact
            with compiling():
                if (device, facts) not in self._loaded:
                    cubin = None if artifact.machine is None else artifact.machine.cubin
                    self._loaded[device, facts] = load(
                        self._driver, artifact.abi, device, cubin=cubin, ptx=artifact.ptx
                    )
                loaded = self._loaded[device, facts]
        return loaded

    def _variant(self, target: str, facts: tuple[Facts, ...]) -> Variant:
        """The variant for one class of facts."""
        key = (target, facts)
        with compiling():
            found = self._variants.get(key)
            if found is None:
                log.recompiles(self.signature, key, list(self._variants))
                found = self._variants[key] = Variant(self._program, target, facts)
            return found


@cache
def _native_kernel() -> type[Kernel]:
    return native(Kernel)


def is_simulated() -> bool:
    """Whether calls with tensors on a GPU go to the simulator. A call that is warm already does not ask."""
    return os.environ.get(SIMULATE_VARIABLE) == "1"


def _count(max_ctas: object) -> int | None:
    if max_ctas is None:
        return None
    try:
        return operator.index(cast("SupportsIndex", max_ctas))
    except TypeError as error:
        raise TilecError(f"max_ctas is an integer, not {kind_of(max_ctas)}") from error
