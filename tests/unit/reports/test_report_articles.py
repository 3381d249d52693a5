"""The pages of the articles, from synthetic rows."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from harness.catalog import experiments
from harness.rows import reading, results
from reports.data.dataset import Dataset
from reports.pages.attention import articles as article_pages
from reports.pages.common import Rows
from tests.support import synthetic_articles
from tests.support import synthetic_rows as synthetic
from tests.support.pages import dataset, rendered

pytestmark = pytest.mark.slow

Row = dict[str, Any]


@pytest.fixture(autouse=True)
def _no_computed_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heads that a report on this machine has computed would be drawn on pages without rows too."""
    monkeypatch.setattr(article_pages.computed, "saved", lambda: None)


def html(name: str, data: Dataset) -> str:
    page = article_pages.page(Rows(data, [data], {}, lambda *_: ""), name)
    return rendered("attention/article.html", page, data)


@pytest.mark.parametrize("name", experiments.about_articles())
def test_a_page_shows_every_step_and_shape_and_what_cannot_be_compared(name: str) -> None:
    article = experiments.article(name)
    text = html(name, dataset(synthetic_articles.rows(name)))
    for step in article.steps:
        assert step.technique in text
        assert step.tile.slug in text
        if step.tflops:
            assert f"{step.tflops:.2f}" in text
    assert text.count("<tr>") >= len(article.steps) + len(article.shapes)
    assert text.count("<li>") == len(article.cannot_compare)
    assert "measured separately on an NVIDIA H200" in text
    assert f"measured by its author on an {article.card}." in text
    assert "ot recorded yet" not in text
    assert text.count("<svg") == text.count("<figcaption>") == 1
    assert re.search(
        r'<h2 id="steps">“.*” gains most (in the article, .*×; here it gains .*|here, .*)× in CUDA</h2>', text
    )


@pytest.mark.parametrize("name", experiments.about_articles())
@pytest.mark.parametrize("rows", [list, synthetic.rows], ids=["nothing", "another experiment"])
def test_a_page_without_rows_says_so_and_keeps_the_articles_numbers(name: str, rows: Callable[[], list[Row]]) -> None:
    text = html(name, dataset(rows()))
    assert f"Not recorded yet: <code>twinkernels run {name}</code>" in text
    assert all(f"{step.tflops:.2f}" in text for step in experiments.article(name).steps if step.tflops)
    assert "<svg" not in text


def test_gains_here_are_over_the_step_before_and_over_the_one_that_the_article_counts_from() -> None:
    article = experiments.article("seed_raw_ptx")
    data = dataset(synthetic_articles.rows(article.name))
    lines = {line.step.name: line for line in article_pages.steps(data, article)}
    base, alone, both = (
        lines[name] for name in ("01_base", "02_swizzle, the swizzle alone", "02_swizzle, the tile too")
    )
    for backend in ("cuda", "triton"):
        speeds = [line.here[backend].point.tflops or 0 for line in (base, alone, both)]
        assert base.here[backend].gain is None
        for line, over in ((alone, 0), (both, 1)):
            gain = line.here[backend].gain
            assert gain.value == pytest.approx(speeds[over + 1] / speeds[over])
        span = both.here[backend].span
        assert span.value == pytest.approx(speeds[2] / speeds[0])
        assert alone.here[backend].span is None
    assert both.printed_gain == pytest.approx(165 / 29.5)


def test_the_best_rung_and_its_ratios() -> None:
    article = experiments.article("seed_raw_ptx")
    rows = synthetic_articles.rows(article.name)
    end = article_pages.shape_line(dataset(rows), article, article.shapes[0])
    fastest = max(reading.tflops(row) for row in rows if row.get("backend") == "cuda")
    assert end.best["cuda"].tflops == pytest.approx(fastest)
    assert end.over_own_code == pytest.approx(fastest / 304.0)
    assert end.shares == {"sdpa_flash": pytest.approx(187.3 / 203.7)}
    assert end.last["cuda"].row["technique"] == "batched_m_tiles"
    flash, peer = end.over_peers["best", "sdpa_flash"], end.peers["sdpa_flash"].tflops
    assert flash.value == pytest.approx(fastest / peer)


def test_the_best_rung_is_the_fastest_that_counts_of_all_that_were_timed() -> None:
    article = experiments.article("seed_raw_ptx")
    rows = synthetic_articles.rows(article.name)
    asked = max((row for row in rows if row.get("backend") == "cuda"), key=reading.tflops)
    (shape,) = article.shapes
    assert "warp_specialized" not in dict(shape.rungs), "the experiment does not ask for it any more"
    faster = {**asked, "samples_ms": [ms * 0.9 for ms in asked["samples_ms"]], "technique": "warp_specialized"}
    faster["source_sha256"] = synthetic.sha("warp_specialized", "cuda")
    earlier = {**faster, "source_sha256": "0"}
    for added, expected in ((faster, faster), (earlier, asked)):
        best = article_pages.shape_line(dataset([*rows, added]), article, shape).best["cuda"].row
        assert best is not None
        assert {**best, "schema": results.SCHEMA}.items() >= expected.items()


def test_the_quoted_number_of_one_gpu_is_no_measure_for_another() -> None:
    article = experiments.article("seed_raw_ptx")
    data = dataset(synthetic_articles.rows(article.name), gpu="NVIDIA H100")
    assert article_pages.shape_line(data, article, article.shapes[0]).over_own_code is None


def test_a_hole_shows_its_status() -> None:
    rows = synthetic_articles.rows("seed_raw_ptx")
    broken = next(row for row in rows if row.get("technique") == "large_tile" and row["backend"] == "cuda")
    broken |= {"status": "crashed", "reason": "<b>signal 11</b>"}
    del broken["samples_ms"]
    text = html("seed_raw_ptx", dataset(rows))
    assert re.search(r'<span class="bad">crashed</span>', text)
    assert "<b>signal" not in text


def test_the_heads_are_drawn_on_their_articles_page_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(article_pages.computed, "saved", synthetic_articles.heads)
    data = dataset(synthetic_articles.rows("seed_rtx5080"))
    text = html("seed_rtx5080", data)
    assert text.count("<figcaption>") == text.count('<svg role="img"') == 4
    assert text.count("computed on this CPU by running the kernel direct_rescale") == 3
    for name in ("local", "strided", "global anchor", "block"):
        assert f"<th>{name}</th>" in text
    assert "Where it attends" not in html("seed_raw_ptx", dataset(synthetic_articles.rows("seed_raw_ptx")))


def test_heads_that_are_not_computed_say_so() -> None:
    assert "Not computed yet" in html("seed_rtx5080", dataset(synthetic_articles.rows("seed_rtx5080")))


def test_an_article_is_shown_of_the_gpu_that_timed_it() -> None:
    name = next(iter(experiments.about_articles()))
    first, timed = dataset(synthetic.rows()), dataset(synthetic_articles.rows(name))
    rows = Rows(first, [first, timed], {}, lambda *_: "")
    text = rendered("attention/article.html", article_pages.page(rows, name), first)
    assert "ot recorded yet" not in text
