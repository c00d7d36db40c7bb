"""The contract's tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tilec.design.blocks import Block, Bullets, Code, Heading, Pairs, Paragraph, counted, grid, listed
from tilec.design.turns import MOST_K_TILES

if TYPE_CHECKING:
    from tilec.design.depths import Depths
    from tilec.design.descriptors import Descriptor
    from tilec.design.protocols import Step
    from tilec.design.report import Contract
    from tilec.design.rings import Barrier, Ring, Signal
    from tilec.design.turns import Phases, Turns


def contract(made: Contract) -> Iterator[Block]:
    """All parts of it, in order."""
    for one in made.descriptors:
        yield from _descriptor(one)
    if not made.descriptors:
        yield Paragraph("No tensor maps: the threads copy everything.")
    if made.issue:
        yield Heading("Issue and consumption", 3)
        yield grid(
            ("tile", "", "engine", "issued by", "issue scope", "consumed by", "consumption scope"),
            (
                (one.tile, one.direction, one.engine, one.issuer, one.issue_scope, one.consumer, one.consumption_scope)
                for one in made.issue
            ),
        )
    if made.load_protocol:
        yield Heading("Load protocol", 3)
        yield _steps(made.load_protocol)
        yield Bullets(
            tuple(
                dict.fromkeys(
                    f"{one.barrier}: {one.announced} bytes announced, {one.brought} brought"
                    f"{'' if one.holds else ': WRONG'}{f' (line {one.line})' if one.line else ''}"
                    for one in made.budgets
                )
            )
        )
    if made.store_protocol:
        yield Heading("Store protocol", 3)
        yield _steps(made.store_protocol)
    for ring in made.rings:
        yield from _ring(ring)
    for barrier in made.barriers:
        yield from _barrier(barrier)
    for number, phases in enumerate(made.schedule):
        yield from _phases(phases, full=number == 0)
    yield from _depths(made.depths)


def _descriptor(one: Descriptor) -> Iterator[Block]:
    names = f"{one.view} -> {one.tile}" if one.direction == "load" else f"{one.tile} -> {one.view}"
    yield Heading(f"Descriptor {names} ({one.direction}, {listed(one.lines)})", 3)
    rows = [
        ("global shape", f"{_tuple(one.global_shape)} of {one.dtype}, {one.element_bytes} bytes each, fastest first"),
        ("global strides", f"{_tuple(one.global_strides)} bytes"),
    ]
    if one.concrete is not None:
        numbers = one.concrete
        rows += [
            ("with this shape", f"{_tuple(numbers.extents)}, strides {_tuple(numbers.strides)}: {numbers.bytes} bytes"),
            (
                "tiles",
                f"{' x '.join(map(str, numbers.tiles))}; the last hangs over by {_tuple(numbers.overhang)} elements",
            ),
        ]
    rows.append(("box", f"{' x '.join(map(str, one.box))} elements, {one.box_bytes} bytes"))
    if len(one.boxes) > 1:
        places = ", ".join(f"{_tuple(box[:-1])} to +{box[-1]}" for box in one.boxes)
        rows.append(("boxes a tile", f"{len(one.boxes)}: {places}"))
    rows += [
        ("coordinates", " or ".join(one.coordinates)),
        ("boundary", one.boundary),
        ("swizzle", "none" if one.swizzle == 16 else f"{one.swizzle} bytes"),
        ("in the launch", {True: "this map", False: "ANOTHER MAP", None: "not lowered"}[one.in_abi]),
        ("shared memory", one.address.layout),
    ]
    yield Pairs(tuple(rows))
    yield Code(one.address.formula)
    yield Paragraph(
        "Addresses are offsets from the start of dynamic shared memory, elements are "
        f"{'(row, column)' if len(one.address.examples[0].coordinates) == 2 else '(index)'} of the tile."
    )
    yield grid(
        ("element", "stage", "address"),
        (
            (_tuple(example.coordinates), str(example.stage), _address(example.address))
            for example in one.address.examples
        ),
        numbers=(1, 2),
    )


def _address(address: int | None) -> str:
    return "unknown" if address is None else f"{address:#x}"


def _tuple(values: Sequence[object]) -> str:
    return f"({', '.join(map(str, values))})"


def _steps(steps: Sequence[Step]) -> Block:
    return grid(
        ("", "step", "by", "lines"),
        ((str(i), one.what, one.by, ", ".join(map(str, one.lines))) for i, one in enumerate(steps, 1)),
    )


def _ring(ring: Ring) -> Iterator[Block]:
    names = ", ".join(tile.name for tile in ring.tiles)
    kind = f"Ring of {counted(ring.depth, 'stage')}" if ring.depth > 1 else "One stage"
    yield Heading(f"{kind}: {names}", 3)
    tiles = ", ".join(
        f"{tile.name} {tile.bytes}{'' if tile.base is None else f' from {tile.base:#x} on'}" for tile in ring.tiles
    )
    rows = [
        ("bytes a stage", f"{ring.bytes_per_stage} ({tiles})"),
        ("bytes", f"{ring.bytes}"),
        ("ready", "; ".join(map(_signal, ring.ready)) or "nobody reads it"),
        ("free", "; ".join(map(_signal, ring.free)) or "filled once, never refilled"),
    ]
    yield Pairs(tuple(rows))


def _signal(signal: Signal) -> str:
    order = f", {', '.join(signal.order)}" if signal.order else ""
    return f"{signal.signal}: {signal.producer} to {signal.consumer}{order}"


def _barrier(one: Barrier) -> Iterator[Block]:
    yield Heading(f"Barrier {one.name}[{one.stages}]", 3)
    announced = f" and {' or '.join(map(str, one.announced_bytes))} bytes" if one.announced_bytes else ""
    yield Pairs(
        (
            ("producer", _who(one.producers, one.arrival_lines)),
            ("consumer", _who(one.consumers, one.wait_lines)),
            ("a round", f"{counted(one.arrivals, 'arrival')}{announced}"),
            ("first wait", "none" if one.initial_phase is None else f"parity {one.initial_phase}"),
            ("phase", " / ".join(one.phase) or "nobody waits"),
            ("becomes", one.becomes),
        )
    )


def _who(names: Sequence[str], lines: Sequence[int]) -> str:
    return f"{'; '.join(names) or 'nobody'}{f' ({listed(lines)})' if lines else ''}"


# ---- the three phases


def _phases(made: Phases, *, full: bool) -> Iterator[Block]:
    """`full`: also what follows the last turn."""
    looped = made.k_tiles is not None
    tiles = f"with {counted(made.k_tiles, 'K tile')}" if made.k_tiles is not None else "without a loop"
    yield Heading(f"Three phases of an output tile {tiles}", 3)
    fills = ", ".join(
        (f"K tile {fill.k}" if looped and not number else f"{fill.k}" if looped else "its tiles")
        + ("" if fill.stage is None else f" into stage {fill.stage}")
        for number, fill in enumerate(made.prologue)
    )
    begin = "; ".join((*made.before, *((f"load {fills}",) if fills else ())))
    yield Paragraph(f"Prologue: {begin or 'no load'}.")
    rows = [("steady", turns) for turns in made.steady] + [("drain", turns) for turns in made.drain]
    if rows:
        yield grid(
            ("phase", "k", "stages", "does", "loads in flight", "MMAs queued", "waits for", "then loads"),
            (
                (
                    phase,
                    str(turns.first) if turns.first == turns.last else f"{turns.first}..{turns.last}",
                    _stages(turns),
                    f"{turns.computes} k" if turns.computes == "MMA" else turns.computes,
                    _relative(turns.loads_in_flight),
                    _relative(turns.mmas_in_flight),
                    _relative(turns.waits_for_mma, "MMA "),
                    _relative(turns.loads),
                )
                for phase, turns in rows
            ),
        )
    if made.k_tiles == MOST_K_TILES:
        yield Paragraph(f"Of more K tiles than {MOST_K_TILES} the first {MOST_K_TILES} are shown.")
    if made.end and full:
        yield Paragraph("Then, in order:")
        yield Bullets(made.end)
    if made.stuck:
        yield Paragraph(f"It hangs: {made.stuck}.")


def _stages(turns: Turns) -> str:
    """The stage of each turn; of many, the beginning."""
    shown = ", ".join(map(str, turns.stages[:6]))
    return f"{shown}, ..." if len(turns.stages) > 6 else shown


def _relative(offsets: Sequence[int], what: str = "") -> str:
    words = ["k" if offset == 0 else f"k{offset:+d}" for offset in offsets]
    return f"{what}{', '.join(words)}" if words else "-"


# ---- depths


_SHORT = {"shared memory": "SMEM", "tensor memory": "TMEM"}


def _depths(made: Depths) -> Iterator[Block]:
    yield Heading("What a depth takes", 3)
    fastest = None if made.changes_nothing else made.fastest
    yield grid(
        ("depth", "SMEM", "TMEM", "registers", "spills", "CTAs", "bound by", "us", "note"),
        (
            (
                f"{row.depth}{' *' if row.chosen else ''}",
                str(row.smem_bytes),
                str(row.tmem_columns),
                "unknown" if row.registers is None else str(row.registers),
                "-" if row.spill_bytes is None else str(row.spill_bytes),
                "-" if row.ctas_per_sm is None else str(row.ctas_per_sm),
                _SHORT.get(row.bound_by or "-", row.bound_by or "-"),
                "-" if row.seconds is None else f"{row.seconds * 1e6:.1f}",
                "; ".join((*(("fastest",) if row is fastest else ()), *((row.note,) if row.note else ()))),
            )
            for row in made.rows
        ),
        numbers=(1, 2, 3, 4, 5, 7),
    )
    yield Paragraph(
        f"* this kernel. SMEM in bytes a CTA, TMEM in columns, registers and bytes of spills a thread ({made.registers_from}), CTAs "
        f"of one multiprocessor, us of a launch by the cost model. {made.how}."
    )
    times = [row.seconds for row in made.rows if row.seconds]
    if made.changes_nothing:
        yield Paragraph(f"The depth changes nothing: each takes about {min(times) * 1e6:.1f} us.")
