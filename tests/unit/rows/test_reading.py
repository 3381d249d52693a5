"""Which rows are about this checkout."""

from __future__ import annotations

import pytest

from harness.catalog import techniques
from harness.catalog.entries import Tile
from harness.operators.attention.operator import OPERATOR
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


def test_a_kernel_with_one_verdict_of_an_earlier_gate_was_last_checked_by_it_in_part() -> None:
    def gate(technique: str | None, backend: str = "cuda", **fields: str) -> dict[str, object]:
        return {"kind": "gate", "technique": technique, "backend": backend, "status": "passed", **fields}

    now = {"gate": OPERATOR.comparison}
    rows = [gate("scalar", **now), gate("scalar", "triton", **now), gate("wmma", status="wrong", **now)]
    assert reading.last_checked(rows) == (0, 3)
    declined, peer = gate("large_tile", status="unsupported"), gate(None, "sdpa_cudnn")
    assert reading.last_checked([*rows, declined, peer]) == (0, 3)
    assert reading.last_checked([gate("scalar"), *rows, gate("scalar", gate="0" * 12)]) == (1, 3)
    assert reading.last_checked([]) == (0, 0)


@pytest.mark.parametrize(
    ("count", "total", "what", "said"),
    [
        (0, 0, "kernel", ""),
        (0, 3, "kernel", ""),
        (1, 1, "kernel", "The only kernel here was last checked"),
        (2, 2, "kernel", "Both kernels here were last checked"),
        (3, 3, "kernel", "All 3 kernels here were last checked"),
        (1, 3, "kernel", "1 of the 3 kernels here was last checked"),
        (2, 3, "kernel", "2 of the 3 kernels here were last checked"),
        (1, 3, "ratio", "1 of the 3 ratios here is of kernels that were last checked"),
        (2, 2, "ratio", "Both ratios here are of kernels that were last checked"),
    ],
)
def test_what_an_earlier_gate_checked_is_told_in_words(count: int, total: int, what: str, said: str) -> None:
    told = reading.told_of_earlier_gate(count, total, what)
    assert told == (f"{said}, in whole or in part, by an earlier version of the checks" if said else "")
