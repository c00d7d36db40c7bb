"""`mma.sp` and `mma.sp::ordered_metadata` (PTX 9.7.14.6.3): products with a sparse A in the registers of a warp."""

from __future__ import annotations

from tilec.backend.emulator.execution.decode import Decoder, Together, instruction
from tilec.backend.emulator.execution.lanes import Lanes
from tilec.backend.emulator.matrices.values import BITS, accumulate, products
from tilec.backend.emulator.mma.forms import SPARSE, take_form
from tilec.backend.emulator.mma.fragments import accumulator, operand_a, operand_b
from tilec.backend.emulator.mma.operands import bind
from tilec.backend.emulator.mma.registers import check_whole
from tilec.backend.emulator.mma.sparse import Sparsity, take_selector


@instruction("mma.sp")
def mma_sparse(d: Decoder) -> Together:
    return _build(d, ordered=False)


@instruction("mma.sp::ordered_metadata")
def mma_sparse_ordered(d: Decoder) -> Together:
    return _build(d, ordered=True)


def _build(d: Decoder, *, ordered: bool) -> Together:
    opcode = d.instruction.opcode
    if d.take("sync") is None:
        d.unsupported(".sync is missing")
    form = take_form(d)
    d.count(6)
    if not form.legal(SPARSE):
        d.unsupported()
    m, n, k = form.extents
    dt, at, bt, _ = form.types
    c = accumulator(m, n)
    operands = bind(d, form.types, (c, operand_a(m, k // 2, BITS[at]), operand_b(n, k, BITS[bt]), c))
    metadata = d.reader(d.operands[4], "b32")
    sparsity = Sparsity(BITS[at], k, ordered)
    selector = take_selector(d, d.operands[5], sparsity)

    def execute(lanes: Lanes) -> None:
        check_whole(lanes)
        lanes.machine.statistics.mmas[opcode] += lanes.count // 32
        codes = sparsity.codes(lanes, metadata, selector)
        a = sparsity.dense(operands.a(lanes), codes)
        operands.write(lanes, accumulate(dt, products(a, operands.b(lanes)), operands.c(lanes), saturate=form.saturate))

    return Together(execute, "warp")
