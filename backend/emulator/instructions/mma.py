"""`mma.sync` (PTX 9.7.14.5.14): products of small matrices in the registers of a warp."""

from __future__ import annotations

import numpy as np

from tilec.backend.emulator.execution.decode import Decoder, Together, instruction
from tilec.backend.emulator.execution.lanes import Lanes
from tilec.backend.emulator.matrices.values import ACCUMULATORS, BITS, accumulate, fused_doubles, products
from tilec.backend.emulator.mma.forms import DENSE, Form, take_form
from tilec.backend.emulator.mma.fragments import QUADS, accumulator, operand_a, operand_b
from tilec.backend.emulator.mma.operands import Operands, bind, placed
from tilec.backend.emulator.mma.registers import check_whole, write


@instruction("mma.sync")
def mma(d: Decoder) -> Together:
    opcode = d.instruction.opcode
    form = take_form(d)
    d.count(4)
    if not (form.legal_quads() if form.quads else form.legal(DENSE)):
        d.unsupported()
    operands = _quad_operands(d, form) if form.quads else _operands(d, form)
    multiply = _multiply_quads if form.quads else _multiply

    def execute(lanes: Lanes) -> None:
        check_whole(lanes)
        lanes.machine.statistics.mmas[opcode] += lanes.count // 32
        multiply(form, operands, lanes)

    return Together(execute, "warp")


def _operands(d: Decoder, form: Form) -> Operands:
    m, n, k = form.extents
    _, at, bt, _ = form.types
    c = accumulator(m, n)
    return bind(d, form.types, (c, operand_a(m, k, BITS[at]), operand_b(n, k, BITS[bt]), c))


def _quad_operands(d: Decoder, form: Form) -> Operands:
    dt, _, _, ct = form.types
    a, b = QUADS.operand_a(form.layouts[0]), QUADS.operand_b(form.layouts[1])
    return bind(d, form.types, (QUADS.accumulator(dt), a, b, QUADS.accumulator(ct)))


def _multiply(form: Form, operands: Operands, lanes: Lanes) -> None:
    a, b, c = operands.a(lanes), operands.b(lanes), operands.c(lanes)
    if form.types[0] == "f64":
        total = fused_doubles(a, b, c)
    else:
        total = accumulate(form.types[0], products(a, b, form.operation), c, saturate=form.saturate)
    operands.write(lanes, total)


def _multiply_quads(form: Form, operands: Operands, lanes: Lanes) -> None:
    """Four products of 8x8x4, each by the eight lanes of one quad pair."""
    result = operands.fragments[0]
    elements = operands.elements_a(lanes), operands.elements_b(lanes), operands.elements_c(lanes)
    out = np.empty((lanes.count // 32, 32, 8), ACCUMULATORS[form.types[0]])
    for quad in range(4):
        mine = QUADS.of == quad
        a, b, c = (
            placed(e[:, mine], (f[0][mine], f[1][mine])) for e, f in zip(elements, operands.fragments[1:], strict=True)
        )
        total = accumulate(form.types[0], products(a, b), c)
        out[:, mine] = total[:, result[0][mine], result[1][mine]]
    write(lanes, operands.d, out)
