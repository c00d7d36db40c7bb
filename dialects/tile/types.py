"""Types of the tile dialect (see `docs/architecture.md`, Types)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, IntAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tilec.dialects.tile.dtypes import DTYPES, DType, dtype_of
from tilec.dialects.tile.layout import SWIZZLES, SmemLayout

_EXTENT = re.compile(r"[0-9]{1,18}")
_SYMBOL = re.compile(r"[A-Za-wyz_][A-Za-wyz0-9_]*")
MAX_EXTENT = (1 << 31) - 1
"""Coordinates and extents are 32-bit integers (cp.async.bulk.tensor)."""
MAX_TILE_EXTENT = 1 << 16
"""Elements of a tile in one dimension, and steps from one to the next."""
MAX_STAGES = 1 << 16
"""Of a ring or an mbarrier array: more than any shared memory holds."""
ALIGNMENTS = (16, 8, 4, 2)
"""Bytes that may divide base address and every pitch of a view."""


def _parse_shape(parser: AttrParser, *, symbols: bool) -> tuple[list[int | str | None], Attribute]:
    """`128x64xf16` (and, with `symbols`, `MxKxf16` or `?x64xf16`): everything up to the next `,` or `>`."""
    start = parser._current_token.span.start  # pyright: ignore[reportPrivateUsage]
    content = parser.lexer.input.content
    end = min((p for p in (content.find(",", start), content.find(">", start)) if p >= 0), default=len(content))
    *dims, element = (part.strip() for part in content[start:end].split("x"))
    if element not in DTYPES:
        parser.raise_error(f"unsupported element type '{element}': tiles hold {', '.join(DTYPES)}", start, end)
    shape: list[int | str | None] = []
    for dim in dims:
        if _EXTENT.fullmatch(dim):
            shape.append(int(dim))
        elif symbols and dim == "?":
            shape.append(None)
        elif symbols and _SYMBOL.fullmatch(dim):
            shape.append(dim)
        else:
            wanted = "an integer, a symbol without the letter x, or ?" if symbols else "an integer"
            parser.raise_error(f"bad dimension '{dim}': expected {wanted}", start, end)
    if not shape:
        parser.raise_error("expected a shape such as 128x64xf16", start, end)
    parser._resume_from(end)  # pyright: ignore[reportPrivateUsage]
    return shape, DTYPES[element].type


def _parse_int_list(parser: AttrParser) -> tuple[int, ...]:
    return tuple(
        parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_boolean=False, allow_negative=False)
        )
    )


def _ints(values: Sequence[int]) -> ArrayAttr[IntAttr[int]]:
    return ArrayAttr([IntAttr(v) for v in values])


def row_major(rank: int) -> tuple[int, ...]:
    """Dimensions, fastest first, of a row-major array."""
    return tuple(reversed(range(rank)))


def _verify_rank(what: str, rank: int) -> None:
    if rank not in (1, 2):
        raise VerifyException(f"{what} has rank {rank}: 1 and 2 are supported")


def _verify_extent(extent: Attribute) -> None:
    found: object = extent
    match extent:
        case IntAttr(data=int() as size):
            if 0 <= size <= MAX_EXTENT:
                return
            found = size
        case StringAttr(data=symbol) if symbol == "?" or _SYMBOL.fullmatch(symbol):
            return
        case _:
            pass
    raise VerifyException(
        f"bad extent {found} of a view: expected an integer from 0 to {MAX_EXTENT}, a symbol without the letter x, or ?"
    )


def _verify_order(order: tuple[int, ...], rank: int) -> None:
    if sorted(order) != list(range(rank)):
        raise VerifyException(f"order {list(order)} is not a permutation of the {rank} dimensions")


def _verify_element(element: Attribute) -> None:
    if element not in [d.type for d in DTYPES.values()]:
        raise VerifyException(f"unsupported element type {element}: tiles hold {', '.join(DTYPES)}")


def _verify_shape(what: str, shape: tuple[int, ...], element: Attribute) -> None:
    _verify_rank(what, len(shape))
    _verify_element(element)
    if any(not 1 <= d <= MAX_TILE_EXTENT for d in shape):
        raise VerifyException(f"{what} has shape {'x'.join(map(str, shape))}: extents must be 1 to {MAX_TILE_EXTENT}")


class _Shaped(ParametrizedAttribute, TypeAttribute):
    """What tiles have in common: their first parameters are a static shape and an element type."""

    @property
    def shape(self) -> tuple[int, ...]:
        dims = self.parameters[0]
        assert isinstance(dims, ArrayAttr)
        return tuple(d.data for d in cast("ArrayAttr[IntAttr[int]]", dims))

    @property
    def dtype(self) -> DType:
        return dtype_of(self.parameters[1])

    def _print_shape(self, printer: Printer) -> None:
        printer.print_string("x".join(map(str, (*self.shape, self.dtype.name))))


def _parse_static(parser: AttrParser) -> tuple[list[int], Attribute]:
    shape, element = _parse_shape(parser, symbols=False)
    return [d for d in shape if isinstance(d, int)], element


@irdl_attr_definition
class ViewType(ParametrizedAttribute, TypeAttribute):
    """`!tile.view<MxKxf16, order = [1, 0], align = 16, tail = grid>`: a global tensor of rank 1 or 2.

    `dims`: extents (int), symbols (str) or unknown (None). `order`: dimensions, fastest first. `align`: bytes that
    divide the base address and every pitch. `tail`: "grid" when the innermost extent is a multiple of 16 bytes (what a
    TMA store needs, since it clips in 16-byte units), else "free".
    """

    name = "tile.view"

    extents: ArrayAttr[Attribute]
    element: Attribute
    order_attr: ArrayAttr[IntAttr[int]]
    align_attr: IntAttr[int]
    tail_attr: StringAttr

    @staticmethod
    def of(
        dims: Sequence[int | str | None],
        element: Attribute,
        *,
        order: Sequence[int] | None = None,
        align: int = 16,
        tail: str = "grid",
    ) -> ViewType:
        extents = ArrayAttr[Attribute]([StringAttr(d or "?") if not isinstance(d, int) else IntAttr(d) for d in dims])
        chosen = row_major(len(dims)) if order is None else tuple(order)
        return ViewType(extents, element, _ints(chosen), IntAttr(align), StringAttr(tail))

    @property
    def dims(self) -> tuple[int | str | None, ...]:
        def read(a: Attribute) -> int | str | None:
            if isinstance(a, IntAttr):
                return int(cast("IntAttr[int]", a).data)
            assert isinstance(a, StringAttr)
            return None if a.data == "?" else a.data

        return tuple(read(e) for e in self.extents)

    @property
    def rank(self) -> int:
        return len(self.extents)

    @property
    def dtype(self) -> DType:
        return dtype_of(self.element)

    @property
    def order(self) -> tuple[int, ...]:
        return tuple(d.data for d in self.order_attr)

    @property
    def align(self) -> int:
        return self.align_attr.data

    @property
    def tail(self) -> str:
        return self.tail_attr.data

    def with_facts(self, *, order: Sequence[int], align: int, tail: str) -> ViewType:
        """The same tensor in another class of facts."""
        return ViewType.of(self.dims, self.element, order=order, align=align, tail=tail)

    def verify(self) -> None:
        _verify_rank("view", self.rank)
        _verify_element(self.element)
        for extent in self.extents:
            _verify_extent(extent)
        _verify_order(self.order, self.rank)
        if self.align not in ALIGNMENTS or self.align < self.dtype.bytes:
            raise VerifyException(
                f"align = {self.align}: expected one of {', '.join(map(str, ALIGNMENTS))}, "
                f"at least the {self.dtype.bytes} bytes of one {self.dtype.name}"
            )
        if self.tail not in ("grid", "free"):
            raise VerifyException(f"tail = {self.tail}: expected grid or free")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            dims, element = _parse_shape(parser, symbols=True)
            order, align, tail = row_major(len(dims)), 16, "grid"
            while parser.parse_optional_punctuation(",") is not None:
                key = parser.parse_identifier(context_msg=" for order, align or tail")
                parser.parse_punctuation("=")
                match key:
                    case "order":
                        order = _parse_int_list(parser)
                    case "align":
                        align = parser.parse_integer(allow_boolean=False, allow_negative=False)
                    case "tail":
                        tail = parser.parse_identifier(context_msg=" for grid or free")
                    case _:
                        parser.raise_error(f"unknown fact '{key}' of a view: expected order, align or tail")
        return ViewType.of(dims, element, order=order, align=align, tail=tail).parameters

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            dims = ("?" if d is None else str(d) for d in self.dims)
            printer.print_string("x".join((*dims, self.dtype.name)))
            if self.order != row_major(self.rank):
                printer.print_string(f", order = {list(self.order)}")
            if self.align != 16:
                printer.print_string(f", align = {self.align}")
            if self.tail != "grid":
                printer.print_string(f", tail = {self.tail}")


@irdl_attr_definition
class SmemType(_Shaped):
    """`!tile.smem<128x64xf16, order = [1, 0], swizzle = 128>`: a tile in shared memory.

    Before a pass has chosen the layout there is no `swizzle`. With one, the tile lies in memory as
    `tilec.dialects.tile.layout.SmemLayout` says.
    """

    name = "tile.smem"

    dims: ArrayAttr[IntAttr[int]]
    element: Attribute
    order_attr: ArrayAttr[IntAttr[int]]
    swizzle_attr: IntAttr[int]

    @staticmethod
    def of(
        shape: Sequence[int], element: Attribute, *, order: Sequence[int] | None = None, swizzle: int = 0
    ) -> SmemType:
        chosen = row_major(len(shape)) if order is None else order
        return SmemType(_ints(shape), element, _ints(chosen), IntAttr(swizzle))

    @property
    def order(self) -> tuple[int, ...]:
        return tuple(d.data for d in self.order_attr)

    @property
    def swizzle(self) -> int:
        """Bytes of a swizzled row; 0 while no layout is chosen."""
        return self.swizzle_attr.data

    @property
    def layout(self) -> SmemLayout:
        """Raises ValueError while no layout is chosen."""
        if not self.swizzle:
            raise ValueError("this shared tile has no layout yet")
        fast = self.shape[self.order[0]]
        slow = self.shape[self.order[1]] if len(self.shape) == 2 else 1
        return SmemLayout(fast, slow, self.dtype.bytes, self.swizzle)

    def verify(self) -> None:
        _verify_shape("shared tile", self.shape, self.element)
        _verify_order(self.order, len(self.shape))
        if not self.swizzle:
            return
        if self.swizzle not in SWIZZLES:
            raise VerifyException(f"swizzle = {self.swizzle}: expected 128, 64, 32, or 16 for none")
        if len(self.shape) == 1 and self.swizzle != 16:
            raise VerifyException(
                f"swizzle = {self.swizzle} in a tile of rank 1: a row has no neighbouring rows to swizzle with, use "
                "swizzle = 16"
            )
        fast = self.shape[self.order[0]]
        if fast * self.dtype.bytes % self.swizzle:
            raise VerifyException(
                f"swizzle = {self.swizzle} does not divide the {fast * self.dtype.bytes} bytes of the fast dimension "
                f"({fast} x {self.dtype.name})"
            )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            dims, element = _parse_static(parser)
            order, swizzle = row_major(len(dims)), 0
            while parser.parse_optional_punctuation(",") is not None:
                key = parser.parse_identifier(context_msg=" for order or swizzle")
                parser.parse_punctuation("=")
                match key:
                    case "order":
                        order = _parse_int_list(parser)
                    case "swizzle":
                        swizzle = parser.parse_integer(allow_boolean=False, allow_negative=False)
                    case _:
                        parser.raise_error(f"unknown fact '{key}' of a shared tile: expected order or swizzle")
        return SmemType.of(dims, element, order=order, swizzle=swizzle).parameters

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            self._print_shape(printer)
            if self.order != row_major(len(self.shape)):
                printer.print_string(f", order = {list(self.order)}")
            if self.swizzle:
                printer.print_string(f", swizzle = {self.swizzle}")


class _PlainTile(_Shaped):
    """A tile type with nothing but a shape."""

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            dims, element = _parse_static(parser)
        return [_ints(dims), element]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            self._print_shape(printer)


@irdl_attr_definition
class AccType(_PlainTile):
    """`!tile.acc<128x128xf32>`: an MMA accumulator: tensor memory (tcgen05) or register fragments (wgmma)."""

    name = "tile.acc"

    dims: ArrayAttr[IntAttr[int]]
    element: Attribute

    @staticmethod
    def of(shape: Sequence[int], element: Attribute) -> AccType:
        return AccType(_ints(shape), element)

    def verify(self) -> None:
        _verify_shape("accumulator", self.shape, self.element)
        if len(self.shape) != 2 or self.element != DTYPES["f32"].type:
            raise VerifyException("an accumulator has rank 2 and element type f32")


@irdl_attr_definition
class RegType(_PlainTile):
    """`!tile.reg<128x64xf32>`: an immutable tile value spread over the threads of its role."""

    name = "tile.reg"

    dims: ArrayAttr[IntAttr[int]]
    element: Attribute

    @staticmethod
    def of(shape: Sequence[int], element: Attribute) -> RegType:
        return RegType(_ints(shape), element)

    def verify(self) -> None:
        _verify_shape("register tile", self.shape, self.element)


@irdl_attr_definition
class RingType(ParametrizedAttribute, TypeAttribute):
    """`!tile.ring<4 x !tile.smem<128x64xf16>>`: one shared tile per pipeline stage."""

    name = "tile.ring"

    depth_attr: IntAttr[int]
    slot: SmemType

    @staticmethod
    def of(depth: int, slot: SmemType) -> RingType:
        return RingType(IntAttr(depth), slot)

    @property
    def depth(self) -> int:
        return self.depth_attr.data

    def verify(self) -> None:
        if not 1 <= self.depth <= MAX_STAGES:
            raise VerifyException(f"a ring has 1 to {MAX_STAGES} slots, not {self.depth}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            depth = parser.parse_integer(allow_boolean=False, allow_negative=False)
            parser.parse_keyword("x")
            slot = parser.parse_type()
            if not isinstance(slot, SmemType):
                parser.raise_error("a ring holds shared tiles: expected !tile.smem<...>")
        return [IntAttr(depth), slot]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.depth} x ")
            printer.print_attribute(self.slot)


@irdl_attr_definition
class MbarrierType(ParametrizedAttribute, TypeAttribute):
    """`!tile.mbarrier<4>`: one 8-byte mbarrier object per pipeline stage (PTX ISA 9.7.13.15)."""

    name = "tile.mbarrier"

    depth_attr: IntAttr[int]

    @staticmethod
    def of(depth: int) -> MbarrierType:
        return MbarrierType(IntAttr(depth))

    @property
    def depth(self) -> int:
        return self.depth_attr.data

    def verify(self) -> None:
        if not 1 <= self.depth <= MAX_STAGES:
            raise VerifyException(f"an mbarrier array has 1 to {MAX_STAGES} barriers, not {self.depth}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return [IntAttr(parser.parse_integer(allow_boolean=False, allow_negative=False))]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(str(self.depth))
