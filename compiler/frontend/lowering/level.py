"""What a synchronous kernel (L0) cannot hold, said at the Python line."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.ir import Operation

from tilec.diagnostics import TilecError, calls_to, location_of
from tilec.dialects.tile import KernelOp
from tilec.passes.synchronous import is_synchronous

_CONTROL: dict[type[Operation], tuple[str, str]] = {
    scf.IfOp: (
        "an if on a run-time condition",
        "decide it by what is known at compile time, or write `x if c else y` for numbers",
    ),
    scf.ForOp: (
        "a loop that counts at run time",
        "write `for k in tile.range(A, dim=1, step=64)`, or range(...) of what is known at compile time",
    ),
    scf.WhileOp: ("a while loop on a run-time condition", "write `for k in tile.range(A, dim=1, step=64)`"),
}


def check_level(kernel: KernelOp) -> None:
    """Refuse run-time control flow beside whole-tile operations, which passes order and pipeline."""
    if not is_synchronous(kernel):
        return
    for op in kernel.walk():
        if type(op) in _CONTROL:
            what, hint = _CONTROL[type(op)]
            raise TilecError(
                f"{what} in a synchronous kernel, whose control flow is tile.grid and tile.range",
                location_of(op),
                hint,
                calls_to(op),
            )
