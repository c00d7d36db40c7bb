"""A kernel's protocol as a list of instructions."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import Operation

from tilec.backend.protocol.rules.context import Context, Run
from tilec.backend.protocol.state import Accumulator, Barrier, State


@dataclass(eq=False)
class Instruction:
    """One step. `run` changes the state, whose `pc` is the next instruction already."""

    op: Operation
    run: Run
    uses: tuple[int, ...] = ()
    defines: tuple[int, ...] = ()
    targets: tuple[int, ...] = ()
    falls_through: bool = True


@dataclass
class Program:
    """A kernel's instructions, and what their execution needs."""

    context: Context
    code: list[Instruction] = field(default_factory=list[Instruction])
    heads: dict[int, frozenset[int]] = field(default_factory=dict[int, frozenset[int]])
    """By the place of a loop's head, the counters of the loops around it and its own."""
    live: dict[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    """By head, the values that are used from there on."""
    fenced: set[int] = field(default_factory=set[int])
    """Heads behind which a `fence after_thread_sync` comes before all tensor-core operations."""
    values: int = 0

    def start(self) -> State:
        s = State()
        s.pc = 0
        s.environment = [0] * self.values
        counters = len(self.context.machine.counter_steps)
        s.counters, s.moduli = [None] * counters, [0] * counters
        s.bounds = list(self.context.machine.initial)
        s.differences = {}
        s.known = [0] * (2 + 2 * len(self.context.events.signals))
        s.snapshots = [0, 0]
        s.present = 0
        s.barriers = [Barrier()] * len(self.context.events.signals)
        s.accumulators = [Accumulator()] * len(self.context.events.memories)
        s.pending_loads, s.open, s.groups, s.regions, s.stored = (), (), (), frozenset(), -1
        s.later_commits = [self.context.most_outstanding] * len(self.context.events.signals)
        s.covered = frozenset()
        s.path = {}
        return s


def find_live(program: Program, snapshot: int) -> None:
    """Which values are read at or after each head, before they are written again."""
    code = program.code
    uses = [sum({1 << v for v in one.uses}) for one in code]
    keeps = [~sum({1 << v for v in one.defines}) for one in code]
    live = [0] * (len(code) + 1)
    changed = True
    while changed:
        changed = False
        for at in range(len(code) - 1, -1, -1):
            one = code[at]
            after = live[at + 1] if one.falls_through else 0
            for target in one.targets:
                after |= live[target]
            now = uses[at] | after & keeps[at]
            if now != live[at]:
                live[at], changed = now, True
    for head in program.heads:
        program.live[head] = tuple(v for v in range(program.values) if live[head] >> v & 1)
        if not live[head] >> snapshot & 1:
            program.fenced.add(head)
