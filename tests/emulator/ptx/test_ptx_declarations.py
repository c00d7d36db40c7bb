"""Variables, registers, parameters and initial values (PTX 5.4, 5.1.6, 11.2)."""

from __future__ import annotations

import struct

import pytest

from tilec.backend.emulator.ptx.parser import parse_ptx
from tilec.backend.emulator.ptx.syntax import Address, Module, Register, Relocation, Symbol, Variable
from tilec.diagnostics import TilecError

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"


def parse(text: str) -> Module:
    return parse_ptx(HEAD + text, "m.ptx")


def refusal(text: str) -> str:
    with pytest.raises(TilecError) as caught:
        parse(text)
    return str(caught.value)


def test_the_head_of_a_module() -> None:
    module = parse_ptx(".version 8.6\n.target sm_100a, debug, texmode_independent\n.address_size 64\n", "m.ptx")
    assert (module.file, module.version, module.target, module.address_size) == ("m.ptx", (8, 6), "sm_100a", 64)


def test_addresses_have_32_bits_where_the_module_does_not_say() -> None:
    assert parse_ptx(".version 2.3\n.target sm_20\n").address_size == 32


@pytest.mark.parametrize(
    ("declaration", "space", "kind", "align", "size"),
    [
        (".global .u32 x;", "global", "u32", 4, 4),
        (".const .align 16 .b8 x[3];", "const", "b8", 16, 3),
        (".shared .v4 .f32 x;", "shared", "f32", 16, 16),
        (".shared .align 8 .v2 .u16 x[5];", "shared", "u16", 8, 20),
        (".global .f64 x[2][3];", "global", "f64", 8, 48),
        (".global .b128 x;", "global", "b128", 16, 16),
        (".visible .global .attribute(.managed) .s32 x;", "global", "s32", 4, 4),
        (".weak .global .attribute(.unified(19, 95)) .f32 x;", "global", "f32", 4, 4),
        (".common .global .u8 x;", "global", "u8", 1, 1),
        (".global.align 4 .b8 x[WARP_SZ * 2];", "global", "b8", 4, 64),
        (".global .texref x;", "global", "texref", 8, 8),
    ],
)
def test_sizes_and_alignments(declaration: str, space: str, kind: str, align: int, size: int) -> None:
    x = parse(declaration).variables["x"]
    assert (x.space, x.type, x.align, x.size, x.external, x.initial) == (space, kind, align, size, False, None)


def test_an_external_array_without_an_extent() -> None:
    dyn = parse("\n.extern .shared .align 1024 .b8 dyn[];").variables["dyn"]
    assert (dyn.external, dyn.size, dyn.align, dyn.line) == (True, 0, 1024, 5)


def test_several_names_in_one_declaration() -> None:
    module = parse(".global .u32 a = 1, b, c[2];\n.global .u16 many<3>;")
    assert {v.name: v.size for v in module.variables.values()} == {
        "a": 4,
        "b": 4,
        "c": 8,
        "many0": 2,
        "many1": 2,
        "many2": 2,
    }


def words(*values: int) -> bytes:
    return b"".join((value % 2**32).to_bytes(4, "little") for value in values)


@pytest.mark.parametrize(
    ("declaration", "initial"),
    [
        (".global .u32 x = 42;", words(42)),
        (".global .s32 x[] = {1, -2, 3};", words(1, -2, 3)),
        (".global .s32 x[3][2] = {{1, 2}, {3}};", words(1, 2, 3, 0, 0, 0)),
        (".global .s32 x[][2] = {{-1, 0}, {0, -1}, {1}};", words(-1, 0, 0, -1, 1, 0)),
        (".global .b8 x[4] = {};", bytes(4)),
        (".global .b8 x[4] = {255, -1, 256, 0x1ff};", bytes((255, 255, 0, 255))),
        (".global .b8 x[2][2][2] = {{{1}, {2, 3}}};", bytes((1, 0, 2, 3, 0, 0, 0, 0))),
        (".global .v2 .u32 x[2] = {{1, 2}};", words(1, 2, 0, 0)),
        (".const .f32 x[3] = {1.0, -0.1, 0f7FC00001};", struct.pack("<ff", 1.0, -0.1) + words(0x7FC00001)),
        (".const .f32 x = 1e39;", words(0x7F800000)),
        (".const .f64 x[2] = {1e-5, 0dFFF0000000000000};", struct.pack("<dd", 1e-5, float("-inf"))),
        (".global .b32 x = 1.5;", struct.pack("<f", 1.5)),
        (".global .b64 x = 1.5;", struct.pack("<d", 1.5)),
        (
            ".global .u8 x[] = {0xFF(1000 + 546), 0xFF00(131187), 0xFF00000000000000(1 << 63)};",
            bytes((0x0A, 0x00, 0x80)),
        ),
    ],
)
def test_initial_values(declaration: str, initial: bytes) -> None:
    x = parse(declaration).variables["x"]
    assert (x.initial, x.size, x.relocations) == (initial, len(initial), ())


def test_addresses_in_initial_values() -> None:
    module = parse(
        """
        .const .u32 foo = 42;
        .global .u32 bar[4];
        .func f();
        .global .u64 p[6] = {foo, generic(bar), generic(bar)+8, bar+4-8, generic(bar+4)+4, f};
        .global .u8 bytes[3] = {0xff(foo), 0xFF00(generic(bar)+4), 7};
        .global .u32 short = foo + 12;
        """
    )
    p = module.variables["p"]
    assert p.initial == bytes(48)
    assert p.relocations == (
        Relocation(0, 8, "foo"),
        Relocation(8, 8, "bar", generic=True),
        Relocation(16, 8, "bar", 8, generic=True),
        Relocation(24, 8, "bar", -4),
        Relocation(32, 8, "bar", 8, generic=True),
        Relocation(40, 8, "f"),
    )
    assert module.variables["bytes"].initial == bytes((0, 0, 7))
    assert module.variables["bytes"].relocations == (
        Relocation(0, 1, "foo", mask=0xFF),
        Relocation(1, 1, "bar", 4, generic=True, mask=0xFF00, shift=8),
    )
    assert module.variables["short"].relocations == (Relocation(0, 4, "foo", 12),)


def test_kernel_parameters() -> None:
    kernel = parse(
        """
        .visible .entry k(
            .param .u64 .ptr .global .align 16 out,
            .param .u32 .ptr.const.align 8 table,
            .param .align 64 .b8 map[128],
            .param .v2 .f32 pair,
            .param .f16 h
        ) { ret; }
        """
    ).functions["k"]
    found = [p for p in kernel.parameters if isinstance(p, Variable)]
    assert kernel.entry
    assert [(p.name, p.space, p.type, p.align, p.size) for p in found] == [
        ("out", "param", "u64", 8, 8),
        ("table", "param", "u32", 4, 4),
        ("map", "param", "b8", 64, 128),
        ("pair", "param", "f32", 8, 8),
        ("h", "param", "f16", 2, 2),
    ]


def test_function_parameters_and_results() -> None:
    function = parse(
        ".func (.reg .u32 r) f(.reg .u32 a, .param .align 4 .b8 rest[]) { add.u32 r, a, 1; ret; }"
    ).functions["f"]
    assert function.returns == (Register("r", "u32", 0),)
    assert function.parameters[0] == Register("a", "u32", 1)
    rest = function.parameters[1]
    assert isinstance(rest, Variable)
    assert (rest.size, rest.align) == (0, 4)
    assert function.registers == (Register("r", "u32", 0), Register("a", "u32", 1))
    assert function.body is not None
    assert function.body[0].operands[:2] == (function.returns[0], function.parameters[0])


def test_directives_of_kernels_and_functions() -> None:
    module = parse(
        """
        .entry a .maxntid 16,16,4 .minnctapersm 2 .maxnreg 64 .pragma "nounroll"; { ret; }
        .entry b() .reqntid 128 .reqnctapercluster 2, 1, 1 .explicitcluster .blocksareclusters .maxclusterrank 8 { ret; }
        .extern .func c .noreturn;
        .func .attribute(.unified(0xAB, 0xCD)) d() .abi_preserve 8 .abi_preserve_control 14 { ret; }
        """
    )
    assert module.functions["a"].directives == {"maxntid": (16, 16, 4), "minnctapersm": (2,), "maxnreg": (64,)}
    assert module.functions["b"].directives == {
        "reqntid": (128,),
        "reqnctapercluster": (2, 1, 1),
        "explicitcluster": (),
        "blocksareclusters": (),
        "maxclusterrank": (8,),
    }
    assert module.functions["c"].directives == {"noreturn": ()}
    assert module.functions["d"].directives == {
        "unified": (0xAB, 0xCD),
        "abi_preserve": (8,),
        "abi_preserve_control": (14,),
    }


def test_a_declared_function_is_defined_later_and_may_be_declared_again() -> None:
    module = parse(
        ".func f(.param .b32 x);\n.func f(.param .b32 x)\n{\nret;\n}\n.func f(.param .b32 x);\n.func g();\n.alias h, f;"
    )
    assert module.functions["f"].body is not None
    assert module.functions["f"].line == 5
    assert module.functions["g"].body is None
    assert module.aliases == {"h": "f"}


def test_uses_of_an_external_variable_become_those_of_its_definition() -> None:
    module = parse(
        """
        .extern .global .u32 v[4];
        .func f() { .reg .b64 a; .reg .b32 b, c; mov.u64 a, v; ld.global.v2.u32 {b, c}, [v+8]; ret; }
        .visible .global .u32 v[4] = {7};
        .extern .global .u32 v[4];
        """
    )
    v = module.variables["v"]
    assert v.initial == words(7, 0, 0, 0)
    body = module.functions["f"].body
    assert body is not None
    assert body[0].operands[1] == Symbol(v)
    assert body[1].operands[1] == Address(Symbol(v, 8))


def test_debug_sections_pragmas_and_dwarf_lines_are_skipped() -> None:
    module = parse(
        """
        # 1 "a.cu"
        @@DWARF .section .debug_pubnames, "", @progbits
        @@DWARF .4byte 0x6e69616d, .debug_info
        .pragma "nounroll";
        .section .debug_str {
        $L__info_string0:
            .b8 95 // _
            .b8 0x2b, -11
            .b32 LpubNames_end0-LpubNames_begin0
            .b64 .debug_abbrev+4, $L__info_string0+12
        }
        .section .debug_loc { }
        /* a comment over
           lines */ .global .u32 x; // and one to the end
        """
    )
    assert list(module.variables) == ["x"]


@pytest.mark.parametrize(
    ("text", "diagnostic"),
    [
        (
            ".global .u32 x;\n.shared .u32 x;",
            "m.ptx:5:14: error: 'x' is already declared in this scope\n"
            ".shared .u32 x;\n"
            "             ^\n"
            "hint: give one of the two another name",
        ),
        (
            ".global .u32 x",
            "m.ptx:4:15: error: missing ';' after the declaration of 'x'\n"
            ".global .u32 x\n"
            "              ^\n"
            "hint: end every statement with ';'",
        ),
        (
            ".global .u32 x[];",
            "m.ptx:4:14: error: the size of 'x' is not known\n"
            ".global .u32 x[];\n"
            "             ^\n"
            "hint: write the extent, or an initial value, or .extern",
        ),
        (
            ".global .u32 x[2] = {1, 2, 3};",
            "m.ptx:4:28: error: more values than the 2 that are declared\n"
            ".global .u32 x[2] = {1, 2, 3};\n"
            "                           ^\n"
            "hint: remove them, or declare a larger array",
        ),
        (
            ".global .v4 .f32 x = {1.0, 2.0};",
            "m.ptx:4:22: error: 2 values for a vector of 4\n"
            ".global .v4 .f32 x = {1.0, 2.0};\n"
            "                     ^\n"
            "hint: a vector is given whole",
        ),
        (
            ".shared .u32 x = 1;",
            "m.ptx:4:16: error: a variable in .shared cannot have an initial value\n"
            ".shared .u32 x = 1;\n"
            "               ^\n"
            "hint: store the value when the program runs",
        ),
        (
            ".global .u64 x = y;",
            "m.ptx:4:18: error: undeclared name 'y'\n"
            ".global .u64 x = y;\n"
            "                 ^\n"
            "hint: declare the variable or function before it is used",
        ),
        (
            ".shared .u32 s;\n.global .u64 x = s;",
            "m.ptx:5:18: error: the address of 's' in .shared is not known before the program runs\n"
            ".global .u64 x = s;\n"
            "                 ^\n"
            "hint: only variables in .global and .const, and functions, can be named here",
        ),
        (
            ".global .u8 y;\n.global .u8 x = y;",
            "m.ptx:5:17: error: an address does not fit in .u8\n"
            ".global .u8 x = y;\n"
            "                ^\n"
            "hint: take one byte of it with 0xFF(name), or declare the variable as .u64",
        ),
        (
            ".global .u8 x = 0xF0(3);",
            "m.ptx:4:17: error: a mask selects one whole byte\n"
            ".global .u8 x = 0xF0(3);\n"
            "                ^\n"
            "hint: write 0xFF, 0xFF00, ... or 0xFF00000000000000",
        ),
        (
            ".reg .b32 x;",
            "m.ptx:4:1: error: '.reg' cannot stand outside a function\n"
            ".reg .b32 x;\n"
            "^\n"
            "hint: declare it in the function that uses it",
        ),
        (
            ".func f() { ret; }\n.func f() { ret; }",
            "m.ptx:5:7: error: 'f' already has a body, in line 4\n"
            ".func f() { ret; }\n"
            "      ^\n"
            "hint: remove one of the two",
        ),
        (
            ".entry k(.param .b32 a) ret;",
            "m.ptx:4:25: error: expected the body of 'k', not 'ret'\n"
            ".entry k(.param .b32 a) ret;\n"
            "                        ^\n"
            "hint: write '{', or ';' to declare it only",
        ),
        (
            "/* open\nret;",
            "m.ptx:4:1: error: this comment is never closed\n/* open\n^\nhint: write '*/' at its end",
        ),
    ],
)
def test_diagnostics(text: str, diagnostic: str) -> None:
    assert refusal(text) == diagnostic


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (".global .pred x;", "a predicate can only be a register"),
        (".global .v4 .f64 x;", "a vector of 4 elements of type .f64 is too large"),
        (".global .align 3 .b8 x;", "the alignment 3 is not a power of two"),
        (".global .q32 x;", "'.q32' is not a type, nor anything else that can stand in a declaration"),
        (".global x;", "the declaration has no type before 'x'"),
        (".global .f32 x = 1;", "an integer cannot initialise a variable of type .f32"),
        (".global .u32 x = 1.0;", "a floating constant cannot initialise a variable of type .u32"),
        (".global .f64 x = 0f3F800000;", "a single 0f... cannot initialise a variable of type .f64"),
        (".global .f16 x = 1.0;", "a variable of type .f16 cannot be given a value"),
        (
            ".global .b8 x[2][2] = {1, 2};",
            "expected '{', not '1': the values of an array are listed in braces, one pair for each extent",
        ),
        (".extern .global .u32 x = 1;", "an external variable cannot have an initial value"),
        (".alias f, g;", "there is no function 'g'"),
        (".entry k() .fast { ret; }", "unknown directive '.fast' before the body"),
        ("add.u32 a, b, c;", "expected a directive of the module, not 'add.u32'"),
    ],
)
def test_what_is_no_declaration_is_refused(text: str, message: str) -> None:
    assert refusal(text).split("\n")[0].partition("error: ")[2] == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "m.ptx:1:1: error: the module has no .version"),
        (".version 9.0\n", "m.ptx:1:1: error: the module has no .target"),
        (".version 9\n", "m.ptx:1:10: error: malformed version '9'"),
    ],
)
def test_a_module_needs_its_head(text: str, message: str) -> None:
    with pytest.raises(TilecError) as caught:
        parse_ptx(text, "m.ptx")
    assert str(caught.value).split("\n")[0] == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f".global .u32 x = {'9' * 5000};", "a number of 5000 digits"),
        (".global .b8 x[99999999999] = {1};", "a variable of 99999999999 bytes cannot be given a value"),
        (".global .b8 x<99999999999>;", "a range of 99999999999 names"),
        (f".func f() {{ .reg .b32 r<4>; mov.b32 r{'1' * 5000}, 1; }}", f"undeclared name 'r{'1' * 5000}'"),
    ],
)
def test_numbers_out_of_all_proportion_are_refused(text: str, message: str) -> None:
    with pytest.raises(TilecError) as caught:
        parse(text)
    assert caught.value.diagnostic.message == message
