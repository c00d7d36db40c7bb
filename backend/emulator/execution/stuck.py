"""The report of a deadlock: every waiting warp, where it stands, and what it waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from tilec.backend.emulator.execution.polls import Poll, Polls
from tilec.backend.emulator.faults import EmulatorFault, FaultKind, Place
from tilec.diagnostics import Diagnostic

if TYPE_CHECKING:
    from tilec.backend.emulator.execution.cta import Cta
    from tilec.backend.emulator.execution.group import Group
    from tilec.backend.emulator.execution.machine import Machine


def report_deadlock(machine: Machine, ctas: list[Cta]) -> NoReturn:
    """Raise the fault for a machine of which no thread and no engine can go on."""
    groups = [g for cta in ctas for g in cta.groups]
    # Of the places at which the threads of a warp wait for one another, the first one parted them.
    parted = [g for g in groups if g.gathering and _never_complete(machine, g)]
    gathering = min(parted, key=lambda g: g.pc, default=None)
    blocked = next((g for g in groups if not g.gathering), groups[0])
    first = blocked if gathering is None else gathering
    notes: list[Diagnostic] = []
    for group in groups:
        place = _place(machine, group)
        message = f"CTA {place.cta}, {_threads(group)}: {_doing(machine, group)}"
        notes += [Diagnostic("note", message, place.location), *place.notes()]
    place = _place(machine, first)
    if gathering is not None:
        raise EmulatorFault(
            FaultKind.DIVERGENT,
            f"only {_threads(gathering)} execute {place.instruction.opcode}, and the other threads that take part never do",
            place,
            "all threads of the warp (or of its mask) must execute it together",
            tuple(notes),
        )
    raise EmulatorFault(
        FaultKind.DEADLOCK, "no thread can go on, and nothing asynchronous is under way", place, None, tuple(notes)
    )


def _never_complete(machine: Machine, gathering: Group) -> bool:
    """Whether the threads that a group waits for wait for their own warp too, at other places, and not for something else."""
    width = 128 if machine.flow.steps[gathering.pc].scope == "warpgroup" else 32
    units = {int(t) // width for t in gathering.threads}
    missing = [
        g for g in gathering.cta.groups if g is not gathering and any(int(t) // width in units for t in g.threads)
    ]
    return all(g.gathering or machine.program.instructions[g.pc].parts[:2] == ("bar", "warp") for g in missing)


def _place(machine: Machine, group: Group) -> Place:
    poll = _polls(machine, group)
    instruction = machine.program.instructions[group.pc] if poll is None else poll.instruction
    return Place(machine.file, machine.kernel, group.cta.index, None, instruction)


def _polls(machine: Machine, group: Group) -> Poll | None:
    """What a group polls in the loop in which it runs."""
    if group.wait is not None or group.gathering or group.pc not in group.loops.places:
        return None
    loop = [machine.program.instructions[place] for place in group.loops.places]
    polls = group.cta.part(Polls).of(group.threads)
    return next((poll for poll in polls if any(poll.instruction is each for each in loop)), None)


def _doing(machine: Machine, group: Group) -> str:
    poll = _polls(machine, group)
    opcode = machine.program.instructions[group.pc].opcode if poll is None else poll.instruction.opcode
    if group.gathering:
        return f"wait at {opcode} for the rest of their warp"
    if group.wait is not None:
        return f"wait at {opcode} for {group.wait.describe()}"
    if poll is not None:
        return f"wait at {opcode} for {poll.describe()}"
    return f"repeat a loop at {opcode} in which nothing changes"


def _threads(group: Group) -> str:
    """Which threads, by warps: "warps 0 and 2", "threads 3 to 31 of warp 1"."""
    whole: list[str] = []
    parts: list[str] = []
    for warp in sorted({int(t) >> 5 for t in group.threads}):
        lanes = [int(t) & 31 for t in group.threads if int(t) >> 5 == warp]
        alive = int(group.cta.alive[warp * 32 : warp * 32 + 32].sum())
        if len(lanes) == alive:
            whole.append(str(warp))
        else:
            parts.append(f"{_ranges(lanes)} of warp {warp}")
    if whole:
        parts.insert(0, f"{'warp' if len(whole) == 1 else 'warps'} {_enumerate(whole)}")
    return _enumerate(parts)


def _ranges(lanes: list[int]) -> str:
    """Lanes, ascending, as ranges: "lane 3", "lanes 0 to 4 and 6 to 31"."""
    starts = [n for n in lanes if n - 1 not in lanes]
    ends = [n for n in lanes if n + 1 not in lanes]
    runs = [str(a) if a == b else f"{a} to {b}" for a, b in zip(starts, ends, strict=True)]
    return f"{'lane' if len(lanes) == 1 else 'lanes'} {_enumerate(runs)}"


def _enumerate(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
