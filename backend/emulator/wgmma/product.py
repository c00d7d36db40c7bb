"""The work of one wgmma: what is read, and when."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.execution.decode import Decoder, Reader, Together
from tilec.backend.emulator.execution.engines import AsyncWork
from tilec.backend.emulator.execution.lanes import Lanes
from tilec.backend.emulator.faults import FaultKind
from tilec.backend.emulator.matrices.layout import Descriptor, chunks, decode_wgmma, gather
from tilec.backend.emulator.matrices.values import RAW, accumulate, products, values
from tilec.backend.emulator.wgmma.form import Form, take_form
from tilec.backend.emulator.wgmma.registers import Accumulators, read_a
from tilec.backend.emulator.wgmma.shapes import THREADS, M
from tilec.backend.emulator.wgmma.state import Operation, WarpGroups


def build(d: Decoder, *, sparse: bool) -> Together:
    """What executes a wgmma.mma_async."""
    form = take_form(d, sparse=sparse)
    owned = frozenset(form.accumulators)

    def execute(lanes: Lanes) -> None:
        cta = lanes.cta
        for group in np.unique(lanes.threads // THREADS):
            first = int(group) * THREADS
            if first + THREADS > cta.threads or not cta.alive[first : first + THREADS].all():
                lanes.fault(
                    FaultKind.DIVERGENT,
                    f"wgmma needs the four warps of a warpgroup; of threads {first} to {first + THREADS - 1} some do not exist or "
                    "have exited",
                )
            part = Lanes(cta, slice(first, first + THREADS), THREADS, lanes.instruction)
            work = _issue(form, part)
            warps = range(first // 32, first // 32 + 4)
            cta.part(WarpGroups).issue(warps, Operation(work, owned, form.inputs, form.name))
            lanes.machine.statistics.mmas[form.opcode] += 1

    return Together(execute, "warpgroup")


def _issue(form: Form, lanes: Lanes) -> AsyncWork:
    """Start one wgmma of the warpgroup in `lanes`: what it reads of shared memory is claimed now, registers of A and metadata are
    taken now."""
    cta, shape = lanes.cta, form.shape
    first = int(lanes.threads[0])
    results = cta.part(WarpGroups).results
    where = Accumulators(first, form.accumulators, shape.d, shape.n)
    accumulates = bool(_same(form.accumulate, lanes, "scale-d"))
    b_chunks = chunks(_descriptor(form.b, lanes, "B"), form.major[1], shape.n, shape.k, shape.bits)
    a_chunks: NDArray[np.intp] | None = None
    held_a: NDArray[np.float64] | None = None
    if not callable(form.a):
        held_a = read_a(shape, lanes, form.a)
    else:
        a_chunks = chunks(_descriptor(form.a, lanes, "A"), form.major[0], M, shape.held_k, shape.bits)
    metadata = form.metadata
    codes = None
    if metadata is not None:
        codes = metadata.sparsity.codes(lanes, metadata.register, metadata.selector).reshape(M, -1)

    def read_left() -> NDArray[np.float64]:
        held = held_a
        if a_chunks is not None:
            held = values(shape.a, gather(cta.shared.data, a_chunks, form.major[0], RAW[shape.a]))
        assert held is not None
        return held if metadata is None or codes is None else metadata.sparsity.dense(held, codes)

    def steps() -> Generator[None]:
        left = read_left()
        right = values(shape.b, gather(cta.shared.data, b_chunks, form.major[1], RAW[shape.b]))
        cta.shared.end_read(work)
        left = -left if form.negate[0] else left
        right = -right if form.negate[1] else right
        held = results.take(where) if accumulates else None
        product = products(left, right, form.operation)
        results.put(where, accumulate(shape.d, product, held, saturate=form.saturate))
        return
        yield

    queue = ("wgmma", cta.number, first)
    work = AsyncWork("wgmma", cta, lanes.place(0), steps(), queue=queue, on_done=lanes.machine.touch)
    cta.shared.begin_read(work, np.unique(b_chunks))
    if a_chunks is not None:
        cta.shared.begin_read(work, np.unique(a_chunks))
    lanes.machine.engines.submit(work)
    return work


def _same(read: Reader, lanes: Lanes, name: str) -> int:
    """An operand that all threads of the warpgroup must agree on."""
    found: NDArray[np.generic] = np.asarray(read(lanes))
    if found.ndim:
        different = found != found[0]
        if different.any():
            lane = int(np.argmax(different))
            lanes.fault(FaultKind.DIVERGENT, f"{name} differs between the threads of the warpgroup", lane)
        found = found[0]
    return int(found)


def _descriptor(read: Reader, lanes: Lanes, name: str) -> Descriptor:
    found = decode_wgmma(_same(read, lanes, f"the descriptor of {name}"))
    if isinstance(found, str):
        lanes.fault(FaultKind.DESCRIPTOR, f"{name}: {found}")
    return found
