"""Names of chips: those that are compiled for, with what they have, and every other one refused at the door."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gemm_text import gemm

import tilec
from tilec.backend.ptxas import PtxasError, assemble, find_ptxas, probe_ptxas
from tilec.backend.target import TARGETS, find_target
from tilec.diagnostics import TilecError
from tilec.driver import compile_module
from tilec.source import parse_text

KNOWN = "known: sm_90a, sm_100a"
REFUSED = {
    # Without the suffix, or with that of the family, the tensor cores are out of reach.
    "sm_90": f"did you mean 'sm_90a'? {KNOWN}",
    "sm_100": f"did you mean 'sm_100a'? {KNOWN}",
    "sm_100f": f"did you mean 'sm_100a'? {KNOWN}",
    # Other chips: code for one does not run on another, so that none is the correction of another.
    "sm_103a": KNOWN,
    "sm_103": KNOWN,
    "sm_120a": KNOWN,
    "sm_120f": KNOWN,
    "sm_110a": KNOWN,
    "sm_80": KNOWN,
    "sm_9": KNOWN,
    # Misspelt
    "SM_90a": f"did you mean 'sm_90a'? {KNOWN}",
    "sm90a": f"did you mean 'sm_90a'? {KNOWN}",
    "compute_100a": f"did you mean 'sm_100a'? {KNOWN}",
    "hopper": KNOWN,
    "": KNOWN,
}
WAYS: dict[str, Callable[[str], object]] = {
    "the table": find_target,
    "an option of the kernel": lambda name: tilec.compile(gemm(), target=name),
    "an option of a variant": lambda name: tilec.compile(gemm()).variant(target=name),
    "an option of a compilation": lambda name: compile_module(parse_text(gemm()), target=name),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("way", WAYS)
def test_other_names_are_refused(way: str, name: str) -> None:
    with pytest.raises(TilecError) as caught:
        WAYS[way](name)
    assert str(caught.value) == f"error: unknown target '{name}'\nhint: {REFUSED[name]}"


@pytest.mark.parametrize("name", REFUSED)
def test_other_names_in_the_text(name: str) -> None:
    text = gemm().replace("f16>) {", f'f16>) attributes {{target = "{name}"}} {{', 1)
    module = parse_text(text, "gemm.tile")
    with pytest.raises(TilecError) as caught:
        compile_module(module)
    assert str(caught.value) == (
        f"gemm.tile:2:1: error: unknown target '{name}'\n{text.splitlines()[1]}\n^\nhint: {REFUSED[name]}"
    )


@pytest.mark.parametrize("name", [name for name in REFUSED if name])
def test_other_names_on_the_command_line(name: str, cli: Callable[..., Any], tmp_path: Path) -> None:
    """By the option and by the pass, and nothing is written."""
    path = tmp_path / "gemm.tile"
    path.write_text(gemm())
    finished = cli("compile", path, "--target", name, "-o", tmp_path / "out.ptx")
    assert (finished.code, finished.out) == (1, "")
    assert finished.err == f"error: unknown target '{name}'\nhint: {REFUSED[name]}\n"
    finished = cli("compile", path, "-p", f'target("{name}")', "-o", tmp_path / "out.ptx")
    assert finished.code == 1
    assert f"there is no target {name}: the targets are sm_90a, sm_100a" in finished.err
    assert not (tmp_path / "out.ptx").exists()


INSTRUCTIONS = {
    "TMA": (r"\bcp\.async\.bulk\.tensor\b", {"sm_90a", "sm_100a"}),
    "mbarriers": (r"\bmbarrier\.try_wait\b", {"sm_90a", "sm_100a"}),
    "fences of the asynchronous proxy": (r"\bfence\.proxy\.async\b", {"sm_90a", "sm_100a"}),
    "MMA of a warpgroup": (r"\bwgmma\.mma_async\b", {"sm_90a"}),
    "fences of a warpgroup": (r"\bwgmma\.fence\b", {"sm_90a"}),
    "tensor memory": (r"\btcgen05\.alloc\b", {"sm_100a"}),
    "MMA in tensor memory": (r"\btcgen05\.mma\b", {"sm_100a"}),
    "fences of tensor memory": (r"\btcgen05\.fence\b", {"sm_100a"}),
}


@pytest.fixture(scope="module", params=TARGETS)
def compiled(request: pytest.FixtureRequest) -> Any:
    """One program for each chip."""
    return tilec.compile(gemm(), pipeline="tma,pipeline(2),persistent").compiled(target=request.param)


@pytest.mark.parametrize("what", INSTRUCTIONS)
def test_what_a_chip_has_is_used_and_nothing_else(what: str, compiled: Any) -> None:
    pattern, chips = INSTRUCTIONS[what]
    assert (re.search(pattern, compiled.ptx) is not None) == (compiled.target.name in chips)


def test_the_table_says_what_a_chip_has() -> None:
    """A chip without TMA is not in it."""
    assert {(name, t.mma, t.tmem_columns > 0) for name, t in TARGETS.items()} == {
        ("sm_90a", "wgmma", False),
        ("sm_100a", "tcgen05", True),
    }


def test_a_chip_that_is_accepted_is_assembled_for(compiled: Any) -> None:
    if find_ptxas() is None or probe_ptxas().ptx_version < compiled.target.ptx_version:
        pytest.skip("no ptxas that knows it")
    assert f".target {compiled.target.name}\n" in compiled.ptx
    assert compiled.resources.cubin.startswith(b"\x7fELF")
    assert compiled.resources.spill_stores == 0


@pytest.mark.parametrize(("here", "other"), [("sm_90a", "sm_100a"), ("sm_100a", "sm_90a")])
def test_instructions_of_one_chip_are_not_assembled_for_another(here: str, other: str) -> None:
    """What the suffix is for: the assembler refuses them even where we would not."""
    if find_ptxas() is None or probe_ptxas().ptx_version < max(t.ptx_version for t in TARGETS.values()):
        pytest.skip("no ptxas that knows both")
    ptx = tilec.compile(gemm(), pipeline="tma").compiled(target=here).ptx
    needed = TARGETS[other].ptx_version
    text = re.sub(r"^\.version .*$", f".version {needed // 10}.{needed % 10}", ptx, flags=re.MULTILINE)
    with pytest.raises(PtxasError, match=r"wgmma|tcgen05|tensor"):
        assemble(text.replace(f".target {here}", f".target {other}"), TARGETS[other])
