"""Instructions, operands, scopes, labels and tables in the bodies of functions (PTX 4.3, 6, 9.7.12, 11.3, 11.5)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilec.backend.emulator.ptx.parser import parse_ptx
from tilec.backend.emulator.ptx.syntax import (
    Address,
    Arguments,
    Float,
    Function,
    FunctionName,
    Guard,
    Instruction,
    Integer,
    Label,
    Not,
    Operand,
    Pair,
    Part,
    Register,
    Sink,
    SourceLine,
    Special,
    Symbol,
    Table,
    Variable,
    Vector,
)
from tilec.diagnostics import TilecError

HEAD = """.version 9.0
.target sm_90a
.address_size 64
.global .u32 data[4];
.func (.param .b32 r) callee(.param .b32 x);
.entry k(.param .u64 out) {
.reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .pred %p<4>; .reg .f32 %f<4>;
"""
FIRST = HEAD.count("\n") + 1


def function(text: str) -> Function:
    return parse_ptx(f"{HEAD}{text}\n}}\n", "k.ptx").functions["k"]


def body(text: str) -> tuple[Instruction, ...]:
    found = function(text).body
    assert found is not None
    return found


def operands(text: str) -> tuple[Operand, ...]:
    return body(text)[0].operands


def name_of(item: Operand) -> str:
    assert isinstance(item, Register)
    return item.name


@pytest.mark.parametrize(
    "opcode",
    [
        "ret",
        "bar.sync",
        "ld.global.L1::no_allocate.L2::256B.v4.f32",
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint",
        "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster",
        "tcgen05.ld.sync.aligned.32x32b.x64.b32",
        "tcgen05.wait::ld.sync.aligned",
        "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3",
    ],
)
def test_an_opcode_is_split_at_its_single_dots(opcode: str) -> None:
    instruction = body(f"{opcode};")[0]
    assert instruction.opcode == opcode
    assert all("." not in part and part for part in instruction.parts)
    assert instruction.parts[-1] == opcode.rpartition(".")[2]
    assert instruction.operands == ()


def test_modifiers_may_stand_apart_from_the_opcode() -> None:
    assert body("ld .global\n.v4.f32 {%f0, %f1, %f2, %f3}, [%rd1];")[0].opcode == "ld.global.v4.f32"


def test_the_place_and_the_text_of_an_instruction() -> None:
    add, trap = body("// a comment\n  @!%p1  add.u32\t%r1, /* in\nbetween */ %r2,\n   7 ; @%p2 trap;")
    assert (add.line, add.column, add.text) == (FIRST + 1, 10, "@!%p1 add.u32 %r1, %r2, 7")
    assert (trap.line, trap.column, trap.text) == (FIRST + 3, 13, "@%p2 trap")
    assert isinstance(add.guard, Guard)
    assert (add.guard.register.name, add.guard.negated) == ("%p1", True)
    assert trap.guard is not None
    assert not trap.guard.negated


def test_registers_are_one_object_and_numbered_without_gaps() -> None:
    k = function("add.u32 %r3, %r3, %r0; { .reg .b32 %r3; mov.b32 %r3, %r0; } mov.b32 %r3, 1;")
    assert k.body is not None
    outer, inner = k.body[0].operands[0], k.body[1].operands[0]
    assert outer is k.body[0].operands[1]
    assert k.body[2].operands[0] == outer
    assert name_of(inner) == "%r3"
    assert inner != outer
    assert [register.slot for register in k.registers] == list(range(len(k.registers)))
    assert {inner, outer} <= set(k.registers)


def test_a_range_has_the_names_that_it_counts_and_no_others() -> None:
    assert operands("mov.b32 %r7, %r0;") == (Register("%r7", "b32", 0), Register("%r0", "b32", 1))
    for wrong in ("%r8", "%r", "%r00", "%rx"):
        with pytest.raises(TilecError, match="undeclared name"):
            body(f"mov.b32 %r1, {wrong};")
    names = operands(".reg .b16 x1<12>; mov.b32 x110, x11;")
    assert [name_of(item) for item in names] == ["x110", "x11"]


def test_elements_of_vector_registers() -> None:
    text = (
        ".reg .v4 .f32 q; .reg .v2 .b16 h<2>; mov.f32 q.g, q.w; mov.v4.f32 q, q; mov.b16 h1.x, h1.y; mov.b32 %r1, h1;"
    )
    elements, whole, halves, packed = (instruction.operands for instruction in body(text))
    assert whole[0] == whole[1]
    assert isinstance(whole[0], Vector)
    assert [name_of(item) for item in whole[0].elements] == ["q.x", "q.y", "q.z", "q.w"]
    assert elements == (whole[0].elements[1], whole[0].elements[3])
    assert packed[1] == Vector(halves)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%tid.x", Special("%tid", "x")),
        ("%cluster_nctaid.w", Special("%cluster_nctaid", "w")),
        ("%tid.g", Special("%tid", "y")),
        ("%ctaid", Vector(tuple(Special("%ctaid", c) for c in "xyzw"))),
        ("%laneid", Special("%laneid")),
        ("%clock64", Special("%clock64")),
        ("%lanemask_lt", Special("%lanemask_lt")),
        ("%cluster_ctarank", Special("%cluster_ctarank")),
        ("%pm7_64", Special("%pm7_64")),
        ("%envreg31", Special("%envreg31")),
        ("%dynamic_smem_size", Special("%dynamic_smem_size")),
        ("%reserved_smem_offset_1", Special("%reserved_smem_offset_1")),
        ("_", Sink()),
        ("-1", Integer(-1)),
        ("WARP_SZ - 1", Integer(31)),
        ("!1", Integer(0)),
        ("(1 << 4) | 3", Integer(19)),
        ("0f3F800000", Float(0x3F800000, 32)),
        ("callee", FunctionName("callee")),
        ("{1, _, -0x10}", Vector((Integer(1), Sink(), Integer(-16)))),
        ("{}", Vector(())),
        ("[16]", Address(Integer(0), 16)),
    ],
)
def test_operands_without_registers(text: str, expected: Operand) -> None:
    assert operands(f"mov.b32 %r1, {text};")[1] == expected


def test_a_declared_register_hides_a_special_one() -> None:
    assert operands(".reg .b32 %laneid; mov.b32 %r1, %laneid;")[1] == Register("%laneid", "b32", 0)
    tid = operands(".reg .v4 .u32 %tid; mov.b32 %r1, %tid.y;")[1]
    assert isinstance(tid, Register)


def test_predicates_pairs_and_parts() -> None:
    r1, r2, p1 = Register("%r1", "b32", 0), Register("%r2", "b32", 1), Register("%p1", "pred", 2)
    assert operands("f %r1, %r2, %r1|%r2, _|%r2, !%p1, {%r1, %r2}|%r1, %r1|_;") == (
        r1,
        r2,
        Pair(r1, r2),
        Pair(Sink(), r2),
        Not(p1),
        Pair(Vector((r1, r2)), r1),
        Pair(r1, Sink()),
    )
    assert operands("vmad.s32 %r1.h0, -%r2, %r1.b3, -%r2.h1, %r1.b7654;") == (
        Part(r1, "h0"),
        Part(r2, "", True),
        Part(r1, "b3"),
        Part(r2, "h1", True),
        Part(r1, "b7654"),
    )


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("[%rd1]", 0),
        ("[%rd1+16]", 16),
        ("[ %rd1 + -16 ]", -16),
        ("[%rd1-16]", -16),
        ("[%rd1+4*4-(2+2)]", 12),
        ("[%rd1+0xFFFFFFFFFFFFFFF8]", -8),
        ("[%rd1+8].unified", 8),
    ],
)
def test_addresses_of_a_register(text: str, offset: int) -> None:
    assert operands(f"ld.b32 {text};") == (Address(Register("%rd1", "b64", 0), offset),)


@pytest.mark.parametrize(
    ("text", "offset"),
    [("data", 0), ("data+4", 4), ("data - 4 + 12", 8), ("data[3]", 12), ("data[1+1]", 8)],
)
def test_addresses_of_a_variable(text: str, offset: int) -> None:
    module = parse_ptx(f"{HEAD}mov.u64 %rd1, {text};\nld.global.u32 %r1, [{text}];\n}}\n")
    symbol = Symbol(module.variables["data"], offset)
    instructions = module.functions["k"].body
    assert instructions is not None
    assert [instruction.operands[1] for instruction in instructions] == [symbol, Address(symbol)]


def test_an_indexed_variable_is_an_address_for_mov_and_memory_for_ld() -> None:
    address, loaded = (
        instruction.operands[1] for instruction in body("mov.u64 %rd1, data[2]; ld.global.u32 %r1, data[2];")
    )
    assert isinstance(address, Symbol)
    assert address.offset == 8
    assert loaded == Address(address)


def test_coordinates() -> None:
    r1, rd1 = Register("%r1", "b32", 1), Register("%rd1", "b64", 0)
    assert operands("cp.async.bulk.tensor [%rd1], [%rd1+64, {%r1, 0}], [%rd1], {%r1};") == (
        Address(rd1),
        Address(rd1, 64, Vector((r1, Integer(0)))),
        Address(rd1),
        Vector((r1,)),
    )


def test_variables_of_a_function_by_block() -> None:
    k = function(
        """
        .local .align 8 .b8 depot[40];
        .shared .v4 .f32 tile[2];
        { .param .b32 x; st.param.b32 [x+0], %r1; }
        { .param .align 16 .b8 x[32]; st.param.b32 [x], %r1; }
        ld.param.u64 %rd1, [out];
        """
    )
    assert [(v.name, v.space, v.align, v.size) for v in k.variables] == [
        ("depot", "local", 8, 40),
        ("tile", "shared", 16, 32),
        ("x", "param", 4, 4),
        ("x", "param", 16, 32),
    ]
    assert k.body is not None
    parameter = k.parameters[0]
    assert isinstance(parameter, Variable)
    bases = [instruction.operands[0] for instruction in k.body[:2]] + [k.body[2].operands[1]]
    assert bases == [Address(Symbol(v)) for v in (k.variables[2], k.variables[3], parameter)]


def test_labels_are_found_before_and_after_and_the_innermost_first() -> None:
    instructions = body(
        """
        L: bra N;
        { bra L; bra M; L: ret; M: }
        N: bra L;
        END:
        """
    )
    assert [instruction.operands for instruction in instructions] == [
        (Label("N", 4),),
        (Label("L", 3),),
        (Label("M", 4),),
        (),
        (Label("L", 0),),
    ]


def test_a_conditional_constant_makes_no_label() -> None:
    assert operands("mov.b32 %r1, 1 ? WARP_SZ : 3;")[1] == Integer(32)


def test_branch_targets() -> None:
    instructions = body(
        """
        ts: .branchtargets A, B0, A;
        brx.idx %r1, ts;
        ranged : .branchtargets B<2>;
        brx.idx.uni %r1, ranged;
        A: ret;
        B0: B1: exit;
        """
    )
    a, b0, b1 = Label("A", 2), Label("B0", 3), Label("B1", 3)
    assert [instruction.operands[1] for instruction in instructions[:2]] == [
        Table("ts", labels=(a, b0, a)),
        Table("ranged", labels=(b0, b1)),
    ]


def test_calls() -> None:
    text = """
    { .param .b32 a; .param .b32 r;
    call.uni (r), callee, (a);
    call callee, (a, %r1, 5);
    call callee;
    calls: .calltargets callee;
    call (r), %rd1, (a), calls;
    prototype_0 : .callprototype (.param .b32 _) _ (.param .b64 _, .param .align 8 .b8 _[16], .reg .f32 _) .noreturn;
    call (r), %rd1, (a), prototype_0;
    prototype_1: .callprototype _;
    call %rd1, prototype_1;
    }
    """
    k = function(text)
    assert k.body is not None
    a, r = (Symbol(v) for v in k.variables)
    rd1 = Register("%rd1", "b64", 1)
    given = [instruction.operands for instruction in k.body]
    assert given[0] == (Arguments((r,)), FunctionName("callee"), Arguments((a,)))
    assert given[1] == (FunctionName("callee"), Arguments((a, Register("%r1", "b32", 0), Integer(5))))
    assert given[2] == (FunctionName("callee"),)
    assert given[3] == (Arguments((r,)), rd1, Arguments((a,)), Table("calls", functions=("callee",)))
    prototype = given[4][3]
    assert isinstance(prototype, Table)
    assert prototype.name == "prototype_0"
    assert [(v.type, v.align, v.size) for v in prototype.returns] == [("b32", 4, 4)]
    assert [(v.type, v.align, v.size) for v in prototype.parameters] == [("b64", 8, 8), ("b8", 8, 16), ("f32", 4, 4)]
    assert given[5] == (rd1, Table("prototype_1"))


def test_a_function_calls_itself_and_an_alias() -> None:
    module = parse_ptx(
        ".version 9.0\n.target sm_90a\n.func f() { call f; ret; }\n.func g();\n.alias g, f;\n.entry k { call g; }\n"
    )
    for name, called in (("f", "f"), ("k", "g")):
        instructions = module.functions[name].body
        assert instructions is not None
        assert instructions[0].operands == (FunctionName(called),)


def test_lines_of_the_program_with_calls_that_were_inlined() -> None:
    instructions = body(
        """
        mov.b32 %r0, 0;
        .loc 1 21 3
        .loc 1 9 4, function_name info_string0, inlined_at 1 21 3
        $L__tmp0: mov.b32 %r0, 1;
        .loc 2 15 3, function_name .debug_str+16, inlined_at 1 9 4
        mov.b32 %r0, 2;
        .loc 2 30 1
        .pragma "nounroll";
        mov.b32 %r0, 3;
        }
        .file 1 "a.cu", 1339013327, 64118
        .file 2 "dir\\\\b \\"c\\".cu"
        .func other() { mov.b32 0;
        """
    )
    call = SourceLine("a.cu", 21, 3)
    inlined = SourceLine("a.cu", 9, 4, call)
    deeper = SourceLine('dir\\b "c".cu', 15, 3, inlined)
    assert [instruction.source for instruction in instructions] == [
        None,
        inlined,
        deeper,
        SourceLine(deeper.file, 30, 1),
    ]


@pytest.mark.parametrize(
    ("text", "diagnostic"),
    [
        (
            "add.u32 %r1, %r2, %r9;",
            "k.ptx:8:19: error: undeclared name '%r9'\n"
            "add.u32 %r1, %r2, %r9;\n"
            "                  ^\n"
            "hint: '%r<8>' declares %r0 to %r7",
        ),
        (
            ".reg .b32 count; mov.b32 %r1, cuont;",
            "k.ptx:8:31: error: undeclared name 'cuont'\n"
            ".reg .b32 count; mov.b32 %r1, cuont;\n"
            "                              ^\n"
            "hint: did you mean 'count'?",
        ),
        (
            "bra DONE;",
            "k.ptx:8:5: error: undeclared name 'DONE'\n"
            "bra DONE;\n"
            "    ^\n"
            "hint: declare a register with '.reg .b32 DONE;', or set a label with 'DONE:'; "
            "functions are declared with .extern .func",
        ),
        (
            "add.u32 %r1, %r2, 3\nret;",
            "k.ptx:8:20: error: missing ';' after 'add.u32 %r1, %r2, 3'\n"
            "add.u32 %r1, %r2, 3\n"
            "                   ^\n"
            "hint: end every statement with ';'",
        ),
        (
            "{ ret;",
            "k.ptx:6:27: error: this '{' is never closed\n"
            ".entry k(.param .u64 out) {\n"
            "                          ^\n"
            "hint: write '}' at the end of the block",
        ),
        (
            "L: ret; L: ret;",
            "k.ptx:8:9: error: the label 'L' stands in this block twice\n"
            "L: ret; L: ret;\n"
            "        ^\n"
            "hint: give one of the two another name",
        ),
        (
            ".reg .b32 %r5;",
            "k.ptx:8:11: error: '%r5' is already declared in this scope\n"
            ".reg .b32 %r5;\n"
            "          ^\n"
            "hint: give one of the two another name",
        ),
        (
            ".reg .v2 .f32 q; mov.f32 %f1, q.z;",
            "k.ptx:8:31: error: 'q' has no element 'z'\n"
            ".reg .v2 .f32 q; mov.f32 %f1, q.z;\n"
            "                              ^\n"
            "hint: it has 2 elements: x, y",
        ),
        (
            "ts: .branchtargets A;",
            "k.ptx:8:20: error: there is no label 'A'\n"
            "ts: .branchtargets A;\n"
            "                   ^\n"
            "hint: a branch target is a label of the same function",
        ),
        (
            ".callprototype _;",
            "k.ptx:8:1: error: '.callprototype' needs a label\n"
            ".callprototype _;\n"
            "^\n"
            "hint: write 'name: .callprototype ...;'",
        ),
        (
            "ld.global.u32 %r1, data[%r2];",
            "k.ptx:8:25: error: an array can only be indexed by a constant here\n"
            "ld.global.u32 %r1, data[%r2];\n"
            "                        ^\n"
            "hint: compute the address in a register",
        ),
    ],
)
def test_diagnostics(text: str, diagnostic: str) -> None:
    with pytest.raises(TilecError) as caught:
        body(text)
    assert str(caught.value) == diagnostic


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (".reg .b32 q1; .reg .b32 q<2>;", "'q<2>' declares a name that this scope already has"),
        (".reg .b32 %r<2>;", "'%r<2>' declares a name that this scope already has"),
        (".reg .b32 out;", "'out' is already declared in this scope"),
        (".reg .b32 L; L: ret;", "'L' is already declared in this scope"),
        (".reg .b32 q<0>;", "a range of 0 names"),
        ("{ .reg .b32 q; } mov.b32 q, 1;", "undeclared name 'q'"),
        ("mov.b32 q, 1; .reg .b32 q;", "undeclared name 'q'"),
        ("{ M: } bra M;", "undeclared name 'M'"),
        ("mov.b32 %r1, %r1.x;", "'.x' cannot be taken of '%r1'"),
        ("mov.b32 %r1, -%tid.x;", "expected a constant, not '%tid.x'"),
        ("add.u32 %r1, ;", "expected an operand after ','"),
        ("add.u32 %r1 %r2;", "missing ';' after 'add.u32 %r1'"),
        ("ld.u32 %r1, [%rd1;", "expected ']', not ';': the '[' at column 13 is open"),
        ("ld.u32 %r1, [%tid.x];", "'%tid.x' is not an address"),
        ("tex.1d [%rd1, %rd2, {%f1}];", "an address with a separate sampler is not supported"),
        ("mov.b64 %rd1, {%r1, L}; L:", "'L' cannot be an element of a vector"),
        ("@%p1 %r2;", "expected an instruction, not '%r2'"),
        ("@data ret;", "'data' is not a register"),
        ("@%r1 ret;", "register '%r1' is .b32"),
        ("add.u32 %r1, !%r2, %r3;", "register '%r2' is .b32"),
        ("calls: .calltargets data;", "'data' is not a function"),
        (".maxntid 3;", "'.maxntid' cannot stand in a function"),
        (".loc 1 x 3", "expected a line, not 'x'"),
        ("mov.b32 %r1, \\;", "unexpected character '\\'"),
    ],
)
def test_what_is_no_statement_is_refused(text: str, message: str) -> None:
    with pytest.raises(TilecError) as caught:
        body(text)
    assert caught.value.diagnostic.message == message


def test_nesting_without_end_is_refused() -> None:
    with pytest.raises(TilecError, match="nested too deeply"):
        body("mov.b32 %r1, " + "(" * 100_000)


SAMPLE = """.const .f32 table[2] = {1.0, 0f3F800000};
.global .u64 p[] = {generic(table)+4, 0xFF};
.func (.param .b32 r) f(.reg .b32 a) .noreturn;
.visible .entry k(.param .u64 .ptr .global .align 16 o, .param .align 64 .b8 m[128]) .reqntid 128, 1 {
.reg .pred %p<3>; .reg .v4 .f32 q; .reg .b32 %r<9>; .loc 1 2 3
.shared .align 8 .b64 bar[2];
L: setp.lt.and.s32 %p1|%p2, %r1, 4 + 3 * 2, !%p1;
@!%p1 bra L; { .param .b32 x; st.param.b32 [x+0], %r1; call.uni (x), f, (%r2), T; }
T: .callprototype (.param .b32 _) _ (.param .b32 _[4]);
B: .branchtargets L; brx.idx %r1, B;
mov.v4.f32 {q.x, _, q.z, q.w}, q; vadd.s32 %r1.b0, -%r2, %tid.x; ld.u32 %r1, [m+-4]; /* c */
}
.section .debug_str { .b8 1 // x
} .file 1 "a.cu" """
TOKENS = SAMPLE.split(" ")


@settings(max_examples=150)
@given(
    st.lists(
        st.tuples(
            st.integers(0, len(TOKENS) - 1), st.sampled_from([*TOKENS, *'{}[]()<>,;:|!@%-+."\\#\0', "/*", "0x", ""])
        ),
        max_size=3,
    ),
    st.one_of(st.none(), st.integers(0, len(TOKENS))),
)
def test_any_text_is_read_or_refused_with_a_diagnostic(edits: list[tuple[int, str]], end: int | None) -> None:
    tokens = list(TOKENS)
    for at, token in edits:
        tokens[at] = token
    text = ".version 9.0 .target sm_90a " + " ".join(tokens[:end])
    try:
        module = parse_ptx(text, "k.ptx")
    except TilecError as error:
        location = error.diagnostic.location
        assert location is not None
        assert 1 <= location.line <= text.count("\n") + 1
        assert location.column >= 1
    else:
        assert module.target == "sm_90a"
