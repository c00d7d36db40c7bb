"""The table of what kernels can say: words of `tilec.tile`, and what the values of each class can do.

Files of `words/` fill it; the lowering looks here and knows none of them. A handler gets the site of the call and the
arguments by the names that the stub in `tilec.frontend.tile` gives them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, TypeVar

from tilec.frontend import tile
from tilec.frontend.lowering.values import Thing, Value

_Handler = TypeVar("_Handler", bound=Callable[..., Any])


@dataclass(frozen=True)
class Callee:
    """What can be called: the handler, and the signature of the stub that users see."""

    handler: Callable[..., Any]
    signature: inspect.Signature


@dataclass
class Vocabulary:
    """Everything by its name in `tile`, or by the class of value that has it."""

    words: dict[str, Callee] = field(default_factory=dict[str, Callee])
    loops: dict[str, Callee] = field(default_factory=dict[str, Callee])
    scopes: dict[str, Callee] = field(default_factory=dict[str, Callee])
    names: dict[int, str] = field(default_factory=dict[int, str])
    """The dotted name of each object of `tile` that is a word, or has words behind it, by its identity."""
    attributes: dict[tuple[type[Thing], str], Callable[..., Value]] = field(
        default_factory=dict[tuple[type[Thing], str], Callable[..., Value]]
    )
    methods: dict[tuple[type[Thing], str], Callee] = field(default_factory=dict[tuple[type[Thing], str], Callee])
    subscripts: dict[type[Thing], Callable[..., Value]] = field(default_factory=dict[type[Thing], Callable[..., Value]])
    operators: dict[type[Thing], Callable[..., Value]] = field(default_factory=dict[type[Thing], Callable[..., Value]])

    def name(self, dotted: str) -> object:
        """Make the object of `tile` with this name, and those on the way to it, words. Gives the object."""
        parts = dotted.split(".")
        for i in range(1, len(parts) + 1):
            prefix = ".".join(parts[:i])
            self.names[id(attrgetter(prefix)(tile))] = prefix
        return attrgetter(dotted)(tile)

    def known(self) -> set[str]:
        """The dotted names of all words."""
        return set(self.names.values())

    def members(self, owner: type[Thing]) -> list[str]:
        """The attributes and methods that values of a class have."""
        return sorted(name for c, name in (*self.attributes, *self.methods) if c is owner)


VOCABULARY = Vocabulary()


def _callee(dotted: str, handler: Callable[..., Any]) -> Callee:
    stub = VOCABULARY.name(dotted)
    assert callable(stub)
    return Callee(handler, inspect.signature(stub))


def word(dotted: str) -> Callable[[_Handler], _Handler]:
    """The handler of a call ``tile.<dotted>(...)``: ``handler(site, **arguments) -> Value``."""

    def register(handler: _Handler) -> _Handler:
        VOCABULARY.words[dotted] = _callee(dotted, handler)
        return handler

    return register


def loop(dotted: str) -> Callable[[_Handler], _Handler]:
    """The handler of ``for ... in tile.<dotted>(...)``: ``handler(loop, **arguments) -> None``."""

    def register(handler: _Handler) -> _Handler:
        VOCABULARY.loops[dotted] = _callee(dotted, handler)
        return handler

    return register


def scope(dotted: str) -> Callable[[_Handler], _Handler]:
    """The handler of ``with tile.<dotted>(...):``: ``handler(with_, **arguments) -> None``."""

    def register(handler: _Handler) -> _Handler:
        VOCABULARY.scopes[dotted] = _callee(dotted, handler)
        return handler

    return register


def attribute(owner: type[Thing], name: str) -> Callable[[_Handler], _Handler]:
    """The handler of ``value.<name>``: ``handler(site, value) -> Value``."""

    def register(handler: _Handler) -> _Handler:
        VOCABULARY.attributes[owner, name] = handler
        return handler

    return register


def method(owner: type[Thing], name: str, stub: Callable[..., Any]) -> Callable[[_Handler], _Handler]:
    """The handler of ``value.<name>(...)``: ``handler(site, value, **arguments) -> Value``; `stub` has `self` first."""

    def register(handler: _Handler) -> _Handler:
        signature = inspect.signature(stub)
        _, *parameters = signature.parameters.values()
        VOCABULARY.methods[owner, name] = Callee(handler, signature.replace(parameters=parameters))
        return handler

    return register


def subscript(owner: type[Thing]) -> Callable[[_Handler], _Handler]:
    """The handler of ``value[...]``: ``handler(site, value, items) -> Value``; items are `Argument` or `Slice`."""

    def register(handler: _Handler) -> _Handler:
        VOCABULARY.subscripts[owner] = handler
        return handler

    return register


def operator(owner: type[Thing]) -> Callable[[_Handler], _Handler]:
    """The handler of operators of which one operand is of this class: ``handler(site, symbol, left, right) -> Value``.

    `symbol` is that of Python ("+", "<"), or "min" or "max" for these functions.
    """

    def register(handler: _Handler) -> _Handler:
        VOCABULARY.operators[owner] = handler
        return handler

    return register
