"""Which names statements set, and which are read later: what decides what a loop carries and what a branch gives."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

_Names = frozenset[str]


def assigned(statements: Iterable[ast.stmt]) -> dict[str, ast.Name]:
    """The names that statements set, in order, each with the place where it is first set."""
    found: dict[str, ast.Name] = {}
    for statement in statements:
        for node in _in_order(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.setdefault(node.id, node)
    return found


def _in_order(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _in_order(child)


def _used(*nodes: ast.AST | None) -> _Names:
    return frozenset(
        n.id
        for node in nodes
        if node is not None
        for n in ast.walk(node)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
    )


def assigned_by(*nodes: ast.AST) -> _Names:
    """The names that nodes set."""
    return frozenset(
        n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    )


@dataclass
class Liveness:
    """For each statement, the names whose values are read after it; for each loop, those that its next turn reads.

    `own` are the names that the function sets: they are never those of the same name around it.
    """

    own: _Names = frozenset()
    after: dict[ast.stmt, _Names] = field(default_factory=dict[ast.stmt, _Names])
    next_turn: dict[ast.stmt, _Names] = field(default_factory=dict[ast.stmt, _Names])

    @staticmethod
    def of(function: ast.FunctionDef) -> Liveness:
        liveness = Liveness(frozenset(assigned(function.body)))
        liveness._before(function.body, frozenset())
        return liveness

    def _before(self, statements: Sequence[ast.stmt], after: _Names) -> _Names:
        for statement in reversed(statements):
            self.after[statement] = after
            after = self._before_one(statement, after)
        return after

    def _before_one(self, statement: ast.stmt, after: _Names) -> _Names:
        match statement:
            case ast.For():
                targets = assigned_by(statement.target)
                return self._loop(statement, _used(statement.iter), frozenset(), targets, after)
            case ast.While():
                return self._loop(statement, frozenset(), _used(statement.test), frozenset(), after)
            case ast.If():
                branches = self._before(statement.body, after) | self._before(statement.orelse, after)
                return branches | _used(statement.test)
            case ast.With():
                items = _used(*statement.items)
                return (self._before(statement.body, after) - assigned_by(*statement.items)) | items
            case ast.AugAssign():
                return after | _used(statement.value) | assigned_by(statement.target)
            case ast.Return():
                return _used(statement)
            case _:
                return (after - assigned_by(statement)) | _used(statement)

    def _loop(self, loop: ast.For | ast.While, once: _Names, each: _Names, targets: _Names, after: _Names) -> _Names:
        """`once` and `each` are read before the loop and before each turn; it may have no turn at all."""
        turn = after | each
        while True:
            before = (self._before(loop.body, turn) - targets) | each
            if before <= turn:
                break
            turn |= before
        self.next_turn[loop] = before
        return turn | once
