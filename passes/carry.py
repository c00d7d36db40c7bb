"""Values that loops carry: give an `scf.for` more of them, or drop those that nobody uses any more."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import scf
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.traits import is_side_effect_free

from tilec.passes.builder import LocatedBuilder


def with_carried(loop: scf.ForOp, inits: Sequence[tuple[str, SSAValue]]) -> tuple[scf.ForOp, list[BlockArgument]]:
    """The same loop carrying more values, named; the caller yields them with `yield_more`."""
    block = loop.body.block
    arguments: list[BlockArgument] = []
    for hint, init in inits:
        argument = block.insert_arg(init.type, len(block.args), loop.location)
        argument.name_hint = hint
        arguments.append(argument)
    new = _rebuild(loop, [*loop.iter_args, *(init for _, init in inits)], list(range(len(loop.res))))
    for (hint, _), result in zip(inits, new.res[len(new.res) - len(inits) :], strict=True):
        result.name_hint = hint
    return new, arguments


def yield_more(loop: scf.ForOp, values: Sequence[SSAValue]) -> None:
    end = loop.body.block.last_op
    assert isinstance(end, scf.YieldOp)
    end.operands = [*end.operands, *values]


def drop_unused(loop: scf.ForOp) -> scf.ForOp:
    """The same loop, and the loops around it, without carried values that only feed themselves."""
    dead = {place for place in range(len(loop.res)) if _feeds_only_itself(loop, place)}
    if not dead:
        return loop
    block = loop.body.block
    end = block.last_op
    assert isinstance(end, scf.YieldOp)
    end.operands = [value for place, value in enumerate(end.operands) if place not in dead]
    for place in sorted(dead, reverse=True):
        _erase_users(block.args[1 + place])
        block.erase_arg(block.args[1 + place])
        loop.res[place].replace_all_uses_with(loop.iter_args[place])
    kept = [place for place in range(len(loop.res)) if place not in dead]
    new = _rebuild(loop, [loop.iter_args[place] for place in kept], kept)
    outer = new.parent_op()
    if isinstance(outer, scf.ForOp):
        drop_unused(outer)
    return new


def _rebuild(loop: scf.ForOp, inits: Sequence[SSAValue], kept: Sequence[int]) -> scf.ForOp:
    """Move the body into a loop with these carried values; its results stand for those of the old one, `kept` in order."""
    results = [loop.res[place] for place in kept]
    block = loop.body.block
    loop.body.detach_block(block)
    new = LocatedBuilder.before(loop).add(scf.ForOp(loop.lb, loop.ub, loop.step, inits, block))
    for old, result in zip(results, new.res, strict=False):
        result.name_hint = old.name_hint
        old.replace_all_uses_with(result)
    loop.detach()
    loop.erase()
    return new


def _feeds_only_itself(loop: scf.ForOp, place: int) -> bool:
    """Whether the value is read by nothing but free computations of its own next value."""
    outer = loop.parent_op()
    for use in loop.res[place].uses:
        # An enclosing loop may carry the result on, to where it came from.
        if not (
            isinstance(outer, scf.ForOp)
            and isinstance(use.operation, scf.YieldOp)
            and use.operation is outer.body.block.last_op
            and loop.iter_args[place] is outer.body.block.args[1 + use.index]
        ):
            return False
    end = loop.body.block.last_op
    pending: list[SSAValue] = [loop.body.block.args[1 + place]]
    while pending:
        for use in pending.pop().uses:
            if use.operation is end and use.index == place:
                continue
            if use.operation.parent is not loop.body.block or not is_side_effect_free(use.operation):
                return False
            if isinstance(use.operation, scf.YieldOp) or use.operation.regions:
                return False
            pending.extend(use.operation.results)
    return True


def _erase_users(value: SSAValue) -> None:
    """Erase the computations that start at a value."""
    for user in {use.operation for use in value.uses}:
        for result in user.results:
            _erase_users(result)
        _erase(user)


def _erase(op: Operation) -> None:
    if op.parent is not None:
        op.detach()
        op.erase()
