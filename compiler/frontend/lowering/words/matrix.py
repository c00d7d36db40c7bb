"""The tensor core's multiply-accumulate and its completion."""

from __future__ import annotations

from tilec.dialects.tile import CommitOp, MmaOp
from tilec.frontend.lowering.arguments import Argument
from tilec.frontend.lowering.frame import Site
from tilec.frontend.lowering.values import Acc, Smem
from tilec.frontend.lowering.vocabulary import word
from tilec.frontend.lowering.words.operands import barrier_of, flag_of, tile_of


@word("mma")
def mma(site: Site, *, acc: Argument, a: Argument, b: Argument, accumulate: Argument) -> None:
    d, left, right = tile_of(acc, Acc), tile_of(a, Smem), tile_of(b, Smem)
    flag = None if accumulate.value is None else flag_of(accumulate)
    site.emit(lambda: MmaOp(d.value, left.value, right.value, flag))


@word("commit")
def commit(site: Site, *, barrier: Argument) -> None:
    bar, stage = barrier_of(barrier)
    site.emit(lambda: CommitOp(bar, stage))
