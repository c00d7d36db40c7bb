"""Tensors of more than 2^31 elements whose coordinates are small: what the threads compute addresses with."""

from __future__ import annotations

import re

import pytest
from gemm_text import gemm

import tilec
from tilec.backend.abi import KernelABI, PitchParam, PointerParam
from tilec.diagnostics import collect

OFF_THE_GRID = ", align = 2, tail = free"
"""Threads copy these."""


def compiled(target: str) -> tuple[KernelABI, str]:
    with collect():
        text = gemm(a=OFF_THE_GRID, b=OFF_THE_GRID, d=OFF_THE_GRID)
        artifact = tilec.compile(text, pipeline="tma").variant(target=target).artifact
    return artifact.abi, artifact.ptx


def instructions(ptx: str) -> list[tuple[str, str]]:
    """(name, operands)"""
    return re.findall(r"^[ \t]*(?:@!?%p\d+[ \t]+)?([a-z][\w.:]*)[ \t]+([^;\n]*);", ptx, re.MULTILINE)


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_pitches_and_bases_are_only_used_whole(target: str) -> None:
    """A pitch times a row is a product of 64 bits; no instruction takes half of a base, a pitch or a sum of them."""
    abi, ptx = compiled(target)
    wide = [i for i, p in enumerate(abi.params) if isinstance(p, PitchParam | PointerParam)]
    assert len(wide) == 6
    for index in wide:
        loaded = re.search(rf"ld\.param\.b64\s+(%rd\d+), \[gemm_param_{index}\];", ptx)
        assert loaded is not None
        uses = [name for name, operands in instructions(ptx) if re.search(rf"{loaded[1]}\b", operands)]
        uses.remove("ld.param.b64")
        assert uses
        assert all(re.fullmatch(r"(mad\.lo|mul\.lo|add|mov|cvta\.to\.global|shl)\.[sub]64", use) for use in uses), uses
        if isinstance(abi.params[index], PitchParam):
            assert any(use in ("mad.lo.s64", "mul.lo.s64") for use in uses)
    assert not re.search(r"cvt\.[us]32\.[us]64", ptx)


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_no_access_to_global_memory_is_by_32_bits(target: str) -> None:
    _, ptx = compiled(target)
    addresses = re.findall(r"(?:ld|st)\.global\S*\s+(?:\{[^}]*\}|%\w+), \[(%\w+)|st\.global\S*\s+\[(%\w+)", ptx)
    assert addresses
    assert all((a or b).startswith("%rd") for a, b in addresses)
