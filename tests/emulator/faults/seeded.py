"""Seeding of faults: a working kernel with one thing changed, and what the emulator must say of it."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from faults.subjects import SUBJECTS, Subject

from tilec.backend.emulator.faults import EmulatorFault, FaultKind

ORDERS = ("fifo", "random", "adversarial")
THREAD = r"\(\d+, \d+, \d+\)"


@dataclass(frozen=True)
class Edit:
    """Replaces the `nth` match of `pattern` (from 0) in the kernel; `^` and `$` are ends of lines."""

    pattern: str
    replacement: str
    nth: int = 0


def without(pattern: str, nth: int = 0) -> Edit:
    """Leaves out the statement that begins with the pattern, with its guard and its semicolon."""
    return Edit(rf"(?:@!?%?\w+[ \t]+)?{pattern}[^;]*;", "", nth)


@dataclass(frozen=True)
class Fault:
    """`subject` with `edit`: what the user did wrong is `error`.

    `culprit` is where the code of the line begins that must be named, the `nth` such line of the mutated kernel. `says` is a
    pattern for the whole message behind the kind, up to the kernel's name, in which ``<line>`` stands for the line of another
    instruction, the one that `other` names by pattern and number; `notes` must be in what follows. `orders`, with `seed`, must
    see it so. The others see nothing, or a fault of that kind or of one of `also`: a race shows in more ways than one.
    """

    error: str
    subject: str
    edit: Edit
    kind: FaultKind
    culprit: str
    says: str
    nth: int = 0
    orders: tuple[str, ...] = ORDERS
    other: tuple[str, int] | None = None
    notes: str = ""
    seed: int = 0
    also: tuple[FaultKind, ...] = ()

    @property
    def original(self) -> Subject:
        return SUBJECTS[self.subject]

    def mutated(self) -> str:
        text = self.original.text()
        start = _start(text, self.original.entry)
        found = list(re.finditer(self.edit.pattern, text[start:], re.MULTILINE))
        assert len(found) > self.edit.nth, f"{self.edit.pattern} matches {len(found)} times"
        match = found[self.edit.nth]
        return text[: start + match.start()] + match.expand(self.edit.replacement) + text[start + match.end() :]


def _start(text: str, entry: str) -> int:
    found = re.search(rf"\.entry\s+{re.escape(entry)}\b", text)
    assert found
    return found.start()


def line_of(text: str, entry: str, pattern: str, nth: int = 0) -> int:
    """The number of the `nth` line of a kernel in which an instruction, behind its guard, begins with the pattern."""
    start = _start(text, entry)
    found = list(re.finditer(rf"(?:^|;|\{{|: )[ \t]*((?:@\S+\s+)?{pattern})", text[start:], re.MULTILINE))
    assert len(found) > nth, f"{pattern} matches {len(found)} times"
    return text.count("\n", 0, start + found[nth].start(1)) + 1


def source_of(text: str, line: int) -> tuple[str, int, int] | None:
    """File (without folders), line and column that the last `.loc` before a line names; None if there is none, or it names no
    line."""
    files = {number: name.split("/")[-1] for number, name in re.findall(r'\.file\s+(\d+) "([^"]*)"', text)}
    found: tuple[str, int, int] | None = None
    for one in text.split("\n")[: line - 1]:
        if match := re.match(r"\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)", one):
            found = files[match[1]], int(match[2]), int(match[3])
    return found if found is not None and found[1] else None


def check(fault: Fault, order: str) -> None:
    """The mutant stops where it must and says what it must."""
    text = fault.mutated()
    subject = fault.original
    try:
        subject.run(text, order, fault.seed)
    except EmulatorFault as raised:
        caught = raised
    else:
        if order in fault.orders:
            pytest.fail(f"not convicted in {order}: {fault.error}")
        return
    if order not in fault.orders:
        assert caught.kind in (fault.kind, *fault.also), str(caught)
        return
    line = line_of(text, subject.entry, fault.culprit, fault.nth)
    says = fault.says
    if fault.other is not None:
        says = says.replace("<line>", str(line_of(text, subject.entry, *fault.other)))
    place = rf"kernel {subject.entry}, CTA {THREAD}(, thread {THREAD})?"
    expected = rf"{re.escape(subject.name)}\.ptx:{line}:\d+: error: {fault.kind.value}: {says} \({place}\)"
    rendered = str(caught).split("\n")
    assert re.fullmatch(expected, rendered[0]), f"{rendered[0]}\nis not\n{expected}"
    assert caught.kind is fault.kind
    assert caught.place.instruction.line == line
    assert fault.notes in str(caught)
    source = source_of(text, line)
    if source is not None:
        places = [note.location for note in caught.diagnostic.notes if note.location is not None]
        assert source in [(place.file.split("/")[-1], place.line, place.column) for place in places]


def subjects_of(faults: list[Fault]) -> list[str]:
    """The kernels that faults are seeded into."""
    return sorted({fault.subject for fault in faults})


def check_original(name: str, order: str) -> None:
    """A kernel as it is leaves the right results."""
    subject = SUBJECTS[name]
    for result in subject.run(subject.text(), order):
        result.check()
