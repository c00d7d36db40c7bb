"""The operands of instructions (PTX 6)."""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import lru_cache
from typing import NoReturn

from tilec.backend.emulator.ptx.constants import expression, integer, starts_constant
from tilec.backend.emulator.ptx.initializers import offset_behind
from tilec.backend.emulator.ptx.lexer import Cursor, shown
from tilec.backend.emulator.ptx.scopes import Scope
from tilec.backend.emulator.ptx.syntax import (
    Address,
    Arguments,
    FunctionName,
    Integer,
    Label,
    Not,
    Operand,
    Pair,
    Part,
    Register,
    Sink,
    Symbol,
    Table,
    Vector,
)
from tilec.backend.emulator.ptx.types import SIZES

SINK = Sink()
_ENDS = (",", ";", "}", "]", ")")
_SELECTOR = re.compile(r"[bh][0-9]{1,4}")


def operand(cursor: Cursor, scope: Scope) -> Operand:
    """Take one operand."""
    first = _single(cursor, scope)
    if cursor.peek() != "|":
        return first
    cursor.at += 1
    return Pair(first, _single(cursor, scope))


def arguments(cursor: Cursor, scope: Scope) -> Arguments:
    """Take the parenthesised list of a `call`."""
    cursor.expect("(", "'call'")
    return Arguments(_list(cursor, scope, ")"))


def predicate(cursor: Cursor, scope: Scope) -> Register:
    """Take the name of a predicate register."""
    at = cursor.at
    found = named(cursor, scope)
    if not isinstance(found, Register):
        cursor.fail(f"'{cursor.texts[at]}' is not a register", "only a predicate register can stand here", at=at)
    if found.type != "pred":
        cursor.fail(f"register '{found.name}' is .{found.type}", "only a predicate register can stand here", at=at)
    return found


def named(cursor: Cursor, scope: Scope) -> Operand:
    """Take a name and find what it stands for."""
    name = cursor.peek()
    found = scope.find(name)
    if found is None:
        _unknown(cursor, scope, name)
    cursor.at += 1
    return found


def _unknown(cursor: Cursor, scope: Scope, name: str) -> NoReturn:
    if not name[:1].isalpha() and name[:1] not in ("_", "$", "%"):
        cursor.fail(f"expected an operand, not {shown(name)}")
    base, _, element = name.partition(".")
    whole = scope.find(base) if element else None
    if isinstance(whole, Vector):
        cursor.fail(
            f"'{base}' has no element '{element}'", f"it has {len(whole.elements)} elements: {_elements(whole)}"
        )
    if whole is not None:
        cursor.fail(f"'.{element}' cannot be taken of '{base}'", "only a vector register has elements")
    close = get_close_matches(base, [known for known in scope.known() if "." not in known], n=1)
    if (declared := scope.range_of(base)) is not None:
        prefix, count = declared
        hint = f"'{prefix}<{count}>' declares {prefix}0 to {prefix}{count - 1}"
    elif close:
        hint = f"did you mean '{close[0]}'?"
    else:
        hint = (
            f"declare a register with '.reg .b32 {base};', or set a label with '{base}:'; "
            "functions are declared with .extern .func"
        )
    cursor.fail(f"undeclared name '{base}'", hint)


def _elements(vector: Vector) -> str:
    return ", ".join("xyzw"[: len(vector.elements)])


def _single(cursor: Cursor, scope: Scope) -> Operand:
    text = cursor.peek()
    found = scope.find(text)
    if found is not None:
        cursor.at += 1
        return _behind_symbol(cursor, found) if isinstance(found, Symbol) else found
    if text == "[":
        return _address(cursor, scope)
    if text == "{":
        cursor.at += 1
        return Vector(_list(cursor, scope, "}"))
    if text == "_":
        cursor.at += 1
        return SINK
    if text == "!" and not (starts_constant(after := cursor.texts[cursor.at + 1]) or after in ("(", "!")):
        cursor.at += 1
        return Not(predicate(cursor, scope))
    if (part := _part(cursor, scope)) is not None:
        return part
    if starts_constant(text) or text in ("(", "!"):
        if text.isdigit() and text[0] != "0" and cursor.texts[cursor.at + 1] in _ENDS and len(text) < 19:
            cursor.at += 1
            return _small(text)
        return expression(cursor).operand()
    return named(cursor, scope)


def _part(cursor: Cursor, scope: Scope) -> Part | None:
    """Take ``a.b1``, ``-a`` or ``-a.h0``, if that is what is there."""
    negated = cursor.peek() == "-"
    base, _, selector = cursor.texts[cursor.at + negated].partition(".")
    register = scope.find(base)
    if not isinstance(register, Register) or not (_SELECTOR.fullmatch(selector) if selector else negated):
        return None
    cursor.at += 1 + negated
    return Part(register, selector, negated)


@lru_cache(4096)
def _small(text: str) -> Integer:
    return Integer(int(text))


def _behind_symbol(cursor: Cursor, symbol: Symbol) -> Operand:
    """Take what may follow a symbol: ``[2]``, ``+ 8``, or nothing."""
    text = cursor.peek()
    if text in _ENDS:
        return symbol
    offset = symbol.offset
    if text == "[":
        cursor.at += 1
        at = cursor.at
        if not (starts_constant(cursor.peek()) or cursor.peek() in ("(", "!")):
            cursor.fail("an array can only be indexed by a constant here", "compute the address in a register", at=at)
        offset += integer(cursor, "an index") * SIZES[symbol.variable.type]
        cursor.expect("]", "the index")
    return Symbol(symbol.variable, offset + offset_behind(cursor))


def _list(cursor: Cursor, scope: Scope, closing: str) -> tuple[Operand, ...]:
    """Take operands up to `closing`, and it too."""
    elements: list[Operand] = []
    find, texts = scope.find, cursor.texts
    while not cursor.accept(closing):
        at = cursor.at
        # Nearly all elements are registers: found directly.
        found = find(texts[at])
        if isinstance(found, Register):
            cursor.at = at + 1
            elements.append(found)
        else:
            item = operand(cursor, scope)
            if isinstance(item, Label | Table | Address | Vector | Pair) and closing == "}":
                cursor.fail(f"'{cursor.between(at, cursor.at)}' cannot be an element of a vector", at=at)
            elements.append(item)
        if texts[cursor.at] != closing:
            cursor.expect(",", "an operand")
            if texts[cursor.at] == closing:
                cursor.fail("expected an operand after ','")
    return tuple(elements)


def _address(cursor: Cursor, scope: Scope) -> Operand:
    begin = cursor.at
    cursor.at += 1
    text = cursor.peek()
    base: Register | Symbol | Integer | FunctionName
    offset = 0
    if starts_constant(text) or text == "(":
        base, offset = Integer(0), integer(cursor, "an address")
    else:
        at = cursor.at
        found = named(cursor, scope)
        if isinstance(found, Symbol):
            found = _behind_symbol(cursor, found)
        else:
            offset = offset_behind(cursor)
        if not isinstance(found, Register | Symbol | FunctionName):
            cursor.fail(f"'{cursor.texts[at]}' is not an address", "use a register, a variable or a constant", at=at)
        base = found
    coordinates: Vector | None = None
    if cursor.accept(","):
        given = operand(cursor, scope)
        coordinates = given if isinstance(given, Vector) else Vector((given,))
    if cursor.peek() == ",":
        cursor.fail("an address with a separate sampler is not supported", "write [texture, {coordinates}]")
    if not cursor.accept("]"):
        cursor.fail(f"expected ']', not {shown(cursor.peek())}: the '[' at column {cursor.place(begin)[1]} is open")
    # PTX 9.7.9.8 lets a load mark its address so; unified memory is read like any other.
    cursor.accept(".unified")
    return Address(base, offset, coordinates)
