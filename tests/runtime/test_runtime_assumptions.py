"""`tile.assume` from the text to the launch: recorded, shown, and checked against the extents of each call."""

from __future__ import annotations

import json

import numpy as np
import pytest
from fake_compiler import sizes
from fake_driver import FakeDriver, FakeTensor, FakeTorch
from gemm_text import gemm

import tilec
from tilec.backend import reference
from tilec.backend.abi import Assumption, KernelABI
from tilec.backend.reference import Array
from tilec.diagnostics import TilecError
from tilec.source import parse_text

ASSUMED = gemm().replace("  tile.grid", "  tile.assume %A dim 1 step 64 multiple 4\n  tile.grid")
PIPELINES = ["", "threads", "tma,pipeline(2)", "retile(128,256,32),tma,pipeline(3),persistent,canonicalize,cse,dce"]
K_TILES_EQUAL_4 = Assumption(view=0, dim=1, step=64, multiple=4)


@pytest.fixture(autouse=True)
def no_assembler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilec.backend.ptxas.find_ptxas", lambda: None)


def tensors(k: int, m: int = 256) -> list[FakeTensor]:
    return [
        FakeTensor((m, k), address=0x10000),
        FakeTensor((128, k), address=0x800000),
        FakeTensor((m, 128), address=0x1000000),
    ]


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_no_pass_loses_an_assumption(pipeline: str, target: str) -> None:
    compiled = tilec.compile(ASSUMED, pipeline=pipeline).compiled(target=target)
    assert compiled.abi.assumptions == (K_TILES_EQUAL_4,)
    assert KernelABI.from_json(compiled.abi.to_json()) == compiled.abi
    assert "\n// assumes: ceil(extent of A, dimension 1 / 64) % 4 == 0\n" in compiled.ptx
    # Nothing of it is executed.
    plain = tilec.compile(gemm(), pipeline=pipeline).compiled(target=target)
    assert plain.abi.assumptions == ()
    assert _instructions(compiled.ptx) == _instructions(plain.ptx)


def _instructions(ptx: str) -> list[str]:
    return [
        line for line in ptx.splitlines() if not line.startswith("//") and ".loc" not in line and ".file" not in line
    ]


@pytest.mark.parametrize("k", [0, 200, 256, 504])
def test_extents_that_fit_are_launched(k: int, driver: FakeDriver, torch: FakeTorch) -> None:
    kernel = tilec.compile(ASSUMED, pipeline="tma", driver=driver)
    driver.sizes = sizes(kernel.compiled(*tensors(k)).abi)
    kernel(*tensors(k))
    assert len(driver.launched) == 1


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_other_extents_never_reach_the_driver(pipeline: str, driver: FakeDriver, torch: FakeTorch) -> None:
    kernel = tilec.compile(ASSUMED, pipeline=pipeline, driver=driver)
    for _ in range(2):  # what was refused once is looked at again
        with pytest.raises(TilecError) as error:
            kernel(*tensors(136))
        assert error.value.diagnostic.message == (
            "kernel gemm assumes a multiple of 4 tiles of 64 along dimension 1 of A, but that has 136 elements: 3 tiles"
        )
        assert error.value.diagnostic.hint == "pad dimension 1 of A to 256 elements"
    assert not driver.launched and not driver.encoded and not driver.stack
    # The variant is good; another call of it goes through.
    driver.sizes = sizes(kernel.compiled(*tensors(256)).abi)
    kernel(*tensors(256))
    assert len(driver.launched) == 1


def test_every_assumption_is_checked(driver: FakeDriver, torch: FakeTorch) -> None:
    text = ASSUMED.replace("  tile.grid", "  tile.assume %D dim 0 step 128 multiple 3\n  tile.grid")
    kernel = tilec.compile(text, pipeline="tma", driver=driver)
    with pytest.raises(
        TilecError, match="a multiple of 3 tiles of 128 along dimension 0 of D, but that has 256 elements"
    ):
        kernel(*tensors(256))
    driver.sizes = sizes(kernel.compiled(*tensors(256, m=384)).abi)
    kernel(*tensors(256, m=384))
    assert len(driver.launched) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"view": 3}, "view 3 of 3"),
        ({"dim": 2}, "dimension 2 of a view of rank 2"),
        ({"step": 0}, "an assumption with step 0 and multiple 4"),
        ({"multiple": 0}, "an assumption with step 64 and multiple 0"),
        ({"multiple": "4"}, "assumptions[0].multiple is a string, not an integer"),
    ],
)
def test_an_assumption_that_no_compiler_wrote(change: dict[str, object], message: str) -> None:
    raw = json.loads(tilec.compile(ASSUMED, pipeline="tma").compiled().abi.to_json())
    raw["assumptions"][0].update(change)
    with pytest.raises(ValueError) as caught:
        KernelABI.from_json(json.dumps(raw))
    assert str(caught.value) == message


def arrays(k: int) -> list[Array]:
    return [np.ones((128, k), np.float16), np.ones((128, k), np.float16), np.zeros((128, 128), np.float16)]


def test_the_reference_refuses_what_the_launch_refuses() -> None:
    fits = arrays(200)
    reference.run(parse_text(ASSUMED), fits)
    assert (fits[2] == 200).all()
    with pytest.raises(TilecError) as error:
        reference.run(parse_text(ASSUMED, "gemm.tile"), arrays(136))
    assert error.value.diagnostic.message == (
        "the kernel assumes a multiple of 4 tiles of 64 along dimension 1 of %A, which has 136 elements: 3 tiles"
    )
    at = error.value.diagnostic.location
    assert at is not None and ASSUMED.splitlines()[at.line - 1].strip() == "tile.assume %A dim 1 step 64 multiple 4"
