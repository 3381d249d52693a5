"""Bugs of rungs whose copies, products and additions are asynchronous, each made of a right kernel by one edit: the CPU
runtime names them, or the numbers are wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.measure import arenas, gate
from harness.operators.attention_backward.problem import Problem
from tests.kernels.attention_backward.test_rungs import CAUSAL, is_right
from tests.support.cpu_run import copied
from tests.support.gradients import launcher, library
from tests.support.products import Named

pytestmark = pytest.mark.spread

STORED = Problem(1, 2, 1, 512, 512, 64, "fp16", True)
"""Every query sees a key: the first block stores its sums, and the others add to them."""


@dataclass(frozen=True)
class Wrong:
    """`right` is once in the kernel of `technique`, or in `file`, and becomes `wrong`. `said`: the diagnosis' name."""

    name: str
    technique: str
    right: str
    wrong: str
    said: str
    file: str = ""
    problem: Problem = CAUSAL


WRONG = (
    Wrong(
        "scores_not_fenced",
        "wgmma",
        "    fence_proxy_async_shared();\n    bar_sync(1 + warpgroup, WARPGROUP);",
        "    bar_sync(1 + warpgroup, WARPGROUP);",
        "missing_proxy_fence",
    ),
    Wrong(
        "scores_overwritten_under_products",
        "tma_ring",
        "    bar_sync(1 + warpgroup, WARPGROUP);  // no warp",
        "    // no warp",
        "race",
    ),
    Wrong(
        "row_numbers_not_expected",
        "tma_ring",
        "mbarrier_arrive_expect_tx(full, Q_BYTES + NUMBERS_BYTES);",
        "mbarrier_arrive_expect_tx(full, Q_BYTES);",
        "mbarrier_wrong_bytes",
        "tma_params.cuh",
    ),
    Wrong("one_buffer_of_ds", "transposed_scores", "ds_smem + step % 2 * SCORE_BYTES", "ds_smem", "race"),
    Wrong(
        "ds_of_one_warpgroup",
        "transposed_scores",
        "bar_sync();  // dS of both warpgroups is complete",
        "bar_sync(1 + warpgroup, WARPGROUP);",
        "race",
    ),
    Wrong(
        "buffer_filled_while_read",
        "producer_consumer",
        "        wait(q_empty + stage * 8, ring.phase ^ 1);  // passes immediately in the first round\n",
        "",
        "mbarrier_over_arrival",
    ),
    Wrong(
        "dq_not_fenced",
        "bulk_reduce",
        "    fence_proxy_async_shared();\n    bar_arrive(DQ_COMPLETE",
        "    bar_arrive(DQ_COMPLETE",
        "missing_proxy_fence",
    ),
    Wrong("dq_taken_before_it_is_read", "bulk_reduce", "          cp_async_bulk_wait_group_read<0>();\n", "", "race"),
    Wrong("dq_overwritten", "bulk_reduce", "cp_reduce_async_bulk_add(", "cp_async_bulk_store(", "wrong numbers"),
    Wrong(
        "dq_read_in_flight",
        "overlapped",
        "    wgmma_wait_group<1>();\n    register_fence(dv_regs), register_fence(p_regs), register_fence(dq_regs);",
        "    wgmma_wait_group<2>();\n    register_fence(dv_regs), register_fence(p_regs), register_fence(dq_regs);",
        "wgmma_accumulator_read",
    ),
    Wrong(
        "q_released_under_dk",
        "overlapped",
        "    if (lane == 0) mbarrier_arrive(do_empty + stage * 8);\n",
        "    if (lane == 0) mbarrier_arrive(do_empty + stage * 8), mbarrier_arrive(q_empty + stage * 8);\n",
        "race",
    ),
    Wrong(
        "dp_not_waited_for",
        "next_scores",
        "  exponentials();\n  wgmma_wait_group<0>();\n",
        "  exponentials();\n",
        "wgmma_accumulator_read",
    ),
    Wrong(
        "turns_not_taken_back",
        "deterministic",
        "red_release_inc(own, last);",
        "red_release_inc(own, last + 1);",
        "workspace_not_zero",
    ),
    Wrong(
        "turns_in_reverse",
        "deterministic",
        "while (added != before) added = ld_acquire(own);",
        "while (added != last - before) added = ld_acquire(own);",
        "deadlock",  # the first block waits for one that starts when it ends
        problem=STORED,
    ),
    Wrong(
        "stored_sums_not_counted_back",
        "flagship",
        "if (is_later) atom_inc(own, last);",
        "if (is_later) atom_inc(own, last + 1);",
        "workspace_not_zero",
        problem=STORED,
    ),
    Wrong(
        "next_keys_over_those_in_use",
        "next_tile",
        "          wait(kv_empty, round % 2 ^ 1);  // passes immediately in the first round\n",
        "",
        "mbarrier_over_arrival",
    ),
    Wrong(
        "ds_of_one_warp",
        "own_keys",
        "bar_sync(DS_COMPLETE + warpgroup, WARPGROUP);",
        "bar_warp_sync();",
        "race",
    ),
    Wrong(
        "keys_overwritten_under_products",
        "longest_first",
        "        wait(kv_empty, round % 2 ^ 1);  // passes immediately in the first round\n",
        "",
        "mbarrier_over_arrival",
    ),
)


def said(technique: str, problem: Problem, root: Path) -> Iterator[str]:
    """What three schedules of a launch are diagnosed as; "wrong numbers" where none is, and the gate says it."""
    loaded, is_named = library(technique, problem, root), False
    for seed in (0, 1, 2):
        inputs, outputs = arenas.make(problem, "normal", 0, "cpu"), arenas.make_outputs(problem, "cpu")
        try:
            launcher(loaded, problem, seed)({**inputs.tensors, **outputs.tensors}, inputs.scalars)
        except Named as named:
            is_named = True
            yield from (line.partition(":")[0] for line in str(named).splitlines())
    options: dict[str, Any] = {"distributions": ("normal",), "device": "cpu", "repeats": 1, "may_vary": True}
    if not is_named and not gate.gate(launcher(loaded, problem), problem, **options).passed:
        yield "wrong numbers"


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.name)
def test_it_is_named(wrong: Wrong, tmp_path: Path) -> None:
    root = copied(tmp_path)
    file = root / "attention_backward" / (wrong.file or f"hopper/{wrong.technique}.cu")
    text = file.read_text()
    assert text.count(wrong.right) == 1, "the kernel has changed: edit this test"
    file.write_text(text.replace(wrong.right, wrong.wrong))
    assert wrong.said in said(wrong.technique, wrong.problem, root)


@pytest.mark.parametrize("technique", sorted({wrong.technique for wrong in WRONG if wrong.problem == STORED}))
def test_the_right_ones_pass(technique: str) -> None:
    """On the other problem test_rungs runs each rung."""
    is_right(technique, STORED)
