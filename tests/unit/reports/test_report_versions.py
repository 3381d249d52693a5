"""What the page of an experiment says of other Tritons: from one group, at one tile, and nothing without numbers."""

from __future__ import annotations

from typing import Any

import pytest

from harness.catalog.entries import Tile
from harness.catalog.techniques import get, reference_tile
from harness.operators.attention.problem import Problem
from reports.data.dataset import Dataset
from reports.facts import answer
from reports.facts.versions import beside, compiled
from reports.pages import common, expressibility
from tests.support import synthetic_rows as synthetic
from tests.support.pages import EMPTY, rendered

Row = dict[str, Any]
PROBLEMS = (Problem.square(4, 16, 4096, 128), Problem.square(4, 16, 4096, 128, causal=True))
TILE = Tile(128, 128, 2, 8)
BACKENDS = ("gluon", "gluon@3.6.0", "gluon@3.9.0", "tlx@3.8.0")
HASHES = {("flagship", backend): "f" * 64 for backend in BACKENDS}
CHOSEN = {("flagship", "gluon", cell): TILE for cell in ("d128-full", "d128-causal")}


def timing(problem: Problem, backend: str, tflops: float, **rest: Any) -> Row:
    of = {"experiment": "hopper_versions", "mode": "burst", "group": "g1"}
    of["samples_ms"] = [problem.flops / tflops / 1e9] * 5
    return {**synthetic.make("timing", "flagship", backend, problem, TILE, **of), "source_sha256": "f" * 64, **rest}


def rows() -> list[Row]:
    speeds = {"gluon": 700, "gluon@3.6.0": 700, "gluon@3.9.0": 735, "tlx@3.8.0": 686}
    found = [timing(PROBLEMS[0], backend, speed) for backend, speed in speeds.items()]
    return [*found, timing(PROBLEMS[1], "gluon", 600), timing(PROBLEMS[1], "gluon@3.9.0", 594)]


def dataset(found: list[Row]) -> Dataset:
    return Dataset("NVIDIA H200", True, [synthetic.ENVIRONMENT, *found], HASHES, CHOSEN)


def test_each_triton_is_told_beside_the_installed_one() -> None:
    same, newer, tlx = beside(dataset(rows()), "hopper_versions")
    assert same.sentence == (
        f"Flagship in Gluon 3.6.0 over Gluon: 1.000 on one problem, {PROBLEMS[0].slug}. "
        "The machine code is the same: what differs is the launch."
    )
    assert newer.sentence == "Flagship in Gluon 3.9.0 over Gluon: 1.020 on 2 problems, 0.990 to 1.050."
    assert tlx.sentence == f"Flagship in TLX 3.8.0 over Gluon: 0.980 on one problem, {PROBLEMS[0].slug}."
    for cell in newer.cells:
        assert cell.ours.tflops == pytest.approx((cell.theirs.tflops or 0) * cell.over.value)


def test_where_tlx_has_a_tile_of_its_own_each_is_told_at_its_own() -> None:
    own = Tile(128, 64, 3, 8)
    found = [*rows(), timing(PROBLEMS[0], "tlx@3.8.0", 707, tile=own.to_dict())]
    chosen = CHOSEN | {("flagship", "tlx@3.8.0", "d128-full"): own}
    data = Dataset("NVIDIA H200", True, [synthetic.ENVIRONMENT, *found], HASHES, chosen)
    *_, tlx = beside(data, "hopper_versions")
    assert tlx.sentence == f"Flagship in TLX 3.8.0 over Gluon: 1.010 on one problem, {PROBLEMS[0].slug}."


def test_a_step_is_told_in_each_triton_that_has_it() -> None:
    def at(backend: str, step: str, tflops: float) -> Row:
        return timing(PROBLEMS[0], backend, tflops, technique=step)

    found = [at(backend, "pinned_maxima", 650) for backend in ("cuda", "gluon", "gluon@3.9.0")]
    found += [at("cuda", "cluster_multicast", 637), at("gluon@3.9.0", "cluster_multicast", 624)]
    hashes = {(name, one): "f" * 64 for name in ("pinned_maxima", "cluster_multicast") for one in ("cuda", *BACKENDS)}
    data = Dataset("NVIDIA H200", True, [synthetic.ENVIRONMENT, *found], hashes, {})
    told = [one.sentence.partition(" on one problem")[0] for one in beside(data, "hopper_versions")]
    assert told == [
        "Cluster multicast in Gluon 3.9.0 over Maxima before the wait: 0.960",
        "Maxima before the wait in Gluon 3.9.0 over Gluon: 1.000",
        "Cluster multicast in CUDA over Maxima before the wait: 0.980",
    ]


def test_nothing_is_said_of_what_was_not_timed_with_it() -> None:
    apart = [row | {"group": "g2"} if row["backend"] == "gluon" else row for row in rows()]
    assert beside(dataset(apart), "hopper_versions") == []
    stale = [row | {"source_sha256": "0" * 64} if "@" in row["backend"] else row for row in rows()]
    assert beside(dataset(stale), "hopper_versions") == []
    assert beside(dataset(synthetic.rows()), "ladder") == []


def test_the_page_shows_the_ratios_and_colours_a_version_as_its_language() -> None:
    data = dataset(rows())
    page = rendered("experiment.html", common.experiment(data, "hopper_versions"), data)
    text = " ".join(page.split())
    assert "<h2>Beside the installed Triton</h2>" in text
    assert '<span class="gluon">Gluon 3.9.0</span> flagship</td><td class="n">735</td>' in text
    assert '<span class="gluon">Gluon</span> flagship</td><td class="n">700</td><td class="n">1.050</td>' in text
    assert 'class="tlx">TLX 3.8.0' in text
    assert 'class="gluon@' not in page


def code_row(backend: str, **rest: Any) -> Row:
    loop = {"instructions": 469, "under_products": {"exponentials": 10}, "all": {"exponentials": 66}}
    code = {"registers": 168, "spill_bytes": 8, "main_loop": loop}
    row = {"kind": "code", "status": "passed", "technique": "flagship", "backend": backend, "tile": TILE.to_dict()}
    row |= {"code": code, "compiler": {"ptxas": "13.4.59"}, "source_sha256": "f" * 64, "time": synthetic.TIME}
    return {**row, **rest}


def test_the_matrix_shows_what_each_triton_makes_of_one_kernel() -> None:
    later = {"time": "2030-02-01T00:00:00Z"}
    given = [code_row("gluon@3.9.0"), code_row("gluon@3.6.0", **later), code_row("gluon@3.6.0"), code_row("gluon")]
    given += [code_row("tlx@3.8.0", source_sha256="0" * 64), code_row("gluon@3.8.0", status="compile_error")]
    of_page = {
        "arch": "sm_90a",
        "problem": PROBLEMS[0].to_dict(),
        "tile": reference_tile(get("flagship"), 128).to_dict(),
    }
    given += [code_row("cuda", **of_page), code_row("cuda", **of_page | later | {"problem": PROBLEMS[1].to_dict()})]
    given.append(code_row("cuda", **of_page | later | {"tile": TILE.to_dict()}))
    hashes = HASHES | {("flagship", "cuda"): "f" * 64}
    found = compiled(given, hashes)
    assert [(row["backend"], row["time"] == synthetic.TIME) for row in found] == [
        ("gluon@3.6.0", False),
        ("gluon@3.9.0", True),
        ("cuda", True),
    ]
    without_rows = Dataset("", False, (), hashes)
    page = rendered("expressibility.html", expressibility.page([], {}, given, None, without_rows))
    text = " ".join(page.split())
    assert '<span class="gluon">Gluon 3.9.0</span></td><td class="mono">' in text
    assert '<td class="n">168</td><td class="n">8</td> <td class="n">469</td><td class="n">10 of 66</td>' in text
    assert "One kernel in each Triton" not in rendered(
        "expressibility.html", expressibility.page([], {}, [], None, EMPTY)
    )


def test_tlx_of_the_answer_is_the_tlx_that_was_timed() -> None:
    assert round(answer.best(dataset(rows()), PROBLEMS[0], "tlx", "wgmma").tflops or 0) == 686
