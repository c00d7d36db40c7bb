"""Blocks of operations with statements in them, and what happens to names that are set there."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from xdsl.ir import Attribute, Block, SSAValue

from tilec.frontend.lowering import names
from tilec.frontend.lowering.frame import Frame, Site
from tilec.frontend.lowering.scope import Fixed, Lost, Scope
from tilec.frontend.lowering.values import hint

_Result = TypeVar("_Result")


def lower(
    frame: Frame,
    statements: Sequence[ast.stmt],
    types: Sequence[Attribute] = (),
    prepare: Callable[[Scope, Block], None] = lambda scope, block: None,
) -> tuple[Block, Scope]:
    """Lower statements into a new block with arguments of such types, in which `prepare` binds names to them first.

    The scope has the values that names have at the end of the block.
    """
    return lower_into(frame, lambda inner: frame.state.execute(inner, statements), types, prepare)


def lower_into(
    frame: Frame,
    lowering: Callable[[Frame], object],
    types: Sequence[Attribute],
    prepare: Callable[[Scope, Block], None],
) -> tuple[Block, Scope]:
    """As `lower`, of what `lowering` makes in a frame of the block."""
    block = Block(arg_types=types)
    inner = replace(frame, scope=Scope(frame.scope), is_conditional=True)

    def fill() -> None:
        prepare(inner.scope, block)
        lowering(inner)

    inside(frame, block, fill)
    return block, inner.scope


def inside(frame: Frame, block: Block, lowering: Callable[[], _Result]) -> _Result:
    """Let `lowering` add operations at the end of a block."""
    outer = frame.state.at
    frame.state.at = block
    try:
        return lowering()
    finally:
        frame.state.at = outer


def splice(frame: Frame, block: Block) -> None:
    """Move the operations of a block to where the lowering stands."""
    for op in list(block.ops):
        op.detach()
        frame.state.at.add_op(op)


def discard(block: Block) -> None:
    """Throw the operations of a block away: what they used has fewer uses then."""
    for op in reversed(list(block.ops)):
        block.erase_op(op)


def forget(frame: Frame, statements: Sequence[ast.stmt], where: str, keep: Collection[str] = ()) -> None:
    """Behind a block that may not have run: the names that it sets, but those of `keep`, have no value."""
    variables = names.assigned_by(*(s.target for s in statements if isinstance(s, ast.For)))
    for name, node in names.assigned(statements).items():
        if name in variables:
            message = f"{name} is the variable of a loop at run time, and has no value behind it"
            frame.scope.names[name] = Lost(message, node, "set another name in the loop")
        elif name not in keep:
            message = f"{name} is set inside of {where} only, and has no value here"
            frame.scope.names[name] = Lost(message, node, f"set {name} before it, or use it inside")


@dataclass(frozen=True)
class With(Site):
    """A ``with`` over a word of `tile`: its node is the call."""

    statement: ast.With
    lower_inside: Callable[[Frame], object]

    def body(self) -> Block:
        """Lower what is inside, into a block without arguments; names that are set there end there."""
        frame = self.frame
        changed = [
            n
            for n in names.assigned(self.statement.body)
            if frame.scope.value(n) is not None and n in frame.liveness.after[self.statement]
        ]

        def prepare(scope: Scope, _: Block) -> None:
            for name in changed:
                scope.fixed[name] = Fixed(
                    f"{name} is set outside of `with {self.text}`, and read behind it: it cannot be set inside",
                    "give it another name",
                )

        block, _ = lower_into(frame, self.lower_inside, (), prepare)
        forget(frame, self.statement.body, "this `with`", keep=changed)
        return block


def name_value(value: SSAValue, name: str) -> None:
    """Give a value the name that the program has for it, if it has none."""
    if value.name_hint is None:
        hint(value, name)
