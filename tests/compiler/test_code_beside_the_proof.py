"""LLVM and ptxas beside the proof: the same code as one after the other, and none without the proof."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from llvmlite import binding
from xdsl.dialects.builtin import ModuleOp

from tilec.backend.protocol import Verdict
from tilec.backend.ptx import emit_ptx
from tilec.backend.ptxas import PtxasError, find_ptxas
from tilec.backend.selection import CodegenError
from tilec.backend.target import TARGETS
from tilec.diagnostics import TilecError, collect
from tilec.driver import Compiled, Emit, Observer, compile_module
from tilec.pass_error import PassError
from tilec.source import parse_file, parse_text

_PIPELINE = "tma,pipeline(2),persistent"
_needs_ptxas = pytest.mark.skipif(find_ptxas() is None, reason="no ptxas")


@pytest.fixture
def gemm(examples: Path) -> ModuleOp:
    return parse_file(examples / "gemm.tile")


@pytest.fixture
def wrong(examples: Path) -> ModuleOp:
    """A kernel whose protocol is refuted."""
    text = (examples / "step6_persistent.tile").read_text()
    return parse_text(text.replace("%phase_tma = %phase_tma0", "%phase_tma = %phase0"), "wrong.tile")


def _raise(error: Exception) -> Callable[..., None]:
    def work(*_: object, **__: object) -> None:
        raise error

    return work


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_the_code_is_the_same(target: str, gemm: ModuleOp) -> None:
    plain = compile_module(gemm, pipeline=_PIPELINE, target=target)
    proved = compile_module(gemm, pipeline=_PIPELINE, target=target, check=True)
    observed = compile_module(gemm, pipeline=_PIPELINE, target=target, check=True, observer=Observer())
    assert proved.ptx == plain.ptx == observed.ptx
    assert str(proved.nvvm) == str(plain.nvvm)
    assert proved.abi == plain.abi


@_needs_ptxas
def test_machine_code_too(gemm: ModuleOp) -> None:
    compiled = compile_module(gemm, pipeline=_PIPELINE, emit="cubin", check=True)
    assert compiled.cubin == compile_module(gemm, pipeline=_PIPELINE, emit="cubin").cubin
    assert compiled.get("cubin") is compiled.cubin


def test_what_was_made_is_made_once(gemm: ModuleOp) -> None:
    compiled = compile_module(gemm, pipeline=_PIPELINE, check=True)
    assert compiled.get("ptx") is compiled.ptx


@pytest.mark.parametrize("emit", ["ptx", "cubin"])
def test_what_is_refuted_becomes_no_code(emit: Emit, wrong: ModuleOp) -> None:
    if emit == "cubin" and find_ptxas() is None:
        pytest.skip("no ptxas")
    compiled = compile_module(wrong, emit="tile", check=True)
    readers: list[Callable[[Compiled], object]] = [
        lambda c: c.get(emit),
        lambda c: c.ptx,
        lambda c: c.cubin,
        lambda c: c.llvm,
        lambda c: c.nvvm,
        lambda c: c.abi,
        lambda c: c.get(emit),
    ]
    for read in readers:
        with pytest.raises(PassError, match="no wait orders this MMA's read"):
            read(compiled)


def test_the_refusal_goes_before_all_other_errors(gemm: ModuleOp, monkeypatch: pytest.MonkeyPatch) -> None:
    errors: list[tuple[str, Exception, Emit]] = [
        ("tilec.backend.llvm_ir.to_llvm", CodegenError("not known to select"), "ptx"),
        ("tilec.passes.lower.Lower.apply", RuntimeError("a slip"), "ptx"),
        ("tilec.backend.ptx.prepare", CodegenError("LLVM rejects the module"), "ptx"),
        ("tilec.backend.ptxas.assemble", PtxasError("ptxas failed"), "cubin"),
    ]
    for place, error, emit in errors:
        with monkeypatch.context() as patch:
            patch.setattr(place, _raise(error))
            with pytest.raises(type(error)) as caught:
                compile_module(gemm, pipeline="tma", emit=emit, check=True)
            assert caught.value is error
            patch.setattr("tilec.passes.check_protocol.check", lambda module, kernel: Verdict("refuted", "by decree"))
            with pytest.raises(PassError, match="by decree"):
                compile_module(gemm, pipeline="tma", emit=emit, check=True)


def test_nothing_of_llvm_is_left_to_the_garbage_collector(wrong: ModuleOp, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would let go of a context before the module that lies in it, which LLVM does not survive."""
    made: list[Any] = []

    def recorded(make: Callable[..., Any]) -> Callable[..., Any]:
        def work(*args: Any, **options: Any) -> Any:
            made.append(make(*args, **options))
            return made[-1]

        return work

    for name in ("create_context", "parse_assembly", "create_pass_builder"):
        monkeypatch.setattr(binding, name, recorded(getattr(binding, name)))
    with pytest.raises(PassError):
        compile_module(wrong, check=True)
    with pytest.raises(CodegenError, match="LLVM rejects the module"):
        emit_ptx("no module", TARGETS["sm_90a"])
    assert len(made) == 4
    assert all(one.closed for one in made)


def test_warnings_of_the_proof_go_where_the_caller_collects(gemm: ModuleOp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilec.passes.check_protocol.check", lambda module, kernel: Verdict("checked", "3 tiles"))
    with collect() as said:
        compiled = compile_module(gemm, pipeline="tma", check=True)
        assert compiled.ptx
    assert [(d.severity, d.message) for d in said] == [("warning", "3 tiles")]


def test_the_module_after_a_pass_is_made_without_saying_all_again(examples: Path) -> None:
    text = (examples / "gemm.tile").read_text()
    module = parse_text(text.replace("MxKxf16>", "MxKxf16, align = 2>"), "unaligned.tile")
    with collect() as said:
        compiled = compile_module(module, pipeline="tma,pipeline(2)", emit="tile")
    assert said
    with collect() as again:
        first = compiled.module_after["tma"]
    assert again == []
    assert compiled.module_after["tma"] is first
    assert str(first) == str(compile_module(module, pipeline="tma", emit="tile").tile)
    with pytest.raises(KeyError):
        compiled.module_after["persistent"]


def test_a_module_without_a_kernel_has_no_protocol() -> None:
    with pytest.raises(TilecError, match="there is no kernel in this module"):
        compile_module(parse_text("builtin.module {\n}", "t.tile"), check=True)
