"""The pages of attention's backward pass: its answer, gradients that repeat, its line on the first page."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from harness import operators
from harness.catalog import sources, techniques
from harness.operators.attention_backward.problem import Problem
from reports.data.dataset import Dataset
from reports.facts import answer as facts
from reports.pages import attention_backward as backward
from reports.pages import overview
from reports.pages.attention import index as first
from reports.pages.common import Rows
from tests.support import synthetic_rows as synthetic
from tests.support.pages import WORDS, count_words, rendered

pytestmark = pytest.mark.slow

Row = dict[str, Any]

SPEED = {
    "cuda": {"two_kernels": 200, "wgmma": 250, "deterministic": 360, "overlapped": 570},
    "triton": {"two_kernels": 120, "bulk_reduce": 380, "deterministic": 440},
    "gluon": {"bulk_reduce": 560},
}
"""TFLOPS on every problem."""
PEERS = {"sdpa_cudnn": 550, "sdpa_flash": 290}
HEADLINE = Problem.square(4, 16, 4096, 128)
GROUPED = Problem(2, 64, 8, 4096, 4096, 128)


def make(technique: str | None, backend: str, problem: Problem, tflops: float, **rest: Any) -> Row:
    row = synthetic.make("timing", None, backend, problem, None, mode="burst", group=problem.slug, **rest)
    row |= {"operator": "attention_backward", "samples_ms": [problem.flops / tflops / 1e9] * 20, "clock_ghz": [1.7]}
    if technique:
        which = techniques.get(f"attention_backward/{technique}")
        row |= {"technique": technique, "source_sha256": synthetic.sha(technique, backend), "arch": "sm_90a"}
        row |= {"mma": which.mma, "tile": techniques.reference_tile(which, problem.head_dim).to_dict()}
    return row


def of(experiment: str, problem: Problem) -> Iterator[Row]:
    for backend, speeds in SPEED.items():
        for name, speed in speeds.items():
            yield make(name, backend, problem, speed, experiment=experiment)
    for peer, speed in PEERS.items():
        yield make(None, peer, problem, speed, experiment=experiment)


def dataset(*rows: Row) -> Dataset:
    hashes = {
        (named, backend): synthetic.sha(name, backend)
        for backend, speeds in SPEED.items()
        for name in (*speeds, "flagship")
        for named in (name, f"attention_backward/{name}")
    }
    raw = [synthetic.ENVIRONMENT, *rows] if rows else []
    return Dataset("NVIDIA H100 80GB HBM3", True, raw, hashes, operator=operators.get("attention_backward"))


@pytest.fixture(scope="module")
def data() -> Dataset:
    return dataset(*of("ladder", HEADLINE), *of("grid", HEADLINE), *of("grid", GROUPED))


def page_of(data: Dataset) -> str:
    rows = Rows(data, [data], {}, lambda *_: "")
    return rendered("attention_backward/index.html", backward.ANSWER.page(data, backward.ANSWER.gpus(rows)), data)


def test_the_answer_has_the_speeds_of_its_rows(data: Dataset) -> None:
    found = facts.answer(data, backward.ANSWER.race)
    assert (found.problem, found.gpu) == (HEADLINE, "H100")
    speeds = {bar.backend: round(bar.tflops or 0) for bar in found.of("wgmma")}
    assert speeds == {"cuda": 570, "triton": 440, "gluon": 560, "sdpa_cudnn": 550, "fa4": 0, "flex": 0}
    assert {bar.backend: round(bar.tflops or 0) for bar in found.of("mma_sync")} == {
        "cuda": 200,
        "triton": 120,
        "sdpa_flash": 290,
    }
    page = page_of(data)
    assert "core Triton reaches 0.80 of the fastest library timed (cuDNN) at head_dim 128, full, Gluon 1.02" in page
    assert "With wgmma CUDA is fastest; shares of its speed: Gluon 0.98, cuDNN 0.96, core Triton 0.77" in page
    assert page.count('class="sharebar') == 4
    (benched,) = re.findall("<code>twinkernels bench (.*?) --problem", page)
    assert benched.split() == [f"attention_backward/{name}" for name in ("overlapped", "deterministic", "bulk_reduce")]
    assert count_words(page) < WORDS


def test_gradients_that_repeat_are_those_of_rungs_that_say_so(data: Dataset) -> None:
    heading = re.search(r'<h2 id="repeats">(.*?)</h2>', page_of(data))
    assert heading[1] == "Gradients that repeat bit by bit: CUDA 360, core Triton 440 TFLOPS"
    none = dataset(
        *(row for row in of("ladder", HEADLINE) if row.get("technique") in (None, "overlapped", "bulk_reduce"))
    )
    assert 'id="repeats"' not in page_of(none)


def test_a_program_is_current_where_a_rung_that_shares_it_is_timed() -> None:
    """In core Triton the flagship is the program of deterministic, whose own earlier rows tell nothing then."""
    old = {"source_sha256": "0" * 64}
    shared = [row for row in of("ladder", HEADLINE) if row.get("technique") in (None, "two_kernels")]
    flagship = make("flagship", "triton", HEADLINE, 400, experiment="over_flex")
    for other, best in (("deterministic", 400), ("bulk_reduce", None)):
        before = make(other, "triton", HEADLINE, 500, experiment="ladder") | old
        found = facts.answer(dataset(*shared, before, flagship), backward.ANSWER.race)
        assert found.best("triton").best == (pytest.approx(best) if best else None), other


def test_a_kernel_has_the_lines_of_the_file_that_holds_it() -> None:
    """Core Triton's flagship imports deterministic in one line."""
    found = facts.answer(
        dataset(*of("ladder", HEADLINE), make("flagship", "triton", HEADLINE, 450, experiment="ladder")),
        backward.ANSWER.race,
    )
    assert found
    triton = facts.choices(found)[0]
    assert triton.bar.point.row.technique == "flagship"
    held = sources.kernel_file("triton", techniques.get("attention_backward/deterministic").path)
    assert triton.lines[0] == sources.lines_of_code(held)


def test_problems_that_differ_in_heads_alone_have_one_order() -> None:
    """The same rows give the same bytes."""
    problems = [Problem(1, heads, shared, 1024, 1024, 128) for heads, shared in ((8, 8), (16, 8), (16, 16), (64, 8))]
    places = list(map(operators.get("attention_backward").problem_order, problems))
    assert places == sorted(set(places))


def test_every_problem_of_the_grid_has_a_line(data: Dataset) -> None:
    grid = re.search(r'id="problems".*?</table>', page_of(data), flags=re.DOTALL)
    _, *lines = re.findall(r"<tr><th>(.*?)</tr>", grid[0], flags=re.DOTALL)
    assert len(lines) == 2
    assert ["H=64/8" in line for line in lines] == [True, False]
    for line in lines:
        assert re.findall(r">(\d+)<", line) == ["570", "560", "440", "550"]
    assert 'id="problems"' not in page_of(dataset(*of("ladder", HEADLINE)))


def test_core_triton_has_its_speed_of_another_experiment_over_anchors() -> None:
    """The grid times no Triton kernel, over_flex does, beside cuDNN alone."""
    peers = {"sdpa_cudnn": 500.0, "fa4": 600.0}
    grid = [make("overlapped", "cuda", HEADLINE, 540, experiment="grid")]
    grid += [make(None, peer, HEADLINE, speed, experiment="grid") for peer, speed in peers.items()]
    flex = [make("bulk_reduce", "triton", HEADLINE, 400, experiment="over_flex")]
    flex.append(make(None, "sdpa_cudnn", HEADLINE, 450, experiment="over_flex"))
    apart = [row | {"group": "flex", "environment": "b" * 12} for row in flex]
    other = {**synthetic.ENVIRONMENT, "id": "b" * 12}
    data = dataset(*of("ladder", GROUPED), *grid, other, *apart)
    ((problem, points),) = backward.ANSWER.every_problem(data)
    assert problem == HEADLINE
    assert {name: round(point.tflops or 0) for name, point in points.items()} == {
        "cuda": 540,
        "triton": 400,
        "gluon": 0,
        "library": 600,
        "fa4": 600,
        "sdpa_cudnn": 474,
    }
    shares = facts.over(data, [(problem, points)], "library", ("cuda", "triton", "gluon"))
    assert set(shares) == {"cuda", "triton"}
    assert (facts.printed(shares["cuda"]), facts.printed(shares["triton"])) == ("0.90", "~0.74")
    assert facts.certainty(shares) == "one process each, no interval"
    assert "core Triton ~0.74 (0.74)" in page_of(data)


def test_the_first_page_has_its_line(data: Dataset) -> None:
    forward = Dataset("NVIDIA H200", True, synthetic.rows(), synthetic.hashes(), synthetic.CHOSEN)

    def page(data: Dataset) -> str:
        of_all: dict[str, Rows] = {}
        for name, one in {"attention": forward, "attention_backward": data}.items():
            of_all[name] = Rows(one, [one], {}, lambda *_: "", of_all)
        return rendered(
            "attention/index.html", first.page(of_all["attention"], forward, {"index.html": forward}), forward
        )

    line = re.search(r'<a href="answer/attention_backward.html">Attention backward</a>.*?</tr>', page(data), re.DOTALL)
    assert "Attention backward</a>, on H100" in line[0]
    assert re.findall(r"<b>([\d.]+)</b>", line[0]) == ["0.77", "0.98", "1.00", "0.96"]
    assert "Attention backward</a>" not in page(dataset())


def test_every_rung_has_a_title_and_a_theme() -> None:
    titles = [name for of in operators.get("attention_backward").themes.values() for name in of]
    assert sorted(titles) == sorted(rung.name for rung in operators.get("attention_backward").techniques)
    every = {name: Dataset("", False, (), operator=operators.get(name)) for name in operators.names()}
    rows = {name: Rows(one, [one], {}, lambda *_: "") for name, one in every.items()}
    assert "Who adds dQ" in overview.techniques_page(rows, [])["themes"]
