"""The page about correctness: gates by technique and cell, failures, random problems, sanitizers."""

from __future__ import annotations

import re
from typing import Any

import pytest

from harness import operators
from harness.catalog import experiments, techniques
from harness.catalog.entries import Tile
from harness.catalog.techniques import TECHNIQUES
from harness.operators.attention.problem import Problem
from harness.rows import reading
from reports.data.dataset import Dataset
from reports.draw import errors
from reports.pages import correctness
from tests.support import synthetic_rows as synthetic
from tests.support.gate_rows import Row, gate, gates, sanitized, sanitizer
from tests.support.pages import dataset, rendered

pytestmark = pytest.mark.slow

CELL = ("fp16", 64, False, "bhsd")


def page(*rows: Row, hashes: reading.Hashes | None = None) -> str:
    data = Dataset(
        "NVIDIA H200", True, [synthetic.ENVIRONMENT, *rows], synthetic.hashes() if hashes is None else hashes
    )
    return " ".join(rendered("correctness.html", correctness.page([data])).split())


def matrix_of(*rows: Row) -> correctness.Matrix:
    (found,) = correctness.matrices([dataset([synthetic.ENVIRONMENT, *rows])])
    return found


def test_gates_by_technique_and_cell() -> None:
    found = matrix_of(*gates())
    lines = {line.technique.name: line for line in found.lines}
    assert (found.backend, found.cells, found.distributions) == ("cuda", [CELL], ["normal", "outliers"])
    scalar, swizzle, lean = (lines[name] for name in ("scalar", "xor_swizzle", "lean_instructions"))
    assert (scalar.whole.passed, scalar.whole.failed, scalar.cells[CELL].worst) == (2, [], pytest.approx(1.5))
    assert (swizzle.whole.passed, len(swizzle.whole.failed), swizzle.cells[CELL].worst) == (1, 1, float("inf"))
    assert (lean.whole.declined, lean.whole.passed) == (1, 0)
    assert (found.gated, found.asked) == (5, 48 * len(TECHNIQUES))
    assert matrix_of(*gates(), gate("scalar", Problem.square(1, 2, 256, 64, dtype="fp16"))).gated == 5, (
        "not in the grid"
    )
    assert matrix_of(*gates(), {**gates()[0], "tile": Tile(32, 64).to_dict()}).gated == 5, "one cell at two tiles"
    (earlier,) = correctness.matrices([Dataset("NVIDIA H200", True, [synthetic.ENVIRONMENT, *gates()], {})])
    assert (earlier.gated, {line.earlier for line in earlier.lines}) == (0, {True}), "shown, not counted"


def test_verdicts_with_other_inputs_or_limits_are_counted() -> None:
    now = [row | {"gate": operators.get("attention").comparison} for row in gates()]
    for rows, outdated in ((gates(), 4), (now, 0), ([*now[:3], *gates()[3:]], 1)):
        assert (matrix_of(*rows).outdated, matrix_of(*rows).verdicts) == (outdated, 4)
    assert "All 4 verdicts were made with other inputs or limits" in page(*gates())
    assert "other inputs or limits" not in page(*now)


def test_errors_are_a_picture_that_shows_what_failed() -> None:
    """Technique by cell, one block a language; what was not asked or is declined has no place in it."""
    native = gate("scalar", Problem.square(2, 4, 512, 128, dtype="bf16")) | {"backend": "triton"}
    native |= {"numerics": {"normal": {"max_abs": 0.0072, "yardstick": 0.004, "floor": 0.0}}}
    native["source_sha256"] = synthetic.sha("scalar", "triton")
    right = [row for row in gates() if row["status"] != "wrong"]
    found = correctness.matrices([dataset([synthetic.ENVIRONMENT, *right, native])])
    cuda, triton = blocks = correctness.blocks_of(found)
    assert [block.backend for block in blocks] == ["cuda", "triton"]
    assert cuda.titles == triton.titles == ["Scalar FMA", "XOR swizzle", "Fewer instructions"]
    assert cuda.cells == triton.cells == [CELL, ("bf16", 128, False, "bhsd")]
    assert cuda.errors == [[pytest.approx(1.5), None], [pytest.approx(1.5), None], [None, None]]
    assert triton.errors == [[None, pytest.approx(1.8)], [None, None], [None, None]]
    finding = correctness.finding_of(blocks)
    assert finding == "No kernel errs by more than 1.80 times a careful 16-bit computation: “Scalar FMA” in Triton"
    for width in (errors.WIDE, errors.NARROW):
        drawn = errors.heatmap(blocks, width, finding)
        assert "var(--bad)" not in drawn
        assert "Scalar FMA" in drawn
    assert "Fewer instructions" not in drawn  # on a phone each language has its own techniques
    failed = correctness.blocks_of(correctness.matrices([dataset([synthetic.ENVIRONMENT, *gates(), native])]))
    assert correctness.finding_of(failed) == "1 kernel failed a check"
    assert "fill: var(--bad)" in errors.heatmap(failed, errors.WIDE, "")


def test_where_everything_was_declined_there_is_no_picture() -> None:
    declined = [row | {"status": "unsupported", "reason": "no"} for row in gates()]
    assert correctness.pictures([matrix_of(*declined)]) == []


def test_the_page_shows_gates_failures_and_sanitizers() -> None:
    text = page(*gates(), *sanitized())
    for words in (
        *("2 of 2", "1 of 2", "1.50", "1 kernel failed a check", "declined", "not finite on outliers &lt;b&gt;"),
        *("3 findings", "clean", "0 of 1 clean", "a_bug", "a hazard at &lt;kernel&gt;"),
    ):
        assert words in text, words
    assert re.search(r"<summary>declined</summary><span[^>]*>initcheck does not see it", text)
    table = text.partition(">compute-sanitizer<")[2].partition("</table>")[0]
    lines = {name: line for line in table.split("<tr>") for name in re.findall(r"technique/(\w+)\.html", line)}
    assert set(lines) == {technique.name for technique in TECHNIQUES}
    assert lines["persistent"].count("not run") == 3  # memcheck, racecheck, initcheck ran on another kernel
    assert "not run" not in lines["scalar"]


def test_the_page_explains_what_racecheck_says_of_the_queue_of_tiles() -> None:
    def said(*rows: Row) -> str:
        found = re.search(r"racecheck reports the queue.*?</p>", page(*rows))
        return re.sub(r"<[^>]+>", "", found[0]) if found else ""

    race = sanitizer("persistent", "racecheck", "Race condition at ld_st.cuh:17, ld_st.cuh:12")
    in_gluon = sanitizer("flagship", "racecheck", "Race condition at gluon_warpgroups.py:241") | {"backend": "gluon"}
    assert "other warps its tiles, in 1 kernel in CUDA. This is no race." in said(race)
    assert "and race if the barrier of the warp is missing (tests/planted/slot_freed_while_read.patch)." in said(race)
    assert "gl.warp_specialize" not in said(race)
    assert "in 1 kernel in CUDA and 1 kernel in Gluon." in said(race, in_gluon)
    clean = race | {"status": "passed", "tile": techniques.reference_tile(techniques.get("persistent"), 128).to_dict()}
    for other in (clean, race | {"technique": "scalar"}, race | {"tool": "memcheck"}):
        assert said(other) == ""


@pytest.mark.parametrize(
    ("change", "shown"),
    [({}, True), ({"status": "passed"}, False), ({"experiment": "correctness"}, False), ({"technique": None}, False)],
)
def test_failures_of_other_experiments_are_shown(change: dict[str, object], shown: bool) -> None:
    row = gate("scalar", synthetic.PROBLEMS[0], status="wrong", check="unwritten", reason="half of lse")
    row |= {"experiment": "hopper", **change}
    failed = correctness.failed_elsewhere([dataset([synthetic.ENVIRONMENT, row])])
    assert [each["reason"] for each in failed] == ["half of lse"] * shown


def test_random_problems_count_those_of_the_experiment_alone_whatever_the_tile() -> None:
    first, second, *_ = problems = experiments.load("random_problems").problems
    now = {"experiment": "random_problems", "gate": operators.get("attention").comparison}
    passed = [gate("flagship", problem, **now) for problem in (first, second)]
    wrong = {"status": "wrong", "check": "unwritten", "reason": "half of lse"}

    def said(*rows: Row, **options: Any) -> str:
        section = page(*rows, **options).partition('<h2 id="random">')[2].partition("<h2")[0]
        return " ".join(re.sub(r"<[^>]*>", "", section).split())

    none = "They are not checked yet. twinkernels run random_problems checks 1,000 of them"
    assert none in said()
    declined = gate("flagship", first, **now, status="unsupported", reason="needs Hopper")
    other = gate("flagship", synthetic.PROBLEMS[0], **now)
    elsewhere = gate("flagship", first, gate=operators.get("attention").comparison)
    assert none in said(declined, other, elsewhere, {**passed[0], "backend": "gluon"}, gate("wgmma", first, **now))
    two = said(*passed, other)
    assert "“Flagship” in CUDA passed all 2 random problems that were checked, of 1,000, drawn from the seed" in two
    assert "other inputs or limits" not in two
    again = said(*passed, {**passed[1], **wrong, "tile": Tile(32, 64).to_dict()})
    assert "passed 1 of 2 random problems that were checked, of 1,000" in again
    assert f"It failed: {second.slug}." in again
    assert "1 of 2 verdicts were made with other inputs or limits" in said(passed[0], {**passed[1], "gate": "0" * 12})
    assert "passed all 1,000 random problems, drawn" in said(*(gate("flagship", one, **now) for one in problems))
    earlier = said(passed[0], {**passed[1], **wrong}, hashes={})
    assert "An earlier version of “Flagship” in CUDA passed 1 of 2 random problems that were checked" in earlier
