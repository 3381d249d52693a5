"""Recording keeps the newest row of each measurement, its environment, and refuses what it cannot place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.catalog.problem import Problem, Tile
from harness.rows import record, results, schema
from tests.support import synthetic_rows as synthetic
from tests.support.row_file import FLEET, write

PROBLEM = Problem.square(4, 16, 4096, 128)
OLD, NEW = "0" * 64, "1" * 64
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
    return {
        **row,
        "technique": technique,
        "source_sha256": OLD,
        "samples_ms": [milliseconds],
        "environment": identity(of),
        **fields,
    }


def run_file(folder: Path, name: str, *rows: Row) -> Path:
    path = folder / f"{name}.jsonl"
    with results.Writer(path) as writer:
        for position, row in enumerate(rows):
            writer.write({"time": f"2026-01-0{name}T00:00:{position:02d}Z", **row})
    return path


def recorded(run: Path, root: Path) -> list[Path]:
    return record.record([run], root)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "recorded"


def test_a_run_goes_to_the_folder_of_its_gpu_and_the_file_of_its_experiment(tmp_path: Path, root: Path) -> None:
    run = run_file(
        tmp_path, "1", environment("e1"), timing("scalar", "e1"), timing("scalar", "e1", experiment="sequence_length")
    )
    assert recorded(run, root) == [root / "h200/ladder.jsonl", root / "h200/sequence_length.jsonl"]
    assert [row["kind"] for row in results.read(root / "h200/ladder.jsonl")] == ["environment", "timing"]


def test_how_long_a_command_took_is_kept_for_each_number_of_gpus(tmp_path: Path, root: Path) -> None:
    def took(gpus: int, seconds: float) -> list[Row]:
        about = {**FLEET, "gpus": gpus, "environment": identity("e1")}
        del about["time"]
        return [environment("e1"), {**about, "details": {**FLEET["details"], "seconds": seconds}}]

    for name, gpus, seconds in (("1", 1, 250.0), ("2", 2, 126.4), ("3", 1, 243.0)):
        run = run_file(tmp_path, name, timing("scalar", "e1"), *took(gpus, seconds))
        assert recorded(run, root) == [root / "h200/fleet.jsonl", root / "h200/ladder.jsonl"]
    _, *rows = results.read(root / "h200/fleet.jsonl", schema.admit)
    assert [(row["gpus"], row["details"]["seconds"]) for row in rows] == [(1, 243.0), (2, 126.4)]
    assert "fleet,,,,,2 passed" in (root / "h200/fleet.summary.csv").read_text()


def gate(technique: str, of: str, **fields: Any) -> Row:
    return {name: value for name, value in timing(technique, of, **fields).items() if name != "samples_ms"} | {
        "kind": "gate",
        "numerics": {"normal": {"max_abs": 0.001, "yardstick": 0.002, "floor": 0.001}},
    }


def test_newer_gates_replace_older_ones_and_unused_environments_go(tmp_path: Path, root: Path) -> None:
    first = run_file(tmp_path, "1", environment("e1"), gate("scalar", "e1"), gate("xor_swizzle", "e1"))
    recorded(first, root)
    recorded(run_file(tmp_path, "2", environment("e2"), gate("scalar", "e2")), root)
    rows = results.read(root / "h200/ladder.jsonl")
    assert [row["id"] for row in rows if row["kind"] == "environment"] == sorted(map(identity, ("e1", "e2")))
    measured = {row["technique"]: row["environment"] for row in rows[2:]}
    assert measured == {"scalar": identity("e2"), "xor_swizzle": identity("e1")}
    recorded(run_file(tmp_path, "3", environment("e3"), gate("xor_swizzle", "e3")), root)
    rows = results.read(root / "h200/ladder.jsonl")
    assert [row["id"] for row in rows if row["kind"] == "environment"] == sorted(map(identity, ("e2", "e3")))


def test_timings_of_one_source_are_replicates_and_stay(tmp_path: Path, root: Path) -> None:
    moving = {"status": "not_converged", "reason": "it moves"}
    for name, fields in (("1", {}), ("2", moving), ("3", {}), ("4", moving)):
        rows = environment(f"e{name}"), timing("scalar", f"e{name}", float(name), **fields)
        recorded(run_file(tmp_path, name, *rows), root)
    rows = results.read(root / "h200/ladder.jsonl")
    assert sorted(row["samples_ms"] for row in rows if row["kind"] == "timing") == [[1.0], [3.0], [4.0]]
    (newest,) = (row for row in results.newest(rows) if row["kind"] == "timing")
    assert newest["environment"] == identity("e4")  # --resume and readers ask for one row per case


def test_a_kernel_stays_in_every_final_group_of_its_process(tmp_path: Path, root: Path) -> None:
    """The best CUDA kernel is in one for each environment of the others; the timing that chose it goes."""
    final = {"details": {"final": True}}
    chosen = timing("scalar", "e1", 1.0, group="first-1"), timing("scalar", "e1", 1.1, group="first-2", **final)
    again = timing("scalar", "e1", 1.2, group="first-3", **final)
    recorded(run_file(tmp_path, "1", environment("e1"), *chosen, again), root)
    rows = [row for row in results.read(root / "h200/ladder.jsonl") if row["kind"] == "timing"]
    assert [row["samples_ms"] for row in rows] == [[1.1], [1.2]]
    (newest,) = results.newest(rows)
    assert newest["samples_ms"] == [1.2]


def test_a_timing_of_an_earlier_source_goes_when_a_newer_one_was_timed(tmp_path: Path, root: Path) -> None:
    """Whatever its tile was; one that nothing newer was timed for stays."""
    of = environment("e1"), environment("e2")
    old = [
        timing(name, "e1", source_sha256=OLD, time="2026-01-01T00:00:00Z", tile=Tile(64, 32).to_dict())
        for name in ("scalar", "wmma")
    ]
    tried = [row | {"kind": "tune", "experiment": "tune"} for row in old]
    new = [
        timing("scalar", "e2", source_sha256=NEW, time="2026-01-02T00:00:00Z"),
        tried[0] | {"source_sha256": NEW, "time": "2026-01-02T00:00:00Z"},
    ]
    recorded(run_file(tmp_path, "1", *of, *old, *tried), root)
    recorded(run_file(tmp_path, "2", *of, *new), root)
    for name in ("ladder", "tune"):
        rows = results.read(root / f"h200/{name}.jsonl")
        found = {(row["technique"], row["source_sha256"]) for row in rows if row["kind"] != "environment"}
        assert found == {("scalar", NEW), ("wmma", OLD)}, name
    again = timing("scalar", "e2", source_sha256=NEW, time="2026-01-03T00:00:00Z", mode="sustained")
    recorded(run_file(tmp_path, "3", *of, again), root)
    assert sum(row["kind"] == "timing" for row in results.read(root / "h200/ladder.jsonl")) == 3


def test_a_gate_of_an_earlier_source_stays_only_if_a_note_cites_it(tmp_path: Path, root: Path) -> None:
    cell = f'"{PROBLEM.slug}", "{Tile(64, 64).slug}"'
    notes = root.parent / "notes" / "attention"
    notes.mkdir(parents=True)
    (notes / "scalar.md").write_text(f'It was {{{{ gate("scalar", "cuda", {cell}, earlier=True) }}}} once.')
    both = "scalar", "xor_swizzle"
    for number, source in enumerate((OLD, NEW), 1):
        of = f"e-{source}"
        rows = [gate(name, of, source_sha256=source) for name in both]
        recorded(run_file(tmp_path, f"{number}", environment(of), *rows), root)
    found = [
        (row["kind"], row["technique"], row["source_sha256"])
        for row in results.read(root / "h200/ladder.jsonl")
        if row["kind"] != "environment"
    ]
    assert set(found) == {
        ("gate", "scalar", OLD),
        ("gate", "scalar", NEW),
        ("gate", "xor_swizzle", NEW),
    }


def test_a_repeat_of_a_program_that_the_twin_is_no_longer_goes() -> None:
    """ldmatrix_x4 re-exports cp_async_pipeline in Triton; wmma is a program of its own."""
    repeats = [
        timing(name, "1", backend="triton", details={"same_program": program}, time="2026-01-01T00:00:00Z")
        for name, program in (
            ("ldmatrix_x4", "cp_async_pipeline"),
            ("ldmatrix_x4", "wmma"),
            ("wmma", "cp_async_pipeline"),
            ("not_in_the_registry", "wmma"),
        )
    ]
    kept = record.pruned([*repeats, timing("wmma", "1", backend="triton", time="2026-01-01T00:00:00Z")], set())
    assert [(row["technique"], row.get("details", {}).get("same_program")) for row in kept] == [
        ("ldmatrix_x4", "cp_async_pipeline"),
        ("not_in_the_registry", "wmma"),
        ("wmma", None),
    ]


def test_of_a_proof_the_newest_row_stays_while_somebody_claims_it() -> None:
    def probe(proof: str, time: str, **fields: Any) -> Row:
        return {"kind": "probe", "technique": "wmma", "backend": "cuda", "proof": proof, "time": time, **fields}

    rows = [
        probe("a", "1", status="passed", source_sha256=OLD),
        probe("a", "2", status="wrong", source_sha256=NEW),
        probe("a", "1", status="passed", source_sha256=OLD, backend="triton@3.6.0"),
        probe("b", "1", status="passed", source_sha256=OLD),
    ]
    assert record.pruned(rows, set()) == rows[1:]
    assert record.pruned(rows, set(), {("wmma", "a")}) == rows[1:3]


def test_what_one_assembler_made_for_both_languages_has_a_file_of_its_own(tmp_path: Path, root: Path) -> None:
    run = run_file(tmp_path, "1", environment("e1"), timing("scalar", "e1", assembler="shared"))
    assert recorded(run, root) == [root / "h200/ladder_shared_ptxas.jsonl"]


def test_a_summary_stands_beside_the_rows(tmp_path: Path, root: Path) -> None:
    rows = timing("scalar", "e1", 2.0), gate("scalar", "e1"), gate("wmma", "e1", status="wrong", reason="an error")
    recorded(run_file(tmp_path, "1", environment("e1"), *rows), root)
    recorded(run_file(tmp_path, "2", environment("e2"), timing("scalar", "e2", 1.0)), root)
    one, two = (PROBLEM.tflops(ms) for ms in (1.0, 2.0))
    assert (root / "h200/ladder.summary.csv").read_text().splitlines() == [
        "cell,tflops,low,high,timings,status",
        f"cuda scalar {PROBLEM.slug} {Tile(64, 64).slug},{one:.1f},{two:.1f},{one:.1f},2,passed",
        "gate cuda scalar,,,,,1 passed",
        "gate cuda wmma,,,,,1 wrong",
    ]


def test_the_order_of_recording_does_not_change_a_byte(tmp_path: Path, root: Path) -> None:
    runs = [
        run_file(tmp_path, "1", environment("e1"), timing("scalar", "e1", 1.0), timing("xor_swizzle", "e1", 2.0)),
        run_file(tmp_path, "2", environment("e2"), timing("scalar", "e2", 3.0), timing("cp_async_pipeline", "e2")),
    ]
    for run in [*runs, runs[0], runs[1]]:
        recorded(run, root)
    for run in reversed(runs):
        recorded(run, tmp_path / "other")
    first, other = root / "h200/ladder.jsonl", tmp_path / "other/h200/ladder.jsonl"
    assert first.read_bytes() == other.read_bytes()
    assert sorted(path.name for path in first.parent.iterdir()) == ["ladder.jsonl", "ladder.summary.csv"]


def test_a_peer_is_kept_in_every_group_that_counts(tmp_path: Path, root: Path) -> None:
    def peer(group: str) -> Row:
        row = timing("scalar", "e1", group=group, backend="sdpa_cudnn")
        return {name: value for name, value in row.items() if name not in ("technique", "tile", "source_sha256", "mma")}

    groups = [
        (peer(name), timing(technique, "e1", group=name)) for name, technique in (("g1", "scalar"), ("g2", "wmma"))
    ]
    recorded(run_file(tmp_path, "1", environment("e1"), *groups[0], *groups[1]), root)
    recorded(run_file(tmp_path, "2", environment("e1"), peer("g3"), timing("scalar", "e1", group="g3")), root)
    rows = results.read(root / "h200/ladder.jsonl")
    assert sorted(row["group"] for row in rows if row.get("backend") == "sdpa_cudnn") == ["g2", "g3"]


def test_an_interrupted_row_is_not_recorded(tmp_path: Path, root: Path) -> None:
    stopped = {"status": "interrupted", "reason": "Ctrl-C", "samples_ms": []}
    rows = (timing("scalar", "e2", **stopped), timing("xor_swizzle", "e2", **stopped))
    recorded(run_file(tmp_path, "1", environment("e2"), timing("scalar", "e2", 1.0), *rows), root)
    found = {row["technique"]: row["status"] for row in results.read(root / "h200/ladder.jsonl") if "status" in row}
    assert found == {"scalar": "passed"}
    with pytest.raises(record.Refused, match="no measured row"):
        recorded(run_file(tmp_path, "2", environment("e2"), *rows), root)


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
        recorded(run_file(tmp_path, "1", *good, *rows), root)
    assert not root.exists()


def test_what_stands_is_of_these_kernels_this_gpu_and_these_compilers(root: Path) -> None:
    software = {"torch": "2.11", "cuda_runtime": "13.0", "cudnn": 9, "triton": "3.6.0", "numpy": "2.3"}
    here = {"gpu": {"name": "NVIDIA H200"}, "software": software, "toolchain": {"nvcc": "13.0"}}
    other = here | {"software": software | {"triton": "3.7.0"}}
    environments = [
        {"kind": "environment", "id": name, "time": "1", "details": details}
        for name, details in (("alike", here | {"software": software | {"numpy": "2.4"}}), ("other", other))
    ]
    stands = timing("scalar", "alike", source_sha256="now", time="2", environment="alike")
    peer = {name: value for name, value in stands.items() if name not in ("technique", "tile", "source_sha256")}
    peer["backend"] = "sdpa_flash"
    others = [
        stands | {"environment": "other", "mode": "sustained"},
        stands | {"source_sha256": "before"},
        stands | {"status": "not_converged", "reason": "it moves", "backend": "triton"},
    ]
    rows = [*environments, stands, peer, *others]
    write(root / "h200/ladder.jsonl", rows)
    hashes = {("scalar", backend): "now" for backend in ("cuda", "triton")}
    assert record.standing(root, "ladder", here, hashes) == [environments[0], stands, peer]
    assert record.standing(root, "sequence_length", here, hashes) == []
    assert record.standing(root, "ladder", here | {"gpu": {"name": "NVIDIA A100"}}, hashes) == []


def made(technique: str, of: str, source: str = OLD) -> Row:
    """What a compiler made, on a machine without a GPU."""
    census = {"registers": 32, "spill_bytes": 0, "smem_bytes": 0, "census": {}, "sass_sha256": "c" * 64}
    row = timing(technique, of, kind="code", on="cpu", experiment="inspect", code=census, arch="sm_90a")
    compiler = {"front_end": "nvcc 13.0.88", "ptxas": "13.0.88", "flags": "-O3"}
    absent = ("mode", "group", "samples_ms")
    kept = {name: value for name, value in row.items() if name not in absent}
    return kept | {"source_sha256": source, "compiler": compiler, "environment": identity(of, None)}


def test_machine_code_needs_no_gpu_and_is_kept_of_the_newest_source(tmp_path: Path, root: Path) -> None:
    path = root / results.COMPILERS / "inspect.jsonl"
    assert recorded(run_file(tmp_path, "1", environment("e1", None), made("scalar", "e1")), root) == [path]
    recorded(run_file(tmp_path, "2", environment("e2", None), made("scalar", "e2", NEW)), root)
    assert [row["source_sha256"] for row in results.read(path) if row["kind"] == "code"] == [NEW]


@pytest.mark.parametrize(("code", "source"), [("c" * 64, NEW), ("d" * 64, OLD)])
def test_machine_code_is_renewed_where_it_is_the_same(tmp_path: Path, root: Path, code: str, source: str) -> None:
    recorded(run_file(tmp_path, "1", environment("e1", None), made("scalar", "e1")), root)
    hashes = {("scalar", "cuda"): NEW}
    assert record.due(root, hashes) == 1
    (path,), _ = record.renew(root, hashes, lambda programs: [(each, code) for each in programs], ["scalar"])
    assert record.due(root, hashes) == 0
    assert [row["source_sha256"] for row in results.read(path) if row["kind"] == "code"] == [source]
