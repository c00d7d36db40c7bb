"""The tile scheduler, and the loop of a CTA over the tiles that fall to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from tilec.dialects.tile import ScheduleOp
from tilec.frontend.lowering.arguments import Argument
from tilec.frontend.lowering.frame import Site
from tilec.frontend.lowering.loops import Loop, repeated
from tilec.frontend.lowering.values import Scalar, Several, Value, View
from tilec.frontend.lowering.vocabulary import attribute, loop, word
from tilec.frontend.lowering.words.operands import number_of, steps_of, tile_of


@dataclass(frozen=True)
class Scheduled(Several):
    """A turn of the scheduler: whether there is a tile, and where; unpacked as ``valid, m, n``."""

    noun: ClassVar[str] = "a turn of the scheduler"

    valid: Scalar
    offsets: tuple[Scalar, ...]

    @property
    def items(self) -> tuple[Value, ...]:
        return self.valid, *self.offsets


@dataclass(frozen=True)
class _Scheduler:
    """What a kernel says of its scheduler, which every turn asks."""

    view: View
    steps: tuple[int, ...]
    group: int

    def at(self, site: Site, turn: SSAValue) -> ScheduleOp:
        return site.emit(lambda: ScheduleOp(turn, self.view.value, self.steps, self.group))


def _scheduler(view: Argument, step: Argument, group: Argument) -> _Scheduler:
    of = tile_of(view, View)
    return _Scheduler(of, steps_of(step, of), group.integer())


@word("schedule")
def schedule(site: Site, *, turn: Argument, view: Argument, step: Argument, group: Argument) -> Scheduled:
    scheduler = _scheduler(view, step, group)
    op = scheduler.at(site, turn.index())
    return Scheduled(Scalar(op.valid), tuple(map(Scalar, op.offsets)))


@attribute(Scheduled, "valid")
def valid(site: Site, turn: Scheduled) -> Value:
    return turn.valid


@attribute(Scheduled, "offsets")
def offsets(site: Site, turn: Scheduled) -> Value:
    return turn.offsets


@loop("persistent")
def persistent(site: Loop, *, view: Argument, step: Argument, group: Argument) -> None:
    """An `scf.while` over turns, whose number is the first value that it carries."""
    scheduler = _scheduler(view, step, group)
    rank = scheduler.view.type.rank
    variables = site.variables(
        rank, f"the tiles of a view of {number_of(rank, 'dimension')} have {number_of(rank, 'offset')}"
    )
    turn, one = site.index_constant(0), site.index_constant(1)
    turn.name_hint = "turn"
    repeated(
        site,
        variables,
        [turn],
        check=lambda own: scheduler.at(site, own[0]).valid,
        enter=lambda own: tuple(map(Scalar, scheduler.at(site, own[0]).offsets)),
        advance=lambda own: [site.emit(lambda: arith.AddiOp(own[0], one)).result],
    )
