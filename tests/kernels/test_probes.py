"""Every claim of the expressibility matrix is proven by the compilers that are here; each proof needs its control."""

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Container, Iterable, Iterator
from pathlib import Path

import pytest

from harness.build import tritons
from harness.catalog import cases, sources, techniques, tiles
from harness.catalog.cases import Case
from harness.catalog.entries import Tile
from harness.cli.expressibility import needed
from harness.expressibility import matrix, programs, survey, verdicts
from harness.expressibility.claims import RELEASES, RIVALS, VERSIONS, Probe
from harness.expressibility.survey import Todo
from harness.operators.attention.claims.twin import Twin
from harness.operators.attention.problem import Problem
from tests.support import chosen, proven

INSTALLED = tritons.installed() or ""
CLAIMS, OF_RIVALS = matrix.claims(), matrix.claims_of_rivals()
Known = dict[programs.Job, programs.Texts]


def can_run(each: Todo) -> bool:
    return all(tritons.is_here(*one) for one in needed(each))


def todo(*versions: str) -> list[Todo]:
    return survey.todo(CLAIMS, versions)


@pytest.fixture(scope="module")
def known(request: pytest.FixtureRequest) -> Known:
    """The texts of every program that the chosen tests need. The forms of a probe are compiled together."""
    here = [item for item in request.session.items if item.path == Path(__file__) and hasattr(item, "callspec")]
    chosen: list[Todo] = [item.callspec.params["each"] for item in here if "each" in item.callspec.params]
    if request.config.getoption("--install"):
        install(chosen)
    return dict(programs.compiled(job for each in chosen if can_run(each) for job in jobs(each)))


def jobs(each: Todo) -> tuple[programs.Job, programs.Job]:
    _, proof, version = each
    return programs.at(proof.subject, version), programs.at(proof.control, version)


def install(asked: Iterable[Todo]) -> None:
    """The compilers that these proofs need. Raises RuntimeError with pip's words."""
    for version, dialect in sorted(set().union(*map(needed, asked))):
        if not tritons.is_here(version, dialect):
            tritons.install(version, dialect)


def texts(each: Todo, known: Known) -> tuple[programs.Texts, programs.Texts]:
    if not can_run(each):
        pytest.skip(f"needs a compiler that is not in build; `twinkernels expressibility '{each[1].name}' --install`")
    if missing := [job for job in jobs(each) if job not in known]:
        known.update(programs.compiled(missing))
    subject, control = jobs(each)
    return known[subject], known[control]


def name(each: Todo) -> str:
    claim, proof, version = each
    return f"{claim.technique}-{claim.dialect}@{version}-{proof.name}".replace(" ", "_")


def check(each: Todo, known: Known) -> None:
    subject, control = texts(each, known)
    verdict = verdicts.judge(each[1], subject, control)
    assert verdict.state == verdicts.PROVEN, verdict.reason
    assert verdicts.judge(each[1], control, subject).state != verdicts.PROVEN, "the programs may be exchanged"


def test_what_is_not_here_is_installed_before_all_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """`make test-full` says --install: no proof is left out for want of its compiler."""
    assert "--install" in (sources.ROOT / "Makefile").read_text().partition("test-full:")[2].partition("\n\n")[0]
    here = {(INSTALLED, "triton")}
    monkeypatch.setattr(tritons, "is_here", lambda version, dialect="triton": (version, dialect) in here)
    monkeypatch.setattr(tritons, "install", lambda version, dialect: here.add((version, dialect)))
    every = [*todo(*RELEASES), *OF_BOTH_RIVALS]
    assert not all(map(can_run, every))
    install(every)
    assert all(map(can_run, every))


HERE = (INSTALLED, "")
FEW = chosen.by_commit(("named_barrier", "options", "swizzle_box", "wgmma_shape"), 2)
"""Probes of a run, whatever rows prove: one of each kind of text, in turn."""


def unproven(each: Todo) -> bool:
    subject = each[1].subject
    return (isinstance(subject, Probe) and subject.name in FEW) or not proven.claim(each)


@pytest.mark.parametrize(
    "each",
    [pytest.param(each, marks=() if unproven(each) else pytest.mark.full, id=name(each)) for each in todo(*HERE)],
)
def test_a_claim_is_proven_here_and_not_by_its_control(each: Todo, known: Known) -> None:
    check(each, known)


@pytest.mark.parametrize(
    ("proof", "control"),
    [
        ("options minctasm", Probe("options", "plain")),
        ("num_consumer_groups", Probe("options", "plain")),
        ("swizzle_box ldmatrix", Probe("swizzle_box", "8 mma_sync")),
    ],
    ids=str,
)
def test_a_proof_of_absence_fails_by_a_control_without_the_thing(proof: str, control: Probe) -> None:
    (named,) = {each for claim in CLAIMS for each in claim.proofs if each.name == proof}
    assert not named.seen
    job, other = ((program, INSTALLED) for program in (named.subject, control))
    compiled = dict(programs.compiled([job, other]))
    verdict = verdicts.judge(named, compiled[job], compiled[other])
    assert (verdict.state, verdict.reason.partition(":")[0]) == (verdicts.BROKEN, "control")


OTHERS = tuple(version for version in RELEASES if version != INSTALLED)


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("each", [each for each in todo(*OTHERS) if each[0].dialect != "cuda"], ids=name)
def test_a_claim_is_proven_in_every_version_that_it_names(each: Todo, known: Known) -> None:
    check(each, known)


OF_BOTH_RIVALS = survey.todo(OF_RIVALS, [VERSIONS[rival][0] for rival in RIVALS])


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("each", OF_BOTH_RIVALS, ids=name)
def test_what_a_rival_can_say_is_proven(each: Todo, known: Known) -> None:
    check(each, known)


def test_what_rivals_can_say_has_rows() -> None:
    """Their compilers are not installed for every run: `expressibility --rivals --install`, then `record`."""
    assert [each[1].name for each in OF_BOTH_RIVALS if not proven.claim(each)] == []


def test_without_its_swizzle_the_hooked_kernel_is_another_program() -> None:
    """It still reads the tile by ldmatrix, which a proof shows; but not from the same addresses."""
    asked = [(Probe("swizzle_hook", form), INSTALLED) for form in ("plain", "hook", "ir_override")]
    sass = {job[0].form: texts["sass"] for job, texts in programs.compiled(asked) if isinstance(job[0], Probe)}
    assert sass["hook"] != sass["plain"] != sass["ir_override"]


@pytest.mark.skipif(INSTALLED not in ("3.6.0", "3.7.1"), reason="mended in Triton 3.8")
def test_the_transposed_view_of_an_unswizzled_box_is_the_box_itself() -> None:
    """Line by line: so one of the two programs reads what it does not say."""
    forms = {form: (Probe("box_gluon", form), INSTALLED) for form in ("plain", "transposed", "reinterpreted")}
    ptx = {job[0].form: texts["ptx"] for job, texts in programs.compiled(forms.values()) if isinstance(job[0], Probe)}
    assert ptx["transposed"] == ptx["plain"]
    assert ptx["reinterpreted"] != ptx["plain"]


def forms(probe: Probe) -> Container[str]:
    """Those that its file goes through when it runs alone; where its compiler is not here, what the file says."""
    try:
        module = importlib.import_module(probe.file.removesuffix(".py").replace("/", "."))
    except ModuleNotFoundError:
        return (sources.ROOT / probe.file).read_text()
    found: Container[str] = module.FORMS
    return found


def test_a_file_that_runs_alone_goes_through_every_form_that_a_proof_is_about() -> None:
    proofs = [proof for claim in (*CLAIMS, *OF_RIVALS) for proof in claim.proofs]
    subjects = {proof.subject for proof in proofs if isinstance(proof.subject, Probe)}
    assert [probe.label for probe in subjects if probe.form not in forms(probe)] == []
    controls = {proof.control for proof in proofs if isinstance(proof.control, Probe)}
    for file in {probe.file for probe in subjects | controls}:
        assert '__name__ == "__main__"' in (sources.ROOT / file).read_text(), f"{file} cannot run alone"


def test_every_form_of_a_probe_is_in_a_proof() -> None:
    proofs = [proof for claim in (*CLAIMS, *OF_RIVALS) for proof in claim.proofs]
    used = {each for proof in proofs for each in (proof.subject, proof.control) if isinstance(each, Probe)}
    probes = {probe.file: probe for probe in used}
    folder = sources.ROOT / "triton_kernels" / "probes"
    assert {f"triton_kernels/probes/{path.name}" for path in folder.glob("[a-z]*.py")} - set(probes) == set()
    known = {file: said for file, probe in probes.items() if isinstance(said := forms(probe), tuple)}
    unused = {(file, form) for file, said in known.items() for form in said} - {(each.file, each.form) for each in used}
    assert unused == set(), "forms without a proof: add one, or remove them"


def alone() -> list[str]:
    """Probes that something is shown of by the installed Triton."""
    subjects = {
        proof.subject.name
        for claim, proof, version in todo(INSTALLED)
        if isinstance(proof.subject, Probe) and version == INSTALLED and claim.dialect in ("triton", "gluon")
    }
    return sorted(subjects)


@pytest.mark.parametrize(
    "probe", [pytest.param(probe, marks=() if probe in FEW else pytest.mark.full) for probe in alone()]
)
def test_a_probe_alone_prints_what_its_proofs_show(probe: str, known: Known) -> None:
    """As a reader without this project runs it: the file, and a Python that has Triton."""
    path = sources.ROOT / "triton_kernels" / "probes" / f"{probe}.py"
    command = [sys.executable, str(path)]
    environment = tritons.variables(INSTALLED)
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=os.sep)
    said = " ".join((done.stdout + done.stderr).split())
    for each in todo(INSTALLED):
        subject = each[1].subject
        shown = each[1].seen and each[1].detector.order is None
        if shown and isinstance(subject, Probe) and subject.name == probe:
            for line in verdicts.judge(each[1], *texts(each, known)).lines:
                assert re.sub(r"  x\d+$", "", line) in said, each[1].name


def test_every_dialect_with_claims_has_versions() -> None:
    assert {claim.dialect for claim in CLAIMS} <= set(VERSIONS)


PROBLEM = Problem.square(2, 4, 1024, 128)
"""As programs.case_of has it."""


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
                    twin = Twin(technique.name, backend, tile.slug, head_dim=PROBLEM.head_dim)
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
    assert dict(errors(twins(version), version, tmp_path)) == {}
