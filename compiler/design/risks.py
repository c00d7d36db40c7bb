"""The four ways in which a TMA pipeline fails, diagnosed for this kernel: what rules each out, or where it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from xdsl.ir import Operation, SSAValue

from tilec.backend.protocol.contract_walk import TENSOR_CORE, THREADS, TMA, Access, line_of, parted, root_of
from tilec.design.blocks import counted
from tilec.design.depths import Depth, Depths, ctas, roomier, stages
from tilec.design.descriptors import Descriptor
from tilec.design.fallbacks import Fallback, fallbacks
from tilec.design.protocols import Protocols
from tilec.design.subject import Subject
from tilec.design.validation import Validation
from tilec.dialects.tile import CopyAsyncOp, LoadOp, MmaOp, RingType, SmemType, StoreOp, TryWaitOp, WaitGroupOp

Status = Literal["ruled out", "not found", "present", "a trade"]
"""``ruled out``: by a proof or by the types, for every launch. ``not found``: in the launches that were simulated. ``a trade``: it
costs something, and brings something."""

SWIZZLE = "TMA swizzle and MMA layout differ"
MISSING_WAIT = "a tile is read before it is waited for"
REUSE = "shared memory is reused before it is drained"
DEPTH = "the depth costs shared memory or occupancy"
OTHER = "any other breach of the protocol"


@dataclass(frozen=True)
class Fact:
    """Something that holds of the program, and where it stands."""

    what: str
    lines: tuple[int, ...] = ()


@dataclass(frozen=True)
class Risk:
    mode: str
    status: Status
    facts: tuple[Fact, ...]
    where: str | None
    """Of one that is present, or a trade."""
    line: int | None


@dataclass(frozen=True)
class Risks:
    modes: tuple[Risk, ...]
    fallbacks: tuple[Fallback, ...]


def risks(
    subject: Subject,
    maps: tuple[Descriptor, ...],
    protocols: Protocols,
    depths: Depths,
    validation: Validation,
) -> Risks:
    found = dict(_breaches(validation))
    modes = (
        _swizzle(subject, maps),
        _missing_wait(subject, validation, protocols, found.get(MISSING_WAIT)),
        _reuse(subject, validation, found.get(REUSE)),
        _depth(subject, depths),
        _other(validation, found.get(OTHER)),
    )
    return Risks(modes, tuple(fallbacks(subject, depths)))


# ---- what the proof and the runs found

_Breach = tuple[str, int | None]


def _breaches(validation: Validation) -> Iterator[tuple[str, _Breach]]:
    """What went wrong, by failure mode; the first of each, and the proof's first of all."""
    said: list[_Breach] = []
    if validation.proof.verdict == "refuted" and validation.proof.message is not None:
        said.append((validation.proof.message, validation.proof.line))
    said += [(run.message, run.line) for run in validation.runs if run.outcome == "fault" and run.message is not None]
    seen: set[str] = set()
    for message, line in said:
        if (mode := mode_of(message)) not in seen:
            seen.add(mode)
            yield mode, (message, line)


def mode_of(message: str) -> str:
    """Which failure mode a fault of the simulator is: its message names what is read or overwritten, and after what."""
    overwritten = "this TMA load into" in message and "after the TMA load into" in message
    if "that reads" in message or "before this TMA store" in message or "overwrites" in message or overwritten:
        return REUSE
    if "read of" in message and ("the TMA load" in message or "that writes" in message):
        return MISSING_WAIT
    return OTHER


def _settled(validation: Validation) -> Status:
    return "ruled out" if validation.proof.verdict == "proved" else "not found"


def _named(actor: str) -> str:
    """Who acts, in a sentence."""
    return actor if actor == THREADS else f"the {actor}"


def _verdict(validation: Validation) -> Fact:
    proof = validation.proof
    match proof.verdict:
        case "proved":
            return Fact(f"the protocol is proved {proof.summary}")
        case "refuted":
            mode = OTHER if proof.message is None else mode_of(proof.message)
            return Fact(f"the protocol is refuted {proof.summary} ({mode}), and the proof ends there")
        case _:
            return Fact(f"the protocol is checked up to {proof.summary}")


def _present(mode: str, facts: list[Fact], breach: _Breach) -> Risk:
    return Risk(mode, "present", tuple(facts), *breach)


# ---- the modes


def _swizzle(subject: Subject, maps: tuple[Descriptor, ...]) -> Risk:
    """Every operation that touches a shared tile must take it for the same layout as the one that fills it."""
    facts: list[Fact] = []
    for value, name in subject.walk.names.items():
        kind = value.type.slot if isinstance(value.type, RingType) else value.type
        if not isinstance(kind, SmemType):
            continue
        uses = [(what, op, used) for op in subject.walk.ops for what, used in _uses(op) if root_of(used) is value]
        for what, op, used in uses:
            if used.type != kind:
                assert isinstance(used.type, SmemType)
                where = f"{name} is {_layout(kind)}, and {what} in line {line_of(op)} takes it for {_layout(used.type)}"
                return Risk(SWIZZLE, "present", tuple(facts), where, line_of(op))
        if uses:
            words = ", ".join(dict.fromkeys(what for what, _, _ in uses))
            lines = tuple(sorted({line for _, op, _ in uses if (line := line_of(op)) is not None}))
            facts.append(Fact(f"{name}: {words} take {_layout(kind)}, one type", lines))
    wrong = next((one for one in maps if one.in_abi is False), None)
    if wrong is not None:
        where = f"the lowered kernel has no map of {wrong.view} with box {list(wrong.box)} and swizzle {wrong.swizzle}"
        return Risk(SWIZZLE, "present", tuple(facts), where, wrong.lines[0] if wrong.lines else None)
    if maps and all(one.in_abi for one in maps):
        facts.append(Fact("the lowered kernel asks for these very maps (tile.abi)"))
    return Risk(SWIZZLE, "ruled out", tuple(facts or [Fact("no shared tile is swizzled")]), None, None)


def _layout(tile: SmemType) -> str:
    swizzle = "no swizzle" if tile.swizzle == 16 else f"swizzle {tile.swizzle}" if tile.swizzle else "no layout"
    return f"{'x'.join(map(str, tile.shape))} {tile.dtype.name}, order {list(tile.order)}, {swizzle}"


def _uses(op: Operation) -> Iterator[tuple[str, SSAValue]]:
    """The shared tiles that an operation touches, and as what."""
    match op:
        case CopyAsyncOp(dest=SSAValue() as dest):
            engine = "TMA" if op.dispatch == "tma" else "thread"
            yield f"{engine} {'load' if op.is_load else 'store'}", dest if op.is_load else op.source
        case MmaOp():
            yield "MMA", op.a
            yield "MMA", op.b
        case LoadOp() if isinstance(op.source.type, SmemType):
            yield "threads' read", op.source
        case StoreOp():
            yield "threads' write", op.dest
        case _:
            return


def _missing_wait(subject: Subject, validation: Validation, protocols: Protocols, breach: _Breach | None) -> Risk:
    facts: list[Fact] = []
    unwaited: _Breach | None = None
    for before, after in subject.walk.conflicts():
        if not (before.actor == TMA and before.writes and not after.writes):
            continue
        assert isinstance(before.op, CopyAsyncOp)
        waits = _waits_between(subject, before, after)
        name = subject.walk.names[before.storage]
        if waits:
            words = f"{_who(after)} reads {name} behind a wait for {subject.walk.name(waits[0].barrier)}"
            lines = {n for op in (waits[0], after.op) if (n := line_of(op)) is not None}
            facts.append(Fact(words, tuple(sorted(lines))))
        elif unwaited is None:
            signal = None if before.op.barrier is None else subject.walk.name(before.op.barrier)
            unwaited = (f"{_who(after)} reads {name}, and nothing waits for {signal} before", line_of(after.op))
    facts = list(dict.fromkeys(facts))
    facts += [
        Fact(f"{one.barrier}: {one.announced} bytes announced, {one.brought} brought", _one(one.line))
        for one in dict.fromkeys(protocols.budgets)
        if one.holds
    ]
    found = breach or unwaited
    if found is not None:  # of what the text alone would assure, nothing is certain then
        return _present(MISSING_WAIT, [], found)
    if not facts:
        facts.append(Fact("TMA loads nothing"))
    return Risk(MISSING_WAIT, _settled(validation), (*facts, _verdict(validation)), None, None)


def _one(line: int | None) -> tuple[int, ...]:
    return () if line is None else (line,)


def _who(access: Access) -> str:
    return "the MMA" if access.actor == TENSOR_CORE else f"the {access.what}"


def _waits_between(subject: Subject, before: Access, after: Access) -> list[TryWaitOp]:
    assert isinstance(before.op, CopyAsyncOp)
    barrier = before.op.barrier
    if barrier is None:
        return []
    if parted(before.op, after.op):
        between = subject.walk.path(before.op, after.op, barrier)
        waits = [op for op in subject.walk.ops if isinstance(op, TryWaitOp) and op.barrier is barrier]
        return waits if between or waits else []
    between = subject.walk.between(before.op, after.op)
    return [op for op in between if isinstance(op, TryWaitOp) and op.barrier is barrier]


def _reuse(subject: Subject, validation: Validation, breach: _Breach | None) -> Risk:
    facts: list[Fact] = []
    for row in subject.contract.handoffs:
        names = ", ".join(row.tiles)
        if row.state == "free" and row.signal != "none":
            order = f" ({', '.join(row.order)})" if row.order else ""
            facts.append(
                Fact(
                    f"{names}: overwritten by {_named(row.consumer)} behind {row.signal}{order}, when {_named(row.producer)} "
                    f"{'have' if row.producer == THREADS else 'has'} read"
                )
            )
        elif row.state == "stored" and row.signal != "none":
            drains = [op for op in subject.walk.ops if isinstance(op, WaitGroupOp) and op.pending == 0]
            facts.append(Fact(f"{names}: drained by {row.order[0]} before the CTA ends", _one(line_of(drains[-1]))))
    if breach is not None:
        return _present(REUSE, [], breach)
    if not facts:
        facts.append(Fact("no shared memory is written twice, and TMA stores nothing"))
    return Risk(REUSE, _settled(validation), (*facts, _verdict(validation)), None, None)


def _depth(subject: Subject, depths: Depths) -> Risk:
    row = depths.chosen
    if row is None or (row.smem_bytes == 0 and subject.storage is None):
        problem = subject.storage_problem
        return Risk(DEPTH, "present", (), "the storage has no plan" if problem is None else problem.message, None)
    target = subject.target
    line = line_of(subject.kernel)
    facts = [Fact(f"{stages(row)}: {row.smem_bytes} of {target.smem_per_cta} bytes of shared memory a CTA")]
    if not row.fits:
        where = f"{stages(row)} need {row.over_bytes} bytes more than a CTA of {target.name} has"
        return Risk(DEPTH, "present", tuple(facts), where, line)
    if subject.roles:
        facts.append(Fact("a kernel with roles is taken to have a multiprocessor to itself"))
    else:
        facts.append(Fact(f"{ctas(row)} a multiprocessor, bound by {row.bound_by}"))
    if row.spill_bytes:
        where = f"{row.spill_bytes} bytes of registers spilled a thread: use a smaller tile"
        return Risk(DEPTH, "present", tuple(facts), where, line)
    best = roomier(depths)
    if best is not None and best.ctas_per_sm is not None:
        lost = counted(best.ctas_per_sm - (row.ctas_per_sm or 0), "CTA")
        where = f"{stages(row)} cost {lost} of the {best.ctas_per_sm} that {stages(best)} leave room for: {_paid(row, best)}"
        return Risk(DEPTH, "a trade", tuple(facts), where.replace("1 stage leave ", "1 stage leaves "), line)
    if row.registers is None:
        facts.append(Fact(f"registers and spills are unknown: {_unknown(subject, depths)}"))
        return Risk(DEPTH, "not found", tuple(facts), None, None)
    return Risk(DEPTH, "ruled out", tuple(facts), None, None)


def _unknown(subject: Subject, depths: Depths) -> str:
    """Why nobody knows the registers."""
    return subject.not_lowered or depths.registers_from.removeprefix("unknown: ")


def _paid(row: Depth, best: Depth) -> str:
    """What a deeper ring brings for the CTAs that it costs."""
    if not row.seconds or not best.seconds:
        return "whether that pays is not predicted"
    slower = row.seconds / best.seconds - 1
    times = f"{row.seconds * 1e6:.1f} us against {best.seconds * 1e6:.1f}"
    if abs(slower) < 0.005:
        return f"predicted as fast, {times}"
    return f"predicted {abs(slower):.0%} {'slower' if slower > 0 else 'faster'}, {times}"


def _other(validation: Validation, breach: _Breach | None) -> Risk:
    differs = next((run for run in validation.runs if run.outcome == "differs"), None)
    if breach is None and differs is not None and differs.message is not None:
        breach = differs.message, differs.line
    if breach is not None:
        return _present(OTHER, [], breach)
    return Risk(OTHER, _settled(validation), (_verdict(validation),), None, None)
