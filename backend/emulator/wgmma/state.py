"""What wgmma keeps of each warp: operations that are in flight, in groups, and the registers that they own until waited for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tilec.backend.emulator.execution.cta import Cta
from tilec.backend.emulator.execution.engines import AsyncWork
from tilec.backend.emulator.wgmma.registers import Results
from tilec.backend.emulator.wgmma.shapes import THREADS

if TYPE_CHECKING:
    from tilec.backend.emulator.execution.lanes import Lanes
    from tilec.backend.emulator.execution.steps import Step


class Operation:
    """A wgmma in flight. `accumulators` may not be touched, `inputs` not be written, until it has been waited for (PTX 9.7.15.5.2)."""

    __slots__ = ("accumulators", "inputs", "shape", "work")

    def __init__(self, work: AsyncWork, accumulators: frozenset[int], inputs: frozenset[int], shape: str) -> None:
        self.work = work
        self.accumulators = accumulators
        self.inputs = inputs
        self.shape = shape


class WarpGroups:
    """Operations of the warps of a CTA: those since the last commit, and the committed groups, oldest first."""

    def __init__(self, cta: Cta) -> None:
        warps = cta.padded // 32
        self._cta = cta
        self.results = Results(cta)
        self.open: list[list[Operation]] = [[] for _ in range(warps)]
        self.groups: list[list[list[Operation]]] = [[] for _ in range(warps)]

    def issue(self, warps: Iterable[int], operation: Operation) -> None:
        for warp in warps:
            self.open[warp].append(operation)
        self._cta.registers_in_flight = self

    def commit(self, warp: int) -> None:
        self.groups[warp].append(self.open[warp])
        self.open[warp] = []

    def pending(self, warp: int, allowed: int) -> bool:
        """Whether more than `allowed` of the warp's latest groups have not completed."""
        groups = self.groups[warp]
        return any(not o.work.done for group in groups[: len(groups) - allowed] for o in group)

    def retire(self, warp: int, allowed: int) -> None:
        """All but the last `allowed` groups have been waited for: their registers are free again."""
        groups = self.groups[warp]
        del groups[: len(groups) - allowed]
        owned = frozenset[int]().union(*(operation.accumulators for operation in self._in_flight(warp)))
        self.results.write_unless(warp // 4 * THREADS, owned)
        if not any(self.open) and not any(self.groups):
            self._cta.registers_in_flight = None

    def _in_flight(self, warp: int) -> Iterator[Operation]:
        """What the warp has not waited for, oldest first."""
        yield from (operation for group in self.groups[warp] for operation in group)
        yield from self.open[warp]

    def check(self, lanes: Lanes, step: Step) -> None:
        """Called before an instruction executes while operations are in flight: it must leave their registers alone."""
        from tilec.backend.emulator.faults import FaultKind

        touched, written = step.touched(), step.written()
        seen: set[Operation] = set()
        for warp in lanes.warps:
            for operation in self._in_flight(int(warp)):
                if operation in seen:
                    continue
                seen.add(operation)
                owned = touched & operation.accumulators
                if step.chains(operation.shape):
                    owned -= written
                if owned:
                    slot = min(owned)
                elif written & operation.inputs:
                    slot = min(written & operation.inputs)
                else:
                    continue
                lane = int((lanes.threads >> 5 == int(warp)).argmax())
                lanes.fault(
                    FaultKind.IN_FLIGHT,
                    f"register {step.register_name(slot)} belongs to the wgmma of line {operation.work.place.instruction.line}, which "
                    "has not been waited for",
                    lane,
                    "wgmma.commit_group and wgmma.wait_group first",
                )

    def at_exit(self) -> None:
        """Threads may exit with results that nobody wants."""
