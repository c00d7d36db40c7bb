"""Outputs that cannot be what was meant, said at the Python line: new tensors hold nothing but what the kernel stores."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from tilec.backend.kernels import find_kernel
from tilec.diagnostics import TilecError, calls_to, location_of
from tilec.dialects.tile import CopyAsyncOp, CopyOp


def check_outputs(module: ModuleOp, count: int) -> None:
    """Every one of the kernel's last `count` views is stored to, and none of them is read."""
    arguments = find_kernel(module, None).body.block.args
    for value in arguments[len(arguments) - count :]:
        name = value.name_hint or "an output"
        copies = [use.operation for use in value.uses if isinstance(use.operation, CopyOp | CopyAsyncOp)]
        for op in copies:
            if op.is_load:
                raise TilecError(
                    f"{name} is an output of this kernel, a new tensor: it holds nothing to read",
                    location_of(op),
                    "keep the tile that was stored, or take the tensor as a parameter",
                    calls_to(op),
                )
        if not copies:
            raise TilecError(
                f"{name} is an output of this kernel, and nothing is stored to it",
                location_of(value),
                f"copy a tile to it: tile.copy(acc, {name}[m, n])",
            )
