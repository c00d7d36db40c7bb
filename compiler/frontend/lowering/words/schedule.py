"""The tile scheduler, and the loop of a CTA over the tiles that fall to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Region, SSAValue

from tilec.dialects.tile import ScheduleOp
from tilec.frontend.lowering import blocks, carry
from tilec.frontend.lowering.arguments import Argument
from tilec.frontend.lowering.frame import Site
from tilec.frontend.lowering.loops import Loop
from tilec.frontend.lowering.scope import Bound, Scope
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
    carried, fixed = carry.carried(site, site.statement)
    first, one = site.index_constant(0), site.index_constant(1)
    types = [IndexType(), *(c.type for c in carried)]

    def ask() -> None:
        there = scheduler.at(site, before.args[0]).valid
        site.emit(lambda: scf.ConditionOp(there, *before.args))

    def begin(scope: Scope, block: Block) -> None:
        scope.fixed.update(fixed)
        block.args[0].name_hint = "turn"
        carry.bind_arguments(scope, block, carried)
        turn = blocks.inside(site.frame, block, lambda: scheduler.at(site, block.args[0]))
        for target, offset in zip(variables, turn.offsets, strict=True):
            offset.name_hint = target.id
            scope.names[target.id] = Bound(Scalar(offset), target)

    def end() -> None:
        turn = site.emit(lambda: arith.AddiOp(body.args[0], one)).result
        site.emit(lambda: scf.YieldOp(turn, *values))

    before = Block(arg_types=types)
    blocks.inside(site.frame, before, ask)
    body, scope = blocks.lower(site.frame, site.statement.body, types, begin)
    values = carry.next_values(site, carried, body, scope)
    blocks.inside(site.frame, body, end)
    inits = [first, *(c.init for c in carried)]
    op = site.emit(lambda: scf.WhileOp(inits, types, Region(before), Region(body)))
    blocks.forget(site.frame, [site.statement], "this loop", keep=[c.name for c in carried])
    carry.bind_results(site.frame, carried, list(op.results[1:]))
