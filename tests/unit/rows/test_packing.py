"""Packed rows are the rows; what is recorded stays small enough to travel."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from harness.catalog.problem import Problem, Tile
from harness.rows import packing, record, results
from tests.conftest import CHECKOUT
from tests.support import synthetic_rows as synthetic
from tests.support.row_file import write

Row = dict[str, Any]
MB = 1_000_000
FOLDER = CHECKOUT / "reports" / "recorded"
COMPILER = {"front_end": "nvcc 13.0.88", "ptxas": "13.0.88", "flags": "-O3 -DATTENTION_BLOCK_M=64"}
FIGURES = {"max_abs": 0.0018522739, "rel_l2": None, "yardstick": 0.00205397605, "floor": 0.001953125}


def gate(technique: str, error: float = 0.0018522739, **fields: Any) -> Row:
    return {
        **synthetic.make("gate", "scalar", "cuda", Problem.square(4, 16, 4096, 128), Tile(64, 64), environment="e"),
        "technique": technique,
        "compiler": COMPILER,
        "numerics": {"normal": FIGURES | {"max_abs": error}, "shifted": {}},
        "code": {"registers": 198, "census": {"HMMA": 128, "LDL": 0}, "sass_sha256": technique * 8},
        "details": {"label": "", "launch_ms": 0.089039000044977},
        **fields,
    }


def timing(technique: str, **fields: Any) -> Row:
    row = gate(technique, kind="timing", mode="burst", samples_ms=[1.6185599565505981, 1.6228159666061401])
    row |= {"group": "g", "order": ["a", "b"], "clocks": {"sm_mhz": 1980}, "details": {"again": {"of": "a"}}}
    del row["numerics"], row["code"]
    return row | fields


SLUG = Problem.square(4, 16, 4096, 128).slug
ENVIRONMENTS = [
    {"kind": "environment", "id": name, "on": "gpu", "time": name, "details": {"gpu": {"name": "NVIDIA H200"}, "n": n}}
    for n, name in enumerate("efgh")
]
ROWS = [
    *ENVIRONMENTS,
    gate("scalar"),
    gate("wmma", 0.0025),
    gate("scalar", seed=1),
    timing("scalar"),
    timing("wmma", samples_ms=[1.1234567, 2.2]),  # no whole ticks
    timing("padded_rows", samples_ms=[], details={}),
    timing("wmma", order=[f"sdpa_cudnn {SLUG}", f"wmma cuda {SLUG} 64x64-s1-w4", f"sdpa_cudnn {SLUG} again"]),
    timing("wmma", order=[f"wmma cuda {SLUG}", "wmma cuda b2-h16-n4096-d128-bf16-full"]),  # of two problems
]


def lines(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_variants_of_a_problem_are_named_once_and_their_order_is_of_places(tmp_path: Path) -> None:
    record.write(tmp_path / "rows.jsonl", ROWS)
    text = (tmp_path / "rows.jsonl").read_text()
    names = '["sdpa_cudnn *","sdpa_cudnn * again","wmma cuda * 64x64-s1-w4"]'
    (line,) = (line for line in lines(tmp_path / "rows.jsonl") if "order_short" in line.get("fields", {}))
    assert text.count(f'"order_short":["{SLUG}",{names}]') == 1
    assert text.count(f'"order_of":["{line["id"]}",1,"AAIB"]') == 1  # 0, 2 and 1
    assert text.count(f'"order":["wmma cuda {SLUG}"') == 1


def test_groups_of_other_variants_have_places_in_the_same_list(tmp_path: Path) -> None:
    names = [f"wmma cuda {SLUG} {number}" for number in range(300)]
    orders = [names, names[::-1], names[7:9], [names[3], names[3]], [name.replace("b4", "b2") for name in names[:2]]]
    rows = [timing("wmma", group=f"{number}", order=order) for number, order in enumerate([*orders, *orders])]
    record.write(tmp_path / "rows.jsonl", rows)
    text = (tmp_path / "rows.jsonl").read_text()
    assert results.read(tmp_path / "rows.jsonl") == rows
    assert text.count("wmma cuda * 299") == 1
    assert text.count('"order_short"') == 2, "of two problems"
    assert '"order":' not in text


def test_places_refer_to_a_line_above_where_an_order_is_all_that_rows_share(tmp_path: Path) -> None:
    names = [f"wmma cuda {SLUG} {number}" for number in range(9)]
    rows = [{name: value for name, value in timing("wmma", order=names).items() if name not in ("group", "clocks")}]
    rows[0]["details"] = {}
    record.write(tmp_path / "rows.jsonl", rows * 3)
    assert results.read(tmp_path / "rows.jsonl") == rows * 3


def test_a_group_of_an_earlier_commit_has_a_short_order_of_its_own(tmp_path: Path) -> None:
    short = {"order_short": [SLUG, ["wmma cuda * 64x64-s1-w4", "sdpa_cudnn *"]]}
    own = {name: value for name, value in timing("wmma").items() if name != "order"}
    write(tmp_path / "rows.jsonl", [{"id": "abcd", "fields": short}, own | {"shared": "abcd"}, own | short])
    order = [f"wmma cuda {SLUG} 64x64-s1-w4", f"sdpa_cudnn {SLUG}"]
    assert [row["order"] for row in results.read(tmp_path / "rows.jsonl")] == [order, order]


def test_a_packed_file_gives_back_every_row(tmp_path: Path) -> None:
    record.write(tmp_path / "rows.jsonl", ROWS)
    assert results.read(tmp_path / "rows.jsonl") == [packing.lean(row) for row in ROWS]


def test_what_rows_share_is_written_once(tmp_path: Path) -> None:
    record.write(tmp_path / "rows.jsonl", ROWS)
    text = (tmp_path / "rows.jsonl").read_text()
    assert text.count(COMPILER["flags"]) == 1
    assert text.count("yardstick") == 1
    assert text.count("NVIDIA H200") == 1
    written = lines(tmp_path / "rows.jsonl")
    assert len([line for line in written if "fields" not in line]) == len(ROWS)
    assert text.count('"kind":"gate"') == 1


def test_a_run_says_once_which_replicate_it_is(tmp_path: Path) -> None:
    rows = [timing(name, details={"replicate": 2}) for name in ("scalar", "wmma", "padded_rows")]
    record.write(tmp_path / "rows.jsonl", rows)
    assert (tmp_path / "rows.jsonl").read_text().count('"replicate":2') == 1
    assert results.read(tmp_path / "rows.jsonl") == rows


def test_a_file_of_an_earlier_commit_gives_back_every_row(tmp_path: Path) -> None:
    record.write(tmp_path / "rows.jsonl", ROWS)
    earlier = [line | {"kind": "shared"} if "fields" in line else line for line in lines(tmp_path / "rows.jsonl")]
    write(tmp_path / "earlier.jsonl", earlier)
    assert results.read(tmp_path / "earlier.jsonl") == results.read(tmp_path / "rows.jsonl")


def test_samples_are_kept_in_ticks_and_keep_their_value(tmp_path: Path) -> None:
    record.write(tmp_path / "rows.jsonl", ROWS)
    written = lines(tmp_path / "rows.jsonl")[-len(ROWS) :]
    short, exact, none, *_ = (line for line, row in zip(written, ROWS, strict=True) if row["kind"] == "timing")
    assert short["samples_32ns"] == [50580, 1, "AIU"]  # 0 and 133
    assert exact["samples_ms"] == [1.1234567, 2.2]
    assert none["samples_ms"] == []


def test_samples_of_a_trace_are_kept_in_its_ticks(tmp_path: Path) -> None:
    row = timing("wmma", kind="referee", samples_ms=[2.76215234375, 2.7606474609375])
    (line,) = packing.pack([row])
    assert line["samples_us_1024"] == [2_826_903, 2, "BQYAAA"]  # 1541 and 0
    record.write(tmp_path / "rows.jsonl", [row])
    assert results.read(tmp_path / "rows.jsonl") == [row]


def test_counters_are_named_once(tmp_path: Path) -> None:
    all_of_them = ({"memory.sum": 7, "issue.pct": 1.5}, {"memory.sum": 9, "issue.pct": 2.5}, {"issue.pct": 3.5})
    rows = [timing("wmma", kind="counters", details={"metrics": metrics, "grid": "(1,)"}) for metrics in all_of_them]
    write(tmp_path / "rows.jsonl", list(packing.pack(rows)))
    text = (tmp_path / "rows.jsonl").read_text()
    assert [text.count(name) for name in all_of_them[0]] == [1, 2]
    assert results.read(tmp_path / "rows.jsonl") == rows


def test_distributions_and_figures_are_named_once(tmp_path: Path) -> None:
    both, one = {"normal": FIGURES, "shifted": FIGURES}, {"normal": FIGURES}
    rows = [packing.lean(gate("wmma", numerics=numerics)) for numerics in (both, one, both)]
    rows += [packing.lean(gate("scalar", numerics={"normal": FIGURES | {"max_abs": 0.5}, "outliers": FIGURES}))]
    write(tmp_path / "rows.jsonl", list(packing.pack(rows)))
    text = (tmp_path / "rows.jsonl").read_text()
    named = [line["fields"] for line in lines(tmp_path / "rows.jsonl") if "figures" in line.get("fields", {})]
    assert sorted((line["distributions"], line["figures"]) for line in named) == [
        (["normal"], sorted(FIGURES)),
        (["normal", "outliers"], sorted(FIGURES)),
        (["normal", "shifted"], ["floor", "yardstick"]),  # of the problem
        (["normal", "shifted"], ["max_abs", "rel_l2"]),
    ]
    assert [text.count(f'"{name}"') for name in ("normal", "shifted", "max_abs")] == [4, 2, 3]
    assert results.read(tmp_path / "rows.jsonl") == rows


def test_a_file_of_an_earlier_commit_names_the_figures_in_each_row() -> None:
    numerics = {"numerics": {"normal": {"max_abs": 0.5}, "shifted": {"max_abs": 0.25}}}
    names = ["normal", "shifted"]
    for of in (names, "id"):
        earlier = {"numerics_by_figure": {"of": of, "max_abs": [0.5, 0.25]}}
        assert packing.unpack(earlier, {"id": {"distributions": names}}) == numerics


LOOP = {"all": {"maxima": 4, "shuffles": 0}, "in_lock": None, "serialized": False, "sequence": "HMMA x8", "empty": {}}


def code(registers: int, **fields: Any) -> Row:
    return {"registers": registers, "census": {"HMMA": 128, "STS.128": 4}, "main_loop": LOOP, **fields}


def test_names_in_code_are_written_once(tmp_path: Path) -> None:
    twice = code(32)  # said by two rows, so that a line has it
    backwards = code(64, census={"STS.128": 4, "HMMA": 128}, remarks=["spilled"], setmaxnreg=[24, 240])
    rows = [packing.lean(gate("wmma", code=each)) for each in (twice, twice, code(33), backwards)]
    record.write(tmp_path / "rows.jsonl", rows)
    written = lines(tmp_path / "rows.jsonl")
    text = (tmp_path / "rows.jsonl").read_text()
    names = [line["fields"]["names"] for line in written if "names" in line.get("fields", {})]
    loop = ["main_loop", ["all", "maxima", "shuffles"], "in_lock", "serialized", "sequence", "empty"]
    assert ["registers", ["census", "HMMA", "STS.128"], loop] in names
    assert [text.count(name) for name in ("STS.128", "maxima")] == [len(names), len(names)] == [3, 3]
    values = [line.get("fields", line)["code"][1:] for line in written if "code" in line.get("fields", line)]
    assert [33, 128, 4, 4, 0, None, False, "HMMA x8", {}] in values
    read = results.read(tmp_path / "rows.jsonl")
    assert read == rows
    assert list(read[3]["code"]["census"]) == ["STS.128", "HMMA"], "the order in which `inspect` shows them"


def test_the_same_names_have_the_same_id_in_every_file() -> None:
    few, more = ([*packing.pack([gate("wmma", code=code(number)) for number in range(n)])] for n in (1, 3))
    assert few[-1]["code"][0] == more[-1]["code"][0]


def test_code_of_an_earlier_commit_has_its_names_itself(tmp_path: Path) -> None:
    rows = [{"kind": "code", "status": "passed", "code": each} for each in (code(32), {})]
    write(tmp_path / "rows.jsonl", [{"id": "abcd", "fields": {"code": code(8)}}, *rows, {**rows[1], "shared": "abcd"}])
    assert [row["code"] for row in results.read(tmp_path / "rows.jsonl")] == [code(32), {}, code(8)]


@pytest.mark.parametrize("kept", [{}, {"a": {"b": {"c": {"d": 1}}}}])
def test_a_code_without_names_or_of_many_in_each_other_is_kept_as_it_is(kept: Row) -> None:
    (line,) = packing.pack([{"kind": "code", "code": kept}])
    assert line["code"] == packing.unpack(line, {})["code"] == kept


def test_hashes_are_kept_as_base64_and_read_as_hexadecimal_digits(tmp_path: Path) -> None:
    hashes = {name: f"{number:x}" * 64 for number, name in enumerate(packing.HASHES, 7)}
    own = "0123456789abcdef" * 4
    rows = [packing.lean(gate("wmma", **hashes, code={"sass_sha256": "f" * 64}, seed=seed)) for seed in (1, 2)]
    rows += [packing.lean(gate("wmma", source_sha256="now", code={"sass_sha256": own}))]
    record.write(tmp_path / "rows.jsonl", rows)
    text = (tmp_path / "rows.jsonl").read_text()
    assert results.read(tmp_path / "rows.jsonl") == rows
    assert not re.search("[0-9a-f]{64}", text)
    assert text.count('"ASNFZ4mrze8BI0VniavN7wEjRWeJq83vASNFZ4mrze8"]') == 1
    for sha256 in (*hashes.values(), "f" * 64, own):
        text = text.replace(base64.urlsafe_b64encode(bytes.fromhex(sha256)).decode().rstrip("="), sha256)
    (tmp_path / "earlier.jsonl").write_text(text)
    assert len(re.findall('"[0-9a-f]{64}"', text)) == 6, "each in one line"
    assert results.read(tmp_path / "earlier.jsonl") == rows


@pytest.mark.parametrize("ticks", [[7, 7], [0, 255], [9, 265, 9], [1, 70_000, 2, 3], [5, 5 + (1 << 24)]])
def test_samples_of_every_size_come_back(ticks: list[int]) -> None:
    row = timing("wmma", samples_ms=[packing._milliseconds(packing.SAMPLES_TICKS, one) for one in ticks])
    (line,) = packing.pack([row])
    assert packing.unpack(line, {})["samples_ms"] == row["samples_ms"]
    smallest, *_ = line["samples_32ns"]
    earlier = line | {"samples_32ns": [smallest, *(one - smallest for one in ticks)]}
    assert packing.unpack(earlier, {})["samples_ms"] == row["samples_ms"]


MANY = base64.b64encode(bytes(packing.LONGEST + 1)).decode()
HOSTILE: dict[str, tuple[Row, str]] = {
    **{
        f"samples {str(kept)[:20]}": ({"samples_32ns": kept}, "samples_32ns: got ")
        for kept in (
            *([], [5], [5, 0, "AA"], [5, 2, "AA"], [5, 1, "!!"], [5, 1, "A"], [5, 1, "Ä"], [5, 1, 2, "AA"]),
            *(["a", 1, "AA"], [5.5, 1, "AA"], [True, 1, "AA"], [5, True, "AA"], [5, 1.0, "AA"], [5, -1, "AA"]),
            *([5, 10**12, ""], [5, 40, "AA"], [10**60, 1, "AA"], [5, [1]], [5, 1.5, 2], {"a": 1}, "AA", None),
            [5, 1, MANY],
        )
    },
    "samples twice": ({"samples_ms": [1.0], "samples_32ns": [5, 1, "AA"]}, "samples_32ns: got it beside samples_ms"),
    "samples of two clocks": (
        {"samples_us_1024": [5, 1, "AA"], "samples_32ns": [5, 1, "AA"]},
        "samples_us_1024: got it beside samples_ms",
    ),
    "samples shared and said": ({"shared": "ticks", "samples_ms": [1.0]}, "samples_ms: got "),
    "a kind shared and said": ({"shared": "kind"}, "kind: got 'environment' and 'timing'"),
    "ids in a list": ({"shared": ["ticks"]}, "shared: got list"),
    "an order twice": ({"order": ["a"], "order_short": [SLUG, ["*"]]}, "order_short: got it beside order"),
    "an order of one name": ({"order_short": SLUG}, "order_short: got "),
    "an order that grows": ({"order_short": [SLUG, ["* " * 1000]]}, r"order_short\[1\]: got "),
    "an order of numbers": ({"order_short": [SLUG, [1]]}, r"order_short\[1\]: got "),
    "an order twice by places": ({"order": ["a"], "order_of": ["names", 1, "AA"]}, "order_of: got it beside order"),
    "an order by both": ({"order_short": [SLUG, ["*"]], "order_of": ["names", 1, "AA"]}, "order_of: got it beside"),
    "an order of no line": ({"order_of": ["none", 1, "AA"]}, r"order_of\[0\]: got 'none'"),
    "an order of a line without one": ({"order_of": ["kind", 1, "AA"]}, r"order_of\[0\]: got 'kind'"),
    "a place behind the last": ({"order_of": ["names", 1, "AAEC"]}, r"order_of\[2\]: got place 2"),
    **{
        f"places {str(kept)[:20]}": ({"order_of": kept}, "order_of: got ")
        for kept in (
            *([], ["names"], ["names", "AA"], ["names", 0, "AA"], ["names", 9, "AA"], ["names", 2, "AA"]),
            *(["names", 1, "!!"], ["names", 1, ""], ["names", True, "AA"], ["names", 1, ["AA"]], [["names"], 1, "AA"]),
            *("names", None, {"names": 1}, ["names", 1, MANY]),
        )
    },
    "counters twice": ({"details": {"metrics": {}}, "metrics_of": ["counters", 1, 2]}, "metrics_of: got it beside"),
    "counters of no line": ({"metrics_of": ["none", 1, 2]}, "metrics_of: got "),
    "counters of a line without names": ({"metrics_of": ["kind", 1, 2]}, "metrics_of: got "),
    "a counter too few": ({"metrics_of": ["counters", 1]}, "metrics_of: got 1 values, expected 2"),
    "counters in no list": ({"metrics_of": "counters"}, "metrics_of: got "),
    "counters of a number": ({"metrics_of": [1, 1, 2]}, "metrics_of: got "),
    "counters beside no object": ({"details": [], "metrics_of": ["counters", 1, 2]}, "details: got "),
    **{
        f"a hash {kept[-3:]} of {name}": (fields, f"{name}: got ")
        for kept in ("A" * 42 + "B", "A" * 42 + "=", "A" * 21 + "!" + "A" * 21, "A" * 42 + "+", "Ä" * 43)
        for name, fields in (
            *((name, {name: kept}) for name in packing.HASHES),
            ("code.sass_sha256", {"code": {"sass_sha256": kept}}),
        )
    },
    **{
        f"code {kept}": ({"code": kept}, "code: got ")
        for kept in (
            *([], "names of values", None, 1, ["names of values"], [["names of values"], 1, 2], ["none", 1, 2]),
            *(["kind", 1, 2], ["names of values", 1], ["names of values", 1, 2, 3], ["names of values", 1, {"a": 2}]),
            *(["no value"], ["no value in it"], ["a dictionary without a name"], ["a value twice", 1, 2]),
            *(["a dictionary twice", 1, 2], ["a value of 1", 1], ["too deep", 1], ["names in no list", 1]),
        )
    },
    "code shared and said": ({"shared": "code", "code": ["names of values", 1, 3]}, "b: got 2 and 3"),
    "a problem without end": ({"order_short": ["b1-h1-n1-d1-" + "f" * 100, ["*"]]}, r"order_short\[0\]: got "),
    "figures twice": (
        {"numerics": {}, "numerics_by_figure": {"of": ["a"], "max_abs": [1]}},
        "numerics_by_figure: got it beside numerics",
    ),
    **{
        f"figures {figures}": ({"numerics_by_figure": figures}, rf"numerics_by_figure\.{name}: got ")
        for figures, name in (
            ({"max_abs": [1]}, "of"),
            ({"of": ["a", "a"], "max_abs": [1, 2]}, "of"),
            ({"of": "ab", "max_abs": [1, 2]}, "of"),
            ({"of": "kind", "max_abs": [1, 2]}, "of"),
            ({"of": "distributions", "max_abs": [1]}, "max_abs"),
            ({"of": [["a"]], "max_abs": [1]}, "of"),
            ({"of": ["a"], "max_abs": [1, 2]}, "max_abs"),
            ({"of": ["a", "b"], "max_abs": [1]}, "max_abs"),
            ({"of": ["a", "b"], "max_abs": "12"}, "max_abs"),
            ({"of": ["a"], "max_abs": {"0": 1}}, "max_abs"),
            (["names of figures", [1], [1, 2]], "max_abs"),
            (["names of figures", [1, 2], "12"], "rel_l2"),
            (["figures alone", [1, 2]], "of"),
        )
    },
    **{
        f"figures {figures}": ({"numerics_by_figure": figures}, "numerics_by_figure: got ")
        for figures in (
            *([], "names of figures", None, 1, [["names of figures"], [1, 2], [1, 2]], ["kind", [1, 2], [1, 2]]),
            *(["none", [1, 2], [1, 2]], ["distributions", [1, 2], [1, 2]], ["a figure twice", [1, 2], [1, 2]]),
            *(["names of figures", [1, 2]], ["names of figures", [1, 2], [1, 2], [1, 2]], ["a figure of 1", [1, 2]]),
            *(["no figure"], {"of": "distributions"}),
        )
    },
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_pack_does_not_write_is_refused_by_its_field(tmp_path: Path, name: str) -> None:
    fields, said = HOSTILE[name]
    shared = {
        "ticks": {"samples_32ns": [5, 1, "AA"]},
        "kind": {"kind": "environment"},
        "names": {"order_short": [SLUG, ["wmma *", "scalar *"]]},
        "counters": {"metric_names": ["a", "b"]},
        "distributions": {"distributions": ["normal", "shifted"]},
        "names of figures": {"distributions": ["normal", "shifted"], "figures": ["max_abs", "rel_l2"]},
        "figures alone": {"figures": ["max_abs"]},
        "a figure twice": {"distributions": ["normal", "shifted"], "figures": ["max_abs", "max_abs"]},
        "no figure": {"distributions": ["normal", "shifted"], "figures": []},
        "a figure of 1": {"distributions": ["normal", "shifted"], "figures": [1]},
        "names of values": {"names": ["a", ["census", "b"]]},
        "no value": {"names": []},
        "no value in it": {"names": [["census"]]},
        "a dictionary without a name": {"names": [[]]},
        "a value twice": {"names": ["a", "a"]},
        "a dictionary twice": {"names": ["a", ["a", "b"]]},
        "a value of 1": {"names": [1]},
        "too deep": {"names": [["a", ["b", ["c", "d"]]]]},
        "names in no list": {"names": "a"},
        "code": {"code": ["names of values", 1, 2]},
    }
    above = [{"id": each, "fields": shared[each]} for each in shared]
    row = {field: value for field, value in timing("wmma").items() if field not in ("samples_ms", "order")} | fields
    write(tmp_path / "rows.jsonl", [*above, row])
    with pytest.raises(results.NotRows, match=rf"rows\.jsonl:{len(above) + 1}: {said}"):
        results.read(tmp_path / "rows.jsonl")


@pytest.mark.parametrize(
    ("line", "again"), [({"id": "a"}, {"id": "a", "fields": {"mode": "sustained"}}), ({}, {}), ({"id": 1}, {})]
)
def test_an_id_stands_for_one_thing(tmp_path: Path, line: Row, again: Row) -> None:
    both = [{"fields": {"mode": "burst"}} | each for each in (line, again)]
    write(tmp_path / "rows.jsonl", [*both, timing("wmma")])
    with pytest.raises(results.NotRows, match=r"rows\.jsonl:[12]: got fields that rows share with id"):
        results.read(tmp_path / "rows.jsonl")


def test_errors_keep_four_digits_and_the_census_what_occurs() -> None:
    row = packing.lean(gate("scalar"))
    assert row["numerics"]["normal"] == {"max_abs": 0.001852, "rel_l2": None, "yardstick": 0.002054, "floor": 0.001953}
    assert row["code"]["census"] == {"HMMA": 128}
    assert row["details"]["launch_ms"] == 0.08904, "`run --missing` orders the kernels by it"


def test_a_tile_that_is_tried_keeps_its_time_alone_and_what_is_only_gated_none() -> None:
    row = timing("wmma", kind="tune", call_us={"launcher": 45.0}, clock_ghz=[1.7], compile_s=3.0)
    assert packing.lean(row).keys() == row.keys() - {"order", "clock_ghz", "call_us", "compile_s"}
    assert packing.lean({**row, "details": {"label": "", "launch_ms": 0.1}})["details"] == {"label": ""}
    for name in ("any_length", "correctness", "random_problems"):
        assert packing.lean(gate("wmma", experiment=name))["details"] == {"label": ""}
    assert "compile_s" not in packing.lean(gate("wmma", compile_s=3.0))


def test_a_random_problem_keeps_what_a_reader_needs_and_a_failure_everything() -> None:
    numerics = {"normal": {"max_abs": 0.5, "floor": 0.25, "lse_max_abs": 1e-6, "rel_l2_used": 0.61239}}
    row = gate("flagship", experiment="random_problems", numerics=numerics)
    assert packing.lean(row)["numerics"] == {"normal": {"max_abs": 0.5, "floor": 0.25, "rel_l2_used": 0.6124}}
    assert packing.lean({**row, "status": "wrong"})["numerics"]["normal"].keys() == numerics["normal"].keys()


@pytest.mark.parametrize(("experiment", "kept"), [("ladder", True), ("hopper", True), ("hopper_grid", False)])
def test_host_latency_is_kept_in_ladders(experiment: str, kept: bool) -> None:
    row = packing.lean(timing("wmma", experiment=experiment, call_us={"launcher": 4.56789}))
    assert row.get("call_us") == ({"launcher": 4.568} if kept else None)


def test_rows_appended_to_a_packed_file_are_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    record.write(path, ROWS[:-1])
    with results.Writer(path) as writer:
        writer.write(ROWS[-1])
    assert results.read(path)[-1] == ROWS[-1]


def test_what_rows_share_is_unfolded_once(tmp_path: Path) -> None:
    path, order = tmp_path / "rows.jsonl", [f"sdpa_cudnn {SLUG}", f"wmma cuda {SLUG} 64x64-s1-w4"]
    record.write(path, [timing("wmma", order=order, samples_ms=[number / 31_250]) for number in (1, 2)])
    first, second = results.read(path)
    assert first["order"] == order
    assert first["order"] is second["order"]


def test_ids_of_one_beginning_get_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "ID_LENGTH", 1)
    packed = list(packing.pack([row for number in range(40) for row in [timing("scalar", group=f"{number}")] * 2]))
    shared = {line["id"]: line["fields"] for line in packed if "fields" in line}
    assert len({len(name) for name in shared}) == 1
    assert len([packing.unpack(line, shared)["group"] for line in packed if "fields" not in line]) == 80


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (0, r"order_of\[0\]: got '[\w-]+', expected the id"),
        (1, r"numerics_by_figure: got \['[\w-]+', .*, expected \[id of a line"),
        (2, r"code: got \['[\w-]+', .*, expected an object or \[id of a line"),
        (-len(ROWS) - 1, r"shared: got '[\w-]+', expected one of the \d+ lines"),
    ],
)
def test_a_reference_to_nothing_names_the_line(tmp_path: Path, missing: int, said: str) -> None:
    record.write(tmp_path / "rows.jsonl", ROWS)
    written = (tmp_path / "rows.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "rows.jsonl").write_text("".join(line for line in written if line != written[missing]))
    with pytest.raises(ValueError, match=rf"rows\.jsonl:\d+: {said}"):
        results.read(tmp_path / "rows.jsonl")


@pytest.mark.parametrize(("status", "kept"), [("unsupported", {"stage"}), ("compile_error", {"stage", "log"})])
def test_the_log_of_a_failure_is_kept_and_that_of_a_declined_case_is_not(status: str, kept: set[str]) -> None:
    row = gate("scalar") | {"status": status, "details": {"stage": "load", "log": "Traceback"}}
    assert set(packing.lean(row)["details"]) == kept


def test_a_proof_is_kept_without_what_its_claim_says() -> None:
    row = {
        "kind": "probe",
        "experiment": "expressibility",
        "details": {"lines": ["HGMMA"], "detector": {}, "command": ""},
    }
    assert packing.lean(row)["details"] == {"lines": ["HGMMA"]}


def test_recorded_files_are_packed_and_lean() -> None:
    for path in FOLDER.glob("*/*.jsonl"):
        rows = results.read(path)
        assert [packing.lean(row) for row in rows] == rows, f"{path.name}: `record` writes it"
        share = any(packing.FIELDS in line for line in packing.pack(rows))  # a file of few rows may share nothing
        assert (packing.FIELDS in lines(path)[0]) == share, path.name


def test_what_is_recorded_is_small() -> None:
    size = sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file())
    assert size <= 16 * MB, f"reports/recorded holds {size:,} bytes"


def test_the_checkout_is_small() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=CHECKOUT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("this folder is no git checkout")
    paths = [CHECKOUT / name for name in listed.stdout.split("\0") if name]
    size = sum(path.stat().st_size for path in paths if path.is_file())
    assert size <= 24 * MB, f"{len(paths)} tracked files hold {size:,} bytes"
