"""Which tensor maps in global memory have been changed by `tensormap` instructions, and whether fences have followed (PTX 8.3,
9.7.13.4): a change needs a release and, in each CTA that uses the map, an acquire."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar
from weakref import WeakKeyDictionary

from tilec.backend.emulator.faults import FaultKind
from tilec.backend.emulator.tma.descriptor import MAP_BYTES

if TYPE_CHECKING:
    from tilec.backend.emulator.execution.lanes import Lanes
    from tilec.backend.emulator.execution.machine import Machine
    from tilec.backend.emulator.memory.address_space import GlobalSegment


@dataclass
class _Changed:
    """A map that has been changed at `line`: whether that was released, and the CTAs that have acquired it since, by number."""

    name: str
    line: int
    released: bool = False
    acquired: set[int] = field(default_factory=set[int])


class MapProxy:
    """The changed maps of a launch by address. Maps that come with the launch need no fences."""

    _of: ClassVar[WeakKeyDictionary[Machine, MapProxy]] = WeakKeyDictionary()

    def __init__(self) -> None:
        self._maps: dict[int, _Changed] = {}

    @classmethod
    def of(cls, machine: Machine) -> MapProxy:
        found = cls._of.get(machine)
        if found is None:
            found = cls._of[machine] = cls()
        return found

    @staticmethod
    def global_at(machine: Machine, space: str, address: int) -> GlobalSegment | None:
        """The global memory that a map at `address` lies in, None if it is shared memory."""
        if space == "shared::cta":
            return None
        found = machine.memory.find(address, MAP_BYTES)
        return found and found[0]

    def changed(self, segment: GlobalSegment, address: int, line: int) -> None:
        self._maps[address] = _Changed(segment.name, line)

    def release(self, address: int) -> None:
        self._maps[address].released = True

    def release_all(self) -> None:
        """A thread's fence covers what it has changed, and what it has learned of: here, all that has been changed."""
        for one in self._maps.values():
            one.released = True

    def acquire(self, address: int, cta: int) -> None:
        one = self._maps.get(address)
        if one is not None and one.released:
            one.acquired.add(cta)

    def check_use(self, lanes: Lanes, lane: int, address: int) -> None:
        """Fault if the CTA uses a map through the tensormap proxy that it may not see yet as it was changed."""
        one = self._maps.get(address)
        if one is None or lanes.cta.number in one.acquired:
            return
        missing = "acquire" if one.released else "release"
        hint = (
            f"fence.proxy.tensormap::generic.acquire.gpu [map], {MAP_BYTES}, in the CTA that uses it"
            if one.released
            else "fence.proxy.tensormap::generic.release.gpu in the thread that changed it, then .acquire in the CTA that uses it"
        )
        lanes.fault(
            FaultKind.PROXY_FENCE,
            f"the tensor map at address 0x{address:x}, in {one.name}, was changed in line {one.line}, and no "
            f"fence.proxy.tensormap::generic.{missing} has followed",
            lane,
            hint,
        )
