"""What the annotation of a view is once Python has evaluated it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ViewAnnotation:
    """``tile.View["M", 64]``: `items` have the values of the moment when the function was defined."""

    items: tuple[object, ...]

    def __repr__(self) -> str:
        return f"tile.View[{', '.join(map(repr, self.items))}]"
