"""From a module to what is asked for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from tilec.backend.ptxas import find_ptxas
from tilec.backend.target import find_target
from tilec.diagnostics import InternalError, TilecError, resolve
from tilec.dialects.tile import KernelOp
from tilec.driver import Observer, compile_module, find_kernel
from tilec.pass_error import PassError
from tilec.source import parse_file, parse_text
from tilec.spec import parse_pipeline, print_pass

_PIPELINE = "tma,pipeline(2),persistent"


class _Log(Observer):
    def __init__(self) -> None:
        self.steps: list[str] = []

    def pass_done(self, one: ModulePass, module: ModuleOp, seconds: float) -> None:
        assert seconds >= 0
        self.steps.append(print_pass(one))

    def stage_done(self, stage: str, seconds: float) -> None:
        assert seconds >= 0
        self.steps.append(stage)


@pytest.fixture
def gemm(examples: Path) -> ModuleOp:
    return parse_file(examples / "gemm.tile")


def _targets(module: ModuleOp) -> list[object]:
    return [op.attributes["target"] for op in module.walk() if isinstance(op, KernelOp)]


def test_stages_run_when_they_are_read(gemm: ModuleOp) -> None:
    log = _Log()
    compiled = compile_module(gemm, pipeline=_PIPELINE, emit="tile", observer=log)
    passes = ["tma{staging=2}", "pipeline{stages=2}", "persistent{group=8}"]
    assert log.steps == passes
    assert compiled.abi.name == "gemm"
    assert log.steps == [*passes, "lower"]
    assert ".target sm_100a" in compiled.ptx
    assert log.steps == [*passes, "lower", "llvm", "ptx"]
    assert compiled.ptx is compiled.get("ptx")
    assert log.steps == [*passes, "lower", "llvm", "ptx"]


def test_the_proof_comes_once_before_the_lowering(gemm: ModuleOp) -> None:
    for pipeline, steps in (
        ("tma", ["tma{staging=2}", "check-protocol", "lower"]),
        ("", ["threads", "check-protocol", "lower"]),
        ("tma,lower", ["tma{staging=2}", "check-protocol", "lower"]),
        ("tma,check-protocol", ["tma{staging=2}", "check-protocol", "lower"]),
        ("tma,check-protocol,lower,cse", ["tma{staging=2}", "check-protocol", "lower", "cse"]),
        ("tma,check-protocol,cse", ["tma{staging=2}", "check-protocol", "cse", "check-protocol", "lower"]),
    ):
        log = _Log()
        compile_module(gemm, pipeline=pipeline, emit="nvvm", observer=log, check=True)
        assert log.steps == steps
    log = _Log()
    compile_module(gemm, pipeline="tma", emit="tile", observer=log, check=True)
    assert log.steps == ["tma{staging=2}"]


def test_the_proof_leaves_it_to_the_lowering_to_refuse_what_is_synchronous(gemm: ModuleOp) -> None:
    with pytest.raises(TilecError, match="this shared tile has no layout"):
        compile_module(gemm, pipeline="lower", check=True)


def test_emit_says_how_far_to_go(gemm: ModuleOp) -> None:
    log = _Log()
    compile_module(gemm, pipeline="tma", observer=log)
    assert log.steps == ["tma{staging=2}", "lower", "llvm", "ptx"]


def test_a_synchronous_kernel_is_lowered_with_thread_copies(gemm: ModuleOp) -> None:
    log = _Log()
    compiled = compile_module(gemm, emit="nvvm", observer=log)
    assert log.steps == ["threads", "lower"]
    assert "cp.async.bulk.tensor" not in compiled.ptx


def test_the_lowering_may_be_in_the_pipeline(gemm: ModuleOp) -> None:
    assert compile_module(gemm, pipeline="tma,lower").ptx == compile_module(gemm, pipeline="tma").ptx


def test_the_module_given_stays_as_it_is(gemm: ModuleOp) -> None:
    before = str(gemm)
    compiled = compile_module(gemm, pipeline=_PIPELINE)
    assert str(gemm) == before
    assert list(compiled.module_after) == ["tma", "pipeline", "persistent"]
    assert str(compiled.module_after["persistent"]) == str(compiled.tile)
    assert str(compiled.module_after["tma"]) != str(compiled.module_after["pipeline"])


@pytest.mark.parametrize("name", ["sm_90a", "sm_100a"])
def test_the_target_goes_before_the_attribute_before_the_default(name: str, gemm: ModuleOp) -> None:
    assert _targets(compile_module(gemm, emit="tile").tile) == [StringAttr("sm_100a")]
    assert _targets(compile_module(gemm, target=name, emit="tile").tile) == [StringAttr(name)]
    find_kernel(gemm).attributes["target"] = StringAttr("sm_90a")
    assert _targets(compile_module(gemm, emit="tile").tile) == [StringAttr("sm_90a")]
    assert _targets(compile_module(gemm, target=name, emit="tile").tile) == [StringAttr(name)]
    assert compile_module(gemm, target=name, emit="nvvm").target.name == name


def test_the_pass_target_goes_before_all(gemm: ModuleOp) -> None:
    assert compile_module(gemm, pipeline="target(sm_90a),tma", target="sm_100a", emit="nvvm").abi.target == "sm_90a"


@pytest.mark.skipif(find_ptxas() is None, reason="no ptxas")
@pytest.mark.parametrize("name", ["sm_90a", "sm_100a"])
def test_machine_code(name: str, gemm: ModuleOp) -> None:
    compiled = compile_module(gemm, pipeline=_PIPELINE, target=name, emit="cubin")
    assert compiled.cubin.startswith(b"\x7fELF")
    assert compiled.resources.registers > 0
    assert compiled.resources.spill_stores == compiled.resources.spill_loads == 0


@pytest.mark.parametrize("pipeline", ["", _PIPELINE, f"canonicalize,cse,{_PIPELINE},canonicalize,cse,dce"])
def test_every_operation_has_a_place_in_the_program_after_every_pass(pipeline: str, examples: Path) -> None:
    path = examples / "gemm.tile"
    last_line = path.read_text().count("\n")
    compiled = compile_module(parse_file(path), pipeline=pipeline, emit="nvvm")
    for module in (*compiled.module_after.values(), compiled.tile, compiled.nvvm):
        for op in module.walk():
            place = resolve(op.location)
            assert place is not None, op
            assert place.file == str(path)
            assert 1 <= place.line <= last_line


def test_an_unknown_target(gemm: ModuleOp) -> None:
    with pytest.raises(TilecError) as caught:
        compile_module(gemm, target="sm_90")
    assert str(caught.value) == ("error: unknown target 'sm_90'\nhint: did you mean 'sm_90a'? known: sm_90a, sm_100a")
    with pytest.raises(TilecError, match="unknown target 'sm_103'"):
        find_target("sm_103")


def test_an_unknown_target_in_the_text() -> None:
    module = parse_text('tile.kernel @f() attributes {target = "sm_100"} {\n}', "t.tile")
    with pytest.raises(TilecError) as caught:
        compile_module(module, emit="tile")
    assert str(caught.value) == (
        "t.tile:1:1: error: unknown target 'sm_100'\n"
        'tile.kernel @f() attributes {target = "sm_100"} {\n'
        "^\n"
        "hint: did you mean 'sm_100a'? known: sm_90a, sm_100a"
    )


def test_a_module_without_a_kernel() -> None:
    module = parse_text("func.func private @f()", "t.tile")
    for attempt in (lambda: compile_module(module).ptx, lambda: find_kernel(module)):
        with pytest.raises(TilecError) as caught:
            attempt()
        assert str(caught.value) == (
            "t.tile:1:1: error: there is no kernel in this module\nfunc.func private @f()\n^\nhint: write a tile.kernel"
        )


def test_two_kernels(examples: Path) -> None:
    text = (examples / "gemm.tile").read_text()
    first = text.count("\n") + text[: text.index("tile.kernel")].count("\n") + 1
    module = parse_text(text + text.replace("@gemm", "@other"), "t.tile")
    assert "@other" in str(compile_module(module, emit="nvvm").nvvm)
    for attempt in (lambda: compile_module(module).ptx, lambda: find_kernel(module)):
        with pytest.raises(TilecError) as caught:
            attempt()
        assert str(caught.value).startswith(
            f"t.tile:{first}:1: error: a second kernel in one module\ntile.kernel @other"
        )
        assert str(caught.value).endswith("hint: give each kernel a file of its own")


def test_a_pass_of_tiles_needs_a_tile_kernel(examples: Path) -> None:
    path = examples / "gemm.tile"
    text = path.read_text().splitlines()[1]
    for pipeline, name in (
        ("tma,lower,tma", "tma{staging=2}"),
        ("tma,lower,cse,persistent", "persistent{group=8}"),
        ("tma,lower,lower", "lower"),
        ("tma,lower,target(sm_90a)", 'target{chip="sm_90a"}'),
    ):
        with pytest.raises(PassError) as caught:
            compile_module(parse_file(path), pipeline=pipeline)
        assert str(caught.value) == (
            f"{path}:2:1: error: pass {name} works on tile kernels, and there is none left\n{text}\n^\n"
            "hint: lower leaves none: it comes last"
        )
    compile_module(parse_file(path), pipeline="tma,lower,canonicalize,cse,dce")
    with pytest.raises(PassError) as caught:
        compile_module(parse_text("func.func private @f()", "t.tile"), pipeline="tma", emit="tile")
    assert str(caught.value) == (
        "t.tile:1:1: error: pass tma{staging=2} works on tile kernels, and there is none in this module\n"
        "func.func private @f()\n^\nhint: write a tile.kernel"
    )


def test_a_lowered_module_has_no_tile_kernel(gemm: ModuleOp) -> None:
    text = str(compile_module(gemm, pipeline="tma", emit="nvvm").nvvm)
    module = parse_text(text, "t.mlir")
    assert compile_module(module).ptx
    with pytest.raises(TilecError) as caught:
        find_kernel(module)
    first, _, caret, hint = str(caught.value).split("\n")
    assert first == "t.mlir:3:3: error: there is no tile kernel in this module: it is lowered already"
    assert (caret, hint) == ("  ^", "hint: give the program as it was before lower")


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ('"x"', "tile.abi is not what a launch needs to know: Expecting value: line 1 column 1 (char 0)"),
        ('"{}"', "tile.abi is not what a launch needs to know: it has no field 'name'"),
        ('"[]"', "tile.abi is not what a launch needs to know: it is a list, not an object"),
        ("3 : i32", "tile.abi is a string, not 3 : i32"),
        ("unit", "tile.abi is a string, not unit"),
        ("sm_42", "unknown target 'sm_42' in tile.abi"),
    ],
)
@pytest.mark.parametrize("emit", ["llvm", "ptx"])
def test_a_lowered_file_that_was_edited(
    emit: Literal["llvm", "ptx"], attribute: str, message: str, gemm: ModuleOp
) -> None:
    text = str(compile_module(gemm, pipeline="tma", emit="nvvm").nvvm)
    found = re.search(r'tile\.abi = ("[^"]*")', text)
    assert found is not None
    new = found[1].replace("sm_100a", attribute) if attribute == "sm_42" else attribute
    module = parse_text(text.replace(found[1], new), "t.mlir")
    with pytest.raises(TilecError) as caught:
        compile_module(module, emit=emit)
    first, _, caret, hint = str(caught.value).split("\n")
    assert first == f"t.mlir:3:3: error: {message}"
    assert caret == "  ^"
    assert hint == (
        "hint: known: sm_90a, sm_100a"
        if attribute == "sm_42"
        else "hint: it is what lower writes: lower the kernel again"
    )


@dataclass(frozen=True)
class _Refuses(ModulePass):
    """Raises what xDSL's own checks do, which know no places."""

    name = "refuses"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from xdsl.dialects.builtin import IntegerAttr, i32

        IntegerAttr(1 << 32, i32)


def test_what_xdsl_refuses_points_at_the_kernel(gemm: ModuleOp, examples: Path) -> None:
    path = examples / "gemm.tile"
    line = path.read_text().splitlines()[1]
    for pipeline in ((_Refuses(),), (*parse_pipeline("tma,lower"), _Refuses())):
        with pytest.raises(PassError) as caught:
            compile_module(gemm, pipeline=pipeline, emit="tile")
        first, *rest = str(caught.value).split("\n")
        assert first.startswith(
            f"{path}:2:1: error: pass refuses: Integer value 4294967296 is out of range for type i32"
        )
        assert rest == [line, "^"]


@dataclass(frozen=True)
class _Breaks(ModulePass):
    """Leaves a module that does not verify."""

    name = "breaks"

    dim: int = 7

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from xdsl.dialects.builtin import IntegerAttr, i64

        def is_dim(op: Operation) -> bool:
            return op.name == "tile.dim"

        next(filter(is_dim, op.walk())).properties["dim"] = IntegerAttr(self.dim, i64)


def test_a_pass_that_breaks_the_module_is_named() -> None:
    module = parse_text("tile.kernel @f(%A: !tile.view<MxKxf16>) {\n  %n = tile.dim %A, 0\n}", "t.tile")
    compile_module(module, pipeline=(_Breaks(1),), emit="tile")
    with pytest.raises(InternalError) as caught:
        compile_module(module, pipeline=(_Breaks(),), emit="tile")
    assert str(caught.value).startswith(
        "t.tile:2:8: error: pass breaks{dim=7} left a module that does not verify: dim 7 of a view of rank 2\n"
    )
