"""A Python function as text: its syntax tree with true positions, its parameters and the names around it."""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

from tilec.diagnostics import SourceLocation, TilecError, register_source


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
        tree = ast.parse("".join(["if True:\n", *block] if indented else block))
        statement = tree.body[0]
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

    def integers(self) -> tuple[tuple[str, int], ...]:
        """The integers among the free names: what a compiled variant depends on besides its arguments."""
        code = self.callable.__code__
        scope: dict[str, object] = self.callable.__globals__
        found = [(n, scope[n]) for n in code.co_names if n in scope]
        found += [(n, cell.cell_contents) for n, cell in self._closure.items()]
        return tuple((n, v) for n, v in found if isinstance(v, int))
