"""A run is recorded once, where it belongs, and refused where it does not say what it measured."""

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from harness.catalog.entries import Tile
from harness.operators.attention.problem import Problem
from harness.rows import record, results, reusable
from tests.support import synthetic_rows as synthetic
from tests.support.row_file import OF_KINDS

PROBLEM = Problem.square(4, 16, 4096, 128)
SOURCE = "0" * 64
Row = dict[str, Any]


def details(name: str, gpu: str | None = "NVIDIA H200") -> Row:
    return {"gpu": gpu and {"name": gpu, "sm_count": 132}, "warnings": [name]}


def identity(name: str, gpu: str | None = "NVIDIA H200") -> str:
    return results.environment_id(details(name, gpu))


def environment(name: str, gpu: str | None = "NVIDIA H200") -> Row:
    """Of a machine that nothing but its name tells from another one."""
    return {"kind": "environment", "id": identity(name, gpu), "on": "gpu", "details": details(name, gpu)}


def timing(technique: str, of: str, milliseconds: float = 1.0, **fields: Any) -> Row:
    row = synthetic.make("timing", "scalar", "cuda", PROBLEM, Tile(64, 64), mode="burst", group="one")
    del row["time"], row["arch"]
    row |= {"technique": technique, "source_sha256": SOURCE, "samples_ms": [milliseconds]}
    return {**row, "environment": identity(of), **fields}


def gate(technique: str, of: str, **fields: Any) -> Row:
    return {name: value for name, value in timing(technique, of, **fields).items() if name != "samples_ms"} | {
        "kind": "gate",
        "numerics": {"normal": {"max_abs": 0.001, "yardstick": 0.002, "floor": 0.001}},
    }


def run_file(folder: Path, name: str, *rows: Row) -> Path:
    path = folder / f"{name}.jsonl"
    with results.Writer(path) as writer:
        for position, row in enumerate(rows):
            writer.write({"time": f"2026-01-0{name}T00:00:{position:02d}Z", **row})
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "recorded"


def place(root: Path, experiment: str, run: str, gpu: str = "h200") -> Path:
    return root / gpu / "attention" / experiment / f"{run}.jsonl.xz"


def test_a_run_goes_to_the_folders_of_its_gpu_and_its_experiments(tmp_path: Path, root: Path) -> None:
    shared, longer = timing("scalar", "e1", assembler="shared"), timing("scalar", "e1", experiment="sequence_length")
    unused = environment("e2")
    code = OF_KINDS["code"] | {"environment": identity("e1")}
    run = run_file(tmp_path, "1", environment("e1"), unused, timing("scalar", "e1"), shared, longer, code)
    experiments = ("ladder", "ladder_shared_ptxas", "sequence_length")
    files = [place(root, "inspect", "1", "compilers"), *(place(root, name, "1") for name in experiments)]
    assert record.record([run], root) == files
    assert [gpu for gpu, _ in results.iter_recorded(root)] == ["h200"] * 3
    written = [row for row in results.read(run) if row["kind"] == "timing"]
    environments, mine = zip(*(results.read(file) for file in files[1:]), strict=True)
    assert list(mine) == written
    assert {row["id"] for row in environments} == {identity("e1")}
    assert json.loads(lzma.decompress(files[1].read_bytes()).splitlines()[1]) == written[0], "plain rows are inside"


def test_a_recorded_run_never_changes(tmp_path: Path, root: Path) -> None:
    run = run_file(tmp_path, "1", environment("e1"), timing("scalar", "e1"))
    (path,) = record.record([run], root)
    before = path.read_bytes()
    assert record.record([run], root) == [path]
    assert path.read_bytes() == before
    more = run_file(tmp_path, "1", timing("xor_swizzle", "e1"))
    with pytest.raises(record.Refused, match=r"1\.jsonl\.xz: recorded already, with other rows"):
        record.record([more], root)
    assert path.read_bytes() == before
    newer = run_file(tmp_path, "2", environment("e1"), timing("scalar", "e1", 2.0))
    assert record.record([newer], root) == [place(root, "ladder", "2")]
    rows = results.read_recorded(root, "h200", "ladder")
    assert [row["samples_ms"] for row in rows if row["kind"] == "timing"] == [[1.0], [2.0]]
    assert [row["samples_ms"] for row in results.newest(rows) if row["kind"] == "timing"] == [[2.0]]


def test_a_summary_lies_beside_the_runs(tmp_path: Path, root: Path) -> None:
    rows = timing("scalar", "e1", 2.0), gate("scalar", "e1"), gate("wmma", "e1", status="wrong", reason="an error")
    record.record([run_file(tmp_path, "1", environment("e1"), *rows)], root)
    record.record([run_file(tmp_path, "2", environment("e2"), timing("scalar", "e2", 1.0))], root)
    one, two = (PROBLEM.flops / ms / 1e9 for ms in (1.0, 2.0))
    assert (root / "h200/attention/ladder/summary.csv").read_text().splitlines() == [
        "cell,tflops,low,high,timings,status",
        f"cuda scalar {PROBLEM.slug} {Tile(64, 64).slug},{one:.1f},{two:.1f},{one:.1f},2,passed",
        "gate cuda scalar,,,,,1 passed",
        "gate cuda wmma,,,,,1 wrong",
    ]


def test_interrupted_cases_and_proofs_of_no_claim_are_left_out(tmp_path: Path, root: Path) -> None:
    stopped = {"status": "interrupted", "reason": "Ctrl-C", "samples_ms": []}
    proof = OF_KINDS["proof"] | {"environment": identity("e1")}
    rows = timing("scalar", "e1"), timing("xor_swizzle", "e1", **stopped), proof, proof | {"proof": "another"}
    run = run_file(tmp_path, "1", environment("e1"), *rows)
    record.record([run], root, {("scalar", "one")})
    kept = [row for path in results.recorded(root) for row in results.read(path) if row["kind"] != "environment"]
    assert [(row["kind"], row["technique"], row.get("proof")) for row in kept] == [
        ("proof", "scalar", "one"),
        ("timing", "scalar", None),
    ]
    with pytest.raises(record.Refused, match="no measured row"):
        record.record([run_file(tmp_path, "2", environment("e1"), rows[1])], root)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([timing("scalar", "e1")], "timing scalar cuda has no environment row"),
        ([environment("e2"), timing("scalar", "e1")], "has no environment row"),
        ([environment("e1"), timing("scalar", "e1", on="cpu")], "was made on a CPU"),
        (
            [environment("e1", gpu=None), timing("scalar", "e1", environment=identity("e1", None))],
            "was made on a CPU",
        ),
        ([environment("e1")], "no measured row"),
    ],
)
def test_a_run_of_unknown_origin_is_refused_as_a_whole(
    tmp_path: Path, root: Path, rows: list[Row], message: str
) -> None:
    good = (environment("e0"), timing("xor_swizzle", "e0")) if "no measured" not in message else ()
    with pytest.raises(record.Refused, match=message):
        record.record([run_file(tmp_path, "1", *good, *rows)], root)
    assert not root.exists()


SOFTWARE = {"torch": "2.11", "cuda_runtime": "13.0", "cudnn": 9, "triton": "3.6.0", "numpy": "2.3"}
HERE = {"gpu": {"name": "NVIDIA H200"}, "software": SOFTWARE, "toolchain": {"nvcc": "13.0"}}
HASHES = {("scalar", backend): "now" for backend in ("cuda", "triton")}


@pytest.mark.parametrize(
    "change",
    [
        {"gpu": {"name": "NVIDIA H200", "driver": "590"}},
        {"software": SOFTWARE | {"numpy": "2.4"}},
        {"toolchain": {"nvcc": "13.1"}},
        {"system": {"cpu": "another"}},
        {"variables": {"TRITON_CACHE_DIR": "elsewhere"}},
        None,
    ],
)
def test_fresh_rows_of_the_same_machine_and_kernels_are_reusable(tmp_path: Path, change: Row | None) -> None:
    described = {**details("e1"), "software": SOFTWARE, "toolchain": {"nvcc": "13.0"}}
    name = results.environment_id(described)
    opening = {"kind": "environment", "id": name, "on": "gpu", "details": described}
    about = {"environment": name}
    failed = gate("wmma", "e1", **about) | {"status": "wrong", "reason": "an error"}
    rows = gate("scalar", "e1", **about), gate("scalar", "e1", **about), gate("xor_swizzle", "e1", **about), failed
    run = run_file(tmp_path, "1", opening, *rows)
    hashes = {("scalar", "cuda"): SOURCE, ("wmma", "cuda"): SOURCE, ("xor_swizzle", "cuda"): "1" * 64}
    found = reusable.ReusableRows([run], described | (change or {}), hashes)
    newest = results.read(run)[2]
    assert found.rows == ([] if change else [newest])
    assert found.find(gate("scalar", "e1")) == (None if change else newest)
