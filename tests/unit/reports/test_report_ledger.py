"""The page of the gap, from invented rows. No number here was ever measured."""

import json
import math
import re
import statistics
from functools import cache

import pytest
from markupsafe import escape

from harness.catalog.entries import Tile
from harness.operators.attention.gap import CAUSES, GLUON, TERMS, TLX, TRITON, TRITONS, UNDONE, WAYS, Term
from harness.rows.ledger import Ledger
from reports.data.dataset import Dataset
from reports.draw.style import BAD
from reports.facts.expressibility import Said
from reports.pages import prose
from reports.pages.attention import gap as pages
from reports.pages.attention import gap_waterfall as drawing
from reports.pages.attention import ledger as facts
from reports.pages.common import Rows
from tests.support import ledger_rows as made
from tests.support.pages import rendered

pytestmark = pytest.mark.slow

ROWS = made.rows((made.PROBLEM, made.CAUSAL), beyond={"without_lazy_rescale_or_integer_max": 0.05})
ALL = [term for way in WAYS.values() for term in way]


def dataset(rows: list[made.Row]) -> Dataset:
    return Dataset("NVIDIA H200", True, rows, made.hashes())


def of(rows: list[made.Row]) -> Rows:
    data = dataset(rows)
    known = {("integer_max", language): Said("integer_max", "direct") for language in ("gluon", "tlx")}
    return Rows(data, [data], known, prose.Claims())


def html(rows: list[made.Row]) -> str:
    return rendered("attention/gap.html", pages.page(of(rows)))


def term_html(name: str, rows: list[made.Row]) -> str:
    """The page of a term."""
    start, term = next((start, term) for start, terms in WAYS.items() for term in terms if term.name == name)
    return rendered("attention/term.html", pages.term_page(of(rows), start, term))


@cache
def whole() -> str:
    return html(ROWS)


@cache
def ledgers() -> list[Ledger]:
    return facts.found(of(ROWS))[1]


def term_of(name: str) -> Term:
    return next(term for term in ALL if term.name == name)


def raw(technique: str, backend: str, tile: str) -> made.Row:
    """A timing of ROWS."""
    kernel = technique, backend, Tile.parse(tile).to_dict()
    return next(row for row in ROWS if (row.get("technique"), row.get("backend"), row.get("tile")) == kernel)


def gated(row: made.Row, sequence: str, **rest: object) -> made.Row:
    """The gate's row of a kernel, with the order of its main loop."""
    counts = {"all": {"exponentials": 66}, "under_products": {"exponentials": 14}}
    loop = {"sequence": sequence, "instructions": 100, "serialized": False, **counts}
    return {**row, "kind": "gate", "code": {"main_loop": loop, "registers": 168, "spill_bytes": 8}, **rest}


def test_every_term_has_a_text_and_no_text_lacks_its_term() -> None:
    text = (prose.ROOT / "attention" / "pages" / "gap.md").read_text()
    assert re.findall(r"^## (\w+)$", text, re.MULTILINE) == [term.name for term in ALL]


def test_before_anything_is_measured_the_page_says_the_command_and_explains_every_term() -> None:
    text = html([])
    assert "Nothing is measured yet." in text
    assert "<code>twinkernels run what_triton_misses --replicates 3</code>" in text
    assert "<svg" not in text.partition("</header>")[2]
    for term in TERMS:
        assert f"<h1>{escape(term.title)}</h1>" in term_html(term.name, [])


def test_every_term_is_in_the_table_and_in_the_drawing() -> None:
    text = whole()
    wide = re.findall(r'<svg[^>]*best core Triton[^>]*class="w".*?</svg>', text, re.DOTALL)[0]
    for term in TERMS:
        applies = term.name not in ("own_diagonal", "register_split", "waits_at_once", "large_block")
        assert (term.title in wide) is (applies and not term.part_of and term.name != "assembler")
        if applies:
            assert f'<a href="gap/{term.name}.html">' in text
    assert "own_diagonal" not in {line.term.name for line in facts.lines(ledgers()[0])}
    assert all(CAUSES[cause] in wide for cause in ("language", "compiler", "assembler"))
    assert ">Flagship<" in wide
    assert "Nothing is measured yet" not in text
    assert "the fastest kernel" not in text, "no rival was timed"


def test_the_largest_term_comes_first_and_with_the_remainder_terms_are_the_gap() -> None:
    one, causal = ledgers()
    assert (one.problem.causal, causal.problem.causal) == (False, True)
    lines = facts.lines(one)
    sizes = [abs(line.size.value) for line in lines if line.counts and line.size]
    assert sizes == sorted(sizes, reverse=True)
    assert (lines[0].term.name, lines[-1].term.name) == ("overlap", "moved_descriptors")
    added = sum(line.size.value for line in lines if line.counts and line.size)
    assert added + one.remainder.value == pytest.approx(one.gap.value)


def test_the_heading_names_the_largest_gains_and_says_where_the_cause_is_unknown() -> None:
    text = " ".join(whole().split())
    ahead = f"hand-written CUDA is about {math.expm1(ledgers()[0].gap.value):.0%} faster than"
    assert f"head_dim 128, full, 4096 tokens: {ahead} the best core Triton kernel<" in text
    assert f">+{100 * math.expm1(ledgers()[0].gap.value):.1f}%<" in text, "beside the flagship"
    counted = [line for line in ledgers()[0].lines if line.counts and line.size]
    most = sorted(counted, key=lambda line: -line.size.value)[:4]
    sizes = ", ".join(f"“{escape(line.term.title)}” {facts.gain(line.size).partition(' ')[0]}" for line in most)
    assert f"At head_dim 128, full, {ahead} core Triton; the largest gains: {sizes}</h1>" in text
    rows = made.rows(worth={"turns": 0.2}, beyond={"without_turns": -0.2})
    head = html(rows).partition("<h1>")[2].partition("</h1>")[0]
    assert re.search(r"“Warpgroups take turns at issuing products” \+1\d\.\d% \(why is unknown\)", head), head
    assert "is explained" not in text, "the terms do not add up to such a share"
    small = sum(map(facts.is_small, counted))
    below = sum(line.size.value < 0 for line in counted if not facts.is_small(line))
    above = len(counted) - below - small
    assert f"what {above} terms above 0, {below} below 0 and {small} within 0.5% leave" in text


def test_a_term_whose_prices_disagree_shows_both_and_has_no_cause() -> None:
    found = facts.found(of(made.rows(beyond={"without_turns": -0.02})))[1][0]
    (line,) = [line for line in found.lines if line.term.name == "turns"]
    text = html(made.rows(beyond={"without_turns": -0.02}))
    row = text.partition(f"{line.term.title}</a>")[2].partition("</tr>")[0]
    assert "<td>unexplained</td>" in row
    assert re.search(r"(0\.0|[+−]0\.\d) to \+[12]\.\d%", row), "from nothing to what the ladder's step gains"
    assert "its two prices disagree" in row
    assert "its two prices disagree" not in whole()
    page = term_html("turns", made.rows(beyond={"without_turns": -0.02}))
    assert "Only by an escape hatch; unexplained where its two prices disagree." in page


def test_what_one_board_cannot_tell_is_marked() -> None:
    lines = {line.term.name: line for line in ledgers()[0].lines}
    titles = {term.name: term.title for term in ALL}
    assert facts.note(lines["overlap"], titles, 0.03) == ""
    assert facts.note(lines["turns"], titles, 0.03) == "within 3.0%"
    assert facts.note(lines["turns"], titles, None) == ""
    undone = "counted within “The flagship's tile, not small blocks”; within 0.5%"
    assert facts.note(lines["idle_warpgroups"], titles, 0.03) == undone
    assert "within" not in facts.note(lines["overlap"], titles, None)
    assert "Every ratio here" not in whole(), "three boards"
    one_board = html(made.rows(boards=1))
    assert "kernels that one process timed in turn, on one board." in " ".join(one_board.split())


def test_the_numbers_of_a_drawing_are_files_below_it() -> None:
    (download,) = pages.page(of(ROWS))["files"]
    assert whole().count("<figure") == whole().count(f'href="data/{download.name}.csv"') > 1
    csv, rows = (text for _, text in download.files())
    for line in map(facts.cause, ledgers()[0].lines):
        assert line in csv
        assert f"<td>{line}</td>" in whole()
    assert {line.term.name for line in facts.lines(ledgers()[0])} <= {line.split(",")[2] for line in csv.splitlines()}
    speeds: dict[str, list[float]] = {"cuda": [], "triton": []}
    for row in map(json.loads, rows.splitlines()):
        tile = row.get("tile") and Tile(**row["tile"])
        if row.get("technique") == "flagship" and not row["problem"]["causal"] and tile in (ledgers()[0].tile, TRITONS):
            speeds[row["backend"]].append(math.log(row["speed"]))
    assert len(speeds["cuda"]) == len(speeds["triton"]) == 6, "one of each process"
    gap = ledgers()[0].gap
    assert statistics.fmean(speeds["cuda"]) - statistics.fmean(speeds["triton"]) == pytest.approx(gap.value), (
        "1 group each"
    )


def test_what_is_missing_is_named_and_the_rest_is_shown() -> None:
    rows = made.rows(without=("without_turns",))
    case = next(row for row in rows if row.get("technique") == "without_overlap")
    rows.append(
        {**case, "technique": "without_turns", "samples_ms": None, "status": "crashed", "reason": "max_abs <0.3>"}
    )
    assert "Without a number: without_turns: crashed, max_abs &lt;0.3&gt;." in html(rows)


def test_a_reason_that_many_kernels_have_is_told_once() -> None:
    rows = [row | {"status": "crashed", "reason": "SIGSEGV"} if row.get("samples_ms") else row for row in made.rows()]
    assert re.search(r"Without a number: \w+ and \d+ more: crashed, SIGSEGV\.</p>", html(rows))


def test_without_triton_there_is_no_drawing_and_the_page_says_so() -> None:
    text = html([row for row in made.rows() if row.get("backend") not in WAYS])
    assert "no group timed hand-written CUDA beside the best core Triton kernel" in text
    assert "<svg role" not in text


def test_every_cause_has_a_colour_of_its_own_and_every_proof_a_place() -> None:
    assert set(drawing.CAUSE_COLORS) == set(CAUSES) - {UNDONE}
    assert len(set(drawing.CAUSE_COLORS.values())) == len(drawing.CAUSE_COLORS)
    assert BAD not in drawing.CAUSE_COLORS.values(), "red means impossible"
    for term in ALL:
        assert [name for name, *_ in facts.evidence(term)] == list(term.proofs)


@pytest.mark.parametrize(
    ("start", "kernel", "series"), [(GLUON, "the best Gluon kernel", "Gluon"), (TLX, "the TLX kernel", "TLX")]
)
def test_another_language_has_a_table_of_its_own(start: str, kernel: str, series: str) -> None:
    text = whole()
    below = text.split(f" faster than {kernel}</h3>")[1:]
    assert len(below) == 2, "one on each problem"
    assert all(f"gap/{series.lower()}_schedule.html" in table.partition("</table>")[0] for table in below)
    term = next(term for term in WAYS[start] if "integer_max" in {cell[0] for *_, cell in facts.evidence(term)})
    page = term_html(term.name, ROWS)
    assert f'href="../proof/integer_max.html#{series.lower()}"' in page
    assert f"<h1>{escape(term.title)}, from {series}</h1>" in page
    without = html([row for row in ROWS if row.get("backend") != start])
    assert f"faster than {kernel}" not in without
    assert without.count(f"No group timed the flagship beside {kernel} on these problems.") == 1
    assert all(f'href="gap/{term.name}.html"' in without for term in WAYS[start])


def test_the_order_of_a_main_loop_is_of_the_kernel_that_was_timed() -> None:
    one, _ = ledgers()
    row = gated(raw("without_lazy_rescale", "cuda", "128x128-s2-w8"), "8 wgmma, wait 0")
    schedule = facts.orders(dataset([*ROWS, row]), one.from_(GLUON), term_of("gluon_schedule"))
    assert schedule[-1][0].startswith("without_lazy_rescale (cuda, 128x128-s2-w8")
    term = term_of("assembler")
    bundled = gated(raw("flagship", TRITON, "64x128-s1-w4"), "8 wgmma, wait 0", compiler={"ptxas": "12.8.93"})
    words = (
        "flagship (triton, 64x128-s1-w4, ptxas 12.8.93), 168 registers, 8 bytes spilled, 100 instructions in a step, "
    )
    words += "14 of 66 exponentials while a product is in flight"
    assert facts.orders(dataset(ROWS), one, term) == []
    assert facts.orders(dataset([*ROWS, bundled]), one, term) == [(words, "8 wgmma, wait 0")]
    assert facts.orders(dataset([*ROWS, {**bundled, "source_sha256": "earlier"}]), one, term) == []
    shared = {**bundled, **gated(bundled, "8 wgmma, wait 1"), "assembler": "shared"}
    both = facts.orders(dataset([*ROWS, bundled, shared]), one, term)
    assert [order for _, order in both] == ["8 wgmma, wait 0", "8 wgmma, wait 1"]
