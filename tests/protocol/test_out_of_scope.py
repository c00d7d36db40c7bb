"""What the proof leaves to the simulator, each with its reason and its place."""

from __future__ import annotations

import pytest

from tilec.backend.kernels import find_kernel
from tilec.backend.protocol.exploration import Unproved, explore
from tilec.diagnostics import location_of
from tilec.source import parse_text

_HEAD = """tile.kernel @f(%A: !tile.view<MxKxf16>, %D: !tile.view<MxKxf16>) {
  %a = tile.alloc : !tile.ring<2 x !tile.smem<64x64xf16, swizzle = 128>>
  %acc = tile.alloc : !tile.acc<64x64xf32>
  %full = tile.mbarrier.init count 1 : !tile.mbarrier<2>
  tile.cta_sync
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %p0 = arith.constant 0 : i32
  %true = arith.constant true
  %K = tile.dim %A, 1
  %M = tile.dim %A, 0
"""
_LOAD = """      tile.single_thread {
        tile.mbarrier.arrive.expect_tx %full[%c0], 8192
        tile.copy_async %A[%c0, %c0] to %t dispatch tma signal %full[%c0]
      }
"""

_CASES = {
    "stage": (
        "  %s = arith.minui %K, %c1 : index\n  %t = tile.slot %a[%s]\n",
        "the stage of a ring depends on more than its depth",
    ),
    "phase": (
        "  %t = tile.slot %a[%c0]\n" + _LOAD + "  %q = arith.muli %K, %K : index\n"
        "  %phase = arith.index_cast %q : index to i32\n  tile.mbarrier.try_wait %full[%c0], %phase\n",
        "the phase of a wait is not known",
    ),
    "step": (
        "  scf.for %i = %c0 to %K step %M {\n    tile.cta_sync\n  }\n",
        "a loop whose step is not a positive constant",
    ),
    "storage": (
        "  scf.for %i = %c0 to %K step %c1 {\n    %b = tile.alloc : !tile.smem<64x64xf16, swizzle = 128>\n  }\n",
        "storage that is set up in a loop or a condition",
    ),
    "operation": (
        "  %x = arith.shrsi %K, %c1 : index\n",
        "arith.shrsi is not an operation of an asynchronous kernel",
    ),
    "assumptions": (
        "  tile.assume %A dim 1 step 64 multiple 2\n  tile.assume %A dim 1 step 64 multiple 3\n",
        "two assumptions of one extent",
    ),
    "schedulers": (
        "  %v, %m, %n = tile.schedule %c0 over %D step (64, 64) group 8\n"
        "  %w, %i, %j = tile.schedule %c0 over %D step (64, 128) group 8\n",
        "two tile schedulers in one kernel",
    ),
    "roles": (
        '  tile.roles {\n    tile.role "load" {\n    }\n  }\n',
        "warp roles: the proof follows one control flow",
    ),
    "end": (
        "  %r = scf.while (%x = %K) : (index) -> (index) {\n    %go = arith.cmpi ne, %x, %c0 : index\n"
        "    scf.condition(%go) %x : index\n  } do {\n  ^bb0(%x: index):\n    %h = arith.divui %x, %c64 : index\n"
        "    scf.yield %h : index\n  }\n",
        "a loop of which it is not known that it ends",
    ),
}


@pytest.mark.parametrize("case", _CASES)
def test_reasons(case: str) -> None:
    body, reason = _CASES[case]
    kernel = find_kernel(parse_text(_HEAD + body + "}\n"), None)
    found = explore(kernel)
    assert isinstance(found, Unproved)
    assert found.reason == reason
    location = location_of(found.op)
    assert location is not None and location.line > _HEAD.count("\n")
