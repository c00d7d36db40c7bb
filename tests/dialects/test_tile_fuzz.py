"""Whatever is wrong with an operation, a verifier says so: no other exception, and nothing that cannot be written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from io import StringIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tile_corpus import TEXTS, modules, tile_operations
from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IndexType,
    IntAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    f32,
    f64,
    i1,
    i32,
    i64,
)
from xdsl.dialects.test import Test
from xdsl.dialects.test import TestOp as Values
from xdsl.ir import Attribute, Block, Operation, ParametrizedAttribute, Region
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from tilec.context import make_context
from tilec.diagnostics import TilecError
from tilec.dialects import tile
from tilec.dialects.tile import F16, F32, AccType, MbarrierType, RegType, RingType, SmemType, Tile, ViewType
from tilec.source import parse_text

ATTRIBUTES: tuple[Attribute, ...] = (
    UnitAttr(),
    StringAttr(""),
    StringAttr("tma"),
    StringAttr('a\n"\\\x00é'),
    SymbolRefAttr("f"),
    ArrayAttr[Attribute]([]),
    IndexType(),
    *(IntegerAttr(value, i64) for value in (-(1 << 63), -1, 0, 1, 7, (1 << 63) - 1)),
    IntegerAttr(1, i32),
    IntegerAttr(1, IndexType()),
    FloatAttr(1.0, f32),
    FloatAttr(float("nan"), f32),
    FloatAttr(1.0, f64),
    *(DenseArrayBase.from_list(i64, v) for v in ([], [0], [64], [0, 0], [-1, -1], [1, 2, 3], [(1 << 63) - 1] * 2)),
    DenseArrayBase.from_list(i32, [1, 1]),
    DenseArrayBase.from_list(i32, [1, 1, 0, 0, 0]),
    DenseArrayBase.from_list(f32, [1.0, 1.0]),
)
TYPES: tuple[Attribute, ...] = (
    i1,
    i32,
    IndexType(),
    f32,
    ViewType.of(["M"], F16.type),
    ViewType.of([0, None], F32.type, order=[0, 1], align=4, tail="free"),
    SmemType.of([128, 64], F16.type, swizzle=128),
    SmemType.of([8], F32.type),
    AccType.of([128, 64], F32.type),
    AccType.of([8, 8], F32.type),
    RegType.of([128, 64], F16.type),
    RegType.of([8], F32.type),
    RingType.of(2, SmemType.of([128, 64], F16.type, swizzle=128)),
    MbarrierType.of(1),
    MbarrierType.of(3),
)

KINDS = {type.name for type in Tile.attributes}

Mutation = Callable[[Operation], object]


def attribute_mutations(op: Operation) -> Iterator[Mutation]:
    for name in op.properties:
        yield lambda o, name=name: o.properties.pop(name)
    for name in (*op.properties, "unheard_of", "operandSegmentSizes"):
        for attribute in ATTRIBUTES:
            yield lambda o, name=name, attribute=attribute: o.properties.update({name: attribute})
    for attribute in ATTRIBUTES:
        yield lambda o, attribute=attribute: o.attributes.update({"target": attribute})
    yield lambda o: o.attributes.update(o.properties)


def operand_mutations(op: Operation) -> Iterator[Mutation]:
    def set_operand(o: Operation, index: int, type: Attribute) -> None:
        value = Values(result_types=[type])
        assert o.parent is not None
        o.parent.insert_op_before(value, o)
        o.operands[index] = value.results[0]

    for index in range(len(op.operands)):
        yield lambda o, index=index: setattr(o, "operands", [*o.operands[:index], *o.operands[index + 1 :]])
        yield lambda o, index=index: setattr(o, "operands", [*o.operands, o.operands[index]])
        for type in TYPES:
            yield lambda o, index=index, type=type: set_operand(o, index, type)


def result_mutations(op: Operation) -> Iterator[Mutation]:
    def remake(o: Operation, result_types: list[Attribute]) -> None:
        assert o.parent is not None
        new = type(o).create(
            operands=o.operands,
            result_types=result_types,
            properties=o.properties,
            attributes=o.attributes,
            regions=[o.detach_region(r) for r in list(o.regions)],
        )
        lost = Values(result_types=o.result_types)
        o.parent.insert_ops_before([lost, new], o)
        for index, result in enumerate(o.results):
            result.replace_all_uses_with(new.results[index] if index < len(new.results) else lost.results[index])
        o.detach()
        o.erase()

    types_now = list(op.result_types)
    yield lambda o: remake(o, [*types_now, i32])
    for index in range(len(types_now)):
        yield lambda o, index=index: remake(o, types_now[:index] + types_now[index + 1 :])
        for type_ in TYPES:
            yield lambda o, index=index, type_=type_: remake(o, [*types_now[:index], type_, *types_now[index + 1 :]])


def region_mutations(op: Operation) -> Iterator[Mutation]:
    def empty(o: Operation) -> None:
        block = o.regions[0].blocks[0]
        for nested in reversed(list(block.ops)):
            nested.detach()
            nested.erase(safe_erase=False)

    def argument(o: Operation, type: Attribute) -> None:
        o.regions[0].blocks[0].insert_arg(type, 0)

    yield lambda o: o.add_region(Region(Block()))
    for _ in op.regions:
        yield empty
        yield lambda o: o.regions[0].detach_block(0)
        yield lambda o: o.detach_region(0)
        yield lambda o: o.regions[0].add_block(Block())
        for type in TYPES:
            yield lambda o, type=type: argument(o, type)
        yield lambda o: o.regions[0].blocks[0].add_op(tile.YieldOp())
        yield lambda o: o.regions[0].blocks[0].add_op(tile.CtaSyncOp())


MUTATIONS: dict[str, Callable[[Operation], Iterator[Mutation]]] = {
    "attributes": attribute_mutations,
    "operands": operand_mutations,
    "results": result_mutations,
    "regions": region_mutations,
}


def forms() -> list[Operation]:
    """An operation of each name and shape, in a module with nothing but what it needs."""
    found: dict[object, Operation] = {}
    for module in modules():
        for place, op in enumerate(module.walk()):
            if type(op) in Tile.operations:
                shape = (op.name, tuple(t.name for t in op.operand_types), tuple(sorted(op.properties)))
                if shape not in found:
                    found[shape] = isolated([*module.clone().walk()][place])
    return list(found.values())


def isolated(op: Operation) -> Operation:
    """Erase whatever `op` does not need: it is not around it, not in it, and defines nothing for either."""
    root = op.get_toplevel_object()
    assert isinstance(root, ModuleOp)
    needed = {*op.walk()}
    around = op.parent_op()
    while around is not None:
        needed.add(around)
        around = around.parent_op()
    for other in reversed([*root.walk()]):
        if other not in needed and not other.has_trait(IsTerminator) and not any(r.uses for r in other.results):
            other.detach()
            other.erase()
    return op


def text_of(module: ModuleOp, *, generic: bool) -> str:
    out = StringIO()
    Printer(out, print_generic_format=generic).print_op(module)
    return out.getvalue()


def check(module: ModuleOp) -> bool:
    """Whether the module verifies. If it does, both forms can be written; if not, the diagnostic says where."""
    try:
        module.verify()
    except VerifyException:
        with pytest.raises(TilecError) as error:
            parse_text(text_of(module, generic=True), context=context())
        assert error.value.diagnostic.location is not None
        return False
    for generic in (False, True):
        text = text_of(module, generic=generic)
        assert parse_text(text, context=context()).is_structurally_equivalent(module), text
    return True


def context() -> Context:
    """With the operation that makes the values of wrong types."""
    context = make_context()
    context.load_dialect(Test)
    return context


def test_every_operation_is_tried() -> None:
    tried = {type(op) for module in modules() for op in tile_operations(module)}
    assert tried == set(Tile.operations)


FORMS = forms()


@pytest.mark.parametrize("kind", MUTATIONS)
@pytest.mark.parametrize("form", FORMS, ids=[f"{op.name}-{n}" for n, op in enumerate(FORMS)])
def test_what_is_wrong_with_an_operation_is_a_verifier_error(form: Operation, kind: str) -> None:
    module = form.get_toplevel_object()
    assert isinstance(module, ModuleOp)
    place = [*module.walk()].index(form)
    refused = 0
    for mutate in MUTATIONS[kind](form):
        mutated = module.clone()
        mutate([*mutated.walk()][place])
        refused += not check(mutated)
    assert refused or (kind == "operands" and not form.operands)


PARAMETERS: tuple[Attribute, ...] = (
    *ATTRIBUTES,
    ArrayAttr[Attribute]([IntAttr(-1), IntAttr(64)]),
    ArrayAttr[Attribute]([IntAttr(1), IntAttr(0)]),
    ArrayAttr[Attribute]([StringAttr("x")]),
    ArrayAttr[Attribute]([StringAttr("f16"), IntAttr((1 << 31) - 1)]),
    ArrayAttr[Attribute]([IntAttr(1 << 31)]),
    IntAttr(-1),
    IntAttr(0),
    IntAttr(1 << 70),
)


@pytest.mark.parametrize("type", [t for t in TYPES if t.name in KINDS])
def test_what_is_wrong_with_a_type_is_a_verifier_error(type: ParametrizedAttribute) -> None:
    refused = 0
    for index in range(len(type.parameters)):
        for parameter in PARAMETERS:
            parameters = [*type.parameters[:index], parameter, *type.parameters[index + 1 :]]
            try:
                other = type.new(parameters)
            except VerifyException:
                refused += 1
                continue
            assert Parser(make_context(), str(other)).parse_type() == other
    assert refused


words = st.sampled_from(
    ["x", "16", "0", "M", "?", "f16", "f32", "i8", ",", "order", "=", "[1, 0]", "[0]", "align", "tail", "grid", "free",
     "swizzle", "128", "<", ">", "-1", "!tile.smem<8x8xf16>", "!tile.view", " ", "\n", "//", '"', "9" * 20]
)  # fmt: skip


@settings(max_examples=500)
@given(st.sampled_from(sorted(KINDS)), st.lists(words, max_size=12))
def test_any_text_of_a_type_is_a_type_or_a_diagnostic(kind: str, words: list[str]) -> None:
    text = f"tile.kernel @f(%a: !{kind}<{''.join(words)}>) {{\n}}\n"
    try:
        module = parse_text(text)
    except TilecError as error:
        assert error.diagnostic.location is not None
    else:
        assert parse_text(text_of(module, generic=False)).is_structurally_equivalent(module)


@settings(max_examples=500)
@given(st.sampled_from(sorted(TEXTS)), st.data())
def test_a_program_with_a_word_changed_is_a_program_or_a_diagnostic(name: str, data: st.DataObject) -> None:
    words = re.findall(r"[\w.]+|%\w+|\s+|.", re.sub(r"//.*", "", TEXTS[name]))
    place = data.draw(st.integers(0, len(words) - 1))
    words[place] = data.draw(st.sampled_from(["", *sorted(set(words)), *"{}()[]<>,:=%-"]))
    try:
        module = parse_text("".join(words))
    except TilecError as error:
        assert error.diagnostic.location is not None
    else:
        assert parse_text(text_of(module, generic=False)).is_structurally_equivalent(module)
