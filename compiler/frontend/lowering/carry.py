"""Values that run-time control flow hands on: from turn to turn of a loop, and out of branches."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from xdsl.dialects.builtin import IndexType, i1
from xdsl.ir import Attribute, Block, SSAValue

from tilec.frontend.lowering import names
from tilec.frontend.lowering.blocks import inside
from tilec.frontend.lowering.frame import Frame, Site
from tilec.frontend.lowering.scope import Bound, Fixed, Lost, Scope
from tilec.frontend.lowering.values import Reg, RunTime, Scalar, Value, hint, is_condition, is_number, kind, run_time


@dataclass(frozen=True)
class Carried:
    """A name that a loop changes: its value in front of the loop, and where it was set."""

    name: str
    init: SSAValue
    node: ast.AST

    @property
    def type(self) -> Attribute:
        return self.init.type


def changed(frame: Frame, loop: ast.For | ast.While) -> list[str]:
    """Names from outside of a loop that its turns set, and that its next turn, or what is behind it, reads."""
    live = frame.liveness.next_turn[loop] | frame.liveness.after[loop]
    own = names.assigned_by(loop.target) if isinstance(loop, ast.For) else frozenset[str]()
    set_inside = names.assigned(loop.body)
    return [n for n in frame.scope.visible() if n in set_inside and n in live and n not in own]


def carried(site: Site, loop: ast.For | ast.While) -> tuple[list[Carried], dict[str, Fixed]]:
    """What a loop carries, and the names that it changes but cannot carry. Constants become operations in front of it."""
    found: list[Carried] = []
    fixed: dict[str, Fixed] = {}
    for name in changed(site.frame, loop):
        bound = site.frame.scope.value(name)
        assert bound is not None
        type, around = carried_type(bound.value), site.frame.scope.fixes(name)
        if around is not None:
            fixed[name] = around
        elif type is None:
            fixed[name] = not_carried(name, bound.value)
        else:
            found.append(Carried(name, converted(site, bound.value, type), bound.node))
    return found, fixed


def not_carried(name: str, value: Value) -> Fixed:
    """Why a loop cannot set a name of this value."""
    hint = "give it another name; accumulators change in place, by tile.mma"
    if not isinstance(value, RunTime):
        hint = "give it another name: a loop changes whole numbers that are not negative, as tile.index(0)"
    return Fixed(f"{name} is assigned outside of this loop: a loop cannot change it", hint)


def carried_type(value: Value) -> Attribute | None:
    """The type of what can be handed on: a scalar, a register tile, or an integer or bool that becomes a scalar."""
    match value:
        case Scalar() | Reg():
            return value.value.type
        case bool():
            return i1
        case int() if value >= 0:
            return IndexType()
        case _:
            return None


def converted(site: Site, value: Value, type: Attribute) -> SSAValue:
    """A value as one of `type`, which it is, or which a compile-time integer or bool can become."""
    if isinstance(value, RunTime):
        assert value.value.type == type
        return value.value
    assert isinstance(value, int)
    return site.constant(value, type)


def fits(value: Value, type: Attribute) -> bool:
    """Whether `converted` can be asked."""
    if isinstance(value, RunTime):
        return value.value.type == type
    if isinstance(value, bool):
        return is_condition(type)
    return isinstance(value, int) and value >= 0 and is_number(type)


def bind_arguments(scope: Scope, block: Block, carried: list[Carried]) -> None:
    """Bind the last arguments of a loop's block to the names that it carries."""
    first = len(block.args) - len(carried)
    for one, argument in zip(carried, block.args[first:], strict=True):
        hint(argument, one.name)
        scope.names[one.name] = Bound(run_time(argument), one.node)


def next_values(site: Site, carried: list[Carried], block: Block, scope: Scope) -> list[SSAValue]:
    """The values of the carried names at the end of a turn, as values of their types."""
    values: list[SSAValue] = []
    for one in carried:
        found = scope.find(one.name)
        if isinstance(found, Lost):
            site.at(found.node).fail(found.message, found.hint)
        assert found is not None
        at = site.at(found.node)
        if not fits(found.value, one.type):
            at.fail(
                f"{one.name} becomes {described(found.value)} in a loop, but is {described(run_time(one.init))} in front of it",
                conversion(one.type, found.value),
                site.at(one.node).note("it is set here"),
            )
        values.append(inside(site.frame, block, lambda v=found.value, t=one.type, at=at: converted(at, v, t)))
    return values


def described(value: Value) -> str:
    """What a value is, with the shape and type of a register tile."""
    return f"a register tile ({value.type})" if isinstance(value, Reg) else kind(value)


def conversion(type: Attribute, value: Value) -> str | None:
    """How the front value could have had the type of the later one."""
    if isinstance(value, Scalar) and not value.is_condition and not is_condition(type):
        return f"begin with tile.{value.type}(...)"
    return None


def bind_results(frame: Frame, carried: list[Carried], results: list[SSAValue]) -> None:
    for one, result in zip(carried, results, strict=True):
        hint(result, one.name)
        frame.scope.names[one.name] = Bound(run_time(result), one.node)
