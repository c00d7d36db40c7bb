"""Im2col accesses: the pixels that one access walks over (PTX 5.5.4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilec.backend.emulator.tma.box import STORE_UNIT, Box
from tilec.backend.emulator.tma.descriptor import Descriptor, dimension

_OFFSET_BITS = {3: 16, 4: 8, 5: 5}
"""By rank, of the im2col offsets."""


def outside_bounding_box(d: Descriptor, start: Sequence[int], offsets: Sequence[int]) -> str | None:
    """What is wrong with the coordinates and offsets of an access; None if nothing is."""
    im2col = d.im2col
    assert im2col is not None
    for i in range(d.rank - 2):
        low, end = im2col.lower[i], d.dims[i + 1] + im2col.upper[i]
        if not low <= start[i + 1] < end:
            return (
                f"coordinate {start[i + 1]} along {dimension(i + 1)} is outside of the bounding box, {low} to {end - 1}"
            )
    most = (1 << _OFFSET_BITS[d.rank]) - 1
    if offsets and max(offsets) > most:
        return f"im2col offsets {', '.join(map(str, offsets))}: with rank {d.rank} they are 0 to {most}"
    return None


def columns(d: Descriptor, start: Sequence[int], offsets: Sequence[int], *, stored: bool) -> Iterator[Box]:
    """The pixels of an access as boxes, a run along W each.

    The filter's base starts at (w, h, d, n) of `start` and walks through the bounding box, W first, then H and D, by the element
    strides, and on into the next image; `offsets` move each pixel from it. Channels are those from `start[0]` on.
    """
    im2col = d.im2col
    assert im2col is not None
    inner = d.rank - 2
    moved = (*offsets, 0, 0, 0)[:inner]
    lower = im2col.lower[:inner]
    end = [d.dims[i + 1] + im2col.upper[i] for i in range(inner)]
    base = list(start[1 : 1 + inner])
    image, row = start[-1], 0
    width = d.bytes_of(im2col.channels)
    origin = d.bytes_of(start[0])
    reach = d.bytes_of(d.dims[0]) - origin
    if stored:
        reach = -(-reach // STORE_UNIT) * STORE_UNIT
    first, last = max(0, -origin), min(width, reach)
    step = d.element_strides[1]
    while row < im2col.pixels:
        run = min(im2col.pixels - row, max(1, -(-(end[0] - base[0]) // step)))
        at = [b + m for b, m in zip(base, moved, strict=True)]
        outer = [*at[1:], image]
        exists = all(0 <= c < d.dims[i + 2] for i, c in enumerate(outer))
        low = min(run, max(0, -(at[0] // step))) if exists else run
        high = max(low, min(run, -(-(d.dims[1] - at[0]) // step)))
        address = d.address + origin + first + (at[0] + low * step) * d.stride(1)
        address += sum(c * d.stride(i + 2) for i, c in enumerate(outer))
        yield Box((run, width), (low, first), (high, last), address, (step * d.stride(1), 1), row)
        row += run
        base[0] = lower[0]
        for i in range(1, inner):
            base[i] += d.element_strides[i + 1]
            if base[i] < end[i]:
                break
            base[i] = lower[i]
        else:
            image += 1
