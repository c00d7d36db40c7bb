"""Formats of printf, against what C says of each."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from tilec.backend.emulator.execution.printf import format_text


class Values:
    """A buffer of values as a caller lays it out, each aligned to its size."""

    def __init__(self, *values: Any) -> None:
        self.data = b""
        self.at = 0
        self.strings: dict[int, bytes] = {}
        for value in values:
            if isinstance(value, bytes):
                address = 0x1000 * (len(self.strings) + 1)
                self.strings[address] = value
                self._append(struct.pack("<Q", address))
            elif isinstance(value, float):
                self._append(struct.pack("<d", value))
            elif isinstance(value, tuple):
                self._append(struct.pack("<Q", value[0] & (2**64 - 1)))
            else:
                self._append(struct.pack("<I", value & (2**32 - 1)))

    def _append(self, item: bytes) -> None:
        self.data += bytes(-len(self.data) % len(item)) + item

    def take(self, width: int) -> bytes:
        first = -(-self.at // width) * width
        self.at = first + width
        return self.data[first : self.at]


def printed(format: str, *values: Any) -> str:
    buffer = Values(*values)
    return format_text(format.encode(), buffer.take, lambda address: buffer.strings[address])[0].decode()


@pytest.mark.parametrize(
    ("format", "values", "expected"),
    [
        ("plain, 100%%", (), "plain, 100%"),
        ("%d %i %u", (-5, 7, -1), "-5 7 4294967295"),
        ("[%5d|%-5d|%05d|%+d|% d]", (42, 42, -42, 42, 42), "[   42|42   |-0042|+42| 42]"),
        ("[%.3d|%6.3d|%06.3d|%.0d]", (5, 5, 5, 0), "[005|   005|   005|]"),
        ("%x %X %o %#x %#X %#o %#x", (255, 255, 8, 255, 255, 8, 0), "ff FF 10 0xff 0XFF 010 0"),
        ("%#08x|%#-8x|", (255, 255), "0x0000ff|0xff    |"),
        ("%ld %lld %lu %llx", ((-5,), (2**40,), (-1,), (2**40,)), "-5 1099511627776 18446744073709551615 10000000000"),
        ("%d %ld %d", (1, (2,), 3), "1 2 3"),
        ("%hd %hu %hhd %hhu", (0x18000, -1, 0x180, 0x1FF), "-32768 65535 -128 255"),
        ("%zu %jd %td", ((7,), (-7,), (9,)), "7 -7 9"),
        ("%c%c|%3c|%-3c|", (72, 105, 33, 63), "Hi|  !|?  |"),
        ("%s|%6s|%-6s|%.2s|", (b"abc", b"abc", b"abc", b"abc"), "abc|   abc|abc   |ab|"),
        ("%p|%p|%14p", ((0x7F00,), (0,), (0xABC,)), "0x7f00|(nil)|         0xabc"),
        ("%f %.2f %.0f %#.0f", (1.5, 2.345, 2.5, 2.5), "1.500000 2.35 2 2."),
        ("%e %.3E %g %G %g", (12345.678, 0.00012, 0.0001, 1e20, 1e-5), "1.234568e+04 1.200E-04 0.0001 1E+20 1e-05"),
        ("[%8.2f|%-8.2f|%08.2f|%+.1f]", (-3.14159, 3.14159, -3.14159, 2.0), "[   -3.14|3.14    |-0003.14|+2.0]"),
        ("%f %F %5.1f|%05f", (float("inf"), float("-inf"), float("nan"), float("inf")), "inf -INF   nan|  inf"),
        ("%a %A %.2a %a %a", (1.5, -0.375, 1.999, 0.0, 5e-324), "0x1.8p+0 -0X1.8P-2 0x2.00p+0 0x0p+0 0x0.0000000000001p-1022"),
        ("%*d|%-*d|%.*f|%*d", (5, 42, 5, 42, 1, 2.25, -4, 7), "   42|42   |2.2|7   "),
        ("%.*d", (-1, 7), "7"),
        ("%y %", (), "%y %"),
    ],
)  # fmt: skip
def test_formats(format: str, values: tuple[Any, ...], expected: str) -> None:
    assert printed(format, *values) == expected


def test_how_many_values_were_taken() -> None:
    buffer = Values(1, 2, 3, 4)
    assert format_text(b"%d %% %*d", buffer.take, lambda address: b"") == (b"1 %      3"[:4] + b" 3", 3)


def test_conversions_beyond_32_values_are_left_as_they_are() -> None:
    format, values = "%d," * 33, tuple(range(33))
    assert printed(format, *values) == "".join(f"{i}," for i in range(32)) + "%d,"
