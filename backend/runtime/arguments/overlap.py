"""What a kernel writes: memory that may be written, once, and that no other argument has.

Every tensor that `place` accepts is a number of rows at one pitch. Whether two of them share a byte is decided exactly, so
that column slices of one buffer pass although their rows interleave.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from tilec.backend.runtime.arguments.argument import Argument
from tilec.diagnostics import TilecError


class _Rows(NamedTuple):
    """`many` rows of `length` bytes, `pitch` bytes apart; a pitch above 0 where there is more than one."""

    address: int
    many: int
    pitch: int
    length: int

    @property
    def end(self) -> int:
        return self.address + (self.many - 1) * self.pitch + self.length


def check_written(name: str, argument: Argument) -> None:
    """Refuse an output that is read-only, or that has two elements in one place."""
    if argument.readonly:
        raise TilecError(f"argument {name} is read-only; the kernel writes it", hint="pass an output of its own")
    if 0 in argument.shape:
        return
    row_bytes = argument.element_bytes
    steps = [(abs(s), n) for s, n in zip(argument.strides, argument.shape, strict=True) if n > 1]
    steps.sort(key=lambda step: (step[0] != row_bytes, step[0]))
    for stride, extent in steps:
        if stride < row_bytes:
            raise TilecError(
                f"argument {name}: its rows overlap (pitch {stride} bytes, rows of {row_bytes} bytes), so the kernel cannot "
                f"write it",
                hint="pass an output whose elements each have memory of their own",
            )
        row_bytes = (extent - 1) * stride + row_bytes


def check_overlap(names: Sequence[str], arguments: Sequence[Argument], outputs: Sequence[int]) -> None:
    """Refuse an output (by its number among the arguments) that shares memory with another argument.

    What a kernel both reads and writes is one argument, given once. What `place` refuses is not looked at: a tensor that is not
    rows at one pitch.
    """
    rows = [_rows(a) for a in arguments]
    for output in outputs:
        written = rows[output]
        for other, others in enumerate(rows):
            if other == output or (other in outputs and other < output) or written is None or others is None:
                continue
            if written.address < others.end and others.address < written.end and _meet(written, others):
                first, second = sorted((output, other))
                _refuse(names[first], names[second], arguments[first], arguments[second], both=other in outputs)


def _rows(argument: Argument) -> _Rows | None:
    """The bytes of a tensor; None if there are none, or not rows at one pitch, which `place` refuses."""
    if 0 in argument.shape:
        return None
    address, many, pitch, length = argument.address, 1, 0, argument.element_bytes
    for stride, extent in sorted((abs(s), n) for s, n in zip(argument.strides, argument.shape, strict=True)):
        if extent == 1 or stride == 0:
            continue
        if many > 1:
            return None
        if stride == length:
            length *= extent
        else:
            many, pitch = extent, stride
    # Of a dimension that runs backward, the last element comes first.
    address += sum((n - 1) * s for s, n in zip(argument.strides, argument.shape, strict=True) if s < 0)
    return _Rows(address, many, pitch, length)


def _meet(a: _Rows, b: _Rows) -> bool:
    """Whether a row i of `a` and a row j of `b` share bytes: i a.pitch - j b.pitch is from `least` to `most` then."""
    apart = a.address - b.address
    least, most = 1 - a.length - apart, b.length - 1 - apart
    if a.pitch == b.pitch and a.pitch:  # by the number of rows from j to i
        steps = max(-(-least // a.pitch), 1 - b.many)
        return steps < a.many and steps * a.pitch <= most
    return _at_least(a, b, least) > _at_least(a, b, most + 1)


def _at_least(a: _Rows, b: _Rows, least: int) -> int:
    """The number of i below a.many and j below b.many with  i a.pitch - j b.pitch >= least."""
    if b.many == 1:
        return a.many - _clamp(-(-least // a.pitch), a.many) if a.many > 1 else int(least <= 0)
    if a.many == 1:
        return _clamp(-least // b.pitch + 1, b.many)
    # For row i they are the j up to (i a.pitch - least) / b.pitch: none below row `first`, all from row `full` on.
    first = _clamp(-(-least // a.pitch), a.many)
    full = _clamp(-(-(least + (b.many - 1) * b.pitch) // a.pitch), a.many)
    between = _floor_sum(full - first, b.pitch, a.pitch, first * a.pitch - least) + (full - first)
    return between + (a.many - full) * b.many


def _clamp(value: int, most: int) -> int:
    return min(max(value, 0), most)


def _floor_sum(terms: int, divisor: int, step: int, start: int) -> int:
    """The sum of  (step i + start) // divisor  over i below `terms`, by the steps of Euclid's algorithm; all are >= 0."""
    total = 0
    while terms > 0:
        total += terms * (terms - 1) // 2 * (step // divisor) + terms * (start // divisor)
        step, start = step % divisor, start % divisor
        last = step * terms + start
        terms, start, divisor, step = last // divisor, last % divisor, step, divisor
    return total


def _refuse(name_a: str, name_b: str, a: Argument, b: Argument, *, both: bool) -> None:
    rows_a, rows_b = _rows(a), _rows(b)
    assert rows_a is not None and rows_b is not None
    what = "both are outputs" if both else "one is an input, one an output"
    hint = "give each output memory of its own"
    if (a.address, a.shape, a.strides) == (b.address, b.shape, b.strides):
        raise TilecError(f"arguments {name_a} and {name_b} are the same memory, at 0x{a.address:x}: {what}", hint=hint)
    # The first row of `a` that meets any of `b`, and the first byte of that.
    row = bisect_left(range(rows_a.many), True, key=lambda i: _meet(rows_a._replace(many=i + 1), rows_b))
    start = rows_a.address + row * rows_a.pitch
    step = rows_b.pitch or 1
    other = _clamp((start - rows_b.length - rows_b.address) // step + 1, rows_b.many - 1)
    shared = max(start, rows_b.address + other * rows_b.pitch)
    raise TilecError(
        f"arguments {name_a} and {name_b} overlap, from byte {shared - rows_a.address} of {name_a} and byte {shared - rows_b.address} of "
        f"{name_b} on (address 0x{shared:x}): {what}",
        hint=hint,
    )
