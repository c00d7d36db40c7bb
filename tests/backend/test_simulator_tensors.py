"""What the simulator keeps of the tensors that a kernel writes: exact for each element, and few cells."""

from __future__ import annotations

import tracemalloc
from itertools import product
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects import test
from xdsl.dialects.builtin import f32
from xdsl.ir import Operation

from tilec.backend.reference import Array
from tilec.backend.reference.storage import Region, View
from tilec.backend.simulator import Fault, run
from tilec.backend.simulator.memory import Access
from tilec.backend.simulator.tensors import NOBODY, SEVERAL, Tensor
from tilec.dialects.tile import ViewType
from tilec.source import parse_text

OPS: list[Operation] = [test.TestOp(), test.TestOp()]
CTAS = 3
Stamp = tuple[int, int]
"""Time and operation of a store."""
NEVER: Stamp = (0, -1)


def tensor(*shape: int, step: tuple[int, ...] | None = None) -> Tensor:
    return Tensor(
        View("D", ViewType.of(shape, f32), np.empty(shape, np.float32)),
        is_loaded=True,
        is_stored_by_tma=True,
        step=step,
    )


def region(*borders: tuple[int, int]) -> Region:
    return tuple(slice(start, stop) for start, stop in borders)


def store(t: Tensor, *borders: tuple[int, int], visit: int = 0, time: int = 1) -> None:
    t.store(region(*borders), visit, Access("store", time, OPS[0], time))


def load(t: Tensor, *borders: tuple[int, int], cta: int = 0) -> None:
    t.load(region(*borders), cta, Access("load", 1, OPS[1], 1))


class Elements:
    """The same facts, kept for each element by itself."""

    def __init__(self, shape: tuple[int, ...]):
        self.indices = list(product(*map(range, shape)))
        self.writer = dict.fromkeys(self.indices, NOBODY)
        self.reader = dict.fromkeys(self.indices, NOBODY)
        self.by_tma: dict[tuple[int, ...], Stamp] = dict.fromkeys(self.indices, NEVER)
        self.by_threads: dict[tuple[int, ...], Stamp] = dict.fromkeys(self.indices, NEVER)

    def of(self, part: Region) -> list[tuple[int, ...]]:
        return [i for i in self.indices if all(s.start <= x < s.stop for x, s in zip(i, part, strict=True))]

    def store(self, part: Region, visit: int, kind: str, time: int, op: int) -> None:
        for i in self.of(part):
            self.writer[i] = visit
            self.by_tma[i] = (time, op) if kind == "store" else NEVER
            self.by_threads[i] = NEVER if kind == "store" else (time, op)

    def load(self, part: Region, cta: int) -> None:
        for i in self.of(part):
            self.reader[i] = cta if self.reader[i] in (NOBODY, cta) else SEVERAL

    def answers(self, part: Region, visit: int) -> list[object]:
        inside = self.of(part)
        written = [(i, self.writer[i]) for i in inside if self.writer[i] != NOBODY]
        read = [(i, self.reader[i]) for i in inside if self.reader[i] not in (NOBODY, visit % CTAS)]
        return [
            not written,
            next(((i, by) for i, by in written if by != visit), None),
            next(((i, by) for i, by in written if by % CTAS != visit % CTAS), None),
            next(iter(read), None),
            *(max(stores[i] for i in inside) for stores in (self.by_tma, self.by_threads)),
        ]

    def never_stored(self, step: tuple[int, ...]) -> tuple[int, ...] | None:
        missing = next((i for i in self.indices if self.writer[i] == NOBODY), None)
        return missing and tuple(x // s * s for x, s in zip(missing, step, strict=True))


def answers(t: Tensor, part: Region, visit: int) -> list[object]:
    stores = [NEVER if one is None else (one[0], OPS.index(one[1])) for one in t.last_stores(part)]
    return [
        t.is_fresh(part),
        t.other_writer(part, visit, CTAS, exactly=True),
        t.other_writer(part, visit, CTAS, exactly=False),
        t.other_reader(part, visit % CTAS),
        *stores,
    ]


@given(st.data())
def test_answers_are_those_of_each_element(data: st.DataObject) -> None:
    """Regions on a grid, off it, up to the edge, and questions that lie otherwise than what was stored and loaded."""
    shape = tuple(data.draw(st.lists(st.integers(1, 14), min_size=1, max_size=2), "shape"))
    step = tuple(data.draw(st.sampled_from([1, 3, 4])) for _ in shape)
    t, model = tensor(*shape, step=step), Elements(shape)
    assert [t.number(op) for op in OPS] == [0, 1]

    def draw_region() -> Region:
        starts = [data.draw(st.integers(0, extent - 1)) for extent in shape]
        sizes = [data.draw(st.integers(1, 8)) for _ in shape]
        return tuple(slice(b, min(b + n, e)) for b, n, e in zip(starts, sizes, shape, strict=True))

    for time in range(1, data.draw(st.integers(1, 8), "copies") + 1):
        part, visit, op = draw_region(), data.draw(st.integers(0, 8)), data.draw(st.integers(0, 1))
        kind = data.draw(st.sampled_from(["load", "store", "threads"]))
        if kind == "load":
            t.load(part, visit % CTAS, Access("load", time, OPS[op], time))
            model.load(part, visit % CTAS)
        else:
            t.store(part, visit, Access(cast(Any, kind), time, OPS[op], time))
            model.store(part, visit, kind, time, op)
        for asked in (part, draw_region()):
            asker = data.draw(st.integers(0, 8))
            assert answers(t, asked, asker) == model.answers(asked, asker)
        assert t.never_stored() == model.never_stored(step)


def test_a_cell_for_each_chunk_of_a_tile() -> None:
    t = tensor(1024, 1000)
    assert t.cells.shape == (1, 1)
    for m, n in product(range(0, 1024, 128), range(0, 1000, 64)):
        store(t, (m, m + 128), (n, min(n + 64, 1000)))
        assert t.grain == [128, 64]
    assert t.cells.shape == (8, 16)


def test_a_border_off_the_grid_divides_it() -> None:
    t = tensor(64, 64)
    store(t, (0, 16), (0, 32), visit=1)
    assert (t.grain, t.cells.shape) == ([16, 32], (4, 2))
    store(t, (16, 32), (40, 64), visit=2)
    assert (t.grain, t.cells.shape) == ([16, 8], (4, 8))
    assert t.other_writer(region((0, 64), (3, 64)), 2, 10, exactly=True) == ((0, 3), 1)
    assert t.other_writer(region((10, 64), (30, 64)), 1, 10, exactly=True) == ((16, 40), 2)
    assert t.is_fresh(region((16, 32), (0, 40)))
    store(t, (31, 47), (0, 64), visit=3)
    assert (t.grain, t.cells.shape) == ([1, 8], (64, 8))
    assert t.other_writer(region((0, 64), (41, 50)), 1, 10, exactly=True) == ((16, 41), 2)
    assert t.other_writer(region((31, 64), (41, 50)), 1, 10, exactly=True) == ((31, 41), 3)
    assert t.is_fresh(region((47, 64), (0, 64)))


def test_a_question_divides_nothing() -> None:
    t = tensor(64)
    store(t, (0, 32), visit=4)
    assert t.other_writer(region((7, 9)), 0, 10, exactly=True) == ((7,), 4)
    assert t.last_stores(region((31, 33))) == ((1, OPS[0]), None)
    assert t.other_reader(region((1, 2)), 0) is None
    assert t.grain == [32]


@pytest.mark.parametrize("first", [(0, 100), (64, 100)])
def test_a_tail_lies_on_the_grid(first: tuple[int, int]) -> None:
    t = tensor(100)
    store(t, first)
    store(t, (0, 64))
    assert (t.grain, t.cells.shape) == ([64], (2,))


def test_a_tail_that_a_later_border_divides() -> None:
    t = tensor(100, step=(64,))
    store(t, (0, 64))
    assert t.never_stored() == (64,)
    store(t, (64, 96))
    assert (t.grain, t.cells.shape) == ([32], (4,))
    assert t.never_stored() == (64,)
    store(t, (96, 100))
    assert (t.grain, t.never_stored()) == ([32], None)


def test_loads_divide_what_is_stored() -> None:
    t = tensor(48)
    store(t, (0, 32), visit=5)
    load(t, (24, 48), cta=1)
    load(t, (40, 48), cta=2)
    assert t.grain == [8]
    assert t.other_reader(region((0, 48)), 2) == ((24,), 1)
    assert t.other_reader(region((36, 48)), 1) == ((40,), SEVERAL)
    assert t.other_writer(region((20, 48)), 0, 10, exactly=True) == ((20,), 5)
    assert t.is_fresh(region((32, 48)))


def test_a_tensor_without_elements() -> None:
    t = tensor(0, 8, step=(4, 4))
    assert (t.cells.size, t.never_stored()) == (0, None)


OUTSIDE = """
tile.kernel @f(%D: !tile.view<Nxf32, tail = free>) {
  tile.grid (%i) over %D step (4) {
    %far = arith.constant OFFSET : index
    %t = tile.alloc : !tile.smem<4xf32>
    %r = tile.splat 1.0 : !tile.reg<4xf32>
    tile.copy_async %D[%far] to %t dispatch threads
    tile.cta_sync
    tile.store %r to %t
    tile.cta_sync
    tile.copy_async %t to %D[%far] dispatch threads
  }
}
"""


def test_ctas_may_share_what_is_not_there() -> None:
    d = np.zeros(10, np.float32)
    run(parse_text(OUTSIDE.replace("OFFSET", "10")), [d])
    assert not d.any()
    with pytest.raises(Fault, match=r"CTA 0 stores and CTA 1 loads \(9\) of %D"):
        run(parse_text(OUTSIDE.replace("OFFSET", "9")), [d])


IN_PLACE = """
tile.kernel @f(%D: !tile.view<MxNxf16>) {
  %a = tile.alloc : !tile.smem<64x64xf16, swizzle = 128>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %end = scf.while (%turn = %c0) : (index) -> (index) {
    %valid, %m, %n = tile.schedule %turn over %D step (64, 64) group 8
    scf.condition(%valid) %turn : index
  } do {
  ^bb0(%turn: index):
    %valid, %m, %n = tile.schedule %turn over %D step (64, 64) group 8
    tile.copy_async %D[%m, %n] to %a dispatch threads
    tile.cta_sync
    tile.copy_async %a to %D[%m, %n] dispatch threads
    tile.cta_sync
    %next = arith.addi %turn, %c1 : index
    scf.yield %next : index
  }
}
"""


@pytest.mark.parametrize("ctas", [1, 64])
def test_memory_does_not_grow_with_elements(ctas: int) -> None:
    """Of 16 and of 256 tiles: an eighth of a byte for each element at most, where a cell for each would be 16 bytes."""
    module = parse_text(IN_PLACE)

    def peak(tiles: int) -> int:
        d: Array = np.ones((64 * tiles, 64), np.float16)
        run(module, [d], ctas=ctas)
        tracemalloc.start()
        try:
            run(module, [d], ctas=ctas)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    few = peak(16)
    assert 2 * 64 * 64 < few < 64 * 1024
    assert peak(256) - few < 240 * 512
