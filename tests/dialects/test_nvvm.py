"""The nvvm dialect: upstream's spelling, verifiers, and effects that keep passes away."""

from __future__ import annotations

import re
from collections.abc import Callable
from io import StringIO

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp, VectorType, i1, i16, i32, i64
from xdsl.dialects.test import Test
from xdsl.dialects.test import TestOp as Values
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import is_side_effect_free
from xdsl.transforms.common_subexpression_elimination import cse
from xdsl.transforms.dead_code_elimination import dce
from xdsl.utils.exceptions import VerifyException

from tilec.dialects import nvvm

TYPES: dict[str, Attribute] = {
    "i1": i1,
    "i16": i16,
    "i32": i32,
    "i64": i64,
    "ptr": nvvm.PTR,
    "smem": nvvm.PTR_SHARED,
    "tmem": nvvm.PTR_TENSOR,
    "cluster": nvvm.PTR_CLUSTER,
}
PRELUDE = "".join(f'%{name} = "test.op"() : () -> {kind}\n' for name, kind in TYPES.items())


def context() -> Context:
    found = Context()
    for dialect in (Builtin, Test, nvvm.LLVM, nvvm.NVVM):
        found.load_dialect(dialect)
    return found


def parse(text: str) -> Operation:
    """The last operation of `text`, in whose scope there is a value of each type."""
    module = Parser(context(), PRELUDE + text).parse_module()
    module.verify()
    last = module.body.block.last_op
    assert last is not None
    return last


def values(*names: str) -> list[SSAValue]:
    return list(Values(result_types=[TYPES[name] for name in names]).results)


def value(name: str) -> SSAValue:
    return values(name)[0]


def test_the_table_of_upstream_spellings_is_complete() -> None:
    assert {op.name for op in nvvm.NVVM.operations} == set(nvvm.UPSTREAM)
    assert all(re.fullmatch(r"[0-9a-f]{40}", row.commit) for row in nvvm.UPSTREAM.values())


@pytest.mark.parametrize("name", nvvm.UPSTREAM)
def test_upstream_spelling_round_trips(name: str) -> None:
    example = nvvm.UPSTREAM[name].example
    op = parse(example)
    assert op.name == name
    assert str(op) == example


@pytest.mark.parametrize("name", nvvm.UPSTREAM)
def test_generic_form_says_the_same(name: str) -> None:
    op = parse(nvvm.UPSTREAM[name].example)
    module = op.parent_op()
    assert isinstance(module, ModuleOp)
    text = StringIO()
    Printer(text, print_generic_format=True).print_op(module)
    again = Parser(context(), text.getvalue()).parse_module()
    assert module.is_structurally_equivalent(again)


@pytest.mark.parametrize("name", nvvm.UPSTREAM)
def test_only_special_registers_can_be_removed_or_merged(name: str) -> None:
    op = parse(nvvm.UPSTREAM[name].example)
    module = op.parent_op()
    assert isinstance(module, ModuleOp)
    module.body.block.add_op(op.clone())
    pure = name.startswith("nvvm.read.ptx.sreg.")
    assert is_side_effect_free(op) == pure
    cse(module)
    dce(module)
    assert [o.name for o in module.body.block.ops].count(name) == (0 if pure else 2)


def test_llvm_ops_that_xdsl_lacks() -> None:
    for text in (
        "%0 = llvm.addrspacecast %smem : !llvm.ptr<3> to !llvm.ptr<7>",
        "%0 = llvm.mlir.poison : !llvm.struct<(f32, f32)>",
    ):
        assert str(parse(text)) == text
    vector = '%v = "test.op"() : () -> vector<4xi32>\n'
    assert str(parse(vector + "%0 = llvm.extractelement %v[%i32 : i32] : vector<4xi32>")).startswith(
        "%0 = llvm.extract"
    )


def test_constructors_make_what_the_text_makes() -> None:
    smem, tmem, word, flag = values("smem", "tmem", "i32", "i1")
    ptr, cluster, half, quad = values("ptr", "cluster", "i16", "i64")
    made = [
        nvvm.ThreadIdXOp(),
        nvvm.BlockIdXOp(),
        nvvm.GridDimXOp(),
        nvvm.LaneIdOp(),
        nvvm.BarrierOp(),
        nvvm.BarrierOp(word, word),
        nvvm.SyncWarpOp(word),
        nvvm.ElectSyncOp(),
        nvvm.MBarrierInitOp(smem, word),
        nvvm.MBarrierInvalOp(smem),
        nvvm.MBarrierArriveOp(smem),
        nvvm.MBarrierArriveExpectTxOp(smem, word),
        nvvm.MBarrierTryWaitParityOp(smem, word, word),
        nvvm.MBarrierTryWaitOp(smem, word),
        nvvm.FenceMbarrierInitOp(),
        nvvm.FenceProxyOp(nvvm.ProxyKind.ASYNC_SHARED, nvvm.SharedSpace.CTA),
        nvvm.CpAsyncBulkTensorGlobalToSharedClusterOp(cluster, ptr, [word, word], smem),
        nvvm.CpAsyncBulkTensorGlobalToSharedClusterOp(
            cluster, ptr, [word], smem, multicast_mask=half, l2_cache_hint=quad, group=nvvm.CTAGroup.CTA_2
        ),
        nvvm.CpAsyncBulkTensorGlobalToSharedClusterOp(smem, ptr, [word], smem, cta_only=True),
        nvvm.CpAsyncBulkTensorSharedCTAToGlobalOp(ptr, smem, [word], l2_cache_hint=quad),
        nvvm.CpAsyncBulkCommitGroupOp(),
        nvvm.CpAsyncBulkWaitGroupOp(1, read=True),
        nvvm.PrefetchOp(ptr, in_param_space=True),
        nvvm.StMatrixOp(smem, [word] * 4, nvvm.MMALayout.COL),
        nvvm.WgmmaFenceAlignedOp(),
        nvvm.WgmmaGroupSyncAlignedOp(),
        nvvm.WgmmaWaitGroupSyncOp(7),
        nvvm.Tcgen05AllocOp(smem, word),
        nvvm.Tcgen05DeallocOp(tmem, word),
        nvvm.Tcgen05RelinquishAllocPermitOp(),
        nvvm.Tcgen05FenceOp(nvvm.Tcgen05Fence.AFTER),
        nvvm.Tcgen05WaitOp(nvvm.Tcgen05Wait.STORE),
        nvvm.Tcgen05CommitOp(smem, multicast_mask=half),
        nvvm.Tcgen05LdOp(tmem, 128),
        nvvm.Tcgen05LdOp(tmem, 1, nvvm.Tcgen05LdStShape.S16X32BX2, offset=quad, pack=True),
        nvvm.Tcgen05MMAOp(tmem, quad, quad, word, flag, nvvm.Tcgen05MMAKind.F16),
        nvvm.Tcgen05MMAOp(
            tmem, tmem, quad, word, flag, nvvm.Tcgen05MMAKind.I8, collector=nvvm.Tcgen05MMACollectorOp.USE
        ),
    ]
    for op in made:
        op.verify()
    assert {op.name for op in made} == set(nvvm.UPSTREAM)


FULL = nvvm.Tcgen05LdStShapeAttr(nvvm.Tcgen05LdStShape.S32X32B)
WRONG: dict[str, tuple[str, Callable[[], Operation]]] = {
    "fence without space": (
        "space is given exactly when kind is async.shared",
        lambda: nvvm.FenceProxyOp(nvvm.ProxyKind.ASYNC_SHARED),
    ),
    "fence with space": (
        "space is given exactly when kind is async.shared",
        lambda: nvvm.FenceProxyOp(nvvm.ProxyKind.ASYNC, nvvm.SharedSpace.CTA),
    ),
    "one-directional proxy": (
        "takes part only in one-directional fences",
        lambda: nvvm.FenceProxyOp(nvvm.ProxyKind.GENERIC),
    ),
    "threads without id": ("number_of_threads needs an id", lambda: nvvm.BarrierOp(None, value("i32"))),
    "destination in shared::cta": (
        "the destination is !llvm.ptr<7> without isCTAOnly, got !llvm.ptr<3>",
        lambda: nvvm.CpAsyncBulkTensorGlobalToSharedClusterOp(
            value("smem"), value("ptr"), values("i32"), value("smem")
        ),
    ),
    "destination in shared::cluster": (
        "the destination is !llvm.ptr<3> with isCTAOnly, got !llvm.ptr<7>",
        lambda: nvvm.CpAsyncBulkTensorGlobalToSharedClusterOp(
            value("cluster"), value("ptr"), values("i32"), value("smem"), cta_only=True
        ),
    ),
    "multicast to one": (
        "isCTAOnly excludes multicast_mask and group",
        lambda: nvvm.CpAsyncBulkTensorGlobalToSharedClusterOp(
            value("smem"), value("ptr"), values("i32"), value("smem"), cta_only=True, multicast_mask=value("i16")
        ),
    ),
    "rank 0": (
        "1 to 5 coordinates, got 0",
        lambda: nvvm.CpAsyncBulkTensorSharedCTAToGlobalOp(value("ptr"), value("smem"), []),
    ),
    "rank 6": (
        "1 to 5 coordinates, got 6",
        lambda: nvvm.CpAsyncBulkTensorSharedCTAToGlobalOp(value("ptr"), value("smem"), values(*["i32"] * 6)),
    ),
    "coordinate i64": (
        "Expected attribute i32 but got i64",
        lambda: nvvm.CpAsyncBulkTensorSharedCTAToGlobalOp(value("ptr"), value("smem"), values("i64")),
    ),
    "negative group": ("group is not negative, got -1", lambda: nvvm.CpAsyncBulkWaitGroupOp(-1)),
    "wgmma group": ("group is 0 to 7, got 8", lambda: nvvm.WgmmaWaitGroupSyncOp(8)),
    "three matrices": ("1, 2 or 4 sources, got 3", lambda: nvvm.StMatrixOp(value("smem"), values(*["i32"] * 3))),
    "generic barrier": ("Expected attribute !llvm.ptr<3> but got", lambda: nvvm.MBarrierArriveOp(value("ptr"))),
    "three registers": ("fills", lambda: nvvm.Tcgen05LdOp(value("tmem"), 3)),
    "x1 of 16x256b": ("fills", lambda: nvvm.Tcgen05LdOp(value("tmem"), 2, nvvm.Tcgen05LdStShape.S16X256B)),
    "missing offset": (
        "offset is given exactly for shape_16x32bx2",
        lambda: nvvm.Tcgen05LdOp(value("tmem"), 2, nvvm.Tcgen05LdStShape.S16X32BX2),
    ),
    "superfluous offset": (
        "offset is given exactly for shape_16x32bx2",
        lambda: nvvm.Tcgen05LdOp(value("tmem"), 2, offset=value("i64")),
    ),
    "vector of i64": (
        "the result is i32 or a vector of i32",
        lambda: nvvm.Tcgen05LdOp.create(
            operands=values("tmem"),
            result_types=[VectorType(i64, [2])],
            properties={"shape": FULL},
        ),
    ),
    "same space": (
        "the address spaces are equal",
        lambda: nvvm.AddrSpaceCastOp(value("smem"), nvvm.PTR_SHARED),
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_verifiers(case: str) -> None:
    message, make = WRONG[case]
    with pytest.raises(VerifyException, match=re.escape(message)):
        make().verify()
