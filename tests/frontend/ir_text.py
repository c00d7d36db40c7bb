"""Tile code as text that says nothing of names and of where constants stand, to compare programs."""

from __future__ import annotations

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import ModuleOp, StringAttr

from tilec.dialects.tile import KernelOp


def kernel_of(module: ModuleOp) -> KernelOp:
    (kernel,) = module.body.block.ops
    assert isinstance(kernel, KernelOp)
    return kernel


def canonical(module: ModuleOp) -> str:
    """The text of a module without the names in it, and with its constants in front, each once. Changes the module."""
    kernel = kernel_of(module)
    kernel.sym_name = StringAttr("kernel")
    first: dict[str, ConstantOp] = {}
    for op in [op for op in kernel.walk() if isinstance(op, ConstantOp)]:
        op.detach()
        kept = first.setdefault(str(op.value), op)
        if kept is not op:
            op.result.replace_all_uses_with(kept.result)
    body = kernel.body.block
    in_front = [first[text] for text in sorted(first) if list(first[text].result.uses)]
    if body.first_op is not None:
        body.insert_ops_before(in_front, body.first_op)
    for op in kernel.walk():
        arguments = [argument for region in op.regions for block in region.blocks for argument in block.args]
        for value in (*op.results, *arguments):
            value.name_hint = None
    return str(module)
