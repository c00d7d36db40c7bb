"""Whatever is wrong with an operation of the nvvm dialect, its verifier says so, with the place where the text has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from io import StringIO

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    FunctionType,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
    VectorType,
    f32,
    i1,
    i16,
    i32,
    i64,
)
from xdsl.dialects.test import Test
from xdsl.dialects.test import TestOp as Values
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tilec.context import make_context
from tilec.diagnostics import TilecError
from tilec.dialects import nvvm
from tilec.source import parse_text

ATTRIBUTES: tuple[Attribute, ...] = (
    UnitAttr(),
    StringAttr(""),
    StringAttr("async"),
    ArrayAttr[Attribute]([StringAttr("x"), StringAttr("y")]),
    *(IntegerAttr(value, i64) for value in (-1, 0, (1 << 63) - 1)),
    *(IntegerAttr(value, i32) for value in (-(1 << 31), -1, 0, 8, (1 << 31) - 1)),
    IntegerAttr(1, i1),
    FloatAttr(float("nan"), f32),
    *(DenseArrayBase.from_list(i64, v) for v in ([], [64, 64], [(1 << 63) - 1] * 3)),
    *(DenseArrayBase.from_list(i32, v) for v in ([], [1, 1], [1] * 9, [-1, 0, 0, 0], [1 << 30] * 3)),
    nvvm.Tcgen05LdStShapeAttr(nvvm.Tcgen05LdStShape.S16X32BX2),
    i32,
)
TYPES: tuple[Attribute, ...] = (
    i1,
    i16,
    i32,
    i64,
    f32,
    nvvm.PTR,
    nvvm.PTR_SHARED,
    nvvm.PTR_TENSOR,
    nvvm.PTR_CLUSTER,
    VectorType(i32, [2]),
    VectorType(i32, [128]),
    VectorType(i32, [0]),
    FunctionType.from_lists([], []),
)
PRELUDE = "".join(
    f'%{name} = "test.op"() : () -> {kind}\n'
    for name, kind in {
        "i1": i1,
        "i16": i16,
        "i32": i32,
        "i64": i64,
        "ptr": nvvm.PTR,
        "smem": nvvm.PTR_SHARED,
        "tmem": nvvm.PTR_TENSOR,
        "cluster": nvvm.PTR_CLUSTER,
    }.items()
)
Mutation = Callable[[Operation], object]


def of_attributes(op: Operation) -> Iterator[Mutation]:
    for name in op.properties:
        yield lambda o, name=name: o.properties.pop(name)
    yield lambda o: o.properties.update({"unheard_of": UnitAttr()})
    yield lambda o: o.properties.update({"operandSegmentSizes": DenseArrayBase.from_list(i32, [1] * 9)})
    for name in op.properties:
        for attribute in ATTRIBUTES:
            yield lambda o, name=name, attribute=attribute: o.properties.update({name: attribute})


def of_operands(op: Operation) -> Iterator[Mutation]:
    def put(o: Operation, index: int, kind: Attribute) -> None:
        value = Values(result_types=[kind])
        assert o.parent is not None
        o.parent.insert_op_before(value, o)
        o.operands[index] = value.results[0]

    yield lambda o: setattr(o, "operands", [])
    for index in range(len(op.operands)):
        yield lambda o, index=index: setattr(o, "operands", [*o.operands[:index], *o.operands[index + 1 :]])
        yield lambda o, index=index: setattr(o, "operands", [*o.operands, *[o.operands[index]] * 6])
        for kind in TYPES:
            yield lambda o, index=index, kind=kind: put(o, index, kind)


def of_results(op: Operation) -> Iterator[Mutation]:
    def remake(o: Operation, kinds: list[Attribute]) -> None:
        assert o.parent is not None
        made = type(o).create(operands=o.operands, result_types=kinds, properties=o.properties, attributes=o.attributes)
        o.parent.insert_op_before(made, o)
        o.detach()
        o.erase()

    yield lambda o: remake(o, [])
    for kind in TYPES:
        yield lambda o, kind=kind: remake(o, [*o.result_types, kind])
        if op.results:
            yield lambda o, kind=kind: remake(o, [kind])


def of_regions(op: Operation) -> Iterator[Mutation]:
    yield lambda o: o.add_region(Region())
    yield lambda o: o.add_region(Region(Block()))


MUTATIONS: dict[str, Callable[[Operation], Iterator[Mutation]]] = {
    "attributes": of_attributes,
    "operands": of_operands,
    "results": of_results,
    "regions": of_regions,
}


@cache
def context() -> Context:
    found = make_context()
    found.load_dialect(Test)
    return found


def generic(module: ModuleOp) -> str:
    out = StringIO()
    Printer(out, print_generic_format=True).print_op(module)
    return out.getvalue()


def last(module: ModuleOp) -> Operation:
    op = module.body.block.last_op
    assert op is not None
    return op


@pytest.mark.parametrize("kind", MUTATIONS)
@pytest.mark.parametrize("name", nvvm.UPSTREAM)
def test_what_is_wrong_with_an_operation_is_a_verifier_error(name: str, kind: str) -> None:
    module = parse_text(PRELUDE + nvvm.UPSTREAM[name].example, context=context())
    assert last(module).name == name
    refused = 0
    for mutate in MUTATIONS[kind](last(module)):
        mutated = module.clone()
        mutate(last(mutated))
        try:
            mutated.verify()
        except VerifyException:
            refused += 1
            try:
                parse_text(generic(mutated), context=context())  # where a default is missing, the reader puts it
            except TilecError as error:
                assert error.diagnostic.location is not None
                assert "\n" not in error.diagnostic.message
        else:
            assert parse_text(generic(mutated), context=context()).is_structurally_equivalent(mutated)
    assert refused or not [*MUTATIONS[kind](last(module))] or (kind == "operands" and not last(module).operands)
