"""``if``: decided here where the condition is known at compile time, an `scf.if` where it is not."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.ir import Attribute, Block, Region, SSAValue

from tilec.frontend.lowering import carry, constants, names
from tilec.frontend.lowering.blocks import inside, lower
from tilec.frontend.lowering.frame import Frame, Returned, Site, shown
from tilec.frontend.lowering.scope import Bound, Lost, Scope
from tilec.frontend.lowering.values import RunTime, Scalar, Value, hint, is_constant, kind, run_time


@dataclass(frozen=True)
class _Branch:
    block: Block
    scope: Scope


@dataclass(frozen=True)
class _Merged:
    """A name that has a value of the same type at the end of both branches."""

    name: str
    type: Attribute
    then: Bound
    otherwise: Bound


def lower_if(frame: Frame, statement: ast.If) -> Returned | None:
    site = frame.site(statement.test)
    condition = frame.evaluate(statement.test)
    if not isinstance(condition, Scalar):
        taken = statement.body if constants.truth(site, condition) else statement.orelse
        return frame.state.execute(frame, taken)
    if not condition.is_condition:
        site.fail(f"`{shown(statement.test)}` is {kind(condition)}, and no condition", "compare it with a number")
    _branch(frame.site(statement), statement, condition.value)
    return None


def _branch(site: Site, statement: ast.If, condition: SSAValue) -> None:
    frame = site.frame
    then, otherwise = (_Branch(*lower(frame, s)) for s in (statement.body, statement.orelse))
    merged: list[_Merged] = []
    bound: dict[str, Bound | Lost] = {}
    for name, node in names.assigned([*statement.body, *statement.orelse]).items():
        left, right = then.scope.find(name), otherwise.scope.find(name)
        if not isinstance(left, Bound) or not isinstance(right, Bound):
            message = f"{name} is set in one branch of an if only, and has no value here"
            bound[name] = Lost(message, node, f"set {name} in front of the if, or in both branches")
        elif _is_same(left.value, right.value):
            bound[name] = left
        elif name in frame.liveness.after[statement]:
            merged.append(_Merged(name, _type(site, name, left, right), left, right))
        else:
            bound[name] = Lost(f"{name} has no value here", node)
    for branch, values in ((then, [m.then for m in merged]), (otherwise, [m.otherwise for m in merged])):
        _finish(site, branch, values, [m.type for m in merged])
    both = bool(statement.orelse or merged)
    regions = Region(then.block), Region(otherwise.block) if both else None
    op = site.emit(lambda: scf.IfOp(condition, [m.type for m in merged], *regions))
    for one, result in zip(merged, op.results, strict=True):
        hint(result, one.name)
        bound[one.name] = Bound(run_time(result), one.then.node)
    frame.scope.names.update(bound)


def _finish(site: Site, branch: _Branch, values: list[Bound], types: list[Attribute]) -> None:
    def yield_() -> None:
        results = [carry.converted(site.at(v.node), v.value, t) for v, t in zip(values, types, strict=True)]
        site.emit(lambda: scf.YieldOp(*results))

    inside(site.frame, branch.block, yield_)


def _is_same(left: Value, right: Value) -> bool:
    """Whether a name holds the same whichever branch was taken."""
    if isinstance(left, RunTime) and isinstance(right, RunTime):
        return left.value is right.value
    return is_constant(left) and is_constant(right) and repr(left) == repr(right)


def _type(site: Site, name: str, left: Bound, right: Bound) -> Attribute:
    """The type of a name that both branches give a value."""
    types = [v.value.type for v in (left.value, right.value) if isinstance(v, RunTime)]
    type = types[0] if types else carry.carried_type(left.value)
    if carry.carried_type(left.value) is None and kind(left.value) == kind(right.value):
        site.at(right.node).fail(
            f"{name} is {kind(right.value)} that depends on a run-time condition",
            "use it inside of the branches: they choose between run-time numbers, and register tiles",
            site.at(left.node).note("the other branch sets it here"),
        )
    if type is None or not carry.fits(left.value, type) or not carry.fits(right.value, type):
        site.at(right.node).fail(
            f"{name} is {carry.described(right.value)} in one branch of an if, and {carry.described(left.value)} in the other",
            "branches choose between run-time numbers, and register tiles of one type",
            site.at(left.node).note("the other branch sets it here"),
        )
    return type
