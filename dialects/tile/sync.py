"""Barriers, fences and bulk groups: when something is complete and who may see it."""

from __future__ import annotations

from abc import ABC
from typing import Self

from xdsl.dialects.builtin import IndexType, IntegerAttr, StringAttr, UnitAttr, i32, i64
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tilec.dialects.tile.assembly import EFFECTS, Int, TileOp, parse_optional_stage, parse_value, print_optional_stage
from tilec.dialects.tile.memory import verify_stage
from tilec.dialects.tile.roles import verify_outside_roles
from tilec.dialects.tile.types import MbarrierType

MAX_ARRIVALS = (1 << 20) - 1
MAX_TX_BYTES = (1 << 20) - 1
"""Limits of one mbarrier phase (PTX ISA 9.7.13.15.1)."""
MAX_OUTSTANDING = 7
"""Groups of MMAs that a wait can leave running (wgmma.wait_group, PTX ISA 9.7.15.7.3)."""
MAX_PENDING = 63
"""Groups of TMA stores that a wait may leave pending: twice the chunks of the widest accumulator."""


def _parse_int(parser: Parser) -> int:
    return parser.parse_integer(allow_boolean=False, allow_negative=False)


@irdl_op_definition
class MbarrierInitOp(TileOp):
    """`%full = tile.mbarrier.init count 1 : !tile.mbarrier<4>`: barriers that expect `count` agents per round.

    One thread initialises and fences (mbarrier.init, fence.mbarrier_init); a `tile.cta_sync` must follow before any
    use. An agent is a commit, or a role that arrives.
    """

    name = "tile.mbarrier.init"

    count_attr = prop_def(Int, prop_name="count")
    res = result_def(MbarrierType)

    traits = traits_def(*EFFECTS)

    def __init__(self, depth: int, count: int = 1):
        super().__init__(properties={"count": IntegerAttr(count, i64)}, result_types=[MbarrierType.of(depth)])

    @property
    def count(self) -> int:
        return self.count_attr.value.data

    def verify_(self) -> None:
        verify_outside_roles(self, "one thread initialises for all: do it in front of tile.roles, with a tile.cta_sync")
        if not 1 <= self.count <= MAX_ARRIVALS:
            raise VerifyException(f"count {self.count}: an mbarrier expects 1 to {MAX_ARRIVALS} arrivals")

    @classmethod
    def parse_syntax(cls, parser: Parser) -> MbarrierInitOp:
        parser.parse_keyword("count")
        count = _parse_int(parser)
        parser.parse_punctuation(":")
        at = parser.pos
        type = parser.parse_type()
        if not isinstance(type, MbarrierType):
            parser.raise_error("tile.mbarrier.init makes an !tile.mbarrier<stages>", at, parser.pos)
        return MbarrierInitOp(type.depth, count)

    def print_syntax(self, printer: Printer) -> None:
        printer.print_string(f" count {self.count} : ")
        printer.print_attribute(self.res.type)


@irdl_op_definition
class ArriveExpectTxOp(TileOp):
    """`tile.mbarrier.arrive.expect_tx %full[%s], 32768`: announce bytes and arrive, as one step.

    The round completes when the arrivals are in and exactly so many bytes have been written: too many is a deadlock,
    too few an early release or a deadlock (lesson 09, step 4; mbarrier.arrive.expect_tx, PTX ISA 9.7.13.15.13).
    """

    name = "tile.mbarrier.arrive.expect_tx"

    barrier = operand_def(MbarrierType)
    stage = opt_operand_def(IndexType)
    bytes_attr = prop_def(Int, prop_name="bytes")

    traits = traits_def(*EFFECTS)

    def __init__(self, barrier: SSAValue, stage: SSAValue | None, bytes: int):
        super().__init__(operands=[barrier, stage], properties={"bytes": IntegerAttr(bytes, i64)})

    @property
    def bytes(self) -> int:
        return self.bytes_attr.value.data

    def verify_(self) -> None:
        verify_stage(self.barrier, self.stage)
        if not 0 <= self.bytes <= MAX_TX_BYTES:
            raise VerifyException(f"{self.bytes} bytes: an mbarrier counts at most {MAX_TX_BYTES} bytes in flight")

    @classmethod
    def parse_syntax(cls, parser: Parser) -> ArriveExpectTxOp:
        barrier = parse_value(parser)
        stage = parse_optional_stage(parser)
        parser.parse_punctuation(",")
        return ArriveExpectTxOp(barrier, stage, _parse_int(parser))

    def print_syntax(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.barrier)
        print_optional_stage(printer, self.stage)
        printer.print_string(f", {self.bytes}")


class ArrivalOp(TileOp, ABC):
    """An operation that brings one arrival to a stage of a barrier: `op %bar[%s]`."""

    barrier = operand_def(MbarrierType)
    stage = opt_operand_def(IndexType)

    traits = traits_def(*EFFECTS)

    def __init__(self, barrier: SSAValue, stage: SSAValue | None = None):
        super().__init__(operands=[barrier, stage])

    def verify_(self) -> None:
        verify_stage(self.barrier, self.stage)

    @classmethod
    def parse_syntax(cls, parser: Parser) -> Self:
        return cls(parse_value(parser), parse_optional_stage(parser))

    def print_syntax(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.barrier)
        print_optional_stage(printer, self.stage)


@irdl_op_definition
class ArriveOp(ArrivalOp):
    """`tile.mbarrier.arrive %empty[%s]`: one arrival of the executing agent (mbarrier.arrive)."""

    name = "tile.mbarrier.arrive"


@irdl_op_definition
class TryWaitOp(TileOp):
    """`tile.mbarrier.try_wait %full[%s], %phase outstanding 1`: block until the round of that parity is complete.

    Round r (from 0) of a barrier is waited for with parity r & 1; before round 0 has completed, parity 1 reads as
    complete (mbarrier.try_wait.parity, PTX ISA 9.7.13.15.16). `outstanding` is the number of later commits that may be
    in flight when this returns: where commits become groups (sm_90a, wgmma.wait_group N) it keeps them running; 0 is
    always right.
    """

    name = "tile.mbarrier.try_wait"

    barrier = operand_def(MbarrierType)
    stage = opt_operand_def(IndexType)
    phase = operand_def(i32)
    outstanding_attr = prop_def(Int, prop_name="outstanding")

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(*EFFECTS)

    def __init__(self, barrier: SSAValue, stage: SSAValue | None, phase: SSAValue, *, outstanding: int = 0):
        super().__init__(operands=[barrier, stage, phase], properties={"outstanding": IntegerAttr(outstanding, i64)})

    @property
    def outstanding(self) -> int:
        return self.outstanding_attr.value.data

    def verify_(self) -> None:
        verify_stage(self.barrier, self.stage)
        if not 0 <= self.outstanding <= MAX_OUTSTANDING:
            raise VerifyException(f"outstanding {self.outstanding}: 0 to {MAX_OUTSTANDING} commits can stay in flight")

    @classmethod
    def parse_syntax(cls, parser: Parser) -> TryWaitOp:
        barrier = parse_value(parser)
        stage = parse_optional_stage(parser)
        parser.parse_punctuation(",")
        phase = parser.parse_operand(i32)
        outstanding = _parse_int(parser) if parser.parse_optional_keyword("outstanding") else 0
        return TryWaitOp(barrier, stage, phase, outstanding=outstanding)

    def print_syntax(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.barrier)
        print_optional_stage(printer, self.stage)
        printer.print_string(", ")
        printer.print_ssa_value(self.phase)
        if self.outstanding:
            printer.print_string(f" outstanding {self.outstanding}")


@irdl_op_definition
class CtaSyncOp(IRDLOperation):
    """`tile.cta_sync`: all threads of the CTA meet and see each other's writes (bar.sync, `__syncthreads`).

    It knows nothing of TMA transfers or MMAs in flight.
    """

    name = "tile.cta_sync"

    traits = traits_def(*EFFECTS)
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()

    def verify_(self) -> None:
        verify_outside_roles(
            self, "it waits for all threads of the CTA, and the others take another path: use tile.role_sync"
        )


FENCES = ("proxy_async", "before_thread_sync", "after_thread_sync")


@irdl_op_definition
class FenceOp(TileOp):
    """`tile.fence proxy_async`: order one kind of access against another.

    * `proxy_async`: the executing thread's shared-memory accesses before, the async proxy's (TMA, MMA) after
      (fence.proxy.async.shared::cta). Every writing thread executes it, then they meet at a barrier.
    * `before_thread_sync`, `after_thread_sync`: tcgen05 operations before or after a synchronisation of threads
      (tcgen05.fence, PTX ISA 9.7.16.6.4); nothing on sm_90a.
    """

    name = "tile.fence"

    kind_attr = prop_def(StringAttr, prop_name="kind")

    traits = traits_def(*EFFECTS)

    def __init__(self, kind: str):
        super().__init__(properties={"kind": StringAttr(kind)})

    @property
    def kind(self) -> str:
        return self.kind_attr.data

    def verify_(self) -> None:
        if self.kind not in FENCES:
            raise VerifyException(f"fence {self.kind}: expected one of {', '.join(FENCES)}")

    @classmethod
    def parse_syntax(cls, parser: Parser) -> FenceOp:
        return FenceOp(parser.parse_identifier(context_msg=f": {', '.join(FENCES)}"))

    def print_syntax(self, printer: Printer) -> None:
        printer.print_string(f" {self.kind}")


@irdl_op_definition
class CommitGroupOp(IRDLOperation):
    """`tile.bulk.commit_group`: this thread's TMA stores since the last one form a group (cp.async.bulk.commit_group)."""

    name = "tile.bulk.commit_group"

    traits = traits_def(*EFFECTS)
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class WaitGroupOp(TileOp):
    """`tile.bulk.wait_group 1 read`: at most so many of this thread's groups are pending afterwards.

    With `read` the others' shared tiles have been read and may be rewritten; without it their writes are done as well
    (cp.async.bulk.wait_group, PTX ISA 9.7.9.25).
    """

    name = "tile.bulk.wait_group"

    pending_attr = prop_def(Int, prop_name="pending")
    read_attr = opt_prop_def(UnitAttr, prop_name="read")

    traits = traits_def(*EFFECTS)

    def __init__(self, pending: int, *, read: bool):
        super().__init__(properties={"pending": IntegerAttr(pending, i64), "read": UnitAttr() if read else None})

    @property
    def pending(self) -> int:
        return self.pending_attr.value.data

    @property
    def read(self) -> bool:
        return self.read_attr is not None

    def verify_(self) -> None:
        if not 0 <= self.pending <= MAX_PENDING:
            raise VerifyException(f"{self.pending} pending groups: a wait leaves 0 to {MAX_PENDING} of them")

    @classmethod
    def parse_syntax(cls, parser: Parser) -> WaitGroupOp:
        pending = _parse_int(parser)
        return WaitGroupOp(pending, read=parser.parse_optional_keyword("read") is not None)

    def print_syntax(self, printer: Printer) -> None:
        printer.print_string(f" {self.pending}{' read' if self.read else ''}")


@irdl_op_definition
class WaitLdOp(IRDLOperation):
    """`tile.tmem.wait_ld`: this thread's accumulator loads are complete (tcgen05.wait::ld)."""

    name = "tile.tmem.wait_ld"

    traits = traits_def(*EFFECTS)
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()
