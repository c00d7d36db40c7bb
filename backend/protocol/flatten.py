"""A kernel's structured control flow as instructions with jumps; what operations do is said by `rules`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from tilec.backend.protocol import scalars
from tilec.backend.protocol.facts import Facts, constant_of
from tilec.backend.protocol.machine import OutcomeUnknown, OutOfScope
from tilec.backend.protocol.program import Instruction, Program, find_live
from tilec.backend.protocol.rules import RULES
from tilec.backend.protocol.rules.context import Run, broken
from tilec.backend.protocol.rules.copies import registers
from tilec.backend.protocol.rules.threads import finish
from tilec.backend.protocol.state import State
from tilec.backend.protocol.values import UNKNOWN, Coordinate, Linear, Value
from tilec.dialects.tile import (
    AssumeOp,
    CopyAsyncOp,
    DimOp,
    FenceOp,
    FreeOp,
    GridOp,
    KernelOp,
    MmaOp,
    RegType,
    RolesOp,
    ScheduleOp,
    SingleThreadOp,
    SliceOp,
)

_BELOW = (2, 3, 6, 7)
"""Predicates of `arith.cmpi`: slt, sle, ult, ule."""


def flatten(kernel: KernelOp, *, any_extent: bool) -> Program:
    """Make the program of an asynchronous kernel; with `any_extent` static extents stand for all that there are."""
    return _Flattener(Facts(kernel, any_extent)).flatten()


class _Flattener:
    def __init__(self, facts: Facts):
        self.facts = facts
        self.counters = facts.counters
        self.context = facts.context
        self.machine = facts.context.machine
        self.ids = facts.context.ids
        self.program = Program(facts.context)
        self.code = self.program.code
        self.single = False
        self.active: tuple[int, ...] = ()
        self.snapshot = len(self.ids)
        """Stands for `State.snapshots` where it is asked what is used later."""

    def flatten(self) -> Program:
        kernel = self.facts.kernel
        self._block(kernel.body.block)
        self._add(kernel, finish(self.context, kernel), falls_through=False)
        self.program.values = len(self.ids)
        find_live(self.program, self.snapshot)
        return self.program

    def _add(
        self,
        op: Operation,
        run: Run,
        *,
        uses: Iterable[SSAValue] = (),
        defines: Iterable[SSAValue] = (),
        falls_through: bool = True,
    ) -> Instruction:
        made = Instruction(
            op, run, tuple(self.ids[v] for v in uses), tuple(self.ids[v] for v in defines), (), falls_through
        )
        self.code.append(made)
        return made

    def _block(self, block: Block) -> None:
        for op in block.ops:
            self._operation(op)

    def _operation(self, op: Operation) -> None:
        single = self.single
        match op:
            case scf.ForOp():
                self._for(op)
            case scf.IfOp():
                self._if(op)
            case scf.WhileOp():
                self._while(op)
            case scf.YieldOp() | scf.ConditionOp():
                pass
            case SingleThreadOp():
                self.single = True
                self._block(op.body.block)
                self.single = single
            case GridOp():
                self._grid(op)
            case AssumeOp() | SliceOp():
                pass
            case RolesOp():
                raise OutOfScope(op, "warp roles: the proof follows one control flow")
            case _:
                made = self._add(op, self._simple(op), uses=op.operands, defines=op.results)
                if isinstance(op, FenceOp) and op.kind == "after_thread_sync" and not single:
                    made.defines += (self.snapshot,)
                elif isinstance(op, MmaOp | FreeOp) or (isinstance(op, CopyAsyncOp) and op.dispatch == "tmem"):
                    made.uses += (self.snapshot,)

    def _simple(self, op: Operation) -> Run:
        rule = RULES.get(type(op))
        match op:
            case arith.ConstantOp():
                return self._constant(op)
            case arith.CmpiOp():
                return self._compare(op)
            case arith.SelectOp():
                return self._select(op)
            case arith.IndexCastOp() | arith.ExtUIOp() | arith.ExtSIOp() | arith.TruncIOp():
                return self._cast(op)
            case DimOp():
                bound = self.facts.extents[self.facts.extent_key(op.view, op.dimension)]
                return _setting(self.ids[op.res], Linear(~bound, 0, 1))
            case _ if type(op) in scalars.BINARY:
                return self._binary(op)
            case _ if rule is not None:
                return rule(self.context, op, self.single)
            case _ if op.results and all(isinstance(result.type, RegType) for result in op.results):
                return registers(self.context, op)
            case _:
                raise OutOfScope(op, f"{op.name} is not an operation of an asynchronous kernel")

    # Scalars

    def _constant(self, op: arith.ConstantOp) -> Run:
        if not isinstance(op.value, IntegerAttr):
            raise OutOfScope(op, "a constant that is not an integer")
        number = op.value.value.data
        if not -(1 << 31) <= number < 1 << 31:
            raise OutOfScope(op, "a constant of more than 32 bits")
        return _setting(self.ids[op.result], number & 1 if scalars.bits_of(op.result) == 1 else number)

    def _compare(self, op: arith.CmpiOp) -> Run:
        a, b, at = self.ids[op.lhs], self.ids[op.rhs], self.ids[op.result]
        machine, predicate, bits = self.machine, op.predicate.value.data, scalars.bits_of(op.lhs)

        def run(s: State) -> None:
            try:
                outcome = scalars.compare(machine, s, predicate, s.environment[a], s.environment[b], bits)
            except OutcomeUnknown:
                other = s.clone()
                other.environment[at] = 0
                machine.waiting.append(other)
                outcome = True
            s.environment[at] = int(outcome)

        return run

    def _binary(self, op: Operation) -> Run:
        a, b, at = self.ids[op.operands[0]], self.ids[op.operands[1]], self.ids[op.results[0]]
        machine, compute = self.machine, scalars.binary

        def run(s: State) -> None:
            environment = s.environment
            environment[at] = compute(op, machine, s, environment[a], environment[b])

        return run

    def _cast(self, op: Operation) -> Run:
        source, at = self.ids[op.operands[0]], self.ids[op.results[0]]

        def run(s: State) -> None:
            s.environment[at] = scalars.cast(op, s.environment[source])

        return run

    def _select(self, op: arith.SelectOp) -> Run:
        condition, a, b, at = (self.ids[v] for v in (op.cond, op.lhs, op.rhs, op.result))

        def run(s: State) -> None:
            environment = s.environment
            chosen = environment[condition]
            if isinstance(chosen, int):
                environment[at] = environment[a if chosen else b]
            else:
                environment[at] = UNKNOWN

        return run

    # Control flow

    def _move(self, pairs: Sequence[tuple[int, int]]) -> Run:
        """Assign all at once."""
        if len(pairs) == 1:
            ((source, dest),) = pairs

            def move_one(s: State) -> None:
                s.environment[dest] = s.environment[source]

            return move_one

        def move(s: State) -> None:
            environment = s.environment
            for dest, value in [(dest, environment[source]) for source, dest in pairs]:
                environment[dest] = value

        return move

    def _assign(self, op: Operation, sources: Sequence[SSAValue], dests: Sequence[SSAValue]) -> None:
        """A move of values in `ids`; accumulators and barriers are found through their definitions."""
        if sources:
            pairs = [(self.ids[a], self.ids[b]) for a, b in zip(sources, dests, strict=True)]
            self._add(op, self._move(pairs), uses=sources, defines=dests)

    def _jump(self, op: Operation, target: int) -> None:
        def jump(s: State) -> None:
            s.pc = target

        self._add(op, jump, falls_through=False).targets = (target,)

    def _branch(self, op: Operation, test: Callable[[State], bool], uses: Sequence[SSAValue]) -> Instruction:
        """Go on if the test holds, else to a place that the caller fills in."""
        machine = self.machine

        def branch(s: State) -> None:
            try:
                goes_on = test(s)
            except OutcomeUnknown:
                other = s.clone()
                other.pc = made.targets[0]
                machine.waiting.append(other)
                return
            if not goes_on:
                s.pc = made.targets[0]

        made = self._add(op, branch, uses=uses)
        return made

    def _if(self, op: scf.IfOp) -> None:
        at = self.ids[op.cond]

        def holds(s: State) -> bool:
            condition = s.environment[at]
            if not isinstance(condition, int):
                raise OutcomeUnknown
            return bool(condition)

        branch = self._branch(op, holds, [op.cond])
        self._region(op, op.true_region.block, op.output)
        if op.false_region.blocks:
            jump = len(self.code)
            self._add(op, lambda s: None, falls_through=False)
            branch.targets = (len(self.code),)
            self._region(op, op.false_region.block, op.output)
            end = len(self.code)

            def skip(s: State) -> None:
                s.pc = end

            self.code[jump].run, self.code[jump].targets = skip, (end,)
        else:
            branch.targets = (len(self.code),)

    def _region(self, op: Operation, block: Block, results: Sequence[SSAValue]) -> None:
        self._block(block)
        last = block.last_op
        if results:
            assert isinstance(last, scf.YieldOp)
            self._assign(op, last.operands, results)

    def _head(self, op: Operation, own: Sequence[int]) -> int:
        """A place where states are compared with those that were there before."""
        at = len(self.code)
        self.active = (*self.active, *own)
        self.program.heads[at] = frozenset(self.active)
        self._add(op, lambda s: None)
        return at

    def _enter(self, op: Operation, values: Sequence[SSAValue], arguments: Sequence[SSAValue]) -> list[int]:
        """Bind a loop's arguments; those that count get their counter."""
        self._assign(op, values, arguments)
        own: list[int] = []
        for argument in arguments:
            if argument in self.counters:
                own.append(self.counters[argument])
                self._start_counter(op, argument)
        return own

    def _start_counter(self, op: Operation, argument: SSAValue) -> None:
        machine, counter, at = self.machine, self.counters[argument], self.ids[argument]

        def enter(s: State) -> None:
            s.environment[at] = machine.enter(s, counter, s.environment[at])

        self._add(op, enter, uses=[argument], defines=[argument])

    def _again(self, op: Operation, values: Sequence[SSAValue], arguments: Sequence[SSAValue], head: int) -> None:
        """The next iteration: what is carried becomes the arguments, and counters advance."""
        self._assign(op, values, arguments)
        machine, live = self.machine, self.program.live
        for argument in arguments:
            if argument in self.counters:
                counter, at = self.counters[argument], self.ids[argument]

                def advance(s: State, counter: int = counter, at: int = at) -> None:
                    value = s.environment[at]
                    if isinstance(value, Linear) and value.base == counter:
                        machine.advance(s, counter, value.offset, live[head])
                        s.environment[at] = Linear(counter, 0, 1)

                self._add(op, advance, uses=[argument], defines=[argument])

    def _for(self, op: scf.ForOp) -> None:
        body, outside = op.body.block, self.active
        variable, *carried = body.args
        last = body.last_op
        assert isinstance(last, scf.YieldOp)
        step = constant_of(op.step)
        assert step is not None
        machine, at, end = self.machine, self.ids[variable], self.ids[op.ub]
        add = scalars.BINARY[arith.AddiOp]
        self._assign(op, [op.lb, *op.iter_args], [variable, *carried])
        if variable in self.counters:
            own = [self.counters[argument] for argument in body.args if argument in self.counters]
            for argument in body.args:
                if argument in self.counters:
                    self._start_counter(op, argument)
            head = self._head(op, own)
        else:
            head = len(self.code)
        test = self._branch(op, lambda s: machine.below(s, s.environment[at], s.environment[end]), [variable, op.ub])
        self._block(body)

        def count(s: State) -> None:
            s.environment[at] = add(machine, s, s.environment[at], step)

        self._add(op, count, uses=[variable], defines=[variable])
        self._again(op, [variable, *last.operands], [variable, *carried], head)
        self._jump(op, head)
        test.targets = (len(self.code),)
        self._assign(op, carried, op.res)
        self.active = outside

    def _while(self, op: scf.WhileOp) -> None:
        before, after, outside = op.before_region.block, op.after_region.block, self.active
        condition, last = before.last_op, after.last_op
        assert isinstance(condition, scf.ConditionOp) and isinstance(last, scf.YieldOp)
        self._check_progress(op)
        own = self._enter(op, op.arguments, before.args)
        head = self._head(op, own)
        self._block(before)
        self._assign(op, condition.args, after.args)
        at = self.ids[condition.condition]

        def holds(s: State) -> bool:
            value = s.environment[at]
            if not isinstance(value, int):
                raise OutcomeUnknown
            return bool(value)

        test = self._branch(op, holds, [condition.condition, *condition.args])
        self._block(after)
        self._again(op, last.operands, before.args, head)
        self._jump(op, head)
        test.targets = (len(self.code),)
        self._assign(op, condition.args, op.res)
        self.active = outside

    def _check_progress(self, op: scf.WhileOp) -> None:
        """A loop that is not known to end is not followed; one that stays at its turn never ends."""
        condition = op.before_region.block.last_op
        assert isinstance(condition, scf.ConditionOp)
        pending = [condition.condition]
        while pending:
            test = pending.pop().owner
            match test:
                case arith.AndIOp():  # over as soon as one of them fails
                    pending += test.operands
                case ScheduleOp() if self._counts(op, test.turn):
                    return
                case ScheduleOp() if test.turn.owner is op.before_region.block:
                    self._add(op, broken(test, "the turn does not advance: this loop visits the same tile for ever"))
                    return
                case arith.CmpiOp() if test.predicate.value.data in _BELOW:
                    if self._counts(op, test.lhs) and not self._is_inside(op, test.rhs):
                        return
                case _:
                    pass
        raise OutOfScope(op, "a loop of which it is not known that it ends")

    def _counts(self, op: scf.WhileOp, value: SSAValue) -> bool:
        """Whether a value grows with each iteration: the loop's own counter, or a constant more."""
        while isinstance(value.owner, arith.AddiOp) and (constant_of(value.owner.rhs) or -1) >= 0:
            value = value.owner.lhs
        return value in self.counters and value.owner is op.before_region.block and scalars.bits_of(value) >= 32

    def _is_inside(self, op: scf.WhileOp, value: SSAValue) -> bool:
        above = value.owner if isinstance(value.owner, Operation) else value.owner.parent_op()
        while above is not None and above is not op:
            above = above.parent_op()
        return above is op

    def _grid(self, op: GridOp) -> None:
        places = [self.ids[argument] for argument in op.body.block.args]

        def place(s: State) -> None:
            for dimension, at in enumerate(places):
                s.environment[at] = Coordinate(None, dimension, 0)

        self._add(op, place, defines=op.body.block.args)
        self._block(op.body.block)


def _setting(at: int, value: Value) -> Run:
    def run(s: State) -> None:
        s.environment[at] = value

    return run
