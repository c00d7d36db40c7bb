"""`ld`, `ldu` and `st` (PTX 9.7.9.8 to 9.7.9.11): every space, type and vector; hints to caches change nothing here."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.execution.decode import Decoder, instruction
from tilec.backend.emulator.execution.lanes import Execute, Lanes
from tilec.backend.emulator.instructions.fences import SCOPES, publish
from tilec.backend.emulator.memory.accesses import load, store
from tilec.backend.emulator.numbers.types import BITS, Values, bytes_of
from tilec.backend.emulator.ptx.syntax import Address, Operand, Sink, Symbol

_SHARED = ("shared", "shared::cta", "shared::cluster")
_LOAD_SPACES = ("global", *_SHARED, "param", "param::entry", "param::func", "local", "const")
_STORE_SPACES = ("global", *_SHARED, "param", "param::func", "local")
_LOAD_CACHES = ("ca", "cg", "cs", "lu", "cv")
_STORE_CACHES = ("wb", "cg", "cs", "wt")
_L1 = ("L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate")
_L2 = ("L2::evict_normal", "L2::evict_first", "L2::evict_last")
_PREFETCH = ("L2::64B", "L2::128B", "L2::256B")
_WIDEST = 32
SCALARS = (*(f"{kind}{bits}" for kind in "bus" for bits in (8, 16, 32, 64)), "b128", "f32", "f64")
"""The types that loads and stores have."""


@instruction("ld", "ldu")
def ld(d: Decoder) -> Execute:
    if d.instruction.parts[0] == "ld":
        _take_ordering(d, "acquire")
        space = d.take(*_LOAD_SPACES)
        if d.take("nc") is not None and space not in (None, "global"):
            d.unsupported(f".nc reads global memory, not .{space}")
        _take_hints(d, _LOAD_CACHES)
        d.take(*_PREFETCH)
    else:
        space = d.take("global")
    type, count = _take_shape(d)
    operands = take_policy(d)
    d.finish()
    if len(operands) != 2:
        d.unsupported(f"{len(operands)} operands, not 2")
    where = state_space(d, space, operands[1])
    read = d.address(operands[1])
    writers = [d.writer(element, type) for element in vector_elements(d, operands[0], count)]
    words = max(bytes_of(type) // 8, 1)
    dtype = BITS[bytes_of(type) * 8 // words]

    def hand_out(lanes: Lanes, values: NDArray[np.unsignedinteger]) -> None:
        if words == 2:
            for at, write in enumerate(writers):
                write(lanes, values[:, 2 * at : 2 * at + 2])
        else:
            for at, write in enumerate(writers):
                write(lanes, values[:, at])

    if _is_kernel_parameter(d, operands[1]):
        return _once(lambda lanes: load(lanes, where, read(lanes), dtype, count * words), hand_out)
    return lambda lanes: hand_out(lanes, load(lanes, where, read(lanes), dtype, count * words))


def _is_kernel_parameter(d: Decoder, operand: Operand) -> bool:
    return (
        isinstance(operand, Address)
        and isinstance(operand.base, Symbol)
        and operand.base.variable in d.program.kernel.parameters
    )


def _once(read: Callable[[Lanes], Values], hand_out: Callable[[Lanes, Values], None]) -> Execute:
    """What does not change during a launch is loaded by the first threads only."""
    known: Values | None = None

    def execute(lanes: Lanes) -> None:
        nonlocal known
        if known is None:
            known = read(lanes)
        hand_out(lanes, known)

    return execute


@instruction("st")
def st(d: Decoder) -> Execute:
    ordering = _take_ordering(d, "release")
    space = d.take(*_STORE_SPACES)
    _take_hints(d, _STORE_CACHES)
    type, count = _take_shape(d)
    operands = take_policy(d)
    d.finish()
    if len(operands) != 2:
        d.unsupported(f"{len(operands)} operands, not 2")
    where = state_space(d, space, operands[0])
    address = d.address(operands[0])
    words = max(bytes_of(type) // 8, 1)
    dtype = BITS[bytes_of(type) * 8 // words]
    elements = vector_elements(d, operands[1], count)
    readers = [None if isinstance(element, Sink) else d.reader(element, type) for element in elements]
    kept = [at for at, reader in enumerate(readers) if reader is not None]
    columns = None if len(kept) == count else np.array([at * words + w for at in kept for w in range(words)])

    def gather(lanes: Lanes) -> NDArray[np.unsignedinteger]:
        values = np.empty((lanes.count, count * words), dtype)
        for at, reader in enumerate(readers):
            if reader is not None:
                if words == 2:
                    values[:, 2 * at : 2 * at + 2] = reader(lanes)
                else:
                    values[:, at] = reader(lanes).view(dtype)
        return values

    def execute(lanes: Lanes) -> None:
        if ordering == "release":
            publish(lanes)
        store(lanes, where, address(lanes), gather(lanes), columns)

    return execute


def _take_ordering(d: Decoder, strong: str) -> str | None:
    """Consume `.weak`, `.volatile`, `.relaxed.scope`, the `strong` one with its scope, or `.mmio.relaxed.sys`."""
    mmio = d.take("mmio")
    ordering = d.take("weak", "volatile", "relaxed", strong)
    if mmio is not None and ordering != "relaxed":
        d.unsupported(".mmio goes with .relaxed")
    if ordering in ("relaxed", strong) and d.take(*SCOPES) is None:
        d.unsupported(f".{ordering} without a scope")
    return ordering


def _take_hints(d: Decoder, caches: tuple[str, ...]) -> None:
    if d.take(*caches) is None:
        d.take(*_L1)
        d.take(*_L2)


def take_policy(d: Decoder) -> list[Operand]:
    """Consume `.L2::cache_hint` and the last operand, its policy; returns the operands before it."""
    operands = list(d.operands)
    if d.take("L2::cache_hint") is not None:
        if not operands:
            d.unsupported("no cache policy")
        d.reader(operands.pop(), "b64")
    return operands


def _take_shape(d: Decoder) -> tuple[str, int]:
    """Consume the type and the vector: the type of an element, and how many there are."""
    type = d.take_type()
    vector = d.take("v2", "v4", "v8")
    count = 1 if vector is None else int(vector[1:])
    if type not in SCALARS:
        d.unsupported(f"no loads and stores of .{type}")
    if count * bytes_of(type) > _WIDEST:
        d.unsupported(f"{count} elements of .{type} are more than {_WIDEST} bytes")
    return type, count


def state_space(d: Decoder, space: str | None, operand: Operand) -> str:
    """The state space, or "generic". The name of a shared variable is a shared address, also where no space is given."""
    if space is None:
        return "shared" if d.names_shared(operand) else "generic"
    return space


def vector_elements(d: Decoder, operand: Operand, count: int) -> tuple[Operand, ...]:
    """The elements of an operand of so many; one that counts alone is no vector, although it may be packed."""
    elements = d.elements(operand) if count > 1 else (operand,)
    if len(elements) != count:
        d.unsupported(f"a vector of {len(elements)} elements, not {count}")
    return elements
