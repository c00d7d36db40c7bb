"""Who may touch registers and shared memory of a wgmma, and when (PTX 9.7.15.5.2, 9.7.15.7)."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from warpgroup_kernels import (
    Inputs,
    Tile,
    a_registers,
    encode,
    finish,
    from_registers,
    k_major,
    run,
    text,
    to_registers,
)

from tilec.backend.emulator.faults import EmulatorFault, FaultKind
from tilec.backend.emulator.launch import OrderName

_A, _B = k_major(0), k_major(8192)
_WGMMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
_ONE = f"{_WGMMA} {{d0, d1, d2, d3}}, da, db, no, 1, 1, 0, 0;"
_OTHER = f"{_WGMMA} {{d4, d5, d6, d7}}, da, db, no, 1, 1, 0, 0;"
_ADDED = f"{_WGMMA} {{d0, d1, d2, d3}}, da, db, yes, 1, 1, 0, 0;"
_HELD_A = f"{_WGMMA} {{d0, d1, d2, d3}}, {{a0, a1, a2, a3}}, db, no, 1, 1, 0;"
_COMMIT = "wgmma.commit_group.sync.aligned;"
_WAIT = "wgmma.wait_group.sync.aligned"
_LINE = text("BODY", 8, 16384).splitlines().index("BODY") + 1
"""Of the first line of a body in the text."""


def operands() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    rng = np.random.default_rng(7)
    return rng.integers(-4, 5, (64, 16)), rng.integers(-4, 5, (8, 16))


def execute(
    body: str,
    *,
    threads: int = 128,
    descriptors: tuple[int, int] | None = None,
    order: OrderName = "fifo",
    proxy_fence: bool = True,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """D in registers d0 to d3, and that in d4 to d7."""
    a, b = operands()
    image = np.zeros(16384, np.uint8)
    _A.put(image, encode("f16", a))
    _B.put(image, encode("f16", b))
    inputs = Inputs(
        image,
        np.zeros((128, 8), np.uint32),
        a=np.tile(a_registers("f16", a), (-(-threads // 128), 1)),
        descriptors=descriptors or (_A.descriptor, _B.descriptor),
    )
    out, _ = run(body, inputs, threads=threads, order=order, proxy_fence=proxy_fence)
    return from_registers("f32", out[:128, :4]), from_registers("f32", out[:128, 4:])


def fault(body: str, **options: object) -> EmulatorFault:
    with pytest.raises(EmulatorFault) as raised:
        execute(body, **options)  # type: ignore[arg-type]
    return raised.value


def expected() -> NDArray[np.int64]:
    a, b = operands()
    return a @ b.T


@pytest.mark.parametrize(
    ("before", "touching", "register", "line"),
    [
        (_ONE, "add.u32 r0, d1, r1;", "d1", 0),
        (_ONE, "mov.b32 d2, 0;", "d2", 0),
        (_ONE + _COMMIT, "mov.b32 d2, 0;", "d2", 0),
        (_ONE, "st.shared.b32 [to], d3;", "d3", 0),
        (_ONE, "mov.b64 q0, {d0, r1};", "d0", 0),
        (_HELD_A, "mov.b32 a2, 0;", "a2", 0),
        (_HELD_A + _COMMIT, "ld.shared.v4.b32 {r0, a3, r1, r2}, [to];", "a3", 0),
        # A tensor core that was waited for says nothing about a later one.
        (f"{_ONE}{_COMMIT}{_WAIT} 0;\n{_ONE}{_COMMIT}", "mov.b32 r0, d0;", "d0", 1),
        (f"{_ONE}{_COMMIT}\n{_OTHER}{_COMMIT}{_WAIT} 1;", "mov.b32 d4, 0;", "d4", 1),
        (f"{_ONE}{_COMMIT}\n{_ADDED}{_COMMIT}{_WAIT} 1;", "mov.b32 r0, d0;", "d0", 1),
        # What has not been committed is in no group.
        (f"{_ONE}{_WAIT} 0;", "mov.b32 r0, d0;", "d0", 0),
        # Another shape with the same registers.
        (
            _ONE,
            "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {d0, d1, d2, d3, d4, d5, d6, d7}, da, db, no, 1, 1, 0, 0;",
            "d0",
            0,
        ),
        # The result of one as the A of another.
        (_ONE, f"{_WGMMA} {{d4, d5, d6, d7}}, {{d0, d1, d2, d3}}, db, no, 1, 1, 0;", "d0", 0),
    ],
)
def test_registers_in_flight(before: str, touching: str, register: str, line: int) -> None:
    for order in ("fifo", "random", "adversarial"):
        found = fault(f"{before}\n{touching}", order=order)
        assert found.kind is FaultKind.IN_FLIGHT
        message = f"register {register} belongs to the wgmma of line {_LINE + line}, which has not been waited for"
        assert message in str(found)
        assert "hint: wgmma.commit_group and wgmma.wait_group first" in str(found)


@pytest.mark.parametrize("order", ["fifo", "random", "adversarial"])
@pytest.mark.parametrize(
    ("body", "times"),
    [
        (finish(_ONE), (1, 0)),
        # The same shape and the same accumulators need no wait between them.
        (finish(_ONE + _ADDED + _ADDED), (3, 0)),
        (finish(f"{_ONE}{_COMMIT}{_ADDED}"), (2, 0)),
        (finish(_ONE + _OTHER), (1, 1)),
        (finish(f"{_ONE}{_COMMIT}{_OTHER}{_COMMIT}{_WAIT} 1;mov.b32 r0, d0; mov.b32 d0, r0;"), (1, 1)),
        # Registers of A may be read by others, and be written once they have been waited for.
        (finish(_HELD_A + "mov.b32 r0, a0;" + _ADDED) + "mov.b32 a0, r0;", (2, 0)),
        # What was written between two products is what the second one adds to.
        (
            finish(f"{_ONE}{_COMMIT}{_WAIT} 0;mov.b32 d0, 0; mov.b32 d1, 0; mov.b32 d2, 0; mov.b32 d3, 0;{_ADDED}"),
            (1, 0),
        ),
        # Groups may be empty.
        (f"{_COMMIT}{_ONE}{_COMMIT}{_COMMIT}{_WAIT} 1;mov.b32 r0, d0;{_WAIT} 0;", (1, 0)),
        (f"{_ONE}{_COMMIT}{_WAIT} 7;{_WAIT} 0;", (1, 0)),
    ],
)
def test_allowed(body: str, times: tuple[int, int], order: OrderName) -> None:
    for got, count in zip(execute(body, order=order), times, strict=True):
        np.testing.assert_array_equal(got, count * expected())


@pytest.mark.parametrize("order", ["fifo", "random", "adversarial"])
def test_accumulators_that_overlap_in_a_chain(order: OrderName) -> None:
    """The same shape on registers shifted by two: the second product adds to what the first one left in two of them."""
    shifted = f"{_WGMMA} {{d2, d3, d4, d5}}, da, db, yes, 1, 1, 0, 0;"
    once = to_registers("f32", expected()).view(np.float32)
    first, second = execute(finish(_ONE + shifted), order=order)
    held = np.concatenate([to_registers("f32", d).view(np.float32) for d in (first, second)], axis=1)
    np.testing.assert_array_equal(held[:, :2], once[:, :2])
    np.testing.assert_array_equal(held[:, 2:4], once[:, 2:4] + once[:, :2])
    np.testing.assert_array_equal(held[:, 4:6], once[:, 2:4])


def test_warps_wait_for_themselves() -> None:
    """A warp that has waited may use its registers, though the others have not waited yet; those may not."""
    own = "shr.u32 r0, tid, 5; setp.ne.u32 p, r0, 2;\n"
    allowed = f"{own}{_ONE}{_COMMIT}\n@p bra LATER;\n{_WAIT} 0;\nadd.f32 d0, d0, 0f3F800000;\nLATER:\n@!p bra END;\n{_WAIT} 0;\nEND:"
    for order in ("fifo", "random", "adversarial"):
        got, _ = execute(allowed, order=order)
        wanted = to_registers("f32", expected()).view(np.float32)
        wanted[64:96, 0] += 1
        np.testing.assert_array_equal(to_registers("f32", got).view(np.float32), wanted)
    found = fault(f"{own}{_ONE}{_COMMIT}\n@p bra LATER;\n{_WAIT} 0;\nLATER:\nmov.b32 r0, d0;")
    assert found.kind is FaultKind.IN_FLIGHT
    assert "register d0 belongs to the wgmma" in str(found)
    assert "thread (64, 0, 0)" not in str(found)


def test_exit_before_the_end() -> None:
    """Shared memory that the tensor core still reads is taken away."""
    found = fault(f"{_ONE}{_COMMIT}\nexit;")
    assert found.kind is FaultKind.LEFT_BEHIND
    assert "CTA (0, 0, 0) has exited, but wgmma still uses its shared memory" in str(found)


@pytest.mark.parametrize(("threads", "first"), [(96, 0), (160, 128)])
def test_a_warpgroup_with_missing_warps(threads: int, first: int) -> None:
    found = fault(finish(_ONE), threads=threads)
    assert found.kind is FaultKind.DIVERGENT
    assert (
        f"wgmma needs the four warps of a warpgroup; of threads {first} to {first + 127} some do not exist or have exited"
        in str(found)
    )


def test_a_warpgroup_of_which_a_warp_has_exited() -> None:
    found = fault("shr.u32 r0, tid, 5; setp.eq.u32 p, r0, 1;\n@p exit;\n" + finish(_ONE))
    assert found.kind is FaultKind.DIVERGENT
    assert "of threads 0 to 127 some do not exist or have exited" in str(found)


@pytest.mark.parametrize(
    ("change", "instruction", "what"),
    [
        ("@p add.u64 da, da, 1;", _ONE, "the descriptor of A"),
        ("@p add.u64 db, db, 1;", _ONE, "the descriptor of B"),
        ("setp.ne.u32 no, tid, 77;", _ONE, "scale-d"),
    ],
)
def test_operands_that_threads_must_agree_on(change: str, instruction: str, what: str) -> None:
    found = fault(f"setp.eq.u32 p, tid, 77;\n{change}\n{finish(instruction)}")
    assert found.kind is FaultKind.DIVERGENT
    assert f"{what} differs between the threads of the warpgroup" in str(found)
    assert "thread (77, 0, 0)" in str(found)


@pytest.mark.parametrize("bit", [14, 15, 30, 31, 46, 47, 48, 52, 53, 61])
@pytest.mark.parametrize("name", ["A", "B"])
def test_reserved_bits_of_a_descriptor(name: str, bit: int) -> None:
    changed = (_A if name == "A" else _B).descriptor | 1 << bit
    found = fault(finish(_ONE), descriptors=(changed, _B.descriptor) if name == "A" else (_A.descriptor, changed))
    assert found.kind is FaultKind.DESCRIPTOR
    assert f"{name}: bits {bit} of the matrix descriptor 0x{changed:016x} must be 0" in str(found)


def test_shared_memory_that_is_not_there() -> None:
    found = fault(finish(_ONE), descriptors=(Tile(16384, 16, 1024, "128B").descriptor, _B.descriptor))
    assert found.kind is FaultKind.OUT_OF_BOUNDS
    assert "wgmma accesses shared memory at 0x4400; it is 0x400 to 0x4400" in str(found)


def test_operands_without_a_proxy_fence() -> None:
    found = fault(finish(_ONE), proxy_fence=False)
    assert found.kind is FaultKind.PROXY_FENCE
    assert (
        "through the async proxy, but it was written by ordinary stores that no fence.proxy.async has followed"
        in str(found)
    )


def test_operands_written_while_they_are_read() -> None:
    found = fault(f"{_ONE}\nst.shared.b32 [to], 0;\n{_COMMIT}{_WAIT} 0;", order="adversarial")
    assert found.kind is FaultKind.IN_FLIGHT
    assert f"wgmma of line {_LINE} has not completed" in str(found)


def test_operands_that_nobody_has_written() -> None:
    body = f".shared .align 1024 .b8 empty[8192];\nmov.u32 r0, empty; shr.u32 r0, r0, 4; cvt.u64.u32 q0, r0; add.u64 da, q0, da;\n{finish(_ONE)}"
    bits = _A.descriptor & ~0x3FFF
    found = fault(body, descriptors=(bits, _B.descriptor))
    assert found.kind is FaultKind.UNINITIALISED
    assert "wgmma reads shared memory at" in str(found) and "where nothing has been written" in str(found)
