"""`tilec.jit`: a kernel written as a Python function, compiled at its first call and launched like a function.

This module is light: the dialects and the compiler are imported when a kernel is compiled, not when it is found in the cache.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from tilec import log
from tilec.backend.runtime.arguments import imported, is_torch
from tilec.diagnostics import TilecError
from tilec.frontend.binding import bind, check_names
from tilec.frontend.dtypes import dtype_of
from tilec.frontend.function import Function
from tilec.frontend.outputs import extents_of, given_outputs, new_outputs
from tilec.frontend.program import FunctionProgram, Returns, program_of
from tilec.frontend.reads import constant, guards
from tilec.kernel import Kernel, is_simulated, make_kernel
from tilec.program import check_pipeline, compiling
from tilec.warm import Warm, native, untraced

if TYPE_CHECKING:
    from tilec.backend.runtime.driver import Driver
    from tilec.design import Design
    from tilec.resources import Resources
    from tilec.signature import Signature
    from tilec.variant import Assembly, Variant


_KEPT = 16
"""Programs for values around a function that have changed in between; the oldest are forgotten."""


@overload
def jit(function: Callable[..., Any], /) -> JitFunction: ...
@overload
def jit(
    *, pipeline: str = "", target: str | None = None, check: bool = True, driver: Driver | None = None
) -> Callable[[Callable[..., Any]], JitFunction]: ...
def jit(
    function: Callable[..., Any] | None = None,
    /,
    *,
    pipeline: str = "",
    target: str | None = None,
    check: bool = True,
    driver: Driver | None = None,
) -> JitFunction | Callable[[Callable[..., Any]], JitFunction]:
    """Make a kernel of a function written with `tilec.tile`; as ``tilec.jit(f)``, ``@tilec.jit`` or ``@tilec.jit(...)``.

    `pipeline` is as on the command line (``"tma,pipeline(2),persistent"``); the program never depends on it. Without
    `target` the GPU of the tensors decides. `check` is the proof of the protocol that the passes made, without which nothing is
    launched. `driver` takes the place of the CUDA driver, for tests.

    Raises TilecError for what is no function with a source text.
    """
    if isinstance(function, str):
        raise TilecError(
            f"a kernel is made of a function, not of the text '{function}'",
            hint="give passes by name: @tilec.jit(pipeline=...)",
        )
    if function is not None:
        return _native_function()(function, pipeline, target, check, driver)
    return lambda f: _native_function()(f, pipeline, target, check, driver)


@functools.cache
def _native_function() -> type[JitFunction]:
    return native(JitFunction)


class JitFunction:
    """A kernel function. Threads may share it."""

    def __init__(
        self,
        function: Callable[..., Any],
        pipeline: str = "",
        target: str | None = None,
        check: bool = True,
        driver: Driver | None = None,
    ) -> None:
        if not isinstance(pipeline, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            check_pipeline(pipeline)
        self.function = Function.read(function)
        """The function as it is read."""
        check_names(self.function)
        functools.update_wrapper(self, function)
        self._pipeline = pipeline
        self._target = target
        self._check = bool(check)
        self._driver = driver
        self._programs: dict[tuple[object, ...], tuple[Made, ...]] = {}
        """By types and constants; several where values around the function have changed in between."""
        self._last: Kernel | None = None
        self._warm: Warm | None = None

    def __repr__(self) -> str:
        return f"<tilec.JitFunction {self.function.name}>"

    def __copy__(self) -> JitFunction:
        return self

    def __deepcopy__(self, memo: object) -> JitFunction:
        return self

    def __reduce__(self) -> str:
        """Another process gets the function of this name, as for all functions."""
        return self.function.callable.__qualname__

    def __call__(
        self, *arguments: Any, out: Any = None, stream: object = None, max_ctas: int | None = None, **named: Any
    ) -> Any:
        """Launch, and return the outputs that the function returns.

        `arguments` are the function's: a tensor for each view, values for its constants. The outputs are new tensors in the
        framework and on the device of the inputs, or those given as `out` (a tuple where there are several); `stream` and
        `max_ctas` are as for `tilec.Kernel`. NumPy arrays and tensors in host memory are computed by the simulator.

        Raises TilecError for what the kernel cannot take, and, at the Python line, for what is wrong in the function.
        """
        return self.call_through_python(*arguments, out=out, stream=stream, max_ctas=max_ctas, **named)

    def call_through_python(
        self, *arguments: Any, out: Any = None, stream: object = None, max_ctas: int | None = None, **named: Any
    ) -> Any:
        """What a call does that has not been made before with arguments like these."""
        return untraced(self._call)(arguments, out, stream, max_ctas, named)

    def _call(
        self, arguments: Sequence[Any], out: Any, stream: object, max_ctas: int | None, named: Mapping[str, Any]
    ) -> Any:
        inputs, made = self.bound(arguments, named)
        self._last = made.kernel
        if out is not None:
            outputs = given_outputs(self.function.name, made.returns.outputs, out)
            made.kernel(*inputs, *outputs, stream=stream, max_ctas=max_ctas)
        else:
            outputs = made.new_outputs(inputs, stream)
            made.kernel.call_with_new(inputs, outputs, stream, max_ctas)
        if not named and max_ctas is None and len(arguments) == len(inputs) and not is_simulated():
            self._remember(made, inputs, outputs)
        return made.returns.value(outputs)

    def kernel(self, *arguments: Any, **named: Any) -> Kernel:
        """The kernel for arguments like these: tensors, or names of element types ("f16")."""
        return self.bound(arguments, named)[1].kernel

    def variant(self, *arguments: Any, target: str | None = None, **named: Any) -> Variant:
        """What is compiled for arguments like these: tensors, or names of element types, for tensors as the types declare."""
        inputs, made = self.bound(arguments, named)
        if any(isinstance(one, str) for one in inputs):
            return made.kernel.variant(target=target)
        return made.kernel.variant(*inputs, *made.new_outputs(inputs, None), target=target)

    def bound(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> tuple[tuple[Any, ...], Made]:
        """The tensors among the arguments of a call, one for each view that is a parameter, and what the call calls."""
        inputs, constants = bind(self.function, arguments, named)
        views = (p.name for p in self.function.parameters if p.kind == "view")
        dtypes = tuple(dtype_of(name, one) for name, one in zip(views, inputs, strict=True))
        return inputs, self._made(dtypes, constants)

    def ir(self, after: str | None = None) -> str:
        """The tile code of the call that was made last, or what it is after the pass named `after` ("pipeline")."""
        return self._used.ir(after)

    @property
    def asm(self) -> Assembly:
        """``["llvm"]``, ``["ptx"]`` and ``["sass"]`` of the call that was made last."""
        return self._used.asm

    @property
    def resources(self) -> Resources:
        """What the kernel of the call that was made last takes of the machine."""
        return self._used.resources

    def explain(self, shape: Mapping[str, int] | None = None) -> Design:
        """The design of the pipeline of the call that was made last, with its extents, as for `tilec.Kernel`."""
        return self._used.explain(shape)

    @property
    def _used(self) -> Kernel:
        if self._last is None:
            types = ", ".join('"f16"' for p in self.function.parameters if p.kind == "view")
            raise TilecError(
                f"no call of {self.function.name} has made a kernel yet",
                hint=f"call it, or name the element types: {self.function.name}.kernel({types})",
            )
        return self._last

    def _made(self, dtypes: tuple[str, ...], constants: tuple[tuple[str, object], ...]) -> Made:
        key = (dtypes, json.dumps([constant(value) for _, value in constants]))
        made = self._find(key)
        if made is None:
            with compiling():
                made = self._find(key)
                if made is None:
                    made = self._make(dtypes, constants)
                    self._programs[key] = (made, *self._programs.get(key, ()))[:_KEPT]
        return made

    def _remember(self, made: Made, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Let the next call like this one go straight to the driver, as long as what is around the function stays the same."""
        if not made.returns.is_what_is_given or not all(is_torch(one) and one.is_cuda for one in (*inputs, *outputs)):
            return
        with compiling():
            self._warm = self._warm or Warm(len(inputs), len(outputs))
        now = guards(self.function, made.program.reads)
        if now is None or not self._warm.takes(len(inputs), len(outputs)):
            return
        call, driver = made.kernel.prepared(*inputs, *outputs)
        self._warm.remember(self, (*inputs, *outputs), call, driver, now)
        if outputs:
            recipes = [_recipe(one) for one in outputs]
            self._warm.remember_outputs(inputs, partial(_all, recipes) if len(recipes) > 1 else recipes[0], now)

    def _find(self, key: tuple[object, ...]) -> Made | None:
        """The program made when all that is around the function, and that it reads, was what it is now."""
        function = self.function
        return next((p for p in self._programs.get(key, ()) if p.program.holds(function)), None)

    def _make(self, dtypes: tuple[str, ...], constants: tuple[tuple[str, object], ...]) -> Made:
        found = program_of(self.function, dtypes, dict(constants), self._pipeline, self._check)
        settings = self._settings(dtypes, constants, found)
        log.another_program(
            self.function.name, settings, [p.settings for group in self._programs.values() for p in group]
        )
        kernel = make_kernel(found.program, target=self._target, driver=self._driver)
        return Made(found, kernel, settings)

    def _settings(
        self, dtypes: Sequence[str], constants: Sequence[tuple[str, object]], found: FunctionProgram
    ) -> dict[str, str]:
        """What the program depends on, in words."""
        views = [p.name for p in self.function.parameters if p.kind == "view"]
        around = {".".join((*read.within, read.path)): str(read.fact[1]) for read in found.reads}
        return around | dict(zip(views, dtypes, strict=True)) | {name: repr(value) for name, value in constants}


class Made(NamedTuple):
    """What one set of element types and constants (`settings`, for messages) has become."""

    program: FunctionProgram
    kernel: Kernel
    settings: Mapping[str, str]

    @property
    def signature(self) -> Signature:
        return self.kernel.signature

    @property
    def returns(self) -> Returns:
        return self.program.returns

    def new_outputs(self, inputs: Sequence[Any], stream: object) -> tuple[Any, ...]:
        extents = extents_of(self.signature, inputs)
        return new_outputs(self.returns.outputs, extents, self.signature.names, inputs, stream)


def _recipe(tensor: Any) -> Callable[[], Any]:
    """What makes one more tensor like a new one."""
    torch = imported("torch")
    return partial(torch.empty, tuple(tensor.shape), dtype=tensor.dtype, device=tensor.device)


def _all(recipes: Sequence[Callable[[], Any]]) -> tuple[Any, ...]:
    return tuple(make() for make in recipes)
