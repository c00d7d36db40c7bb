"""Calls of device functions and returns from them (PTX 7.1, 9.7.12.5).

Arguments and results lie in `.param` variables, of which each thread has its own; a call copies them between the caller's and
the callee's. A function has one set of registers and variables. One that is called while it is active already (recursion)
gets its registers saved in the frame, and addresses of its own by the thread's `activation`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.execution.cta import Cta
from tilec.backend.emulator.execution.decode import Decoder, Reader, Writer
from tilec.backend.emulator.execution.externals import EXTERNALS, External
from tilec.backend.emulator.execution.group import Frame, Group, as_index
from tilec.backend.emulator.execution.lanes import Lanes
from tilec.backend.emulator.execution.program import FUNCTION_WINDOW, Placed, Program
from tilec.backend.emulator.execution.steps import Kind, Step
from tilec.backend.emulator.faults import FaultKind
from tilec.backend.emulator.memory.address_space import FRAME_WINDOW
from tilec.backend.emulator.numbers.types import Values, bytes_of
from tilec.backend.emulator.ptx.syntax import (
    Arguments,
    FunctionName,
    Instruction,
    Operand,
    Register,
    Sink,
    Symbol,
    Variable,
)

Split = Callable[[Group, NDArray[np.intp]], Group]
_DEEPEST = 4096


@dataclass(frozen=True)
class _Site:
    """A call as written: exactly one of `callee`, `external` and `pointer` says what is called."""

    results: tuple[Operand, ...]
    arguments: tuple[Operand, ...]
    callee: Placed | None
    external: External | None
    name: str
    pointer: Reader | None
    decoder: Decoder


class Calls:
    """Executes `call` and `ret`."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._sites: dict[int, _Site] = {}
        self._starts = {placed.start: placed for placed in program.functions.values()}

    def transfer(self, group: Group, step: Step, split: Split) -> None:
        """Execute a call, or a return from a device function, for all threads of a group."""
        if step.kind is Kind.RETURN:
            self._return(group)
            return
        site = self._sites.get(group.pc)
        if site is None:
            site = self._sites[group.pc] = self._read(group.pc, step.instruction)
        lanes = Lanes(group.cta, group.index, len(group.threads), step.instruction)
        if site.external is not None:
            self._call_external(group, site, site.external, lanes)
            group.pc += 1
            return
        if site.callee is not None:
            self._enter(group, site, site.callee, step.instruction)
            return
        assert site.pointer is not None
        addresses = np.broadcast_to(site.pointer(lanes), (lanes.count,))
        for address in np.unique(addresses):
            start, odd = divmod(int(address) - FUNCTION_WINDOW, 16)
            callee = None if odd else self._starts.get(start)
            if callee is None:
                lane = int(np.flatnonzero(addresses == address)[0])
                lanes.fault(FaultKind.ILLEGAL, f"a call to 0x{int(address):x}, where no function starts", lane)
            members = group if (addresses == address).all() else split(group, lanes.threads[addresses == address])
            self._enter(members, site, callee, step.instruction)

    def _read(self, pc: int, ins: Instruction) -> _Site:
        decoder = Decoder(self.program, self.program.owners[pc], ins, 1)
        operands = list(ins.operands)
        results = _list(operands)
        callee = operands.pop(0)
        arguments = _list(operands)
        placed = external = pointer = None
        if isinstance(callee, FunctionName):
            placed = self.program.find_function(callee.name)
            external = EXTERNALS.get(callee.name)
            if placed is None and external is None:
                decoder.unsupported(f"function {callee.name} has no body in this module")
        else:
            pointer = decoder.reader(callee, "u64")
        name = callee.name if isinstance(callee, FunctionName) else ""
        return _Site(results, arguments, placed, None if placed else external, name, pointer, decoder)

    def _call_external(self, group: Group, site: _Site, external: External, lanes: Lanes) -> None:
        declared = self.program.module.functions[site.name]
        if len(site.arguments) != len(declared.parameters):
            site.decoder.unsupported(f"{len(site.arguments)} arguments for {len(declared.parameters)} parameters")
        values: list[Values] = []
        for argument, parameter in zip(site.arguments, declared.parameters, strict=True):
            data = self._fetch(group.cta, group.threads, site, argument, parameter)
            wide = np.zeros((lanes.count, 8), np.uint8)
            wide[:, : data.shape[1]] = data[:, :8]
            values.append(wide.view(np.uint64)[:, 0])
        result = external(lanes, values)
        if result is None:
            return
        for target, formal in zip(site.results, declared.returns, strict=False):
            type = _type_of(formal)
            self._assign(group.cta, group.threads, site, target, type, _as_bytes(result)[:, : bytes_of(type)])

    def _enter(self, group: Group, site: _Site, callee: Placed, ins: Instruction) -> None:
        cta, function = group.cta, callee.function
        threads = group.threads
        if group.depth >= _DEEPEST:
            lanes = Lanes(cta, group.index, len(threads), ins)
            lanes.fault(FaultKind.OUT_OF_BOUNDS, f"{_DEEPEST} nested calls: the stack is full")
        if len(site.arguments) != len(function.parameters):
            site.decoder.unsupported(f"{len(site.arguments)} arguments for {len(function.parameters)} parameters")
        values = [
            self._fetch(cta, threads, site, a, p) for a, p in zip(site.arguments, function.parameters, strict=True)
        ]
        recursive = self._active(group.frame, callee)
        frame = cta.frame(group.frame, group.pc + 1, callee, recursive)
        for slot, row in frame.saved:
            row[threads] = cta.registers[slot][threads]
        if recursive:
            cta.activate(threads, 1)
        group.frame = frame
        group.pc = callee.start
        for parameter, value in zip(function.parameters, values, strict=True):
            self._put(cta, threads, callee, parameter, value)

    def _active(self, frame: Frame | None, callee: Placed) -> bool:
        while frame is not None:
            if frame.callee is callee:
                return True
            frame = frame.caller
        return False

    def _return(self, group: Group) -> None:
        frame, cta, threads = group.frame, group.cta, group.threads
        assert frame is not None
        function = frame.callee.function
        site = self._sites[frame.return_to - 1]
        values = [self._get(cta, threads, frame.callee, r) for r in function.returns]
        for slot, row in frame.saved:
            cta.registers[slot][threads] = row[threads]
        if frame.recursive:
            cta.activate(threads, -1)
        group.frame = frame.caller
        group.pc = frame.return_to
        for result, formal, value in zip(site.results, function.returns, values, strict=False):
            self._assign(cta, threads, site, result, _type_of(formal), value)

    def _assign(
        self, cta: Cta, threads: NDArray[np.intp], site: _Site, result: Operand, type: str, value: NDArray[np.uint8]
    ) -> None:
        """Write the bytes of a result, shape (threads, bytes), to where the call wants them."""
        if isinstance(result, Symbol):
            self._write_frame(cta, threads, result.variable, value)
        elif not isinstance(result, Sink):
            writer: Writer = site.decoder.writer(result, type)
            lanes = Lanes(cta, as_index(threads), len(threads), site.decoder.instruction)
            writer(lanes, _as_values(value, type))

    def _fetch(
        self, cta: Cta, threads: NDArray[np.intp], site: _Site, argument: Operand, parameter: Variable | Register
    ) -> NDArray[np.uint8]:
        """The bytes of an argument, shape (threads, bytes)."""
        if isinstance(argument, Symbol):
            return self._read_frame(cta, threads, argument.variable)
        type = _type_of(parameter)
        lanes = Lanes(cta, as_index(threads), len(threads), site.decoder.instruction)
        value = site.decoder.reader(argument, type)(lanes)
        return _as_bytes(np.broadcast_to(value, (len(threads), 2) if type == "b128" else (len(threads),)))

    def _put(
        self, cta: Cta, threads: NDArray[np.intp], callee: Placed, to: Variable | Register, value: NDArray[np.uint8]
    ) -> None:
        if isinstance(to, Variable):
            self._write_frame(cta, threads, to, value)
        else:
            cta.registers[callee.first_register + to.slot][threads] = _as_values(value, to.type)

    def _get(
        self, cta: Cta, threads: NDArray[np.intp], callee: Placed, source: Variable | Register
    ) -> NDArray[np.uint8]:
        if isinstance(source, Variable):
            return self._read_frame(cta, threads, source)
        return _as_bytes(cta.registers[callee.first_register + source.slot][threads])

    def _place(self, cta: Cta, threads: NDArray[np.intp], variable: Variable) -> NDArray[np.intp]:
        """Where the bytes of a variable of each thread are in its CTA's frames: shape (threads, bytes)."""
        address = self.program.address(variable)
        assert address is not None
        first = address - FRAME_WINDOW + cta.activation[threads] * self.program.frame_stride
        return (threads * (cta.frames.size // cta.padded) + first)[:, None] + np.arange(variable.size)

    def _read_frame(self, cta: Cta, threads: NDArray[np.intp], variable: Variable) -> NDArray[np.uint8]:
        return cta.frames.data[self._place(cta, threads, variable)]

    def _write_frame(self, cta: Cta, threads: NDArray[np.intp], variable: Variable, value: NDArray[np.uint8]) -> None:
        width = min(value.shape[1], variable.size)
        cta.frames.data[self._place(cta, threads, variable)[:, :width]] = value[:, :width]


def _type_of(formal: Variable | Register) -> str:
    """What a register must have that is an argument or a result: the type of the formal one, or the size of a `.param`."""
    return formal.type if isinstance(formal, Register) else f"b{8 * min(formal.size, 16)}"


def _as_bytes(values: Values) -> NDArray[np.uint8]:
    """Values, one or more to a thread, as shape (threads, bytes)."""
    return np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)


def _as_values(data: NDArray[np.uint8], type: str) -> Values:
    """The inverse: bits of `type` as registers hold them."""
    data = np.ascontiguousarray(data)
    if type == "pred":
        return data[:, 0].view(np.bool_)
    return data.view(np.uint64) if type == "b128" else data.view(f"u{data.shape[1]}")[:, 0]


def _list(operands: list[Operand]) -> tuple[Operand, ...]:
    """Take a parenthesised list off the front, if there is one."""
    if operands and isinstance(first := operands[0], Arguments):
        del operands[0]
        return first.elements
    return ()
