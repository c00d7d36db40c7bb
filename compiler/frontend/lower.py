"""From the syntax tree of a kernel function to a module of L0 tile code.

One method a statement, one a word of `tilec.frontend.tile`; every operation carries the position of its Python line. What
a kernel function may say grows by a word there, and a method and a case of `_call` here.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TypeAlias, TypeVar, cast

from xdsl.dialects.builtin import FileLineColLoc, IndexType, IntAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from tilec.diagnostics import TilecError, did_you_mean, one_line
from tilec.dialects.tile import (
    DTYPES,
    F32,
    AccType,
    AllocOp,
    CopyOp,
    DType,
    ForOp,
    GridOp,
    KernelOp,
    MmaOp,
    SmemType,
    ViewType,
    YieldOp,
)
from tilec.frontend import tile
from tilec.frontend.function import Function, Read
from tilec.verify import verify


@dataclass(frozen=True)
class Output:
    """A view that the kernel makes: its name, extents as in its type, and dtype."""

    name: str
    dims: tuple[int | str | None, ...]
    dtype: str


@dataclass(frozen=True)
class Lowered:
    """A module with one kernel, whose arguments are the inputs and then `outputs`.

    `returned` are indices into `outputs`; None if the function returns nothing. `reads`: what it took from around the
    function; as long as all of them still hold, lowering it again gives the same.
    """

    module: ModuleOp
    outputs: tuple[Output, ...]
    returned: tuple[int, ...]
    returns_tuple: bool
    reads: tuple[Read, ...]


@dataclass(frozen=True)
class _View:
    """A global tensor."""

    value: SSAValue

    @property
    def type(self) -> ViewType:
        assert isinstance(self.value.type, ViewType)
        return self.value.type


@dataclass(frozen=True)
class _Place:
    """A view at offsets."""

    view: _View
    offsets: tuple[SSAValue, ...]


@dataclass(frozen=True)
class _Storage:
    """A shared tile or an accumulator."""

    value: SSAValue


@dataclass(frozen=True)
class _Offset:
    """The variable of a grid or a loop."""

    value: SSAValue


@dataclass(frozen=True)
class _Word:
    """A word of the vocabulary, by its name in `tilec.frontend.tile`."""

    name: str


_Value: TypeAlias = "int | str | DType | _View | _Place | _Storage | _Offset | _Word | ModuleType | tuple[_Value, ...]"
_Made = TypeVar("_Made", bound=Attribute | Operation)
_MAX_BITS = 63
_SHOWN = 80

_SYMBOL = re.compile(r"[A-Za-wyz_][A-Za-wyz0-9_]*")
"""As in the text of a view's type, where x stands between extents."""
_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}
_KINDS: dict[type[object], str] = {
    int: "an integer",
    str: "a string",
    DType: "an element type",
    _View: "a view",
    _Place: "a view at offsets",
    _Storage: "a tile",
    _Offset: "an offset",
    _Word: "a word of tile",
    ModuleType: "a module",
    tuple: "a tuple",
}


def _kind(value: _Value) -> str:
    return next(words for kind, words in _KINDS.items() if isinstance(value, kind))


class _Scope:
    """The names of a block of statements; those of the blocks around it are visible but cannot be bound again."""

    def __init__(self, outer: _Scope | None = None) -> None:
        self.outer = outer
        self.names: dict[str, _Value] = {}

    def find(self, name: str) -> _Value | None:
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        return None

    def visible(self) -> list[str]:
        return [*self.names, *(self.outer.visible() if self.outer else ())]


def parameters(function: Function) -> tuple[tuple[str, ...], dict[str, int | None]]:
    """The names of the views, and the compile-time integers with their defaults."""
    arguments = function.tree.args
    for extra in (arguments.vararg, arguments.kwarg):
        if extra is not None:
            function.fail(extra, f"a kernel has no *{extra.arg}: name each of its views")
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    defaults += [*arguments.defaults, *arguments.kw_defaults]
    views: list[str] = []
    constants: dict[str, int | None] = {}
    for parameter, default in zip([*positional, *arguments.kwonlyargs], defaults, strict=True):
        if parameter.annotation is None:
            function.fail(
                parameter,
                f"parameter {parameter.arg} has no annotation",
                'write its extents, as in `A: tile.View["M", "K"]`',
            )
        if _is_constexpr(parameter.annotation):
            constants[parameter.arg] = None if default is None else _default(function, parameter.arg, default)
        elif default is not None:
            function.fail(default, f"parameter {parameter.arg} is a view: it has no default")
        else:
            views.append(parameter.arg)
    return tuple(views), constants


def _default(function: Function, parameter: str, node: ast.expr) -> int:
    value = function.default(parameter)
    if not isinstance(value, int) or isinstance(value, bool):
        kind = type(value).__name__
        function.fail(node, f"the default of {parameter} is an integer known at compile time, not a {kind}")
    return value


def _is_constexpr(annotation: ast.expr) -> bool:
    """`tilec.constexpr`, or `int`, which it is for type checkers."""
    name = annotation.attr if isinstance(annotation, ast.Attribute) else getattr(annotation, "id", None)
    return name in ("constexpr", "int")


def lower(function: Function, dtypes: Sequence[str], constants: Mapping[str, int]) -> Lowered:
    """The module of a kernel function for inputs of `dtypes` and the given values of its compile-time integers.

    Raises TilecError at the Python line that is wrong.
    """
    try:
        return _Lowering(function, constants).kernel(dtypes)
    except RecursionError as error:
        raise TilecError("nested too deeply", function.location(function.tree)) from error


class _Lowering:
    def __init__(self, function: Function, constants: Mapping[str, int]) -> None:
        self.function = function
        self.constants = constants
        self.scope = _Scope()
        self.scope.names.update(constants)
        self.block = Block()
        """The body of the kernel."""
        self.at = self.block
        """Where operations are added."""
        self.outputs: list[Output] = []
        self.output_values: list[SSAValue] = []
        self.reads: list[Read] = []

    def kernel(self, dtypes: Sequence[str]) -> Lowered:
        tree = self.function.tree
        arguments = [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs]
        views = [a for a in arguments if a.annotation is not None and not _is_constexpr(a.annotation)]
        for parameter, dtype in zip(views, dtypes, strict=True):
            assert parameter.annotation is not None
            type = self._guard(parameter, lambda p=parameter, d=dtype: self._view_type(p, d))
            self.scope.names[parameter.arg] = self._argument(parameter, parameter.arg, type)
        returned, is_tuple = self._body(tree.body)
        kernel = KernelOp(tree.name, Region(self.block))
        kernel.location = self._location(tree)
        module = ModuleOp([kernel])
        module.location = kernel.location
        verify(module)
        return Lowered(module, tuple(self.outputs), returned, is_tuple, tuple(self.reads))

    def _view_type(self, parameter: ast.arg, dtype: str) -> ViewType:
        annotation = parameter.annotation
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            self.function.fail(annotation, "write the annotation without quotes around it")
        if not isinstance(annotation, ast.Subscript) or self.expression(annotation.value) != _Word("View"):
            self.function.fail(
                annotation or parameter,
                f"parameter {parameter.arg} is not annotated as a view",
                'write its extents, as in `A: tile.View["M", "K"]`',
            )
        return ViewType.of(self._dims(annotation.slice), self._dtype_named(parameter, dtype).type)

    def _dtype_named(self, node: ast.AST, name: str) -> DType:
        if name not in DTYPES:
            self.function.fail(node, f"unsupported element type {name}: tiles hold {', '.join(DTYPES)}")
        return DTYPES[name]

    def _dims(self, node: ast.expr) -> list[int | str | None]:
        nodes = node.elts if isinstance(node, ast.Tuple) else [node]
        dims: list[int | str | None] = []
        for one in nodes:
            if isinstance(one, ast.Name) and self.scope.find(one.id) is None and not self.function.defines(one.id):
                self.function.fail(
                    one, f"name '{one.id}' is not defined here", f'a symbol is written in quotes: "{one.id}"'
                )
            value = self.expression(one)
            if not isinstance(value, int | str):
                self.function.fail(one, f"an extent is a symbol, an integer or '?', not {_kind(value)}")
            if isinstance(value, str) and value != "?" and not _SYMBOL.fullmatch(value):
                self.function.fail(one, f"bad symbol '{value}': letters but x, digits and _, not a digit first")
            dims.append(None if value == "?" else value)
        return dims

    def _argument(self, node: ast.AST, name: str, type: ViewType) -> _View:
        value = self.block.insert_arg(type, len(self.block.args), self._location(node))
        value.name_hint = name
        return _View(value)

    # Statements

    def _body(self, statements: Sequence[ast.stmt]) -> tuple[tuple[int, ...], bool]:
        """The whole function; gives which outputs it returns, and whether as a tuple."""
        *before, last = statements
        if not isinstance(last, ast.Return):
            self.function.fail(last, "a kernel function ends by returning its outputs", "end it with `return D`")
        self._statements(before)
        if not self.outputs:
            self.function.fail(last, "this kernel has no output", "make one: D = tile.empty(...)")
        nodes = last.value.elts if isinstance(last.value, ast.Tuple) else [last.value]
        returned: list[int] = []
        for node in nodes:
            value = None if node is None else self.expression(node)
            if node is None or not isinstance(value, _View) or value.value not in self.output_values:
                self.function.fail(node or last, "a kernel returns its outputs, made with tile.empty")
            returned.append(self.output_values.index(value.value))
        return tuple(returned), isinstance(last.value, ast.Tuple)

    def _statements(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            match statement:
                case ast.Expr(value=ast.Constant(value=str())) | ast.Pass():
                    pass
                case ast.Expr(value=ast.Call() as call):
                    self._call(call)
                case ast.Assign(targets=[ast.Name() as target]):
                    self._assign(target, statement.value)
                case ast.For():
                    self._for(statement)
                case ast.Return():
                    self.function.fail(statement, "return is the last statement of a kernel, outside of its loops")
                case _:
                    self.function.fail(
                        statement,
                        f"a kernel cannot contain `{_keyword(statement)}`",
                        "it is made of assignments, calls of tile.* and loops over tile.grid and tile.range",
                    )

    def _assign(self, target: ast.Name, node: ast.expr) -> None:
        if isinstance(node, ast.Call) and self.expression(node.func) == _Word("empty"):
            value = self._empty(node, target.id)
        else:
            value = self.expression(node)
        if isinstance(value, _Storage):
            value.value.name_hint = target.id
        self._bind(target, value)

    def _bind(self, target: ast.Name, value: _Value) -> None:
        if target.id not in self.scope.names and self.scope.find(target.id) is not None:
            self.function.fail(
                target,
                f"{target.id} is assigned outside of this loop: a loop cannot change it",
                "give it another name; accumulators change in place, by tile.mma",
            )
        self.scope.names[target.id] = value

    def _for(self, statement: ast.For) -> None:
        if statement.orelse:
            self.function.fail(statement.orelse[0], "a loop of a kernel has no else")
        call = statement.iter
        word = self.expression(call.func) if isinstance(call, ast.Call) else None
        targets = statement.target.elts if isinstance(statement.target, ast.Tuple) else [statement.target]
        if not isinstance(call, ast.Call) or word not in (_Word("grid"), _Word("range")):
            hint = "write `for m, n in tile.grid(D, step=(128, 128))` or `for k in tile.range(A, dim=1, step=64)`"
            self.function.fail(statement.iter, "a loop of a kernel runs over tile.grid or tile.range", hint)
        names = [t for t in targets if isinstance(t, ast.Name)]
        if len(names) < len(targets):
            self.function.fail(statement.target, "the variables of a loop are names")
        if word == _Word("grid"):
            self._grid(statement, call, names)
        else:
            self._range(statement, call, names)

    def _grid(self, statement: ast.For, call: ast.Call, targets: Sequence[ast.Name]) -> None:
        if self.at is not self.block:
            self.function.fail(call, "tile.grid is the outermost loop of a kernel")
        view_node, step_node = self._arguments(call, "view", "step")
        view = self._view(view_node)
        steps = self.expression(step_node)
        steps = steps if isinstance(steps, tuple) else (steps,)
        sizes = [s for s in steps if isinstance(s, int)]
        if len(sizes) < len(steps):
            self.function.fail(step_node, "the steps of a grid are integers")
        if not len(targets) == len(sizes) == view.type.rank:
            self.function.fail(
                statement.target,
                f"{len(targets)} variables and {len(sizes)} steps over a view of {view.type.rank} dimensions: "
                "give one of each for each dimension",
            )
        body = self._loop_body(statement, targets)
        self._add(call, self._guard(call, lambda: GridOp(view.value, sizes, Region(body))))

    def _range(self, statement: ast.For, call: ast.Call, targets: Sequence[ast.Name]) -> None:
        view_node, dim_node, step_node = self._arguments(call, "view", "dim", "step")
        view = self._view(view_node)
        dim, step = self.integer(dim_node, "dim"), self.integer(step_node, "step")
        if len(targets) != 1:
            self.function.fail(statement.target, "tile.range has one variable")
        body = self._loop_body(statement, targets)
        end = YieldOp()
        end.location = self._location(call)
        body.add_op(end)
        self._add(call, self._guard(call, lambda: ForOp(view.value, dim, step, Region(body))))

    def _loop_body(self, statement: ast.For, targets: Sequence[ast.Name]) -> Block:
        body = Block(arg_types=[IndexType()] * len(targets))
        outer_scope, outer_at = self.scope, self.at
        self.scope, self.at = _Scope(outer_scope), body
        for target, variable in zip(targets, body.args, strict=True):
            variable.name_hint = target.id
            variable.location = self._location(target)
            self._bind(target, _Offset(variable))
        self._statements(statement.body)
        self.scope, self.at = outer_scope, outer_at
        return body

    # Expressions

    def expression(self, node: ast.expr) -> _Value:
        value = self._evaluate(node)
        self._check_size(node, value)
        return value

    def _check_size(self, node: ast.expr, value: _Value) -> None:
        if isinstance(value, tuple):
            for one in value:
                self._check_size(node, one)
        elif isinstance(value, int) and value.bit_length() > _MAX_BITS:
            what = ast.unparse(node) if len(ast.unparse(node)) <= _SHOWN else "this integer"
            self.function.fail(
                node, f"`{what}` is out of range: an integer of a kernel has {_MAX_BITS} bits and a sign"
            )

    def _evaluate(self, node: ast.expr) -> _Value:
        match node:
            case ast.Constant(value=bool()):
                pass
            case ast.Constant(value=int() | str() as value):
                return value
            case ast.Name():
                return self._name(node)
            case ast.Attribute():
                return self._attribute(node)
            case ast.Tuple():
                return tuple(self.expression(e) for e in node.elts)
            case ast.BinOp():
                return self._arithmetic(node)
            case ast.UnaryOp(op=ast.USub()):
                return -self.integer(node.operand, "the operand of -")
            case ast.Subscript():
                return self._place(node)
            case ast.Call():
                value = self._call(node)
                if value is None:
                    self.function.fail(node, "this gives no value: write it as a statement of its own")
                return value
            case _:
                pass
        self.function.fail(node, f"a kernel cannot contain `{ast.unparse(node)}`")

    def _name(self, node: ast.Name) -> _Value:
        found = self.scope.find(node.id)
        if found is not None:
            return found
        try:
            value = self.function.lookup(node.id)
        except KeyError:
            known = self.scope.visible()
            hint = did_you_mean(node.id, known) if known else None
            self.function.fail(node, f"name '{node.id}' is not defined here", hint)
        self.reads.append(Read(None, node.id, value))
        return self._constant(node, value)

    def _constant(self, node: ast.expr, value: object) -> _Value:
        """A value from outside of the function."""
        if isinstance(value, tile.DType):
            return self._dtype_named(node, value.name)
        if value is builtins.range:
            self.function.fail(node, "Python's range has no meaning in a kernel", "use tile.range(view, dim=, step=)")
        if isinstance(value, int | str | ModuleType) and not isinstance(value, bool):
            return value
        if isinstance(value, tuple):
            return tuple(self._constant(node, v) for v in cast("tuple[object, ...]", value))
        name = getattr(value, "__name__", "")
        if getattr(tile, name, None) is value and name:
            return _Word(name)
        self.function.fail(
            node,
            f"`{ast.unparse(node)}` is a {type(value).__name__} from outside of the kernel: only integers, tuples of them, "
            "element types and the words of tilec.tile can be used",
        )

    def _attribute(self, node: ast.Attribute) -> _Value:
        value = self.expression(node.value)
        match value:
            case _View() if node.attr == "dtype":
                return value.type.dtype
            case ModuleType():
                if not hasattr(value, node.attr):
                    known = [n for n in dir(value) if not n.startswith("_")]
                    self.function.fail(
                        node, f"module {value.__name__} has no attribute '{node.attr}'", did_you_mean(node.attr, known)
                    )
                found = getattr(value, node.attr)
                self.reads.append(Read(value, node.attr, found))
                return self._constant(node, found)
            case _:
                self.function.fail(node, f"{_kind(value)} has no attribute '{node.attr}'")

    def _arithmetic(self, node: ast.BinOp) -> int:
        compute = _ARITHMETIC.get(type(node.op))
        if compute is None:
            self.function.fail(node, f"`{ast.unparse(node)}`: integers of a kernel have + - * // %")
        left, right = self.integer(node.left, "the left operand"), self.integer(node.right, "the right operand")
        try:
            return compute(left, right)
        except ZeroDivisionError as error:
            self.function.fail(node, f"`{ast.unparse(node)}`: {error}")

    def integer(self, node: ast.expr, what: str) -> int:
        value = self.expression(node)
        if not isinstance(value, int):
            self.function.fail(node, f"{what} is an integer known at compile time, not {_kind(value)}")
        return value

    def _view(self, node: ast.expr) -> _View:
        value = self.expression(node)
        if not isinstance(value, _View):
            self.function.fail(node, f"expected a view, not {_kind(value)}")
        return value

    def _place(self, node: ast.Subscript) -> _Place:
        view = self._view(node.value)
        nodes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        offsets: list[SSAValue] = []
        for one in nodes:
            value = self.expression(one)
            if not isinstance(value, _Offset):
                self.function.fail(
                    one, f"a view is indexed by variables of tile.grid and tile.range, not {_kind(value)}"
                )
            offsets.append(value.value)
        if len(offsets) != view.type.rank:
            self.function.fail(node, f"a view of {view.type.rank} dimensions is indexed by {len(offsets)} offsets")
        return _Place(view, tuple(offsets))

    # Words

    def _call(self, node: ast.Call) -> _Value | None:
        match self.expression(node.func):
            case _Word("smem"):
                return self._smem(node)
            case _Word("acc"):
                return self._acc(node)
            case _Word("copy"):
                return self._copy(node)
            case _Word("mma"):
                return self._mma(node)
            case _Word("empty"):
                self.function.fail(node, "give an output a name", 'as in D = tile.empty("M", "N", dtype=A.dtype)')
            case _Word("grid" | "range"):
                self.function.fail(node, f"`{ast.unparse(node.func)}` is what a loop runs over")
            case _:
                self.function.fail(
                    node,
                    f"a kernel cannot call `{ast.unparse(node.func)}`",
                    "it can call tile.empty, tile.smem, tile.acc, tile.copy and tile.mma",
                )

    def _arguments(self, node: ast.Call, *names: str) -> list[ast.expr]:
        """The arguments of a call, by position or by name; exactly those that `names` lists."""
        given = dict(zip(names, node.args, strict=False))
        for keyword in node.keywords:
            if keyword.arg is None or keyword.arg not in names:
                self.function.fail(keyword, f"unknown argument '{keyword.arg}'", did_you_mean(keyword.arg or "", names))
            if keyword.arg in given:
                self.function.fail(keyword, f"argument '{keyword.arg}' is given twice")
            given[keyword.arg] = keyword.value
        missing = [n for n in names if n not in given]
        if missing or len(node.args) > len(names):
            self.function.fail(node, f"`{ast.unparse(node.func)}` takes {', '.join(names)}")
        return [given[n] for n in names]

    def _empty(self, node: ast.Call, name: str) -> _View:
        if self.at is not self.block:
            self.function.fail(node, "outputs are made before the loops of a kernel")
        keywords = {k.arg: k.value for k in node.keywords}
        if set(keywords) != {"dtype"} or not node.args:
            self.function.fail(node, "tile.empty takes extents and dtype=", 'as in tile.empty("M", "N", dtype=A.dtype)')
        symbols = {
            d for v in self.block.args if isinstance(v.type, ViewType) for d in v.type.dims if isinstance(d, str)
        }
        dims: list[int | str | None] = []
        for one in node.args:
            (dim,) = self._dims(one)
            if dim is None or (isinstance(dim, str) and dim not in symbols):
                known = f"the inputs have {', '.join(sorted(symbols))}" if symbols else "no input has a symbol"
                self.function.fail(one, f"{ast.unparse(one)} is no extent of an input", known)
            dims.append(dim)
        dtype = self._dtype(keywords["dtype"])
        view = self._argument(node, name, self._guard(node, lambda: ViewType.of(dims, dtype.type)))
        self.outputs.append(Output(name, tuple(dims), dtype.name))
        self.output_values.append(view.value)
        return view

    def _dtype(self, node: ast.expr) -> DType:
        value = self.expression(node)
        if isinstance(value, str):
            return self._dtype_named(node, value)
        if not isinstance(value, DType):
            self.function.fail(node, f"expected an element type, such as A.dtype or tile.f16, not {_kind(value)}")
        return value

    def _smem(self, node: ast.Call) -> _Storage:
        rows, columns, dtype = self._arguments(node, "rows", "columns", "dtype")
        shape = self.integer(rows, "rows"), self.integer(columns, "columns")
        element = self._dtype(dtype).type
        return self._alloc(node, lambda: SmemType.of(shape, element))

    def _acc(self, node: ast.Call) -> _Storage:
        rows, columns = self._arguments(node, "rows", "columns")
        shape = self.integer(rows, "rows"), self.integer(columns, "columns")
        return self._alloc(node, lambda: AccType.of(shape, F32.type))

    def _alloc(self, node: ast.Call, type: Callable[[], SmemType | AccType]) -> _Storage:
        op = self._add(node, AllocOp(self._guard(node, type)))
        return _Storage(op.results[0])

    def _copy(self, node: ast.Call) -> None:
        source, destination = (self.expression(a) for a in self._arguments(node, "source", "destination"))
        match source, destination:
            case _Place(), _Storage():
                self._add(node, CopyOp(source.view.value, destination.value, source.offsets))
            case _Storage(), _Place():
                self._add(node, CopyOp(source.value, destination.view.value, destination.offsets))
            case _:
                self.function.fail(
                    node,
                    f"tile.copy goes from a view at offsets to a tile or back, not from {_kind(source)} to {_kind(destination)}",
                    "as in tile.copy(A[m, k], a)",
                )

    def _mma(self, node: ast.Call) -> None:
        tiles: list[SSAValue] = []
        for argument, wanted in zip(self._arguments(node, "acc", "a", "b"), (AccType, SmemType, SmemType), strict=True):
            value = self.expression(argument)
            if not isinstance(value, _Storage) or not isinstance(value.value.type, wanted):
                kind = "an accumulator (tile.acc)" if wanted is AccType else "a shared tile (tile.smem)"
                self.function.fail(argument, f"tile.mma takes {kind} here, not `{ast.unparse(argument)}`")
            tiles.append(value.value)
        acc, a, b = tiles
        self._add(node, MmaOp(acc, a, b))

    # Operations

    def _add(self, node: ast.AST, op: Operation) -> Operation:
        op.location = self._location(node)
        self.at.add_op(op)
        return op

    def _location(self, node: ast.AST) -> FileLineColLoc:
        at = self.function.location(node)
        return FileLineColLoc(StringAttr(at.file), IntAttr(at.line), IntAttr(at.column))

    def _guard(self, node: ast.AST, make: Callable[[], _Made]) -> _Made:
        """A type that verifies itself when it is made, or an operation whose attributes do."""
        try:
            return make()
        except (VerifyException, ValueError) as error:  # ValueError: an integer that its attribute cannot hold
            raise TilecError(one_line(error), self.function.location(node)) from error


def _keyword(statement: ast.stmt) -> str:
    """The first words of a statement, for a message."""
    return ast.unparse(statement).split("\n")[0].split(":")[0]
