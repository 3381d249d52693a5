"""Which rows are about this checkout."""

from harness.catalog import techniques
from harness.catalog.entries import Tile
from harness.operators.attention.problem import Problem
from harness.rows import reading

PROBLEM, WIDE = Problem.square(4, 16, 4096, 128), Tile(192, 80, 2, 12)


def declined(reason: str | None) -> dict[str, object]:
    return {
        "kind": "gate",
        "status": "unsupported",
        "technique": "wide_tile",
        "backend": "triton",
        "problem": PROBLEM.to_dict(),
        "tile": WIDE.to_dict(),
        "source_sha256": "of another source",
        "reason": reason,
    }


def test_a_case_that_is_declined_for_the_same_reason_needs_no_source() -> None:
    reason = techniques.unsupported(techniques.get("wide_tile"), "triton", PROBLEM, WIDE)
    assert reason
    assert reading.is_current(declined(reason), {})
    assert not reading.is_current(declined("it was too wide; got another tile"), {})
    assert not reading.is_current(declined(reason) | {"status": "passed"}, {})
    assert not reading.is_current(declined(reason) | {"technique": "gone"}, {})
