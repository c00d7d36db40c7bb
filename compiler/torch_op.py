"""A kernel function as an operator of torch: `torch.compile` sees one node with known output shapes, and no graph breaks."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from importlib import import_module
from keyword import iskeyword
from typing import Any

from tilec.backend.runtime.arguments import LIBRARY_NAMES, Argument, check_rank
from tilec.diagnostics import TilecError, kind_of, one_line
from tilec.frontend.function import MISSING, Function, Parameter
from tilec.frontend.jit import JitFunction

_SCHEMA_TYPES = {bool: "bool", int: "int", float: "float", str: "str"}
_made: dict[str, tuple[JitFunction, Any]] = {}
"""Operators by name: torch would let a second one take the place of the first."""


def torch_op(function: JitFunction, /, name: str | None = None) -> Any:
    """The operator (a ``torch.library.CustomOpDef``) ``tilec::<function>``, or `name` ("mine::gemm"), that calls a `tilec.jit` function.

    Its arguments are the function's: tensors on a GPU or in host memory, and constants; its results what the function returns
    (views that the function writes and does not make are marked as mutated). It has a rule for fake tensors, with symbolic
    shapes. It has no derivative until one is given with the result's ``register_autograd``.

    Raises TilecError for what is no `tilec.jit` function, and for constants whose type a schema cannot tell.
    """
    if not isinstance(function, JitFunction):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TilecError(
            f"an operator is made of a tilec.jit function, not of {kind_of(function)}",
            hint="decorate the function with @tilec.jit first",
        )
    source = function.function
    qualified = f"tilec::{source.name}" if name is None else name
    _check_name(qualified)
    if qualified in _made:
        first, op = _made[qualified]
        if first is function:
            return op
        raise TilecError(f"there is an operator {qualified} already, of another function", hint="give this one a name=")
    count = _returned(source)
    mutated = _written(function) if count == 0 else ()
    parameters = [_schema_of(source, p, mutated) for p in source.parameters]
    results = "()" if count == 0 else "Tensor" if count == 1 else f"({', '.join(['Tensor'] * count)})"

    def call(*arguments: Any, **constants: Any) -> Any:
        result = function(*arguments, **constants)
        return None if count == 0 else result

    torch: Any = import_module("torch")
    schema = f"({_with_star(source, parameters)}) -> {results}"
    try:
        op = torch.library.custom_op(qualified, call, mutates_args=mutated, schema=schema)
    except (RuntimeError, ValueError, IndexError) as error:
        raise TilecError(f"torch refuses the operator {qualified}{schema}: {one_line(error)}") from error
    op.register_fake(_fake(function))
    _made[qualified] = function, op
    return op


def _check_name(qualified: object) -> None:
    parts = qualified.split("::") if isinstance(qualified, str) else []
    if len(parts) != 2 or not all(p.isidentifier() and p.isascii() and not iskeyword(p) for p in parts):
        raise TilecError(f"{qualified!r} is no name of an operator", hint='as in "mine::gemm"')


def _fake(function: JitFunction) -> Callable[..., Any]:
    """What a call gives, by shapes and types alone."""

    def call(*arguments: Any, **constants: Any) -> Any:
        torch: Any = import_module("torch")
        inputs, made = function.bound(arguments, constants)
        extents: dict[str, Any] = {}
        for view, tensor in zip(made.signature.views, inputs, strict=False):
            if tensor.dim() != view.rank:
                check_rank(
                    view.name, Argument(0, tuple(tensor.shape), tuple(tensor.stride()), view.dtype, None), view.rank
                )
            for dim, extent in zip(view.dims, tensor.shape, strict=True):
                if isinstance(dim, str):
                    first = extents.setdefault(dim, extent)
                    torch._check(first == extent, lambda d=dim, n=view.name: f"argument {n} disagrees about {d}")
                elif dim is not None:
                    torch._check(
                        extent == dim, lambda d=dim, n=view.name: f"argument {n} has an extent that is not {d}"
                    )
        outputs = [
            inputs[0].new_empty(
                [extents[d] if isinstance(d, str) else d for d in output.dims],
                dtype=getattr(torch, LIBRARY_NAMES[output.dtype]),
            )
            for output in made.returns.outputs
        ]
        return made.returns.value(outputs)

    return call


def _returned(function: Function) -> int:
    """How many tensors the function returns. Raises TilecError where that depends on which return is taken."""
    counts: dict[int, ast.Return] = {}
    for node in ast.walk(function.tree):
        if isinstance(node, ast.Return):
            match node.value:
                case None:
                    counts[0] = node
                case ast.Tuple():
                    counts[len(node.value.elts)] = node
                case _:
                    counts[1] = node
    if len(counts) > 1:
        function.fail(
            list(counts.values())[1],
            f"{function.name} returns {' or '.join(map(str, sorted(counts)))} tensors: an operator has one number of results",
        )
    return next(iter(counts), 0)


def _written(function: JitFunction) -> tuple[str, ...]:
    """The views that the function writes into: the same for all element types and constants, or the op's test will tell."""
    source = function.function
    types = ["f16" for p in source.parameters if p.kind == "view"]
    signature = function.kernel(*types).signature
    return tuple(view.name for view in signature.views if view.written)


def _schema_of(function: Function, parameter: Parameter, mutated: Sequence[str]) -> str:
    if parameter.kind == "view":
        place = list(mutated).index(parameter.name) if parameter.name in mutated else None
        return f"Tensor {parameter.name}" if place is None else f"Tensor(a{place}!) {parameter.name}"
    kind = type(parameter.default) if parameter.default is not MISSING else next(reversed(parameter.classes), None)
    if float in parameter.classes:  # it takes integers as well
        kind = float
    if kind not in _SCHEMA_TYPES:
        raise TilecError(
            f"the operator of {function.name} cannot tell the type of its constant {parameter.name}",
            function.location(function.tree),
            hint=f"give it a default that is an int, float, bool or str, or annotate it `{parameter.name}: int`",
        )
    default = parameter.default
    text = "" if default is MISSING else f"={default!r}" if isinstance(default, str) else f"={default}"
    return f"{_SCHEMA_TYPES[kind]} {parameter.name}{text}"


def _with_star(function: Function, parameters: Sequence[str]) -> str:
    """Keyword-only parameters stand behind a star."""
    positional = [text for text, p in zip(parameters, function.parameters, strict=True) if not p.keyword_only]
    keyword = [text for text, p in zip(parameters, function.parameters, strict=True) if p.keyword_only]
    return ", ".join([*positional, *(["*", *keyword] if keyword else [])])
