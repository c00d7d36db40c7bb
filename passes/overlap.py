"""Which views a CTA may write to twice in one place. Stores by TMA complete in any order; those by threads keep the program's.

Two stores keep apart if each loop around them moves both, in one and the same dimension, by at least what they write, and in
one dimension they lie beside each other. Tiles of the grid are apart by the meaning of `tile.grid`: they may be executed in any order.
"""

from __future__ import annotations

from itertools import combinations

from xdsl.dialects import arith
from xdsl.ir import Block, SSAValue

from tilec.dialects.tile import AccType, CopyOp, ForOp, RegType, SmemType
from tilec.passes.builder import constant


def rewritten_views(body: Block) -> set[SSAValue]:
    """The views of which the code of one tile may store to some element twice."""
    stores: dict[SSAValue, list[CopyOp]] = {}
    for op in body.walk():
        if isinstance(op, CopyOp) and not op.is_load:
            stores.setdefault(op.dest, []).append(op)
    return {
        view
        for view, ops in stores.items()
        if any(_repeats(op) for op in ops) or any(_overlap(one, other) for one, other in combinations(ops, 2))
    }


def _repeats(store: CopyOp) -> bool:
    """Whether two iterations of the loops around a store may write to the same place."""
    return any(not _step_dimensions(store, loop) for loop in _loops_around(store))


def _overlap(one: CopyOp, other: CopyOp) -> bool:
    """Whether two stores, neither of which repeats, may write to the same place, in one iteration or in two."""
    loops = _loops_around(one)
    if loops != _loops_around(other):
        return True
    if any(not _step_dimensions(one, loop) & _step_dimensions(other, loop) for loop in loops):
        return True
    for (base, start, size), (other_base, other_start, other_size) in zip(_place(one), _place(other), strict=True):
        if base is other_base and (start + size <= other_start or other_start + other_size <= start):
            return False
    return True


def _loops_around(store: CopyOp) -> list[ForOp]:
    found: list[ForOp] = []
    above = store.parent_op()
    while isinstance(above, ForOp):
        found.append(above)
        above = above.parent_op()
    return found


def _step_dimensions(store: CopyOp, loop: ForOp) -> set[int]:
    """The dimensions in which the store of each iteration lies in that iteration's step."""
    return {
        dimension
        for dimension, (base, start, size) in enumerate(_place(store))
        if base is loop.variable and 0 <= start <= loop.step - size
    }


def _place(store: CopyOp) -> list[tuple[SSAValue | None, int, int]]:
    """For each dimension: a value, a constant offset from it, and the elements that are written."""
    tile = store.source.type
    assert isinstance(tile, SmemType | AccType | RegType)
    return [(*_base_and_offset(index), size) for index, size in zip(store.indices, tile.shape, strict=True)]


def _base_and_offset(index: SSAValue) -> tuple[SSAValue | None, int]:
    offset = 0
    while isinstance(index.owner, arith.AddiOp):
        lhs, rhs = index.owner.lhs, index.owner.rhs
        if (known := constant(rhs)) is None:
            lhs, known = rhs, constant(lhs)
        if known is None:
            break
        index, offset = lhs, offset + known
    known = constant(index)
    return (index, offset) if known is None else (None, offset + known)
