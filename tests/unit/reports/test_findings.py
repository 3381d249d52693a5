"""The page of findings: every reproducer shows its finding here, and a title that rows contradict is named."""

import subprocess
import sys
from typing import Any

import pytest

from harness.build import tritons
from harness.catalog import sources
from harness.expressibility import matrix
from reports.pages import findings
from reports.pages.prose import Claims
from tests.support.pages import EMPTY, rendered

BLOCKS: dict[str, dict[str, Any]] = {block["name"]: block for _, block, _ in findings.sections()}


def test_at_most_ten_findings_name_proofs_files_and_kinds_that_exist() -> None:
    assert len(findings.sections()) == len(BLOCKS) <= findings.MOST
    assert findings.NOTE.read_text().count("\n```toml finding\n") == len(BLOCKS)  # each heading was understood
    proofs = {proof.name for claim in matrix.claims() for proof in claim.proofs}
    for name, block in BLOCKS.items():
        assert (sources.ROOT / block["file"]).is_file(), name
        assert {proof for proof, _, _ in block.get("proofs", ())} <= proofs, name
        assert {kind for _, _, kind in block.get("proofs", ())} <= set(findings.KINDS), name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "version"), [(name, version) for name, block in BLOCKS.items() for version in findings.prints(block)]
)
def test_a_reproducer_prints_what_the_page_says(name: str, version: str) -> None:
    if not tritons.is_here(version):
        pytest.skip(f"{tritons.name(version)} is not in build/triton")
    block = BLOCKS[name]
    command = findings.command_of(block).replace("python", sys.executable, 1)
    folder, variables = (sources.ROOT / block["file"]).parent, tritons.variables(version)
    done = subprocess.run(command, shell=True, cwd=folder, env=variables, capture_output=True, text=True)
    assert findings.prints(block)[version] in done.stdout + done.stderr, f"{command}: printed {done.stdout[-600:]}"


def test_without_rows_nothing_is_claimed() -> None:
    claims = Claims()
    variables = findings.page(EMPTY, [], [], claims)
    text = rendered("findings.html", variables)
    assert "not run" in text
    assert "not measured" in text
    assert claims.broken == []
    assert {unknown.partition(":")[0] for unknown in claims.unknown} >= set(BLOCKS) - {"exponentials"}
    assert all(len(one.issue) > len(one.title) for one in variables["findings"])


def test_an_issue_has_title_states_command_and_program() -> None:
    one = findings.page(EMPTY, [], [], Claims())["findings"][0]
    assert one.issue.startswith("# Triton 3.6.0 and 3.7.1")
    assert "| 3.6.0 | 3.7.1 |" in one.issue
    assert "`python idle_barriers.py`" in one.issue
    assert "def product(" in one.issue
