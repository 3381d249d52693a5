"""The page of 8-bit inputs, from an invented row. No number here was ever measured."""

from __future__ import annotations

from typing import Any

from harness.inspection import fp8 as computed
from reports.data.dataset import Dataset
from reports.facts import fp8
from reports.pages import guide
from tests.support.pages import rendered

COLUMNS = ("bf16", *computed.INPUTS, *computed.KERNEL)


def row(**changed: dict[str, float]) -> dict[str, Any]:
    """Every error is 1% of O, 0.1% for 16 bits, but for what is `changed` of a distribution."""
    plain = {name: 0.001 if name == "bf16" else 0.01 for name in COLUMNS} | {"tensor lse": 0.25, "sums lse": 0.5}
    numerics = {name: plain | changed.get(name, {}) for name in ("normal", "outliers", "constant_rows")}
    details = {"inputs": computed.INPUTS, "kernel": computed.KERNEL, "order": [0, 1, 8, 9]}
    time = "2026-01-02T00:00:00Z"
    return {**computed.about(), "status": "passed", "time": time, "numerics": numerics, "details": details}


def html(*rows: dict[str, Any]) -> str:
    return rendered("guide_fp8.html", guide.fp8([Dataset("a CPU", False, rows, {})]))


def test_the_page_shows_the_newest_row() -> None:
    text = html(row(normal={"sums": 0.5}), {**row(), "time": "2025-01-01T00:00:00Z"})
    assert '<td class="n">50%</td>' in text
    assert "keys of a wgmma, 0, 1, 8, 9." in text
    for words in (*computed.INPUTS.values(), *computed.KERNEL.values(), "constant rows"):
        assert words in text
    assert "Not computed yet" in html()


def test_the_page_says_why_no_library_was_timed() -> None:
    text = html()
    assert "built without its 8-bit kernels" in text
    assert "<code>nvidia-cudnn-frontend</code>, which is no dependency" in text


def test_a_sentence_says_where_a_choice_helps_and_where_it_hurts() -> None:
    told = fp8.sentences(row(outliers={"tensor": 0.06}, normal={"sums": 0.03, "p": 1e-15}))
    assert told[0].startswith("Inputs of 8 bits alone change O by 1% to 6% of its norm.")
    assert "for the tensor helps most on “outliers” (6% becomes 1%)." in told[1]
    assert told[2].endswith("changes little.")
    assert told[3].endswith("changes little."), "what is nothing has no ratio"
    assert told[4].endswith("hurts most on “normal” (1% becomes 3%).")


def test_a_percentage_has_two_digits_that_count() -> None:
    assert [fp8.percent(value) for value in (0.0434, 0.00005, 0.19, 1e-15)] == ["4.3%", "0.005%", "19%", "0"]
