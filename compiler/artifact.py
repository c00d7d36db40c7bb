"""What is kept of a compilation: enough to launch it, and to show its code, without the compiler."""

# No postponed annotations: those of a record are read, and making them from text costs more than all else in here.

import json
from typing import NamedTuple

from tilec.backend.abi import KernelABI
from tilec.backend.records import decode, encode, parse
from tilec.diagnostics import Diagnostic

_LENGTH_BYTES = 4


class MachineCode(NamedTuple):
    """A cubin, and what ptxas said of it: registers a thread, bytes of spills and of stack."""

    cubin: bytes
    registers: int
    spill_stores: int
    spill_loads: int
    stack: int

    def __repr__(self) -> str:
        return f"<MachineCode of {len(self.cubin)} bytes>"


class Artifact(NamedTuple):
    """One kernel for one target and one class of tensors.

    `machine` is None where the driver has to assemble the PTX; `remarks` is what the passes told of their choices.
    """

    abi: KernelABI
    ptx: str
    machine: MachineCode | None
    remarks: tuple[Diagnostic, ...] = ()

    def __repr__(self) -> str:
        return f"<Artifact {self.abi.name} for {self.abi.target}>"

    def to_bytes(self) -> bytes:
        """A length, a JSON header, the PTX, the cubin."""
        ptx = self.ptx.encode()
        machine = None
        if self.machine is not None:
            machine = _Machine(
                self.machine.registers, self.machine.spill_stores, self.machine.spill_loads, self.machine.stack
            )
        header = json.dumps(encode(_Header(self.abi, len(ptx), machine, self.remarks))).encode()
        cubin = b"" if self.machine is None else self.machine.cubin
        return len(header).to_bytes(_LENGTH_BYTES, "little") + header + ptx + cubin

    @staticmethod
    def from_bytes(data: bytes) -> "Artifact":
        """The inverse of `to_bytes`. Raises ValueError for bytes that are none."""
        start = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "little")
        header = decode(_Header, parse(data[_LENGTH_BYTES:start]))
        end = start + header.ptx_bytes
        machine = None
        if header.machine is not None:
            said = header.machine
            machine = MachineCode(data[end:], said.registers, said.spill_stores, said.spill_loads, said.stack)
        return Artifact(header.abi, data[start:end].decode(), machine, header.remarks)


class _Machine(NamedTuple):
    registers: int
    spill_stores: int
    spill_loads: int
    stack: int


class _Header(NamedTuple):
    abi: KernelABI
    ptx_bytes: int
    machine: _Machine | None
    remarks: tuple[Diagnostic, ...]
