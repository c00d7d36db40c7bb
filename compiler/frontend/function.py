"""A Python function as text: its syntax tree with true positions, its parameters, its digest and the names around it."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType
from typing import Any, Final, Literal, NoReturn, cast

from tilec.diagnostics import SourceLocation, TilecError, kind_of, one_line, register_source
from tilec.frontend.code import code_text, compiled, functions_around

MISSING: Final = object()
"""The default of a parameter that has none."""
_CONSTANTS: dict[str, tuple[type, ...]] = {
    "constexpr": (),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
}
_DECORATE = "decorate a function defined with def"


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel: a view, or a constant that is known when the kernel is compiled.

    `default` is MISSING where there is none. `classes` are the exact types that a constant may have; empty for all that
    compile-time values have. `annotation` is its text, ``tile.View["M", "K"]``.
    """

    name: str
    kind: Literal["view", "constant"]
    keyword_only: bool
    default: object
    annotation: str
    classes: tuple[type, ...] = ()

    def takes(self, value: object) -> bool:
        """Whether a constant is of a class that the annotation allows."""
        return not self.classes or type(value) in self.classes


@dataclass(frozen=True, eq=False)
class Function:
    """A function that is read in place of being run.

    `tree` is its definition: columns in it are those of the file, lines are less by `line_shift`. `source` is the text of
    the definition with its decorators, `text` that of the whole file when it was read.
    """

    callable: Any
    """The function itself, a `FunctionType`."""
    name: str
    file: str
    first_line: int
    source: str
    text: str
    tree: ast.FunctionDef
    line_shift: int
    annotations: Mapping[str, object]
    """Values of the annotations as Python has evaluated them: texts where it does not evaluate them."""

    @staticmethod
    def read(function: Callable[..., Any]) -> Function:
        """Raises TilecError for what is no plain function, or has no source text, as functions typed into an interpreter."""
        plain = _plain(function)
        code = plain.__code__
        name = plain.__name__
        try:
            block, first = inspect.getsourcelines(plain)
        except (OSError, TypeError) as error:
            raise TilecError(
                f"the source of function {name} cannot be read: {error}", hint="define it in a file or a notebook cell"
            ) from error
        text = "".join(linecache.getlines(code.co_filename, plain.__globals__))
        register_source(code.co_filename, text)
        place = SourceLocation(code.co_filename, first, 1)
        # An indented definition parses, at its true columns, as the body of an `if` one line above.
        indented = block[0][:1].isspace()
        try:
            tree = ast.parse("".join(["if True:\n", *block] if indented else block))
        except (SyntaxError, ValueError) as error:  # part of an expression, or a file that is another one by now
            if code.co_name != "<lambda>":
                raise TilecError(
                    f"the source of function {name} cannot be read: {one_line(error)}",
                    place,
                    hint="has the file changed since it was imported?",
                ) from error
            tree = ast.Module([], [])
        statement = tree.body[0] if tree.body else None
        if indented and isinstance(statement, ast.If):
            statement = statement.body[0]
        if code.co_name == "<lambda>" or not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            raise TilecError(f"{name} is not defined with def", place, hint="decorate a function, not a lambda")
        shift = first - 2 if indented else first - 1
        at = SourceLocation(code.co_filename, statement.lineno + shift, statement.col_offset + 1)
        if isinstance(statement, ast.AsyncFunctionDef):
            raise TilecError(f"{name} is an async function", at, hint="define it with def: a kernel awaits nothing")
        if inspect.isgeneratorfunction(plain):
            raise TilecError(f"{name} is a generator", at, hint="a kernel returns its outputs, and yields nothing")
        if _is_method(plain):
            raise TilecError(
                f"{name} is a method of a class", at, hint="define it outside of the class: a kernel has no self"
            )
        source, annotations = "".join(block), _annotations(plain)
        return Function(plain, name, code.co_filename, first, source, text, statement, shift, annotations)

    def location(self, node: ast.AST) -> SourceLocation:
        line: int = getattr(node, "lineno", 1)
        text = _line(self.text, line + self.line_shift)
        # The syntax tree counts columns in bytes of UTF-8.
        column = len(text.encode()[: getattr(node, "col_offset", 0)].decode("utf-8", "replace"))
        return SourceLocation(self.file, line + self.line_shift, column + 1)

    def fail(self, node: ast.AST, message: str, hint: str | None = None) -> NoReturn:
        raise TilecError(message, self.location(node), hint)

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Raises TilecError for parameters that a kernel cannot have."""
        arguments = self.tree.args
        for extra in (arguments.vararg, arguments.kwarg):
            if extra is not None:
                self.fail(extra, f"a kernel has no *{extra.arg}: name each of its views")
        defaults = self.defaults
        found: list[Parameter] = []
        for node in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if node.annotation is None:
                self.fail(
                    node,
                    f"parameter {node.arg} has no annotation",
                    'write its extents, as in `A: tile.View["M", "K"]`, or that it is a constant: tilec.constexpr',
                )
            classes = _CONSTANTS.get(_last_name(node.annotation))
            if classes is None and node.arg in defaults:
                at = self._default_node(node.arg) or node
                self.fail(at, f"parameter {node.arg} is a view: it has no default")
            found.append(
                Parameter(
                    node.arg,
                    "view" if classes is None else "constant",
                    node in arguments.kwonlyargs,
                    defaults.get(node.arg, MISSING),
                    ast.unparse(node.annotation),
                    classes or (),
                )
            )
        return tuple(found)

    @property
    def defaults(self) -> dict[str, object]:
        """The defaults that parameters have now: evaluated when the function was defined, as everywhere in Python."""
        arguments = self.tree.args
        positional = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
        values: tuple[object, ...] = self.callable.__defaults__ or ()
        by_name: dict[str, object] = self.callable.__kwdefaults__ or {}
        return {
            **dict(zip(positional[len(positional) - len(values) :], values, strict=True)),
            **by_name,
        }

    def _default_node(self, parameter: str) -> ast.expr | None:
        arguments = self.tree.args
        positional = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
        nodes: dict[str, ast.expr | None] = {
            **dict(zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True)),
            **dict(zip([a.arg for a in arguments.kwonlyargs], arguments.kw_defaults, strict=True)),
        }
        return nodes.get(parameter)

    # What the function is

    @cached_property
    def digest(self) -> str:
        """Of its text, its place and its code: the same in any process of one version of Python."""
        parts = (self.source, self.file, str(self.first_line), code_text(self.callable.__code__))
        return sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()

    def check_text(self) -> None:
        """Raise TilecError if the text that was read is not the one that Python compiled and runs."""
        code: CodeType = self.callable.__code__
        if any(name.startswith("@") for name in (*code.co_names, *code.co_varnames)):
            return  # rewritten from this text by an import hook, as test runners do: no name in a text has an @
        found = compiled(self.text, self.file, code)
        if found is None or code_text(found) != code_text(code):
            raise TilecError(
                f"the text of {self.name} is not what Python runs: its file has changed since it was imported",
                self.location(self.tree),
                "import it again, or start Python anew",
            )

    # The names around it

    @cached_property
    def _closure(self) -> dict[str, CellType]:
        return dict(zip(self.callable.__code__.co_freevars, self.callable.__closure__ or (), strict=True))

    def home(self, name: str) -> dict[str, object] | None:
        """The namespace that a free name is looked up in now; None for that of a closure. Raises KeyError for none."""
        if name in self._closure:
            return None
        spaces: tuple[dict[str, object], ...] = (self.callable.__globals__, self.callable.__builtins__)
        for space in spaces:
            if name in space:
                return space
        raise KeyError(name)

    def cell(self, name: str) -> CellType:
        """The variable of a closure that a free name is."""
        return self._closure[name]

    def lookup(self, name: str) -> object:
        """The value that a free name has now. Raises KeyError for a name that is not defined."""
        home = self.home(name)
        if home is not None:
            return home[name]
        try:
            return self._closure[name].cell_contents
        except ValueError as error:  # a cell that is still empty
            raise KeyError(name) from error

    def defines(self, name: str) -> bool:
        """Whether a free name has a value now."""
        try:
            self.lookup(name)
        except KeyError:
            return False
        return True

    def setter(self, name: str) -> str | None:
        """The function around this one that has a variable of this name, which this one does not use."""
        around = functions_around(self.text, self.file, self.callable.__code__)
        return next((c.co_name for c in around if name in (*c.co_varnames, *c.co_cellvars)), None)

    def names(self) -> list[str]:
        """The free names that have a value, without those of Python."""
        return [*self._closure, *self.callable.__globals__]


def _plain(function: object) -> FunctionType:
    """A function written in Python that nothing wraps, or a TilecError that says what else it is."""
    name: str = getattr(function, "__name__", None) or type(function).__name__
    match function:
        case FunctionType():
            if hasattr(function, "__wrapped__"):
                inner = getattr(cast("Any", function).__wrapped__, "__name__", "another function")
                raise TilecError(
                    f"{name} is a wrapper around {inner}: what the decorator adds would be lost",
                    hint="put the kernel's decorator under the others, next to def",
                )
            return function
        case type():
            raise TilecError(f"{name} is a class", hint=_DECORATE)
        case MethodType():
            raise TilecError(f"{name} is a method of {kind_of(function.__self__)}", hint=_DECORATE)
        case BuiltinFunctionType():
            raise TilecError(f"{name} is not a Python function", hint=_DECORATE)
        case functools.partial():
            raise TilecError(
                "a functools.partial is not a kernel",
                hint="decorate the function, and give its constants by name where it is called",
            )
        case staticmethod() | classmethod():
            kind = type(cast("object", function)).__name__
            raise TilecError(f"{name} is a {kind}", hint=f"put @{kind} above the kernel's decorator")
        case _ if callable(function):
            raise TilecError(f"{kind_of(function)} is not a Python function, though it can be called", hint=_DECORATE)
        case _:
            raise TilecError(f"{kind_of(function)} is not a Python function", hint=_DECORATE)


def _is_method(function: FunctionType) -> bool:
    owner = function.__qualname__.rpartition(".")[0]
    first = function.__code__.co_varnames[: min(1, function.__code__.co_argcount)]
    return owner != "" and not owner.endswith("<locals>") and first in (("self",), ("cls",))


def _annotations(function: FunctionType) -> Mapping[str, object]:
    """The annotations; none where their evaluation fails, as from Python 3.14 on it can when they are first asked for."""
    try:
        return dict(function.__annotations__)
    except Exception:  # whatever the code in an annotation raises; as text it is understood, or refused at its place
        return {}


def _last_name(annotation: ast.expr) -> str:
    """`constexpr` of `tilec.constexpr`, with quotes around it or not."""
    match annotation:
        case ast.Attribute():
            return annotation.attr
        case ast.Name():
            return annotation.id
        case ast.Constant(value=str() as text):
            return text.rpartition(".")[2].strip()
        case _:
            return ""


@functools.lru_cache(maxsize=8)
def _lines(text: str) -> list[str]:
    return text.split("\n")


def _line(text: str, number: int) -> str:
    lines = _lines(text)
    return lines[number - 1] if 1 <= number <= len(lines) else ""
