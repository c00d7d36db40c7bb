"""The body of a function: blocks, labels, declarations and instructions (PTX 4.3, 11.3)."""

from __future__ import annotations

from dataclasses import replace

from tilec.backend.emulator.ptx.constants import SHIFT, integer
from tilec.backend.emulator.ptx.declarations import LINKAGE, SPACES, parameters, registers, variables
from tilec.backend.emulator.ptx.lexer import END, Cursor, is_name, shown
from tilec.backend.emulator.ptx.lines import SourceLines
from tilec.backend.emulator.ptx.operands import arguments, named, operand, predicate
from tilec.backend.emulator.ptx.scopes import RegisterFile, Scope
from tilec.backend.emulator.ptx.syntax import (
    Address,
    FunctionName,
    Guard,
    Instruction,
    Label,
    Operand,
    Symbol,
    Table,
    Variable,
)
from tilec.backend.emulator.ptx.types import SIZES

_TAKE_ADDRESS = ("mov", "cvta")
"""Instructions for which ``a[1]`` (PTX 6.4.2) is an address; for all others it is what stands there."""
# What stands before a name in '?:', where a ':' makes no label of it.
_OPERATORS = frozenset(("?", "+", "-", "*", "/", "%", "<<", ">>", "<", ">", "&", "|", "^", "&&", "||", "!", "~", "("))


class BodyParser:
    """Reads the body of one function.

    A label may be used before it stands: until the end of the function, it is a `Label` whose target is -1 - k for the k-th of
    the function, in the scope of its block.
    """

    def __init__(self, cursor: Cursor, lines: SourceLines, registers: RegisterFile) -> None:
        self._cursor = cursor
        self._lines = lines
        self._registers = registers
        self._labels: dict[int, list[str]] = {}
        self._places: list[Label | Table | None] = []
        self._uses: list[int] = []
        self.instructions: list[Instruction] = []
        self.variables: list[Variable] = []

    def read(self, scope: Scope) -> tuple[Instruction, ...]:
        """Take the body with its braces; `scope`, which holds the parameters, is that of its outermost block."""
        self._find_labels()
        self._block(scope)
        for index in self._uses:
            instruction = self.instructions[index]
            operands = tuple(self._resolved(item) for item in instruction.operands)
            self.instructions[index] = replace(instruction, operands=operands)
        return tuple(self.instructions)

    def _find_labels(self) -> None:
        """Note the names of the labels of every block, by the offset of its '{' in the text."""
        texts, starts = self._cursor.texts, self._cursor.starts
        open_blocks: list[list[str]] = []
        for at in range(self._cursor.at, len(texts)):
            text = texts[at]
            if text == "{":
                open_blocks.append(labels := [])
                self._labels[starts[at]] = labels
            elif text == "}":
                open_blocks.pop()
                if not open_blocks:
                    return
            elif text == ":" and texts[at - 2] not in _OPERATORS and is_name(texts[at - 1]):
                open_blocks[-1].append(texts[at - 1])

    def _block(self, scope: Scope) -> None:
        cursor, begin = self._cursor, self._cursor.at
        for name in self._labels.get(cursor.starts[begin], ()):
            if name not in scope.names:
                scope.names[name] = Label(name, -1 - len(self._places))
                self._places.append(None)
        cursor.at += 1
        while not cursor.accept("}"):
            text = cursor.peek()
            if text == END:
                cursor.fail("this '{' is never closed", "write '}' at the end of the block", at=begin)
            elif text == "{":
                self._block(Scope(scope, self._registers))
            elif text[0] == ".":
                self._directive(scope, text)
            elif cursor.texts[cursor.at + 1] == ":":
                self._label(scope)
            elif text != ";":
                self._instruction(scope)
            else:
                cursor.at += 1

    def _directive(self, scope: Scope, text: str) -> None:
        cursor = self._cursor
        if text == ".loc":
            self._lines.loc(cursor)
        elif text == ".reg":
            registers(cursor, scope)
        elif text in SPACES:
            self.variables += variables(cursor, scope)
        elif text in LINKAGE and cursor.texts[cursor.at + 1] in SPACES:
            cursor.at += 1
            self.variables += variables(cursor, scope, external=text == ".extern")
        elif text == ".pragma":
            while cursor.take() not in (";", END):
                pass
        elif text in (".branchtargets", ".calltargets", ".callprototype"):
            cursor.fail(f"'{text}' needs a label", f"write 'name: {text} ...;'")
        else:
            cursor.fail(f"'{text}' cannot stand in a function")

    def _label(self, scope: Scope) -> None:
        cursor, at = self._cursor, self._cursor.at
        name = cursor.name("a label")
        cursor.at += 1
        declared = scope.names.get(name)
        if not isinstance(declared, Label):
            cursor.fail(f"'{name}' is already declared in this scope", "give the label another name", at=at)
        place = -1 - declared.target
        if self._places[place] is not None:
            cursor.fail(f"the label '{name}' stands in this block twice", "give one of the two another name", at=at)
        match cursor.peek():
            case ".branchtargets":
                self._places[place] = Table(name, labels=self._branch_targets(scope))
            case ".calltargets":
                self._places[place] = Table(name, functions=self._call_targets(scope))
            case ".callprototype":
                self._places[place] = self._call_prototype(name)
            case _:
                self._places[place] = Label(name, len(self.instructions))

    def _branch_targets(self, scope: Scope) -> tuple[Label, ...]:
        cursor = self._cursor
        cursor.at += 1
        found: list[Label] = []
        while True:
            at = cursor.at
            name = cursor.name("a label")
            count = None
            if cursor.accept("<"):
                count = integer(cursor, "the number of labels", SHIFT)
                cursor.expect(">", "the number of labels")
            for each in (name,) if count is None else (f"{name}{i}" for i in range(count)):
                label = scope.find(each)
                if not isinstance(label, Label):
                    cursor.fail(f"there is no label '{each}'", "a branch target is a label of the same function", at=at)
                found.append(label)
            if not cursor.accept(","):
                break
        cursor.semicolon("the list of labels")
        return tuple(found)

    def _call_targets(self, scope: Scope) -> tuple[str, ...]:
        cursor = self._cursor
        cursor.at += 1
        found: list[str] = []
        while True:
            at = cursor.at
            function = named(cursor, scope)
            if not isinstance(function, FunctionName):
                cursor.fail(f"'{cursor.texts[at]}' is not a function", at=at)
            found.append(function.name)
            if not cursor.accept(","):
                break
        cursor.semicolon("the list of functions")
        return tuple(found)

    def _call_prototype(self, name: str) -> Table:
        cursor = self._cursor
        cursor.at += 1
        returns = self._prototype_list() if cursor.peek() == "(" else ()
        cursor.expect("_", "what the function returns")
        given = self._prototype_list() if cursor.peek() == "(" else ()
        while cursor.accept(".noreturn") or cursor.accept(".abi_preserve") or cursor.accept(".abi_preserve_control"):
            if cursor.peek().isdigit():
                cursor.at += 1
        cursor.semicolon("the prototype")
        return Table(name, returns=returns, parameters=given)

    def _prototype_list(self) -> tuple[Variable, ...]:
        found = parameters(self._cursor, Scope(registers=RegisterFile()))
        return tuple(
            item
            if isinstance(item, Variable)
            else Variable(item.name, "param", item.type, SIZES[item.type], SIZES[item.type])
            for item in found
        )

    def _instruction(self, scope: Scope) -> None:
        cursor = self._cursor
        texts, begin = cursor.texts, cursor.at
        guard: Guard | None = None
        if cursor.accept("@"):
            negated = cursor.accept("!")
            guard = Guard(predicate(cursor, scope), negated)
        at = cursor.at
        opcode = texts[at]
        if not opcode[:1].isalpha():
            cursor.fail(f"expected an instruction, not {shown(opcode)}", _instruction_hint(opcode))
        cursor.at += 1
        while texts[cursor.at][:1] == ".":
            opcode += texts[cursor.at]
            cursor.at += 1
        operands: list[Operand] = []
        uses_label = False
        call = opcode == "call" or opcode.startswith("call.")
        while texts[cursor.at] != ";":
            first = cursor.at
            item = arguments(cursor, scope) if call and texts[cursor.at] == "(" else operand(cursor, scope)
            uses_label = uses_label or isinstance(item, Label)
            if isinstance(item, Symbol) and texts[first + 1] == "[" and opcode.split(".")[0] not in _TAKE_ADDRESS:
                item = Address(item)
            operands.append(item)
            if texts[cursor.at] != ",":
                cursor.semicolon(f"'{cursor.between(begin, cursor.at)}'")
                break
            cursor.at += 1
        else:
            if operands:
                cursor.fail("expected an operand after ','")
            cursor.at += 1
        if uses_label:
            self._uses.append(len(self.instructions))
        line, column = cursor.place(at)
        self.instructions.append(
            Instruction(
                tuple(opcode.split(".")),
                tuple(operands),
                guard,
                line,
                column,
                cursor.between(begin, cursor.at - 1),
                self._lines.current,
            )
        )

    def _resolved(self, item: Operand) -> Operand:
        """`item`, or the label or table for which it stands."""
        if not isinstance(item, Label):
            return item
        place = self._places[-1 - item.target]
        assert place is not None
        if isinstance(place, Table) and place.labels:
            labels = tuple(label for label in map(self._resolved, place.labels) if isinstance(label, Label))
            return replace(place, labels=labels)
        return place


def _instruction_hint(text: str) -> str | None:
    if text == "}":
        return "a guard stands before an instruction"
    return "'%' begins the name of a register: an instruction is missing before it" if text[:1] == "%" else None
