"""Outputs that share memory with other arguments or with themselves, against sets of addresses."""

from __future__ import annotations

import timeit
from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tilec.backend.runtime.arguments import Argument, check_overlap, check_written
from tilec.diagnostics import TilecError

SIZE = 2
BASE = 0x1000


def f16(offset: int, shape: tuple[int, ...], strides: tuple[int, ...], readonly: bool = False) -> Argument:
    """`offset` in bytes from the start of the memory, `strides` in elements."""
    return Argument(BASE + offset, shape, tuple(s * SIZE for s in strides), "f16", 0, None, readonly)


def elements(argument: Argument) -> list[set[int]]:
    """The addresses of the bytes of each element."""
    indices = product(*map(range, argument.shape))
    starts = (argument.address + sum(i * s for i, s in zip(at, argument.strides, strict=True)) for at in indices)
    return [set(range(start, start + SIZE)) for start in starts]


def memory(argument: Argument) -> set[int]:
    return set().union(*elements(argument))


def overlapping(a: Argument, b: Argument) -> str | None:
    try:
        check_overlap("AB", [a, b], [1])
    except TilecError as error:
        return str(error)
    return None


@st.composite
def placed(draw: st.DrawFn) -> Argument:
    """A tensor of rank 1 or 2 in a small memory, with a contiguous dimension, at any pitch and at any address.

    Reversed ones too, which are refused elsewhere: not because they overlap.
    """
    rows, columns = draw(st.integers(0, 7)), draw(st.integers(0, 7))
    offset = draw(st.integers(0, 120))
    match draw(st.sampled_from(["vector", "row-major", "column-major"])):
        case "vector":
            return f16(offset, (columns,), (draw(st.sampled_from([1, -1])),))
        case "row-major":
            return f16(offset, (rows, columns), (draw(st.integers(-20, 20)), 1))
        case _:
            return f16(offset, (columns, rows), (1, draw(st.integers(-20, 20))))


@given(placed(), placed())
@example(f16(0, (3, 2), (4, 1)), f16(4, (3, 2), (4, 1)))
@example(f16(0, (5, 1), (3, 1)), f16(26, (4, 1), (5, 1)))
def test_two_tensors_share_memory_if_they_share_a_byte(a: Argument, b: Argument) -> None:
    shared = memory(a) & memory(b)
    text = overlapping(a, b)
    assert (text is not None) == bool(shared)
    assert overlapping(b, a) is None or shared
    if text is not None and "overlap" in text:
        assert f"(address 0x{min(shared):x})" in text


@given(placed())
def test_an_output_has_memory_for_each_of_its_elements(argument: Argument) -> None:
    cells = elements(argument)
    refused = False
    try:
        check_written("D", argument)
    except TilecError:
        refused = True
    assert refused == (sum(map(len, cells)) > len(memory(argument)))


@given(st.integers(0, 4000), st.integers(1, 60), st.integers(1, 80), st.integers(1, 60), st.integers(1, 80))
@example(3999, 60, 79, 60, 80)
def test_columns_at_two_pitches(offset: int, rows: int, pitch: int, others: int, other_pitch: int) -> None:
    a, b = f16(offset, (rows, 1), (pitch, 1)), f16(1000, (others, 1), (other_pitch, 1))
    shared = memory(a) & memory(b)
    text = overlapping(a, b)
    assert (text is not None) == bool(shared)


@given(
    st.integers(0, 60), st.integers(1, 6), st.integers(1, 6), st.integers(1, 6), st.integers(1, 6), st.integers(1, 12)
)
def test_slices_of_one_buffer(
    offset: int, rows: int, columns: int, others: int, other_columns: int, pitch: int
) -> None:
    """At one pitch, as columns and rows of one tensor are."""
    a, b = f16(offset, (rows, columns), (pitch, 1)), f16(30, (others, other_columns), (pitch, 1))
    shared = memory(a) & memory(b)
    text = overlapping(a, b)
    assert (text is not None) == bool(shared)
    if text is not None:
        assert f"0x{min(shared):x}" in text


def test_rows_of_interleaved_slices_are_apart() -> None:
    left, right = f16(0, (64, 64), (128, 1)), f16(128, (64, 64), (128, 1))
    check_overlap("AD", [right, left], [1])
    even, odd = f16(0, (32, 128), (256, 1)), f16(256, (32, 128), (256, 1))
    check_overlap("AD", [even, odd], [1])


def test_tensors_without_a_contiguous_dimension_are_left_to_what_refuses_them() -> None:
    """Their elements need not share memory although their rows do."""
    even, odd = f16(0, (8, 4), (8, 2)), f16(2, (8, 4), (8, 2))
    check_overlap("AD", [even, odd], [1])
    check_written("D", odd)


def test_inputs_may_share_memory() -> None:
    a = f16(0, (64, 64), (64, 1))
    check_overlap("ABD", [a, a, f16(8192, (64, 64), (64, 1))], [2])
    windows = f16(0, (64, 64), (1, 1))
    check_overlap("ABD", [windows, a, f16(8192, (64, 64), (64, 1))], [2])


def test_empty_tensors_share_nothing() -> None:
    a = f16(0, (64, 64), (64, 1))
    check_overlap("AD", [f16(0, (0, 64), (64, 1)), a], [1])
    check_overlap("AD", [a, f16(0, (64, 0), (64, 1))], [1])
    check_overlap("AD", [Argument(0, (0, 4), (8, 2), "f16", None), Argument(0, (4, 0), (2, 2), "f16", None)], [1])


def test_tensors_of_four_gigabytes_and_more() -> None:
    """65536 x 65536 elements of one buffer, beside its next column, in it, and behind its end."""
    pitch = (1 << 16) + 8
    large = f16(0, (1 << 16, 1 << 16), (pitch, 1))
    beside = f16((1 << 16) * SIZE, (1 << 16, 8), (pitch, 1))
    check_overlap("AD", [large, beside], [1])
    behind = f16(((1 << 16) * pitch - 8) * SIZE, (4,), (1,))
    check_overlap("AD", [large, behind], [1])
    last = f16(((1 << 16) * pitch - 9) * SIZE, (4,), (1,))
    assert f"(address 0x{last.address:x})" in str(overlapping(large, last))


TEXTS = [
    (
        "the tensor itself",
        f16(0, (64, 64), (64, 1)),
        "arguments A and B are the same memory, at 0x1000: one is an input, one an output",
    ),
    (
        "the same memory, transposed",
        f16(0, (64, 64), (1, 64)),
        "arguments A and B overlap, from byte 0 of A and byte 0 of B on (address 0x1000): one is an input, one an output",
    ),
    (
        "rows 10 and up",
        f16(10 * 128, (54, 64), (64, 1)),
        "arguments A and B overlap, from byte 1280 of A and byte 0 of B on (address 0x1500): one is an input, one an output",
    ),
    (
        "a tensor that ends in A",
        f16(-128, (2, 64), (64, 1)),
        "arguments A and B overlap, from byte 0 of A and byte 128 of B on (address 0x1000): one is an input, one an output",
    ),
]


@pytest.mark.parametrize(("output", "text"), [t[1:] for t in TEXTS], ids=[t[0] for t in TEXTS])
def test_texts(output: Argument, text: str) -> None:
    assert overlapping(f16(0, (64, 64), (64, 1)), output) == f"error: {text}\nhint: give each output memory of its own"


def test_two_outputs_are_told_once_in_the_order_of_the_arguments() -> None:
    d, e = f16(0, (8, 8), (8, 1)), f16(16, (8, 8), (8, 1))
    for outputs in ([1, 2], [2, 1]):
        with pytest.raises(TilecError) as caught:
            check_overlap(["A", "D", "E"], [f16(512, (8, 8), (8, 1)), d, e], outputs)
        assert str(caught.value) == (
            "error: arguments D and E overlap, from byte 16 of D and byte 0 of E on (address 0x1010): both are outputs\n"
            "hint: give each output memory of its own"
        )


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        (
            f16(0, (8, 8), (8, 1), readonly=True),
            "argument D is read-only; the kernel writes it\nhint: pass an output of its own",
        ),
        (
            f16(0, (8, 8), (4, 1)),
            "argument D: its rows overlap (pitch 8 bytes, rows of 16 bytes), so the kernel cannot write it\n"
            "hint: pass an output whose elements each have memory of their own",
        ),
        (
            f16(0, (8, 8), (0, 1)),
            "argument D: its rows overlap (pitch 0 bytes, rows of 16 bytes), so the kernel cannot write it\n"
            "hint: pass an output whose elements each have memory of their own",
        ),
    ],
)
def test_texts_of_outputs_that_cannot_be_written(argument: Argument, text: str) -> None:
    with pytest.raises(TilecError) as caught:
        check_written("D", argument)
    assert str(caught.value) == f"error: {text}"


def test_four_arguments_take_microseconds() -> None:
    """A bound that only another order of growth would break; the figure itself is a tenth."""
    shape, strides = (4096, 4096), (1 << 14, 1)
    arguments = [f16(i * 4096 * SIZE, shape, strides) for i in range(4)]
    took = min(timeit.repeat(lambda: check_overlap("ABCD", arguments, [3]), number=100, repeat=5)) / 100
    assert took < 200e-6
