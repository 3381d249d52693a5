"""harness/compare.py on replayed rows: what it must catch, what it must let pass, what it must refuse."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from harness import compare
from tests import synthetic_rows as synthetic

Row = dict[str, Any]


def base() -> list[Row]:
    timing = [row for row in synthetic.rows() if row["kind"] == "timing" and row.get("mode") == "burst"]
    return [synthetic.ENVIRONMENT, *(row for row in timing if row.get("status") == "passed")]


def planted(rows: list[Row], **fields: Any) -> list[Row]:
    """A copy in which cp_async_pipeline in CUDA on the first problem has other fields."""
    return [row | fields if is_victim(row) else row for row in rows]


def is_victim(row: Row) -> bool:
    names = (row.get("technique"), row.get("backend"), row.get("experiment"), row.get("problem"))
    return names == ("cp_async_pipeline", "cuda", "ladder", synthetic.PROBLEMS[0].to_dict())


def victim(rows: list[Row]) -> Row:
    return next(row for row in rows if is_victim(row))


def only(new: list[Row]) -> compare.Verdict:
    """The one case that is not SAME."""
    found = [verdict for verdict in compare.compare(base(), new) if verdict.verdict != compare.SAME]
    assert len(found) == 1, found
    return found[0]


def slower(row: Row, factor: float) -> list[float]:
    return [sample * factor for sample in row["samples_ms"]]


def write(path: Path, rows: list[Row]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def main(tmp_path: Path, new: list[Row], accept: bool = False) -> tuple[int, str]:
    console = Console(file=io.StringIO(), width=200)
    code = compare.main(write(tmp_path / "base", base()), write(tmp_path / "new", new), accept, console)
    return code, console.file.getvalue()  # type: ignore[attr-defined]


def test_a_run_is_the_same_as_itself(tmp_path: Path) -> None:
    assert {verdict.verdict for verdict in compare.compare(base(), base())} == {compare.SAME}
    assert main(tmp_path, base())[0] == 0


def test_a_planted_slowdown_of_ten_percent_fails(tmp_path: Path) -> None:
    new = planted(base(), samples_ms=slower(victim(base()), 1.1))
    verdict = only(new)
    assert (verdict.verdict, round(verdict.change or 0, 3)) == (compare.SLOWER, 0.1)
    code, text = main(tmp_path, new)
    assert code == 1
    assert "SLOWER" in text
    assert "+10.0%" in text


def test_faster_does_not_fail(tmp_path: Path) -> None:
    new = planted(base(), samples_ms=slower(victim(base()), 0.9))
    assert only(new).verdict == compare.FASTER
    assert main(tmp_path, new)[0] == 0


def test_a_slowdown_of_the_clock_is_ambiguous_not_slower(tmp_path: Path) -> None:
    new = planted(base(), samples_ms=slower(victim(base()), 1.1), clocks={"sm_mhz": 1980 / 1.1})
    verdict = only(new)
    assert verdict.verdict == compare.AMBIGUOUS
    assert "SM clock 1980 -> 1800 MHz: slower in time, no change in cycles" in verdict.reason
    assert main(tmp_path, new)[0] == 0


def test_without_a_clock_nothing_is_confirmed() -> None:
    new = planted(base(), samples_ms=slower(victim(base()), 1.1), clocks=None)
    assert "no SM clock" in only(new).reason


def test_moved_medians_with_overlapping_intervals_are_ambiguous() -> None:
    samples = victim(base())["samples_ms"]
    new = planted(base(), samples_ms=[min(samples), *slower(victim(base()), 1.02)])
    assert only(new).verdict == compare.AMBIGUOUS


def test_a_change_within_the_noise_is_the_same() -> None:
    new = planted(base(), samples_ms=slower(victim(base()), 1.004))
    assert {verdict.verdict for verdict in compare.compare(base(), new)} == {compare.SAME}


def test_a_removed_case_fails(tmp_path: Path) -> None:
    new = [row for row in base() if not is_victim(row)]
    verdict = only(new)
    assert (verdict.verdict, verdict.reason) == (compare.MISSING, "no row in NEW")
    assert main(tmp_path, new)[0] == 1


def test_a_case_that_no_longer_passes_is_missing_with_its_reason() -> None:
    new = planted(base(), status="crashed", reason="signal 11")
    verdict = only(new)
    assert (verdict.verdict, verdict.reason) == (compare.MISSING, "crashed: signal 11")


def test_a_changed_kernel_is_the_same_case() -> None:
    new = planted(base(), source_sha256="0" * 64)
    assert {verdict.verdict for verdict in compare.compare(base(), new)} == {compare.SAME}


def test_another_gpu_is_refused(tmp_path: Path) -> None:
    other = {**synthetic.ENVIRONMENT, "details": {"gpu": {"name": "NVIDIA A100"}}}
    new = [other, *base()[1:]]
    with pytest.raises(compare.Refused, match="NVIDIA H200, NEW from NVIDIA A100"):
        compare.compare(base(), new)
    code, text = main(tmp_path, new, accept=True)
    assert code == 2
    assert "INCOMPARABLE" in text
    assert (tmp_path / "base").read_text() != (tmp_path / "new").read_text()


def test_nothing_in_common_is_refused() -> None:
    with pytest.raises(compare.Refused, match="none is in both"):
        compare.compare(base(), [row | {"experiment": "other"} if "experiment" in row else row for row in base()])


def test_only_accept_changes_the_baseline(tmp_path: Path) -> None:
    new = planted(base(), samples_ms=slower(victim(base()), 1.1))
    before = "".join(json.dumps(row) + "\n" for row in base())
    main(tmp_path, new)
    assert (tmp_path / "base").read_text() == before
    code, text = main(tmp_path, new, accept=True)
    assert code == 0
    assert "accepted" in text
    assert (tmp_path / "base").read_text() == (tmp_path / "new").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base", "new"]


def test_reasons_are_not_read_as_markup(tmp_path: Path) -> None:
    text = main(tmp_path, planted(base(), status="crashed", reason="[red]boom[/red]"))[1]
    assert "[red]boom[/red]" in text
