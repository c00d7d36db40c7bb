"""PTX kernels from their parts: parameters in registers, numbered scratch registers, columns of results."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from suite.cases import Argument, Array, Bound, Case, blank
from suite.values import bits_of, operand

_POOL = """    .reg .b16 h<64>;
    .reg .b32 r<320>;
    .reg .b64 q<160>;
    .reg .pred p<32>;
    .reg .b32 tid, lane, warp, cta, index;
    mov.u32 tid, %tid.x;
    mov.u32 cta, %ctaid.x;
    mov.u32 index, %ntid.x;
    mad.lo.u32 index, cta, index, tid;
    and.b32 lane, tid, 31;
    shr.u32 warp, tid, 5;
"""
Input = tuple[str, Callable[[np.random.Generator], Argument]]
"""A parameter: its declaration (`ptr name`, `map name` or `u32 name`) and its value."""


def module(
    name: str, parameters: Sequence[str], body: str, *, version: str = "8.0", top: str = "", limits: str = ""
) -> str:
    """The text of a module with one entry. Each parameter is in a register of its name; maps as generic addresses."""
    declared: list[str] = []
    loads: list[str] = []
    for parameter in parameters:
        kind, register = parameter.split()
        if kind == "map":
            declared.append(f"    .param .align 64 .b8 {register}_map[128]")
            loads += [f"    .reg .b64 {register};", f"    mov.b64 {register}, {register}_map;"]
            loads.append(f"    cvta.param.u64 {register}, {register};")
        else:
            size = "u64" if kind == "ptr" else kind
            declared.append(f"    .param .{size} {register}_arg")
            loads += [f"    .reg .{size} {register};", f"    ld.param.{size} {register}, [{register}_arg];"]
            if kind == "ptr":
                loads.append(f"    cvta.to.global.u64 {register}, {register};")
    head = f".version {version}\n.target sm_90a\n.address_size 64\n{top}\n.visible .entry {name}(\n"
    return head + ",\n".join(declared) + f"\n){limits}\n{{\n{_POOL}" + "\n".join(loads) + f"\n{body}\n    ret;\n}}\n"


class Body:
    """The body of a kernel whose threads write columns of 32-bit results to `out`: row = thread, column = order of `out`."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.columns = 0
        self._labels = 0
        self._lines = ["    .reg .b64 o;", "    mad.wide.u32 o, index, 4, out;"]

    def __call__(self, *lines: str) -> None:
        self._lines += [f"    {line}" for text in lines for line in text.splitlines()]

    def label(self, stem: str) -> str:
        """A label that no other call gives."""
        self._labels += 1
        return f"{stem}_{self._labels}"

    def out(self, *registers: str) -> None:
        for register in registers:
            self(f"st.global.b32 [o+{self.columns * self.threads * 4}], {register};")
            self.columns += 1

    def out16(self, *registers: str) -> None:
        for register in registers:
            self(f"{{ .reg .b32 x; cvt.u32.u16 x, {register};")
            self.out("x")
            self("}")

    def out64(self, *registers: str) -> None:
        for register in registers:
            self(f"{{ .reg .b32 x, y; mov.b64 {{x, y}}, {register};")
            self.out("x", "y")
            self("}")

    def outp(self, *predicates: str) -> None:
        for predicate in predicates:
            self(f"{{ .reg .b32 x; selp.u32 x, 1, 0, {predicate};")
            self.out("x")
            self("}")

    def text(self) -> str:
        return "\n".join(self._lines)


def case(
    name: str,
    family: str,
    body: Body,
    inputs: Sequence[Input] = (),
    *,
    block: int,
    grid: int = 1,
    cluster: int = 1,
    dynamic_smem: int = 0,
    version: str = "8.0",
    top: str = "",
    limits: str = "",
) -> Case:
    """A case of a body: its inputs, then its `out` columns."""
    assert body.threads == block * grid, name
    makers = [maker for _, maker in inputs]
    size = body.columns * body.threads
    return Case(
        name=name,
        family=family,
        ptx=module(name, [*(d for d, _ in inputs), "ptr out"], body.text(), version=version, top=top, limits=limits),
        entry=name,
        grid=(grid, 1, 1),
        block=(block, 1, 1),
        cluster=(cluster, 1, 1),
        dynamic_smem=dynamic_smem,
        arguments=lambda rng: [*(maker(rng) for maker in makers), blank("u4", size)],
    )


Form = tuple[str, str]
"""Text that computes `d` from operands `a`, `b`, `c`, `e`, and the width of `d`: b16, b32, b64 or pred."""


def forms(width: str, operands: int, *spellings: str) -> list[Form]:
    """One form for each spelling (several may stand in one string) that takes the first `operands` operands."""
    listed = ", ".join("dabce"[: operands + 1])
    return [(f"{spelling} {listed};", width) for text in spellings for spelling in text.split()]


def table(
    name: str,
    family: str,
    operands: Sequence[str],
    entries: Sequence[Form],
    *,
    rows: int = 256,
    version: str = "8.0",
    bounds: tuple[Bound, ...] = (),
    values: Callable[[int, int, np.random.Generator], Array] | None = None,
    prelude: str = "",
) -> Case:
    """One thread a row, one column a form; operand kinds as `values.operand` names them.

    `values(position, rows, rng)` replaces the usual operand values.
    """
    body = Body(rows)
    for letter, kind in zip("abce", operands, strict=False):
        size = bits_of(kind)
        body(f".reg .b{size} {letter};", f"mad.wide.u32 q0, index, {size // 8}, in_{letter};")
        body(f"ld.global.b{size} {letter}, [q0];")
    body(prelude)
    writers = {"b16": body.out16, "b32": body.out, "b64": body.out64, "pred": body.outp}
    for text, width in entries:
        body(f"{{ .reg .{width} d; {text}")
        writers[width]("d")
        body("}")

    def maker(position: int, kind: str) -> Callable[[np.random.Generator], Argument]:
        if values is not None:
            return lambda rng: values(position, rows, rng)
        return lambda rng: operand(kind, position, rows, rng)

    inputs = [
        (f"ptr in_{letter}", maker(i, kind)) for i, (letter, kind) in enumerate(zip("abce", operands, strict=False))
    ]
    block = min(rows, 128)
    built = case(name, family, body, inputs, block=block, grid=rows // block, version=version)
    return Case(**{**built.__dict__, "bounds": bounds})


def words(count: int, dtype: str = "u4") -> Callable[[np.random.Generator], Argument]:
    """Random bits as an input."""
    size = np.dtype(dtype).itemsize
    return lambda rng: rng.integers(0, 256, count * size, dtype=np.uint8).view(dtype)
