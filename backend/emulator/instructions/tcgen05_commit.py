"""`tcgen05.commit` and `tcgen05.fence` (PTX 9.7.16.11, 9.7.16.12)."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import numpy as np

from tilec.backend.emulator.execution.cta import Cta
from tilec.backend.emulator.execution.decode import Decoder, Reader
from tilec.backend.emulator.execution.engines import AsyncWork
from tilec.backend.emulator.execution.lanes import Execute, Lanes
from tilec.backend.emulator.faults import FaultKind
from tilec.backend.emulator.synchronisation.mbarrier import MBarrier, find
from tilec.backend.emulator.tcgen05.decoding import take_group, tcgen05
from tilec.backend.emulator.tcgen05.pipeline import Pipeline, once, queue_of

_NAME = "tcgen05.commit"


@tcgen05("tcgen05.commit")
def commit(d: Decoder) -> Execute:
    """Once all that the thread has issued has completed, an arrival on the mbarrier follows, in each CTA that is named."""
    group = take_group(d)
    if d.take("mbarrier::arrive::one") is None:
        d.unsupported(".mbarrier::arrive::one is missing")
    space = d.take("shared::cluster")
    multicast = d.take("multicast::cluster") is not None
    if d.take("b64") is None:
        d.unsupported(".b64 is missing")
    d.finish()
    d.count(2 if multicast else 1)
    address = _address(d, space)
    mask = d.reader(d.operands[1], "u16") if multicast else None

    def execute(lanes: Lanes) -> None:
        addresses = np.broadcast_to(address(lanes), (lanes.count,))
        masks = None if mask is None else np.broadcast_to(mask(lanes), (lanes.count,))
        for lane in range(lanes.count):
            where = int(addresses[lane])
            ranks = [where >> 24] if masks is None else [rank for rank in range(16) if int(masks[lane]) >> rank & 1]
            _submit(lanes, lane, group, where & 0xFFFFFF, ranks)

    return execute


def _address(d: Decoder, space: str | None) -> Reader:
    """The shared address of the mbarrier. Where PTX asks for a generic address, Triton gives a shared one all the same, and hardware
    takes it: the instruction knows no other memory. A generic address of shared memory never looks like that."""
    plain = d.address(d.operands[0])
    if space is not None or d.names_shared(d.operands[0]):
        return plain
    generic = d.shared_address(d.operands[0], None)
    return lambda lanes: plain(lanes) if (plain(lanes) >> np.uint64(32) == 0).all() else generic(lanes)


def _submit(lanes: Lanes, lane: int, group: int, offset: int, ranks: Sequence[int]) -> None:
    cta = lanes.cta
    for rank in ranks:
        cta.cluster.shared_of(lanes, rank)
    thread = int(lanes.threads[lane])
    pipeline = cta.part(Pipeline)
    covered = pipeline.outstanding(thread)

    def arrive() -> None:
        for rank in ranks:
            barrier = _barrier(cta.cluster.ctas[rank], offset, work)
            if covered:
                barrier.when_seen(lambda: pipeline.complete(thread, covered))
            barrier.arrive()

    work = AsyncWork(_NAME, cta, lanes.place(lane), once(arrive), queue_of(cta, group))
    if all(operation.work.done for operation in covered):
        work.advance()
        return
    signals = pipeline.signals_of(thread, covered)
    if not signals:
        lanes.machine.engines.submit(AsyncWork(_NAME, cta, work.place, _together(signals), work.queue))
    signals.append(work)


def _together(signals: list[AsyncWork]) -> Generator[None]:
    """All commits that cover the same are signalled at once."""
    while signals:
        signals.pop(0).advance()
    return
    yield


def _barrier(cta: Cta, offset: int, work: AsyncWork) -> MBarrier:
    if cta.exited:
        work.fault(
            FaultKind.LEFT_BEHIND,
            f"{_NAME} arrives on an mbarrier of CTA {cta.index}, which has exited",
            "no CTA may exit before its peers are done with its shared memory",
        )
    return find(cta, offset, work)


@tcgen05("tcgen05.fence::before_thread_sync", "tcgen05.fence::after_thread_sync")
def fence(d: Decoder) -> Execute:
    """Orders tensor-memory accesses of threads around their synchronisation. Here they are in order, and what has not completed
    is judged by its completion: compilers leave these fences out where hardware does not need them."""
    d.finish()
    d.count(0)
    return lambda lanes: None
