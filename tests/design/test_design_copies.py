"""Whether TMA suits a copy: what the report says is what the compiler did."""

from __future__ import annotations

import pytest
from design_subjects import EXAMPLES, GEMM, quick, subject

from tilec.design.copies import Copy, copies
from tilec.design.subject import Subject
from tilec.dialects.tile import CopyAsyncOp

_A = "%A: !tile.view<MxKxf16>"
_GATHER = """
// Row by row, each at a place that nothing aligns: what a gather of rows is made of.
tile.kernel @gather(%A: !tile.view<MxKxf16>, %D: !tile.view<MxKxf16>) {
  tile.grid (%m, %k) over %D step (1, 8) {
    %one = arith.constant 1 : index
    %there = arith.addi %k, %one : index
    %row = tile.alloc : !tile.smem<1x8xf16>
    tile.copy %A[%m, %there] to %row
    tile.copy %row to %D[%m, %k]
  }
}
"""


def _by_view(made: Subject) -> dict[str, Copy]:
    return {copy.view: copy for copy in copies(made)}


def _dispatches(made: Subject, view: str) -> set[str]:
    """Who copies a view, by the IR."""
    return {
        op.dispatch
        for op in made.kernel.walk()
        if isinstance(op, CopyAsyncOp) and view in {value.name_hint for value in op.operands}
    }


def test_all_of_a_gemm_suits() -> None:
    made = subject(GEMM, "tma,pipeline(2)")
    for view, copy in _by_view(made).items():
        assert (copy.suits, copy.engine, copy.reason, copy.bytes) == (True, "TMA", None, 16384)
        assert all(criterion.holds for criterion in copy.criteria)
        assert _dispatches(made, view) == {"tma"}


@pytest.mark.parametrize(
    ("text", "view", "fails", "reason"),
    [
        pytest.param(
            (EXAMPLES / "bias_relu.tile").read_text(),
            "bias",
            ["large enough"],
            "512 bytes are too few for TMA to pay (under 2048)",
            id="tiny",
        ),
        pytest.param(
            _GATHER,
            "A",
            ["regular", "large enough"],
            "the innermost coordinate is not known to be a multiple of 16 bytes",
            id="gather",
        ),
        pytest.param(
            GEMM.replace(_A, "%A: !tile.view<MxKxf16, align = 2>"),
            "A",
            ["fixed strides"],
            "TMA needs bases and pitches of 16 bytes, the view has align = 2",
            id="misaligned",
        ),
        pytest.param(
            GEMM.replace("%D: !tile.view<MxNxf16>", "%D: !tile.view<MxNxf16, tail = free>"),
            "D",
            ["fixed strides"],
            "a TMA store clips in 16-byte units, and rows of the view end between them (tail = free)",
            id="ragged rows",
        ),
    ],
)
def test_what_does_not_suit_is_said_and_not_done(text: str, view: str, fails: list[str], reason: str) -> None:
    made = subject(text, "tma")
    copy = _by_view(made)[view]
    assert (copy.suits, copy.engine, copy.reason) == (False, "threads", reason)
    assert [criterion.name for criterion in copy.criteria if not criterion.holds] == fails
    assert "do not use TMA, and the threads copy it in vectors" in copy.choice
    assert _dispatches(made, view) == {"threads"}


def test_a_pass_list_may_leave_what_suits_to_the_threads() -> None:
    made = subject(GEMM, "threads,pipeline(2)")
    copy = _by_view(made)["A"]
    assert (copy.suits, copy.engine, copy.reason) == (True, "threads", "the pass list says so")
    assert _dispatches(made, "A") == {"threads"}


@pytest.mark.parametrize(
    ("pipeline", "verdict"),
    [
        (
            "",
            "add the pass tma: TMA suits 3 of 3 copies, and does none; 0 of 3 copies by TMA, one stage, protocol proved for every K",
        ),
        (
            "threads,pipeline(2)",
            "add the pass tma in place of threads: TMA suits 3 of 3 copies, and does none; 0 of 3 copies by TMA, a ring of 2 "
            "stages, protocol proved for every K",
        ),
    ],
)
def test_what_suits_and_is_not_done_is_advice(pipeline: str, verdict: str) -> None:
    assert quick(subject(GEMM, pipeline)).conclusion.verdict == verdict


def test_without_a_pass_that_chooses_the_threads_copy() -> None:
    assert {copy.reason for copy in copies(subject(GEMM))} == {"the pass list has no tma"}


def test_the_pass_list_may_set_the_least_size() -> None:
    made = subject((EXAMPLES / "bias_relu.tile").read_text(), "tma(min_bytes=512)")
    assert (_by_view(made)["bias"].suits, _dispatches(made, "bias")) == (True, {"tma"})


def test_a_shape_off_the_grid_is_another_variant() -> None:
    made = subject(GEMM, "tma,pipeline(2)", shape={"M": 128, "N": 128, "K": 100})
    assert {view: copy.engine for view, copy in _by_view(made).items()} == {"A": "threads", "B": "threads", "D": "TMA"}
    assert any("this is the variant that a launch takes" in remark.message for remark in made.remarks)


def test_the_page_says_it() -> None:
    text = str(quick(subject(_GATHER, "tma")))
    assert "A -> row: do not use TMA, and the threads copy it in vectors" in text.replace("\n  ", " ")
    assert "No tensor maps: the threads copy everything." in text
