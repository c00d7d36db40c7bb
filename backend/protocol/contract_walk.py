"""One walk over an asynchronous kernel: what each operation does to which storage, and who does it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, Region, SSAValue

from tilec.diagnostics import location_of
from tilec.dialects.tile import (
    AllocOp,
    ArriveExpectTxOp,
    ArriveOp,
    CommitGroupOp,
    CommitOp,
    CopyAsyncOp,
    CtaSyncOp,
    FenceOp,
    FreeOp,
    KernelOp,
    LoadOp,
    MbarrierInitOp,
    MmaOp,
    RoleSyncOp,
    SingleThreadOp,
    SliceOp,
    SlotOp,
    StoreOp,
    TryWaitOp,
    WaitGroupOp,
    WaitLdOp,
)
from tilec.dialects.tile.roles import role_of

ISSUER, THREADS, TMA, TENSOR_CORE = "issuing thread", "all threads", "TMA engine", "tensor core"
_Op = TypeVar("_Op", bound=Operation)
Does = dict[str, tuple[dict[str, None], set[int]]]
"""By verb: the names that it is done to, and the lines that say so."""


@dataclass(frozen=True)
class Access:
    """An operation reads or writes storage. `actor` is who touches the bytes, not who issues."""

    op: Operation
    actor: str
    storage: SSAValue
    writes: bool
    what: str
    stage: int | None = None
    """The stage of a ring, where it is a constant."""


def threads_of(op: Operation) -> str:
    """The threads that execute an operation: all of them, or those of a role."""
    role = role_of(op)
    return THREADS if role is None else f'role "{role.role}"'


def is_threads(actor: str) -> bool:
    """Whether threads act, and no engine."""
    return actor not in (TMA, TENSOR_CORE)


def parted(one: Operation, other: Operation) -> bool:
    """Whether two different roles execute two operations: no order of the text holds between them."""
    roles = role_of(one), role_of(other)
    return roles[0] is not roles[1] and None not in roles


def line_of(item: Operation | SSAValue) -> int | None:
    """The line of the program that an operation or a value came from."""
    place = location_of(item)
    return None if place is None else place.line


def root_of(value: SSAValue) -> SSAValue:
    """The storage that a slot or a slice is part of."""
    while isinstance(value.owner, SlotOp | SliceOp):
        value = value.owner.operands[0]
    return value


def constant(value: SSAValue) -> int | None:
    """The integer that a value always is."""
    if isinstance(value.owner, arith.ConstantOp) and isinstance(value.owner.value, IntegerAttr):
        return value.owner.value.value.data
    return None


class Walk:
    """The operations of a kernel in the order of the text."""

    def __init__(self, kernel: KernelOp) -> None:
        self.ops = list(kernel.walk())
        self._position = {op: i for i, op in enumerate(self.ops)}
        self.names: dict[SSAValue, str] = {}
        """Storage and barriers, in the order of the text."""
        for op in self.ops:
            if isinstance(op, AllocOp | MbarrierInitOp):
                self.names[op.res] = self._fresh(op.res.name_hint or "unnamed")
        self.accesses = [access for op in self.ops for access in _accesses(op) if access.storage in self.names]

    def _fresh(self, name: str) -> str:
        taken = set(self.names.values())
        return next(n for i in range(len(taken) + 1) if (n := f"{name}_{i}" if i else name) not in taken)

    def name(self, value: SSAValue) -> str:
        root = root_of(value)
        return self.names.get(root) or root.name_hint or "unnamed"

    def roles(self) -> dict[str, Does]:
        """What each role does."""
        roles: dict[str, Does] = {ISSUER: {}, THREADS: {}}
        for op in self.ops:
            if role_of(op) is not None:
                roles |= {one_of(threads_of(op)): {}, threads_of(op): {}}
        roles |= {TMA: {}, TENSOR_CORE: {}}
        for op in self.ops:
            line = line_of(op)
            for role, verb, *names in self._deeds(op):
                done_to, lines = roles[role].setdefault(verb, ({}, set()))
                done_to.update(dict.fromkeys(names))
                if line is not None:
                    lines.add(line)
        return roles

    def _deeds(self, op: Operation) -> Iterator[tuple[str, ...]]:
        """(role, verb, names)."""
        who = executes(op)
        name = self.name
        match op:
            case MbarrierInitOp():
                yield ISSUER, "initialise", name(op.res)
            case ArriveExpectTxOp():
                yield who, "announce bytes and arrive on", name(op.barrier)
            case ArriveOp():
                yield who, "arrive on", name(op.barrier)
            case TryWaitOp():
                yield who, "wait for", name(op.barrier)
            case CopyAsyncOp(dispatch="tmem"):
                yield who, "read", name(op.source)
            case CopyAsyncOp():
                assert op.dest is not None
                load, ends = op.is_load, (name(op.source), name(op.dest))
                tile = ends[1] if load else ends[0]
                if op.dispatch == "tma":
                    yield who, "issue TMA loads of" if load else "issue TMA stores of", tile
                    yield TMA, f"{'write' if load else 'read'}", tile
                    if op.barrier is not None:
                        yield TMA, "complete bytes on", name(op.barrier)
                else:
                    yield who, "copy in" if load else "copy out", tile
            case LoadOp():
                yield who, "read", name(op.source)
            case StoreOp():
                yield who, "write", name(op.dest)
            case MmaOp():
                yield who, "issue MMAs into", name(op.acc)
                yield TENSOR_CORE, "read", name(op.a), name(op.b)
                yield TENSOR_CORE, "accumulate in", name(op.acc)
            case CommitOp():
                yield who, "commit MMAs to", name(op.barrier)
                yield TENSOR_CORE, "arrive on", name(op.barrier)
            case FenceOp():
                yield who, "fence", op.kind
            case CtaSyncOp() | RoleSyncOp():
                yield who, f"meet at {op.name.removeprefix('tile.')}"
            case CommitGroupOp():
                yield who, "close bulk groups"
            case WaitGroupOp():
                yield who, "wait for bulk groups"
            case WaitLdOp():
                yield who, "wait for accumulator loads"
            case FreeOp():
                yield who, "free", name(op.acc)
            case _:
                return

    # ---- order

    def conflicts(self) -> Iterator[tuple[Access, Access]]:
        """Each access with the next one of another actor that it must be ordered before; loops go round."""
        for before in self.accesses:
            others = [a for a in self.accesses if a.storage is before.storage and _conflict(before, a)]
            later = [a for a in others if self._comes_after(a.op, before.op)]
            again = [a for a in others if a not in later and _comes_round(a.op, before.op)]
            for kind in (False, True):  # the next reader, and the next writer
                found = next((a for a in (*later, *again) if a.writes == kind), None)
                if found is not None:
                    yield before, found

    def _comes_after(self, op: Operation, earlier: Operation) -> bool:
        return self._position[op] > self._position[earlier] and not _exclusive(op, earlier)

    def between(self, before: Operation, after: Operation | None) -> list[Operation]:
        """What is executed from `before` to `after`, round the loop where `after` stands in front; None is the end."""
        start = self._position[before] + 1
        if after is None:
            return self.ops[start:]
        end = self._position[after]
        if end >= start:
            return self.ops[start:end]
        loop = _common_loop(before, after)
        if loop is None:
            return self.ops[start:]
        inside = [self._position[op] for op in loop.walk()]
        return [*self.ops[start : max(inside) + 1], *self.ops[min(inside) : end]]

    def path(self, before: Operation, after: Operation, signal: SSAValue) -> list[Operation]:
        """What two roles execute from `before` to `after`: up to an arrival on the mbarrier, and from the wait for it on."""
        one, other = role_of(before), role_of(after)
        arrivals = [op for op in self.ops if signal in op.operands and role_of(op) is one and not _is_wait(op)]
        waits = [op for op in self.ops if signal in op.operands and role_of(op) is other and _is_wait(op)]
        ahead = self.between(before, arrivals[0]) if arrivals else []
        return [*ahead, *(self.between(waits[-1], after) if waits else [])]

    def handed_over(self, before: Operation, after: Operation, kind: type[CommitOp | ArriveOp]) -> SSAValue | None:
        """The mbarrier on which the role of `before` arrives, and for which the role of `after` waits."""
        waited = {op.barrier for op in self.ops if isinstance(op, TryWaitOp) and role_of(op) is role_of(after)}
        mine = [op for op in self.ops if isinstance(op, kind) and role_of(op) is role_of(before)]
        later = [op for op in mine if self._position[op] > self._position[before]]
        return next((op.barrier for op in (*later, *mine) if op.barrier in waited), None)

    def next_of(self, op: Operation, kind: type[_Op]) -> _Op | None:
        """The next operation of a kind in the text."""
        return next((other for other in self.between(op, None) if isinstance(other, kind)), None)


def executes(op: Operation) -> str:
    """Who executes an operation: threads, or one of them."""
    alone = any(isinstance(parent, SingleThreadOp) for parent in _ancestors(op))
    return one_of(threads_of(op)) if alone else threads_of(op)


def one_of(threads: str) -> str:
    """The one of them that executes `tile.single_thread`."""
    return ISSUER if threads == THREADS else f"{ISSUER} of {threads}"


def _is_wait(op: Operation) -> bool:
    return isinstance(op, TryWaitOp)


def _comes_round(op: Operation, other: Operation) -> bool:
    """Whether a loop, or another role, brings `op` although the text has it earlier."""
    return parted(op, other) or _common_loop(op, other) is not None


def _accesses(op: Operation) -> Iterator[Access]:
    match op:
        case CopyAsyncOp(dispatch="tmem"):
            yield _access(op, threads_of(op), op.source, False, "accumulator load")
        case CopyAsyncOp():
            tma = op.dispatch == "tma"
            actor = TMA if tma else threads_of(op)
            assert op.dest is not None
            yield _access(op, actor, op.dest, True, "TMA load" if tma else "thread copy")
            yield _access(op, actor, op.source, False, "TMA store" if tma else "thread copy")
        case MmaOp():
            yield _access(op, TENSOR_CORE, op.acc, True, "MMA")
            for operand in (op.a, op.b):
                yield _access(op, TENSOR_CORE, operand, False, "MMA")
        case LoadOp():
            yield _access(op, threads_of(op), op.source, False, "load")
        case StoreOp():
            yield _access(op, threads_of(op), op.dest, True, "store")
        case _:
            return


def _access(op: Operation, actor: str, value: SSAValue, writes: bool, what: str) -> Access:
    stage = constant(value.owner.stage) if isinstance(value.owner, SlotOp) else None
    return Access(op, actor, root_of(value), writes, what, stage)


def _conflict(one: Access, other: Access) -> bool:
    """Whether somebody must order the two: an engine's own accesses are in order, those of threads are not."""
    if one.stage is not None and other.stage is not None and one.stage != other.stage:
        return False
    if one.actor == other.actor:
        return is_threads(one.actor) and one.writes != other.writes
    return one.writes or other.writes


def _ancestors(op: Operation) -> Iterator[Operation]:
    parent = op.parent_op()
    while parent is not None:
        yield parent
        parent = parent.parent_op()


def _common_loop(one: Operation, other: Operation) -> Operation | None:
    """The innermost loop around both."""
    around = list(_ancestors(other))
    return next((op for op in _ancestors(one) if isinstance(op, scf.ForOp | scf.WhileOp) and op in around), None)


def _exclusive(one: Operation, other: Operation) -> bool:
    """Whether two operations stand in different branches of one condition."""
    branches: dict[Operation, Region] = {op: region for op, region in _regions(other) if isinstance(op, scf.IfOp)}
    return any(branches.get(op, region) is not region for op, region in _regions(one))


def _regions(op: Operation) -> Iterator[tuple[Operation, Region]]:
    """The operations around one, and the region of each in which it stands."""
    region = op.parent_region()
    while region is not None and (parent := region.parent_op()) is not None:
        yield parent, region
        region = parent.parent_region()
