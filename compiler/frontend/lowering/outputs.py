"""Outputs that cannot be what was meant, said at the Python line: new tensors hold nothing but what the kernel stores."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from tilec.diagnostics import TilecError, calls_to, location_of
from tilec.dialects.tile import CopyAsyncOp, CopyOp, KernelOp


def check_outputs(kernel: KernelOp, outputs: Sequence[SSAValue]) -> None:
    """Every output is stored to, and none is read."""
    for value in outputs:
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
