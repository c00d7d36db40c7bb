"""From an instruction to a function that executes it: operands become readers and writers of registers, once.

A family of instructions registers builders with `instruction`. A builder looks at the modifiers, every one of them, makes
readers and writers for the operands and returns what executes the instruction for any set of lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NoReturn

import numpy as np

from tilec.backend.emulator.execution import special
from tilec.backend.emulator.execution.lanes import Execute, Lanes
from tilec.backend.emulator.faults import UnsupportedInstruction
from tilec.backend.emulator.memory.address_space import FRAME_WINDOW, SHARED_WINDOW
from tilec.backend.emulator.numbers.types import Values, bytes_of, dtype_of, is_signed
from tilec.backend.emulator.ptx.syntax import (
    Address,
    Float,
    FunctionName,
    Instruction,
    Integer,
    Not,
    Operand,
    Register,
    Sink,
    Special,
    Symbol,
    Variable,
    Vector,
)

if TYPE_CHECKING:
    from tilec.backend.emulator.execution.program import Placed, Program

Reader = Callable[[Lanes], Values]
"""The operand's values, shape (lanes,), or () if they are the same for all lanes. May be a view of the registers: do not write."""
Writer = Callable[[Lanes, Values], None]
"""Writes values, shape (lanes,) or ()."""

Scope = Literal["warp", "warpgroup", "mask"]


@dataclass(frozen=True)
class Together:
    """Executes an instruction only once all its participants have arrived at it: `warp`, all threads of the warp that have not
    exited (`.aligned`); `warpgroup`, those of the four warps; `mask`, those that the operand `mask` names in its warp."""

    execute: Execute
    scope: Scope
    mask: Reader | None = None


Builder = Callable[["Decoder"], Execute | Together]

BUILDERS: dict[str, Builder] = {}
"""By opcode, or the first parts of one, joined by dots; the longest that fits is taken."""


def instruction(*opcodes: str) -> Callable[[Builder], Builder]:
    """Registers the builder of the instructions whose opcode begins with one of `opcodes`."""

    def register(builder: Builder) -> Builder:
        for opcode in opcodes:
            assert opcode not in BUILDERS, opcode
            BUILDERS[opcode] = builder
        return builder

    return register


def find_builder(parts: tuple[str, ...]) -> tuple[Builder, int] | None:
    """The builder for an opcode, and how many of its parts named it."""
    for count in range(len(parts), 0, -1):
        if (found := BUILDERS.get(".".join(parts[:count]))) is not None:
            return found, count
    return None


class Decoder:
    """What a builder needs of one instruction. `modifiers` are the parts of the opcode that no `take` has consumed yet."""

    def __init__(self, program: Program, owner: Placed, ins: Instruction, named: int) -> None:
        self.program = program
        self.owner = owner
        self.instruction = ins
        self.operands = ins.operands
        self.modifiers = list(ins.parts[named:])

    # Modifiers.

    def take(self, *names: str) -> str | None:
        """Consume the first modifier that is one of `names`; None if there is none."""
        for at, modifier in enumerate(self.modifiers):
            if modifier in names:
                return self.modifiers.pop(at)
        return None

    def take_type(self) -> str:
        """Consume the last modifier that is a type; others may follow it."""
        from tilec.backend.emulator.numbers.types import is_type

        for at in reversed(range(len(self.modifiers))):
            if is_type(self.modifiers[at]):
                return self.modifiers.pop(at)
        self.unsupported("no type that the emulator knows")

    def finish(self) -> None:
        """All modifiers must have been consumed: what is left is a form that nobody looked at."""
        if self.modifiers:
            self.unsupported(f"the emulator does not know .{self.modifiers[0]} here")

    def unsupported(self, why: str = "the emulator does not know this form") -> NoReturn:
        raise UnsupportedInstruction(self.program.module.file, self.instruction, why)

    def count(self, *allowed: int) -> int:
        """The number of operands, which must be one of `allowed`."""
        if len(self.operands) not in allowed:
            self.unsupported(f"{len(self.operands)} operands, not {' or '.join(map(str, allowed))}")
        return len(self.operands)

    # Operands.

    def slot(self, register: Register) -> int:
        return self.owner.first_register + register.slot

    def reader(self, operand: Operand, type: str) -> Reader:
        """Reads an operand as `type`. Of a wider register the low bits count; a narrower one is extended by the sign of `type`."""
        dtype = dtype_of(type)
        match operand:
            case Register():
                return self._register_reader(operand, type)
            case Not():
                if type != "pred":
                    self.unsupported(f"the negated predicate {operand.register.name} is no .{type}")
                slot = self.slot(operand.register)
                return lambda lanes: ~lanes.cta.registers[slot][lanes.index]
            case Integer():
                if type == "b128":
                    both = np.array([operand.value & (2**64 - 1), (operand.value >> 64) & (2**64 - 1)], np.uint64)
                    return lambda lanes: both
                return _constant(_integer_bits(operand.value, type, dtype))
            case Float():
                return _constant(_float_bits(operand, type, dtype, self))
            case Special():
                return special.reader(self, operand, dtype)
            case Symbol() | FunctionName():
                return self._symbol_reader(operand, dtype)
            case Vector():
                return self._packed_reader(operand, type)
            case _:
                self.unsupported("an operand of a kind that this instruction does not have")

    def _register_reader(self, register: Register, type: str) -> Reader:
        slot = self.slot(register)
        if register.type == "pred" or type == "pred":
            if register.type != type:
                self.unsupported(f"register {register.name} is .{register.type}, not .{type}")
            return lambda lanes: lanes.cta.registers[slot][lanes.index]
        dtype, held, wanted = dtype_of(type), bytes_of(register.type), bytes_of(type)
        if wanted == 16:
            if held != 16:
                self.unsupported(f"register {register.name} is .{register.type}, not .{type}")
            return lambda lanes: lanes.cta.registers[slot][lanes.index]
        if held == wanted:
            if dtype == _unsigned(held):
                return lambda lanes: lanes.cta.registers[slot][lanes.index]
            return lambda lanes: lanes.cta.registers[slot][lanes.index].view(dtype)
        if held > wanted:
            bits = _unsigned(wanted)
            if held == 16:
                return lambda lanes: lanes.cta.registers[slot][lanes.index, 0].astype(bits).view(dtype)
            return lambda lanes: lanes.cta.registers[slot][lanes.index].astype(bits).view(dtype)
        if is_signed(type):
            narrow = np.dtype(f"i{held}")
            return lambda lanes: lanes.cta.registers[slot][lanes.index].view(narrow).astype(dtype)
        return lambda lanes: lanes.cta.registers[slot][lanes.index].astype(_unsigned(wanted)).view(dtype)

    def _symbol_reader(self, operand: Symbol | FunctionName, dtype: np.dtype[np.generic]) -> Reader:
        """The address of a variable; of a shared one it has the rank of the CTA (a shared address, not a generic one)."""
        if isinstance(operand, FunctionName):
            if self.program.find_function(operand.name) is None:
                self.unsupported(f"function {operand.name} has no body in this module")
            return _constant(np.uint64(self.program.function_address(operand.name)).astype(dtype))
        address = self.program.address(operand.variable)
        if address is None:
            self.unsupported(f"variable {operand.variable.name} is defined in another module")
        value = np.array(address + operand.offset & (2**64 - 1), np.uint64)
        if operand.variable.space == "shared":
            return lambda lanes: (value | np.uint64(lanes.cta.rank << 24)).astype(dtype)
        stride = self._activation_stride(operand.variable, address)
        if stride:
            return lambda lanes: (value + (lanes.cta.activation[lanes.index] * stride).view(np.uint64)).astype(dtype)
        return _constant(np.uint64(address + operand.offset & (2**64 - 1)).astype(dtype))

    def _activation_stride(self, variable: Variable, address: int) -> int:
        """By how much the variable's address differs from one activation of its function to the next."""
        if len(self.program.functions) == 1:
            return 0
        if variable.space == "local":
            return self.program.local_stride
        return self.program.frame_stride if address >> 32 == FRAME_WINDOW >> 32 else 0

    def _packed_reader(self, vector: Vector, type: str) -> Reader:
        """``{lo, hi}`` as one value: the elements side by side, the first lowest."""
        width = bytes_of(type) // (len(vector.elements) or 1)
        if width * len(vector.elements) != bytes_of(type) or width not in (1, 2, 4, 8):
            self.unsupported(f"{len(vector.elements)} elements do not make a .{type}")
        parts = [self.reader(e, f"b{width * 8}") for e in vector.elements]
        dtype, bits = dtype_of(type), _unsigned(width)

        def read(lanes: Lanes) -> Values:
            packed = np.empty((lanes.count, len(parts)), bits)
            for at, part in enumerate(parts):
                packed[:, at] = part(lanes)
            return packed.view(np.uint64) if type == "b128" else packed.view(dtype)[:, 0]

        return read

    def writer(self, operand: Operand, type: str) -> Writer:
        """Writes an operand of `type`. A wider register is filled up by the sign of `type`."""
        match operand:
            case Register():
                return self._register_writer(operand, type)
            case Sink():
                return lambda lanes, values: None
            case Vector():
                return self._packed_writer(operand, type)
            case _:
                self.unsupported("a result that is no register")

    def _register_writer(self, register: Register, type: str) -> Writer:
        slot = self.slot(register)
        if (register.type == "pred") != (type == "pred"):
            self.unsupported(f"register {register.name} is .{register.type}, not .{type}")
        held, given = (1, 1) if type == "pred" else (bytes_of(register.type), bytes_of(type))
        bits = np.dtype(np.bool_) if type == "pred" else _unsigned(min(given, 8))
        if given > held:
            self.unsupported(f"register {register.name} is .{register.type}, narrower than .{type}")
        if held > given:
            narrow = np.dtype(f"i{given}") if is_signed(type) else bits
            wide = np.dtype(np.int64 if is_signed(type) else np.uint64)

            def extend(lanes: Lanes, values: Values) -> None:
                extended = np.asarray(values).view(narrow).astype(wide).view(np.uint64)
                if held == 16:
                    row = lanes.cta.registers[slot]
                    row[lanes.index, 0] = extended
                    row[lanes.index, 1] = (
                        np.where(extended.view(np.int64) < 0, np.uint64(2**64 - 1), 0) if is_signed(type) else 0
                    )
                else:
                    lanes.cta.registers[slot][lanes.index] = extended.astype(_unsigned(held))

            return extend

        def write(lanes: Lanes, values: Values) -> None:
            lanes.cta.registers[slot][lanes.index] = values if values.dtype == bits else values.view(bits)

        return write

    def _packed_writer(self, vector: Vector, type: str) -> Writer:
        width = bytes_of(type) // (len(vector.elements) or 1)
        if width * len(vector.elements) != bytes_of(type) or width not in (1, 2, 4, 8):
            self.unsupported(f"{len(vector.elements)} elements do not take a .{type}")
        parts = [self.writer(e, f"b{width * 8}") for e in vector.elements]
        bits = _unsigned(width)

        def write(lanes: Lanes, values: Values) -> None:
            if type == "b128":
                whole = np.broadcast_to(values, (lanes.count, 2))
            else:
                whole = np.broadcast_to(values, (lanes.count,))[:, None]
            split = np.ascontiguousarray(whole).view(bits)
            for at, part in enumerate(parts):
                part(lanes, np.ascontiguousarray(split[:, at]))

        return write

    def elements(self, operand: Operand) -> tuple[Operand, ...]:
        """The elements of a vector operand; another operand is its own only element."""
        return operand.elements if isinstance(operand, Vector) else (operand,)

    def address(self, operand: Operand) -> Reader:
        """The address that ``[base + offset]`` names, as uint64, shape (lanes,) or (). In which space is the instruction's to say."""
        if not isinstance(operand, Address):
            self.unsupported("an operand that is no address")
        base = operand.base
        if isinstance(base, Symbol):
            return self.reader(Symbol(base.variable, base.offset + operand.offset), "u64")
        if isinstance(base, Register) and bytes_of(base.type) == 4:
            read, offset = self.reader(base, "u32"), np.uint32(operand.offset & 0xFFFFFFFF)
            return lambda lanes: (read(lanes) + offset).astype(np.uint64)
        read64, offset64 = self.reader(base, "u64"), np.uint64(operand.offset & (2**64 - 1))
        return (lambda lanes: read64(lanes) + offset64) if operand.offset else read64

    def names_shared(self, operand: Operand) -> bool:
        """Whether an address operand is a shared variable by name: its address is a shared one in every space."""
        return (
            isinstance(operand, Address)
            and isinstance(operand.base, Symbol)
            and operand.base.variable.space == "shared"
        )

    def shared_address(self, operand: Operand, space: str | None) -> Reader:
        """Like `address`, for operands that must lie in shared memory: what a generic address (`space` None) names there, as a
        32-bit shared address with the rank of the CTA in its top byte, as uint64."""
        read = self.address(operand)
        if space is not None or self.names_shared(operand):
            return read

        def from_generic(lanes: Lanes) -> Values:
            addresses = read(lanes)
            if ((addresses >> np.uint64(32)) != np.uint64(SHARED_WINDOW >> 32)).any():
                from tilec.backend.emulator.faults import FaultKind

                lanes.fault(FaultKind.OUT_OF_BOUNDS, "a generic address that does not lie in shared memory")
            return addresses & np.uint64(0xFFFFFFFF)

        return from_generic


def _unsigned(width: int) -> np.dtype[np.unsignedinteger]:
    return np.dtype(f"u{min(width, 8)}")


def _constant(value: np.generic) -> Reader:
    array = np.array(value)
    array.flags.writeable = False
    return lambda lanes: array


def _integer_bits(value: int, type: str, dtype: np.dtype[np.generic]) -> np.generic:
    if type == "pred":
        return np.bool_(value != 0)
    width = dtype.itemsize
    return np.frombuffer((value & ((1 << 8 * width) - 1)).to_bytes(width, "little"), dtype)[0]


def _float_bits(operand: Float, type: str, dtype: np.dtype[np.generic], decoder: Decoder) -> np.generic:
    """A floating constant for an operand of `type`: single and double convert into one another, bits are taken as they are."""
    value = np.frombuffer(operand.bits.to_bytes(operand.width // 8, "little"), f"f{operand.width // 8}")[0]
    match type:
        case "f32" | "f64" | "f16":
            with np.errstate(over="ignore", invalid="ignore"):
                return value.astype(dtype)
        case "b32" | "u32" | "s32" | "b64" | "u64" | "s64" | "b16" | "u16":
            wanted = np.dtype(f"f{dtype.itemsize}")
            with np.errstate(over="ignore", invalid="ignore"):
                return value.astype(wanted).view(dtype)
        case _:
            decoder.unsupported(f"a floating constant for a .{type}")
