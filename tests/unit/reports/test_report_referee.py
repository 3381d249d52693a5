"""What the pages say of CUPTI's times, of busy neighbours and of the verdicts, with rows and without."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from harness.catalog.problem import Problem
from harness.rows import noise, reading
from reports.data.dataset import Dataset
from reports.pages import common, guide, overview
from tests.support.pages import rendered

PROBLEM = Problem.square(4, 16, 4096, 128, causal=True)


def dataset(rows: list[dict]) -> Dataset:
    gpu = {"name": "NVIDIA H200", "capability": [9, 0]}
    environment = {"kind": "environment", "id": "e", "time": "2026-11-22T00:00:00Z", "details": {"gpu": gpu}}
    about = {"experiment": "hopper", "problem": PROBLEM.to_dict(), "environment": "e", "time": "2026-11-22T00:00:00Z"}
    about |= {"on": "gpu", "mode": "burst", "group": "g", "status": "passed"}
    return Dataset("NVIDIA H200", True, [environment, *({**about, **row} for row in rows)], {}, {})


def said_by(template: str, variables: dict[str, Any]) -> str:
    return " ".join(rendered(template, variables).split())


def test_agreement_and_what_was_found_stand_on_the_page_about_correctness() -> None:
    medians = {"cupti_ms": 0.96, "events_ms": 1.0, "gap_ms": 0.03}
    agreeing = {"kind": "referee", "backend": "sdpa_cudnn", "details": {**medians, "difference": -0.013}}
    level = {**agreeing, "backend": "fa4", "details": {**medians, "cupti_ms": 0.99, "difference": 0.0}}
    caught = {"kind": "referee", "backend": "fa3", "status": "implausible", "reason": "the call waits for the GPU: x"}
    said = said_by("correctness.html", common.correctness([dataset([agreeing, level, {**caught, "details": {}}])]))
    within = f"{reading.AGREEMENT:.0%}"
    assert f"timed 3 cells once more (3 of hopper). In 2 of them its median agrees within {within}" in said
    assert "(at most 1.3% apart; with that time included, 1 of them differs by more than 2%)" in said
    assert "the call waits for the GPU: x" in said
    said = said_by("correctness.html", common.correctness([dataset([agreeing, level])]))
    assert "timed 2 cells once more (2 of hopper). In all of them its median agrees" in said
    assert "Are the times right?" not in said_by("correctness.html", common.correctness([]))


@pytest.mark.parametrize(
    ("unseen", "expected"),
    [
        ([], "are of 2 kernels and libraries, each at a problem and tile. CUPTI timed all of them."),
        (
            ["cuda x"],
            "CUPTI timed 1 of them; <code>twinkernels run NAME --missing --replicates 3</code> does the rest:",
        ),
        (["cuda x", "fa3"], "CUPTI timed none of them; "),
    ],
)
def test_the_page_about_correctness_says_which_ratios_have_no_referee(
    monkeypatch: pytest.MonkeyPatch, unseen: list[str], expected: str
) -> None:
    medians = {"cupti_ms": 0.99, "events_ms": 1.0, "gap_ms": 0.03}
    agreeing = {"kind": "referee", "backend": "sdpa_cudnn", "details": {**medians, "difference": 0.0}}
    entries = [{"gpu": "NVIDIA H200", "kernels": ["cuda x", "fa3"], "unrefereed": unseen}] * 2
    monkeypatch.setattr(Dataset, "scores", entries)
    said = said_by("correctness.html", common.correctness([dataset([agreeing])]))
    assert expected in said
    for name in ("cuda x", "fa3"):
        assert (f'<li class="mono">{name}</li>' in said) == (name in unseen)


@pytest.mark.parametrize(("busy", "verdict"), [(1.1, "overlap: busy"), (0.9, "do not overlap: busy")])
def test_the_guide_says_whether_neighbours_move_a_ratio(busy: float, verdict: str) -> None:
    rows: list[dict] = []
    for number, (ratio, count) in enumerate(((1.1, 0), (1.11, 0), (busy, 1), (busy, 1)), 2):
        timed = {"kind": "timing", "experiment": "neighbours", "details": {"replicate": number, "neighbours": count}}
        timed["group"] = f"g{number}"
        rows.append({**timed, "backend": "sdpa_cudnn", "samples_ms": [1.0]})
        rows.append({**timed, "backend": "cuda", "technique": "flagship", "samples_ms": [1 / ratio]})
    said = said_by("guide_gpus.html", guide.gpus([dataset(rows)]))
    assert "with another GPU at work" in said
    assert f"The ranges {verdict} neighbours" in said
    assert "No rows of this experiment are recorded yet" in said_by("guide_gpus.html", guide.gpus([]))


def test_the_guide_says_how_much_faster_several_gpus_are() -> None:
    def took(gpus: int, seconds: float, **details: int) -> dict:
        told = {"problems": 16, "seconds": seconds, "built": 0, "lost": 0, **details}
        return {"kind": "fleet", "experiment": "fleet", "command": "run ladder", "gpus": gpus, "details": told}

    def said(*rows: dict) -> str:
        return said_by("guide_gpus.html", guide.gpus([dataset(list(rows))]))

    pair = "<code>twinkernels run ladder</code>, 16 problems: 243 s on one GPU, 126 s on 2: 1.9 times as fast."
    assert pair in said(took(1, 243.0), took(2, 126.4))
    long = {"command": "tune flagship --problem b1-h1-n128-d64-bf16-full --problem b2-h1-n128-d64-bf16-full --jobs 4"}
    brief = "<code>twinkernels tune flagship --problem ... --jobs 4</code>, 16 problems"
    assert brief in said({**took(1, 243.0), **long}, {**took(2, 126.4), **long})
    other = {"command": "run ladder --missing"}
    assert "No such pair of runs is recorded yet" in said(took(1, 243.0), {**took(2, 126.4), **other})
    early, late = ({"time": f"2026-11-25T10:0{minute}:00Z"} for minute in (1, 9))
    one, two, building = took(1, 243.0), took(2, 126.4), took(2, 126.4, built=3)
    assert "No such pair" in said({**one, **late}, {**building, **early})
    told = said({**one, **early}, {**building, **late})
    assert pair.removesuffix(".") + " (the host did other work during the later run, which may have slowed it)." in told
    assert "No such pair" in said({**took(1, 243.0, built=3), **early}, {**two, **late})
    assert "No such pair" in said(took(1, 243.0), took(2, 126.4, lost=1))
    assert "No such pair" in said(took(1, 243.0), took(2, 126.4, problems=15))


def test_the_false_verdicts_stand_beside_the_regressions(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [noise.Trial("boards", False, "twins", 1328, 0.0218, 0.012, 0.05, 0.989)]
    monkeypatch.setattr(noise, "trial", lambda _: found)
    monkeypatch.setattr(noise, "replicates", lambda _: [1])
    monkeypatch.setattr(noise, "noise", lambda _, one_board: SimpleNamespace(ratio=0.031))
    said = said_by("regressions.html", overview.regressions(dataset([])))
    line = re.sub("<[^>]+>", " ", said[said.index("the boards") :]).split()
    assert line[2:9] == ["two", "twins", "1328", "2.18%", "1.20%", "5%", "98.9%"]
    assert '<td class="n bad">2.18%</td>' in said
    assert '<td class="n">98.9%</td>' in said
    assert "moves by up to 3.1% from board to board although nothing has changed" in said
    monkeypatch.undo()  # no pair of replicates, so that there are no limits
    nothing = said_by("regressions.html", overview.regressions(dataset([])))
    assert "How often is a verdict" not in nothing
    assert "no verdict" in nothing
