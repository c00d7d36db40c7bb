"""What all instructions of an abstract execution share: bounds, counters, and choices between outcomes that are both possible."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from xdsl.ir import Operation

from tilec.backend.protocol.state import State, aged
from tilec.backend.protocol.values import (
    INFINITY,
    UNKNOWN,
    Bound,
    Coordinate,
    Difference,
    Interval,
    Linear,
    Past,
    Residue,
    Value,
)


class Broken(Exception):
    """The protocol does not hold at `op` of this path."""

    def __init__(self, op: Operation, message: str):
        super().__init__(message)
        self.op = op
        self.message = message


class OutOfScope(Exception):
    """This kernel is outside of what can be proved, and why."""

    def __init__(self, op: Operation, reason: str):
        super().__init__(reason)
        self.op = op
        self.reason = reason


class Restart(Exception):
    """A number has turned out to be compared with a larger constant than was known when numbers beyond were forgotten."""


@dataclass
class Machine:
    """Facts of one kernel that its instructions need, and the states that wait for their turn."""

    bounds: list[Bound] = field(default_factory=list[Bound])
    initial: list[Interval] = field(default_factory=list[Interval])
    """By bound, what is known of it before the kernel starts."""
    counter_moduli: list[int] = field(default_factory=list[int])
    """By counter, the modulus whose residue is kept."""
    counter_steps: list[int] = field(default_factory=list[int])
    """By counter, what one iteration adds."""
    counter_limits: list[int] = field(default_factory=list[int])
    bound_limits: list[int] = field(default_factory=list[int])
    """The largest constants that they are compared with; beyond, numbers are not told apart."""
    forgot_bounds: bool = False
    waiting: list[State] = field(default_factory=list[State])

    # Bounds and counters

    def bound(self, bound: Bound, initial: Interval) -> int:
        """The number of a bound, which is made at its first use."""
        if bound in self.bounds:
            return self.bounds.index(bound)
        self.bounds.append(bound)
        self.initial.append(initial)
        self.bound_limits.append(0)
        return len(self.bounds) - 1

    def counter(self, step: int, modulus: int) -> int:
        """A new counter; its number follows those of all counters before."""
        self.counter_steps.append(step)
        self.counter_moduli.append(modulus)
        self.counter_limits.append(0)
        return len(self.counter_steps) - 1

    # What is known of a value. Bases of `Linear` are counters from 0 on, and bounds as ~number.

    def interval(self, s: State, value: Value) -> Interval:
        match value:
            case int():
                return Interval(value, value)
            case Linear(base, offset, scale):
                found = s.counters[base] if base >= 0 else self.bound_interval(s, ~base)
                if found is None:
                    return Interval(-INFINITY, INFINITY)
                return _scaled(found, scale).shifted(offset)
            case Coordinate():
                return Interval(0, INFINITY)
            case _:
                return Interval(-INFINITY, INFINITY)

    def resolved(self, s: State, value: Value) -> Value:
        """A number where only one is possible."""
        if isinstance(value, Linear):
            interval = self.interval(s, value)
            if interval.exact:
                return interval.low
        return value

    def residue(self, s: State, value: Value) -> Residue | None:
        """What is known of a number modulo something."""
        match value:
            case Residue():
                return value
            case Linear(base, offset, scale) if base >= 0 and s.counters[base] is not None:
                modulus = self.counter_moduli[base] * scale
                return Residue(modulus, (scale * s.moduli[base] + offset) % modulus)
            case _:
                return None

    def bound_interval(self, s: State, bound: int) -> Interval:
        _, parent, divisor, addend, _, _ = self.bounds[bound]
        if parent is None:
            return s.bounds[bound]
        of = s.bounds[parent]
        return Interval(
            (of.low + addend) // divisor, INFINITY if of.high >= INFINITY // 2 else (of.high + addend) // divisor
        )

    # Tests. Where both outcomes are possible, the state goes on with true, and a copy waits that will take false.

    def below(self, s: State, a: Value, b: Value) -> bool:
        """Whether a < b."""
        match a, b:  # what a counter is compared with tells its distance, whatever its own value is
            case Linear(one, offset, scale), Linear(other, addend, 1) if one >= 0 > other:
                return self._difference_above(s, ~other, one, scale, offset - addend)
            case Linear(one, offset, 1), Linear(other, addend, scale) if one < 0 <= other:
                return not self._difference_above(s, ~one, other, scale, addend - offset - 1)
            case _:
                pass
        match self.resolved(s, a), self.resolved(s, b):
            case int(x), int(y):
                return x < y
            case Linear(base, offset, scale), int(y):
                return not self._base_above(s, base, scale, y - offset - 1)
            case int(x), Linear(base, offset, scale):
                return self._base_above(s, base, scale, x - offset)
            case Linear(one, offset, scale), Linear(other, addend, factor) if (one, scale) == (other, factor):
                return offset < addend
            case _:
                return self.free(s)

    def equal(self, s: State, a: Value, b: Value) -> bool:
        a, b = self.resolved(s, a), self.resolved(s, b)
        if isinstance(a, int) and isinstance(b, int):
            return a == b
        if isinstance(a, Linear | int) and isinstance(b, Linear | int):
            return not self.below(s, a, b) and not self.below(s, b, a)
        return self.free(s)

    def free(self, s: State) -> bool:
        """A test of which nothing is known: both outcomes are followed."""
        raise OutcomeUnknown

    def _fork(self, s: State) -> State:
        """A copy that executes the current instruction again."""
        other = s.clone()
        other.pc = s.pc - 1
        self.waiting.append(other)
        return other

    def _base_above(self, s: State, base: int, scale: int, limit: int) -> bool:
        """Whether scale * base > limit."""
        limit //= scale
        if base < 0:
            return self._bound_above(s, ~base, limit)
        interval = s.counters[base]
        if interval is None:
            return self.free(s)
        if interval.low > limit:
            return True
        if interval.high <= limit:
            return False
        self.counter_limits[base] = max(limit, self.counter_limits[base])
        raise Restart

    def _bound_above(self, s: State, bound: int, limit: int) -> bool:
        name, parent, divisor, addend, step, multiple = self.bounds[bound]
        del name
        if parent is not None:  # (parent + addend) // divisor > limit
            return self._bound_above(s, parent, divisor * (limit + 1) - addend - 1)
        interval = s.bounds[bound]
        whole = Difference(interval.low, interval.high, step, multiple)
        above, rest = whole.within(limit + 1, INFINITY), whole.within(-INFINITY, limit)
        if above is not None and rest is not None:
            if limit > self.bound_limits[bound]:
                self.bound_limits[bound] = limit
                if self.forgot_bounds:
                    raise Restart
            self._fork(s).bounds[bound] = Interval(rest.low, rest.high)
        if above is not None:
            s.bounds[bound] = Interval(above.low, above.high)
        return above is not None

    def difference(self, s: State, bound: int, counter: int, scale: int) -> Difference | None:
        """What is known of ``bound - scale * counter``."""
        values = s.counters[counter]
        if values is None:
            return None
        values, limits = _scaled(values, scale), self.bound_interval(s, bound)
        low = limits.low - values.high if values.high < INFINITY // 2 else -INFINITY
        high = limits.high - values.low if limits.high < INFINITY // 2 else INFINITY
        known = s.differences.get((bound, counter, scale))
        if known is None:
            known = self._new_difference(bound, low, high, values)
        return known.within(low, high) or known

    def _new_difference(self, bound: int, low: int, high: int, values: Interval) -> Difference:
        _, parent, divisor, addend, step, multiple = self.bounds[bound]
        if parent is not None:
            of = self.bounds[parent]
            if of.multiple > 1 and divisor == of.step and addend == divisor - 1:
                step, multiple = 1, of.multiple
        if multiple == 1 or not values.exact or values.low % step:
            return Difference(low, high)
        return Difference(low, high, step, multiple, -(values.low // step) % multiple)

    def _difference_above(self, s: State, bound: int, counter: int, scale: int, limit: int) -> bool:
        """Whether bound - scale * counter > limit."""
        whole = self.difference(s, bound, counter, scale)
        if whole is None:
            return self.free(s)
        above, rest = whole.within(limit + 1, INFINITY), whole.within(-INFINITY, limit)
        key = (bound, counter, scale)
        if above is not None and rest is not None:
            other = self._fork(s)
            other.differences[key] = rest
            self._refine_bound(other, *key)
        chosen = rest if above is None else above
        if chosen is not None:
            s.differences[key] = chosen
            self._refine_bound(s, *key)
        return above is not None

    def _refine_bound(self, s: State, bound: int, counter: int, scale: int) -> None:
        """What a difference says of its bound."""
        values, difference = s.counters[counter], s.differences[bound, counter, scale]
        assert values is not None
        values = _scaled(values, scale)
        low = values.low + difference.low
        high = INFINITY if max(values.high, difference.high) >= INFINITY // 2 else values.high + difference.high
        path = s.path.get(counter)
        if path is not None and difference.high < INFINITY // 2:
            s.path[~bound] = scale * path + difference.high
        _, parent, divisor, addend, _, _ = self.bounds[bound]
        if parent is not None:
            bound, low = parent, low * divisor - addend
            high = INFINITY if high >= INFINITY // 2 else high * divisor - addend + divisor - 1
        old = s.bounds[bound]
        s.bounds[bound] = Interval(max(old.low, low), max(min(old.high, high), max(old.low, low)))

    # Counters

    def enter(self, s: State, counter: int, value: Value) -> Value:
        """A loop starts: its counter has this value, which may be what it was when the loop ended last time."""
        value = self.resolved(s, value)
        interval, known = self.interval(s, value), self.residue(s, value)
        self.leave(s, counter)
        modulus = self.counter_moduli[counter]
        if isinstance(value, int):
            s.moduli[counter] = value % modulus
        elif known is not None and known.modulus % modulus == 0:
            s.moduli[counter] = known.residue % modulus
        elif modulus > 1:
            return UNKNOWN
        s.counters[counter] = interval
        s.path[counter] = value if isinstance(value, int) else 0
        return Linear(counter, 0, 1)

    def leave(self, s: State, counter: int) -> None:
        """Nobody may speak of the counter's old values any more."""
        if s.counters[counter] is None:
            return
        self._replace(s, counter, lambda value: _fixed(self, s, value), range(len(s.environment)))
        s.counters[counter] = None
        s.moduli[counter] = 0
        s.differences = {key: known for key, known in s.differences.items() if key[1] != counter}

    def advance(self, s: State, counter: int, by: int, places: Iterable[int]) -> None:
        """The next iteration: the counter has grown, and all that is said in its terms is said anew.

        `places` are those of the environment that will be used again.
        """
        interval = s.counters[counter]
        if interval is None:
            return
        self._replace(s, counter, lambda value: Linear(counter, value.offset - value.scale * by, value.scale), places)
        if s.regions:
            s.regions = frozenset(aged(region, counter) for region in s.regions)
        s.counters[counter] = interval.shifted(by)
        s.moduli[counter] = (s.moduli[counter] + by) % self.counter_moduli[counter]
        for key, known in s.differences.items():
            if key[1] == counter:
                s.differences[key] = known.advanced(key[2] * by)
        s.path[counter] = s.path.get(counter, 0) + by

    def _replace(self, s: State, counter: int, change: Callable[[Linear], Value], places: Iterable[int]) -> None:
        """Change every value that is linear in a counter."""

        def changed(value: Value) -> Value:
            if isinstance(value, Linear) and value.base == counter:
                return change(value)
            if isinstance(value, Coordinate) and isinstance(value.turn, Linear) and value.turn.base == counter:
                turn = change(value.turn)
                if isinstance(turn, Linear | int):
                    return Coordinate(turn, value.dimension, value.offset)
                return UNKNOWN
            return value

        environment = s.environment
        for place in places:
            value = environment[place]
            if type(value) is Linear or type(value) is Coordinate:
                environment[place] = changed(value)
        stored = changed(s.stored)
        s.stored = stored if isinstance(stored, Linear | int) else Past(counter)
        for place, accumulator in enumerate(s.accumulators):
            if isinstance(accumulator.tile, Linear) and accumulator.tile.base == counter:
                tile = change(accumulator.tile)
                s.accumulators[place] = accumulator._replace(tile=tile if isinstance(tile, Linear | int) else None)
        if s.regions:
            s.regions = frozenset(
                region._replace(start=tuple(changed(v) if isinstance(v, tuple) else v for v in region.start))
                for region in s.regions
            )


class OutcomeUnknown(Exception):
    """A test of unknown values."""


def _scaled(interval: Interval, scale: int) -> Interval:
    if scale == 1:
        return interval
    low = -INFINITY if interval.low <= -INFINITY // 2 else interval.low * scale
    return Interval(low, INFINITY if interval.high >= INFINITY // 2 else interval.high * scale)


def _fixed(machine: Machine, s: State, value: Linear) -> Value:
    found = machine.resolved(s, value)
    if not isinstance(found, Linear):
        return found
    known = machine.residue(s, found)
    return UNKNOWN if known is None or known.modulus == 1 else known
