"""wmma, whose fragments are opaque but whose memory is not, and mma.sp with the metadata of a sparse A."""

from __future__ import annotations

from itertools import product

from suite.cases import Case
from suite.kernels import Body, Input, case
from suite.matrix import ELEMENT_BITS, elements, metadata

_ROWS = {"m16n16k16": (16, 16, 16), "m8n32k16": (8, 32, 16), "m32n8k16": (32, 8, 16), "m16n16k8": (16, 16, 8)}
_ROWS |= {"m8n8k4": (8, 8, 4), "m8n8k32": (8, 8, 32), "m8n8k128": (8, 8, 128)}
_FRAGMENTS = {
    "f16": {"m16n16k16": (8, 8), "m8n32k16": (8, 8), "m32n8k16": (8, 8)},
    "bf16": {"m16n16k16": (4, 4), "m8n32k16": (2, 8), "m32n8k16": (8, 2)},
    "s8": {"m16n16k16": (2, 2), "m8n32k16": (1, 4), "m32n8k16": (4, 1)},
    "tf32": {"m16n16k8": (4, 4)},
    "f64": {"m8n8k4": (1, 1)},
    "s4": {"m8n8k32": (1, 1)},
    "b1": {"m8n8k128": (1, 1)},
}
_FRAGMENTS["u8"], _FRAGMENTS["u4"] = _FRAGMENTS["s8"], _FRAGMENTS["s4"]
"""Registers of A and B of a lane."""


def cases() -> list[Case]:
    return [*_wmma(), *_sparse()]


def _wmma() -> list[Case]:
    built: list[Case] = []
    for kind, shapes in _FRAGMENTS.items():
        body = Body(32)
        accumulators = {"f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "f64": ("f64",)}.get(kind, ("s32",))
        for shape in shapes:
            narrow = kind in ("s4", "u4", "b1")
            layouts = [("row", "col")] if narrow else list(product(("row", "col"), repeat=2))
            for (a, b), d in product(layouts, accumulators):
                _multiply(body, kind, shape, a, b, d, "row")
            if not narrow:
                _multiply(body, kind, shape, "row", "row", accumulators[-1], "col")
        inputs: list[Input] = [("ptr in_ab", elements(kind, 2048))]
        inputs += [(f"ptr in_{d}", elements(d, 2048)) for d in accumulators]
        built.append(case(f"wmma_{kind}", "matrix", body, inputs, block=32))
    return built


def _multiply(body: Body, kind: str, shape: str, a: str, b: str, d: str, c: str) -> None:
    m, n, k = _ROWS[shape]
    words_a, words_b = _FRAGMENTS[kind][shape]
    words_d = {"f16": 4, "f32": 8, "s32": 8 if n * m > 64 else 2, "f64": 2}[d]
    double = kind == "f64"
    prefix = "q" if double else "r"

    def group(start: int, count: int) -> str:
        return "{" + ", ".join(f"{prefix}{start + i}" for i in range(count)) + "}"

    # Rows lie apart by a little more than they hold, in whole 16 bytes.
    pad = 0 if kind in ("s4", "u4", "b1") else 128 // (64 if double else ELEMENT_BITS.get(kind, 8))
    stride_a, stride_b = (k if a == "row" else m) + pad, (n if b == "row" else k) + pad
    stride_d = n if c == "row" else m
    body(f"wmma.load.a.sync.aligned.{a}.{shape}.global.{kind} {group(0, words_a)}, [in_ab], {stride_a};")
    body(f"wmma.load.b.sync.aligned.{b}.{shape}.global.{kind} {group(10, words_b)}, [in_ab+2048], {stride_b};")
    body(f"wmma.load.c.sync.aligned.{c}.{shape}.global.{d} {group(20, words_d)}, [in_{d}], {stride_d};")
    operation = ".and.popc" if kind == "b1" else ""
    types = f"{d}.{d}" if kind == "f16" else f"{d}.{kind}.{kind}.{d}"
    groups = ", ".join((group(30, words_d), group(0, words_a), group(10, words_b), group(20, words_d)))
    body(f"wmma.mma{operation}.sync.aligned.{a}.{b}.{shape}.{types} {groups};")
    at = body.columns * body.threads * 4
    body(f"wmma.store.d.sync.aligned.{c}.{shape}.global.{d} [out+{at}], {group(30, words_d)}, {stride_d};")
    body.columns += m * n * {"f16": 2, "f32": 4, "s32": 4, "f64": 8}[d] // (4 * body.threads)


def _sparse() -> list[Case]:
    half = [("m16n8k16", 2, 2, (0, 1, 2, 3)), ("m16n8k32", 4, 4, (0, 1))]
    built = [
        _sparse_case("f16", [(d, "f16", "f16", *shape) for d in ("f16", "f32") for shape in half]),
        _sparse_case("bf16", [("f32", "bf16", "bf16", *shape) for shape in half]),
        _sparse_case(
            "tf32", [("f32", "tf32", "tf32", *s) for s in (("m16n8k8", 2, 2, (0, 1, 2, 3)), ("m16n8k16", 4, 4, (0, 1)))]
        ),
    ]
    for a in ("e4m3", "e5m2"):
        built.append(_sparse_case(a, [("f32", a, b, "m16n8k64", 4, 4, (0,)) for b in ("e4m3", "e5m2")]))
    eight = [("m16n8k32", 2, 2, (0, 1)), ("m16n8k64", 4, 4, (0,))]
    built.append(_sparse_case("s8", [("s32", a, b, *s) for a in ("s8", "u8") for b in ("s8", "u8") for s in eight]))
    four = [("m16n8k64", 2, 2, (0, 1)), ("m16n8k128", 4, 4, (0,))]
    built.append(_sparse_case("s4", [("s32", a, b, *s) for a in ("s4", "u4") for b in ("s4", "u4") for s in four]))
    return built


Sparse = tuple[str, str, str, str, int, int, tuple[int, ...]]
"""D and operand types, shape, registers of A and B, sparsity selectors."""


def _sparse_case(name: str, products: list[Sparse]) -> Case:
    body = Body(32)
    kinds = {kind for p in products for kind in p[1:3]} | {p[0] for p in products}
    body("mad.wide.u32 q0, lane, 4, meta;", "ld.global.u32 r60, [q0];")
    for d, a, b, shape, words_a, words_b, selectors in products:
        words_d = 2 if d == "f16" else 4
        at = 0
        groups: list[str] = []
        for kind, count in ((a, words_a), (b, words_b), (d, words_d)):
            body(f"mad.wide.u32 q1, lane, 4, in_{kind};")
            for i in range(at, at + count):
                body(f"ld.global.u32 r{i}, [q1+{128 * i}];")
            groups.append("{" + ", ".join(f"r{i}" for i in range(at, at + count)) + "}")
            at += count
        results = [f"r{40 + i}" for i in range(words_d)]
        for selector in selectors:
            spelling = f"mma.sp::ordered_metadata.sync.aligned.{shape}.row.col.{d}.{a}.{b}.{d}"
            body(f"{spelling} {{{', '.join(results)}}}, {', '.join(groups)}, r60, {selector};")
            body.out(*results)

    inputs: list[Input] = [
        ("ptr meta", metadata(products[0][1], 32)),
        *((f"ptr in_{kind}", elements(kind, 32 * 16)) for kind in sorted(kinds)),
    ]
    return case(f"mma_sparse_{name}", "matrix", body, inputs, block=32, version="8.5")
