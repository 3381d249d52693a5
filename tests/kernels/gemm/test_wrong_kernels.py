"""Wrong kernels of matrix products, each made of a right one by one edit: published checks accept several of them.

What catches it is either the name that the CPU runtime gives the bug, or the check of the gate that every kernel passes
before it is timed; for errors that are numbers alone it must be the gate.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cuda_kernels.cpu_library import Library
from harness.measure import gate
from harness.operators.gemm.problem import Problem
from tests.support.cpu_run import copied
from tests.support.products import Named, launcher, library

pytestmark = pytest.mark.spread


@dataclass(frozen=True)
class Wrong:
    """`right` occurs once in `file`, of cuda_kernels/gemm, and becomes `wrong`. `caught`: by which name."""

    name: str
    technique: str
    file: str
    right: str
    wrong: str
    caught: str
    problem: str = "m128-n256-k448-fp16"


STORES, ORDER = "row_stores.cuh", "tile_order.cuh"
OUT, UNWRITTEN = "global_out_of_range", "output_unwritten"
RING_LOOP = "for (int j = 0; j < k_tiles; ++j, ring.advance()) {"
ARRIVED = "    bar_sync();  // tile j has arrived; every warp is done with tile j - 1\n"
ROUNDED = """    for (auto& rows : c_regs)
      for (auto& fragment : rows)
        for (float& sum : fragment) sum = cvt_f32(cvt_rn<Element>(sum));
"""
BOUNDS = "if (row < args.m && col + at < args.n) st_global(c + at, uint4"
RAGGED = "m72-n136-k264-fp16"
THREE_TILES = "m384-n256-k448-fp16"
"""On the two multiprocessors of the CPU runtime: two waves."""
TWO_TILES_EACH = "m512-n256-k448-fp16"
"""For each of two warpgroups of each of two blocks."""
SHARED_STEPS = "m136-n640-k576-fp16"
"""Three tiles of two workers, which are pairs of blocks."""
ONE_TILE_SHARED = "m136-n136-k1032-fp16"
GROUPS = "m300-n136-k72-g9-fp16"
"""One of them is empty, one has more than a tile."""
NEXT_TILE = """  Ring ring;
  for (int number = ctaid_x(); number < params.tiles; number += params.blocks) {
    const Tile tile = grouped_tile(args, number);
"""
ZEROED = "    float c_regs[M_TILES][BLOCK_N / 2] = {};\n"

WRONG = (
    Wrong(
        "no_proxy_fence", "wgmma", "hopper/wgmma.cu", "    fence_proxy_async_shared();", "    ", "missing_proxy_fence"
    ),
    Wrong(
        "product_before_arrival",
        "tma_swizzle",
        "hopper/tma_swizzle.cu",
        "    wait(full + ring.stage * 8, ring.phase);\n",
        "",
        "copy_in_flight",
    ),
    Wrong(
        "buffer_filled_while_read",
        "two_consumers",
        "hopper/two_consumers.cu",
        "        wait(empty + ring.stage * 8, ring.phase ^ 1);",
        "        ",
        "mbarrier_over_arrival",
    ),
    Wrong("partials_of_16_bits", "l2_grid_order", "ampere/l2_grid_order.cu", ARRIVED, ARRIVED + ROUNDED, "max_error"),
    Wrong(
        "k_tail_dropped",
        "tma_swizzle",
        "hopper/tma_swizzle.cu",
        "ceil_div(args.k, BLOCK_K)",
        "args.k / BLOCK_K",
        "max_error",
        RAGGED,
    ),
    Wrong(
        "epilogue_before_the_last_tile",
        "tma_swizzle",
        "hopper/tma_swizzle.cu",
        RING_LOOP,
        RING_LOOP.replace("k_tiles", "k_tiles - 1"),
        "copy_in_flight",
    ),
    Wrong(
        "b_not_transposed",
        "mma_ldmatrix",
        "ampere/mma_ldmatrix.cu",
        "ldmatrix_x4(b_regs[n / 2]",
        "ldmatrix_x4_trans(b_regs[n / 2]",
        "max_error",
    ),
    Wrong(
        "last_tile_left_out",
        "tma_swizzle",
        "hopper/tma_swizzle.cu",
        "const Grid grid{tiles(*args), 1, 1};",
        "const Grid grid{tiles(*args) - 1, 1, 1};",
        UNWRITTEN,
    ),
    Wrong(
        "map_of_earlier_tensors",
        "tma_swizzle",
        "hopper/tma_swizzle.cu",
        "  TmaParams params{*args};\n",
        "  static TmaParams params{*args};\n",
        OUT,
    ),
    Wrong("stride_of_b_for_a", "tma_swizzle", "tma_params.cuh", "args.m, args.a_stride", "args.m, args.b_stride", OUT),
    Wrong(
        "group_does_not_divide",
        "tma_swizzle",
        ORDER,
        "const int rows = left < GROUP ? left : GROUP;",
        "const int rows = GROUP;",
        UNWRITTEN,
    ),
    Wrong("no_bound_of_rows", "tma_swizzle", STORES, BOUNDS, BOUNDS.replace("row < args.m && ", ""), OUT, RAGGED),
    Wrong(
        "wrong_where_n_is_no_whole_tile",
        "tma_swizzle",
        STORES,
        BOUNDS,
        BOUNDS.replace("< args.n", "< args.n / BLOCK_N * BLOCK_N"),
        UNWRITTEN,
        RAGGED,
    ),
    Wrong("zeros", "tma_swizzle", STORES, "finish(args, sums[i], at)", "0.f", "max_error"),
    Wrong("nan", "tma_swizzle", STORES, "finish(args, sums[i], at)", "0.f / 0.f", "finite"),
    Wrong("pairs_not_exchanged", "tma_swizzle", STORES, "        transpose_in_quad(pairs);\n", "", "max_error"),
    Wrong(
        "bias_of_the_row",
        "tma_swizzle",
        STORES,
        "finish(args, sums[i], at)",
        "finish(args, sums[i], row)",
        "max_error",
        "m128-n256-k64-fp16-bias",
    ),
    Wrong(
        "fp32_by_way_of_16_bits",
        "tma_swizzle",
        STORES,
        "make_float2(finished(first + i * 4),",
        "make_float2(cvt_f32(cvt_rn<Element>(finished(first + i * 4))),",
        "max_error",
        "m128-n256-k64-fp16-fp32",
    ),
    Wrong(
        "last_wave_left_out",
        "persistent",
        "persistent_tiles.cuh",
        "  params.tiles = tiles<CLUSTER * BLOCK_M>(params.tma.args);\n",
        "  params.tiles = tiles<CLUSTER * BLOCK_M>(params.tma.args) / params.blocks * params.blocks;\n",
        UNWRITTEN,
        THREE_TILES,
    ),
    Wrong(
        "sums_go_on_in_the_next_tile",
        "persistent",
        "hopper/persistent.cu",
        NEXT_TILE + ZEROED,
        ZEROED + NEXT_TILE,
        "max_error",
        THREE_TILES,
    ),
    Wrong(
        "ring_restarts_with_each_tile",
        "persistent",
        "hopper/persistent.cu",
        NEXT_TILE,
        NEXT_TILE + "    ring = {};\n",
        "wait_can_pass_early",
        THREE_TILES,
    ),
    Wrong(
        "turn_not_awaited",
        "pingpong",
        "hopper/pingpong.cu",
        "    bar_sync(my_turn, TURN);\n",
        "",
        "wait_can_pass_early",
        TWO_TILES_EACH,
    ),
    Wrong(
        "other_tile_not_skipped",
        "pingpong",
        "hopper/pingpong.cu",
        "    ring.advance(k_tiles);  // past the other warpgroup's tile\n",
        "",
        "copy_in_flight",
        TWO_TILES_EACH,
    ),
    Wrong(
        "released_while_multiplied",
        "pingpong",
        "hopper/pingpong.cu",
        "wgmma_wait_group<1>();",
        "wgmma_wait_group<2>();",
        "race",
        TWO_TILES_EACH,
    ),
    Wrong(
        "stored_before_the_last_products",
        "pingpong",
        "hopper/pingpong.cu",
        "    wgmma_wait_group<0>();\n",
        "",
        "wgmma_in_flight",
        TWO_TILES_EACH,
    ),
    Wrong(
        "no_proxy_fence_before_the_store",
        "tma_store_epilogue",
        "hopper/tma_store_epilogue.cu",
        "        fence_proxy_async_shared();\n",
        "",
        "missing_proxy_fence",
    ),
    Wrong(
        "stored_before_all_lanes_have_staged",
        "tma_store_epilogue",
        "hopper/tma_store_epilogue.cu",
        "        bar_warp_sync();  // the buffer is complete\n",
        "",
        "race",
    ),
    Wrong(
        "staged_over_a_store_that_reads",
        "tma_store_epilogue",
        "hopper/tma_store_epilogue.cu",
        "        if (lane == 0) cp_async_bulk_wait_group_read<C_BUFFERS - 1>();\n",
        "",
        "race",
    ),
    Wrong(
        "only_one_lane_waits_for_the_old_store",
        "tma_store_epilogue",
        "hopper/tma_store_epilogue.cu",
        "        bar_warp_sync();  // the buffer may be written\n",
        "",
        "race",
    ),
    Wrong(
        "maps_of_c_and_staging_disagree",
        "tma_store_epilogue",
        "c_staging.cuh",
        "(column ^ row % 8) * 16, pairs",
        "column * 16, pairs",
        "max_error",
    ),
    Wrong(
        "sums_of_the_tile_before_added",
        "trailing_store",
        "hopper/trailing_store.cu",
        "j > 0 || k > 0",
        "1",
        "max_error",
        THREE_TILES,
    ),
    Wrong(
        "stored_where_the_next_tile_lies",
        "trailing_store",
        "hopper/trailing_store.cu",
        "(args, number - blocks)",
        "(args, number)",
        "output_written_twice",
        THREE_TILES,
    ),
    Wrong(
        "last_tile_of_a_block_not_stored",
        "trailing_store",
        "hopper/trailing_store.cu",
        "!TRAILS || number + blocks >= tiles",
        "!TRAILS || number >= tiles",
        UNWRITTEN,
        THREE_TILES,
    ),
    Wrong(
        "buffer_of_the_partner_not_awaited",
        "cluster_multicast",
        "hopper/cluster_multicast.cu",
        "mbarrier_init(empty + stage * 8, CLUSTER * WARPS)",
        "mbarrier_init(empty + stage * 8, WARPS)",
        "mbarrier_over_arrival",
        TWO_TILES_EACH,
    ),
    Wrong(
        "both_halves_are_the_first",
        "cluster_multicast",
        "hopper/cluster_multicast.cu",
        "{j * BLOCK_K, tile.col + rank * B_SHARE}",
        "{j * BLOCK_K, tile.col}",
        "max_error",
    ),
    Wrong(
        "odd_row_of_tiles_left_out",
        "cluster_multicast",
        "tile_order.cuh",
        "return ceil_div(args.m, TILE_M) * ceil_div(args.n, TILE_N);",
        "return args.m / TILE_M * ceil_div(args.n, TILE_N);",
        "output_unwritten",
        THREE_TILES,
    ),
    Wrong(
        "shares_of_the_others_not_added",
        "split_k",
        "hopper/split_k.cu",
        "for (int from = 0; from < parts; ++from)",
        "for (int from = part; from <= part; ++from)",
        "max_error",
    ),
    Wrong(
        "every_part_stores_the_first_share",
        "split_k",
        "hopper/split_k.cu",
        "const int sum = part * share + i,",
        "const int sum = i,",
        "output_written_twice",
    ),
    Wrong(
        "shares_sent_into_rings_in_use",
        "split_k",
        "hopper/split_k.cu",
        "  wait_for_cluster();  // all blocks are done with their rings\n",
        "",
        "race",
    ),
    Wrong(
        "shares_read_before_they_arrive",
        "split_k",
        "hopper/split_k.cu",
        "  wait_for_cluster();  // all shares have arrived\n",
        "",
        "race",
    ),
    Wrong(
        "steps_at_the_border_of_parts_lost",
        "split_k",
        "hopper/split_k.cu",
        "const int first = k_tiles * part / parts, last = k_tiles * (part + 1) / parts;",
        "const int first = k_tiles / parts * part, last = first + k_tiles / parts;",
        "max_error",
    ),
    Wrong(
        "operands_not_exchanged_in_the_epilogue",
        "small_m",
        "hopper/small_m.cu",
        "sum / 4 * 8 + quad * 2 + pair, col",
        "sum / 4 * 8 + quad * 2 + 1 - pair, col",
        "max_error",
    ),
    Wrong(
        "sums_of_earlier_steps_not_added",
        "stream_k",
        "hopper/stream_k.cu",
        "sums[0] += more.x, ",
        "",
        "max_error",
        ONE_TILE_SHARED,
    ),
    Wrong(
        "every_run_stores",
        "stream_k",
        "hopper/stream_k.cu",
        "if (work.last < k_tiles) {",
        "if (work.last < 0) {",
        "deadlock",
        ONE_TILE_SHARED,
    ),
    Wrong(
        "sums_left_in_the_workspace",
        "stream_k",
        "hopper/stream_k.cu",
        "        st_global(other.sums + i / 4 * LANES, float4{});\n",
        "",
        "workspace_not_zero",
        SHARED_STEPS,
    ),
    Wrong(
        "flag_left_set",
        "stream_k",
        "hopper/stream_k.cu",
        "while (atom_exch(other.flag, 0) == 0) {",
        "while (atom_exch(other.flag, 1) == 0) {",
        "workspace_not_zero",
        SHARED_STEPS,
    ),
    Wrong(
        "shared_tiles_taken_whole_too",
        "stream_k",
        "streams.cuh",
        "next(params.streamed + worker)",
        "next(worker)",
        "output_written_twice",
        SHARED_STEPS,
    ),
    Wrong(
        "tail_over_the_next_group",
        "grouped",
        "groups.cuh",
        "kept = kept < C_ROWS ? kept : C_ROWS;",
        "kept = C_ROWS;",
        "output_written_twice",
        GROUPS,
    ),
    Wrong(
        "b_of_the_next_group",
        "grouped",
        "hopper/grouped.cu",
        "at.tile.col, at.group}",
        "at.tile.col, at.group + 1}",
        "max_error",
        GROUPS,
    ),
    Wrong(
        "b_of_the_first_group",
        "grouped",
        "hopper/grouped.cu",
        "at.tile.col, at.group}",
        "at.tile.col, 0}",
        "max_error",
        GROUPS,
    ),
    Wrong(
        "b_of_groups_without_gaps",
        "grouped",
        "groups.cuh",
        "grouped.b_group_stride * ELEMENT_BYTES",
        "args.n * args.b_stride * ELEMENT_BYTES",
        OUT,
        GROUPS,
    ),
    Wrong(
        "ends_taken_for_beginnings",
        "grouped",
        "groups.cuh",
        "ld_global<int32_t>(params.offsets + group)",
        "group == 0 ? 0 : ld_global<int32_t>(params.offsets + group - 1)",
        UNWRITTEN,
        GROUPS,
    ),
    Wrong(
        "groups_end_with_an_empty_one",
        "grouped",
        "groups.cuh",
        "      last += ",
        "      if (begin == end) return false;\n      last += ",
        UNWRITTEN,
        GROUPS,
    ),
    Wrong(
        "groups_begin_at_whole_tiles",
        "grouped",
        "groups.cuh",
        "tile.row += begin;",
        "tile.row += ceil_div(begin, BLOCK_M) * BLOCK_M;",
        UNWRITTEN,
        GROUPS,
    ),
    Wrong(
        "last_tile_of_a_group_left_out",
        "grouped",
        "groups.cuh",
        "ceil_div(end - begin, BLOCK_M) * ceil_div(args.n, BLOCK_N);",
        "(end - begin) / BLOCK_M * ceil_div(args.n, BLOCK_N);",
        UNWRITTEN,
        GROUPS,
    ),
)


def caught(loaded: Library, problem: Problem) -> set[str]:
    """The names by which a kernel is caught, launched on the tensors of two gates in turn; none for a right one.

    Those of the first are kept, or the second's might lie where they lay."""
    launch, kept = launcher(loaded, problem), []

    def keeping(tensors: Any, scalars: Any) -> None:
        kept.append(dict(tensors))
        launch(tensors, scalars)

    for _ in range(2):
        try:
            verdict = gate.gate(
                keeping,
                problem,
                distributions=("normal", "cancellation"),
                device="cpu",
                repeats=1,
                padded=True,
            )
        except Named as found:
            return {line.partition(":")[0] for line in str(found).splitlines()}
        if not verdict.passed:
            return {str(verdict.check)}
    return set()


@pytest.mark.parametrize("wrong", [pytest.param(one, id=one.name) for one in WRONG])
def test_a_wrong_kernel_is_caught(wrong: Wrong, tmp_path: Path) -> None:
    problem = Problem.parse(f"gemm-{wrong.problem}")
    root = copied(tmp_path)
    file = root / "gemm" / wrong.file
    text = file.read_text()
    assert text.count(wrong.right) == 1, "the edit no longer fits"
    file.write_text(text.replace(wrong.right, wrong.wrong))
    assert wrong.caught in caught(library(wrong.technique, problem, root), problem)


ELSEWHERE = sorted({(wrong.technique, wrong.problem) for wrong in WRONG if wrong.problem != Wrong.problem})
"""Where no test of the rungs runs the kernel as it is."""


@pytest.mark.parametrize(("name", "slug"), ELSEWHERE, ids=str)
def test_the_kernels_as_they_are_pass(name: str, slug: str) -> None:
    problem = Problem.parse(f"gemm-{slug}")
    assert caught(library(name, problem), problem) == set()
