"""Which tensor maps the driver takes and which it refuses, why, and that their 128 bytes hold all of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilec.backend.emulator.tensor_map import TensorMap
from tilec.backend.emulator.tma.descriptor import Descriptor, Im2col, decode
from tilec.diagnostics import TilecError

_ADDRESS = 1 << 40


def words(*shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape, np.uint16)


def decoded(map: TensorMap) -> Descriptor:
    found = decode(map.encode(_ADDRESS))
    assert found is not None
    return found


def refused(array: np.ndarray[Any, Any], box: tuple[int, ...], **options: Any) -> str:
    with pytest.raises(TilecError) as caught:
        TensorMap(array, box, **options)
    return str(caught.value)


def test_a_map_counts_dimensions_from_the_innermost() -> None:
    map = TensorMap(np.zeros((3, 40, 64), np.float32), (2, 8, 16), "64B", element_strides=(1, 2, 1), oob="nan")
    found = decoded(map)
    assert (found.address, found.rank, str(found.type), str(found.swizzle)) == (_ADDRESS, 3, "f32", "64B")
    assert found.dims[:3] == (64, 40, 3)
    assert found.strides[:2] == (256, 40 * 256)
    assert found.box[:3] == (16, 8, 2)
    assert found.element_strides[:3] == (1, 2, 1)
    assert (found.interleave, found.fill, found.im2col) == (0, 1, None)


def test_the_default_swizzle_is_that_of_128_bytes() -> None:
    assert str(decoded(TensorMap(words(8, 64), (8, 64))).swizzle) == "128B"
    assert str(decoded(TensorMap(words(8, 64), (8, 64), None)).swizzle) == "none"


def test_a_view_keeps_the_pitch_of_its_array() -> None:
    found = decoded(TensorMap(words(8, 64)[2:, 8:40], (4, 32), "64B"))
    assert (found.dims[:2], found.strides[0]) == ((32, 6), 128)


@pytest.mark.parametrize(
    ("dtype", "named", "element"),
    [
        ("uint8", None, "u8"),
        ("int8", None, "u8"),
        ("uint16", None, "u16"),
        ("int16", None, "u16"),
        ("uint32", None, "u32"),
        ("int32", None, "s32"),
        ("uint64", None, "u64"),
        ("int64", None, "s64"),
        ("float16", None, "f16"),
        ("float32", None, "f32"),
        ("float64", None, "f64"),
        ("uint16", "bf16", "bf16"),
        ("float32", "tf32", "tf32"),
        ("uint32", "f32_ftz", "f32_ftz"),
        ("float32", "tf32_ftz", "tf32_ftz"),
        ("float32", "f32", "f32"),
    ],
)
def test_element_types(dtype: str, named: str | None, element: str) -> None:
    assert str(decoded(TensorMap(np.zeros((4, 16), dtype), (4, 16), dtype=named)).type) == element


@pytest.mark.parametrize(
    ("named", "held", "box", "extent"),
    [("16u4_align8b", 64, 64, 128), ("16u4_align16b", 64, 128, 128), ("16u6_align16b", 192, 128, 256)],
)
def test_packed_elements_are_counted_one_by_one(named: str, held: int, box: int, extent: int) -> None:
    map = TensorMap(np.zeros((4, held), np.uint8), (4, box), "none", dtype=named)
    assert map.encode(_ADDRESS)
    assert decoded(map).dims[0] == extent


# What the driver answered with CUDA_ERROR_INVALID_VALUE.
@pytest.mark.parametrize(
    ("array", "box", "options", "why"),
    [
        (words(0, 64), (8, 64), {}, "extent 0 of dimension 1 from the innermost: it is 1 to 2^32"),
        (words(8, 0), (8, 64), {"strides": (128,)}, "extent 0 of the innermost dimension: it is 1 to 2^32"),
        (
            words(8, 60),
            (8, 64),
            {},
            "stride 120 of dimension 1 from the innermost: it is a multiple of 16 bytes, below 2^40",
        ),
        (words(300, 64), (257, 64), {}, "box extent 257 along dimension 1 from the innermost: it is 1 to 256"),
        (words(8, 64), (0, 64), {}, "box extent 0 along dimension 1 from the innermost: it is 1 to 256"),
        (
            words(8, 64),
            (8, 4),
            {},
            "a box of 4 elements along the innermost dimension has 8 bytes, no multiple of 16",
        ),
        (
            words(8, 64),
            (8, 12),
            {},
            "a box of 12 elements along the innermost dimension has 24 bytes, no multiple of 16",
        ),
        (
            words(8, 256),
            (8, 128),
            {},
            "a box of 256 bytes along the innermost dimension is wider than the 128 bytes of swizzle 128B",
        ),
        (
            words(8, 64),
            (8, 48),
            {"swizzle": "64B"},
            "a box of 96 bytes along the innermost dimension is wider than the 64 bytes of swizzle 64B",
        ),
        (
            words(8, 64),
            (8, 48),
            {"swizzle": "32B"},
            "a box of 96 bytes along the innermost dimension is wider than the 32 bytes of swizzle 32B",
        ),
    ],
)
def test_maps_that_the_driver_refused(
    array: np.ndarray[Any, Any], box: tuple[int, ...], options: dict[str, Any], why: str
) -> None:
    assert refused(array, box, **options).splitlines()[0] == f"error: no tensor map: {why}"


def test_a_base_off_16_bytes_is_refused() -> None:
    map = TensorMap(words(8, 64), (8, 64))
    with pytest.raises(TilecError, match="address 0x10000000008 of the tensor is not a multiple of 16 bytes"):
        map.encode(_ADDRESS + 8)
    assert map.encode(_ADDRESS + 16)


# What the driver accepted.
@pytest.mark.parametrize(
    ("array", "box", "options"),
    [
        (words(8, 64), (8, 64), {"strides": (0,)}),
        (words(8, 64), (8, 64), {"strides": (64, 2)}),
        (words(8, 64), (8, 32), {}),
        (words(8, 64), (8, 48), {}),
        (words(16, 3), (32, 64), {"strides": (16, 2)}),
        (words(4, 4), (32, 64), {"strides": (16, 2)}),
        (words(16), (64,), {}),
        (words(2, 2, 2, 2, 8), (2, 2, 2, 2, 8), {}),
    ],
)
def test_maps_that_the_driver_accepted(
    array: np.ndarray[Any, Any], box: tuple[int, ...], options: dict[str, Any]
) -> None:
    assert len(TensorMap(array, box, **options).encode(_ADDRESS)) == 128


@pytest.mark.parametrize(
    ("array", "box", "options", "why"),
    [
        (np.zeros(()), (), {}, "the array has 0 dimensions; a tensor map has 1 to 5"),
        (words(2, 2, 2, 2, 2, 8), (1, 1, 1, 1, 1, 8), {}, "the array has 6 dimensions; a tensor map has 1 to 5"),
        (words(8, 64), (8,), {}, "box has 1 entries for an array of rank 2"),
        (words(8, 64), 8, {}, "box = 8: it is a tuple of whole numbers, not an int"),
        (words(8, 64), (8.5, 64), {}, "box[0] = 8.5: it is a whole number, not a float"),
        (words(8, 64), (8, 64), {"strides": (None,)}, "strides[0] = None: it is a whole number, not None"),
        (words(8, 64), (8, 64), {"element_strides": "11"}, "element_strides = '11': it is a tuple of whole numbers, not a str"),
        (words(8, 64), (8, 64), {"dtype": 16}, "dtype 16"),
        ([[0]], (8, 64), {}, "the array is a list, not a NumPy array"),
        (words(8, 64), (8, 64), {"strides": (1, 2, 3)}, "3 strides for an array of rank 2"),
        (words(8, 64), (8, 64), {"element_strides": (9, 1)}, "element stride 9 of dimension 1 from the innermost: it is 1 to 8"),
        (words(8, 64), (8, 64), {"element_strides": (0, 1)}, "element stride 0 of dimension 1 from the innermost: it is 1 to 8"),
        (words(8, 64), (8, 64), {"oob": "nan"}, "elements outside are to be NaN, but u16 is no floating-point type"),
        (words(8, 64), (8, 64), {"oob": "one"}, "oob 'one': it is one of 'zero', 'nan'"),
        (words(8, 64), (8, 64), {"interleave": "16B"}, "rank 2: an interleaved map has 3 to 5 dimensions"),
        (words(2, 8, 64), (1, 8, 64), {"interleave": "32B"}, "interleave of 32 bytes goes with swizzle 32B, not 128B"),
        (words(8, 64), (8, 64), {"strides": (1 << 40,)}, "stride 1099511627776 of dimension 1 from the innermost: it is a multiple of 16 bytes, below 2^40"),
        (words(8, 64)[:, ::-1], (8, 64), {}, "the innermost dimension has a stride of -2 bytes, but elements have 2"),
        (words(64, 8).T, (8, 64), {}, "the innermost dimension has a stride of 16 bytes, but elements have 2"),
        (words(8, 64)[::-1], (8, 64), {}, "stride -128 of dimension 1 from the innermost: it is a multiple of 16 bytes, below 2^40"),
        (np.zeros((8, 8), complex), (8, 8), {}, "TMA knows no elements of complex128"),
        (words(8, 64), (8, 64), {"dtype": "tf32"}, "elements of tf32 are held in an array of float32, not of uint16"),
        (
            np.zeros((4, 96), np.uint8),
            (4, 64),
            {"dtype": "16u6_align16b", "swizzle": None},
            "box extent 64 along the innermost dimension: of 16u6_align16b it is 128",
        ),
        (
            np.zeros((4, 48), np.uint8),
            (4, 128),
            {"dtype": "16u4_align16b", "swizzle": None},
            "extent 96 of the innermost dimension: of 16u4_align16b it is a multiple of 128",
        ),
        (
            np.zeros((4, 64), np.uint8),
            (4, 128),
            {"dtype": "16u4_align16b", "swizzle": "128B_ATOM_64B"},
            "swizzle 128B_ATOM_64B: of 16u4_align16b it is one of none, 128B, 128B_ATOM_32B",
        ),
    ],
)  # fmt: skip
def test_maps_that_break_a_rule(
    array: np.ndarray[Any, Any], box: tuple[int, ...], options: dict[str, Any], why: str
) -> None:
    assert refused(array, box, **options).splitlines()[0] == f"error: no tensor map: {why}"


def test_names_that_are_nearly_right_are_suggested() -> None:
    assert "did you mean '128B'?" in refused(words(8, 64), (8, 64), swizzle="128b")
    assert "did you mean 'tf32'?" in refused(np.zeros((8, 8), np.float32), (8, 8), dtype="ft32")


def test_bytes_that_are_no_map_are_recognised() -> None:
    assert decode(bytes(128)) is None
    assert decode(np.random.default_rng(0).bytes(128)) is None


def test_im2col_maps() -> None:
    array = np.zeros((2, 9, 14, 64), np.float16)
    map = TensorMap.im2col(array, lower=(-1, -2), upper=(-1, 0), channels=32, pixels=48, swizzle="64B")
    found = decoded(map)
    assert found.im2col == Im2col((-2, -1, 0), (0, -1, 0), 32, 48)
    assert found.dims[:4] == (64, 14, 9, 2)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (
            {"lower": (-129, 0)},
            "corners -129 and 0 along dimension 2 from the innermost: with rank 4 they are -128 to 127",
        ),
        ({"pixels": 1025}, "1025 pixels of a column: there are 1 to 1024"),
        ({"channels": 257, "swizzle": None}, "257 channels of a pixel: there are 1 to 256"),
        ({"channels": 4}, "a pixel of 4 elements along the innermost dimension has 8 bytes, no multiple of 16"),
        ({"upper": (-9, 0)}, "corners 0 and -9 leave nothing of dimension 2 from the innermost, of extent 9"),
        ({"lower": (0,)}, "lower has 1 entries; an array of rank 4 has 2"),
        ({"upper": 0}, "upper = 0: it is a tuple of whole numbers, not an int"),
        ({"pixels": "8"}, "pixels = '8': it is a whole number, not a str"),
    ],
)
def test_im2col_maps_that_break_a_rule(options: dict[str, Any], why: str) -> None:
    arguments: dict[str, Any] = {"lower": (0, 0), "upper": (0, 0), "channels": 32, "pixels": 48, **options}
    with pytest.raises(TilecError) as caught:
        TensorMap.im2col(np.zeros((2, 9, 14, 64), np.float16), **arguments)
    assert why in str(caught.value)
