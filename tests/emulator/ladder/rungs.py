"""Kernels of the ladder on the emulator: every example and every pipeline, on shapes where schedules break, in every order.

A `Rung` is one compiled kernel, one shape and one order of the emulator's events. `covering` picks few of the many: for each
two choices of different axes there is a rung that has both.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import combinations, product
from pathlib import Path

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tilec.backend import reference
from tilec.backend.emulator.launch import OrderName
from tilec.backend.protocol.inputs import integer_inputs
from tilec.backend.reference import Array
from tilec.backend.reference.arguments import is_written
from tilec.backend.runtime.arguments import Argument, Facts, place
from tilec.diagnostics import collect
from tilec.dialects.tile import KernelOp, ViewType
from tilec.driver import compile_module, find_kernel
from tilec.emulation import emulate_kernel
from tilec.source import parse_file
from tilec.variants import specialised

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
BY_HAND = ("step4_tma", "step5_pipeline", "step6_persistent")
"""Examples that are written with their schedule."""

SHAPES = {
    "128x128x64": (128, 128, 64),
    "256x128x192": (256, 128, 192),
    "64x64x16": (64, 64, 16),
    "200x136x72": (200, 136, 72),
    "300x264x520": (300, 264, 520),
    "129x65x37": (129, 65, 37),
    "K=8": (136, 128, 8),
    "K=0": (128, 136, 0),
    "M=0": (0, 128, 64),
}
"""M, N, K; the rows of 129x65x37 are not multiples of 16 bytes, so that threads copy."""
ORDERS: dict[str, tuple[OrderName, int]] = {
    "fifo": ("fifo", 0),
    "random 1": ("random", 1),
    "random 2": ("random", 2),
    "random 3": ("random", 3),
    "adversarial": ("adversarial", 1),
}
LOADS = ("threads", "tma", *(f"tma,pipeline({depth})" for depth in range(1, 6)), "tma,pipeline(3, lag=0)")
AXES: dict[str, tuple[str, ...]] = {
    "program": ("gemm", "bias_relu", *BY_HAND),
    "target": ("sm_90a", "sm_100a"),
    "shape": tuple(SHAPES),
    "load": LOADS,
    "persistent": ("", "persistent", "persistent(group=2)"),
    "majors": ("K K", "MN K", "K MN", "MN MN"),
    "order": tuple(ORDERS),
}


@dataclass(frozen=True)
class Rung:
    """One choice of each axis; `majors` are those of A and B."""

    program: str
    target: str
    shape: str
    load: str
    persistent: str
    majors: str
    order: str

    @property
    def name(self) -> str:
        return " ".join(value for value in asdict(self).values() if value)

    @property
    def pipeline(self) -> str:
        """What the passes are asked for; nothing for a program that is written with its schedule."""
        return "" if self.program in BY_HAND else ",".join(one for one in (self.load, self.persistent) if one)

    def legal(self) -> bool:
        """A program by hand has one schedule, and the layout that its copies were written for."""
        if self.program not in BY_HAND:
            return True
        plain = self.load == "threads" and not self.persistent and self.majors == "K K"
        return plain and self.shape != "129x65x37"


def covering(seed: int, most: int = 200) -> list[Rung]:
    """Rungs such that each pair of choices that some legal rung has is in one of them: greedy, from random candidates."""
    draw = random.Random(seed)
    names = [f.name for f in fields(Rung)]
    every = [Rung(*values) for values in product(*AXES.values())]
    legal = [rung for rung in every if rung.legal()]
    pairs = {pair for rung in legal for pair in _pairs(rung, names)}
    found: list[Rung] = []
    while pairs and len(found) < most:
        # A pair that is left decides some of the rung, so that no round is in vain.
        wanted = min(pairs) if len(found) % 2 else draw.choice(sorted(pairs))
        fitting = [rung for rung in draw.sample(legal, 400) if wanted in _pairs(rung, names)]
        fitting = fitting or [next(rung for rung in legal if wanted in _pairs(rung, names))]
        best = max(fitting, key=lambda rung: len(_pairs(rung, names) & pairs))
        found.append(best)
        pairs -= _pairs(best, names)
    assert not pairs, f"{len(pairs)} pairs are left after {most} rungs"
    return found


def _pairs(rung: Rung, names: Sequence[str]) -> set[tuple[tuple[str, str], tuple[str, str]]]:
    values = [(name, str(getattr(rung, name))) for name in names]
    return set(combinations(values, 2))


def every_depth_and_order() -> Iterator[Rung]:
    """All ways of loading in all orders, plain and persistent, for both targets, on three shapes."""
    for target, shape, load, last, order in product(
        AXES["target"], ("128x128x64", "200x136x72", "K=0"), LOADS, ("", "persistent"), ORDERS
    ):
        yield Rung("gemm", target, shape, load, last, "K K", order)


def climb(rung: Rung) -> None:
    """Compile and emulate a rung. Raises AssertionError where its results are not those of the synchronous program to the
    last bit, and EmulatorFault where the kernel breaks a rule."""
    m, n, k = SHAPES[rung.shape]
    extents = {"M": m, "N": n, "K": k}
    module, arrays = _specialise(parse_file(EXAMPLES / f"{rung.program}.tile"), rung, extents)
    program = parse_file(EXAMPLES / "gemm.tile") if rung.program in BY_HAND else module
    wanted = [array.copy(order="K") for array in arrays]
    reference.run(program, wanted)
    with collect():
        compiled = compile_module(module, pipeline=rung.pipeline, target=rung.target, emit="ptx")
        abi, ptx = compiled.abi, compiled.ptx
    # Few CTAs: going from one tile to the next is where errors hide.
    most = 2 if abi.grid is not None and abi.grid.persistent else None
    order, seed = ORDERS[rung.order]
    emulate_kernel(abi, ptx, arrays, max_ctas=most, order=order, seed=seed, file=f"{rung.name}.ptx")
    for argument, found, right in zip(find_kernel(module).body.block.args, arrays, wanted, strict=True):
        if is_written(argument):
            wrong = np.argwhere(found != right)
            assert not len(wrong), f"{len(wrong)} of {found.size} elements are wrong, the first at {wrong[0]}"


def _specialise(module: ModuleOp, rung: Rung, extents: Mapping[str, int]) -> tuple[ModuleOp, list[Array]]:
    """The variant that a launch takes for the arrays of this rung, and those arrays."""
    kernel = find_kernel(module)
    if rung.program in BY_HAND:
        return module, integer_inputs(kernel, extents)
    orders = [v.order for v in kernel.views]
    for at, major in enumerate(rung.majors.split()):
        orders[at] = (1, 0) if major == "K" else (0, 1)
    module = specialised(module, [Facts(order, 16, "grid") for order in orders])
    kernel = find_kernel(module)
    arrays = integer_inputs(kernel, extents)
    facts = [_facts(kernel, at, view, array) for at, (view, array) in enumerate(zip(kernel.views, arrays, strict=True))]
    return specialised(module, facts), arrays


def _facts(kernel: KernelOp, at: int, view: ViewType, array: Array) -> Facts:
    argument = Argument(0, array.shape, array.strides, view.dtype.name, 0)
    return place(f"argument {at}", argument, view.order).facts
