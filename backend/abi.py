"""What a launch needs to know about a compiled kernel: its parameters, grid, block and memory.

The lowering (`tilec.passes.lower`) writes a `KernelABI` on the L2 function as the attribute ``tile.abi``; the runtime
and the PTX header read it. Nothing here knows the driver.
"""

from __future__ import annotations

import json
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, cast, get_args, get_origin, get_type_hints


@dataclass(frozen=True)
class TensorMapParam:
    """A 128-byte ``CUtensorMap`` by value (``.param .align 64``).

    `box` is in elements, fastest dimension first; `swizzle` in bytes (16 means none); `order` maps the map's dimension
    i to the view's dimension ``order[i]``; `dtype` is the view's ("f16", "bf16", "f32").
    """

    view: int
    box: tuple[int, ...]
    swizzle: int
    order: tuple[int, ...]
    dtype: str
    kind: str = "tensor_map"


@dataclass(frozen=True)
class PointerParam:
    """Base address of view `view` (64-bit, global)."""

    view: int
    kind: str = "pointer"


@dataclass(frozen=True)
class ExtentParam:
    """Extent of dimension `dim` of view `view`, in elements (32-bit)."""

    view: int
    dim: int
    kind: str = "extent"


@dataclass(frozen=True)
class PitchParam:
    """Distance in bytes between neighbours along dimension `dim` of view `view` (64-bit)."""

    view: int
    dim: int
    kind: str = "pitch"


Param = TensorMapParam | PointerParam | ExtentParam | PitchParam
_PARAMS: dict[str, type[Any]] = {
    "tensor_map": TensorMapParam,
    "pointer": PointerParam,
    "extent": ExtentParam,
    "pitch": PitchParam,
}


@dataclass(frozen=True)
class ViewFacts:
    """The class of tensors that an argument was compiled for (see `!tile.view`)."""

    name: str
    dims: tuple[int | str | None, ...]
    dtype: str
    order: tuple[int, ...]
    align: int
    grid_tail: bool


@dataclass(frozen=True)
class GridRule:
    """Tiles are counted over view `view` in steps of `step` elements; the grid is one-dimensional.

    `persistent` launches min(tiles, SMs x CTAs per SM) CTAs, else one per tile.
    """

    view: int
    step: tuple[int, ...]
    persistent: bool


@dataclass(frozen=True)
class Assumption:
    """The launch is refused unless ceil(extent / `step`) is a multiple of `multiple`, for dimension `dim` of view `view`."""

    view: int
    dim: int
    step: int
    multiple: int

    def tiles(self, extent: int) -> int:
        """Tiles along a dimension of `extent` elements."""
        return -(-extent // self.step)


@dataclass(frozen=True)
class SmemBlock:
    """A named piece of dynamic shared memory: `offset` and `size` in bytes."""

    name: str
    offset: int
    size: int


@dataclass(frozen=True)
class Barrier:
    """`stages` mbarriers at `offset`, each expecting `count` arriving threads."""

    name: str
    offset: int
    stages: int
    count: int


@dataclass(frozen=True)
class KernelABI:
    """Everything between a PTX entry and its launch. `threads` per CTA; `smem_bytes` dynamic; `tmem_columns` allocated."""

    name: str
    target: str
    views: tuple[ViewFacts, ...]
    outputs: tuple[int, ...]
    params: tuple[Param, ...]
    grid: GridRule | None
    threads: int
    smem_bytes: int
    tmem_columns: int = 0
    stages: int = 1
    smem: tuple[SmemBlock, ...] = ()
    barriers: tuple[Barrier, ...] = ()
    assumptions: tuple[Assumption, ...] = ()

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> KernelABI:
        """The inverse of `to_json`. Raises ValueError, which says what is wrong, for text that is not one."""
        try:
            raw = json.loads(text)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error
        abi = cast(KernelABI, _decode(KernelABI, raw, "it"))
        rank = {i: len(view.dims) for i, view in enumerate(abi.views)}
        of_grid = () if abi.grid is None else (abi.grid.view,)
        about_views = (*abi.params, *abi.assumptions)
        for view in (*abi.outputs, *(one.view for one in about_views), *of_grid):
            if view not in rank:
                raise ValueError(f"view {view} of {len(rank)}")
        for one in about_views:
            if not isinstance(one, TensorMapParam | PointerParam) and not 0 <= one.dim < rank[one.view]:
                raise ValueError(f"dimension {one.dim} of a view of rank {rank[one.view]}")
        for assumed in abi.assumptions:
            if assumed.step < 1 or assumed.multiple < 1:
                raise ValueError(f"an assumption with step {assumed.step} and multiple {assumed.multiple}")
        if abi.grid is not None and len(abi.grid.step) != rank[abi.grid.view]:
            raise ValueError(f"{len(abi.grid.step)} steps over a view of rank {rank[abi.grid.view]}")
        return abi


_NAMES: dict[type[Any], str] = {
    int: "an integer",
    str: "a string",
    bool: "true or false",
    NoneType: "null",
    list: "a list",
    dict: "an object",
    float: "a number",
}


def _decode(hint: Any, raw: Any, where: str) -> Any:
    """The value of a type that JSON is the text of; `where` names it in the message of a ValueError."""
    if hint == Param:
        kind: object = cast("dict[str, Any]", raw).get("kind") if isinstance(raw, dict) else None
        if not isinstance(kind, str) or kind not in _PARAMS:
            raise ValueError(f"{where} is of no known kind: {', '.join(_PARAMS)}")
        return _decode(_PARAMS[kind], raw, where)
    if get_origin(hint) is UnionType:
        parts = get_args(hint)
        # Of the classes in one union, none but a scalar stands beside null and other scalars.
        part = next((p for p in parts if type(raw) is p), next((p for p in parts if is_dataclass(p)), None))
        if part is None:
            raise ValueError(f"{where} is {_NAMES[type(raw)]}, not {' or '.join(_NAMES[p] for p in parts)}")
        return _decode(part, raw, where)
    if get_origin(hint) is tuple:
        if not isinstance(raw, list):
            raise ValueError(f"{where} is {_NAMES[type(raw)]}, not a list")
        element = get_args(hint)[0]
        return tuple(_decode(element, one, f"{where}[{i}]") for i, one in enumerate(cast("list[Any]", raw)))
    if is_dataclass(hint):
        return _decode_object(cast("type[Any]", hint), raw, where)
    if type(raw) is not hint:  # the exact class: to Python, true is an integer
        raise ValueError(f"{where} is {_NAMES[type(raw)]}, not {_NAMES[hint]}")
    return raw


def _decode_object(cls: type[Any], raw: Any, where: str) -> Any:
    if not isinstance(raw, dict):
        raise ValueError(f"{where} is {_NAMES[type(raw)]}, not an object")
    given = cast("dict[str, Any]", raw)
    known = {field.name: field for field in fields(cls)}
    for name in given:
        if name not in known:
            raise ValueError(f"{where} has an unknown field '{name}'")
    for name, field in known.items():
        if name not in given and field.default is MISSING:
            raise ValueError(f"{where} has no field '{name}'")
    hints = get_type_hints(cls)
    prefix = "" if where == "it" else f"{where}."
    return cls(**{name: _decode(hints[name], value, f"{prefix}{name}") for name, value in given.items()})
