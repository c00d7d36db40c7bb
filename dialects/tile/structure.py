"""Kernels, grids, loops, issue scopes, assumptions and the tile scheduler."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IndexType, IntegerAttr, ModuleOp, StringAttr, i1, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    lazy_traits_def,
    operand_def,
    opt_attr_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    HasParent,
    IsolatedFromAbove,
    IsTerminator,
    NoTerminator,
    Pure,
    SingleBlockImplicitTerminator,
    SymbolOpInterface,
)
from xdsl.utils.exceptions import VerifyException

from tilec.dialects.tile.assembly import (
    EFFECTS,
    Int,
    Ints,
    TileOp,
    int_tuple,
    ints,
    parse_int_list,
    parse_value,
    print_ints,
)
from tilec.dialects.tile.names import RULE, is_kernel_name
from tilec.dialects.tile.types import MAX_TILE_EXTENT, ViewType

MAX_GROUP = 1 << 16
"""Rows of tiles in a group of the scheduler, at most."""
MAX_MULTIPLE = 1 << 16
"""Of a number of tiles that a kernel assumes, at most."""


@irdl_op_definition
class KernelOp(IRDLOperation):
    """`tile.kernel @f(%A: !tile.view<MxKxf16>) { }`: an entry; its arguments are views, its body one straight block.

    The discardable attribute ``target`` names a row of the target table: `attributes {target = "sm_90a"}`.
    """

    name = "tile.kernel"

    sym_name = prop_def(StringAttr)
    target = opt_attr_def(StringAttr)
    body = region_def("single_block")

    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface(), NoTerminator(), *EFFECTS)

    def __init__(self, name: str, body: Region, *, target: str | None = None):
        super().__init__(
            properties={"sym_name": StringAttr(name)},
            attributes={} if target is None else {"target": StringAttr(target)},
            regions=[body],
        )

    @property
    def views(self) -> tuple[ViewType, ...]:
        types: list[ViewType] = []
        for argument in self.body.block.args:
            assert isinstance(argument.type, ViewType)
            types.append(argument.type)
        return tuple(types)

    def verify_(self) -> None:
        above = self.parent_op()
        while isinstance(above, ModuleOp):
            above = above.parent_op()
        if above is not None:
            raise VerifyException(f"a kernel inside of {above.name}: kernels stand in a module")
        if not is_kernel_name(self.sym_name.data):
            raise VerifyException(f"a kernel's name is one that PTX reads, and not tilec_smem: {RULE}")
        for argument in self.body.block.args:
            if not isinstance(argument.type, ViewType):
                raise VerifyException(f"kernel arguments are views (!tile.view<...>), not {argument.type}")

    @classmethod
    def parse(cls, parser: Parser) -> KernelOp:
        name = parser.parse_symbol_name()
        arguments = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_argument)
        attributes: dict[str, Attribute] = {}
        if parser.parse_optional_keyword("attributes"):
            attributes = dict(parser.parse_optional_attr_dict())
        body = parser.parse_region(arguments)
        op = KernelOp(name.data, body)
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        with printer.in_parens():
            printer.print_list(self.body.block.args, printer.print_block_argument)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)


def _verify_dimension(view: SSAValue, dimension: int) -> None:
    assert isinstance(view.type, ViewType)
    if not 0 <= dimension < view.type.rank:
        raise VerifyException(f"dim {dimension} of a view of rank {view.type.rank}")


def _verify_step(step: int) -> None:
    if not 1 <= step <= MAX_TILE_EXTENT:
        raise VerifyException(f"step {step} must be 1 to {MAX_TILE_EXTENT}, as extents of tiles are")


def _verify_over(view: SSAValue, steps: Sequence[int]) -> None:
    assert isinstance(view.type, ViewType)
    if len(steps) != view.type.rank:
        raise VerifyException(f"{len(steps)} steps over a view of rank {view.type.rank}: give one for each dimension")
    if any(not 1 <= s <= MAX_TILE_EXTENT for s in steps):
        raise VerifyException(f"steps {tuple(steps)} must be 1 to {MAX_TILE_EXTENT}, as extents of tiles are")


@irdl_op_definition
class GridOp(TileOp):
    """`tile.grid (%m, %n) over %D step (128, 128) { }`: one execution for each tile of a view, in any order.

    The variables are element offsets (`index`): multiples of the steps, below the extents. A CTA executes one of them
    (lesson 08: a launch with one CTA per output tile).
    """

    name = "tile.grid"

    view = operand_def(ViewType)
    steps = prop_def(Ints)
    body = region_def("single_block")

    traits = traits_def(NoTerminator(), HasParent(KernelOp), *EFFECTS)

    def __init__(self, view: SSAValue, steps: Sequence[int], body: Region):
        super().__init__(operands=[view], properties={"steps": ints(steps)}, regions=[body])

    @property
    def step(self) -> tuple[int, ...]:
        return int_tuple(self.steps)

    def verify_(self) -> None:
        _verify_over(self.view, self.step)
        args = self.body.block.args
        if len(args) != len(self.step) or any(not isinstance(a.type, IndexType) for a in args):
            raise VerifyException(f"a grid over {len(self.step)} dimensions has as many index variables")
        before = self.prev_op
        while before is not None:
            if isinstance(before, GridOp):
                raise VerifyException("a second grid, but a kernel has one grid: give each a kernel of its own")
            before = before.prev_op

    @classmethod
    def parse_syntax(cls, parser: Parser) -> GridOp:
        variables = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parser.parse_argument(expect_type=False).resolve(IndexType())
        )
        parser.parse_keyword("over")
        view = parse_value(parser)
        parser.parse_keyword("step")
        steps = parse_int_list(parser, parser.Delimiter.PAREN)
        body = parser.parse_region(variables)
        return GridOp(view, steps, body)

    def print_syntax(self, printer: Printer) -> None:
        printer.print_string(" ")
        with printer.in_parens():
            printer.print_list(self.body.block.args, printer.print_ssa_value)
        printer.print_string(" over ")
        printer.print_ssa_value(self.view)
        printer.print_string(" step ")
        print_ints(printer, self.step, "(", ")")
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)


@irdl_op_definition
class YieldOp(IRDLOperation):
    """`tile.yield %x, %y : type, type`: the values that a `tile.for` carries to its next iteration."""

    name = "tile.yield"

    values = var_operand_def()

    traits = lazy_traits_def(lambda: (IsTerminator(), HasParent(ForOp), Pure()))
    assembly_format = "attr-dict ($values^ `:` type($values))?"

    def __init__(self, *values: SSAValue):
        super().__init__(operands=[list(values)])


@irdl_op_definition
class ForOp(TileOp):
    """`tile.for %k over %A dim 1 step 64 iter_args(%x = %init) { tile.yield %y : type }`: a loop over one dimension.

    `%k` is an element offset: 0, step, ... while below the extent; no iteration when the extent is 0.
    """

    name = "tile.for"

    view = operand_def(ViewType)
    inits = var_operand_def()
    dim = prop_def(Int)
    step_attr = prop_def(Int, prop_name="step")
    res = var_result_def()
    body = region_def("single_block")

    traits = traits_def(SingleBlockImplicitTerminator(YieldOp), *EFFECTS)

    def __init__(self, view: SSAValue, dim: int, step: int, body: Region, inits: Sequence[SSAValue] = ()):
        super().__init__(
            operands=[view, list(inits)],
            properties={"dim": IntegerAttr(dim, i64), "step": IntegerAttr(step, i64)},
            result_types=[[v.type for v in inits]],
            regions=[body],
        )
        if not inits:
            # Not with xDSL's `ensure_terminator`: for a moment that replaces a method of all operations, in all threads.
            for block in body.blocks:
                last = block.last_op
                if last is None or not last.has_trait(IsTerminator, value_if_unregistered=False):
                    block.add_op(YieldOp())

    @property
    def dimension(self) -> int:
        return self.dim.value.data

    @property
    def step(self) -> int:
        return self.step_attr.value.data

    @property
    def variable(self) -> SSAValue:
        return self.body.block.args[0]

    def verify_(self) -> None:
        _verify_dimension(self.view, self.dimension)
        _verify_step(self.step)
        args = self.body.block.args
        if not args or not isinstance(args[0].type, IndexType):
            raise VerifyException("the body's first argument is the loop variable (index)")
        carried = [a.type for a in args[1:]]
        if carried != [v.type for v in self.inits]:
            raise VerifyException("the body's arguments do not match iter_args")
        last = self.body.block.last_op
        if not isinstance(last, YieldOp) or [v.type for v in last.values] != carried:
            raise VerifyException("tile.yield does not match iter_args")
        if [r.type for r in self.res] != carried:
            raise VerifyException("the results do not match iter_args")

    @classmethod
    def parse_syntax(cls, parser: Parser) -> ForOp:
        arguments = [parser.parse_argument(expect_type=False).resolve(IndexType())]
        parser.parse_keyword("over")
        view = parse_value(parser)
        parser.parse_keyword("dim")
        dim = parser.parse_integer(allow_boolean=False, allow_negative=False)
        parser.parse_keyword("step")
        step = parser.parse_integer(allow_boolean=False, allow_negative=False)
        inits: list[SSAValue] = []

        def parse_carried() -> None:
            argument = parser.parse_argument(expect_type=False)
            parser.parse_punctuation("=")
            init = parse_value(parser)
            inits.append(init)
            arguments.append(argument.resolve(init.type))

        if parser.parse_optional_keyword("iter_args"):
            parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_carried)
        body = parser.parse_region(arguments)
        return ForOp(view, dim, step, body, inits)

    def print_syntax(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.variable)
        printer.print_string(" over ")
        printer.print_ssa_value(self.view)
        printer.print_string(f" dim {self.dimension} step {self.step} ")
        if self.inits:
            printer.print_string("iter_args(")
            for i, (argument, init) in enumerate(zip(self.body.block.args[1:], self.inits, strict=True)):
                printer.print_string(", " if i else "")
                printer.print_ssa_value(argument)
                printer.print_string(" = ")
                printer.print_ssa_value(init)
            printer.print_string(") ")
        last = self.body.block.last_op
        says_something = bool(self.inits) or (last is not None and bool(last.attributes))
        printer.print_region(self.body, print_entry_block_args=False, print_block_terminators=says_something)


@irdl_op_definition
class SingleThreadOp(TileOp):
    """`tile.single_thread { }`: one thread of the CTA, or of the role it stands in, executes the body; the others skip it.

    One thread, never one lane per warp: a byte budget must be announced once (lesson 09: `tid == 0`, not
    `elect_sync`).
    """

    name = "tile.single_thread"

    body = region_def("single_block")

    traits = traits_def(NoTerminator(), *EFFECTS)

    def __init__(self, body: Region | Sequence[Operation]):
        region = body if isinstance(body, Region) else Region(Block(list(body)))
        super().__init__(regions=[region])

    def verify_(self) -> None:
        if self.body.block.args:
            raise VerifyException("the body of tile.single_thread has no arguments")

    @classmethod
    def parse_syntax(cls, parser: Parser) -> SingleThreadOp:
        return SingleThreadOp(parser.parse_region([]))

    def print_syntax(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_region(self.body, print_empty_block=False)


@irdl_op_definition
class DimOp(TileOp):
    """`%k = tile.dim %A, 1`: the extent of one dimension, in elements."""

    name = "tile.dim"

    view = operand_def(ViewType)
    dim = prop_def(Int)
    res = result_def(IndexType)

    traits = traits_def(Pure())

    def __init__(self, view: SSAValue, dim: int):
        super().__init__(operands=[view], properties={"dim": IntegerAttr(dim, i64)}, result_types=[IndexType()])

    @property
    def dimension(self) -> int:
        return self.dim.value.data

    def verify_(self) -> None:
        _verify_dimension(self.view, self.dimension)

    @classmethod
    def parse_syntax(cls, parser: Parser) -> DimOp:
        view = parse_value(parser)
        parser.parse_punctuation(",")
        return DimOp(view, parser.parse_integer(allow_boolean=False, allow_negative=False))

    def print_syntax(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.view)
        printer.print_string(f", {self.dimension}")


@irdl_op_definition
class AssumeOp(TileOp):
    """`tile.assume %A dim 1 step 64 multiple 4`: the number of tiles along a dimension is a multiple of a constant.

    That number is ceil(extent / step). The kernel is right only for arguments of which this holds: the launch refuses all
    others, and the proof of the protocol may rely on it. It stands directly in the kernel, being a fact of the launch and
    not of one tile. (Lesson 09, step 6: phases that are reset at each tile are right where
    `K_TILES % (2 * PIPE_DEPTH) == 0`.)
    """

    name = "tile.assume"

    view = operand_def(ViewType)
    dim = prop_def(Int)
    step_attr = prop_def(Int, prop_name="step")
    multiple_attr = prop_def(Int, prop_name="multiple")

    traits = traits_def(HasParent(KernelOp), *EFFECTS)

    def __init__(self, view: SSAValue, dim: int, step: int, multiple: int):
        super().__init__(
            operands=[view],
            properties={
                "dim": IntegerAttr(dim, i64),
                "step": IntegerAttr(step, i64),
                "multiple": IntegerAttr(multiple, i64),
            },
        )

    @property
    def dimension(self) -> int:
        return self.dim.value.data

    @property
    def step(self) -> int:
        return self.step_attr.value.data

    @property
    def multiple(self) -> int:
        return self.multiple_attr.value.data

    def tiles(self, extent: int) -> int:
        """Tiles along a dimension of `extent` elements."""
        return -(-extent // self.step)

    def holds(self, extent: int) -> bool:
        return self.tiles(extent) % self.multiple == 0

    def verify_(self) -> None:
        _verify_dimension(self.view, self.dimension)
        _verify_step(self.step)
        if not 1 <= self.multiple <= MAX_MULTIPLE:
            raise VerifyException(f"a multiple of {self.multiple} tiles: 1 to {MAX_MULTIPLE} are supported")
        assert isinstance(self.view.type, ViewType)
        extent = self.view.type.dims[self.dimension]
        if isinstance(extent, int) and not self.holds(extent):
            raise VerifyException(
                f"this never holds: dimension {self.dimension} has {extent} elements, {self.tiles(extent)} tiles of "
                f"{self.step}"
            )

    @classmethod
    def parse_syntax(cls, parser: Parser) -> AssumeOp:
        view = parse_value(parser)
        numbers: list[int] = []
        for keyword in ("dim", "step", "multiple"):
            parser.parse_keyword(keyword)
            numbers.append(parser.parse_integer(allow_boolean=False, allow_negative=False))
        return AssumeOp(view, *numbers)

    def print_syntax(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.view)
        printer.print_string(f" dim {self.dimension} step {self.step} multiple {self.multiple}")


@irdl_op_definition
class ScheduleOp(TileOp):
    """`%valid, %m, %n = tile.schedule %turn over %D step (128, 128) group 8`: the static tile scheduler.

    Turn t of CTA c is tile c + t * CTAs (the launched number of CTAs). Tiles are numbered in groups of `group` tile
    rows, along M inside a group; the last group takes the rows that remain, so that every tile is visited exactly
    once. `%valid` is false past the last tile, where the offsets mean nothing. (Lesson 09, step 6:
    `ClusterPersistentScheduler2D`.)
    """

    name = "tile.schedule"

    turn = operand_def(IndexType)
    view = operand_def(ViewType)
    steps = prop_def(Ints)
    group_attr = prop_def(Int, prop_name="group")
    valid = result_def(i1)
    offsets = var_result_def(IndexType)

    traits = traits_def(Pure())

    def __init__(self, turn: SSAValue, view: SSAValue, steps: Sequence[int], group: int):
        super().__init__(
            operands=[turn, view],
            properties={"steps": ints(steps), "group": IntegerAttr(group, i64)},
            result_types=[i1, [IndexType()] * len(steps)],
        )

    @property
    def step(self) -> tuple[int, ...]:
        return int_tuple(self.steps)

    @property
    def group(self) -> int:
        return self.group_attr.value.data

    def verify_(self) -> None:
        _verify_over(self.view, self.step)
        if len(self.offsets) != len(self.step):
            raise VerifyException(f"a schedule over {len(self.step)} dimensions has as many offsets")
        if not 1 <= self.group <= MAX_GROUP:
            raise VerifyException(f"a group has 1 to {MAX_GROUP} rows of tiles, not {self.group}")

    @classmethod
    def parse_syntax(cls, parser: Parser) -> ScheduleOp:
        turn = parser.parse_operand(IndexType())
        parser.parse_keyword("over")
        view = parse_value(parser)
        parser.parse_keyword("step")
        steps = parse_int_list(parser, parser.Delimiter.PAREN)
        parser.parse_keyword("group")
        return ScheduleOp(turn, view, steps, parser.parse_integer(allow_boolean=False, allow_negative=False))

    def print_syntax(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.turn)
        printer.print_string(" over ")
        printer.print_ssa_value(self.view)
        printer.print_string(" step ")
        print_ints(printer, self.step, "(", ")")
        printer.print_string(f" group {self.group}")
