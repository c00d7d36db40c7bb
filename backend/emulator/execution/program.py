"""A module laid out for execution: one list of instructions, one numbering of registers, an address for each variable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilec.backend.emulator.memory.address_space import (
    FRAME_WINDOW,
    LOCAL_WINDOW,
    PARAM_WINDOW,
    GlobalMemory,
    GlobalSegment,
)
from tilec.backend.emulator.memory.shared import RESERVED
from tilec.backend.emulator.memory.unfenced import UnfencedGlobal
from tilec.backend.emulator.ptx.syntax import Function, Instruction, Module, Register, Variable
from tilec.diagnostics import SourceLocation, TilecError

if TYPE_CHECKING:
    from collections.abc import Iterable

FUNCTION_WINDOW = 6 << 32
"""Addresses of functions: the index of the first instruction, times 16."""


@dataclass(frozen=True)
class Placed:
    """A function in the program: where it starts, and what its register slots are added to."""

    function: Function
    start: int
    first_register: int


class Program:
    """All that is the same for each CTA of a launch."""

    def __init__(self, module: Module, kernel: Function, memory: GlobalMemory) -> None:
        self.module = module
        self.kernel = kernel
        self.instructions: list[Instruction] = []
        self.owners: list[Placed] = []
        self.functions: dict[str, Placed] = {}
        self.registers: list[str] = []
        self.local_bytes = 0
        self.frame_bytes = 0
        self.static_shared = 0
        self._memory = memory
        self._segments: dict[Variable, GlobalSegment] = {}
        self._addresses: dict[Variable, int] = {}
        self._dynamic: list[Variable] = []
        self._place_module_variables()
        for function in module.functions.values():
            if function.body is not None and (function is kernel or not function.entry):
                self._place(function)
        self.parameter_bytes = self._place_parameters(kernel.parameters)
        alignment = max((v.align for v in self._dynamic), default=1)
        self.dynamic_offset = -(-(RESERVED + self.static_shared) // alignment) * alignment
        for variable in self._dynamic:
            self._addresses[variable] = self.dynamic_offset
        self.uses_async_proxy = any(
            i.parts[0] in ("wgmma", "tcgen05") or i.parts[:3] in (("cp", "async", "bulk"), ("cp", "reduce", "async"))
            for i in self.instructions
        )
        if any(_reads_global_memory(i) for i in self.instructions) and any(
            _writes_memory(i) for i in self.instructions
        ):
            memory.unfenced = UnfencedGlobal()
        self._fill()

    def _place(self, function: Function) -> None:
        placed = Placed(function, len(self.instructions), len(self.registers))
        self.functions[function.name] = placed
        assert function.body is not None
        # A body may end without a `ret`, or with a label.
        last = function.body[-1].line if function.body else function.line
        body = (*function.body, Instruction(("ret",), (), None, last, 1, "ret"))
        self.instructions += body
        self.owners += [placed] * len(body)
        self.registers += [r.type for r in function.registers]
        if not function.entry:
            frame = [v for v in (*function.parameters, *function.returns) if isinstance(v, Variable)]
            self._place_frame(frame)
        for variable in function.variables:
            match variable.space:
                case "param":
                    self._place_frame([variable])
                case "local":
                    self._place_local(variable)
                case "shared":
                    self._place_shared(variable)
                case "global" | "const":
                    self._place_in_memory(variable)

    def _place_frame(self, variables: Iterable[Variable]) -> None:
        for variable in variables:
            offset = -(-self.frame_bytes // max(variable.align, 16)) * max(variable.align, 16)
            self._addresses[variable] = FRAME_WINDOW + offset
            self.frame_bytes = offset + max(variable.size, 16)

    def _place_local(self, variable: Variable) -> None:
        offset = -(-self.local_bytes // variable.align) * variable.align
        self._addresses[variable] = LOCAL_WINDOW + offset
        self.local_bytes = offset + variable.size

    def _place_shared(self, variable: Variable) -> None:
        if variable.external and variable.size == 0:
            self._dynamic.append(variable)
            return
        offset = -(-(RESERVED + self.static_shared) // variable.align) * variable.align
        self._addresses[variable] = offset
        self.static_shared = offset + variable.size - RESERVED

    def _place_parameters(self, parameters: Iterable[Variable | Register]) -> int:
        end = 0
        for parameter in parameters:
            assert isinstance(parameter, Variable)
            offset = -(-end // parameter.align) * parameter.align
            self._addresses[parameter] = PARAM_WINDOW + offset
            end = offset + parameter.size
        return end

    def _place_module_variables(self) -> None:
        for variable in self.module.variables.values():
            if variable.space == "shared":
                self._place_shared(variable)
            elif not variable.external or variable.initial is not None:
                self._place_in_memory(variable)

    def _place_in_memory(self, variable: Variable) -> None:
        """Give a variable of global or constant memory a segment; one inside a function lives as long as the module too."""
        segment = self._memory.allocate(f"variable {variable.name}", variable.size, constant=variable.space == "const")
        self._segments[variable] = segment
        self._addresses[variable] = segment.address

    def _fill(self) -> None:
        """Write the initial values, addresses of other variables and functions among them."""
        for variable, segment in self._segments.items():
            if variable.initial is None:
                continue
            segment.data[: len(variable.initial)] = np.frombuffer(variable.initial, np.uint8)
            for relocation in variable.relocations:
                value = (self._symbol(relocation.symbol, variable) + relocation.addend) & relocation.mask
                encoded = ((value >> relocation.shift) & ((1 << 8 * relocation.width) - 1)).to_bytes(
                    relocation.width, "little"
                )
                end = relocation.offset + relocation.width
                segment.data[relocation.offset : end] = np.frombuffer(encoded, np.uint8)

    def _symbol(self, name: str, user: Variable) -> int:
        if name in self.functions:
            return self.function_address(name)
        variable = self.module.variables.get(name)
        if variable is None or variable not in self._addresses:
            raise TilecError(
                f"{name}, in the initial value of {user.name}, is defined nowhere in the module",
                SourceLocation(self.module.file, user.line, 1),
            )
        return self._addresses[variable]

    @property
    def has_dynamic_shared(self) -> bool:
        """Whether the size of shared memory is the launch's to say."""
        return bool(self._dynamic)

    @property
    def local_stride(self) -> int:
        """Bytes of local memory of one thread, in one activation."""
        return -(-self.local_bytes // 16) * 16

    @property
    def frame_stride(self) -> int:
        """Bytes of `.param` variables of one thread, in one activation."""
        return -(-self.frame_bytes // 16) * 16

    def address(self, variable: Variable) -> int | None:
        """The address of a variable: a shared one within its CTA's window, others generic. None if it is defined nowhere."""
        return self._addresses.get(variable)

    def find_function(self, name: str) -> Placed | None:
        """A function with a body, by its name or an alias of it."""
        return self.functions.get(self.module.aliases.get(name, name))

    def function_address(self, name: str) -> int:
        return FUNCTION_WINDOW + self.functions[self.module.aliases.get(name, name)].start * 16


def _reads_global_memory(ins: Instruction) -> bool:
    """Whether an instruction reads global memory through the async proxy: a bulk copy to shared memory."""
    parts = ins.parts
    if parts[:3] != ("cp", "async", "bulk") or "global" not in parts:
        return False
    return any(p.startswith("shared") for p in parts[: parts.index("global")])


def _writes_memory(ins: Instruction) -> bool:
    """Whether an instruction of a thread may write global memory."""
    return ins.parts[0] in ("st", "red", "atom") and not any(
        p.startswith(("shared", "param", "local")) for p in ins.parts
    )
