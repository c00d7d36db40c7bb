"""Text of the tile dialect: what is printed is read as the same program."""

from __future__ import annotations

from io import StringIO

import pytest
from hypothesis import given, settings
from tile_strategies import modules, types
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tilec.context import make_context
from tilec.dialects import tile
from tilec.dialects.tile import ViewType
from tilec.source import parse_text


def printed(module: ModuleOp, *, generic: bool = False) -> str:
    out = StringIO()
    Printer(out, print_generic_format=generic).print_op(module)
    return out.getvalue()


@given(types)
def test_a_printed_type_is_read_as_the_same_type(type: Attribute) -> None:
    assert Parser(make_context(), str(type)).parse_type() == type


@settings(max_examples=300)
@given(modules())
def test_a_printed_program_is_read_as_the_same_program(module: ModuleOp) -> None:
    module.verify()
    for generic in (False, True):
        text = printed(module, generic=generic)
        again = parse_text(text)
        # A NaN is not equal to itself: of programs that hold one, the text is compared alone.
        assert "nan" in text or again.is_structurally_equivalent(module), text
        assert printed(again, generic=generic) == text


@pytest.mark.parametrize("dims", [["x"], ["Mx"], ["a b"], ["1K"], [-1], ["M>"]])
def test_a_symbol_that_cannot_be_written_is_no_symbol(dims: list[str | int]) -> None:
    with pytest.raises(VerifyException, match=r"bad extent .* of a view"):
        ViewType.of(dims, tile.F16.type)


def test_discardable_attributes_follow_the_syntax_of_any_operation() -> None:
    text = 'tile.kernel @f(%A: !tile.view<MxKxf16>) {\n  %n = tile.dim %A, 1 {note = "k\\0A", stage}\n}'
    module = parse_text(text)
    (op,) = (op for op in module.walk() if isinstance(op, tile.DimOp))
    assert op.attributes["note"] == StringAttr("k\n")
    assert set(op.attributes) == {"note", "stage"}
