"""All states of an abstract execution: every K, every number of tiles per CTA.

The threads of a CTA walk one control flow, so that for given extents one path is run; paths part only where a comparison
of extents and counters may have either outcome. At the head of each loop a state is brought to a normal form, in which
numbers that nothing tells apart are the same number, and dropped if it was there before. When no state is left, all that can
happen has been seen. What other orders of the threads and engines could do is judged by happens-before at each access, so
that one order is enough.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation

from tilec.backend.protocol.flatten import flatten
from tilec.backend.protocol.machine import Broken, OutOfScope, Restart
from tilec.backend.protocol.program import Program
from tilec.backend.protocol.state import ISSUER, OTHERS, State, aged
from tilec.backend.protocol.values import INFINITY, Coordinate, Interval, Linear, Past, Value
from tilec.dialects.tile import KernelOp

_MOST_STATES = 8_000
_MOST_PATHS = 30_000
_MOST_RESTARTS = 400


@dataclass(frozen=True)
class Proof:
    """The protocol holds for every size."""

    states: int


@dataclass(frozen=True)
class Counterexample:
    """A path on which it does not, and sizes that should take it: by bound, and the number of turns."""

    op: Operation
    message: str
    extents: dict[int, int]
    """By the key of an extent (see `program`)."""
    turns: int


@dataclass(frozen=True)
class Unproved:
    """The kernel is outside of what can be proved."""

    op: Operation
    reason: str


def explore(kernel: KernelOp, *, any_extent: bool = True) -> Proof | Counterexample | Unproved:
    """Decide an asynchronous kernel."""
    try:
        program = flatten(kernel, any_extent=any_extent)
        for _ in range(_MOST_RESTARTS):
            try:
                return _Explorer(program).run()
            except Restart:
                program.context.machine.waiting.clear()
        return Unproved(kernel, "comparisons with ever larger constants")
    except OutOfScope as limit:
        return Unproved(limit.op, limit.reason)


class TooMany(Exception):
    """More states than are worth while."""


class _Explorer:
    def __init__(self, program: Program):
        self.program = program
        self.machine = program.context.machine
        self.machine.forgot_bounds = False
        self.seen: dict[int, set[object]] = {head: set() for head in program.heads}
        self.visited = self.paths = 0

    def run(self) -> Proof | Counterexample | Unproved:
        code = [one.run for one in self.program.code]
        heads = self.program.heads
        waiting = self.machine.waiting
        end = len(code)
        waiting.append(self.program.start())
        while waiting:
            s = waiting.pop()
            self.paths += 1
            at = s.pc
            try:
                if self.paths > _MOST_PATHS:
                    raise TooMany
                while at < end:
                    if at in heads and not self._is_new(s, at):
                        break
                    s.pc = at + 1
                    code[at](s)
                    at = s.pc
            except Broken as broken:
                waiting.clear()
                return self._counterexample(s, broken)
            except TooMany:
                waiting.clear()
                return Unproved(self.program.code[at].op, f"more than {_MOST_STATES} states")
        return Proof(self.visited)

    def _counterexample(self, s: State, broken: Broken) -> Counterexample:
        extents: dict[int, int] = {}
        for bound, interval in zip(self.machine.bounds, s.bounds, strict=False):
            number = self.machine.bounds.index(bound)
            if bound.name.startswith("extent ") and bound.parent is None:
                wanted = s.path.get(~number, interval.low)
                extents[int(bound.name.removeprefix("extent "))] = max(0, wanted, interval.low)
        turns = max((s.path.get(c, 0) + 1 for c in self.program.context.turn_counters.values()), default=1)
        return Counterexample(broken.op, broken.message, extents, turns)

    # Normal form

    def _is_new(self, s: State, at: int) -> bool:
        self._forget_numbers(s, at)
        if at in self.program.fenced:
            s.snapshots = [0, 0]
        self._forget_events(s, at)
        live, old = self.program.live[at], s.environment
        s.environment = [0] * len(old)
        for v in live:
            s.environment[v] = old[v]
        key = (
            tuple([old[v] for v in live]),
            tuple(s.counters),
            tuple(s.moduli),
            tuple(s.bounds),
            tuple(sorted(s.differences.items())),
            tuple(s.known),
            tuple(s.snapshots),
            s.present,
            tuple(s.barriers),
            tuple(s.accumulators),
            tuple(s.later_commits),
            s.pending_loads,
            s.open,
            s.groups,
            s.regions,
            s.stored,
            s.covered,
        )
        seen = self.seen[at]
        if key in seen:
            return False
        seen.add(key)
        self.visited += 1
        if self.visited > _MOST_STATES:
            raise TooMany
        return True

    def _forget_numbers(self, s: State, at: int) -> None:
        machine = self.machine
        active = self.program.heads[at]
        for counter, interval in enumerate(s.counters):
            if interval is None:
                continue
            if counter not in active and not self._is_spoken_of(s, counter, at):
                machine.leave(s, counter)
            elif interval.low > (limit := machine.counter_limits[counter]):
                for key in s.differences:  # what its own number says of them goes with it
                    if key[1] == counter and (known := machine.difference(s, *key)) is not None:
                        s.differences[key] = known
                if interval.exact and counter in self.program.context.turn_counters.values():
                    self._relate(s, counter, interval.low)
                s.counters[counter] = Interval(limit + 1, INFINITY)
        if isinstance(s.stored, Linear) and s.stored.offset < -2:
            s.stored = Past(s.stored.base)  # tiles have been left out, however many
        for bound, interval in enumerate(s.bounds):
            limit = machine.bound_limits[bound]
            if machine.initial[bound].exact:
                continue
            low = min(interval.low, limit + 1)
            high = INFINITY if interval.high > limit else interval.high
            if (low, high) != interval:
                machine.forgot_bounds = True
                s.bounds[bound] = Interval(low, high)

    def _forget_events(self, s: State, at: int) -> None:
        """Drop what both agents know already: nothing that waits for it can fail, and nobody learns it from a barrier."""
        events = self.program.context.events
        width = events.width
        both = s.known[ISSUER] & s.known[OTHERS]
        over = s.present & both & (events.engine_reads | events.rounds)
        over |= s.present & both & both >> width & events.thread_reads
        published = both if at in self.program.fenced else s.snapshots[ISSUER] & s.snapshots[OTHERS] & both
        over |= (
            s.present & (published >> 2 * width) & (events.accumulator_reads[ISSUER] | events.accumulator_reads[OTHERS])
        )
        s.forget(over, events.everywhere(over))
        known = s.known
        for signal in events.signals:
            known[signal.complete] &= ~both
            known[signal.pending] &= ~both | signal.waits[ISSUER] | signal.waits[OTHERS]

    def _is_spoken_of(self, s: State, counter: int, at: int) -> bool:
        values: list[Value] = [s.environment[v] for v in self.program.live[at]]
        if isinstance(s.stored, Linear):
            values.append(s.stored)
        values += [one.tile for one in s.accumulators if one.tile is not None]
        values += [place for region in s.regions for place in region.start]
        return any(
            (isinstance(v, Linear) and v.base == counter)
            or (isinstance(v, Coordinate) and isinstance(v.turn, Linear) and v.turn.base == counter)
            for v in values
        )

    def _relate(self, s: State, counter: int, value: int) -> None:
        """Turns that were numbers are said in terms of the counter, whose own number is about to be forgotten."""

        def related(turn: int) -> Linear:
            return Linear(counter, turn - value, 1)

        def moved(found: Value) -> Value:
            if isinstance(found, Coordinate) and isinstance(found.turn, int):
                return found._replace(turn=related(found.turn))
            return found

        s.environment = [moved(found) for found in s.environment]
        s.regions = frozenset(
            aged(region._replace(start=tuple(moved(place) for place in region.start)), counter) for region in s.regions
        )
        if isinstance(s.stored, int):
            s.stored = related(s.stored)
