"""The texts of `lit/dialect`: every operation of the tile dialect, in each of its forms."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tilec.dialects.tile import Tile
from tilec.source import parse_text

_LIT = Path(__file__).resolve().parents[2] / "lit" / "dialect"
TEXTS = {path.stem: path.read_text() for path in sorted(_LIT.glob("*.tile")) if not path.stem.endswith("_invalid")}


def modules() -> Iterator[ModuleOp]:
    for name, text in TEXTS.items():
        yield parse_text(text, f"{name}.tile")


def tile_operations(module: ModuleOp) -> list[Operation]:
    known = set(Tile.operations)
    return [op for op in module.walk() if type(op) in known]
