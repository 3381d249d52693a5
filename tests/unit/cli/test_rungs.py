"""A new rung is three edits: by hand as README says, or by `new`. Lint sees what disagrees, and a report finds it."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.catalog import rungs, techniques
from harness.cli import rungs as commands
from harness.setup import bootstrap
from tests.conftest import CHECKOUT
from tests.support.checkout import copied

LADDER = "harness/operators/attention/ladders/ampere.py"
CUDA, TRITON = (f"{room}/attention/ampere/xor_swizzle" for room in ("cuda_kernels", "triton_kernels"))


def run(root: Path, *words: str) -> str:
    done = subprocess.run([sys.executable, "-m", *words], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture
def root(tmp_path: Path) -> Path:
    copied(tmp_path, "pyproject.toml", "README.md", ".clang-format")
    recorded = Path("reports/recorded/compilers")
    shutil.copytree(CHECKOUT / recorded, tmp_path / recorded)
    shutil.copytree(CHECKOUT / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def edit_by_hand(root: Path) -> None:
    """What README's section says, with its own entry."""
    text = (root / f"{CUDA}.cu").read_text()
    text = text.replace("Builds on direct_rescale", "Builds on xor_swizzle")
    text = re.sub(r"(KERNEL\(.*?\) |launch_kernel<)xor_swizzle", r"\1my_swizzle", text)
    (root / f"{CUDA}.cu").with_stem("my_swizzle").write_text(text)
    text = (root / f"{TRITON}.py").read_text().replace("Builds on direct_rescale", "Builds on xor_swizzle")
    (root / f"{TRITON}.py").with_stem("my_swizzle").write_text(text)
    (entry,) = re.findall(r"```python\n( *Technique\(\n.*?\n *\))\n *```", (root / "README.md").read_text(), re.DOTALL)
    entry = entry.replace('"xor_swizzle",', '"my_swizzle",').replace('"direct_rescale",', '"xor_swizzle",')
    ladder = (root / LADDER).read_text()
    (root / LADDER).write_text(ladder[: ladder.rindex(")")] + f"{entry},\n)\n")
    run(root, "ruff", "format", "--quiet", LADDER)


@pytest.mark.slow
def test_the_three_edits_of_readme_are_enough(root: Path) -> None:
    edit_by_hand(root)
    if (known := CHECKOUT / ".mypy_cache").is_dir():  # of all files but those that were edited
        shutil.copytree(known, root / ".mypy_cache")
    run(root, "harness.setup.lint")
    assert "my_swizzle" in run(root, "harness", "list")
    checked = run(root, "harness", "check", "my_swizzle", "--on", "cpu", "--problem", "b1-h1-n128-d64-fp16-full")
    assert checked.count("my_swizzle") == 2, "both twins are checked"
    assert "not graded yet" in run(root, "harness", "expressibility", "my_swizzle")
    fast = ("-q", "-p", "no:benchmark", "-p", "no:cacheprovider", "-m", "not gpu and not full and not slow")
    files = ("catalog/test_techniques.py", "catalog/test_sources.py", "expressibility/test_matrix.py")
    run(root, "pytest", *fast, *(f"tests/unit/{file}" for file in files))


DRAWN = "techniques.html", "technique/synthetic.html"
FEW_PAGES = f"""
import functools
from harness.cli import main
from reports import build

build.build = functools.partial(build.build, only={DRAWN})
main()
"""
"""The command line, which draws a site of these pages alone: tests/unit/reports draws the others."""
ENTRIES = """
    Technique("synthetic", "a rung that this test adds", builds_on=("mma_ldmatrix",), limits=MMA),
    Technique("broken", "neither language can build it", builds_on=("mma_ldmatrix",), limits=MMA),
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy with two more techniques: mma_ldmatrix under another name, and one that is broken in both languages; with
    few problems, the first one small, as each takes seconds."""
    root = copied(tmp_path / "checkout", "tests/planted", "pyproject.toml", *bootstrap.LOCKS)
    for kernels, suffix in (("cuda_kernels", ".cu"), ("triton_kernels", ".py")):
        folder = root / kernels / "attention/ampere"
        source = (folder / f"mma_ldmatrix{suffix}").read_text()
        (folder / f"synthetic{suffix}").write_text(source.replace("mma_ldmatrix", "synthetic"))
    (root / "cuda_kernels/attention/ampere/broken.cu").write_text(
        "#include <attention/attention.cuh>\nthis is no C++;\n"
    )
    (root / "triton_kernels/attention/ampere/broken.py").write_text("import os\n\nos._exit(3)\n")
    registry = root / LADDER
    entries = registry.read_text()
    assert entries.endswith("\n)\n"), "the registry does not end where this test expects it to"
    registry.write_text(entries.removesuffix("\n)\n") + ENTRIES + ")\n")
    ladder, correctness = (root / f"experiments/attention/{name}.py" for name in ("ladder", "correctness"))
    ladder.write_text(ladder.read_text().replace("(128, 64)", "(64,)").replace("(False, True)", "(False,)"))
    text, first = correctness.read_text(), "Problem(2, 6, 2, 128, 128, 64,"
    assert text.count(first) == 1, "experiments/attention/correctness.py is not what this test makes smaller"
    correctness.write_text(text.replace(first, "Problem(1, 1, 1, 64, 64, 64,"))
    return root


@pytest.mark.slow
def test_report_finds_a_rung_and_survives_its_broken_neighbour(tree: Path) -> None:
    command = [sys.executable, "-c", FEW_PAGES, "report", "synthetic", "broken"]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    index = Path(done.stdout.splitlines()[-1])
    assert index == tree / "reports/site/index.html"
    every, page = ((index.parent / name).read_text() for name in DRAWN)
    assert "technique/synthetic.html" in every
    assert "rung that this test adds" in page
    assert "HMMA" in page
    lines = [line for path in tree.glob("reports/runs/*.jsonl") for line in path.read_text().splitlines()]
    rows = [row for row in map(json.loads, lines) if row["kind"] in ("code", "gate")]
    found = {(row["kind"], row["technique"], row["backend"]): row for row in rows}
    for (_, name, backend), row in found.items():
        broken = "compile_error" if backend == "cuda" else "crashed"
        assert row["status"] == ("passed" if name == "synthetic" else broken)
    assert len(found) == 2 * (3 + 2), "machine code of three series, and gates of two languages"
    assert "broken.cu" in found["code", "broken", "cuda"]["reason"]
    assert "error" in found["code", "broken", "cuda"]["reason"]


COMMENT = re.compile("//.*")
DIFFERENCES = r"""
import re
from dataclasses import fields

from harness.catalog import techniques

OWN = {"name", "idea", "builds_on", "builds_on_in", "also", "tile", "grid", "shows"}
for copy in techniques.rungs():
    if copy.idea == "what changes here":
        parent = techniques.parent(copy)
        for name in {field.name for field in fields(copy)} - OWN:
            mine, theirs = (re.sub(" at 0x[0-9a-f]+", "", repr(getattr(one, name))) for one in (copy, parent))
            if mine != theirs:
                print(copy.name, parent.name, name)
"""
"""Prints what an entry says otherwise than its parent's and no technique has for itself."""


@pytest.mark.slow
def test_new_writes_files_that_agree(root: Path) -> None:
    """Of every rung, under a name of equal length, so that formatters break the same lines."""
    new = run(root, "harness", "new", "my_pipeline", "--from", "gemm/cp_async_pipeline")
    assert "added an entry to harness/operators/gemm/ladders/ampere.py; to undo all of it, delete" in new
    linted = subprocess.run([sys.executable, "-m", "harness.catalog.rungs"], cwd=root, capture_output=True, text=True)
    assert linted.stderr.count(f"its head says {rungs.UNCHANGED!r}") == 2
    for file in (root / name for name in re.findall("^wrote (.*)$", new, re.MULTILINE)):
        file.write_text(re.sub(f"{rungs.UNCHANGED}|{rungs.UNDESCRIBED}", "changes a step", file.read_text()))
    copies = {
        f"c{number}_{parent.name}"[: len(parent.name)]: parent for number, parent in enumerate(techniques.rungs())
    }
    for name, parent in copies.items():
        cuda, triton, _ = rungs.write(name, parent, "what changes here", root)
        for file in (cuda, triton):
            head = file.read_text()[:400]
            assert "What changes here." in head
            assert f"Builds on {parent.name}; {rungs.UNCHANGED}. Data moves as in {parent.name}." in head
            file.write_text(file.read_text().replace(rungs.UNCHANGED, "changes one step"))
        code = COMMENT.sub("", cuda.read_text())
        assert not re.search(rf"[<=] ?{parent.name}\b[>,;]", code), "the parent's kernel is not in this file"
    run(root, "harness.catalog.rungs")
    run(root, "ruff", "check")
    run(root, "ruff", "format", "--check")
    (root / "differences.py").write_text(DIFFERENCES)
    assert run(root, "differences") == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        (f"{CUDA}.cu", ") xor_swizzle(", ") xor_swizle(", "its kernel is xor_swizle, expected the file's name"),
        (f"{CUDA}.cu", "Builds on direct_rescale", "Builds on scalar", "says it builds on scalar, expected: Builds on"),
        (f"{CUDA}.cu", "Builds on direct_rescale", "Like it", "does not say what it builds on"),
        (f"{CUDA}.cu", "; changes", "; changes nothing yet: ", "its head says 'changes nothing yet'"),
        (f"{TRITON}.py", "import twin", "import other", "has no function xor_swizzle"),
    ],
)
def test_lint_names_a_file_that_disagrees_with_its_entry(
    tmp_path: Path, file: str, old: str, new: str, said: str
) -> None:
    for room in ("cuda_kernels", "triton_kernels"):
        shutil.copytree(CHECKOUT / room, tmp_path / room)
    assert rungs.disagreements(tmp_path) == []
    text = (tmp_path / file).read_text()
    assert old in text
    (tmp_path / file).write_text(text.replace(old, new))
    (told,) = rungs.disagreements(tmp_path)
    assert told.startswith(f"{file}: ")
    assert said in told
    (tmp_path / file).rename((tmp_path / file).with_stem("stray"))
    missing, stray = sorted(rungs.disagreements(tmp_path), key=lambda told: "stray" in told)
    assert "is missing" in missing
    assert "has no entry" in stray


@pytest.mark.parametrize(
    ("name", "idea", "said"),
    [
        ("My_swizzle", "x", "expected a C++ identifier in lower case of three characters or more"),
        ("ab", "x", "of three characters or more"),
        *((name, "x", "a keyword of C++ or Python") for name in ("class", "lambda", "union", "static_assert")),
        *((name, "x", "a name in xor_swizzle.cu") for name in ("launch", "args", "row_max")),
        ("ldmatrix_x4_trans", "x", "a name in ldmatrix.cuh"),
        ("twin", "x", "a name in xor_swizzle.py"),
        ("link", "x", "a function of the C library"),
        *((name, "x", "an operator, a library or a backend") for name in ("gemm", "fa3", "cuda")),
        ("wgmma", "x", "which the registry has already"),
        ("my_quoted", 'a "quoted" word', "expected one line without quotation marks"),
        ("stray", "x", "exists; choose another name"),
    ],
)
def test_new_refuses_what_it_cannot_write(tmp_path: Path, name: str, idea: str, said: str) -> None:
    (tmp_path / CUDA).parent.mkdir(parents=True)
    (tmp_path / CUDA).with_name("stray.cu").touch()
    with pytest.raises(ValueError, match=re.escape(said)):
        rungs.write(name, techniques.get("attention/xor_swizzle"), idea, tmp_path)


@pytest.mark.parametrize("width", [100, 200])
def test_diff_shows_both_languages(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, width: int) -> None:
    monkeypatch.setattr(commands.console, "width", width)
    commands.diff("attention/xor_swizzle")
    said = capsys.readouterr().out
    assert "+++ cuda_kernels/attention/ampere/xor_swizzle.cu" in said
    assert "the same program as direct_rescale" in " ".join(said.split())
    assert ("--- cuda_kernels/attention/ampere/direct_rescale.cu" in said.splitlines()[0]) is True


def test_diff_of_an_ablation_names_its_patch_and_of_a_first_rung_nothing() -> None:
    assert commands.changes(techniques.get("without_turns"), "triton") == []
    assert commands.changes(techniques.get("without_turns"), "cuda")[1].endswith("without_turns.patch")
    assert "builds on no other kernel" in commands.changes(techniques.get("attention/scalar"), "cuda")[0]


def test_a_gain_is_taken_within_a_group_or_over_the_anchors_of_two() -> None:
    import pandas

    def row(group: str, backend: str, technique: str | None, speed: float) -> dict[str, object]:
        about = {"environment": "e", "group": group, "problem": "p", "time": "2026", "backend": backend}
        return {**about, "technique": technique, "speed": speed}

    rows = [row("a", "sdpa_cudnn", None, 100), row("a", "cuda", "new", 60), row("b", "sdpa_cudnn", None, 110)]
    rows += [row("b", "cuda", "old", 33)]
    table = pandas.DataFrame(rows)
    ours, theirs = (table[table.technique == name] for name in ("new", "old"))
    assert commands.gains(ours, theirs, table) == {"p": "(~2.00x)"}
    together = pandas.DataFrame([*rows, row("a", "cuda", "old", 40)])
    theirs = together[together.technique == "old"]
    assert commands.gains(ours, theirs, together) == {"p": "(1.50x)"}


@pytest.mark.xdist_group("recorded")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["attention/vectorized_loads", "attention_backward/paired_tiles"])
def test_show_says_what_is_recorded_and_where_the_page_is(capsys: pytest.CaptureFixture, name: str) -> None:
    """Of its ladder, or of another experiment if that alone has times of it."""
    technique = techniques.get(name)
    parent = techniques.parent(technique)
    commands.show(name)
    said = capsys.readouterr().out
    assert parent is not None
    assert f"builds on {parent.name}" in said
    assert technique.idea in said
    assert re.search(r"NVIDIA H\d00[^:]*: TFLOPS", said)
    assert f"twinkernels diff {name}" in said
