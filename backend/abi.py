"""What a launch needs to know about a compiled kernel: its parameters, grid, block and memory.

The lowering (`tilec.passes.lower`) writes a `KernelABI` on the L2 function as the attribute ``tile.abi``; the runtime
and the PTX header read it. Nothing here knows the driver.
"""

# No postponed annotations: those of a record are read, and making them from text costs more than all else in here.

import json
from typing import NamedTuple

from tilec.backend.records import decode, encode, parse

_MAX_THREADS = 1024


class TensorMapParam(NamedTuple):
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


class PointerParam(NamedTuple):
    """Base address of view `view` (64-bit, global)."""

    view: int
    kind: str = "pointer"


class ExtentParam(NamedTuple):
    """Extent of dimension `dim` of view `view`, in elements (32-bit)."""

    view: int
    dim: int
    kind: str = "extent"


class PitchParam(NamedTuple):
    """Distance in bytes between neighbours along dimension `dim` of view `view` (64-bit)."""

    view: int
    dim: int
    kind: str = "pitch"


Param = TensorMapParam | PointerParam | ExtentParam | PitchParam


class ViewFacts(NamedTuple):
    """The class of tensors that an argument was compiled for (see `!tile.view`)."""

    name: str
    dims: tuple[int | str | None, ...]
    dtype: str
    order: tuple[int, ...]
    align: int
    grid_tail: bool


class GridRule(NamedTuple):
    """Tiles are counted over view `view` in steps of `step` elements; the grid is one-dimensional.

    `persistent` launches min(tiles, SMs x CTAs per SM) CTAs, else one per tile.
    """

    view: int
    step: tuple[int, ...]
    persistent: bool


class Assumption(NamedTuple):
    """The launch is refused unless ceil(extent / `step`) is a multiple of `multiple`, for dimension `dim` of view `view`."""

    view: int
    dim: int
    step: int
    multiple: int

    def tiles(self, extent: int) -> int:
        """Tiles along a dimension of `extent` elements."""
        return -(-extent // self.step)


class SmemBlock(NamedTuple):
    """A named piece of dynamic shared memory: `offset` and `size` in bytes."""

    name: str
    offset: int
    size: int


class Barrier(NamedTuple):
    """`stages` mbarriers at `offset`, each expecting `arrivals` threads."""

    name: str
    offset: int
    stages: int
    arrivals: int


class KernelABI(NamedTuple):
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
        return json.dumps(encode(self))

    @staticmethod
    def from_json(text: str) -> "KernelABI":
        """The inverse of `to_json`. Raises ValueError, which says what is wrong, for text that is not one."""
        abi = decode(KernelABI, parse(text))
        abi.check()
        return abi

    def check(self) -> None:
        """Raise ValueError for what contradicts itself, or what no kernel has."""
        for view in self.views:
            if sorted(view.order) != list(range(len(view.dims))) or not view.dims:
                raise ValueError(f"view {view.name} of rank {len(view.dims)} with order {list(view.order)}")
            if view.align < 1 or view.align & (view.align - 1):
                raise ValueError(f"view {view.name} with an alignment of {view.align} bytes")
        rank = {i: len(view.dims) for i, view in enumerate(self.views)}
        of_grid = () if self.grid is None else (self.grid.view,)
        about_views = (*self.params, *self.assumptions)
        for view in (*self.outputs, *(one.view for one in about_views), *of_grid):
            if view not in rank:
                raise ValueError(f"view {view} of {len(rank)}")
        for one in about_views:
            if isinstance(one, TensorMapParam):
                if sorted(one.order) != list(range(rank[one.view])) or len(one.box) != rank[one.view]:
                    raise ValueError(f"a box of {list(one.box)} in order {list(one.order)} over rank {rank[one.view]}")
            elif not isinstance(one, PointerParam) and not 0 <= one.dim < rank[one.view]:
                raise ValueError(f"dimension {one.dim} of a view of rank {rank[one.view]}")
        for assumed in self.assumptions:
            if assumed.step < 1 or assumed.multiple < 1:
                raise ValueError(f"an assumption with step {assumed.step} and multiple {assumed.multiple}")
        if self.grid is not None and len(self.grid.step) != rank[self.grid.view]:
            raise ValueError(f"{len(self.grid.step)} steps over a view of rank {rank[self.grid.view]}")
        if self.grid is not None and min(self.grid.step) < 1:
            raise ValueError(f"steps of {list(self.grid.step)}")
        if not 1 <= self.threads <= _MAX_THREADS or self.smem_bytes < 0 or self.tmem_columns < 0:
            raise ValueError(
                f"{self.threads} threads, {self.smem_bytes} bytes of shared memory, {self.tmem_columns} tensor-memory columns"
            )
