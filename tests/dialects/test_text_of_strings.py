"""Strings of any content in IR text: written as MLIR writes them, and read back as they were."""

from __future__ import annotations

import shutil
import subprocess
from io import StringIO

import pytest
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FileLineColLoc,
    IntAttr,
    ModuleOp,
    NameLoc,
    StringAttr,
    UnknownLoc,
)
from xdsl.dialects.llvm import FuncOp
from xdsl.ir import Attribute, Operation
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tilec.diagnostics import TilecError
from tilec.dialects.tile import KernelOp, RoleOp
from tilec.source import parse_text

STRINGS = {
    "empty": "",
    "newline": "a\nb",
    "carriage return": "a\r\nb",
    "tab": "\t",
    "quote": 'say "x"',
    "backslash": "C:\\new\\0A\\",
    "NUL": "a\0b",
    "DEL": "\x7f",
    "escape sequence": "\x1b[31mred",
    "control characters": "".join(map(chr, range(32))),
    "printable": "".join(map(chr, range(32, 127))),
    "latin": "\x80\xa0\xe9\xff",
    "line separators": "\x85\u2028\u2029",
    "emoji": "\N{GRINNING FACE}\N{FAMILY}\N{ZERO WIDTH JOINER}",
    "byte-order mark": "\ufeffx",
    "like another attribute": '", injected = "',
    "like a comment": "// x",
}


def as_mlir_writes(text: str) -> str:
    """``llvm::printEscapedString``: a backslash doubled, printable ASCII but for quotes as it is, each other byte in hex."""
    return "".join(
        "\\\\" if byte == 0x5C else chr(byte) if 0x20 <= byte < 0x7F and byte != 0x22 else f"\\{byte:02X}"
        for byte in text.encode()
    )


def printed(module: ModuleOp, *, generic: bool = False, locations: bool = False) -> str:
    out = StringIO()
    Printer(out, print_generic_format=generic, print_debuginfo=locations).print_op(module)
    return out.getvalue()


def read_back(module: ModuleOp, *, generic: bool) -> ModuleOp:
    """The module of its own text; a second printing says the same."""
    text = printed(module, generic=generic)
    again = parse_text(text)
    assert again.is_structurally_equivalent(module)
    assert printed(again, generic=generic) == text
    return again


def first(module: ModuleOp) -> Operation:
    op = module.body.block.first_op
    assert op is not None
    return op


@pytest.mark.parametrize("generic", [False, True], ids=["custom", "generic"])
@pytest.mark.parametrize("case", STRINGS)
def test_attributes(case: str, generic: bool) -> None:
    text = STRINGS[case]
    module = parse_text("tile.kernel @f(%A: !tile.view<MxKxf16>) {\n  %n = tile.dim %A, 1 {x}\n}")
    kernel = first(module)
    assert isinstance(kernel, KernelOp)
    nested = ArrayAttr[Attribute]([StringAttr(text), DictionaryAttr({"inside": StringAttr(text)})])
    for op in (module, kernel, kernel.body.block.first_op):
        assert op is not None
        op.attributes.update({"note": StringAttr(text), "nested": nested})
    again = read_back(module, generic=generic)
    assert printed(again, generic=generic).count(f'note = "{as_mlir_writes(text)}"') == 3
    assert first(again).attributes["note"] == StringAttr(text)


@pytest.mark.parametrize("case", [case for case in STRINGS if case])
def test_symbols_of_functions(case: str) -> None:
    """``@name`` where the name is an identifier, ``@"..."`` else."""
    module = parse_text("llvm.func @f() {\n  llvm.return\n}")
    function = first(module)
    assert isinstance(function, FuncOp)
    function.sym_name = StringAttr(STRINGS[case])
    assert f'@"{as_mlir_writes(STRINGS[case])}"' in printed(module)
    for generic in (False, True):
        read_back(module, generic=generic)


@pytest.mark.parametrize("case", STRINGS)
def test_symbols_of_kernels_are_what_ptx_can_say(case: str) -> None:
    """So that none of these ever is in a text: not in that of the program, and not in that of the PTX."""
    module = parse_text("tile.kernel @f(%A: !tile.view<MxKxf16>) {\n}")
    kernel = first(module)
    assert isinstance(kernel, KernelOp)
    kernel.sym_name = StringAttr(STRINGS[case])
    with pytest.raises(VerifyException):
        module.verify()
    with pytest.raises(TilecError) as caught:
        parse_text(printed(module, generic=True))
    assert caught.value.diagnostic.location is not None
    assert "\n" not in caught.value.diagnostic.message
    with pytest.raises(TilecError):
        parse_text(f'tile.kernel @"{as_mlir_writes(STRINGS[case])}"() {{\n}}')


ROLES = """
tile.kernel @f(%A: !tile.view<MxKxf16>) {
  tile.roles {
    tile.role "work" {
    }
  }
}
"""


@pytest.mark.parametrize("case", STRINGS)
def test_names_of_roles_are_words(case: str) -> None:
    module = parse_text(ROLES)
    (role,) = (op for op in module.walk() if isinstance(op, RoleOp))
    role.role_attr = StringAttr(STRINGS[case])
    with pytest.raises(VerifyException, match="a role's name is a word"):
        module.verify()
    for text in (printed(module, generic=True), ROLES.replace("work", as_mlir_writes(STRINGS[case]))):
        with pytest.raises(TilecError, match="a role's name is a word"):
            parse_text(text)


def locations(text: str) -> list[Attribute]:
    at = FileLineColLoc(StringAttr(text), IntAttr(3), IntAttr(5))
    return [at, NameLoc(StringAttr(text), at), NameLoc(StringAttr(text), UnknownLoc())]


@pytest.mark.parametrize("case", STRINGS)
def test_files_and_names_in_locations(case: str) -> None:
    text = STRINGS[case]
    for location in locations(text):
        module = parse_text("tile.kernel @f(%A: !tile.view<MxKxf16>) {\n  %n = tile.dim %A, 1 {x}\n}")
        for op in module.walk():
            op.location = location  # pyright: ignore[reportAttributeAccessIssue]
        written = printed(module, locations=True)
        assert f'"{as_mlir_writes(text)}"' in written
        again = parse_text(written)
        assert [op.location for op in again.walk()] == [location] * 3
        assert printed(again, locations=True) == written


@pytest.mark.skipif(shutil.which("mlir-opt") is None, reason="no mlir-opt on PATH")
@pytest.mark.parametrize("case", STRINGS)
def test_mlir_reads_the_generic_form(case: str) -> None:
    text = f'"builtin.module"() ({{\n}}) {{note = "{as_mlir_writes(STRINGS[case])}"}} : () -> ()'
    module = ModuleOp([], {"note": StringAttr(STRINGS[case])})
    ours = printed(module, generic=True)
    ran = [
        subprocess.run(["mlir-opt", "--mlir-print-op-generic"], input=t, capture_output=True, text=True, check=True)
        for t in (ours, text)
    ]
    assert ran[0].stdout == ran[1].stdout
