"""mbarriers: initialisation, arrivals, rounds, waits."""

from __future__ import annotations

from xdsl.ir import Operation

from tilec.backend.protocol.events import Signal
from tilec.backend.protocol.machine import Broken, OutOfScope
from tilec.backend.protocol.rules.context import BOTH, Context, Run, broken, find_signal
from tilec.backend.protocol.rules.order import happens, meet
from tilec.backend.protocol.state import ISSUER, OTHERS, Barrier, State
from tilec.dialects.tile import ArriveExpectTxOp, ArriveOp, MbarrierInitOp, TryWaitOp
from tilec.dialects.tile.sync import MAX_TX_BYTES


def initialise(k: Context, op: MbarrierInitOp, single: bool) -> Run:
    del single
    first, depth = k.events.first[op.res], op.res.type.depth
    event = k.events.signals[first].initialised

    def make(s: State) -> None:
        if s.present & event:
            raise OutOfScope(op, "a barrier that is initialised more than once")
        s.present |= event
        s.known[ISSUER] |= event
        for number in range(first, first + depth):
            s.barriers[number] = Barrier()

    return make


def initialised(k: Context, s: State, op: Operation, number: int, agent: int) -> None:
    if k.events.signals[number].initialised & ~s.known[agent]:
        raise Broken(op, f"{k.events.signals[number].name} is used before its initialisation is visible")


def is_complete(k: Context, number: int, barrier: Barrier) -> bool:
    """Whether all that the round waits for is on its way."""
    return barrier.arrivals == k.events.signals[number].arrivals and barrier.announced == barrier.issued


def complete(k: Context, s: State, op: Operation, number: int) -> None:
    """The round completes. Whoever has waited for the one before must have done so by now."""
    signal, barrier = k.events.signals[number], s.barriers[number]
    clock = s.known[signal.pending]
    late = s.present & (signal.waits[ISSUER] | signal.waits[OTHERS]) & ~clock
    if late or barrier.unobserved:
        raise Broken(op, f"two rounds of {signal.name} may complete without a wait between them")
    s.forget(signal.waits[ISSUER] | signal.waits[OTHERS], k.events.everywhere(signal.waits[0] | signal.waits[1]))
    keep = ~k.events.everywhere(signal.waits[ISSUER] | signal.waits[OTHERS])
    s.age(signal.over)
    s.present |= signal.over
    s.known[signal.complete] = (s.known[signal.pending] | barrier.riding | signal.over) & keep
    s.known[signal.pending] = 0
    s.barriers[number] = Barrier(parity=barrier.parity ^ 1, unobserved=barrier.carries)


def arrive(k: Context, s: State, op: Operation, number: int, released: int, bytes: int, *, carries: bool) -> None:
    initialised(k, s, op, number, ISSUER)
    barrier, signal = s.barriers[number], k.events.signals[number]
    if barrier.arrivals == signal.arrivals:
        # Only a round that needs nothing more is certainly over: arrivals are in when they are made, commits come in order.
        over = not barrier.issued and (carries or not barrier.carries)
        if not over or not is_complete(k, number, barrier):
            raise Broken(op, f"an arrival too many on {signal.name}")
        complete(k, s, op, number)
        barrier = s.barriers[number]
    if barrier.announced + bytes > MAX_TX_BYTES:
        raise Broken(op, f"{signal.name} would have {barrier.announced + bytes} bytes pending: {MAX_TX_BYTES} at most")
    s.known[signal.pending] |= released
    s.barriers[number] = Barrier(
        barrier.parity,
        barrier.arrivals + 1,
        barrier.announced + bytes,
        barrier.issued,
        barrier.riding,
        barrier.carries or carries,
        barrier.unobserved,
    )


def expect_tx(k: Context, op: ArriveExpectTxOp, single: bool) -> Run:
    if not single:
        return broken(op, "every thread of the CTA would announce these bytes")
    signal_of, bytes = find_signal(k, op, op.barrier, op.stage), op.bytes
    return lambda s: arrive(k, s, op, signal_of(s), s.known[ISSUER], bytes, carries=False)


def arrive_role(k: Context, op: ArriveOp, single: bool) -> Run:
    signal_of = find_signal(k, op, op.barrier, op.stage)

    def run(s: State) -> None:
        if not single:
            meet(k, s)
        arrive(k, s, op, signal_of(s), s.known[ISSUER], 0, carries=False)

    return run


def wait(k: Context, op: TryWaitOp, single: bool) -> Run:
    signal_of, at = find_signal(k, op, op.barrier, op.stage), k.ids[op.phase]
    agents = (ISSUER,) if single else BOTH
    machine = k.machine

    def run(s: State) -> None:
        number = signal_of(s)
        signal, barrier = k.events.signals[number], s.barriers[number]
        if single and signal.by_commit:
            raise Broken(op, "a wait for a commit belongs to all threads of its role")
        for agent in agents:
            initialised(k, s, op, number, agent)
        parity = machine.resolved(s, s.environment[at])
        if not isinstance(parity, int):
            raise OutOfScope(op, "the phase of a wait is not known")
        if barrier.parity == parity & 1:
            _complete_now(k, s, op, signal, number)
            barrier = s.barriers[number]
        before = s.present & signal.over << 1
        if any(before & ~s.known[agent] for agent in agents):
            raise Broken(
                op, f"this wait on {signal.name} may come so early that an older round of the same parity lets it pass"
            )
        if signal.by_commit and op.outstanding > s.later_commits[number]:
            raise Broken(op, "this wait leaves more commits outstanding than came after the one that it is for")
        for agent in agents:
            event = signal.waits[agent]
            happens(k, s, event)
            s.known[agent] |= event | s.known[signal.complete]
        if barrier.unobserved:
            s.barriers[number] = barrier._replace(unobserved=False)
        if signal.by_commit and not single:
            meet(k, s)

    return run


def _complete_now(k: Context, s: State, op: Operation, signal: Signal, number: int) -> None:
    barrier = s.barriers[number]
    if not is_complete(k, number, barrier):
        raise Broken(
            op,
            f"this wait on {signal.name} never ends: the round has {barrier.arrivals} of {signal.arrivals} arrivals, "
            f"{barrier.issued} of {barrier.announced} announced bytes",
        )
    complete(k, s, op, number)


rules = {MbarrierInitOp: initialise, ArriveExpectTxOp: expect_tx, ArriveOp: arrive_role, TryWaitOp: wait}
