"""How a tensor lies in memory: the facts that pick the variant of a kernel."""

# No postponed annotations: those of a record are read, and making them from text costs more than all else in here.

from collections.abc import Sequence
from typing import NamedTuple

from tilec.backend.runtime.arguments.argument import Argument, check_dtype, check_rank
from tilec.diagnostics import TilecError

MAX_EXTENT = 1 << 31
"""TMA coordinates are signed 32-bit numbers."""
ALIGNMENTS = (16, 8, 4, 2)


class Facts(NamedTuple):
    """The class of tensors that a variant is compiled for; the facts of `!tile.view`.

    `order`: dimensions, fastest first; `align`: bytes that divide base address and every pitch; `tail`: "grid" when the
    innermost extent is a multiple of 16 bytes, else "free".
    """

    order: tuple[int, ...]
    align: int
    tail: str


class Placement(NamedTuple):
    """How a tensor lies in memory: its facts, and the distance in bytes between neighbours along each dimension."""

    facts: Facts
    pitches: tuple[int, ...]


def place(name: str, argument: Argument, preferred: tuple[int, ...] | None = None) -> Placement:
    """The facts of a tensor of rank 1 or 2, on a GPU or in host memory.

    Where more than one order describes it (an extent of 1), `preferred` is chosen if it is one of them, else row-major.
    An empty tensor has the best facts: nothing of it is ever addressed. A pitch of 0 repeats one row, as a broadcast view
    does; TMA reads such views. Raises TilecError for a tensor that no view describes: elements that no view has, no dimension
    with stride 1, a negative stride, an extent of 2^31 or more.
    """
    check_dtype(name, argument)
    check_rank(name, argument, min(max(len(argument.shape), 1), 2))
    shape, strides, size = argument.shape, argument.strides, argument.element_bytes
    for dim, (extent, stride) in enumerate(zip(shape, strides, strict=True)):
        if extent >= MAX_EXTENT:
            raise TilecError(
                f"argument {name}: dimension {dim} has {extent} elements; extents must be below 2^31",
                hint="split the tensor: a tile's coordinates are 32-bit numbers",
            )
        if extent > 1 and stride < 0:
            raise TilecError(
                f"argument {name}: dimension {dim} has a negative stride of {stride} bytes",
                hint="a view runs forward through memory: pass a copy, or the tensor before it was reversed",
            )
    row_major = tuple(reversed(range(len(shape))))
    orders = [row_major] if len(shape) == 1 else [row_major, row_major[::-1]]
    if preferred is not None:
        orders.insert(0, preferred)
    if 0 in shape:
        return Placement(Facts(orders[0], 16, "grid"), _canonical_pitches(shape, size, orders[0]))
    fitting = next((o for o in orders if shape[o[0]] == 1 or strides[o[0]] == size), None)
    if fitting is None:
        elements = ", ".join(f"{s / size:g}" for s in strides)
        raise TilecError(
            f"argument {name}: no dimension is contiguous (strides {elements} elements): one needs stride 1",
            hint="pass a contiguous copy, such as tensor.contiguous()",
        )
    # A pitch that is never stepped over is free to be what TMA likes best.
    canonical = _canonical_pitches(shape, size, fitting)
    pitches = tuple(canonical[d] if d == fitting[0] or shape[d] == 1 else strides[d] for d in range(len(shape)))
    steps = [argument.address, *(pitches[d] for d in fitting[1:])]
    align = next((a for a in ALIGNMENTS if all(s % a == 0 for s in steps)), 1)
    if align < size:
        raise TilecError(
            f"argument {name}: address 0x{argument.address:x} or pitch {pitches} bytes is no multiple of the "
            f"{size} bytes of one {argument.dtype}"
        )
    on_grid = align == ALIGNMENTS[0] and shape[fitting[0]] * size % ALIGNMENTS[0] == 0
    return Placement(Facts(fitting, align, "grid" if on_grid else "free"), pitches)


def _canonical_pitches(shape: Sequence[int], size: int, order: Sequence[int]) -> tuple[int, ...]:
    """Pitches in bytes of an array whose rows are padded to 16 bytes."""
    row_bytes = -(-max(shape[order[0]], 1) * size // 16) * 16
    return tuple(size if d == order[0] else row_bytes for d in range(len(shape)))


def check_symbols(
    names: Sequence[str], dims: Sequence[Sequence[int | str | None]], arguments: Sequence[Argument]
) -> None:
    """Check that each extent is what the view's type says, and that equal symbols are equal extents."""
    seen: dict[str, tuple[str, int, int]] = {}
    for name, wanted, argument in zip(names, dims, arguments, strict=True):
        for dim, (want, extent) in enumerate(zip(wanted, argument.shape, strict=True)):
            if isinstance(want, int) and extent != want:
                raise TilecError(f"argument {name}: dimension {dim} has {extent} elements; the kernel is for {want}")
            if not isinstance(want, str):
                continue
            first, first_dim, first_extent = seen.setdefault(want, (name, dim, extent))
            if extent != first_extent and first == name:
                raise TilecError(
                    f"argument {name} is not square in {want}: dimension {first_dim} has {first_extent} elements, dimension "
                    f"{dim} has {extent}"
                )
            if extent != first_extent:
                raise TilecError(
                    f"arguments {first} and {name} disagree about {want}: dimension {first_dim} of {first} has "
                    f"{first_extent} elements, dimension {dim} of {name} has {extent}"
                )
