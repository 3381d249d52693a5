"""The first page: its numbers against the rows that they come from."""

import html
import re
import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.catalog import techniques
from harness.catalog.entries import Tile
from harness.inspection import hardware_counters
from harness.rows import compare
from harness.rows.frame import table
from harness.rows.reading import cell, slug, tflops
from reports import build
from reports.data.dataset import Dataset, Point, Ratio
from reports.data.names import cell_title
from reports.draw import figures
from reports.facts import answer as facts
from reports.facts import scores, steps
from reports.facts.counters import WAITED_FOR
from reports.facts.expressibility import Known, Said, cost
from reports.facts.gains import gains, mean
from reports.pages import answers, overview
from reports.pages import technique as technique_page
from reports.pages.attention import index
from reports.pages.common import Rows
from tests.support import replicated_rows as replicated
from tests.support import synthetic_rows as synthetic
from tests.support.pages import dataset, rendered, texts

pytestmark = pytest.mark.slow

Row = dict[str, Any]


@pytest.fixture(scope="module")
def data() -> Dataset:
    return dataset()


@pytest.fixture(scope="module")
def found(data: Dataset) -> index.Answer:
    result = index.answer(data)
    assert result
    return result


def median_of(name: str, backend: str) -> float:
    """TFLOPS at the headline problem, straight from the rows."""
    wanted = ("timing", name, backend, "burst", synthetic.PROBLEMS[0].slug)
    timed = (row for row in synthetic.rows() if row["kind"] == "timing" and name_of(row) == wanted)
    passed = (row for row in timed if row["status"] == "passed" and row["experiment"] == "ladder")
    speeds = [tflops(row) for row in passed if row["source_sha256"] == synthetic.sha(name, backend)]
    return max(speeds)


def name_of(row: Row) -> tuple[Any, ...]:
    return row["kind"], row.get("technique"), row["backend"], row.get("mode"), slug(row)


def test_the_bars_are_the_fastest_of_each_language(found: index.Answer) -> None:
    assert found.bar("mma_sync", "cuda").tflops == pytest.approx(median_of("cp_async_pipeline", "cuda"), rel=1e-3)
    assert found.bar("mma_sync", "triton").tflops == pytest.approx(median_of("cp_async_pipeline", "triton"), rel=1e-3)
    assert found.best("triton").panel == "wgmma"
    assert found.best("triton").tflops == pytest.approx(median_of("cp_async_pipeline", "triton_native"), rel=1e-3)
    for missing in ("cuda", "gluon", "tlx", "fa3", "fa4"):
        assert found.bar("wgmma", missing).tflops is None


def without_current(*backends: str) -> Dataset:
    """As if these kernels had been edited since they were timed."""
    hashes = {kernel: "f" * 64 if kernel[1] in backends else sha for kernel, sha in synthetic.hashes().items()}
    return Dataset("NVIDIA H100 80GB HBM3", True, synthetic.rows(), hashes, synthetic.CHOSEN)


def test_an_earlier_version_is_drawn_and_never_counts(found: index.Answer) -> None:
    data = without_current("cuda")
    old = index.answer(data)
    bar = old.best("cuda")
    assert (bar.tflops, bar.earlier) == (None, pytest.approx(found.best("cuda").tflops, rel=0.01))
    assert old.over_cuda("triton") is None
    assert old.share(old.best("triton")) is None or bar.earlier < (old.best("triton").tflops or 0)
    rows = Rows(data, [data], {}, lambda *_: "")
    page = rendered("attention/index.html", index.page(rows, data, index.gpus(rows)), data)
    assert "For attention forward on H100 not every language is timed in this version" in page
    assert f"{bar.earlier:.0f}, earlier version" in page


def test_a_gpu_with_an_earlier_version_alone_stands_last_and_says_so(data: Dataset) -> None:
    old = without_current("cuda")
    rows = Rows(old, [old, data], {}, lambda *_: "")
    every = index.gpus(rows)
    assert list(every.values()) == [data, old]
    page = rendered("attention/index.html", index.page(rows, data, every), data)
    switch = re.search(r'<p class="switch">(.*?)</p>', page)
    assert re.sub("<[^>]*>", "|", switch[1]) == "GPU |H200||H100, earlier version|"
    elsewhere = [row | {"experiment": "grid"} if row.get("experiment") == "ladder" else row for row in synthetic.rows()]
    assert answers._of_gpu(dataset(elsewhere)) == "H200", "another experiment timed this version"


def test_a_faster_earlier_version_is_told_below_the_bars(data: Dataset, found: index.Answer) -> None:
    best = found.bar("mma_sync", "cuda")
    assert "In an earlier version" not in page_of_first(data)
    hashes = {kernel: sha for kernel, sha in synthetic.hashes().items() if kernel[1] != "cuda" or "scalar" in kernel[0]}
    old = Dataset("NVIDIA H200", True, synthetic.rows(), hashes, synthetic.CHOSEN)
    told = re.search(r"In an earlier version, not timed since: CUDA (\d+) by mma.sync\.", page_of_first(old))
    assert int(told[1]) == pytest.approx(best.tflops, rel=0.01)


def test_what_an_earlier_version_beats_is_not_the_best_of_a_language(data: Dataset) -> None:
    """Neither a share nor a title counts it."""
    hashes = {kernel: sha for kernel, sha in synthetic.hashes().items() if kernel[1] != "cuda" or "scalar" in kernel[0]}
    found = index.answer(Dataset("NVIDIA H200", True, synthetic.rows(), hashes, synthetic.CHOSEN))
    bar = found.best("cuda")
    assert bar.tflops
    assert (bar.best, found.over_cuda("triton")) == (None, None)
    assert [choice.share for choice in facts.choices(found) if choice.bar.backend == "cuda"] == [None]
    assert facts.finding(found) == "Not every language has a speed of this version"


HELD = {"triton": "hint", "gluon": "direct", "cuda": "direct"}


def page_of_first(data: Dataset, known: Known | None = None) -> str:
    rows = Rows(data, [data], known or {}, lambda *_: "")
    return rendered("attention/index.html", index.page(rows, data, index.gpus(rows)), data)


def test_the_order_of_ptxas_is_the_same_limit_wherever_a_wait_may_depend_on_values(data: Dataset) -> None:
    said = {("held_overlap", name): Said("held_overlap", grade) for name, grade in HELD.items()}
    said |= {("overlapped_softmax", name): Said("overlapped_softmax", "hint") for name in HELD}
    page = page_of_first(data, said)
    limits = page.partition("You cannot control")[2].partition("</tr>")[0]
    words = 'ptxas’s order, except by <a href="technique/held_overlap.html">a wait</a>'
    assert [words in cell for cell in limits.split("</td>")[:4]] == [False, True, True, False]
    (line,) = re.findall(r"<tr>(?:(?!</tr>).)*Softmax overlaps wgmma.*?</tr>", page, re.DOTALL)
    links = [f'or you, by <a href="proof/held_overlap.html#{name}">' in line for name in HELD]
    assert links == [False, True, True]


def test_a_grid_has_the_fastest_kernel_and_tile_whichever_is_the_newest_final_or_in_a_table() -> None:
    problem, about = synthetic.PROBLEMS[0], {"experiment": index.GRID, "mode": "burst", "group": "grid"}
    rows, hashes = [synthetic.ENVIRONMENT], {}
    timed = [("gluon", "flagship", width, speed) for width, speed in ((64, 500.0), (128, 600.0), (256, 400.0))]
    timed += [("triton", "flagship", 128, 500.0), ("triton", "producer_consumer", 64, 600.0)]
    for day, (backend, name, width, speed) in enumerate(timed, 1):
        row = synthetic.make("timing", name, backend, problem, Tile(64, width, 1, 4), **about)
        row |= {"time": f"2030-01-0{day}T00:00:00Z", **({"details": {"final": True}} if width == 256 else {})}
        rows.append(timed_at(row, speed))
        hashes[name, backend] = synthetic.sha(name, backend)
    ((where, points),) = facts.over_problems(Dataset("NVIDIA H200", True, rows, hashes), index.GRID, index.SHOWN)
    found = {name: (point.row.technique, point.row.tile) for name, point in points.items() if point.row}
    assert where == problem
    assert found == {"gluon": ("flagship", "64x128-s1-w4"), "triton": ("producer_consumer", "64x64-s1-w4")}
    assert [points[name].tflops for name in found] == pytest.approx([600] * 2)
    assert not points["cuda"].counts


def test_where_core_triton_leads_gluon_and_what_decodes_fastest_are_told_from_a_grid() -> None:
    about = {"experiment": index.GRID, "mode": "burst", "group": "grid"}
    rows, hashes = [synthetic.ENVIRONMENT], {}
    for problem, ahead in zip(synthetic.PROBLEMS[:2], (0.9, 1.1), strict=True):
        for backend, speed in (("cuda", 400.0), ("gluon", 500.0), ("triton", 500 * ahead), ("sdpa_cudnn", 450.0)):
            is_peer = backend == "sdpa_cudnn"
            name, tile = (None, None) if is_peer else ("flagship", Tile(64, 128, 1, 4))
            row = synthetic.make("timing", name, backend, problem, tile, **about)
            rows.append(row | {"group": problem.slug, "samples_ms": [problem.flops / speed / 1e9] * 20})
            hashes |= {} if is_peer else {("flagship", backend): synthetic.sha("flagship", backend)}
    data = Dataset("NVIDIA H200", True, rows, hashes)
    grid = facts.over_problems(data, index.GRID, index.SHOWN)
    assert index.triton_ahead(data, grid) == [cell_title(synthetic.PROBLEMS[1])]
    shares = {name: share.value for name, share in index.decode_shares(data, grid).items()}
    behind = 1.1**-0.5  # core Triton is the best at the second problem, Gluon at the first
    expected = {"triton": 0.9**0.5, "gluon": behind, "cuda": 0.8 * behind, "library": 0.9 * behind}
    assert shares == pytest.approx(expected)


def of_groups(experiment: str, groups: dict[str, dict[str, float]]) -> Dataset:
    """`groups`: run -> the speed of each language's flagship and of each library."""
    rows, hashes = [{**synthetic.ENVIRONMENT, "id": run} for run in groups], {}
    problem = synthetic.PROBLEMS[0]
    reference = techniques.reference_tile(techniques.get("attention/flagship"), problem.tile_key)
    for run, speeds in groups.items():
        for backend, speed in speeds.items():
            name, tile = (None, None) if backend in ("fa3", "fa4", "sdpa_cudnn") else ("flagship", reference)
            about = {"experiment": experiment, "mode": "burst", "group": run}
            row = synthetic.make("timing", name, backend, problem, tile, **about)
            rows.append(timed_at(row | {"environment": run, "mma": "wgmma"}, speed))
            hashes |= {("flagship", backend): synthetic.sha("flagship", backend)} if name else {}
    return Dataset("NVIDIA H200", True, rows, hashes)


def test_a_library_has_the_speed_that_it_had_beside_the_fastest_bar() -> None:
    """In the other process, whose clock was lower, it was slower too."""
    found = index.answer(
        of_groups("ladder", {"a" * 12: {"cuda": 800, "fa3": 790}, "b" * 12: {"gluon": 700, "fa3": 700}})
    )
    first, library = found.best("cuda"), found.bar("wgmma", "fa3")
    assert library.tflops == pytest.approx(790)
    assert found.share(library).value == pytest.approx(library.tflops / first.tflops)


def test_a_page_leads_to_the_problems_and_the_decoding_of_another_gpu(data: Dataset) -> None:
    ladder = [row for row in synthetic.rows() if row.get("experiment") == index.LADDER]
    more = [row | {"experiment": name} for name in (index.GRID, index.DECODE) for row in ladder]
    other = dataset([*synthetic.rows(), *more], "NVIDIA H100")
    rows = Rows(data, [data, other], {}, lambda *_: "")
    page = rendered("attention/index.html", index.page(rows, data, index.gpus(rows)), data)
    count = len(other.problems(index.GRID))
    for place in ("problems", "decode"):
        assert re.search(rf'<a href="index-bars-h100.html#{place}">{count} problems, timed on H100</a>', page), place


def test_kernels_that_never_met_have_the_speed_of_their_anchor() -> None:
    """Their numbers, 800 and 700, are of other clocks than their share, 0.97, says."""
    groups = {"a" * 12: {"cuda": 800, "triton": 600, "sdpa_cudnn": 400}, "b" * 12: {"gluon": 700, "sdpa_cudnn": 360}}
    data = of_groups("ladder", groups)
    share = index.answer(data).share(index.answer(data).best("gluon"))
    assert (share.linked, share.value) == (True, pytest.approx(700 / 360 / 2))
    told = re.search(r'which reached (.*?)">anchor', page_of_first(data))
    assert told[1] == "400 beside CUDA, 360 beside Gluon"


def test_each_language_stands_beside_the_library_that_is_fastest_in_its_own_processes() -> None:
    """Gluon was timed in another process than CUDA, where the other library is ahead."""
    groups = {
        "a" * 12: {"cuda": 600, "fa3": 500, "fa4": 490},
        "b" * 12: {"gluon": 500, "fa3": 450, "fa4": 490},
    }
    data = of_groups(index.GRID, groups)
    grid = facts.over_problems(data, index.GRID, index.SHOWN)
    shares = facts.over(data, grid, "library", index.SHOWN)
    assert {name: share.value for name, share in shares.items()} == pytest.approx({"cuda": 1.2, "gluon": 500 / 490})
    own = {name: facts.beside(data, grid[0][1], name).tflops for name in shares}
    assert own == pytest.approx({"cuda": 500, "gluon": 490}), "not fa3's mean of both, 474"
    table = "{% import 'parts.html' as parts %}{{ parts.over_problems(grid, ('cuda', 'gluon'), data) }}"
    page = build.environment("").from_string(table).render(grid=grid, data=data)
    assert re.findall(r"[\d.]+×\s+of \d+", page) == ["1.20× of 500", "1.02× of 490"]
    _, file = answers.shown(data, index.answer(of_groups("ladder", groups)), {}, {"grid": grid}, {})["files"]
    told = {one["kernel"]: (one["ratio_to_library"], one["library_tflops"]) for one in file.lines[:3] if len(one) > 4}
    assert told == {name: pytest.approx((shares[name].value, own[name])) for name in own}


def test_a_ratio_says_how_few_processes_it_rests_on() -> None:
    def told(*processes: int) -> str:
        ratios = [Ratio(0.9, 0.9, 0.9, count, linked=not count) for count in processes]
        share = mean(ratios)
        return facts.certainty({"cuda": share} if share else {})

    assert told(1, 1) == "one process each, no interval"
    assert told(2, 1, 0) == "one or two processes each, no interval"
    assert told(2, 3) == "some are of two processes each, no interval"
    assert told(3, 4) == told(0) == ""
    share = mean([Ratio(0.8, 0.8, 0.8, 0, linked=True), Ratio(1.25, 1.25, 1.25, 1, linked=False), None])
    assert (facts.printed(share), share.low, share.high, share.cells) == ("~1.00", 0.8, 1.25, 2)
    assert facts.printed(None) == "an unmeasured share"


def test_a_call_stands_beside_the_fastest_library_with_its_time_on_the_host() -> None:
    problem = synthetic.PROBLEMS[0]
    assert index.calls(dataset()) is None
    rows = [synthetic.ENVIRONMENT]
    for name, ms, host in (("flash_attention", 1.0, 20.0), ("sdpa_cudnn", 1.1, 25.0), ("fa3", 0.9, 140.0)):
        row = synthetic.make("timing", None, name, problem, None, experiment="calls", mode="idle", group="calls")
        rows.append(row | {"samples_ms": [ms] * 20, "call_us": {"launcher": host}})
    found = index.calls(dataset(rows))
    assert (found.over.value, found.over.cells) == (pytest.approx(0.9), 1)
    assert found.host == {"flash_attention": 20.0, "sdpa_cudnn": 25.0, "fa3": 140.0}
    without = index.calls(dataset(rows[:2]))
    assert without.over is None


def timed_at(row: Row, speed: float) -> Row:
    return row | {"samples_ms": [synthetic.PROBLEMS[0].flops / speed / 1e9] * 20}


def test_a_ratio_has_an_interval_from_three_processes_on(data: Dataset) -> None:
    problem = synthetic.PROBLEMS[0]
    ours, theirs = (data.point("ladder", problem, name, "cuda") for name in ("xor_swizzle", "direct_rescale"))
    alone = data.ratio(ours, theirs)
    assert (alone.processes, alone.low, alone.high) == (1, alone.value, alone.value)
    again = []
    for place, factor in enumerate((0.97, 1.05)):
        run = f"{place}" * 12
        again.append({**synthetic.ENVIRONMENT, "id": run})
        for row in synthetic.rows():
            if row["kind"] == "timing" and row["group"] == (ours.row or {})["group"]:
                slower = factor if row.get("technique") == "xor_swizzle" else 1
                again.append({**row, "environment": run, "samples_ms": [ms * slower for ms in row["samples_ms"]]})
    more = dataset([*synthetic.rows(), *again])
    three = more.ratio(ours, theirs)
    assert (three.processes, three.linked) == (3, False)
    assert three.low < three.value < three.high
    assert three.value == pytest.approx(alone.value / (0.97 * 1.05) ** (1 / 3))  # the mean of all, not the newest
    step = more.gain("ladder", problem, techniques.get("attention/xor_swizzle"), "cuda")
    assert step.value == pytest.approx(three.value)  # pages and notes tell the same
    assert texts(more)["gain"]("xor_swizzle", "cuda", problem.slug) == f"{three.value:.2f}×"
    assert three.low < alone.value / 1.04
    assert three.high > alone.value / 0.98


def test_gains_that_two_gpus_disagree_about_are_listed(data: Dataset) -> None:
    def beside(factor: float) -> dict[str, Any] | None:
        rows = [
            row | {"samples_ms": [ms * factor for ms in row["samples_ms"]]}
            if (row.get("technique"), row["kind"], row.get("backend")) == ("xor_swizzle", "timing", "cuda")
            else row
            for row in synthetic.rows()
        ]
        other = Dataset("NVIDIA H100", True, rows, synthetic.hashes(), synthetic.CHOSEN)
        return overview.two_gpus(Rows(data, [data, other], {}, lambda *_: ""))

    same, differs = beside(1), beside(1.2)
    assert (same["names"], same["differing"]) == (["H200", "H100"], [])
    (technique, backend, here, there), *_ = differs["differing"]
    assert (technique.name, backend) == ("xor_swizzle", "cuda")
    assert here.value / there.value == pytest.approx(1.2)
    assert overview.two_gpus(Rows(data, [data], {}, lambda *_: "")) is None


def test_a_share_is_the_mean_over_the_processes_that_timed_both(found: index.Answer) -> None:
    """In the headline as in the notes, though another process, on a slower board, timed one of them alone."""
    best = found.best("cuda").point
    assert best.row
    again = []
    for place, factor in enumerate((0.97, 1.05, 2.0)):
        run = f"{place}" * 12
        again.append({**synthetic.ENVIRONMENT, "id": run})
        for row in synthetic.rows():
            if row.get("samples_ms") and row["problem"] == found.problem.to_dict():
                slower = factor if row["backend"] == "cuda" else 1
                samples = {"samples_ms": [ms * slower for ms in row["samples_ms"]]}
                if row["backend"] == "cuda" or factor < 2:
                    again.append({**row, "environment": run, **samples})
    more = index.answer(dataset([*synthetic.rows(), *again]))
    triton, cuda = more.bar("mma_sync", "triton"), more.bar("mma_sync", "cuda")
    share = more.over(triton, cuda)
    before = found.over(found.bar("mma_sync", "triton"), found.bar("mma_sync", "cuda"))
    assert (share.processes, share.linked) == (3, False)
    assert share.value == pytest.approx(before.value * (0.97 * 1.05) ** (1 / 3))
    assert share.value != pytest.approx((triton.point.tflops or 0) / (cuda.point.tflops or 1), rel=0.05)
    assert share.value == pytest.approx((triton.length or 0) / (cuda.length or 1)), "bars are as long as their shares"
    assert more.share(more.of("wgmma")[0]).value == 1  # type: ignore[union-attr]
    ranked = [bar.length or 0 for bar in more.of("wgmma")]
    assert ranked == sorted(ranked, reverse=True)


@pytest.mark.parametrize(
    ("means", "paired", "linked", "lengths"),
    [
        # gluon's mean is below cuda's, but it is ahead in the processes that timed both; the numbers are measured
        (
            {"cuda": 800, "gluon": 799, "triton": 750},
            {"cuda gluon": 0.99, "gluon cuda": 1 / 0.99, "triton cuda": 0.9, "triton gluon": 0.95},
            "nobody",
            {"gluon": 799, "cuda": 0.99 * 799, "triton": 0.95 * 799},
        ),
        # over the anchor flex would be ahead of core Triton, beside which it is slower
        (
            {"cuda": 800, "triton": 419, "flex": 418},
            {"triton cuda": 0.66, "flex cuda": 0.67, "triton flex": 1.003, "flex triton": 1 / 1.003},
            "cuda",
            None,
        ),
    ],
)
def test_bars_have_the_order_and_the_length_of_their_pairs(
    means: dict[str, float], paired: dict[str, float], linked: str, lengths: dict[str, float] | None
) -> None:
    points = {name: Point("measured", mean=mean) for name, mean in means.items()}

    def ratio(ours: Point, theirs: Point) -> Ratio | None:
        pair = " ".join(next(name for name, point in points.items() if point is one) for one in (ours, theirs))
        value = 1.0 if ours is theirs else paired.get(pair, 1.5)
        return Ratio(value, value, value, 1, linked=linked in pair)

    data: Any = SimpleNamespace(ratio=ratio, beside=lambda point, _: point)
    ranked = facts._ranked(data, [facts.Bar("wgmma", name, point, name) for name, point in points.items()])
    assert [bar.backend for bar in ranked] == list(lengths or means)
    assert {bar.backend: bar.tflops for bar in ranked} == means
    if lengths:
        assert [bar.length for bar in ranked] == pytest.approx([*lengths.values()])


def test_what_was_never_timed_together_is_told_with_a_tilde() -> None:
    """Core Triton with wgmma and CUDA with mma.sync meet over the anchors of two runs."""
    other = {**synthetic.ENVIRONMENT, "id": "c" * 12}
    moved = {"environment": other["id"]}
    rows = [row | moved if row.get("backend") == "triton_native" else row for row in synthetic.rows()]
    anchors = [row | moved for row in rows if row.get("backend") == "sdpa_cudnn" and row["kind"] == "timing"]
    data = dataset([other, *rows, *anchors])
    found = index.answer(data)
    share = found.over_cuda("triton")
    assert share.linked
    assert facts.printed(share) == f"~{share.value:.2f}"
    over_fastest = facts.choices(found)[0].share
    assert over_fastest
    assert f"<b>{facts.printed(over_fastest)}</b>" in page_of_first(data)


def test_stalls_stand_on_the_first_page_once_they_are_counted(data: Dataset, found: index.Answer) -> None:
    """Of the kernels of the bars, at the tiles that they have there: Triton's is not the reference tile."""

    def stalls(*rows: Row) -> list[tuple[str, str]]:
        of = dataset([*synthetic.rows(), *rows])
        told = index.stalls(Rows(of, [of], {}, lambda *_: ""), found)
        assert {gpu for _, gpu, _ in told} <= {"H200"}
        return [(bar.backend, reason) for bar, _, reasons in told for reason, _ in reasons]

    assert stalls() == []
    stalled = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
    metrics = {stalled.format("long_scoreboard"): 0.5, stalled.format("math_pipe_throttle"): 1.25}
    timed = found.bar("wgmma", "triton").point.row
    assert timed
    counted = {**timed, "kind": "counters", "experiment": "ncu", "mode": None, "details": {"metrics": metrics}}
    assert stalls(counted) == [("triton", "math pipe throttle"), ("triton", "long scoreboard")]
    assert stalls({**counted, "tile": Tile(32, 32).to_dict()}) == []
    of = dataset([*synthetic.rows(), counted])
    assert index.stalls(Rows(of, [of], {}, lambda *_: ""), replace(found, gpu="H100")) == [], "of another GPU"
    assert {reason.replace("_", " ") for reason in hardware_counters.STALLS} == set(WAITED_FOR)


@pytest.mark.parametrize(
    ("address", "commands"),
    [
        ("https://host.example/owner/kernels.git", "https://host.example/owner/kernels.git && cd kernels"),
        ("https://me:secret@host.example:8443/kernels", "https://host.example:8443/kernels && cd kernels"),
        ("git@host.example:owner/kernels.git", "git@host.example:owner/kernels.git && cd kernels"),
        ("ssh://git:secret@host.example/kernels/", "ssh://git@host.example/kernels/ && cd kernels"),
        ("/srv/kernels", ""),
        ("file:///srv/kernels", ""),
        ("https://host.example/kernels; reboot", ""),
    ],
)
def test_the_first_page_says_where_to_clone_from(
    address: str, commands: str, data: Dataset, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Never a password, nor a path of this machine."""
    for command in (["init", "--quiet"], ["config", "remote.origin.url", address]):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    clone = partial(answers.clone, tmp_path)
    monkeypatch.setattr(answers, "clone", lambda _: clone())
    shown = f"git clone {commands} && make report" if commands else "clone the repository, then <span"
    page = html.unescape(page_of_first(data))
    assert shown in page
    assert "secret" not in page
    assert "/srv" not in page


def test_a_technique_that_decides_has_grade_program_and_time_of_one_kernel(data: Dataset) -> None:
    said = {("padded_rows", "triton"): Said("padded_rows", "hatch"), ("wide_tile", "cuda"): Said("", "automatic")}
    lines = {line.technique: line for line in index.deciding(data, synthetic.PROBLEMS[0], said)}
    assert set(lines) == set(index.DECIDING.values())
    padded, wide = lines["padded_rows"], lines["wide_tile"]
    assert padded.cost.program == "direct_rescale", "Triton's file runs that one: its time is no cost of padding"
    assert [index.state(padded.said[name]) for name in ("triton", "cuda")] == [
        ("hatch", "hatch"),
        ("", "not graded yet"),
    ]
    assert index.state(wide.said["cuda"]) == ("hint", "compiler")
    gate = synthetic.make("gate", "producer_consumer", "triton", synthetic.PROBLEMS[0], None)
    tile = techniques.reference_tile(techniques.get("attention/producer_consumer"), 128).to_dict()
    rows = [{**gate, "tile": tile, "status": status, "experiment": status} for status in ("wrong", "passed")]
    told = {
        one.technique: one.wrong
        for one in index.deciding(dataset([*synthetic.rows(), *rows]), synthetic.PROBLEMS[0], {})
    }
    wrong, checked = told["producer_consumer"]
    assert wrong == 1 < checked


def test_no_ratio_across_instructions_in_the_matrix(data: Dataset) -> None:
    technique = techniques.get("attention/cp_async_pipeline")
    same = cost(data, synthetic.PROBLEMS[0], technique).same
    triton, cuda = (data.point("ladder", synthetic.PROBLEMS[0], "cp_async_pipeline", b) for b in ("triton", "cuda"))
    assert same.value == pytest.approx((triton.tflops or 0) / (cuda.tflops or 1), rel=1e-3)
    other = [
        {**row, "mma": "wgmma"}
        if (row.get("technique"), row.get("backend")) == ("cp_async_pipeline", "triton")
        else row
        for row in synthetic.rows()
    ]
    assert cost(dataset(other), synthetic.PROBLEMS[0], technique).same is None


def test_a_step_says_what_changed(data: Dataset) -> None:
    problem = synthetic.PROBLEMS[0]

    def kind(name: str, backend: str, best: bool = False) -> str:
        return steps.one_step(data, problem, techniques.of_qualified(name), backend, best).kind

    assert kind("scalar", "cuda") == "first"
    assert kind("xor_swizzle", "cuda") == "technique"
    assert kind("xor_swizzle", "triton") == "same"
    assert kind("large_tile", "cuda") == "tile"
    assert kind("cp_async_pipeline", "triton", best=True) == "both"
    assert kind("tma_loads", "cuda") == "none"


def test_the_parent_at_the_steps_tile_tells_tile_and_technique_apart(data: Dataset) -> None:
    problem, tile = synthetic.PROBLEMS[0], synthetic.CHOSEN["cp_async_pipeline", "triton", "d128-full"]
    name = ("timing", "large_tile", "triton", "burst", problem.slug)
    parent = next(row for row in synthetic.rows() if row["kind"] == "timing" and name_of(row) == name)
    more = dataset([*synthetic.rows(), {**parent, "tile": tile.to_dict()}])
    step = steps.one_step(more, problem, techniques.get("attention/cp_async_pipeline"), "triton", best=True)
    assert step.between == pytest.approx(tflops(parent))
    apart = steps.one_step(data, problem, techniques.get("attention/cp_async_pipeline"), "triton", best=True)
    assert apart.between is None


def test_a_dropped_hint_is_never_a_gain() -> None:
    problem = synthetic.PROBLEMS[0]
    technique, parent = techniques.get("warp_specialized"), techniques.get("attention/mbarrier_ring")
    model = next(row for row in synthetic.rows() if row.get("technique") == "xor_swizzle" and row["kind"] == "timing")
    made: list[Row] = [synthetic.ENVIRONMENT]
    for which, speed, census in ((parent, 1.0, {}), (technique, 0.5, {"USETMAXREG": 0, "HMMA": 8})):
        tile = techniques.reference_tile(which, 128).to_dict()
        row = {**model, "technique": which.name, "backend": "triton", "tile": tile, "problem": problem.to_dict()}
        row |= {"details": {}, "source_sha256": synthetic.sha(which.name, "triton"), "samples_ms": [speed] * 20}
        code = {"registers": 100, "spill_bytes": 0, "census": census}
        made += [row, {**row, "kind": "gate", "mode": None, "code": code}]
    step = steps.one_step(dataset(made), problem, technique, "triton")
    assert step.kind in ("dropped", "same")
    told = gains(dataset(made), "ladder", technique).languages["triton"].remark
    assert "the compiler ignores the hint" in told
    assert cost(dataset(made), problem, technique).dropped
    drawn = figures.step(dataset(made), [problem], technique)
    assert drawn
    assert all(word in drawn for word in figures.DROPPED.split())
    assert "×)" not in drawn
    made[-1]["code"]["census"]["USETMAXREG"] = 2
    assert "×)" in str(figures.step(dataset(made), [problem], technique))
    assert not cost(dataset(made), problem, technique).dropped


@pytest.mark.parametrize(
    ("mma", "label", "is_open"), [("wgmma", "core Triton", 0), ("mma_sync", "Triton, mma.sync", 1)]
)
def test_core_triton_is_restricted_to_mma_sync_where_its_row_says_so(mma: str, label: str, is_open: int) -> None:
    """The series `triton` of the hopper ladder multiplies by wgmma, that of the others does not."""
    problem, which = synthetic.PROBLEMS[0], techniques.get("attention/wgmma")
    tile = techniques.reference_tile(which, 128)
    row = synthetic.make("timing", which.name, "triton", problem, tile, experiment="hopper", mode="burst", group="a")
    made = [synthetic.ENVIRONMENT, row | {"mma": mma, "samples_ms": [0.5] * 20}]
    drawn = str(figures.step(dataset(made), [problem], which))
    assert f">{label}</text>" in drawn
    assert drawn.count("fill: var(--paper); stroke: var(--triton)") == is_open


def test_no_step_is_told_across_instructions() -> None:
    problem = synthetic.PROBLEMS[0]
    made: list[Row] = [synthetic.ENVIRONMENT]
    for name, experiment, ms in (("mbarrier_ring", "ladder", 2.0), ("wgmma", "hopper", 1.0)):
        tile = techniques.reference_tile(techniques.of_qualified(name), 128)
        row = synthetic.make("timing", name, "cuda", problem, tile, experiment=experiment, mode="burst", group="a")
        made.append(row | {"samples_ms": [ms] * 20})
    step = steps.one_step(dataset(made), problem, techniques.get("attention/wgmma"), "cuda")
    assert (step.kind, step.before, step.ratio) == ("first", None, None)


def test_a_techniques_figure_tells_the_tile_from_the_technique(data: Dataset) -> None:
    """What the parent does at the step's tile is the tile's; a kernel at its best tile alone has a place too."""
    problem, which = synthetic.PROBLEMS[0], techniques.get("warp_specialized")
    parent, tile = techniques.get("attention/mbarrier_ring"), techniques.reference_tile(which, 128)
    assert tile != techniques.reference_tile(parent, 128)
    made: list[Row] = [synthetic.ENVIRONMENT]
    for name, where, ms in (
        (parent.name, techniques.reference_tile(parent, 128), 2.0),
        (parent.name, tile, 1.6),
        (which.name, tile, 1.25 * 1.6),
    ):
        row = synthetic.make("timing", name, "cuda", problem, where, mode="burst", group="a")
        made.append(row | {"samples_ms": [ms] * 20})
    step = steps.one_step(dataset(made), problem, which, "cuda")
    assert (step.kind, step.alone.value) == ("both", pytest.approx(1 / 1.25))
    drawn = figures.step(dataset(made), [problem], which)
    assert "(tile1.25×,technique0.80×)" in letters(drawn)
    assert "grey: the tile" in str(drawn)
    lacking = dataset([row for row in made if row.get("tile") != tile.to_dict() or row["technique"] == which.name])
    assert "(withitstile1.00×)" in letters(figures.step(lacking, [problem], which))
    told, with_tile = (gains(data, "ladder", which).languages["cuda"] for data in (dataset(made), lacking))
    assert (told.gain.value, told.remark) == (pytest.approx(1 / 1.25), "")
    assert (with_tile.gain.value, with_tile.remark) == (pytest.approx(1.0), "with its tile")
    taken = {"cuda": [steps.one_step(lacking, problem, which, "cuda")]}
    assert technique_page.gained(taken, [problem]) == "1.00 times its parent’s speed in CUDA, its tile included"
    native = [
        row for row in synthetic.rows() if row.get("technique") != "cp_async_pipeline" or row["backend"] == "cuda"
    ]
    best = synthetic.CHOSEN["cp_async_pipeline", "triton", "d128-full"]
    row = synthetic.make("timing", "cp_async_pipeline", "triton", problem, best, mode="burst", group="a")
    alone = dataset([*native, row | {"samples_ms": [problem.flops / 333e9] * 20}])
    assert "besttile333" in letters(figures.step(alone, [problem], techniques.get("attention/cp_async_pipeline")))
    assert "besttile333" not in letters(figures.step(data, [problem], techniques.get("attention/cp_async_pipeline")))


def test_a_rung_that_its_ladders_experiment_did_not_time_has_the_numbers_of_another() -> None:
    """The figure, the table and the list of all techniques show the same gain."""
    problem, which = synthetic.PROBLEMS[0], techniques.get("attention/persistent")
    made: list[Row] = [synthetic.ENVIRONMENT]
    for name, ms in ((techniques.parent(which, "cuda").name, 2.0), ("persistent", 1.6)):  # type: ignore[union-attr]
        tile = techniques.reference_tile(which, 128)
        row = synthetic.make("timing", name, "cuda", problem, tile, experiment="ladder", mode="burst", group="a")
        made.append(row | {"mma": "wgmma", "samples_ms": [ms] * 20})
    data = dataset(made)
    assert techniques.experiment_of(which) == "hopper"
    assert data.experiment_of(which) == "ladder"
    page = rendered("technique.html", technique_page.page(Rows(data, [data], {}, lambda *_: ""), which) | {"up": "../"})
    assert "1.25 times its parent’s speed in CUDA" in page
    table = re.search(r'<th class="cuda">CUDA</th>.*?</tr>', page, re.DOTALL)
    assert "1.25×" in table[0]


def letters(drawn: str | None) -> str:
    """The text of a drawing, its lines joined, without spaces."""
    return "".join(re.findall(r"<text[^>]*>([^<]*)</text>", str(drawn))).replace(" ", "")


def later_run(day: int, factor: float, version: str = "current") -> list[Row]:
    """All that one process of the replicated rows timed, once more: the victim is slower, and perhaps another version.
    Only two groups of equal samples are one measurement."""
    run = f"day{day}"
    made: list[Row] = [{**synthetic.environment(run, "board3"), "time": f"2030-02-0{day}T00:00:00Z"}]
    for row in replicated.of_process(replicated.rows(), "board3", 1):
        if row["kind"] == "timing":
            slower = factor if row.get("technique") == VICTIM else 1 + day / 1e6
            again = {"environment": run, "group": f"{run}-{slug(row)}", "time": f"2030-02-0{day}T00:00:00Z"}
            again |= {"samples_ms": [ms * slower for ms in row["samples_ms"]]}
            if row.get("technique"):
                again["source_sha256"] = synthetic.sha(row["technique"], "cuda", version)
            made.append({**row, **again})
    return made


VICTIM = "cp_async_pipeline"


def test_a_headline_cell_has_its_runs_and_the_verdict_of_compare() -> None:
    def line(*more: list[Row]) -> scores.Line:
        data = dataset([*replicated.rows(), *(row for rows in more for row in rows)])
        case = next(row for row in data.timings() if (row.technique, row.backend) == (VICTIM, "cuda"))
        data.__dict__["scores"] = [{"name": "cuda_over_fa2", "cells": [{"case": cell(case)}]}]
        found = scores.sections(data)
        return next(one for one in next(iter(found.values())) if (one.technique, one.backend) == (VICTIM, "cuda"))

    runs = replicated.BOARDS * replicated.PROCESSES
    for factor, told in ((1.001, compare.SAME), (1.1, compare.SLOWER), (0.9, compare.FASTER)):
        new = later_run(1, factor)
        one = line(new)
        assert (one.verdict.verdict, one.edited, len(one.moments)) == (told, False, runs + 1)
        base = replicated.of_process(replicated.rows(), "board3", 1)
        sides = (table("timing", rows) for rows in (base, new, replicated.rows()))
        judged = compare.compare(*sides, techniques=[VICTIM])
        assert told in {each.verdict for each in judged if one.problem.slug in each.case}
    edited = line(later_run(1, 1.1, "older"), later_run(2, 1.0))
    assert (edited.verdict.verdict, edited.edited) == (compare.FASTER, True)
    assert [moment.current for moment in edited.moments[-3:]] == [True, False, True]
    assert edited.change == pytest.approx(1.1, rel=0.01)


def test_a_headline_cell_of_one_run_is_there_without_a_verdict() -> None:
    one_run = dataset([row for row in synthetic.rows() if row.get("experiment") != "sequence_length"])
    found = scores.sections(one_run)
    for one in next(iter(found.values())):
        assert (one.verdict, one.change, one.edited, len(one.moments)) == (None, None, False, 1)
    assert list(found) == [
        *("CUDA over flash-attn 2; CUDA over cuDNN", "Triton over CUDA", "core Triton over FlexAttention"),
    ]
