"""What a caller must know of a kernel: its views, and the class of tensors that each is declared for.

It is data, so that a kernel that comes from the cache or from a file needs no compiler to check its arguments.
"""

# No postponed annotations: those of a record are read, and making them from text costs more than all else in here.

from typing import NamedTuple

from tilec.backend.runtime.arguments import Facts


class ViewSpec(NamedTuple):
    """One view: a dimension is an extent, a symbol, or None for any; `dtype` is the view's ("f16"); `facts` as declared."""

    name: str
    dims: tuple[int | str | None, ...]
    dtype: str
    facts: Facts
    written: bool

    @property
    def rank(self) -> int:
        return len(self.dims)


class Signature(NamedTuple):
    """`target` is the one that the program names, if it names one.

    `by_hand`: it names its copy engines (or its code is there already), so that it takes no tensors of a lesser class than
    `facts`.
    """

    name: str
    target: str | None
    by_hand: bool
    views: tuple[ViewSpec, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(view.name for view in self.views)
