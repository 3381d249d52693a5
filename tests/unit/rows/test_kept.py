"""A fresh row stands as long as nothing that made it has changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.catalog import sources, techniques
from harness.catalog.problem import Problem, Tile
from harness.rows import results
from harness.rows.kept import Kept
from tests.support.row_file import OF_KINDS

HASH = "0" * 64
HERE = {
    "gpu": None,
    "software": {"torch": "2.13", "triton": "3.6.0"},
    "toolchain": {"nvcc": "13.0.88"},
    "variables": {},
    "system": {"os": "Linux x86_64", "cpu": "one", "cxx": "g++ 12", "kernel": "6.1"},
    "harness": "0123456789ab",
    "argv": ["twinkernels", "report"],
    "warnings": [],
}
MEMORY: dict[str, Any] = {
    "kind": "memory",
    "on": "cpu",
    "experiment": "memory",
    "technique": "scalar",
    "backend": "cuda",
    "problem": Problem.square(1, 1, 512, 128).to_dict(),
    "tile": Tile(64, 64).to_dict(),
    "source_sha256": HASH,
    "status": "passed",
    "details": OF_KINDS["memory"]["details"],
}


def run(folder: Path, details: dict[str, Any], *rows: dict[str, Any]) -> Path:
    path = folder / f"{len(list(folder.iterdir()))}.jsonl"
    name = results.environment_id(details)
    with results.Writer(path) as writer:
        writer.write({"kind": "environment", "id": name, "on": "cpu", "details": details})
        for row in rows:
            writer.write({**row, "environment": name})
    return path


def kept(runs: list[Path], here: dict[str, Any] = HERE, sha256: str = HASH) -> Kept:
    return Kept(runs, here, {("scalar", "cuda"): sha256})


def test_the_newest_row_of_each_key_stands(tmp_path: Path) -> None:
    old = run(tmp_path, HERE, {**MEMORY, "time": "2030-01-01T00:00:00Z"})
    new = run(tmp_path, HERE | {"argv": ["other"]}, {**MEMORY, "time": "2030-01-02T00:00:00Z"})
    known = kept([new, old])
    assert [row["time"] for row in known.rows] == ["2030-01-02T00:00:00Z"]
    assert known.find({name: value for name, value in MEMORY.items() if name != "details"}) == known.rows[0]
    assert known.rows[0]["environment"] in {row["id"] for row in known.environments}
    assert known.find({**MEMORY, "tile": Tile(64, 32).to_dict()}) is None


@pytest.mark.parametrize(
    "change",
    [
        {"software": {"torch": "2.13", "triton": "3.7.1"}},
        {"toolchain": {"nvcc": "13.0.96"}},
        {"system": {**HERE["system"], "cxx": "g++ 13"}},  # type: ignore[dict-item]
        {"gpu": {"name": "NVIDIA H200", "driver": "580"}},
        {"variables": {"DISABLE_MMA_V3": "1"}},
        {"harness": "another"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_no_row_outlives_what_made_it(tmp_path: Path, change: dict[str, Any]) -> None:
    path = run(tmp_path, HERE, MEMORY)
    assert kept([path]).rows
    assert not kept([path], HERE | change).rows
    assert not kept([path], sha256="1" * 64).rows
    assert not kept([run(tmp_path, {name: HERE[name] for name in ("gpu", "argv", "warnings")}, MEMORY)]).rows


def test_what_failed_is_tried_again_and_what_was_declined_is_not(tmp_path: Path) -> None:
    failed = run(tmp_path, HERE, {**MEMORY, "status": "timeout", "reason": "240 s"})
    declined = run(tmp_path, HERE, {**MEMORY, "status": "unsupported", "reason": "head_dim"})
    assert kept([failed]).rows == []
    assert [row["status"] for row in kept([declined]).rows] == ["unsupported"]


@pytest.mark.parametrize(
    "file", ["harness/variants/x.py", "harness/operators/attention/ladders/x.py", "cuda_kernels/cpu/x.h"]
)
def test_the_harness_is_named_by_its_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    comment = "#" if path.suffix == ".py" else "//"
    path.write_text("one = 1\n")
    before = sources.harness_id.__wrapped__()
    path.write_text(f"one = 1  {comment} a comment\n")
    assert sources.harness_id.__wrapped__() == before
    path.write_text("one = 2\n")
    assert sources.harness_id.__wrapped__() != before


IDEA = """
LADDER = Ladder("ampere", "a title", archs=("sm_80",))
TECHNIQUES = (Technique("scalar", "ampere", "an idea", mma="fma"), _without("turns", idea="another idea"))
"""


@pytest.mark.parametrize(
    ("of", "to", "counts"),
    [
        ("a title", "better words", False),
        ("an idea", "two ideas", False),
        ("another idea", "better words", False),
        ("fma", "wgmma", True),
        ("sm_80", "sm_90a", True),
        ("turns", "overlap", True),
    ],
)
def test_wording_of_the_registry_makes_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of: str, to: str, counts: bool
) -> None:
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    folder = tmp_path / "harness" / "catalog"
    (folder / "ladders").mkdir(parents=True)
    for name in ("ladders/x.py", *sources.ABOUT_ROWS):
        (folder / name).write_text(IDEA)
    before = sources.harness_id.__wrapped__()
    for name in sources.ABOUT_ROWS:  # what pages say about rows, whatever it says
        (folder / name).write_text(IDEA.replace(of, to))
    assert sources.harness_id.__wrapped__() == before
    (folder / "ladders" / "x.py").write_text(IDEA.replace(of, to))
    assert (sources.harness_id.__wrapped__() != before) == counts


def test_a_declined_case_stands_once(tmp_path: Path) -> None:
    """The registry declines a case whatever the kernel's source is, so rows of earlier sources were counted beside the
    one of this source."""
    ragged, tile = Problem.square(1, 1, 200, 128), Tile(64, 64)
    reason = techniques.unsupported(techniques.get("scalar"), "cuda", ragged, tile)
    assert reason
    declined = {**MEMORY, "problem": ragged.to_dict(), "status": "unsupported", "reason": reason, "details": {}}
    path = run(tmp_path, HERE, declined, {**declined, "source_sha256": "1" * 64})
    assert [row["source_sha256"] for row in kept([path]).rows] == [HASH]
