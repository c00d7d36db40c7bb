"""Compiles kernels.py with Triton to the PTX and the sidecars that are committed beside it.

Needs the Triton named in TRITON, and no GPU. A sidecar names, in the order of the PTX's parameters, what Triton's own launcher
passes: a tensor descriptor of the host becomes its 128-byte map, its shape (32-bit) and its strides (64-bit, in elements);
two pointers to scratch memory come last. Run with names to compile only those.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kernels
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

HERE = Path(__file__).resolve().parent
TRITON = "3.6.0"
HOPPER, BLACKWELL = 90, 100


@dataclass(frozen=True)
class Build:
    """A kernel with its argument types ("-" after a type: not known to be a multiple of 16), constants and options."""

    kernel: str
    signature: dict[str, str]
    constants: dict[str, Any]
    warps: int = 4
    stages: int = 3
    ctas: int = 1
    targets: tuple[int, ...] = (HOPPER, BLACKWELL)
    options: dict[str, Any] = field(default_factory=dict)


TILE = {"BM": 64, "BN": 64, "BK": 32}


def matmul_types(element: str, out: str, odd: str = "") -> dict[str, str]:
    """Types of matmul's arguments; odd = "-" where nothing is known about the leading dimensions."""
    sizes = {"m": "i32-", "n": "i32-", "k": "i32" + odd, "lda": "i32" + odd, "ldb": "i32" + odd, "ldc": "i32" + odd}
    return {"a": f"*{element}", "b": f"*{element}", "c": f"*{out}", **sizes}


PRODUCT = {"k": "i32", "lda": "i32", "ldb": "i32", "ldc": "i32"}
DESCRIPTORS = {
    "a": "tensordesc<fp16[64, 64]>",
    "b": "tensordesc<fp16[64, 64]>",
    "c": "tensordesc<fp16[64, 64]>",
}
WIDE = {
    "a": "tensordesc<fp16[128, 64]>",
    "b": "tensordesc<fp16[64, 64]>",
    "c": "tensordesc<fp16[128, 64]>",
}
ATTENTION = {
    "q": "tensordesc<fp16[128, 64]>",
    "k": "tensordesc<fp16[64, 64]>",
    "v": "tensordesc<fp16[64, 64]>",
    "out": "tensordesc<fp16[128, 64]>",
    "length": "i32-",
    "scale": "fp32",
}
SQUARE = {"BM": 64, "BN": 64, "BK": 64}
BUILDS = {
    "matmul_f16": Build("matmul", matmul_types("fp16", "fp32"), {**TILE, "TF32": "tf32"}),
    "matmul_odd": Build(
        "matmul", matmul_types("fp16", "fp16", "-"), {"BM": 32, "BN": 32, "BK": 32, "TF32": "tf32"}, stages=2
    ),
    "matmul_bf16_wide": Build(
        "matmul", matmul_types("bf16", "bf16"), {"BM": 128, "BN": 64, "BK": 64, "TF32": "tf32"}, warps=8, stages=4
    ),
    "matmul_tf32": Build("matmul", matmul_types("fp32", "fp32"), {**TILE, "TF32": "tf32"}),
    "matmul_ieee": Build(
        "matmul", matmul_types("fp32", "fp32"), {"BM": 16, "BN": 32, "BK": 16, "TF32": "ieee"}, warps=2
    ),
    "matmul_small": Build(
        "matmul", matmul_types("fp16", "fp32"), {"BM": 16, "BN": 16, "BK": 16, "TF32": "tf32"}, warps=1, stages=1
    ),
    "matmul_cluster": Build(
        "matmul",
        matmul_types("fp16", "fp32"),
        {"BM": 128, "BN": 64, "BK": 64, "TF32": "tf32"},
        ctas=2,
        targets=(HOPPER,),
    ),
    "matmul_int8": Build("matmul_int8", {"a": "*i8", "b": "*i8", "c": "*i32", **PRODUCT}, SQUARE),
    "matmul_fp8": Build("matmul_fp8", {"a": "*fp8e4nv", "b": "*fp8e4nv", "c": "*fp32", **PRODUCT}, SQUARE),
    "matmul_tma": Build("matmul_tma", {**DESCRIPTORS, "k": "i32"}, SQUARE, stages=2),
    "matmul_tma_wide": Build("matmul_tma", {**WIDE, "k": "i32"}, {"BM": 128, "BN": 64, "BK": 64}, stages=3),
    "matmul_tma_device": Build(
        "matmul_tma_device",
        {"a": "*fp16", "b": "*fp16", "c": "*fp16", "m": "i32-", "n": "i32-", "k": "i32"},
        SQUARE,
        stages=2,
    ),
    "matmul_persistent": Build(
        "matmul_persistent",
        {**WIDE, "m": "i32-", "n": "i32-", "k": "i32"},
        {"BM": 128, "BN": 64, "BK": 64, "PROGRAMS": 2, "ROLES": False},
    ),
    "matmul_roles": Build(
        "matmul_persistent",
        {**WIDE, "m": "i32-", "n": "i32-", "k": "i32"},
        {"BM": 128, "BN": 64, "BK": 64, "PROGRAMS": 2, "ROLES": True},
    ),
    "matmul_scaled": Build(
        "matmul_scaled",
        {"a": "*fp8e4nv", "sa": "*u8", "b": "*fp8e4nv", "sb": "*u8", "c": "*fp32", "k": "i32"},
        {"BM": 128, "BN": 64, "BK": 128},
        stages=2,
        targets=(BLACKWELL,),
    ),
    "softmax": Build("softmax", {"x": "*fp32", "y": "*fp32", "cols": "i32-", "stride": "i32"}, {"BLOCK": 1024}),
    "softmax_odd": Build(
        "softmax", {"x": "*fp16", "y": "*fp16", "cols": "i32-", "stride": "i32-"}, {"BLOCK": 256}, warps=1
    ),
    "layer_norm": Build(
        "layer_norm",
        {
            "x": "*fp16",
            "gain": "*fp32",
            "bias": "*fp32",
            "y": "*fp16",
            "mean_out": "*fp32",
            "rstd_out": "*fp32",
            "cols": "i32-",
            "stride": "i32",
            "eps": "fp32",
        },
        {"BLOCK": 256},
    ),
    "transpose": Build("transpose", {"x": "*fp32", "y": "*fp32", "rows": "i32", "cols": "i32"}, {"BLOCK": 32}),
    "transpose_bytes": Build("transpose", {"x": "*u8", "y": "*u8", "rows": "i32-", "cols": "i32-"}, {"BLOCK": 64}),
    "atomics": Build(
        "atomics",
        {"x": "*fp32", "where": "*i32", "sums": "*fp32", "extremes": "*i32", "ticket": "*i32", "n": "i32-"},
        {"BLOCK": 256},
    ),
    "scans": Build(
        "scans",
        {"x": "*i32", "running": "*i32", "ordered": "*i32", "places": "*i32", "counts": "*i32"},
        {"BLOCK": 128},
        warps=2,
    ),
    "attention": Build(
        "attention",
        {"q": "*fp16", "k": "*fp16", "v": "*fp16", "out": "*fp16", "length": "i32-", "scale": "fp32"},
        {"D": 32, "BM": 64, "BN": 32},
        stages=2,
    ),
    "descriptor_reduce": Build(
        "descriptor_reduce", dict.fromkeys(("x", "total", "least"), "tensordesc<i32[32, 32]>"), {"BM": 32, "BN": 32}
    ),
    "descriptor_gather": Build(
        "descriptor_gather",
        {"x": "tensordesc<fp16[1, 64]>", "places": "*i32", "y": "tensordesc<fp16[1, 64]>"},
        {"BM": 32, "BN": 64},
        targets=(BLACKWELL,),
    ),
    "attention_tma": Build(
        "attention_tma", ATTENTION, {"D": 64, "BM": 128, "BN": 64}, warps=8, stages=2, targets=(HOPPER,)
    ),
    "attention_roles": Build(
        "attention_tma", ATTENTION, {"D": 64, "BM": 128, "BN": 64}, stages=2, targets=(BLACKWELL,)
    ),
    "special_functions": Build("special_functions", {"x": "*fp32", "y": "*fp32", "n": "i32-"}, {"BLOCK": 256}),
}


def expand(name: str, kind: str, meta: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The parameters that one argument becomes."""
    if kind.startswith("tensordesc"):
        element, shape = re.fullmatch(r"tensordesc<(\w+)\[(.*)\]>", kind).groups()
        rank = shape.count(",") + 1
        assert meta is not None
        box = {"box": list(meta["block_size"]), "swizzle": meta["swizzle"], "element": element}
        return [
            {"name": name, "kind": "tensor_map", "bytes": 128, **box},
            *({"name": f"{name}.shape[{i}]", "kind": "shape", "type": "i32"} for i in range(rank)),
            *({"name": f"{name}.stride[{i}]", "kind": "stride", "type": "i64"} for i in range(rank)),
        ]
    if kind.startswith("*"):
        return [{"name": name, "kind": "pointer", "type": kind[1:]}]
    return [{"name": name, "kind": "scalar", "type": kind}]


def without_paths(text: str) -> str:
    """The PTX with this machine's folders taken out of .file, and this one's name dotted out of the debug information."""
    text = re.sub(r'"[^"]*/site-packages/', '"', text.replace(f"{HERE}/", ""))
    spelled = "".join(rf"\.b8 {ord(letter)}\b([^\n]*\n)" for letter in str(HERE))
    return re.sub(spelled, lambda found: "".join(f".b8 {ord('.')}{rest}" for rest in found.groups()), text)


def compile_one(name: str, function: Any, build: Build, capability: int) -> None:
    """Writes NAME.sm_XXa.ptx and .json."""
    kinds = {key: kind.rstrip("-") for key, kind in build.signature.items()}
    aligned = {
        (index,): [["tt.divisibility", 16]]
        for index, kind in enumerate(build.signature.values())
        if kind.startswith("*") or kind == "i32"
    }
    source = ASTSource(
        fn=function,
        signature={key: kinds.get(key, "constexpr") for key in function.arg_names},
        constexprs=build.constants,
        attrs=aligned,
    )
    options = {"num_warps": build.warps, "num_stages": build.stages, "num_ctas": build.ctas, **build.options}
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    text, facts = without_paths(compiled.asm["ptx"]), compiled.metadata
    stem = f"{name}.sm_{capability}a"
    (HERE / f"{stem}.ptx").write_text(text)
    metas = iter(facts.tensordesc_meta or [])
    parameters: list[dict[str, Any]] = []
    for key, kind in kinds.items():
        parameters += expand(key, kind, next(metas) if kind.startswith("tensordesc") else None)
    parameters.append({"name": "global_scratch", "kind": "scratch", "bytes_per_block": facts.global_scratch_size})
    parameters.append({"name": "profile_scratch", "kind": "scratch", "bytes_per_block": facts.profile_scratch_size})
    sidecar = {
        "compiler": f"Triton {triton.__version__}",
        "kernel": build.kernel,
        "constants": build.constants,
        "entry": facts.name,
        "block": [32 * facts.num_warps, 1, 1],
        "cluster": [facts.num_ctas, 1, 1],
        "shared_bytes": facts.shared,
        "tensor_memory_columns": facts.tmem_size,
        "scratch_alignment": facts.global_scratch_align,
        "parameters": parameters,
    }
    (HERE / f"{stem}.json").write_text(json.dumps(sidecar, indent=1) + "\n")


def main() -> None:
    """Compiles the named builds, or all."""
    if triton.__version__ != TRITON:
        raise SystemExit(f"these files are made with Triton {TRITON}, not {triton.__version__}")
    for name, build in BUILDS.items():
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        for capability in build.targets:
            compile_one(name, getattr(kernels, build.kernel), build, capability)


if __name__ == "__main__":
    main()
