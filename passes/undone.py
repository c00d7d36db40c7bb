"""What has been done in a tile, but not so that everyone knows: what `between_tiles` carries along its walk."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.ir import SSAValue

from tilec.dialects.tile import SlotOp
from tilec.dialects.tile.sync import MAX_PENDING
from tilec.passes.builder import constant


@dataclass(frozen=True)
class Tile:
    """A shared tile."""

    storage: SSAValue
    slot: int | None
    """Of a ring; None for a tile that is none, or for a slot that is computed."""

    @staticmethod
    def of(value: SSAValue) -> Tile:
        if isinstance(value.owner, SlotOp):
            return Tile(value.owner.ring, constant(value.owner.stage))
        return Tile(value, None)

    def overlaps(self, other: Tile) -> bool:
        return self.storage is other.storage and (self.slot == other.slot or None in (self.slot, other.slot))


@dataclass(frozen=True)
class Touch:
    """The threads have read or written a shared tile."""

    tile: Tile
    writes: bool
    fenced: bool = False
    """They have executed a proxy fence since."""
    met: bool = False
    """They have met since. Where the fence came before, nothing is left to do."""


@dataclass(frozen=True)
class AccRead:
    """The threads have read an accumulator: the fence before, the meeting and the fence behind it have to follow."""

    acc: SSAValue
    steps: int = 0
    """How many of the three have."""


@dataclass(frozen=True)
class Undone:
    """What has been done, but not so that everyone knows."""

    touches: frozenset[Touch] = frozenset()
    acc_reads: frozenset[AccRead] = frozenset()
    stored: frozenset[Tile] = frozenset()
    """Read by TMA stores that are in no group yet."""
    groups: tuple[frozenset[Tile], ...] = ()
    """Read by the stores of each group that nobody has waited for, the newest last."""
    released: frozenset[Tile] = frozenset()
    """Read by stores that the issuing thread has waited for, and no other."""
    waited: frozenset[SSAValue] = frozenset()
    """Barriers that the threads have waited for one by one: one of them may be a round behind."""

    def joined(self, other: Undone) -> Undone:
        """What is undone on one of two paths."""
        length = max(len(self.groups), len(other.groups))
        a, b = ((*[frozenset[Tile]()] * (length - len(one)), *one) for one in (self.groups, other.groups))
        return Undone(
            self.touches | other.touches,
            self.acc_reads | other.acc_reads,
            self.stored | other.stored,
            tuple(x | y for x, y in zip(a, b, strict=True)),
            self.released | other.released,
            self.waited | other.waited,
        )

    def met(self) -> Undone:
        """After a meeting of all threads."""
        return replace(
            self,
            touches=frozenset(replace(one, met=True) for one in self.touches if not one.fenced),
            acc_reads=frozenset(replace(one, steps=2) if one.steps == 1 else one for one in self.acc_reads),
            released=frozenset(),
            waited=frozenset(),
        )

    def committed(self) -> Undone:
        """After the stores so far have become a group; the oldest groups, which any wait is for, are one."""
        groups = (*self.groups, self.stored)
        oldest, kept = groups[: -MAX_PENDING - 1], groups[-MAX_PENDING - 1 :]
        return replace(self, stored=frozenset(), groups=(kept[0].union(*oldest), *kept[1:]))

    def drained(self, pending: int) -> Undone:
        """After the issuing thread has waited for all groups but the newest."""
        done = max(0, len(self.groups) - pending)
        return replace(self, groups=self.groups[done:], released=self.released.union(*self.groups[:done]))
