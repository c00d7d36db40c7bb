"""The stream of a launch: what callers name one by, and the current one of torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from tilec.backend.runtime.arguments import imported, is_torch
from tilec.diagnostics import TilecError


def current_stream(tensors: Sequence[object]) -> int | None:
    """The stream of a call that names none: torch's current one of the first of its tensors; None without such."""
    for tensor in tensors:
        if is_torch(tensor):
            return int(imported("torch")._C._cuda_getCurrentRawStream(cast("Any", tensor).get_device()))
    return None


def stream_handle(stream: object) -> int:
    """The driver's handle of a stream of torch, numba-cuda or cuda.core."""
    if isinstance(stream, int) and not isinstance(stream, bool):
        if not 0 <= stream < 1 << 64:
            raise TilecError(f"stream is {stream}, which is no handle", hint="pass the stream itself")
        return stream
    handle = getattr(stream, "cuda_stream", None)
    if isinstance(handle, int):
        return handle
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        # A pair of the protocol's version and the handle; a property in early versions.
        pair = protocol() if callable(protocol) else protocol
        if isinstance(pair, tuple) and len(pair := cast("tuple[object, ...]", pair)) == 2 and isinstance(pair[1], int):
            return pair[1]
    raise TilecError(
        f"stream is a {type(stream).__name__}, not a CUDA stream",
        hint="pass a stream of torch, numba-cuda or cuda.core, or its handle as an integer",
    )
