"""`tilec.jit`: a kernel written as a Python function, compiled at its first call and launched like a function.

This module is light: the dialects and the compiler are imported when a kernel is first called.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast, overload

from tilec.diagnostics import TilecError, did_you_mean, kind_of

if TYPE_CHECKING:
    from tilec.backend.runtime.driver import Driver
    from tilec.frontend.function import Function
    from tilec.frontend.lower import Lowered
    from tilec.kernel import Kernel

_NUMPY_DTYPES = {"float16": "f16", "float32": "f32", "bfloat16": "bf16"}
_dtype_names: dict[Any, str] = {}
"""Names of the dtype objects that were met, of any library."""
_TORCH_DTYPES = {"f16": "float16", "f32": "float32", "bf16": "bfloat16"}


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
    """
    if function is not None:
        return JitFunction(function, pipeline, target, check, driver)
    return lambda f: JitFunction(f, pipeline, target, check, driver)


@dataclass(frozen=True)
class _Program:
    """What one set of element types and compile-time integers makes of the function."""

    lowered: Lowered
    kernel: Kernel


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
        functools.update_wrapper(self, function)
        self._callable = function
        self._pipeline = pipeline
        self._target = target
        self._check = check
        self._driver = driver
        self._lock = threading.Lock()
        self._programs: dict[tuple[object, ...], tuple[_Program, ...]] = {}
        """By types and compile-time integers; several where values around the function have changed in between."""

    def __call__(
        self, *inputs: Any, out: Any = None, stream: object = None, max_ctas: int | None = None, **constants: int
    ) -> Any:
        """Launch, and return the outputs that the function returns.

        `inputs`: one tensor for each view among the parameters. On a GPU the outputs are new torch tensors, or those given
        as `out` (a tuple where there are several); `stream` and `max_ctas` are as for `tilec.Kernel`. With NumPy arrays the
        program's meaning is executed instead. `constants` are values of the parameters annotated `tilec.constexpr`.

        Raises TilecError for what the kernel cannot take, and, at the Python line, for what is wrong in the function.
        """
        for name, given in zip(self._parameters[0], inputs, strict=False):
            if getattr(given, "shape", None) is None:
                raise _no_tensor(name, given)
        program = self._program(inputs, constants)
        lowered = program.lowered
        if inputs and all(_is_numpy(a) for a in inputs):
            outputs = self._outputs(lowered, inputs, out, lambda shape, dtype: _numpy_empty(shape, dtype, inputs))
            for output, array in zip(lowered.outputs, outputs, strict=True):
                _check_numpy_output(output.name, array)
            _run_reference(lowered, [*inputs, *outputs])
        else:
            outputs = self._outputs(
                lowered, inputs, out, lambda shape, dtype: _torch_empty(shape, dtype, inputs, stream)
            )
            program.kernel(*inputs, *outputs, stream=stream, max_ctas=max_ctas)
        returned = tuple(outputs[i] for i in lowered.returned)
        return returned if lowered.returns_tuple else returned[0]

    def kernel(self, *inputs: Any, **constants: int) -> Kernel:
        """The kernel for these inputs: tensors, or names of element types ("f16")."""
        return self._program(inputs, constants).kernel

    def ir(self, *inputs: Any, **constants: int) -> str:
        """The tile code (L0) of the function for these inputs: tensors, or names of element types ("f16")."""
        return str(self._program(inputs, constants).lowered.module)

    @functools.cached_property
    def _function(self) -> Function:
        from tilec.frontend.function import Function

        return Function.read(self._callable)

    @functools.cached_property
    def _parameters(self) -> tuple[tuple[str, ...], dict[str, int | None]]:
        from tilec.frontend.lower import parameters

        return parameters(self._function)

    def _program(self, inputs: Sequence[Any], constants: Mapping[str, int]) -> _Program:
        views, defaults = self._parameters
        name = self._function.tree.name
        if len(inputs) != len(views):
            raise TilecError(f"{name} takes {len(views)} tensors ({', '.join(views)}), not {len(inputs)}")
        dtypes = tuple(_dtype(n, a) for n, a in zip(views, inputs, strict=True))
        values = self._constants(name, defaults, constants)
        program = self._find((dtypes, values))
        if program is None:
            with self._lock:
                program = self._find((dtypes, values))
                if program is None:
                    program = self._compile(dtypes, dict(values))
                    self._programs[dtypes, values] = (program, *self._programs.get((dtypes, values), ()))
        return program

    def _find(self, key: tuple[object, ...]) -> _Program | None:
        """The program made when all that is around the function, and that it reads, was what it is now."""
        still = self._function.still
        return next((p for p in self._programs.get(key, ()) if all(map(still, p.lowered.reads))), None)

    def _constants(
        self, name: str, defaults: Mapping[str, int | None], given: Mapping[str, int]
    ) -> tuple[tuple[str, int], ...]:
        for key, value in given.items():
            if key not in defaults:
                hint = did_you_mean(key, defaults) if defaults else f"annotate it: {key}: tilec.constexpr"
                raise TilecError(f"{name} has no compile-time integer '{key}'", hint=hint)
            if not isinstance(value, int) or isinstance(value, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TilecError(f"{key} of {name} is an integer, not {kind_of(value)}")
        values = {**defaults, **given}
        missing = [key for key, value in values.items() if value is None]
        if missing:
            raise TilecError(f"{name} needs a value for {', '.join(missing)}", hint=f"pass {missing[0]}=...")
        return tuple((key, value) for key, value in values.items() if value is not None)

    def _compile(self, dtypes: Sequence[str], constants: Mapping[str, int]) -> _Program:
        from tilec.frontend.lower import lower
        from tilec.kernel import Kernel

        lowered = lower(self._function, dtypes, constants)
        kernel = Kernel(
            lowered.module, pipeline=self._pipeline, target=self._target, check=self._check, driver=self._driver
        )
        return _Program(lowered, kernel)

    def _outputs(
        self, lowered: Lowered, inputs: Sequence[Any], out: Any, make: Callable[[tuple[int, ...], str], Any]
    ) -> tuple[Any, ...]:
        if out is not None:
            given = cast("tuple[Any, ...]", out if isinstance(out, tuple) else (out,))
            if len(given) != len(lowered.outputs):
                names = ", ".join(o.name for o in lowered.outputs)
                raise TilecError(
                    f"{self._function.tree.name} has {len(lowered.outputs)} outputs ({names}), not {len(given)}"
                )
            return given
        extents = _extents(lowered, self._parameters[0], inputs)
        return tuple(
            make(tuple(d if isinstance(d, int) else extents[d] for d in output.dims if d is not None), output.dtype)
            for output in lowered.outputs
        )


def _extents(lowered: Lowered, names: Sequence[str], inputs: Sequence[Any]) -> dict[str, int]:
    """The extent of each symbol, from the first input that has it; the launch checks that they agree."""
    from tilec.dialects.tile import KernelOp

    kernel = lowered.module.body.block.first_op
    assert isinstance(kernel, KernelOp)
    extents: dict[str, int] = {}
    for name, view, tensor in zip(names, kernel.views, inputs, strict=False):
        if len(tensor.shape) != view.rank:
            raise TilecError(f"argument {name} has {len(tensor.shape)} dimensions; the kernel takes {view.rank}")
        for dim, extent in zip(view.dims, tensor.shape, strict=True):
            if isinstance(dim, str):
                extents.setdefault(dim, int(extent))
    return extents


def _is_numpy(value: Any) -> bool:
    numpy = _imported("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def _imported(module: str) -> Any:
    """A module that somebody has imported already, or None."""
    return sys.modules.get(module)


def _dtype(name: str, value: Any) -> str:
    """The element type of an input, by name; names stand for themselves."""
    if isinstance(value, str):
        return value
    dtype = getattr(value, "dtype", None)
    if dtype is None or not isinstance(dtype, Hashable):
        raise _no_tensor(name, value)
    known = _dtype_names.get(dtype)
    if known is None:
        plain = str(getattr(dtype, "name", dtype)).removeprefix("torch.")
        known = _dtype_names[dtype] = _NUMPY_DTYPES.get(plain, plain)
    return known


def _no_tensor(name: str, value: Any) -> TilecError:
    return TilecError(f"argument {name} is {kind_of(value)}, not a tensor")


def _check_numpy_output(name: str, array: Any) -> None:
    if not _is_numpy(array):
        raise TilecError(
            f"output {name} is {kind_of(array)}, but the inputs are NumPy arrays",
            hint="pass out= a NumPy array, or a tuple of them for several outputs",
        )
    if not array.flags.writeable:
        raise TilecError(f"output {name} is read-only; the kernel writes it")


def _numpy_empty(shape: tuple[int, ...], dtype: str, inputs: Sequence[Any]) -> Any:
    import numpy

    # NumPy has no bfloat16 of its own: that of the inputs is taken.
    like = next((a.dtype for a in inputs if _NUMPY_DTYPES.get(a.dtype.name) == dtype), None)
    if like is None and dtype == "bf16":
        raise TilecError(
            "NumPy has no bfloat16 to make the output of", hint="pass out=, an array of ml_dtypes.bfloat16"
        )
    return numpy.empty(shape, _TORCH_DTYPES[dtype] if like is None else like)


def _run_reference(lowered: Lowered, arrays: Sequence[Any]) -> None:
    """Execute the program's meaning; the last arrays are the outputs."""
    from tilec.backend import reference

    # The reference holds bf16 as float32, since NumPy has no type of its own for it.
    passed = [a.astype("float32") if a.dtype.name == "bfloat16" else a for a in arrays]
    reference.run(lowered.module, passed)
    for array, result in list(zip(arrays, passed, strict=True))[-len(lowered.outputs) :]:
        if result is not array:
            array[...] = result


def _torch_empty(shape: tuple[int, ...], dtype: str, inputs: Sequence[Any], stream: object) -> Any:
    torch = _imported("torch")
    like = [] if torch is None else [a for a in inputs if isinstance(a, torch.Tensor)]
    if torch is None or not like:
        raise TilecError("outputs are made for torch tensors only", hint="pass the outputs as out=")
    device: Any = like[0].device
    with contextlib.ExitStack() as stack:
        if stream is not None and like[0].is_cuda:
            # Memory belongs to the stream that it is allocated on: it must be the one that the kernel writes it in.
            from tilec.kernel import stream_handle

            stack.enter_context(torch.cuda.stream(torch.cuda.ExternalStream(stream_handle(stream), device=device)))
        return torch.empty(shape, dtype=getattr(torch, _TORCH_DTYPES[dtype]), device=device)
