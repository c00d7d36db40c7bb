"""Declarations of variables, registers and parameters (PTX 5.4, 5.1.6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from tilec.backend.emulator.ptx.constants import SHIFT, integer
from tilec.backend.emulator.ptx.initializers import Initializer
from tilec.backend.emulator.ptx.lexer import Cursor, shown
from tilec.backend.emulator.ptx.scopes import Scope
from tilec.backend.emulator.ptx.syntax import Register, Space, Symbol, Variable
from tilec.backend.emulator.ptx.types import SIZES

SPACES = (".global", ".const", ".shared", ".local", ".param")
LINKAGE = (".extern", ".visible", ".weak", ".common")
_LANES = {".v2": 2, ".v4": 4}
_LARGEST_VECTOR = 16
_MOST_NAMES = 1 << 24


@dataclass(frozen=True, slots=True)
class _Kind:
    """What a declaration says before the name. `align` in bytes, None if it is not given."""

    space: str
    type: str
    lanes: int
    align: int | None


def _kind(cursor: Cursor) -> _Kind:
    """Take the space and everything up to the name."""
    space = cursor.take()[1:]
    align: int | None = None
    lanes, kind, pointer = 1, "", False
    while (text := cursor.peek())[:1] == ".":
        at = cursor.at
        cursor.at += 1
        if text == ".align":
            bytes_ = integer(cursor, "an alignment")
            if bytes_ <= 0 or bytes_ & (bytes_ - 1):
                cursor.fail(f"the alignment {bytes_} is not a power of two", at=at + 1)
            # Behind .ptr stands the alignment of what the parameter points to.
            align = align if pointer else bytes_
        elif text == ".attribute":
            cursor.skip_block("(", ")")
        elif text == ".ptr":
            pointer = True
        elif pointer and text in SPACES:
            pass
        elif text in _LANES:
            lanes = _LANES[text]
        elif (text[1:] in SIZES or text == ".pred") and not kind:
            kind = text[1:]
        else:
            cursor.fail(f"'{text}' is not a type, nor anything else that can stand in a declaration", at=at)
    if not kind:
        cursor.fail(
            f"the declaration has no type before {shown(cursor.peek())}", "write a type, such as .b32, before the name"
        )
    if kind == "pred" and space != "reg":
        cursor.fail("a predicate can only be a register", "declare it with .reg")
    if lanes > 1 and (kind == "pred" or lanes * SIZES[kind] > _LARGEST_VECTOR):
        cursor.fail(f"a vector of {lanes} elements of type .{kind} is too large", "a vector has at most 16 bytes")
    return _Kind(space, kind, lanes, align)


def _refuse_duplicate(cursor: Cursor, scope: Scope, name: str, at: int) -> None:
    if scope.declares(name):
        cursor.fail(f"'{name}' is already declared in this scope", "give one of the two another name", at=at)


def _count(cursor: Cursor) -> int | None:
    """Take ``<100>`` behind a name, if it is there."""
    if not cursor.accept("<"):
        return None
    at = cursor.at
    count = integer(cursor, "the number of names", SHIFT)
    cursor.expect(">", "the number of names")
    if not 0 < count <= _MOST_NAMES:
        cursor.fail(f"a range of {count} names", f"declare at least one and at most {_MOST_NAMES}", at=at)
    return count


def registers(cursor: Cursor, scope: Scope) -> None:
    """Take a `.reg` declaration with its ';'."""
    kind = _kind(cursor)
    while True:
        at = cursor.at
        name = cursor.name("a register")
        count = _count(cursor)
        if count is None:
            _refuse_duplicate(cursor, scope, name, at)
            scope.declare_register(name, kind.type, kind.lanes)
        elif scope.declares_any(name, count):
            cursor.fail(f"'{name}<{count}>' declares a name that this scope already has", at=at)
        else:
            scope.declare_range(name, count, kind.type, kind.lanes)
        if not cursor.accept(","):
            break
    cursor.semicolon("the declaration of registers")


def variables(cursor: Cursor, scope: Scope, *, external: bool = False) -> list[Variable]:
    """Take a declaration of variables in memory with its ';', and put them in scope."""
    kind = _kind(cursor)
    found: list[Variable] = []
    while True:
        at = cursor.at
        name = cursor.name("a variable")
        count = _count(cursor)
        if count is None:
            found.append(_variable(cursor, scope, kind, name, at, external))
        else:
            for i in range(count):
                found.append(_variable(cursor, scope, kind, f"{name}{i}", at, external))
        if not cursor.accept(","):
            break
    cursor.semicolon(f"the declaration of '{found[-1].name}'")
    return found


def _variable(cursor: Cursor, scope: Scope, kind: _Kind, name: str, at: int, external: bool) -> Variable:
    shape = _shape(cursor)
    initial, relocations = None, ()
    if cursor.peek() == "=":
        if external or kind.space not in ("global", "const"):
            what = "an external variable" if external else f"a variable in .{kind.space}"
            cursor.fail(f"{what} cannot have an initial value", "store the value when the program runs")
        cursor.at += 1
        initial, relocations = Initializer(cursor, scope, kind.type, shape, kind.lanes).read()
    element = SIZES[kind.type] * kind.lanes
    size = element
    for extent in shape:
        size *= extent or 0
    if initial is not None:
        size = len(initial)
    if size == 0 and not external and kind.space != "param":
        cursor.fail(f"the size of '{name}' is not known", "write the extent, or an initial value, or .extern", at=at)
    line = cursor.place(at)[0]
    align = element if kind.align is None else kind.align
    variable = Variable(name, cast("Space", kind.space), kind.type, align, size, external, initial, relocations, line)
    previous = scope.names.get(name)
    if (
        isinstance(previous, Symbol)
        and previous.variable.space == kind.space
        and (external or previous.variable.external)
    ):
        # `.extern` may be said many times, before and after the definition.
        if external:
            return previous.variable
    else:
        _refuse_duplicate(cursor, scope, name, at)
    scope.names[name] = Symbol(variable)
    return variable


def _shape(cursor: Cursor) -> tuple[int | None, ...]:
    """Take the extents behind a name; an empty first one is None."""
    shape: list[int | None] = []
    while cursor.accept("["):
        if cursor.peek() == "]":
            if shape:
                cursor.fail("only the first extent may be left out")
            shape.append(None)
        else:
            at = cursor.at
            extent = integer(cursor, "an extent")
            if extent < 0:
                cursor.fail(f"the extent {extent} is negative", at=at)
            shape.append(extent)
        cursor.expect("]", "the extent")
    return tuple(shape)


def parameters(cursor: Cursor, scope: Scope) -> tuple[Variable | Register, ...]:
    """Take a list of parameters with its parentheses, and put them in scope. A name ``_`` (PTX 11.3.3) puts nothing there."""
    cursor.expect("(", "the name")
    found: list[Variable | Register] = []
    while not cursor.accept(")"):
        if (space := cursor.peek()) not in (".param", ".reg"):
            cursor.fail(f"expected a parameter, not {shown(space)}", "a parameter begins with .param or .reg")
        kind = _kind(cursor)
        at = cursor.at
        if cursor.accept("_"):
            name, inner = "_", Scope(registers=scope.registers)
        else:
            name, inner = cursor.name("a parameter"), scope
        if kind.space == "param":
            found.append(_variable(cursor, inner, kind, name, at, external=False))
        else:
            found.append(_parameter_register(cursor, inner, kind, name, at))
        if cursor.peek() != ")":
            cursor.expect(",", "a parameter")
    return tuple(found)


def _parameter_register(cursor: Cursor, scope: Scope, kind: _Kind, name: str, at: int) -> Register:
    if kind.lanes > 1:
        cursor.fail("a vector register cannot be a parameter", "declare the parameter with .param", at=at)
    _refuse_duplicate(cursor, scope, name, at)
    register = scope.declare_register(name, kind.type, 1)
    assert isinstance(register, Register)
    return register
