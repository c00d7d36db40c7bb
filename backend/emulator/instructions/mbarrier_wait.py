"""`mbarrier.test_wait` and `mbarrier.try_wait` (PTX 9.7.13.15.16), by state and by parity."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.execution.decode import Decoder, Writer, instruction
from tilec.backend.emulator.execution.lanes import Answer, Execute, Lanes, Part, Wait
from tilec.backend.emulator.execution.polls import Polls
from tilec.backend.emulator.instructions.mbarrier import take_b64, take_semantics, take_space, uses
from tilec.backend.emulator.synchronisation.mbarrier import MBarrier, find, phase_of


@instruction("mbarrier.test_wait", "mbarrier.try_wait")
def wait(d: Decoder) -> Execute:
    """`test_wait` answers at once. `try_wait` parks threads whose phase has not completed; the time that it may take is not
    modelled, but it may end without success at any time."""
    blocks = d.instruction.parts[1] == "try_wait"
    by_parity = d.take("parity") is not None
    space = take_space(d, remote=False)
    take_semantics(d, "acquire", "relaxed")
    take_b64(d)
    d.finish()
    if d.count(3, 4) == 4:
        if not blocks:
            d.unsupported("a time limit belongs to try_wait")
        d.reader(d.operands[3], "u32")
    write = d.writer(d.operands[0], "pred")
    read_address = d.shared_address(d.operands[1], space)
    read_wanted = d.reader(d.operands[2], "u32" if by_parity else "b64")

    def execute(lanes: Lanes) -> Answer:
        wanted = np.broadcast_to(read_wanted(lanes), (lanes.count,))
        results = np.zeros(lanes.count, np.bool_)
        waiting: list[tuple[MBarrier, NDArray[np.intp]]] = []
        for use in uses(lanes, read_address(lanes), remote=False):
            barrier = find(use.cta, use.offset, lanes, int(use.lanes[0]))
            done = _completed(barrier, lanes, use.lanes, wanted[use.lanes], by_parity=by_parity)
            results[use.lanes] = done
            if done.any():
                barrier.see()
                if by_parity:
                    barrier.passed = lanes.instruction.line, barrier.phase
            if not done.all():
                waiting.append((barrier, use.lanes[~done]))
        write(lanes, results)
        if not waiting:
            return None
        parts: list[Part] = []
        for barrier, positions in waiting:
            part = lanes if len(positions) == lanes.count else lanes.only(positions)
            wait = _wait(part, barrier, write)
            lanes.cta.part(Polls).failed(part, wait)
            parts.append(Part(positions, wait))
        if not blocks:
            return None
        if not results.any():
            return parts[0].wait if len(parts) == 1 else parts
        return [Part(np.flatnonzero(results), None), *parts]

    return execute


def _completed(
    barrier: MBarrier, lanes: Lanes, positions: NDArray[np.intp], wanted: NDArray[np.uint64], *, by_parity: bool
) -> NDArray[np.bool_]:
    """Whether the phase that each lane names has completed.

    A parity names the current or the preceding phase: hardware compares it with the lowest bit of the phase, so that a thread
    that asks for an older phase gets a wrong answer.
    """
    if by_parity:
        return (wanted & 1) != (barrier.phase & 1)
    done = np.empty(len(positions), np.bool_)
    for state in np.unique(wanted):
        which = wanted == state
        barrier.use(lanes, int(positions[np.argmax(which)]))
        done[which] = barrier.completed(phase_of(int(state)))
    return done


def _wait(lanes: Lanes, barrier: MBarrier, write: Writer) -> Wait:
    """Threads that are suspended until the phase that is current now has completed."""
    phase = barrier.phase

    def ready() -> bool:
        barrier.use(lanes, 0)
        return barrier.phase != phase

    def then() -> None:
        write(lanes, np.array(barrier.phase != phase))
        if barrier.phase != phase:
            barrier.see()
            barrier.passed = lanes.instruction.line, barrier.phase

    def describe() -> str:
        return f"phase {phase} (parity {phase & 1}) of {barrier}, which {barrier.state()}"

    return Wait(ready, describe, then, may_give_up=True, hint=barrier.hint)
