"""PTX text to `Module`."""

from __future__ import annotations

from dataclasses import replace

from tilec.backend.emulator.ptx.body import BodyParser
from tilec.backend.emulator.ptx.constants import integer
from tilec.backend.emulator.ptx.declarations import LINKAGE, SPACES, parameters, variables
from tilec.backend.emulator.ptx.definitions import with_definitions
from tilec.backend.emulator.ptx.lexer import END, Cursor, shown
from tilec.backend.emulator.ptx.lines import SourceLines
from tilec.backend.emulator.ptx.scopes import RegisterFile, Scope
from tilec.backend.emulator.ptx.syntax import Function, FunctionName, Module, Variable

_WITH_NUMBERS = (
    ".maxntid",
    ".reqntid",
    ".minnctapersm",
    ".maxnctapersm",
    ".maxnreg",
    ".reqnctapercluster",
    ".maxclusterrank",
    ".abi_preserve",
    ".abi_preserve_control",
)
_WITHOUT_NUMBERS = (".noreturn", ".explicitcluster", ".blocksareclusters")


def parse_ptx(text: str, file: str = "<ptx>") -> Module:
    """Read a PTX module; `file` names the text in messages.

    Names are resolved and constants evaluated; opcodes are taken as they stand. Raises `TilecError`, with its place in the text,
    for what is not PTX by chapters 4 to 7 and 11 of its ISA.
    """
    cursor = Cursor(text, file)
    try:
        return _ModuleParser(cursor).read()
    except RecursionError:
        cursor.fail("nested too deeply")


class _ModuleParser:
    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._scope = Scope()
        self._lines = SourceLines(cursor)
        self._functions: dict[str, Function] = {}
        self._variables: dict[str, Variable] = {}
        self._definitions: dict[Variable, Variable] = {}
        self._aliases: dict[str, str] = {}
        self._version: tuple[int, int] | None = None
        self._target = ""
        self._address_size = 32

    def read(self) -> Module:
        cursor = self._cursor
        while (text := cursor.peek()) != END:
            self._statement(text)
        if self._version is None or not self._target:
            missing = ".version" if self._version is None else ".target"
            cursor.fail(f"the module has no {missing}", "begin it with .version, .target and .address_size", at=0)
        if self._definitions:
            self._functions = {
                name: with_definitions(function, self._definitions) for name, function in self._functions.items()
            }
        return Module(
            cursor.file,
            self._version,
            self._target,
            self._address_size,
            self._functions,
            self._variables,
            self._aliases,
        )

    def _statement(self, text: str) -> None:
        cursor = self._cursor
        match text:
            case ".version":
                self._read_version()
            case ".target":
                self._read_target()
            case ".address_size":
                cursor.at += 1
                at = cursor.at
                self._address_size = integer(cursor, "the address size")
                if self._address_size not in (32, 64):
                    cursor.fail(f"the address size {self._address_size} is neither 32 nor 64", at=at)
            case ".file":
                self._lines.file(cursor)
            case ".loc":
                self._lines.loc(cursor)
            case ".section":
                while cursor.peek() not in ("{", END):
                    cursor.at += 1
                cursor.skip_block("{", "}")
            case ".pragma":
                self._skip_pragma()
            case ".alias":
                self._read_alias()
            case ";":
                cursor.at += 1
            case _:
                self._declaration()

    def _read_version(self) -> None:
        cursor = self._cursor
        cursor.at += 1
        major, dot, minor = cursor.peek().partition(".")
        if not (major.isdigit() and dot and minor.isdigit()):
            cursor.fail(f"malformed version {shown(cursor.peek())}", "write .version 8.6")
        cursor.at += 1
        self._version = int(major), int(minor)

    def _read_target(self) -> None:
        cursor = self._cursor
        cursor.at += 1
        # Targets after the first only add features of older parts and options.
        target = cursor.name("a target")
        self._target = self._target or target
        while cursor.accept(","):
            cursor.name("a target")

    def _read_alias(self) -> None:
        cursor = self._cursor
        cursor.at += 1
        alias = cursor.name("an alias")
        cursor.expect(",", "the alias")
        at = cursor.at
        function = cursor.name("a function")
        if function not in self._functions:
            cursor.fail(f"there is no function '{function}'", "define it before its alias", at=at)
        cursor.semicolon("the alias")
        self._aliases[alias] = function
        self._scope.names[alias] = FunctionName(alias)

    def _skip_pragma(self) -> None:
        cursor = self._cursor
        while cursor.take() not in (";", END):
            pass

    def _declaration(self) -> None:
        cursor = self._cursor
        external = False
        while cursor.peek() in LINKAGE:
            external = external or cursor.peek() == ".extern"
            cursor.at += 1
        text = cursor.peek()
        if text in (".entry", ".func"):
            self._function(entry=text == ".entry")
        elif text in SPACES and text not in (".local", ".param"):
            for variable in variables(cursor, self._scope, external=external):
                declared = self._variables.get(variable.name, variable)
                if declared is not variable:
                    self._definitions[declared] = variable
                self._variables[variable.name] = variable
        elif text in (".reg", ".local", ".param"):
            cursor.fail(f"'{text}' cannot stand outside a function", "declare it in the function that uses it")
        else:
            cursor.fail(
                f"expected a directive of the module, not {shown(text)}",
                "between functions stand .entry, .func, .global, .const, .shared and the like",
            )

    def _function(self, *, entry: bool) -> None:
        cursor = self._cursor
        cursor.at += 1
        registers = RegisterFile()
        scope = Scope(self._scope, registers)
        directives: dict[str, tuple[int, ...]] = {}
        if cursor.accept(".attribute"):
            directives.update(self._attribute())
        returns = parameters(cursor, scope) if cursor.peek() == "(" else ()
        at = cursor.at
        name = cursor.name("a kernel" if entry else "a function")
        given = parameters(cursor, scope) if cursor.peek() == "(" else ()
        self._tuning(directives)
        previous = self._functions.get(name)
        known = self._scope.names.get(name)
        if known is not None and not (
            isinstance(known, FunctionName) and (previous is None or previous.entry == entry)
        ):
            cursor.fail(f"'{name}' is already declared", "give one of the two another name", at=at)
        self._scope.names[name] = FunctionName(name)
        self._lines.begin_function()
        line = cursor.place(at)[0]
        function = Function(name, entry, given, returns, None, directives=directives, line=line)
        if cursor.peek() == "{":
            if previous is not None and previous.body is not None:
                cursor.fail(f"'{name}' already has a body, in line {previous.line}", "remove one of the two", at=at)
            body = BodyParser(cursor, self._lines, registers)
            instructions = body.read(scope)
            function = replace(
                function,
                body=instructions,
                registers=tuple(registers.registers),
                variables=tuple(body.variables),
            )
        else:
            if cursor.peek() != ";":
                cursor.fail(
                    f"expected the body of '{name}', not {shown(cursor.peek())}", "write '{', or ';' to declare it only"
                )
            cursor.at += 1
            if previous is not None and previous.body is not None:
                return
        self._functions[name] = function

    def _attribute(self) -> dict[str, tuple[int, ...]]:
        """Take what stands in the parentheses of `.attribute` (PTX 5.4.8)."""
        cursor = self._cursor
        found: dict[str, tuple[int, ...]] = {}
        cursor.expect("(", "'.attribute'")
        while True:
            name = cursor.take()[1:]
            numbers: list[int] = []
            if cursor.accept("("):
                numbers.append(integer(cursor, "an identifier"))
                while cursor.accept(","):
                    numbers.append(integer(cursor, "an identifier"))
                cursor.expect(")", "the identifiers")
            found[name] = tuple(numbers)
            if not cursor.accept(","):
                break
        cursor.expect(")", "the attributes")
        return found

    def _tuning(self, directives: dict[str, tuple[int, ...]]) -> None:
        """Take the directives between the parameters and the body (PTX 11.4, 11.7, 11.8)."""
        cursor = self._cursor
        while (text := cursor.peek())[:1] == ".":
            if text in _WITH_NUMBERS:
                cursor.at += 1
                numbers = [integer(cursor, f"a number of {text}")]
                while cursor.accept(","):
                    numbers.append(integer(cursor, f"a number of {text}"))
                directives[text[1:]] = tuple(numbers)
            elif text in _WITHOUT_NUMBERS:
                cursor.at += 1
                directives[text[1:]] = ()
            elif text == ".pragma":
                self._skip_pragma()
            elif text == ".attribute":
                cursor.at += 1
                directives.update(self._attribute())
            else:
                cursor.fail(f"unknown directive '{text}' before the body")
