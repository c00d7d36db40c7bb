"""The initial values of variables (PTX 5.4.4)."""

from __future__ import annotations

import struct

import numpy as np

from tilec.backend.emulator.ptx.constants import TERM, Constant, expression, integer, starts_constant
from tilec.backend.emulator.ptx.lexer import Cursor, shown
from tilec.backend.emulator.ptx.scopes import Scope
from tilec.backend.emulator.ptx.syntax import FunctionName, Relocation, Symbol
from tilec.backend.emulator.ptx.types import SIZES

_LARGEST = 1 << 32
_BYTE_MASKS = tuple(0xFF << shift for shift in range(0, 64, 8))


class Initializer:
    """Reads one initialiser into bytes and relocations.

    `shape` holds the extents of the array, of which the first may be None: as many as are given. `lanes` is the length of its
    vectors, or 1.
    """

    def __init__(self, cursor: Cursor, scope: Scope, kind: str, shape: tuple[int | None, ...], lanes: int) -> None:
        self._cursor = cursor
        self._scope = scope
        self._kind = kind
        self._shape = shape if lanes == 1 else (*shape, lanes)
        self._lanes_level = None if lanes == 1 else len(shape)
        self._width = SIZES[kind]
        self._data = bytearray()
        self._relocations: list[Relocation] = []

    def read(self) -> tuple[bytes, tuple[Relocation, ...]]:
        """Take the values behind the '='. The bytes cover all extents; what is not given is zero."""
        if self._kind.endswith("ref"):
            self._cursor.fail(f"the state of a .{self._kind} is not supported", "leave out its initial value")
        total = self._stride(0)
        if total > _LARGEST:
            self._cursor.fail(f"a variable of {total} bytes cannot be given a value")
        self._values(0, 0)
        self._data.extend(bytes(max(0, total - len(self._data))))
        return bytes(self._data), tuple(self._relocations)

    def _stride(self, level: int) -> int:
        """The bytes of one value at this level of nesting, 0 where the extent is not known."""
        size = self._width
        for extent in self._shape[level:]:
            size *= extent or 0
        return size

    def _values(self, level: int, offset: int) -> None:
        if level == len(self._shape):
            self._element(offset)
            return
        cursor, extent, stride = self._cursor, self._shape[level], self._stride(level + 1)
        begin = cursor.at
        if not cursor.accept("{"):
            cursor.fail(
                f"expected '{{', not {shown(cursor.peek())}: the values of an array are listed in braces, one pair for each extent"
            )
        count = 0
        while not cursor.accept("}"):
            if count:
                cursor.expect(",", "a value")
            if count == extent:
                cursor.fail(
                    f"more values than the {extent} that are declared", "remove them, or declare a larger array"
                )
            self._values(level + 1, offset + count * stride)
            count += 1
        if level == self._lanes_level and count != extent:
            cursor.fail(f"{count} values for a vector of {extent}", "a vector is given whole", at=begin)
        if extent is None:
            self._data.extend(bytes(max(0, offset + count * stride - len(self._data))))

    def _element(self, offset: int) -> None:
        cursor, at = self._cursor, self._cursor.at
        self._data.extend(bytes(max(0, offset + self._width - len(self._data))))
        mask, shift = self._mask()
        if starts_constant(cursor.peek()) or cursor.peek() in ("(", "!"):
            constant = expression(cursor)
            if mask is not None:
                constant = Constant((int(constant.value) & mask) >> shift, "u64")
            self._data[offset : offset + self._width] = self._encoded(constant, at)
        else:
            self._relocations.append(self._address(offset, mask, shift))
        if mask is not None:
            cursor.expect(")", "the expression whose byte is taken")

    def _mask(self) -> tuple[int | None, int]:
        """Take ``0xFF00(``, if it is there: the mask and the bits below it."""
        cursor = self._cursor
        if not (starts_constant(cursor.peek()) and cursor.texts[cursor.at + 1] == "("):
            return None, 0
        at = cursor.at
        mask = integer(cursor, "a mask", TERM + 1) % (1 << 64)
        if mask not in _BYTE_MASKS:
            cursor.fail("a mask selects one whole byte", "write 0xFF, 0xFF00, ... or 0xFF00000000000000", at=at)
        cursor.expect("(", "the mask")
        return mask, 8 * _BYTE_MASKS.index(mask)

    def _address(self, offset: int, mask: int | None, shift: int) -> Relocation:
        cursor, at = self._cursor, self._cursor.at
        generic = cursor.peek() == "generic" and cursor.texts[cursor.at + 1] == "("
        if generic:
            cursor.at += 2
        name_at = cursor.at
        name = cursor.name("a variable or a function")
        match self._scope.find(name):
            case Symbol(variable):
                if variable.space not in ("global", "const"):
                    cursor.fail(
                        f"the address of '{name}' in .{variable.space} is not known before the program runs",
                        "only variables in .global and .const, and functions, can be named here",
                        at=name_at,
                    )
            case FunctionName():
                pass
            case _:
                cursor.fail(
                    f"undeclared name '{name}'", "declare the variable or function before it is used", at=name_at
                )
        addend = offset_behind(cursor)
        if generic:
            cursor.expect(")", "the name in 'generic('")
            addend += offset_behind(cursor)
        if mask is None and self._kind not in ("u32", "u64", "b32", "b64", "s32", "s64"):
            cursor.fail(
                f"an address does not fit in .{self._kind}",
                "take one byte of it with 0xFF(name), or declare the variable as .u64",
                at=at,
            )
        if mask is None:
            return Relocation(offset, self._width, name, addend, generic)
        return Relocation(offset, self._width, name, addend, generic, mask, shift)

    def _encoded(self, constant: Constant, at: int) -> bytes:
        """The constant as it stands in memory, in the type of the variable."""
        bits = 8 * self._width
        floating = self._kind in ("f32", "f64")
        if self._kind[0] not in "bsu" and not floating:
            self._cursor.fail(f"a variable of type .{self._kind} cannot be given a value", at=at)
        if constant.is_integer and not floating:
            return (int(constant.value) % (1 << bits)).to_bytes(self._width, "little")
        if constant.is_integer or bits not in (32, 64) or self._kind[0] in "su":
            given = "an integer" if constant.is_integer else "a floating constant"
            self._cursor.fail(f"{given} cannot initialise a variable of type .{self._kind}", at=at)
        if constant.type == "f32" and bits == 64:
            self._cursor.fail(
                f"a single 0f... cannot initialise a variable of type .{self._kind}", "write it as 0d...", at=at
            )
        if constant.type == "f32":
            return struct.pack("<I", constant.value)
        if bits == 64:
            return struct.pack("<d", constant.value)
        with np.errstate(over="ignore"):
            return np.float32(constant.value).tobytes()


def offset_behind(cursor: Cursor) -> int:
    """Take the bytes that are added to an address: ``+ 4``, ``- 4``, ``+-4``, or nothing."""
    total = 0
    while (sign := cursor.peek()) in ("+", "-"):
        cursor.at += 1
        term = integer(cursor, "an offset", TERM)
        total += term if sign == "+" else -term
    return (total + (1 << 63)) % (1 << 64) - (1 << 63)
