"""The state of lowering one kernel: values, parameters, storage, and what every operation's lowering may ask for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    UnitAttr,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tilec.backend.abi import (
    Assumption,
    Barrier,
    ExtentParam,
    GridRule,
    KernelABI,
    Param,
    PitchParam,
    PointerParam,
    SmemBlock,
    TensorMapParam,
    ViewFacts,
)
from tilec.backend.target import Target
from tilec.diagnostics import fail
from tilec.dialects import nvvm
from tilec.dialects.tile import AccType, CopyAsyncOp, KernelOp, MbarrierInitOp, RingType, SlotOp, SmemType, ViewType
from tilec.passes.lower.emit import PTR, PTR_GLOBAL, PTR_SHARED, Emitter
from tilec.passes.storage import StoragePlan

SMEM_SYMBOL = "tilec_smem"

_PARAMETER_BYTES = 4096
"""Of one launch, for every PTX version and driver (PTX ISA 5.1.6.2)."""
_TENSOR_MAP_BYTES, _SCALAR_BYTES = 128, 8


@dataclass(frozen=True)
class SmemTile:
    """A shared tile `offset` bytes into the dynamic segment."""

    type: SmemType
    offset: SSAValue | int


@dataclass(frozen=True)
class Ring:
    """The slots of a ring: `slot_size` bytes apart from `offset` on."""

    type: RingType
    offset: int
    slot_size: int


@dataclass(frozen=True)
class Acc:
    """Part of an accumulator: `column` is its first one in the whole accumulator `root`."""

    type: AccType
    root: SSAValue
    column: int


@dataclass(frozen=True)
class RegTile:
    """One thread's share of a register tile: f32 elements, or pairs of 16-bit elements packed in i32 words."""

    words: tuple[SSAValue, ...]


@dataclass(frozen=True)
class View:
    """Kernel argument number `index`."""

    index: int
    type: ViewType


@dataclass(frozen=True)
class Barriers:
    """mbarriers from `offset` on; None where commits became groups and nothing is stored."""

    offset: int | None


Lowered = SSAValue | SmemTile | Ring | Acc | RegTile | View | Barriers
_LoweredT = TypeVar("_LoweredT", SSAValue, SmemTile, Ring, Acc, RegTile, View, Barriers)


class KernelLowering:
    """What one kernel's lowering knows. `e` appends operations; `values` maps tile values to what became of them."""

    def __init__(self, kernel: KernelOp, target: Target, storage: StoragePlan, threads: int):
        self.kernel = kernel
        self.target = target
        self.storage = storage
        self.threads = threads
        self.region = Region(Block())
        self.entry = self.region.block
        self.e = Emitter(self.entry, self.region)
        self.e.location = kernel.location
        self.values: dict[SSAValue, Lowered] = {}
        self.grid: GridRule | None = None
        self.assumptions: list[Assumption] = []
        self.in_single_thread = False
        self._params: dict[Param, SSAValue] = {}
        self._once: dict[str, SSAValue] = {}
        for index, argument in enumerate(kernel.body.block.args):
            assert isinstance(argument.type, ViewType)
            self.values[argument] = View(index, argument.type)
        self.first = self.e.new_block()
        self.e.at(self.first)

    # Values

    def _lowered(self, value: SSAValue, kind: type[_LoweredT], what: str) -> _LoweredT:
        lowered = self.values.get(value)
        if not isinstance(lowered, kind):
            fail(
                value,
                f"this is not {what} that the lowering can follow",
                hint="see docs/dialect.md for what may be carried",
            )
        return lowered

    def scalar(self, value: SSAValue) -> SSAValue:
        return self._lowered(value, SSAValue, "a scalar")

    def smem(self, value: SSAValue) -> SmemTile:
        return self._lowered(value, SmemTile, "a shared tile")

    def ring(self, value: SSAValue) -> Ring:
        return self._lowered(value, Ring, "a ring")

    def view(self, value: SSAValue) -> View:
        return self._lowered(value, View, "a view")

    def acc(self, value: SSAValue) -> Acc:
        return self._lowered(value, Acc, "an accumulator")

    def reg(self, value: SSAValue) -> RegTile:
        return self._lowered(value, RegTile, "a register tile")

    def barriers(self, value: SSAValue) -> Barriers:
        return self._lowered(value, Barriers, "an mbarrier")

    # What is computed once, at the head of the kernel

    def once(self, name: str, make: Callable[[], SSAValue]) -> SSAValue:
        """A value that the whole kernel shares."""
        if name not in self._once:
            block, location = self.e.block, self.e.location
            self.e.block, self.e.location = self.entry, self.kernel.location
            self._once[name] = make()
            self.e.block, self.e.location = block, location
        return self._once[name]

    @property
    def thread(self) -> SSAValue:
        return self.once("thread", lambda: self.e.add(nvvm.ThreadIdXOp()).res)

    @property
    def lane(self) -> SSAValue:
        return self.once("lane", lambda: self.e.bits_and(self.thread, 31))

    @property
    def warp(self) -> SSAValue:
        return self.once("warp", lambda: self.e.shifted_right(self.thread, 5))

    @property
    def warpgroup(self) -> SSAValue:
        return self.once("warpgroup", lambda: self.e.shifted_right(self.thread, 7))

    @property
    def is_first_thread(self) -> SSAValue:
        return self.once("is_first_thread", lambda: self.e.compare("eq", self.thread, 0))

    @property
    def is_first_warp(self) -> SSAValue:
        return self.once("is_first_warp", lambda: self.e.compare("eq", self.warp, 0))

    @property
    def smem_base(self) -> SSAValue:
        """Start of the dynamic shared segment."""
        return self.once("smem_base", lambda: self.e.add(llvm.AddressOfOp(SMEM_SYMBOL, PTR_SHARED)).result)

    def smem_pointer(self, offset: SSAValue | int) -> SSAValue:
        return self.e.offset(self.smem_base, offset)

    # Parameters

    def _param(self, param: Param, type: Attribute) -> SSAValue:
        if param not in self._params:
            self._params[param] = self.entry.insert_arg(type, len(self.entry.args))
        return self._params[param]

    def tensor_map(self, view: View, tile: SmemType) -> SSAValue:
        """Generic address of the tensor map that moves boxes of `tile`."""
        fast, slow = tile.layout.box
        # A single row has no pattern to swizzle by, and a plain box may be wider than a swizzled row.
        box = (fast, slow) if view.type.rank == 2 else (fast,)
        param = TensorMapParam(view.index, box, tile.swizzle, view.type.order, view.type.dtype.name)
        return self._param(param, PTR)

    def pointer(self, view: View) -> SSAValue:
        """Global address of the view's first element."""
        return self._param(PointerParam(view.index), PTR_GLOBAL)

    def extent(self, view: View, dim: int) -> SSAValue:
        """Extent in elements (i32). Equal symbols share one parameter."""
        size = view.type.dims[dim]
        if isinstance(size, int):
            return self.e.int32(size)
        if size is not None:
            for index, other in enumerate(self.kernel.views):
                if size in other.dims:
                    return self._param(ExtentParam(index, other.dims.index(size)), i32)
        return self._param(ExtentParam(view.index, dim), i32)

    def pitch(self, view: View, dim: int) -> SSAValue:
        """Bytes between neighbours along `dim` (i64)."""
        return self._param(PitchParam(view.index, dim), i64)

    def set_grid(self, op: Operation, rule: GridRule) -> None:
        if self.grid not in (None, rule):
            fail(op, "a kernel has one grid", hint="write one tile.grid, or schedule the same tiles everywhere")
        self.grid = rule

    # Execution

    def barrier(self) -> None:
        """All threads of the CTA meet."""
        self.e.add(nvvm.BarrierOp())

    def by_first_thread(self, body: Callable[[], None]) -> None:
        if self.in_single_thread:
            body()
        else:
            self.e.when(self.is_first_thread, body)

    # The end

    def finish(self) -> llvm.FuncOp:
        """Close the kernel and give it its parameters and its ABI."""
        self.e.add(llvm.ReturnOp())
        size = sum(_TENSOR_MAP_BYTES if isinstance(p, TensorMapParam) else _SCALAR_BYTES for p in self._params)
        if size > _PARAMETER_BYTES:
            fail(self.kernel, f"the kernel's parameters take {size} bytes, a launch passes {_PARAMETER_BYTES} at most")
        self.e.block, self.e.location = self.entry, self.kernel.location
        maps = [value for param, value in self._params.items() if isinstance(param, TensorMapParam)]
        if maps:
            prefetch = self.e.new_block()
            self.e.branch_if(self.is_first_thread, prefetch, self.first)
            self.e.at(prefetch)
            for value in maps:
                self.e.add(nvvm.PrefetchOp(value, in_param_space=True))
        self.e.branch(self.first)
        function = llvm.FuncOp(
            self.kernel.sym_name,
            llvm.LLVMFunctionType([a.type for a in self.entry.args]),
            linkage=llvm.LinkageAttr("external"),
            body=self.region,
            other_props={"arg_attrs": ArrayAttr([_argument_attributes(p) for p in self._params])},
            extra_attrs={
                "nvvm.kernel": UnitAttr(),
                "nvvm.reqntid": DenseArrayBase.from_list(i32, [self.threads]),
                "nvvm.minctasm": IntegerAttr(1, i32),
                "tile.abi": StringAttr(self._abi().to_json()),
            },
        )
        function.location = self.kernel.location
        return function

    def _abi(self) -> KernelABI:
        views = tuple(
            ViewFacts(
                argument.name_hint or f"argument {index}",
                view.dims,
                view.dtype.name,
                view.order,
                view.align,
                view.tail == "grid",
            )
            for index, (argument, view) in enumerate(zip(self.kernel.body.block.args, self.kernel.views, strict=True))
        )
        outputs = {
            self.view(op.dest).index
            for op in self.kernel.walk()
            if isinstance(op, CopyAsyncOp) and op.dest is not None and isinstance(op.dest.type, ViewType)
        }
        return KernelABI(
            name=self.kernel.sym_name.data,
            target=self.target.name,
            views=views,
            outputs=tuple(sorted(outputs)),
            params=tuple(self._params),
            grid=self.grid,
            threads=self.threads,
            smem_bytes=self.storage.total,
            tmem_columns=self.storage.tmem_columns,
            stages=_stages(self.kernel),
            smem=tuple(SmemBlock(t.name, t.offset, t.size) for t in self.storage.tiles),
            barriers=tuple(
                Barrier(b.name, b.offset, b.size // b.slot_size, _arrivals(b.value)) for b in self.storage.barriers
            ),
            assumptions=tuple(self.assumptions),
        )


def _stages(kernel: KernelOp) -> int:
    """Depth of the deepest ring that loads fill; 1 without any."""
    stages = 1
    for op in kernel.walk():
        if isinstance(op, CopyAsyncOp) and op.is_load and op.dest is not None and isinstance(op.dest.owner, SlotOp):
            assert isinstance(op.dest.owner.ring.type, RingType)
            stages = max(stages, op.dest.owner.ring.type.depth)
    return stages


def _arrivals(barrier: SSAValue) -> int:
    assert isinstance(barrier.owner, MbarrierInitOp)
    return barrier.owner.count


def _argument_attributes(param: Param) -> DictionaryAttr:
    if not isinstance(param, TensorMapParam):
        return DictionaryAttr({})
    return DictionaryAttr(
        {
            "llvm.byval": llvm.LLVMArrayType(IntAttr(128), IntegerType(8)),
            "llvm.align": IntegerAttr(64, i64),
            "nvvm.grid_constant": UnitAttr(),
        }
    )
