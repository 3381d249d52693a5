"""The page Learn: its lines are cut from kernels as they are, and the words that people use lead to its lessons."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.catalog import sources, techniques
from reports.facts import timelines
from reports.pages import learn
from reports.pages.prose import Claims
from tests.support import browser
from tests.support.pages import EMPTY, rendered

SECTIONS = {block["name"]: block for _, block, _ in learn.sections()}


def test_every_lesson_is_understood() -> None:
    assert len(SECTIONS) == learn.NOTE.read_text().count("\n```toml lesson\n")


@pytest.mark.parametrize("name", SECTIONS)
def test_a_lesson_has_about_twenty_lines_and_lanes_of_one_length(name: str) -> None:
    block = SECTIONS[name]
    path = sources.kernel_file("cuda", techniques.of_qualified(block["technique"]).path)
    assert 10 <= len(learn.cut(path, block["cut"]).splitlines()) <= 26
    lengths = {who: sum(span.width for span in timelines.spans(lane)) for who, lane in block.get("lanes", {}).items()}
    assert len(set(lengths.values())) <= 1, lengths


def test_a_cut_that_the_kernel_does_not_have_is_named(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.cu"
    kernel.write_text("  a();\n#pragma unroll\n  b();\n  c();\n")
    assert learn.cut(kernel, [["a()", "b()"], ["c()", "c()"]]) == "a();\n#pragma unroll\nb();\n...\nc();"
    with pytest.raises(ValueError, match=r"no line of kernel.cu from line 4 on has 'a\(\)'; name another"):
        learn.cut(kernel, [["b()", "b()"], ["a()", "a()"]])


@pytest.mark.slow
@pytest.mark.skipif(browser.find() is None, reason=f"no browser: install one of {', '.join(browser.NAMES)}")
def test_the_words_that_people_use_lead_there(tmp_path: Path) -> None:
    page = rendered("learn.html", learn.page([EMPTY], {}, Claims()))
    asked = {
        "warp specialization": "learn.html#warp-specialization",
        "bank conflicts": "learn.html#swizzle",
        "TMA": "learn.html#tma",
        "setmaxnreg": "learn.html#warp-specialization",
        "tensor cores": "learn.html#wgmma",
        "head_dim": "guide/reading.html#words",
        "padded_rows": "technique/padded_rows.html",
        "second consumer": "findings.html#second_consumer",
        "no such thing": "",
    }
    script = (
        "(() => { const input = document.querySelector('.search input'); return "
        f"{list(asked)}.map((words) => {{ input.value = words; input.dispatchEvent(new Event('input')); "
        "return document.querySelector('.search a')?.getAttribute('href') ?? ''; }).join('\\n'); })()"
    )
    assert dict(zip(asked, browser.evaluate(page, script, tmp_path).split("\n"), strict=True)) == asked
