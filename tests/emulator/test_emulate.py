"""`tilec.emulate`: arguments, launch shapes, results, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilec
from tilec.backend.emulator.faults import FaultKind

HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"
COPY = (
    HEAD
    + """
.visible .entry scale(.param .u64 source, .param .u64 result, .param .f32 factor, .param .u32 count)
{
    .reg .pred p;
    .reg .b32 i, n, t;
    .reg .f32 x, f;
    .reg .b64 a, d, o;
    ld.param.u64 a, [source];
    ld.param.u64 d, [result];
    ld.param.f32 f, [factor];
    ld.param.u32 n, [count];
    mov.u32 i, %ctaid.x;
    mov.u32 t, %ntid.x;
    mad.lo.u32 i, i, t, 0;
    mov.u32 t, %tid.x;
    add.u32 i, i, t;
    setp.ge.u32 p, i, n;
    @p ret;
    mul.wide.u32 o, i, 4;
    add.u64 a, a, o;
    add.u64 d, d, o;
    ld.global.f32 x, [a];
    mul.f32 x, x, f;
    st.global.f32 [d], x;
    ret;
}
"""
)


def test_arrays_are_updated_in_place_and_scalars_are_passed_by_value() -> None:
    source, result = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    ran = tilec.emulate(COPY, "scale", (4, 1, 1), (32, 1, 1), [source, result, np.float32(3), np.uint32(100)])
    assert result.tolist() == [3.0 * i for i in range(100)]
    assert source.tolist() == list(range(100))
    assert ran.kernel == "scale"
    assert ran.ctas == 4
    # The threads from 100 on leave early: their warp goes on without them.
    assert ran.opcodes["ld.global.f32"] == 4
    assert ran.instructions["ld"] == 4 * 5


def test_python_numbers_take_the_type_of_the_parameter() -> None:
    source, result = np.ones(8, np.float32), np.zeros(8, np.float32)
    tilec.emulate(COPY, None, 1, 8, [source, result, 0.5, 8])
    assert result.tolist() == [0.5] * 8


def test_views_of_one_array_share_memory() -> None:
    memory = np.arange(64, dtype=np.float32)
    tilec.emulate(COPY, None, 1, 32, [memory[:32], memory[16:48], np.float32(-1), np.uint32(16)])
    assert memory[16:32].tolist() == [-float(i) for i in range(16)]
    assert memory[:16].tolist() == list(range(16))
    assert memory[32:].tolist() == list(range(32, 64))


@pytest.mark.parametrize("order", ["fifo", "random", "adversarial"])
def test_columns_of_a_matrix_are_written_where_they_are(order: Any) -> None:
    """A view that is not contiguous stands for the address of its first element."""
    matrix = np.zeros((4, 8), np.float32)
    tilec.emulate(COPY, None, 1, 4, [np.ones(4, np.float32), matrix[:, 2:], 7.0, 4], order=order, seed=3)
    assert matrix[0].tolist() == [0, 0, 7, 7, 7, 7, 0, 0]
    assert not matrix[1:].any()


def test_what_was_written_before_a_fault_is_there() -> None:
    source, result = np.ones(8, np.float32), np.zeros(4, np.float32)
    with pytest.raises(tilec.EmulatorFault) as caught:
        tilec.emulate(COPY, None, 8, 1, [source, result, 2.0, 8], file="scale.ptx")
    assert caught.value.kind is FaultKind.OUT_OF_BOUNDS
    assert result.tolist() == [2.0] * 4
    assert str(caught.value) == (
        "scale.ptx:27:5: error: out of bounds: 4 bytes at address 0x700201000010: the address is 0 bytes behind the end of array "
        "result (16 bytes) (kernel scale, CTA (4, 0, 0), thread (0, 0, 0))\n"
        "    st.global.f32 [d], x;\n"
        "    ^"
    )


def test_a_read_only_array_is_not_written() -> None:
    result = np.zeros(4, np.float32)
    result.flags.writeable = False
    with pytest.raises(tilec.EmulatorFault, match="of array result, which is read-only, are written"):
        tilec.emulate(COPY, None, 1, 4, [np.ones(4, np.float32), result, 2.0, 4])
    assert not result.any()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"kernel": "other"}, "<ptx>:1:1: error: no kernel other in the text; there are: scale\n.version 8.0\n^"),
        ({"order": "lifo"}, "error: order 'lifo': it is one of fifo, random, adversarial"),
        ({"target": "sm_80"}, "error: the emulator knows no target sm_80; it knows sm_90a, sm_100a"),
        ({"block": 1025}, "error: a block of 1025 threads: a CTA has 1 to 1024, at most 64 of them along z"),
        ({"block": (1, 1, 65)}, "error: a block of 65 threads: a CTA has 1 to 1024, at most 64 of them along z"),
        ({"block": 0}, "error: block = 0: it is one to three whole numbers from 1 on, (x, y, z); missing ones are 1"),
        ({"grid": 3, "cluster": 2}, "error: a grid of (3, 1, 1) CTAs is not made of whole clusters of (2, 1, 1)"),
        ({"grid": 32, "cluster": 32}, "error: a cluster of 32 CTAs: there are at most 16"),
        ({"grid": (1, 1, 1, 1)}, "error: grid = (1, 1, 1, 1): it is one to three whole numbers from 0 on"),
        ({"grid": 1.5}, "error: grid = 1.5: it is a whole number, not a float"),
        ({"block": (1, "2")}, "error: block[1] = '2': it is a whole number, not a str"),
        ({"cluster": (1, (2, 3))}, "error: cluster[1] = (2, 3): it is a whole number, not a tuple"),
        ({"grid": (1, 65536)}, "a grid of (1, 65536, 1) CTAs: a device takes at most (2147483647, 65535, 65535)"),
        ({"grid": (65536, 65535)}, "a grid of (65536, 65535, 1) CTAs: the emulator takes at most 16777216 of them"),
        ({"kernel": b"scale"}, "error: the kernel's name is a bytes, not a str\nhint: decode it first"),
        ({"target": 90}, "error: the target is an int, not a str"),
        ({"order": []}, "error: order []: it is one of fifo, random, adversarial"),
        ({"seed": 0.5}, "error: seed = 0.5: it is a whole number, not a float"),
        ({"dynamic_smem": None}, "error: dynamic_smem = None: it is a whole number, not None"),
        ({"args": None}, "error: args is None: it is a list with one argument for each of the kernel's parameters"),
        (
            {"args": [np.zeros(1, ">f4"), None, 1.0, 1]},
            "error: the argument for source is an array of >f4, in the byte order of another machine",
        ),
        (
            {"args": [np.zeros(1, object), None, 1.0, 1]},
            "error: the argument for source is an array of object: a device has no Python objects",
        ),
        ({"args": [None, None, 1.0, 1.5]}, "error: parameter count is .u32, but the argument is 1.5, a float"),
        ({"args": [None, None, 1.0, 1 << 32]}, "error: argument 4294967296 for count does not fit into 4 bytes"),
        ({"args": [None, None, np.str_("x"), 1]}, "error: argument for factor is a NumPy scalar of <U1"),
        (
            {"args": [(1, np.int32(2)), None, 1.0, 1]},
            "error: a member of the structure for source is an int, whose size is unknown\n"
            "hint: pass NumPy scalars, such as np.int32(1), in structures",
        ),
        (
            {"args": []},
            "error: kernel scale has 4 parameters, not 0: source, result, factor, count",
        ),
        (
            {"args": ["a", None, 1.0, 1]},
            "error: argument for source is a str\n"
            "hint: pass NumPy arrays, NumPy scalars, tilec.TensorMap, and tuples of these or bytes for structures",
        ),
        (
            {"args": [None, None, np.float64(1), 1]},
            "error: parameter factor has 4 bytes, but the argument 8",
        ),
        (
            {"dynamic_smem": 232449},
            "error: kernel scale uses 0 bytes of static and 232449 bytes of dynamic shared memory; a CTA of sm_90a has at most 232448",
        ),
    ],
)
def test_refused(changes: dict[str, Any], text: str) -> None:
    arguments: dict[str, Any] = {"kernel": None, "grid": 1, "block": 1, "args": [None, None, 1.0, 0], **changes}
    with pytest.raises(tilec.TilecError) as caught:
        tilec.emulate(COPY, **arguments)
    assert text in str(caught.value)


@pytest.mark.parametrize("text", [COPY.encode(), None, 5])
def test_the_text_is_a_str(text: Any) -> None:
    with pytest.raises(tilec.TilecError, match=r"the PTX is .*, not a str"):
        tilec.emulate(text, "scale", 1, 1, [None, None, 1.0, 0])


def test_whole_numbers_of_any_type_are_taken() -> None:
    source, result = np.ones(8, np.float32), np.zeros(8, np.float32)
    grid, block = np.array([2, 1, 1]), [np.int64(4)]
    arguments = [source, result, 3, np.int16(8)]
    tilec.emulate(COPY, None, grid, block, arguments, cluster=np.int32(2), dynamic_smem=np.int8(4), seed=np.int64(3))  # type: ignore[arg-type]
    assert result.tolist() == [3.0] * 8


@pytest.mark.parametrize(
    ("made_for", "target", "instruction", "text"),
    [
        ("sm_90a", "sm_100a", "wgmma.fence.sync.aligned", "wgmma exists on sm_90a alone, not on sm_100a"),
        ("sm_100a", "sm_90a", "tcgen05.fence::before_thread_sync", "tcgen05 exists on .*, not on sm_90a"),
    ],
)
def test_the_target_decides_which_instructions_there_are(
    made_for: str, target: str, instruction: str, text: str
) -> None:
    kernel = f".version 8.8\n.target {made_for}\n.address_size 64\n.visible .entry k() {{ {instruction}; ret; }}\n"
    tilec.emulate(kernel, None, 1, 128, [])
    with pytest.raises(tilec.UnsupportedInstruction, match=text):
        tilec.emulate(kernel, None, 1, 128, [], target=target)


def test_a_narrow_scalar_keeps_its_value_in_a_wide_parameter() -> None:
    text = HEAD + ".visible .entry k(.param .u64 n, .param .u64 to) { .reg .b64 a, d; ld.param.u64 a, [n]; "
    text += "ld.param.u64 d, [to]; st.global.u64 [d], a; ret; }\n"
    found = np.zeros(1, np.int64)
    tilec.emulate(text, None, 1, 1, [np.int8(-3), found])
    assert found[0] == -3


def test_arrays_over_one_buffer_share_memory_too() -> None:
    """Two arrays that no NumPy array owns: memory is shared where one lies within the other, and refused where they overlap."""
    buffer = bytearray(64 * 4)
    whole = np.frombuffer(buffer, np.float32)
    whole[:] = np.arange(64)
    tilec.emulate(COPY, None, 1, 16, [whole, np.frombuffer(buffer, np.float32, 16, 16 * 4), np.float32(-1), 16])
    assert whole[16:32].tolist() == [-float(i) for i in range(16)]
    halves = [np.frombuffer(buffer, np.float32, 32, start * 4) for start in (0, 16)]
    with pytest.raises(
        tilec.TilecError, match="for result shares memory with the one for source, but they are not views"
    ):
        tilec.emulate(COPY, None, 1, 16, [*halves, np.float32(-1), 16])


def test_several_kernels_need_a_name() -> None:
    text = COPY + ".visible .entry other() { ret; }\n"
    with pytest.raises(tilec.TilecError, match="the text has 2 kernels: scale, other"):
        tilec.emulate(text, None, 1, 1, [])
    assert tilec.emulate(text, "other", 2, 1, []).ctas == 2


def test_an_empty_grid_runs_nothing() -> None:
    assert tilec.emulate(COPY, None, 0, 1, [None, None, 1.0, 0]).ctas == 0


def test_directives_of_the_kernel_are_respected() -> None:
    text = HEAD + ".visible .entry k() .reqntid 64 .reqnctapercluster 2 { ret; }\n"
    with pytest.raises(
        tilec.TilecError, match=r"kernel k requires blocks of \(64, 1, 1\) threads \(\.reqntid\), not \(32, 1, 1\)"
    ):
        tilec.emulate(text, None, 2, 32, [])
    assert tilec.emulate(text, None, 4, 64, []).ctas == 4


def test_a_structure_is_a_tuple_or_bytes() -> None:
    text = (
        HEAD
        + """
.visible .entry k(.param .align 8 .b8 s[24])
{
    .reg .b32 a, b;
    .reg .b64 d;
    ld.param.u32 a, [s];
    ld.param.u64 d, [s+8];
    ld.param.u16 b, [s+16];
    st.global.v2.u32 [d], {a, b};
    ret;
}
"""
    )
    found = np.zeros(2, np.uint32)
    tilec.emulate(text, None, 1, 1, [(np.uint32(5), found, np.uint16(7))])
    assert found.tolist() == [5, 7]


def test_an_unknown_instruction_stops_when_it_is_reached() -> None:
    text = (
        HEAD
        + """
.visible .entry k(.param .u32 n)
{
    .reg .pred p;
    .reg .b32 a;
    ld.param.u32 a, [n];
    setp.eq.u32 p, a, 0;
    @p ret;
    popc.frobnicated.b32 a, a;
    ret;
}
"""
    )
    tilec.emulate(text, None, 1, 1, [0])
    with pytest.raises(tilec.UnsupportedInstruction) as caught:
        tilec.emulate(text, None, 1, 1, [1], file="k.ptx")
    assert str(caught.value) == (
        "k.ptx:12:5: error: the emulator does not know .frobnicated here: popc.frobnicated.b32\n"
        "    popc.frobnicated.b32 a, a;\n"
        "    ^\n"
        "hint: docs/emulator.md lists the forms that it executes"
    )


def test_forgotten_dynamic_shared_memory_is_hinted_at() -> None:
    text = (
        HEAD
        + """
.extern .shared .align 16 .b8 dynamic[];
.visible .entry k()
{
    .reg .b32 a;
    mov.u32 a, 5;
    st.shared.u32 [dynamic+16], a;
    ret;
}
"""
    )
    tilec.emulate(text, None, 1, 1, [], dynamic_smem=32)
    with pytest.raises(tilec.EmulatorFault) as caught:
        tilec.emulate(text, None, 1, 1, [], file="k.ptx")
    assert str(caught.value) == (
        "k.ptx:10:5: error: out of bounds: 4 bytes at address 0x410: the address is 16 bytes behind the end of shared memory (1024 "
        "bytes) (kernel k, CTA (0, 0, 0), thread (0, 0, 0))\n"
        "    st.shared.u32 [dynamic+16], a;\n"
        "    ^\n"
        "hint: the kernel declares dynamic shared memory (.extern .shared), and the launch gives it dynamic_smem = 0"
    )


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("mov.b32 a, !p;", "the negated predicate p is no .b32"),
        ("mov.b64 d, {};", "0 elements do not make a .b64"),
        ("mov.b64 {}, d;", "0 elements do not take a .b64"),
        ("popc.b32 {}, a;", "0 elements do not take a .u32"),
    ],
)
def test_operands_that_do_not_fit_stop_by_name(statement: str, why: str) -> None:
    text = HEAD + f".visible .entry k() {{ .reg .pred p; .reg .b32 a; .reg .b64 d; {statement} ret; }}\n"
    with pytest.raises(tilec.UnsupportedInstruction) as caught:
        tilec.emulate(text, None, 1, 1, [])
    assert caught.value.diagnostic.location is not None
    assert why in str(caught.value)
