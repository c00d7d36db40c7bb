"""The part of upstream MLIR's ``nvvm`` dialect that tilec lowers to, plus three ``llvm`` ops that xDSL does not have.

Names, operands, attributes and assembly are upstream's (`UPSTREAM` says from which revision), so that a dump of L2 can
be read with the MLIR documentation at hand. Nothing is invented: what upstream cannot say is written by the lowering as
``llvm.call_intrinsic`` or ``llvm.inline_asm``.

Every op except the special registers reads and writes memory as far as MLIR passes are concerned: barriers, fences,
collective and asynchronous instructions must be neither removed, merged nor moved. Section numbers in the docstrings are
those of PTX ISA 9.1.

Address spaces of ``!llvm.ptr<N>``: none generic, 1 global, 3 shared::cta, 6 tensor memory, 7 shared::cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import ClassVar, TypeVar, cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import I32, I64, BoolAttr, IntAttr, IntegerAttr, UnitAttr, VectorType, i1, i16, i32, i64
from xdsl.ir import Attribute, Data, Dialect, Operation, ParametrizedAttribute, SSAValue
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    eq,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    param_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import EffectInstance, MemoryEffect, MemoryEffectKind, NoMemoryEffect, Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

PTR = llvm.LLVMPointerType()
"""Generic pointer."""
PTR_GLOBAL = llvm.LLVMPointerType(IntAttr(1))
PTR_SHARED = llvm.LLVMPointerType(IntAttr(3))
PTR_TENSOR = llvm.LLVMPointerType(IntAttr(6))
"""Tensor memory: ``lane << 16 | column``."""
PTR_CLUSTER = llvm.LLVMPointerType(IntAttr(7))

_UNIVERSE: frozenset[EffectInstance] = frozenset(
    {EffectInstance(MemoryEffectKind.READ), EffectInstance(MemoryEffectKind.WRITE)}
)


class SynchronisesEffect(MemoryEffect):
    """Reads and writes everything: no pass may remove, merge or reorder the op."""

    @classmethod
    def get_effects(cls, op: Operation) -> AbstractSet[EffectInstance]:
        return _UNIVERSE


_FIXED = traits_def(SynchronisesEffect())


class ProxyKind(StrEnum):
    ALIAS = "alias"
    ASYNC = "async"
    ASYNC_GLOBAL = "async.global"
    ASYNC_SHARED = "async.shared"
    TENSORMAP = "tensormap"
    GENERIC = "generic"


class SharedSpace(StrEnum):
    CTA = "cta"
    CLUSTER = "cluster"


class CTAGroup(StrEnum):
    CTA_1 = "cta_1"
    CTA_2 = "cta_2"


class Tcgen05Fence(StrEnum):
    BEFORE = "before"
    AFTER = "after"


class Tcgen05Wait(StrEnum):
    LOAD = "load"
    STORE = "store"


class Tcgen05LdStShape(StrEnum):
    S16X64B = "shape_16x64b"
    S16X128B = "shape_16x128b"
    S16X256B = "shape_16x256b"
    S32X32B = "shape_32x32b"
    S16X32BX2 = "shape_16x32bx2"


class Tcgen05MMAKind(StrEnum):
    F16 = "f16"
    TF32 = "tf32"
    F8F6F4 = "f8f6f4"
    I8 = "i8"


class Tcgen05MMACollectorOp(StrEnum):
    DISCARD = "discard"
    LASTUSE = "lastuse"
    FILL = "fill"
    USE = "use"


class MMALayout(StrEnum):
    ROW = "row"
    COL = "col"


class LdStMatrixEltType(StrEnum):
    B16 = "b16"
    B8 = "b8"


class TMALoadMode(StrEnum):
    TILE = "tile"


class TMAStoreMode(StrEnum):
    TILE = "tile"


_EnumT = TypeVar("_EnumT", bound=StrEnum)


class _EnumAttr(Data[_EnumT]):
    """An enum attribute printed as ``#nvvm.name<value>``."""

    values: ClassVar[type[StrEnum]]

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.data.value)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> _EnumT:
        with parser.in_angle_brackets():
            return cast(_EnumT, parser.parse_str_enum(cls.values))


@irdl_attr_definition
class ProxyKindAttr(_EnumAttr[ProxyKind]):
    name = "nvvm.proxy_kind"
    values = ProxyKind


@irdl_attr_definition
class SharedSpaceAttr(_EnumAttr[SharedSpace]):
    name = "nvvm.shared_space"
    values = SharedSpace


@irdl_attr_definition
class CTAGroupAttr(_EnumAttr[CTAGroup]):
    name = "nvvm.cta_group"
    values = CTAGroup


@irdl_attr_definition
class Tcgen05FenceAttr(_EnumAttr[Tcgen05Fence]):
    name = "nvvm.tcgen05_fence"
    values = Tcgen05Fence


@irdl_attr_definition
class Tcgen05WaitAttr(_EnumAttr[Tcgen05Wait]):
    name = "nvvm.tcgen05_wait"
    values = Tcgen05Wait


@irdl_attr_definition
class Tcgen05LdStShapeAttr(_EnumAttr[Tcgen05LdStShape]):
    name = "nvvm.tcgen05_ldst_shape"
    values = Tcgen05LdStShape


@irdl_attr_definition
class Tcgen05MMAKindAttr(_EnumAttr[Tcgen05MMAKind]):
    name = "nvvm.tcgen05_mma_kind"
    values = Tcgen05MMAKind


@irdl_attr_definition
class Tcgen05MMACollectorOpAttr(_EnumAttr[Tcgen05MMACollectorOp]):
    name = "nvvm.tcgen05_mma_collectorop"
    values = Tcgen05MMACollectorOp


@irdl_attr_definition
class MMALayoutAttr(_EnumAttr[MMALayout]):
    name = "nvvm.mma_layout"
    values = MMALayout


@irdl_attr_definition
class LdStMatrixEltTypeAttr(_EnumAttr[LdStMatrixEltType]):
    name = "nvvm.ld_st_matrix_elt_type"
    values = LdStMatrixEltType


@irdl_attr_definition
class TMALoadModeAttr(_EnumAttr[TMALoadMode]):
    name = "nvvm.tma_load_mode"
    values = TMALoadMode


@irdl_attr_definition
class TMAStoreModeAttr(_EnumAttr[TMAStoreMode]):
    name = "nvvm.tma_store_mode"
    values = TMAStoreMode


@irdl_attr_definition
class LdStMatrixShapeAttr(ParametrizedAttribute):
    """Matrix shape of ``stmatrix``, in elements."""

    name = "nvvm.ld_st_matrix_shape"

    m: IntAttr = param_def()
    n: IntAttr = param_def()

    def __init__(self, m: int, n: int):
        super().__init__(IntAttr(m), IntAttr(n))

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<m = {self.m.data}, n = {self.n.data}>")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        with parser.in_angle_brackets():
            parser.parse_characters("m")
            parser.parse_punctuation("=")
            m = parser.parse_integer()
            parser.parse_punctuation(",")
            parser.parse_characters("n")
            parser.parse_punctuation("=")
            n = parser.parse_integer()
        return [IntAttr(m), IntAttr(n)]


class _SpecialRegister(IRDLOperation):
    """A read-only register of the thread: the same value at every point of the kernel, so pure."""

    res = result_def(i32)
    assembly_format = "attr-dict `:` type($res)"
    traits = traits_def(Pure())

    def __init__(self) -> None:
        super().__init__(result_types=[i32])


@irdl_op_definition
class ThreadIdXOp(_SpecialRegister):
    """``%tid.x`` (10.1): thread of the CTA."""

    name = "nvvm.read.ptx.sreg.tid.x"


@irdl_op_definition
class BlockIdXOp(_SpecialRegister):
    """``%ctaid.x`` (10.6): CTA of the grid."""

    name = "nvvm.read.ptx.sreg.ctaid.x"


@irdl_op_definition
class GridDimXOp(_SpecialRegister):
    """``%nctaid.x`` (10.7): CTAs of the grid."""

    name = "nvvm.read.ptx.sreg.nctaid.x"


@irdl_op_definition
class LaneIdOp(_SpecialRegister):
    """``%laneid`` (10.3): lane of the warp."""

    name = "nvvm.read.ptx.sreg.laneid"


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """``bar.sync a{, b}`` (9.7.13.1): all threads of the CTA, or `number_of_threads` of them, meet at barrier 0-15."""

    name = "nvvm.barrier"

    barrierId = opt_operand_def(i32)
    numberOfThreads = opt_operand_def(i32)
    assembly_format = "(`id` `=` $barrierId^)? (`number_of_threads` `=` $numberOfThreads^)? attr-dict"
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = _FIXED

    def __init__(self, barrier_id: SSAValue | None = None, number_of_threads: SSAValue | None = None):
        super().__init__(operands=[barrier_id, number_of_threads])

    def verify_(self) -> None:
        if self.numberOfThreads is not None and self.barrierId is None:
            raise VerifyException("nvvm.barrier: number_of_threads needs an id")


@irdl_op_definition
class SyncWarpOp(IRDLOperation):
    """``bar.warp.sync`` (9.7.13.2): the lanes of `mask` meet."""

    name = "nvvm.bar.warp.sync"

    mask = operand_def(i32)
    assembly_format = "$mask attr-dict `:` type($mask)"
    traits = _FIXED

    def __init__(self, mask: SSAValue):
        super().__init__(operands=[mask])


@irdl_op_definition
class ElectSyncOp(IRDLOperation):
    """``elect.sync`` (9.7.13.14): true in exactly one lane of the warp (of `membermask`, all 32 if absent)."""

    name = "nvvm.elect.sync"

    membermask = opt_operand_def(i32)
    pred = result_def(i1)
    assembly_format = "($membermask^)? attr-dict `->` type($pred)"
    traits = _FIXED

    def __init__(self, membermask: SSAValue | None = None):
        super().__init__(operands=[membermask], result_types=[i1])


@irdl_op_definition
class MBarrierInitOp(IRDLOperation):
    """``mbarrier.init.shared.b64`` (9.7.13.15.9): phase 0 and `count` arrivals a phase, 1 to 2^20 - 1."""

    name = "nvvm.mbarrier.init"

    addr = operand_def(PTR_SHARED)
    count = operand_def(i32)
    assembly_format = "$addr `,` $count attr-dict `:` type($addr) `,` type($count)"
    traits = _FIXED

    def __init__(self, addr: SSAValue, count: SSAValue):
        super().__init__(operands=[addr, count])


@irdl_op_definition
class MBarrierInvalOp(IRDLOperation):
    """``mbarrier.inval.shared.b64`` (9.7.13.15.10): the word may be used for something else."""

    name = "nvvm.mbarrier.inval"

    addr = operand_def(PTR_SHARED)
    assembly_format = "$addr attr-dict `:` type($addr)"
    traits = _FIXED

    def __init__(self, addr: SSAValue):
        super().__init__(operands=[addr])


@irdl_op_definition
class MBarrierArriveOp(IRDLOperation):
    """``mbarrier.arrive.shared.b64`` (9.7.13.15.13): one arrival, release at CTA scope; the result is the old state."""

    name = "nvvm.mbarrier.arrive"

    addr = operand_def(PTR_SHARED)
    res = result_def(i64)
    assembly_format = "$addr attr-dict `:` type($addr) `->` type($res)"
    traits = _FIXED

    def __init__(self, addr: SSAValue):
        super().__init__(operands=[addr], result_types=[i64])


@irdl_op_definition
class MBarrierArriveExpectTxOp(IRDLOperation):
    """``mbarrier.arrive.expect_tx.shared.b64`` (9.7.13.15.13): `txcount` more bytes in this phase and one arrival."""

    name = "nvvm.mbarrier.arrive.expect_tx"

    addr = operand_def(PTR_SHARED)
    txcount = operand_def(i32)
    assembly_format = "$addr `,` $txcount attr-dict `:` type($addr) `,` type($txcount)"
    traits = _FIXED

    def __init__(self, addr: SSAValue, txcount: SSAValue):
        super().__init__(operands=[addr, txcount])


@irdl_op_definition
class MBarrierTryWaitParityOp(IRDLOperation):
    """Blocking wait: a loop over ``mbarrier.try_wait.parity.shared.b64`` (9.7.13.15.16), acquire at CTA scope.

    Returns when the phase of parity `phase` is complete. `ticks` is the time (ns) that one attempt may suspend.
    """

    name = "nvvm.mbarrier.try_wait.parity"

    addr = operand_def(PTR_SHARED)
    phase = operand_def(i32)
    ticks = operand_def(i32)
    assembly_format = "$addr `,` $phase `,` $ticks attr-dict `:` type($addr) `,` type($phase) `,` type($ticks)"
    traits = _FIXED

    def __init__(self, addr: SSAValue, phase: SSAValue, ticks: SSAValue):
        super().__init__(operands=[addr, phase, ticks])


@irdl_op_definition
class MBarrierTryWaitOp(IRDLOperation):
    """One attempt of ``mbarrier.try_wait.parity.shared.b64`` (9.7.13.15.16): may return false early, so loop over it."""

    name = "nvvm.mbarrier.try_wait"

    addr = operand_def(PTR_SHARED)
    phase = operand_def(i32)
    res = result_def(i1)
    assembly_format = "$addr `,` $phase attr-dict `:` type($addr) `,` type($phase) `->` type($res)"
    traits = _FIXED

    def __init__(self, addr: SSAValue, phase: SSAValue):
        super().__init__(operands=[addr, phase], result_types=[i1])


@irdl_op_definition
class FenceMbarrierInitOp(IRDLOperation):
    """``fence.mbarrier_init.release.cluster`` (9.7.13.4): earlier mbarrier.init are visible to the async proxy."""

    name = "nvvm.fence.mbarrier.init"

    assembly_format = "attr-dict"
    traits = _FIXED

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class FenceProxyOp(IRDLOperation):
    """``fence.proxy.{async, async.global, async.shared::cta, ...}`` (9.7.13.4): order accesses of two proxies."""

    name = "nvvm.fence.proxy"

    kind = prop_def(ProxyKindAttr)
    space = opt_prop_def(SharedSpaceAttr)
    assembly_format = "attr-dict"
    irdl_options = (ParsePropInAttrDict(),)
    traits = _FIXED

    def __init__(self, kind: ProxyKind, space: SharedSpace | None = None):
        super().__init__(
            properties={"kind": ProxyKindAttr(kind), "space": None if space is None else SharedSpaceAttr(space)}
        )

    def verify_(self) -> None:
        kind = self.kind.data
        if kind in (ProxyKind.TENSORMAP, ProxyKind.GENERIC):
            raise VerifyException(f"nvvm.fence.proxy: {kind} takes part only in one-directional fences")
        if (kind is ProxyKind.ASYNC_SHARED) != (self.space is not None):
            raise VerifyException("nvvm.fence.proxy: space is given exactly when kind is async.shared")


def _verify_coordinates(op: str, coordinates: Sequence[SSAValue]) -> None:
    if not 1 <= len(coordinates) <= 5:
        raise VerifyException(f"{op}: 1 to 5 coordinates, got {len(coordinates)}")


@irdl_op_definition
class CpAsyncBulkTensorGlobalToSharedClusterOp(IRDLOperation):
    """``cp.async.bulk.tensor.Nd.shared::cluster.global.tile`` (9.7.9.27.1.2): one box to shared memory.

    `coordinates` are elements, innermost dimension first. Completes on `mbar` with the bytes of the whole box, in each CTA of
    `multicastMask`. The destination is ``ptr<7>`` (an address-space cast of the own CTA's ``ptr<3>``); with
    `isCTAOnly` it is ``ptr<3>`` and needs PTX 8.6.
    """

    name = "nvvm.cp.async.bulk.tensor.shared.cluster.global"

    dstMem = operand_def(eq(PTR_SHARED) | eq(PTR_CLUSTER))
    tmaDescriptor = operand_def(PTR)
    coordinates = var_operand_def(i32)
    mbar = operand_def(PTR_SHARED)
    multicastMask = opt_operand_def(i16)
    l2CacheHint = opt_operand_def(i64)
    mode = prop_def(TMALoadModeAttr, default_value=TMALoadModeAttr(TMALoadMode.TILE))
    isCTAOnly = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    group = opt_prop_def(CTAGroupAttr)
    assembly_format = (
        "$dstMem `,` $tmaDescriptor `,` $mbar `,` `box` `[` $coordinates `]`"
        " (`multicast_mask` `=` $multicastMask^)? (`l2_cache_hint` `=` $l2CacheHint^)?"
        " attr-dict `:` type($dstMem) `,` type($tmaDescriptor)"
    )
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    traits = _FIXED

    def __init__(
        self,
        dst: SSAValue,
        tensor_map: SSAValue,
        coordinates: Sequence[SSAValue],
        mbar: SSAValue,
        *,
        multicast_mask: SSAValue | None = None,
        l2_cache_hint: SSAValue | None = None,
        cta_only: bool = False,
        group: CTAGroup | None = None,
    ):
        super().__init__(
            operands=[dst, tensor_map, coordinates, mbar, multicast_mask, l2_cache_hint],
            properties={
                "isCTAOnly": BoolAttr.from_bool(cta_only),
                "group": None if group is None else CTAGroupAttr(group),
            },
        )

    @property
    def cta_only(self) -> bool:
        return bool(self.isCTAOnly.value.data)

    def verify_(self) -> None:
        _verify_coordinates(self.name, self.coordinates)
        if self.cta_only and (self.multicastMask is not None or self.group is not None):
            raise VerifyException(f"{self.name}: isCTAOnly excludes multicast_mask and group")
        expected = PTR_SHARED if self.cta_only else PTR_CLUSTER
        if self.dstMem.type != expected:
            raise VerifyException(
                f"{self.name}: the destination is {expected} {'with' if self.cta_only else 'without'} isCTAOnly,"
                f" got {self.dstMem.type}"
            )


@irdl_op_definition
class CpAsyncBulkTensorSharedCTAToGlobalOp(IRDLOperation):
    """``cp.async.bulk.tensor.Nd.global.shared::cta.tile.bulk_group`` (9.7.9.27.1.2): one box to global memory."""

    name = "nvvm.cp.async.bulk.tensor.global.shared.cta"

    tmaDescriptor = operand_def(PTR)
    srcMem = operand_def(PTR_SHARED)
    coordinates = var_operand_def(i32)
    l2CacheHint = opt_operand_def(i64)
    mode = prop_def(TMAStoreModeAttr, default_value=TMAStoreModeAttr(TMAStoreMode.TILE))
    assembly_format = (
        "$tmaDescriptor `,` $srcMem `,` `box` `[` $coordinates `]` (`l2_cache_hint` `=` $l2CacheHint^)?"
        " attr-dict `:` type($tmaDescriptor) `,` type($srcMem)"
    )
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    traits = _FIXED

    def __init__(
        self,
        tensor_map: SSAValue,
        src: SSAValue,
        coordinates: Sequence[SSAValue],
        *,
        l2_cache_hint: SSAValue | None = None,
    ):
        super().__init__(operands=[tensor_map, src, coordinates, l2_cache_hint])

    def verify_(self) -> None:
        _verify_coordinates(self.name, self.coordinates)


@irdl_op_definition
class CpAsyncBulkCommitGroupOp(IRDLOperation):
    """``cp.async.bulk.commit_group`` (9.7.9.27.2.1): this thread's bulk stores so far become one group."""

    name = "nvvm.cp.async.bulk.commit.group"

    assembly_format = "attr-dict"
    traits = _FIXED

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class CpAsyncBulkWaitGroupOp(IRDLOperation):
    """``cp.async.bulk.wait_group{.read} N`` (9.7.9.27.2.2): at most `group` of this thread's groups remain in flight.

    With `read`, only the reads of the source have to be complete.
    """

    name = "nvvm.cp.async.bulk.wait_group"

    group = prop_def(IntegerAttr[I32])
    read = opt_prop_def(UnitAttr)
    assembly_format = "$group attr-dict"
    irdl_options = (ParsePropInAttrDict(),)
    traits = _FIXED

    def __init__(self, group: int, *, read: bool = False):
        super().__init__(properties={"group": IntegerAttr(group, i32), "read": UnitAttr() if read else None})

    def verify_(self) -> None:
        if self.group.value.data < 0:
            raise VerifyException(f"{self.name}: group is not negative, got {self.group.value.data}")


@irdl_op_definition
class PrefetchOp(IRDLOperation):
    """``prefetch{.param}.tensormap`` (9.7.9.15): bring a tensor map near before its first use.

    `in_param_space` says that the generic pointer is that of a kernel parameter.
    """

    name = "nvvm.prefetch"

    addr = operand_def(PTR)
    tensormap = opt_prop_def(UnitAttr)
    in_param_space = opt_prop_def(UnitAttr)
    assembly_format = (
        "(`tensormap` $tensormap^)? (`in_param_space` $in_param_space^)? `,` $addr attr-dict `:` type($addr)"
    )
    traits = _FIXED

    def __init__(self, addr: SSAValue, *, in_param_space: bool = False):
        super().__init__(
            operands=[addr],
            properties={"tensormap": UnitAttr(), "in_param_space": UnitAttr() if in_param_space else None},
        )

    def verify_(self) -> None:
        if self.tensormap is None:
            raise VerifyException("nvvm.prefetch: only the tensormap form is known")


@irdl_op_definition
class StMatrixOp(IRDLOperation):
    """``stmatrix.sync.aligned.m8n8.xN{.trans}.shared.b16`` (9.7.14.5.16): 1, 2 or 4 8x8 matrices of 16-bit elements."""

    name = "nvvm.stmatrix"

    ptr = operand_def(PTR_SHARED)
    sources = var_operand_def(i32)
    layout = prop_def(MMALayoutAttr)
    shape = prop_def(LdStMatrixShapeAttr)
    eltType = prop_def(LdStMatrixEltTypeAttr)
    assembly_format = "$ptr `,` $sources attr-dict `:` type($ptr) `,` type($sources)"
    irdl_options = (ParsePropInAttrDict(),)
    traits = _FIXED

    def __init__(self, ptr: SSAValue, sources: Sequence[SSAValue], layout: MMALayout = MMALayout.ROW):
        super().__init__(
            operands=[ptr, sources],
            properties={
                "layout": MMALayoutAttr(layout),
                "shape": LdStMatrixShapeAttr(8, 8),
                "eltType": LdStMatrixEltTypeAttr(LdStMatrixEltType.B16),
            },
        )

    def verify_(self) -> None:
        if len(self.sources) not in (1, 2, 4):
            raise VerifyException(f"nvvm.stmatrix: 1, 2 or 4 sources, got {len(self.sources)}")
        if (self.shape.m.data, self.shape.n.data) != (8, 8) or self.eltType.data is not LdStMatrixEltType.B16:
            raise VerifyException("nvvm.stmatrix: only m8n8 of b16 is known")


@irdl_op_definition
class WgmmaFenceAlignedOp(IRDLOperation):
    """``wgmma.fence.sync.aligned`` (9.7.15.7.1): registers written before are seen by the wgmma that follow."""

    name = "nvvm.wgmma.fence.aligned"

    assembly_format = "attr-dict"
    traits = _FIXED

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class WgmmaGroupSyncAlignedOp(IRDLOperation):
    """``wgmma.commit_group.sync.aligned`` (9.7.15.7.2): the warpgroup's wgmma so far become one group."""

    name = "nvvm.wgmma.commit.group.sync.aligned"

    assembly_format = "attr-dict"
    traits = _FIXED

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class WgmmaWaitGroupSyncOp(IRDLOperation):
    """``wgmma.wait_group.sync.aligned N`` (9.7.15.7.3): at most `group` (0 to 7) groups remain in flight."""

    name = "nvvm.wgmma.wait.group.sync.aligned"

    group = prop_def(IntegerAttr[I64])
    assembly_format = "attr-dict $group"
    irdl_options = (ParsePropInAttrDict(),)
    traits = _FIXED

    def __init__(self, group: int):
        super().__init__(properties={"group": IntegerAttr(group, i64)})

    def verify_(self) -> None:
        if not 0 <= self.group.value.data <= 7:
            raise VerifyException(f"{self.name}: group is 0 to 7, got {self.group.value.data}")


class _Tcgen05Op(IRDLOperation):
    """An instruction that names the number of CTAs that take part (``cta_group::1`` or ``::2``)."""

    group = prop_def(CTAGroupAttr, default_value=CTAGroupAttr(CTAGroup.CTA_1))
    traits = _FIXED


@irdl_op_definition
class Tcgen05AllocOp(_Tcgen05Op):
    """``tcgen05.alloc`` (9.7.16.7.1): `nCols` (32, 64, ..., 512) columns of tensor memory; the address goes to `addr`.

    One whole warp; blocks until the columns are free.
    """

    name = "nvvm.tcgen05.alloc"

    addr = operand_def(PTR_SHARED)
    nCols = operand_def(i32)
    assembly_format = "$addr `,` $nCols attr-dict `:` type($addr) `,` type($nCols)"
    irdl_options = (ParsePropInAttrDict(),)

    def __init__(self, addr: SSAValue, n_cols: SSAValue, group: CTAGroup = CTAGroup.CTA_1):
        super().__init__(operands=[addr, n_cols], properties={"group": CTAGroupAttr(group)})


@irdl_op_definition
class Tcgen05DeallocOp(_Tcgen05Op):
    """``tcgen05.dealloc`` (9.7.16.7.1): give `nCols` columns at `taddr` back. One whole warp."""

    name = "nvvm.tcgen05.dealloc"

    taddr = operand_def(PTR_TENSOR)
    nCols = operand_def(i32)
    assembly_format = "$taddr `,` $nCols attr-dict `:` type($taddr) `,` type($nCols)"
    irdl_options = (ParsePropInAttrDict(),)

    def __init__(self, taddr: SSAValue, n_cols: SSAValue, group: CTAGroup = CTAGroup.CTA_1):
        super().__init__(operands=[taddr, n_cols], properties={"group": CTAGroupAttr(group)})


@irdl_op_definition
class Tcgen05RelinquishAllocPermitOp(_Tcgen05Op):
    """``tcgen05.relinquish_alloc_permit`` (9.7.16.7.1): this CTA allocates no more. One whole warp."""

    name = "nvvm.tcgen05.relinquish_alloc_permit"

    assembly_format = "attr-dict"
    irdl_options = (ParsePropInAttrDict(),)

    def __init__(self, group: CTAGroup = CTAGroup.CTA_1):
        super().__init__(properties={"group": CTAGroupAttr(group)})


@irdl_op_definition
class Tcgen05FenceOp(IRDLOperation):
    """``tcgen05.fence::{before, after}_thread_sync`` (9.7.16.11.1)."""

    name = "nvvm.tcgen05.fence"

    kind = prop_def(Tcgen05FenceAttr)
    assembly_format = "$kind attr-dict"
    traits = _FIXED

    def __init__(self, kind: Tcgen05Fence):
        super().__init__(properties={"kind": Tcgen05FenceAttr(kind)})


@irdl_op_definition
class Tcgen05WaitOp(IRDLOperation):
    """``tcgen05.wait::{ld, st}.sync.aligned`` (9.7.16.8.5): this thread's earlier loads or stores are complete."""

    name = "nvvm.tcgen05.wait"

    kind = prop_def(Tcgen05WaitAttr)
    assembly_format = "$kind attr-dict"
    traits = _FIXED

    def __init__(self, kind: Tcgen05Wait):
        super().__init__(properties={"kind": Tcgen05WaitAttr(kind)})


@irdl_op_definition
class Tcgen05CommitOp(_Tcgen05Op):
    """``tcgen05.commit...mbarrier::arrive::one.shared::cluster.b64`` (9.7.16.12.1).

    One arrival on the mbarrier when this thread's earlier mma are complete; in each CTA of `multicastMask` if given.
    """

    name = "nvvm.tcgen05.commit"

    addr = operand_def(PTR_SHARED)
    multicastMask = opt_operand_def(i16)
    assembly_format = (
        "$addr (`,` `multicast_mask` `=` $multicastMask^)? attr-dict `:` type($addr) (`,` type($multicastMask)^)?"
    )
    irdl_options = (ParsePropInAttrDict(),)

    def __init__(self, addr: SSAValue, *, multicast_mask: SSAValue | None = None, group: CTAGroup = CTAGroup.CTA_1):
        super().__init__(operands=[addr, multicast_mask], properties={"group": CTAGroupAttr(group)})


def _vector(kind: Attribute) -> VectorType[Attribute] | None:
    return cast("VectorType[Attribute]", kind) if isinstance(kind, VectorType) else None


TCGEN05_LD_REGISTERS: dict[Tcgen05LdStShape, tuple[int, ...]] = {
    Tcgen05LdStShape.S32X32B: (1, 2, 4, 8, 16, 32, 64, 128),
    Tcgen05LdStShape.S16X64B: (1, 2, 4, 8, 16, 32, 64, 128),
    Tcgen05LdStShape.S16X128B: (2, 4, 8, 16, 32, 64, 128),
    Tcgen05LdStShape.S16X256B: (4, 8, 16, 32, 64, 128),
    Tcgen05LdStShape.S16X32BX2: (1, 2, 4, 8, 16, 32, 64, 128),
}
"""32-bit registers that one ``tcgen05.ld`` of a shape may fill in a thread."""


@irdl_op_definition
class Tcgen05LdOp(IRDLOperation):
    """``tcgen05.ld.sync.aligned.SHAPE.xN{.pack::16b}.b32`` (9.7.16.8.3): tensor memory to registers, asynchronous.

    One whole warp. The result is i32 or a vector of i32, as many as `TCGEN05_LD_REGISTERS` allows; `offset` (an
    ``llvm.mlir.constant``) belongs to the shape 16x32bx2.
    """

    name = "nvvm.tcgen05.ld"

    pack = opt_prop_def(UnitAttr)
    shape = prop_def(Tcgen05LdStShapeAttr)
    tmemAddr = operand_def(PTR_TENSOR)
    offset = opt_operand_def(i64)
    res = result_def()
    assembly_format = "$tmemAddr (`,` $offset^)? (`pack` $pack^)? attr-dict `:` type($res)"
    irdl_options = (ParsePropInAttrDict(),)
    traits = _FIXED

    def __init__(
        self,
        addr: SSAValue,
        registers: int,
        shape: Tcgen05LdStShape = Tcgen05LdStShape.S32X32B,
        *,
        offset: SSAValue | None = None,
        pack: bool = False,
    ):
        super().__init__(
            operands=[addr, offset],
            properties={"shape": Tcgen05LdStShapeAttr(shape), "pack": UnitAttr() if pack else None},
            result_types=[i32 if registers == 1 else VectorType(i32, [registers])],
        )

    @property
    def registers(self) -> int:
        """32-bit registers of the result."""
        vector = _vector(self.res.type)
        return 1 if vector is None else vector.get_shape()[0]

    def verify_(self) -> None:
        vector = _vector(self.res.type)
        if self.res.type != i32 and (vector is None or vector.element_type != i32 or len(vector.get_shape()) != 1):
            raise VerifyException(f"nvvm.tcgen05.ld: the result is i32 or a vector of i32, got {self.res.type}")
        legal = TCGEN05_LD_REGISTERS[self.shape.data]
        if self.registers not in legal:
            raise VerifyException(f"nvvm.tcgen05.ld: {self.shape.data} fills {legal} registers, got {self.registers}")
        if (self.shape.data is Tcgen05LdStShape.S16X32BX2) != (self.offset is not None):
            raise VerifyException("nvvm.tcgen05.ld: offset is given exactly for shape_16x32bx2")


@irdl_op_definition
class Tcgen05MMAOp(IRDLOperation):
    """``tcgen05.mma.cta_group::N.kind::K [d], a, b, idesc, p`` (9.7.16.10.9): D = A * B, plus D where `enableInputD`.

    `matrixA` and `matrixB` are shared-memory descriptors (i64), or A an address in tensor memory. One thread issues it.
    """

    name = "nvvm.tcgen05.mma"

    kind = prop_def(Tcgen05MMAKindAttr)
    ctaGroup = prop_def(CTAGroupAttr)
    collectorOp = prop_def(
        Tcgen05MMACollectorOpAttr, default_value=Tcgen05MMACollectorOpAttr(Tcgen05MMACollectorOp.DISCARD)
    )
    matrixD = operand_def(PTR_TENSOR)
    matrixA = operand_def(eq(i64) | eq(PTR_TENSOR))
    matrixB = operand_def(i64)
    idesc = operand_def(i32)
    enableInputD = operand_def(i1)
    assembly_format = (
        "$matrixD `,` $matrixA `,` $matrixB `,` $idesc `,` $enableInputD attr-dict"
        " `:` `(` type($matrixD) `,` type($matrixA) `,` type($matrixB) `,` type($idesc) `,` type($enableInputD) `)`"
    )
    irdl_options = (ParsePropInAttrDict(),)
    traits = _FIXED

    def __init__(
        self,
        d: SSAValue,
        a: SSAValue,
        b: SSAValue,
        idesc: SSAValue,
        enable_input_d: SSAValue,
        kind: Tcgen05MMAKind,
        *,
        group: CTAGroup = CTAGroup.CTA_1,
        collector: Tcgen05MMACollectorOp = Tcgen05MMACollectorOp.DISCARD,
    ):
        super().__init__(
            operands=[d, a, b, idesc, enable_input_d],
            properties={
                "kind": Tcgen05MMAKindAttr(kind),
                "ctaGroup": CTAGroupAttr(group),
                "collectorOp": Tcgen05MMACollectorOpAttr(collector),
            },
        )


@irdl_op_definition
class AddrSpaceCastOp(IRDLOperation):
    """``llvm.addrspacecast``, which xDSL's llvm dialect lacks."""

    name = "llvm.addrspacecast"

    arg = operand_def(llvm.LLVMPointerType)
    res = result_def(llvm.LLVMPointerType)
    assembly_format = "$arg attr-dict `:` type($arg) `to` type($res)"
    traits = traits_def(NoMemoryEffect())

    def __init__(self, arg: SSAValue, result_type: llvm.LLVMPointerType):
        super().__init__(operands=[arg], result_types=[result_type])

    def verify_(self) -> None:
        if self.arg.type == self.res.type:
            raise VerifyException("llvm.addrspacecast: the address spaces are equal")


@irdl_op_definition
class ExtractElementOp(IRDLOperation):
    """``llvm.extractelement``, which xDSL's llvm dialect lacks."""

    name = "llvm.extractelement"

    ELEMENT: ClassVar = VarConstraint("ELEMENT", AnyAttr())

    vector = operand_def(VectorType.constr(ELEMENT))
    position = operand_def(i32)
    res = result_def(ELEMENT)
    assembly_format = "$vector `[` $position `:` type($position) `]` attr-dict `:` type($vector)"
    traits = traits_def(NoMemoryEffect())

    def __init__(self, vector: SSAValue, position: SSAValue):
        kind = _vector(vector.type)
        assert kind is not None
        super().__init__(operands=[vector, position], result_types=[kind.element_type])


@irdl_op_definition
class PoisonOp(IRDLOperation):
    """``llvm.mlir.poison``, which xDSL's llvm dialect lacks."""

    name = "llvm.mlir.poison"

    res = result_def()
    assembly_format = "attr-dict `:` type($res)"
    traits = traits_def(NoMemoryEffect())

    def __init__(self, result_type: Attribute):
        super().__init__(result_types=[result_type])


NVVM = Dialect(
    "nvvm",
    [
        ThreadIdXOp,
        BlockIdXOp,
        GridDimXOp,
        LaneIdOp,
        BarrierOp,
        SyncWarpOp,
        ElectSyncOp,
        MBarrierInitOp,
        MBarrierInvalOp,
        MBarrierArriveOp,
        MBarrierArriveExpectTxOp,
        MBarrierTryWaitParityOp,
        MBarrierTryWaitOp,
        FenceMbarrierInitOp,
        FenceProxyOp,
        CpAsyncBulkTensorGlobalToSharedClusterOp,
        CpAsyncBulkTensorSharedCTAToGlobalOp,
        CpAsyncBulkCommitGroupOp,
        CpAsyncBulkWaitGroupOp,
        PrefetchOp,
        StMatrixOp,
        WgmmaFenceAlignedOp,
        WgmmaGroupSyncAlignedOp,
        WgmmaWaitGroupSyncOp,
        Tcgen05AllocOp,
        Tcgen05DeallocOp,
        Tcgen05RelinquishAllocPermitOp,
        Tcgen05FenceOp,
        Tcgen05WaitOp,
        Tcgen05CommitOp,
        Tcgen05LdOp,
        Tcgen05MMAOp,
    ],
    [
        ProxyKindAttr,
        SharedSpaceAttr,
        CTAGroupAttr,
        Tcgen05FenceAttr,
        Tcgen05WaitAttr,
        Tcgen05LdStShapeAttr,
        Tcgen05MMAKindAttr,
        Tcgen05MMACollectorOpAttr,
        MMALayoutAttr,
        LdStMatrixShapeAttr,
        LdStMatrixEltTypeAttr,
        TMALoadModeAttr,
        TMAStoreModeAttr,
    ],
)

LLVM = Dialect("llvm", [*llvm.LLVM.operations, AddrSpaceCastOp, ExtractElementOp, PoisonOp], [*llvm.LLVM.attributes])
"""xDSL's llvm dialect with the ops that it lacks: register this one under "llvm"."""


@dataclass(frozen=True)
class Upstream:
    """How upstream spells an op: an example, and the file and revision of llvm-project that it was read from."""

    example: str
    file: str = "mlir/include/mlir/Dialect/LLVMIR/NVVMOps.td"
    commit: str = "00a45d2cb024c1a957d48e1a5b1f44d7f94b8239"


_TESTS = "mlir/test/Target/LLVMIR/nvvm/"
UPSTREAM_COMMIT = Upstream.commit
UPSTREAM: dict[str, Upstream] = {
    "nvvm.read.ptx.sreg.tid.x": Upstream("%0 = nvvm.read.ptx.sreg.tid.x : i32"),
    "nvvm.read.ptx.sreg.ctaid.x": Upstream("%0 = nvvm.read.ptx.sreg.ctaid.x : i32"),
    "nvvm.read.ptx.sreg.nctaid.x": Upstream("%0 = nvvm.read.ptx.sreg.nctaid.x : i32"),
    "nvvm.read.ptx.sreg.laneid": Upstream("%0 = nvvm.read.ptx.sreg.laneid : i32"),
    "nvvm.barrier": Upstream("nvvm.barrier id = %i32 number_of_threads = %i32"),
    "nvvm.bar.warp.sync": Upstream("nvvm.bar.warp.sync %i32 : i32"),
    "nvvm.elect.sync": Upstream("%0 = nvvm.elect.sync -> i1"),
    "nvvm.mbarrier.init": Upstream("nvvm.mbarrier.init %smem, %i32 : !llvm.ptr<3>, i32"),
    "nvvm.mbarrier.inval": Upstream("nvvm.mbarrier.inval %smem : !llvm.ptr<3>"),
    "nvvm.mbarrier.arrive": Upstream("%0 = nvvm.mbarrier.arrive %smem : !llvm.ptr<3> -> i64"),
    "nvvm.mbarrier.arrive.expect_tx": Upstream("nvvm.mbarrier.arrive.expect_tx %smem, %i32 : !llvm.ptr<3>, i32"),
    "nvvm.mbarrier.try_wait.parity": Upstream(
        "nvvm.mbarrier.try_wait.parity %smem, %i32, %i32 : !llvm.ptr<3>, i32, i32"
    ),
    "nvvm.mbarrier.try_wait": Upstream(
        "%0 = nvvm.mbarrier.try_wait %smem, %i32 : !llvm.ptr<3>, i32 -> i1",
        _TESTS + "mbar_try_wait.mlir",
        "8d278b7d5f9aa4a66a506fb607489fa2db71ab2a",
    ),
    "nvvm.fence.mbarrier.init": Upstream("nvvm.fence.mbarrier.init"),
    "nvvm.fence.proxy": Upstream(
        "nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}"
    ),
    "nvvm.cp.async.bulk.tensor.shared.cluster.global": Upstream(
        "nvvm.cp.async.bulk.tensor.shared.cluster.global %cluster, %ptr, %smem, box[%i32, %i32]"
        " multicast_mask = %i16 l2_cache_hint = %i64 : !llvm.ptr<7>, !llvm.ptr"
    ),
    "nvvm.cp.async.bulk.tensor.global.shared.cta": Upstream(
        "nvvm.cp.async.bulk.tensor.global.shared.cta %ptr, %smem, box[%i32, %i32] l2_cache_hint = %i64"
        " : !llvm.ptr, !llvm.ptr<3>"
    ),
    "nvvm.cp.async.bulk.commit.group": Upstream("nvvm.cp.async.bulk.commit.group"),
    "nvvm.cp.async.bulk.wait_group": Upstream("nvvm.cp.async.bulk.wait_group 1 {read}"),
    "nvvm.prefetch": Upstream("nvvm.prefetch tensormap in_param_space, %ptr : !llvm.ptr"),
    "nvvm.stmatrix": Upstream(
        "nvvm.stmatrix %smem, %i32, %i32 {layout = #nvvm.mma_layout<row>, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>,"
        " eltType = #nvvm.ld_st_matrix_elt_type<b16>} : !llvm.ptr<3>, i32, i32"
    ),
    "nvvm.wgmma.fence.aligned": Upstream("nvvm.wgmma.fence.aligned"),
    "nvvm.wgmma.commit.group.sync.aligned": Upstream("nvvm.wgmma.commit.group.sync.aligned"),
    "nvvm.wgmma.wait.group.sync.aligned": Upstream("nvvm.wgmma.wait.group.sync.aligned 1"),
    "nvvm.tcgen05.alloc": Upstream("nvvm.tcgen05.alloc %smem, %i32 : !llvm.ptr<3>, i32"),
    "nvvm.tcgen05.dealloc": Upstream("nvvm.tcgen05.dealloc %tmem, %i32 : !llvm.ptr<6>, i32"),
    "nvvm.tcgen05.relinquish_alloc_permit": Upstream("nvvm.tcgen05.relinquish_alloc_permit"),
    "nvvm.tcgen05.fence": Upstream("nvvm.tcgen05.fence <before>"),
    "nvvm.tcgen05.wait": Upstream("nvvm.tcgen05.wait <load>"),
    "nvvm.tcgen05.commit": Upstream("nvvm.tcgen05.commit %smem, multicast_mask = %i16 : !llvm.ptr<3>, i16"),
    "nvvm.tcgen05.ld": Upstream(
        "%0 = nvvm.tcgen05.ld %tmem pack {shape = #nvvm.tcgen05_ldst_shape<shape_32x32b>} : vector<4xi32>"
    ),
    "nvvm.tcgen05.mma": Upstream(
        "nvvm.tcgen05.mma %tmem, %i64, %i64, %i32, %i1 {kind = #nvvm.tcgen05_mma_kind<f16>,"
        " ctaGroup = #nvvm.cta_group<cta_1>} : (!llvm.ptr<6>, i64, i64, i32, i1)",
        _TESTS + "tcgen05-mma-shared.mlir",
        "0d26d9ba23040c04c4f4bd6fa8156b8dc3e4d8bf",
    ),
}
"""Every op of the dialect. Left out although upstream has it: ``nvvm.wgmma.mma_async``, whose ``scale-d`` is an attribute
where our K loop needs a run-time predicate; the main loop is one ``llvm.inline_asm`` per K tile instead."""
