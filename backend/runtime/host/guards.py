"""What a remembered launch stands on: variables that still are the very objects that they were."""

from __future__ import annotations

from types import CellType, FunctionType
from typing import Any, Final, TypeAlias

ABSENT: Final = object()
"""In place of an object: the namespace has no such name."""

GlobalGuard: TypeAlias = tuple[dict[str, Any], str, object]
"""A namespace, a name in it, and the object that it had, or ABSENT."""
CellGuard: TypeAlias = tuple[CellType, None, object]
"""A variable of a closure, and the object that it had."""
AttributeGuard: TypeAlias = tuple[FunctionType, str, object]
"""An attribute of a function, such as its code, and the object that it had."""
Guard: TypeAlias = GlobalGuard | CellGuard | AttributeGuard
