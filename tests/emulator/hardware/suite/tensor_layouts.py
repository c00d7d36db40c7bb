"""Where boxes land: swizzles, boxes narrower than their span, element strides."""

from __future__ import annotations

from math import prod

import numpy as np

from suite.cases import Case
from suite.kernels import Body, case
from suite.steps import barrier, pause, wait
from suite.tensors import BLOCK, Tensor, load, rounded, store


def cases() -> list[Case]:
    return [*_swizzles(), *_narrow(), *_element_strides()]


def _swizzles() -> list[Case]:
    built: list[Case] = []
    for swizzle, span in (("32B", 32), ("64B", 64), ("128B", 128)):
        for dtype in ("u1", "u2", "f4", "u8"):
            inner = span // np.dtype(dtype).itemsize
            built.append(
                load(
                    f"load_swizzle_{swizzle}_{dtype}",
                    Tensor(dtype, (24, 2 * inner), (16, inner), swizzle),
                    [(0, 0), (inner // 2, 10)],
                )
            )
        for offset in (128, 256, 512, 640):
            built.append(
                load(
                    f"load_swizzle_{swizzle}_at_{offset}",
                    Tensor("u2", (24, span), (8, span // 2), swizzle),
                    [(0, 0)],
                    offset=offset,
                )
            )
        built.append(
            load(
                f"load_swizzle_{swizzle}_3d",
                Tensor("u2", (4, 6, span // 2), (3, 5, span // 2), swizzle),
                [(0, 0, 0), (0, 2, 2)],
            )
        )
        built.append(
            store(
                f"store_swizzle_{swizzle}", Tensor("u2", (20, span), (16, span // 2), swizzle), [(0, 0), (span // 2, 8)]
            )
        )
        built.append(
            store(
                f"store_swizzle_{swizzle}_at_128",
                Tensor("u2", (20, span), (8, span // 2), swizzle),
                [(0, 3)],
                offset=128,
            )
        )
    for swizzle in ("128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B"):
        for dtype in ("u2", "f4"):
            inner = 128 // np.dtype(dtype).itemsize
            built.append(
                load(
                    f"load_swizzle_{swizzle}_{dtype}",
                    Tensor(dtype, (20, inner), (16, inner), swizzle),
                    [(0, 0), (0, 9)],
                    family="tensor_atoms",
                )
            )
        built.append(
            store(
                f"store_swizzle_{swizzle}", Tensor("u2", (20, 64), (16, 64), swizzle), [(0, 0)], family="tensor_atoms"
            )
        )
    return built


def _narrow() -> list[Case]:
    """Boxes narrower than the span of the swizzle."""
    built: list[Case] = []
    for swizzle, widths in (("128B", (16, 32, 48, 64, 96, 112)), ("64B", (16, 32, 48)), ("32B", (16,))):
        for width in widths:
            tensor = Tensor("u2", (24, 64), (10, width // 2), swizzle)
            built.append(
                load(f"load_narrow_{swizzle}_{width}", tensor, [(0, 0), (8, 3)], room=10 * 128, family="tensor_narrow")
            )
            built.append(
                store(f"store_narrow_{swizzle}_{width}", tensor, [(0, 0)], room=10 * 128, family="tensor_narrow")
            )
    for width in (48, 80):
        tensor = Tensor("u1", (3, 12, 80), (2, 5, width))
        built.append(load(f"load_width_{width}", tensor, [(0, 0, 0), (16, 3, 1)], family="tensor_narrow"))
    return built


def _element_strides() -> list[Case]:
    """Which elements come, and which byte count completes the phase."""
    built: list[Case] = []
    for name, tensor in (
        ("outer_2", Tensor("u2", (40, 64), (8, 32), element_strides=(2, 1))),
        ("outer_3", Tensor("u2", (40, 64), (8, 32), element_strides=(3, 1))),
        ("inner_2", Tensor("u2", (40, 64), (8, 32), element_strides=(1, 2))),
        ("both", Tensor("u4", (40, 64), (9, 16), element_strides=(4, 2))),
        ("middle", Tensor("u1", (6, 12, 32), (2, 7, 32), element_strides=(1, 2, 1))),
        ("outermost", Tensor("u1", (9, 6, 32), (5, 3, 32), element_strides=(2, 1, 1))),
        ("swizzled", Tensor("u2", (40, 64), (16, 32), "64B", element_strides=(2, 1))),
    ):
        rank = len(tensor.box)
        starts = [(0,) * rank, (0, *range(1, rank)), (16, *range(7, 6 + rank))]
        room = prod(tensor.box) * np.dtype(tensor.dtype).itemsize
        family = "tensor_element_strides"
        built.append(load(f"load_element_strides_{name}", tensor, starts, room=room, family=family))
        built.append(store(f"store_element_strides_{name}", tensor, starts[:1], room=room, family=family))
        built += _guesses(f"bytes_{name}", tensor)
    return built


def _guesses(name: str, tensor: Tensor) -> list[Case]:
    """A kernel for each byte count that may be right."""
    assert tensor.element_strides is not None
    full = prod(tensor.box) * np.dtype(tensor.dtype).itemsize
    inner = -(-tensor.box[-1] // tensor.element_strides[-1])
    row = tensor.box_bytes // tensor.box[-1]
    guesses = {full, tensor.box_bytes, row * inner, full // tensor.box[-1] * inner}
    return [_guess(f"{name}_{guess}", tensor, guess, rounded(full)) for guess in sorted(guesses)]


def _guess(name: str, tensor: Tensor, guess: int, room: int) -> Case:
    """Whether a phase that expects `guess` bytes completes: 0 if so, 1 if not.

    The pending arrival holds the phase open until the copy has certainly ended; then the phase completes exactly if the
    announced bytes were right.
    """
    rank = len(tensor.box)
    body = Body(BLOCK)
    body(f".shared .align 1024 .b8 tile[{room}];", ".shared .align 8 .b64 bar;", "mov.u32 r1, tile;")
    spelling = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    barrier(body, "bar")
    body(f"@p29 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], {guess};")
    body(f"@p29 {spelling} [r1], [tensor, {{{', '.join('0' * rank)}}}], [bar];")
    pause(body)
    body("@p29 mbarrier.arrive.shared::cta.b64 _, [bar];", "bar.sync 0;")
    wait(body, "bar", 0)
    body.out("r301")
    return case(name, "tensor_bytes", body, [tensor.input()], block=BLOCK)
