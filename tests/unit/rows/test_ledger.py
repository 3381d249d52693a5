"""harness/rows/ledger.py: terms and remainder are the whole gap, and a kernel that is missing is named."""

import itertools
import math
from dataclasses import replace
from typing import Any

import pytest

from harness.catalog.entries import Tile
from harness.operators.attention import gap as catalog
from harness.operators.attention.problem import Problem
from harness.rows import ledger, stats
from harness.rows.frame import RECORDED, frame
from harness.rows.ledger import Ledger, Line
from reports.data.dataset import about
from reports.data.loading import recorded_hashes
from tests.support import ledger_rows as made
from tests.support.tables import tables

pytestmark = pytest.mark.slow

KINDS = ("timing", "gate", "code")
D64 = Problem.square(4, 32, 4096, 64)
PROBLEMS = [Problem.square(4, 2048 // head_dim, 4096, head_dim, causal=causal) for head_dim, causal in made.SAME]


def of(rows: list[made.Row]) -> Ledger:
    timing, gate, code = tables(rows, made.hashes(), KINDS)
    (found,) = ledger.ledgers(timing, code, gate)
    return found


def one(**options: Any) -> Ledger:
    return of(made.rows(**options))


def line(found: Ledger, name: str) -> Line:
    return next(term for term in found.lines if term.term.name == name)


def sizes(found: Ledger) -> dict[str, float]:
    """The terms that add up to a gap, by name."""
    return {one.term.name: one.size.value for one in found.lines if one.size and one.counts}


BLOCK, BACK = ("one_block", "first_rung", "buffer_barriers"), ("idle_warpgroups",)
"""The steps from small blocks to the ladder's first rung, and what undoes a loss of the first of them."""

WITH_CAUSES = {"one_block": 0.0, "integer_max": 0.0}
"""Without the term that has no cause."""


def worth(*terms: str) -> float:
    return sum(made.WORTH[term] for term in terms)


@pytest.fixture(scope="module")
def found() -> Ledger:
    return one()


def test_a_term_is_what_its_technique_multiplies_the_speed_by(found: Ledger) -> None:
    expected = {**made.WORTH, "compiler": made.WORTH["compiler"] + made.WORTH["assembler"]}
    expected["head_by_head"] -= made.WORTH["order_alone"]
    expected["one_block"] += made.WORTH["idle_warpgroups"]
    for term in found.lines:
        worth, interval = expected[term.term.name], term.size.interval
        assert term.size.value == pytest.approx(worth, abs=0.004), term.term.name
        assert interval.low is not None
        assert interval.high is not None
        assert not term.why


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
@pytest.mark.parametrize("start", catalog.WAYS)
def test_terms_and_remainder_are_the_whole_gap(start: str, problem: Problem) -> None:
    way = one(problems=(problem,)).from_(start)
    left = way.remainder.value if way.remainder else 0.0  # a chain of measured kernels leaves nothing
    assert sum(sizes(way).values()) + left == pytest.approx(way.gap.value, abs=1e-12)
    assert abs(left) < 0.01
    slow, fast = way.speed(start), way.speed("flagship")
    assert slow
    assert fast
    assert math.log(fast / slow) == pytest.approx(way.gap.value, abs=1e-12)
    assert not [term.why for term in way.lines if term.why]


def test_kernels_that_were_timed_more_often_say_nothing_more_of_the_gap() -> None:
    """Two processes timed a few kernels alone, and one of these was faster there."""
    few = {"triton", "vocabulary_head_by_head", "wgmma", "head_by_head", None}
    rows = []
    for row in made.rows(boards=2, processes=3):
        if row.get("assembler"):  # a run of its own
            continue
        if row.get("environment") in ("board0-2", "board1-2"):
            if {row["backend"], row.get("technique")}.isdisjoint(few):
                continue
            if row.get("technique") == "vocabulary_head_by_head":
                row = {**row, "samples_ms": [0.9 * ms for ms in row["samples_ms"]]}
        rows.append(row)
    found = of(rows)
    estimates = [term.size for term in found.lines if term.size]
    assert {size.processes for size in (*estimates, found.gap, found.remainder)} == {4}
    assert sum(sizes(found).values()) + found.remainder.value == pytest.approx(found.gap.value, abs=1e-12)


def test_what_the_techniques_need_of_each_other_is_left_over() -> None:
    """The flagship is faster than its techniques one by one: by nothing that has a name."""
    found = one(beyond={"without_overlap": 0.06}, worth=WITH_CAUSES)
    assert found.remainder.value == pytest.approx(-0.03, abs=0.004)
    assert found.explained
    share, interval = found.explained
    assert share == pytest.approx(1 - 0.03 / found.gap.value, abs=0.03)
    assert interval.low < share < interval.high  # type: ignore[operator]


def test_all_is_explained_if_nothing_is_left() -> None:
    found = one(worth=WITH_CAUSES)
    assert found.explained
    share, interval = found.explained
    assert share == pytest.approx(1, abs=0.03)
    assert interval.basis == "6 processes on 3 boards"


def test_a_term_without_a_cause_explains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = []
    for unexplained in ("", "overlap"):
        terms = tuple(
            replace(term, cause=ledger.UNEXPLAINED if term.name == unexplained else "x") for term in catalog.TERMS
        )
        monkeypatch.setitem(catalog.WAYS, catalog.TRITON, terms)
        found = one()
        assert found.gap
        shares.append(found.explained[0])
    assert shares[0] - shares[1] == pytest.approx(0.08 / found.gap.value, abs=0.02)


def test_a_kernel_that_is_missing_leaves_the_other_gain_or_is_named() -> None:
    found = one(without=("without_overlap", "vocabulary_head_by_head"))
    overlap = line(found, "overlap").size
    assert overlap.value == pytest.approx(made.WORTH["overlap"], abs=0.004)
    for name in ("compiler", "head_by_head"):
        assert line(found, name).size is None
        assert line(found, name).why == "vocabulary_head_by_head: not measured yet"
    left = sum(made.WORTH[name] for name in ("assembler", "compiler", "head_by_head"))
    assert found.remainder.value == pytest.approx(left - made.WORTH["order_alone"], abs=0.005)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"kind": "gate", "status": "wrong", "reason": "max_abs 0.3"}, "wrong, max_abs 0.3"),
        ({"status": "not_converged", "reason": "still moving"}, "not_converged, still moving"),
        ({"source_sha256": "earlier"}, "only rows of an earlier version of the kernel"),
    ],
)
def test_a_kernel_that_has_no_number_says_why(change: made.Row, why: str) -> None:
    without = ("without_idle_warpgroups",)
    rows = [row | change if row.get("technique") in without else row for row in made.rows()]
    assert line(of(rows), "idle_warpgroups").why == f"without_idle_warpgroups: {why}"


def test_kernels_that_no_group_timed_with_the_others_are_no_part_of_the_sum() -> None:
    rows = [
        {**row, "environment": "board0-0", "group": "another"} if row.get("technique") == catalog.FIRST_RUNG else row
        for row in made.rows()
    ]
    found = of(rows)
    assert "buffer_barriers" not in sizes(found)
    assert "no group timed them with the other terms" in line(found, "buffer_barriers").why


def test_without_nvccs_assembler_its_term_has_no_size() -> None:
    found = of([row for row in made.rows() if not row.get("assembler")])
    assert line(found, "assembler").size is None
    assert abs(found.remainder.value) < 0.005


def test_a_problem_has_the_terms_that_its_flagship_has(found: Ledger) -> None:
    names, causal, small = (
        {term.term.name for term in ledger.lines}
        for ledger in (found, one(problems=(made.CAUSAL,)), one(problems=(D64,)))
    )
    assert "own_diagonal" in causal - names
    assert not {"lazy_rescale", "early_rescale", "third_warpgroup", "fewer_keys"} & small
    assert small >= {"own_tile", "register_split"}


def test_each_board_has_a_ledger_of_its_own(found: Ledger) -> None:
    assert found.boards == ["board0", "board1", "board2"]
    for board in found.boards:
        own = found.on(board)
        assert own.gap.processes == 2
        assert own.explained[1].low is None, "two processes have no interval"
        assert found.shares[board] == own.explained[0]
        assert [term.cause for term in own.lines] == [term.cause for term in found.lines]


def test_without_rows_there_is_no_ledger() -> None:
    timing, _, code = tables([], made.hashes(), KINDS)
    assert ledger.ledgers(timing, code) == []
    assert ledger.percent(math.log(1.25)) == pytest.approx(25)


@pytest.mark.parametrize("start", [catalog.GLUON, catalog.TLX])
@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_the_way_from_another_language(start: str, problem: Problem) -> None:
    """The same program in CUDA, what that lacks, and the flagship's tile, if its shape differs."""
    way, series = one(problems=(problem,)).from_(start), start.partition("@")[0]
    lazily, integers = made.WORTH["lazily_at_square"], made.WORTH["integers_at_square"]
    votes = {made.LAZILY: lazily, made.LACKING: lazily + integers, catalog.LACKING: made.WORTH["integer_max"]}
    expected = {f"{series}_schedule": made.WORTH[f"{series}_schedule"]}
    if worth := votes.get(same := made.same(start, problem)):
        expected[f"{series}_votes"] = worth
    if same.endswith(catalog.SQUARE.slug):
        expected[f"{series}_tile"] = made.WORTH["own_tile"]
    assert sizes(way) == {name: pytest.approx(worth, abs=0.004) for name, worth in expected.items()}
    if same.partition(" at ")[0] == catalog.LAZILY:
        assert line(way, f"{series}_votes").term.title == catalog.LAZY_TITLE
    assert way.on("board1").start == start


def test_what_was_not_timed_at_a_languages_tile_has_no_size() -> None:
    """What the flagship loses at its own tile is another number."""
    square = catalog.SQUARE.to_dict()
    rows = [row for row in made.rows() if (row.get("technique"), row.get("tile")) != (catalog.LAZILY, square)]
    way = of(rows).from_("gluon")
    assert set(sizes(way)) == {"gluon_tile"}
    why = "without_lazy_rescale at 128x128-s2-w8: not measured yet"
    assert line(way, "gluon_votes").why == line(way, "gluon_schedule").why == why


def test_a_language_that_was_not_measured_has_no_gap() -> None:
    way = of([row for row in made.rows() if row.get("backend") != "tlx@3.8.0"]).from_("tlx@3.8.0")
    assert way.gap is way.remainder is None
    assert [term.term.name for term in way.lines] == ["tlx_schedule"]
    assert line(way, "tlx_schedule").why == "tlx@3.8.0: not measured yet"


def test_the_tile_is_the_flagships_though_a_smaller_one_was_timed_last() -> None:
    rows, square = made.rows(boards=1, processes=1), catalog.SQUARE.to_dict()
    last = next(row for row in rows if (row.get("technique"), row.get("tile")) == (catalog.LAZILY, square))
    assert of([*rows, {**last, "time": "2099-01-01T00:00:00Z"}]).tile == Tile(192, 80, 3, 12)


def test_a_large_block_is_compared_with_small_ones_in_the_same_order_of_tiles() -> None:
    """The ladder's first rungs lack the order that core Triton's small blocks have: what that gains there is taken out
    of what the flagship gains by it."""
    for alone, without in itertools.product((0.0, 0.03), ((), ("vocabulary_at_any_tile",))):
        found = sizes(one(worth={"order_alone": alone}, without=without))
        block = BLOCK if without else BLOCK[:1]
        assert found[("large_block" if without else "one_block")] == pytest.approx(worth(*block, *BACK), abs=0.004)
        assert found["head_by_head"] == pytest.approx(made.WORTH["head_by_head"] - alone, abs=0.004)


@pytest.mark.parametrize("without", [(), ("vocabulary_at_any_tile",)], ids=["in steps", "as one"])
def test_what_undoes_a_loss_of_the_large_block_is_counted_with_it(without: tuple[str, ...]) -> None:
    """Core Triton's small blocks have no such loss: by itself it would explain a part of the gap."""
    back = {"idle_warpgroups": 0.02, "own_diagonal": 0.05}
    found = one(problems=(made.CAUSAL,), worth=back, without=without)
    whole = "large_block" if without else "one_block"
    block = BLOCK if without else BLOCK[:1]
    assert sizes(found)[whole] == pytest.approx(worth(*block) + sum(back.values()), abs=0.004)
    assert not set(back) & set(sizes(found))
    for name, size in back.items():
        assert line(found, name).size.value == pytest.approx(size, abs=0.004)
        assert (line(found, name).cause, line(found, name).term.part_of) == (catalog.UNDONE, whole)
    untimed = one(problems=(made.CAUSAL,), worth=back, without=(*without, "without_idle_warpgroups"))
    assert sizes(untimed)[whole] == pytest.approx(worth(*block) + 0.05, abs=0.004), "the rest is the remainder"


@pytest.mark.parametrize(
    ("left_out", "cause"), [(0.0, "unexplained"), (-0.02, "unexplained"), (0.01, "slower"), (0.002, "unexplained")]
)
def test_a_technique_whose_removal_costs_nothing_is_no_cause(left_out: float, cause: str) -> None:
    found = one(beyond={"without_tma_store": left_out - made.WORTH["tma_store"]})
    term = line(found, "tma_store")
    assert [price.value for price in term.prices] == pytest.approx([left_out, made.WORTH["tma_store"]], abs=0.004)
    assert (term.cause, term.disagrees) == (cause, cause == "unexplained")
    assert {on.cause for board in found.boards for on in found.on(board).lines if on.term is term.term} == {cause}


@pytest.mark.parametrize("lacking", ["vocabulary_at_any_tile", "without_buffer_barriers"])
def test_steps_that_were_not_all_timed_are_one_term_without_a_cause(lacking: str) -> None:
    steps = [term.name for term in catalog.TERMS if term.instead_of == "large_block"]
    assert set(steps) == {"waits_at_once", *BLOCK}
    whole, found = sizes(one()), one(without=(lacking,))
    assert "large_block" not in whole
    assert not {*steps} & {*sizes(found)}
    assert sizes(found)["large_block"] == pytest.approx(sum(whole.get(name, 0.0) for name in steps), abs=0.004)
    assert line(found, "large_block").cause == "unexplained"
    assert (line(one(), "own_tile").term.part_of, line(found, "own_tile").term.part_of) == ("one_block", "large_block")
    assert not [term.why for term in found.lines if term.why]


def test_two_stages_leave_p_v_in_flight_and_one_stage_does_not() -> None:
    """Only where core Triton's best kernel has two stages, its program in CUDA has a step to the one that waits."""
    for problem in PROBLEMS:
        found, has_two = sizes(one(problems=(problem,))), problem.head_dim == 64 and problem.causal
        assert ("waits_at_once" in found) is has_two
        back = BACK if not problem.causal else (*BACK, "own_diagonal")
        assert found["one_block"] == pytest.approx(worth("one_block", *back), abs=0.004)


@pytest.mark.parametrize(("worth", "cause"), [(0.02, "slower"), (-0.02, "loss")])
def test_a_term_below_zero_is_no_cause(worth: float, cause: str) -> None:
    assert line(one(worth={"tma_store": worth}), "tma_store").cause == cause


def test_what_both_gain_is_no_part_of_the_gap() -> None:
    """At head_dim 64 core Triton's best kernel has maxima of integers: what the same program in CUDA gains by them is
    taken out."""
    size = line(one(problems=(D64,)), "integer_max").size
    assert size.value == pytest.approx(made.WORTH["integer_max"] - made.WORTH["integers_alone"], abs=0.004)


@pytest.mark.xdist_group("recorded")
@pytest.mark.slow
def test_maxima_of_integers_gain_less_in_core_triton() -> None:
    """On the recorded rows, where core Triton's best kernel has none: the flagship gains more by them."""
    alike = ((catalog.ON_INTEGERS, catalog.IN_SECTIONS), (catalog.WITH_INTEGERS, catalog.ORDERED))
    timing, hashes = frame("timing"), recorded_hashes(RECORDED)
    timing = about(timing[timing.gpu == "NVIDIA H200"], hashes | hashes.on["NVIDIA H200"])  # after an edit too
    timings = stats.Timings(timing)
    checked = 0
    for found in ledger.ledgers(timing, timings=timings):
        if found.problem.operator != "attention" or found.problem.head_dim == 64:
            continue
        price = line(found, "integer_max").size
        pairs = (timings.ratio(*(found.rows[kernel]["program"] for kernel in pair)) for pair in alike)
        gain = next(pair for pair in pairs if pair and pair.is_settled)
        most, least = gain.interval.high, price.interval.low
        if None in (most, least):  # rows of one process give no interval
            most, least = gain.value, price.value
        assert most < least, found.problem.slug
        checked += 1
    assert checked == 4
