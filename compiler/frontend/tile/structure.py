"""Words that say what a kernel makes, over which tiles it runs, and who executes what."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, overload

from tilec.frontend.tile.outside import only_in_kernels
from tilec.frontend.tile.types import I32, Bool, DType, Facts, Index, Scheduled, Scope, View

# Views


def facts(*, order: tuple[int, ...] | None = None, align: int = 16, tail: str = "grid") -> Facts:
    """What a kernel relies on of a view in memory: ``tile.View["M", "K", tile.facts(align=8, tail="free")]``.

    `order`: the dimensions, fastest first; None is row-major. `align`: bytes that divide the base address and every pitch
    (16, 8, 4 or 2). `tail`: "grid" where the innermost extent is a multiple of 16 bytes, else "free". A synchronous kernel
    needs none of it: each call chooses what its tensors allow.
    """
    return Facts(order, align, tail)


def empty(*dims: int | str | Index, dtype: DType | str) -> View:
    """An output of the kernel, a new tensor at each call; its extents are integers, or symbols or extents of the inputs.

    ``D = tile.empty("M", "N", dtype=A.dtype)``, or ``tile.empty(A.shape[0], ...)``, before the loops.
    """
    only_in_kernels("empty")


def dim(view: View, dim: int) -> Index:
    """The extent of one dimension of `view`, in elements, as a run-time value; the same as ``view.shape[dim]``."""
    only_in_kernels("dim")


def assume(view: View, *, dim: int, step: int, multiple: int) -> None:
    """The number of tiles along a dimension, ceil(extent / step), is a multiple of a constant.

    The kernel is right only for arguments of which this holds: the call refuses all others, and the proof of the protocol
    may rely on it. It stands in front of the loops. (Lesson 09, step 6: phases that start again at each tile are right
    where the number of K tiles is a multiple of twice the stages.)
    """
    only_in_kernels("assume")


# Loops


def grid(view: View, *, step: int | tuple[int, ...]) -> Iterator[Any]:
    """One execution for each tile of `view`, in any order; gives the tile's offsets. `step` in elements.

    ``for m, n in tile.grid(D, step=(128, 128))``: the outermost loop of a kernel, with one CTA for each tile (lesson 08).
    """
    only_in_kernels("grid")


def range(view: View, *, dim: int, step: int) -> Iterator[Index]:
    """Offsets 0, step, ... below the extent of one dimension of `view`; the last tile may hang over the edge.

    ``for k in tile.range(A, dim=1, step=64)``. The loop that passes pipeline; asynchronous kernels use `tile.loop`.
    """
    only_in_kernels("range")


def loop(start: Index | int, stop: Index | int, step: Index | int = 1) -> Iterator[Index]:
    """start, start + step, ... below stop, counted at run time (scf.for); Python's `range` on constants is unrolled.

    Names that the body assigns and that exist in front of the loop are carried from turn to turn.
    """
    only_in_kernels("loop")


def persistent(view: View, *, step: int | tuple[int, ...], group: int = 1) -> Iterator[Any]:
    """The tiles of `view` that fall to this CTA, one after the other, as `tile.schedule` numbers them.

    ``for m, n in tile.persistent(D, step=(128, 128), group=8)``: a fixed pool of CTAs, each of which loops over many tiles;
    what stands in front is set up once (lesson 09, step 6). It is ``turn = tile.index(0)``, then
    ``while tile.schedule(turn, D, ...).valid``, with ``turn += 1`` last.
    """
    only_in_kernels("persistent")


def schedule(turn: Index | int, view: View, *, step: int | tuple[int, ...], group: int = 1) -> Scheduled:
    """The static tile scheduler: ``valid, m, n = tile.schedule(turn, D, step=(128, 128), group=8)``.

    Turn t of CTA c is tile c + t * CTAs. Tiles are numbered in groups of `group` tile rows, along M inside a group.
    `valid` is false past the last tile, where the offsets mean nothing. (Lesson 09, step 6: ClusterPersistentScheduler2D.)
    """
    only_in_kernels("schedule")


# Who executes what


def single_thread() -> Scope:
    """``with tile.single_thread():`` one thread of the CTA, or of the role it stands in, executes the body.

    Always the same one, never one lane of each warp: a byte budget must be announced once (lesson 09: tid == 0, not
    elect_sync).
    """
    only_in_kernels("single_thread")


def roles() -> Scope:
    """``with tile.roles():`` the CTA's threads part, and each takes one path, a `tile.role`, concurrently (lesson 10).

    It holds nothing but roles and is over when all of them are. Neither end synchronises. Storage and barriers are made in
    front of it, and accumulators freed behind it.
    """
    only_in_kernels("roles")


def role(name: str) -> Scope:
    """``with tile.role("load"):`` the path of one group of threads, directly in `tile.roles`."""
    only_in_kernels("role")


# Scalars


def index(value: Index | int) -> Index:
    """A run-time offset or stage with this first value: ``stage = tile.index(0)``, which a loop then changes."""
    only_in_kernels("index")


def i32(value: I32 | int) -> I32:
    """A run-time 32-bit integer with this first value: ``phase = tile.i32(0)``, which a loop then flips by ``^= 1``."""
    only_in_kernels("i32")


def i1(value: Bool | bool) -> Bool:
    """A run-time truth value with this first value."""
    only_in_kernels("i1")


@overload
def cdiv(a: int, b: int) -> int: ...
@overload
def cdiv(a: Index, b: Index | int) -> Index: ...
@overload
def cdiv(a: int, b: Index) -> Index: ...
def cdiv(a: Index | int, b: Index | int) -> Index | int:
    """a / b rounded up; an integer where both are known at compile time (and in Python itself, as for the size of a tensor)."""
    if isinstance(a, int) and isinstance(b, int):
        return -(-a // b)
    only_in_kernels("cdiv")
