"""Classes of tensors: a program is compiled once for each class of facts of its arguments (see `!tile.view`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument
from xdsl.rewriter import Rewriter

from tilec.backend.protocol.extents import dims_of
from tilec.backend.runtime.arguments import Argument, Facts, Placement, place
from tilec.diagnostics import TilecError, remark
from tilec.dialects.tile import CopyAsyncOp, KernelOp, ViewType
from tilec.driver import find_kernel


def is_by_hand(kernel: KernelOp) -> bool:
    """Whether copies name their engine: those rely on the facts that the types declare, and no other class stands in."""
    return any(isinstance(op, CopyAsyncOp) for op in kernel.walk())


def for_shape(module: ModuleOp, extents: Mapping[str, int]) -> ModuleOp:
    """What a launch compiles for dense arrays of these extents, of no better class than the types declare.

    Raises TilecError where the kernel was written by hand for a better class.
    """
    kernel = find_kernel(module)
    by_hand = is_by_hand(kernel)
    classes: list[Facts] = []
    for i, (argument, view) in enumerate(zip(kernel.body.block.args, kernel.views, strict=True)):
        wanted, name = declared(view), argument.name_hint or f"number {i}"
        dense = _dense(view, [extents[dim] if isinstance(dim, str) else dim for dim in dims_of(argument)])
        placement = place(name, dense, wanted.order)
        if by_hand:
            check_facts(name, wanted, placement, dense)
        found = placement.facts
        tail = "grid" if wanted.tail == found.tail == "grid" else "free"
        classes.append(Facts(wanted.order, min(wanted.align, found.align), tail))
        if classes[-1] != wanted:
            facts = f"align = {classes[-1].align}, tail = {tail}"
            remark(argument, f"with this shape {name} is `{facts}`: this is the variant that a launch takes")
    return module if by_hand else specialised(module, classes)


def _dense(view: ViewType, shape: Sequence[int]) -> Argument:
    strides, step = [0] * view.rank, view.dtype.bytes
    for dim in view.order:
        strides[dim] = step
        step *= shape[dim]
    return Argument(0, tuple(shape), tuple(strides), view.dtype.name, None)


def declared(view: ViewType) -> Facts:
    """The class that a type names."""
    return Facts(view.order, view.align, view.tail)


def specialised(module: ModuleOp, facts: Sequence[Facts]) -> ModuleOp:
    """A copy of `module` whose kernel is for arguments of these classes."""
    module = module.clone()
    block = find_kernel(module).body.block
    for argument, fact in zip(tuple(block.args), facts, strict=True):
        assert isinstance(argument.type, ViewType)
        wanted = argument.type.with_facts(order=fact.order, align=fact.align, tail=fact.tail)
        fresh = Rewriter.replace_value_with_new_type(argument, wanted)
        assert isinstance(fresh, BlockArgument)
        fresh.location = argument.location
    return module


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
