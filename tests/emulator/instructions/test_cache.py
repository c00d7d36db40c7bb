"""Hints to caches change nothing; `discard` leaves nothing that a program may rely on."""

from __future__ import annotations

import numpy as np
import pytest
from memory_kernels import fault, refused, run

from tilec.backend.emulator.faults import FaultKind

PRIORITIES = ("evict_last", "evict_normal", "evict_first", "evict_unchanged")


@pytest.mark.parametrize(
    "hint",
    [
        *(f"prefetch{space}.{level} [%a];" for space in ("", ".global", ".local") for level in ("L1", "L2")),
        "prefetch.global.L2::evict_last [%a];",
        "prefetch.global.L2::evict_normal [%a+64];",
        "prefetchu.L1 [%a];",
        "prefetch.tensormap [%x0];",
        "prefetch.param.tensormap [in_a];",
        "prefetch.const.tensormap [%x0];",
        "prefetch.global.L1 [%x0];",
        "applypriority.global.L2::evict_normal [%a], 128;",
        "applypriority.L2::evict_normal [%a+128], 128;",
        *(f"createpolicy.fractional.L2::{p}.b64 %x1;" for p in PRIORITIES),
        "createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %x1, 0.25;",
        "createpolicy.fractional.L2::evict_first.L2::evict_first.b64 %x1, %f0;",
        "createpolicy.range.L2::evict_last.L2::evict_first.b64 %x1, [%a], 0x100000, 0x200000;",
        "createpolicy.range.global.L2::evict_normal.b64 %x1, [%a], %r0, %r1;",
        "createpolicy.cvt.L2.b64 %x1, %x0;",
    ],
)
def test_hints_change_no_memory(hint: str) -> None:
    array = np.arange(64, dtype=np.uint32)
    run(f"mov.u64 %x0, 0;\n {hint}\n st.global.u32 [%a], 99;", [array])
    assert array.tolist() == [99, *range(1, 64)]


@pytest.mark.parametrize("form", ["discard.global.L2", "discard.L2"])
def test_discarded_bytes_are_not_what_they_were(form: str) -> None:
    array = np.zeros(96, np.uint32)
    run(f"{form} [%a+128], 128;", [array])
    assert array[32:64].all()
    assert not array[:32].any() and not array[64:].any()


def test_discarded_lines_are_whole() -> None:
    text = fault("discard.global.L2 [%a+64], 128; // here", [np.zeros(96, np.uint32)], FaultKind.MISALIGNED)
    assert text == "discard of 128 bytes at address 0x700001000040: the address is 64 bytes behind a multiple of 128"
    text = fault("discard.global.L2 [%a+256], 128; // here", [np.zeros(80, np.uint32)], FaultKind.OUT_OF_BOUNDS)
    assert text == "1 bytes at address 0x70000100017f: the address is 63 bytes behind the end of array in_a (320 bytes)"


@pytest.mark.parametrize(
    ("instruction", "why"),
    [
        ("prefetch.global [%a];", "no level of cache: prefetch.global"),
        ("applypriority.global.L2::evict_normal [%a], 64;", "the size is 128: applypriority.global.L2::evict_normal"),
        ("discard.global.L1 [%a], 128;", "the level is .L2: discard.global.L1"),
        ("createpolicy.fractional.b64 %x0;", "no primary priority: createpolicy.fractional.b64"),
        (
            "createpolicy.fractional.L2::evict_last.b32 %r0;",
            "a policy is .b64: createpolicy.fractional.L2::evict_last.b32",
        ),
    ],
)
def test_forms_that_do_not_exist(instruction: str, why: str) -> None:
    assert refused(instruction) == why
