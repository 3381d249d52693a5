"""Wrong kernels of matrix products, each made of a right one by one edit: published checks accept several of them.

What catches it is either the name that the CPU runtime gives the bug, or the check of the gate that every kernel passes
before it is timed; for errors that are numbers alone it must be the gate.
"""

import pytest

from harness.operators.gemm.problem import Problem
from tests.support import edits
from tests.support.edits import Edit

STORES = "row_stores.cuh"
OUT, UNWRITTEN = "global_out_of_range", "output_unwritten"
RING_LOOP = "for (int j = 0; j < k_tiles; ++j, ring.advance()) {"
ARRIVED = "    bar_sync();  // tile j has arrived; every warp is done with tile j - 1\n"
ROUNDED = """    for (auto& rows : c_regs)
      for (auto& fragment : rows)
        for (float& sum : fragment) sum = cvt_f32(cvt_rn<Element>(sum));
"""
BOUNDS = "if (row < args.m && col + at < args.n) st_global(c + at, uint4"
WHOLE = Problem.parse("gemm-m128-n256-k448-fp16")
WITH_BIAS = Problem.parse("gemm-m128-n256-k64-fp16-bias")
IN_FP32 = Problem.parse("gemm-m128-n256-k64-fp16-fp32")
RAGGED = Problem.parse("gemm-m72-n136-k264-fp16")
THREE_TILES = Problem.parse("gemm-m384-n256-k448-fp16")
"""On the two multiprocessors of the CPU runtime: two waves."""
TWO_TILES_EACH = Problem.parse("gemm-m512-n256-k448-fp16")
"""For each of two warpgroups of each of two blocks."""
SHARED_STEPS = Problem.parse("gemm-m136-n640-k576-fp16")
"""Three tiles of two workers, which are pairs of blocks."""
ONE_TILE_SHARED = Problem.parse("gemm-m136-n136-k1032-fp16")
GROUPS = Problem.parse("gemm-m300-n136-k72-g9-fp16")
"""One of them is empty, one has more than a tile."""
WIDE = Problem.parse("gemm-m136-n648-k200-fp16")
"""Its last tile has columns of the first wgmma of a step alone."""
MAJORS = Problem.parse("gemm-m128-n264-k136-fp16-mn")
NEXT_TILE = """  Ring ring;
  for (int number = ctaid_x(); number < params.tiles; number += params.blocks) {
    const Tile tile = grouped_tile(args, number);
"""
AWAITED = "    wait(full + ring.stage * 8, ring.phase);\n"
ZEROED = "    float c_regs[M_TILES][BLOCK_N / 2] = {};\n"

TABLE: edits.Table = {
    ("wgmma", None): [
        ("no_proxy_fence", "    fence_proxy_async_shared();", "    ", "missing_proxy_fence"),
    ],
    ("tma_swizzle", None): [
        ("product_before_arrival", "    wait(full + ring.stage * 8, ring.phase);\n", "", "copy_in_flight"),
        ("k_tail_dropped", "ceil_div(args.k, BLOCK_K)", "args.k / BLOCK_K", "max_error", RAGGED),
        ("epilogue_before_the_last_tile", RING_LOOP, RING_LOOP.replace("k_tiles", "k_tiles - 1"), "copy_in_flight"),
        (
            "last_tile_left_out",
            "const Grid grid{tiles(*args), 1, 1};",
            "const Grid grid{tiles(*args) - 1, 1, 1};",
            UNWRITTEN,
        ),
        ("map_of_earlier_tensors", "  TmaParams params{*args};\n", "  static TmaParams params{*args};\n", OUT),
    ],
    ("two_consumers", None): [
        (
            "buffer_filled_while_read",
            "        wait(empty + ring.stage * 8, ring.phase ^ 1);",
            "        ",
            "mbarrier_over_arrival",
        ),
    ],
    ("l2_grid_order", None): [
        ("partials_of_16_bits", ARRIVED, ARRIVED + ROUNDED, "max_error"),
    ],
    ("mma_ldmatrix", None): [
        ("b_not_transposed", "ldmatrix_x4(b_regs[n / 2]", "ldmatrix_x4_trans(b_regs[n / 2]", "max_error"),
    ],
    ("tma_swizzle", "tma_params.cuh"): [
        ("stride_of_b_for_a", "args.m, args.a_stride", "args.m, args.b_stride", OUT),
    ],
    ("tma_swizzle", "tile_order.cuh"): [
        (
            "group_does_not_divide",
            "const int rows = left < GROUP ? left : GROUP;",
            "const int rows = GROUP;",
            UNWRITTEN,
        ),
    ],
    ("tma_swizzle", STORES): [
        ("no_bound_of_rows", BOUNDS, BOUNDS.replace("row < args.m && ", ""), OUT, RAGGED),
        (
            "wrong_where_n_is_no_whole_tile",
            BOUNDS,
            BOUNDS.replace("< args.n", "< args.n / BLOCK_N * BLOCK_N"),
            UNWRITTEN,
            RAGGED,
        ),
        ("zeros", "finish(args, sums[i], at)", "0.f", "max_error"),
        ("nan", "finish(args, sums[i], at)", "0.f / 0.f", "finite"),
        ("pairs_not_exchanged", "        transpose_in_quad(pairs);\n", "", "max_error"),
        ("bias_of_the_row", "finish(args, sums[i], at)", "finish(args, sums[i], row)", "max_error", WITH_BIAS),
        (
            "fp32_by_way_of_16_bits",
            "make_float2(finished(first + i * 4),",
            "make_float2(cvt_f32(cvt_rn<Element>(finished(first + i * 4))),",
            "max_error",
            IN_FP32,
        ),
    ],
    ("persistent", "persistent_tiles.cuh"): [
        (
            "last_wave_left_out",
            "  params.tiles = tiles<CLUSTER * BLOCK_M>(params.tma.args);\n",
            "  params.tiles = tiles<CLUSTER * BLOCK_M>(params.tma.args) / params.blocks * params.blocks;\n",
            UNWRITTEN,
        ),
    ],
    ("persistent", None): [
        ("sums_go_on_in_the_next_tile", NEXT_TILE + ZEROED, ZEROED + NEXT_TILE, "max_error"),
        ("ring_restarts_with_each_tile", NEXT_TILE, NEXT_TILE + "    ring = {};\n", "wait_can_pass_early"),
    ],
    ("either_major", None): [
        (
            "transposed_for_a_and_not_for_b",
            "BLOCK_N, M_CONTIGUOUS, N_CONTIGUOUS>(",
            "BLOCK_N, M_CONTIGUOUS, false>(",
            "shared_out_of_range",
        ),
        ("steps_of_k_as_where_it_is_contiguous", "major_columns<M_CONTIGUOUS>(k)", "operand_columns(k)", "max_error"),
        ("second_box_over_the_first", "b + n * ROW_BYTES, params", "b, params", "shared_read_before_written"),
        (
            "one_box_too_few",
            "for (int n = 0; n < BLOCK_N; n += BOX)",
            "for (int n = BOX; n < BLOCK_N; n += BOX)",
            "mbarrier_wrong_bytes",
        ),
    ],
    ("either_major", "majors.cuh"): [
        ("strides_exchanged", "BOX_BYTES, 8 * ROW_BYTES,", "8 * ROW_BYTES, BOX_BYTES,", "copy_in_flight"),
        ("boxes_of_the_whole_tile", "{BOX, transposed ? BLOCK_K : box}", "{box, BOX}", "bad_tensor_map"),
    ],
    ("pingpong", None): [
        ("turn_not_awaited", "    bar_sync(my_turn, TURN);\n", "", "wait_can_pass_early"),
        (
            "other_tile_not_skipped",
            "    ring.advance(k_tiles);  // past the other warpgroup's tile\n",
            "",
            "copy_in_flight",
        ),
        ("released_while_multiplied", "wgmma_wait_group<1>();", "wgmma_wait_group<2>();", "race"),
        ("stored_before_the_last_products", "    wgmma_wait_group<0>();\n", "", "wgmma_in_flight"),
    ],
    ("tma_store_epilogue", None): [
        ("no_proxy_fence_before_the_store", "        fence_proxy_async_shared();\n", "", "missing_proxy_fence"),
        ("stored_before_all_lanes_have_staged", "        bar_warp_sync();  // the buffer is complete\n", "", "race"),
        (
            "staged_over_a_store_that_reads",
            "        if (lane == 0) cp_async_bulk_wait_group_read<C_BUFFERS - 1>();\n",
            "",
            "race",
        ),
        (
            "only_one_lane_waits_for_the_old_store",
            "        bar_warp_sync();  // the buffer may be written\n",
            "",
            "race",
        ),
    ],
    ("tma_store_epilogue", "c_staging.cuh"): [
        ("maps_of_c_and_staging_disagree", "(column ^ row % 8) * 16, pairs", "column * 16, pairs", "max_error"),
    ],
    ("hilbert_order", None): [
        ("place_read_before_it_arrives", AWAITED + "    const Tile tile", "    const Tile tile", "race", THREE_TILES),
        ("place_overwritten_while_read", "    bar_warp_sync();  // all lanes have", "    // all lanes have", "race"),
        ("tiles_outside_of_c_counted", "cut.inside() * other.", "cut.size * other.", UNWRITTEN, THREE_TILES),
    ],
    ("trailing_store", None): [
        ("sums_of_the_tile_before_added", "j > 0 || k > 0", "1", "max_error"),
        ("stored_where_the_next_tile_lies", "(args, number - blocks)", "(args, number)", "output_written_twice"),
        (
            "last_tile_of_a_block_not_stored",
            "!TRAILS || number + blocks >= tiles",
            "!TRAILS || number >= tiles",
            UNWRITTEN,
        ),
    ],
    ("overlapped_index", None): [
        (
            "stored_where_the_next_tile_lies",
            "const Tile before = tile;",
            "const Tile& before = tile;",
            "output_written_twice",
            THREE_TILES,
        ),
        (
            "released_before_the_wait",
            "    wgmma_wait_group<0>();\n",
            "    if (lane == 0) mbarrier_arrive(empty + done.stage * 8);\n    wgmma_wait_group<0>();\n",
            "wait_can_pass_early",
        ),
    ],
    ("columns_320", None): [
        ("both_products_of_the_first_columns", "b + operand_rows(LEFT), 1", "b, 1", "max_error", WIDE),
        ("second_box_over_the_first", "b + B_BOX * ROW_BYTES, tma", "b, tma", "shared_read_before_written", WIDE),
    ],
    ("pingpong_store", None): [
        (
            "warpgroups_share_buffers_of_c",
            " + warp * C_BUFFERS * C_BYTES",
            " + warp % 4 * C_BUFFERS * C_BYTES",
            "race",
            TWO_TILES_EACH,
        ),
        ("no_proxy_fence_before_the_store", "        fence_proxy_async_shared();\n", "", "missing_proxy_fence"),
    ],
    ("cluster_multicast", None): [
        (
            "buffer_of_the_partner_not_awaited",
            "mbarrier_init(empty + stage * 8, CLUSTER * WARPS)",
            "mbarrier_init(empty + stage * 8, WARPS)",
            "mbarrier_over_arrival",
            TWO_TILES_EACH,
        ),
        (
            "both_halves_are_the_first",
            "{j * BLOCK_K, tile.col + rank * B_SHARE}",
            "{j * BLOCK_K, tile.col}",
            "max_error",
        ),
    ],
    ("cluster_multicast", "tile_order.cuh"): [
        (
            "odd_row_of_tiles_left_out",
            "return ceil_div(args.m, TILE_M) * ceil_div(args.n, TILE_N);",
            "return args.m / TILE_M * ceil_div(args.n, TILE_N);",
            UNWRITTEN,
            THREE_TILES,
        ),
    ],
    ("split_k", None): [
        (
            "shares_of_the_others_not_added",
            "for (int from = 0; from < parts; ++from)",
            "for (int from = part; from <= part; ++from)",
            "max_error",
        ),
        (
            "every_part_stores_the_first_share",
            "const int sum = part * share + i,",
            "const int sum = i,",
            "output_written_twice",
        ),
        (
            "shares_sent_into_rings_in_use",
            "  wait_for_cluster();  // all blocks are done with their rings\n",
            "",
            "race",
        ),
        ("shares_read_before_they_arrive", "  wait_for_cluster();  // all shares have arrived\n", "", "race"),
        (
            "steps_at_the_border_of_parts_lost",
            "const int first = k_tiles * part / parts, last = k_tiles * (part + 1) / parts;",
            "const int first = k_tiles / parts * part, last = first + k_tiles / parts;",
            "max_error",
        ),
    ],
    ("small_m", None): [
        (
            "operands_not_exchanged_in_the_epilogue",
            "sum / 4 * 8 + quad * 2 + pair, col",
            "sum / 4 * 8 + quad * 2 + 1 - pair, col",
            "max_error",
        ),
    ],
    ("stream_k", None): [
        ("sums_of_earlier_steps_not_added", "sums[0] += more.x, ", "", "max_error", ONE_TILE_SHARED),
        ("every_run_stores", "if (work.last < k_tiles) {", "if (work.last < 0) {", "deadlock", ONE_TILE_SHARED),
        (
            "sums_left_in_the_workspace",
            "        st_global(other.sums + i / 4 * LANES, float4{});\n",
            "",
            "workspace_not_zero",
        ),
        (
            "flag_left_set",
            "while (atom_exch(other.flag, 0) == 0) {",
            "while (atom_exch(other.flag, 1) == 0) {",
            "workspace_not_zero",
        ),
    ],
    ("stream_k", "streams.cuh"): [
        ("shared_tiles_taken_whole_too", "next(params.streamed + worker)", "next(worker)", "output_written_twice"),
    ],
    ("grouped", "groups.cuh"): [
        ("tail_over_the_next_group", "kept = kept < C_ROWS ? kept : C_ROWS;", "kept = C_ROWS;", "output_written_twice"),
        (
            "b_of_groups_without_gaps",
            "grouped.b_group_stride * ELEMENT_BYTES",
            "args.n * args.b_stride * ELEMENT_BYTES",
            OUT,
        ),
        (
            "ends_taken_for_beginnings",
            "ld_global<int32_t>(params.offsets + group)",
            "group == 0 ? 0 : ld_global<int32_t>(params.offsets + group - 1)",
            UNWRITTEN,
        ),
        (
            "groups_end_with_an_empty_one",
            "      last += ",
            "      if (begin == end) return false;\n      last += ",
            UNWRITTEN,
        ),
        (
            "groups_begin_at_whole_tiles",
            "tile.row += begin;",
            "tile.row += ceil_div(begin, BLOCK_M) * BLOCK_M;",
            UNWRITTEN,
        ),
        (
            "last_tile_of_a_group_left_out",
            "ceil_div(end - begin, BLOCK_M) * ceil_div(args.n, BLOCK_N);",
            "(end - begin) / BLOCK_M * ceil_div(args.n, BLOCK_N);",
            UNWRITTEN,
        ),
    ],
    ("grouped", None): [
        ("b_of_the_next_group", "at.tile.col, at.group}", "at.tile.col, at.group + 1}", "max_error"),
        ("b_of_the_first_group", "at.tile.col, at.group}", "at.tile.col, 0}", "max_error"),
    ],
}

USUAL = {
    "persistent": THREE_TILES,
    "trailing_store": THREE_TILES,
    "pingpong": TWO_TILES_EACH,
    "stream_k": SHARED_STEPS,
    "either_major": MAJORS,
    "grouped": GROUPS,
}
"""Of kernels that go wrong on others than WHOLE."""
WRONG = edits.of(TABLE, WHOLE, USUAL)
DISTRIBUTIONS, GATES = ("normal", "cancellation"), ((0,), (0,))


libraries = pytest.fixture(scope="module")(edits.asked)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.name)
def test_a_wrong_kernel_is_caught(wrong: Edit, libraries: edits.Libraries) -> None:
    """By the first of two gates that finds anything."""
    names = edits.names(libraries[wrong], wrong.technique, wrong.problem, DISTRIBUTIONS, GATES)
    assert wrong.caught in next(filter(None, names), ())


@pytest.mark.parametrize(("technique", "problem"), edits.as_they_are(WRONG, WHOLE))
def test_the_kernels_as_they_are_pass(technique: str, problem: Problem, libraries: edits.Libraries) -> None:
    assert [*edits.names(libraries[technique, problem], technique, problem, DISTRIBUTIONS, GATES[:1])] == [set()]
