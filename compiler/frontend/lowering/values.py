"""What an expression of a kernel can be: a compile-time value, a run-time value, or a thing of the language.

Compile-time values are Python's own. Everything else is a `Thing`; those that exist on the GPU are `RunTime`, with one class
for each type of the dialect.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar, TypeAlias

from xdsl.dialects.builtin import IndexType, IntegerType, i1, i32
from xdsl.ir import Attribute, SSAValue

from tilec.dialects.tile import AccType, DType, MbarrierType, RegType, RingType, SmemType, ViewType


class Thing:
    """A value that is not one of Python's constants."""

    noun: ClassVar[str]
    """What values of this class are, for a message: "a view"."""

    @property
    def kind(self) -> str:
        """What this one is, for a message."""
        return self.noun


Constant: TypeAlias = "int | float | bool | str | DType | None"
Value: TypeAlias = "Constant | Thing | tuple[Value, ...]"


class Several(Thing):
    """A thing that can be unpacked."""

    @property
    def items(self) -> tuple[Value, ...]:
        raise NotImplementedError


@dataclass(frozen=True)
class RunTime(Thing):
    """A value that the kernel computes with: one SSA value."""

    value: SSAValue


@dataclass(frozen=True)
class View(RunTime):
    """A global tensor."""

    noun: ClassVar[str] = "a view"

    @property
    def type(self) -> ViewType:
        assert isinstance(self.value.type, ViewType)
        return self.value.type


@dataclass(frozen=True)
class Place(Thing):
    """A view at offsets."""

    noun: ClassVar[str] = "a view at offsets"

    view: View
    offsets: tuple[SSAValue, ...]


@dataclass(frozen=True)
class Smem(RunTime):
    """A shared tile."""

    noun: ClassVar[str] = "a shared tile"

    @property
    def type(self) -> SmemType:
        assert isinstance(self.value.type, SmemType)
        return self.value.type


@dataclass(frozen=True)
class Acc(RunTime):
    """An accumulator."""

    noun: ClassVar[str] = "an accumulator"

    @property
    def type(self) -> AccType:
        assert isinstance(self.value.type, AccType)
        return self.value.type


@dataclass(frozen=True)
class Reg(RunTime):
    """A register tile."""

    noun: ClassVar[str] = "a register tile"

    @property
    def type(self) -> RegType:
        assert isinstance(self.value.type, RegType)
        return self.value.type


@dataclass(frozen=True)
class Ring(RunTime):
    """A ring of shared tiles."""

    noun: ClassVar[str] = "a ring"

    @property
    def type(self) -> RingType:
        assert isinstance(self.value.type, RingType)
        return self.value.type


@dataclass(frozen=True)
class Barrier(RunTime):
    """An array of mbarriers."""

    noun: ClassVar[str] = "an mbarrier"

    @property
    def type(self) -> MbarrierType:
        assert isinstance(self.value.type, MbarrierType)
        return self.value.type


@dataclass(frozen=True)
class Scalar(RunTime):
    """A number or a condition that is known at run time: `index`, `i32` or `i1`."""

    noun: ClassVar[str] = "a run-time number"

    @property
    def type(self) -> Attribute:
        return self.value.type

    @property
    def is_condition(self) -> bool:
        return is_condition(self.type)

    @property
    def kind(self) -> str:
        return "a run-time condition" if self.is_condition else f"a run-time {self.type}"


def is_condition(type: Attribute) -> bool:
    return type == i1


def is_number(type: Attribute) -> bool:
    """Whether it is the type of a run-time number that is no condition."""
    return type in (IndexType(), i32)


@dataclass(frozen=True)
class Facts(Thing):
    """What a view's annotation says of its place in memory, as `ViewType` has it."""

    noun: ClassVar[str] = "facts of a view"

    order: tuple[int, ...] | None = None
    align: int = 16
    tail: str = "grid"


@dataclass(frozen=True)
class Word(Thing):
    """A word of the vocabulary, by its dotted name in `tilec.frontend.tile`; also a name with words behind it ("mbarrier")."""

    name: str

    @property
    def kind(self) -> str:
        return f"the word tile.{self.name}"


@dataclass(frozen=True)
class Method(Thing):
    """A method of a value, not called yet."""

    noun: ClassVar[str] = "a method"

    owner: Value
    name: str

    @property
    def kind(self) -> str:
        return f"the method {self.name}"


@dataclass(frozen=True)
class Module(Thing):
    """A Python module, found as `path` in the helper that `within` leads to (see `reads.Read`), wherever it is used."""

    noun: ClassVar[str] = "a module"

    module: ModuleType
    within: tuple[str, ...]
    path: str

    @property
    def kind(self) -> str:
        return f"the module {self.module.__name__}"


@dataclass(frozen=True)
class Helper(Thing):
    """A Python function from outside of the kernel, found as `path` in the helper that `within` leads to, wherever it is called."""

    noun: ClassVar[str] = "a function"

    callable: Any
    within: tuple[str, ...]
    path: str

    @property
    def kind(self) -> str:
        return f"the function {self.callable.__name__}"


@dataclass(frozen=True)
class Builtin(Thing):
    """A function of Python that compile-time values may be given to: "len"."""

    name: str

    @property
    def kind(self) -> str:
        return f"Python's {self.name}"


_CLASSES: dict[type[Attribute], type[RunTime]] = {
    ViewType: View,
    SmemType: Smem,
    AccType: Acc,
    RegType: Reg,
    RingType: Ring,
    MbarrierType: Barrier,
    IndexType: Scalar,
    IntegerType: Scalar,
}
_KINDS: dict[type[object], str] = {
    bool: "a bool",
    int: "an integer",
    float: "a float",
    str: "a string",
    DType: "an element type",
    tuple: "a tuple",
    type(None): "None",
}


def run_time(value: SSAValue) -> RunTime:
    """An SSA value in the class of its type."""
    return _CLASSES[type(value.type)](value)


def hint(value: SSAValue, name: str | None) -> None:
    """Name a value as the program does, if names in the text of modules can be such: theirs are of ASCII letters."""
    value.name_hint = name if SSAValue.is_valid_name(name) else None


def kind(value: Value) -> str:
    """What a value is, for a message."""
    return value.kind if isinstance(value, Thing) else _KINDS[type(value)]


def is_constant(value: Value) -> bool:
    """Whether it is known at compile time, through and through."""
    return all(map(is_constant, value)) if isinstance(value, tuple) else not isinstance(value, Thing)
