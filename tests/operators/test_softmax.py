"""An operator in a folder of its own, registered and nothing else: every command that needs no GPU knows it."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness import cli, operators
from harness.catalog.techniques import TWINS
from harness.measure import worker
from harness.setup import doctor
from tests.conftest import CHECKOUT
from tests.support import children, forked

FOLDER = Path(__file__).parent / "softmax"


@pytest.fixture(scope="module", autouse=True)
def _registered() -> Iterator[None]:
    """In the process that runs the commands, and in its workers; not in this one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(operators.VARIABLE, str(FOLDER))
        yield


def elsewhere(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function of this file returns in a process that knows the operator."""
    return children.call(function, *arguments, environment={operators.VARIABLE: str(FOLDER)})


def command(*arguments: str) -> tuple[int, str, str]:
    worker.subprocess = forked.SUBPROCESS
    done = CliRunner(env={"COLUMNS": "400"}).invoke(cli.app, arguments)
    return done.exit_code, done.stdout, done.output


def harness(*arguments: str) -> Any:
    code, told, said = elsewhere(command, *arguments, "--json")
    assert code == 0, said
    return json.loads(told)


def test_it_has_300_lines_at_most() -> None:
    files = [path for path in FOLDER.rglob("*") if path.suffix in (".py", ".cu")]
    assert sum(len(path.read_text().splitlines()) for path in files) <= 300


def test_it_is_listed_with_its_experiment() -> None:
    known = harness("list")
    (entry,) = [one for one in known["techniques"] if one["operator"] == "softmax"]
    assert (entry["name"], entry["cuda"]) == ("online", "cuda_kernels/softmax/rows/online.cu")
    assert known["experiments"]["softmax/correctness"] == "Is softmax right, at any number of rows and columns?"
    assert "attention/correctness" in known["experiments"], "a name of several operators names its own"


@pytest.mark.slow
def test_both_languages_are_checked_on_a_cpu() -> None:
    rows = harness("check", "online", "--on", "cpu")
    gates = [row for row in rows if row["kind"] == "gate"]
    assert {(row["backend"], row["problem"]["rows"]) for row in gates} == {
        (backend, number) for backend in ("cuda", "triton") for number in (64, 65)
    }
    assert [row["status"] for row in gates] == ["passed"] * 4, [row.get("reason") for row in gates]
    assert {row["operator"] for row in gates} == {"softmax"}
    assert set(gates[0]["numerics"]) == {"normal", "large"}


@pytest.mark.slow
def test_a_function_of_ones_own_is_checked(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def right(x):\n    return x.softmax(-1)\n\n\ndef wrong(x):\n    return x.softmax(0)\n")
    (row,) = harness("check", f"{file}:right", "--on", "cpu", "--problem", "softmax-r65-c33")
    assert row["status"] == "passed"
    code, _, said = elsewhere(command, "check", f"{file}:wrong", "--on", "cpu", "--operator", "softmax")
    assert code == 1
    assert "y is off by" in said


@pytest.mark.slow
@pytest.mark.skipif(doctor.nvcc() is None, reason="no nvcc here")
def test_both_languages_are_compiled_and_read() -> None:
    """By a Python of its own, which may start processes."""
    inspect = [sys.executable, "-m", "harness", "inspect", "softmax/online", "--arch", "sm_90a", "--json"]
    rows = json.loads(subprocess.run(inspect, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout)
    assert {row["backend"]: row["status"] for row in rows} == dict.fromkeys(TWINS, "passed")
    assert all(row["code"]["census"]["MUFU.EX2"] for row in rows)


@pytest.mark.slow
def test_its_claim_is_proven() -> None:
    (row,) = harness("expressibility", "softmax exponentials")
    assert (row["status"], row["operator"], row["technique"]) == ("passed", "softmax", "online")


def paged(folder: Path) -> tuple[str, bool, bool]:
    """Makes a page of a timing row; its slug, whether it is current, whether its speed is the problem's."""
    from harness import api
    from harness.catalog import techniques
    from harness.catalog.cases import Case, source_sha256
    from harness.catalog.entries import Tile
    from harness.rows import making, reading, schema
    from reports import build
    from tests.support import row_file

    problem = operators.parse("softmax-r4096-c96")
    case = Case("correctness", "online", "cuda", problem, Tile(32, 128))
    about = making.about(case, on="gpu", source_sha256=source_sha256(case), arch="sm_90a", environment="0" * 12)
    row = {"schema": 3, "kind": "timing", "time": "2026-11-27T10:00:00Z", "status": "passed", **about}
    row |= {"samples_ms": [0.0005] * 3, "mode": "burst", "group": "a-01"}
    schema.check(row)
    table = api.frame([row], "here")
    row_file.write(folder / "fresh.jsonl", [row_file.ENVIRONMENT | {"id": "0" * 12}, row])
    page = build.page_of(techniques.get("online"))
    given = {"recorded": folder / "recorded", "runs": [folder / "fresh.jsonl"], "only": [page, "techniques.html"]}
    build.PROCESSES = 1  # this process may start none
    build.build(folder / "site", **given, progress=lambda *_: None)
    is_current = reading.is_current(row, reading.checkout_hashes())
    return reading.slug(row), is_current, bool(table.tflops[0] == problem.flops / 0.0005 / 1e9)


@pytest.mark.slow
def test_a_timing_row_of_it_is_read_and_has_a_page(tmp_path: Path) -> None:
    assert elsewhere(paged, tmp_path) == ("softmax-r4096-c96", True, True)
    page = (tmp_path / "site/technique/online.html").read_text()
    for words in (
        "<h1>Online<code>online</code>",
        "One pass for maximum and sum",
        "softmax-r4096-c96",
        "3.9 [3.9, 3.9]",
    ):
        assert words in page, words
    assert "online.cu" in page
    assert 'href="technique/online.html"' in (tmp_path / "site/techniques.html").read_text()


def test_a_folder_that_describes_none_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected a folder whose operator.py has OPERATOR"):
        operators.register(FOLDER.parent)
