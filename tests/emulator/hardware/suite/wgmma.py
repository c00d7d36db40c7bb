"""wgmma.mma_async: every type, N, layout, swizzle, transposition, sign and accumulator mode.

The operands are shared memory full of small integers of the type (every byte pattern there is one), so any descriptor gives
sums that are exact in any order, and which bytes the hardware read is seen in the results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from suite.cases import Array, Case
from suite.kernels import Body, case
from suite.matrix import elements, encode, metadata
from suite.steps import fill_from

_BLOCK = 128
_CODES = {"none": 0, "128B": 1, "64B": 2, "32B": 3}
_SPANS = {"none": 16, "32B": 32, "64B": 64, "128B": 128}
_DEPTH = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32}
_B_AT = 16384
"""Where the operands B begin in the tile."""


@dataclass(frozen=True)
class Operand:
    """A descriptor: start in the tile, leading and stride offsets in bytes, swizzle, base offset; `major` 1 is MN-major."""

    start: int
    leading: int
    stride: int
    swizzle: str = "none"
    major: int = 0
    base: int = 0

    @property
    def high_and_low(self) -> tuple[int, int]:
        """The descriptor without its start address, as two words."""
        fields = (self.leading >> 4) << 16 | (self.stride >> 4) << 32 | self.base << 49 | _CODES[self.swizzle] << 62
        return fields >> 32, fields & 0xFFFFFFFF


@dataclass(frozen=True)
class Product:
    """One wgmma: D type, operand types, N, operands (None: A in registers), flags. `steps` products chain."""

    d: str
    a: str
    b: str
    n: int
    first: Operand | None
    second: Operand
    scale: int = 0
    signs: tuple[int, int] = (1, 1)
    satfinite: bool = False
    steps: int = 1
    selector: int | None = None
    """Of the metadata of a sparse A; then K is twice as deep."""


def cases() -> list[Case]:
    return [*_widths(), *_types(), *_layouts(), *_registers(), *_modes(), *_sparse(), _special(), _base_offsets()]


def k_major(start: int, swizzle: str = "128B") -> Operand:
    if swizzle == "none":
        return Operand(start, 128, 256)
    return Operand(start, 16, 8 * _SPANS[swizzle], swizzle)


def mn_major(start: int, swizzle: str, leading: int) -> Operand:
    if swizzle == "none":
        return Operand(start, leading, 128, major=1)
    return Operand(start, leading, 8 * _SPANS[swizzle], swizzle, 1)


def _kernel(
    name: str,
    family: str,
    products: list[Product],
    *,
    smem: int,
    values: Callable[[np.random.Generator], Array] | None = None,
    fold_above: int = 32,
) -> Case:
    """Runs the products in turn; results of more than `fold_above` registers are folded into one word a thread."""
    body = Body(_BLOCK)
    body(".reg .f32 f<128>;", ".reg .b32 x<128>;", "mov.u32 r200, tile;", "mad.wide.u32 q140, tid, 16, data;")
    body("ld.global.v4.b32 {r204, r205, r206, r207}, [q140];")
    body("mad.wide.u32 q140, tid, 4, meta;", "ld.global.b32 r208, [q140];")
    fill_from(body, "tile", smem, _BLOCK)
    for product in products:
        _product(body, product, fold_above)

    def data(rng: np.random.Generator) -> Array:
        if values is not None:
            return values(rng)
        found = elements(products[0].a, smem // 4)(rng)
        assert isinstance(found, np.ndarray)
        return found

    def start(rng: np.random.Generator) -> Array:
        kind = products[0].d
        if kind == "s32":
            return rng.integers(-(2**31), 2**31, 128 * _BLOCK, dtype=np.int64).astype(np.int32).view(np.uint32)
        return encode(kind, rng.integers(-4, 5, 128 * _BLOCK * (2 if kind == "f16" else 1))).view(np.uint32)

    top = ".extern .shared .align 1024 .b8 tile[];"
    inputs = [("ptr data", data), ("ptr start", start), ("ptr meta", metadata(products[0].a, _BLOCK))]
    mixed = any(p.d == "s32" and p.a != p.b for p in products)
    version = "8.4" if mixed else "8.2" if products[0].selector is not None else "8.0"
    return case(name, family, body, inputs, block=_BLOCK, dynamic_smem=smem, top=top, version=version)


def _descriptor(body: Body, register: str, operand: Operand) -> None:
    high, low = operand.high_and_low
    body(f"add.u32 r201, r200, {operand.start};", "shr.u32 r201, r201, 4;", "and.b32 r201, r201, 0x3fff;")
    body(f"or.b32 r201, r201, {low};", f"mov.u32 r202, {high};", f"mov.b64 {register}, {{r201, r202}};")


def _product(body: Body, p: Product, fold_above: int) -> None:
    count = p.n // 4 if p.d == "f16" else p.n // 2
    prefix = "f" if p.d == "f32" else "x"
    registers = ", ".join(f"{prefix}{i}" for i in range(count))
    body("mad.wide.u32 q141, tid, 4, start;")
    for i in range(count):
        body(f"ld.global.b32 {prefix}{i}, [q141+{512 * i}];")
    first = "{r204, r205, r206, r207}"
    if p.first is not None:
        _descriptor(body, "q142", p.first)
        first = "q142"
    _descriptor(body, "q143", p.second)
    body(f"setp.ne.u32 p20, {p.scale}, 0;", "wgmma.fence.sync.aligned;")
    tail = ""
    if p.d != "s32":
        tail = f", {p.signs[0]}, {p.signs[1]}"
        if _DEPTH[p.a] == 16:
            tail += f", {p.first.major}, {p.second.major}" if p.first is not None else f", {p.second.major}"
    end = ".satfinite" if p.satfinite else ""
    sparse = p.selector is not None
    depth = _DEPTH[p.a] * (2 if sparse else 1)
    spelling = f"wgmma.mma_async{'.sp' if sparse else ''}.sync.aligned.m64n{p.n}k{depth}.{p.d}.{p.a}.{p.b}{end}"
    metadata = f"r208, {p.selector}, " if sparse else ""
    for step in range(p.steps):
        flag = "p20" if step == 0 else "1"
        body(f"{spelling} {{{registers}}}, {first}, q143, {metadata}{flag}{tail};")
        if step + 1 < p.steps:
            body("add.u64 q143, q143, 2;", *(["add.u64 q142, q142, 2;"] if p.first is not None else []))
    body("wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;")
    if count <= fold_above:
        body.out(*(f"{prefix}{i}" for i in range(count)))
        return
    body("mov.b32 r210, 0;")
    for i in range(count):
        body(f"mov.b32 r211, {prefix}{i};", "mad.lo.u32 r210, r210, 0x01000193, r211;")
    body.out("r210")


def _widths() -> list[Case]:
    """All N of a type, results folded."""
    widths = range(8, 257, 8)
    built: list[Case] = []
    for part in (0, 1):
        chosen = [n for n in widths if (n // 8) % 2 == part]
        products = [Product("f32", "bf16", "bf16", n, k_major(0, "32B"), k_major(_B_AT, "32B")) for n in chosen]
        built.append(_kernel(f"wgmma_widths_{'odd' if part else 'even'}", "wgmma", products, smem=32768, fold_above=8))
    whole = [8, 16, 24, *range(32, 257, 16)]
    products = [Product("s32", "s8", "u8", n, k_major(0, "32B"), k_major(_B_AT, "32B"), 1) for n in whole]
    return [*built, _kernel("wgmma_widths_s8", "wgmma", products, smem=32768, fold_above=8)]


def _types() -> list[Case]:
    built: list[Case] = []
    pairs = [("f16", "f16", "f16"), ("f32", "f16", "f16"), ("f32", "bf16", "bf16"), ("f32", "tf32", "tf32")]
    pairs += [(d, a, b) for d in ("f16", "f32") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")]
    pairs += [("s32", a, b) for a in ("s8", "u8") for b in ("s8", "u8")]
    for d, a, b in pairs:
        products = [
            Product(d, a, b, 32, k_major(0), k_major(_B_AT), scale, satfinite=sat, steps=steps)
            for scale, sat, steps in (
                (0, False, 1),
                (1, False, 4),
                *(((1, True, 1), (0, True, 2)) if d == "s32" else ()),
            )
        ]
        # Both operands hold bytes of type A: of another 8-bit float, they are still small exact numbers.
        built.append(_kernel(f"wgmma_{d}_{a}_{b}", "wgmma", products, smem=32768))
    large = [Product("f16", "f16", "f16", 256, k_major(0), k_major(_B_AT), 1)]
    built.append(_kernel("wgmma_n256_f16", "wgmma", large, smem=49152, fold_above=64))
    return built


def _layouts() -> list[Case]:
    built: list[Case] = []
    for swizzle in ("none", "32B", "64B", "128B"):
        k = [Product("f32", "bf16", "bf16", 24, k_major(0, swizzle), k_major(_B_AT, swizzle))]
        for advance in range(32, _SPANS[swizzle], 32):
            k.append(Product("f32", "bf16", "bf16", 16, k_major(advance, swizzle), k_major(_B_AT + advance, swizzle)))
        if swizzle == "none":
            odd = Operand(48, 80, 208)
            k.append(Product("f32", "bf16", "bf16", 16, odd, Operand(_B_AT + 16, 4096, 144)))
        built.append(_kernel(f"wgmma_k_major_{swizzle}", "wgmma", k, smem=32768))
        leading = {"none": 2048, "32B": 512, "64B": 1024, "128B": 2048}[swizzle]
        mn = [
            Product("f32", "f16", "f16", 64, mn_major(0, swizzle, leading), k_major(_B_AT, swizzle)),
            Product("f32", "f16", "f16", 64, k_major(0, swizzle), mn_major(_B_AT, swizzle, leading)),
            Product("f32", "f16", "f16", 40, mn_major(0, swizzle, leading), mn_major(_B_AT, swizzle, leading)),
            Product("f32", "f16", "f16", 128, mn_major(0, swizzle, leading), mn_major(_B_AT, swizzle, 2 * leading)),
            Product("f32", "f16", "f16", 8, mn_major(0, swizzle, leading), mn_major(_B_AT, swizzle, leading)),
        ]
        built.append(_kernel(f"wgmma_mn_major_{swizzle}", "wgmma", mn, smem=49152))
    mixed = [
        Product("f32", "f16", "f16", 32, k_major(0, a), k_major(_B_AT, b))
        for a, b in (("128B", "32B"), ("none", "64B"), ("64B", "none"))
    ]
    return [*built, _kernel("wgmma_mixed_swizzles", "wgmma", mixed, smem=32768)]


def _registers() -> list[Case]:
    built: list[Case] = []
    for d, a in (
        ("f16", "f16"),
        ("f32", "bf16"),
        ("f32", "tf32"),
        ("f32", "e4m3"),
        ("f16", "e5m2"),
        ("s32", "s8"),
        ("s32", "u8"),
    ):
        products = [Product(d, a, a, 32, None, k_major(_B_AT), scale) for scale in (0, 1)]
        if _DEPTH[a] == 16:
            products.append(Product(d, a, a, 64, None, mn_major(_B_AT, "128B", 2048), 1, (-1, 1)))
        built.append(_kernel(f"wgmma_registers_{a}", "wgmma", products, smem=32768))
    return built


def _modes() -> list[Case]:
    signs = [(1, 1), (-1, 1), (1, -1), (-1, -1)]
    built: list[Case] = []
    for d, a in (("f32", "f16"), ("f16", "f16"), ("f32", "tf32"), ("f32", "e5m2")):
        products = [Product(d, a, a, 16, k_major(0), k_major(_B_AT), scale, s) for s in signs for scale in (0, 1)]
        built.append(_kernel(f"wgmma_signs_{d}_{a}", "wgmma", products, smem=32768))
    return built


def _sparse() -> list[Case]:
    built: list[Case] = []
    kinds = [("f32", "f16", "f16"), ("f16", "f16", "f16"), ("f32", "bf16", "bf16"), ("f32", "tf32", "tf32")]
    kinds += [("f32", "e4m3", "e5m2"), ("f16", "e5m2", "e5m2"), ("s32", "s8", "s8"), ("s32", "u8", "u8")]
    for d, a, b in kinds:
        selectors = (0,) if _DEPTH[a] == 32 else (0, 1)
        second = k_major(_B_AT)
        products = [Product(d, a, b, 32, k_major(0), second, scale, selector=s) for s in selectors for scale in (0, 1)]
        products += [Product(d, a, b, 64, None, second, 1, selector=s) for s in selectors]
        products.append(Product(d, a, b, 16, k_major(32, "64B"), k_major(_B_AT, "64B"), selector=0))
        built.append(_kernel(f"wgmma_sparse_{d}_{a}_{b}", "wgmma_sparse", products, smem=32768))
    return built


def _special() -> Case:
    """Infinities, NaNs and largest numbers among the operands."""

    def values(rng: np.random.Generator) -> Array:
        found = encode("f16", rng.integers(-4, 5, 16384)).view(np.uint16).copy()
        chosen = rng.random(len(found)) < 1 / 64
        found[chosen] = rng.choice(np.array([0x7C00, 0xFC00, 0x7E01, 0xFD03, 0x7BFF], np.uint16), int(chosen.sum()))
        return found.view(np.uint32)

    products = [Product("f32", "f16", "f16", 16, k_major(0), k_major(_B_AT), scale) for scale in (0, 1)]
    return _kernel("wgmma_special_values", "wgmma_special", products, smem=32768, values=values)


def _base_offsets() -> Case:
    """Patterns that do not begin on their period."""
    products = [
        Product("f32", "bf16", "bf16", 16, Operand(start, 16, 1024, "128B", base=base), k_major(_B_AT))
        for start, base in ((512, 0), (512, 4), (128, 1), (896, 7), (256, 0))
    ]
    return _kernel("wgmma_base_offsets", "wgmma_special", products, smem=32768)
