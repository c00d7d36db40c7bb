"""Diagnostics: what is wrong, where, and what to do about it.

Every error that a user can cause is one `TilecError`, which carries one `Diagnostic`. Passes raise theirs with `fail`, and
tell of choices that they made with `remark` and `warn`, which go to the innermost `collect` or else to stderr.

Nothing here imports xDSL before it is handed a part of a program: a kernel that comes from the disk cache needs none.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, NoReturn, cast

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ArrayAttr
    from xdsl.ir import Attribute, Operation, SSAValue

_WIDTH = 240
Severity = Literal["error", "warning", "remark", "note"]


class SourceLocation(NamedTuple):
    """A place in a text; line and column count from 1, columns in characters."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Diagnostic(NamedTuple):
    """One message to the user. `hint` says what to do; `notes` point at other places that matter."""

    severity: Severity
    message: str
    location: SourceLocation | None = None
    hint: str | None = None
    notes: tuple[Diagnostic, ...] = ()

    def render(self) -> str:
        """The text shown: ``file:line:col: error: message``, the source line, a caret, the hint and the notes."""
        where = "" if self.location is None else f"{self.location}: "
        lines = [f"{where}{self.severity}: {self.message}"]
        # An empty line shows nothing, and a caret under it points at nothing.
        if self.location is not None and (text := _source_line(self.location) or "").strip():
            # A column behind the line is that of other text, such as what a macro stands for: there is nothing to point at.
            points = self.location.column <= len(text) + 1
            # Of a very long line, the part around the caret.
            left = max(0, self.location.column - _WIDTH // 2) if points else 0
            text = text[left : left + _WIDTH]
            lines.append(text)
            if points:
                # The caret stands under its character in any terminal only if tabs are repeated.
                before = "".join("\t" if c == "\t" else " " for c in text[: self.location.column - 1 - left])
                lines.append(f"{before}^")
        if self.hint is not None:
            lines.append(f"hint: {self.hint}")
        return "\n".join([*lines, *(note.render() for note in self.notes)])


class TilecError(Exception):
    """The root of all errors that a user can cause; `str` gives the rendered diagnostic."""

    def __init__(
        self,
        message: str,
        location: SourceLocation | None = None,
        hint: str | None = None,
        notes: tuple[Diagnostic, ...] = (),
    ) -> None:
        self.diagnostic = Diagnostic("error", message, location, hint, notes)
        super().__init__(message)

    def __str__(self) -> str:
        return self.diagnostic.render()


class InternalError(TilecError):
    """A fault of tilec itself, found by one of its own checks."""


def refusal(error: Exception, location: SourceLocation | None, notes: tuple[Diagnostic, ...] = ()) -> TilecError:
    """What a parser or verifier raised, as a diagnostic.

    xDSL refuses input with exceptions of many classes, plain `Exception` among them, that know no place in a text. Those that
    only a slip in a program raises are faults of ours.
    """
    if isinstance(error, AttributeError | NameError | ImportError | TypeError | AssertionError | LookupError):
        return InternalError(f"{type(error).__name__}: {one_line(error)}", location, notes=notes)
    message = "nested too deeply" if isinstance(error, RecursionError) else one_line(error)
    return TilecError(message, location, notes=notes)


_sources: dict[str, str] = {}


def register_source(file: str, text: str) -> None:
    """Make the text of `file` known, so that diagnostics can show its lines without reading it again."""
    _sources[file] = text


def _source_line(location: SourceLocation) -> str | None:
    text = _sources.get(location.file)
    if text is None:
        try:
            text = Path(location.file).read_text(encoding="utf-8")
        except (OSError, ValueError):  # ValueError: not UTF-8, or a name that no file can have
            return None
    lines = text.split("\n")
    return lines[location.line - 1].removesuffix("\r") if 1 <= location.line <= len(lines) else None


def location_of(item: Operation | SSAValue) -> SourceLocation | None:
    """Where the text of an operation or a value stands; what has no location of its own is at its parent's."""
    return resolve(_location_of(item))


def calls_to(item: Operation | SSAValue) -> tuple[Diagnostic, ...]:
    """The calls through which the code of an operation or a value was reached, innermost first, as notes."""
    from xdsl.dialects.builtin import CallSiteLoc, NameLoc

    notes: list[Diagnostic] = []
    location = _location_of(item)
    while isinstance(location, CallSiteLoc):
        location = location.caller
        name = f" from {location.desc.data}" if isinstance(location, NameLoc) else ""
        notes.append(Diagnostic("note", f"called{name}", resolve(location)))
        location = location.location if isinstance(location, NameLoc) else location
    return tuple(notes)


def _location_of(item: Operation | SSAValue) -> Attribute | None:
    """The first location, of this or of what is around it, that has a position in it."""
    from xdsl.ir import BlockArgument, Operation

    if isinstance(item, BlockArgument) and resolve(item.location) is not None:
        return item.location
    operation = item if isinstance(item, Operation) else item.owner
    while operation is not None:
        if isinstance(operation, Operation) and resolve(operation.location) is not None:
            return operation.location
        operation = operation.parent_op()
    return None


def resolve(location: Attribute | None) -> SourceLocation | None:
    """The first file position inside a location attribute."""
    from xdsl.dialects.builtin import CallSiteLoc, FileLineColLoc, FusedLoc, NameLoc

    match location:
        case FileLineColLoc():
            return SourceLocation(location.filename.data, location.line.data, location.column.data)
        case NameLoc():
            return resolve(location.location)
        case CallSiteLoc():
            return resolve(location.callee) or resolve(location.caller)
        case FusedLoc():
            parts = cast("ArrayAttr[Attribute]", location.locations)
            return next((found for part in parts if (found := resolve(part)) is not None), None)
        case _:
            return None


def fail(at: Operation | SSAValue, message: str, hint: str | None = None) -> NoReturn:
    """Stop the pass with a `PassError` that points at `at`."""
    from tilec.pass_error import PassError

    raise PassError(message, location_of(at), hint, calls_to(at))


def remark(at: Operation | SSAValue, message: str, hint: str | None = None) -> None:
    """Tell the user about a choice that the compiler made."""
    report(Diagnostic("remark", message, location_of(at), hint, calls_to(at)))


def warn(at: Operation | SSAValue, message: str, hint: str | None = None) -> None:
    """Tell the user about something that compiles but is probably not meant."""
    report(Diagnostic("warning", message, location_of(at), hint, calls_to(at)))


def kind_of(value: object) -> str:
    """What a value of the wrong class is, for a message."""
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def one_line(message: object) -> str:
    """A message of another library, which may span lines, as one."""
    return " ".join(str(message).split()) or type(message).__name__


_LISTED = 16


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """What to do about an unknown `word`: the name that was probably meant, and all that there are if they are few."""
    from difflib import get_close_matches

    names = list(known)
    meant = [f"did you mean '{name}'?" for name in get_close_matches(word, names, n=1)]
    all_of_them = [f"known: {', '.join(names)}"] if len(names) <= _LISTED else []
    return " ".join(meant + all_of_them) or None


_collected: ContextVar[list[Diagnostic] | None] = ContextVar("_collected", default=None)


def report(diagnostic: Diagnostic) -> None:
    """Hand a diagnostic that is not an error to the innermost `collect`, or print it to stderr."""
    sink = _collected.get()
    if sink is None:
        with suppress(ValueError):  # stderr was closed: nobody is there to be told
            print(diagnostic.render(), file=sys.stderr)
    else:
        sink.append(diagnostic)


@contextmanager
def collect() -> Generator[list[Diagnostic]]:
    """Gather the remarks and warnings of the enclosed code in a list in place of printing them."""
    diagnostics: list[Diagnostic] = []
    token = _collected.set(diagnostics)
    try:
        yield diagnostics
    finally:
        _collected.reset(token)
