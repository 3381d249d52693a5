"""What a technique's page says of the order of a main loop, its parent's and its own, from invented rows."""

import re
from typing import Any

import pytest

from harness.catalog import techniques
from harness.operators.attention.problem import Problem
from reports.pages import prose, technique
from reports.pages.common import Rows
from tests.support import synthetic_rows as synthetic
from tests.support.pages import dataset, rendered

pytestmark = pytest.mark.slow

Row = dict[str, Any]
COUNTS = {"exponentials": 66, "maxima": 68, "shuffles": 4, "conversions": 32}


def code(name: str, sequence: str, in_lock: dict[str, int] | None, backend: str = "cuda") -> Row:
    rung = techniques.of_qualified(name)
    loop = {"sequence": sequence, "all": COUNTS, "under_products": dict.fromkeys(COUNTS, 1), "in_lock": in_lock}
    made = {"registers": 168, "spill_bytes": 0, "smem_bytes": 1, "census": {"HGMMA": 12}, "sass_sha256": "a"}
    tile = techniques.reference_tile(rung, 128)
    problem = Problem.square(4, 16, 4096, 128)
    return synthetic.make("code", name, backend, problem, tile, on="cpu", code={**made, "main_loop": loop}, compiler={})


def html(name: str, *rows: Row) -> str:
    data = dataset([synthetic.ENVIRONMENT, *rows])
    variables = technique.page(Rows(data, [data], {}, prose.Claims()), techniques.of_qualified(name))
    return rendered("technique.html", variables, data)


def lines(name: str, *rows: Row) -> dict[str, list[str]]:
    """The lines of the tables of a page, by their first cell."""
    text = html(name, *rows)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line) for line in re.findall(r"<tr>.*?</tr>", text, re.DOTALL)]
    return {line[0]: line[1:] for line in cells if line}


def test_the_parents_order_stands_beside_the_rungs_own() -> None:
    ours, theirs = code("pinned_maxima", "68 max, wait 0", None), code("wide_tile", "35 max, wait 0", None)
    found = lines("pinned_maxima", ours, theirs)
    before = next(name for name in found if name.startswith("order of the parent’s"))
    assert (found["order of the main loop"], found[before]) == (["68 max, wait 0"], ["35 max, wait 0"])
    assert not [name for name in lines("pinned_maxima", ours) if name.startswith("order of the parent’s")]


def test_a_twin_stands_beside_the_rung_on_which_it_builds_in_its_language() -> None:
    cuda = code("overlapped_softmax", "own", None), code("producer_consumer", "of CUDA's parent", None)
    triton = code("overlapped_softmax", "own", None, "triton"), code("wgmma", "of Triton's parent", None, "triton")
    found = lines("overlapped_softmax", *cuda, *triton)
    name = "order of the parent’s main loop (Producer warpgroup; in Triton wgmma)"
    assert found[name] == ["of CUDA&#39;s parent", "of Triton&#39;s parent"]


def test_what_a_lock_guards_is_told_where_it_guards_some_of_a_softmax() -> None:
    guarded = {"exponentials": 66, "maxima": 0, "shuffles": 0, "conversions": 32}
    found = lines("exp_lock", code("exp_lock", "x", guarded))
    assert found["exponentials of the main loop in the lock"] == ["66 of 66"]
    assert found["maxima of the main loop in the lock"] == ["0 of 68"]
    for lock in (None, dict.fromkeys(COUNTS, 0)):
        assert not [name for name in lines("pingpong", code("pingpong", "x", lock)) if "in the lock" in name]


@pytest.mark.parametrize("name", ["xor_swizzle", "wgmma"])
def test_a_table_with_a_main_loop_explains_under_a_product(name: str) -> None:
    explanation = "Under a product: between its issue and the wait for it"
    row = code(name, "x", None)
    assert explanation in html(name, row)
    unread = {**row, "code": {part: value for part, value in row["code"].items() if part != "main_loop"}}
    assert lines(name, unread)["registers"] == ["168"]
    assert explanation not in html(name, unread)
