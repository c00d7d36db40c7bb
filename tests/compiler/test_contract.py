"""The contract of a kernel: roles, storage, hand-offs and lifetimes, read off its IR."""

from __future__ import annotations

from pathlib import Path

from tilec.backend.protocol.contract import Contract, Handoff, Lifetime, Place, Storage, contract
from tilec.driver import compile_module, find_kernel
from tilec.passes.storage import plan
from tilec.source import parse_text

_TMA, _CORE, _THREADS = "TMA engine", "tensor core", "all threads"
_PERSISTENT = "tma,pipeline(2),persistent"


def _contract(text: str, pipeline: str = "", target: str | None = None) -> Contract:
    kernel = find_kernel(
        compile_module(parse_text(text, "t.tile"), pipeline=pipeline, target=target, emit="tile").asynchronous
    )
    storage = plan(kernel)
    return contract(kernel, {block.value: block.offset for block in (*storage.tiles, *storage.barriers)})


def _does(made: Contract) -> dict[str, list[str]]:
    return {role.name: [action.what for action in role.does] for role in made.roles}


def test_gemm(examples: Path) -> None:
    made = _contract((examples / "gemm.tile").read_text(), _PERSISTENT)
    assert (made.kernel, made.target) == ("gemm", "sm_100a")
    carried = ("flips when stage wraps; carried from tile to tile; from 0",)
    every = ("flips every turn; carried from tile to tile; from 0",)
    after = "fence after_thread_sync"
    assert made.handoffs == (
        Handoff(("a", "b"), "ready", _TMA, _CORE, "full[2]", 1, (32768,), carried, (after,)),
        Handoff(("acc",), "ready", _CORE, _THREADS, "done[1]", 1, (), every, (after,)),
        Handoff(("a", "b"), "free", _CORE, _TMA, "done[1]", 1, (), every, ()),
        Handoff(("acc",), "free", _THREADS, _CORE, "cta_sync", None, (), (), ("fence before_thread_sync", after)),
        Handoff(("staging",), "ready", _THREADS, _TMA, "cta_sync", None, (), (), ("fence proxy_async",)),
        Handoff(("staging",), "free", _TMA, _THREADS, "bulk group", None, (), (), ("wait_group 1 read", "cta_sync")),
        Handoff(("D",), "stored", _TMA, "after the kernel", "bulk group", None, (), (), ("wait_group 0",)),
    )
    tile = "128x64 f16, dimension 1 fastest, swizzle 128"
    assert made.storage == (
        Storage("a", 32768, 2, "shared memory", tile, 0),
        Storage("b", 32768, 2, "shared memory", tile, 0x8000),
        Storage("acc", 65536, 1, "tensor memory", "128x128 f32"),
        Storage("staging", 32768, 2, "shared memory", tile, 0x10000),
        Storage("full", 16, 2, "shared memory", "mbarrier, count 1", 0x18000),
        Storage("done", 8, 1, "shared memory", "mbarrier, count 1", 0x18010),
    )
    assert _does(made) == {
        "issuing thread": [
            "initialise full, done",
            "announce bytes and arrive on full",
            "issue TMA loads of a, b",
            "wait for bulk groups",
            "issue TMA stores of staging",
            "close bulk groups",
        ],
        _THREADS: [
            "meet at cta_sync",
            "wait for full, done",
            "fence after_thread_sync, proxy_async, before_thread_sync",
            "issue MMAs into acc",
            "commit MMAs to done",
            "read acc",
            "wait for accumulator loads",
            "write staging",
            "free acc",
        ],
        _TMA: ["write a, b", "complete bytes on full", "read staging"],
        _CORE: ["read a, b", "accumulate in acc", "arrive on done"],
    }
    lives = {life.name: life for life in made.lifetimes}
    done = Place("try_wait done", 10)
    assert lives["a"] == Lifetime("a", Place("alloc", 4), Place("TMA load", 8), Place("MMA", 10), done)
    acc = Lifetime("acc", Place("alloc", 6), Place("MMA", 10), Place("accumulator load", 12), Place("free", 6))
    assert lives["acc"] == acc
    assert lives["staging"].given_back == Place("wait_group 0", 3)
    assert lives["full"].last_read == Place("try_wait full", 10)
    assert lives["full"].given_back is None


def test_step6_by_hand(examples: Path) -> None:
    made = _contract((examples / "step6_persistent.tile").read_text())
    rows = {(row.tiles, row.state, row.order): row for row in made.handoffs}
    ready = rows[("Asmem", "Bsmem"), "ready", ("fence after_thread_sync",)]
    assert (ready.signal, ready.bytes) == ("tma_bar[2]", (32768,))
    assert ready.phase == ("flips when stage wraps; carried from tile to tile; from 0",)
    assert rows[("Asmem", "Bsmem"), "free", ()].signal == "mma_bar[1]"
    assert [row.order for row in made.handoffs if row.tiles == ("dsmem",) and row.state == "free"] == [
        ("wait_group 0 read", "cta_sync"),
        ("wait_group 0", "cta_sync"),
    ]
    text = (examples / "step6_persistent.tile").read_text().splitlines()
    for life in made.lifetimes:
        assert life.allocated.line is not None
        assert text[life.allocated.line - 1].lstrip().startswith(f"%{life.name} = tile.")


def test_a_phase_that_is_reset_says_where(examples: Path) -> None:
    text = (examples / "step6_persistent.tile").read_text()
    right = "%stage = %stage0, %phase_tma = %phase_tma0, %phase_mma = %phase_mma0"
    assert right in text
    made = _contract(text.replace(right, "%stage = %zero, %phase_tma = %phase0, %phase_mma = %phase0"))
    line = text[: text.index(right)].count("\n") + 1
    assert {phase for row in made.handoffs for phase in row.phase} == {
        f"flips when stage wraps; reset to 0 at each tile (line {line})",
        f"flips every turn; reset to 0 at each tile (line {line})",
    }


def test_bias_relu(examples: Path) -> None:
    text = (examples / "bias_relu.tile").read_text()
    made = _contract(text, "tma,pipeline(3)")
    rows = {(row.tiles, row.state): row for row in made.handoffs}
    assert rows[("row",), "ready"] == Handoff(("row",), "ready", _THREADS, _THREADS, "cta_sync", None, (), (), ())
    assert (("row",), "free") not in rows
    assert rows[("a", "b"), "free"].phase == ("the slot before; flips when stage wraps; from 0",)
    assert (("staging",), "free") not in rows  # one tile a CTA, one chunk: nobody writes it again
    row = next(storage for storage in made.storage if storage.name == "row")
    assert row.layout == "128 f32, dimension 0 fastest, no swizzle"
    persistent = {(row.tiles, row.state) for row in _contract(text, _PERSISTENT).handoffs}
    assert (("row",), "free") in persistent


def test_copies_by_threads(examples: Path) -> None:
    made = _contract((examples / "gemm.tile").read_text())
    rows = {(row.tiles, row.state): row for row in made.handoffs}
    assert rows[("a", "b"), "ready"].order == ("fence proxy_async", "fence after_thread_sync")
    assert rows[("a", "b"), "free"].consumer == _THREADS
    assert _TMA not in _does(made)
    assert all(row.signal != "none" for row in made.handoffs)


def test_on_hopper_accumulators_are_registers(examples: Path) -> None:
    made = _contract((examples / "gemm.tile").read_text(), "tma", "sm_90a")
    assert [storage.where for storage in made.storage if storage.name == "acc"] == ["registers"]


def test_what_is_missing_is_shown() -> None:
    text = """tile.kernel @f(%A: !tile.view<MxKxf16>, %D: !tile.view<MxKxf16>) {
  %a = tile.alloc : !tile.smem<64x64xf16, swizzle = 128>
  %bar = tile.mbarrier.init count 1 : !tile.mbarrier<1>
  tile.cta_sync
  %c0 = arith.constant 0 : index
  %p = arith.constant 0 : i32
  tile.single_thread {
    tile.mbarrier.arrive.expect_tx %bar, 8192
    tile.copy_async %A[%c0, %c0] to %a dispatch tma signal %bar
  }
  tile.mbarrier.try_wait %bar, %p
  %r = tile.load %a : !tile.reg<64x64xf16>
  tile.store %r to %a
  tile.single_thread {
    tile.copy_async %a to %D[%c0, %c0] dispatch tma
    tile.bulk.commit_group
  }
}"""
    made = _contract(text)
    ready = next(row for row in made.handoffs if row.producer == _TMA and row.state == "ready")
    assert ready.phase == ("always 0",)
    store = next(row for row in made.handoffs if row.producer == _THREADS and row.consumer == _TMA)
    assert (store.signal, store.order) == ("none", ())
    assert made.handoffs[-1] == Handoff(("D",), "stored", _TMA, "after the kernel", "none", None, (), (), ())


def test_threads_may_arrive_on_a_barrier() -> None:
    text = """tile.kernel @f(%A: !tile.view<MxKxf16>, %D: !tile.view<MxKxf16>) {
  %a = tile.alloc : !tile.smem<64x64xf16, swizzle = 128>
  %empty = tile.mbarrier.init count 1 : !tile.mbarrier<1>
  tile.cta_sync
  %c0 = arith.constant 0 : index
  %p = arith.constant 0 : i32
  %zeros = tile.splat 0.0 : !tile.reg<64x64xf16>
  tile.store %zeros to %a
  tile.fence proxy_async
  tile.mbarrier.arrive %empty
  tile.mbarrier.try_wait %empty, %p
  tile.single_thread {
    tile.copy_async %a to %D[%c0, %c0] dispatch tma
    tile.bulk.commit_group
    tile.bulk.wait_group 0
  }
}"""
    made = _contract(text)
    assert made.handoffs[0] == Handoff(
        ("a",), "ready", _THREADS, _TMA, "empty[1]", 1, (), ("always 0",), ("fence proxy_async",)
    )
    assert "arrive on empty" in _does(made)[_THREADS]
    (empty,) = (life for life in made.lifetimes if life.name == "empty")
    assert (empty.first_written, empty.last_read) == (Place("mbarrier.arrive", 10), Place("try_wait empty", 11))


def test_two_tiles_of_one_name() -> None:
    text = """tile.kernel @f() {
  %a = tile.alloc : !tile.smem<64x64xf16, swizzle = 128>
  tile.single_thread {
  }
}"""
    kernel = find_kernel(parse_text(text))
    first = next(iter(kernel.body.block.ops))
    kernel.body.block.insert_op_after(first.clone(), first)
    for op in list(kernel.body.block.ops)[:2]:
        op.results[0].name_hint = "a"
    assert [storage.name for storage in contract(kernel).storage] == ["a", "a_1"]
