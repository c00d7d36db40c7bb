"""Writes ``dialect.md``, ``passes.md``, ``words.md`` and ``costs.md`` from the docstrings: ``python docs/generate.py [FOLDER]``."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    AnyOf,
    AttrConstraint,
    BaseAttr,
    EqAttrConstraint,
    IRDLOperation,
    OptOperandDef,
    OptPropertyDef,
    OptResultDef,
    ParamAttrConstraint,
    RangeConstraint,
    RangeLengthConstraint,
    RangeOf,
    VarOperandDef,
    VarResultDef,
)
from xdsl.traits import is_side_effect_free

from tilec.backend.timeline import MODELS, Costs, Model
from tilec.dialects.tile import Tile
from tilec.frontend.tile import bulk, compute, mbarrier, memory, structure, sync, tmem, types
from tilec.passes import PASSES, summary
from tilec.spec import describe_options

_NOTE = "*Written by `docs/generate.py` from the docstrings; change those.*"

_ATTRIBUTES = {
    "array": "list of integers",
    "integer": "integer",
    "float": "number",
    "string": "string",
    "unit": "flag",
}
_OPTIONAL = (OptOperandDef, OptResultDef, OptPropertyDef)
_VARIADIC = (VarOperandDef, VarResultDef)


def dialect_page() -> str:
    """All types and operations of the tile dialect."""
    sections = ["# The tile dialect", _NOTE, inspect.cleandoc(_DIALECT), "## Types"]
    for type in Tile.attributes:
        sections += [f"### `!{type.name}`", inspect.cleandoc(type.__doc__ or "")]
    module = None
    for op in sorted(Tile.operations, key=_module_order):
        if op.__module__ != module:
            module = op.__module__
            first_line = (sys.modules[module].__doc__ or "").strip().split("\n")[0]
            sections.append(f"## {first_line.rstrip('.')}")
        sections += [f"### `{op.name}`", inspect.cleandoc(op.__doc__ or ""), "\n".join(_facts(op))]
    return "\n\n".join(sections) + "\n"


def passes_page() -> str:
    """All passes with their options."""
    sections = ["# Passes", _NOTE, inspect.cleandoc(_PASSES)]
    for name, load in PASSES.items():
        options = describe_options(load())
        sections += [f"## `{name}({options})`" if options else f"## `{name}`"]
        own = load().__module__.startswith("tilec.")
        sections += [inspect.cleandoc(load().__doc__ or "") if own else summary(name)]
    return "\n\n".join(sections) + "\n"


def words_page() -> str:
    """All words of Python kernels, module by module of their stubs."""
    sections = ["# The words of Python kernels", _NOTE, inspect.cleandoc(_WORDS)]
    for module in (structure, memory, compute, mbarrier, sync, bulk, tmem, types):
        first_line = (module.__doc__ or "").strip().split("\n")[0]
        sections.append(f"## {first_line.rstrip('.')}")
        within = module.__name__.rpartition(".")[2]
        prefix = f"tile.{within}" if module in (mbarrier, bulk, tmem) else "tile"
        for name, value in vars(module).items():
            own = not name.startswith("_") and getattr(value, "__module__", None) == module.__name__ and value.__doc__
            if not own or isinstance(value, types.DType) or (isinstance(value, type) and module is not types):
                continue
            sections += _word(f"{prefix}.{name}", value)
            if hasattr(value, "expect_tx"):
                sections += _word(f"{prefix}.{name}.expect_tx", value.expect_tx)
    return "\n\n".join(sections) + "\n"


def costs_page() -> str:
    """Every constant of the cost models, with its source."""
    names = [*_attribute_docs(Model), *_attribute_docs(Costs)]
    docs = {**_attribute_docs(Model), **_attribute_docs(Costs)}
    sections = ["# The cost models", _NOTE, inspect.cleandoc(_COSTS)]
    for model in MODELS.values():
        rows = ["| constant | value | what | evidence |", "|---|---|---|---|"]
        for name in names:
            if name in model.sources:
                value = getattr(model.costs if hasattr(model.costs, name) else model, name)
                source = model.sources[name]
                rows.append(
                    f"| `{name}` | {value:g} | {' '.join(docs[name].split())} | {source.evidence}: {source.where} |"
                )
        sections += [f"## {model.target}", "\n".join(rows)]
    return "\n\n".join(sections) + "\n"


def _attribute_docs(cls: type) -> dict[str, str]:
    """The strings under the attributes of a class; one string serves for those in front of it that have none."""
    (definition,) = ast.parse(inspect.getsource(cls)).body
    assert isinstance(definition, ast.ClassDef)
    docs: dict[str, str] = {}
    waiting: list[str] = []
    for statement in definition.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name)):
                waiting.append(name)
            case ast.Expr(value=ast.Constant(value=str(text))) if waiting:
                docs.update(dict.fromkeys(waiting, text))
                waiting.clear()
            case _:
                pass
    return docs


def _word(name: str, value: object) -> list[str]:
    """A function with its parameters, or a class with what can be read of its values."""
    text = inspect.cleandoc(getattr(value, "__doc__", None) or "")
    if not isinstance(value, type):
        function = value if inspect.isroutine(value) else type(value).__call__
        return [f"### `{name}({_parameters(function)})`", text]
    members = [m for m in vars(value) if not m.startswith("_") and not m.isupper()]
    return [f"### `{name}`", text, *([f"Of a value: `.{'`, `.'.join(members)}`."] if members else [])]


def _parameters(function: Callable[..., object]) -> str:
    """Names and defaults; types stand in the text."""
    shown: list[str] = []
    star = False
    for one in inspect.signature(function).parameters.values():
        if one.name == "self":
            continue
        if one.kind is one.KEYWORD_ONLY and not star:
            star = True
            shown += [] if shown and shown[-1].startswith("*") else ["*"]
        star = star or one.kind is one.VAR_POSITIONAL
        default = "" if one.default is one.empty else f"={one.default!r}"
        shown.append(f"{'*' if one.kind is one.VAR_POSITIONAL else ''}{one.name}{default}")
    return ", ".join(shown)


PAGES: dict[str, Callable[[], str]] = {
    "dialect.md": dialect_page,
    "passes.md": passes_page,
    "words.md": words_page,
    "costs.md": costs_page,
}

_WORDS = """
A kernel is a Python function that is read, not run; `tile.X` is the dialect's operation `tile.X` ([dialect.md](dialect.md)). What Python writes
better has another spelling: `ring[s]` is `tile.slot`, `acc[:, 64:128]` is `tile.slice`, `r + s` is `tile.add`. [python.md](python.md) tells
the story; what stands here is the reference.

Numbers that are known when the kernel is compiled may be anything that Python computes. Numbers known at run time (offsets, extents, phases) have
`+ - * // %`, shifts, `& | ^` and comparisons; they are unsigned. Register tiles have `+ - *` and `tile.max` with each other, with a row
(added to every row) and with numbers, and `r.to(dtype)`. In a synchronous kernel the only control flow at run time is `tile.grid` and `tile.range`;
`range` is unrolled.
"""

_COSTS = """
What `tilec predict`, `tilec timeline` and `tilec design` reckon with: times in cycles of the multiprocessor's clock, rates per
cycle and multiprocessor, unless the text says otherwise. *measured*: on the chip; *published*: by others; *derived*: follows
from the rest of the line; *assumed*: nobody has looked. How well it does is told in [prediction.md](prediction.md).
"""
_DIALECT = """
Whole-tile programs: synchronous (L0) and asynchronous (L1). `docs/architecture.md` says how the levels fit together, and
`tilec.backend.reference` executes each operation. An operation's discardable attributes follow its own syntax:
`tile.free %acc {note = "why"}`. One without *effects* may be merged with an equal one, moved, or dropped when nobody uses
its results; all others stay where they are.
"""
_PASSES = """
A pipeline is a list of passes: `tma,pipeline(2),persistent`. Options are given in the order below, by name, or in xDSL's
spelling, which dumps print: `pipeline(3, 1)`, `pipeline(stages=3, lag=1)`, `pipeline{stages=3 lag=1}`.
"""


def _module_order(op: type[Operation]) -> int:
    """Operations go by the file that defines them, in the order in which the dialect lists the files."""
    return list(dict.fromkeys(other.__module__ for other in Tile.operations)).index(op.__module__)


def _facts(op: type[Operation]) -> Iterator[str]:
    """A table of what goes in and out."""
    assert issubclass(op, IRDLOperation)
    definition = op.get_irdl_definition()
    yield "| | name | |"
    yield "|---|---|---|"
    for name, operand in definition.operands:
        yield _row("operand", name, operand, _types(operand.constr))
    for name, attribute in definition.properties.items():
        if name != "operandSegmentSizes":
            yield _row("attribute", name, attribute, _types(attribute.constr))
    for name, result in definition.results:
        yield _row("result", name, result, _types(result.constr))
    for name, _ in definition.regions:
        yield f"| region | `{name}` | one block |"
    yield f"| effects | | {'none' if is_side_effect_free(op.create()) else 'yes'} |"


def _row(kind: str, name: str, definition: object, types: Sequence[str]) -> str:
    count = (
        ", optional"
        if isinstance(definition, _OPTIONAL)
        else ", any number"
        if isinstance(definition, _VARIADIC)
        else ""
    )
    return f"| {kind} | `{name}` | {' or '.join(types)}{count} |"


def _types(constraint: AttrConstraint[Attribute] | RangeConstraint[Attribute]) -> list[str]:
    """What a constraint admits, in words."""
    match constraint:
        case RangeLengthConstraint():
            return _types(constraint.constraint)
        case RangeOf():
            return _types(constraint.constr)
        case AnyOf():
            return [word for part in constraint.attr_constrs for word in _types(part)]
        case EqAttrConstraint():
            return [f"`{constraint.attr}`"]
        case ParamAttrConstraint():
            return [_ATTRIBUTES[constraint.base_attr.name]]
        case BaseAttr() if constraint.attr is IndexType:
            return ["`index`"]
        case BaseAttr():
            name = constraint.attr.name
            return [_ATTRIBUTES.get(name, f"`!{name}`")]
        case _:
            return ["any type"]


def main(folder: Path) -> None:
    for name, page in PAGES.items():
        (folder / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).resolve().parent)
