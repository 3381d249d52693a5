"""Rows from strangers: a hostile row is refused with file, line and field, and nothing is written."""

import copy
import json
import lzma
import os
import time
from collections import Counter
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from harness.catalog import techniques
from harness.expressibility.claims import RIVALS
from harness.operators.attention.problem import ALL_PEERS
from harness.rows import compare, record, results, schema
from harness.rows.frame import frame
from tests.conftest import CHECKOUT
from tests.support.row_file import ENVIRONMENT, GATE, OF_KINDS, TIMING, write, write_recorded

Row = dict[str, Any]

ROOT = CHECKOUT / "reports/recorded"
ROWS = {"environment": ENVIRONMENT, "timing": TIMING, "gate": GATE}
EVERY_KIND = {"environment": ENVIRONMENT, **OF_KINDS, "timing": TIMING}


def put(*path: str | int, value: Any) -> Callable[[Row], None]:
    def change(row: Row) -> None:
        for step in path[:-1]:
            row = row[step]
        row[path[-1]] = value

    return change


def drop(name: str) -> Callable[[Row], None]:
    return lambda row: row.pop(name)


OTHERS = (None, [], {}, "", -1, True)
"""Whatever the field, at most one of these is right: an empty list, object or text where there is nothing to say."""
HOLLOW = {
    ("timing", "order", "[]"),
    *((kind, name, "{}") for kind in ("timing", "gate") for name in ("call_us", "clocks", "details")),
}

HOSTILE = {
    "a path as experiment": ("timing", put("experiment", value="../../../x"), "row.experiment"),
    "a path as technique": ("timing", put("technique", value="../scalar"), "row.technique"),
    "an absolute path": ("timing", put("experiment", value="/etc/x"), "row.experiment"),
    "an unknown experiment": ("timing", put("experiment", value="lader"), "row.experiment"),
    "an unknown technique": ("timing", put("technique", value="no_such"), "row.technique"),
    "a GPU without letters": ("environment", put("details", "gpu", "name", value="???"), "row.details.gpu.name"),
    "a GPU of the compilers": ("environment", put("details", "gpu", "name", value="compilers"), "row.details.gpu.name"),
    "a GPU that is a list": ("environment", put("details", "gpu", value=["H200"]), "row.details.gpu"),
    "a GPU with no name": ("environment", put("details", "gpu", value={}), "row.details.gpu.name"),
    "a capability that is text": ("environment", put("details", "gpu", "capability", value="9.0"), "gpu.capability"),
    "an id that is no hash": ("environment", put("id", value="abc"), "row.id"),
    "details that were changed": ("environment", put("details", "git", "dirty", value=True), "row.id"),
    "software of numbers": ("environment", put("details", "software", "torch", value=[2]), "software.torch"),
    "warnings that are text": ("environment", put("details", "warnings", value="none"), "row.details.warnings"),
    "a sample of 0": ("timing", put("samples_ms", 1, value=0), "row.samples_ms[1]"),
    "a negative sample": ("timing", put("samples_ms", 0, value=-1.0), "row.samples_ms[0]"),
    "a clock of megahertz": ("timing", put("clock_ghz", 0, value=1712.0), "row.clock_ghz[0]"),
    "NaN": ("timing", put("samples_ms", 0, value=float("nan")), "row.samples_ms[0]"),
    "infinity": ("timing", put("samples_ms", 0, value=float("inf")), "row.samples_ms[0]"),
    "infinity deep in details": ("timing", put("details", "again", "difference", value=float("inf")), "again.diff"),
    "a sample that is text": ("timing", put("samples_ms", 0, value="1.0"), "row.samples_ms[0]"),
    "a number beyond every machine's": ("timing", put("compile_s", value=10**400), "row.compile_s"),
    "a sample of no time": ("timing", put("samples_ms", value=[1e-310]), "row.samples_ms[0]"),  # infinite TFLOPS
    "a sample of a century": ("timing", put("samples_ms", value=[1e308]), "row.samples_ms[0]"),
    "samples without end": ("timing", put("samples_ms", value=[1.0] * 100_000), "row.samples_ms"),
    "a reason without end": ("timing", put("reason", value="a" * 100_000), "row.reason"),
    "details without end": (
        "timing",
        put("details", "x", value=dict.fromkeys(map(str, range(schema.LONGEST + 1)), 1)),
        "details.x",
    ),
    "an escape sequence as a distribution": ("gate", put("numerics", value={"\x1b[2J": {}}), "row.numerics: a name"),
    "an escape sequence as an instruction": ("timing", put("code", "census", value={"\x1b[2J": 1}), "row.code.census"),
    "two lines as an instruction": ("timing", put("code", "census", value={"a\nb": 1}), "row.code.census"),
    "a path as an option": (
        "timing",
        put("tile", "extra", value={"../../x": 1}),
        "row.tile: tile.extra: got '../../x'",
    ),
    "text backwards as a group": ("timing", put("group", value="a\u202eb"), "row.group"),
    "a path as a version": ("timing", put("backend", value="fa3@.."), "row.backend"),
    "a version without end": ("timing", put("backend", value="fa3@" + "9" * 1000), "row.backend"),
    "an architecture without end": ("timing", put("arch", value="sm_" + "9" * 1000), "row.arch"),
    "a GPU of a name too long for a folder": (
        "environment",
        put("details", "gpu", "name", value="H" * 300),
        "gpu.name",
    ),
    "a GPU whose name is backwards": ("environment", put("details", "gpu", "name", value="H200\u202e"), "gpu.name"),
    "a problem larger than every machine": (
        "timing",
        lambda row: row["problem"].update(batch=2**20, seq_q=2**20, seq_kv=2**20),
        "row.problem: got tensors of",
    ),
    "a problem of true": ("timing", put("problem", "batch", value=True), "problem.batch"),
    "a problem of no tokens": ("timing", put("problem", "seq_q", value=0), "problem.seq_q"),
    "a problem of half a token": ("timing", put("problem", "seq_q", value=4096.0), "problem.seq_q"),
    "a problem that no memory holds": ("timing", put("problem", "batch", value=2**30), "row.problem: got tensors of"),
    "a problem of another dtype": ("timing", put("problem", "dtype", value="fp8"), "problem.dtype"),
    "a problem of more": ("timing", put("problem", "colour", value=1), "row.problem"),
    "a tile of text": ("timing", put("tile", "block_m", value="64"), "tile.block_m"),
    "a tile beyond int32": ("timing", put("tile", "block_m", value=2**31), "tile.block_m"),
    "options of text": ("timing", put("tile", "extra", value={"maxnreg": "128"}), "row.tile.extra"),
    "options in a list": ("timing", put("tile", "extra", value=[1]), "row.tile"),
    "a day that is none": ("timing", put("time", value="2026-02-30T00:00:00Z"), "row.time"),
    "a time of another clock": ("timing", put("time", value="yesterday"), "row.time"),
    "a time to come": ("timing", put("time", value="9999-12-31T23:59:59Z"), "row.time"),
    "a time before the project": ("timing", put("time", value="1970-01-01T00:00:00Z"), "row.time"),
    "an unknown status": ("timing", put("status", value="fine"), "row.status"),
    "an unknown kind": ("timing", put("kind", value="guess"), "kind"),
    "a kind that is a list": ("timing", put("kind", value=["timing"]), "kind"),
    "a schema of text": ("timing", put("schema", value="2"), "schema"),
    "a schema of true": ("timing", put("schema", value=True), "schema"),
    "a later schema": ("timing", put("schema", value=99), "schema"),
    "a failure without reason": ("timing", put("status", value="wrong"), "row.reason"),
    "an unknown field": ("timing", put("speed", value=3), "'speed'"),
    "an escape sequence as a name": ("timing", put("technique", value="scalar\x1b[2J"), "row.technique"),
    "an escape sequence as a group": ("timing", put("group", value="\x1b]0;x\x07"), "row.group"),
    "half a character": ("timing", put("details", value={"log": "\ud800"}), "row.details.log"),
    "no source": ("timing", drop("source_sha256"), "row.source_sha256"),
    "a source that is none": ("timing", put("source_sha256", value="now"), "row.source_sha256"),
    "a kernel of no technique": ("timing", drop("technique"), "row.technique"),
    "no problem": ("timing", drop("problem"), "row.problem"),
    "no tile": ("timing", drop("tile"), "row.tile"),
    "no backend": ("timing", drop("backend"), "row.backend"),
    "no group": ("timing", drop("group"), "row.group"),
    "no mode": ("timing", drop("mode"), "row.mode"),
    "no machine": ("timing", drop("on"), "row.on"),
    "a machine at no time": ("environment", drop("time"), "row.time"),
    "a roof that is a number": ("timing", put("roof", value=1), "row.roof"),
    "a count that is a list": (
        "timing",
        lambda row: row.update(kind="counters", details={"metrics": {"cycles": 1}, "totals": {"bank_conflicts": [1]}}),
        "row.details.totals.bank_conflicts",
    ),
    "no environment": ("timing", drop("environment"), "row.environment"),
    "a pass without samples": ("timing", drop("samples_ms"), "row.samples_ms"),
    "a pass without figures": ("gate", drop("numerics"), "row.numerics"),
    "figures of text": ("gate", put("numerics", "normal", value="good"), "row.numerics.normal"),
    "a figure below 0": ("gate", put("numerics", "normal", "max_abs", value=-1), "row.numerics.normal"),
    "a census of text": ("timing", put("code", "census", "FFMA", value="12"), "row.code.census.FFMA"),
    "a census of nothing": ("timing", put("code", value={}), "row.code.registers"),
    "a repetition that is text": ("timing", put("details", "again", value="yes"), "row.details.again"),
    "a repetition of nothing": ("timing", put("details", "again", value={}), "row.details.again.of"),
    "a replicate that is text": ("timing", put("details", "replicate", value="1"), "row.details.replicate"),
    "a diagnosis in one piece": ("gate", put("details", "diagnosis", value="race"), "row.details.diagnosis"),
    "a GPU of no multiprocessors": ("environment", lambda row: row["details"]["gpu"].pop("sm_count"), "gpu.sm_count"),
    "code of no registers": ("gate", put("code", "registers", value=0), "row.code.registers"),
    "a main loop of text": ("gate", put("code", "main_loop", value="x"), "row.code.main_loop"),
    "a main loop in part": ("gate", lambda row: row["code"]["main_loop"].pop("all"), "row.code.main_loop.all"),
    "a main loop without a count": (
        "gate",
        lambda row: row["code"]["main_loop"]["under_products"].pop("maxima"),
        "row.code.main_loop.under_products.maxima",
    ),
    "a count of half a maximum": ("gate", put("code", "main_loop", "all", "maxima", value=0.5), "main_loop.all.maxima"),
    "a lock of text": ("gate", put("code", "main_loop", "in_lock", value="x"), "row.code.main_loop.in_lock"),
    "a sequence of lists": ("gate", put("code", "main_loop", "sequence", value=["8 wgmma"]), "main_loop.sequence"),
    "setmaxnreg of text": ("gate", put("code", "setmaxnreg", value="x"), "row.code.setmaxnreg"),
    "remarks that are a number": ("gate", put("code", "remarks", value=5), "row.code.remarks"),
    "a distribution without figures": ("gate", put("numerics", "normal", value={}), "row.numerics.normal"),
    "a backend of nobody": ("gate", put("backend", value="nosuch"), "row.backend: got 'nosuch'"),
    "a Triton that was never tried": ("gate", put("backend", value="gluon@0.0"), "row.backend: got 'gluon@0.0'"),
    "a version of what is installed": ("gate", put("backend", value="cuda@12.8"), "row.backend: got 'cuda@12.8'"),
    "a library's technique": ("gate", put("backend", value="fa3"), "row.backend: got 'fa3'"),
    "a library that proves": ("proof", put("backend", value="fa3"), "row.backend: got 'fa3'"),
    "an architecture of nobody": ("gate", put("arch", value="sm_999"), "row.arch: got 'sm_999'"),
    "instructions of nobody": ("gate", put("mma", value="zzz"), "row.mma"),
    "an odd head dimension": ("gate", put("problem", "head_dim", value=63), "row.problem.head_dim: got 63"),
    "an unknown roof": ("roof", put("roof", value="no_such"), "row.roof: got 'no_such'"),
    "a roof of no name": ("roof", drop("roof"), "row.roof: got nothing"),
    "an unknown tool": ("sanitizer", put("tool", value="nosuchcheck"), "row.tool"),
    "a finding of no tool": ("sanitizer", drop("tool"), "row.tool: got nothing"),
    "a time by CUPTI that says nothing": ("cupti", put("details", value={}), "row.details.cupti_ms"),
    "a text by CUPTI": ("cupti", put("details", "cupti_ms", value="x"), "row.details.cupti_ms"),
    "a time by CUPTI of nothing": ("cupti", put("details", "events_ms", value=0), "row.details.events_ms"),
    "findings in one piece": ("cupti", put("details", "findings", value="waits"), "row.details.findings"),
    "a verdict of nobody": ("proof", put("details", "verdict", value="maybe"), "row.details.verdict"),
    "a proof without a verdict": ("proof", put("details", value={}), "row.details.verdict"),
    "a site that never ran": ("memory", put("details", "sites", 0, "executions", value=0), "sites[0].executions"),
    "lanes wider than the banks": ("memory", put("details", "sites", 0, "width", value=256), "sites[0].width"),
    "half a warp": ("memory", put("details", "sites", 0, "example_addresses", value=[0] * 16), "example_addresses"),
    "an ldmatrix of no address": (
        "memory",
        lambda row: row["details"]["sites"][0].pop("example_addresses"),
        "row.details.sites[0].example_addresses",
    ),
    "a wait for half of what there was": (
        "memory",
        lambda row: row["details"]["sites"][0].pop("groups_left"),
        "row.details.sites[0].groups_left",
    ),
    "totals of nothing": ("memory", put("details", "totals", value={}), "row.details.totals.bank_conflicts"),
    "ncu's metrics of text": ("counters", put("details", "metrics", value={"x": "1"}), "row.details.metrics.x"),
}


def file_of(folder: Path, *rows: Row) -> Path:
    return write(folder / "run.jsonl", rows)


def hostile(kind: str, change: Callable[[Row], Any]) -> list[Row]:
    """A run of which one row was changed; where it is the environment, the timing row names it all the same."""
    rows = {name: copy.deepcopy(row) for name, row in EVERY_KIND.items()}
    change(rows[kind])
    if kind == "environment" and "id" in rows[kind]:
        for row in rows.values():
            row["environment"] = rows[kind]["id"]
        del rows[kind]["environment"]
    return list(rows.values())


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_row_is_refused_with_file_line_and_field_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    kind, change, field = HOSTILE[name]
    rows = hostile(kind, change)
    if "GPU" in name and kind == "environment":
        rows[0]["id"] = results.environment_id(rows[0]["details"])
    path = file_of(tmp_path, *rows)
    with pytest.raises(results.NotRows) as refused:
        record.record([path], tmp_path / "in/recorded")
    assert f"{path}:{list(EVERY_KIND).index(kind) + 1}:" in str(refused.value)
    assert field in str(refused.value)
    assert [each.name for each in tmp_path.rglob("*")] == ["run.jsonl"]


@pytest.mark.parametrize("kind", ROWS)
def test_no_field_takes_a_value_of_another_type(kind: str) -> None:
    for field, value in product(ROWS[kind], OTHERS):
        row = ROWS[kind] | {field: value}
        if (kind, field, repr(value)) in HOLLOW:
            schema.check(row)
        else:
            with pytest.raises(ValueError, match=field):
                pytest.fail(f"{field} takes {value!r}: {schema.check(row)}")


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"kind": "timing", "compile_s": ' + "9" * 5000 + "}",
        '{"kind": {}}',
        '{"kind": "gate"}',
        '{"a":' * 500,
        '{"kind": "gate", "kind": "timing"}',
        json.dumps(TIMING)[:-1] + ', "details": {"a": {"b": 1, "b": 2}}}',
        "\ufeff" + json.dumps(TIMING),
        json.dumps(TIMING) + "\0",
        json.dumps(TIMING | {"group": "\udce9"}, ensure_ascii=False),  # a byte that is no UTF-8
    ],
    ids=lambda text: text[-20:],
)
def test_a_line_that_breaks_a_parser_is_refused_with_its_number(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.jsonl"
    lines = json.dumps(ENVIRONMENT) + "\n\n" + text + "\n" + json.dumps(TIMING) + "\n"
    path.write_text(lines, errors="surrogateescape")
    with pytest.raises(results.NotRows, match=r"run\.jsonl:3: "):
        record.record([path], tmp_path / "recorded")
    with pytest.raises(results.NotRows, match=r"run\.jsonl:3: "):
        results.read(path, schema.check)


def test_a_line_without_end_is_refused_before_it_is_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = file_of(tmp_path, ENVIRONMENT, TIMING)
    monkeypatch.setattr(results, "LONGEST_LINE", len(json.dumps(ENVIRONMENT)))
    with pytest.raises(results.NotRows, match=r"run\.jsonl:2: got \d+ bytes, expected a row of at most \d+"):
        results.read(path)


def test_a_pipe_or_a_folder_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "folder.jsonl").mkdir()
    os.mkfifo(tmp_path / "pipe.jsonl")
    for path in (*tmp_path.iterdir(), Path("/dev/zero")):
        for use in (results.read, results.Writer):
            with pytest.raises(results.NotRows, match="expected a file of rows"):
                use(path)
    with pytest.raises(FileNotFoundError):
        results.read(tmp_path / "missing.jsonl")


def test_two_runs_of_which_one_is_hostile_are_both_refused(tmp_path: Path) -> None:
    good = file_of(tmp_path, ENVIRONMENT, TIMING, GATE)
    bad = write(tmp_path / "bad.jsonl", [ENVIRONMENT, TIMING | {"samples_ms": [0]}])
    with pytest.raises(results.NotRows, match=r"bad\.jsonl:2: row\.samples_ms\[0\]"):
        record.record([good, bad], tmp_path / "recorded")
    assert not (tmp_path / "recorded").exists()
    assert record.record([good], tmp_path / "recorded") == [tmp_path / "recorded/h200/attention/ladder/run.jsonl.xz"]


def test_a_comparison_takes_no_hostile_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = file_of(tmp_path, ENVIRONMENT, TIMING)
    bad = write(tmp_path / "bad.jsonl", [ENVIRONMENT, TIMING | {"samples_ms": ["1"]}])
    assert compare.main(good, bad, tmp_path) == 2
    assert compare.main(bad, good, tmp_path) == 2
    said = capsys.readouterr().out
    assert said.count("bad.jsonl:2: row.samples_ms[0]: got '1', expected a valid number") == 2


def test_a_compiler_without_an_assembler_is_recorded(tmp_path: Path) -> None:
    """The environment knows which; it was a traceback."""
    run = file_of(tmp_path, ENVIRONMENT, TIMING | {"compiler": {"front_end": "nvcc 13.0"}})
    assert record.record([run], tmp_path / "recorded") == [tmp_path / "recorded/h200/attention/ladder/run.jsonl.xz"]


def test_counters_that_were_declined_have_no_metrics_and_those_that_passed_do() -> None:
    counted = {name: value for name, value in GATE.items() if name not in ("gate", "numerics")}
    counted |= {"kind": "counters", "details": {}}
    schema.check({**counted, "status": "unsupported", "reason": "the tile is not for this kernel"})
    with pytest.raises(ValueError, match=r"row\.details\.metrics: got nothing"):
        schema.check(counted)


def test_an_hour_ahead_is_another_clock_and_a_week_is_not() -> None:
    def ahead(hours: int) -> Row:
        return TIMING | {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600 * hours))}

    schema.admit(ahead(1))
    with pytest.raises(ValueError, match=r"row\.time"):
        schema.admit(ahead(7 * 24))


def test_a_row_of_each_kind_is_admitted() -> None:
    assert {row["kind"] for row in OF_KINDS.values()} == set(results.KINDS) - {"environment"}
    assert {*results.PURPOSES} <= {row.get("purpose") for row in OF_KINDS.values()}
    for row in OF_KINDS.values():
        schema.admit(row)


def test_a_row_that_failed_may_lack_what_it_would_have_measured() -> None:
    for kind in ("gate", "timing", "tune", "cupti", "code", "counters", "memory", "roof"):
        left_out = ("samples_ms", "details", "numerics", "code", "per_clock")
        row = {name: value for name, value in OF_KINDS[kind].items() if name not in left_out}
        schema.admit({**row, "status": "timeout", "reason": "no sign of life"})


def test_a_library_may_have_a_version_and_a_rival_always_has() -> None:
    peer = {name: value for name, value in GATE.items() if name not in ("technique", "tile", "code")}
    for backend in (*ALL_PEERS, "fa3@2.8.3"):
        schema.admit({**peer, "backend": backend})
    assert set(RIVALS) == set(techniques.RIVALS)
    for backend in ("cute@4.8.1", "cutile@2.0"):
        schema.admit({**OF_KINDS["proof"], "backend": backend})
        with pytest.raises(ValueError, match=r"row\.backend"):
            schema.admit({**OF_KINDS["proof"], "backend": backend.partition("@")[0]})


GONE = {"trailing_dq", "paired_numbers", "spread_conversion", "last_adder", "one_launch"}
"""Rungs of the backward pass whose rows were recorded before the rungs were deleted. A recorded run never changes."""


def admit_recorded(row: Row) -> None:
    if row.get("operator") == "attention_backward" and row.get("technique") in GONE:
        with pytest.raises(ValueError, match=r"row\.technique"):
            schema.admit(row)
    else:
        schema.admit(row)


@pytest.mark.xdist_group("recorded")
@pytest.mark.slow
def test_every_recorded_row_is_admitted_and_in_one_table_of_its_kind() -> None:
    """No false alarm."""
    rows = Counter(row["kind"] for path in results.recorded(ROOT) for row in results.read(path, admit_recorded))
    assert set(rows) == set(results.KINDS)
    for kind in ("timing", "gate", "counters", "proof"):
        assert len(frame(kind)) == rows[kind]


SMALL = 16 * 2**20
"""In place of results.LARGEST_FILE, of which packing takes a second."""


def xz(rows: bytes, *, cut: int = 0, more: bytes = b"") -> bytes:
    packed = lzma.compress(rows)
    return packed[: len(packed) - cut] + more


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (lzma.compress(b"\n" * (SMALL + 1), preset=0), f"unpacks to more than {SMALL} bytes"),
        (b"no such format", "got no .xz file"),
        (xz(b"", more=b"{}"), "cut off or continued"),
        (xz(json.dumps(TIMING).encode() * 50, cut=30), "cut off or continued"),
        (lzma.compress(b"", format=lzma.FORMAT_ALONE), "got no .xz file"),
        (xz(b"1"), "expected a row"),
    ],
    ids=["a bomb", "text", "something behind it", "cut off", "another format", "no row"],
)
def test_a_hostile_recorded_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, said: str
) -> None:
    monkeypatch.setattr(results, "LARGEST_FILE", SMALL)
    path = write_recorded(tmp_path, [])
    path.write_bytes(content)
    with pytest.raises(results.NotRows, match=said):
        results.read(path)
