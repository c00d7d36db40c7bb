"""mma.sync, ldmatrix, stmatrix and movmatrix: every shape and type, values small enough that every sum is exact."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from suite.cases import Argument, Array, Case
from suite.kernels import Body, case, words

_E4M3 = {0: 0x00, 1: 0x38, 2: 0x40, 3: 0x44, 4: 0x48}
_E5M2 = {0: 0x00, 1: 0x3C, 2: 0x40, 3: 0x42, 4: 0x44}


def encode(kind: str, values: Array) -> Array:
    """Small integers as bytes of a type (packed types: random bits instead)."""
    if kind == "f16":
        return values.astype(np.float16).view(np.uint8)
    if kind == "bf16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    if kind in ("f32", "tf32"):
        return values.astype(np.float32).view(np.uint8)
    if kind == "f64":
        return values.astype(np.float64).view(np.uint8)
    if kind in ("e4m3", "e5m2"):
        code = np.array([(_E4M3 if kind == "e4m3" else _E5M2)[m] for m in range(5)], np.uint8)
        return (code[np.abs(values)] | np.where(values < 0, 0x80, 0)).astype(np.uint8)
    if kind == "s32":
        return values.astype(np.int32).view(np.uint8)
    raise ValueError(kind)


ELEMENT_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "f64": 64, "e4m3": 8, "e5m2": 8, "s32": 32}


def elements(kind: str, count: int) -> Callable[[np.random.Generator], Argument]:
    """`count` 32-bit words that hold small integers of a type."""

    def make(rng: np.random.Generator) -> Argument:
        if kind not in ELEMENT_BITS or kind == "s32":
            return rng.integers(0, 2**32, count, dtype=np.uint32) >> (4 if kind == "s32" else 0)
        values = rng.integers(-4, 5, count * 32 // ELEMENT_BITS[kind])
        return encode(kind, values).view(np.uint32).copy()

    return make


def metadata(kind: str, lanes: int) -> Callable[[np.random.Generator], Argument]:
    """A word for each lane that says which elements of a sparse A are stored: any valid indices."""
    nibbles = np.array([0x4, 0xE] if kind == "tf32" else [0x4, 0x8, 0x9, 0xC, 0xD, 0xE], np.uint32)
    places = 4 * np.arange(8, dtype=np.uint32)
    return lambda rng: np.bitwise_or.reduce(rng.choice(nibbles, (lanes, 8)) << places, axis=1).astype(np.uint32)


def cases() -> list[Case]:
    return [*_products(), *_special(), _matrix_loads(), _matrix_stores(), _transpose()]


Shape = tuple[str, str, str, str, str, int, int, int]
"""mma shape and layouts, d, a, b, c, words of a, b and c of a lane."""


def _float_shapes() -> list[Shape]:
    found: list[Shape] = []
    for d, c in (("f16", "f16"), ("f32", "f32")):
        words_c = 2 if c == "f16" else 4
        found.append(("m16n8k8.row.col", d, "f16", "f16", c, 2, 1, words_c))
        found.append(("m16n8k16.row.col", d, "f16", "f16", c, 4, 2, words_c))
        for a in ("e4m3", "e5m2"):
            for b in ("e4m3", "e5m2"):
                found.append(("m16n8k32.row.col", d, a, b, c, 4, 2, words_c))
                found.append(("m16n8k16.row.col", d, a, b, c, 2, 1, words_c))
    for a in ("row", "col"):
        for b in ("row", "col"):
            for d, c in (("f16", "f16"), ("f32", "f16"), ("f32", "f32")):
                found.append((f"m8n8k4.{a}.{b}", d, "f16", "f16", c, 2, 2, 4 if c == "f16" else 8))
    found.append(("m16n8k8.row.col", "f32", "bf16", "bf16", "f32", 2, 1, 4))
    found.append(("m16n8k16.row.col", "f32", "bf16", "bf16", "f32", 4, 2, 4))
    found.append(("m16n8k4.row.col", "f32", "tf32", "tf32", "f32", 2, 1, 4))
    found.append(("m16n8k8.row.col", "f32", "tf32", "tf32", "f32", 4, 2, 4))
    return found


def _integer_shapes() -> list[tuple[str, str, list[Shape]]]:
    eight: list[Shape] = []
    four: list[Shape] = []
    for a in ("s8", "u8"):
        for b in ("s8", "u8"):
            for sat in ("", ".satfinite"):
                eight.append((f"m8n8k16.row.col{sat}", "s32", a, b, "s32", 1, 1, 2))
                eight.append((f"m16n8k16.row.col{sat}", "s32", a, b, "s32", 2, 1, 4))
                eight.append((f"m16n8k32.row.col{sat}", "s32", a, b, "s32", 4, 2, 4))
    for a in ("s4", "u4"):
        for b in ("s4", "u4"):
            for sat in ("", ".satfinite"):
                four.append((f"m8n8k32.row.col{sat}", "s32", a, b, "s32", 1, 1, 2))
                four.append((f"m16n8k32.row.col{sat}", "s32", a, b, "s32", 2, 1, 4))
                four.append((f"m16n8k64.row.col{sat}", "s32", a, b, "s32", 4, 2, 4))
    one: list[Shape] = [
        ("m8n8k128.row.col", "s32", "b1", "b1", "s32", 1, 1, 2),
        ("m16n8k128.row.col", "s32", "b1", "b1", "s32", 2, 1, 4),
        ("m16n8k256.row.col", "s32", "b1", "b1", "s32", 4, 2, 4),
    ]
    return [
        ("mma_int8", "", eight),
        ("mma_int4", "", four),
        ("mma_and", ".and.popc", one),
        ("mma_xor", ".xor.popc", one),
    ]


FLOAT_SHAPES = _float_shapes()


def _products() -> list[Case]:
    built: list[Case] = []
    for kind in ("f16", "bf16", "tf32", "e4m3", "e5m2"):
        chosen = [s for s in FLOAT_SHAPES if s[2] == kind]
        built.append(multiply(f"mma_{kind}", chosen, "", version="8.7" if kind[0] == "e" else "8.0"))
    for name, end, shapes in _integer_shapes():
        built.append(multiply(name, shapes, end))
    double = [
        ("m8n8k4.row.col", "f64", "f64", "f64", "f64", 2, 2, 4),
        ("m16n8k4.row.col", "f64", "f64", "f64", "f64", 4, 2, 8),
        ("m16n8k8.row.col", "f64", "f64", "f64", "f64", 8, 4, 8),
        ("m16n8k16.row.col", "f64", "f64", "f64", "f64", 16, 8, 8),
    ]
    return [*built, multiply("mma_f64", double, "")]


def multiply(
    name: str,
    shapes: Sequence[Shape],
    end: str,
    *,
    version: str = "8.0",
    make: Callable[[str, int], Callable[[np.random.Generator], Argument]] = elements,
) -> Case:
    """One warp; each lane reads the words of its fragments in order."""
    body = Body(32)
    kinds = {kind for shape in shapes for kind in shape[2:5]}
    for shape, d, a, b, c, words_a, words_b, words_c in shapes:
        groups: list[str] = []
        at = 0
        for kind, count in ((a, words_a), (b, words_b), (c, words_c)):
            double = kind == "f64"
            registers: list[str] = []
            body(f"mad.wide.u32 q40, lane, 4, in_{kind};")
            for i in range(count):
                body(f"ld.global.u32 r{at + i}, [q40+{128 * (at + i)}];")
                registers.append(f"r{at + i}")
            if double:
                registers = [f"q{(at + i) // 2}" for i in range(0, count, 2)]
                for i in range(0, count, 2):
                    body(f"mov.b64 q{(at + i) // 2}, {{r{at + i}, r{at + i + 1}}};")
            groups.append("{" + ", ".join(registers) + "}")
            at += count
        double = d == "f64"
        words_d = {("f16", True): 4, ("f32", True): 8}.get(
            (d, "k4." in shape and a == "f16"), 2 if d == "f16" else words_c
        )
        results = [f"q{50 + i}" for i in range(words_d // 2)] if double else [f"r{100 + i}" for i in range(words_d)]
        body(f"mma.sync.aligned.{shape}.{d}.{a}.{b}.{c}{end} {{{', '.join(results)}}}, {', '.join(groups)};")
        (body.out64 if double else body.out)(*results)
    inputs = [(f"ptr in_{kind}", make(kind, 32 * 40)) for kind in sorted(kinds)]
    return case(name, "matrix", body, inputs, block=32, version=version)


def _special() -> list[Case]:
    """Infinities and NaNs with payloads among the inputs, one in 32 elements."""
    special = {
        "f16": ("u2", [0x7C00, 0xFC00, 0x7E01, 0xFD03]),
        "bf16": ("u2", [0x7F80, 0xFF80, 0x7FC1, 0xFF83]),
        "tf32": ("u4", [0x7F800000, 0xFF800000, 0x7FC12000, 0xFF9FE000]),
        "f32": ("u4", [0x7F800000, 0xFF800000, 0x7FC12345, 0xFF912345]),
        "e4m3": ("u1", [0x7F, 0xFF, 0x7F, 0xFF]),
        "e5m2": ("u1", [0x7C, 0xFC, 0x7D, 0xFE]),
        "f64": ("u8", [0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000001234, 0xFFF0000000012345]),
    }

    def make(kind: str, count: int) -> Callable[[np.random.Generator], Argument]:
        def build(rng: np.random.Generator) -> Argument:
            found = elements(kind, count)(rng)
            assert isinstance(found, np.ndarray)
            dtype, patterns = special[kind]
            view = found.view(dtype)
            chosen = rng.random(len(view)) < 1 / 32
            view[chosen] = rng.choice(np.array(patterns, dtype), int(chosen.sum()))
            return found

        return build

    shapes = FLOAT_SHAPES
    built = [
        multiply(
            f"mma_special_{kind}",
            [s for s in shapes if s[2] == kind and "m8n8" not in s[0]],
            "",
            version="8.7",
            make=make,
        )
        for kind in ("f16", "bf16", "tf32", "e4m3", "e5m2")
    ]
    built.append(multiply("mma_special_f64", [("m8n8k4.row.col", "f64", "f64", "f64", "f64", 2, 2, 4)], "", make=make))
    return built


def _matrix_loads() -> Case:
    body = Body(32)
    body(
        ".shared .align 16 .b8 tile[2048];",
        "mad.wide.u32 q0, lane, 64, data;",
        "mov.u32 r20, tile;",
        "mad.lo.u32 r21, lane, 64, r20;",
    )
    for i in range(4):
        body(
            f"ld.global.v4.u32 {{r0, r1, r2, r3}}, [q0+{16 * i}];",
            f"st.shared.v4.u32 [r21+{16 * i}], {{r0, r1, r2, r3}};",
        )
    body(
        "bar.warp.sync 0xffffffff;",
        "mul.lo.u32 r22, lane, 13;",
        "and.b32 r22, r22, 127;",
        "mad.lo.u32 r23, r22, 16, r20;",
    )
    body("cvt.u64.u32 q1, r23;", "cvta.shared.u64 q2, q1;")
    for trans in ("", ".trans"):
        for count in (1, 2, 4):
            registers = ", ".join(f"r{i}" for i in range(count))
            for space, address in ((".shared", "r23"), (".shared::cta", "r21+16"), ("", "q2")):
                body(f"ldmatrix.sync.aligned.m8n8.x{count}{trans}{space}.b16 {{{registers}}}, [{address}];")
                body.out(*(f"r{i}" for i in range(count)))
    return case("ldmatrix", "matrix", body, [("ptr data", words(2048, "u1"))], block=32)


def _matrix_stores() -> Case:
    body = Body(32)
    body(
        ".shared .align 16 .b8 tile[2048];",
        "mad.wide.u32 q0, lane, 16, data;",
        "mov.u32 r20, tile;",
        "mad.lo.u32 r21, lane, 64, r20;",
    )
    body(
        "ld.global.v4.u32 {r0, r1, r2, r3}, [q0];",
        "mul.lo.u32 r22, lane, 13;",
        "and.b32 r22, r22, 127;",
        "mad.lo.u32 r23, r22, 16, r20;",
    )
    body("mov.u32 r9, 0;")
    for trans in ("", ".trans"):
        for count in (1, 2, 4):
            for i in range(4):
                body(f"st.shared.v4.u32 [r21+{16 * i}], {{r9, r9, r9, r9}};")
            registers = ", ".join(f"r{i}" for i in range(count))
            body(
                "bar.warp.sync 0xffffffff;",
                f"stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [r23], {{{registers}}};",
            )
            body("bar.warp.sync 0xffffffff;")
            for i in range(4):
                body(f"ld.shared.v4.u32 {{r4, r5, r6, r7}}, [r21+{16 * i}];")
                body.out("r4", "r5", "r6", "r7")
            body("bar.warp.sync 0xffffffff;")
    return case("stmatrix", "matrix", body, [("ptr data", words(512, "u1"))], block=32)


def _transpose() -> Case:
    body = Body(32)
    body("mad.wide.u32 q0, lane, 4, data;", "ld.global.u32 r0, [q0];", "movmatrix.sync.aligned.m8n8.trans.b16 r1, r0;")
    body.out("r1")
    return case("movmatrix", "matrix", body, [("ptr data", words(32))], block=32)
