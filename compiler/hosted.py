"""A kernel on arrays in host memory: the schedule that its passes made, executed by the simulator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tilec.backend.reference import Array
from tilec.backend.runtime.launch import no_persistent_grid
from tilec.backend.simulator import run
from tilec.diagnostics import TilecError
from tilec.driver import find_kernel
from tilec.signature import Signature
from tilec.simulation import grid_size, make_blank, never_written, scheduler


def run_on_host(
    module: ModuleOp, signature: Signature, arrays: Sequence[Array], max_ctas: int | None, new: int = 0
) -> None:
    """Execute an asynchronous kernel on one array for each view; outputs are written in place.

    Arrays of bf16 views hold its bits, as uint16. The last `new` arrays are new, and hold nothing: all of them must be
    written. Raises TilecError where they are not, and `tilec.backend.simulator.Fault` for what no GPU would do right.
    """
    kernel = find_kernel(module)
    if max_ctas is not None and scheduler(kernel) is None:
        raise no_persistent_grid()
    if any(0 in array.shape for array, view in zip(arrays, signature.views, strict=True) if view.written):
        return  # no tile
    # The simulator's elements of bf16 are float32, which holds all of them.
    held = [_widened(a) if v.dtype == "bf16" else a for a, v in zip(arrays, signature.views, strict=True)]
    first_new = len(held) - new
    for array in held[first_new:]:
        make_blank(array)
    run(module, held, ctas=grid_size(kernel, held, max_ctas))
    for array, computed, view in zip(arrays, held, signature.views, strict=True):
        if view.written and view.dtype == "bf16":
            array[...] = computed.view(np.uint32) >> 16

    for argument, computed in list(zip(kernel.body.block.args, held, strict=True))[first_new:]:
        unwritten = never_written(argument, computed)
        if unwritten is not None:
            name = signature.names[argument.index]
            raise TilecError(
                unwritten.message,
                unwritten.location,
                hint=f"let the grid run over {name}, in steps of the tiles that are stored to it",
            )


def _widened(bits: Array) -> Array:
    return (bits.astype(np.uint32) << 16).view(np.float32)
