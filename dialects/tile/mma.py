"""Matrix multiply-accumulate and its completion."""

from __future__ import annotations

from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tilec.dialects.tile.assembly import EFFECTS, TileOp, parse_value
from tilec.dialects.tile.sync import ArrivalOp
from tilec.dialects.tile.types import AccType, SmemType


@irdl_op_definition
class MmaOp(TileOp):
    """`tile.mma %acc, %a, %b`: acc[M, N] += a[M, K] * b[N, K]^T, products summed in f32.

    At L0 it is complete when the next operation starts. With `accumulate %flag` (L1) it is asynchronous and collective
    over its role: a false flag overwrites the accumulator, and `tile.commit` with a wait on its barrier is the only
    completion (tcgen05.mma, PTX ISA 9.7.16.10; wgmma.mma_async, 9.7.15.5).
    """

    name = "tile.mma"

    acc = operand_def(AccType)
    a = operand_def(SmemType)
    b = operand_def(SmemType)
    accumulate = opt_operand_def(i1)

    traits = traits_def(*EFFECTS)

    def __init__(self, acc: SSAValue, a: SSAValue, b: SSAValue, accumulate: SSAValue | None = None):
        super().__init__(operands=[acc, a, b, accumulate])

    def verify_(self) -> None:
        acc, a, b = self.acc.type, self.a.type, self.b.type
        assert isinstance(acc, AccType) and isinstance(a, SmemType) and isinstance(b, SmemType)
        if len(a.shape) != 2 or len(b.shape) != 2:
            raise VerifyException("the operands of an MMA have rank 2")
        if a.element != b.element:
            raise VerifyException(f"operands of different types: {a.dtype.name} and {b.dtype.name}")
        if not a.dtype.mma_operand:
            raise VerifyException(f"no MMA takes {a.dtype.name} operands: f16 and bf16 are supported")
        if a.shape[1] != b.shape[1]:
            raise VerifyException(
                f"K differs: a is {a.shape[0]}x{a.shape[1]} (MxK), b is {b.shape[0]}x{b.shape[1]} (NxK)"
            )
        if acc.shape != (a.shape[0], b.shape[0]):
            raise VerifyException(
                f"the accumulator is {acc.shape[0]}x{acc.shape[1]}, but a has {a.shape[0]} rows (M) "
                f"and b has {b.shape[0]} (N)"
            )
        if a.shape[1] % a.dtype.mma_k:
            raise VerifyException(
                f"K = {a.shape[1]} is not a multiple of {a.dtype.mma_k}, the K of one {a.dtype.name} instruction"
            )

    @classmethod
    def parse_syntax(cls, parser: Parser) -> MmaOp:
        acc = parse_value(parser)
        parser.parse_punctuation(",")
        a = parse_value(parser)
        parser.parse_punctuation(",")
        b = parse_value(parser)
        flag = parser.parse_operand(i1) if parser.parse_optional_keyword("accumulate") else None
        return MmaOp(acc, a, b, flag)

    def print_syntax(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list((self.acc, self.a, self.b), printer.print_ssa_value)
        if self.accumulate is not None:
            printer.print_string(" accumulate ")
            printer.print_ssa_value(self.accumulate)


@irdl_op_definition
class CommitOp(ArrivalOp):
    """`tile.commit %done[%s]`: one arrival on the barrier when all earlier MMAs of the role are complete.

    tcgen05.commit (PTX ISA 9.7.16.9.1), by one thread; on sm_90a wgmma.commit_group.
    """

    name = "tile.commit"
