"""The whole report: its JSON, its text, its Markdown, and what Python gets."""

from __future__ import annotations

import dataclasses
import importlib
import json
import re
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from design_subjects import EXAMPLES, GEMM, ROLES, quick, subject

import tilec
from tilec.cli import main
from tilec.design import SCHEMA, Design, design
from tilec.design.subject import Subject
from tilec.design.text import text
from tilec.source import parse_file, parse_text

ROOT = Path(__file__).resolve().parents[2]
_PARTS = {
    "conclusion": {"verdict", "copies", "pipeline", "bound", "remarks"},
    "contract": {
        "descriptors",
        "issue",
        "load_protocol",
        "budgets",
        "store_protocol",
        "rings",
        "barriers",
        "schedule",
        "depths",
    },
    "validation": {"runs", "proof", "handoffs", "experiment", "untried"},
    "risks": {"modes", "fallbacks"},
}


@pytest.fixture(scope="module", params=[2, 3])
def gemm(request: pytest.FixtureRequest) -> tuple[int, Design]:
    shape = {"M": 4096, "N": 1000, "K": 4000}
    return request.param, design(
        parse_file(EXAMPLES / "gemm.tile"), pipeline=f"tma,pipeline({request.param})", shape=shape
    )


def _empty(value: object, path: str) -> list[str]:
    match value:
        case dict():
            return [found for key, inner in value.items() for found in _empty(inner, f"{path}.{key}")]
        case list() if not value:
            return [path]
        case list():
            return [found for inner in value for found in _empty(inner, path)]
        case None | "":
            return [path]
        case _:
            return []


def test_json_has_every_field_filled(gemm: tuple[int, Design]) -> None:
    depth, made = gemm
    fields = json.loads(made.json())
    assert fields["schema"] == SCHEMA == 1
    assert (fields["kernel"], fields["target"], fields["pipeline"]) == ("gemm", "sm_100a", f"tma,pipeline({depth})")
    assert fields["file"] == str(EXAMPLES / "gemm.tile")
    for part, names in _PARTS.items():
        assert set(fields[part]) == names
    empty = set(_empty(fields, ""))
    # What only a fault, a refusal, a turn that loads nothing or a depth that does not fit leaves empty or fills.
    assert empty <= {
        ".conclusion.copies.reason",
        ".contract.depths.rows.seconds",
        ".validation.experiment.save",
        ".validation.untried",
        ".conclusion.remarks",
        ".conclusion.pipeline.roles",
        ".evidence.lines",
        ".contract.barriers.announced_bytes",
        ".contract.load_protocol.lines",
        ".contract.rings.free.order",
        ".contract.schedule.before",
        ".contract.schedule.prologue",
        ".contract.schedule.steady",
        ".contract.schedule.steady.loads",
        ".contract.schedule.steady.mmas_in_flight",
        ".contract.schedule.steady.waits_for_mma",
        ".contract.schedule.drain.loads",
        ".contract.schedule.drain.loads_in_flight",
        ".contract.schedule.drain.mmas_in_flight",
        ".contract.schedule.drain.waits_for_mma",
        ".contract.schedule.stuck",
        ".contract.depths.rows.note",
        ".contract.depths.rows.registers",
        ".contract.depths.rows.spill_bytes",
        ".contract.depths.rows.threads",
        ".contract.depths.rows.ctas_per_sm",
        ".contract.depths.rows.bound_by",
        ".validation.runs.message",
        ".validation.runs.line",
        ".validation.proof.message",
        ".validation.proof.line",
        ".validation.proof.hint",
        ".validation.handoffs.problem",
        ".risks.modes.where",
        ".risks.modes.line",
        ".risks.modes.facts.lines",
    }
    assert {one["kind"] for one in fields["evidence"]} >= {"derived", "to be verified"}
    assert all(one["source"] for one in fields["evidence"])
    assert fields["conclusion"]["bound"]["what"] in fields["conclusion"]["bound"]["words"]


def test_measured_is_what_was_measured_on_this_target() -> None:
    kinds = {
        target: {one.kind for one in quick(subject(GEMM, "tma,pipeline(2)", target=target)).evidence}
        for target in ("sm_90a", "sm_100a")
    }
    assert kinds == {"sm_90a": {"measured", "derived", "to be verified"}, "sm_100a": {"derived", "to be verified"}}


def test_sections_are_frozen(gemm: tuple[int, Design]) -> None:
    _, made = gemm
    for section in (made.conclusion, made.contract, made.validation, made.risks, made.evidence[0]):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(section, dataclasses.fields(section)[0].name, None)


def test_a_section_is_made_when_it_is_read() -> None:
    made = Design(subject(GEMM, "tma,pipeline(2)"))
    assert not {"contract", "validation", "_depths", "_forecast"} & set(vars(made))
    assert made.validation is made.validation


_KERNELS = {
    "gemm": (EXAMPLES / "gemm.tile", "tma,pipeline(3),persistent"),
    "bias_relu": (EXAMPLES / "bias_relu.tile", "tma,pipeline(2)"),
    "serial": (EXAMPLES / "gemm.tile", ""),
    "by hand": (EXAMPLES / "step6_persistent.tile", ""),
    "roles": (ROLES, ""),
}


@pytest.mark.parametrize("name", _KERNELS)
def test_text_keeps_to_80_columns(name: str) -> None:
    path, pipeline = _KERNELS[name]
    text = str(quick(Subject(parse_file(path), pipeline=pipeline), (1, 2)))
    lines = text.splitlines()
    assert [line for line in lines if len(line) > 80 and not line.startswith("    tilec ")] == []
    assert text.isascii()
    for heading in (
        "1 Conclusion",
        "2 Evidence and assumptions",
        "3 Contract",
        "4 Validation, run now",
        "5 Risks and fallback",
    ):
        assert lines[lines.index(heading) + 1] == "-" * len(heading)
    # No column of a table is so narrow that words are torn apart.
    assert not any(line.strip() in {"m", "y", "e", "s"} for line in lines)


def test_commands_are_never_broken_or_cut(gemm: tuple[int, Design]) -> None:
    _, made = gemm
    asked = made.validation.experiment
    assert f"\n    {asked.command}\n" in str(made)
    assert f"\n{asked.command}\n" in made.markdown()


@pytest.mark.parametrize("name", _KERNELS)
def test_tables_of_markdown_are_whole(name: str) -> None:
    path, pipeline = _KERNELS[name]
    page = quick(Subject(parse_file(path), pipeline=pipeline), (1, 2)).markdown()
    block: list[str] = []
    for line in [*page.splitlines(), ""]:
        if line.startswith("|"):
            block.append(line.replace("\\|", ""))
        elif block:
            assert len({row.count("|") for row in block}) == 1, block
            assert set(block[1]) <= set("|-:")
            block = []
    prose = [line for line in page.splitlines() if not line.startswith(("|", "#", "tilec "))]
    assert max(map(len, prose)) <= 80
    assert page.count("```") % 2 == 0


def test_a_table_of_the_text_in_full() -> None:
    text = str(quick(subject(GEMM, "tma,pipeline(3)")))
    assert (
        "phase   k     stages      does   flight       MMAs queued  waits for  then loads\n"
        "steady  0     0           MMA k  k+1, k+2     -            -          -\n"
        "steady  1..4  1, 2, 0, 1  MMA k  k+1, k+2     k-1          MMA k-1    k+2\n"
        "drain   5     2           MMA k  k+1          k-1          MMA k-1    -\n"
        "drain   6     0           MMA k  -            k-1          MMA k-1    -\n"
    ) in text


_BARE = {
    "nothing": "tile.kernel @f() {\n}\n",
    "no copies": "tile.kernel @f(%A: !tile.view<MxKxf16>) {\n}\n",
    "no layout": """
tile.kernel @f(%A: !tile.view<MxKxf16>, %D: !tile.view<MxKxf16>) {
  tile.grid (%m, %k) over %D step (64, 64) {
    %a = tile.alloc : !tile.smem<64x64xf16>
    tile.copy_async %A[%m, %k] to %a dispatch threads
    tile.cta_sync
    tile.copy_async %a to %D[%m, %k] dispatch threads
  }
}
""",
    "rank 1": """
tile.kernel @f(%A: !tile.view<Nxf32>, %D: !tile.view<Nxf32>) {
  tile.grid (%n) over %D step (1024) {
    %a = tile.alloc : !tile.smem<1024xf32>
    tile.copy %A[%n] to %a
    tile.copy %a to %D[%n]
  }
}
""",
}


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        (
            "nothing",
            "use it: no copies, one stage, nothing asynchronous",
        ),
        (
            "no copies",
            "use it: no copies, one stage, nothing asynchronous",
        ),
        ("no layout", "cannot be lowered: this shared tile has no layout"),
        ("rank 1", "use it: 2 of 2 copies by TMA, one stage, protocol proved for every size"),
    ],
)
def test_kernels_that_are_hardly_any(name: str, verdict: str) -> None:
    made = design(parse_text(_BARE[name], "bare.tile"), pipeline="tma" if name == "rank 1" else "")
    assert made.conclusion.verdict == verdict
    assert made.holds == (name != "no layout")
    assert str(made).isascii() and json.loads(made.json()) and made.markdown()


@pytest.mark.parametrize("extents", [(0, 128, 64), (128, 0, 64), (128, 128, 0), (5, 3, 7), (1, 8, 8)])
def test_shapes_of_all_kinds(extents: tuple[int, int, int]) -> None:
    shape = dict(zip("MNK", extents, strict=True))
    made = quick(subject(GEMM, "tma,pipeline(2)", shape=shape))
    assert made.holds and made.shape == shape
    assert made.validation.runs[-1].outcome == "exact"
    assert str(made)


# ---- from Python


def test_a_kernel_explains_itself() -> None:
    kernel = tilec.compile(EXAMPLES / "gemm.tile", pipeline="tma,pipeline(2)")
    made = kernel.explain({"M": 256, "N": 128, "K": 192})
    assert isinstance(made, Design)
    assert (made.kernel, made.target, made.pipeline) == ("gemm", "sm_100a", "tma,pipeline(2)")
    assert made.shape == {"M": 256, "N": 128, "K": 192}
    assert str(made).startswith("gemm for sm_100a, tma,pipeline(2)\n")
    assert made.contract.schedule[0].k_tiles == 3


def test_the_call_that_was_made_last_decides_the_variant() -> None:
    kernel = tilec.compile(EXAMPLES / "gemm.tile", pipeline="tma", target="sm_90a")
    a, b = np.ones((16, 20), np.float16), np.ones((24, 20), np.float16)
    kernel(a, b, np.empty((16, 24), np.float16))  # rows of 40 bytes
    made = kernel.explain()
    copies = {copy.view: copy.engine for copy in made.conclusion.copies}
    assert copies == {"A": "threads", "B": "threads", "D": "TMA"}
    # Its extents are those of the report, and the file alone would say another variant.
    assert made.shape == {"M": 16, "N": 24, "K": 20}
    assert made.validation.experiment.save == 'from pathlib import Path; Path("gemm_ir.tile").write_text(kernel.ir())'


def test_other_extents_than_those_of_the_call_may_be_asked_for() -> None:
    kernel = tilec.compile(EXAMPLES / "gemm.tile", pipeline="tma", target="sm_90a")
    assert kernel.explain().shape is None
    a = np.ones((16, 16), np.float16)
    kernel(a, a, np.empty((16, 16), np.float16))
    assert kernel.explain().shape == {"M": 16, "N": 16, "K": 16}
    made = kernel.explain({"M": 32, "N": 16, "K": 16})
    assert made.shape == {"M": 32, "N": 16, "K": 16}
    assert made.validation.experiment.save is None


def test_tensors_of_a_call_need_not_be_dense() -> None:
    """Rows of 40 bytes, 48 apart: TMA loads them. Dense ones it would not."""
    kernel = tilec.compile(EXAMPLES / "gemm.tile", pipeline="tma", target="sm_90a")
    a, b = np.ones((16, 24), np.float16)[:, :20], np.ones((24, 24), np.float16)[:, :20]
    kernel(a, b, np.empty((16, 24), np.float16))
    engines = [
        {copy.engine for copy in made.conclusion.copies}
        for made in (kernel.explain(), kernel.explain({"M": 16, "N": 24, "K": 20}))
    ]
    assert engines == [{"TMA"}, {"TMA", "threads"}]


def test_a_python_function_explains_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    gemm = importlib.import_module("gemm").gemm
    with pytest.raises(tilec.TilecError, match="no call of gemm has made a kernel yet"):
        tilec.jit(gemm.function.callable).explain()
    a = np.ones((16, 16), np.float16)
    gemm(a, a)
    made = gemm.explain()
    assert (made.kernel, made.pipeline) == ("gemm", "tma,pipeline(2),persistent")
    assert made.shape == {"M": 16, "N": 16, "K": 16}
    line = Path(EXAMPLES / "gemm.py").read_text().splitlines().index("            tile.copy(A[m, k], a)") + 1
    assert made.contract.descriptors[0].lines == (line,)


def test_the_experiment_of_a_python_function_can_be_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    gemm = importlib.import_module("gemm").gemm
    a = np.ones((24, 20), np.float16)
    gemm(a, a)
    asked = gemm.explain().validation.experiment
    assert asked.save == 'from pathlib import Path; Path("gemm_ir.tile").write_text(gemm.ir())'
    monkeypatch.chdir(tmp_path)
    exec(asked.save, {"gemm": gemm})
    command = shlex.split(asked.command.replace("--device=cuda", "--device=none"))
    assert command[:3] == ["tilec", "predict", "gemm_ir.tile"]
    assert main(command[1:]) == 0
    assert f"{asked.numbers['microseconds']} us" in capsys.readouterr().out


@pytest.mark.parametrize("width", [24, 40, 60])
def test_a_narrow_terminal_cuts_no_number(width: int) -> None:
    made = quick(subject(GEMM, "tma,pipeline(3)", shape={"M": 4096, "N": 1000, "K": 4000}), (1, 2))
    wide, narrow = (Counter(re.findall(r"\d+", text(made, columns))) for columns in (200, width))
    assert narrow == wide


def test_numbers_and_their_words_agree() -> None:
    for pipeline in ("tma", "tma,pipeline(2)", "tma,pipeline(3),persistent", "threads,pipeline(2)"):
        said = str(quick(subject(GEMM, pipeline), (1, 2)))
        wrong = r"\b1 (?:loads|stages|MMAs|CTAs|arrivals|turns|K tiles)\b|threads has|core have"
        assert re.findall(wrong, said) == [], pipeline


def test_a_kernel_without_a_loop_has_no_k_tiles() -> None:
    made = quick(subject(_BARE["rank 1"], "tma"))
    assert [one.k_tiles for one in made.contract.schedule] == [None]
    said = str(made).split("3 Contract")[1].split("4 Validation")[0]
    assert "Three phases of an output tile without a loop\n\nPrologue: load its tiles into stage 0.\n" in said
    assert "K tile" not in said


def test_addresses_say_from_where_they_count(gemm: tuple[int, Design]) -> None:
    assert (
        "Addresses are offsets from the start of dynamic shared memory, elements are\n(row, column) of the tile.\n"
    ) in str(gemm[1])


@pytest.mark.parametrize(
    ("shape", "message", "hint"),
    [
        ({"M": 1, "N": 1}, "no extent for K", 'for example {"M": 1, "K": 256, "N": 1}'),
        ({"M": 1, "N": 1, "K": 1, "L": 1}, "gemm has no extent L", "known: M, K, N"),
        ({"M": -1, "N": 1, "K": 1}, "the extent of M is a number from 0 on, not -1", None),
        ({"M": True, "N": 1, "K": 1}, "the extent of M is a number from 0 on, not True", None),
        ([1, 2, 3], "a shape is a mapping of names to extents, not a list", '{"M": 256}'),
    ],
)
def test_a_shape_that_is_none(shape: Any, message: str, hint: str | None) -> None:
    kernel = tilec.compile(EXAMPLES / "gemm.tile", pipeline="tma")
    with pytest.raises(tilec.TilecError) as caught:
        kernel.explain(shape)
    assert (caught.value.diagnostic.message, caught.value.diagnostic.hint) == (message, hint)


def test_a_kernel_from_a_cubin_has_no_program(tmp_path: Path) -> None:
    if tilec.compile(EXAMPLES / "gemm.tile").variant().artifact.machine is None:
        pytest.skip("no ptxas")
    tilec.compile(EXAMPLES / "gemm.tile", pipeline="tma").variant().save(tmp_path / "gemm.cubin")
    with pytest.raises(tilec.TilecError, match="program"):
        tilec.load(tmp_path / "gemm.cubin").explain()


def test_the_page_of_the_docs_names_every_field(gemm: tuple[int, Design]) -> None:
    marked = re.findall(r"`([^`]*)`", (ROOT / "docs" / "design.md").read_text().split("## JSON")[1])
    documented = {word for one in marked for word in re.findall(r"\w+", one)}
    free = re.compile(r"\.(shape|numbers)\.")

    def names(value: object, path: str = "") -> set[str]:
        match value:
            case dict():
                inner = (names(one, f"{path}.{key}") for key, one in value.items())
                return {key for key in value if not free.search(f"{path}.{key}")}.union(*inner)
            case list():
                return set().union(*(names(one, path) for one in value))
            case _:
                return set()

    assert names(json.loads(gemm[1].json())) - documented == set()
