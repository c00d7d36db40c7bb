"""The forms of wgmma.mma_async that sm_90a has, and no others: they agree with ptxas 13.0 (PTX 9.7.15.5.2, 9.7.15.6.3)."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from warpgroup_kernels import BITS

from tilec.backend.emulator.faults import UnsupportedInstruction
from tilec.backend.emulator.launch import emulate

Form = tuple[int, int, str, str, str]
"""n, k, types of D, A and B."""


def legal(sparse: bool) -> set[Form]:
    factor = 2 if sparse else 1
    widths = list(range(8, 257, 8))
    integer_widths = [8, 16, 24, *range(32, 257, 16)]
    found: set[Form] = {(n, 16 * factor, d, "f16", "f16") for n in widths for d in ("f16", "f32")}
    found |= {(n, 16 * factor, "f32", "bf16", "bf16") for n in widths}
    found |= {(n, 8 * factor, "f32", "tf32", "tf32") for n in widths}
    for n, d, a, b in product(widths, ("f16", "f32"), ("e4m3", "e5m2"), ("e4m3", "e5m2")):
        found.add((n, 32 * factor, d, a, b))
    found |= {(n, 32 * factor, "s32", a, b) for n, a, b in product(integer_widths, ("s8", "u8"), ("s8", "u8"))}
    if not sparse:
        found |= {(n, 256, "s32", "b1", "b1") for n in integer_widths}
    return found


def spelled(form: Form, sparse: bool, *, from_registers: bool = False, end: str | None = None, extra: str = "") -> str:
    n, k, d, a, b = form
    count = max(n // (4 if d == "f16" else 2), 1)
    tail = "p"
    if d != "s32":
        tail += ", 1, -1"
        if BITS.get(a) == 16:
            tail += ", 1" if from_registers else ", 0, 1"
    if end is None:
        end = ".and.popc" if a == "b1" else ""
    held = "{" + ", ".join(f"d{i}" for i in range(count)) + "}"
    first = "{a0, a1, a2, a3}" if from_registers else "q0"
    meta = "meta, 0, " if sparse else ""
    return f"wgmma.mma_async{'.sp' if sparse else ''}.sync.aligned.m64n{n}k{k}.{d}.{a}.{b}{end} {held}, {first}, q1, {meta}{tail}{extra};"


def is_taken(instruction: str, target: str = "sm_90a") -> bool:
    """Whether the emulator can decode it: it is guarded, and is decoded although no thread executes it."""
    text = (
        f".version 9.0\n.target {target}\n.address_size 64\n.visible .entry k() {{\n"
        ".reg .b32 d<300>, a<8>, meta; .reg .b64 q<4>; .reg .pred p, never;\n"
        f"setp.ne.u32 never, 0, 0;\n@never {instruction}\nret;\n}}\n"
    )
    try:
        emulate(text, "k", 1, 128, [])
    except UnsupportedInstruction:
        return False
    return True


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("from_registers", [False, True])
def test_every_type_at_its_widths(sparse: bool, from_registers: bool) -> None:
    for form in legal(sparse):
        if form[0] in (8, 24, 40, 48, 256):
            assert is_taken(spelled(form, sparse, from_registers=from_registers)), form


@settings(max_examples=300, deadline=None)
@given(
    st.tuples(
        st.one_of(
            st.sampled_from([8, 24, 32, 40, 48, 104, 256]), st.integers(0, 34).map(lambda i: 8 * i), st.integers(0, 270)
        ),
        st.sampled_from([8, 16, 32, 64, 128, 256, 512]),
        st.sampled_from(["f16", "f32", "s32", "f64", "bf16"]),
        st.sampled_from([*BITS, "s4", "f64"]),
        st.sampled_from([*BITS, "s4", "f64"]),
    ),
    st.booleans(),
)
def test_any_other(form: Form, sparse: bool) -> None:
    assert is_taken(spelled(form, sparse)) == (form in legal(sparse)), form


@pytest.mark.parametrize("end", ["", ".and", ".popc", ".xor.popc", ".and.popc"])
def test_single_bits_are_anded(end: str) -> None:
    assert is_taken(spelled((8, 256, "s32", "b1", "b1"), False, end=end)) == (end == ".and.popc")
    assert is_taken(spelled((8, 32, "s32", "s8", "u8"), False, end=end)) == (end == "")


def test_satfinite_is_of_8_bit_integers() -> None:
    for sparse in (False, True):
        for form in legal(sparse):
            if form[0] == 8:
                end = (".and.popc" if form[3] == "b1" else "") + ".satfinite"
                assert is_taken(spelled(form, sparse, end=end)) == (form[3] in ("s8", "u8")), form


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    "form", [(8, 16, "f32", "bf16", "bf16"), (8, 8, "f32", "tf32", "tf32"), (8, 32, "s32", "u8", "u8")]
)
def test_operands_are_counted(form: Form, sparse: bool) -> None:
    if sparse:
        form = (form[0], 2 * form[1], *form[2:])
    assert is_taken(spelled(form, sparse))
    assert not is_taken(spelled(form, sparse, extra=", 1"))


@pytest.mark.parametrize(
    ("wrong", "right"),
    [(", 1, -1, 0, 1", ", 2, 1, 0, 1"), (", 1, -1, 0, 1", ", 1, 0, 0, 1"), (", 1, -1, 0, 1", ", 1, 1, 2, 1")],
)
def test_signs_and_transpositions_are_constants(wrong: str, right: str) -> None:
    good = spelled((8, 16, "f32", "f16", "f16"), False)
    assert wrong in good
    assert not is_taken(good.replace(wrong, right))


@pytest.mark.parametrize(
    "instruction",
    [
        spelled((8, 16, "f32", "f16", "f16"), False),
        spelled((8, 32, "f32", "f16", "f16"), True),
        "wgmma.fence.sync.aligned;",
        "wgmma.commit_group.sync.aligned;",
        "wgmma.wait_group.sync.aligned 0;",
    ],
)
def test_the_target(instruction: str) -> None:
    assert is_taken(instruction)
    assert not is_taken(instruction, "sm_100a")
    assert not is_taken(instruction.replace(".aligned", ""))
    assert not is_taken(instruction.replace(".sync", ""))
