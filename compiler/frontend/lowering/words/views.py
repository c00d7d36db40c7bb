"""Views: outputs, places in them, their extents, and what a kernel relies on of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilec.dialects.tile import AssumeOp, DimOp, ViewType
from tilec.frontend.lowering.arguments import Argument, Slice
from tilec.frontend.lowering.frame import Site
from tilec.frontend.lowering.signature import argument, extent
from tilec.frontend.lowering.values import Facts, Place, Scalar, Thing, Value, View, kind
from tilec.frontend.lowering.vocabulary import VOCABULARY, attribute, subscript, word
from tilec.frontend.lowering.words.operands import dimension_of, number_of, tile_of

VOCABULARY.name("View")


@word("facts")
def facts(site: Site, *, order: Argument, align: Argument, tail: Argument) -> Facts:
    chosen = None if order.value is None else order.integers()
    return Facts(chosen, align.integer(), tail.choice("grid", "free"))


@word("empty")
def empty(site: Site, *, dims: tuple[Argument, ...], dtype: Argument) -> View:
    """An output: an argument of the kernel behind those that are there."""
    if site.state.at is not site.state.body:
        site.fail("outputs are made before the loops of a kernel")
    if not dims:
        site.fail("an output needs its extents", 'as in tile.empty("M", "N", dtype=A.dtype)')
    extents = [_extent(site, dim) for dim in dims]
    element = dtype.dtype()
    view = argument(site, None, site.guard(lambda: ViewType.of(extents, element.type)))
    site.state.outputs.append(view.value)
    return view


def _extent(site: Site, dim: Argument) -> int | str:
    """An extent of an output, which a call knows before it launches: an integer, or one that an input has."""
    views = [a.type for a in site.state.body.args if isinstance(a.type, ViewType)]
    symbols = dict.fromkeys(d for view in views for d in view.dims if isinstance(d, str))
    if isinstance(dim.value, Scalar) and isinstance(dim.value.value.owner, DimOp):  # A.shape[0]
        read = dim.value.value.owner
        size = View(read.view).type.dims[read.dimension]
        if size is None:
            dim.fail(f"{dim.text} has no symbol", 'give it one in the annotation of the view, in place of "?"')
    elif isinstance(dim.value, Thing):
        dim.fail(f"an extent of an output must be a symbol, an integer or one of an input's, not {kind(dim.value)}")
    else:
        size = extent(dim, dim.value)
    if size is None or (isinstance(size, str) and size not in symbols):
        known = f"the inputs have {', '.join(symbols)}" if symbols else "no input has a symbol"
        dim.fail(f"{dim.text} is no extent of an input", known)
    return size


@subscript(View)
def place(site: Site, view: View, items: Sequence[Argument | Slice]) -> Place:
    rank = view.type.rank
    for item in items:
        if isinstance(item, Slice):
            item.fail("a view is indexed by the offsets where a tile begins", "the tile says how large it is")
    given = [replace(item, name="an offset") for item in items if isinstance(item, Argument)]
    if len(given) != rank:
        site.fail(
            f"a view of {number_of(rank, 'dimension')} is indexed by {number_of(rank, 'offset')}, not {len(given)}"
        )
    return Place(view, tuple(item.index() for item in given))


@attribute(View, "dtype")
def dtype(site: Site, view: View) -> Value:
    return view.type.dtype


@attribute(View, "ndim")
def ndim(site: Site, view: View) -> Value:
    return view.type.rank


@attribute(View, "shape")
def shape(site: Site, view: View) -> Value:
    """Integers where the type has them; the other extents are read at run time."""
    return tuple(d if isinstance(d, int) else _dim(site, view, i) for i, d in enumerate(view.type.dims))


@word("dim")
def dim(site: Site, *, view: Argument, dim: Argument) -> Scalar:
    of = tile_of(view, View)
    return _dim(site, of, dimension_of(dim, of))


def _dim(site: Site, view: View, dimension: int) -> Scalar:
    return Scalar(site.emit(lambda: DimOp(view.value, dimension)).res)


@word("assume")
def assume(site: Site, *, view: Argument, dim: Argument, step: Argument, multiple: Argument) -> None:
    if site.state.at is not site.state.body:
        site.fail("tile.assume is a fact of the whole launch", "write it before the loops of the kernel")
    of = tile_of(view, View)
    numbers = dimension_of(dim, of), step.integer(), multiple.integer()
    site.emit(lambda: AssumeOp(of.value, *numbers))
