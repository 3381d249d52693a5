"""Which rows of earlier sources count again, what has to be compiled to know it, and a rung that gets another name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.catalog import techniques
from harness.catalog.problem import Problem, Tile
from harness.rows import record, renew, results
from harness.rows.rename import rename_in_note, rename_rows
from harness.rows.renew import Program, Renewal, Unknown
from tests.support import synthetic_rows as synthetic

Row = dict[str, Any]
PROBLEM = Problem.square(4, 16, 4096, 128)
NVCC = {"front_end": "nvcc 13.0.88", "ptxas": "13.0.88", "flags": "-O3"}
TRITON = {"front_end": "triton 3.6.0", "ptxas": "12.8.93", "flags": "num_warps=4"}
HASHES = {("scalar", "cuda"): "new", ("scalar", "triton"): "new"}
ENVIRONMENT: Row = {
    "kind": "environment",
    "id": "e",
    "on": "gpu",
    "time": "1",
    "details": {
        "gpu": {"name": "NVIDIA H200"},
        "git": {"sha": "c0ffee"},
        "toolchain": {"nvcc": "13.0.88", "ptxas": "13.0.88", "triton_ptxas": "12.8.93"},
        "software": {"triton": "3.6.0"},
    },
}


def row(kind: str = "timing", **fields: Any) -> Row:
    made = synthetic.make(
        kind, "scalar", fields.get("backend", "cuda"), PROBLEM, Tile(64, 64), environment="e", time="2"
    )
    compiler = NVCC if made["backend"] == "cuda" else TRITON
    return {**made, "source_sha256": "old", "compiler": compiler, **fields}


def gate(sass: str, **fields: Any) -> Row:
    return row("gate", code={"sass_sha256": sass}, **fields)


class Compiler:
    """Answers from (source) -> machine code, and notes what it was asked for."""

    def __init__(self, **answers: str) -> None:
        self.answers = answers
        self.asked: list[Program] = []

    def __call__(self, programs: Sequence[Program]) -> Iterator[tuple[Program, str | Unknown]]:
        self.asked += programs
        for program in programs:
            yield program, self.answers.get(program.source_sha256, Unknown("does not compile"))


def outcome(*rows: Row, **answers: str) -> tuple[Renewal, Compiler]:
    compiler = Compiler(**answers)
    return renew.renew([ENVIRONMENT, *rows], HASHES, compiler), compiler


def test_a_row_of_equal_machine_code_counts_as_this_checkouts() -> None:
    measured = gate("abc")
    found, compiler = outcome(measured, new="abc")
    assert (measured["source_sha256"], measured["renewed_from"]) == ("new", "old")
    assert found.renewed == 1
    assert [(program.source_sha256, program.commit) for program in compiler.asked] == [("new", None)]


def test_a_row_of_other_machine_code_stays_and_is_compared_once_per_checkout() -> None:
    measured = gate("abc")
    assert renew.due([measured], HASHES) == [measured]
    found, _ = outcome(measured, new="xyz")
    assert (measured["source_sha256"], measured["differs_from"]) == ("old", "new")
    assert "renewed_from" not in measured
    assert found.different == 1
    assert renew.due([measured], HASHES) == []
    assert renew.due([measured], {("scalar", "cuda"): "newer"}) == [measured]


def test_a_row_without_machine_code_takes_that_of_its_gate() -> None:
    timed = row(mode="burst", samples_ms=[1.0])
    found, compiler = outcome(gate("abc", experiment="correctness"), timed, new="abc")
    assert (timed["source_sha256"], timed["sass_sha256"], found.renewed) == ("new", "abc", 2)
    assert {program.commit for program in compiler.asked} == {None}


@pytest.mark.parametrize(
    "other",
    [
        {"source_sha256": "older"},
        {"compiler": {**NVCC, "ptxas": "12.8.93"}},
        {"tile": Tile(64, 32).to_dict()},
        {"arch": "sm_80"},
        {"problem": Problem.square(4, 16, 4096, 64).to_dict()},
    ],
)
def test_the_gate_of_another_program_says_nothing(other: Row) -> None:
    timed = row()
    renew.take_machine_code([ENVIRONMENT, gate("abc", **other), timed])
    assert "sass_sha256" not in timed


def test_lengths_are_no_constants_of_a_cuda_kernel_and_may_be_of_tritons() -> None:
    longer = Problem.square(1, 8, 16384, 128).to_dict()
    rows = [row(), row(backend="triton")]
    renew.take_machine_code([ENVIRONMENT, gate("abc", problem=longer), *rows])
    renew.take_machine_code([ENVIRONMENT, gate("abc", backend="triton", problem=longer), *rows])
    assert [renew.machine_code(one) for one in rows] == ["abc", None]


def test_where_no_row_tells_the_commit_is_compiled() -> None:
    unsaid = row("sanitizer", tool="memcheck", compiler=None)
    found, compiler = outcome(unsaid, old="abc", new="abc")
    assert {(program.source_sha256, program.commit) for program in compiler.asked} == {("old", "c0ffee"), ("new", None)}
    assert {program.compiler for program in compiler.asked} == {("nvcc 13.0.88", "13.0.88")}, "the environment's"
    assert (unsaid["source_sha256"], unsaid["sass_sha256"], found.renewed) == ("new", "abc", 1)


def test_what_another_triton_made_is_told_by_other_rows_of_its_backend() -> None:
    """Its environment has the installed Triton alone."""
    of_triton = {**TRITON, "front_end": "triton 3.9.0", "ptxas": "13.4.59"}
    hashes = {("scalar", "gluon@3.9.0"): "new"}

    def rows(**other: str) -> list[Row]:
        judged = row("referee", backend="gluon@3.9.0", compiler=None)
        timed = row(backend="gluon@3.9.0", compiler=of_triton, sass_sha256="abc")
        return [ENVIRONMENT, judged, timed, {**timed, "time": "3", "compiler": {**of_triton, **other}}]

    compiler = Compiler(new="abc")
    assert renew.renew(found := rows(), hashes, compiler).renewed == 3
    assert {program.compiler for program in compiler.asked} == {("triton 3.9.0", "13.4.59")}
    assert found[1]["sass_sha256"] == "abc"
    assert renew.renew(rows(ptxas="13.4.60"), hashes, Compiler(new="abc")).unknown == {
        "the row names no compiler or no tile": 1
    }


def test_what_a_row_of_this_checkout_tells_is_not_compiled() -> None:
    measured = gate("abc")
    found, compiler = outcome(measured, gate("abc", source_sha256="new", time="3"))
    assert (compiler.asked, found.renewed) == ([], 1)


def test_where_the_compiler_is_given_the_same_nothing_is_compiled() -> None:
    asked: list[Program] = []

    def identify(programs: Sequence[Program]) -> Iterator[tuple[Program, str | Unknown]]:
        asked.extend(programs)
        yield from ((program, f"{program.problem.head_dim}") for program in programs)

    timed, told = row(), gate("abc", problem=Problem.square(4, 16, 4096, 64).to_dict())
    compiler = Compiler()
    found = renew.renew([ENVIRONMENT, timed, told], HASHES, compiler, identify=identify)
    assert (found.renewed, compiler.asked) == (2, [])
    assert [(one["source_sha256"], one["renewed_from"]) for one in (timed, told)] == [("new", "old")] * 2
    assert "sass_sha256" not in timed, "what it is nobody knows, only that it is the same"
    assert {(program.source_sha256, program.commit) for program in asked} == {("old", "c0ffee"), ("new", None)}


def named(**names: str) -> renew.Identify:
    """Gives the programs of these sources names, and others none."""

    def identify(programs: Sequence[Program]) -> Iterator[tuple[Program, str | Unknown]]:
        for program in programs:
            yield program, names.get(program.source_sha256) or Unknown("only compiling tells")

    return identify


def test_what_the_compiler_was_given_last_time_is_known_by_name_too() -> None:
    """A row renewed by its machine code: its own source has another name, that as which it counted has this one."""
    measured, compiler = row(source_sha256="between", renewed_from="old"), Compiler()
    found = renew.renew([ENVIRONMENT, measured], HASHES, compiler, identify=named(old="a", between="b", new="b"))
    assert (found.renewed, compiler.asked) == (1, [])
    assert (measured["source_sha256"], measured["renewed_from"]) == ("new", "old")


def test_what_had_other_machine_code_is_known_by_name_too() -> None:
    measured, compiler = gate("abc", differs_from="between"), Compiler()
    found = renew.renew([ENVIRONMENT, measured], HASHES, compiler, identify=named(old="a", between="b", new="b"))
    assert (found.renewed, found.different, compiler.asked) == (0, 1, [])
    assert (measured["source_sha256"], measured["differs_from"]) == ("old", "new")


def test_what_the_registry_declines_is_not_due_whatever_its_source() -> None:
    problem, tile = Problem.square(4, 16, 4096, 256), Tile(64, 64)
    reason = techniques.unsupported(techniques.get("scalar"), "cuda", problem, tile)
    assert reason
    declined = row("gate", problem=problem.to_dict(), status="unsupported", reason=reason)
    assert renew.due([declined], HASHES) == []
    assert renew.due([{**declined, "reason": "another"}], HASHES) != []


@pytest.mark.parametrize("names", [{"old": "a", "new": "b"}, {"old": "a"}, {}])
def test_what_has_another_name_or_none_is_compiled(names: dict[str, str]) -> None:
    measured, compiler = gate("abc"), Compiler(new="abc")
    found = renew.renew([ENVIRONMENT, measured], HASHES, compiler, identify=named(**names))
    assert (found.renewed, [program.source_sha256 for program in compiler.asked]) == (1, ["new"])


def test_what_cannot_be_compiled_is_counted_with_its_reason_and_stays() -> None:
    measured = gate("abc")
    found, _ = outcome(measured)
    assert found.unknown == {"does not compile": 1}
    assert (measured["source_sha256"], "differs_from" in measured) == ("old", False)


def test_a_row_renewed_twice_still_says_what_was_measured() -> None:
    measured = gate("abc")
    outcome(measured, new="abc")
    renew.renew([ENVIRONMENT, measured], {("scalar", "cuda"): "newest"}, Compiler(newest="abc"))
    assert (measured["source_sha256"], measured["renewed_from"]) == ("newest", "old")


def test_peers_and_rows_of_this_checkout_are_left_alone() -> None:
    peer = {**row(), "technique": None, "source_sha256": None, "backend": "sdpa_cudnn"}
    current = gate("abc", source_sha256="new")
    before = [dict(peer), dict(current)]
    outcome(peer, current, new="xyz")
    assert [peer, current] == before


def test_recorded_files_change_where_their_rows_do(tmp_path: Path) -> None:
    for name, measured in (("ladder", gate("abc")), ("tune", gate("xyz", source_sha256="new", tile=None))):
        with results.Writer(tmp_path / "h200" / f"{name}.jsonl") as writer:
            for one in (ENVIRONMENT, measured):
                writer.write(one)
    assert record.due(tmp_path, HASHES) == 1
    files, found = record.renew(tmp_path, HASHES, Compiler(new="abc"), {"scalar"})
    assert (files, found.renewed) == ([tmp_path / "h200" / "ladder.jsonl"], 1)
    assert record.due(tmp_path, HASHES) == 0
    assert results.read(files[0])[1]["renewed_from"] == "old"


def test_a_rung_gets_another_name_wherever_rows_speak_of_it() -> None:
    rows = [
        row(order=["scalar cuda b4", "vectorized_loads cuda b4", "scalar cuda b4 again"]),
        row(technique="wmma", details={"again": {"of": "scalar cuda b4"}, "same_program": "scalar"}),
    ]
    assert rename_rows(rows, "scalar", "fp32") == 1
    assert [one["technique"] for one in rows] == ["fp32", "wmma"]
    assert rows[0]["order"] == ["fp32 cuda b4", "vectorized_loads cuda b4", "fp32 cuda b4 again"]
    assert rows[1]["details"] == {"again": {"of": "fp32 cuda b4"}, "same_program": "fp32"}


def test_recorded_rows_are_renamed_unless_two_rungs_would_become_one(tmp_path: Path) -> None:
    path = tmp_path / "h200" / "ladder.jsonl"
    with results.Writer(path) as writer:
        for one in (ENVIRONMENT, row(technique="two_ctas"), row(technique="wmma")):
            writer.write(one)
    with pytest.raises(record.Refused, match="1 rows of two_ctas and 1 of wmma"):
        record.rename(tmp_path, "two_ctas", "wmma")
    with pytest.raises(record.Refused, match="0 rows of one_cta"):
        record.rename(tmp_path, "one_cta", "lean")
    assert record.rename(tmp_path, "two_ctas", "lean") == ([path], 1)
    assert {one.get("technique") for one in results.read(path)} == {None, "lean", "wmma"}


def test_a_name_is_given_to_the_programs_of_one_language_alone(tmp_path: Path) -> None:
    path = tmp_path / "h200" / "ladder.jsonl"
    order = ["two_ctas triton b4", "two_ctas cuda b4"]
    with results.Writer(path) as writer:
        for backend in ("cuda", "triton"):
            writer.write(row(technique="two_ctas", backend=backend, order=order))
            writer.write(row(technique="lock", backend=backend, details={"same_program": "two_ctas"}))
        writer.write(ENVIRONMENT)
    with pytest.raises(record.Refused, match="0 rows of lock and 0 of in_flight"):
        record.rename(tmp_path, "lock", "in_flight", ("gluon",))
    assert record.rename(tmp_path, "two_ctas", "in_flight", ("triton",)) == ([path], 1)
    rows = [one for one in results.read(path) if one["kind"] != "environment"]
    assert {(one["technique"], one["backend"]) for one in rows if "order" in one} == {
        ("two_ctas", "cuda"),
        ("in_flight", "triton"),
    }
    assert all(one["order"] == ["in_flight triton b4", "two_ctas cuda b4"] for one in rows if "order" in one)
    repeated = {one["backend"]: one["details"]["same_program"] for one in rows if one["technique"] == "lock"}
    assert repeated == {"cuda": "two_ctas", "triton": "in_flight"}
    text = 'two_ctas is {{ gain("two_ctas", "cuda", "p") }} and {{ code("two_ctas", "triton", "p") }}'
    assert rename_in_note(text, "two_ctas", "in_flight", ("triton",)) == (
        'two_ctas is {{ gain("two_ctas", "cuda", "p") }} and {{ code("in_flight", "triton", "p") }}'
    )


def test_a_note_follows_where_no_plain_word_could_be_meant() -> None:
    text = 'two_ctas_per_sm is {{ gain("two_ctas_per_sm", "cuda") }}; scalar code: {{ gain("scalar", "cuda") }}.'
    assert rename_in_note(text, "two_ctas_per_sm", "lean_ring") == (
        'lean_ring is {{ gain("lean_ring", "cuda") }}; scalar code: {{ gain("scalar", "cuda") }}.'
    )
    assert rename_in_note(text, "scalar", "fp32").endswith('scalar code: {{ gain("fp32", "cuda") }}.')
