"""The grid, the parameters, loading and the choice of the target."""

from __future__ import annotations

import ctypes
import random

import pytest
from fake_compiler import abi_of
from fake_driver import FakeDriver

from tilec.backend.abi import GridRule, KernelABI
from tilec.backend.runtime.launch import (
    MAP_ALIGNMENT,
    ParameterBlock,
    check_ptx_version,
    count_ctas,
    load,
    target_of,
)
from tilec.diagnostics import TilecError
from tilec.dialects.tile import F16, ViewType

STEP = GridRule(2, (128, 128), persistent=True)


def abi(**changes: object) -> KernelABI:
    view = ViewType.of(("M", "K"), F16.type)
    return abi_of((view, view, view), ("A", "B", "D"), "sm_90a")._replace(**changes)


@pytest.mark.parametrize(
    ("shape", "resident", "ctas"),
    [
        ((128, 128), 132, 1),
        ((129, 1), 132, 2),
        ((4096, 4096), 132, 132),
        ((1000, 1016), 132, 64),
        ((0, 64), 132, 0),
        ((64, 0), 132, 0),
    ],
)
def test_persistent_grid_is_no_larger_than_tiles_or_device(shape: tuple[int, int], resident: int, ctas: int) -> None:
    assert count_ctas(STEP, shape, resident, None) == ctas


def test_other_grids_have_a_cta_for_each_tile() -> None:
    assert count_ctas(STEP._replace(persistent=False), (4096, 4096), 132, None) == 1024
    assert count_ctas(None, (), 132, None) == 1


@pytest.mark.parametrize(("wanted", "ctas"), [(1, 1), (7, 7), (100, 100), (148, 148), (256, 256), (300, 256)])
def test_max_ctas_takes_the_place_of_the_device(wanted: int, ctas: int) -> None:
    assert count_ctas(STEP, (2048, 2048), 132, wanted) == ctas


def test_max_ctas_that_cannot_be() -> None:
    with pytest.raises(TilecError, match="max_ctas = 0: a launch has at least one CTA"):
        count_ctas(STEP, (128, 128), 132, 0)
    with pytest.raises(TilecError, match="max_ctas bounds the grid of a persistent kernel"):
        count_ctas(STEP._replace(persistent=False), (128, 128), 132, 7)


def test_grid_beyond_the_hardware_is_refused() -> None:
    with pytest.raises(TilecError, match="4294967296 tiles need as many CTAs"):
        count_ctas(GridRule(0, (1, 1), persistent=False), (65536, 65536), 132, None)


@pytest.mark.parametrize("scalars", [0, 1, 2, 3])
def test_descriptors_are_aligned_wherever_scalars_put_them(scalars: int) -> None:
    tensor_map = bytes(range(128))
    for _ in range(100):
        values = [b"\x01\0\0\0"] * scalars + [tensor_map, tensor_map]
        values += [b"\x02" * 8] * random.randrange(4) + [tensor_map]
        block = ParameterBlock(values)
        pointers = ctypes.cast(block.address, ctypes.POINTER(ctypes.c_void_p))
        for i, value in enumerate(values):
            address = pointers[i] or 0
            assert address == block.addresses[i]
            assert ctypes.string_at(address, len(value)) == value
            assert address % (MAP_ALIGNMENT if value is tensor_map else len(value)) == 0


def test_kernel_without_parameters_has_a_block_too() -> None:
    assert ParameterBlock([]).address


def test_occupancy_and_tensor_memory_bound_the_ctas_of_a_multiprocessor() -> None:
    driver = FakeDriver(ctas_per_sm=4, sms=148)
    with driver.current(0):
        assert load(driver, abi(), 0, cubin=b"x", ptx="").resident == 4 * 148
        assert load(driver, abi(target="sm_100a", tmem_columns=128), 0, cubin=b"x", ptx="").resident == 4 * 148
        assert load(driver, abi(target="sm_100a", tmem_columns=256), 0, cubin=b"x", ptx="").resident == 2 * 148
        assert load(driver, abi(target="sm_100a", tmem_columns=512), 0, cubin=b"x", ptx="").resident == 148
    assert driver.reserved == [100_000] * 4


def test_kernel_that_does_not_fit_is_refused_before_it_is_launched() -> None:
    driver = FakeDriver(ctas_per_sm=0)
    with driver.current(0), pytest.raises(TilecError, match="kernel gemm does not fit a multiprocessor of device 0"):
        load(driver, abi(), 0, cubin=b"x", ptx="")


PTX = "// shared memory\n.version 8.7\n.target sm_100a\n"


@pytest.mark.parametrize(("cuda", "fine"), [((12, 2), False), ((12, 4), False), ((12, 8), True), ((13, 0), True)])
def test_ptx_is_loaded_only_by_drivers_that_read_its_version(cuda: tuple[int, int], fine: bool) -> None:
    driver = FakeDriver(cuda=cuda)
    with driver.current(0):
        if fine:
            load(driver, abi(), 0, cubin=None, ptx=PTX)
            assert driver.loaded == [(0, PTX.encode())]
            return
        with pytest.raises(TilecError) as error:
            load(driver, abi(), 0, cubin=None, ptx=PTX)
    text = str(error.value)
    assert f"PTX version 8.7 is too new for the installed driver (CUDA {cuda[0]}.{cuda[1]})" in text
    assert "it needs CUDA 12.8" in text
    assert not driver.loaded


@pytest.mark.parametrize("cuda", [(12, 2), (12, 4), (12, 8)])
def test_machine_code_is_preferred_whatever_the_driver(cuda: tuple[int, int]) -> None:
    driver = FakeDriver(cuda=cuda)
    with driver.current(0):
        load(driver, abi(), 0, cubin=b"machine code", ptx=PTX)
    assert driver.loaded == [(0, b"machine code")]


def test_ptx_newer_than_anything_known() -> None:
    with pytest.raises(TilecError, match="it needs CUDA a later release"):
        check_ptx_version(".version 99.0\n", (13, 0))


def test_target_is_that_of_the_device() -> None:
    driver = FakeDriver(capabilities=((9, 0), (10, 0), (8, 0)))
    assert target_of(driver, 0, None) == "sm_90a"
    assert target_of(driver, 1, "sm_100a") == "sm_100a"
    with pytest.raises(TilecError, match=r"compiled for sm_100a, but device 0 is sm_90a \(compute capability 9.0\)"):
        target_of(driver, 0, "sm_100a")
    with pytest.raises(TilecError, match=r"device 2 has compute capability 8.0; tilec compiles for sm_90a \(9.0\)"):
        target_of(driver, 2, None)
