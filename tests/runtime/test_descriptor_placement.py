"""Tensor maps behind any number of scalars: what the PTX entry declares, and where the launch puts them.

A kernel takes its parameters in the order in which it uses them, so that extents come ahead of maps.
"""

from __future__ import annotations

import random
import re
from itertools import pairwise

import pytest
from fake_compiler import sizes
from fake_driver import FakeDriver, FakeTensor, FakeTorch
from gemm_text import gemm

import tilec
from tilec.backend.runtime.launch import MAP_ALIGNMENT
from tilec.kernel import Kernel

DRIVERS_ALIGNMENT = 64
"""Of a ``CUtensorMap``, as the PTX ISA and drivers before CUDA 13 ask for; from CUDA 13 on cuda.h declares 128."""
MAP = 128
ONE_TILE = """
tile.kernel @one_tile(%A: !tile.view<128x64xf16>, %D: !tile.view<128x64xf16>) {
  %zero = arith.constant 0 : index
  %a = tile.alloc : !tile.smem<128x64xf16>
  tile.copy %A[%zero, %zero] to %a
  tile.copy %a to %D[%zero, %zero]
}
"""
VECTOR = """
tile.kernel @vector(%A: !tile.view<Nxf16>, %D: !tile.view<Nxf16>) {
  tile.grid (%n) over %D step (256) {
    %a = tile.alloc : !tile.smem<256xf16>
    tile.copy %A[%n] to %a
    tile.copy %a to %D[%n]
  }
}
"""
MATRIX = """
tile.kernel @matrix(%A: !tile.view<MxNxf16>, %D: !tile.view<MxNxf16>) {
  tile.grid (%m, %n) over %D step (64, 64) {
    %a = tile.alloc : !tile.smem<64x64xf16>
    tile.copy %A[%m, %n] to %a
    tile.copy %a to %D[%m, %n]
  }
}
"""
TEXTS = [ONE_TILE, VECTOR, MATRIX, gemm()]
"""By the number of extents ahead of two maps."""


def tensors_of(scalars: int, size: int) -> list[FakeTensor]:
    """`size` is a multiple of 8."""
    match scalars:
        case 0:
            shapes = [(128, 64), (128, 64)]
        case 1:
            shapes = [(size,), (size,)]
        case 2:
            shapes = [(size, 64), (size, 64)]
        case _:
            shapes = [(size, 128), (64, 128), (size, 64)]
    return [FakeTensor(shape, address=0x1000000 * (i + 1) + 16 * size) for i, shape in enumerate(shapes)]


def declared(ptx: str) -> list[tuple[int, int]]:
    """(bytes, alignment) of each parameter of the entry."""
    entry = re.search(r"\.entry\s+\w+\((.*?)\)", ptx, re.DOTALL)
    assert entry is not None
    found: list[tuple[int, int]] = []
    for line in entry[1].split(","):
        if blob := re.search(r"\.align\s+(\d+)\s+\.b8\s+\w+\[(\d+)\]", line):
            found.append((int(blob[2]), int(blob[1])))
        else:
            scalar = re.search(r"\.param\s+\.\w(\d+)", line)
            assert scalar is not None, line
            found.append((int(scalar[1]) // 8, int(scalar[1]) // 8))
    return found


def kernels(driver: FakeDriver | None = None) -> list[Kernel]:
    # Copies by TMA however small they are.
    return [tilec.compile(text, pipeline="tma(0)", driver=driver) for text in TEXTS]


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("scalars", range(4))
def test_the_entry_declares_maps_of_128_bytes(scalars: int, target: str) -> None:
    found = declared(kernels()[scalars].variant(target=target).asm["ptx"])
    assert found[: scalars + 2] == [(4, 4)] * scalars + [(MAP, DRIVERS_ALIGNMENT)] * 2
    assert all(alignment == DRIVERS_ALIGNMENT for size, alignment in found if size == MAP)


def test_the_hosts_alignment_satisfies_every_driver() -> None:
    assert MAP_ALIGNMENT == 128
    assert MAP_ALIGNMENT % DRIVERS_ALIGNMENT == 0


def test_launches_of_kernels_with_different_parameters(
    driver: FakeDriver, torch: FakeTorch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred, in any order. All calls are remembered, and with them their parameters: none may be moved or reused."""
    monkeypatch.setattr("tilec.backend.ptxas.find_ptxas", lambda: None)
    driver.cuda = (13, 2)  # from then on maps are passed as they are encoded
    by_scalars = kernels(driver)
    order = random.Random(0)
    for _ in range(100):
        scalars = order.randrange(4)
        tensors = tensors_of(scalars, 8 * order.randrange(1, 40))
        abi = by_scalars[scalars].variant(*tensors).artifact.abi
        driver.sizes = sizes(abi)
        by_scalars[scalars](*tensors)
        launched = driver.launched[-1]
        extents = [int.from_bytes(p, "little") for p in launched.parameters[:scalars]]
        shapes = {n for tensor in tensors for n in tensor.shape}
        assert len(extents) == scalars and set(extents) <= shapes
        maps = [i for i, size in enumerate(driver.sizes) if size == MAP]
        assert maps[:2] == [scalars, scalars + 1]
        for i, (address, value) in enumerate(zip(launched.addresses, launched.parameters, strict=True)):
            assert address % (MAP_ALIGNMENT if i in maps else len(value)) == 0
        for i in maps:
            # The map that the fake driver made for the tensor of this parameter.
            number = int.from_bytes(launched.parameters[i][:2], "little")
            assert launched.parameters[i] == number.to_bytes(2, "little") * (MAP // 2)
            assert driver.encoded[number - 1].address == tensors[abi.params[i].view].data_ptr()
        ends = [a + len(v) for a, v in zip(launched.addresses, launched.parameters, strict=True)]
        places = sorted(zip(launched.addresses, ends, strict=True))
        assert all(end <= start for (_, end), (start, _) in pairwise(places))
    assert len(driver.launched) == 100
