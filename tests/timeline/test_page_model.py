"""The schedules that the page computes, against the replay of what the compiler makes, and against sums done by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from xdsl.dialects.builtin import ModuleOp

from tilec.backend.timeline import Costs, Kpis, Launch, replay
from tilec.driver import compile_module
from tilec.source import parse_file, parse_text
from tilec.timeline import Subject

DEPTHS, K_TILES, RATIOS = range(1, 9), (1, 2, 3, 8, 13), (0.5, 1.0, 1.2, 3.0)
_NARROW = "retile(128,64,64),"
"""Of tiles of which eight stages fit into shared memory."""
_STEP7 = Path(__file__).resolve().parents[1] / "protocol" / "step7_roles.tile"

_EVALUATE = """
const { gemm, costs } = Page.data;
return arguments[0].map(([mode, depth, ktiles, ratio, kind]) =>
  Trace.kpis(Schedules.play(gemm, { mode, depth, ktiles }, Schedules.costsFor(kind, ratio, gemm, costs.chip))));
"""


class Case(NamedTuple):
    mode: str
    depth: int
    ktiles: int
    ratio: float | None
    kind: str


def in_page(browser: Any, cases: Sequence[Case]) -> list[Kpis]:
    return [Kpis(**kpis) for kpis in browser.execute_script(_EVALUATE, [list(case) for case in cases])]


def costs_of(subject: Subject, kind: str, ratio: float | None) -> Costs:
    gemm = subject.gemm
    assert gemm is not None
    if kind == "abstract":
        assert ratio is not None
        return Costs.abstract(ratio=ratio, load_bytes=gemm.load_bytes, macs=gemm.macs)
    return subject.model.costs if ratio is None else gemm.with_ratio(subject.model.costs, ratio)


def pipelined(examples: Path, pipeline: str) -> ModuleOp:
    return compile_module(parse_file(str(examples / "gemm.tile")), pipeline=pipeline, emit="tile").asynchronous


def with_roles(depth: int) -> ModuleOp:
    """Lesson 10's kernel, with a ring of another depth."""
    text = _STEP7.read_text()
    for two, other in (
        ("tile.ring<2 x", f"tile.ring<{depth} x"),
        ("tile.mbarrier<2>", f"tile.mbarrier<{depth}>"),
        ("%last_stage = arith.constant 1 ", f"%last_stage = arith.constant {depth - 1} "),
    ):
        assert two in text
        text = text.replace(two, other)
    return compile_module(parse_text(text, f"roles{depth}.tile"), emit="tile").asynchronous


def replayed(module: ModuleOp, shape: Mapping[str, int], costs: Sequence[Costs], ctas: int | None = None) -> list[Kpis]:
    recordings = Launch.of(module, shape, ctas=ctas).busiest()
    return [replay(recordings, each).kpis for each in costs]


def alike(found: Sequence[Kpis], wanted: Sequence[Kpis], cases: Sequence[Case]) -> None:
    for case, ours, theirs in zip(cases, found, wanted, strict=True):
        assert ours.makespan == pytest.approx(theirs.makespan, rel=1e-12), case
        assert ours.idle == pytest.approx(theirs.idle, rel=1e-9, abs=1e-12), case
        assert (ours.back_to_back, ours.loads_in_flight) == (theirs.back_to_back, theirs.loads_in_flight), case


SETTINGS = [*product(RATIOS, ("abstract", "chip")), (None, "chip")]


@pytest.mark.parametrize("mode", ["serial", "prefetch", "roles"])
def test_the_page_gives_what_the_compiled_schedule_gives(
    mode: str, examples: Path, subject_of: Callable[..., Subject], opened: Callable[..., Any]
) -> None:
    retiled = "" if mode == "roles" else _NARROW
    gemm = subject_of(examples / "gemm.tile", pipeline=f"{retiled}tma,pipeline(2)")
    cases: list[Case] = []
    wanted: list[Kpis] = []
    for depth in (1,) if mode == "serial" else DEPTHS:
        module = {
            "serial": lambda _: pipelined(examples, f"{_NARROW}tma"),
            "prefetch": lambda depth: pipelined(examples, f"{_NARROW}tma,pipeline({depth})"),
            "roles": with_roles,
        }[mode](depth)
        for ktiles in K_TILES:
            shape = {"M": 128, "N": 128 if mode == "roles" else 64, "K": 64 * ktiles}
            costs = [costs_of(gemm, kind, ratio) for ratio, kind in SETTINGS]
            cases += [Case(mode, depth, ktiles, ratio, kind) for ratio, kind in SETTINGS]
            wanted += replayed(module, shape, costs, ctas=1 if mode == "roles" else None)
    alike(in_page(opened(gemm), cases), wanted, cases)


@pytest.mark.parametrize(
    "pipeline", ["tma", "tma,pipeline(1)", "tma,pipeline(2)", "tma,pipeline(3)", "tma,pipeline(5)"]
)
def test_a_persistent_kernel_has_persistent_alternatives(
    pipeline: str, examples: Path, subject_of: Callable[..., Subject], opened: Callable[..., Any]
) -> None:
    subject = subject_of(examples / "gemm.tile", pipeline="tma,pipeline(4),persistent")
    module = pipelined(examples, f"{pipeline},persistent")
    mode, depth = ("serial", 1) if pipeline == "tma" else ("prefetch", int(pipeline[-2]))
    for ktiles in (1, 2, 8):
        shape = {"M": 256, "N": 128, "K": 64 * ktiles}
        cases = [Case(mode, depth, ktiles, ratio, kind) for ratio, kind in SETTINGS]
        wanted = replayed(module, shape, [costs_of(subject, kind, ratio) for ratio, kind in SETTINGS], ctas=1)
        alike(in_page(opened(subject), cases), wanted, cases)


def every(mode: str) -> Iterator[tuple[Case, ...]]:
    """The same loop and costs with rings of growing depth."""
    for ktiles, (ratio, kind) in product(K_TILES, SETTINGS):
        yield tuple(Case(mode, depth, ktiles, ratio, kind) for depth in DEPTHS)


def test_depth_1_is_serial(gemm: Subject, opened: Callable[..., Any]) -> None:
    settings = [*product(K_TILES, RATIOS)]
    browser = opened(gemm)
    serial = in_page(browser, [Case("serial", 1, ktiles, ratio, "abstract") for ktiles, ratio in settings])
    prefetch = in_page(browser, [Case("prefetch", 1, ktiles, ratio, "abstract") for ktiles, ratio in settings])
    assert prefetch == [
        Kpis(pytest.approx(one.makespan), pytest.approx(one.idle), one.back_to_back, one.loads_in_flight)
        for one in serial
    ]


@pytest.mark.parametrize("mode", ["prefetch", "roles"])
def test_a_deeper_ring_is_never_slower(mode: str, gemm: Subject, opened: Callable[..., Any]) -> None:
    rows = [row for row in every(mode) if row[0].kind == "abstract"]
    kpis = iter(in_page(opened(gemm), [case for row in rows for case in row]))
    for row in rows:
        makespans = [next(kpis).makespan for _ in row]
        for case, before, after in zip(row[1:], makespans, makespans[1:], strict=False):
            assert after <= before + 1e-9, case


@pytest.mark.parametrize("jitter", [0.3, 0.9])
@pytest.mark.parametrize("pipeline", ["tma", "tma,pipeline(3)", "tma,pipeline(2),persistent"])
def test_loads_of_uneven_latency(
    pipeline: str, jitter: float, examples: Path, subject_of: Callable[..., Subject], opened: Callable[..., Any]
) -> None:
    """The page's loads take their turns at being late as those of the replay do."""
    subject = subject_of(examples / "gemm.tile", pipeline=pipeline)
    assert subject.gemm is not None
    costs = replace(subject.model.costs, load_jitter=jitter, load_latency=1500.0)
    module = compile_module(parse_file(examples / "gemm.tile"), pipeline=pipeline, emit="tile").asynchronous
    wanted = replay(Launch.of(module, subject.shape, ctas=1 if "persistent" in pipeline else None).busiest(), costs)
    script = """
    const { gemm, costs } = Page.data, { mode, depth, lag, ktiles } = gemm;
    return Schedules.play(gemm, { mode, depth, lag, ktiles }, { ...costs.chip, load_jitter: arguments[0], load_latency: 1500 });
    """
    found = opened(subject).execute_script(script, jitter)
    assert [span["kind"] for span in found["spans"]] == [span.kind for span in wanted.spans]
    assert [span["end"] for span in found["spans"]] == pytest.approx([span.end for span in wanted.spans], rel=1e-12)
    assert found["makespan"] == pytest.approx(wanted.makespan, rel=1e-12)


def test_a_round_of_loads_has_landed_with_the_last_of_them(gemm: Subject, opened: Callable[..., Any]) -> None:
    """Load n's latency is 1 + j (2 frac(n / golden ratio) - 1) times that of the table: load 1 has 0.236 j more, load 2 0.528 j
    less. With j = 0.9 and a latency of 1500 the second one of the first stage lands before the first one does."""
    chip = gemm.model.costs
    costs = replace(chip, load_jitter=0.9, load_latency=1500.0)
    size, golden = 128 * 64 * 2, (5**0.5 - 1) / 2
    issued = chip.start + chip.sync + chip.iterate + chip.arrive + chip.load_issue
    turns = [issued + size / chip.load_rate]
    turns.append(max(turns[0], issued + chip.load_issue) + size / chip.load_rate)
    landed = [turn + 1500 * (1 + 0.9 * (2 * (n * golden % 1) - 1)) for n, turn in enumerate(turns, 1)]
    assert landed[1] < landed[0]

    module = compile_module(parse_text(gemm.source), pipeline="tma,pipeline(2)", emit="tile").asynchronous
    spans = replay(Launch.of(module, gemm.shape).busiest(), costs).spans
    assert next(span.end for span in spans if span.kind == "load") == pytest.approx(landed[0])
    script = """
    const { gemm, costs } = Page.data, given = { ...costs.chip, load_jitter: 0.9, load_latency: 1500 };
    return Schedules.play(gemm, { mode: "prefetch", depth: 2, ktiles: 8 }, given).spans.find((one) => one.kind === "load").end;
    """
    assert opened(gemm).execute_script(script) == pytest.approx(landed[0])


def test_mmas_with_a_short_gap_are_not_back_to_back(gemm: Subject, opened: Callable[..., Any]) -> None:
    """A millionth of a unit is rounding; a hundredth is a gap."""
    script = """
    const mma = (start) => ({ kind: "mma", start, end: start + 1, issued: start });
    return arguments[0].map((gap) => Trace.kpis({ spans: [mma(0), mma(1 + gap)], makespan: 2 + gap }).back_to_back);
    """
    assert opened(gemm).execute_script(script, [0, 1e-7, 0.01]) == [True, True, False]


def test_the_hand_calculation(gemm: Subject, opened: Callable[..., Any]) -> None:
    """load:MMA 1.2, depth 2, 8 K tiles, and nothing else takes time."""
    load, mma, ktiles = 1.2, 1.0, 8

    # Serial: each of the 8 K tiles is loaded, then multiplied. One load at a time is in flight.
    serial_makespan = ktiles * (load + mma)
    assert serial_makespan == pytest.approx(17.6)
    serial_idle = 1 - ktiles * mma / serial_makespan

    # Prefetch, two slots: loads 0 and 1 are issued at 0. They end at 1.2 and 2.4. MMA 0 runs from 1.2 to 2.2; then load 2 is
    # issued into its slot, while load 1 still has the engine until 2.4, so load 2 runs from 2.4 to 3.6. MMA 1 runs from 2.4 to
    # 3.4; load 3 is issued at 3.4, while load 2 runs until 3.6. And so on: the engine is never without a load, load k ends at
    # 1.2 (k + 1), MMA k starts there and is over before load k + 1 is. What remains is the last MMA.
    load_ends = [load * (k + 1) for k in range(ktiles)]
    for k in range(2, ktiles):
        assert load_ends[k - 2] + mma <= load_ends[k - 1]  # the slot of load k is free before the engine is
    prefetch_makespan = load_ends[-1] + mma
    assert prefetch_makespan == pytest.approx(8 * 1.2 + 1)
    prefetch_idle = 1 - 8 * 1.0 / 10.6

    serial, prefetch, roles = in_page(
        opened(gemm), [Case(mode, 2, ktiles, load, "abstract") for mode in ("serial", "prefetch", "roles")]
    )
    assert serial == Kpis(pytest.approx(17.6), pytest.approx(serial_idle), False, 1)
    assert serial.idle == pytest.approx(1 - 8 / 17.6)
    assert prefetch == Kpis(pytest.approx(10.6), pytest.approx(prefetch_idle), False, 2)
    # Loads bound the loop, so that a role of its own for the MMAs gains nothing; it issues load k when MMA k - 2 is over, as
    # prefetch does.
    assert roles == Kpis(pytest.approx(10.6), pytest.approx(prefetch_idle), False, 2)


@pytest.mark.parametrize("pipeline", ["tma", "tma,pipeline(2)", "tma,pipeline(3)", "tma,pipeline(3),persistent"])
def test_the_page_gives_the_same_spans_and_links(
    pipeline: str, examples: Path, subject_of: Callable[..., Subject], opened: Callable[..., Any]
) -> None:
    """Not only the figures: what is drawn, in which words, from which lines."""
    subject = subject_of(examples / "gemm.tile", pipeline=pipeline)
    assert subject.gemm is not None
    script = """
    const { gemm, costs, trace } = Page.data, { mode, depth, lag, ktiles } = gemm;
    return [trace, Schedules.play(gemm, { mode, depth, lag, ktiles }, costs.chip)];
    """
    embedded, made = opened(subject).execute_script(script)
    assert [span["kind"] for span in made["spans"]] == [span["kind"] for span in embedded["spans"]]
    for ours, theirs in zip(made["spans"], embedded["spans"], strict=True):
        # The second output tile lies elsewhere in the tensors, which the page does not know.
        for name in theirs.keys() - ({"what", "why"} if max(subject.tiles) > 1 else set()):
            wanted = theirs[name]
            assert ours[name] == (pytest.approx(wanted, rel=1e-12) if isinstance(wanted, float) else wanted), (
                name,
                theirs,
            )
    assert (made["links"], made["lanes"]) == (embedded["links"], embedded["lanes"])


def test_the_figures_shown_are_the_hand_calculation(gemm: Subject, opened: Callable[..., Any]) -> None:
    for mode, makespan, idle in (("serial", "17.6 MMAs", "54.5 %"), ("prefetch", "10.6 MMAs", "24.5 %")):
        browser = opened(gemm, f"#mode={mode}&depth=2&ktiles=8&ratio=1.2&costs=abstract")
        assert browser.find_element("id", "kpi-makespan").text == makespan
        assert browser.find_element("id", "kpi-idle").text == idle
        assert browser.find_element("id", "kpi-back").text == "no"
