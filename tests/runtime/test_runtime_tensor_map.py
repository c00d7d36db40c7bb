"""Tensor maps: the rules checked before the driver, the fields it is given, the cache."""

from __future__ import annotations

import struct

import pytest
from fake_driver import FakeDriver

from tilec.backend.abi import TensorMapParam
from tilec.backend.runtime.arguments import Argument, place
from tilec.backend.runtime.tensor_map import MapCache, MapFields, fix_small_tensor, map_fields
from tilec.diagnostics import TilecError

ROW_MAJOR = TensorMapParam(0, (64, 128), 128, (1, 0), "f16")
SPARE = 0x7F00


def fields(argument: Argument, parameter: TensorMapParam = ROW_MAJOR, *, stored: bool = False) -> MapFields:
    return map_fields("A", parameter, argument, place("A", argument, parameter.order), stored=stored, spare=SPARE)


def f16(shape: tuple[int, int], strides: tuple[int, int], address: int = 0x10000) -> Argument:
    return Argument(address, shape, (strides[0] * 2, strides[1] * 2), "f16", 0)


def test_fields_of_a_row_major_tensor() -> None:
    assert fields(f16((256, 512), (512, 1))) == MapFields(0x10000, (512, 256), (1024,), (64, 128), 6, 3, 3)


def test_fields_of_a_column_major_tensor() -> None:
    parameter = TensorMapParam(0, (32, 64), 64, (0, 1), "bf16")
    argument = Argument(0x10000, (256, 512), (2, 512), "bf16", 0)
    assert fields(argument, parameter) == MapFields(0x10000, (256, 512), (512,), (32, 64), 9, 2, 3)


def test_fields_of_a_vector() -> None:
    parameter = TensorMapParam(0, (32,), 16, (0,), "f32")
    argument = Argument(0x10000, (100,), (4,), "f32", 0)
    assert fields(argument, parameter) == MapFields(0x10000, (100,), (), (32,), 7, 0, 3)


def test_rows_off_the_128_byte_grid_are_promoted_to_128_bytes_only() -> None:
    assert fields(f16((256, 4072), (4072, 1))).l2_promotion == 2
    assert fields(f16((256, 4096), (4096, 1))).l2_promotion == 3


def test_pitch_off_the_grid_is_refused_in_bytes_before_the_driver() -> None:
    with pytest.raises(TilecError) as error:
        fields(f16((128, 511), (511, 1)))
    assert "argument A: the pitch of dimension 0 is 1022 bytes; TMA needs a multiple of 16 bytes" in str(error.value)
    assert "hint: pad the rows to a multiple of 8 elements" in str(error.value)


def test_the_same_extent_in_a_padded_buffer_is_encoded() -> None:
    got = fields(f16((128, 511), (512, 1)))
    assert (got.extents, got.pitches) == ((511, 128), (1024,))


@pytest.mark.parametrize("offset", [2, 4, 8])
def test_base_off_the_grid_is_refused(offset: int) -> None:
    with pytest.raises(TilecError, match=rf"argument A starts at 0x1000{offset}, which is {offset} bytes past"):
        fields(f16((128, 64), (64, 1), 0x10000 + offset))


def test_base_sixteen_bytes_in_is_encoded() -> None:
    assert fields(f16((128, 64), (64, 1), 0x10010)).address == 0x10010


def test_pitch_of_a_terabyte_is_refused() -> None:
    with pytest.raises(TilecError, match=r"the pitch of dimension 0 is 1099511627776 bytes"):
        fields(f16((2, 64), (1 << 39, 1)))


def test_boxes_that_no_copy_can_have_are_refused() -> None:
    tensor = f16((512, 512), (512, 1))
    for bad in ((64, 257), (0, 64), (4, 64), (12, 64), (128, 64)):
        with pytest.raises(TilecError, match="is none that TMA can copy"):
            fields(tensor, ROW_MAJOR._replace(box=bad))
    fields(f16((3, 16), (16, 1)))  # a box larger than the tensor is fine


def test_store_with_an_inner_extent_off_the_grid_is_refused() -> None:
    slice_ = f16((32, 470), (512, 1))
    assert fields(slice_).extents == (470, 32)
    with pytest.raises(TilecError, match=r"dimension 1 has 940 bytes; a TMA store needs a multiple of 16 bytes"):
        fields(slice_, stored=True)
    fields(f16((32, 464), (512, 1)), stored=True)


@pytest.mark.parametrize("shape", [(0, 64), (128, 0), (0, 0)])
def test_no_extent_of_zero_is_encoded(shape: tuple[int, int]) -> None:
    got = fields(f16(shape, (64, 1), address=0), stored=True)
    assert got.extents == (1, 1)
    assert got.address == SPARE
    assert got.pitches == (16,)


def test_small_tensors_lose_the_large_bit_with_drivers_that_set_it() -> None:
    small, large = fields(f16((128, 64), (64, 1))), fields(f16((1024, 64), (64, 1)))
    encoded = struct.pack("<16Q", *[0xFFFF_FFFF_FFFF_FFFF] * 16)
    assert fix_small_tensor(encoded, large, (13, 0)) == encoded
    assert fix_small_tensor(encoded, small, (13, 2)) == encoded
    words = struct.unpack("<16Q", fix_small_tensor(encoded, small, (13, 1)))
    assert words[1] == 0xFFFF_FFFF_FFFF_FFFF ^ 1 << 21
    assert set(words[:1] + words[2:]) == {0xFFFF_FFFF_FFFF_FFFF}


def test_cache_encodes_again_exactly_when_a_field_changed(driver: FakeDriver) -> None:
    cache = MapCache(driver.encode)
    base = fields(f16((256, 512), (512, 1)))
    changed = [
        base._replace(address=base.address + 16),
        base._replace(extents=(511, 256)),
        base._replace(pitches=(2048,)),
        base._replace(box=(64, 64)),
        base._replace(data_type=9),
        base._replace(swizzle=2),
        base._replace(l2_promotion=2),
    ]
    first = cache.get(0, base)
    for _ in range(100):
        assert cache.get(0, base) == first
    assert driver.encoded == [base]
    assert len({first, *(cache.get(0, c) for c in changed)}) == 1 + len(changed)
    cache.get(1, base)
    assert driver.encoded == [base, *changed, base]
    for c in changed:
        cache.get(0, c)
    assert len(driver.encoded) == 2 + len(changed)


def test_cache_is_bounded(driver: FakeDriver) -> None:
    cache = MapCache(driver.encode, capacity=4)
    base = fields(f16((256, 512), (512, 1)))
    for i in range(5):
        cache.get(0, base._replace(address=16 * i))
    cache.get(0, base._replace(address=0))
    assert len(driver.encoded) == 6
