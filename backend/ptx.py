"""LLVM IR text to PTX, in process, with the LLVM of llvmlite.

LLVM ends the process where code generation fails; `tilec.backend.selection` keeps such modules away from it.
"""

# llvmlite carries no types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from functools import cache
from threading import Lock
from typing import Any

from tilec.backend.abi import ExtentParam, KernelABI, Param, PitchParam, PointerParam
from tilec.backend.selection import CodegenError
from tilec.backend.target import Target
from tilec.diagnostics import one_line

__all__ = ["CodegenError", "emit_ptx", "prepare"]

_lock = Lock()


def emit_ptx(llvm_text: str, target: Target, *, abi: KernelABI | None = None) -> str:
    """Optimise `llvm_text` and print PTX for `target`, headed by what `abi` says of memory, barriers and parameters."""
    with prepare(llvm_text, target, abi=abi) as generate:
        return generate()


@contextmanager
def prepare(llvm_text: str, target: Target, *, abi: KernelABI | None = None) -> Generator[Callable[[], str]]:
    """`emit_ptx` in two steps, for a thread: what is Python is done here, and the function given is two long calls of LLVM.

    A thread that comes back from LLVM while another one runs Python waits for 5 ms, each time.
    """
    from llvmlite import binding

    with _lock:
        llvm_target = _initialise()
    # All is closed here, what was made last first. The garbage collector, which finds it in the traceback of an error, knows no
    # order, and a module whose context is gone takes the process with it.
    with ExitStack() as opened:
        features = f"+ptx{target.ptx_version}"
        machine = opened.enter_context(llvm_target.create_target_machine(cpu=target.name, features=features, opt=3))
        context = opened.enter_context(binding.create_context())
        try:
            module = opened.enter_context(binding.parse_assembly(llvm_text, context=context))
            module.verify()
        except RuntimeError as error:
            raise CodegenError(f"LLVM rejects the module: {one_line(error)}") from error
        options = opened.enter_context(binding.create_pipeline_tuning_options(speed_level=3))
        builder = opened.enter_context(binding.create_pass_builder(machine, options))
        passes = opened.enter_context(builder.getModulePassManager())

        def generate() -> str:
            passes.run(module, builder)
            ptx: str = machine.emit_assembly(module)
            return ptx if abi is None else _header(abi) + ptx

        yield generate


@cache
def _initialise() -> Any:
    from llvmlite import binding

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    # 32-bit pointers to shared, tensor and local memory; has to agree with `llvm_ir.DATA_LAYOUT`.
    binding.set_option("tilec", "--nvptx-short-ptr")
    return binding.Target.from_triple("nvptx64-nvidia-cuda")


def _header(abi: KernelABI) -> str:
    """The launch contract as a PTX comment; sizes and offsets in bytes."""
    lines = [
        f"kernel {abi.name} for {abi.target}: {abi.threads} threads, {abi.smem_bytes} bytes of dynamic shared memory"
    ]
    if abi.tmem_columns:
        lines.append(f"tensor memory: {abi.tmem_columns} columns")
    lines += [f"smem {b.offset:#8x} {b.size:8} {b.name}" for b in abi.smem]
    lines += [
        f"mbar {b.offset:#8x} {8 * b.stages:8} {b.name}: stages {b.stages}, count {b.arrivals}" for b in abi.barriers
    ]
    lines += [
        f"assumes: ceil(extent of {abi.views[a.view].name}, dimension {a.dim} / {a.step}) % {a.multiple} == 0"
        for a in abi.assumptions
    ]
    lines += [f"param {i}: {_describe(param, abi)}" for i, param in enumerate(abi.params)]
    return "".join(f"// {line}\n" for line in lines)


def _describe(param: Param, abi: KernelABI) -> str:
    name = abi.views[param.view].name
    match param:
        case PointerParam():
            return f"base address of {name}"
        case ExtentParam(dim=dim):
            return f"extent of {name}, dimension {dim}"
        case PitchParam(dim=dim):
            return f"pitch of {name}, dimension {dim}, bytes"
        case _:
            box = "x".join(str(extent) for extent in param.box)
            return f"tensor map of {name}: box {box} {param.dtype}, fastest dimension first, swizzle {param.swizzle}"
