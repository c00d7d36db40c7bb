"""A Python function as text: its syntax tree with true positions, its parameters and the names around it."""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any, NoReturn, cast

from tilec.diagnostics import SourceLocation, TilecError, one_line, register_source
from tilec.frontend.tile import DType

_MISSING = object()


@dataclass(frozen=True)
class Read:
    """A value from around a function that its meaning depends on: of a free name, or of an attribute of module `owner`."""

    owner: ModuleType | None
    name: str
    value: object


def _same(a: object, b: object) -> bool:
    """Whether two values mean the same in a kernel: True is not 1, and what is no constant is itself only."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple):
        left, right = cast("tuple[object, ...]", a), cast("tuple[object, ...]", b)
        return len(left) == len(right) and all(map(_same, left, right))
    return isinstance(a, int | str | DType) and a == b


@dataclass(frozen=True)
class Function:
    """A function that is read in place of being run.

    `tree` is its definition: columns in it are those of the file, lines are less by `line_shift`.
    """

    callable: Callable[..., Any]
    file: str
    tree: ast.FunctionDef
    line_shift: int

    @staticmethod
    def read(function: Callable[..., Any]) -> Function:
        """Raises TilecError where there is no source text, as for functions typed into an interpreter."""
        code = getattr(function, "__code__", None)
        name = getattr(function, "__name__", repr(function))
        if code is None:
            raise TilecError(f"{name} is not a Python function", hint="decorate a function defined with def")
        file: str = code.co_filename
        try:
            block, first = inspect.getsourcelines(function)
        except (OSError, TypeError) as error:
            raise TilecError(
                f"the source of function {name} cannot be read: {error}", hint="define it in a file or a notebook cell"
            ) from error
        register_source(file, "".join(linecache.getlines(file)))
        # An indented definition parses, at its true columns, as the body of an `if` one line above.
        indented = block[0][:1].isspace()
        try:
            tree = ast.parse("".join(["if True:\n", *block] if indented else block))
        except (SyntaxError, ValueError) as error:  # part of an expression, or a file that is another one by now
            if code.co_name != "<lambda>":
                raise TilecError(
                    f"the source of function {name} cannot be read: {one_line(error)}",
                    SourceLocation(file, first, 1),
                    hint="has the file changed since it was imported?",
                ) from error
            tree = ast.Module([], [])
        statement = tree.body[0] if tree.body else None
        if indented and isinstance(statement, ast.If):
            statement = statement.body[0]
        if not isinstance(statement, ast.FunctionDef):
            raise TilecError(
                f"{name} is not defined with def",
                SourceLocation(file, first, 1),
                hint="decorate a function, not a lambda",
            )
        shift = first - 2 if indented else first - 1
        return Function(function, file, statement, shift)

    def location(self, node: ast.AST) -> SourceLocation:
        line: int = getattr(node, "lineno", 1)
        text = linecache.getline(self.file, line + self.line_shift)
        # The syntax tree counts columns in bytes of UTF-8.
        column = len(text.encode()[: getattr(node, "col_offset", 0)].decode("utf-8", "replace"))
        return SourceLocation(self.file, line + self.line_shift, column + 1)

    def fail(self, node: ast.AST, message: str, hint: str | None = None) -> NoReturn:
        raise TilecError(message, self.location(node), hint)

    @cached_property
    def _closure(self) -> dict[str, Any]:
        code = self.callable.__code__
        return dict(zip(code.co_freevars, self.callable.__closure__ or (), strict=True))

    def lookup(self, name: str) -> object:
        """The value that a free name has now. Raises KeyError for a name that is not defined."""
        if name in self._closure:
            try:
                return self._closure[name].cell_contents
            except ValueError as error:  # a cell that is still empty
                raise KeyError(name) from error
        scope: dict[str, object] = self.callable.__globals__
        return scope[name] if name in scope else vars(builtins)[name]

    def defines(self, name: str) -> bool:
        """Whether a free name has a value now."""
        try:
            self.lookup(name)
        except KeyError:
            return False
        return True

    def still(self, read: Read) -> bool:
        """Whether what was read would be read again."""
        try:
            now = self.lookup(read.name) if read.owner is None else getattr(read.owner, read.name, _MISSING)
        except KeyError:
            return False
        return _same(now, read.value)

    def default(self, parameter: str) -> object:
        """The default of a parameter that has one: evaluated when the function was defined, as everywhere in Python."""
        arguments = self.tree.args
        positional = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
        if parameter not in positional:
            return cast("dict[str, object]", self.callable.__kwdefaults__)[parameter]
        defaults = cast("tuple[object, ...]", self.callable.__defaults__)
        return defaults[positional.index(parameter) - len(positional)]
