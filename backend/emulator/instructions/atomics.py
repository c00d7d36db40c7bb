"""`atom` and `red` (PTX 9.7.13.5, 9.7.13.6), scalar and vector, in global memory and in shared memory of the cluster.

Lanes that meet at one address take their turns, each with the value that the one before it has left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.execution.cta import Cta
from tilec.backend.emulator.execution.decode import Decoder, Reader, Writer, instruction
from tilec.backend.emulator.execution.lanes import Execute, Lanes
from tilec.backend.emulator.faults import FaultKind
from tilec.backend.emulator.instructions.fences import SCOPES, publish
from tilec.backend.emulator.instructions.load_store import state_space, take_policy, vector_elements
from tilec.backend.emulator.memory.accesses import check_writable, resolve, subset
from tilec.backend.emulator.memory.address_space import GlobalSegment, Segment
from tilec.backend.emulator.memory.shared import SharedMemory
from tilec.backend.emulator.numbers import combine
from tilec.backend.emulator.numbers.combine import ELEMENTS, Element
from tilec.backend.emulator.numbers.types import Values
from tilec.backend.emulator.ptx.syntax import Operand, Sink

_SPACES = ("global", "shared", "shared::cta", "shared::cluster")
_OPERATIONS = ("and", "or", "xor", "cas", "exch", "add", "inc", "dec", "min", "max")
_VECTORS = {
    "f32": (("add",), (2, 4)),
    "f16": (("add", "min", "max"), (2, 4, 8)),
    "bf16": (("add", "min", "max"), (2, 4, 8)),
    "f16x2": (("add", "min", "max"), (2, 4)),
    "bf16x2": (("add", "min", "max"), (2, 4)),
}
_Update = Callable[[Segment, NDArray[Any], list[NDArray[Any]]], NDArray[Any]]
"""The new values from the old ones, shape (lanes, elements), and the operands; the segment says in which memory they are."""


class TurnTaking:
    """The order in which lanes of one CTA that meet at one address take their turns: by number, or at random."""

    def __init__(self, cta: Cta) -> None:
        machine = cta.machine
        self._random = None if machine.order.across_warps else np.random.default_rng((machine.seed, cta.number))

    def at_exit(self) -> None:
        """Nothing is left behind."""

    def turns(self, places: NDArray[np.int64]) -> Iterator[NDArray[np.intp] | slice]:
        """Positions of lanes that go at the same time, since they are at different places; all together, each lane once."""
        if (places[1:] > places[:-1]).all():
            yield slice(None)
            return
        count = len(places)
        order = np.arange(count) if self._random is None else self._random.permutation(count)
        order = order[np.argsort(places[order], kind="stable")]
        ordered = places[order]
        first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
        starts = np.flatnonzero(first)
        turn = np.arange(count) - starts[np.cumsum(first) - 1]
        for number in range(int(turn.max()) + 1):
            yield order[turn == number]


@instruction("atom", "red")
def atom(d: Decoder) -> Execute:
    returns = d.instruction.parts[0] == "atom"
    ordering = d.take(*(("relaxed", "acquire", "release", "acq_rel") if returns else ("relaxed", "release")))
    d.take(*SCOPES)
    space = d.take(*_SPACES)
    op = d.take(*_OPERATIONS)
    noftz = d.take("noftz") is not None
    vector = d.take("v2", "v4", "v8")
    operands = take_policy(d)
    type = d.take_type()
    d.finish()
    count = 1 if vector is None else int(vector[1:])
    if op is None or type not in ELEMENTS or (op in ("cas", "exch") and not returns):
        d.unsupported("no such operation")
    if noftz != type.endswith(("f16", "f16x2")):
        d.unsupported(".noftz goes with the half-precision types, and they with it")
    if vector is not None and (type not in _VECTORS or op not in _VECTORS[type][0] or count not in _VECTORS[type][1]):
        d.unsupported(f".{vector} does not go with .{op}.{type}")
    if type in ("f16", "bf16", "f16x2", "bf16x2") and vector is None and op != "add":
        d.unsupported(f".{op} of .{type} takes a vector")
    inputs = 2 if op == "cas" else 1
    if len(operands) != inputs + 1 + returns:
        d.unsupported(f"{len(operands)} operands, not {inputs + 1 + returns}")
    result = operands.pop(0) if returns else Sink()
    writers = [] if isinstance(result, Sink) else [d.writer(e, type) for e in vector_elements(d, result, count)]
    where = state_space(d, space, operands[0])
    address = d.address(operands[0])
    element = ELEMENTS[type]
    readers = [_values(d, operand, type, count, element) for operand in operands[1:]]
    update = _update(d, op, type)
    released = ordering in ("release", "acq_rel")

    def execute(lanes: Lanes) -> None:
        if released:
            publish(lanes)
        values = [read(lanes) for read in readers]
        old = _modify(lanes, where, address(lanes), values, update, vector is not None)
        _hand_out(lanes, writers, old, element)

    return execute


def _update(d: Decoder, op: str, type: str) -> _Update:
    if op == "cas":
        if type not in ("b16", "b32", "u32", "s32", "b64", "u64", "s64", "b128"):
            d.unsupported(f"no compare-and-swap of .{type}")
        return _compare_and_swap
    of_shared, of_global = combine.find(op, type), combine.find(op, type, in_global=True)
    if of_shared is None or of_global is None or (op == "exch" and type == "b16"):
        d.unsupported(f"no .{op} of .{type}")
    return lambda segment, old, values: (of_global if isinstance(segment, GlobalSegment) else of_shared)(old, values[0])


def _compare_and_swap(segment: Segment, old: NDArray[Any], values: list[NDArray[Any]]) -> NDArray[Any]:
    return np.where((old == values[0]).all(axis=1, keepdims=True), values[1], old)


def _values(d: Decoder, operand: Operand, type: str, count: int, element: Element) -> Callable[[Lanes], NDArray[Any]]:
    """Reads a source operand as elements, shape (lanes, elements)."""
    readers: list[Reader] = [d.reader(e, type) for e in vector_elements(d, operand, count)]
    per_value = element.per_value

    def read(lanes: Lanes) -> NDArray[Any]:
        values = np.empty((lanes.count, count * per_value), element.dtype)
        for at, reader in enumerate(readers):
            found: Values = reader(lanes)
            if per_value == 1:
                values[:, at] = found.view(element.dtype)
            elif found.ndim and found.shape[-1] == per_value and type == "b128":
                values[:] = found
            else:
                both = np.ascontiguousarray(np.broadcast_to(found, (lanes.count,)))
                values[:, at * per_value : (at + 1) * per_value] = both[:, None].view(element.dtype)
        return values

    return read


def _hand_out(lanes: Lanes, writers: list[Writer], old: NDArray[Any], element: Element) -> None:
    """Give the registers what was in memory."""
    for at, write in enumerate(writers):
        if element.per_value == 1:
            write(lanes, old[:, at])
            continue
        part = np.ascontiguousarray(old[:, at * element.per_value : (at + 1) * element.per_value])
        write(lanes, part if element.dtype.itemsize == 8 else part.view(np.uint32)[:, 0])


def _modify(
    lanes: Lanes, space: str, addresses: Values, values: list[NDArray[Any]], update: _Update, vector: bool
) -> NDArray[Any]:
    """Let all lanes change memory; returns what each of them found there, shape (lanes, elements). Where nothing changes, such as
    for a lock that is taken, nobody needs to look again."""
    changed = False
    count, dtype = values[0].shape[1], values[0].dtype
    width = count * dtype.itemsize
    old = np.empty((lanes.count, count), dtype)
    for segment, offsets, positions in resolve(lanes, space, np.broadcast_to(addresses, (lanes.count,)), width):
        part = subset(lanes, positions)
        _check_memory(part, segment, offsets, width, vector)
        rows, places = segment.rows(dtype, count), offsets // width
        for turn in lanes.cta.part(TurnTaking).turns(places):
            at = turn if positions is None else positions[turn]
            found = rows.take(places[turn], 0)
            left = update(segment, found, [v[at] for v in values])
            rows[places[turn]] = left
            old[at] = found
            changed = changed or left.tobytes() != found.tobytes()
    if changed:
        lanes.machine.touch()
    return old


def _check_memory(lanes: Lanes, segment: Segment, offsets: NDArray[np.int64], width: int, vector: bool) -> None:
    opcode = lanes.instruction.opcode
    if not isinstance(segment, GlobalSegment) and (vector or not isinstance(segment, SharedMemory)):
        allowed = "global memory" if vector else "global and shared memory"
        lanes.fault(FaultKind.OUT_OF_BOUNDS, f"{opcode} at an address in {segment.name}; it reaches {allowed} only")
    check_writable(lanes, segment, offsets, width)
    segment.check_load(lanes, offsets, width)
    segment.check_store(lanes, offsets, width)
