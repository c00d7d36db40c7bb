"""Votes of the lanes of a warp: `vote.sync` (PTX 9.7.13.9), `match.sync` (9.7.13.10) and `activemask` (9.7.13.11)."""

from __future__ import annotations

import numpy as np

from tilec.backend.emulator.execution.decode import Decoder, Together, instruction
from tilec.backend.emulator.execution.lanes import Execute, Lanes
from tilec.backend.emulator.numbers.types import dtype_of
from tilec.backend.emulator.ptx.syntax import Pair
from tilec.backend.emulator.synchronisation.warps import ballot, groups, lane_bits, members


@instruction("vote.sync")
def vote(d: Decoder) -> Together:
    mode = d.take("all", "any", "uni", "ballot")
    type = d.take_type()
    if mode is None or type != ("b32" if mode == "ballot" else "pred"):
        d.unsupported("vote.sync is .all.pred, .any.pred, .uni.pred or .ballot.b32")
    d.finish()
    d.count(3)
    write = d.writer(d.operands[0], type)
    read_held, read_mask = d.reader(d.operands[1], "pred"), d.reader(d.operands[2], "u32")

    def execute(lanes: Lanes) -> None:
        group = members(lanes, read_mask(lanes))
        votes = ballot(lanes, read_held(lanes)) & group
        match mode:
            case "ballot":
                write(lanes, votes)
            case "all":
                write(lanes, votes == group)
            case "any":
                write(lanes, votes != 0)
            case _:
                write(lanes, (votes == 0) | (votes == group))

    return Together(execute, "mask", read_mask)


@instruction("match.any.sync")
def match_any(d: Decoder) -> Together:
    type = _match_type(d)
    write, read = d.writer(d.operands[0], "b32"), d.reader(d.operands[1], type)
    read_mask = d.reader(d.operands[2], "u32")

    def execute(lanes: Lanes) -> None:
        group = members(lanes, read_mask(lanes))
        values = np.broadcast_to(read(lanes), (lanes.count,))
        bits = lane_bits(lanes)
        found = np.empty(lanes.count, np.uint32)
        for _, positions in groups(lanes, group):
            same = values[positions][:, None] == values[positions]
            found[positions] = np.where(same, bits[positions], np.uint32(0)).sum(axis=1, dtype=np.uint32)
        write(lanes, found)

    return Together(execute, "mask", read_mask)


@instruction("match.all.sync")
def match_all(d: Decoder) -> Together:
    type = _match_type(d)
    result, write_same = d.operands[0], None
    if isinstance(result, Pair):
        result, write_same = result.first, d.writer(result.second, "pred")
    write, read = d.writer(result, "b32"), d.reader(d.operands[1], type)
    read_mask = d.reader(d.operands[2], "u32")

    def execute(lanes: Lanes) -> None:
        group = members(lanes, read_mask(lanes))
        values = np.broadcast_to(read(lanes), (lanes.count,)).astype(dtype_of(type))
        same = np.empty(lanes.count, np.bool_)
        for _, positions in groups(lanes, group):
            same[positions] = (values[positions] == values[positions[0]]).all()
        write(lanes, np.where(same, group, np.uint32(0)))
        if write_same is not None:
            write_same(lanes, same)

    return Together(execute, "mask", read_mask)


def _match_type(d: Decoder) -> str:
    type = d.take_type()
    if type not in ("b32", "b64"):
        d.unsupported("match.sync is .b32 or .b64")
    d.finish()
    d.count(3)
    return type


@instruction("activemask")
def activemask(d: Decoder) -> Execute:
    """The lanes of the warp that execute this together. Which do, when a warp has diverged, is the scheduler's choice."""
    if d.take_type() != "b32":
        d.unsupported("activemask is .b32")
    d.finish()
    d.count(1)
    write = d.writer(d.operands[0], "b32")

    def execute(lanes: Lanes) -> None:
        write(lanes, ballot(lanes, True))

    return execute
