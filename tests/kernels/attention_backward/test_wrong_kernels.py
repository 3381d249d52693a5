"""Wrong kernels of attention's backward pass, each made of a right one by one edit; libraries shipped several of them.
The CPU runtime names those whose copies, products or additions are out of order; the gate finds the others by their
numbers."""

import pytest

from harness.operators.attention_backward.problem import Problem
from tests.kernels.attention_backward.test_rungs import CAUSAL, FULL
from tests.support import edits
from tests.support.edits import Edit

GROUPED = Problem(1, 2, 1, 128, 128, 64, "fp16")
RAGGED = Problem(1, 1, 1, 100, 100, 64, "fp16")
STORED = Problem(1, 2, 1, 512, 512, 64, "fp16", True)
"""Every query sees a key: the first block stores its sums, and the others add to them."""
CLIMBING = Problem(1, 3, 3, 500, 420, 64, "fp16", True)
"""Four tiles of keys, and a head of K and V for each query head: two of three heads begin with their last keys."""

TABLE: edits.Table = {
    ("one_kernel", "row_sums.cuh"): [
        ("sums_of_dq_not_zeroed", "if (params.clears) {", "if (false) {", "finite"),
        (
            "scratch_beyond_the_last_query",
            "    st_global(at.head.lse_log2(args) + at.row, lse == ",
            "    if (at.row < args.seq_q) st_global(at.head.lse_log2(args) + at.row, lse == ",
            "finite",
            RAGGED,
        ),
        (
            "missing_queries_overflow",
            "lse == -INFINITY_F32 ? INFINITY_F32 : lse * LOG2_E",
            "lse * LOG2_E",
            "finite",
            RAGGED,
        ),
        ("natural_lse_in_base_2", "INFINITY_F32 : lse * LOG2_E", "INFINITY_F32 : lse", "max_error"),
        ("dq_without_scale", "const float scale = args.scale;", "const float scale = 1.f;", "max_error"),
    ],
    ("one_kernel", None): [
        ("one_head_of_the_group", "steps = q_tiles * heads_per_kv", "steps = q_tiles", "max_error"),
        ("without_d", " - dot[half])", ")", "max_error"),
        ("p_not_normalized", " * scale_log2 - lse[half])", " * scale_log2)", "max_error"),
        (
            "dk_without_scale",
            "dk_regs[d][half * 2] * args.scale, high = dk_regs[d][half * 2 + 1] * args.scale",
            "dk_regs[d][half * 2], high = dk_regs[d][half * 2 + 1]",
            "max_error",
        ),
        (
            "missing_keys_score_zero",
            "if (masks && col + i > visible) p[i] = 0.f;",
            "if (CAUSAL && masks && col + i > visible) p[i] = 0.f;",
            "finite",
            RAGGED,
            "negative_scores",
        ),
    ],
    ("wgmma", None): [
        (
            "scores_not_fenced",
            "    fence_proxy_async_shared();\n    bar_sync(1 + warpgroup, WARPGROUP);",
            "    bar_sync(1 + warpgroup, WARPGROUP);",
            "missing_proxy_fence",
        ),
    ],
    ("tma_ring", None): [
        (
            "scores_overwritten_under_products",
            "    bar_sync(1 + warpgroup, WARPGROUP);  // no warp",
            "    // no warp",
            "race",
        ),
    ],
    ("tma_ring", "tma_params.cuh"): [
        (
            "row_numbers_not_expected",
            "mbarrier_arrive_expect_tx(full, Q_BYTES + NUMBERS_BYTES);",
            "mbarrier_arrive_expect_tx(full, Q_BYTES);",
            "mbarrier_wrong_bytes",
        ),
    ],
    ("transposed_scores", None): [
        ("one_buffer_of_ds", "ds_smem + step % 2 * SCORE_BYTES", "ds_smem", "race"),
        (
            "ds_of_one_warpgroup",
            "bar_sync();  // dS of both warpgroups is complete",
            "bar_sync(1 + warpgroup, WARPGROUP);",
            "race",
        ),
    ],
    ("producer_consumer", None): [
        (
            "buffer_filled_while_read",
            "        wait(q_empty + stage * 8, ring.phase ^ 1);  // passes immediately in the first round\n",
            "",
            "mbarrier_over_arrival",
        ),
    ],
    ("bulk_reduce", None): [
        (
            "dq_not_fenced",
            "    fence_proxy_async_shared();\n    bar_arrive(DQ_COMPLETE",
            "    bar_arrive(DQ_COMPLETE",
            "missing_proxy_fence",
        ),
        ("dq_taken_before_it_is_read", "          cp_async_bulk_wait_group_read<0>();\n", "", "race"),
        ("dq_overwritten", "cp_reduce_async_bulk_add(", "cp_async_bulk_store(", "max_error"),
    ],
    ("overlapped", None): [
        (
            "dq_read_in_flight",
            "    wgmma_wait_group<1>();\n    register_fence(dv_regs), register_fence(p_regs), register_fence(dq_regs);",
            "    wgmma_wait_group<2>();\n    register_fence(dv_regs), register_fence(p_regs), register_fence(dq_regs);",
            "wgmma_accumulator_read",
        ),
        (
            "q_released_under_dk",
            "    if (lane == 0) mbarrier_arrive(do_empty + stage * 8);\n",
            "    if (lane == 0) mbarrier_arrive(do_empty + stage * 8), mbarrier_arrive(q_empty + stage * 8);\n",
            "race",
        ),
    ],
    ("next_scores", None): [
        (
            "dp_not_waited_for",
            "  exponentials();\n  wgmma_wait_group<0>();\n",
            "  exponentials();\n",
            "wgmma_accumulator_read",
        ),
    ],
    ("deterministic", None): [
        (
            "turns_not_taken_back",
            "red_release_inc(own, last);",
            "red_release_inc(own, last + 1);",
            "workspace_not_zero",
        ),
        (
            "turns_in_reverse",
            "while (added != before) added = ld_acquire(own);",
            "while (added != last - before) added = ld_acquire(own);",
            "deadlock",
            STORED,
        ),
    ],
    ("ordered_halves", "ordered_tiles.cuh"): [
        (
            "heads_that_climb_add_by_their_keys",
            "key_tile < first ? (all < first ? all : first) - 1 - key_tile : key_tile;",
            "key_tile;",
            "deadlock",
        ),
    ],
    ("ordered_halves", None): [
        (
            "turns_of_two_buffers_not_taken_back",
            "red_release_inc(own, last);",
            "red_release_inc(own, last + 1);",
            "workspace_not_zero",
        ),
        ("turn_before_the_copy", "            cp_async_bulk_wait_group<0>();\n", "", "copy_in_flight"),
    ],
    ("eighty_rows", "transposed_dq.cuh"): [
        ("sums_read_as_of_64_queries", "first % BLOCK_M /", "first % 64 /", "max_error"),
    ],
    ("eighty_rows", None): [
        ("columns_of_one_warpgroup", "warpgroup * DQ_ROWS", "0", "max_error"),
        (
            "scores_before_the_barrier",
            "      bar_sync(DS_COMPLETE, CONSUMERS);",
            "      bar_sync(DS_COMPLETE + 5 + warpgroup, WARPGROUP);",
            "race",
        ),
        (
            "missing_keys_not_hidden",
            "if (first_key + GROUP_KEYS > args.seq_kv) {",
            "if (false) {",
            "finite",
            FULL,
            "negative_scores",
        ),
    ],
    ("flagship", None): [
        (
            "stored_sums_not_counted_back",
            "if (is_later) atom_inc(own, last);",
            "if (is_later) atom_inc(own, last + 1);",
            "workspace_not_zero",
        ),
        (
            "lse_released_while_lanes_read_it",
            "      if (lane == 0) mbarrier_arrive(q_empty + stage * 8);",
            "      dk_regs[0] += ld_shared<float2>(lse).x * 0.f;\n      fence_proxy_async_shared();\n"
            "      if (lane == 0) mbarrier_arrive(q_empty + stage * 8);",
            "race",
        ),
    ],
    ("next_tile", None): [
        (
            "next_keys_over_those_in_use",
            "          wait(kv_empty, round % 2 ^ 1);  // passes immediately in the first round\n",
            "",
            "mbarrier_over_arrival",
        ),
    ],
    ("own_keys", None): [
        ("ds_of_one_warp", "bar_sync(DS_COMPLETE + warpgroup, WARPGROUP);", "bar_warp_sync();", "race"),
    ],
    ("longest_first", None): [
        (
            "keys_overwritten_under_products",
            "        wait(kv_empty, round % 2 ^ 1);  // passes immediately in the first round\n",
            "",
            "mbarrier_over_arrival",
        ),
    ],
}
WRONG = edits.of(
    TABLE, CAUSAL, {"one_kernel": GROUPED, "ordered_halves": CLIMBING, "eighty_rows": FULL, "flagship": STORED}
)
NUMBERS = ("finite", "max_error")
"""What the gate finds. Everything else is a diagnosis."""


libraries = pytest.fixture(scope="module")(edits.asked)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.name)
def test_it_is_caught(wrong: Edit, libraries: edits.Libraries) -> None:
    """Wrong numbers by the first seed of the scheduler, with no diagnosis beside them; a diagnosis by one of three."""
    library, gates = libraries[wrong], ((0,), (1,), (2,))
    names = edits.names(library, wrong.technique, wrong.problem, (wrong.distribution,), gates)
    if wrong.caught in NUMBERS:
        assert next(names) == {wrong.caught}
    else:
        assert any(wrong.caught in found for found in names)


@pytest.mark.parametrize(("technique", "problem"), edits.as_they_are(WRONG, CAUSAL))
def test_the_right_ones_pass(technique: str, problem: Problem, libraries: edits.Libraries) -> None:
    distributions = "normal", "negative_scores"
    assert [*edits.names(libraries[technique, problem], technique, problem, distributions, (range(4),))] == [set()]
