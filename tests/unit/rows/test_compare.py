"""harness/rows/compare.py on replayed rows: what it must catch, what it must let pass, what it must refuse."""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from harness.operators.attention.problem import Problem
from harness.rows import compare, stats
from harness.rows.frame import frame, table
from tests.support import replicated_rows as replicated
from tests.support import synthetic_rows as synthetic
from tests.support.row_file import write, write_recorded

pytestmark = pytest.mark.slow

Row = dict[str, Any]
VICTIM = ("cp_async_pipeline", Problem.square(4, 16, 2048, 128))


def machine(rows: list[Row], factor: float) -> list[Row]:
    """Everything slower: a clock locked lower."""
    return [slower(row, factor) for row in rows]


def slower(row: Row, factor: float) -> Row:
    return {**row, "samples_ms": [sample * factor for sample in row["samples_ms"]]} if "samples_ms" in row else row


RECORDS = machine(replicated.rows(), 10)
"""So slow that boards can be compared."""


def base() -> list[Row]:
    return replicated.of_process(RECORDS, "board0", 0)


def again() -> list[Row]:
    """The same code in another process on the same board."""
    return replicated.of_process(RECORDS, "board0", 1)


def elsewhere() -> list[Row]:
    return replicated.of_process(RECORDS, "board3", 0)


def planted(rows: list[Row], factor: float = 1.0, **fields: Any) -> list[Row]:
    """A copy in which the victim is slower by a factor, or has other fields."""
    return [{**slower(row, factor), **fields} if is_victim(row) else row for row in rows]


def is_victim(row: Row) -> bool:
    return (row.get("technique"), row.get("problem")) == (VICTIM[0], VICTIM[1].to_dict())


def compared(before: list[Row], after: list[Row], records: list[Row], **options: Any) -> list[compare.Verdict]:
    return compare.compare(*(table("timing", rows) for rows in (before, after, records)), **options)


def judged(new: list[Row], **options: Any) -> list[compare.Verdict]:
    return compared(base(), new, RECORDS, **options)


def told(new: list[Row]) -> dict[str, str]:
    return {item.case: item.verdict for item in judged(new) if item.verdict != compare.SAME}


def only(new: list[Row]) -> compare.Verdict:
    """The one case that is not SAME."""
    found = [verdict for verdict in judged(new) if verdict.verdict != compare.SAME]
    assert len(found) == 1, found
    return found[0]


def main(
    tmp_path: Path, new: list[Row], before: list[Row] | None = None, records: list[Row] = RECORDS, **options: Any
) -> tuple[int, str]:
    console = Console(file=io.StringIO(), width=220)
    paths = write(tmp_path / "base", base() if before is None else before), write(tmp_path / "new", new)
    write_recorded(tmp_path / "recorded", records)
    code = compare.main(*paths, tmp_path / "recorded", console=console, **options)
    return code, console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.xdist_group("recorded")
@pytest.mark.slow
@pytest.mark.parametrize("gpu", ["h100", "h200"])
def test_recorded_rows_equal_themselves(gpu: str) -> None:
    timing = frame("timing")
    here = timing[timing.experiment.isin(["ladder", "hopper_sustained"]) & (timing.gpu_slug == gpu)]
    assert {verdict.verdict for verdict in compare.compare(here, here, timing)} == {compare.SAME}


def test_an_older_passed_row_beside_a_newer_one_that_failed_is_no_case() -> None:
    failed = {
        "status": "not_converged",
        "reason": "still moving",
        "source_sha256": "newer",
        "time": "2031-01-01T00:00:00Z",
    }
    rows = [*base(), *(row | failed for row in base() if is_victim(row))]
    assert {verdict.verdict for verdict in compared(rows, rows, [])} == {compare.SAME}


def test_the_same_code_is_the_same_in_another_process_and_on_another_board() -> None:
    assert told(again()) == {}
    assert told(elsewhere()) == {}


@pytest.mark.parametrize(("new", "one_board"), [(again, True), (elsewhere, False)])
def test_a_planted_slowdown_of_ten_percent_fails(new: Any, one_board: bool, tmp_path: Path) -> None:
    rows = planted(new(), 1.1)
    verdict = only(rows)
    assert (verdict.verdict, verdict.one_board) == (compare.SLOWER, one_board)
    assert verdict.change == pytest.approx(0.1, abs=0.03)
    assert verdict.ratio_change == pytest.approx(0.1, abs=0.03)
    code, text = main(tmp_path, rows)
    assert code == 1
    assert "SLOWER" in text
    assert f"{verdict.change:+.1%}" in text


def test_what_is_noise_on_two_boards_is_slower_on_one() -> None:
    """The limits come from pairs: between boards these move three times as far."""
    pairs = stats.pairs(table("timing", RECORDS))
    one, two = (stats.limits(pairs, one_board) for one_board in (True, False))
    factor = 1 + (one.both + two.both) / 2
    same_board = [row | {"environment": "board0-0"} if "environment" in row else row for row in planted(base(), factor)]
    assert told(same_board)
    other_board = [synthetic.environment("board1-0", "board1"), *same_board[1:]]
    other_board = [row | {"environment": "board1-0"} if "environment" in row else row for row in other_board]
    assert told(other_board) == {}


def test_what_was_timed_at_the_power_cap_has_a_noise_of_its_own() -> None:
    """Limits of burst mode say nothing of sustained rows, nor these of it."""

    def sustained(rows: list[Row]) -> list[Row]:
        return [row | {"mode": "sustained"} if row["kind"] == "timing" else row for row in rows]

    before, after = sustained(base()), sustained(planted(again(), 1.1))
    (verdict,) = (item for item in compared(before, after, RECORDS) if abs(item.change or 0) > 0.05)
    assert verdict.verdict == compare.AMBIGUOUS
    assert "its noise is not known" in verdict.reason
    of_both = [*RECORDS, *sustained(RECORDS)]
    (verdict,) = (item for item in compared(before, after, of_both) if item.verdict != compare.SAME)
    assert verdict.verdict == compare.SLOWER
    wild = [*RECORDS, *(slower(row, 1.2) if number % 2 else row for number, row in enumerate(sustained(RECORDS)))]
    assert {item.verdict for item in compared(base(), again(), wild)} == {compare.SAME}


def test_a_short_kernel_is_not_judged_between_boards() -> None:
    def short(rows: list[Row]) -> list[Row]:
        return machine(rows, 0.001)

    found = compared(short(base()), short(planted(elsewhere(), 1.1)), RECORDS)
    (victim,) = (item for item in found if (item.change or 0) > 0.05)
    assert victim.verdict == compare.AMBIGUOUS
    assert "too short to be judged between boards" in victim.reason
    on_one_board = compared(short(base()), short(planted(again(), 1.1)), RECORDS)
    assert {item.verdict for item in on_one_board} == {compare.SAME, compare.SLOWER}


def test_faster_does_not_fail(tmp_path: Path) -> None:
    assert only(planted(again(), 0.9)).verdict == compare.FASTER
    assert main(tmp_path, planted(again(), 0.9))[0] == 0


def test_a_slower_machine_is_no_slower_kernel_and_hides_none() -> None:
    assert told(machine(again(), 1.1)) == {}
    verdict = only(planted(machine(again(), 1.1), 1.1))
    assert verdict.verdict == compare.SLOWER
    assert "judged by the ratio alone" in verdict.reason
    assert only(planted(machine(again(), 1 / 1.1), 1.1)).verdict == compare.SLOWER


def test_a_slower_machine_is_told_beside_the_counts(tmp_path: Path) -> None:
    """Each case is SAME, and so in no table; that all of it became slower must not go unsaid."""
    cases = len(judged(again()))
    assert "ratio alone" not in main(tmp_path, again())[1]
    code, said = main(tmp_path, machine(again(), 1.1))
    assert (code, f"{cases} SAME" in said) == (0, True), said
    told = re.search(
        r"(\d+) of them judged by the ratio alone: their anchors moved by \+(\d+\.\d)% in the median", said
    )
    assert told is not None, said
    assert 0 < int(told[1]) <= cases
    assert float(told[2]) == pytest.approx(10, abs=1)


def test_without_a_peer_in_both_groups_the_time_decides() -> None:
    def alone(rows: list[Row]) -> list[Row]:
        return [row for row in rows if row["kind"] == "environment" or row.get("technique")]

    found = compared(alone(base()), alone(planted(again(), 1.1)), RECORDS)
    (verdict,) = (item for item in found if item.verdict != compare.SAME)
    assert (verdict.verdict, verdict.ratio_change) == (compare.SLOWER, None)
    assert "judged by its time alone" in verdict.reason


def test_a_library_of_another_version_is_no_anchor() -> None:
    """Its own case is judged; what was held against it is judged by time."""
    newer = planted(again(), 1.0)
    details = newer[0]["details"]
    newer[0] = {**newer[0], "details": {**details, "software": {**details["software"], "cudnn": 92000}}}
    newer = [slower(row, 1.2) if row.get("backend", "").startswith("sdpa") else row for row in newer]
    found = judged(newer)
    assert {item.verdict for item in found if "sdpa" not in item.case} == {compare.SAME}
    assert {item.verdict for item in found if "sdpa" in item.case} == {compare.SLOWER}


def test_without_records_a_change_is_not_called() -> None:
    found = compared(base(), planted(again(), 1.1), [])
    assert {item.verdict for item in found} == {compare.AMBIGUOUS}
    assert "its noise is not known: fewer than 100 pairs" in found[0].reason
    assert {item.verdict for item in compared(base(), base(), [])} == {compare.SAME}


def test_where_nothing_can_be_judged_the_exit_code_is_no_success(tmp_path: Path) -> None:
    """Of a GPU without recorded replicates no noise is known, and a kernel twice as slow would pass."""
    code, said = main(tmp_path, machine(again(), 2.0), records=[])
    assert code == 2
    assert "nothing was judged: `twinkernels run EXPERIMENT --replicates 3`" in said


def test_of_many_cases_without_a_row_the_first_are_listed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(compare, "FEW_MISSING", 1)
    few = [row for row in base() if row["kind"] != "timing" or row["backend"] == "sdpa_cudnn"]
    code, said = main(tmp_path, few)
    missing = len({json.dumps([row.get(name) for name in compare.IDENTITY]) for row in base() if row not in few})
    assert missing > 2
    assert (code, said.count("no row in NEW")) == (1, 1)
    assert f"and {missing - 1} more MISSING without a row in NEW" in said


def test_a_kernel_of_ones_own_can_be_asked_for() -> None:
    def mine(rows: list[Row]) -> list[Row]:
        return [
            {**row, "technique": None, "backend": "own", "kernel": "mine.py:attend"} if is_victim(row) else row
            for row in rows
        ]

    found = compared(mine(base()), mine(again()), RECORDS, techniques=["mine.py:attend"])
    assert len(found) == 1


def test_the_pair_that_is_judged_is_no_part_of_the_noise() -> None:
    """NEW is recorded already: the replicates that its own slowdown makes do not excuse it."""
    new = planted(again(), 1.1)
    records = [row for row in RECORDS if row.get("environment", row.get("id")) != "board0-1"] + new
    found = compared(base(), new, records)
    assert [item.verdict for item in found if item.verdict != compare.SAME] == [compare.SLOWER]


def test_replicates_of_a_case_count_together() -> None:
    """One of two processes was slow: the case is not."""
    other, outlier = replicated.of_process(RECORDS, "board3", 1), planted(elsewhere(), 1.04)
    assert told(outlier)
    assert told([*other, *outlier]) == {}


def test_a_removed_case_fails(tmp_path: Path) -> None:
    new = [row for row in again() if not is_victim(row)]
    verdict = only(new)
    assert (verdict.verdict, verdict.reason) == (compare.MISSING, "no row in NEW")
    assert main(tmp_path, new)[0] == 1


def test_a_case_that_no_longer_passes_is_missing_with_its_reason() -> None:
    verdict = only(planted(again(), status="crashed", reason="signal 11"))
    assert (verdict.verdict, verdict.reason) == (compare.MISSING, "crashed: signal 11")


def test_a_changed_kernel_is_the_same_case() -> None:
    new = planted(again(), source_sha256="0" * 64)
    assert told(new) == {}
    (case,) = [verdict for verdict in judged(new) if verdict.new_program]
    assert (case.verdict, VICTIM[0] in case.case) == (compare.SAME, True)


def test_one_technique_can_be_asked_for() -> None:
    found = judged(again(), techniques=["xor_swizzle"])
    assert len(found) == 6
    assert all("xor_swizzle" in verdict.case for verdict in found)
    with pytest.raises(compare.Refused, match="--technique: got flagship, of which BASE times no case"):
        judged(again(), techniques=["flagship"])


def test_the_same_is_counted_not_listed(tmp_path: Path) -> None:
    code, text = main(tmp_path, again())
    assert (code, text) == (0, f"{len(judged(again()))} SAME\n")


def test_json_has_every_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _ = main(tmp_path, planted(again(), 1.1), as_json=True)
    printed = json.loads(capsys.readouterr().out)
    assert code == 1
    assert printed["tally"] == {"SLOWER": 1, "SAME": len(printed["verdicts"]) - 1}
    slow = next(item for item in printed["verdicts"] if item["verdict"] == "SLOWER")
    assert VICTIM[0] in slow["case"]
    assert slow["ratio_change"] == pytest.approx(0.1, abs=0.03)


def test_folders_are_all_their_files(tmp_path: Path) -> None:
    new = again()
    half = len(new) // 2
    write(tmp_path / "run" / "a.jsonl", new[:half])
    write(tmp_path / "run" / "b.jsonl", new[half:])
    records = tmp_path / "recorded"
    write_recorded(records, RECORDS)
    console = Console(file=io.StringIO(), width=200)
    assert compare.main(write(tmp_path / "base.jsonl", base()), tmp_path / "run", records, console=console) == 0
    empty = tmp_path / "empty"
    empty.mkdir()
    assert compare.main(tmp_path / "base.jsonl", empty, records, console=console) == 2


def test_a_file_without_rows_is_told_as_such(tmp_path: Path) -> None:
    for name, before, new in (("BASE", [], base()), ("NEW", base(), [])):
        code, said = main(tmp_path, new, before, [])
        assert (code, f"{name} holds no rows" in said) == (2, True)


def test_files_without_a_timing_are_told_as_such(tmp_path: Path) -> None:
    """Of `check`, on a machine without a GPU."""
    gates = [row for row in base() if row["kind"] == "environment"]
    assert main(tmp_path, gates, gates, []) == (0, "no case is timed in either\n")
    with pytest.raises(compare.Refused, match="hold no timing: expected rows of `twinkernels run` or `bench`"):
        compared(base()[:1], again()[:1], [])


def test_another_gpu_is_refused(tmp_path: Path) -> None:
    new = [{**base()[0], "details": {"gpu": {"name": "NVIDIA A100"}}}, *base()[1:]]
    with pytest.raises(compare.Refused, match=r"NVIDIA H200, NEW from NVIDIA A100: .* name a BASE of NEW's"):
        judged(new)
    code, text = main(tmp_path, new)
    assert code == 2
    assert "INCOMPARABLE" in text


def test_nothing_in_common_is_refused() -> None:
    with pytest.raises(compare.Refused, match="none is in both"):
        judged([row | {"experiment": "other"} if "experiment" in row else row for row in base()])


def test_reasons_are_not_read_as_markup(tmp_path: Path) -> None:
    text = main(tmp_path, planted(again(), status="crashed", reason="[red]boom[/red]"))[1]
    assert "[red]boom[/red]" in text
