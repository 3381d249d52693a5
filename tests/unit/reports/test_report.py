"""The report, made from synthetic rows: what a reader must find, and what must never reach a page."""

import csv
import json
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import matplotlib
import pytest

from cuda_kernels.cpu_library import totals
from harness import operators
from harness.catalog import experiments as catalog
from harness.catalog import techniques, tiles
from harness.catalog.entries import Tile
from harness.operators.attention.problem import Problem
from harness.rows import reading
from harness.setup import script
from reports import build
from reports.data.dataset import Dataset, Point
from reports.data.loading import load
from reports.draw import banks
from reports.facts import counters, tuning
from reports.pages import downloads, prose
from reports.pages.attention import GRID as GRID_SCORE
from reports.pages.attention import readme
from reports.pages.technique import LINKED, side_by_side
from tests.support import cpu_run, gate_rows, row_file
from tests.support import synthetic_rows as synthetic
from tests.support.pages import WORDS, count_words, dataset, lines, texts

pytestmark = pytest.mark.slow

Row = dict[str, Any]
HERE = "computed here on a CPU by running the kernel, 2030-01-02"
VOID = {"meta", "br", "wbr", "link", "img", "input", "hr", "path", "use", "circle", "rect", "line", "col"}

AGAIN = "`twinkernels record` draws it: commit {}"


def write(folder: Path, rows: list[Row]) -> None:
    """One file per experiment, each with the environment row, as `record` leaves them."""
    folder.mkdir(parents=True)
    for name in {row["experiment"] for row in rows if "experiment" in row}:
        kept = [row for row in rows if row.get("experiment", name) == name]
        row_file.write_recorded(folder.parent, kept, folder.name, name)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("recorded")
    write(root / "h200", [*synthetic.rows(), *gate_rows.gates(), *gate_rows.sanitized()])
    return root


@pytest.fixture(scope="module")
def site(recorded: Path, counted: list[Row], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    fresh, output = folder / "fresh.jsonl", folder / "site"
    row_file.write(fresh, counted)
    start = time.process_time()
    table = [tiles.Selection(*cell, tile, 6, "a-tune") for cell, tile in synthetic.CHOSEN.items()]
    tiles.update(folder / "tables" / "h200.toml", table)
    given = {"recorded": recorded, "runs": [fresh], "hashes": synthetic.hashes(), "tables": folder / "tables"}
    index = build.build(output, **given, progress=lambda *_: None)
    assert time.process_time() - start < 60
    assert index == output / "index.html"
    return output


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, str]:
    return {path.relative_to(site).as_posix(): path.read_text() for path in site.rglob("*.html")}


def test_rows_that_cannot_be_read_leave_the_old_site(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("the old one")
    (tmp_path / "bad.jsonl").write_text("no row\n\n")
    with pytest.raises(ValueError, match=r"bad\.jsonl:1"):
        build.build(tmp_path / "site", recorded=tmp_path, runs=[tmp_path / "bad.jsonl"], hashes={})
    assert (tmp_path / "site" / "index.html").read_text() == "the old one"


def test_a_link_to_a_site_elsewhere_stays_one(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "old.html").touch()
    (tmp_path / "site").symlink_to(tmp_path / "elsewhere")
    given = {"recorded": tmp_path, "runs": (), "hashes": {}, "only": ["guide/reading.html"]}
    build.build(tmp_path / "site", **given, progress=lambda *_: None)
    assert (tmp_path / "site").is_symlink()
    assert (tmp_path / "elsewhere" / "guide" / "reading.html").is_file()
    assert not (tmp_path / "elsewhere" / "old.html").exists()


@pytest.fixture(scope="module")
def data() -> Dataset:
    return dataset(synthetic.rows())


class Page(HTMLParser):
    """Links, and whether every element that opens is closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag, (tag, self.getpos())

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)


# The site as a whole


def test_the_site_has_its_kinds_of_pages(pages: dict[str, str]) -> None:
    own = {name for name in pages if name.startswith(("findings", "learn", "proof/", "gap/"))}
    expected = {name for name in build.MENU if not name.startswith(("findings", "learn"))}
    expected |= {"evidence/correctness.html", "regressions.html"}
    expected |= {f"guide/{name}.html" for name in ("cpu", "gpus", "judging", "reading", "training", "verifying")}
    expected |= {build.page_of(technique) for technique in techniques.rungs()}
    expected |= {f"article/{name}.html" for name in catalog.about_articles()}
    assert set(pages) - own == expected
    for name in ("ladder", "sequence_length", "tune", "correctness", "sanitizer", "sanitizer_planted"):
        assert f'id="{name}"' in pages["data.html"]
    assert {*script.PAGES.values()} <= set(pages), "an experiment's script names a page"


@pytest.fixture(scope="module")
def parsed(pages: dict[str, str]) -> dict[str, Page]:
    return {name: Page(text) for name, text in pages.items()}


def test_links_resolve_and_nothing_is_fetched(site: Path, pages: dict[str, str], parsed: dict[str, Page]) -> None:
    anchors = {(site / name).resolve(): set(re.findall(r' id="([^"]+)"', text)) for name, text in pages.items()}
    for name, text in pages.items():
        page = parsed[name]
        assert not page.tags & {"link", "img", "iframe"}, name
        for link in page.links:
            if link.startswith("https://"):  # to read, never to load
                assert f'<a href="{link}"' in text, f"{name}: {link}"
                continue
            path, _, anchor = link.partition("#")
            target = ((site / name).parent / path if path else site / name).resolve()
            assert target.is_file(), f"{name}: {link}"
            assert not anchor or anchor in anchors[target], f"{name}: {link}"
        assert not re.search(r"url\((?!#)|@import", text), name
        assert text.count("<h2") <= text.count('<a class="anchor"'), f"{name}: a heading without a link to itself"


def test_every_file_of_data_is_linked(site: Path, parsed: dict[str, Page]) -> None:
    links = {((site / name).parent / link).resolve() for name, page in parsed.items() for link in page.links if link}
    files = [path.resolve() for path in (site / "data").iterdir()]
    assert {path.suffix for path in files} == {".csv", ".jsonl"}
    assert [path.name for path in files if path not in links] == []


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("data.html", '<td class="small" data-label="95% interval">none: 1 process</td>'),
        ("data.html", '<span class="small">none: 1 process'),
        ("techniques.html", '<abbr title="never timed together: each over the anchor of its own group">~</abbr>1.'),
        ("guide/judging.html", "~ marks a ratio"),
    ],
)
def test_a_ratio_says_how_certain_it_is(pages: dict[str, str], page: str, words: str) -> None:
    assert words in " ".join(pages[page].split())


def test_a_technique_page_marks_gains_of_two_runs(pages: dict[str, str]) -> None:
    assert LINKED.format("cuDNN") in pages["technique/register_softmax.html"]
    assert "(~1.7" in pages["technique/register_softmax.html"]
    assert LINKED.format("cuDNN") not in pages["technique/xor_swizzle.html"]


def test_the_files_of_an_experiment_have_what_counts(site: Path, data: Dataset) -> None:
    stem = site / "data" / downloads.stem(data, "ladder")
    lines = list(csv.DictReader(stem.with_suffix(".csv").read_text().splitlines()))
    rows = [json.loads(line) for line in stem.with_suffix(".jsonl").read_text().splitlines()]
    assert len(lines) == len(rows) > 10
    assert all(row["status"] == "passed" and reading.is_current(row, data.hashes) for row in rows)
    assert {line["backend"] for line in lines} >= {"cuda", "triton", "sdpa_cudnn"}
    assert float(lines[0]["tflops"]) == pytest.approx(reading.tflops(rows[0]), rel=1e-3)


def test_text_from_rows_is_escaped(pages: dict[str, str]) -> None:
    own = (build.ROOT / "templates/script.js").read_text()
    for name, text in pages.items():
        assert text.lower().count("<script") == 1 or name.startswith(("findings", "learn")), name
        assert f"<script>{own}</script>" in text
    for name in ("data.html", "technique/direct_rescale.html"):
        assert "&lt;script&gt;alert(&#39;reason&#39;)&lt;/script&gt;" in pages[name], name


def test_every_figure_says_where_its_rows_come_from(pages: dict[str, str]) -> None:
    for name, text in pages.items():
        if name.startswith(("findings", "learn")):
            continue  # their drawings are of no rows
        if name != "index.html":
            assert text.count("<figcaption>") == text.count("<figure"), name
        for caption in re.findall(r"<figcaption>(.*?)(?: <span class=\"links\">.*?)?</figcaption>", text):
            if caption.endswith("; computed on this CPU by running the kernel direct_rescale"):
                continue  # heads, if a report was made on this machine
            told = caption.removesuffix(f". {LINKED.format('cuDNN')}").removesuffix(".")
            if "computed on this CPU by running the kernel" in told:  # arrays of structured heads, no rows
                continue
            assert told[:1].lower() + told[1:] in ("recorded on NVIDIA H200, 2030-01-02, commit 0123456", HERE)
    assert "Recorded on NVIDIA H200, 2030-01-02, commit 0123456." in pages["index.html"]
    assert "NVIDIA H200 · head_dim 128, full" in pages["index.html"]


def test_every_hole_is_visible_with_its_reason(pages: dict[str, str]) -> None:
    for (technique, _, _), (status, reason) in synthetic.HOLES.items():
        words = reason.split(" <")[0]
        assert words in pages["data.html"]
        assert words in pages[f"technique/{technique}.html"]
        assert f">{status}" in pages["data.html"]


def test_ids_of_inline_figures_are_unique(pages: dict[str, str]) -> None:
    for name, text in pages.items():
        for svg in re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL):
            used = set(re.findall(r"url\(#(\w+)\)|href=\"#(\w+)\"", svg))
            ids = re.findall(r' id="([^"]+)"', svg)
            assert len(ids) == len(set(ids)), name
            assert {a or b for a, b in used} <= set(ids), name


# What a page says


def test_technique_page_has_sources_diff_code_and_numerics(pages: dict[str, str]) -> None:
    text = pages["technique/cp_async_pipeline.html"]
    for words in (
        "cuda_kernels/attention/ampere/cp_async_pipeline.cu",
        "triton_kernels/attention/ampere/cp_async_pipeline.py",
    ):
        assert words in text
    assert 'class="gi"' in text  # an added line of a diff
    assert '<pre class="code excerpt">' in text
    assert "Lines with a bar are new" in text
    assert "How fast it is</h2>" in pages["technique/scalar.html"]
    for arch in operators.get(operators.FIRST).ladders[0].archs:
        assert text.index(f"{arch}, head_dim 128") < text.index(f"{arch}, head_dim 64")
    for words in (*synthetic.DISTRIBUTIONS, "registers", "LDSM.T", "580.159.04", "Prediction"):
        assert words in text


def test_no_page_has_too_many_words(pages: dict[str, str]) -> None:
    """Notes are whole here; numbers that are not measured print as words."""
    counted = {path: words for path, page in pages.items() if (words := count_words(page)) > WORDS}
    assert counted == {}


def test_a_recorded_row_of_another_version_is_marked_and_does_not_count(data: Dataset, pages: dict[str, str]) -> None:
    technique, problem = techniques.get("attention/xor_swizzle"), synthetic.PROBLEMS[2]
    point = data.point("ladder", problem, "xor_swizzle", "cuda")
    assert (point.kind, point.counts) == ("earlier", False)
    assert data.gain("ladder", problem, technique, "cuda") is None
    assert "earlier version" in pages["technique/xor_swizzle.html"]


def test_without_rows_there_is_a_site_that_says_so(tmp_path: Path) -> None:
    """And progress names its pages, one by one."""
    seen: list[tuple[int, int, str]] = []
    given = {"recorded": tmp_path, "runs": (), "hashes": {}, "progress": lambda *step: seen.append(step)}
    site = build.build(tmp_path / "site", **given).parent
    assert "Nothing is recorded yet" in (site / "index.html").read_text()
    assert "cuda_kernels/attention/ampere/scalar.cu" in (site / "technique/scalar.html").read_text()
    assert [done for done, _, _ in seen] == list(range(1, seen[0][1] + 1))
    assert seen[0][2] == "index.html"
    assert {name for *_, name in seen} == {path.relative_to(site).as_posix() for path in site.rglob("*.html")}


def test_rows_computed_here_say_so(tmp_path: Path, recorded: Path) -> None:
    fresh = tmp_path / "fresh.jsonl"
    environment = {**synthetic.ENVIRONMENT, "id": "c" * 12, "details": {"gpu": None, "git": {}}}
    rows = [row | {"environment": "c" * 12, "on": "cpu"} for row in synthetic.rows() if row["kind"] == "code"]
    row_file.write(fresh, [environment, *rows])
    given = {"recorded": recorded, "runs": [fresh], "hashes": synthetic.hashes(), "progress": lambda *_: None}
    build.build(tmp_path / "site", **given, only=["technique/scalar.html"])
    text = (tmp_path / "site/technique/scalar.html").read_text()
    assert "computed here on a CPU, 2030-01-02" in text
    assert "recorded on NVIDIA H200" in text


# Numbers


def test_a_step_is_the_ratio_of_medians_in_one_group(data: Dataset) -> None:
    problem = synthetic.PROBLEMS[0]
    step = data.gain("ladder", problem, techniques.get("attention/xor_swizzle"), "cuda")
    after, before = (data.point("ladder", problem, name, "cuda").tflops for name in ("xor_swizzle", "direct_rescale"))
    assert after
    assert before
    assert (step.value, step.linked) == (pytest.approx(after / before), False)


def test_a_step_across_groups_goes_over_both_anchors(data: Dataset) -> None:
    problem = synthetic.PROBLEMS[0]
    step = data.gain("ladder", problem, techniques.get("register_softmax"), "cuda")
    assert step.linked
    assert step.value == pytest.approx(158 / 92, rel=0.01)
    gain = texts(data)["gain"]
    assert gain("register_softmax", "cuda", problem.slug).startswith("~1.7")
    assert gain("xor_swizzle", "cuda", problem.slug)[0] != "~"
    alone = [row for row in synthetic.rows() if row.get("backend") != "sdpa_cudnn"]
    assert dataset(alone).gain("ladder", problem, techniques.get("register_softmax"), "cuda") is None


def test_a_ratio_over_anchors_is_one_number_whichever_experiment_a_page_names(data: Dataset) -> None:
    problem, group = synthetic.PROBLEMS[0], {"experiment": "grid", "group": "again"}
    ours = data.point("ladder", problem, "register_softmax", "cuda").row
    anchor = data.point("ladder", problem, None, "sdpa_cudnn").row
    assert ours
    assert anchor
    slower = {**anchor, **group, "samples_ms": [1.1 * ms for ms in anchor.samples_ms]}
    more = dataset([*synthetic.rows(), {**ours, **group}, slower])
    other = more.point("ladder", problem, "mma_ldmatrix", "cuda")
    over = [more.ratio(more.point(name, problem, "register_softmax", "cuda"), other) for name in ("ladder", "grid")]
    before = data.gain("ladder", problem, techniques.get("register_softmax"), "cuda")
    assert over[0].linked
    assert [ratio.value for ratio in over] == pytest.approx([before.value * 1.1**0.5] * 2, rel=0.02)


def test_a_step_is_of_the_newest_group_that_has_both_programs(data: Dataset) -> None:
    """An older pair that met says more than two newer rows, each over the anchor of its own group."""
    problem = synthetic.PROBLEMS[0]
    timed = data.point("ladder", problem, "xor_swizzle", "cuda").row
    assert timed is not None
    alone = {**timed, "group": "alone", "time": "2030-06-01T00:00:00Z", "samples_ms": [9.0] * 9}
    newer = dataset([*synthetic.rows(), alone])
    assert newer.point("ladder", problem, "xor_swizzle", "cuda").row is not None
    before, after = (
        one.gain("ladder", problem, techniques.get("attention/xor_swizzle"), "cuda") for one in (data, newer)
    )
    assert (
        newer.point("ladder", problem, "xor_swizzle", "cuda").tflops
        != data.point("ladder", problem, "xor_swizzle", "cuda").tflops
    )
    assert (after.value, after.linked) == (pytest.approx(before.value), False)


def test_no_ratio_across_instruction_classes(data: Dataset) -> None:
    technique = techniques.get("attention/cp_async_pipeline")
    assert data.versus("ladder", synthetic.PROBLEMS[0], technique, "triton", "cuda") is not None
    assert data.versus("ladder", synthetic.PROBLEMS[0], technique, "triton_native", "cuda") is None


def test_the_richest_dataset_leads(tmp_path: Path) -> None:
    write(tmp_path / "h200", synthetic.rows())
    few = [row for row in synthetic.rows() if row.get("backend") in (None, "cuda")]
    few = [
        row | ({"id": "a100", "details": {"gpu": {"name": "NVIDIA A100"}}} if "id" in row else {"environment": "a100"})
        for row in few
    ]
    write(tmp_path / "a100", few)
    assert [data.gpu for data in load(tmp_path, (), synthetic.hashes())] == ["NVIDIA H200", "NVIDIA A100"]


# Figures


@pytest.mark.xdist_group("recorded")
def test_readme_figures_are_the_recorded_rows(
    tmp_path: Path, recorded_data: dict[str, Sequence[Dataset]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is committed comes out of the recorded rows, byte for byte."""
    monkeypatch.setattr(readme, "recorded_hashes", lambda _: None)  # of the rows that other tests have loaded
    monkeypatch.setattr(readme, "load", lambda *_: recorded_data[operators.FIRST])
    written = build.readme_figures(tmp_path)
    if not written:
        pytest.skip("nothing is recorded yet, so README has no figure")
    for path in written:
        committed = build.ROOT / "figures" / path.name
        assert committed.is_file(), AGAIN.format(path.name)
        made_by = re.search(r"drawn by matplotlib ([\d.]+)", committed.read_text())
        if made_by and made_by[1] != matplotlib.__version__:
            pytest.skip(f"{path.name} was drawn by matplotlib {made_by[1]}, here is {matplotlib.__version__}")
        assert committed.read_bytes() == path.read_bytes(), AGAIN.format(path.name)


def test_readme_figure_stands_alone(recorded: Path, tmp_path: Path) -> None:
    (path,) = readme.write_all(tmp_path, recorded)
    text = path.read_text()
    assert "var(--" not in text  # a page's colours
    assert "date" not in text
    assert "DejaVu" not in text  # letters that a reader's machine has
    height = re.search(r'height="(\d+)"', text)
    assert int(height[1]) < 600


# Counters


@pytest.fixture(scope="module")
def counted() -> list[Row]:
    """Rows of kind counters from runs of three kernels on this CPU, and one as ncu leaves it."""
    environment = {**synthetic.ENVIRONMENT, "id": "c" * 12, "details": {"gpu": None, "git": {}}}
    problem = Problem.square(1, 1, 128, 128)
    rows: list[Row] = [environment]
    for name in ("direct_rescale", "mma_ldmatrix", "xor_swizzle"):
        run = cpu_run.run(name, problem, counters=True)
        assert run.code == 0
        sites = run.library.counters()
        row = {"kind": "counters", "operator": "attention", "on": "cpu", "experiment": "memory", "technique": name}
        row["backend"] = "cuda"
        row |= {"problem": problem.to_dict(), "source_sha256": synthetic.sha(name, "cuda"), "status": "passed"}
        row |= {"environment": "c" * 12, "time": "2030-01-02T00:00:00Z", "tile": Tile(64, 64).to_dict()}
        rows.append(row | {"details": {"sites": sites, "totals": totals(sites)}})
    return rows


def by_ncu(name: str, problem: Problem, **metrics: float) -> Row:
    return synthetic.make(
        "counters", name, "cuda", problem, Tile(64, 64), experiment="ncu", details={"metrics": metrics}
    )


def test_a_picture_shows_the_conflicts_that_the_run_counted(counted: list[Row]) -> None:
    """The degrees that colour a picture come to the conflicts that the runtime found in the same execution."""
    sites = [site for row in counted[1:] for site in row["details"]["sites"] if site.get("example_addresses")]
    assert {site["width"] for site in sites} >= {4, 8, 16}
    for site in sites:
        found = banks.phases(site["example_addresses"], site["width"])
        assert sum(phase.passes - 1 for phase in found) == site["example_conflicts"], site
    assert any(site["example_conflicts"] for site in sites)


def test_the_passes_of_an_access_follow_from_its_width() -> None:
    addresses = [4 * lane for lane in range(32)]
    assert [len(phase.lanes) for phase in banks.phases(addresses, 4)] == [32]
    assert [len(phase.lanes) for phase in banks.phases(addresses, 8)] == [16, 16]
    assert [len(phase.lanes) for phase in banks.phases([*addresses[:16], *[None] * 16], 16)] == [8, 8]
    by_two = [16 * (lane // 2) for lane in range(16)] + [16 * lane for lane in range(16)]
    assert [len(phase.lanes) for phase in banks.phases(by_two, 16)] == [16, 8, 8]
    same_word, one_bank = [0] * 32, [128 * lane for lane in range(32)]
    assert [banks.phases(which, 4)[0].passes for which in (addresses, same_word, one_bank)] == [1, 1, 32]


def test_conflicts_are_shown_with_their_origin(pages: dict[str, str]) -> None:
    worst = pages["technique/mma_ldmatrix.html"]
    assert worst.count(f"<figcaption>{HERE}") >= 1
    assert "8 passes" in worst
    page = pages["technique/xor_swizzle.html"]
    assert HERE in page
    assert re.search(r"<th>of these, bank conflicts</th><td class=\"n\">0</td><td class=\"n muted\">[^0]", page)
    assert re.search(r"no conflict</p>\s*<svg", page)


def test_ncus_counts_of_each_language_stand_side_by_side() -> None:
    """One table a problem, the largest first; a counter that one of them lacks is a hole, not another's number."""
    big, small = synthetic.PROBLEMS[0], Problem.square(1, 1, 512, 128)
    tile = techniques.reference_tile(techniques.get("attention/xor_swizzle"), 128).to_dict()

    def row(backend: str, problem: Problem, **metrics: float) -> tuple[Any, str]:
        raw = by_ncu("xor_swizzle", problem, **metrics) | {"backend": backend, "tile": tile}
        return lines([raw])[0], f"by {backend}"

    first, second = side_by_side([row("cuda", small, a=1), row("cuda", big, a=2, b=3), row("gluon", big, a=4, c=5)])
    assert (first["slug"], second["slug"]) == (big.slug, small.slug)
    assert first["columns"] == {"cuda": {"a": 2, "b": 3}, "gluon": {"a": 4, "c": 5}}
    assert first["names"] == ["a", "b", "c"]
    assert first["where"] == {"by cuda", "by gluon"}
    assert second["columns"] == {"cuda": {"a": 1}}


def test_counters_of_another_version_are_not_shown(counted: list[Row]) -> None:
    data = Dataset("a CPU", False, counted, {})
    assert counters.counted([data], "xor_swizzle") is None


def test_tiles_of_both_grids_and_of_the_own(data: Dataset) -> None:
    technique = techniques.get("attention/cp_async_pipeline")
    assert tuning.tuned(data, "ladder", techniques.get("attention/scalar")) == []
    problem = synthetic.PROBLEMS[0]
    base = next(row for row in synthetic.rows() if row["kind"] == "tune")
    base |= {"time": "2030-01-03T00:00:00Z", "source_sha256": synthetic.sha(technique.name, "cuda"), "backend": "cuda"}
    common, alone = Tile(64, 128, 1, 4), Tile(96, 48, 1, 6)
    rows = [base | {"tile": tile.to_dict(), "samples_ms": [ms]} for tile, ms in ((common, 2.0), (alone, 1.5))]
    screened = {name: value for name, value in base.items() if name != "samples_ms"}
    rows.append(screened | {"tile": Tile(64, 32).to_dict(), "details": {"screened": "slower at the gate"}})
    (cuda, triton) = tuning.tuned(dataset([*synthetic.rows(), *rows]), "ladder", technique)
    assert (cuda.backend, cuda.own.tile, cuda.common.tile, len(cuda.rows)) == ("cuda", alone, common, 3)
    assert cuda.own.tflops == pytest.approx(problem.flops / 1.5 / 1e9)
    assert triton.backend == "triton"


def test_the_best_tile_is_the_committed_one() -> None:
    """Not any other than the registry's: a tile that was chosen once leaves its rows behind."""
    name, problem = "cp_async_pipeline", synthetic.PROBLEMS[0]
    once, registered = (
        synthetic.CHOSEN[name, "triton", "d128-full"],
        techniques.reference_tile(techniques.of_qualified(name), 128),
    )

    def best(chosen: Tile | None) -> Point:
        cells = {(name, "triton", "d128-full"): chosen} if chosen else {}
        data = Dataset("NVIDIA H200", True, synthetic.rows(), synthetic.hashes(), cells)
        return data.point("ladder", problem, name, "triton", best=True)

    assert (row := best(once).row)
    assert row["tile"] == once.to_dict()
    reference = dataset(synthetic.rows()).point("ladder", problem, name, "triton").row
    assert (found := best(registered).row)
    assert (found.tile, found.time) == (registered.slug, reference and reference.time)
    assert best(Tile(256, 16, 3, 8)).reason == "not measured"
    assert best(None).reason == "not measured"


def test_a_tile_that_the_table_of_the_gpu_lacks_is_that_of_the_h200(tmp_path: Path) -> None:
    (name, backend, cell), tile = next(iter(synthetic.CHOSEN.items()))
    chosen = tiles.Selection(name, backend, cell, tile, 6, "a-tune")
    own = tiles.Selection("scalar", "cuda", "d128-full", Tile(16, 16, 1, 4), 2, "a-tune")
    tiles.update(tmp_path / "h200.toml", [chosen, replace(own, tried=9)])
    tiles.update(tmp_path / "h100.toml", [own])
    write(
        tmp_path / "recorded" / "h100", json.loads(json.dumps(synthetic.rows()).replace("NVIDIA H200", "NVIDIA H100"))
    )
    (data,) = load(tmp_path / "recorded", (), synthetic.hashes(), tmp_path)
    problems = data.problems("ladder")
    assert {tiles.pick(data.chosen, name, backend, one) for one in problems if cell in one.cells} == {tile}
    assert {tiles.pick(data.tried, "scalar", "cuda", one) for one in problems if "d128-full" in one.cells} == {2}


@pytest.mark.parametrize(
    "page", ["index.html", "techniques.html", "gap.html", "evidence/correctness.html", "technique/"]
)
def test_no_page_that_a_reader_is_led_to_has_a_cell_without_an_answer(pages: dict[str, str], page: str) -> None:
    for name, text in pages.items():
        if name.startswith(page):
            assert "recorded yet" not in text.partition("<script")[0], name


# Notes


@pytest.mark.parametrize("operator", ["attention", "gemm"])
def test_notes_have_their_parts_and_type_no_numbers(operator: str) -> None:
    found = sorted((prose.ROOT / operator).glob("*.md"))
    assert {path.stem for path in found} == {technique.name for technique in operators.get(operator).techniques}
    for path in found:
        text = path.read_text()
        parts = re.findall(r"^### (\w+)", text, flags=re.MULTILINE)
        assert parts[:3] == ["Prediction", "Outcome", "Explanation"], path
        assert parts[3:] in ([], ["Spills"]), path
        typed = re.sub(r"\{\{.*?\}\}|\d+(?: × \d+){1,2}", "", text, flags=re.DOTALL)  # what is filled in, and shapes
        assert not re.search(r"\d\s*(?:TFLOPS|%|×|x\b|ms\b|us\b|µs\b)", typed), path


def test_a_language_that_a_note_predicts_for_has_an_outcome() -> None:
    for path in sorted((prose.ROOT / "attention").glob("*.md")):
        _, *parts = re.split(r"^### \w+\n", path.read_text(), flags=re.MULTILINE)
        predicted, told = (set(re.findall(r"CUDA|Gluon|Triton", part)) for part in parts[:2])
        assert predicted <= told, f"{path.name} predicts for {predicted - told}, and has no outcome there"


def test_a_note_tells_tiles_gates_and_counters() -> None:
    problem, sha = synthetic.PROBLEMS[0], synthetic.sha("xor_swizzle", "cuda", "earlier")
    wrong = gate_rows.gate("xor_swizzle", problem, status="wrong", check="not_repeatable", source_sha256=sha)
    tile = techniques.reference_tile(techniques.get("attention/xor_swizzle"), 128)
    judged = [row | {"tile": tile.to_dict()} for row in (gate_rows.gate("xor_swizzle", problem), wrong)]
    metrics = {counters.HIT_RATE: 88.3, counters.DRAM_READ: 1.2345e9, counters.EXECUTED: 4.928e8}
    counts = by_ncu("xor_swizzle", problem, **metrics)
    functions = texts(dataset([*synthetic.rows(), *judged, counts]))
    kernel = ("xor_swizzle", "cuda", problem.slug)
    assert functions["gate"](*kernel, tile.slug) == "passed"
    assert functions["gate"](*kernel, tile.slug, earlier=True) == "wrong (not_repeatable)"
    assert functions["ncu"]("xor_swizzle", problem.slug, "hit_rate") == "88%"
    assert functions["ncu"]("xor_swizzle", problem.slug, "read") == "1,234 MB"
    assert functions["ncu"]("xor_swizzle", problem.slug, "instructions") == "493 million"
    assert functions["ncu"]("scalar", problem.slug, "read") == prose.NOT_MEASURED
    assert functions["gain_at"](*kernel, tile.slug, "ladder") == "1.61×"
    tuned = ("cp_async_pipeline", "triton", problem.slug)
    assert functions["best"](*tuned).endswith(" TFLOPS at 128x64-s3-w8")
    assert functions["best"](*kernel) == prose.NOT_MEASURED
    earlier = ("xor_swizzle", "cuda", synthetic.PROBLEMS[2].slug)
    assert {functions[name](*earlier) for name in ("tflops", "gain")} == {prose.EARLIER}
    assert functions["tried"](*tuned, "128x32-s2-w8") == "274 TFLOPS"
    with pytest.raises(ValueError, match="expected a slug"):
        functions["tried"](*tuned, "128-32-2-8")


def test_a_note_tells_how_far_the_flagship_is_ahead() -> None:
    rows = synthetic.rows()
    empty = texts(dataset(rows))["ahead"]
    assert empty("least") == prose.NOT_MEASURED
    cells = {
        "b1-h8-n16384-d256-bf16-full": ("128x80-s2-w8", 1.014),
        "b16-h8-n1024-d256-bf16-full": ("128x64-s2-w8", 1.024),
        "b16-h8-n1024-d256-bf16-causal": ("128x64-s2-w8", 1.126),
        "b4-h16-n4096-d128-bf16-full": ("192x80-s3-w12", 1.054),
    }
    data = dataset(rows)
    found = [{"problem": slug, "value": v, "case": f"cuda flagship {slug} {tile}"} for slug, (tile, v) in cells.items()]
    missing = {"problem": "b1-h8-n8192-d256-bf16-full", "reason": "not measured"}
    data.__dict__["scores"] = [{"name": GRID_SCORE, "cells": [*found, missing]}]
    ahead = texts(data)["ahead"]
    assert (ahead("least"), ahead("most")) == ("1.01×", "1.13×")
    assert ahead("most", 256, "full") == "1.02×"
    assert ahead("least", 256, tokens=16_384, mask="full") == "1.01×"
    assert ahead("least", tile="192x80") == ahead("most", 128) == "1.05×"
    assert ahead("most", 64) == prose.NOT_MEASURED


def place(root: Path) -> Path:
    """Where notes on attention lie."""
    (root / "attention").mkdir(exist_ok=True)
    return root / "attention"


def test_a_note_resolves_references_and_admits_holes(tmp_path: Path, data: Dataset) -> None:
    hole = 'tflops("large_tile", "cuda", "b4-h16-n4096-d128-bf16-causal")'
    good = 'gain("xor_swizzle", "cuda", "b4-h16-n4096-d128-bf16-full")'
    (place(tmp_path) / "x.md").write_text(f"{{{{ {good} }}}} and {{{{ {hole} }}}} <b>&")
    html = prose.render("x", data, prose.Claims(), tmp_path)
    assert html == "<p>1.61× and not measured &lt;b&gt;&amp;</p>\n"


def test_a_note_reads_machine_code_of_one_problem_at_the_reference_tile(tmp_path: Path, data: Dataset) -> None:
    cell, name = "b4-h16-n4096-d128-bf16", "xor_swizzle"
    (row,) = (row for row in data.codes(name, "cuda", "sm_90a", 128) if not row["problem"]["causal"])
    other = {**row, "tile": Tile(128, 32).to_dict(), "code": {**row["code"], "registers": 7}}
    more = Dataset(data.gpu, data.recorded, [other, *data.rows], data.hashes)
    asked = [("full", "registers"), ("full", "LDSM.T"), ("causal", "LDSM.T")]
    references = [f'{{{{ code("{name}", "cuda", "{cell}-{mask}", "{what}") }}}}' for mask, what in asked]
    (place(tmp_path) / "x.md").write_text(" ".join(references))
    html = prose.render("x", more, prose.Claims(), tmp_path)
    assert html == f"<p>{row['code']['registers']} 48 not measured</p>\n"


@pytest.mark.parametrize(
    "reference", ['tflops("typo", "cuda", "b4-h16-n4096-d128-bf16-full")', "gone()", 'tflops("scalar", "cuda", "b4")']
)
def test_a_bad_reference_names_its_note(tmp_path: Path, data: Dataset, reference: str) -> None:
    (place(tmp_path) / "x.md").write_text(f"{{{{ {reference} }}}}")
    with pytest.raises(ValueError, match=r"x\.md"):
        prose.render("x", data, prose.Claims(), tmp_path)
