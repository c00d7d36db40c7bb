"""What a kernel demands of the tensors of a call, before anything is compiled or launched for them."""

from __future__ import annotations

from collections.abc import Sequence

from tilec.backend.runtime.arguments import (
    Argument,
    Facts,
    Placement,
    check_dtype,
    check_overlap,
    check_rank,
    check_symbols,
    check_written,
    place,
)
from tilec.diagnostics import TilecError
from tilec.signature import Signature


def check_shapes(signature: Signature, arguments: Sequence[Argument]) -> None:
    """Ranks, element types and extents are those of the views."""
    for view, argument in zip(signature.views, arguments, strict=True):
        check_rank(view.name, argument, view.rank)
        check_dtype(view.name, argument, view.dtype)
    check_symbols(signature.names, [view.dims for view in signature.views], arguments)


def check_memory(signature: Signature, arguments: Sequence[Argument]) -> None:
    """Outputs can be written, and no output shares memory with another tensor."""
    outputs = [i for i, view in enumerate(signature.views) if view.written]
    for view in outputs:
        check_written(signature.names[view], arguments[view])
    check_overlap(signature.names, arguments, outputs)


def check_count(signature: Signature, kind: str, count: int) -> None:
    """There is one tensor for each view; `kind` is what the caller calls them."""
    if count != len(signature.views):
        raise TilecError(
            f"kernel {signature.name} takes {len(signature.views)} {kind} ({', '.join(signature.names)}), not {count}"
        )


def placements_of(signature: Signature, arguments: Sequence[Argument]) -> tuple[Placement, ...]:
    """How the tensors lie, and of which class they are. Raises TilecError for a class that the kernel is not for."""
    if not signature.by_hand:
        return tuple(place(n, a) for n, a in zip(signature.names, arguments, strict=True))
    placements: list[Placement] = []
    for view, argument in zip(signature.views, arguments, strict=True):
        placement = place(view.name, argument, view.facts.order)
        check_facts(view.name, view.facts, placement, argument)
        placements.append(Placement(view.facts, placement.pitches))
    return tuple(placements)


def one_device(signature: Signature, arguments: Sequence[Argument]) -> int:
    """The one device of all tensors; device 0 where none says where it is."""
    placed = [(n, a.device) for n, a in zip(signature.names, arguments, strict=True) if a.device is not None]
    if not placed:
        return 0
    first, device = placed[0]
    for name, other in placed:
        if other != device:
            raise TilecError(
                f"arguments {first} and {name} are on different devices: {device} and {other}",
                hint="move them to one device",
            )
    return device


def check_facts(name: str, wanted: Facts, placement: Placement, argument: Argument) -> None:
    """A kernel that names its copy engines takes tensors at least as good as its types declare."""
    facts = placement.facts
    if facts.order != wanted.order:
        raise TilecError(
            f"argument {name}: dimension {facts.order[0]} is contiguous, but the kernel was written for views whose "
            f"dimension {wanted.order[0]} is (order = {list(wanted.order)})",
            hint="pass the tensor in the other layout, or write the view's type for this one",
        )
    if facts.align < wanted.align:
        slow = [d for d in wanted.order[1:] if placement.pitches[d] % wanted.align]
        what = (
            f"the pitch of dimension {slow[0]} is {placement.pitches[slow[0]]} bytes"
            if slow
            else f"it starts at 0x{argument.address:x}, {argument.address % wanted.align} bytes past such an address"
        )
        raise TilecError(
            f"argument {name}: base address and pitches must be multiples of {wanted.align} bytes "
            f"(align = {wanted.align}), but {what}",
            hint=f"pad the rows to multiples of {wanted.align} bytes, or write the kernel without explicit TMA copies",
        )
    if wanted.tail == "grid" and facts.tail != "grid":
        inner = wanted.order[0]
        raise TilecError(
            f"argument {name}: dimension {inner} has {argument.shape[inner] * argument.element_bytes} bytes, but the kernel "
            f"was written for rows of a multiple of 16 bytes (tail = grid)",
            hint="write the view's type with tail = free, or pad the rows",
        )
