"""What a PTX module says, as data: functions of instructions, variables, and the tables that control flow needs.

The parser makes these; nothing here knows what an instruction does. Names are resolved: a register is one `Register` object
for its scope, a label is an index into the function's body, a symbol is the `Variable` or the name of a function.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Space = Literal["global", "const", "shared", "local", "param"]


@dataclass(frozen=True, slots=True)
class SourceLine:
    """Where the program that was compiled to PTX says it, by `.loc` (PTX 11.5.4). `inlined_at`: the call it was inlined into."""

    file: str
    line: int
    column: int
    inlined_at: SourceLine | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Register:
    """One declared scalar register; `slot` numbers the registers of its function from 0. An element of a `.v2` or `.v4` register
    is a register of its own, named ``q.x``. `type` is without the dot: b32, f64, pred, b128."""

    name: str
    type: str
    slot: int


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer constant or constant expression (PTX 4.5): 64-bit two's complement as a Python int in [-2^63, 2^64)."""

    value: int


@dataclass(frozen=True, slots=True)
class Float:
    """A floating constant: the IEEE bits, and their width: 32 for ``0f3F800000``, 64 for ``0d...`` and decimal forms."""

    bits: int
    width: Literal[32, 64]


@dataclass(frozen=True, slots=True)
class Special:
    """A special register: ``%tid.x`` has name "%tid" and component "x"; ``%laneid`` has no component."""

    name: str
    component: str = ""


@dataclass(frozen=True, slots=True)
class Symbol:
    """The address of a variable plus `offset` bytes."""

    variable: Variable
    offset: int = 0


@dataclass(frozen=True, slots=True)
class FunctionName:
    """A function that is called, or whose address is taken."""

    name: str


@dataclass(frozen=True, slots=True)
class Label:
    """A place in the function's body: the index of the instruction that follows it."""

    name: str
    target: int


@dataclass(frozen=True, slots=True)
class Table:
    """A labelled `.branchtargets`, `.calltargets` or `.callprototype`. `labels` is filled for the first, `functions` for the second,
    `returns` and `parameters` (as declared there) for the third."""

    name: str
    labels: tuple[Label, ...] = ()
    functions: tuple[str, ...] = ()
    returns: tuple[Variable, ...] = ()
    parameters: tuple[Variable, ...] = ()


@dataclass(frozen=True, slots=True)
class Sink:
    """``_``: a result that is not wanted, or an operand that is left out."""


@dataclass(frozen=True, slots=True)
class Not:
    """``!p``"""

    register: Register


@dataclass(frozen=True, slots=True)
class Part:
    """``a.b1``, ``a.h10``, ``-a``: what a video instruction (PTX 9.7.18) takes of a register. `selector` names bytes or halves,
    as written; it is "" for the whole register."""

    register: Register
    selector: str = ""
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Vector:
    """``{a, b, c, d}``, or the name of a vector register."""

    elements: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """``p|q``: two results."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Address:
    """``[base + offset]``; `coordinates` for ``[map, {c0, c1}]``. The base of ``[16]`` is `Integer(0)`."""

    base: Register | Symbol | Integer | FunctionName
    offset: int = 0
    coordinates: Vector | None = None


@dataclass(frozen=True, slots=True)
class Arguments:
    """A parenthesised list of a `call`."""

    elements: tuple[Operand, ...]


Operand = (
    Register
    | Integer
    | Float
    | Special
    | Symbol
    | FunctionName
    | Label
    | Table
    | Sink
    | Not
    | Part
    | Vector
    | Pair
    | Address
    | Arguments
)


@dataclass(frozen=True, slots=True)
class Guard:
    """``@p`` or ``@!p``."""

    register: Register
    negated: bool


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction. `parts` is the opcode split at its dots: ``("ld", "shared::cta", "v4", "b32")``. `line` and `column` count
    from 1 in the PTX text, at the opcode (not at the guard). `text` is the instruction as written, in one line."""

    parts: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Guard | None
    line: int
    column: int
    text: str
    source: SourceLine | None = None

    @property
    def opcode(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True, slots=True)
class Relocation:
    """An address in a variable's initial bytes: `width` bytes at `offset` hold (symbol + addend) & mask >> shift. A symbol is a
    variable of the module or a function, by name; `generic` asks for its generic address."""

    offset: int
    width: int
    symbol: str
    addend: int = 0
    generic: bool = False
    mask: int = (1 << 64) - 1
    shift: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Variable:
    """A variable, or a parameter, in memory. `size` in bytes, 0 for an unsized `.extern` array; compared by identity."""

    name: str
    space: Space
    type: str
    align: int
    size: int
    external: bool = False
    initial: bytes | None = None
    relocations: tuple[Relocation, ...] = ()
    line: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """An `.entry` or a `.func`. `body` is None for a declaration. `directives` holds the numbers of the performance-tuning and
    cluster directives by name without the dot: {"reqntid": (128, 1, 1), "reqnctapercluster": (2,), "maxnreg": (64,)}; those
    without numbers ("explicitcluster", "noreturn") hold ()."""

    name: str
    entry: bool
    parameters: tuple[Variable | Register, ...]
    returns: tuple[Variable | Register, ...]
    body: tuple[Instruction, ...] | None
    registers: tuple[Register, ...] = ()
    variables: tuple[Variable, ...] = ()
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    line: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """A PTX module. `file` names the text in messages; `target` is the first name after `.target`: sm_90a."""

    file: str
    version: tuple[int, int]
    target: str
    address_size: int
    functions: dict[str, Function]
    variables: dict[str, Variable]
    aliases: dict[str, str] = field(default_factory=dict[str, str])
