"""The first pass that breaks memory, protocol or values is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.passes import ModulePass

from tilec.backend.protocol import Verdict
from tilec.dialects.tile import F16, AllocOp, ArriveExpectTxOp, MmaOp, RingType, SmemType
from tilec.driver import Observer, compile_module, find_kernel
from tilec.pass_error import PassError
from tilec.source import parse_file, parse_text
from tilec.spec import parse_pipeline
from tilec.verify_each import VerifyEach, small_extents


@dataclass(frozen=True)
class _Hoards(ModulePass):
    """Allocates more shared memory than there is."""

    name = "hoards"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        tile = SmemType.of((128, 64), F16.type, swizzle=128)
        block = find_kernel(op).body.block
        first = block.first_op
        assert first is not None
        block.insert_op_before(AllocOp(RingType.of(40, tile)), first)


@dataclass(frozen=True)
class _Miscounts(ModulePass):
    """Announces bytes that no copy brings."""

    name = "miscounts"

    by: int = 16

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for announcement in op.walk():
            if isinstance(announcement, ArriveExpectTxOp):
                announcement.properties["bytes"] = IntegerAttr(announcement.bytes + self.by, i64)


@dataclass(frozen=True)
class _Swaps(ModulePass):
    """Multiplies the other way round, which is another product; who waits for what stays right."""

    name = "swaps"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for mma in op.walk():
            if isinstance(mma, MmaOp):
                a, b = mma.a, mma.b
                mma.operands[1], mma.operands[2] = b, a


def _run(examples: Path, *passes: ModulePass | str, program: str = "gemm.tile", **options: Any) -> Any:
    module = parse_file(examples / program)
    pipeline = [one for p in passes for one in (parse_pipeline(p) if isinstance(p, str) else (p,))]
    return compile_module(module, pipeline=pipeline, observer=VerifyEach(module), emit="tile", **options)


@pytest.mark.parametrize(
    ("program", "pipeline"),
    [
        ("gemm.tile", "tma,pipeline(2),persistent"),
        ("gemm.tile", "retile(64,64,32),tma,pipeline(3),canonicalize,cse,dce"),
        ("bias_relu.tile", "tma,pipeline(2),persistent"),
        ("step6_persistent.tile", "canonicalize"),
    ],
)
def test_right_passes_pass(program: str, pipeline: str, examples: Path) -> None:
    assert _run(examples, pipeline, program=program)


def test_the_plain_schedule_is_looked_at_too(examples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    observer = Observer()
    monkeypatch.setattr(observer, "pass_done", lambda one, *_: seen.append(one.name))
    module = parse_file(examples / "gemm.tile")
    compile_module(module, observer=VerifyEach(module, observer), emit="nvvm")
    assert seen == ["threads", "lower"]


def test_a_pass_that_breaks_the_memory_budget(examples: Path) -> None:
    with pytest.raises(PassError) as caught:
        _run(examples, "tma", _Hoards(), "pipeline(2)")
    first, _, _, hint = str(caught.value).split("\n")
    assert first == (
        f"{examples / 'gemm.tile'}:2:1: error: pass `hoards` broke the memory budget: the kernel needs 720916 bytes of shared "
        "memory, a CTA of sm_100a has 232448"
    )
    assert hint == "hint: use smaller tiles (retile) or fewer stages (pipeline)"


@pytest.mark.parametrize("by", [16, -16, 128, -128])
def test_a_pass_that_breaks_the_protocol(by: int, examples: Path) -> None:
    with pytest.raises(PassError) as caught:
        _run(examples, "tma", "pipeline(2)", _Miscounts(by), "persistent")
    assert f"error: pass `miscounts{{by={by}}}` broke the protocol: " in str(caught.value).split("\n")[0]


def test_what_the_proof_leaves_open_the_simulator_finds(examples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilec.verify_each.check", lambda module: Verdict("checked", "up to a bound"))
    with pytest.raises(PassError) as caught:
        _run(examples, "tma", "pipeline(2)", _Miscounts(), "persistent")
    message = caught.value.diagnostic.message
    assert message.startswith("pass `miscounts{by=16}` broke the protocol, with M=145, K=208, N=152: ")
    assert caught.value.diagnostic.notes


@pytest.mark.parametrize("passes", [("retile(64,64,32)", _Swaps(), "tma"), ("tma", _Swaps(), "pipeline(2)")])
def test_a_pass_that_breaks_the_values(passes: tuple[ModulePass | str, ...], examples: Path) -> None:
    with pytest.raises(PassError) as caught:
        _run(examples, *passes)
    message = caught.value.diagnostic.message
    assert message.startswith("pass `swaps` broke the values, with M=")
    assert "the program computes" in message
    assert message.endswith("elements are wrong")


def test_a_program_that_was_broken_before_any_pass(examples: Path) -> None:
    text = (examples / "step5_pipeline.tile").read_text().replace(", 32768", ", 32640")
    with pytest.raises(PassError) as caught:
        VerifyEach(parse_text(text, "t.tile"))
    assert caught.value.diagnostic.message.startswith("the program as it was given breaks the protocol: ")


def test_the_command_line(examples: Path, tmp_path: Path, cli: Callable[..., Any]) -> None:
    output = tmp_path / "out.ptx"
    pipeline = "--pipeline=tma,pipeline(2)"
    assert cli("compile", examples / "gemm.tile", pipeline, "--verify-each", "-o", output).code == 0
    assert output.exists()
    assert cli("check", examples / "gemm.tile", pipeline, "--verify-each").code == 0


@pytest.mark.parametrize(
    ("views", "extents"),
    [
        ("%A: !tile.view<MxKxf16>, %D: !tile.view<MxKxf16>", {"M": 81, "K": 80}),
        ("%A: !tile.view<MxKxf32>, %D: !tile.view<MxKxf32>", {"M": 81, "K": 76}),
        (
            "%A: !tile.view<MxKxf16, align = 2, tail = free>, %D: !tile.view<MxKxf16, align = 2, tail = free>",
            {"M": 81, "K": 73},
        ),
        ("%A: !tile.view<MxKxf16, order = [0, 1]>, %D: !tile.view<MxKxf16, order = [0, 1]>", {"M": 88, "K": 73}),
        ("%A: !tile.view<?x64xf16>, %D: !tile.view<Mx64xf16>", {"A.0": 201, "M": 81}),
    ],
)
def test_small_extents(views: str, extents: dict[str, int]) -> None:
    element = "f32" if "f32" in views else "f16"
    text = f"""tile.kernel @f({views}) {{
  tile.grid (%m, %k) over %D step (72, 64) {{
    %a = tile.alloc : !tile.smem<64x64x{element}>
    tile.copy %A[%m, %k] to %a
    tile.copy %a to %D[%m, %k]
  }}
}}"""
    assert small_extents(find_kernel(parse_text(text))) == extents


def test_small_extents_of_the_gemm(examples: Path) -> None:
    kernel = find_kernel(parse_file(examples / "gemm.tile"))
    assert small_extents(kernel) == {"M": 145, "K": 208, "N": 152}


def test_small_extents_meet_assumptions() -> None:
    text = """tile.kernel @f(%A: !tile.view<MxKxf16>, %D: !tile.view<MxKxf16>) {
  tile.assume %A dim 1 step 64 multiple 4
  tile.grid (%m, %k) over %D step (64, 64) {
  }
}"""
    assert small_extents(find_kernel(parse_text(text)))["K"] == 208
