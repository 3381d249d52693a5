"""What the schema admits never breaks a page: rows of every kind, each with one field left out or changed."""

import copy
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import pytest

from harness.catalog import techniques
from harness.expressibility import verdicts
from harness.operators.attention.claims import CLAIMS
from harness.rows import schema
from reports import build
from tests.support.row_file import ENVIRONMENT, OF_KINDS, TIMING, write_recorded

pytestmark = pytest.mark.slow

Row = dict[str, Any]
VALUES = (None, True, 0, 1, -1, 300, 0.5, "x", "", [], {}, ["x"], [1], {"x": 1}, {"x": {}}, {"x": None})
FEW = (0, "x")
"""Of rows of which each needs pages or figures of its own."""
TECHNIQUES = {
    "gate": "overlapped_softmax",
    "sanitizer": "flagship",
    "code": "flagship",
    "counters": "flagship",
}
"""Of rows that pages look at for these alone."""
TIMED = TIMING | {"time": "2025-12-31T00:00:00Z"}
GIVEN = ("schema", "kind", "problem", "environment")
"""Fields that stay: what reads a file of rows, and the tests of the schema, see to these."""
SEEN_ELSEWHERE = ("arch", "mma", "source_sha256", "clock_ghz", "samples_ms", "time")
"""Fields of rows shown alone that change nothing where other kinds' change something."""
SHOWN_ALONE = {
    "roof": ("index.html", "technique/wgmma.html"),
    "proof": ("techniques.html",),
}
"""Kind of which a page takes the newest row alone -> the pages."""
ON_OWN_PAGE = "memory"
"""Kind of which a technique's page shows the newest row only: here each row has a technique, and a page, of its own."""
TOGETHER = (("timing", "gate", "code"), ("tune", "cupti", "counters", "sanitizer"), (ON_OWN_PAGE,))
"""Kinds that one site shows: no two are about the same part of the same page."""


def sample(kind: str) -> Row:
    row = OF_KINDS[kind] | ({"technique": TECHNIQUES[kind]} if kind in TECHNIQUES else {})
    if kind == "proof":
        claim = next(claim for claim in CLAIMS if claim.dialect == "triton")
        row |= {"technique": claim.technique, "proof": claim.proofs[0].name}
        row |= {"source_sha256": verdicts.source_sha256(claim.proofs[0])}
    return row


def changed(part: Any, values: Sequence[Any]) -> Iterator[Any]:
    """Copies of a part of a row: without one of its fields, or with another value, at any depth."""
    if isinstance(part, dict):
        for name, value in part.items():
            yield {other: kept for other, kept in part.items() if other != name}
            for new in (*values, *changed(value, values)):
                yield part | {name: new}
    elif isinstance(part, list):
        for place, value in enumerate(part[:1]):
            for new in (*values, *changed(value, values)):
                yield [*part[:place], new, *part[place + 1 :]]


def admitted(kind: str) -> list[Row]:
    """Of one kind, the row itself and all of its changed copies that may be recorded, each about a problem or a
    technique of its own where rows of a kind are told apart by it."""
    found: list[Row] = []
    whole, alone = sample(kind), kind in (*SHOWN_ALONE, ON_OWN_PAGE)
    for number, row in enumerate((whole, *changed(whole, FEW if alone or kind == "timing" else VALUES)), 1):
        mine = copy.deepcopy(row)
        if any(mine.get(name) != whole.get(name) for name in (*GIVEN, *(SEEN_ELSEWHERE if alone else ()))):
            continue
        if not alone:
            mine["problem"]["batch"] = number
        elif kind == ON_OWN_PAGE and mine.get("technique") == whole["technique"]:
            mine["technique"] = techniques.TECHNIQUES[len(found)].name
        try:
            schema.admit(mine)
        except ValueError:
            continue
        found.append(mine)
    return found


def drawn(folder: Path, rows: list[Row], only: tuple[str, ...] = ()) -> None:
    """The pages of these rows, as recorded beside timings of the kernels that they are about."""
    names = ("scalar", *TECHNIQUES.values())
    beside = [TIMED | {"technique": name, "experiment": where} for name in names for where in ("ladder", "hopper")]
    by_compilers = [row for row in rows if row["kind"] in ("proof", "code")]
    only = only or tuple(f"technique/{row['technique']}.html" for row in rows if row["kind"] == ON_OWN_PAGE)
    write_recorded(folder / "recorded", [ENVIRONMENT, *beside, *(r for r in rows if r not in by_compilers)])
    write_recorded(folder / "recorded", [ENVIRONMENT, *by_compilers], "compilers", "inspect")
    hashes = {(kernel.name, "cuda"): TIMING["source_sha256"] for kernel in techniques.kernels()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "PROCESSES", 1)  # to fork takes longer than a site of few rows
        build.build(
            folder / "site",
            recorded=folder / "recorded",
            runs=[],
            hashes=hashes,
            only=only,
            progress=lambda *_: None,
        )


def differs(kind: str, row: Row) -> str:
    """Which field of the row was changed."""
    return ", ".join(
        f"{name}: {row.get(name, 'left out')!r}"
        for name, value in sample(kind).items()
        if name != "problem" and row.get(name, "left out") != value
    )


@pytest.mark.parametrize("kinds", TOGETHER, ids=" ".join)
def test_no_admitted_row_breaks_a_page(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    rows = {kind: admitted(kind) for kind in kinds}
    assert all(len(found) > 15 for found in rows.values())
    try:
        drawn(tmp_path, [*chain.from_iterable(rows.values())])
    except Exception:
        for number, (kind, row) in enumerate((kind, row) for kind, found in rows.items() for row in found):  # which
            try:
                drawn(tmp_path / str(number), [row])
            except Exception as error:
                pytest.fail(f"{kind} row with {differs(kind, row)}: {error!r}")
        raise


def test_no_admitted_row_breaks_the_page_that_shows_it(tmp_path: Path) -> None:
    assert {*chain(*TOGETHER), *SHOWN_ALONE} == {*OF_KINDS}
    rows = {kind: admitted(kind) for kind in SHOWN_ALONE}
    assert all(len(found) > 1 for found in rows.values())
    for number, one_of_each in enumerate(zip_longest(*rows.values())):
        shown = {kind: row for kind, row in zip(rows, one_of_each, strict=True) if row}
        pages = tuple(chain.from_iterable(SHOWN_ALONE[kind] for kind in shown))
        try:
            drawn(tmp_path / str(number), [*shown.values()], pages)
        except Exception as error:
            told = "; ".join(f"{kind} row with {differs(kind, row)}" for kind, row in shown.items())
            pytest.fail(f"{told}: {error!r}")
