"""Classes of tensors: a program is compiled once for each class of facts of its arguments (see `!tile.view`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import BlockArgument
from xdsl.rewriter import Rewriter

from tilec.backend.protocol.extents import extents_of
from tilec.backend.reference.arguments import is_written
from tilec.backend.runtime.arguments import Argument, Facts, place
from tilec.call_checks import check_facts
from tilec.diagnostics import remark
from tilec.dialects.tile import CopyAsyncOp, KernelOp, ViewType
from tilec.driver import find_kernel
from tilec.signature import Signature, ViewSpec


def is_by_hand(kernel: KernelOp) -> bool:
    """Whether copies name their engine: those rely on the facts that the types declare, and no other class stands in."""
    return any(isinstance(op, CopyAsyncOp) for op in kernel.walk())


def signature_of(module: ModuleOp) -> Signature:
    """What callers see of the module's kernel."""
    kernel = find_kernel(module)
    written = kernel.attributes.get("target")
    views = tuple(
        ViewSpec(a.name_hint or f"number {i}", tuple(v.dims), v.dtype.name, declared(v), is_written(a))
        for i, (a, v) in enumerate(zip(kernel.body.block.args, kernel.views, strict=True))
    )
    target = written.data if isinstance(written, StringAttr) else None
    return Signature(kernel.sym_name.data, target, is_by_hand(kernel), views)


def for_shape(module: ModuleOp, extents: Mapping[str, int]) -> ModuleOp:
    """What a launch compiles for dense arrays of these extents, of no better class than the types declare.

    Raises TilecError where the kernel was written by hand for a better class.
    """
    kernel = find_kernel(module)
    by_hand = is_by_hand(kernel)
    classes: list[Facts] = []
    for i, (argument, view) in enumerate(zip(kernel.body.block.args, kernel.views, strict=True)):
        wanted, name = declared(view), argument.name_hint or f"number {i}"
        dense = _dense(view, extents_of(argument, extents))
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
