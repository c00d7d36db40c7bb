"""Storage and copies: allocation, ring slots, synchronous and asynchronous copies."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IndexType, StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_result_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryAllocEffect, Pure
from xdsl.utils.exceptions import VerifyException

from tilec.dialects.tile.assembly import (
    EFFECTS,
    Ints,
    TileOp,
    int_tuple,
    ints,
    parse_indices,
    parse_int_list,
    parse_optional_stage,
    parse_value,
    print_indices,
    print_ints,
    print_optional_stage,
)
from tilec.dialects.tile.roles import verify_outside_roles
from tilec.dialects.tile.types import AccType, MbarrierType, RegType, RingType, SmemType, ViewType

Tile = SmemType | AccType | RegType


def _parse_result_type(parser: Parser) -> Attribute:
    parser.parse_punctuation(":")
    return parser.parse_type()


@irdl_op_definition
class AllocOp(TileOp):
    """`%a = tile.alloc : !tile.smem<128x64xf16>`: storage of a CTA.

    Shared tiles, rings of them, and accumulators. At L0 an accumulator is zero at each execution of its `alloc`. At L1
    its first MMA overwrites, and `tile.free` gives it back (tcgen05.alloc / tcgen05.dealloc; nothing on sm_90a).
    """

    name = "tile.alloc"

    res = result_def(SmemType | RingType | AccType)

    traits = traits_def(MemoryAllocEffect())

    def __init__(self, type: SmemType | RingType | AccType):
        super().__init__(result_types=[type])

    def verify_(self) -> None:
        verify_outside_roles(self, "storage belongs to the CTA: allocate it in front of tile.roles")

    @classmethod
    def parse_syntax(cls, parser: Parser) -> AllocOp:
        parser.parse_punctuation(":")
        at = parser.pos
        type = parser.parse_type()
        if not isinstance(type, SmemType | RingType | AccType):
            parser.raise_error("tile.alloc makes !tile.smem, !tile.ring or !tile.acc", at, parser.pos)
        return AllocOp(type)

    def print_syntax(self, printer: Printer) -> None:
        printer.print_string(" : ")
        printer.print_attribute(self.res.type)


@irdl_op_definition
class FreeOp(TileOp):
    """`tile.free %acc`: the accumulator's memory is given back, once, on every path (tcgen05.dealloc)."""

    name = "tile.free"

    acc = operand_def(AccType)

    traits = traits_def(*EFFECTS)

    def __init__(self, acc: SSAValue):
        super().__init__(operands=[acc])

    def verify_(self) -> None:
        verify_outside_roles(self, "other roles may still use the accumulator: give it back behind tile.roles")

    @classmethod
    def parse_syntax(cls, parser: Parser) -> FreeOp:
        return FreeOp(parse_value(parser))

    def print_syntax(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.acc)


@irdl_op_definition
class SlotOp(TileOp):
    """`%t = tile.slot %ring[%s]`: the shared tile of stage `%s` (0 <= s < depth)."""

    name = "tile.slot"

    ring = operand_def(RingType)
    stage = operand_def(IndexType)
    res = result_def(SmemType)

    traits = traits_def(Pure())

    def __init__(self, ring: SSAValue, stage: SSAValue):
        assert isinstance(ring.type, RingType)
        super().__init__(operands=[ring, stage], result_types=[ring.type.slot])

    def verify_(self) -> None:
        assert isinstance(self.ring.type, RingType)
        if self.res.type != self.ring.type.slot:
            raise VerifyException("the slot's type is not the ring's")

    @classmethod
    def parse_syntax(cls, parser: Parser) -> SlotOp:
        at = parser.pos
        ring = parse_value(parser)
        if not isinstance(ring.type, RingType):
            parser.raise_error(f"tile.slot takes a !tile.ring, not {ring.type}", at, parser.pos)
        (stage,) = parse_indices(parser)
        return SlotOp(ring, stage)

    def print_syntax(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.ring)
        print_indices(printer, [self.stage])


@irdl_op_definition
class SliceOp(TileOp):
    """`%c = tile.slice %acc[0, 64] : !tile.acc<128x64xf32>`: a static part of an accumulator; offsets in elements."""

    name = "tile.slice"

    acc = operand_def(AccType)
    offsets_attr = prop_def(Ints, prop_name="offsets")
    res = result_def(AccType)

    traits = traits_def(Pure())

    def __init__(self, acc: SSAValue, offsets: Sequence[int], type: Attribute):
        super().__init__(operands=[acc], properties={"offsets": ints(offsets)}, result_types=[type])

    @property
    def offsets(self) -> tuple[int, ...]:
        return int_tuple(self.offsets_attr)

    def verify_(self) -> None:
        assert isinstance(self.acc.type, AccType) and isinstance(self.res.type, AccType)
        whole, part = self.acc.type.shape, self.res.type.shape
        if len(self.offsets) != 2:
            raise VerifyException("a slice of an accumulator has two offsets")
        if any(o < 0 or o + p > w for o, p, w in zip(self.offsets, part, whole, strict=True)):
            raise VerifyException(f"slice {part} at {self.offsets} does not lie inside {whole}")
        if self.offsets[0] != 0 or part[0] != whole[0]:
            raise VerifyException("a slice takes all rows of its accumulator: rows belong to fixed warps")

    @classmethod
    def parse_syntax(cls, parser: Parser) -> SliceOp:
        acc = parse_value(parser)
        offsets = parse_int_list(parser, parser.Delimiter.SQUARE)
        return SliceOp(acc, offsets, _parse_result_type(parser))

    def print_syntax(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.acc)
        print_ints(printer, self.offsets, "[", "]")
        printer.print_string(" : ")
        printer.print_attribute(self.res.type)


def _parse_place(parser: Parser) -> tuple[SSAValue, list[SSAValue]]:
    """`%A[%m, %k]` for a view, `%a` for a tile."""
    value = parse_value(parser)
    return value, parse_indices(parser) if isinstance(value.type, ViewType) else []


def _print_place(printer: Printer, value: SSAValue, indices: Sequence[SSAValue]) -> None:
    printer.print_ssa_value(value)
    if isinstance(value.type, ViewType):
        print_indices(printer, indices)


def _verify_view_and_tile(view: ViewType, tile: Tile, indices: Sequence[SSAValue]) -> None:
    if len(indices) != view.rank:
        raise VerifyException(f"a view of rank {view.rank} is indexed by {view.rank} offsets, not {len(indices)}")
    if len(tile.shape) != view.rank:
        raise VerifyException(f"a tile of rank {len(tile.shape)} does not fit a view of rank {view.rank}")


@irdl_op_definition
class CopyOp(TileOp):
    """L0 copy between a view and a tile, complete when the next operation starts.

    * `tile.copy %A[%m, %k] to %a`: view to shared tile of the same dtype; elements outside the tensor are zero.
    * `tile.copy %t to %D[%m, %n]`: accumulator, register tile or shared tile to a view, rounded to the view's dtype
      (to nearest even); elements outside are dropped.
    """

    name = "tile.copy"

    source = operand_def(ViewType | SmemType | AccType | RegType)
    dest = operand_def(ViewType | SmemType)
    indices = var_operand_def(IndexType)

    traits = traits_def(*EFFECTS)

    def __init__(self, source: SSAValue, dest: SSAValue, indices: Sequence[SSAValue]):
        super().__init__(operands=[source, dest, list(indices)])

    @property
    def is_load(self) -> bool:
        """View to shared tile."""
        return isinstance(self.source.type, ViewType)

    def verify_(self) -> None:
        source, dest = self.source.type, self.dest.type
        match source, dest:
            case ViewType(), SmemType():
                _verify_view_and_tile(source, dest, self.indices)
                if source.element != dest.element:
                    raise VerifyException(
                        f"a copy from {source.dtype.name} to {dest.dtype.name}: loads do not convert; "
                        "give the tile the view's element type"
                    )
            case ((SmemType() | AccType() | RegType()), ViewType()):
                _verify_view_and_tile(dest, source, self.indices)
                if isinstance(source, SmemType) and source.element != dest.element:
                    raise VerifyException(
                        f"a copy from {source.dtype.name} to {dest.dtype.name}: shared tiles are copied as they are"
                    )
            case _:
                raise VerifyException(
                    "tile.copy goes from a view to a shared tile, or from a tile to a view: "
                    "use tile.load and tile.store between tiles"
                )

    @classmethod
    def parse_syntax(cls, parser: Parser) -> CopyOp:
        source, source_at = _parse_place(parser)
        parser.parse_keyword("to")
        dest, dest_at = _parse_place(parser)
        return CopyOp(source, dest, [*source_at, *dest_at])

    def print_syntax(self, printer: Printer) -> None:
        printer.print_string(" ")
        _print_place(printer, self.source, self.indices)
        printer.print_string(" to ")
        _print_place(printer, self.dest, self.indices)


DISPATCHES = ("tma", "threads", "tmem")


@irdl_op_definition
class CopyAsyncOp(TileOp):
    """L1 copy; `dispatch` says who moves the bytes.

    * `tile.copy_async %A[%m, %k] to %a dispatch tma signal %full[%s]`: one thread issues; the TMA engine writes whole
      boxes, zero-filled outside the tensor, and completes their bytes on the barrier (cp.async.bulk.tensor, PTX ISA
      9.7.9.27; lesson 09, step 4).
    * `tile.copy_async %d to %D[%m, %n] dispatch tma`: the engine reads the tile and writes what lies inside the tensor;
      completes by bulk group.
    * `... dispatch threads`: all threads of the CTA copy in vectors, masked at the edges; done when they have passed a
      `tile.cta_sync` (and, for the tensor core or the TMA engine, `tile.fence proxy_async` before it).
    * `%r = tile.copy_async %acc dispatch tmem : !tile.reg<128x64xf32>`: accumulator to registers (tcgen05.ld); valid
      after `tile.tmem.wait_ld`.
    """

    name = "tile.copy_async"

    source = operand_def(ViewType | SmemType | AccType)
    dest = opt_operand_def(ViewType | SmemType)
    indices = var_operand_def(IndexType)
    barrier = opt_operand_def(MbarrierType)
    stage = opt_operand_def(IndexType)
    dispatch_attr = prop_def(StringAttr, prop_name="dispatch")
    res = opt_result_def(RegType)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(*EFFECTS)

    def __init__(
        self,
        source: SSAValue,
        dest: SSAValue | None,
        indices: Sequence[SSAValue],
        dispatch: str,
        *,
        barrier: SSAValue | None = None,
        stage: SSAValue | None = None,
        result: Attribute | None = None,
    ):
        super().__init__(
            operands=[source, dest, list(indices), barrier, stage],
            properties={"dispatch": StringAttr(dispatch)},
            result_types=[result],
        )

    @property
    def dispatch(self) -> str:
        return self.dispatch_attr.data

    @property
    def is_load(self) -> bool:
        """View to shared tile."""
        return isinstance(self.source.type, ViewType)

    def verify_(self) -> None:
        source = self.source.type
        dest = None if self.dest is None else self.dest.type
        if self.dispatch not in DISPATCHES:
            raise VerifyException(f"dispatch {self.dispatch}: expected one of {', '.join(DISPATCHES)}")
        if self.dispatch == "tmem":
            if not isinstance(source, AccType) or self.res is None or [*self.operands] != [self.source]:
                raise VerifyException("dispatch tmem copies an accumulator to a register tile result")
            assert isinstance(self.res.type, RegType)
            if (self.res.type.shape, self.res.type.element) != (source.shape, source.element):
                raise VerifyException("the register tile has the accumulator's shape and element type")
            return
        if self.res is not None:
            raise VerifyException(f"dispatch {self.dispatch} has no result")
        match source, dest:
            case (ViewType() as view, SmemType() as tile) | (SmemType() as tile, ViewType() as view):
                _verify_view_and_tile(view, tile, self.indices)
                if view.element != tile.element:
                    raise VerifyException(f"a copy between {view.dtype.name} and {tile.dtype.name} does not convert")
            case _:
                raise VerifyException(f"dispatch {self.dispatch} copies between a view and a shared tile")
        if self.dispatch == "threads":
            if self.barrier is not None or self.stage is not None:
                raise VerifyException("a thread copy signals no barrier: the threads synchronise themselves")
            return
        if not tile.swizzle:
            raise VerifyException("a TMA copy needs a tile with a layout: give it `swizzle = 128` (64, 32, or 16)")
        if problem := tile.layout.tma_problem:
            raise VerifyException(f"TMA cannot fill this tile: {problem}")
        if tile.order != view.order:
            raise VerifyException(
                f"TMA cannot transpose: the tile's order {list(tile.order)} is not the view's {list(view.order)}"
            )
        if view.align != 16:
            raise VerifyException(
                f"TMA needs bases and pitches of 16 bytes; the view has align = {view.align}: use dispatch threads"
            )
        if self.is_load and self.barrier is None:
            raise VerifyException("a TMA load completes on an mbarrier: add `signal %barrier[%stage]`")
        if not self.is_load and self.barrier is not None:
            raise VerifyException("a TMA store completes by bulk group: it signals no barrier")
        if not self.is_load and view.tail != "grid":
            raise VerifyException(
                "a TMA store clips in 16-byte units and would write past a row that ends between them "
                "(tail = free): use dispatch threads"
            )
        verify_stage(self.barrier, self.stage)

    @classmethod
    def parse_syntax(cls, parser: Parser) -> CopyAsyncOp:
        source, indices = _parse_place(parser)
        dest: SSAValue | None = None
        if parser.parse_optional_keyword("to"):
            dest, more = _parse_place(parser)
            indices = [*indices, *more]
        parser.parse_keyword("dispatch")
        dispatch = parser.parse_identifier(context_msg=f": {', '.join(DISPATCHES)}")
        barrier: SSAValue | None = None
        stage: SSAValue | None = None
        if parser.parse_optional_keyword("signal"):
            barrier = parse_value(parser)
            stage = parse_optional_stage(parser)
        result = parser.parse_type() if parser.parse_optional_punctuation(":") else None
        return CopyAsyncOp(source, dest, indices, dispatch, barrier=barrier, stage=stage, result=result)

    def print_syntax(self, printer: Printer) -> None:
        printer.print_string(" ")
        _print_place(printer, self.source, self.indices)
        if self.dest is not None:
            printer.print_string(" to ")
            _print_place(printer, self.dest, self.indices)
        printer.print_string(f" dispatch {self.dispatch}")
        if self.barrier is not None:
            printer.print_string(" signal ")
            printer.print_ssa_value(self.barrier)
            print_optional_stage(printer, self.stage)
        if self.res is not None:
            printer.print_string(" : ")
            printer.print_attribute(self.res.type)


def verify_stage(barrier: SSAValue | None, stage: SSAValue | None) -> None:
    """A barrier array of several stages is always indexed."""
    if barrier is None:
        if stage is not None:
            raise VerifyException("a stage, but no barrier")
        return
    assert isinstance(barrier.type, MbarrierType)
    if stage is None and barrier.type.depth > 1:
        raise VerifyException(f"this barrier has {barrier.type.depth} stages: name one, `%bar[%s]`")


@irdl_op_definition
class LoadOp(TileOp):
    """`%r = tile.load %t : !tile.reg<128x64xf32>`: a shared tile (or, at L0, an accumulator) to registers.

    Shape and dtype are the source's. A shared tile is read through the generic proxy.
    """

    name = "tile.load"

    source = operand_def(SmemType | AccType)
    res = result_def(RegType)

    traits = traits_def(*EFFECTS)

    def __init__(self, source: SSAValue, type: Attribute):
        super().__init__(operands=[source], result_types=[type])

    def verify_(self) -> None:
        assert isinstance(self.source.type, SmemType | AccType) and isinstance(self.res.type, RegType)
        if (self.res.type.shape, self.res.type.element) != (self.source.type.shape, self.source.type.element):
            raise VerifyException("tile.load keeps shape and element type: use tile.cast to convert")

    @classmethod
    def parse_syntax(cls, parser: Parser) -> LoadOp:
        return LoadOp(parse_value(parser), _parse_result_type(parser))

    def print_syntax(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        printer.print_string(" : ")
        printer.print_attribute(self.res.type)


@irdl_op_definition
class StoreOp(TileOp):
    """`tile.store %r to %t`: registers to a shared tile of the same shape and dtype, through the generic proxy."""

    name = "tile.store"

    value = operand_def(RegType)
    dest = operand_def(SmemType)

    traits = traits_def(*EFFECTS)

    def __init__(self, value: SSAValue, dest: SSAValue):
        super().__init__(operands=[value, dest])

    def verify_(self) -> None:
        assert isinstance(self.value.type, RegType) and isinstance(self.dest.type, SmemType)
        if (self.value.type.shape, self.value.type.element) != (self.dest.type.shape, self.dest.type.element):
            raise VerifyException("tile.store keeps shape and element type: use tile.cast to convert")

    @classmethod
    def parse_syntax(cls, parser: Parser) -> StoreOp:
        value = parse_value(parser)
        parser.parse_keyword("to")
        return StoreOp(value, parse_value(parser))

    def print_syntax(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.value)
        printer.print_string(" to ")
        printer.print_ssa_value(self.dest)
