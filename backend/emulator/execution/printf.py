"""Formatted output as the device's printf has it (CUDA C++ programming guide, formatted output)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np

_CONVERSION = re.compile(
    rb"%(?P<flags>[-+ #0]*)(?P<width>\*|\d+)?(?:\.(?P<precision>\*|\d*))?(?P<size>hh|h|ll|l|j|z|t|L)?(?P<kind>[diouxXpeEfFgGaAcs%])"
)
_LONG = (b"l", b"ll", b"j", b"z", b"t")
_MOST = 32
"""Values that one call may print; conversions beyond them are printed as they are written."""

TakeValue = Callable[[int], bytes]
"""Takes the next value of so many bytes, aligned to its size."""


def format_text(format: bytes, value: TakeValue, string: Callable[[int], bytes]) -> tuple[bytes, int]:
    """The text, and how many values went into it. `string` reads the bytes at an address up to a zero."""
    parts: list[bytes] = []
    taken = end = 0
    for match in _CONVERSION.finditer(format):
        parts.append(format[end : match.start()])
        end = match.end()
        needed = 1 + (match["width"] == b"*") + (match["precision"] == b"*")
        if match["kind"] == b"%":
            parts.append(b"%")
        elif taken + needed > _MOST:
            parts.append(match[0])
        else:
            taken += needed
            parts.append(_converted(match, value, string))
    parts.append(format[end:])
    return b"".join(parts), taken


def _converted(match: re.Match[bytes], value: TakeValue, string: Callable[[int], bytes]) -> bytes:
    flags, kind = match["flags"].decode(), match["kind"].decode()
    width, precision = _number(match["width"], value), _number(match["precision"], value)
    if width is not None and width < 0:
        flags, width = flags + "-", -width
    if precision is not None and precision < 0:
        precision = None
    if kind == "c":
        return _padded(bytes([int.from_bytes(value(4), "little") & 0xFF]), width, flags)
    if kind == "s":
        found = string(int.from_bytes(value(8), "little"))
        return _padded(found if precision is None else found[:precision], width, flags)
    if kind == "p":
        address = int.from_bytes(value(8), "little")
        return _padded(f"0x{address:x}".encode() if address else b"(nil)", width, flags)
    if kind in "diouxX":
        lead, digits = _integer(kind, flags, precision, _integer_value(match["size"], kind, value))
        zeros = precision is None
    else:
        number = float(np.frombuffer(value(8), np.float64)[0])
        lead, digits = _floating(kind, flags, precision, number)
        zeros = math.isfinite(number)
    if zeros and "0" in flags and "-" not in flags and width is not None:
        digits = digits.rjust(width - len(lead), "0")
    return _padded((lead + digits).encode(), width, flags)


def _number(field: bytes | None, value: TakeValue) -> int | None:
    """A width or a precision: written, taken from the values (``*``), or left out."""
    if field == b"*":
        return int.from_bytes(value(4), "little", signed=True)
    return None if field is None else int(field or b"0")


def _padded(text: bytes, width: int | None, flags: str) -> bytes:
    if width is None:
        return text
    return text.ljust(width) if "-" in flags else text.rjust(width)


def _integer_value(size: bytes | None, kind: str, value: TakeValue) -> int:
    """Values narrower than an int are passed as an int."""
    raw = value(8 if size in _LONG else 4)
    narrow = {b"h": 2, b"hh": 1}.get(size or b"", len(raw))
    return int.from_bytes(raw[:narrow], "little", signed=kind in "di")


def _signed(flags: str) -> str:
    return "+" if "+" in flags else " " if " " in flags else ""


def _integer(kind: str, flags: str, precision: int | None, number: int) -> tuple[str, str]:
    """The sign or the prefix, and the digits."""
    digits = format(abs(number), kind if kind in "oxX" else "d")
    if precision is not None:
        digits = "" if precision == 0 and number == 0 else digits.rjust(precision, "0")
    if kind in "di":
        return "-" if number < 0 else _signed(flags), digits
    if "#" in flags and kind in "xX" and number:
        return f"0{kind}", digits
    return "", "0" + digits if "#" in flags and kind == "o" and digits[:1] != "0" else digits


def _floating(kind: str, flags: str, precision: int | None, number: float) -> tuple[str, str]:
    """The sign (and the prefix of hexadecimal digits), and the rest."""
    sign = "-" if math.copysign(1, number) < 0 else _signed(flags)
    if not math.isfinite(number):
        name = "nan" if math.isnan(number) else "inf"
        return sign, name.upper() if kind.isupper() else name
    if kind in "aA":
        digits = _hexadecimal(abs(number), precision, "#" in flags)
        return sign + f"0{'x' if kind == 'a' else 'X'}", digits.upper() if kind == "A" else digits
    alternate = "#" if "#" in flags else ""
    return sign, f"%{alternate}.{6 if precision is None else precision}{kind}" % abs(number)


def _hexadecimal(magnitude: float, precision: int | None, point: bool) -> str:
    """``1.8p+1``, with as many digits as needed, or `precision`, rounded to even."""
    if magnitude == 0:
        whole, fraction, exponent = 0, 0, 0
    else:
        bits = int(np.float64(magnitude).view(np.uint64))
        fraction, exponent = bits & ((1 << 52) - 1), (bits >> 52) - 1023
        whole = 1 if exponent > -1023 else 0
        exponent = max(exponent, -1022)
    digits = 13
    if precision is not None and precision < 13:
        total, cut = whole << 52 | fraction, 52 - 4 * precision
        half, rest = 1 << cut - 1, total & ((1 << cut) - 1)
        total >>= cut
        total += rest > half or (rest == half and total & 1)
        whole, fraction, digits = total >> 4 * precision, total & ((1 << 4 * precision) - 1), precision
    text = f"{fraction:0{digits}x}" if digits else ""
    text = text.rstrip("0") if precision is None else text.ljust(precision, "0")
    return f"{whole}{'.' if text or point else ''}{text}p{exponent:+d}"
