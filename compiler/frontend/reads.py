"""What a program depends on around its function: facts that are data, and hold or do not hold in any process.

A `Read` is a name that the lowering looked up, as seen from the kernel, and what it found there: a constant, a word of
`tile`, or a function by its digest. As long as all of them still hold, lowering again gives the same program.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, Literal, cast

from tilec.backend.runtime.host.guards import ABSENT, Guard
from tilec.diagnostics import TilecError
from tilec.frontend import tile
from tilec.frontend.function import MISSING, Function
from tilec.frontend.tile.annotation import ViewAnnotation
from tilec.frontend.tile.types import DType, Facts

Fact = tuple[str, object]
"""What was found, as a kind and a value of JSON: ``("int", 64)``, ``("tuple", [["int", 1], ...])``, ``("word", "copy")``."""


Looked = Literal["name", "default", "annotation"]


@dataclass(frozen=True)
class Read:
    """A name that was looked up.

    `within` are the helpers on the way from the kernel, each a dotted path in the one before it: the names by which they are
    found, which need not be those by which they are called. `path` is what was looked up of the last one: a free name, with
    attributes of modules behind it, or one of its parameters, for its default, or an item of its annotation (`item_path`).
    """

    within: tuple[str, ...]
    path: str
    fact: Fact
    of: Looked = "name"

    def __hash__(self) -> int:
        return hash((self.within, self.path, self.of))


_DEEPEST = 100


def is_constant(value: object, deepest: int = _DEEPEST) -> bool:
    """Whether a value means something by itself, and the same in any process; of tuples in tuples, `deepest` are looked at."""
    if type(value) is tuple:
        return deepest > 0 and all(is_constant(one, deepest - 1) for one in cast("tuple[object, ...]", value))
    return type(value) in (int, float, bool, str, DType, type(None))


def constant(value: object) -> Fact:
    """The fact of a value that `is_constant`."""
    match value:
        case tuple():
            return "tuple", [list(constant(v)) for v in cast("tuple[object, ...]", value)]
        case DType():
            return "dtype", value.name
        case float():  # by its bits: -0.0 is not 0.0; all NaNs are one
            return "float", "nan" if math.isnan(value) else value.hex()
        case _:
            return type(value).__name__, value


def word(name: str) -> Fact:
    """The fact of a word of `tile`, by its dotted name."""
    return "word", name


def builtin(name: str) -> Fact:
    """The fact of a function of Python's own."""
    return "builtin", name


def helper(function: Function) -> Fact:
    """The fact of a function that is lowered where it is called."""
    return "function", function.digest


def annotated(item: object) -> Fact | None:
    """The fact of what stands in the brackets of a view's annotation: constants and `Facts`; None for anything else."""
    if isinstance(item, Facts):
        parts = (item.order, item.align, item.tail)
        return ("facts", list(constant(parts))) if is_constant(parts) else None
    return constant(item) if is_constant(item) else None


ABSENCE: Final[Fact] = ("absent", None)
"""The fact of a name that has no value."""
SOME_FUNCTION: Final[Fact] = ("some", "function")
SOME_MODULE: Final[Fact] = ("some", "module")
"""Facts of names that were compared with None, or handed on: what is done with the function or the module is read apart."""


def plain(value: object) -> object:
    """The function under `tilec.jit`, or the value itself."""
    from tilec.frontend.jit import JitFunction

    return cast("Any", value).__wrapped__ if isinstance(value, JitFunction) else value


# Whether they hold


def still(function: Function, reads: Iterable[Read]) -> bool:
    """Whether lowering `function` again would read the same."""
    return all(_holds(function, read) for read in reads)


def _holds(kernel: Function, read: Read) -> bool:
    owner: Function | None = kernel
    for path in read.within:
        owner = None if owner is None else _function(_find(owner, path))
    if owner is None:
        return False
    found = _looked(owner, read)
    kind, data = read.fact
    match kind:
        case "absent":
            return found is MISSING
        case "word":
            return found is _word(str(data))
        case "builtin":
            return found is getattr(builtins, str(data), None)
        case "function":
            now = _function(found)
            return now is not None and now.digest == data
        case "some":
            return isinstance(plain(found), ModuleType if data == "module" else FunctionType)
        case "facts":
            return annotated(found) == read.fact
        case _:
            return is_constant(found) and constant(found) == read.fact


def _looked(owner: Function, read: Read) -> object:
    """What is there now, or MISSING."""
    match read.of:
        case "name":
            return _find(owner, read.path)
        case "default":
            return owner.defaults.get(read.path, MISSING)
        case "annotation":
            return _item(owner, read.path)


def _find(owner: Function, path: str) -> object:
    """What a dotted path means now, or MISSING."""
    name, *attributes = path.split(".")
    try:
        value = owner.lookup(name)
    except KeyError:
        return MISSING
    for attribute in attributes:
        if not isinstance(value, ModuleType):
            return MISSING
        value = getattr(value, attribute, MISSING)
    return value


def item_path(parameter: str, position: int) -> str:
    """The path of one of the items in the brackets of a parameter's annotation."""
    return f"{parameter}.{position}"


def _item(owner: Function, path: str) -> object:
    parameter, _, position = path.rpartition(".")
    annotation = owner.annotations.get(parameter)
    items = annotation.items if isinstance(annotation, ViewAnnotation) else ()
    return items[int(position)] if int(position) < len(items) else MISSING


def _word(name: str) -> object:
    try:
        return attrgetter(name)(tile)
    except AttributeError:
        return None


def read_helper(callable: FunctionType) -> Function:
    """The function, read once. Raises TilecError as `Function.read` does."""
    return _read(callable, callable.__code__)


@lru_cache(maxsize=512)
def _read(callable: FunctionType, code: CodeType) -> Function:
    return Function.read(callable)


def _function(value: object) -> Function | None:
    value = plain(value)
    if not isinstance(value, FunctionType):
        return None
    try:
        return read_helper(value)
    except TilecError:
        return None


# Guards


def guards(function: Function, reads: Iterable[Read]) -> list[Guard] | None:
    """Variables and the objects that they have now: while they are the same objects, `still` is true.

    None where this cannot be told by variables: an attribute that a module makes when asked, a name of a closure that has no
    value yet.
    """
    found: dict[tuple[int, str | None], Guard] = {}
    for read in reads:
        owner: Function | None = function
        for path in read.within:
            steps = None if owner is None else _steps(owner, path)
            if steps is None:
                return None
            found.update(_by_variable(steps))
            owner = _function(steps[-1][2])
            found.update(_by_variable(_of_function(owner)))
        steps = None if owner is None else _last_steps(owner, read)
        if steps is None:
            return None
        found.update(_by_variable(steps))
    return list(found.values())


def _by_variable(steps: list[Guard]) -> dict[tuple[int, str | None], Guard]:
    return {(id(step[0]), step[1]): step for step in steps}


def _last_steps(owner: Function, read: Read) -> list[Guard] | None:
    """Guards of what was looked up; annotations were when their function was read, and need none."""
    if read.of != "name":
        named: dict[str, object] = owner.callable.__kwdefaults__ or {}
        return [(named, read.path, named[read.path])] if read.of == "default" and read.path in named else []
    if read.fact[0] == "function":
        steps = _steps(owner, read.path)
        return steps and [*steps, *_of_function(_function(steps[-1][2]))]
    if read.fact != ABSENCE:
        return _steps(owner, read.path)
    if read.path in owner.callable.__code__.co_freevars:
        return None
    spaces: list[dict[str, object]] = [owner.callable.__globals__, owner.callable.__builtins__]
    return [(space, read.path, ABSENT) for space in spaces]


def _of_function(function: Function | None) -> list[Guard]:
    """What makes a function the one that was read, which assignments to its attributes can change."""
    if function is None:
        return []
    plain: FunctionType = function.callable
    return [(plain, name, getattr(plain, name)) for name in ("__code__", "__defaults__", "__kwdefaults__")]


def _steps(owner: Function, path: str) -> list[Guard] | None:
    name, *attributes = path.split(".")
    steps = _found(owner, name)
    if steps is None:
        return None
    for attribute in attributes:
        module = steps[-1][2]
        if not isinstance(module, ModuleType) or attribute not in vars(module):
            return None
        steps.append((vars(module), attribute, vars(module)[attribute]))
    return steps


def _found(owner: Function, name: str) -> list[Guard] | None:
    """The variable that a free name is, behind those that would hide it."""
    try:
        home = owner.home(name)
        value = owner.lookup(name)
    except KeyError:
        return None
    if home is None:
        return [(owner.cell(name), None, value)]
    here: dict[str, object] = owner.callable.__globals__
    hiding: list[Guard] = [] if home is here else [(here, name, ABSENT)]
    return [*hiding, (home, name, value)]


# As data


def reads_to_json(reads: Iterable[Read]) -> list[object]:
    """A value of JSON that `reads_from_json` makes the same reads of, in any process."""
    return [[list(r.within), r.path, list(r.fact), r.of] for r in reads]


def reads_from_json(data: object) -> tuple[Read, ...]:
    """Raises ValueError for what `reads_to_json` did not write."""
    try:
        rows = cast("list[tuple[list[str], str, list[object], Looked]]", data)
        return tuple(Read(tuple(within), path, (str(fact[0]), fact[1]), of) for within, path, fact, of in rows)
    except (TypeError, ValueError, IndexError) as error:
        raise ValueError("these are no reads") from error
