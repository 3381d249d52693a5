"""The page of the gap, from invented rows. No number here was ever measured."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest
from markupsafe import escape

from harness.catalog.problem import Problem, Tile
from harness.inspection import hardware_counters
from harness.operators.attention.gap import CAUSES, GLUON, ORDERED, SQUARE, TERMS, TLX, TRITON, VOCABULARY, WAYS
from harness.rows.ledger import Ledger
from reports.data.dataset import Dataset, tile_slug
from reports.data.names import cell_title
from reports.draw import ledger as drawing
from reports.draw.style import BAD
from reports.facts import ledger as facts
from reports.pages import ledger as pages
from tests.support import ledger_rows as made
from tests.support.pages import rendered

ROWS = made.rows((made.PROBLEM, made.CAUSAL), beyond={"without_lazy_rescale_or_integer_max": 0.05})


def dataset(rows: list[made.Row]) -> Dataset:
    return Dataset("NVIDIA H200", True, rows, made.hashes())


def html(*datasets: Dataset) -> str:
    return rendered("ledger.html", pages.page(datasets))


@cache
def whole() -> str:
    """The page of ROWS: a bootstrap of a hundred sums."""
    return html(dataset(ROWS))


@cache
def ledgers() -> list[Ledger]:
    return facts.found([dataset(ROWS)])[1]


def test_before_anything_is_measured_the_page_says_the_command_and_what_is_expected() -> None:
    text = html()
    assert "Nothing is measured yet." in text
    assert "<code>twinkernels run what_triton_misses --replicates 3</code>" in text
    assert "d128-full +8.0%" in text
    assert "<svg" not in text.partition("</header>")[2]
    for term in TERMS:
        assert f"<h3>{escape(term.title)}</h3>" in text


def test_every_term_is_in_the_table_and_in_the_drawing() -> None:
    text = whole()
    (wide,) = re.findall(r'<svg[^>]*head_dim 128, full[^>]*core Triton[^>]*class="w".*?</svg>', text, re.DOTALL)
    for term in TERMS:
        applies = term.name not in ("own_diagonal", "register_split")
        assert (term.title in wide) is (applies and not term.part_of)
        if applies:
            assert f'<a href="#{term.name}">' in text
    assert "own_diagonal" not in {line.term.name for line in facts.lines(ledgers()[0])}
    for cause in (
        "only by an escape hatch",
        "the compiler decides otherwise",
        "ptxas",
    ):
        assert cause in wide
    assert "Flagship: " in wide
    assert "Nothing is measured yet" not in text


def test_that_nvccs_ptxas_was_not_timed_is_told_once() -> None:
    rows = [row for row in ROWS if row.get("assembler") != "shared"]
    text = html(dataset(rows))
    assert (
        text.count("not measured")
        == text.count("Triton’s PTX, assembled by nvcc’s ptxas, is not measured yet, so")
        == 1
    )
    assert "not measured" not in whole()
    one = [row for row in ROWS if row in rows or row["problem"] == made.PROBLEM.to_dict()]
    assert f"not measured yet at {cell_title(made.CAUSAL)}, so" in html(dataset(one))


def test_kernels_that_wait_for_a_run_are_told_once() -> None:
    text = html(dataset(made.rows((made.PROBLEM, made.CAUSAL), without=("without_turns",))))
    assert text.count("not measured") == text.count("not measured yet: <code>without_turns</code>. ") == 1


def test_the_numbers_of_a_drawing_stand_below_it_as_files() -> None:
    (download,) = pages.page([dataset(ROWS)])["files"]
    assert whole().count("<figure") == whole().count(f'href="data/{download.name}.csv"') > 1
    csv, rows = (text for _, text in download.files())
    lines = {line.split(",")[2] for line in csv.splitlines()[1:]}
    assert {line.term.name for line in facts.lines(ledgers()[0])} <= lines
    assert len(rows.splitlines()) > 10


def test_terms_come_in_the_order_of_their_size() -> None:
    headline, causal = ledgers()
    assert not headline.problem.causal
    assert causal.problem.causal
    sizes = [abs(line.size) for line in facts.lines(headline) if not line.term.part_of]
    assert sizes == sorted(sizes, reverse=True)
    assert facts.lines(headline)[0].term.name == "overlap"
    assert facts.lines(headline)[-1].term.name == "moved_descriptors"


def test_shares_of_the_gap_and_of_the_remainder_are_all_of_it() -> None:
    one, _ = ledgers()
    assert one.gap
    assert one.remainder
    shares = [line.share for line in facts.lines(one) if line.share is not None]
    assert sum(shares) + one.remainder.value / one.gap.value == pytest.approx(1)


def test_a_pair_that_interacts_is_told() -> None:
    text = whole()
    assert text.count("they interact") == 2, "one on each problem"
    plain = html(dataset(made.rows()))
    assert "they interact" not in plain
    assert "its two prices differ" not in plain


def test_a_sentence_says_how_much_has_a_cause() -> None:
    one, _ = ledgers()
    assert re.fullmatch(
        r"At head_dim 128, full, 4096 tokens the flagship is 3\d\.\d% faster than the best core Triton kernel; "
        r"the terms below explain (9\d|100)% \(\d+ to \d+\) of that\.",
        facts.sentence(one),
    )


def test_what_is_missing_is_named_and_the_rest_stands() -> None:
    rows = made.rows(without=("without_turns",))
    case = next(row for row in rows if row.get("technique") == "without_overlap")
    rows.append({**case, "technique": "without_turns", "kind": "gate", "status": "wrong", "reason": "max_abs <0.3>"})
    text = html(dataset(rows))
    assert "Without a number: without_turns: wrong, max_abs &lt;0.3&gt;." in text


def test_without_triton_there_is_no_drawing_and_the_page_says_so() -> None:
    rows = [row for row in made.rows() if row.get("backend") not in WAYS]
    text = html(dataset(rows))
    assert "the two kernels have not been timed in one group yet" in text
    assert "<svg role" not in text


def test_the_assemblers_words_stand_where_nothing_can_be_left_out() -> None:
    (term,) = [term for term in TERMS if term.serialized]
    (case,) = [row for row in ROWS if row.get("technique") == "without_turns"][:1]
    words = "serialized due to insufficient register resources"
    code = {"remarks": [words], "spill_bytes": 160}
    hashes = {(term.serialized, "cuda"): "a source"}
    row = {**case, "kind": "code", "technique": term.serialized, "code": code, "compiler": {"ptxas": "13.0.88"}}
    row["source_sha256"] = "a source"
    told = facts.refusal([row, {**row, "time": "2025-01-01T00:00:00Z", "code": {"remarks": ["earlier"]}}], term, hashes)
    assert f"ptxas 13.0.88 says: “{words}”. It spills 160 bytes" in told
    assert facts.refusal([{**row, "code": {}}, {**row, "technique": "without_turns"}], term, hashes) == ""
    assert facts.refusal([{**row, "source_sha256": "earlier"}], term, hashes) == ""
    assert f"ablations/{term.serialized}.patch" in whole()


def test_each_board_is_told() -> None:
    text = whole()
    for board in ("board0", "board1", "board2"):
        assert f"<code>{board}</code> has a gap of +3" in text


def test_every_cause_has_a_colour_of_its_own_and_every_proof_a_place() -> None:
    assert set(drawing.CAUSE_COLORS) == set(CAUSES)
    assert len(set(drawing.CAUSE_COLORS.values())) == len(CAUSES)
    assert BAD not in drawing.CAUSE_COLORS.values(), "red means impossible"
    for term in TERMS:
        assert [name for name, *_ in facts.evidence(term)] == list(term.proofs)


@pytest.mark.parametrize(
    ("start", "kernel", "series"), [(GLUON, "the best Gluon kernel", "Gluon"), (TLX, "the TLX kernel", "TLX")]
)
def test_the_way_from_another_language_has_a_table_and_a_drawing_of_its_own(
    start: str, kernel: str, series: str
) -> None:
    text = whole()
    assert len(re.findall(f"<h3>.* faster than {kernel}</h3>", text)) == 2, "one on each problem"
    (wide,) = re.findall(rf'<svg[^>]*full[^>]*{kernel}[^>]*class="w".*?</svg>', text, re.DOTALL)
    assert f"{drawing.STARTS[start]}: " in wide
    assert "The same schedule, written in CUDA" in wide
    assert f'href="expressibility.html#integer_max-{series.lower()}"' in text
    assert f"<h3>Lazy rescaling and three-input maxima, from {series}</h3>" in text
    without = html(dataset([row for row in ROWS if row.get("backend") != start]))
    assert f"faster than {kernel}" not in without
    assert without.count(f"the way from {kernel} is not measured yet</h3>") == 2


def test_a_command_times_a_term_again() -> None:
    one, _ = ledgers()
    ways = (one, one.from_(GLUON), one.from_(TLX))
    commands = {line.term.name: line.command for way in ways for line in facts.lines(way)}
    assert commands["turns"] == (
        "twinkernels bench flagship without_turns pingpong overlapped_softmax --backend cuda "
        "--problem b4-h16-n4096-d128-bf16-full --tile 192x80-s3-w12"
    )
    assert commands["assembler"] == "twinkernels run what_triton_misses --backend triton --ptxas shared"
    at_square = "--problem b4-h16-n4096-d128-bf16-full --tile 128x128-s2-w8"  # Gluon's tile, and TLX's
    less = "without_lazy_rescale flagship --backend cuda --backend"
    assert commands["gluon_schedule"] == f"twinkernels bench {less} gluon {at_square}"
    assert commands["tlx_schedule"] == f"twinkernels bench {less} tlx@3.8.0 {at_square}"
    assert commands["gluon_votes"] == f"twinkernels bench flagship without_lazy_rescale --backend cuda {at_square}"
    assert commands["own_tile"] == commands["fewer_keys"] == "twinkernels run what_triton_misses --backend cuda"


def test_what_is_not_measured_yet_is_timed_at_the_tiles_that_it_will_have() -> None:
    rows = made.rows((Problem.square(4, 32, 4096, 64),), without=("without_register_split",))
    _, (one,) = facts.found([dataset([row for row in rows if row.get("backend") != TLX])])
    (split,) = [line for line in facts.lines(one) if line.term.name == "register_split"]
    assert split.command == (
        "twinkernels bench flagship without_register_split --backend cuda "
        "--problem b4-h32-n4096-d64-bf16-full --tile 128x128-s2-w8"
    )
    schedule = facts.lines(one.from_(TLX))[-1]
    assert schedule.term.name == "tlx_schedule"
    assert schedule.command == "twinkernels run what_triton_misses --backend cuda --backend tlx@3.8.0"


def test_the_page_says_which_problem_the_goal_is_about() -> None:
    text = whole()
    assert text.count("The goal, a cause for 90% of the gap, is about this problem alone. It is reached.") == 1
    full, causal = ledgers()
    assert facts.goal(full)
    assert not facts.goal(causal)
    _, (missed,) = facts.found([dataset(made.rows(beyond={"without_overlap": 0.3}))])
    assert "It is missed." in facts.goal(missed)
    below = replace(full)
    below.__dict__["shares"] = {"board0": 0.91, "board1": 0.884, "board2": 0.897}
    assert "It is reached over all boards, and missed on board1 (88.4%) and board2 (89.7%)." in facts.goal(below)


def test_one_program_at_two_tiles_is_told() -> None:
    one, causal = ledgers()
    compiler, one_block = (next(term for term in TERMS if term.name == name) for name in ("compiler", "one_block"))
    assert facts.other_tile(one, compiler) == facts.other_tile(one, one_block) == ""
    other = replace(one, rows={**one.rows, TRITON: {**one.rows[TRITON], "tile": Tile(64, 64, 2, 4).to_dict()}})
    assert facts.other_tile(other, compiler) == "not at one tile: 64x128-s1-w4 over 64x64-s2-w4"
    assert "not at one tile" not in whole(), "Gluon’s has a term of its own"
    gluon = {**causal.rows[GLUON], "tile": Tile(128, 128, 3, 8).to_dict()}
    way = replace(causal, rows={**causal.rows, GLUON: gluon})
    (schedule,) = [term for term in WAYS[GLUON] if term.name == "gluon_schedule"]
    assert facts.other_tile(way.from_(GLUON), schedule) == "not at one tile: 128x128-s2-w8 over 128x128-s3-w8"


def test_what_is_left_out_at_a_languages_tile_says_so() -> None:
    text = whole()
    assert text.count("left out at 128x128-s2-w8") == 6, "of Gluon’s way twice and its two parts, of TLX’s twice"
    ways = [one.from_(start) for one in ledgers() for start in (GLUON, TLX)]
    assert all("from one measured kernel to the next, so there is no remainder." in facts.sentence(way) for way in ways)
    rows = [
        row for row in ROWS if (row.get("technique"), row.get("tile")) != ("without_lazy_rescale", SQUARE.to_dict())
    ]
    _, (full, causal) = facts.found([dataset(rows)])
    assert "Terms without a size are in the remainder." in facts.sentence(full.from_(GLUON))
    assert "so there is no remainder" in facts.sentence(causal.from_(GLUON)), "only a part is missing"
    text = html(dataset(rows))
    assert "not measured yet: <code>without_lazy_rescale at 128x128-s2-w8</code>. " in text


def test_the_order_of_what_a_language_lacks_is_that_of_the_kernel_in_the_step() -> None:
    one, _ = ledgers()
    (schedule,) = [term for term in WAYS[GLUON] if term.name == "gluon_schedule"]
    row = gated(one.rows["without_lazy_rescale at 128x128-s2-w8"], "8 wgmma, wait 0")
    _, cuda = facts.orders(dataset([*ROWS, row]), one.from_(GLUON), schedule)
    assert cuda.kernel.startswith("without_lazy_rescale (cuda, 128x128-s2-w8")


def test_what_a_language_has_of_a_technique_is_told_beside_its_term() -> None:
    """Computed from rows of another experiment, where those of this one have none."""
    rows = [row for row in made.rows() if (row.get("backend"), row.get("technique")) != ("triton", "integer_max")]
    tile, about = Tile(64, 64, 2, 4), {"experiment": "hopper", "mode": "burst", "environment": "board0-0"}
    extra = [
        made.synthetic.make("timing", name, "triton", made.PROBLEM, tile, **about, group="h", samples_ms=[ms] * 3)
        for name, ms in (("wgmma", 1.0), ("integer_max", 1.25))
    ]
    hashes = {("wgmma", "triton"), ("integer_max", "triton")}
    known = made.hashes() | {(name, backend): made.synthetic.sha(name, backend) for name, backend in hashes}
    text, without = (html(Dataset("NVIDIA H200", True, several, known)) for several in ([*rows, *extra], rows))
    assert text.count("core Triton’s own kernels: integer_max −20.0% at 64x64-s2-w4") == 1
    assert text.count("Core Triton’s own kernels at head_dim 128, full, 4096 tokens: integer_max over wgmma") == 1
    assert "integer_max over wgmma (triton, 64x64-s2-w4): −20.0%, 1 process on 1 board" in text
    assert "own kernels" not in without
    command = "twinkernels bench integer_max wgmma --backend triton --problem b4-h16-n4096-d128-bf16-full"
    assert text.count(f"Not timed yet at the tile of the best kernel: <code>{command} --tile 64x128-s1-w4</code>") == 1
    assert "Not timed yet at the tile" not in without


def test_gluons_kernels_stand_beside_a_term_of_tlx_that_was_not_timed() -> None:
    about = {"experiment": "hopper", "mode": "burst", "environment": "board0-0", "group": "h"}
    extra = [
        made.synthetic.make("timing", name, GLUON, made.PROBLEM, SQUARE, **about, samples_ms=[ms] * 3)
        for name, ms in (("persistent", 1.0), ("lazy_rescale_wgmma", 1.25))
    ]
    hashes = {(name, GLUON) for name in ("persistent", "lazy_rescale_wgmma")}
    known = made.hashes() | {(name, backend): made.synthetic.sha(name, backend) for name, backend in hashes}
    rows = [row for row in made.rows() if row.get("backend") != TLX]
    _, (one,) = facts.found([Dataset("NVIDIA H200", True, [*rows, *extra], known)])
    (votes,) = [term for term in WAYS[TLX] if term.name == "tlx_votes"]
    told = facts.steps(one.from_(TLX), votes)
    assert told.startswith("Gluon’s own kernels at head_dim 128, full, 4096 tokens: lazy_rescale_wgmma over persistent")


def test_only_what_takes_the_best_kernels_tile_and_was_not_timed_there_is_asked_for() -> None:
    one, _ = ledgers()
    roles, lazy = (next(term for term in TERMS if term.name == name) for name in ("producer_consumer", "lazy_rescale"))
    assert facts.untimed(one, roles) == [], "Triton gives roles to eight warps alone"
    assert [command.split()[2] for command in facts.untimed(one, lazy)] == ["lazy_rescale_wgmma", "lazy_rescale"]
    votes = next(term for term in WAYS[TLX] if term.name == "tlx_votes")
    assert facts.untimed(one.from_(TLX), votes) == [], "the kernels are Gluon’s"


def test_rows_of_compilers_tell_an_order_that_no_gpu_told() -> None:
    one, _ = ledgers()
    (term,) = [term for term in TERMS if term.name == "assembler"]
    row = gated(one.rows[TRITON], "8 wgmma, wait 0") | {"kind": "code"}
    data = dataset(ROWS)
    assert facts.orders(data, one, term) == []
    assert [order.sequence for order in facts.orders(data, one, term, [row])] == ["8 wgmma, wait 0"]
    (order,) = facts.orders(dataset([*ROWS, gated(row, "of a GPU")]), one, term, [row])
    assert order.sequence == "of a GPU"
    assert facts.orders(data, one, term, [{**row, "source_sha256": "earlier"}]) == []


def gated(row: made.Row, sequence: str, **rest: object) -> made.Row:
    """The gate's row of a kernel, with the order of its main loop."""
    loop = {"sequence": sequence, "instructions": 100, "serialized": False}
    return {**row, "kind": "gate", "code": {"main_loop": loop, "registers": 168, "spill_bytes": 8}, **rest}


def test_both_assemblers_orders_are_told_and_whether_they_differ() -> None:
    one, _ = ledgers()
    (term,) = [term for term in TERMS if term.name == "assembler"]
    bundled = gated(one.rows[TRITON], "8 wgmma, wait 0", compiler={"ptxas": "12.8.93"})
    for other, same in (("8 wgmma, wait 1", False), ("8 wgmma, wait 0", True)):
        shared = {**bundled, **gated(bundled, other, compiler={"ptxas": "13.0.88"}), "assembler": "shared"}
        data = dataset([*ROWS, bundled, shared])
        assert [order.kernel.partition(",")[0] for order in facts.orders(data, one, term)] == ["flagship (triton"] * 2
        text = html(data)
        for ptxas, order in (("12.8.93", "8 wgmma, wait 0"), ("13.0.88", other)):
            words = f"ptxas {ptxas}), 100 instructions in a step, 168 registers, 8 bytes spilled"
            assert re.search(rf"{re.escape(words)}: <span[^>]*>{order}<", text)
        assert ("Where two of these orders are the same" in text) is same


def test_advice_follows_the_sign_that_was_measured() -> None:
    (term,) = [term for term in TERMS if term.name == "assembler"]
    for worth, text in ((0.02, term.could), (-0.02, term.otherwise)):
        _, (one,) = facts.found([dataset(made.rows(worth={"assembler": worth}))])
        told = [(one.problem, line) for line in facts.lines(one) if line.term == term]
        assert facts.advice(term, told) == [("at head_dim 128, full, 4096 tokens", text)]
    assert len(facts.advice(term, [])) == 2, "what holds for either sign, before it is measured"


def test_where_nothing_was_predicted_is_told() -> None:
    assert "No size was predicted on the way from TLX" in whole()
    text = html(dataset(made.rows((made.PROBLEM, Problem.square(1, 16, 16_384, 128)))))
    assert "No size was predicted at 16384 tokens, and none on the way from TLX" in text


def test_no_kernel_is_called_the_fastest_without_its_rivals() -> None:
    heading = whole().partition("<h1>")[2].partition("</h1>")[0]
    assert "our fastest CUDA kernel" in heading
    assert "the fastest kernel" not in whole()


def test_a_term_has_its_size_at_every_length() -> None:
    text = html(dataset(made.rows((made.PROBLEM, Problem.square(1, 16, 16_384, 128)))))
    assert re.search(r"head_dim 128, full, 4096 tokens: [^·]* · head_dim 128, full, 16384 tokens: ", text)


def test_a_term_between_two_tiles_takes_the_experiment() -> None:
    one, _ = ledgers()
    compiler, one_block = (next(term for term in TERMS if term.name == name) for name in ("compiler", "one_block"))
    triton, cuda = one.rows[TRITON], one.rows[ORDERED]
    apart = replace(one, rows={**one.rows, ORDERED: {**cuda, "tile": SQUARE.to_dict()}})
    assert facts.command(apart, compiler) == "twinkernels run what_triton_misses --backend cuda --backend triton"
    assert triton["tile"] == cuda["tile"]
    assert facts.command(one, one_block) == "twinkernels run what_triton_misses --backend cuda"
    assert facts.command(one, compiler) == (
        "twinkernels bench vocabulary_head_by_head flagship --backend cuda --backend triton "
        f"--problem b4-h16-n4096-d128-bf16-full --tile {tile_slug(triton)}"
    )


def counters(row: made.Row, **rest: object) -> made.Row:
    """What ncu counted of the kernel that a row timed: 400 TFLOPS at 1.6 GHz."""
    metrics = {
        "gpu__time_duration.sum": Problem.from_dict(row["problem"]).flops / 400e12 * 1e9,
        "sm__cycles_elapsed.avg.per_second": 1.6e9,
        "smsp__issue_active.avg.pct_of_peak_sustained_active": 41.25,
        "memory_l1_wavefronts_shared": 1234567,
        "smsp__average_warps_issue_stalled_gmma_per_issue_active.ratio": 2.5,
        "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio": 0.5,
    }
    return {**row, "kind": "counters", "experiment": "ncu", "details": {"metrics": metrics}, **rest}


def test_ncu_is_asked_for_all_that_the_page_shows() -> None:
    shown = set(counters(ROWS[-1])["details"]["metrics"])
    assert shown <= {*hardware_counters.METRICS, *hardware_counters.FROM_SECTIONS}


def test_what_ncu_counted_stands_behind_the_terms() -> None:
    case = next(row for row in ROWS if row.get("technique") == "without_overlap")
    row = counters(case)
    data = dataset([*ROWS, row, {**row, "technique": "without_turns", "source_sha256": "earlier"}])
    _, (one, _) = facts.found([data])
    (counted,) = facts.counted(data, one)
    assert counted.kernel == "without_overlap cuda 192x80-s3-w12"
    peak = 4096 * data.multiprocessors(row) * 1.6e9
    assert counted.tensor == pytest.approx(100 * 400e12 / peak)
    assert (counted.issue, counted.passes) == (41.25, 1234567)
    unread = {**row, "details": {"metrics": {"gpu__time_duration.sum": 1e6}}}
    assert facts.counted(dataset([*ROWS, unread]), one)[0].tensor is None
    assert counted.stalls == [("gmma", 2.5), ("wait", 0.5)]
    text = html(data)
    assert "gmma 2.50, wait 0.50" in text
    assert "1,234,567" in text
    assert "What ncu counted" not in whole()


def test_every_end_of_a_term_is_counted_at_its_own_tile() -> None:
    """Triton's, Gluon's, TLX's and the vocabulary's are others than the flagship's."""
    one, _ = ledgers()
    ends = [one.rows[name] for name in (TRITON, GLUON, TLX, VOCABULARY, "flagship", "wgmma")]
    elsewhere = counters(one.rows[VOCABULARY], tile=SQUARE.to_dict())
    data = dataset([*ROWS, *map(counters, ends), elsewhere])
    counted = facts.counted(data, one)
    assert [each.kernel for each in counted] == [
        "flagship triton 64x128-s1-w4",
        "flagship gluon 128x128-s2-w8",
        "flagship tlx@3.8.0 128x128-s2-w8",
        "triton_vocabulary cuda 64x128-s1-w4",
        "flagship cuda 192x80-s3-w12",
        "wgmma cuda 192x80-s3-w12",
    ]
    assert all(each.issue and each.tensor and each.passes and each.stalls for each in counted)


@pytest.mark.parametrize(
    ("number", "told"),
    [
        ("-0.0%", "0.0%"),
        ("+0%", "0%"),
        ("-0.04%", "−0.04%"),
        ("+0.5% (-0.0 to 1.0)", "+0.5% (0.0 to 1.0)"),
        ("-10.0%", "−10.0%"),
    ],
)
def test_a_number_has_a_sign_that_can_be_read_and_zero_has_none(number: str, told: str) -> None:
    assert facts.minus(number) == told


def test_what_a_technique_gains_in_what_core_triton_can_express_is_told() -> None:
    text = whole()
    assert "<code>vocabulary_with_integers</code> over <code>vocabulary_head_by_head</code>: head_dim 128, full" in text
    assert "<code>integer_max in core Triton</code> over <code>wgmma in core Triton</code>: head_dim 128, full" in text
    assert text.count("In kernels limited to what core Triton can express") == 2
