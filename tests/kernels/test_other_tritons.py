"""Every Triton and Gluon twin of the ladders compiles with each Triton that is tried beside the installed one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from harness.build import tritons
from harness.catalog import cases, sources, techniques, tiles
from harness.catalog.cases import Case
from harness.catalog.entries import Tile
from harness.expressibility import programs
from harness.expressibility.claims import RELEASES
from harness.operators.attention.claims import CLAIMS
from harness.operators.attention.claims.twin import Twin
from harness.operators.attention.problem import Problem

# Both files install what they lack, into the same folders: one process runs them.
pytestmark = [pytest.mark.spread, pytest.mark.xdist_group("tests/kernels/test_probes.py")]

OTHERS = tuple(version for version in RELEASES if version != tritons.installed())
PROBLEM = Problem.square(2, 4, 1024, 128)
"""As programs.case_of has it."""
FAILS: dict[tuple[str, str], str] = {}
"""(version, a twin's label) -> the first error that this compiler says of it."""


def twins(version: str) -> list[Twin]:
    """Each program at the tile that is committed for the H200, at its parent's where it has none of its own, or else at
    the registry's; none that is declined."""
    found: dict[tuple[str, str, Tile], Twin] = {}
    for technique in techniques.TECHNIQUES:
        for backend in sources.series(("triton", "triton_native", "gluon"), technique.path):
            names = [one.name for one in (technique, techniques.parent(technique, backend)) if one]
            best = [tiles.best_tile(name, backend, PROBLEM, "h200") for name in names]
            for tile in filter(None, (*best, techniques.reference_tile(technique, PROBLEM.head_dim))):
                if not techniques.unsupported(technique, f"{backend}@{version}", PROBLEM, tile):
                    case = Case("compile", technique.name, backend, PROBLEM, tile)
                    twin = Twin(technique.name, backend, PROBLEM.head_dim, tile.slug)
                    found.setdefault((cases.origin(case), backend, tile), twin)
                    break
    return list(found.values())


def errors(asked: Iterable[Twin], version: str, folder: Path) -> Iterator[tuple[str, str]]:
    """The label of each twin that does not compile, with the first error; none that the matrix says fails."""
    stated = {
        (claim.technique, claim.dialect) for claim in CLAIMS if claim.fault == "fails" and version in claim.holds_for
    }
    for (program, _), texts in programs.compiled([(twin, version) for twin in asked], folder):
        assert isinstance(program, Twin)
        if "sass" not in texts and (program.technique, program.backend.removesuffix("_native")) not in stated:
            lines = texts["words"].splitlines()
            yield program.label, next((line for line in lines if re.search(r"rror:|Assertion", line)), lines[0])


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("version", OTHERS)
def test_every_twin_compiles(version: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if not tritons.is_here(version):
        if not request.config.getoption("--install"):
            pytest.skip(f"{tritons.name(version)} is not in build/triton; --install downloads it")
        tritons.install(version)
    known = {label: said for (where, label), said in FAILS.items() if where == version}
    assert dict(errors(twins(version), version, tmp_path)) == known


def test_all_but_one_that_the_registry_declines_are_among_them() -> None:
    every = {
        (backend, cases.origin(Case("compile", technique.name, backend, PROBLEM, None)))
        for technique in techniques.TECHNIQUES
        for backend in sources.series(("triton", "triton_native", "gluon"), technique.path)
    }
    for version in OTHERS:
        here = {twin: programs.case_of(twin) for twin in twins(version)}
        assert {(case.problem, case.tile and case.tile.slug) for case in here.values()} == {
            (PROBLEM, twin.tile) for twin in here
        }
        missing = every - {(twin.backend, cases.origin(case)) for twin, case in here.items()}
        assert missing == ({("gluon", "cluster_multicast")} if version == "3.7.1" else set())


@pytest.mark.parametrize(
    ("texts", "failed"),
    [
        ({"sass": "FFMA", "words": ""}, {}),
        ({"words": "loc: note\nk.py:3:1: error: no\nk.py:4:1: error: more"}, "k.py:3:1: error: no"),
        ({"words": "ended: SIGABRT"}, "ended: SIGABRT"),
    ],
)
def test_the_first_error_of_a_twin_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, texts: dict[str, str], failed: str
) -> None:
    monkeypatch.setattr(programs, "compiled", lambda jobs, keep: ((job, texts) for job in jobs))
    twin = Twin("scalar", "triton", 128)
    assert dict(errors([twin], OTHERS[-1], tmp_path)) == ({twin.label: failed} if failed else {})
