"""The three phases of one output tile: which loads fill the pipeline, what overlaps in each turn, what drains it.

No time is involved; what the figures of a chip make of it is for `tilec timeline` to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilec.backend.protocol.sizes import sized
from tilec.backend.timeline.record import record
from tilec.design.play import Play
from tilec.design.subject import Subject
from tilec.design.turns import MOST_K_TILES, Phases, Turns
from tilec.diagnostics import TilecError


@dataclass(frozen=True)
class Schedule:
    """The phases for several numbers of K tiles, and what they have in common."""

    phases: tuple[Phases, ...]
    first_parity: Mapping[str, int] = field(default_factory=dict[str, int])
    """By mbarrier, the parity of the first wait."""
    of_shape: bool = False
    """Whether the first phases are those of a shape that was asked for: what overlaps is then what overlaps in them."""
    problem: str | None = None
    """Why there is none."""

    @property
    def ahead(self) -> int | None:
        """How many K tiles ahead of the MMA a turn of the steady state loads."""
        return max((max(turns.loads) for turns in self._loading), default=None)

    @property
    def stuck(self) -> str | None:
        """Where an execution hangs."""
        return next((phases.stuck for phases in self.phases if phases.stuck), None)

    @property
    def overlap(self) -> int:
        """K tiles whose loads are in flight at once while one is computed, at most."""
        return max((turns.loads_at_once for turns in self._all), default=0)

    @property
    def farthest(self) -> int:
        """How many K tiles ahead of the one that is computed a load in flight is, at most."""
        return max((max(turns.loads_in_flight) for turns in self._all if turns.loads_in_flight), default=0)

    @property
    def mmas_at_once(self) -> int:
        """MMAs that are queued at once, at most."""
        return max((1 + len(turns.mmas_in_flight) for turns in self._all), default=0)

    @property
    def _all(self) -> list[Turns]:
        counted = self.phases[:1] if self.of_shape else self.phases
        return [turns for phases in counted for turns in (*phases.steady, *phases.drain)]

    @property
    def _loading(self) -> list[Turns]:
        return [turns for phases in self.phases for turns in (*phases.steady, *phases.drain) if turns.loads]


def schedule(subject: Subject) -> Schedule:
    """The phases for the K tiles of the subject's shape (else twice the depth and one), for fewer than stages, and as many."""
    depth = subject.depth
    asked = None if subject.shape is None else subject.k_tiles(subject.shape)
    wanted = [min(2 * depth + 1 if asked is None else asked, MOST_K_TILES), depth - 1, depth]
    shapes = [_shape(subject, count) for count in (wanted if subject.loop_steps else [1])]
    distinct = {tuple(shape.items()): shape for shape in shapes}.values()
    made: list[Phases] = []
    parity: dict[str, int] = {}
    try:
        for shape in distinct:
            ctas = 1 if subject.is_persistent else None
            recording = record(subject.module, shape, ctas=ctas)
            played = Play(recording)
            played.run()
            made.append(played.phases(subject.k_tiles(shape), shape))
            for name, first in played.first_parity.items():
                parity.setdefault(name, first)
    except TilecError as error:
        return Schedule(tuple(made), parity, asked is not None, error.diagnostic.message)
    return Schedule(tuple(made), parity, asked is not None)


def _shape(subject: Subject, count: int) -> dict[str, int]:
    """Two output tiles, if the schedule goes from one to the next, with `count` K tiles each."""
    size = sized(subject.kernel, count, 2 if subject.is_persistent else 1)
    return subject.assumed(size.extents)
