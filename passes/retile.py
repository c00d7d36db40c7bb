"""`retile`: the same synchronous kernel with other tile sizes, so that a schedule is wholly a list of passes.

What a kernel says about sizes is the steps of its grid and loops. Every extent of a tile that a copy reads or writes belongs
to the index variable of that dimension, and operations relate the extents of different tiles (an MMA's M, N and K; equal
shapes of element-wise operations). Extents that belong together form a class; the class gets the new step of its variable.
Legal because tiles that cover the grid and the loops with other steps compute the same elements; the sum over K runs in the
same order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from tilec.backend.target import Target
from tilec.diagnostics import fail
from tilec.dialects.tile import (
    AccType,
    AllocOp,
    BroadcastOp,
    CopyOp,
    ForOp,
    GridOp,
    KernelOp,
    MmaOp,
    RegType,
    SmemType,
)
from tilec.dialects.tile.assembly import ints
from tilec.dialects.tile.types import MAX_TILE_EXTENT
from tilec.passes.storage import target_of
from tilec.passes.synchronous import body_of

Tile = SmemType | AccType | RegType
Extent = tuple[SSAValue, int]
"""One dimension of one tile."""


@dataclass(frozen=True)
class Retile(ModulePass):
    """Give a synchronous kernel other tile sizes: grid steps (m, n) and loop steps k."""

    name: ClassVar[str] = "retile"

    m: int
    n: int
    k: int

    def __post_init__(self) -> None:
        for name, size in (("m", self.m), ("n", self.n), ("k", self.k)):
            if not 1 <= size <= MAX_TILE_EXTENT:
                raise ValueError(
                    f"retile({name} = {size}): a tile has 1 to {MAX_TILE_EXTENT} elements in each dimension."
                )

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in op.walk():
            if isinstance(kernel, KernelOp):
                body = body_of(kernel)
                steps = _set_steps(kernel, body, self)
                _retype(body, _Extents(body, steps).sizes())
                _check(body, target_of(kernel))


def _set_steps(kernel: KernelOp, body: Block, sizes: Retile) -> dict[SSAValue, tuple[int, int]]:
    """Change the steps of grid and loops; (old, new) step by index variable."""
    grid = body.parent_op()
    if not isinstance(grid, GridOp) or len(grid.step) != 2:
        fail(kernel, "retile needs a grid over the rows and columns of a view", hint="write tile.grid (%m, %n) over %D")
    new = (sizes.m, sizes.n)
    steps: dict[SSAValue, tuple[int, int]] = dict(
        zip(grid.body.block.args, zip(grid.step, new, strict=True), strict=True)
    )
    grid.steps = ints(new)
    for op in body.walk():
        if isinstance(op, ForOp):
            steps[op.variable] = (op.step, sizes.k)
            op.step_attr = IntegerAttr(sizes.k, i64)
    return steps


class _Extents:
    """Classes of extents that are equal (union-find), and what is known about each."""

    def __init__(self, body: Block, steps: dict[SSAValue, tuple[int, int]]):
        self._parents: dict[Extent, Extent] = {}
        self._new: dict[Extent, tuple[int, Operation]] = {}
        self._steps = steps
        self._body = body

    def sizes(self) -> dict[SSAValue, tuple[int, ...]]:
        """The new shape of every tile."""
        for op in self._body.walk():
            for one, other in _equal_extents(op):
                self._unite(one, other)
        for op in self._body.walk():
            if isinstance(op, CopyOp):
                tile = op.dest if op.is_load else op.source
                for dimension, index in enumerate(op.indices):
                    self._bind((tile, dimension), index, op)
        values = {value for op in self._body.walk() for value in (*op.operands, *op.results)}
        values |= {argument for op in self._body.walk() for r in op.regions for b in r.blocks for argument in b.args}
        return {
            value: tuple(self._size((value, d), old) for d, old in enumerate(value.type.shape))
            for value in values
            if isinstance(value.type, Tile)
        }

    def _find(self, extent: Extent) -> Extent:
        while (parent := self._parents.get(extent)) is not None:
            extent = parent
        return extent

    def _unite(self, one: Extent, other: Extent) -> None:
        one, other = self._find(one), self._find(other)
        if one != other:
            self._parents[other] = one

    def _bind(self, extent: Extent, index: SSAValue, op: CopyOp) -> None:
        """A copy says that this extent is the step of its index."""
        if index not in self._steps:
            if isinstance(index.owner, arith.ConstantOp):
                return
            fail(
                op,
                "a tile's place is computed, so that its new size is not known",
                hint="index by grid and loop variables",
            )
        old, new = self._steps[index]
        tile, dimension = extent
        assert isinstance(tile.type, Tile)
        if tile.type.shape[dimension] != old:
            fail(
                op,
                f"this tile takes {tile.type.shape[dimension]} of the {old} elements of a step in dimension {dimension}, so "
                "that its new size is not known",
                hint="give tiles the size of the steps before retile",
            )
        root = self._find(extent)
        known = self._new.setdefault(root, (new, op))
        if known[0] != new:
            fail(
                op,
                f"an extent that is {old} everywhere in the kernel would become {known[0]} in one place and {new} here",
                hint="choose equal sizes",
            )

    def _size(self, extent: Extent, old: int) -> int:
        known = self._new.get(self._find(extent))
        return old if known is None else known[0]


def _equal_extents(op: Operation) -> Iterator[tuple[Extent, Extent]]:
    """Extents that an operation requires to be equal."""
    match op:
        case MmaOp():
            yield (op.acc, 0), (op.a, 0)
            yield (op.acc, 1), (op.b, 0)
            yield (op.a, 1), (op.b, 1)
        case BroadcastOp():
            yield (op.value, 0), (op.res, 1)
        case ForOp():
            yields = op.body.block.last_op
            assert yields is not None
            rounds = zip(op.inits, op.body.block.args[1:], yields.operands, op.res, strict=True)
            for init, argument, yielded, result in rounds:
                for value in (argument, yielded, result):
                    yield from _equal_shapes(init, value)
        case AllocOp() | CopyOp():
            pass
        case _:  # element-wise operations, loads and stores
            tiles = [value for value in (*op.operands, *op.results) if isinstance(value.type, Tile)]
            for value in tiles[1:]:
                yield from _equal_shapes(tiles[0], value)


def _equal_shapes(one: SSAValue, other: SSAValue) -> Iterator[tuple[Extent, Extent]]:
    if isinstance(one.type, Tile):
        for dimension in range(len(one.type.shape)):
            yield (one, dimension), (other, dimension)


def _retype(body: Block, shapes: dict[SSAValue, tuple[int, ...]]) -> None:
    for value, shape in shapes.items():
        type = value.type
        match type:
            case SmemType():
                new = SmemType.of(shape, type.element, order=type.order, swizzle=type.swizzle)
            case AccType():
                new = AccType.of(shape, type.element)
            case RegType():
                new = RegType.of(shape, type.element)
            case _:
                raise AssertionError(type)
        if new != type:
            Rewriter.replace_value_with_new_type(value, new)


def _check(body: Block, target: Target) -> None:
    """Refuse sizes that no MMA takes, or that shared memory cannot hold."""
    total = 0
    for op in body.walk():
        match op:
            case MmaOp():
                assert isinstance(op.acc.type, AccType) and isinstance(op.a.type, SmemType)
                rows, columns = op.acc.type.shape
                problem = target.mma_problem(rows, columns)
                if problem is not None:
                    fail(op, f"no MMA computes a {rows}x{columns} accumulator: {problem}", hint="retile(m, n, k)")
                depth, unit = op.a.type.shape[1], op.a.type.dtype.mma_k
                if depth % unit:
                    fail(op, f"K = {depth} is no multiple of {unit}, the K of one {op.a.type.dtype.name} instruction")
            case AllocOp():
                if isinstance(tile := op.res.type, SmemType):
                    total += tile.shape[0] * (tile.shape[1] if len(tile.shape) == 2 else 1) * tile.dtype.bytes
                    if total > target.smem_per_cta:
                        fail(
                            op,
                            f"the shared tiles need {total} bytes up to here, a CTA of {target.name} has "
                            f"{target.smem_per_cta}",
                            hint="choose smaller sizes: retile(m, n, k)",
                        )
            case _:
                pass
