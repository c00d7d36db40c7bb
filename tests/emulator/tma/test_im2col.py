"""Im2col accesses against loops over the pixels of the bounding box (PTX 5.5.4)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tilec.backend.emulator.faults import FaultKind
from tilec.backend.emulator.tensor_map import TensorMap
from tilec.backend.emulator.tma.access import Refusal, TensorAccess, access_of
from tilec.backend.emulator.tma.descriptor import decode

_ADDRESS = 1 << 40


def pixels(shape: tuple[int, ...], lower: tuple[int, ...], upper: tuple[int, ...], start: tuple[int, ...], steps: tuple[int, ...]) -> Iterator[tuple[int, ...]]:  # fmt: skip
    """Positions of the filter's base, (n, d, h, w) as far as there are d and h, all outermost first: `shape` without channels,
    the corners without n. From `start` on to the end of its row, then row by row from the lower corner on."""
    ends = [n + u for n, u in zip(shape[1:], upper, strict=True)]

    def below(axis: int, first: tuple[int, ...] | None) -> Iterator[tuple[int, ...]]:
        if axis == len(lower):
            yield ()
            return
        at = lower[axis] if first is None else first[axis]
        while at < ends[axis]:
            for rest in below(axis + 1, first):
                yield (at, *rest)
            at, first = at + steps[axis], None

    image, first = start[0], start[1:]
    while True:
        for position in below(0, first):
            yield (image, *position)
        image, first = image + 1, None  # type: ignore[assignment]


@st.composite
def accesses(draw: st.DrawFn) -> dict[str, Any]:
    inner = draw(st.integers(1, 3))
    shape = (draw(st.integers(1, 3)), *(draw(st.integers(2, 6)) for _ in range(inner)), 24)
    lower = tuple(draw(st.integers(-2, 1)) for _ in range(inner))
    upper = tuple(draw(st.integers(-min(1, n - 2), 2)) for n in shape[1:-1])
    ends = [n + u for n, u in zip(shape[1:-1], upper, strict=True)]
    if any(end <= low for end, low in zip(ends, lower, strict=True)):
        lower = (-1,) * inner
    return {
        "shape": shape,
        "lower": lower,
        "upper": upper,
        "steps": tuple(draw(st.integers(1, 3)) for _ in range(inner)),
        "start": (
            draw(st.integers(0, 2)),
            *(draw(st.integers(low, end - 1)) for low, end in zip(lower, ends, strict=True)),
        ),
        "offsets": tuple(draw(st.integers(0, 3)) for _ in range(inner)),
        "pixels": draw(st.integers(1, 70)),
        "channel": draw(st.sampled_from([-8, 0, 8, 16])),
    }


@settings(deadline=None, max_examples=200)
@given(accesses())
def test_an_access_walks_through_the_bounding_box(case: dict[str, Any]) -> None:
    shape, steps, inner = case["shape"], case["steps"], len(case["steps"])
    array = np.arange(1, np.prod(shape) + 1).astype(np.uint16).reshape(shape)
    map = TensorMap.im2col(
        array, lower=case["lower"], upper=case["upper"], channels=16, pixels=case["pixels"], swizzle=None, element_strides=(1, *steps, 1)
    )  # fmt: skip
    descriptor = decode(map.encode(_ADDRESS))
    assert descriptor is not None
    coordinates = (case["channel"], *case["start"][::-1])
    access = access_of(descriptor, "im2col", inner + 2, coordinates, case["offsets"][::-1], stored=False)
    assert isinstance(access, TensorAccess), access
    data = access.filled()
    for box in access.boxes:
        if not box.empty:
            access.within(data, box)[...] = box.view(array.reshape(-1).view(np.uint8), box.address - _ADDRESS)
    expected = np.zeros((case["pixels"], 16), np.uint16)
    walk = pixels(shape[:-1], case["lower"], case["upper"], case["start"], steps)
    for row, position in enumerate(islice(walk, case["pixels"])):
        moved = (position[0], *(p + o for p, o in zip(position[1:], case["offsets"], strict=True)))
        if all(0 <= p < n for p, n in zip(moved, shape[:-1], strict=True)):
            for i in range(16):
                if 0 <= case["channel"] + i < shape[-1]:
                    expected[row, i] = array[(*moved, case["channel"] + i)]
    assert data.view(np.uint16).tolist() == expected.tolist()
    assert access.transferred == case["pixels"] * 32


def convolved(images: NDArray[Any], filters: NDArray[Any]) -> NDArray[Any]:
    """A 3 x 3 convolution with a border of one pixel, (n, h, w, c) and (k, 3, 3, c)."""
    n, h, w, _ = images.shape
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    out = np.zeros((n, h, w, len(filters)))
    for r in range(3):
        for s in range(3):
            out += padded[:, r : r + h, s : s + w] @ filters[:, r, s].T
    return out


def test_a_convolution_is_a_product_of_its_columns() -> None:
    """What im2col is for: all pixels of the output, for each tap of the filter."""
    rng = np.random.default_rng(0)
    images, filters = rng.integers(-3, 4, (2, 5, 6, 8)).astype(np.float16), rng.integers(-3, 4, (4, 3, 3, 8))
    map = TensorMap.im2col(images, lower=(-1, -1), upper=(-1, -1), channels=8, pixels=60, swizzle=None)
    descriptor = decode(map.encode(_ADDRESS))
    assert descriptor is not None
    out = np.zeros((60, 4))
    for r in range(3):
        for s in range(3):
            access = access_of(descriptor, "im2col", 4, (0, -1, -1, 0), (s, r), stored=False)
            assert isinstance(access, TensorAccess)
            data = access.filled()
            for box in access.boxes:
                if not box.empty:
                    access.within(data, box)[...] = box.view(images.reshape(-1).view(np.uint8), box.address - _ADDRESS)
            out += data.view(np.float16).astype(float) @ filters[:, r, s].T
    assert out.tolist() == convolved(images.astype(float), filters).reshape(60, 4).tolist()


@pytest.mark.parametrize(
    ("mode", "rank", "stored", "why"),
    [
        ("tile", 4, False, "the tensor map is an im2col one, and the instruction's mode is .tile"),
        ("im2col", 3, False, "the tensor map has rank 4, the instruction .3d"),
        (
            "im2col_no_offs",
            4,
            True,
            "the corners of the tensor map reach out of the tensor, and a store must stay inside",
        ),
    ],
)
def test_instructions_that_do_not_go_with_the_map(mode: str, rank: int, stored: bool, why: str) -> None:
    map = TensorMap.im2col(
        np.zeros((2, 5, 6, 8), np.float16), lower=(-1, -1), upper=(-1, -1), channels=8, pixels=60, swizzle=None
    )
    descriptor = decode(map.encode(_ADDRESS))
    assert descriptor is not None
    assert access_of(descriptor, mode, rank, (0,) * rank, (0, 0), stored=stored) == Refusal(FaultKind.DESCRIPTOR, why)


@pytest.mark.parametrize(
    ("start", "offsets", "why"),
    [
        (
            (0, -2, 0, 0),
            (0, 0),
            "coordinate -2 along dimension 1 from the innermost is outside of the bounding box, -1 to 4",
        ),
        (
            (0, 0, 4, 0),
            (0, 0),
            "coordinate 4 along dimension 2 from the innermost is outside of the bounding box, -1 to 3",
        ),
        ((0, 0, 0, 0), (256, 0), "im2col offsets 256, 0: with rank 4 they are 0 to 255"),
        (
            (4, 0, 0, 0),
            (0, 0),
            "coordinate 4 along the innermost dimension is byte 8 of a row of f16: it must be a multiple of 16 bytes",
        ),
    ],
)
def test_coordinates_that_are_not_allowed(start: tuple[int, ...], offsets: tuple[int, ...], why: str) -> None:
    map = TensorMap.im2col(
        np.zeros((2, 5, 6, 8), np.float16), lower=(-1, -1), upper=(-1, -1), channels=8, pixels=60, swizzle=None
    )
    descriptor = decode(map.encode(_ADDRESS))
    assert descriptor is not None
    assert access_of(descriptor, "im2col", 4, start, offsets, stored=False) == Refusal(FaultKind.ILLEGAL, why)
