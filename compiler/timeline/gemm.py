"""What a compiled GEMM loop is made of: the facts from which the page makes its other schedules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeVar

from tilec.backend.timeline import Costs, steps
from tilec.backend.timeline.steps import Recording, Step

Mode = Literal["serial", "prefetch"]
_Fields = dict[str, Any]
_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Operand:
    """The load of one operand's tile."""

    slot: str
    view: str
    bytes: int
    line: int | None
    origin: tuple[int, ...]
    """Coordinates of K tile 0 in the view."""
    stride: tuple[int, ...] | None
    """From one K tile to the next; None where there is only one."""


@dataclass(frozen=True)
class Gemm:
    """A loop that loads the operands of a K tile with TMA and multiplies them, and an epilogue behind it."""

    mode: Mode
    depth: int
    lag: int
    """MMAs that may still run when a slot is loaded again."""
    persistent: bool
    ktiles: int
    tiles: tuple[int, ...]
    """Output tiles of each CTA, in the order in which they start."""
    resident: int
    macs: int
    """Multiply-adds of a K tile."""
    loads: tuple[Operand, ...]
    full: str
    """Name of the barriers of the loads."""
    done: str
    """Name of the barriers of the MMAs."""
    lines: dict[str, int | None]
    """Of the program, where each part of the loop comes from."""
    before: tuple[_Fields, ...]
    """Steps in front of the first load or schedule."""
    epilogue: tuple[_Fields, ...]
    after: tuple[_Fields, ...]
    """Steps behind the last tile of a persistent kernel."""

    @property
    def load_bytes(self) -> int:
        """Of a K tile."""
        return sum(load.bytes for load in self.loads)

    def ratio(self, costs: Costs) -> float:
        """The time that the loads of a K tile keep the TMA engine busy, over that of its MMA."""
        return self.load_bytes / costs.load_rate / (self.macs / costs.mma_rate)

    def with_ratio(self, costs: Costs, ratio: float) -> Costs:
        """The same chip with loads of another rate."""
        rate = self.load_bytes / (ratio * (self.macs / costs.mma_rate)) if ratio else float("inf")
        return replace(costs, load_rate=rate)

    def json(self) -> dict[str, Any]:
        return asdict(self)


class NoGemm(Exception):
    """Why a kernel is no plain GEMM loop, as a sentence."""


def gemm_of(ctas: Sequence[Recording], resident: int) -> Gemm:
    """The facts of what one multiprocessor executes. Raises NoGemm for another kind of kernel."""
    if not ctas:
        raise NoGemm("This launch has no output tile.")
    recording = ctas[0]
    flow, *roles = recording.flows
    if roles:
        raise NoGemm("This kernel has roles of its own, so there is no pipeline pass whose choice could be another.")
    return _Loop(flow).facts(recording, tuple(cta.tiles for cta in ctas), resident)


def bytes_of_mma(recording: Recording) -> int:
    """What TMA loads for an MMA, on average over all of them; what no MMA reads counts where they read nothing that is loaded."""
    done = [step for flow in recording.flows for step in flow]
    mmas = [step for step in done if isinstance(step, steps.Mma)]
    loads = [step for step in done if isinstance(step, steps.Load)]
    read = {slot for mma in mmas for slot in mma.reads}
    total = sum(load.bytes for load in loads if load.slot in read) or sum(load.bytes for load in loads)
    return max(round(total / max(len(mmas), 1)), 1)


class _Loop:
    """One flow, taken apart."""

    def __init__(self, flow: Sequence[Step]) -> None:
        self.flow = flow
        self.loads = [step for step in flow if isinstance(step, steps.Load)]
        self.expects = [step for step in flow if isinstance(step, steps.Expect)]
        self.mmas = [step for step in flow if isinstance(step, steps.Mma)]
        self.commits = [step for step in flow if isinstance(step, steps.Commit)]
        self.waits = [step for step in flow if isinstance(step, steps.Wait)]
        if not self.mmas:
            raise NoGemm("This kernel multiplies no tiles at this shape.")
        if not self.loads:
            raise NoGemm(
                "Threads copy the tiles of this kernel, so there are no loads of TMA to run ahead: see the pass tma."
            )

    def facts(self, recording: Recording, tiles: tuple[int, ...], resident: int) -> Gemm:
        full, done = self._barriers()
        macs = self._one({step.macs for step in self.mmas}, "Its MMAs are not all of one size.")
        counts = [sum(step.tile == tile for step in self.mmas) for tile in range(recording.tiles)]
        ktiles = self._one(set(counts), "Its output tiles have loops of different lengths.")
        if len(self.commits) != len(self.mmas):
            raise NoGemm("It multiplies several times in one turn of its loop.")
        persistent = any(isinstance(step, steps.Schedule) for step in self.flow)
        last = max(i for i, step in enumerate(self.flow) if isinstance(step, steps.Wait))
        tail = self.flow[last + 1 :]
        cut = next((i for i, step in enumerate(tail) if isinstance(step, steps.Schedule)), len(tail))
        return Gemm(
            mode=self._mode(),
            depth=sum(name == full for name, _ in recording.counts),
            lag=self._lag(done, sum(name == done for name, _ in recording.counts)),
            persistent=persistent,
            ktiles=ktiles,
            tiles=tiles,
            resident=resident,
            macs=macs,
            loads=self._operands(ktiles),
            full=full,
            done=done,
            lines=self._lines(full, done),
            before=tuple(_fields(step) for step in self.flow[: self._first(_begins)] if _is_of_threads(step)),
            epilogue=tuple(_fields(step) for step in tail[:cut] if _is_of_threads(step)),
            after=tuple(_fields(step) for step in tail[cut:] if _is_of_threads(step)),
        )

    def _barriers(self) -> tuple[str, str]:
        """The names of those of the loads and of the MMAs. A kernel that is at fault may lack any part of what they are for."""
        if not self.expects:
            raise NoGemm("No bytes are announced for its loads.")
        if not self.commits:
            raise NoGemm("No barrier tells when its MMAs are complete.")
        if any(isinstance(step, steps.Arrive) for step in self.flow):
            raise NoGemm("Its threads arrive at barriers themselves.")
        full = self._one({step.barrier[0] for step in self.loads}, "Its loads complete on several arrays of barriers.")
        done = self._one({step.barrier[0] for step in self.commits}, "Its MMAs complete on several arrays of barriers.")
        for name, what in ((full, "loads"), (done, "MMAs")):
            if all(step.barrier[0] != name for step in self.waits):
                raise NoGemm(f"Nothing waits for its {what}.")
        return full, done

    @staticmethod
    def _one(values: set[_Value], otherwise: str) -> _Value:
        if len(values) != 1:
            raise NoGemm(otherwise)
        return values.pop()

    def _first(self, wanted: Callable[[Step], bool]) -> int:
        return next(i for i, step in enumerate(self.flow) if wanted(step))

    def _mode(self) -> Mode:
        """Without a ring the wait stands in the same turn of the loop as the load."""
        load, wait = self._first(_is(steps.Expect)), self._first(_is(steps.Wait))
        return "prefetch" if any(isinstance(step, steps.Iterate) for step in self.flow[load:wait]) else "serial"

    def _lag(self, done: str, slots: int) -> int:
        """How far behind the first commit the first wait for an MMA is, round the ring of their barriers."""
        wait = next(step for step in self.waits if step.barrier[0] == done)
        return (self.commits[0].barrier[1] - wait.barrier[1]) % slots

    def _operands(self, ktiles: int) -> tuple[Operand, ...]:
        """One for each slot that an MMA reads: a stage is announced at once, and loaded like every other."""
        if len(self.expects) != len(self.mmas):
            raise NoGemm("The bytes of a stage are not announced at once.")
        number, rest = divmod(len(self.loads), len(self.mmas))
        for i, (expect, mma) in enumerate(zip(self.expects, self.mmas, strict=True)):
            stage = self.loads[i * number : (i + 1) * number]
            if (
                rest
                or [(load.slot.name, load.bytes) for load in stage]
                != [(load.slot.name, load.bytes) for load in self.loads[:number]]
                or sorted(load.slot for load in stage) != sorted(set(mma.reads))
                or any(load.barrier != expect.barrier for load in stage)
                or sum(load.bytes for load in stage) != expect.bytes
            ):
                raise NoGemm("Its stages are not all loaded alike, each with what its MMA reads.")
        return tuple(self._operand(i, number, ktiles) for i in range(number))

    def _operand(self, index: int, number: int, ktiles: int) -> Operand:
        load = self.loads[index]
        view, origin = _place(load.place)
        stride = None
        if ktiles > 1:
            _, following = _place(self.loads[index + number].place)
            stride = tuple(there - here for here, there in zip(origin, following, strict=True))
        return Operand(load.slot[0], view, load.bytes, line_of(load), origin, stride)

    def _lines(self, full: str, done: str) -> dict[str, int | None]:
        parts: dict[str, Callable[[Step], bool]] = {
            "expect": _is(steps.Expect),
            "wait": lambda step: isinstance(step, steps.Wait) and step.barrier[0] == full,
            "mma": _is(steps.Mma),
            "done": lambda step: isinstance(step, steps.Wait) and step.barrier[0] == done,
            "schedule": _is(steps.Schedule),
            "sync": _is(steps.Sync),
            "store": _is(steps.Store),
        }
        first = {
            name: next((line_of(step) for step in self.flow if is_it(step)), None) for name, is_it in parts.items()
        }
        drain = next(line_of(step) for step in reversed(self.flow) if isinstance(step, steps.Wait))
        return {**first, "drain": drain}


def _is(kind: type[Step]) -> Callable[[Step], bool]:
    return lambda step: isinstance(step, kind)


def _begins(step: Step) -> bool:
    return isinstance(step, steps.Schedule | steps.Iterate | steps.Expect)


def _is_of_threads(step: Step) -> bool:
    return isinstance(step, steps.Sync | steps.Work | steps.Store | steps.CommitGroup | steps.WaitGroup)


def _place(text: str) -> tuple[str, tuple[int, ...]]:
    """``A[128, 64]``"""
    view, _, rest = text.partition("[")
    return view, tuple(int(part) for part in rest.rstrip("]").split(","))


def _fields(step: Step) -> _Fields:
    """As the page's replay reads a step."""
    line = line_of(step)
    match step:
        case steps.Work():
            return {"op": "work", "line": line, "kind": step.kind, "bytes": step.bytes, "what": step.what}
        case steps.Store():
            return {"op": "store", "line": line, "slot": list(step.slot), "bytes": step.bytes, "place": step.place}
        case steps.WaitGroup():
            return {"op": "wait_group", "line": line, "pending": step.pending, "read": step.read}
        case steps.CommitGroup():
            return {"op": "commit_group", "line": line}
        case _:
            return {"op": "sync", "line": line}


def line_of(step: Step) -> int | None:
    """Of the program."""
    return step.lines[0] if step.lines else None
