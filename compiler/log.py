"""``TILEC_LOG``: what tilec tells of its own work, on stderr.

``recompiles``: when a kernel is compiled again, and why. ``launches``: why calls go through Python, where they do.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from functools import cache

from tilec.backend.runtime.arguments import Facts
from tilec.signature import Signature

VARIABLE = "TILEC_LOG"
_TOPICS = ("recompiles", "launches")


def tells(topic: str) -> bool:
    """Whether the user asked for `topic`."""
    return topic in _asked(os.environ.get(VARIABLE, ""))


def tell(message: str) -> None:
    print(f"tilec: {message}", file=sys.stderr)


def about(topic: str, message: str) -> None:
    """Tell it, if the user asked for `topic`."""
    if tells(topic):
        tell(message)


def recompiles(
    signature: Signature,
    wanted: tuple[str, tuple[Facts, ...]],
    compiled: Sequence[tuple[str, tuple[Facts, ...]]],
) -> None:
    """A kernel is about to be compiled for `wanted`, a target and classes; `compiled` are those that it was compiled for."""
    if not compiled or not tells("recompiles"):
        return
    target, facts = wanted
    of_target = [earlier for other, earlier in compiled if other == target]
    if not of_target:
        tell(f"{signature.name} is compiled again: for {target}, after {compiled[-1][0]}")
        return
    # What differs from the compilation that is most alike says why none of them would do.
    alike = min(of_target, key=lambda earlier: sum(map(_differs, earlier, facts)))
    changes = [
        f"{name} is `{_words(new)}`, so far `{_words(old)}`"
        for name, old, new in zip(signature.names, alike, facts, strict=True)
        if old != new
    ]
    tell(f"{signature.name} is compiled again: {'; '.join(changes)}")


def another_program(name: str, wanted: Mapping[str, str], made: Sequence[Mapping[str, str]]) -> None:
    """A function was lowered for `wanted`: element types, constants and values around it; `made` are the ones before."""
    if not made or not tells("recompiles"):
        return
    # What differs from the one that is most alike says why none of them would do.
    changes = min((_changes(wanted, earlier) for earlier in reversed(made)), key=len)
    tell(f"{name} is compiled again: {'; '.join(changes) or 'a function that it calls has changed'}")


def _changes(wanted: Mapping[str, str], made: Mapping[str, str]) -> list[str]:
    return [
        f"{what} is {value}, so far {made.get(what, 'not read')}"
        for what, value in wanted.items()
        if made.get(what) != value
    ]


@cache
def _asked(text: str) -> frozenset[str]:
    words = frozenset(word.strip() for word in text.split(",") if word.strip())
    for word in sorted(words - {*_TOPICS}):
        print(f"tilec: {VARIABLE} has no topic '{word}'; it has {', '.join(_TOPICS)}", file=sys.stderr)
    return words


def _differs(a: Facts, b: Facts) -> bool:
    return a != b


def _words(facts: Facts) -> str:
    return f"order = {list(facts.order)}, align = {facts.align}, tail = {facts.tail}"
