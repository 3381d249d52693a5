"""The pages of matrix products: their answer, their line on the first page, and techniques that two operators have."""

import re
from typing import Any

import pytest

from harness import operators
from harness.catalog import sources, techniques
from harness.catalog.entries import Tile
from harness.operators.gemm.problem import Problem
from reports.data.dataset import Dataset
from reports.facts import answer as facts
from reports.facts.expressibility import Known, Said
from reports.pages import downloads, gemm, overview, technique
from reports.pages.attention import index as first
from reports.pages.common import Rows, shown_problems
from tests.support import gemm_rows
from tests.support import synthetic_rows as synthetic
from tests.support.pages import WORDS, count_words, rendered
from tests.support.pages import dataset as attention

pytestmark = pytest.mark.slow

Row = dict[str, Any]


def dataset(rows: list[Row], gpu: str = "NVIDIA H200") -> Dataset:
    return Dataset(gpu, True, rows, gemm_rows.hashes(), operator=operators.get("gemm"))


def rows_of(**data: Dataset) -> dict[str, Rows]:
    of_all: dict[str, Rows] = {}
    for name, one in data.items():
        of_all[name] = Rows(one, [one], {}, lambda *_: "", of_all)
    return of_all


@pytest.fixture(scope="module")
def data() -> Dataset:
    return dataset(gemm_rows.rows())


def answer_page(data: Dataset) -> str:
    rows = rows_of(gemm=data)["gemm"]
    return rendered("gemm/index.html", gemm.ANSWER.page(data, gemm.ANSWER.gpus(rows)), data)


def test_the_answer_has_the_speeds_of_its_rows(data: Dataset) -> None:
    found = facts.answer(data, gemm.ANSWER.race)
    assert found.problem == Problem.square(4096)
    speeds = {bar.backend: round(bar.tflops or 0) for bar in found.of("wgmma")}
    assert speeds == {"cuda": 745, "triton": 700, "gluon": 710, **gemm_rows.PEERS, "deep_gemm": 0, "quack": 0}
    assert {bar.backend: bar.tflops for bar in found.of("mma_sync")} == pytest.approx({"cuda": 480, "triton": 400})
    page = answer_page(data)
    assert (
        "core Triton reaches 0.92 of the fastest library timed (cuBLASLt, tuned) at 4096 cubed, Gluon 0.93, "
        "hand-written CUDA 0.98" in page
    )
    title = "With wgmma cuBLASLt, tuned is fastest; shares of its speed: CUDA 0.98, Gluon 0.93, core Triton 0.92"
    assert title in page
    assert "not measured yet" in page, "DeepGEMM keeps its place"
    assert page.count('class="sharebar') == 4
    assert "twinkernels bench gemm/pingpong gemm/tma_store_epilogue --problem gemm-m4096-n4096-k4096-bf16" in page
    assert count_words(page) < WORDS
    over = re.search(r"<th>1024 x 1024 x 32768 .*?</tr>", page, flags=re.DOTALL)
    assert re.findall(r">(\d+)<", over[0]) == ["745", "710", "700", "760"]
    assert "one process each, no interval" in page
    assert "Steps take CUDA from" in page


def test_a_gpu_that_timed_every_problem_and_a_problem_that_every_language_has_come_first() -> None:
    sizes = {"cuda": (16384, 8192), "triton": (8192,), "gluon": (8192,)}
    huge = [
        gemm_rows.make("pingpong", backend, Problem.square(size), 800, experiment="ladder")
        for backend, some in sizes.items()
        for size in some
    ]
    ladder_alone = dataset([synthetic.ENVIRONMENT, *gemm_rows.of("ladder"), *huge])
    whole = dataset(gemm_rows.rows(), "NVIDIA H100 80GB HBM3")
    rows = Rows(ladder_alone, [ladder_alone, whole], {}, lambda *_: "")
    assert list(gemm.ANSWER.gpus(rows).values()) == [whole, ladder_alone]
    assert next(iter(ladder_alone.problems("ladder"))) == Problem.square(16384)
    assert facts.answer(ladder_alone, gemm.ANSWER.race).problem == Problem.square(4096)


def test_a_page_leads_to_the_gpu_that_timed_steps_which_it_lacks(data: Dataset) -> None:
    lacking = dataset([row for row in gemm_rows.rows() if row.get("technique") != "wgmma"], "NVIDIA H100 80GB HBM3")
    every = gemm.ANSWER.gpus(Rows(data, [data, lacking], {}, lambda *_: ""))
    pages = [rendered("gemm/index.html", gemm.ANSWER.page(one, every), one) for one in (lacking, data)]
    assert ['<a href="answer/gemm.html#steps">Some have one on H200.</a>' in page for page in pages] == [True, False]


def test_without_rows_there_is_no_answer() -> None:
    rows = rows_of(gemm=dataset([]))["gemm"]
    assert list(gemm.pages(rows)) == []
    assert gemm.line(rows, "NVIDIA H200") is None


def test_a_rung_that_was_timed_elsewhere_alone_says_where(data: Dataset) -> None:
    small = Problem.square(2048)
    moved = [row for row in gemm_rows.rows() if row.get("technique") != "scalar"]
    scalar = gemm_rows.make("scalar", "cuda", small, 20, experiment="ladder")
    steps = {
        one.name: (where, points["cuda"]) for one, where, points in gemm.ANSWER.steps(dataset([*moved, scalar]), small)
    }
    assert steps["scalar"][0] == small
    problem = Problem.square(4096)
    steps = {one.name: (at, points) for one, at, points in gemm.ANSWER.steps(dataset([*moved, scalar]), problem)}
    assert (steps["scalar"][0], steps["wgmma"][0]) == (small, problem)
    assert steps["wgmma"][1]["cuda"].tflops == pytest.approx(500)
    assert "2048 cubed" in answer_page(dataset([*moved, scalar]))


def test_a_rung_about_the_last_wave_is_drawn_where_the_last_wave_is_nearly_empty() -> None:
    """Where it was timed there; what it builds on stays at the problem of all rungs."""
    named, whole, ragged = ("cluster_multicast", "tile_192"), Problem.square(4096), Problem.square(3072)

    def drawn(*problems: Problem) -> list[tuple[Problem, Problem]]:
        rows = [gemm_rows.make(name, "cuda", at, 700, experiment="ladder") for at in problems for name in named]
        hashes = {(f"gemm/{name}", "cuda"): synthetic.sha(name, "cuda") for name in named}
        data = Dataset("NVIDIA H200", True, [synthetic.ENVIRONMENT, *rows], hashes, operator=operators.get("gemm"))
        steps = {one.name: where for one, where, _ in gemm.ANSWER.steps(data, whole)}
        pages = {name: shown_problems(data, "ladder", name)[0] for name in named}
        return [(steps[name], pages[name]) for name in named]

    assert drawn(whole, ragged) == [(whole, whole), (ragged, ragged)]
    assert drawn(whole) == [(whole, whole), (whole, whole)]


def test_a_flagship_that_was_not_tuned_says_so_among_the_steps(data: Dataset) -> None:
    tuned = gemm_rows.make("flagship", "cuda", Problem.square(4096), 800, experiment="ladder")
    tuned["tile"] |= {"stages": 3}
    chosen = {("flagship", "cuda", Problem.square(4096).cells[0]): Tile.from_dict(tuned["tile"])}
    hashes = gemm_rows.hashes()
    of = Dataset("NVIDIA H200", True, [*gemm_rows.rows(), tuned], hashes, chosen, operator=operators.get("gemm"))
    assert ["at its default tile, not tuned" in answer_page(one) for one in (data, of)] == [True, False]


def test_seconds_to_compile_are_those_of_the_kernel_or_of_its_gate(data: Dataset) -> None:
    found = facts.answer(data, gemm.ANSWER.race)
    assert {one.bar.backend: one.bar.compile_s for one in facts.choices(found)} == {
        "triton": 3.0,
        "gluon": 5.0,
        "cuda": 8.0,
        "cublaslt": None,
    }
    assert found.bar("wgmma", "inductor").compile_s == 41.0
    without = [{name: value for name, value in row.items() if name != "compile_s"} for row in gemm_rows.rows()]
    assert "Seconds to compile" not in answer_page(dataset(without))
    timed = next(row for row in without if (row.get("technique"), row.get("backend")) == ("pingpong", "cuda"))
    gate = {name: value for name, value in timed.items() if name not in ("samples_ms", "mode", "group", "clock_ghz")}
    gate |= {"kind": "gate", "numerics": {"normal": {"max_abs": 0.0, "yardstick": 1.0, "floor": 1.0}}, "compile_s": 7.5}
    page = answer_page(dataset([*without, gate]))
    line = re.search(r"Seconds to compile.*?</tr>", page, flags=re.DOTALL)
    assert re.findall(r">(not recorded|none|[\d.]+)<", line[0]) == ["not recorded", "not recorded", "7.5", "none"]


@pytest.mark.parametrize(
    ("backend", "number", "name"),
    [("cuda", 9, "trailing_store"), ("cuda", 0, "flagship"), ("triton", 1, "square_waves"), ("triton", 0, None)],
)
def test_lines_are_those_of_the_kernel_that_a_tile_names(backend: str, number: int, name: str | None) -> None:
    """Triton's flagship has none of its own, where CUDA's has one for tiles that name none."""
    row = gemm_rows.make("flagship", backend, Problem.square(4096), 800, experiment="ladder")
    row["tile"] = Tile(128, 256, 4, 8, (("schedule", number),) if number else ()).to_dict()
    data = dataset([synthetic.ENVIRONMENT, row])
    technique, lines = facts._kernel(next(iter(data.timings())))
    assert technique is techniques.get(f"gemm/{name or 'flagship'}")
    own = sources.kernel_file(backend, f"gemm/hopper/{name}")
    assert lines is None if name is None else lines and lines[0] == sources.lines_of_code(own)


def test_the_first_page_has_a_line_for_each_operator_that_has_rows(data: Dataset) -> None:
    def page(**of: Dataset) -> str:
        rows = rows_of(**of)["attention"]
        variables = first.page(rows, rows.main, {"index.html": rows.main})
        return rendered("attention/index.html", variables, rows.main)

    alone = page(attention=attention())
    assert "Matrix products</a>" not in alone
    assert "Matrix products</a>" not in page(attention=attention(), gemm=dataset([]))
    both = page(attention=attention(), gemm=data)
    line = re.search(r'<a href="answer/gemm.html">Matrix products</a>.*?</tr>', both, flags=re.DOTALL)
    assert re.findall(r"<b>([\d.]+)</b>", line[0]) == ["0.92", "0.93", "0.98", "1.00"]
    assert f'title="{gemm.ANSWER.between}">4096 cubed<' in line[0]
    assert "a softmax between the products" in both


def test_the_line_is_of_the_gpu_of_the_page_where_that_has_rows() -> None:
    faster = [
        row | {"samples_ms": [ms * 0.5 for ms in row["samples_ms"]]} if row.get("backend") == "triton" else row
        for row in gemm_rows.rows()
    ]
    h200, h100 = dataset(gemm_rows.rows()), dataset(faster, "NVIDIA H100")
    rows = Rows(h200, [h200, h100], {}, lambda *_: "")
    found = {gpu: gemm.line(rows, gpu) for gpu in ("NVIDIA H200", "NVIDIA H100", "NVIDIA B200")}
    assert all(found.values())
    told = {gpu: (one.gpu, one.path, one.choices[0].bar.tflops) for gpu, one in found.items() if one}
    assert told["NVIDIA H200"] == told["NVIDIA B200"] == ("H200", "answer/gemm.html", pytest.approx(700))
    assert told["NVIDIA H100"] == ("H100", "answer/gemm-bars-h100.html", pytest.approx(1400))


def test_a_technique_of_two_operators_has_what_it_buys_in_both(data: Dataset) -> None:
    of_all = rows_of(attention=attention(), gemm=data)
    ours, theirs = techniques.get("gemm/xor_swizzle"), techniques.get("attention/xor_swizzle")
    here = technique.elsewhere(of_all["gemm"], ours)
    assert set(here) == {"cuda"}, "Triton runs the parent's program"
    (mine, own_path, gain), (other, path, _) = here["cuda"]
    assert (mine, own_path, other, path) == ("matrix products", None, "attention forward", "technique/xor_swizzle.html")
    assert gain.value == pytest.approx(2.0)
    assert technique.elsewhere(of_all["attention"], theirs)["cuda"][0][0] == "attention forward"
    assert technique.elsewhere(of_all["gemm"], techniques.get("gemm/two_consumers")) == {}
    assert technique.elsewhere(rows_of(gemm=data)["gemm"], ours) == {}
    page = rendered("technique.html", technique.page(of_all["gemm"], ours) | {"up": "../"}, data)
    told = re.search(r"Times its parent’s speed: (.*?)</p>", page, flags=re.DOTALL)
    assert re.sub(r"<[^>]*>", "", told[1]) == "CUDA 2.00× in matrix products, 1.61× in attention forward."
    others = {name: Dataset("", False, (), operator=operators.get(name)) for name in operators.names()}
    listed = overview.techniques_page(rows_of(**others) | of_all, [])["themes"]["Shared memory"]
    names = [line["name"] for line in listed]
    assert names.index("gemm/xor_swizzle") == names.index("xor_swizzle") + 1


def test_a_technique_without_a_claim_leads_to_its_namesake_that_has_one(data: Dataset) -> None:
    def page(name: str, known: Known) -> str:
        rows = Rows(data, [data], known, lambda *_: "")
        return rendered("technique.html", technique.page(rows, techniques.get(f"gemm/{name}")) | {"up": "../"}, data)

    graded: Known = {("xor_swizzle", "cuda"): Said("xor_swizzle")}
    assert 'proven on <a href="../technique/xor_swizzle.html">' in page("xor_swizzle", graded)
    assert "Written in CUDA; no compiled proof is about it" in page("xor_swizzle", {})
    assert "Written in CUDA; no compiled proof is about it" in page("two_consumers", graded)


def test_files_and_questions_of_two_operators_do_not_mix(data: Dataset) -> None:
    ours = {one.name for one in downloads.experiments(data)}
    theirs = {one.name for one in downloads.experiments(attention())}
    assert "gemm-ladder-h200" in ours
    assert not ours & theirs
    tables = overview.data_page([attention(), data])["tables"]
    asked = {(of.operator.name, line["name"]): line["question"] for of, lines in tables for line in lines}
    assert "matrix product" in asked["gemm", "ladder"]
    assert "matrix product" not in asked["attention", "ladder"]
