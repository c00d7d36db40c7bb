"""L2 to LLVM IR and PTX: headers, types, control flow, debug locations, and what is refused before LLVM sees it."""

from __future__ import annotations

import math
import re
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any

import pytest
from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import (
    Builtin,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    ModuleOp,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute
from xdsl.parser import Parser

from tilec.backend.abi import (
    Barrier,
    ExtentParam,
    KernelABI,
    PitchParam,
    PointerParam,
    SmemBlock,
    TensorMapParam,
    ViewFacts,
)
from tilec.backend.llvm_ir import DATA_LAYOUT, to_llvm
from tilec.backend.ptx import emit_ptx
from tilec.backend.ptxas import assemble, find_ptxas
from tilec.backend.selection import CodegenError
from tilec.backend.target import TARGETS, Target
from tilec.diagnostics import TilecError
from tilec.dialects import nvvm

HOPPER, BLACKWELL = TARGETS["sm_90a"], TARGETS["sm_100a"]
MAP = "!llvm.ptr {llvm.byval = !llvm.array<128 x i8>, llvm.align = 64 : i64, nvvm.grid_constant}"
ARGUMENTS = f"%map: {MAP}, %out: !llvm.ptr<1>, %n: i32, %q: i64, %x: f32"
PROLOGUE = """
  %smem = llvm.mlir.addressof @smem : !llvm.ptr<3>
  %cluster = llvm.addrspacecast %smem : !llvm.ptr<3> to !llvm.ptr<7>
  %tmem = llvm.inttoptr %n : i32 to !llvm.ptr<6>
  %mask = llvm.trunc %n : i32 to i16
  %zero = llvm.mlir.constant(0 : i32) : i32
  %p = llvm.icmp "eq" %n, %zero : i32
"""


def parse(text: str) -> ModuleOp:
    context = Context()
    for dialect in (Builtin, Arith, nvvm.LLVM, nvvm.NVVM):
        context.load_dialect(dialect)
    module = Parser(context, text).parse_module()
    module.verify()
    return module


def kernel(body: str, attributes: str = "nvvm.kernel") -> ModuleOp:
    """A kernel with a tensor map, an output, some scalars and values of each address space."""
    return parse(f"""
llvm.mlir.global external @smem() {{addr_space = 3 : i32, alignment = 1024 : i64}} : !llvm.array<0 x i8>
llvm.func @k({ARGUMENTS}) attributes {{{attributes}}} {{{PROLOGUE}{body}
  llvm.return
}}""")


def compile_(module: ModuleOp, target: Target = HOPPER) -> str:
    ptx = emit_ptx(to_llvm(module, target), target)
    if find_ptxas() is not None:
        assemble(ptx, target)
    return ptx


def instructions(ptx: str) -> str:
    """The body with single blanks, without locations."""
    lines = (" ".join(line.split()) for line in ptx[ptx.index("{\n") :].splitlines())
    return "\n".join(line for line in lines if not line.startswith((".loc", "//")))


# Headers


def test_kernel_header() -> None:
    attributes = "nvvm.kernel, nvvm.reqntid = array<i32: 128>, nvvm.minctasm = 1 : i32"
    ptx = compile_(kernel("", attributes))
    assert ".visible .entry k(" in ptx and ".reqntid 128\n" in ptx and ".minnctapersm 1\n" in ptx
    assert ".version 8.0\n.target sm_90a\n" in ptx
    assert ".version 8.6\n.target sm_100a\n" in compile_(kernel("", attributes), BLACKWELL)


def test_other_kernel_attributes() -> None:
    ptx = compile_(kernel("", "nvvm.kernel, nvvm.maxntid = array<i32: 128, 2>, nvvm.maxnreg = 64 : i32"))
    assert ".maxntid 128, 2\n" in ptx and ".maxnreg 64\n" in ptx
    ptx = compile_(kernel("", "nvvm.kernel, nvvm.cluster_dim = array<i32: 2, 1, 1>, nvvm.reqntid = array<i32: 32>"))
    assert ".reqnctapercluster 2" in ptx


def test_tensor_map_is_not_copied_to_local_memory() -> None:
    ptx = compile_(kernel("nvvm.cp.async.bulk.tensor.global.shared.cta %map, %smem, box[%n] : !llvm.ptr, !llvm.ptr<3>"))
    assert ".param .align 64 .b8 k_param_0[128]" in ptx
    assert "cvta.param.u64" in ptx and ".local" not in ptx


def test_shared_memory_is_dynamic_and_addressed_with_32_bits() -> None:
    ptx = compile_(kernel("llvm.store %n, %smem : i32, !llvm.ptr<3>"))
    assert ".extern .shared .align 1024 .b8 smem[];" in ptx
    assert "st.shared.b32 [smem], %r" in instructions(ptx)


def test_data_layout_is_that_of_llvm() -> None:
    binding: Any = import_module("llvmlite.binding")  # it has no types
    emit_ptx(to_llvm(kernel(""), HOPPER), HOPPER)  # sets the process-wide option for short pointers
    for target in TARGETS.values():
        machine = binding.Target.from_triple("nvptx64-nvidia-cuda").create_target_machine(cpu=target.name)
        assert str(machine.target_data) == DATA_LAYOUT


def test_kernels_side_by_side() -> None:
    module = parse("".join(f"llvm.func @k{i}() attributes {{nvvm.kernel}} {{ llvm.return }}\n" for i in range(3)))
    assert re.findall(r"\.entry (\w+)\(", compile_(module)) == ["k0", "k1", "k2"]


# Instructions

EXPECTED = {
    "%t = nvvm.read.ptx.sreg.tid.x : i32\nllvm.store %t, %out : i32, !llvm.ptr<1>": "mov.u32 %r1, %tid.x;",
    "%t = nvvm.read.ptx.sreg.ctaid.x : i32\nllvm.store %t, %out : i32, !llvm.ptr<1>": "mov.u32 %r1, %ctaid.x;",
    "%t = nvvm.read.ptx.sreg.nctaid.x : i32\nllvm.store %t, %out : i32, !llvm.ptr<1>": "mov.u32 %r1, %nctaid.x;",
    "%t = nvvm.read.ptx.sreg.laneid : i32\nllvm.store %t, %out : i32, !llvm.ptr<1>": "mov.u32 %r1, %laneid;",
    "nvvm.barrier": "bar.sync 0;",
    "nvvm.barrier id = %zero number_of_threads = %n": "barrier.sync 0, %r1;|bar.sync 0, %r1;",
    "nvvm.bar.warp.sync %n : i32": "bar.warp.sync %r1;",
    "%e = nvvm.elect.sync -> i1\n%w = llvm.zext %e : i1 to i32\nllvm.store %w, %out : i32, !llvm.ptr<1>": (
        r"elect.sync %r1\|%p1, -1;"
    ),
    "nvvm.mbarrier.init %smem, %n : !llvm.ptr<3>, i32": r"mbarrier.init.shared.b64 \[smem\], %r1;",
    "nvvm.mbarrier.inval %smem : !llvm.ptr<3>": r"mbarrier.inval.shared.b64 \[smem\];",
    "%s = nvvm.mbarrier.arrive %smem : !llvm.ptr<3> -> i64": r"mbarrier.arrive.shared.b64 %rd1, \[smem\];",
    "nvvm.mbarrier.arrive.expect_tx %smem, %n : !llvm.ptr<3>, i32": (
        r"mbarrier.arrive.expect_tx.shared.b64 %rd1, \[smem\], %r1;"
    ),
    "nvvm.mbarrier.try_wait.parity %smem, %zero, %n : !llvm.ptr<3>, i32, i32": (
        r"(wait_\d+):\nmbarrier.try_wait.parity.shared.b64 done, \[%r\d\], %r\d, %r\d;\n@!done bra \1;"
    ),
    "%d = nvvm.mbarrier.try_wait %smem, %n : !llvm.ptr<3>, i32 -> i1": (
        r"mbarrier.try_wait.parity.shared.b64 %p1, \[smem\], %r1;"
    ),
    "nvvm.fence.mbarrier.init": "fence.mbarrier_init.release.cluster;",
    "nvvm.fence.proxy {kind = #nvvm.proxy_kind<alias>}": "fence.proxy.alias;",
    "nvvm.fence.proxy {kind = #nvvm.proxy_kind<async>}": "fence.proxy.async;",
    "nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.global>}": "fence.proxy.async.global;",
    "nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}": (
        "fence.proxy.async.shared::cta;"
    ),
    "nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cluster>}": (
        "fence.proxy.async.shared::cluster;"
    ),
    "nvvm.cp.async.bulk.tensor.shared.cluster.global %cluster, %map, %smem, box[%n, %zero] : !llvm.ptr<7>, !llvm.ptr": (
        r"cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        r" \[smem\], \[%rd2, \{%r1, %r2\}\], \[smem\];"
    ),
    "nvvm.cp.async.bulk.tensor.shared.cluster.global %cluster, %map, %smem, box[%n] multicast_mask = %mask"
    " l2_cache_hint = %q : !llvm.ptr<7>, !llvm.ptr": (
        r"cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
        r".L2::cache_hint \[smem\], \[%rd\d, \{%r1\}\], \[smem\], %rs1, %rd\d;"
    ),
    "nvvm.cp.async.bulk.tensor.global.shared.cta %map, %smem, box[%n, %n, %n, %n, %n] l2_cache_hint = %q"
    " : !llvm.ptr, !llvm.ptr<3>": (
        r"cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group.L2::cache_hint"
        r" \[%rd\d, \{%r1, %r1, %r1, %r1, %r1\}\], \[smem\], %rd\d;"
    ),
    "nvvm.cp.async.bulk.commit.group": "cp.async.bulk.commit_group;",
    "nvvm.cp.async.bulk.wait_group 2": "cp.async.bulk.wait_group 2;",
    "nvvm.cp.async.bulk.wait_group 1 {read}": "cp.async.bulk.wait_group.read 1;",
    "nvvm.prefetch tensormap, %map : !llvm.ptr": r"prefetch.tensormap \[%rd\d\];",
    "nvvm.prefetch tensormap in_param_space, %map : !llvm.ptr": r"prefetch.param.tensormap \[k_param_0\];",
    "nvvm.stmatrix %smem, %n, %n {layout = #nvvm.mma_layout<row>, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>,"
    " eltType = #nvvm.ld_st_matrix_elt_type<b16>} : !llvm.ptr<3>, i32, i32": (
        r"stmatrix.sync.aligned.m8n8.x2.shared.b16 \[smem\], \{%r1, %r1\};"
    ),
    "nvvm.stmatrix %smem, %n {layout = #nvvm.mma_layout<col>, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>,"
    " eltType = #nvvm.ld_st_matrix_elt_type<b16>} : !llvm.ptr<3>, i32": (
        r"stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 \[smem\], \{%r1\};"
    ),
}
EXPECTED_HOPPER = {
    "nvvm.wgmma.fence.aligned": "wgmma.fence.sync.aligned;",
    "nvvm.wgmma.wait.group.sync.aligned 1": "wgmma.wait_group.sync.aligned 1;",
}
EXPECTED_BLACKWELL = {
    "nvvm.cp.async.bulk.tensor.shared.cluster.global %smem, %map, %smem, box[%n] {isCTAOnly = true}"
    " : !llvm.ptr<3>, !llvm.ptr": r"cp.async.bulk.tensor.1d.shared::cta.global.tile.mbarrier::complete_tx::bytes \[smem\]",
    "nvvm.cp.async.bulk.tensor.shared.cluster.global %cluster, %map, %smem, box[%n] {group = #nvvm.cta_group<cta_2>}"
    " : !llvm.ptr<7>, !llvm.ptr": r"bytes.cta_group::2 \[smem\]",
    "nvvm.tcgen05.alloc %smem, %n : !llvm.ptr<3>, i32": (
        r"tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 \[smem\], %r1;"
    ),
    "nvvm.tcgen05.dealloc %tmem, %n {group = #nvvm.cta_group<cta_2>} : !llvm.ptr<6>, i32": (
        "tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r1, %r1;"
    ),
    "nvvm.tcgen05.relinquish_alloc_permit": "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;",
    "nvvm.tcgen05.fence <before>": "tcgen05.fence::before_thread_sync;",
    "nvvm.tcgen05.fence <after>": "tcgen05.fence::after_thread_sync;",
    "nvvm.tcgen05.wait <load>": "tcgen05.wait::ld.sync.aligned;",
    "nvvm.tcgen05.wait <store>": "tcgen05.wait::st.sync.aligned;",
    "nvvm.tcgen05.commit %smem : !llvm.ptr<3>": (
        r"tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 \[smem\];"
    ),
    "nvvm.tcgen05.commit %smem, multicast_mask = %mask : !llvm.ptr<3>, i16": (
        r"tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 \[smem\], %rs1;"
    ),
    "%v = nvvm.tcgen05.ld %tmem pack {shape = #nvvm.tcgen05_ldst_shape<shape_16x128b>} : vector<4xi32>\n"
    "llvm.store %v, %out {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>": (
        r"tcgen05.ld.sync.aligned.16x128b.x2.pack::16b.b32 \{%r\d, %r\d, %r\d, %r\d\}, \[%r1\];"
    ),
    "nvvm.tcgen05.mma %tmem, %q, %q, %n, %p {kind = #nvvm.tcgen05_mma_kind<f16>, ctaGroup = #nvvm.cta_group<cta_1>}"
    " : (!llvm.ptr<6>, i64, i64, i32, i1)": (
        r"tcgen05.mma.cta_group::1.kind::f16.collector::a::discard \[%r1\], %rd1, %rd1, %r1, %p1;"
    ),
    "nvvm.tcgen05.mma %tmem, %tmem, %q, %n, %p {kind = #nvvm.tcgen05_mma_kind<i8>, ctaGroup = #nvvm.cta_group<cta_2>,"
    " collectorOp = #nvvm.tcgen05_mma_collectorop<lastuse>} : (!llvm.ptr<6>, !llvm.ptr<6>, i64, i32, i1)": (
        r"tcgen05.mma.cta_group::2.kind::i8.collector::a::lastuse \[%r1\], \[%r1\], %rd1, %r1, %p1;"
    ),
}


@pytest.mark.parametrize("body", EXPECTED)
@pytest.mark.parametrize("target", TARGETS)
def test_instruction(body: str, target: str) -> None:
    assert re.search(EXPECTED[body], instructions(compile_(kernel(body), TARGETS[target])))


@pytest.mark.parametrize("body", EXPECTED_HOPPER)
def test_instruction_of_hopper(body: str) -> None:
    assert EXPECTED_HOPPER[body] in instructions(compile_(kernel(body), HOPPER))
    with pytest.raises(CodegenError, match="not on sm_100a, only on sm_90a"):
        to_llvm(kernel(body), BLACKWELL)


@pytest.mark.parametrize("body", EXPECTED_BLACKWELL)
def test_instruction_of_blackwell(body: str) -> None:
    assert re.search(EXPECTED_BLACKWELL[body], instructions(compile_(kernel(body), BLACKWELL)))
    with pytest.raises(CodegenError, match="not on sm_90a, only on sm_100a"):
        to_llvm(kernel(body), HOPPER)


ORDER = [
    ("llvm.store %n, %smem : i32, !llvm.ptr<3>", "st.shared"),
    (
        "nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}",
        "fence.proxy.async.shared::cta",
    ),
    ("nvvm.barrier", "bar.sync"),
    ("nvvm.mbarrier.arrive.expect_tx %smem, %n : !llvm.ptr<3>, i32", "mbarrier.arrive.expect_tx"),
    (
        "nvvm.cp.async.bulk.tensor.shared.cluster.global %cluster, %map, %smem, box[%n] : !llvm.ptr<7>, !llvm.ptr",
        "cp.async.bulk.tensor.1d.shared::cluster",
    ),
    ("%d = nvvm.mbarrier.try_wait %smem, %n : !llvm.ptr<3>, i32 -> i1", "mbarrier.try_wait"),
    ("%y = llvm.load %smem : !llvm.ptr<3> -> i32", "ld.shared"),
    (
        "nvvm.tcgen05.mma %tmem, %q, %q, %n, %p {kind = #nvvm.tcgen05_mma_kind<f16>, ctaGroup = #nvvm.cta_group<cta_1>}"
        " : (!llvm.ptr<6>, i64, i64, i32, i1)",
        "tcgen05.mma",
    ),
    ("nvvm.tcgen05.commit %smem : !llvm.ptr<3>", "tcgen05.commit"),
    ("nvvm.mbarrier.try_wait.parity %smem, %n, %n : !llvm.ptr<3>, i32, i32", "mbarrier.try_wait"),
    ("nvvm.tcgen05.fence <after>", "tcgen05.fence::after"),
    (
        "%v = nvvm.tcgen05.ld %tmem {shape = #nvvm.tcgen05_ldst_shape<shape_32x32b>} : vector<2xi32>",
        "tcgen05.ld.sync",
    ),
    ("nvvm.tcgen05.wait <load>", "tcgen05.wait::ld"),
    ("nvvm.tcgen05.fence <before>", "tcgen05.fence::before"),
    ("%a = nvvm.mbarrier.arrive %smem : !llvm.ptr<3> -> i64", "mbarrier.arrive.shared"),
    ("llvm.store %v, %out {alignment = 8 : i64} : vector<2xi32>, !llvm.ptr<1>", "st.global"),
    ("llvm.store %y, %out {alignment = 4 : i64} : i32, !llvm.ptr<1>", "st.global"),
    ("nvvm.cp.async.bulk.tensor.global.shared.cta %map, %smem, box[%n] : !llvm.ptr, !llvm.ptr<3>", "1d.global.shared"),
    ("nvvm.cp.async.bulk.commit.group", "cp.async.bulk.commit_group"),
    ("nvvm.cp.async.bulk.wait_group 0 {read}", "cp.async.bulk.wait_group.read"),
    ("nvvm.tcgen05.dealloc %tmem, %n : !llvm.ptr<6>, i32", "tcgen05.dealloc"),
]
"""An order that no optimisation may change, though LLVM thinks little of the memory that some of these touch."""


def test_order_survives_optimisation() -> None:
    ptx = instructions(compile_(kernel("\n".join(text for text, _ in ORDER)), BLACKWELL))
    position = 0
    for _, mnemonic in ORDER:
        position = ptx.index(mnemonic, position) + 1


def test_own_shared_address_is_its_cluster_address() -> None:
    """No detour over a generic pointer."""
    body = "nvvm.cp.async.bulk.tensor.shared.cluster.global %cluster, %map, %smem, box[%n] : !llvm.ptr<7>, !llvm.ptr"
    assert "cvta.shared" not in compile_(kernel(body))


# Types and memory


def bf16_bits(value: str) -> int:
    """How ``llvm.mlir.constant(VALUE : bf16)`` comes out."""
    body = f"%c = llvm.mlir.constant({value} : bf16) : bf16\nllvm.store %c, %out : bf16, !llvm.ptr<1>"
    found = re.search(
        r"st\.global\.b16 \[\%rd1\], (-?\w+);|mov\.b16 %rs1, (-?\w+);", instructions(compile_(kernel(body)))
    )
    assert found is not None
    return int(found[1] or found[2], 0) & 0xFFFF


@pytest.mark.parametrize(
    ("value", "bits"),
    [
        ("2.5", 0x4020),
        ("-1.0", 0xBF80),
        ("1.00390625", 0x3F80),  # half way between 1 and its successor: to even
        ("1.01171875", 0x3F82),  # half way again, to even upwards
        ("1.004", 0x3F81),
        ("0x7F80", 0x7F80),  # infinity
    ],
)
def test_bf16_constants_round_to_nearest_even(value: str, bits: int) -> None:
    assert bf16_bits(value) == bits
    if value != "0x7F80":
        single = struct.unpack("<I", struct.pack("<f", float(value)))[0]
        assert abs((single >> 16) - bits) <= 1


def test_bf16_nan_stays_nan() -> None:
    exponent, mantissa = divmod(bf16_bits("0x7FC0") & 0x7FFF, 1 << 7)
    assert exponent == 0xFF and mantissa != 0
    assert math.isnan(struct.unpack("<f", struct.pack("<I", bf16_bits("0x7FC0") << 16))[0])


def test_bf16_in_memory_and_in_vectors() -> None:
    ptx = compile_(
        kernel("""
  %h = llvm.fptrunc %x : f32 to bf16
  llvm.store %h, %smem : bf16, !llvm.ptr<3>
  %v = llvm.load %out {alignment = 4 : i64} : !llvm.ptr<1> -> vector<2xbf16>
  %s = llvm.fadd %v, %v : vector<2xbf16>
  llvm.store %s, %out {alignment = 4 : i64} : vector<2xbf16>, !llvm.ptr<1>""")
    )
    assert "cvt.rn.bf16.f32" in ptx and "bf16x2" in ptx


def test_small_integers() -> None:
    ptx = compile_(
        kernel("""
  %h = llvm.trunc %n : i32 to i16
  %t = llvm.mlir.constant(true) : i1
  %b = llvm.xor %p, %t : i1
  %w = llvm.select %b, %h, %mask : i1, i16
  llvm.store %h, %out : i16, !llvm.ptr<1>
  %e = llvm.zext %b : i1 to i16
  llvm.store %e, %smem : i16, !llvm.ptr<3>""")
    )
    assert "st.global.b16" in ptx and "st.shared.b16" in ptx


def test_array_on_the_stack_becomes_registers() -> None:
    """The way of wgmma's accumulators: alloca, stores and loads by constant index, all gone after SROA."""
    body = """
  %one = llvm.mlir.constant(1 : i32) : i32
  %slot = llvm.alloca %one x !llvm.array<4 x f32> {alignment = 4 : i64} : (i32) -> !llvm.ptr
  %second = llvm.getelementptr %slot[4] : (!llvm.ptr) -> !llvm.ptr, i8
  llvm.store %x, %second {alignment = 4 : i64} : f32, !llvm.ptr
  %y = llvm.load %second {alignment = 4 : i64} : !llvm.ptr -> f32
  llvm.store %y, %out : f32, !llvm.ptr<1>"""
    text = to_llvm(kernel(body), HOPPER)
    assert "alloca [4 x float], i32 1, align 4" in text
    ptx = compile_(kernel(body))
    assert ".local" not in ptx and "st.global.b32" in ptx


def test_vector_loads_keep_their_alignment() -> None:
    body = "%v = llvm.load %smem {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>\n"
    body += "llvm.store %v, %out {alignment = 4 : i64} : vector<4xi32>, !llvm.ptr<1>"
    ptx = instructions(compile_(kernel(body)))
    assert "ld.shared.v4.b32" in ptx and "st.global.v4" not in ptx


def test_pointer_arithmetic_stays_in_its_address_space() -> None:
    body = "%a = llvm.getelementptr %smem[%n] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32\n"
    body += "llvm.store %x, %a : f32, !llvm.ptr<3>"
    assert "getelementptr float, ptr addrspace(3)" in to_llvm(kernel(body), HOPPER)
    assert "st.shared.b32" in compile_(kernel(body))


def test_poison_costs_nothing() -> None:
    body = """
  %s = llvm.mlir.poison : !llvm.struct<(f32, f32)>
  %t = llvm.insertvalue %x, %s[1] : !llvm.struct<(f32, f32)>
  %y = llvm.extractvalue %t[1] : !llvm.struct<(f32, f32)>
  llvm.store %y, %out : f32, !llvm.ptr<1>"""
    assert "poison" in to_llvm(kernel(body), HOPPER)
    assert "mov.b32" not in instructions(compile_(kernel(body)))


# Control flow

LOOP = """
  llvm.br ^head(%zero : i32)
^head(%i: i32):
  %more = llvm.icmp "ult" %i, %n : i32
  llvm.cond_br %more, ^body, ^exit
^exit:
  llvm.store %i, %out : i32, !llvm.ptr<1>
  llvm.return
^dead:
  llvm.br ^exit
^body:
  nvvm.barrier
  %one = llvm.mlir.constant(1 : i32) : i32
  %next = llvm.add %i, %one : i32
  llvm.br ^head(%next : i32)
"""


def test_loop_with_blocks_in_any_order() -> None:
    module = kernel(LOOP.rstrip() + "\n^end:\n")
    text = to_llvm(module, HOPPER)
    assert "phi" in text and "dead" not in text and "end" not in text
    assert "bar.sync" in compile_(module)


def test_value_used_in_a_block_that_stands_before_its_definition() -> None:
    module = kernel("""
  llvm.br ^second
^first:
  llvm.store %v, %out : i32, !llvm.ptr<1>
  llvm.return
^second:
  %v = llvm.add %n, %n : i32
  llvm.br ^first
^end:
""")
    assert "st.global.b32" in compile_(module)


def test_wait_loops_stay_distinct_when_llvm_duplicates_them() -> None:
    """Labels inside inline assembly have to be unique in the kernel."""
    waits = "nvvm.mbarrier.try_wait.parity %smem, %n, %n : !llvm.ptr<3>, i32, i32\n" * 3
    labels = re.findall(r"^(wait_\d+):", compile_(kernel(waits)), re.MULTILINE)
    assert len(labels) == len(set(labels)) == 3


# Inline assembly


def asm(text: str, constraints: str, operands: str, types: str, result: str, effects: bool = True) -> str:
    prefix = "has_side_effects " if effects else ""
    return f'%r = llvm.inline_asm {prefix}"{text}", "{constraints}" {operands} : ({types}) -> {result}'


def test_side_effects_make_a_call_convergent() -> None:
    keep = "\nllvm.store %r, %out : i32, !llvm.ptr<1>"
    text = to_llvm(kernel(asm("mov.b32 $0, $1;", "=r,r", "%n", "i32", "i32") + keep), HOPPER)
    assert re.search(r'asm sideeffect "mov\.b32 \$0, \$1;", "=r,r"\(i32 [^)]*\) convergent nounwind', text)
    text = to_llvm(kernel(asm("mov.b32 $0, $1;", "=r,r", "%n", "i32", "i32", effects=False) + keep), HOPPER)
    assert re.search(r'asm\s+"mov\.b32 \$0, \$1;", "=r,r"\(i32 [^)]*\) nounwind', text)


def test_struct_results_and_tied_operands() -> None:
    body = asm(
        "wgmma.fence.sync.aligned;\\nwgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {$0, $1, $2, $3}, $4, $5, 1, 1, 1, 0, 0;\\n"
        "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;",
        "=f,=f,=f,=f,l,l,0,1,2,3,~{memory}",
        "%q, %q, %x, %x, %x, %x",
        "i64, i64, f32, f32, f32, f32",
        "!llvm.struct<(f32, f32, f32, f32)>",
    )
    body += (
        "\n%y = llvm.extractvalue %r[3] : !llvm.struct<(f32, f32, f32, f32)>\nllvm.store %y, %out : f32, !llvm.ptr<1>"
    )
    assert "wgmma.mma_async" in compile_(kernel(body))
    with pytest.raises(
        CodegenError, match=r"inline PTX 'wgmma\.fence\.sync\.aligned' is not on sm_100a, only on sm_90a"
    ):
        to_llvm(kernel(body), BLACKWELL)


def test_text_is_escaped() -> None:
    body = asm('mov.b32 $0, $1; // \\"quoted\\" back\\\\slash', "=r,r", "%n", "i32", "i32")
    assert '// "quoted" back\\slash' in compile_(kernel(body))


ASM_REFUSED = {
    "inline PTX 'frobnicate.b32' is not known": asm("frobnicate.b32 $0, $1;", "=r,r", "%n", "i32", "i32"),
    "$3 names no operand": asm("mov.b32 $0, $3;", "=r,r", "%n", "i32", "i32"),
    "constraint r does not hold f32": asm("mov.b32 $0, $1;", "=r,r", "%x", "f32", "i32"),
    "constraint =r does not hold f32": asm("mov.b32 $0, $1;", "=r,r", "%n", "i32", "f32"),
    "constraint x does not hold i32": asm("mov.b32 $0, $1;", "=r,x", "%n", "i32", "i32"),
    "1 outputs and 1 inputs for 1 results and 2 operands": asm("mov.b32 $0, $1;", "=r,r", "%n, %n", "i32, i32", "i32"),
    "2 outputs and 1 inputs for 1 results and 1 operands": asm("mov.b32 $0, $1;", "=r,=r,r", "%n", "i32", "i32"),
    "input 0 is tied to output 0, which is not i32": asm("mov.b32 $0, 0;", "=f,0", "%n", "i32", "f32"),
    "input 0 has to be an llvm.mlir.constant": asm("mov.b32 $0, $1;", "=r,n", "%n", "i32", "i32"),
    "constraints stand in the order outputs, inputs, clobbers": asm("mov.b32 $0, $1;", "r,=r", "%n", "i32", "i32"),
    "the only clobber is ~{memory}": asm("mov.b32 $0, $1;", "=r,r,~{eax}", "%n", "i32", "i32"),
}


@pytest.mark.parametrize("message", ASM_REFUSED)
def test_inline_assembly_that_is_refused(message: str) -> None:
    """LLVM would end the process over most of these."""
    with pytest.raises(CodegenError, match=re.escape(message)):
        to_llvm(kernel(ASM_REFUSED[message]), HOPPER)


def test_labels_predicates_and_lists_are_no_instructions() -> None:
    text = "{\\n.reg .pred q;\\nagain_${:uid}: setp.eq.b32 q, $1, 0;\\n@!q bra again_${:uid};\\n@q mov.b32 $0, $1;\\n}"
    assert "again_" in compile_(kernel(asm(text, "=r,r", "%n", "i32", "i32")))
    text = "{ .reg .b32 t; ld.shared.v2.b32 {$0, t}, [$1]; }"
    assert "ld.shared.v2" in compile_(kernel(asm(text, "=r,r", "%n", "i32", "i32")))


# What is refused

REFUSED = {
    "arith.addi (i32, i32) -> (i32): not known to select on sm_90a": "%r = arith.addi %n, %n : i32",
    "llvm.intr.sin (f32) -> (f32): not known to select": "%r = llvm.intr.sin(%x) : (f32) -> f32",
    "llvm.intr.exp (f32) -> (f32): not known to select": "%r = llvm.intr.exp(%x) : (f32) -> f32",
    "llvm.frem (f32, f32) -> (f32): not known to select": "%r = llvm.frem %x, %x : f32",
    "llvm.zext (i32) -> (i128): not known to select": "%r = llvm.zext %n : i32 to i128",
    "a comparison that is always false or true is a constant": '%r = llvm.fcmp "_true" %x, %x : f32',
    "llvm.call_intrinsic llvm.nvvm.no.such.thing (i32) -> (): not known to select": (
        'llvm.call_intrinsic "llvm.nvvm.no.such.thing"(%n) : (i32) -> ()'
    ),
    "llvm.call_intrinsic llvm.nvvm.prmt (i32, i32) -> (i32): not known to select": (
        '%r = llvm.call_intrinsic "llvm.nvvm.prmt"(%n, %n) : (i32, i32) -> i32'
    ),
    "operand 0 has to be an llvm.mlir.constant": (
        'llvm.call_intrinsic "llvm.nvvm.setmaxnreg.dec.sync.aligned.u32"(%n) : (i32) -> ()'
    ),
    "the number of elements has to be an llvm.mlir.constant": "%r = llvm.alloca %n x f32 : (i32) -> !llvm.ptr",
    "@nowhere is no global": "%r = llvm.mlir.addressof @nowhere : !llvm.ptr<3>",
    "not the address space of the global": "%r = llvm.mlir.addressof @smem : !llvm.ptr<1>",
    "llvm.store (f32, p6) -> (): not known to select": "llvm.store %x, %tmem : f32, !llvm.ptr<6>",
    "i128 is no type of a value": "%r = llvm.mlir.undef : i128",
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_not_known_to_select_is_refused(message: str) -> None:
    with pytest.raises(CodegenError, match=re.escape(message)):
        to_llvm(kernel(REFUSED[message]), HOPPER)


MODULES_REFUSED = {
    "only kernels": "llvm.func @f() { llvm.return }",
    "takes a fixed number of arguments": "llvm.func @f() -> i32 attributes {nvvm.kernel} { llvm.unreachable }",
    "!llvm.ptr<3> is no type of a kernel argument": (
        "llvm.func @f(%s: !llvm.ptr<3>) attributes {nvvm.kernel} { llvm.return }"
    ),
    "shared memory cannot be initialised": ("llvm.mlir.global internal @g(1 : i32) {addr_space = 3 : i32} : i32"),
    "a global lies in address space 1, 3 or 4": "llvm.mlir.global internal @g() {addr_space = 5 : i32} : i32",
    "argument attribute llvm.byref": (
        "llvm.func @f(%s: !llvm.ptr {llvm.byref = i32}) attributes {nvvm.kernel} { llvm.return }"
    ),
    "both edges lead to one block with different values": """
llvm.func @f(%n: i32, %m: i32) attributes {nvvm.kernel} {
  %p = llvm.icmp "eq" %n, %m : i32
  llvm.cond_br %p, ^a(%n : i32), ^a(%m : i32)
^a(%v: i32):
  llvm.return
}""",
}


@pytest.mark.parametrize("message", MODULES_REFUSED)
def test_modules_that_are_refused(message: str) -> None:
    with pytest.raises(CodegenError, match=re.escape(message)):
        to_llvm(parse(MODULES_REFUSED[message]), HOPPER)


NOT_NAMES = ["a b", "ü日本", "%tid", "", "a\\00b", "a.b", "1a", "_", "$a", "WARP_SZ", "x" * 256]


@pytest.mark.parametrize("name", NOT_NAMES, ids=lambda name: ascii(name)[:12])
@pytest.mark.parametrize(
    "text",
    [
        'llvm.func @"{}"() attributes {{nvvm.kernel}} {{ llvm.return }}',
        'llvm.mlir.global external @"{}"() {{addr_space = 3 : i32}} : !llvm.array<0 x i8>',
    ],
    ids=["function", "global"],
)
def test_names_that_ptx_does_not_read(name: str, text: str) -> None:
    with pytest.raises(CodegenError, match="its name is none that PTX reads: letters, digits"):
        to_llvm(parse(text.format(name)), HOPPER)


@pytest.mark.parametrize("name", ["f", "__", "_1", "a$b", "x" * 255, "add", "tid"], ids=lambda name: name[:12])
def test_names_that_ptx_reads(name: str) -> None:
    assert f".entry {name}(" in compile_(parse(f'llvm.func @"{name}"() attributes {{nvvm.kernel}} {{ llvm.return }}'))


def test_errors_are_diagnostics_with_a_place() -> None:
    module = kernel("%r = llvm.intr.sin(%x) : (f32) -> f32")
    for op in module.walk():
        op.location = at("gemm.tile", 7, 3)
    with pytest.raises(TilecError) as caught:
        to_llvm(module, HOPPER)
    assert str(caught.value).startswith("gemm.tile:7:3: error: llvm.intr.sin")


def test_text_that_llvm_rejects() -> None:
    for text in ("define", 'target triple = "nvptx64-nvidia-cuda"\ndefine void @f() { ret i32 0 }'):
        with pytest.raises(CodegenError, match="LLVM rejects the module"):
            emit_ptx(text, HOPPER)


# Debug locations


def at(file: str, line: int, column: int) -> FileLineColLoc:
    return FileLineColLoc(StringAttr(file), IntAttr(line), IntAttr(column))


def located(function: Attribute, barrier: Attribute) -> str:
    """PTX of a kernel with one barrier, where the kernel and its barrier have these locations."""
    module = parse("llvm.func @k() attributes {nvvm.kernel} {\n nvvm.barrier\n llvm.return\n}")
    for op in module.walk():
        if op.name == "llvm.func":
            op.location = function  # pyright: ignore[reportAttributeAccessIssue]
        elif op.name == "nvvm.barrier":
            op.location = barrier  # pyright: ignore[reportAttributeAccessIssue]
    return compile_(module)


def line_of_barrier(ptx: str) -> tuple[str, int, int]:
    files = {int(n): name for n, name in re.findall(r'\.file\s+(\d+) "(.*)"', ptx)}
    before = ptx[: ptx.index("bar.sync")]
    number, line, column = map(int, re.findall(r"\.loc\s+(\d+) (\d+) (\d+)", before)[-1])
    return files[number], line, column


HERE = at("gemm.tile", 5, 3)


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        (HERE, ("gemm.tile", 5, 3)),
        (at("helper.py", 40, 9), ("helper.py", 40, 9)),
        (FusedLoc((UnknownLoc(), HERE), NoneAttr()), ("gemm.tile", 5, 3)),
        (CallSiteLoc(HERE, at("caller.tile", 9, 9)), ("gemm.tile", 5, 3)),
        (CallSiteLoc(UnknownLoc(), HERE), ("gemm.tile", 5, 3)),
        (NameLoc(StringAttr("x"), HERE), ("gemm.tile", 5, 3)),
        (at("gemm.tile", 5, 70000), ("gemm.tile", 5, 0xFFFF)),
    ],
)
def test_location_reaches_the_ptx(location: Attribute, expected: tuple[str, int, int]) -> None:
    ptx = located(at("gemm.tile", 1, 1), location)
    assert line_of_barrier(ptx) == expected
    assert "debug" not in re.search(r"\.target.*", ptx)[0]  # pyright: ignore[reportOptionalSubscript]


def test_file_names_of_any_kind() -> None:
    ptx = located(at('d/ü "x"\\y.tile', 1, 1), at('d/ü "x"\\y.tile', 2, 1))
    assert ".file" in ptx and ".loc\t1 2 1" in ptx


def test_without_locations_there_is_no_line_table() -> None:
    ptx = located(UnknownLoc(), UnknownLoc())
    assert ".loc" not in ptx and ".file" not in ptx


def test_line_tables_cost_no_instructions() -> None:
    strip = [line for line in instructions(located(HERE, HERE)).splitlines() if not line.startswith("$L")]
    assert "bar.sync 0;" in strip
    bare = instructions(located(UnknownLoc(), UnknownLoc())).splitlines()
    assert [line for line in strip if line.endswith(";")] == [line for line in bare if line.endswith(";")]


# The header comment, threads, speed


def test_header_tells_the_launch_contract() -> None:
    view = ViewFacts("A", ("M", "K"), "f16", (1, 0), 16, True)
    abi = KernelABI(
        name="gemm",
        target="sm_100a",
        views=(view,),
        outputs=(0,),
        params=(TensorMapParam(0, (64, 128), 128, (1, 0), "f16"), PointerParam(0), ExtentParam(0, 1), PitchParam(0, 0)),
        grid=None,
        threads=128,
        smem_bytes=49168,
        tmem_columns=256,
        smem=(SmemBlock("ring", 0, 49152),),
        barriers=(Barrier("full", 49152, 2, 1),),
    )
    ptx = emit_ptx(to_llvm(kernel(""), BLACKWELL), BLACKWELL, abi=abi)
    head = ptx[: ptx.index(".version")].splitlines()
    assert all(line.startswith("//") or not line for line in head)
    text = "\n".join(head)
    for fact in (
        "gemm for sm_100a: 128 threads, 49168 bytes of dynamic shared memory",
        "tensor memory: 256 columns",
        "0x0    49152 ring",
        "0xc000       16 full: stages 2, count 1",
        "param 0: tensor map of A: box 64x128 f16, fastest dimension first, swizzle 128",
        "param 1: base address of A",
        "param 2: extent of A, dimension 1",
        "param 3: pitch of A, dimension 0, bytes",
    ):
        assert fact in text


def test_many_threads_get_the_same_answer() -> None:
    texts = [to_llvm(kernel("nvvm.barrier"), target) for target in TARGETS.values()] * 8
    targets = list(TARGETS.values()) * 8
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(emit_ptx, texts, targets))
    assert len(set(results)) == len(TARGETS)


def test_speed() -> None:
    """2000 operations take about 40 ms; far off that, something is quadratic."""
    module = kernel("nvvm.barrier\n" + "".join(f"%v{i} = llvm.add %n, %n : i32\n" for i in range(8000)))
    for index, op in enumerate(module.walk()):
        op.location = at("gemm.tile", index + 1, 1)
    start = time.process_time()
    to_llvm(module, HOPPER)
    assert time.process_time() - start < 3
