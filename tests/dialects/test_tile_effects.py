"""Passes that clean up leave storage, barriers and time alone (canonicalize, CSE, DCE)."""

from __future__ import annotations

import pytest
from tile_corpus import TEXTS, tile_operations
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.traits import IsTerminator, is_side_effect_free

from tilec.context import make_context
from tilec.dialects import tile
from tilec.passes import PASSES
from tilec.source import parse_text
from tilec.verify import verify

CLEAN_UP = ("canonicalize", "cse", "dce")

PURE = {
    tile.SlotOp, tile.SliceOp, tile.DimOp, tile.ScheduleOp, tile.YieldOp,
    tile.SplatOp, tile.CastOp, tile.BroadcastOp, tile.AddOp, tile.SubOp, tile.MulOp, tile.MaxOp,
}  # fmt: skip
"""What computes a value from values and nothing else."""
_ONCE = (tile.KernelOp, tile.GridOp, tile.RolesOp, tile.RoleOp)


def clean_up(module: ModuleOp) -> None:
    context = make_context()
    for name in CLEAN_UP:
        PASSES[name]()().apply(context, module)
        verify(module)


def lasting(module: ModuleOp) -> list[Operation]:
    return [op for op in tile_operations(module) if type(op) not in PURE]


def test_only_arithmetic_is_free_of_effects() -> None:
    # An allocation may go when nobody uses it, but is never the same storage as another.
    free = {op for op in tile.Tile.operations if op not in PURE and _is_free(op)}
    assert not free
    assert all(_is_free(op) for op in PURE)


def _is_free(op_type: type[Operation]) -> bool:
    return is_side_effect_free(op_type.create())


@pytest.mark.parametrize("name", TEXTS)
def test_two_of_a_kind_stay_two_and_in_order(name: str) -> None:
    module = parse_text(TEXTS[name])
    for op in lasting(module):
        if not op.has_trait(IsTerminator) and not isinstance(op, _ONCE):
            assert op.parent is not None
            op.parent.insert_op_after(op.clone(), op)
    verify(module)
    # The uses of results are with the first of each pair: an allocation that nobody uses is not missed.
    before = [op.name for op in lasting(module) if not isinstance(op, tile.AllocOp)]
    clean_up(module)
    assert [op.name for op in lasting(module) if not isinstance(op, tile.AllocOp)] == before


WAITING = """
tile.kernel @f(%A: !tile.view<MxKxf16>) {
  %zero = arith.constant 0 : index
  %phase = arith.constant 0 : i32
  %a = tile.alloc : !tile.smem<128x64xf16, swizzle = 128>
  %b = tile.alloc : !tile.smem<128x64xf16, swizzle = 128>
  %bar = tile.mbarrier.init count 1 : !tile.mbarrier<1>
  tile.copy_async %A[%zero, %zero] to %a dispatch tma signal %bar
  tile.copy_async %A[%zero, %zero] to %a dispatch tma signal %bar
  tile.mbarrier.try_wait %bar, %phase
  tile.copy_async %A[%zero, %zero] to %a dispatch tma signal %bar
  %x = tile.load %a : !tile.reg<128x64xf16>
  %y = tile.load %a : !tile.reg<128x64xf16>
  tile.store %x to %b
  tile.store %x to %b
}
"""


def test_no_load_is_merged_dropped_or_moved_across_a_wait() -> None:
    module = parse_text(WAITING)
    before = [op.name for op in tile_operations(module)]
    clean_up(module)
    assert [op.name for op in tile_operations(module)] == before


def test_two_allocations_are_not_one() -> None:
    module = parse_text(
        "%r = tile.splat 0.0 : !tile.reg<8xf32>\n"
        "%a = tile.alloc : !tile.smem<8xf32>\n"
        "%b = tile.alloc : !tile.smem<8xf32>\n"
        "tile.store %r to %a\n"
        "tile.store %r to %b\n"
    )
    clean_up(module)
    one, other = (op for op in module.walk() if isinstance(op, tile.StoreOp))
    assert one.dest is not other.dest


def test_arithmetic_is_merged_and_dropped() -> None:
    module = parse_text(
        "tile.kernel @f(%A: !tile.view<Nxf32>) {\n"
        "  %m = tile.dim %A, 0\n"
        "  %n = tile.dim %A, 0\n"
        "  %unused = tile.splat 1.0 : !tile.reg<8xf32>\n"
        "  %r = tile.splat 0.0 : !tile.reg<8xf32>\n"
        "  tile.copy %r to %A[%m]\n"
        "  tile.copy %r to %A[%n]\n"
        "}\n"
    )
    clean_up(module)
    assert [op.name for op in tile_operations(module)] == [
        "tile.kernel", "tile.dim", "tile.splat", "tile.copy", "tile.copy",
    ]  # fmt: skip
