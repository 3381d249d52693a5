"""The page about correctness: gates by technique, failures, sanitizers."""

import re
from collections.abc import Sequence
from itertools import chain

import pytest

from harness import operators
from harness.catalog import experiments, techniques
from harness.rows import reading
from reports.data.dataset import Dataset
from reports.pages import correctness
from tests.support import synthetic_rows as synthetic
from tests.support.gate_rows import Row, gate, gates, sanitized, sanitizer
from tests.support.pages import dataset, rendered

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("recorded")]


def page(*rows: Row, hashes: reading.Hashes | None = None) -> str:
    data = Dataset(
        "NVIDIA H200", True, [synthetic.ENVIRONMENT, *rows], synthetic.hashes() if hashes is None else hashes
    )
    return " ".join(rendered("correctness.html", correctness.page([data])).split())


def lines_of(*rows: Row, hashes: reading.Hashes | None = None) -> dict[str, correctness.Line]:
    given = synthetic.hashes() if hashes is None else hashes
    data = Dataset("NVIDIA H200", True, [synthetic.ENVIRONMENT, *rows], given)
    return {line.technique.name: line for line in correctness.judged_lines([data])}


def test_every_technique_has_a_line_with_what_its_gates_say() -> None:
    lines = lines_of(*gates())
    scalar, swizzle, lean = (lines[name].by_backend["cuda"] for name in ("scalar", "xor_swizzle", "lean_instructions"))
    assert (scalar.passed, scalar.failed, scalar.worst) == (2, [], pytest.approx(1.5))
    assert (swizzle.passed, len(swizzle.failed)) == (1, 1)
    assert (lean.declined, lean.passed) == (1, 0)
    assert {line.earlier for line in lines_of(*gates(), hashes={}).values()} == {True}, "shown, not counted"
    assert "1 of 4 checks passed" not in page(*gates(), hashes={})


def test_verdicts_with_other_inputs_or_limits_are_counted() -> None:
    now = [row | {"gate": operators.get("attention").comparison} for row in gates()]
    for rows, outdated in ((gates(), 4), (now, 0), ([*now[:3], *gates()[3:]], 1)):
        found = [one for line in lines_of(*rows).values() for one in line.by_backend.values()]
        assert sum(one.outdated for one in found) == outdated
    assert "4 of 4 checks were made with earlier inputs or limits" in page(*gates())
    assert "with earlier inputs or limits" not in page(*now)


@pytest.mark.parametrize(
    ("change", "shown"),
    [({}, True), ({"status": "passed"}, False), ({"experiment": "correctness"}, True), ({"technique": None}, False)],
)
def test_failures_of_all_experiments_are_shown(change: dict[str, object], shown: bool) -> None:
    row = gate("scalar", synthetic.PROBLEMS[0], status="wrong", check="unwritten", reason="half of lse")
    assert ("half of lse" in page(row | {"experiment": "hopper", **change})) is shown


def test_what_an_earlier_gate_refused_may_be_right_and_what_a_stricter_one_passed_is() -> None:
    stricter = operators.get("attention_backward").stricter_comparisons[0]
    verdicts = [{"operator": "attention_backward", "gate": stricter, "status": one} for one in ("wrong", "passed")]
    assert [*map(reading.of_earlier_gate, verdicts)] == [True, False]
    row = gate("scalar", synthetic.PROBLEMS[0], status="wrong", check="max_error", reason="narrow limits")
    causes = {"0" * 12: "earlier_gate", operators.get("attention").comparison: "unknown"}
    for comparison, cause in causes.items():
        (found,) = correctness.failures([dataset([synthetic.ENVIRONMENT, row | {"gate": comparison}])])
        assert found.cause == cause


def test_a_failure_of_an_earlier_version_says_what_the_present_one_passed() -> None:
    old = gate("scalar", synthetic.PROBLEMS[0], status="wrong", source_sha256="of an earlier version")
    new = gate("scalar", synthetic.PROBLEMS[1])
    (found,) = correctness.failures([dataset([synthetic.ENVIRONMENT, old, new])])
    assert (found.cause, found.now and found.now.passed) == ("earlier", 1)
    assert "The kernel has changed since: of the present one 1 of 1 checks passed" in page(old, new)


def test_every_recorded_failure_has_a_cause(recorded_data: dict[str, Sequence[Dataset]]) -> None:
    """A new one needs an explanation: in CAUSES, or in Findings."""
    found = correctness.failures([*chain.from_iterable(recorded_data.values())])
    assert {one.cause for one in found} >= {"idle_barriers", "shared_memory", "earlier"}
    assert [one for one in found if one.cause == "unknown"] == []


def test_the_verdicts_of_each_experiment_are_counted() -> None:
    first, second, *_ = experiments.load("random_problems").problems
    rows = [gate("flagship", problem, experiment="random_problems") for problem in (first, second)]
    ((name, question, one),) = correctness.by_experiment([dataset([synthetic.ENVIRONMENT, *rows])])
    assert (name, one.passed, one.failed) == ("random_problems", 2, [])
    assert question.endswith("?")


def test_the_page_shows_gates_failures_and_sanitizers() -> None:
    text = page(*gates(), *sanitized())
    for words in (
        *("2 of 2", "1 of 2", "1.50", "3 of 4 checks passed", "declined", "not finite on outliers &lt;b&gt;"),
        *("3 findings", "clean", "0 of 1 clean", "a_bug", "a hazard at &lt;kernel&gt;"),
    ):
        assert words in text, words
    assert re.search(r"<summary>declined</summary><span[^>]*>initcheck does not see it", text)
    table = text.partition(">compute-sanitizer<")[2].partition("</table>")[0]
    lines = {name: line for line in table.split("<tr>") for name in re.findall(r"technique/(\w+)\.html", line)}
    assert set(lines) == {technique.name for technique in techniques.rungs()}
    assert lines["persistent"].count("not run") == 3  # memcheck, racecheck, initcheck ran on another kernel
    assert "not run" not in lines["scalar"]


def test_the_page_explains_what_racecheck_says_of_the_queue_of_tiles_and_of_bulk_copies() -> None:
    def said(*rows: Row) -> str:
        found = re.search(r"racecheck reports the queue.*?</p>", page(*rows))
        return re.sub(r"<[^>]+>", "", found[0]) if found else ""

    race = sanitizer("persistent", "racecheck", "Race condition at ld_st.cuh:17, ld_st.cuh:12")
    in_gluon = sanitizer("flagship", "racecheck", "Race condition at gluon_warpgroups.py:241") | {"backend": "gluon"}
    assert "other warps its tiles, in 1 kernel in CUDA. This is no race." in said(race)
    assert "and race if the barrier of the warp is missing (tests/planted/slot_freed_while_read.patch)." in said(race)
    assert "gl.warp_specialize" not in said(race)
    assert "in 1 kernel in CUDA and 1 kernel in Gluon." in said(race, in_gluon)
    clean = race | {
        "status": "passed",
        "tile": techniques.reference_tile(techniques.get("attention/persistent"), 128).to_dict(),
    }
    copies = sanitizer("persistent", "racecheck", "Race condition at tma.cuh:100, ld_st.cuh:12")
    for other in (clean, copies, race | {"technique": "scalar"}, race | {"tool": "memcheck"}):
        assert said(other) == ""
    assert "in 1 CUDA kernel. They hold a number for each row" in page(copies)
    for other in (clean, race):
        assert "They hold a number for each row" not in page(other)
