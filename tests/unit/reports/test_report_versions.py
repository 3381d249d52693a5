"""What pages say of other Tritons: from one group, at one tile, and nothing without numbers."""

from typing import Any

from harness.catalog.entries import Tile
from harness.operators.attention.problem import Problem
from reports.data.dataset import Dataset
from reports.facts.versions import beside
from reports.pages.attention import index
from tests.support import synthetic_rows as synthetic

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
    told = [(one.backend, list(one.cells), round(one.ratio, 3)) for one in (same, newer, tlx)]
    assert told == [
        ("gluon@3.6.0", [PROBLEMS[0]], 1.0),
        ("gluon@3.9.0", list(PROBLEMS), 1.02),
        ("tlx@3.8.0", [PROBLEMS[0]], 0.98),
    ]
    assert index.newest([dataset(rows())]) is None, "no core Triton was timed"


def test_where_tlx_has_a_tile_of_its_own_each_is_told_at_its_own() -> None:
    own = Tile(128, 64, 3, 8)
    found = [*rows(), timing(PROBLEMS[0], "tlx@3.8.0", 707, tile=own.to_dict())]
    chosen = CHOSEN | {("flagship", "tlx@3.8.0", "d128-full"): own}
    data = Dataset("NVIDIA H200", True, [synthetic.ENVIRONMENT, *found], HASHES, chosen)
    *_, tlx = beside(data, "hopper_versions")
    assert (tlx.backend, round(tlx.ratio, 3)) == ("tlx@3.8.0", 1.01)


def test_nothing_is_said_of_what_was_not_timed_with_it() -> None:
    apart = [row | {"group": "g2"} if row["backend"] == "gluon" else row for row in rows()]
    assert beside(dataset(apart), "hopper_versions") == []
    stale = [row | {"source_sha256": "0" * 64} if "@" in row["backend"] else row for row in rows()]
    assert beside(dataset(stale), "hopper_versions") == []
    assert beside(dataset(synthetic.rows()), "ladder") == []


def test_tlx_of_the_answer_is_the_tlx_that_was_timed() -> None:
    found = index.answer(dataset(rows()), PROBLEMS[0])
    assert round(found.bar("wgmma", "tlx").tflops or 0) == 686
