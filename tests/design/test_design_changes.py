"""Another tile, element type, swizzle, depth or shape changes what depends on it, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from design_subjects import GEMM, quick, subject

_PIPELINE = "tma,pipeline(2)"
_SHAPE = {"M": 512, "N": 384, "K": 640}


def _fields(text: str = GEMM, pipeline: str = _PIPELINE, shape: dict[str, int] | None = None) -> dict[str, Any]:
    return quick(subject(text, pipeline, shape=shape or _SHAPE)).fields()


@pytest.fixture(scope="module")
def before() -> dict[str, Any]:
    return _fields()


def _leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    match value:
        case dict():
            for key, inner in value.items():
                yield from _leaves(inner, f"{path}.{key}" if path else str(key))
        case list() | tuple():
            yield f"{path}.#", len(value)
            for place, inner in enumerate(value):
                yield from _leaves(inner, f"{path}.{place}")
        case _:
            yield path, value


def _changed(before: dict[str, Any], after: dict[str, Any]) -> dict[str, object]:
    """New values by path, of what is not as it was."""
    one, other = dict(_leaves(before)), dict(_leaves(after))
    return {path: other.get(path) for path in {*one, *other} if one.get(path, _changed) != other.get(path, _changed)}


def _parts(changed: dict[str, object]) -> set[str]:
    """Paths without places in lists, down to the field."""
    return {re.sub(r"\.(\d+|#)(?=\.|$)", "", path) for path in changed}


def _within(parts: set[str], *allowed: str) -> set[str]:
    """What is outside of the allowed parts."""
    return {part for part in parts if not any(part == one or part.startswith(f"{one}.") for one in allowed)}


_PROSE = ("evidence", "risks", "validation.experiment", "conclusion.verdict", "conclusion.bound", "pipeline")
"""Repeats figures of other parts in words."""


def test_nothing_changed_is_nothing(before: dict[str, Any]) -> None:
    assert _changed(before, _fields()) == {}


def test_depth(before: dict[str, Any]) -> None:
    changed = _changed(before, _fields(pipeline="tma,pipeline(3)"))
    ring = "contract.rings.0"
    expected = {
        "pipeline": "tma,pipeline(3)",
        f"{ring}.depth": 3,
        f"{ring}.bytes": 3 * 32768,
        f"{ring}.tiles.1.base": 3 * 16384,
        f"{ring}.ready.0.signal": "full[3]",
        f"{ring}.free.0.signal": "done[3]",
        "contract.barriers.0.stages": 3,
        "contract.barriers.1.stages": 3,
        # With lag 1 the first wait is for the MMA before the first: it passes at once.
        "contract.barriers.1.initial_phase": 1,
        "contract.descriptors.1.address.base": 3 * 16384,
        "contract.descriptors.2.address.base": 6 * 16384,
        "contract.depths.rows.0.smem_bytes": 3 * 32768 + 2 * 16384 + 24 + 24 + 4,
        "conclusion.pipeline.depth": 3,
        "conclusion.pipeline.lag": 1,
        "conclusion.pipeline.loads_ahead": 2,
        "conclusion.pipeline.mmas_queued": 2,
        "contract.schedule.0.prologue.#": 3,
        "contract.schedule.1.k_tiles": 2,
        "contract.schedule.2.k_tiles": 3,
    }
    assert {path: changed.get(path, "unchanged") for path in expected} == expected
    allowed = (
        *_PROSE,
        "contract.rings.depth",
        "contract.rings.bytes",
        "contract.rings.tiles.base",
        "contract.rings.ready.signal",
        "contract.rings.free.signal",
        "contract.barriers",
        "contract.load_protocol",
        "contract.schedule",
        "contract.depths",
        "contract.descriptors.address.base",
        "contract.descriptors.address.formula",
        "contract.descriptors.address.examples",
        "conclusion.pipeline",
        "validation.runs",
        "validation.proof.states",
    )
    assert _within(_parts(changed), *allowed) == set()
    # What is copied, how large it is, and who issues it, is as it was.
    assert not any(path.startswith(("conclusion.copies", "contract.issue", "contract.budgets")) for path in changed)


def test_tile(before: dict[str, Any]) -> None:
    changed = _changed(before, _fields(pipeline=f"retile(64,128,64),{_PIPELINE}"))
    a, d = 64 * 64 * 2, 64 * 64 * 2
    expected = {
        "conclusion.copies.0.bytes": a,
        "contract.descriptors.0.box.1": 64,
        "contract.descriptors.0.box_bytes": a,
        "contract.descriptors.0.tile_bytes": a,
        "contract.descriptors.0.concrete.tiles.1": 8,
        "contract.descriptors.0.address.stage_bytes": a,
        "contract.descriptors.1.address.base": 2 * a,
        "contract.descriptors.2.tile_bytes": d,
        "contract.budgets.0.announced": a + 16384,
        "contract.budgets.0.brought": a + 16384,
        "contract.barriers.0.announced_bytes.0": a + 16384,
        "contract.rings.0.bytes_per_stage": a + 16384,
        "contract.rings.0.tiles.0.bytes": a,
    }
    assert {path: changed.get(path, "unchanged") for path in expected} == expected
    # B's tile is what it was, and so are the protocol, the order of things and who does them.
    assert not any(path.startswith("contract.descriptors.1.box") for path in changed)
    allowed = (
        *_PROSE,
        "conclusion.copies.bytes",
        "conclusion.copies.criteria.because",
        "contract.descriptors.box",
        "contract.descriptors.box_bytes",
        "contract.descriptors.tile_bytes",
        "contract.descriptors.boundary",
        "contract.descriptors.concrete.tiles",
        "contract.descriptors.address",
        "contract.budgets",
        "contract.load_protocol.what",
        "contract.barriers.announced_bytes",
        "contract.rings.bytes",
        "contract.rings.bytes_per_stage",
        "contract.rings.tiles",
        "contract.schedule.end",
        "contract.schedule.shape",
        "contract.depths.rows",
        "validation.runs",
    )
    assert _within(_parts(changed), *allowed) == set()


def test_element_type(before: dict[str, Any]) -> None:
    """bf16 is as wide as f16: nothing moves."""
    changed = _changed(before, _fields(GEMM.replace("f16", "bf16")))
    assert {path: value for path, value in changed.items() if path.endswith("dtype")} == {
        f"contract.descriptors.{i}.dtype": "bf16" for i in range(3)
    }
    words = ("contract.descriptors.address.layout", "risks.modes.facts.what")
    # Other instructions, other registers.
    assembled = ("contract.depths.rows.registers", "evidence.statement")
    assert _within(_parts(changed), "contract.descriptors.dtype", *words, *assembled) == set()


def test_element_width(before: dict[str, Any]) -> None:
    """f32 results take twice the bytes: what goes out changes, what comes in does not."""
    changed = _changed(before, _fields(GEMM.replace("MxNxf16", "MxNxf32")))
    assert changed["contract.descriptors.2.element_bytes"] == 4
    assert changed["contract.descriptors.2.box.0"] == 32
    assert not any(path.startswith(("contract.descriptors.0", "contract.descriptors.1")) for path in changed)
    assert not any(path.startswith(("contract.rings", "contract.barriers", "contract.budgets")) for path in changed)


def test_swizzle(before: dict[str, Any]) -> None:
    text = GEMM.replace(
        "%a = tile.alloc : !tile.smem<128x64xf16>", "%a = tile.alloc : !tile.smem<128x64xf16, swizzle = 64>"
    )
    assert text != GEMM
    changed = _changed(before, _fields(text))
    expected = {
        "contract.descriptors.0.swizzle": 64,
        "contract.descriptors.0.box.0": 32,
        "contract.descriptors.0.box_bytes": 8192,
        "contract.descriptors.0.boxes.#": 2,
        "contract.descriptors.0.boxes.1.0": 32,
        "contract.descriptors.0.boxes.1.2": 8192,
        "contract.descriptors.0.address.formula.1": "a = lin ^ ((lin >> 3) & 0x30)",
    }
    assert {path: changed.get(path, "unchanged") for path in expected} == expected
    allowed = (
        "contract.descriptors.swizzle",
        "contract.descriptors.box",
        "contract.descriptors.box_bytes",
        "contract.descriptors.boxes",
        "contract.descriptors.address",
        "conclusion.copies.criteria.because",
        "contract.depths.rows.registers",
        "evidence.statement",
        "risks.modes.facts.what",
    )
    assert _within(_parts(changed), *allowed) == set()
    assert not any(re.match(r"contract\.descriptors\.[12]\.", path) for path in changed)


def test_shape(before: dict[str, Any]) -> None:
    changed = _changed(before, _fields(shape={**_SHAPE, "K": 1000}))
    expected = {
        "shape.K": 1000,
        "contract.descriptors.0.concrete.extents.0": 1000,
        "contract.descriptors.0.concrete.strides.1": 2000,
        "contract.descriptors.0.concrete.bytes": 512 * 1000 * 2,
        "contract.descriptors.0.concrete.tiles.0": 16,
        "contract.descriptors.0.concrete.overhang.0": 24,
        "contract.schedule.0.k_tiles": 16,
        "contract.schedule.0.steady.0.last": 13,
    }
    assert {path: changed.get(path, "unchanged") for path in expected} == expected
    allowed = (
        "shape",
        "contract.descriptors.concrete",
        "contract.schedule",
        "evidence.statement",
        "validation.runs",
        "validation.experiment",
    )
    assert _within(_parts(changed), *allowed) == set()
    # What the launch's output is like has nothing to do with K.
    assert not any(path.startswith("contract.descriptors.2") for path in changed)
