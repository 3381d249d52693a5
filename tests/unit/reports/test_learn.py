"""The page Learn: its lines are cut from kernels as they are, and a number is of one GPU and this version."""

from pathlib import Path

import pytest

from harness import operators
from harness.catalog import sources, techniques
from reports.data.dataset import Dataset
from reports.facts import timelines
from reports.pages import learn
from reports.pages.prose import Claims
from tests.support import synthetic_rows as synthetic
from tests.support.pages import EMPTY, dataset, rendered

SECTIONS = {block["name"]: block for _, block, _ in learn.sections()}


def test_every_lesson_is_understood() -> None:
    assert len(SECTIONS) == learn.NOTE.read_text().count("\n```toml lesson\n")


@pytest.mark.parametrize("name", SECTIONS)
def test_a_lesson_has_about_twenty_lines_and_lanes_of_one_length(name: str) -> None:
    block = SECTIONS[name]
    path = sources.kernel_file("cuda", techniques.of_qualified(block["technique"]).path)
    assert 10 <= len(learn.cut(path, block["cut"]).splitlines()) <= 26
    for drawn in timelines.of(block.get("drawing", ())):
        lengths = {who: sum(span.width for span in lane) for who, lane in drawn.lanes.items()}
        assert len(set(lengths.values())) == 1, lengths


def test_a_cut_that_the_kernel_does_not_have_is_named(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.cu"
    kernel.write_text("  a();\n#pragma unroll\n  b();\n  c();\n")
    assert learn.cut(kernel, [["a()", "b()"], ["c()", "c()"]]) == "a();\n#pragma unroll\nb();\n...\nc();"
    with pytest.raises(ValueError, match=r"no line of kernel.cu from line 4 on has 'a\(\)'; name another"):
        learn.cut(kernel, [["b()", "b()"], ["a()", "a()"]])


def test_number_and_sentence_are_of_the_first_gpu_that_has_both() -> None:
    problem = synthetic.PROBLEMS[0].slug
    asked = {
        "number": f'{{{{ tflops("direct_rescale", "cuda", "{problem}") }}}}',
        "buys": "{{ claim('fast', 1, 2) }}so",
    }
    other = dataset(synthetic.rows(), "NVIDIA H100")
    claims = Claims()
    number, buys, data = learn._written(asked, [EMPTY, other], claims)
    assert (buys, data) == ("so", other)
    assert number.endswith(" TFLOPS")
    without = {**asked, "buys": f'{{{{ tflops("wgmma", "cuda", "{problem}") }}}}'}
    assert learn._written(without, [EMPTY, other], claims) == ("not measured", "not measured", EMPTY)


def test_without_rows_nothing_is_measured() -> None:
    every = {one.name: [Dataset("", False, (), operator=one)] for one in operators.every()}
    page = rendered("learn.html", learn.page(every, {}, Claims()))
    assert page.count("Not measured yet: ") == len(SECTIONS)
