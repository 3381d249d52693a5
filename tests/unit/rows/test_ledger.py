"""harness/rows/ledger.py: terms and remainder are the whole gap, and a kernel that is missing is named."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.catalog.problem import Problem, Tile
from harness.catalog.sources import ROOT
from harness.operators.attention import gap as catalog
from harness.rows import ledger, reading, results
from harness.rows.ledger import Ledger, Priced
from tests.support import ledger_rows as made


def one(**options: Any) -> Ledger:
    (found,) = ledger.ledgers(made.rows(**options), made.hashes())
    return found


def priced(found: Ledger, name: str) -> Priced:
    return next(term for term in found.terms if term.term.name == name)


@pytest.fixture(scope="module")
def found() -> Ledger:
    return one()


def test_a_term_is_what_its_technique_multiplies_the_speed_by(found: Ledger) -> None:
    for term in found.terms:
        assert term.size is not None
        worth = made.IN_THE_LEDGER[term.term.name]
        assert term.size.value == pytest.approx(worth, abs=0.004), term.term.name
        interval = term.size.interval
        assert interval.low is not None
        assert interval.high is not None
        assert math.log(interval.low) < worth < math.log(interval.high)
        assert not term.interacts
        assert not term.why


def test_terms_and_remainder_are_the_whole_gap(found: Ledger) -> None:
    assert found.gap
    assert found.remainder
    added = [term.size.value for term in found.terms if term.size and not term.term.part_of]
    assert sum(added) + found.remainder.value == pytest.approx(found.gap.value, abs=1e-12)
    assert found.remainder.interval.is_no_change


def test_the_same_rows_give_the_same_intervals_in_every_process(found: Ledger) -> None:
    """The names of the kernels are a set, whose order is another in each process."""
    assert found.remainder
    names = sorted(found._whole)
    for order in (names, names[::-1]):
        again = replace(found)
        again.__dict__["_whole"] = order
        assert again.remainder
        assert again.remainder.interval == found.remainder.interval


def test_terms_and_remainder_are_the_gap_though_some_kernels_were_timed_more_often() -> None:
    """Two processes timed a few kernels alone, and one of these was faster there: they say nothing of the gap."""
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
    (found,) = ledger.ledgers(rows, made.hashes())
    assert found.gap
    assert found.remainder
    sizes = [term.size for term in found.terms if term.size]
    assert {size.processes for size in (*sizes, *found.causes.values(), found.gap, found.remainder)} == {4}
    added = sum(term.size.value for term in found.terms if term.size and not term.term.part_of)
    assert added + found.remainder.value == pytest.approx(found.gap.value, abs=1e-12)
    compiler = priced(found, "compiler").size
    assert compiler
    assert compiler.value == pytest.approx(made.WORTH["assembler"] + made.IN_THE_LEDGER["compiler"], abs=0.004)


def test_a_price_that_was_never_timed_beside_the_others_is_not_in_the_sum() -> None:
    """Some processes timed all but one ablation, others that one with the two ends."""
    rows = [
        row
        for row in made.rows()
        if row.get("technique") in (None, "flagship")
        or (row.get("technique") == "without_tma_store") is (row.get("environment") == "board0-0")
    ]
    (found,) = ledger.ledgers(rows, made.hashes())
    store = priced(found, "tma_store")
    assert store.alone is None
    assert store.size == store.added
    assert store.why == "flagship and without_tma_store: no group timed them with the other terms"
    assert found.gap
    assert found.gap.processes == 5


def test_causes_and_remainder_are_the_whole_gap(found: Ledger) -> None:
    assert found.gap
    assert found.remainder
    assert set(found.causes) == {"compiler", "language", "assembler", "unexplained"}
    total = sum(size.value for size in found.causes.values())
    assert total + found.remainder.value == pytest.approx(found.gap.value, abs=1e-12)
    sizes = [abs(size.value) for size in found.causes.values()]
    assert sizes == sorted(sizes, reverse=True)


def test_the_two_speeds_that_are_told_differ_by_the_gap(found: Ledger) -> None:
    assert found.gap
    slow, fast = found.tflops("triton"), found.tflops("flagship")
    assert slow
    assert fast
    assert math.log(fast / slow) == pytest.approx(found.gap.value, abs=1e-12)


def test_what_the_techniques_need_of_each_other_is_left_over() -> None:
    """The flagship is faster than its techniques one by one: by nothing that has a name."""
    found = one(worth={"turns": 0.02}, beyond={"without_overlap": 0.06})
    assert found.remainder
    assert found.gap
    assert found.remainder.value == pytest.approx(-0.03, abs=0.004)
    assert found.explained
    share, interval = found.explained
    assert share == pytest.approx(1 - 0.03 / found.gap.value, abs=0.03)
    assert interval.low is not None
    assert interval.high is not None
    assert interval.low < share < interval.high
    assert priced(found, "overlap").interacts
    assert not priced(found, "turns").interacts


def test_two_techniques_that_hide_each_other_are_a_pair() -> None:
    (pair,) = one(beyond={"without_lazy_rescale_or_integer_max": 0.05}).pairs
    assert pair.interacts
    assert pair.beyond.value == pytest.approx(0.05, abs=0.005)
    (pair,) = one().pairs
    assert not pair.interacts


def test_all_is_explained_where_nothing_is_left(found: Ledger) -> None:
    assert found.explained
    assert found.gap
    share, interval = found.explained
    assert share == pytest.approx(1, abs=0.02)
    assert interval.processes == 6
    assert interval.boards == 3


def test_a_term_without_a_cause_explains_nothing(found: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found.explained
    assert found.gap
    monkeypatch.setattr(catalog.Term, "cause_at", lambda term, tile: "x")
    every = one().explained
    monkeypatch.setattr(catalog.Term, "cause_at", lambda term, tile: "unexplained" if term.name == "overlap" else "x")
    fresh = one()
    assert every
    assert fresh.explained
    assert every[0] - fresh.explained[0] == pytest.approx(0.08 / found.gap.value, abs=0.02)


def test_a_kernel_that_is_missing_leaves_one_price_and_is_named() -> None:
    found = one(without=("without_overlap", "vocabulary_head_by_head"))
    overlap = priced(found, "overlap")
    assert overlap.alone is None
    assert overlap.size == overlap.added
    assert overlap.why == "without_overlap: not measured yet"
    assert priced(found, "compiler").size is None
    assert "vocabulary_head_by_head" in priced(found, "compiler").why
    assert priced(found, "head_by_head").size is None, "what is taken out of it is not known"
    assert found.remainder
    left = ("assembler", "compiler", "head_by_head")
    assert found.remainder.value == pytest.approx(sum(made.IN_THE_LEDGER[name] for name in left), abs=0.005)


def test_a_kernel_that_was_refused_says_why() -> None:
    rows = made.rows(without=("without_turns",))
    case = next(row for row in rows if row.get("technique") == "without_overlap")
    rows.append({**case, "technique": "without_turns", "kind": "gate", "status": "wrong", "reason": "max_abs 0.3"})
    (found,) = ledger.ledgers(rows, made.hashes())
    assert priced(found, "turns").why == "without_turns: wrong, max_abs 0.3"


def test_rows_of_an_earlier_version_do_not_count() -> None:
    rows = [
        {**row, "source_sha256": "earlier"} if row.get("technique") == "without_turns" else row for row in made.rows()
    ]
    (found,) = ledger.ledgers(rows, made.hashes())
    assert "earlier version" in priced(found, "turns").why


def test_without_nvccs_assembler_its_term_is_the_compilers() -> None:
    rows = [row for row in made.rows() if not row.get("assembler")]
    (found,) = ledger.ledgers(rows, made.hashes())
    assert priced(found, "assembler").size is None
    compiler = priced(found, "compiler")
    assert compiler.size
    assert compiler.size.value == pytest.approx(made.WORTH["assembler"] + made.IN_THE_LEDGER["compiler"], abs=0.004)
    assert found.remainder
    assert abs(found.remainder.value) < 0.005


def test_a_problem_has_the_terms_that_its_flagship_has(found: Ledger) -> None:
    (causal,) = ledger.ledgers(made.rows((made.CAUSAL,)), made.hashes())
    assert "own_diagonal" not in {term.term.name for term in found.terms}
    assert "own_diagonal" in {term.term.name for term in causal.terms}
    (small,) = ledger.ledgers(made.rows((Problem.square(4, 32, 4096, 64),)), made.hashes())
    assert not {"lazy_rescale", "early_rescale"} & {term.term.name for term in small.terms}
    assert priced(small, "one_block").cause == "language"
    assert priced(found, "one_block").cause == "language", "192x80 is no tile of core Triton"
    assert priced(found, "one_block").term.cause_at(Tile(128, 128)) == "compiler"


def test_each_board_has_a_ledger_of_its_own(found: Ledger) -> None:
    assert found.boards == ["board0", "board1", "board2"]
    for board in found.boards:
        own = found.on(board)
        assert own.gap
        assert own.gap.processes == 2
        assert own.explained
        order = priced(own, "head_by_head").size  # worth more in the flagship, for no known reason
        assert order
        assert own.explained[0] == pytest.approx(1 - order.value / own.gap.value, abs=0.02)
        assert own.explained[1].low is None, "two processes have no interval"
        assert found.shares[board] == own.explained[0]


def test_few_processes_have_sizes_without_intervals() -> None:
    found = one(boards=1, processes=1)
    overlap = priced(found, "overlap")
    assert overlap.size
    assert overlap.size.draws is None
    assert overlap.size.interval.to_dict()["reason"]
    assert not overlap.interacts


def test_without_rows_there_is_no_ledger() -> None:
    assert ledger.ledgers([], made.hashes()) == []
    assert ledger.percent(math.log(1.25)) == pytest.approx(25)


def test_made_rows_are_rows() -> None:
    for row in made.rows(boards=1, processes=1):
        results.check(row)


def added(way: Ledger) -> dict[str, float]:
    """The terms that add up to a gap, by name."""
    return {term.term.name: term.size.value for term in way.terms if term.size and not term.term.part_of}


PROBLEMS = [Problem.square(4, 2048 // head_dim, 4096, head_dim, causal=causal) for head_dim, causal in made.SAME]


@pytest.mark.parametrize("start", ["gluon", "tlx@3.8.0"])
@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_the_way_from_another_language_is_a_chain_of_measured_kernels(start: str, problem: Problem) -> None:
    """The same program in CUDA, what that lacks, and the flagship's tile, where its shape is another."""
    found = one(problems=(problem,))
    way, series = found.from_(start), start.partition("@")[0]
    lazily, integers = made.WORTH["lazily_at_square"], made.WORTH["integers_at_square"]
    votes = {made.LAZILY: lazily, made.LACKING: lazily + integers, catalog.LACKING: made.WORTH["integer_max"]}
    expected = {f"{series}_schedule": made.WORTH[f"{series}_schedule"]}
    if worth := votes.get(same := made.same(start, problem)):
        expected[f"{series}_votes"] = worth
    if same.endswith(catalog.SQUARE.slug):
        expected[f"{series}_tile"] = made.WORTH["own_tile"]
    assert added(way) == {name: pytest.approx(worth, abs=0.004) for name, worth in expected.items()}
    assert not [term.why for term in way.terms if term.why]
    assert way.gap
    assert way.remainder
    assert sum(added(way).values()) == pytest.approx(way.gap.value, abs=1e-12)
    assert way.remainder.value == pytest.approx(0, abs=1e-12)
    assert way.on("board1").start == start


def test_what_a_language_lacks_is_left_out_at_its_tile_and_the_parts_too() -> None:
    """Lazy rescaling gains less there than at the flagship's own."""
    way = one(problems=(made.CAUSAL,)).from_("gluon")
    parts = {term.term.name: term for term in way.terms if term.term.part_of}
    assert set(parts) == {"gluon_integer_max", "gluon_lazy_rescale"}
    for name, worth in (("gluon_integer_max", "integers_at_square"), ("gluon_lazy_rescale", "lazily_at_square")):
        size = parts[name].size
        assert size
        assert size.value == pytest.approx(made.WORTH[worth], abs=0.002)
        assert {end.partition(" at ")[2] for end in way.left_out(parts[name].term)} == {catalog.SQUARE.slug}


def test_what_was_not_timed_at_a_languages_tile_has_no_size() -> None:
    """What the flagship loses at its own tile is another number."""
    rows = [
        row
        for row in made.rows()
        if (row.get("technique"), row.get("tile")) != (catalog.LAZILY, catalog.SQUARE.to_dict())
    ]
    (found,) = ledger.ledgers(rows, made.hashes())
    way = found.from_("gluon")
    assert set(added(way)) == {"gluon_tile"}
    why = "without_lazy_rescale at 128x128-s2-w8: not measured yet"
    assert priced(way, "gluon_votes").why == priced(way, "gluon_schedule").why == why
    assert way.remainder
    left = made.WORTH["gluon_schedule"] + made.WORTH["lazily_at_square"]
    assert way.remainder.value == pytest.approx(left, abs=0.004)


def test_the_tile_is_the_flagships_though_a_smaller_one_was_timed_last() -> None:
    rows = made.rows(boards=1, processes=1)
    square = catalog.SQUARE.to_dict()
    last = next(row for row in rows if (row.get("technique"), row.get("tile")) == (catalog.LAZILY, square))
    (found,) = ledger.ledgers([*rows, {**last, "time": "2099-01-01T00:00:00Z"}], made.hashes())
    assert found.tile == Tile(192, 80, 3, 12)


@pytest.mark.parametrize("start", ["gluon", "tlx@3.8.0"])
def test_a_kernel_of_the_flagships_shape_has_no_term_about_its_tile(start: str) -> None:
    """Its stages may be others. What it lacks is left out at the flagship's tile then."""
    series, tile = start.partition("@")[0], Tile(192, 80, 2, 12).to_dict()
    (found,) = ledger.ledgers(
        [{**row, "tile": tile, "code": {}} if row.get("backend") == start else row for row in made.rows()],
        made.hashes(),
    )
    lazily, same = made.WORTH["lazily_at_square"], made.WORTH[f"{series}_schedule"]
    both = made.WORTH["lazy_rescale"] + made.WORTH["integer_max"]
    assert added(found.from_(start)) == {
        f"{series}_schedule": pytest.approx(same + lazily + made.WORTH["own_tile"] - both, abs=0.004),
        f"{series}_votes": pytest.approx(both, abs=0.004),
    }


def test_without_a_language_there_is_no_gap_from_it() -> None:
    rows = [row for row in made.rows() if row.get("backend") != "tlx@3.8.0"]
    (found,) = ledger.ledgers(rows, made.hashes())
    assert found.gap
    assert found.from_("gluon").gap
    way = found.from_("tlx@3.8.0")
    assert way.gap is way.remainder is None
    assert priced(way, "tlx_schedule").why == "tlx@3.8.0: not measured yet"


def test_the_flagship_at_smaller_tiles_is_a_part_of_the_step_to_one_large_block(found: Ledger) -> None:
    sizes = {name: priced(found, name).size for name in ("own_tile", "third_warpgroup", "fewer_keys")}
    assert all(sizes.values())
    assert sum(sizes[name].value for name in ("third_warpgroup", "fewer_keys") if sizes[name]) == pytest.approx(
        sizes["own_tile"].value, abs=1e-12
    )
    (small,) = ledger.ledgers(made.rows((Problem.square(4, 32, 4096, 64),)), made.hashes())
    names = {term.term.name for term in small.terms}
    assert names >= {"own_tile", "register_split"}
    assert not names & {"third_warpgroup", "fewer_keys"}
    assert small.tile == Tile(192, 128, 3, 12), "not the tile at which the split of registers is left out"


def test_maxima_of_integers_have_a_cause_where_they_pay_less_in_what_core_triton_can_express(found: Ledger) -> None:
    assert priced(found, "integer_max").cause == "compiler"
    pay = made.WORTH["integer_max"]
    paying = one(worth={"integers_in_core": pay})
    assert priced(paying, "integer_max").cause == "unexplained"
    assert priced(one(worth={"integers_alone": pay}), "integer_max").cause == "compiler", (
        "core Triton's own comes first"
    )
    for ledger_ in (found, paying):
        for board in ledger_.boards:
            causes = {term.term.name: term.cause for term in ledger_.on(board).terms}
            assert causes == {term.term.name: term.cause for term in ledger_.terms}
    for worth, cause in ((0.001, "compiler"), (pay, "unexplained")):
        rows = [row for row in made.rows(worth={"integers_alone": worth}) if not _is_of_core(row, catalog.INTEGERS)]
        (alone,) = ledger.ledgers(rows, made.hashes())
        assert priced(alone, "integer_max").cause == cause, "of the CUDA kernel, where core Triton's was not timed"
    neither = [row for row in rows if row.get("technique") != catalog.WITH_INTEGERS]
    (unmeasured,) = ledger.ledgers(neither, made.hashes())
    assert priced(unmeasured, "integer_max").cause == "unexplained"


def _is_of_core(row: dict, technique: str) -> bool:
    return (row.get("backend"), row.get("technique")) == ("triton", technique)


def test_a_technique_of_both_without_the_kernel_that_lacks_it_has_no_size_and_says_why() -> None:
    """That kernel is a CUDA kernel; what core Triton's own gains is only shown."""
    (found,) = ledger.ledgers([row for row in made.rows() if not _is_of_core(row, catalog.SECTIONS)], made.hashes())
    order = priced(found, "head_by_head")
    assert order.size
    assert (order.cause, order.own, order.why) == ("unexplained", None, "")
    less = [row for row in made.rows() if row.get("technique") != catalog.VOCABULARY]
    (missing,) = ledger.ledgers(less, made.hashes())
    assert (priced(missing, "head_by_head").size, priced(missing, "head_by_head").limited) == (None, None)
    assert priced(missing, "head_by_head").why == "triton_vocabulary: not measured yet"
    elsewhere = [
        {**row, "environment": "board0-0", "group": "another"} if row.get("technique") == catalog.VOCABULARY else row
        for row in made.rows()
    ]
    (apart,) = ledger.ledgers(elsewhere, made.hashes())
    assert priced(apart, "head_by_head").size is None
    assert "no group timed them with the other terms" in priced(apart, "head_by_head").why


def test_a_cause_rests_on_all_processes_that_timed_its_kernels() -> None:
    """Core Triton's kernel is new, and one process timed it; the kernels of CUDA are as they were in the others."""
    rows = [row for row in made.rows() if row.get("backend") != "triton" or row.get("environment") == "board0-0"]
    (found,) = ledger.ledgers(rows, made.hashes())
    assert found.gap
    assert found.gap.processes == 1
    integers = priced(found, "integer_max")
    assert integers.size
    assert integers.size.interval.low is None
    assert integers.cause == "compiler"


@pytest.mark.parametrize(("alone", "cause"), [(0.0, "unexplained"), (0.03, "language")])
def test_an_order_of_tiles_that_gains_more_in_the_flagship_has_no_known_cause(alone: float, cause: str) -> None:
    """The small blocks of core Triton's kernel are a reason for gaining more there, and for nothing else."""
    order = priced(one(worth={"order_alone": alone}), "head_by_head")
    assert order.size
    assert (order.size.value > 0, order.cause) == (cause == "unexplained", cause)


def test_what_both_gain_is_no_part_of_the_gap() -> None:
    """At head_dim 64 core Triton's best kernel has maxima of integers and the order of tiles; so has the kernel that is
    the same program in CUDA, and what each gains there is taken out."""
    problem = Problem.square(4, 32, 4096, 64)
    found = one(problems=(problem,))
    for name, kind in (("integer_max", "integers"), ("head_by_head", "order")):
        term = priced(found, name)
        assert term.cause == (term.term.more or term.term.cause)
        assert term.size
        assert term.alone
        assert term.own
        assert term.limited
        assert term.limited.value == pytest.approx(made.WORTH[f"{kind}_alone"], abs=0.004)
        assert term.own.value == pytest.approx(made.WORTH[f"{kind}_in_triton"], abs=0.004)
        assert term.size.value == pytest.approx(made.WORTH[name] - made.WORTH[f"{kind}_alone"], abs=0.004)
        assert term.alone.value == pytest.approx(made.WORTH[name], abs=0.004)
    compiler = priced(found, "compiler")
    assert compiler.size
    assert compiler.size.value == pytest.approx(made.WORTH["compiler"], abs=0.004)
    assert found.gap
    assert found.remainder
    assert abs(found.remainder.value) < 0.005
    added = [term.size.value for term in found.terms if term.size and not term.term.part_of]
    assert sum(added) + found.remainder.value == pytest.approx(found.gap.value, abs=1e-12)


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_a_kernel_of_gluon_with_maxima_of_integers_lacks_lazy_rescaling_alone(problem: Problem) -> None:
    """Its machine code says that it has them. At head_dim 64 the flagship does not rescale lazily."""
    way = one(problems=(problem,)).from_("gluon")
    names = {term.term.name for term in way.terms}
    assert ("gluon_integer_max" in names) is not made.has_integers("gluon", problem)
    assert ("gluon_votes" in names) is (problem.head_dim == 128 or not made.has_integers("gluon", problem))


def test_what_a_recorded_kernel_lacks_is_timed_at_its_tile() -> None:
    """What the experiment leaves out at a smaller tile fits the kernels of Gluon and TLX that were timed."""
    rows = [row for _, path in results.iter_recorded(ROOT / "reports" / "recorded") for row in _timed(path)]
    found = ledger.ledgers(rows, reading.checkout_hashes())
    known = [way for one in found for start in (catalog.GLUON, catalog.TLX) if (way := one.from_(start)).gap]
    assert known
    for way in known:
        cells = {catalog.at(name, tile) for name, tile, *_ in catalog.at_their_tiles(way.problem)}
        terms = [each.term for each in way.terms]
        names = {name for term in terms for name in (*way.left_out(term), *map(way.kernel, term.step or ()))}
        assert {name for name in names if " at " in name} <= cells, way.problem.slug


def _timed(path: Path) -> list[dict[str, Any]]:
    return list(results.read(path)) if path.parent.name == ledger.EXPERIMENT else []


def test_a_language_that_is_not_measured_lacks_nothing_that_is_known() -> None:
    """Nor is known at which tile."""
    rows = [row for row in made.rows() if row.get("backend") != "gluon"]
    (found,) = ledger.ledgers(rows, made.hashes())
    assert [term.term.name for term in found.from_("gluon").terms] == ["gluon_schedule"]
