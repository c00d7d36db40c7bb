"""Arguments: what a call gives to the parameters of a signature, each with its place in the text."""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar

from xdsl.dialects.builtin import IndexType
from xdsl.ir import SSAValue

from tilec.diagnostics import did_you_mean
from tilec.dialects.tile import DTYPES, DType
from tilec.frontend.lowering.frame import Site, shown
from tilec.frontend.lowering.values import Scalar, Thing, Value, kind

_Class = TypeVar("_Class", bound=Thing)
_Parameter = inspect.Parameter


@dataclass(frozen=True)
class Argument(Site):
    """A value given to a parameter (or to an operator, or in a subscript), and the node that it came from.

    `name` is how messages call it. A default's node is the whole call.
    """

    value: Value = None
    name: str = ""
    is_default: bool = field(default=False, kw_only=True)

    def refuse(self, expected: str, hint: str | None = None) -> NoReturn:
        """`argument rows must be an integer known at compile time, not a run-time index`"""
        self.fail(f"{self.name} must be {expected}, not {kind(self.value)}", hint)

    def of(self, owner: type[_Class], hint: str | None = None) -> _Class:
        """The value, which is of this class of things."""
        if not isinstance(self.value, owner):
            self.refuse(owner.noun, hint)
        return self.value

    def integer(self) -> int:
        if not isinstance(self.value, int) or isinstance(self.value, bool):
            self.refuse("an integer known at compile time")
        return self.value

    def integers(self) -> tuple[int, ...]:
        """A tuple of integers; one integer stands for a tuple of one."""
        values = self.value if isinstance(self.value, tuple) else (self.value,)
        found = [v for v in values if isinstance(v, int) and not isinstance(v, bool)]
        if len(found) < len(values):
            wrong = next(v for v in values if not isinstance(v, int) or isinstance(v, bool))
            self.fail(f"{self.name} must hold integers known at compile time, not {kind(wrong)}")
        return tuple(found)

    def number(self) -> float:
        """An integer or a float known at compile time."""
        if not isinstance(self.value, int | float) or isinstance(self.value, bool):
            self.refuse("a number known at compile time")
        return self.value

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            self.refuse("True or False, known at compile time")
        return self.value

    def string(self) -> str:
        if not isinstance(self.value, str):
            self.refuse("a string")
        return self.value

    def choice(self, *names: str) -> str:
        """One of some names."""
        value = self.string()
        if value not in names:
            self.fail(f"{self.name} must be one of {', '.join(names)}, not '{value}'", did_you_mean(value, names))
        return value

    def dtype(self) -> DType:
        """An element type, or the name of one."""
        if isinstance(self.value, str):
            return dtype_named(self, self.value)
        if not isinstance(self.value, DType):
            self.fail(f"expected an element type, such as A.dtype or tile.f16, not {kind(self.value)}")
        return self.value

    def index(self) -> SSAValue:
        """A run-time index; an integer that is not negative becomes one."""
        if isinstance(self.value, Scalar) and isinstance(self.value.type, IndexType):
            return self.value.value
        if not isinstance(self.value, int) or isinstance(self.value, bool):
            self.refuse("an index")
        if self.value < 0:
            self.fail(f"{self.name} must not be negative: an index has no sign")
        return self.index_constant(self.value)


@dataclass(frozen=True)
class Slice(Site):
    """``start:stop`` in a subscript; what is left out is None."""

    start: Argument | None
    stop: Argument | None


def dtype_named(site: Site, name: str) -> DType:
    if name not in DTYPES:
        site.fail(f"unsupported element type {name}: tiles hold {', '.join(DTYPES)}")
    return DTYPES[name]


def refuse_stars(site: Site) -> NoReturn:
    """``**`` in a call."""
    site.fail("a kernel's calls have no **", "name each argument")


Bound = dict[str, Argument | tuple[Argument, ...]]


def bind(site: Site, call: ast.Call, signature: inspect.Signature, what: str) -> Bound:
    """Evaluate the arguments of a call and give them to the parameters, as Python does; `what` is called.

    What stands for ``*dims`` is a tuple.
    """
    parameters = signature.parameters
    positional = [
        p for p in parameters.values() if p.kind in (_Parameter.POSITIONAL_ONLY, _Parameter.POSITIONAL_OR_KEYWORD)
    ]
    rest = next((p for p in parameters.values() if p.kind is _Parameter.VAR_POSITIONAL), None)
    by_name = [
        p.name for p in parameters.values() if p.kind in (_Parameter.POSITIONAL_OR_KEYWORD, _Parameter.KEYWORD_ONLY)
    ]
    bound: Bound = {}
    more: list[Argument] = []
    for i, node in enumerate(call.args):
        if i < len(positional):
            bound[positional[i].name] = _argument(site, node, f"argument {positional[i].name}")
        elif rest is not None:
            more.append(_argument(site, node, rest.name))
        else:
            named = [p.name for p in parameters.values() if p.kind is _Parameter.KEYWORD_ONLY][i - len(positional) :]
            hint = f"write {named[0]}={shown(node)}" if named else None
            site.at(node).fail(f"{_takes(what, signature)}: this argument is one too many", hint)
    if rest is not None:
        bound[rest.name] = tuple(more)
    for keyword in call.keywords:
        at = site.at(keyword)
        if keyword.arg is None:
            refuse_stars(at)
        if keyword.arg not in by_name:
            at.fail(f"unknown argument '{keyword.arg}'", did_you_mean(keyword.arg, by_name))
        if keyword.arg in bound:
            at.fail(f"argument '{keyword.arg}' is given twice")
        bound[keyword.arg] = _argument(site, keyword.value, f"argument {keyword.arg}")
    missing = [p.name for p in parameters.values() if p.name not in bound and p.default is _Parameter.empty]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        site.fail(f"{_takes(what, signature)}: {', '.join(missing)} {verb} missing")
    return bound


def bind_stub(site: Site, call: ast.Call, signature: inspect.Signature, what: str) -> Bound:
    """As `bind`, with the defaults of a stub, which are constants."""
    bound = bind(site, call, signature, what)
    for p in signature.parameters.values():
        if p.name not in bound:
            bound[p.name] = Argument(site.frame, site.node, p.default, p.name, is_default=True)
    return bound


def _argument(site: Site, node: ast.expr, name: str) -> Argument:
    return Argument(site.frame, node, site.evaluate(node), name)


def _takes(what: str, signature: inspect.Signature) -> str:
    names = [
        f"{p.name}=" if p.kind is _Parameter.KEYWORD_ONLY else str(p).split(":")[0].split("=")[0]
        for p in signature.parameters.values()
    ]
    return f"`{what}` takes {', '.join(names) if names else 'no arguments'}"
