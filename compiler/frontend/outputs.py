"""Outputs of a call: new tensors where the inputs are, in their framework and on their device."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from tilec.backend.runtime.arguments import LIBRARY_NAMES, check_rank, imported, is_host, is_torch, read_host
from tilec.backend.runtime.streams import stream_handle
from tilec.diagnostics import TilecError, kind_of
from tilec.frontend.dtypes import described, shape_of
from tilec.frontend.returns import Output
from tilec.signature import Signature


def extents_of(signature: Signature, inputs: Sequence[Any]) -> dict[str, int]:
    """The extent of each symbol, from the first input that has it; the launch checks that they agree."""
    extents: dict[str, int] = {}
    for view, tensor in zip(signature.views, inputs, strict=False):
        shape = shape_of(view.name, tensor)
        if len(shape) != view.rank:
            check_rank(view.name, described(view.name, tensor), view.rank)
        for dim, extent in zip(view.dims, shape, strict=True):
            if isinstance(dim, str):
                extents.setdefault(dim, int(extent))
    return extents


def given_outputs(name: str, outputs: Sequence[Output], out: Any) -> tuple[Any, ...]:
    """What the caller gave as ``out=``: a tensor, or a tuple where there are several."""
    if isinstance(out, list):
        raise TilecError("out= is a tensor, or a tuple of them, not a list", hint="write parentheses: out=(d, e)")
    given = cast("tuple[Any, ...]", out if isinstance(out, tuple) else (out,))
    if len(given) != len(outputs):
        names = ", ".join(o.name for o in outputs)
        raise TilecError(
            f"{name} has {len(outputs)} outputs ({names}), not {len(given)}"
            if outputs
            else f"{name} makes no outputs: it writes into its arguments, and takes no out=",
            hint=f"pass out= a tuple: ({names})" if len(outputs) > 1 else None,
        )
    return given


def new_outputs(
    outputs: Sequence[Output], extents: Mapping[str, int], names: Sequence[str], inputs: Sequence[Any], stream: object
) -> tuple[Any, ...]:
    """One new tensor for each output. Raises TilecError for inputs whose framework is none that we can ask for memory."""
    if not outputs:
        return ()
    if not inputs:
        raise TilecError("a kernel without inputs has nothing to make its outputs like", hint="pass out=")
    with contextlib.ExitStack() as stack:
        make = _maker(names[0], inputs, stream, stack)
        return tuple(make(_shape(output, extents), output.dtype) for output in outputs)


def _shape(output: Output, extents: Mapping[str, int]) -> tuple[int, ...]:
    missing = [dim for dim in output.dims if isinstance(dim, str) and dim not in extents]
    if missing:
        raise TilecError(f"the extent {missing[0]} of output {output.name} is none of an input's")
    return tuple(dim if isinstance(dim, int) else extents[dim] for dim in output.dims if dim is not None)


_Make = Callable[[tuple[int, ...], str], Any]


def _maker(name: str, inputs: Sequence[Any], stream: object, stack: contextlib.ExitStack) -> _Make:
    like = next((one for one in inputs if is_torch(one)), inputs[0])
    if is_torch(like):
        return _of_torch(like, stream, stack)
    if is_host(name, like):
        return lambda shape, dtype: _numpy_empty(name, inputs, shape, dtype)
    numba = imported("numba.cuda")
    if numba is not None and numba.is_cuda_array(like) and hasattr(like, "copy_to_host"):
        return lambda shape, dtype: numba.device_array(shape, _dtype_of("numba-cuda", dtype))
    cupy = imported("cupy")
    if cupy is not None and isinstance(like, cupy.ndarray):
        return lambda shape, dtype: cupy.empty(shape, _dtype_of("cupy", dtype))
    raise TilecError(
        f"the outputs of inputs that are {kind_of(like).partition(' ')[2]}s cannot be made: tilec knows how to ask torch, NumPy, "
        "numba-cuda and cupy for memory",
        hint="pass the outputs as out=",
    )


def _of_torch(like: Any, stream: object, stack: contextlib.ExitStack) -> _Make:
    torch = imported("torch")
    if stream is not None and like.is_cuda:
        # Memory belongs to the stream that it is allocated on: it must be the one that the kernel writes it in.
        external = torch.cuda.ExternalStream(stream_handle(stream), device=like.device)
        stack.enter_context(torch.cuda.stream(external))
    return lambda shape, dtype: torch.empty(shape, dtype=getattr(torch, LIBRARY_NAMES[dtype]), device=like.device)


def _numpy_empty(name: str, inputs: Sequence[Any], shape: tuple[int, ...], dtype: str) -> Any:
    import numpy

    if dtype != "bf16":
        return numpy.empty(shape, LIBRARY_NAMES[dtype])
    # NumPy has no bfloat16 of its own: that of the inputs is taken.
    like: list[Any] = [a for a in inputs if isinstance(a, numpy.ndarray) and read_host(name, a).dtype == "bf16"]
    if not like:
        raise _no_bfloat16("NumPy")
    return numpy.empty(shape, like[0].dtype)


def _dtype_of(framework: str, dtype: str) -> str:
    if dtype == "bf16":
        raise _no_bfloat16(framework)
    return LIBRARY_NAMES[dtype]


def _no_bfloat16(framework: str) -> TilecError:
    return TilecError(
        f"{framework} has no bfloat16 to make the output of", hint="pass out=, an array of ml_dtypes.bfloat16"
    )
