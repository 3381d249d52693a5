"""The articles' ladders: every step can be measured, and the published numbers are read as the articles count them."""

import pytest

from harness.catalog import experiments, sources, techniques
from harness.catalog.cases import of_experiment
from harness.catalog.entries import Tile
from harness.operators.attention.articles import Article, Step
from harness.operators.attention.inputs import DISTRIBUTIONS
from harness.operators.attention.problem import Problem
from harness.rows import reading, results

ARTICLES = {name: experiments.article(name) for name in experiments.about_articles()}


@pytest.fixture(params=ARTICLES)
def article(request: pytest.FixtureRequest) -> Article:
    return ARTICLES[request.param]


def experiment(article: Article):
    return experiments.load(article.name)


def test_every_cell_is_one_that_both_languages_take(article: Article) -> None:
    for problem, name, tile in experiment(article).cells:
        for backend in ("cuda", "triton"):
            assert techniques.unsupported(techniques.of_qualified(name), backend, problem, tile) is None


def test_the_gate_takes_every_distribution(article: Article) -> None:
    assert experiment(article).distributions == tuple(DISTRIBUTIONS)


def test_every_step_is_a_case_of_its_own_in_both_languages(article: Article) -> None:
    cases = of_experiment(experiment(article))
    assert len(cases) == len(set(cases))
    measured = {(case.problem, case.technique, case.tile, case.backend) for case in cases}
    for step in article.steps:
        for backend in ("cuda", "triton"):
            assert (article.problem, step.technique, step.tile, backend) in measured
    assert {case.problem for case in cases if case.backend == "sdpa_cudnn"} == {s.problem for s in article.shapes}


@pytest.mark.slow
def test_the_fastest_recorded_rung_is_one_that_the_experiment_asks_for(article: Article) -> None:
    """Or a fresh run could not show what the page calls the best."""
    rows = results.newest(results.read_recorded(sources.ROOT / "reports/recorded", "h200", article.name))
    hashes = reading.checkout_hashes()
    timed = {
        (row["technique"], Tile.from_dict(row["tile"]), reading.slug(row)): reading.tflops(row)
        for row in rows
        if (row["kind"], row.get("backend")) == ("timing", "cuda")
        and row.get("technique")
        and row["status"] == "passed"
        and reading.is_current(row, hashes)
    }
    asked = {(name, tile, problem.slug) for problem, name, tile in experiment(article).cells}
    for shape in article.shapes:
        if any((*rung, shape.problem.slug) not in timed for rung in shape.rungs):
            continue  # what is asked for is not recorded yet
        best = max((cell for cell in timed if cell[2] == shape.problem.slug), key=timed.__getitem__)
        assert best in asked


def test_steps_have_names_and_something_before_them(article: Article) -> None:
    names = [step.name for step in article.steps]
    assert len(names) == len(set(names))
    assert article.before(article.steps[0]) is None
    for step in article.steps[1:]:
        before = article.before(step)
        assert before.name == step.over or (not step.over and before.name == names[names.index(step.name) - 1])
        assert (before.technique, before.tile) != (step.technique, step.tile)


def test_a_change_of_the_tile_stands_alone(article: Article) -> None:
    """Where tile and technique differ from the step before, the registry or the number of warps says why."""
    for step in article.steps[1:]:
        before = article.before(step)
        assert before is not None
        if step.technique == before.technique or step.tile == before.tile:
            continue
        only_tile = techniques.of_qualified(step.technique).tile.get(article.problem.head_dim) == step.tile
        assert only_tile or (step.tile.block_m, step.tile.block_n) == (before.tile.block_m, before.tile.block_n)


@pytest.mark.parametrize(
    ("name", "problem", "shapes", "flops"),
    [
        ("seed_blackflash", "b64-h64-n1024-d64-bf16-full", 4, 1.0),
        ("seed_raw_ptx", "b16-h16-n8192-d128-fp16-full", 1, 0.988),
        ("seed_5090", "b1-h8-q4096k8192-d128-bf16-full", 1, 1.0),
        ("seed_rtx5080", "b4-h12-n2048-d64-fp16-causal", 5, 0.5),
        ("seed_kernel_one", "b4-h16-n4096-d128-bf16-full-bshd", 1, 0.988),
    ],
)
def test_an_article_is_measured_on_its_problem_and_shapes_with_flops_in_this_projects_rule(
    name: str, problem: str, shapes: int, flops: float
) -> None:
    article = ARTICLES[name]
    assert (article.name, article.problem, len(article.shapes)) == (name, Problem.parse(problem), shapes)
    assert round(article.flops, 3) == flops


def test_printed_gains_are_over_the_last_step_that_has_a_number() -> None:
    article = ARTICLES["seed_raw_ptx"]
    gains = {step.name: article.printed_gain(step) for step in article.steps}
    assert gains["01_base"] is None
    assert gains["02_swizzle, the swizzle alone"] is None
    assert gains["02_swizzle, the tile too"] == pytest.approx(5.59, abs=0.01)  # "+459%"
    assert gains["07_dbuf"] == pytest.approx(0.995, abs=0.001)  # "-0.5%"
    order = ARTICLES["seed_kernel_one"]
    assert [order.printed_gain(step) for step in order.steps if step.technique == "l2_grid_order"] == [1.03]


def test_a_step_over_one_that_is_not_before_it_is_an_error() -> None:
    first, second = Step("a", "scalar", Tile(64, 64)), Step("b", "wmma", Tile(64, 64), over="c")
    broken = Article("x", "x", "x", ARTICLES["seed_5090"].shapes, (first, second), ())
    with pytest.raises(KeyError):
        broken.before(second)
