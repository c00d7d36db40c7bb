"""What a kernel function makes and returns."""

# No postponed annotations: those of a record are read, and making them from text costs more than all else in here.

from collections.abc import Sequence
from typing import Any, NamedTuple


class Output(NamedTuple):
    """A view that the kernel makes: its name, extents as in its type, and dtype."""

    name: str
    dims: tuple[int | str | None, ...]
    dtype: str


class Returns(NamedTuple):
    """`outputs` stand behind the inputs among the kernel's views. `returned` are indices into them."""

    outputs: tuple[Output, ...]
    returned: tuple[int, ...]
    as_tuple: bool

    @property
    def is_what_is_given(self) -> bool:
        """Whether a call returns just what it was given as ``out=``: a tensor, or a tuple of several, in order."""
        everything = tuple(range(len(self.outputs)))
        return self.returned == everything and self.as_tuple == (len(everything) > 1)

    def value(self, outputs: Sequence[Any]) -> Any:
        """What the call returns: None where the function returns nothing."""
        chosen = tuple(outputs[i] for i in self.returned)
        if self.as_tuple:
            return chosen
        return chosen[0] if chosen else None
