"""The report of a deadlock: the waiting warps, where they stand, and what they wait for; equal ones in one note."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from tilec.backend.emulator.execution.polls import Poll, Polls
from tilec.backend.emulator.faults import EmulatorFault, FaultKind, Place
from tilec.diagnostics import Diagnostic

if TYPE_CHECKING:
    from tilec.backend.emulator.execution.cta import Cta
    from tilec.backend.emulator.execution.group import Group
    from tilec.backend.emulator.execution.machine import Machine

_MOST_NOTES = 8
"""Of one report: a launch can have thousands of places where threads wait."""


class _Alike:
    """Groups that stand at one instruction and wait for the same."""

    def __init__(self, place: Place, what: str) -> None:
        self.place = place
        self.what = what
        self.threads: dict[Cta, list[int]] = {}

    def add(self, group: Group) -> None:
        self.threads.setdefault(group.cta, []).extend(int(t) for t in group.threads)


def report_deadlock(machine: Machine, ctas: list[Cta]) -> NoReturn:
    """Raise the fault for CTAs of which no thread can go on, now or later."""
    groups = [g for cta in ctas for g in cta.groups]
    # Of the places at which the threads of a warp wait for one another, the first one parted them.
    parted = [g for g in groups if g.gathering and _never_complete(machine, g)]
    gathering = min(parted, key=lambda g: g.pc, default=None)
    blocked = next((g for g in groups if not g.gathering), groups[0])
    first = blocked if gathering is None else gathering
    place = _place(machine, first)
    notes = _notes(machine, groups, place)
    if gathering is not None:
        lanes = [int(t) for t in gathering.threads]
        executes = "executes" if _is_one(gathering.cta, lanes) else "execute"
        raise EmulatorFault(
            FaultKind.DIVERGENT,
            f"only {_threads(gathering.cta, lanes)} {executes} {place.instruction.opcode}, and the other threads that take part "
            "never do",
            place,
            "all threads of the warp (or of its mask) must execute it together",
            notes,
        )
    hints = (hint for group in groups if (hint := _hint(machine, group)) is not None)
    raise EmulatorFault(
        FaultKind.DEADLOCK,
        f"no thread {_of(machine, ctas)}can go on, and nothing asynchronous is under way",
        place,
        next(hints, None),
        notes,
    )


def _of(machine: Machine, ctas: list[Cta]) -> str:
    """Of which threads a report is, where it is not of all that there are."""
    if not machine.waiting and len(ctas) == sum(len(cluster.ctas) for cluster in machine.resident):
        return ""
    return "of this CTA " if len(ctas) == 1 else "of this cluster "


def _notes(machine: Machine, groups: list[Group], first: Place) -> tuple[Diagnostic, ...]:
    """A note for all threads that wait at one instruction for the same, and the source lines of each instruction once."""
    alike: dict[tuple[int, str], _Alike] = {}
    for group in groups:
        place, what = _place(machine, group), _what(machine, group)
        alike.setdefault((place.instruction.line, what), _Alike(place, what)).add(group)
    # The place of the fault comes first, and its source lines are those of the fault.
    ordered = sorted(alike.values(), key=lambda each: each.place.instruction is not first.instruction)
    explained = {first.instruction.line}
    notes: list[Diagnostic] = []
    said = 0
    for each in ordered:
        by_threads: dict[tuple[str, bool], list[Cta]] = {}
        for cta, threads in each.threads.items():
            who = _threads(cta, threads), _is_one(cta, threads)
            by_threads.setdefault(who, []).append(cta)
        for (threads, one), ctas in by_threads.items():
            said += 1
            if said > _MOST_NOTES:
                continue
            what = _of_one(each.what) if one and len(ctas) == 1 else each.what
            notes.append(Diagnostic("note", f"{_ctas(ctas)}, {threads}: {what}", each.place.location))
            if each.place.instruction.line not in explained:
                explained.add(each.place.instruction.line)
                notes += each.place.notes()
    if said > _MOST_NOTES:
        more = "note" if said == _MOST_NOTES + 1 else "notes"
        ctas = len({group.cta.number for group in groups})
        waiting = "1 CTA waits" if ctas == 1 else f"{ctas} CTAs wait"
        notes.append(
            Diagnostic(
                "note",
                f"{said - _MOST_NOTES} more {more} like these are left out; {waiting} in all",
                first.location,
            )
        )
    return tuple(notes)


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


def _what(machine: Machine, group: Group) -> str:
    """What a group does, as one would say it of several threads."""
    poll = _polls(machine, group)
    opcode = machine.program.instructions[group.pc].opcode if poll is None else poll.instruction.opcode
    if group.gathering:
        return f"wait at {opcode} for the rest of their warp"
    if group.wait is not None:
        return f"wait at {opcode} for {group.wait.describe()}"
    if poll is not None:
        return f"wait at {opcode} for {poll.describe()}"
    return f"repeat a loop at {opcode} in which nothing changes"


def _of_one(what: str) -> str:
    """The same, of one thread or one warp."""
    verb, rest = what.split(" ", 1)
    return f"{verb}s {rest.replace('their warp', 'its warp')}"


def _hint(machine: Machine, group: Group) -> str | None:
    """What may help a group that waits."""
    if group.wait is not None:
        return group.wait.hint()
    poll = _polls(machine, group)
    return None if poll is None else poll.hint()


def _ctas(ctas: list[Cta]) -> str:
    """Which CTAs, in the order of their numbers."""
    ctas = sorted(ctas, key=lambda cta: cta.number)
    first, last = ctas[0], ctas[-1]
    if len(ctas) == 1:
        return f"CTA {first.index}"
    if len(ctas) == 2:
        return f"CTAs {first.index} and {last.index}"
    if last.number - first.number + 1 == len(ctas):
        return f"CTAs {first.index} to {last.index}"
    return f"CTA {first.index} and {len(ctas) - 1} others"


def _is_one(cta: Cta, threads: list[int]) -> bool:
    """Whether these threads are one thread, or one warp as a whole."""
    warps = {t >> 5 for t in threads}
    return len(threads) == 1 or (len(warps) == 1 and len(threads) == _alive(cta, *warps))


def _alive(cta: Cta, warp: int) -> int:
    return int(cta.alive[warp * 32 : warp * 32 + 32].sum())


def _threads(cta: Cta, threads: list[int]) -> str:
    """Which threads of a CTA, by warps: "warps 0 and 2", "lanes 3 to 31 of warp 1"."""
    whole: list[int] = []
    parts: list[str] = []
    for warp in sorted({t >> 5 for t in threads}):
        lanes = sorted(t & 31 for t in threads if t >> 5 == warp)
        if len(lanes) == _alive(cta, warp):
            whole.append(warp)
        else:
            parts.append(f"{_ranges('lane', lanes)} of warp {warp}")
    if whole:
        parts.insert(0, _ranges("warp", whole))
    return _enumerate(parts)


def _ranges(what: str, numbers: list[int]) -> str:
    """Numbers, ascending, as ranges: "lane 3", "warps 0 and 1", "lanes 0 to 4 and 6 to 31"."""
    starts = [n for n in numbers if n - 1 not in numbers]
    ends = [n for n in numbers if n + 1 not in numbers]
    runs: list[str] = []
    for first, last in zip(starts, ends, strict=True):
        runs += [f"{first} to {last}"] if last - first > 1 else [str(n) for n in range(first, last + 1)]
    return f"{what if len(numbers) == 1 else what + 's'} {_enumerate(runs)}"


def _enumerate(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
