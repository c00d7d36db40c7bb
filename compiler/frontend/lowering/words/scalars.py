"""Scalars: numbers and conditions of the run time, from constants; and the quotient rounded up."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType, i1, i32

from tilec.frontend.lowering import scalars
from tilec.frontend.lowering.arguments import Argument
from tilec.frontend.lowering.frame import Site
from tilec.frontend.lowering.values import Scalar, Value, kind
from tilec.frontend.lowering.vocabulary import word


@word("index")
def index(site: Site, *, value: Argument) -> Scalar:
    return Scalar(value.index())


@word("i32")
def i32_(site: Site, *, value: Argument) -> Scalar:
    if isinstance(value.value, Scalar):
        if value.value.type == i32:
            return value.value
        value.refuse("an integer known at compile time")
    number = value.integer()
    if number < 0:
        value.fail(f"{value.name} must not be negative: an i32 has no sign")
    return Scalar(value.constant(number, i32))


@word("i1")
def i1_(site: Site, *, value: Argument) -> Scalar:
    if isinstance(value.value, Scalar) and value.value.is_condition:
        return value.value
    return Scalar(site.constant(value.flag(), i1))


@word("cdiv")
def cdiv(site: Site, *, a: Argument, b: Argument) -> Value:
    for one in (a, b):
        whole = isinstance(one.value, int) and not isinstance(one.value, bool)
        if not whole and not (isinstance(one.value, Scalar) and isinstance(one.value.type, IndexType)):
            one.fail(f"tile.cdiv divides whole numbers, not {kind(one.value)}")
    if isinstance(a.value, int) and isinstance(b.value, int):
        if b.value == 0:
            b.fail(f"`{site.text}`: division by zero")
        return -(-a.value // b.value)
    return scalars.binary(site, "cdiv", a.value, b.value)
