"""From the syntax tree of a kernel function to a module of tile code, every operation with the position of its Python line.

`statements.py` and `expressions.py` are the language; what kernels can say in it stands in `vocabulary.py`, which the files
of `words/` fill.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region

from tilec.diagnostics import TilecError
from tilec.dialects.tile import CopyAsyncOp, CopyOp, DimOp, KernelOp, ViewType
from tilec.frontend.function import Function
from tilec.frontend.lowering import words as _words  # noqa: F401  # pyright: ignore[reportUnusedImport]
from tilec.frontend.lowering.expressions import evaluate
from tilec.frontend.lowering.frame import Frame, Returned, State
from tilec.frontend.lowering.level import check_level
from tilec.frontend.lowering.names import Liveness
from tilec.frontend.lowering.scope import Scope
from tilec.frontend.lowering.signature import bind_parameters
from tilec.frontend.lowering.statements import execute
from tilec.frontend.lowering.values import View
from tilec.frontend.reads import Read
from tilec.frontend.returns import Output, Returns
from tilec.verify import verify


@dataclass(frozen=True)
class Lowered:
    """A module with one kernel, whose arguments are the inputs and then the outputs of `returns`.

    `reads`: what it took from around the function; as long as all of them still hold, lowering it again gives the same.
    """

    module: ModuleOp
    returns: Returns
    reads: tuple[Read, ...]


def lower(function: Function, dtypes: Sequence[str], constants: Mapping[str, object]) -> Lowered:
    """The module of a kernel function for views of `dtypes`, in order, and these values of its constants.

    Raises TilecError at the Python line that is wrong.
    """
    try:
        return _lower(function, dtypes, constants)
    except RecursionError as error:
        raise TilecError("nested too deeply", function.location(function.tree)) from error


def _lower(function: Function, dtypes: Sequence[str], constants: Mapping[str, object]) -> Lowered:
    function.check_text()
    tree = function.tree
    body = Block()
    frame = Frame(State(evaluate, execute, body, body), function, Scope(), Liveness.of(tree))
    bind_parameters(frame, dtypes, constants)
    returned = execute(frame, tree.body)
    site = frame.site(tree)
    kernel = site.guard(lambda: KernelOp(tree.name, Region(body)))
    kernel.location = site.loc
    module = ModuleOp([kernel])
    module.location = kernel.location
    indices, is_tuple = _returned(frame, returned, kernel)
    check_level(kernel)
    _drop_unused(kernel)
    verify(module)
    return Lowered(module, Returns(_outputs(frame), indices, is_tuple), tuple(frame.state.reads))


def _returned(frame: Frame, returned: Returned | None, kernel: KernelOp) -> tuple[tuple[int, ...], bool]:
    """Which outputs the function returns, and whether as a tuple."""
    outputs = frame.state.outputs
    last = frame.function.tree.body[-1] if returned is None else returned.node
    if returned is None or returned.node.value is None:
        if outputs:
            frame.site(last).fail(
                "a kernel function ends by returning its outputs", f"end it with `return {outputs[0].name_hint or 'D'}`"
            )
        if not any(_writes(op) for op in kernel.walk()):
            frame.site(last).fail(
                "this kernel has no output", "make one: D = tile.empty(...), or copy into a parameter"
            )
        return (), False
    value, node = returned.value, returned.node.value
    values = value if isinstance(value, tuple) else (value,)
    nodes = node.elts if isinstance(node, ast.Tuple) and len(node.elts) == len(values) else [node] * len(values)
    indices: list[int] = []
    for one, at in zip(values, nodes, strict=True):
        if not isinstance(one, View) or one.value not in outputs:
            frame.site(at).fail("a kernel returns its outputs, made with tile.empty")
        indices.append(outputs.index(one.value))
    return tuple(indices), isinstance(value, tuple)


def _drop_unused(kernel: KernelOp) -> None:
    """Extents of views that nothing reads: `A.shape` reads all of them."""
    for op in list(kernel.walk()):
        if isinstance(op, DimOp) and op.res.first_use is None:
            op.detach()
            op.erase()


def _writes(op: object) -> bool:
    return isinstance(op, CopyOp | CopyAsyncOp) and op.dest is not None and isinstance(op.dest.type, ViewType)


def _outputs(frame: Frame) -> tuple[Output, ...]:
    """The outputs, each with a name of its own."""
    taken = {v.name_hint for v in frame.state.body.args if v not in frame.state.outputs}
    found: list[Output] = []
    for value in frame.state.outputs:
        view, name = View(value), value.name_hint or "out"
        unique = next(n for n in chain((name,), (f"{name}{i}" for i in count(2))) if n not in taken)
        value.name_hint = unique
        taken.add(unique)
        found.append(Output(unique, view.type.dims, view.type.dtype.name))
    return tuple(found)
