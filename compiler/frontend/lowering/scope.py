"""The names of a function while it is lowered, and where each was set."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from tilec.frontend.lowering.values import Value


@dataclass(frozen=True)
class Bound:
    """A name that has a value, and the node that gave it."""

    value: Value
    node: ast.AST


@dataclass(frozen=True)
class Lost:
    """A name without a value here: `message` says why, `node` is where it was set."""

    message: str
    node: ast.AST
    hint: str | None = None


@dataclass(frozen=True)
class Fixed:
    """A name that the block at hand may read but not set: why, and what to do."""

    message: str
    hint: str | None = None


class Scope:
    """The names of one block of statements: those of the blocks around it are visible, and set here they are shadowed."""

    def __init__(self, outer: Scope | None = None) -> None:
        self.outer = outer
        self.names: dict[str, Bound | Lost] = {}
        self.fixed: dict[str, Fixed] = {}

    def find(self, name: str) -> Bound | Lost | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        return None

    def value(self, name: str) -> Bound | None:
        """What is bound to a name, if anything is."""
        found = self.find(name)
        return found if isinstance(found, Bound) else None

    def fixes(self, name: str) -> Fixed | None:
        """Why a name cannot be set here, if it cannot."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.fixed:
                return scope.fixed[name]
            scope = scope.outer
        return None

    def visible(self) -> list[str]:
        """Names that have a value, in the order in which they first got one; the outermost block's first."""
        before = [] if self.outer is None else self.outer.visible()
        names = dict.fromkeys([*before, *self.names])
        return [n for n in names if self.value(n) is not None]
