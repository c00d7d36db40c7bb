"""Names from outside of a function: what they mean in a kernel, and the record that they were read."""

from __future__ import annotations

from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import cast

from tilec.diagnostics import did_you_mean, kind_of
from tilec.dialects.tile import ViewType
from tilec.frontend import reads, tile
from tilec.frontend.lowering import builtin
from tilec.frontend.lowering.arguments import Argument, dtype_named
from tilec.frontend.lowering.frame import Site
from tilec.frontend.lowering.values import Builtin, Helper, Module, Value, Word
from tilec.frontend.lowering.vocabulary import VOCABULARY
from tilec.frontend.reads import Read

_INSTEAD = "compute the value outside of the kernel; tile.cdiv(a, b) is a quotient rounded up"
_USABLE = "numbers, strings, element types and tuples of them, functions, and the words of tilec.tile can be used"


def free_name(site: Site, name: str) -> Value:
    """The value of a name that the function does not set itself."""
    function = site.frame.function
    if name in site.frame.liveness.own:
        site.fail(f"{name} has no value here: it is set elsewhere in {function.name}", f"set {name} before it is read")
    try:
        value = function.lookup(name)
    except KeyError:
        if name in function.callable.__code__.co_freevars:
            site.fail(
                f"{name} has no value yet: the function around {function.name} sets it later", f"set {name} first"
            )
        site.fail(f"name '{name}' is not defined here", _symbol(site, name) or _known(site, name))
    return _value(site, value, site.frame.within, name)


def _symbol(site: Site, name: str) -> str | None:
    """What to write for a symbol of an input."""
    for view in site.state.body.args:
        if isinstance(view.type, ViewType) and name in view.type.dims:
            extent = f"{view.name_hint}.shape[{view.type.dims.index(name)}]"
            return f'write "{name}" for the symbol, or {extent} for the extent'
    return None


def _known(site: Site, name: str) -> str | None:
    around = [n for n in site.frame.function.names() if not n.startswith("__")]
    return did_you_mean(name, [*site.frame.scope.visible(), *around])


def module_attribute(site: Site, owner: Module, name: str) -> Value:
    """The value of an attribute of a module."""
    if not hasattr(owner.module, name):
        if owner.module is tile and name in tile.OTHERWISE:
            site.fail(f"tile.{name} is not written so in Python", f"write {tile.OTHERWISE[name]}")
        known = getattr(owner.module, "__all__", None) or [n for n in dir(owner.module) if not n.startswith("_")]
        site.fail(f"module {owner.module.__name__} has no attribute '{name}'", did_you_mean(name, known))
    return _value(site, getattr(owner.module, name), owner.within, f"{owner.path}.{name}")


def word_attribute(site: Site, owner: Word, name: str) -> Value:
    """A word behind another one: `tile.mbarrier.init`."""
    dotted = f"{owner.name}.{name}"
    if dotted not in VOCABULARY.known():
        known = [w.removeprefix(f"{owner.name}.") for w in VOCABULARY.known() if w.startswith(f"{owner.name}.")]
        site.fail(f"tile.{owner.name} has no attribute '{name}'", did_you_mean(name, sorted(known)) if known else None)
    return Word(dotted)


def default(site: Site, parameter: str, value: object) -> Value:
    """The default of a helper's parameter; `site` is in the helper."""
    if not reads.is_constant(value):
        site.fail(f"the default of {parameter} is {_described(value)}: {_USABLE}")
    record(site, Read(site.frame.within, parameter, reads.constant(value), "default"))
    return constant(site, value)


def constant(site: Site, value: object) -> Value:
    """A constant of Python as the lowering has it."""
    if isinstance(value, tile.DType):
        return dtype_named(site, value.name)
    if isinstance(value, tuple):
        return tuple(constant(site, v) for v in cast("tuple[object, ...]", value))
    assert value is None or isinstance(value, int | float | bool | str)
    return value


def annotated(site: Site, parameter: str, position: int, item: object) -> Value:
    """An item in the brackets of a parameter's annotation, as Python has evaluated it."""
    fact = reads.annotated(item)
    if fact is None:
        site.fail(f"an extent is a symbol, an integer or '?', not {kind_of(item)}")
    record(site, Read((), reads.item_path(parameter, position), fact, "annotation"))
    return _facts(site, item) if isinstance(item, tile.Facts) else constant(site, item)


def _facts(site: Site, facts: tile.Facts) -> Value:
    return VOCABULARY.words["facts"].handler(
        site,
        order=Argument(site.frame, site.node, constant(site, facts.order), "argument order"),
        align=Argument(site.frame, site.node, facts.align, "argument align"),
        tail=Argument(site.frame, site.node, facts.tail, "argument tail"),
    )


def _value(site: Site, value: object, within: tuple[str, ...], path: str) -> Value:
    """What was looked up as `path` in the helper that `within` leads to."""
    if reads.is_constant(value):
        record(site, Read(within, path, reads.constant(value)))
        return constant(site, value)
    if isinstance(value, ModuleType):
        record(site, Read(within, path, reads.SOME_MODULE))
        return Module(value, within, path)
    word = VOCABULARY.names.get(id(value))
    if word is not None:
        record(site, Read(within, path, reads.word(word)))
        return Word(word)
    known = builtin.name_of(value)
    if known is not None:
        record(site, Read(within, path, reads.builtin(known)))
        return Builtin(known)
    plain = reads.plain(value)
    if isinstance(plain, FunctionType):
        record(site, Read(within, path, reads.SOME_FUNCTION))
        return Helper(plain, within, path)
    if isinstance(value, type) or callable(value):
        site.fail(f"a kernel cannot use `{site.text}`, {_described(value)}", _INSTEAD)
    site.fail(f"`{site.text}` is {_described(value)} from outside of the kernel", _USABLE)


def _described(value: object) -> str:
    if isinstance(value, tuple):
        wrong = next(v for v in cast("tuple[object, ...]", value) if not reads.is_constant(v))
        return f"a tuple that holds {kind_of(wrong)}"
    match value:
        case type():
            return "a class"
        case BuiltinFunctionType():
            return "a function that is not written in Python"
        case MethodType():
            return "a method"
        case _:
            return kind_of(value)


def record(site: Site, read: Read) -> None:
    """Note what the program depends on."""
    site.state.reads.setdefault(read)
