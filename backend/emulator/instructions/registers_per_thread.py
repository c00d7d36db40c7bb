"""`setmaxnreg` (PTX 9.7.19.5): how many registers the threads of a warpgroup may use.

PTX has registers without limit, so that nothing changes here but what the next `setmaxnreg` is checked against.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilec.backend.emulator.execution.cta import Cta
from tilec.backend.emulator.execution.decode import Decoder, Together, instruction
from tilec.backend.emulator.execution.lanes import Lanes
from tilec.backend.emulator.faults import FaultKind, Place, fail
from tilec.backend.emulator.ptx.syntax import Integer

_WARPS = 4
_LEAST, _MOST, _UNIT = 24, 256, 8


@dataclass(frozen=True)
class _Change:
    action: str
    registers: int


class _History:
    """The changes that each warp of a CTA has made."""

    def __init__(self, cta: Cta) -> None:
        self._cta = cta
        self._changes: list[list[_Change]] = [[] for _ in range(cta.padded // 32)]
        self._place: Place | None = None
        declared = cta.machine.program.kernel.directives.get("maxnreg")
        self._declared = declared[0] if declared else None

    def note(self, lanes: Lanes, change: _Change) -> None:
        for warp in lanes.warps:
            history = self._changes[int(warp)]
            owned = history[-1].registers if history else self._declared
            if owned is not None and (owned < change.registers if change.action == "dec" else owned > change.registers):
                lanes.fault(
                    FaultKind.ILLEGAL,
                    f"setmaxnreg.{change.action} to {change.registers} registers in warp {int(warp)}, which owns {owned}",
                    None,
                )
            history.append(change)
        self._place = lanes.place(None)

    def at_exit(self) -> None:
        """All warps of a warpgroup must have made the same changes."""
        assert self._place is not None
        for first in range(0, len(self._changes), _WARPS):
            group = self._changes[first : first + _WARPS]
            odd = next((first + i for i, changes in enumerate(group) if changes != group[0]), None)
            if odd is not None:
                fail(
                    FaultKind.DIVERGENT,
                    f"warps {first} and {odd} of CTA {self._cta.index} are of one warpgroup, but have not executed the same setmaxnreg",
                    self._place,
                    "all warps of a warpgroup execute it",
                )


@instruction("setmaxnreg")
def setmaxnreg(d: Decoder) -> Together:
    action = d.take("inc", "dec")
    if action is None or d.take("sync") is None or d.take("aligned") is None or d.take_type() != "u32":
        d.unsupported("setmaxnreg is .inc or .dec, with .sync.aligned.u32")
    d.finish()
    d.count(1)
    operand = d.operands[0]
    if not isinstance(operand, Integer) or not _LEAST <= operand.value <= _MOST or operand.value % _UNIT:
        d.unsupported(f"the number of registers is a constant, {_LEAST} to {_MOST} and a multiple of {_UNIT}")
    change = _Change(action, operand.value)

    def execute(lanes: Lanes) -> None:
        lanes.cta.part(_History).note(lanes, change)

    return Together(execute, "warp")
