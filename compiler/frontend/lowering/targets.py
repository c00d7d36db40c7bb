"""Targets of assignments and loops: names, and tuples of them."""

from __future__ import annotations

import ast

from tilec.frontend.lowering.blocks import name_value
from tilec.frontend.lowering.frame import Frame
from tilec.frontend.lowering.refusals import refuse
from tilec.frontend.lowering.scope import Bound
from tilec.frontend.lowering.values import RunTime, Several, Value, kind


def bind(frame: Frame, target: ast.expr, value: Value) -> None:
    """Set the names of a target: of an assignment or of a loop that is written out."""
    site = frame.site(target)
    if isinstance(value, Several) and not isinstance(target, ast.Name):
        value = value.items
    match target:
        case ast.Name():
            check_free(frame, target)
            if isinstance(value, RunTime):
                name_value(value.value, target.id)
            frame.scope.names[target.id] = Bound(value, target)
        case ast.Tuple() | ast.List():
            if not isinstance(value, tuple):
                site.fail(f"{kind(value)} cannot be unpacked")
            starred = next((e for e in target.elts if isinstance(e, ast.Starred)), None)
            if starred is not None:
                refuse(frame.site(starred))
            if len(value) != len(target.elts):
                site.fail(f"{len(target.elts)} names for {len(value)} values")
            for element, one in zip(target.elts, value, strict=True):
                bind(frame, element, one)
        case ast.Subscript():
            site.fail(f"`{site.text}` cannot be assigned to", "tiles change by tile.copy and tile.store")
        case _:
            site.fail(f"`{site.text}` cannot be assigned to", "a kernel sets its own names only")


def check_free(frame: Frame, target: ast.Name) -> None:
    """Refuse to set a name that the block at hand cannot set."""
    fixed = frame.scope.fixes(target.id)
    if fixed is not None:
        frame.site(target).fail(fixed.message, fixed.hint)
