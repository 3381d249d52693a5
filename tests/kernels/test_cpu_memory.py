"""Counters of the CPU runtime: what the kernels' own addresses do to the banks and sectors."""

import json
import re
from functools import cache
from typing import Any

import pytest
from typer.testing import CliRunner

from cuda_kernels.cpu_library import ncu_metrics, totals
from harness import build, cli
from harness.build import Case
from harness.catalog import sources
from harness.catalog.entries import Tile
from harness.cli import output
from harness.inspection import survey
from harness.operators.attention.inspected import COUNTED
from harness.operators.attention.problem import Problem
from harness.rows import results
from reports.facts import counters
from tests.support import together
from tests.support.commands import invoke
from tests.support.cpu_run import run

PROBLEM = Problem(1, 1, 1, 128, 128, 128, "fp16")
BLOCKS = KEY_TILES = 2
WARPS, KEYS, DEPTH = 4, 64, 128


COUNTED_HERE = (
    *("cp_async_pipeline", "mbarrier_ring", "mma_ldmatrix", "tma_loads", "tma_swizzle", "vectorized_loads", "wmma"),
    "xor_swizzle",
)


@cache
def libraries() -> together.Libraries:
    return together.of_cells((name, PROBLEM) for name in COUNTED_HERE)


def count(name: str) -> list[dict[str, Any]]:
    result = run(name, PROBLEM, library=libraries()[name, PROBLEM], counters=True)
    assert result.code == 0, result.diagnosis
    return result.library.counters()


def of(sites: list[dict[str, Any]], mnemonic: str) -> list[dict[str, Any]]:
    return [site for site in sites if site["mnemonic"] == mnemonic]


def test_plain_rows_conflict_eightfold() -> None:
    """Rows of 256 bytes start in one bank: each 8x8 matrix takes eight passes instead of one."""
    (k_load,) = of(count("mma_ldmatrix"), "ldmatrix_x2")
    assert k_load["executions"] == BLOCKS * KEY_TILES * WARPS * (KEYS // 8) * (DEPTH // 16)
    assert k_load["wavefronts"] == k_load["executions"] * 2 * 8
    assert k_load["bank_conflicts"] == k_load["executions"] * 2 * 7
    addresses = k_load["example_addresses"]
    assert len({address % 128 for address in addresses[:8]}) == 1
    assert addresses[16:] == [None] * 16


def test_swizzled_rows_do_not_conflict() -> None:
    sites = count("xor_swizzle")
    assert totals(sites)["bank_conflicts"] == 0
    (k_load,) = of(sites, "ldmatrix_x2")
    assert {address % 128 // 16 for address in k_load["example_addresses"][:8]} == set(range(8))


def test_mma_count_is_the_work() -> None:
    for name in ("mma_ldmatrix", "cp_async_pipeline"):
        executed = totals(count(name))["executions"]["mma_m16n8k16"]
        assert executed * 2 * 16 * 8 * 16 == PROBLEM.flops


def test_bytes_by_path() -> None:
    """Q is read once, K and V once per block of 64 query rows, O and the log-sum-exp are written once."""
    tile = PROBLEM.seq_q * PROBLEM.head_dim * 2
    copied = totals(count("cp_async_pipeline"))["bytes"]
    assert copied["global_to_shared"] == tile + 2 * BLOCKS * tile
    assert copied["registers_to_global"] == tile + PROBLEM.seq_q * 4
    assert "global_to_registers" not in copied


def test_fragments_of_wmma_are_bytes() -> None:
    """16 by 16 elements of 2 or 4 bytes; nobody knows which lane moves which, so there are no banks and no ldmatrix."""
    sites = count("wmma")
    moved = {site["mnemonic"]: site for site in sites if site["mnemonic"].startswith(("wmma_load", "wmma_store"))}
    for name, size in (("wmma_load_a_row", 512), ("wmma_load_b_col", 512), ("wmma_store_d_row", 1024)):
        assert moved[name]["bytes"] == size * moved[name]["executions"] > 0
    assert not any("wavefronts" in site for site in moved.values())
    products = sum(site["executions"] for site in sites if site["mnemonic"].startswith("wmma_mma"))
    assert ncu_metrics(sites) == {"sm__inst_executed_pipe_tensor_op_hmma.sum": 2 * products}


def test_what_is_in_flight_at_a_wait() -> None:
    """One buffer: each wait is for all that was issued. A ring: what was issued ahead stays in flight."""
    tile_of_q, tile_of_k = 64 * DEPTH * 2, 128 * DEPTH * 2
    first, second = of(count("cp_async_pipeline"), "cp_async_wait_group")
    assert (first["bytes_in_flight"], first["bytes_left"]) == ((tile_of_q + tile_of_k) // WARPS, 0)
    assert (second["bytes_in_flight"], second["groups_in_flight"], second["groups_left"]) == (tile_of_k // WARPS, 1, 0)
    for name, left in (("tma_loads", 0), ("mbarrier_ring", tile_of_k)):
        for_q, for_k, *_ = of(count(name), "mbarrier_try_wait_parity")
        assert for_q["bytes_in_flight"] > for_k["bytes_in_flight"] > 0
        assert for_k["bytes_left"] == left, name
    assert not any("bytes_in_flight" in site for site in count("xor_swizzle"))


def test_neighbours_that_share_go_together() -> None:
    """A row of 16 bytes for half a warp: both quarters in one pass, as an H200 counts them."""
    shared, apart = (
        [
            site
            for site in of(count("vectorized_loads"), "ld_shared")
            if (site["example_addresses"][0] == site["example_addresses"][1]) is alike
        ]
        for alike in (True, False)
    )
    assert shared
    assert apart
    assert {site["wavefronts"] / site["executions"] for site in shared} == {2}
    assert {site["wavefronts"] / site["executions"] for site in apart} == {4}


def test_a_quad_fills_half_a_sector() -> None:
    """A fragment's row is four lanes of 4 bytes: 16 of a sector's 32 bytes."""
    stores = of(count("xor_swizzle"), "st_global")
    o_store = max(stores, key=lambda site: site["bytes"])
    assert o_store["sectors"] == 2 * o_store["least_sectors"]


def test_bulk_copies_are_bytes() -> None:
    """No lane addresses a bulk copy: it has bytes, and neither wavefronts nor sectors."""
    sites = count("tma_swizzle")
    loads = of(sites, "cp_async_bulk_tensor_load")
    tile = PROBLEM.seq_q * PROBLEM.head_dim * 2
    assert sum(site["bytes"] for site in loads) == tile + 2 * BLOCKS * tile
    assert not any("wavefronts" in site or "sectors" in site for site in loads)
    assert totals(sites)["bank_conflicts"] == 0


def test_what_ncu_should_count() -> None:
    """An ldmatrix of x4 is one instruction and four passes; plain loads and ldmatrix share one counter in hardware."""
    sites = count("mma_ldmatrix")
    metrics = ncu_metrics(sites)
    matrices = {"ldmatrix_x2": 2, "ldmatrix_x2_trans": 2, "ldmatrix_x4": 4}
    loads = [site for site in sites if site["mnemonic"] in matrices]
    least = sum(site["executions"] * matrices[site["mnemonic"]] for site in loads)
    ldsm = "lsu_mem_shared_op_ldsm.sum"
    assert metrics["smsp__inst_executed_op_ldsm.sum"] == sum(site["executions"] for site in loads)
    assert metrics["smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldsm.sum"] == 8 * least
    assert metrics[f"smsp__sass_l1tex_data_bank_conflicts_pipe_{ldsm}"] == 7 * least
    plain = metrics["smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"]
    assert metrics["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"] == 7 * least + plain
    assert sum(value for name, value in ncu_metrics(count("xor_swizzle")).items() if "bank_conflicts" in name) == 0


def test_inspect_on_a_cpu_gives_rows() -> None:
    done = CliRunner().invoke(cli.app, ("inspect", "attention/xor_swizzle", "--on", "cpu", "--json"))
    (row,) = json.loads(done.stdout)
    results.check(row)
    assert (row["kind"], row["on"], row["experiment"], row["backend"]) == ("counters", "cpu", "memory", "cuda")
    assert row["status"] == "passed"
    assert row["problem"] == survey.counted_problem("attention/xor_swizzle").to_dict()
    assert row["details"]["totals"] == totals(row["details"]["sites"])
    assert row["details"]["ncu"] == ncu_metrics(row["details"]["sites"])
    assert "arch" not in row


def test_inspect_on_a_cpu_prints_every_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process: the test above has one that imports torch."""
    monkeypatch.setattr(survey.processes, "answers", lambda jobs, _: ((job, job[0](*job[1])) for job in jobs))
    monkeypatch.setattr(output.console, "width", 200)
    code, said = invoke("inspect", "attention/mma_ldmatrix", "--on", "cpu", "--problem", "b1-h1-n64-d64-fp16-full")
    assert code == 0
    assert "ldmatrix_x2_trans" in said
    assert "bank conflicts" in said
    assert "bytes in flight" not in said
    waits = ("inspect", "attention/cp_async_pipeline", "--on", "cpu", "--problem", "b1-h1-n128-d128-fp16-full")
    assert re.search(r"cp_async_wait_group .* 12,288 +0 *$", invoke(*waits)[1], re.MULTILINE)
    assert invoke("inspect", "attention/mma_ldmatrix", "--on", "cpu", "--arch", "sm_80")[0] == 2


EQUAL = ("mma_ldmatrix", "padded_rows", "xor_swizzle")
"""Only ldmatrix and stores of one kind touch the banks, and hardly anything else does at the same time."""
REPEATED = {"mma_ldmatrix": 2}
"""Passes of stores that the hardware repeated in the recorded run. By their addresses these conflicts are equal too."""
SAME = (counters.LDMATRIX, "smsp__inst_executed_op_ldgsts.sum")
SAME_OF_EQUAL = (counters.HMMA, counters.LOAD_CONFLICTS)


@pytest.mark.parametrize(
    "every", [pytest.param(False, id="few"), pytest.param(True, id="every", marks=pytest.mark.full)]
)
def test_a_kernel_is_counted_as_by_ncu(every: bool) -> None:
    """What `inspect --ncu` recorded of the CUDA twins: on the CPU's problem, and on its like of head_dim 64. Rows of an
    earlier version count for EQUAL alone, where an edit outside the loops leaves all that is compared as it was.
    Conflicts by address are not known where wmma moves data."""
    rows = [
        row
        for row in results.read_recorded(sources.ROOT / "reports" / "recorded", experiment="ncu")
        if row["kind"] == "counters"
    ]
    compared = []
    for row in results.newest(rows):
        name, problem = row["technique"], Problem.from_dict(row["problem"])
        quick = name in EQUAL and problem.head_dim == COUNTED.head_dim
        if row["backend"] != "cuda" or problem.seq_q != COUNTED.seq_q or not (every or quick):
            continue
        case = Case("test", name, "cuda", problem, Tile.from_dict(row["tile"]))
        if name not in EQUAL and row["source_sha256"] != build.source_sha256(case):
            continue
        compared.append(name)
        here, there = survey.count(case)["details"], row["details"]
        ours, theirs = here["ncu"], there["metrics"]
        shared = [one for one in SAME + SAME_OF_EQUAL * (name in EQUAL) if one in ours and one in theirs]
        assert {one: ours[one] for one in shared} == {one: theirs[one] for one in shared}, name
        if counters.LOAD_CONFLICTS in ours:
            assert here["totals"]["bank_conflicts"] == there["totals"]["bank_conflicts"], name
        if name in EQUAL:
            assert {counters.LDMATRIX, counters.LOAD_CONFLICTS} <= {*shared}
            repeated = theirs[counters.STORE_CONFLICTS] - ours[counters.STORE_CONFLICTS]
            assert repeated in (0, REPEATED.get(name)), name
    assert {*EQUAL} <= {*compared}
