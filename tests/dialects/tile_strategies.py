"""Random types and programs of the tile dialect, valid by construction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import (
    IndexType,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
    i1,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tilec.dialects import tile
from tilec.dialects.tile import DTYPES, SWIZZLES, AccType, MbarrierType, RegType, RingType, SmemType, ViewType

elements = st.sampled_from([d.type for d in DTYPES.values()])
mma_elements = st.sampled_from([d.type for d in DTYPES.values() if d.mma_operand])
extents = st.integers(1, 64).map(lambda n: n * 8)
symbols = st.from_regex(r"[A-Za-wyz_][A-Za-wyz0-9_]{0,4}", fullmatch=True)
kernel_names = st.from_regex(r"[A-Za-z][A-Za-z0-9_$]{0,7}", fullmatch=True)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
"""Any text that UTF-8 can write."""


def orders(rank: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.permutations(range(rank)).map(tuple)


@st.composite
def view_types(draw: st.DrawFn) -> ViewType:
    rank = draw(st.integers(1, 2))
    dims = draw(st.lists(st.integers(0, 5000) | symbols | st.none(), min_size=rank, max_size=rank))
    align, tail = draw(st.sampled_from([16, 8, 4])), draw(st.sampled_from(["grid", "free"]))
    return ViewType.of(dims, draw(elements), order=draw(orders(rank)), align=align, tail=tail)


@st.composite
def smem_types(draw: st.DrawFn) -> SmemType:
    shape = draw(st.lists(extents, min_size=1, max_size=2))
    element, order = draw(elements), draw(orders(len(shape)))
    row = shape[order[0]] * tile.dtype_of(element).bytes
    widths = SWIZZLES if len(shape) == 2 else (16,)
    swizzle = draw(st.sampled_from([0, *(w for w in widths if row % w == 0)]))
    return SmemType.of(shape, element, order=order, swizzle=swizzle)


reg_types = st.builds(RegType.of, st.lists(st.integers(1, 300), min_size=1, max_size=2), elements)
acc_types = st.builds(AccType.of, st.lists(extents, min_size=2, max_size=2), st.just(DTYPES["f32"].type))
ring_types = st.builds(RingType.of, st.integers(1, 9), smem_types())
mbarrier_types = st.builds(MbarrierType.of, st.integers(1, 9))
types: st.SearchStrategy[Attribute] = st.one_of(
    view_types(), smem_types(), reg_types, acc_types, ring_types, mbarrier_types
)

discardable = st.dictionaries(
    st.from_regex(r"[a-z_][a-z0-9_]{0,6}", fullmatch=True),
    st.just(UnitAttr()) | texts.map(StringAttr) | st.integers(-9, 9).map(lambda n: IntegerAttr(n, 32)),
    max_size=2,
)


@st.composite
def modules(draw: st.DrawFn) -> ModuleOp:
    """A module of kernels at L0 and L1, mixed at will: legal text, not necessarily a sensible program."""
    names = draw(st.lists(kernel_names, min_size=1, max_size=2, unique=True))
    return ModuleOp([_kernel(draw, name) for name in names])


def _kernel(draw: st.DrawFn, name: str) -> tile.KernelOp:
    views = draw(st.lists(view_types(), min_size=1, max_size=3))
    block = Block(arg_types=views)
    builder = _Builder(draw, block, list(block.args))
    builder.fill(6)
    roles_are_in = draw(st.sampled_from(["no block", "the kernel", "the grid"]))
    if roles_are_in == "the kernel":
        _roles(builder)
    if draw(st.booleans()):
        view = draw(st.sampled_from(list(block.args)))
        assert isinstance(view.type, ViewType)
        steps = draw(st.lists(extents, min_size=view.type.rank, max_size=view.type.rank))
        inner = Block(arg_types=[IndexType()] * len(steps))
        in_grid = builder.inside(inner)
        in_grid.fill(8)
        if roles_are_in == "the grid":
            _roles(in_grid)
        builder.add(tile.GridOp(view, steps, Region(inner)))
    return tile.KernelOp(name, Region(block), target=draw(st.none() | st.sampled_from(["sm_90a", "sm_100a"])))


class _Builder:
    """Appends random operations to a block; `values` are those visible at its end. Storage that roles use is in `setup`."""

    def __init__(
        self, draw: st.DrawFn, block: Block, values: list[SSAValue], depth: int = 0, setup: _Builder | None = None
    ) -> None:
        self.draw = draw
        self.block = block
        self.values = values
        self.depth = depth
        self.setup = setup

    def fill(self, most: int) -> None:
        for _ in range(self.draw(st.integers(0, most))):
            self.draw(st.sampled_from(_MAKERS))(self)

    def inside(self, block: Block) -> _Builder:
        return _Builder(self.draw, block, [*self.values, *block.args], self.depth + 1, self.setup)

    def add(self, op: Operation) -> SSAValue | None:
        op.attributes.update(self.draw(discardable))
        block = self.block
        if self.setup is not None and isinstance(op, tile.AllocOp | tile.MbarrierInitOp):
            block = self.setup.block
        block.add_op(op)
        self.values += op.results
        return op.results[0] if op.results else None

    def new(self, op: Operation) -> SSAValue:
        value = self.add(op)
        assert value is not None
        return value

    def some(self, kind: type[Any]) -> SSAValue | None:
        """A visible value of a kind of type."""
        found = [v for v in self.values if isinstance(v.type, kind)]
        return self.draw(st.sampled_from(found)) if found else None

    def index(self) -> SSAValue:
        return self.some(IndexType) or self.new(arith.ConstantOp(IntegerAttr.from_index_int_value(3)))

    def phase(self) -> SSAValue:
        return self.new(arith.ConstantOp(IntegerAttr(self.draw(st.integers(0, 1)), i32)))

    def flag(self) -> SSAValue:
        return self.new(arith.ConstantOp(IntegerAttr(self.draw(st.integers(0, 1)), i1)))

    def indices(self, count: int) -> list[SSAValue]:
        return [self.index() for _ in range(count)]

    def register(self) -> SSAValue:
        value = self.draw(st.floats(width=32))
        return self.some(RegType) or self.new(tile.SplatOp(value, self.draw(reg_types)))

    def accumulator(self) -> SSAValue:
        return self.some(AccType) or self.new(tile.AllocOp(self.draw(acc_types)))

    def view(self) -> tuple[SSAValue, ViewType]:
        view = self.some(ViewType)
        assert view is not None and isinstance(view.type, ViewType)
        return view, view.type

    def tile_for(self, view: ViewType, *, swizzle: int = 0) -> SSAValue:
        shape = [128 if view.order[0] == d else 64 for d in range(view.rank)]
        return self.new(tile.AllocOp(SmemType.of(shape, view.element, order=view.order, swizzle=swizzle)))

    def barrier(self) -> tuple[SSAValue, SSAValue | None]:
        depth, count = self.draw(st.integers(1, 4)), self.draw(st.integers(1, 3))
        barrier = self.new(tile.MbarrierInitOp(depth, count))
        return barrier, self.index() if depth > 1 or self.draw(st.booleans()) else None


def _alloc(b: _Builder) -> None:
    b.add(tile.AllocOp(b.draw(smem_types() | acc_types | ring_types)))


def _free(b: _Builder) -> None:
    if b.setup is None:  # not in a role
        b.add(tile.FreeOp(b.accumulator()))


def _slot(b: _Builder) -> None:
    ring = b.some(RingType) or b.new(tile.AllocOp(b.draw(ring_types)))
    b.add(tile.SlotOp(ring, b.index()))


def _slice(b: _Builder) -> None:
    acc = b.accumulator()
    assert isinstance(acc.type, AccType)
    rows, columns = acc.type.shape
    start = b.draw(st.integers(0, columns - 1))
    width = b.draw(st.integers(1, columns - start))
    b.add(tile.SliceOp(acc, [0, start], AccType.of([rows, width], acc.type.element)))


def _copy(b: _Builder) -> None:
    view, type = b.view()
    staged = b.tile_for(type)
    if b.draw(st.booleans()):
        b.add(tile.CopyOp(view, staged, b.indices(type.rank)))
    else:
        b.add(tile.CopyOp(staged, view, b.indices(type.rank)))


def _copy_from_tile(b: _Builder) -> None:
    source = b.draw(st.sampled_from([b.accumulator, b.register]))()
    assert isinstance(source.type, AccType | RegType)
    rank = len(source.type.shape)
    for view in b.values:
        if isinstance(view.type, ViewType) and view.type.rank == rank:
            b.add(tile.CopyOp(source, view, b.indices(rank)))
            break


def _copy_async(b: _Builder) -> None:
    view, type = b.view()
    tma = type.align == 16 and type.tail == "grid" and b.draw(st.booleans())
    staged = b.tile_for(type, swizzle=16 if tma else 0)
    indices = b.indices(type.rank)
    if not b.draw(st.booleans()):
        b.add(tile.CopyAsyncOp(staged, view, indices, "tma" if tma else "threads"))
    elif tma:
        barrier, stage = b.barrier()
        b.add(tile.CopyAsyncOp(view, staged, indices, "tma", barrier=barrier, stage=stage))
    else:
        b.add(tile.CopyAsyncOp(view, staged, indices, "threads"))


def _copy_tmem(b: _Builder) -> None:
    acc = b.accumulator()
    assert isinstance(acc.type, AccType)
    b.add(tile.CopyAsyncOp(acc, None, [], "tmem", result=RegType.of(acc.type.shape, acc.type.element)))


def _load(b: _Builder) -> None:
    source = b.some(SmemType) or b.accumulator()
    assert isinstance(source.type, SmemType | AccType)
    b.add(tile.LoadOp(source, RegType.of(source.type.shape, source.type.element)))


def _store(b: _Builder) -> None:
    register = b.register()
    assert isinstance(register.type, RegType)
    b.add(tile.StoreOp(register, b.new(tile.AllocOp(SmemType.of(register.type.shape, register.type.element)))))


def _mma(b: _Builder) -> None:
    m, n, k = (b.draw(st.integers(1, 8)) * 16 for _ in range(3))
    element, accumulate = b.draw(mma_elements), b.draw(st.booleans())
    left = b.new(tile.AllocOp(SmemType.of([m, k], element)))
    right = b.new(tile.AllocOp(SmemType.of([n, k], element, order=b.draw(orders(2)))))
    acc = b.new(tile.AllocOp(AccType.of([m, n], DTYPES["f32"].type)))
    b.add(tile.MmaOp(acc, left, right, b.flag() if accumulate else None))


def _commit(b: _Builder) -> None:
    b.add(tile.CommitOp(*b.barrier()))


def _arrive(b: _Builder) -> None:
    b.add(tile.ArriveOp(*b.barrier()))


def _arrive_expect_tx(b: _Builder) -> None:
    b.add(tile.ArriveExpectTxOp(*b.barrier(), b.draw(st.integers(0, (1 << 20) - 1))))


def _try_wait(b: _Builder) -> None:
    b.add(tile.TryWaitOp(*b.barrier(), b.phase(), outstanding=b.draw(st.integers(0, 3))))


def _sync(b: _Builder) -> None:
    kind = st.sampled_from(["proxy_async", "before_thread_sync", "after_thread_sync"])
    makers: Sequence[Callable[[], Operation]] = (
        tile.CtaSyncOp if b.setup is None else tile.RoleSyncOp,
        tile.CommitGroupOp,
        tile.WaitLdOp,
        lambda: tile.FenceOp(b.draw(kind)),
        lambda: tile.WaitGroupOp(b.draw(st.integers(0, 3)), read=b.draw(st.booleans())),
    )
    b.add(b.draw(st.sampled_from(makers))())


def _register(b: _Builder) -> None:
    value = b.register()
    assert isinstance(value.type, RegType)
    shape, element = value.type.shape, value.type.element
    makers: list[Callable[[], Operation]] = [
        lambda: tile.SplatOp(b.draw(st.floats(width=32)), b.draw(reg_types)),
        lambda: tile.CastOp(value, RegType.of(shape, b.draw(elements))),
        *(lambda op=op: op(value, value) for op in (tile.AddOp, tile.SubOp, tile.MulOp, tile.MaxOp)),
    ]
    if len(shape) == 1:
        makers.append(lambda: tile.BroadcastOp(value, RegType.of([b.draw(st.integers(1, 9)), *shape], element)))
    b.add(b.draw(st.sampled_from(makers))())


def _dim(b: _Builder) -> None:
    view, type = b.view()
    b.add(tile.DimOp(view, b.draw(st.integers(0, type.rank - 1))))


def _assume(b: _Builder) -> None:
    if b.depth:  # it stands directly in the kernel
        return
    view, type = b.view()
    dim, step, multiple = b.draw(st.integers(0, type.rank - 1)), b.draw(extents), b.draw(st.integers(1, 16))
    extent = type.dims[dim]
    if not isinstance(extent, int) or -(-extent // step) % multiple == 0:
        b.add(tile.AssumeOp(view, dim, step, multiple))


def _schedule(b: _Builder) -> None:
    view, type = b.view()
    steps = b.draw(st.lists(extents, min_size=type.rank, max_size=type.rank))
    b.add(tile.ScheduleOp(b.index(), view, steps, b.draw(st.integers(1, 16))))


def _tile_for(b: _Builder) -> None:
    if b.depth > 2:
        return
    view, type = b.view()
    dim, step = b.draw(st.integers(0, type.rank - 1)), b.draw(extents)
    inits = b.draw(st.lists(st.sampled_from(b.values), max_size=2))
    body = Block(arg_types=[IndexType(), *(v.type for v in inits)])
    b.inside(body).fill(4)
    if inits:
        body.add_op(tile.YieldOp(*body.args[1:]))
    b.add(tile.ForOp(view, dim, step, Region(body), inits))


def _single_thread(b: _Builder) -> None:
    if b.depth > 2:
        return
    body = Block()
    b.inside(body).fill(4)
    b.add(tile.SingleThreadOp(Region(body)))


def _roles(b: _Builder) -> None:
    names = b.draw(
        st.lists(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,5}", fullmatch=True), min_size=1, max_size=3, unique=True)
    )
    roles: list[tile.RoleOp] = []
    for name in names:
        body = Block()
        _Builder(b.draw, body, [*b.values], b.depth + 1, setup=b).fill(4)
        roles.append(tile.RoleOp(name, Region(body)))
    b.add(tile.RolesOp(roles))


def _scf(b: _Builder) -> None:
    if b.depth > 2:
        return
    bound = b.index()
    body = Block(arg_types=[IndexType()])
    b.inside(body).fill(4)
    body.add_op(scf.YieldOp())
    # Attributes of scf operations are printed by their own rules.
    b.block.add_op(scf.ForOp(bound, bound, bound, [], Region(body)))


_MAKERS: Sequence[Callable[[_Builder], None]] = (
    _alloc, _free, _slot, _slice, _copy, _copy_from_tile, _copy_async, _copy_tmem, _load, _store, _mma, _commit,
    _arrive, _arrive_expect_tx, _try_wait, _sync, _register, _dim, _assume, _schedule, _tile_for, _single_thread, _scf,
)  # fmt: skip
