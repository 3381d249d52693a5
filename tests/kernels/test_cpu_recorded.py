"""The CPU computes and counts what the GPU did: outputs recorded there, of the same sources, differ by fp32 rounding
only, and ncu's counts are the CPU's.

`twinkernels check --on gpu --backend cuda --save-outputs reports/recorded/<gpu>/outputs` records the outputs,
`twinkernels inspect --ncu` the counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from harness import variants
from harness.catalog import techniques
from harness.catalog.problem import Problem, Tile
from harness.catalog.techniques import TECHNIQUES
from harness.inspection import memory
from harness.measure import outputs
from harness.operators.attention import numerics, reference
from harness.rows import reading, results
from harness.variants import Case
from reports.data.dataset import Dataset
from reports.facts import agreement, correctness
from reports.facts.counters import Counted
from tests.conftest import CHECKOUT

pytestmark = pytest.mark.spread

FOLDER = CHECKOUT / "reports" / "recorded"
RECORDED = sorted(FOLDER.glob("*/outputs"))
PROBLEM = outputs.PROBLEMS[0]
EQUAL = ("mma_ldmatrix", "padded_rows", "xor_swizzle")
"""Only ldmatrix and stores of one kind touch the banks, and hardly anything else does at the same time."""
REPEATED = {"mma_ldmatrix": {"bank conflicts of stores, by hardware": 2}}
"""Passes that the hardware repeated in the recorded run. By their addresses these conflicts are equal too."""


def case_of(name: str, problem: Problem) -> Case:
    return Case("test", name, "cuda", problem, techniques.reference_tile(techniques.get(name), problem.head_dim))


def run(name: str, problem: Problem = PROBLEM) -> outputs.Pair:
    return outputs.compute(variants.load(case_of(name, problem), on="cpu").launch, problem, "cpu")


def judge(mine: outputs.Pair, other: outputs.Pair, problem: Problem = PROBLEM) -> numerics.Verdict:
    expected = reference.expect(problem, outputs.DISTRIBUTION, outputs.SEED, "cpu")
    return numerics.judge_same(*mine, *other, expected)


def comparisons() -> Iterator[Any]:
    """(technique, problem) of all that is recorded: in `make test` one problem of each kernel, those in turn."""
    for number, technique in enumerate(TECHNIQUES):
        own = [
            problem
            for problem in outputs.PROBLEMS
            if not techniques.unsupported(technique, "cuda", problem, case_of(technique.name, problem).tile)
        ]
        assert own, technique.name
        for turn, problem in enumerate(own):
            marks = () if turn == number % len(own) else pytest.mark.full
            yield pytest.param(technique.name, problem, marks=marks, id=f"{technique.name}-{problem.slug}")


@pytest.mark.parametrize(("technique", "problem"), list(comparisons()))
@pytest.mark.parametrize("folder", RECORDED or [None], ids=lambda folder: folder.parent.name if folder else "no GPU")
def test_a_kernel_computes_here_what_it_did_on_a_gpu(folder: Path | None, technique: str, problem: Problem) -> None:
    if folder is None:
        pytest.skip("no outputs are recorded: check --save-outputs reports/recorded/<gpu>/outputs, on a GPU")
    case = case_of(technique, problem)
    try:
        other = outputs.load(folder, case, variants.source_sha256(case))
    except outputs.Missing as missing:
        pytest.skip(str(missing))
    verdict = judge(run(technique, problem), other, problem)
    assert verdict.passed, verdict.reason


def test_a_report_holds_outputs_against_a_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of kernels that differ a little and a lot from what is in the folder; the page tells both."""
    small = tuple(problem for problem in outputs.PROBLEMS if problem.dtype == "fp16")[:1]
    monkeypatch.setattr(outputs, "PROBLEMS", small)
    folder = tmp_path / "h200" / "outputs"
    pairs = {"register_softmax": run("direct_rescale", small[0]), "direct_rescale": run("large_tile", small[0])}
    for name, pair in pairs.items():
        outputs.save(folder, case_of(name, small[0]), variants.source_sha256(case_of(name, small[0])), pair)
    rows = list(outputs.compared(["register_softmax", "direct_rescale", "xor_swizzle"], folder))
    for row in rows:
        results.check(row)
    assert {row["technique"]: row["status"] for row in rows} == {
        "register_softmax": "passed",
        "direct_rescale": "wrong",
    }
    timed = [{**row, "time": "2030-01-02T00:00:00Z"} for row in rows]
    (found,) = correctness.cpu_outputs([Dataset("a CPU", False, timed, reading.checkout_hashes())])
    assert (found.gpu, len(found.techniques), [row["technique"] for row in found.failed]) == (
        "h200",
        2,
        ["direct_rescale"],
    )
    assert 0.01 < found.differing < 1
    earlier = {results.key(row): row for row in rows if row["status"] == "passed"}
    other, computed = run("large_tile", small[0]), []
    monkeypatch.setattr(outputs, "compute", lambda *_: computed.append(1) or other)

    def again() -> list[object]:
        return list(outputs.compared(list(pairs), folder, find=lambda row: earlier.get(results.key(row))))

    assert rows[0] in again()
    assert computed == [1], "only what did not pass is computed again"
    case = case_of("register_softmax", small[0])
    outputs.save(folder, case, variants.source_sha256(case), other)
    assert rows[0] not in again()
    assert len(computed) == 3, "it was compared with another output"


def counted_by_ncu() -> list[object]:
    """ncu's rows of the CUDA twins on the CPU's problem, and on its like of head_dim 64."""
    rows = [row for path in FOLDER.glob("*/ncu.jsonl") for row in results.read(path) if row["kind"] == "counters"]
    return [
        pytest.param(
            row, id=f"{row['technique']}-d{row['problem']['head_dim']}", marks=() if quick else pytest.mark.full
        )
        for row in results.newest(rows)
        if row["backend"] == "cuda" and row["problem"]["seq_q"] == memory.PROBLEM.seq_q
        for quick in [row["technique"] in EQUAL and row["problem"]["head_dim"] == memory.PROBLEM.head_dim]
    ]


@pytest.mark.parametrize("row", counted_by_ncu())
def test_a_kernel_is_counted_as_by_ncu(row: dict[str, Any]) -> None:
    name, problem = row["technique"], Problem.from_dict(row["problem"])
    case = Case("test", name, "cuda", problem, Tile.from_dict(row["tile"]))
    if row["source_sha256"] != variants.source_sha256(case):
        pytest.skip(f"counted of another version of {name}: inspect --ncu, on a GPU")
    held = {one.name: one for one in agreement.compared(Counted({**row, **memory.count(case)}, "here"), [row])}
    differing = {name: one.why for name, one in held.items() if one.why}
    assert agreement.UNEXPLAINED not in differing.values(), differing
    assert "bank conflicts, by address" not in differing
    assert "ldmatrix executed" not in differing
    if name in EQUAL:
        assert len(held) >= 6
        repeated = {one.name: one.ncu - one.cpu for one in held.values() if one.why}
        assert repeated in ({}, REPEATED.get(name)), differing


def test_saved_outputs_come_back_bit_by_bit(tmp_path: Path) -> None:
    names = ("direct_rescale", "large_tile", "xor_swizzle")
    pairs = {name: run(name) for name in names}
    for name, pair in pairs.items():
        outputs.save(tmp_path, case_of(name, PROBLEM), f"sources of {name}", pair)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    outputs.save(tmp_path, case_of("large_tile", PROBLEM), "sources of large_tile", pairs["large_tile"])
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    for name, pair in pairs.items():
        back = outputs.load(tmp_path, case_of(name, PROBLEM), f"sources of {name}")
        assert all(torch.equal(mine, other) for mine, other in zip(pair, back, strict=True))
    assert all(
        torch.equal(mine, other) for mine, other in zip(pairs["direct_rescale"], pairs["xor_swizzle"], strict=True)
    )
    with pytest.raises(outputs.Missing, match="of another source"):
        outputs.load(tmp_path, case_of("large_tile", PROBLEM), "other sources")
    with pytest.raises(outputs.Missing, match="missing"):
        outputs.load(tmp_path, case_of("scalar", PROBLEM), "any")


def test_another_order_of_sums_is_the_same() -> None:
    """wmma sums rows of P otherwise; exp2_softmax folds the scale: other last bits of fp32, nothing else."""
    assert judge(run("register_softmax"), run("direct_rescale")).passed
    assert judge(run("large_tile"), run("exp2_softmax")).passed


def test_another_tile_is_not_the_same() -> None:
    """Keys 128 at a time round P against other running maxima: right, and yet not what the other kernel computes."""
    verdict = judge(run("direct_rescale"), run("large_tile"))
    assert verdict.check == "other_rel_l2"


@pytest.mark.parametrize("damage", ["o", "lse", "nan"])
def test_a_wrong_output_is_not_the_same(damage: str) -> None:
    o, lse = run("direct_rescale")
    wrong_o, wrong_lse = o.clone(), lse.clone()
    if damage == "lse":
        wrong_lse[0, 1, 7] += 1e-3
    else:
        wrong_o[0, 1, 100, 5] = torch.nan if damage == "nan" else wrong_o[0, 1, 100, 5] + 2e-3
    assert judge((o, lse), (o, lse)).passed
    verdict = judge((o, lse), (wrong_o, wrong_lse))
    assert verdict.check == {"o": "other_max_error", "lse": "other_lse", "nan": "finite"}[damage]
