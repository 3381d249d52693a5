"""The page of the roofs, from invented rows. No number here was ever measured."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from harness.catalog import experiments, techniques
from harness.catalog.roofs import PEAK
from harness.measure import roofs as measure
from harness.operators.attention.problem import Problem
from harness.operators.attention.roofs import unit_flop
from harness.rows import reading, record, results
from reports.data.dataset import Dataset
from reports.facts import roofs as facts
from reports.facts import scores
from reports.pages import prose
from reports.pages import roofs as pages
from tests.support import synthetic_rows as synthetic
from tests.support.pages import dataset, of_cells, rendered, texts

pytestmark = pytest.mark.slow

Row = dict[str, Any]
EXPERIMENT = experiments.load(facts.EXPERIMENT)
UNIT = {"alone": 500.0, "beside": 1000.0}
"""Clocks that the softmax of a unit takes in these rows; fewer warps take twice as long."""


def rows() -> list[Row]:
    made: list[Row] = [synthetic.ENVIRONMENT]
    for roof in EXPERIMENT.roofs:
        row = {**measure.about(EXPERIMENT, roof), "schema": results.SCHEMA, "time": "2030-01-02T00:00:00Z"}
        row |= {"environment": synthetic.ENVIRONMENT["id"], "status": "passed", "tflops": [700.0, 720.0, 710.0]}
        if roof.kernel:
            rates = {"flop": [PEAK * 0.75] * 3} if roof.kernel == "loop" else {"flop": [float(PEAK)] * 3}
            if not roof.flop:
                rates = {}
                del row["tflops"]
            clocks = UNIT["beside" if roof.flop else "alone"] * (1 if roof.vector_groups == 2 else 2)
            if roof.work == "units":
                rates["units"] = [1 / clocks] * 3
            elif roof.work:
                rates[roof.work] = [8.0 if roof.flop else 16.0] * 3
            row |= {"per_clock": rates, "clock_ghz": [1.7, 1.71, 1.72]}
        made.append({name: value for name, value in row.items() if value is not None})
    return made


def flagship(seq: int, tflops: float, **fields: Any) -> Row:
    """A timing of the grid, at a clock of 1.7 GHz."""
    problem = Problem.square(16_384 // seq, 16, seq, 128)
    tile = techniques.reference_tile(techniques.get("flagship"), 128)
    of = {"experiment": facts.KERNEL_EXPERIMENT, "mode": "burst", "group": "g", "clock_ghz": [1.69, 1.7, 1.71]}
    of["samples_ms"] = [problem.flops / tflops / 1e9]
    return {**synthetic.make("timing", "flagship", "cuda", problem, tile, **of), **fields}


def html(*datasets: Dataset) -> str:
    return rendered("roofs.html", pages.page(datasets))


def test_rows_are_of_the_format() -> None:
    for row in rows()[1:]:
        results.check(results.spelled_out(row))


def test_limits_follow_from_rates() -> None:
    found = facts.found([dataset(rows())])
    limits = {head_dim: {limit.label: limit for limit in found.limits(head_dim)} for head_dim in facts.HEAD_DIMS}
    # 512 clocks of products: of the exponentials, 8192 at 8 a clock, half are done under them, the rest at 16 a clock.
    assert limits[64]["and exponentials"].flop == pytest.approx(unit_flop(64) / (512 + 0.5 * 512))
    assert limits[64]["and the whole softmax"].flop == pytest.approx(unit_flop(64) / (512 + (1 - 0.512) * 500))
    # 1024 clocks of products hide all of either.
    assert limits[128]["and exponentials"].flop == limits[128]["and the whole softmax"].flop == PEAK
    assert limits[128]["loop without exponentials"].share == 0.75
    assert {label for label, limit in limits[64].items() if not limit.measured} == {
        "and exponentials",
        "and the whole softmax",
    }
    assert facts.shared(100, alone=50, beside=80) == 100
    # At half of their rate the products need 200 clocks under the other work, of which 80 are enough for that work.
    assert facts.shared(100, alone=50, beside=80, kept=0.5) == 80 + 60
    assert facts.shared(100, alone=50, beside=400, kept=0.5) == 200 + 0.5 * 50


def test_products_that_the_softmax_slows_down_are_counted_at_that_rate() -> None:
    slowed = [
        {**row, "per_clock": {**row["per_clock"], "flop": [PEAK / 2] * 3}}
        if row.get("roof", "").startswith("softmax_d128") and "flop" in row["per_clock"]
        else row
        for row in rows()
    ]
    (limit,) = [one for one in facts.found([dataset(slowed)]).limits(128) if one.label == "and the whole softmax"]
    # All of the softmax by 1000 clocks, in which half of the products are done; the other 524 follow.
    assert limit.flop == pytest.approx(unit_flop(128) / (1000 + 524))


def test_the_flagship_stands_beside_the_roofs_at_its_own_clock() -> None:
    found = facts.found([dataset([*rows(), flagship(4096, 700), flagship(16_384, 750)])])
    (limit,) = [one for one in found.limits(128) if one.label.startswith("flagship")]
    multiprocessors = synthetic.ENVIRONMENT["details"]["gpu"]["sm_count"]
    assert limit.label == "flagship, 16384 tokens"
    assert limit.measured
    assert limit.flop == pytest.approx(750e12 / (1.7e9 * multiprocessors))
    unread = flagship(16_384, 750)
    del unread["clock_ghz"]
    for row in (unread, flagship(16_384, 750, source_sha256="0" * 64), flagship(16_384, 750, mode="sustained")):
        other = facts.found([dataset([*rows(), row])])
        assert not [one for one in other.limits(128) if one.label.startswith("flagship")]


def grid_entry(*timed: Row) -> dict[str, Any]:
    """An entry of the scorecard with a cell for each of these timings of ours."""
    cells = [
        {
            "problem": reading.slug(row),
            "case": reading.cell(row),
            "run": row["environment"],
            "ours": reading.tflops(row),
        }
        for row in timed
    ]
    return {"experiment": facts.KERNEL_EXPERIMENT, "ours": "cuda", "cells": cells}


def test_a_cell_of_the_grid_has_a_limit_beside_it() -> None:
    """At the clock of the timing that the cell is of, not of another one of the same kernel."""
    unread, slower = flagship(4096, 700), flagship(16_384, 750)
    del unread["clock_ghz"]
    newer = flagship(16_384, 751, time="2031-01-01T00:00:00Z", clock_ghz=[1.9], group="h")
    found = scores.beside_roofs(dataset([*rows(), unread, slower, newer]), grid_entry(unread, slower))
    multiprocessors = synthetic.ENVIRONMENT["details"]["gpu"]["sm_count"]
    peak = pytest.approx(PEAK * 1.7 * multiprocessors / 1e3)
    assert [cell["products"] for cell in found["cells"]] == [None, peak]
    assert found["borrowed"] == {}
    assert scores.beside_roofs(dataset([slower]), grid_entry(slower)) == {}


def test_a_head_dim_without_roofs_has_the_limit_of_another_and_says_so() -> None:
    problem = Problem.square(1, 8, 16_384, 256)
    tile = techniques.reference_tile(techniques.get("flagship"), 256)
    of = {"experiment": facts.KERNEL_EXPERIMENT, "mode": "burst", "group": "g", "clock_ghz": [1.7]}
    row = synthetic.make("timing", "flagship", "cuda", problem, tile, samples_ms=[problem.flops / 700e9], **of)
    found = scores.beside_roofs(dataset([*rows(), row]), grid_entry(row))
    (cell,) = found["cells"]
    assert found["borrowed"] == {256: 128}
    assert cell["products"] == pytest.approx(PEAK * 1.7 * synthetic.ENVIRONMENT["details"]["gpu"]["sm_count"] / 1e3)
    shown = {**cell, "value": 1.1, "interval": None, "theirs": 636.0, "ours_is": "x"}
    text = of_cells({**grid_entry(row), **found, "name": scores.GRID, "cells": [shown]})
    assert "(for head_dim 256, where it measured none, those of head_dim 128)" in text
    assert f"ours: {700 / cell['products']:.0%}" in text


def test_the_page_shows_every_roof_and_draws_both_head_dims() -> None:
    text = html(dataset(rows()))
    for roof in EXPERIMENT.roofs:
        assert f"<code>{roof.name}</code>" in text
    assert (
        len(re.findall(r"<svg[^>]*aria-label=\"head_dim (?:64|128), of the tensor peak: products alone 100%", text))
        == 2
    )
    assert "1000 clocks a unit" in text
    assert "One warp a scheduler that adds leaves the tensor cores 100% of their peak" in " ".join(text.split())
    assert ">1.710<" in text
    assert "recorded on NVIDIA H200" in text
    assert "not measured yet" not in text
    assert "earlier version" not in text


def test_a_note_tells_a_roof() -> None:
    assert texts(dataset(rows()))["roof"]("loop_d64") == "75%"
    assert texts(dataset(synthetic.rows()))["roof"]("loop_d64") == prose.NOT_MEASURED


def test_the_page_prints_shares_by_name_and_admits_holes() -> None:
    text = " ".join(html(dataset([row for row in rows() if row.get("roof") != "loop_d128_polynomial_4"])).split())
    assert "of the peak at head_dim 64, 75%," in text
    assert "and not measured at head_dim 128." in text


def test_the_numbers_of_a_drawing_stand_below_it_as_files() -> None:
    data = dataset([*rows(), flagship(4096, 600)])
    (download,) = pages.page([data])["files"]
    text = html(data)
    assert text.count("<figure") == text.count(f'href="../data/{download.name}.csv"') > 0
    csv, recorded = (text for _, text in download.files())
    assert "and the whole softmax" in csv
    assert len(recorded.splitlines()) == len([row for row in rows() if row["kind"] != "environment"])


def test_a_kernel_that_was_edited_since_is_told() -> None:
    made = [{**row, "source_sha256": "0" * 64} if row.get("roof") == "loop_d64" else row for row in rows()]
    text = html(dataset(made))
    assert "Measured with an earlier version of the kernel: loop_d64." in text


def test_without_rows_the_page_says_which_command_makes_them() -> None:
    text = html(dataset(synthetic.rows()))
    assert "<code>twinkernels run hopper_roofs</code>" in text
    assert "<svg" not in text
    assert html() == text


def test_a_machine_that_could_not_measure_gives_way_to_one_that_did() -> None:
    refused = [
        {**row, "status": "unsupported", "reason": "no CUDA GPU here", "per_clock": {}} if "roof" in row else row
        for row in rows()
    ]
    text = html(dataset(refused, "a CPU"))
    assert "unsupported: no CUDA GPU here" in text
    assert "<code>twinkernels run hopper_roofs</code>" in text
    assert html(dataset(refused, "a CPU"), dataset(rows())) == html(dataset(rows()))


def test_recorded_rows_come_back(tmp_path: Path) -> None:
    about = synthetic.ENVIRONMENT
    told = {"time": "2026-01-02T00:00:00Z", "id": results.environment_id(about["details"])}
    measured = (results.spelled_out(row) for row in rows()[1:])
    made = [about | told, *(row | {"time": told["time"], "environment": told["id"]} for row in measured)]
    run = tmp_path / "run.jsonl"
    run.write_text("".join(json.dumps(row) + "\n" for row in made))
    (kept,) = record.record([run], tmp_path / "recorded")
    assert kept.relative_to(tmp_path).as_posix() == "recorded/h200/attention/hopper_roofs/run.jsonl.xz"
    assert {row["roof"]: row for row in results.read(kept) if "roof" in row} == {row["roof"]: row for row in made[1:]}
