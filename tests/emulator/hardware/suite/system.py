"""What changes no result: register budgets, grid dependencies, hints, fences; counters that only have to move."""

from __future__ import annotations

import numpy as np

from suite.cases import Case
from suite.kernels import Body, case, words


def cases() -> list[Case]:
    return [_registers(), _dependencies(), _hints(), _clocks(), _grid()]


def _registers() -> Case:
    body = Body(256)
    body("mad.wide.u32 q0, index, 4, data;", "ld.global.u32 r0, [q0];", "setp.ge.u32 p0, tid, 128;", "@p0 bra second;")
    body("setmaxnreg.dec.sync.aligned.u32 40;", "mad.lo.u32 r0, r0, 5, 1;", "bra together;")
    body("second:", "setmaxnreg.inc.sync.aligned.u32 120;", "mad.lo.u32 r0, r0, 7, 2;", "together:", "bar.sync 0;")
    body.out("r0")
    limits = " .reqntid 256, 1, 1 .minnctapersm 1"
    return case("register_budgets", "system", body, [("ptr data", words(256))], block=256, limits=limits)


def _dependencies() -> Case:
    body = Body(64)
    body(
        "griddepcontrol.wait;",
        "mad.wide.u32 q0, index, 4, data;",
        "ld.global.u32 r0, [q0];",
        "griddepcontrol.launch_dependents;",
        "not.b32 r0, r0;",
    )
    body.out("r0")
    return case("grid_dependencies", "system", body, [("ptr data", words(64))], block=32, grid=2)


def _hints() -> Case:
    body = Body(64)
    body("mad.wide.u32 q0, index, 4, data;", "and.b64 q1, q0, -128;", "nanosleep.u32 20;", "pmevent 3;")
    body(
        "createpolicy.range.global.L2::evict_last.L2::evict_first.b64 q2, [q1], 128, 256;",
        "ld.global.L2::cache_hint.u32 r0, [q0], q2;",
    )
    body(
        "applypriority.global.L2::evict_normal [q1], 128;",
        "fence.proxy.async;",
        "fence.proxy.async.global;",
        "membar.cta;",
        "membar.sys;",
        "fence.acq_rel.sys;",
    )
    body("prefetch.global.L1 [q0];")
    body.out("r0")
    return case("hints", "system", body, [("ptr data", words(64))], block=64)


def _clocks() -> Case:
    """Counters do not run backwards."""
    body = Body(32)
    body(
        "mov.u64 q0, %clock64;",
        "mov.u32 r0, %clock_hi;",
        "mov.u64 q1, %globaltimer;",
        "nanosleep.u32 100;",
        "mov.u64 q2, %clock64;",
        "mov.u64 q3, %globaltimer;",
    )
    body(
        "setp.le.u64 p0, q0, q2;",
        "setp.le.u64 p1, q1, q3;",
        "mov.u32 r1, %smid;",
        "mov.u32 r2, %nsmid;",
        "setp.lt.u32 p2, r1, r2;",
    )
    body(
        "mov.u32 r3, %warpid;",
        "mov.u32 r4, %nwarpid;",
        "setp.lt.u32 p3, r3, r4;",
        "mov.u64 q4, %gridid;",
        "mov.u32 r5, %envreg0;",
    )
    body.outp("p0", "p1", "p2", "p3")
    return case("clocks", "system", body, block=32)


def _grid() -> Case:
    """CTAs count themselves with one atomic: the total is certain, the order is not."""
    body = Body(8 * 32)
    body(
        "setp.eq.u32 p0, tid, 0;",
        "@p0 atom.global.add.u32 r1, [total], 1;",
        "red.global.add.u32 [total+4], index;",
        "red.global.max.u32 [total+8], index;",
    )
    body.out("index")
    return case("grid_totals", "system", body, [("ptr total", lambda rng: np.zeros(4, np.uint32))], block=32, grid=8)
